package s3_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
)

// rewrite writes a version again with changed metadata, to create a state that would take too long with requests.
func (w *world) rewrite(o *core.ObjectInfo, change func(*core.ObjectInfo)) {
	w.t.Helper()
	again := *o
	again.Segments = append([]core.Segment(nil), o.Segments...)
	for i := range again.Segments {
		again.Segments[i].Info = nil
	}
	change(&again)
	_, err := w.writer.Do(w.t.Context(), batch.Write{Change: &core.PutObject{Object: again}})
	require.NoError(w.t, err)
}

// TestConditionalWriters sends 64 concurrent writes of one key, with If-None-Match and with If-Match. Each time exactly
// one succeeds, whatever its operation, and the others get 412.
func TestConditionalWriters(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 10
	}
	const writers = 64
	w := newWorld(t)
	w.bucket("bucket")
	for _, c := range []string{"If-None-Match", "If-Match"} { // the source of the copies among the writers
		w.put("/bucket/"+c, "copied "+c)
	}
	for round := range rounds {
		key := fmt.Sprintf("/bucket/key%d", round)
		etag := ""
		for _, condition := range []string{"If-None-Match", "If-Match"} {
			value := "*"
			if etag != "" {
				value = etag
			}
			var ready sync.WaitGroup
			ready.Add(writers)
			responses := make([]*response, writers)
			var wg sync.WaitGroup
			for i := range writers {
				body, headers := []byte(fmt.Sprint(condition, i)), []string{condition, value}
				if i%8 == 7 {
					body, headers = nil, append(headers, "X-Amz-Copy-Source", "/bucket/"+condition)
				}
				wg.Go(func() {
					ready.Done()
					ready.Wait()
					responses[i] = w.do("PUT", key, body, headers...)
				})
			}
			wg.Wait()
			won := -1
			for i, a := range responses {
				if a.status == http.StatusOK {
					require.Negative(t, won, "two winners in round %d", round)
					won = i
					continue
				}
				a.is(412, "PreconditionFailed")
			}
			require.GreaterOrEqual(t, won, 0, "round %d", round)
			want := fmt.Sprint(condition, won)
			if won%8 == 7 {
				want = "copied " + condition
			}
			require.Equal(t, want, w.content(key))
			etag = w.do("HEAD", key, nil).etag()
		}
	}
}

// TestConditionTable tests conditions on the key for each operation that writes.
func TestConditionTable(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/source", "source")
	complete := func(key string, headers ...string) *response {
		up := w.begin(key)
		e := up.part(1, []byte("part")).etag()
		return w.do("POST", key+"?uploadId="+up.id, []byte("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"+e+"</ETag></Part></CompleteMultipartUpload>"), headers...)
	}
	for name, write := range map[string]func(key string, headers ...string) *response{
		"put":      func(key string, headers ...string) *response { return w.do("PUT", key, []byte("new"), headers...) },
		"complete": complete,
		"copy": func(key string, headers ...string) *response {
			return w.do("PUT", key, nil, append(headers, "X-Amz-Copy-Source", "/bucket/source")...)
		},
	} {
		existing, none := "/bucket/existing-"+name, "/bucket/none-"+name
		etag := w.put(existing, name)
		write(existing, "If-None-Match", "*").is(412, "PreconditionFailed")
		write(existing, "If-Match", `"00000000000000000000000000000000"`).is(412, "PreconditionFailed")
		write(none, "If-Match", "*").is(404, "NoSuchKey")
		write(none, "If-Match", etag).is(404, "NoSuchKey")
		write(existing, "If-None-Match", etag).is(501, "NotImplemented")
		require.Equal(t, name, w.content(existing))
		require.Equal(t, "(none)", w.content(none))
		write(existing, "If-Match", `"`+etag+`"`).is(200, "")
		write(existing, "If-Match", `"x", *`).is(200, "")
		write(none, "If-None-Match", "*").is(200, "")
		w.do("DELETE", none, nil).is(204, "")
		write(none, "If-None-Match", "*").is(200, "")
	}
	// The four conditions on the source of a copy, alone and together.
	etag, other := w.do("HEAD", "/bucket/source", nil).etag(), "00000000000000000000000000000000"
	modified := w.do("HEAD", "/bucket/source", nil).header.Get("Last-Modified")
	past, future := time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status  int
		headers []string
	}{
		{200, []string{"If-Match", etag}}, {412, []string{"If-Match", other}}, {200, []string{"If-None-Match", other}}, {412, []string{"If-None-Match", etag}},
		{200, []string{"If-Modified-Since", past}}, {412, []string{"If-Modified-Since", modified}}, {200, []string{"If-Modified-Since", future}},
		{200, []string{"If-Unmodified-Since", future}}, {412, []string{"If-Unmodified-Since", past}},
		{200, []string{"If-Match", etag, "If-Unmodified-Since", past}}, {412, []string{"If-None-Match", etag, "If-Modified-Since", past}},
		{200, []string{"If-Match", "*"}}, {412, []string{"If-None-Match", "*"}},
	} {
		headers := []string{"X-Amz-Copy-Source", "/bucket/source"}
		for i := 0; i < len(c.headers); i += 2 {
			headers = append(headers, "X-Amz-Copy-Source-"+c.headers[i], c.headers[i+1])
		}
		require.Equal(t, c.status, w.do("PUT", "/bucket/copied", nil, headers...).status, "%v", c.headers)
	}
}

func TestConditionalDeletes(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	put := func() (string, time.Time) {
		etag := w.put("/bucket/key", "content")
		modified, err := http.ParseTime(w.do("HEAD", "/bucket/key", nil).header.Get("Last-Modified"))
		require.NoError(t, err)
		return etag, modified
	}
	etag, modified := put()
	const sameTime, sameSize = "X-Amz-If-Match-Last-Modified-Time", "X-Amz-If-Match-Size"
	for _, c := range [][]string{
		{"If-Match", "x"}, {sameSize, "8"}, {sameTime, modified.Add(time.Second).Format(http.TimeFormat)}, {"If-Match", etag, sameSize, "8"},
		{"If-Match", "x", sameSize, "7"},
	} {
		w.do("DELETE", "/bucket/key", nil, c...).is(412, "PreconditionFailed")
	}
	w.do("DELETE", "/bucket/key", nil, sameSize, "x").is(400, "InvalidArgument")
	w.do("DELETE", "/bucket/key", nil, sameTime, "yesterday").is(400, "InvalidArgument")
	w.do("DELETE", "/bucket/none", nil, "If-Match", "*").is(404, "NoSuchKey")
	w.do("DELETE", "/bucket/none", nil, sameSize, "1", sameTime, modified.Format(http.TimeFormat)).is(204, "")
	for _, c := range [][]string{
		{"If-Match", "*"}, {"If-Match", etag}, {sameSize, "7"}, {"If-Match", etag, sameSize, "7"}, {sameTime, ""},
	} {
		_, modified = put()
		if c[0] == sameTime {
			c[1] = modified.Format(http.TimeFormat)
		}
		w.do("DELETE", "/bucket/key", nil, c...).is(204, "")
		require.Equal(t, "(none)", w.content("/bucket/key"))
	}

	// DeleteObjects reports the result for each key.
	_, modified = put()
	w.put("/bucket/other", "x")
	body := []byte("<Delete><Object><Key>key</Key><Size>7</Size><LastModifiedTime>" + modified.Format(time.RFC3339) + "</LastModifiedTime><ETag>\"" + etag + "\"</ETag></Object>" +
		"<Object><Key>other</Key><LastModifiedTime>" + modified.Add(time.Hour).Format(http.TimeFormat) + "</LastModifiedTime></Object>" +
		"<Object><Key>other</Key><Size>x</Size></Object><Object><Key>none</Key><Size>5</Size></Object></Delete>")
	var got struct {
		Deleted []struct{ Key string }
		Error   []struct{ Key, Code string }
	}
	w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(200, "").parse(&got)
	require.Equal(t, "[{key} {none}]", fmt.Sprint(got.Deleted))
	require.Equal(t, "[{other PreconditionFailed} {other InvalidArgument}]", fmt.Sprint(got.Error))

	// With versions, a condition always applies to the current version, even if the request specifies another.
	w.versioning("bucket", "Enabled")
	old := w.do("PUT", "/bucket/v", []byte("old")).is(200, "")
	now := w.do("PUT", "/bucket/v", []byte("now")).is(200, "")
	named := "/bucket/v?versionId=" + old.header.Get("X-Amz-Version-Id")
	w.do("DELETE", named, nil, "If-Match", old.etag()).is(412, "PreconditionFailed")
	w.do("DELETE", named, nil, "If-Match", now.etag()).is(204, "")
	w.do("DELETE", "/bucket/v", nil, "If-Match", now.etag()).is(204, "")
	w.do("DELETE", "/bucket/v", nil, "If-Match", now.etag()).is(404, "NoSuchKey")
	require.Equal(t, "(none)", w.content("/bucket/v"))
}

func TestConditionalAbort(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	const initiated = "X-Amz-If-Match-Initiated-Time"
	up := w.begin("/bucket/key")
	info, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	page, err := w.fs.List(t.Context(), core.ListQuery{Kind: core.ListUploads, Bucket: info.ID, Limit: 1})
	require.NoError(t, err)
	at := page.Uploads[0].Initiated
	path := "/bucket/key?uploadId=" + up.id
	w.do("DELETE", path, nil, initiated, at.Add(time.Minute).Format(http.TimeFormat)).is(412, "PreconditionFailed")
	w.do("DELETE", path, nil, initiated, "x").is(400, "InvalidArgument")
	for range 2 {
		w.do("DELETE", path, nil, initiated, at.Format(http.TimeFormat)).is(204, "")
	}
	w.do("DELETE", path, nil).is(404, "NoSuchUpload")
}

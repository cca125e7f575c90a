package s3_test

import (
	"encoding/xml"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/sigv4"
)

// limit sets the quota of a bucket; 0 means no limit.
func (w *world) limit(bucket string, bytes, objects int64) {
	w.t.Helper()
	inside := ""
	if bytes > 0 {
		inside += fmt.Sprintf("<MaxBytes>%d</MaxBytes>", bytes)
	}
	if objects > 0 {
		inside += fmt.Sprintf("<MaxObjects>%d</MaxObjects>", objects)
	}
	require.Empty(w.t, w.do("PUT", "/"+bucket+"?quota", []byte("<QuotaConfiguration>"+inside+"</QuotaConfiguration>")).is(200, "").body)
}

// holds checks the usage of a bucket with a quota.
func (w *world) holds(bucket string, bytes, objects int) {
	w.t.Helper()
	var d struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ QuotaConfiguration"`
		Usage   struct{ Bytes, Objects int }
	}
	w.do("GET", "/"+bucket+"?quota", nil).is(200, "").parse(&d)
	require.Equal(w.t, [2]int{bytes, objects}, [2]int{d.Usage.Bytes, d.Usage.Objects})
}

func TestQuotaDocument(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		w.do(method, "/absent?quota", []byte("<QuotaConfiguration><MaxBytes>1</MaxBytes></QuotaConfiguration>")).is(404, "NoSuchBucket")
	}
	for range 2 {
		a := w.do("GET", "/bucket?quota", nil).is(404, "NoSuchQuotaConfiguration")
		require.Contains(t, string(a.body), "<BucketName>bucket</BucketName>")
		w.do("DELETE", "/bucket?quota", nil).is(204, "")
	}
	for _, c := range []struct{ put, get string }{
		{"<MaxObjects> 3 </MaxObjects><MaxBytes>100</MaxBytes>", "<MaxBytes>100</MaxBytes><MaxObjects>3</MaxObjects>"},
		{"<MaxBytes>9223372036854775807</MaxBytes>", "<MaxBytes>9223372036854775807</MaxBytes>"},
		{"<MaxObjects>1</MaxObjects>", "<MaxObjects>1</MaxObjects>"},
	} {
		for range 2 {
			w.do("PUT", "/bucket?quota", []byte(`<QuotaConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`+c.put+"</QuotaConfiguration>")).is(200, "")
		}
		require.Equal(t, c.get+"<Usage><Bytes>7</Bytes><Objects>1</Objects></Usage>", inside(t, w.do("GET", "/bucket?quota", nil).is(200, ""), "QuotaConfiguration"))
	}
	for _, c := range [][2]string{
		{"", "MalformedXML"},
		{"<MaxBytes>many</MaxBytes>", "MalformedXML"},
		{"<MaxBytes>9223372036854775808</MaxBytes>", "MalformedXML"},
		{"<MaxBytes>1.5</MaxBytes>", "MalformedXML"},
		{"<MaxBytes>1</MaxBytes><MaxBytes>1</MaxBytes>", "MalformedXML"},
		{"<MaxBytes>1</MaxBytes><MaxParts>1</MaxParts>", "MalformedXML"},
		{"<MaxBytes>1</MaxBytes><Usage><Bytes>7</Bytes><Objects>1</Objects></Usage>", "MalformedXML"},
		{"<MaxBytes>0</MaxBytes>", "InvalidArgument"},
		{"<MaxBytes></MaxBytes>", "InvalidArgument"},
		{"<MaxBytes>1</MaxBytes><MaxObjects>-1</MaxObjects>", "InvalidArgument"},
	} {
		w.do("PUT", "/bucket?quota", []byte("<QuotaConfiguration>"+c[0]+"</QuotaConfiguration>")).is(400, c[1])
	}
	w.do("PUT", "/bucket?quota", nil).is(400, "MissingRequestBodyError")
	w.versioning("bucket", "Enabled") // does not change the quota
	require.Contains(t, string(w.do("GET", "/bucket?quota", nil).is(200, "").body), "<MaxObjects>1</MaxObjects><Usage>")
	other := *w
	other.signer = &sigv4.Signer{AccessKey: stranger, SecretKey: secretKey, Region: "us-east-1"}
	for _, method := range []string{"GET", "PUT", "DELETE"} {
		other.do(method, "/bucket?quota", []byte("<QuotaConfiguration><MaxBytes>1</MaxBytes></QuotaConfiguration>")).is(403, "AccessDenied")
	}
	w.do("DELETE", "/bucket?quota", nil).is(204, "")
	w.do("GET", "/bucket?quota", nil).is(404, "NoSuchQuotaConfiguration")

	w.bucket("again") // the quota is deleted with the bucket
	w.limit("again", 1, 0)
	w.do("DELETE", "/again", nil).is(204, "")
	w.bucket("again")
	w.put("/again/key", "content")
}

func TestQuota(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.bucket("other")
	w.limit("bucket", 20, 3)
	w.put("/bucket/a", "0123456789")
	a := w.do("PUT", "/bucket/b", []byte("0123456789x")).is(403, "QuotaExceeded")
	require.Contains(t, string(a.body), "<Message>The quota of the bucket is exceeded: 10 of 20 bytes are in use, and the request adds 11.</Message>")
	require.Equal(t, "(none)", w.content("/bucket/b"))
	w.put("/bucket/b", "0123456789")
	w.do("PUT", "/bucket/b", []byte("0123456789x")).is(403, "QuotaExceeded")
	require.Equal(t, "0123456789", w.content("/bucket/b"))
	w.put("/bucket/b", "01234")
	w.put("/bucket/c", "")
	a = w.do("PUT", "/bucket/d", nil).is(403, "QuotaExceeded")
	require.Contains(t, string(a.body), "3 of 3 objects are in use, and the request adds 1")
	w.holds("bucket", 15, 3)

	w.append("/bucket/b", 5, "567890").is(403, "QuotaExceeded")
	w.append("/bucket/b", 5, "56789").is(200, "")
	w.holds("bucket", 20, 3)
	w.do("PUT", "/bucket/c", nil, "X-Amz-Copy-Source", "/bucket/a").is(403, "QuotaExceeded")
	w.do("PUT", "/bucket/b", nil, "X-Amz-Copy-Source", "/bucket/a").is(200, "")
	w.do("PUT", "/bucket/a", nil, "X-Amz-Copy-Source", "/bucket/a", "X-Amz-Metadata-Directive", "REPLACE", "X-Amz-Meta-A", "b").is(200, "")

	w.rename("/bucket/renamed", "a").is(200, "")
	w.put("/other/large", "0123456789x")
	w.move("/bucket/moved", "/other/large").is(403, "QuotaExceeded")
	w.move("/bucket/b", "/other/large").is(403, "QuotaExceeded")
	require.Equal(t, "0123456789x", w.content("/other/large"))
	w.move("/other/out", "/bucket/b").is(200, "")
	w.move("/bucket/back", "/other/out").is(200, "")
	w.holds("bucket", 20, 3)

	body := []byte("<Delete><Object><Key>renamed</Key></Object><Object><Key>back</Key></Object></Delete>")
	w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(200, "")
	w.holds("bucket", 0, 1)
	w.do("DELETE", "/bucket/c", nil).is(204, "")
	w.holds("bucket", 0, 0)
	w.limit("bucket", 5, 0)
	w.put("/bucket/a", "01234")
	w.do("DELETE", "/bucket?quota", nil).is(204, "")
	w.put("/bucket/a", strings.Repeat("0123456789", 1000))
}

// Content that equals existing content counts in full, whether it is sent or not.
func TestQuotaOfEqualContent(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	content := random(1, 1000)
	w.put("/bucket/first", string(content))
	w.limit("bucket", 2999, 0)
	refer := func(key string) *response {
		r := w.request("PUT", "/bucket/"+key, nil, instantLength, "1000")
		w.signer.Sign(r, hash(content), w.now())
		return w.send(r)
	}
	refer("second").is(200, "")
	w.holds("bucket", 2000, 2)
	refer("third").is(403, "QuotaExceeded")
	w.do("PUT", "/bucket/third", content).is(403, "QuotaExceeded")
	w.putWithoutBody(1000, "/bucket/third", hash(content)).is(403, "QuotaExceeded")
	w.putWithoutBody(1000, "/bucket/second", hash(content)).is(200, "")
	w.holds("bucket", 2000, 2)
}

// An exceeded quota is reported before the body is sent if the headers show it.
func TestQuotaBeforeTheBody(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.limit("bucket", 10<<20, 0)
	w.put("/bucket/key", "01234")
	w.putWithoutBody(11<<20, "/bucket/new", hash(nil)).is(403, "QuotaExceeded")
	w.putWithoutBody(10<<20, "/bucket/new", hash(nil)).is(403, "QuotaExceeded")
	w.putAfterContinue([]byte("0123456789"), "/bucket/new", hash([]byte("0123456789"))).is(200, "")
	up := w.begin("/bucket/parts")
	up.part(1, random(1, 5<<20))
	w.putWithoutBody(6<<20, up.path(2), hash(nil)).is(403, "QuotaExceeded")
	same := random(2, 10<<20-15) // replaces the existing part
	w.putAfterContinue(same, up.path(1), hash(same)).is(200, "")
	w.holds("bucket", 10<<20, 2)
	w.limit("bucket", 1, 0)
	w.putAfterContinue([]byte("98765"), "/bucket/key", hash([]byte("98765"))).is(200, "")
	w.putWithoutBody(6, "/bucket/key", hash([]byte("987654"))).is(403, "QuotaExceeded")
}

func TestQuotaOfMultipart(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	large, small := random(1, 5<<20), random(2, 1000)
	w.limit("bucket", 6<<20, 1)
	up := w.begin("/bucket/key")
	one := up.part(1, large).etag()
	two := up.part(2, small).etag()
	w.holds("bucket", 5<<20+1000, 0)
	w.do("PUT", up.path(3), large).is(403, "QuotaExceeded")
	w.do("PUT", "/bucket/other", large).is(403, "QuotaExceeded")
	up.finish(1, one, 2, two).is(200, "")
	w.holds("bucket", 5<<20+1000, 1)
	copied := w.begin("/bucket/copied")
	w.do("PUT", copied.path(1), nil, "X-Amz-Copy-Source", "/bucket/key").is(403, "QuotaExceeded")
	w.do("PUT", copied.path(1), nil, "X-Amz-Copy-Source", "/bucket/key", "X-Amz-Copy-Source-Range", "bytes=0-999").is(200, "")
	part := w.do("PUT", copied.path(2), small).is(200, "").etag()
	copied.finish(2, part).is(403, "QuotaExceeded") // a second object
	w.holds("bucket", 5<<20+3000, 1)
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	copied.finish(2, part).is(200, "")
	w.holds("bucket", 1000, 1)
	aborted := w.begin("/bucket/aborted")
	aborted.part(1, large)
	w.do("DELETE", "/bucket/aborted?uploadId="+aborted.id, nil).is(204, "")
	w.holds("bucket", 1000, 1)
}

func TestQuotaWithVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.versioning("bucket", "Enabled")
	w.limit("bucket", 20, 0)
	id := w.do("PUT", "/bucket/key", []byte("0123456789")).is(200, "").header.Get("X-Amz-Version-Id")
	w.put("/bucket/key", "0123456789")
	w.do("DELETE", "/bucket/key", nil).is(204, "")
	w.do("PUT", "/bucket/key", []byte("0")).is(403, "QuotaExceeded")
	w.holds("bucket", 20, 2)
	w.do("DELETE", "/bucket/key?versionId="+id, nil).is(204, "")
	w.put("/bucket/key", "0123456789")
	w.rename("/bucket/new", "key").is(403, "QuotaExceeded") // one more version
	w.holds("bucket", 20, 2)
}

// TestQuotaRaces sends 64 concurrent writes of different kinds to a bucket whose quota is sufficient for some of them:
// exactly that number succeeds.
func TestQuotaRaces(t *testing.T) {
	const writers = 64
	w := newWorld(t)
	w.bucket("other")
	for i := range writers {
		w.put(fmt.Sprintf("/other/%d", i), "0123456789")
	}
	for round, room := range []int{1, 1, 7, 40, 63, 64} {
		bucket := fmt.Sprint("bucket", round)
		w.bucket(bucket)
		if round%2 == 0 {
			w.limit(bucket, int64(10*room+9), 0)
		} else {
			w.limit(bucket, 0, int64(room))
		}
		responses := make([]*response, writers)
		var ready, wg sync.WaitGroup
		ready.Add(writers)
		for i := range writers {
			wg.Go(func() {
				ready.Done()
				ready.Wait()
				path, from := fmt.Sprintf("/%s/%d", bucket, i), fmt.Sprintf("/other/%d", i)
				switch i % 4 {
				case 0:
					responses[i] = w.do("PUT", path, nil, "X-Amz-Copy-Source", from)
				case 1:
					responses[i] = w.append(path, 0, "0123456789")
				default:
					responses[i] = w.do("PUT", path, []byte("0123456789"))
				}
			})
		}
		wg.Wait()
		won := 0
		for _, a := range responses {
			if a.status == 200 {
				won++
			} else {
				a.is(403, "QuotaExceeded")
			}
		}
		require.Equal(t, room, won)
		w.holds(bucket, 10*room, room)
		require.Len(t, listAll(w, bucket, ""), room)
	}
}

package sdk_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

func hexSHA(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func level(l sdk.RefLevel) *sdk.RefLevel { return &l }

// TestInstantLarge: content that the server holds is not sent again, whatever its reader, and after a change of one
// percent only the parts that changed are sent.
func TestInstantLarge(t *testing.T) {
	for _, l := range []sdk.RefLevel{sdk.RefFull, sdk.RefFast} {
		c, bucket := newBucket(t, func(c *sdk.Config) { c.RefLevel = l })
		content := random(uint64(20+l), 100*mib)
		size := int64(len(content))
		up, err := c.Upload(t.Context(), bucket, "first", bytes.NewReader(content), nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, up.BytesSent, size)
		require.Zero(t, up.BytesReferred)
		for name, r := range map[string]io.Reader{"second": bytes.NewReader(content), "stream": onlyReader{bytes.NewReader(content)}} {
			p := &progress{t: t}
			up, err = c.Upload(t.Context(), bucket, name, r, &sdk.UploadOptions{Progress: p.report})
			require.NoError(t, err)
			require.Less(t, up.BytesSent, size/50, "less than 2 percent")
			require.Equal(t, size, up.BytesReferred)
			require.Equal(t, size, p.last.Done)
			require.Equal(t, sumOf(sdk.CRC64NVME, content), up.Checksums[sdk.CRC64NVME])
			same(t, content, read(t, c, bucket, name))
		}

		changed := bytes.Clone(content)
		copy(changed[30*mib:], random(99, mib)) // within the part from 24 to 32 MiB
		up, err = c.Upload(t.Context(), bucket, "changed", bytes.NewReader(changed), nil)
		require.NoError(t, err)
		require.Less(t, up.BytesSent, int64(8*mib+64<<10), "one part")
		require.Equal(t, size-8*mib, up.BytesReferred)
		same(t, changed, read(t, c, bucket, "changed"))

		up, err = c.Upload(t.Context(), bucket, "off", bytes.NewReader(content), &sdk.UploadOptions{RefLevel: level(sdk.RefOff)})
		require.NoError(t, err)
		require.GreaterOrEqual(t, up.BytesSent, size)
	}
}

// TestInstantWhole: large content that was written by one PUT is found as a whole.
func TestInstantWhole(t *testing.T) {
	for _, l := range []sdk.RefLevel{sdk.RefFull, sdk.RefFast} {
		c, bucket := newBucket(t, func(c *sdk.Config) { c.RefLevel = l })
		content := random(uint64(30+l), 20*mib)
		_, err := c.Put(t.Context(), bucket, "first", bytes.NewReader(content), nil)
		require.NoError(t, err)
		before := c.Stats()
		up, err := c.Upload(t.Context(), bucket, "second", bytes.NewReader(content), nil)
		require.NoError(t, err)
		require.Less(t, up.BytesSent, int64(len(content)/50))
		require.Equal(t, int64(len(content)), up.BytesReferred)
		require.Equal(t, int64(len(content)), c.Stats().BytesReferred-before.BytesReferred)
		require.NotContains(t, up.ETag, "-", "it is one reference")
		same(t, content, read(t, c, bucket, "second"))
	}
}

// TestInstantSmall: for each level, content of any size is referred to if the server has it, and the requests are those
// of docs/instant.md.
func TestInstantSmall(t *testing.T) {
	for _, size := range []int{1, 1000, 64 << 10, 64<<10 + 1, 3 * mib, 16 * mib} {
		for l, want := range map[sdk.RefLevel]struct{ fresh, held int64 }{
			sdk.RefOff:  {1, 1},
			sdk.RefFull: {2, 2},
			sdk.RefFast: {2, 3}, // two questions if the head is not all of it
		} {
			c, bucket := newBucket(t, func(c *sdk.Config) { c.RefLevel = l })
			content := random(uint64(40+size)+uint64(l), size)
			if l == sdk.RefFast && size <= 64<<10 {
				want.held = 2
			}
			before := c.Stats()
			up, err := c.Upload(t.Context(), bucket, "first", bytes.NewReader(content), nil)
			require.NoError(t, err)
			require.GreaterOrEqual(t, up.BytesSent, int64(size))
			require.Equal(t, want.fresh, c.Stats().Requests-before.Requests, "%s %d", l, size)
			before = c.Stats()
			up, err = c.Upload(t.Context(), bucket, "second", bytes.NewReader(content), nil)
			require.NoError(t, err)
			require.Equal(t, want.held, c.Stats().Requests-before.Requests, "%s %d", l, size)
			if l != sdk.RefOff {
				require.Less(t, up.BytesSent, int64(500))
				require.Equal(t, int64(size), up.BytesReferred)
			}
			require.Equal(t, sumOf(sdk.CRC64NVME, content), up.Checksums[sdk.CRC64NVME])
			same(t, content, read(t, c, bucket, "second"))
		}
	}
	c, bucket := newBucket(t, func(c *sdk.Config) { c.RefLevel = sdk.RefFull })
	before := c.Stats()
	_, err := c.Upload(t.Context(), bucket, "empty", strings.NewReader(""), nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), c.Stats().Requests-before.Requests, "nobody asks about empty content")
}

// TestInstantKeepsProperties: a reference is a write like any other.
func TestInstantKeepsProperties(t *testing.T) {
	c, bucket := newBucket(t, func(c *sdk.Config) { c.RefLevel = sdk.RefFast })
	content := random(50, 100<<10)
	_, err := c.Upload(t.Context(), bucket, "first", bytes.NewReader(content), nil)
	require.NoError(t, err)
	o := &sdk.UploadOptions{}
	o.ContentType, o.Metadata, o.IfNoneMatch, o.Checksum = "text/x", map[string]string{"a": "b"}, "*", sdk.SHA256
	up, err := c.Upload(t.Context(), bucket, "second", bytes.NewReader(content), o)
	require.NoError(t, err)
	require.Equal(t, int64(len(content)), up.Size)
	info, err := c.Head(t.Context(), bucket, "second", nil)
	require.NoError(t, err)
	require.Equal(t, "text/x", info.ContentType)
	require.Equal(t, map[string]string{"a": "b"}, info.Metadata)
	require.Equal(t, sumOf(sdk.SHA256, content), info.Checksums[sdk.SHA256])
	_, err = c.Upload(t.Context(), bucket, "second", bytes.NewReader(content), o)
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
}

// TestFindContent asks about thousands of pieces of content, refers to one, and makes mistakes.
func TestFindContent(t *testing.T) {
	c, bucket := newBucket(t)
	small, large := random(51, 100), random(52, 100<<10)
	for name, b := range map[string][]byte{"small": small, "large": large} {
		_, err := c.Put(t.Context(), bucket, name, bytes.NewReader(b), nil)
		require.NoError(t, err)
	}
	ids := make([]sdk.ContentID, 2500)
	for i := range ids {
		ids[i] = sdk.ContentID{Size: int64(i + 1), SHA256: hexSHA(fmt.Append(nil, i))}
	}
	ids[7] = sdk.ContentID{Size: 100, HeadSHA256: hexSHA(small)}
	ids[1234] = sdk.ContentID{Size: 100 << 10, HeadSHA256: hexSHA(large[:sdk.HeadSize])}
	ids[2400] = sdk.ContentID{Size: 100 << 10, SHA256: hexSHA(large)}
	before := c.Stats()
	states, err := c.FindContent(t.Context(), bucket, ids, sdk.Encryption{})
	require.NoError(t, err)
	require.Equal(t, int64(3), c.Stats().Requests-before.Requests)
	require.Len(t, states, len(ids))
	for i, s := range states {
		want := sdk.ContentAbsent
		switch i {
		case 7, 2400:
			want = sdk.ContentPresent
		case 1234:
			want = sdk.ContentPerhaps
		}
		require.Equal(t, want, s, i)
	}
	w, err := c.Refer(t.Context(), bucket, "copy", int64(len(large)), hexSHA(large), nil)
	require.NoError(t, err)
	require.Equal(t, int64(len(large)), w.Size)
	same(t, large, read(t, c, bucket, "copy"))
	_, err = c.Refer(t.Context(), bucket, "copy", 5, hexSHA(large), nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchContent)
	_, err = c.Refer(t.Context(), bucket, "copy", int64(len(large)), hexSHA(large), &sdk.PutOptions{Checksum: sdk.CRC64NVME, ChecksumValue: "AAAAAAAAAAA="})
	require.ErrorIs(t, err, sdk.ErrChecksum)
	for _, bad := range []sdk.ContentID{{}, {Size: -1, SHA256: hexSHA(nil)}, {Size: 1, SHA256: "x"}, {Size: 1, SHA256: hexSHA(nil), HeadSHA256: hexSHA(nil)}} {
		_, err := c.FindContent(t.Context(), bucket, []sdk.ContentID{bad}, sdk.Encryption{})
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
	for _, bad := range []struct {
		size int64
		sum  string
	}{{0, hexSHA(nil)}, {1, "zz"}, {1, hexSHA(nil)[1:]}} {
		_, err := c.Refer(t.Context(), bucket, "key", bad.size, bad.sum, nil)
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
		_, err = c.ReferPart(t.Context(), bucket, "key", "id", 1, bad.size, bad.sum, nil)
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
	for l, names := range map[sdk.RefLevel][]string{sdk.RefOff: {"off", "0"}, sdk.RefFull: {"FULL", "1"}, sdk.RefFast: {"Fast", "2"}} {
		for _, name := range names {
			got, err := sdk.ParseRefLevel(name)
			require.NoError(t, err)
			require.Equal(t, l, got)
			require.True(t, strings.EqualFold(got.String(), names[0]))
		}
	}
	_, err = sdk.ParseRefLevel("3")
	require.ErrorContains(t, err, `"3"`)
}

// TestInstantSwitchesOff: another kind of server is asked once, and gets all content. Errors of an ordinary PUT are
// returned.
func TestInstantSwitchesOff(t *testing.T) {
	const doc = `<Error><Code>%s</Code><Message>m</Message></Error>`
	for _, s := range []struct {
		status int
		body   string
		asked  int64 // questions for three uploads
		fails  bool
	}{
		{501, fmt.Sprintf(doc, "NotImplemented"), 1, false},
		{405, fmt.Sprintf(doc, "MethodNotAllowed"), 1, false},
		{400, fmt.Sprintf(doc, "InvalidRequest"), 1, false},
		{403, fmt.Sprintf(doc, "AccessDenied"), 1, false},
		{412, fmt.Sprintf(doc, "PreconditionFailed"), 1, false},
		{404, fmt.Sprintf(doc, "NoSuchKey"), 1, false},
		{404, "", 3, true}, // a bucket that does not exist
		{200, "<html>welcome</html>", 1, false},
		{200, "<FindContentResult></FindContentResult>", 1, false},
		{403, fmt.Sprintf(doc, "SignatureDoesNotMatch"), 3, true},
		{404, fmt.Sprintf(doc, "NoSuchBucket"), 3, true},
	} {
		var asked, sent atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Query().Has("instant") {
				asked.Add(1)
				w.WriteHeader(s.status)
				_, _ = io.WriteString(w, s.body)
				return
			}
			require.Empty(t, r.Header.Get("X-Amz-Instant-Length"))
			sent.Add(1)
			w.Header().Set("ETag", `"e"`)
		}))
		c := newClient(t, server.URL, func(c *sdk.Config) { c.RefLevel = sdk.RefFast })
		for range 3 {
			_, err := c.Upload(t.Context(), "bucket", "key", strings.NewReader("content"), nil)
			require.Equal(t, s.fails, err != nil, "%+v: %v", s, err)
		}
		require.Equal(t, s.asked, asked.Load(), s)
		if !s.fails {
			require.Equal(t, int64(3), sent.Load())
			_, err := c.Upload(t.Context(), "other", "key", strings.NewReader("content"), nil)
			require.NoError(t, err)
			require.Equal(t, s.asked+1, asked.Load(), "another bucket")
		}
		server.Close()
	}
}

// TestInstantVanished: content that was present is gone when it is referred to, so it is sent.
func TestInstantVanished(t *testing.T) {
	c, bucket := newBucket(t)
	content := random(53, 40*mib)
	var lies atomic.Int64
	target := strings.TrimPrefix(shared, "http://")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("instant") {
			body, _ := io.ReadAll(r.Body)
			lies.Add(1)
			n := strings.Count(string(body), "<Content>")
			fmt.Fprintf(w, "<FindContentResult>%s</FindContentResult>", strings.Repeat("<Content><State>present</State></Content>", n))
			return
		}
		r.URL.Scheme, r.URL.Host, r.RequestURI = "http", target, ""
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		for k, v := range res.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	defer proxy.Close()
	liar := newClient(t, proxy.URL, func(c *sdk.Config) { c.RefLevel = sdk.RefFast })
	up, err := liar.Upload(t.Context(), bucket, "key", bytes.NewReader(content), nil)
	require.NoError(t, err)
	require.Positive(t, lies.Load())
	require.Zero(t, up.BytesReferred)
	same(t, content, read(t, c, bucket, "key"))
	_, err = liar.Upload(t.Context(), bucket, "small", strings.NewReader("small"), nil)
	require.NoError(t, err)
	require.Equal(t, "small", string(read(t, c, bucket, "small")))
}

package sdk_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/checksum"
	"orcas/sdk"
)

// write writes an object.
func write(t testing.TB, c *sdk.Client, bucket, key, content string) *sdk.Written {
	t.Helper()
	w, err := c.Put(t.Context(), bucket, key, strings.NewReader(content), nil)
	require.NoError(t, err)
	return w
}

// ids returns the IDs of a listing.
func ids(t testing.TB, list iter.Seq2[sdk.Entry, error]) iter.Seq[sdk.ObjectID] {
	return func(yield func(sdk.ObjectID) bool) {
		for e, err := range list {
			require.NoError(t, err)
			if !yield(sdk.ObjectID{Key: e.Key, VersionID: e.VersionID}) {
				return
			}
		}
	}
}

func TestProperties(t *testing.T) {
	c, bucket := newBucket(t)
	p := sdk.Properties{ContentType: "text/html", CacheControl: "no-store", ContentDisposition: "inline", ContentEncoding: "br",
		ContentLanguage: "de", Expires: "Thu, 01 Dec 2033 16:00:00 GMT", WebsiteRedirect: "/other", StorageClass: "STANDARD_IA",
		Metadata: map[string]string{"a-b": "ä", "empty": ""}}
	_, err := c.Put(t.Context(), bucket, "key", nil, &sdk.PutOptions{Properties: p})
	require.NoError(t, err)
	info, err := c.Head(t.Context(), bucket, "key", nil)
	require.NoError(t, err)
	require.Equal(t, p, info.Properties)

	for _, bad := range []sdk.Properties{{Metadata: map[string]string{"a b": ""}}, {Metadata: map[string]string{"a": "\n"}}, {ContentType: "\x00"},
		{Encryption: sdk.Encryption{CustomerKey: make([]byte, 32)}}, {Encryption: sdk.Encryption{CustomerKey: []byte("short")}}} {
		_, err := c.Put(t.Context(), bucket, "key", nil, &sdk.PutOptions{Properties: bad})
		require.ErrorIs(t, err, sdk.ErrInvalidArgument, "%+v", bad)
	}
	require.Zero(t, errorOf(t, err).Status)
}

// errorOf returns the *sdk.Error in err, or an empty one.
func errorOf(t testing.TB, err error) *sdk.Error {
	t.Helper()
	e := &sdk.Error{}
	if err != nil {
		require.ErrorAs(t, err, &e)
	}
	return e
}

func TestConditions(t *testing.T) {
	c, bucket := newBucket(t)
	w := write(t, c, bucket, "key", "one")
	_, err := c.Put(t.Context(), bucket, "key", strings.NewReader("two"), &sdk.PutOptions{Conditions: sdk.Conditions{IfNoneMatch: "*"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.False(t, errorOf(t, err).Uncertain)
	_, err = c.Put(t.Context(), bucket, "key", strings.NewReader("two"), &sdk.PutOptions{Conditions: sdk.Conditions{IfMatch: "0" + w.ETag[1:]}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	for _, o := range []sdk.Conditions{{IfNoneMatch: w.ETag}, {IfModifiedSince: time.Now()}} {
		_, err = c.Get(t.Context(), bucket, "key", &sdk.GetOptions{Conditions: o})
		require.ErrorIs(t, err, sdk.ErrNotModified)
		_, err = c.Head(t.Context(), bucket, "key", &sdk.GetOptions{Conditions: o})
		require.ErrorIs(t, err, sdk.ErrNotModified)
	}
	for _, o := range []sdk.Conditions{{IfMatch: "x"}, {IfUnmodifiedSince: time.Now().Add(-time.Hour)}} {
		_, err = c.Get(t.Context(), bucket, "key", &sdk.GetOptions{Conditions: o})
		require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	}
	require.Equal(t, "one", readAll(t, c, bucket, "key", &sdk.GetOptions{Conditions: sdk.Conditions{IfMatch: w.ETag}}))
	_, err = c.Delete(t.Context(), bucket, "key", &sdk.DeleteOptions{IfMatch: "x"})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	_, err = c.Delete(t.Context(), bucket, "key", &sdk.DeleteOptions{IfMatch: w.ETag})
	require.NoError(t, err)
}

func TestRanges(t *testing.T) {
	c, bucket := newBucket(t)
	write(t, c, bucket, "key", "0123456789")
	for want, o := range map[string]sdk.GetOptions{"789": {Offset: 7}, "234": {Offset: 2, Length: 3}, "9": {Offset: 9, Length: 100}, "89": {Suffix: 2},
		"0123456789": {Suffix: 100}, "0": {Length: 1}} {
		require.Equal(t, want, readAll(t, c, bucket, "key", &o))
		object, err := c.Get(t.Context(), bucket, "key", &o)
		require.NoError(t, err)
		require.Equal(t, int64(10), object.Size)
		require.Equal(t, int64(len(want)), object.Length)
		require.Equal(t, int64(strings.Index("0123456789", want)), object.Offset)
		require.NoError(t, object.Close())
	}
	_, err := c.Get(t.Context(), bucket, "key", &sdk.GetOptions{Offset: 10})
	require.ErrorIs(t, err, sdk.ErrInvalidRange)
	for _, o := range []sdk.GetOptions{{Offset: -1}, {Suffix: 1, Length: 1}, {Part: 1, Offset: 1}, {Response: map[string]string{"x": "y"}}} {
		_, err := c.Get(t.Context(), bucket, "key", &o)
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
	object, err := c.Get(t.Context(), bucket, "key", &sdk.GetOptions{Response: map[string]string{"response-content-type": "text/x"}})
	require.NoError(t, err)
	require.Equal(t, "text/x", object.ContentType)
	require.NoError(t, object.Close())
	_, err = object.Read(make([]byte, 1))
	require.ErrorIs(t, err, http.ErrBodyReadAfterClose)
}

// TestChecksums sends content with every algorithm, computed by the client and given to it, and reads it back.
func TestChecksums(t *testing.T) {
	c, bucket := newBucket(t)
	content := noise(100_000)
	sha := sha256.Sum256(content)
	for _, a := range checksum.All() {
		want := base64.StdEncoding.EncodeToString(checksum.Sum(a, content))
		for _, o := range []sdk.PutOptions{{Checksum: a}, {Checksum: a, ChecksumValue: want, SHA256: hex.EncodeToString(sha[:])}} {
			w, err := c.Put(t.Context(), bucket, a.Name(), bytes.NewReader(content), &o)
			require.NoError(t, err)
			require.Equal(t, want, w.Checksums[a])
			object, err := c.Get(t.Context(), bucket, a.Name(), nil)
			require.NoError(t, err)
			require.Equal(t, want, object.Checksums[a])
			got, err := io.ReadAll(object)
			require.NoError(t, err)
			require.True(t, bytes.Equal(content, got))
			require.NoError(t, object.Close())
		}
		other := base64.StdEncoding.EncodeToString(checksum.Sum(a, content[1:]))
		_, err := c.Put(t.Context(), bucket, "wrong", bytes.NewReader(content), &sdk.PutOptions{Checksum: a, ChecksumValue: other})
		require.ErrorIs(t, err, sdk.ErrChecksum)
		require.Equal(t, 1, errorOf(t, err).Attempts, "the same again would fail again")
	}
	_, err := c.Head(t.Context(), bucket, "wrong", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	_, err = c.Put(t.Context(), bucket, "wrong", nil, &sdk.PutOptions{ChecksumValue: "AAAA"})
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
}

// TestWhenRequired: a client that sends no checksums compares MD5s instead.
func TestWhenRequired(t *testing.T) {
	c, bucket := newBucket(t, func(c *sdk.Config) { c.ChecksumsWhenRequired = true })
	w, err := c.Put(t.Context(), bucket, "key", bytes.NewReader(noise(3<<20)), nil)
	require.NoError(t, err)
	require.Equal(t, "3145728", fmt.Sprint(len(readAll(t, c, bucket, "key", nil))))
	object, err := c.Get(t.Context(), bucket, "key", nil)
	require.NoError(t, err)
	require.NoError(t, object.Close())
	require.Empty(t, object.Checksums, "it asks for none")
	require.Equal(t, w.ETag, object.ETag)
	var n int
	for d, err := range c.DeleteAll(t.Context(), bucket, slices.Values([]sdk.ObjectID{{Key: "key"}}), nil) { // requires one
		require.NoError(t, err)
		require.NoError(t, d.Err)
		n++
	}
	require.Equal(t, 1, n)
}

func TestVersionsOfKeys(t *testing.T) {
	c, bucket := newBucket(t)
	state, err := c.Versioning(t.Context(), bucket)
	require.NoError(t, err)
	require.Empty(t, state)
	require.ErrorIs(t, c.SetVersioning(t.Context(), bucket, "on"), sdk.ErrInvalidArgument)
	require.NoError(t, c.SetVersioning(t.Context(), bucket, "Enabled"))
	state, err = c.Versioning(t.Context(), bucket)
	require.NoError(t, err)
	require.Equal(t, "Enabled", state)

	one, two := write(t, c, bucket, "a/key", "one"), write(t, c, bucket, "a/key", "two!")
	write(t, c, bucket, "b", "x")
	d, err := c.Delete(t.Context(), bucket, "a/key", nil)
	require.NoError(t, err)
	require.True(t, d.Marker)
	_, err = c.Get(t.Context(), bucket, "a/key", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	require.True(t, errorOf(t, err).DeleteMarker)
	_, err = c.Head(t.Context(), bucket, "a/key", &sdk.GetOptions{VersionID: d.MarkerID})
	require.ErrorIs(t, err, sdk.ErrNotImplemented, "a marker has no content: 405")
	require.True(t, errorOf(t, err).DeleteMarker)
	require.Equal(t, "one", readAll(t, c, bucket, "a/key", &sdk.GetOptions{VersionID: one.VersionID}))

	for _, size := range []int{0, 1, 2} {
		var got []string
		for e, err := range c.Versions(t.Context(), bucket, &sdk.ListOptions{PageSize: size}) {
			require.NoError(t, err)
			got = append(got, fmt.Sprintln(e.Key, e.VersionID, e.Latest, e.DeleteMarker, e.Size))
		}
		require.Len(t, got, 4)
		require.Equal(t, []string{
			fmt.Sprintln("a/key", d.MarkerID, true, true, 0), fmt.Sprintln("a/key", two.VersionID, false, false, 4),
			fmt.Sprintln("a/key", one.VersionID, false, false, 3)}, got[:3])
	}
	var entries []sdk.Entry
	for e, err := range c.Versions(t.Context(), bucket, &sdk.ListOptions{Delimiter: "/", StartAfter: "a"}) {
		require.NoError(t, err)
		entries = append(entries, e)
	}
	require.Len(t, entries, 2)
	require.Equal(t, "a/", entries[0].Prefix)
	require.Equal(t, "b", entries[1].Key)

	_, err = c.Delete(t.Context(), bucket, "a/key", &sdk.DeleteOptions{VersionID: d.MarkerID})
	require.NoError(t, err)
	require.Equal(t, "two!", readAll(t, c, bucket, "a/key", nil))
	_, err = c.Get(t.Context(), bucket, "a/key", &sdk.GetOptions{VersionID: d.MarkerID})
	require.ErrorIs(t, err, sdk.ErrNoSuchVersion)
	_, err = c.Head(t.Context(), bucket, "a/key", &sdk.GetOptions{VersionID: d.MarkerID})
	require.ErrorIs(t, err, sdk.ErrNoSuchVersion)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey, "HEAD cannot tell them apart")

	// All versions go, and then the bucket.
	require.ErrorIs(t, c.DeleteBucket(t.Context(), bucket), sdk.ErrBucketNotEmpty)
	for d, err := range c.DeleteAll(t.Context(), bucket, ids(t, c.Versions(t.Context(), bucket, nil)), nil) {
		require.NoError(t, err)
		require.NoError(t, d.Err)
		require.NotEmpty(t, d.VersionID)
	}
	require.NoError(t, c.DeleteBucket(t.Context(), bucket))
	_, err = c.HeadBucket(t.Context(), bucket)
	require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
}

func TestDeleteAllOddities(t *testing.T) {
	c, bucket := newBucket(t)
	var all []sdk.ObjectID
	for i := range 1203 { // two batches
		all = append(all, sdk.ObjectID{Key: fmt.Sprintf("absent <&> %d", i)})
	}
	strange := []string{"\x01", "a\rb", "]]>", "ä", "a b+c%"}
	for _, key := range strange {
		write(t, c, bucket, key, "x")
		all = append(all, sdk.ObjectID{Key: key})
	}
	all = append(all, sdk.ObjectID{}, all[0], sdk.ObjectID{Key: "a", VersionID: "malformed"})
	before := c.Stats()
	failures, seen := 0, 0
	for d, err := range c.DeleteAll(t.Context(), bucket, slices.Values(all), nil) {
		require.NoError(t, err)
		seen++
		if d.Err != nil {
			failures++
		}
	}
	require.Equal(t, len(all), seen)
	require.Equal(t, 2, failures, "no key, and a malformed version")
	require.Equal(t, int64(2+1), c.Stats().Requests-before.Requests, "two batches, and a key that XML cannot contain")
	for e, err := range c.List(t.Context(), bucket, nil) {
		t.Fatal(e.Key, err)
	}
	for d, err := range c.DeleteAll(t.Context(), bucket, slices.Values([]sdk.ObjectID{{Key: "a"}, {Key: "b", VersionID: "malformed"}}), &sdk.DeleteOptions{Quiet: true}) {
		require.NoError(t, err)
		require.ErrorIs(t, d.Err, sdk.ErrNoSuchVersion)
		require.Equal(t, sdk.ObjectID{Key: "b", VersionID: "malformed"}, d.ObjectID)
	}
	for _, err := range c.DeleteAll(t.Context(), "no-such-bucket", slices.Values(all), nil) {
		require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
	}
	for _, err := range c.DeleteAll(t.Context(), bucket, slices.Values(all), &sdk.DeleteOptions{VersionID: "x"}) {
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
	for range c.DeleteAll(t.Context(), bucket, slices.Values(all), nil) {
		break // ends the deletion
	}
}

// TestLargeCopy copies more than 5 GiB. The server shares content, so the object is made of references to one part.
func TestLargeCopy(t *testing.T) {
	c, bucket := newBucket(t)
	content := noise(8 << 20)
	sum := sha256.Sum256(content)
	_, err := c.Put(t.Context(), bucket, "part", bytes.NewReader(content), nil)
	require.NoError(t, err)
	id, err := c.CreateUpload(t.Context(), bucket, "large", &sdk.PutOptions{Properties: sdk.Properties{ContentType: "text/x", Tags: map[string]string{"a": "b"}}})
	require.NoError(t, err)
	first, err := c.ReferPart(t.Context(), bucket, "large", id, 1, int64(len(content)), hex.EncodeToString(sum[:]), nil)
	require.NoError(t, err)
	parts := []sdk.Part{first}
	for n := 2; n <= 641; n++ {
		p, err := c.ReferPart(t.Context(), bucket, "large", id, n, int64(len(content)), hex.EncodeToString(sum[:]), nil)
		require.NoError(t, err)
		parts = append(parts, p)
	}
	size := int64(len(parts)) * int64(len(content))
	require.Greater(t, size, int64(5<<30))
	_, err = c.CompleteUpload(t.Context(), bucket, "large", id, parts, &sdk.CompleteOptions{Size: size})
	require.NoError(t, err)

	_, err = c.Copy(t.Context(), sdk.Source{Bucket: bucket, Key: "large"}, bucket, "copy", &sdk.CopyOptions{Source: sdk.Conditions{IfMatch: "x"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	w, err := c.Copy(t.Context(), sdk.Source{Bucket: bucket, Key: "large"}, bucket, "copy", &sdk.CopyOptions{Conditions: sdk.Conditions{IfNoneMatch: "*"}})
	require.NoError(t, err)
	require.Equal(t, size, w.Size)
	info, err := c.Head(t.Context(), bucket, "copy", nil)
	require.NoError(t, err)
	require.Equal(t, size, info.Size)
	require.Equal(t, "text/x", info.ContentType)
	require.Equal(t, 1, info.TagCount)
	require.Equal(t, string(content[:9]), readAll(t, c, bucket, "copy", &sdk.GetOptions{Offset: 640 * int64(len(content)), Length: 9}))
	for u, err := range c.Uploads(t.Context(), bucket, nil) {
		t.Fatal("in progress:", u, err)
	}
}

func TestAttributes(t *testing.T) {
	c, bucket := newBucket(t)
	write(t, c, bucket, "small", "x")
	info, err := c.Attributes(t.Context(), bucket, "small", nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), info.Size)
	require.NotEmpty(t, info.Checksums[sdk.CRC64NVME])
	require.Equal(t, "FULL_OBJECT", info.ChecksumType)

	id, err := c.CreateUpload(t.Context(), bucket, "large", &sdk.PutOptions{Checksum: sdk.SHA256})
	require.NoError(t, err)
	var all []sdk.Part
	for n, size := range []int{5 << 20, 1} {
		p, err := c.UploadPart(t.Context(), bucket, "large", id, n+1, bytes.NewReader(noise(size)), &sdk.PartOptions{Checksum: sdk.SHA256})
		require.NoError(t, err)
		all = append(all, p)
	}
	_, err = c.CompleteUpload(t.Context(), bucket, "large", id, all, nil)
	require.NoError(t, err)
	info, err = c.Attributes(t.Context(), bucket, "large", nil)
	require.NoError(t, err)
	require.Equal(t, 2, info.Parts)
	require.Equal(t, "COMPOSITE", info.ChecksumType)
	require.Len(t, readAll(t, c, bucket, "large", &sdk.GetOptions{Part: 1}), 5<<20)
	require.Len(t, readAll(t, c, bucket, "large", nil), 5<<20+1)
	_, err = c.Attributes(t.Context(), bucket, "absent", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
}

func TestRaw(t *testing.T) {
	c, bucket := newBucket(t)
	r, err := c.Fetch(t.Context(), &sdk.Request{Method: http.MethodPut, Path: "/" + bucket + "/ä +%", Body: []byte("content"),
		Header: http.Header{"X-Amz-Meta-A": {"b"}}})
	require.NoError(t, err)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.Equal(t, "9a0364b9e99bb480dd25e1f0284c8555", r.ETag())
	r, err = c.Fetch(t.Context(), &sdk.Request{Method: http.MethodPut, Path: "/" + bucket + "/stream", Stream: strings.NewReader("content"), Length: 7})
	require.NoError(t, err)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	res, err := c.Do(t.Context(), &sdk.Request{Method: http.MethodGet, Path: "/" + bucket + "/stream", Query: "response-content-type=x"})
	require.NoError(t, err)
	content, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, "content", string(content))
	require.Equal(t, "x", res.Header.Get("Content-Type"))

	broken, err := c.Sign(t.Context(), &sdk.Request{Method: http.MethodGet, Path: "/" + bucket + "/stream"})
	require.NoError(t, err)
	broken.URL.Path = "/" + bucket + "/other"
	before := c.Stats()
	r, err = c.Send(broken)
	require.NoError(t, err)
	require.Equal(t, 403, r.Status)
	require.Equal(t, "SignatureDoesNotMatch", r.Code())
	require.Equal(t, int64(1), c.Stats().Attempts-before.Attempts)
	r, err = c.Fetch(t.Context(), &sdk.Request{Method: http.MethodGet, Path: "/" + bucket + "/stream", Anonymous: true})
	require.NoError(t, err)
	require.Equal(t, "AccessDenied", r.Code())
}

// TestWrongArguments: arguments that would lead to another request than the one that was meant are errors.
func TestWrongArguments(t *testing.T) {
	c, bucket := newBucket(t)
	before := c.Stats().Attempts
	for _, name := range []string{"", "a=b", "x&y"} {
		require.ErrorIs(t, c.DeleteDocument(t.Context(), bucket, name), sdk.ErrInvalidArgument, "that would delete the bucket")
		require.ErrorIs(t, c.SetDocument(t.Context(), bucket, name, nil), sdk.ErrInvalidArgument)
		_, err := c.Document(t.Context(), bucket, name)
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
	require.ErrorIs(t, c.SetVersioning(t.Context(), bucket, "on"), sdk.ErrInvalidArgument)
	require.ErrorIs(t, c.CreateBucket(t.Context(), "a/b", nil), sdk.ErrInvalidArgument)
	require.ErrorIs(t, c.CreateBucket(t.Context(), "..", nil), sdk.ErrInvalidArgument)
	_, err := c.PresignGet(bucket, "key", time.Minute, &sdk.GetOptions{Offset: 1})
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	_, _, err = c.PresignPost(bucket, sdk.PostPolicy{Key: "a", Expires: time.Minute, MinSize: 2, MaxSize: 1})
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	require.ErrorIs(t, c.SetTags(t.Context(), bucket, sdk.ObjectID{}, nil), sdk.ErrInvalidArgument)
	_, err = c.Put(t.Context(), bucket, "", nil, nil)
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	_, err = c.Put(t.Context(), bucket, strings.Repeat("x", 1025), nil, nil)
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	_, err = c.Move(t.Context(), sdk.Source{Bucket: bucket, Key: "a", VersionID: "x"}, bucket, "b", nil)
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	require.Equal(t, before, c.Stats().Attempts, "nothing was sent")
	region, err := c.Location(t.Context(), bucket)
	require.NoError(t, err)
	require.Equal(t, "us-east-1", region)
}

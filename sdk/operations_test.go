package sdk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// put writes an object with its key as the content.
func put(t testing.TB, c *sdk.Client, bucket string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, err := c.Put(t.Context(), bucket, key, strings.NewReader(key), nil)
		require.NoError(t, err)
	}
}

// readAll returns the content of an object.
func readAll(t testing.TB, c *sdk.Client, bucket, key string, o *sdk.GetOptions) string {
	t.Helper()
	r, err := c.Get(t.Context(), bucket, key, o)
	require.NoError(t, err)
	defer r.Close()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

// collect returns the elements of a sequence.
func collect[T any](t testing.TB, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		require.NoError(t, err)
		all = append(all, v)
	}
	return all
}

func TestBuckets(t *testing.T) {
	c, own := newBucket(t)
	name := own + "-x"
	require.NoError(t, c.CreateBucket(t.Context(), name, &sdk.BucketOptions{ObjectLock: true, Tags: map[string]string{"a": "b"}}))
	found := collect(t, c.Buckets(t.Context(), name))
	require.Len(t, found, 1)
	require.Equal(t, name, found[0].Name)
	require.WithinDuration(t, time.Now(), found[0].Created, time.Minute)
	region, err := c.HeadBucket(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, "us-east-1", region)
	status, err := c.Versioning(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, "Enabled", status)
	status, err = c.Versioning(t.Context(), own)
	require.NoError(t, err)
	require.Empty(t, status)
	require.NoError(t, c.SetVersioning(t.Context(), own, "Suspended"))
	status, err = c.Versioning(t.Context(), own)
	require.NoError(t, err)
	require.Equal(t, "Suspended", status)

	tags, err := c.BucketTags(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b"}, tags)
	require.NoError(t, c.SetBucketTags(t.Context(), name, nil))
	tags, err = c.BucketTags(t.Context(), name)
	require.NoError(t, err)
	require.Empty(t, tags)

	_, err = c.Document(t.Context(), own, "cors")
	require.ErrorIs(t, err, sdk.ErrNoSuchConfiguration)
	cors := `<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>`
	require.NoError(t, c.SetDocument(t.Context(), own, "cors", []byte(cors)))
	document, err := c.Document(t.Context(), own, "cors")
	require.NoError(t, err)
	require.Contains(t, string(document), "<AllowedOrigin>*</AllowedOrigin>")
	require.NoError(t, c.DeleteDocument(t.Context(), own, "cors"))
	_, err = c.Document(t.Context(), own, "cors")
	require.ErrorIs(t, err, sdk.ErrNoSuchConfiguration)

	put(t, c, own, "a")
	require.ErrorIs(t, c.DeleteBucket(t.Context(), own), sdk.ErrBucketNotEmpty)
	require.NoError(t, c.DeleteBucket(t.Context(), name))
	_, err = c.HeadBucket(t.Context(), name)
	require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
	require.ErrorIs(t, c.DeleteBucket(t.Context(), name), sdk.ErrNoSuchBucket)
}

func TestTagsAndLocks(t *testing.T) {
	c, own := newBucket(t)
	bucket := own + "-lock"
	require.NoError(t, c.CreateBucket(t.Context(), bucket, &sdk.BucketOptions{ObjectLock: true}))
	put(t, c, bucket, "a")
	id := sdk.ObjectID{Key: "a"}
	require.NoError(t, c.SetTags(t.Context(), bucket, id, map[string]string{"k": "v +=:/@", "l": ""}))
	tags, err := c.Tags(t.Context(), bucket, id)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"k": "v +=:/@", "l": ""}, tags)
	require.NoError(t, c.DeleteTags(t.Context(), bucket, id))
	tags, err = c.Tags(t.Context(), bucket, id)
	require.NoError(t, err)
	require.Empty(t, tags)

	mode, _, err := c.Retention(t.Context(), bucket, id)
	require.NoError(t, err)
	require.Empty(t, mode)
	on, err := c.LegalHold(t.Context(), bucket, id)
	require.NoError(t, err)
	require.False(t, on)
	until := time.Now().Add(time.Hour)
	require.NoError(t, c.SetRetention(t.Context(), bucket, id, "GOVERNANCE", until, false))
	mode, got, err := c.Retention(t.Context(), bucket, id)
	require.NoError(t, err)
	require.Equal(t, "GOVERNANCE", mode)
	require.WithinDuration(t, until, got, time.Second)
	info, err := c.Head(t.Context(), bucket, "a", nil)
	require.NoError(t, err)
	_, err = c.Delete(t.Context(), bucket, "a", &sdk.DeleteOptions{VersionID: info.VersionID})
	require.ErrorIs(t, err, sdk.ErrAccessDenied)
	require.NoError(t, c.SetRetention(t.Context(), bucket, id, "", time.Time{}, true))
	require.NoError(t, c.SetLegalHold(t.Context(), bucket, id, true))
	on, err = c.LegalHold(t.Context(), bucket, id)
	require.NoError(t, err)
	require.True(t, on)
	require.NoError(t, c.SetLegalHold(t.Context(), bucket, id, false))
	_, err = c.Delete(t.Context(), bucket, "a", &sdk.DeleteOptions{VersionID: info.VersionID})
	require.NoError(t, err)
}

func TestCopyRenameMoveAppend(t *testing.T) {
	c, bucket := newBucket(t)
	other := bucket + "-other"
	require.NoError(t, c.CreateBucket(t.Context(), other, nil))
	_, err := c.Put(t.Context(), bucket, "ä +%", strings.NewReader("content"), &sdk.PutOptions{Properties: sdk.Properties{ContentType: "text/a",
		Metadata: map[string]string{"m": "1"}, Tags: map[string]string{"t": "2"}}})
	require.NoError(t, err)
	from := sdk.Source{Bucket: bucket, Key: "ä +%"}

	w, err := c.Copy(t.Context(), from, other, "copy", nil)
	require.NoError(t, err)
	require.NotEmpty(t, w.ETag)
	info, err := c.Head(t.Context(), other, "copy", nil)
	require.NoError(t, err)
	require.Equal(t, "text/a", info.ContentType)
	require.Equal(t, map[string]string{"m": "1"}, info.Metadata)
	require.Equal(t, 1, info.TagCount)
	_, err = c.Copy(t.Context(), from, other, "copy", &sdk.CopyOptions{Replace: &sdk.Properties{ContentType: "text/b"}, ReplaceTags: true})
	require.NoError(t, err)
	info, err = c.Head(t.Context(), other, "copy", nil)
	require.NoError(t, err)
	require.Equal(t, "text/b", info.ContentType)
	require.Empty(t, info.Metadata)
	require.Zero(t, info.TagCount)
	_, err = c.Copy(t.Context(), from, other, "copy", &sdk.CopyOptions{Source: sdk.Conditions{IfMatch: "00000000000000000000000000000000"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	_, err = c.Copy(t.Context(), from, other, "copy", &sdk.CopyOptions{Conditions: sdk.Conditions{IfNoneMatch: "*"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	_, err = c.Copy(t.Context(), sdk.Source{Bucket: bucket, Key: "none"}, other, "copy", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)

	require.NoError(t, c.Rename(t.Context(), bucket, "ä +%", "new ü", nil))
	require.Equal(t, "content", readAll(t, c, bucket, "new ü", nil))
	_, err = c.Head(t.Context(), bucket, "ä +%", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	_, err = c.Move(t.Context(), sdk.Source{Bucket: bucket, Key: "new ü"}, other, "moved", nil)
	require.NoError(t, err)
	require.Equal(t, "content", readAll(t, c, other, "moved", nil))
	require.Empty(t, collect(t, c.List(t.Context(), bucket, nil)))

	w, err = c.Append(t.Context(), other, "moved", 7, strings.NewReader(", more"), nil)
	require.NoError(t, err)
	require.EqualValues(t, 13, w.Size)
	require.Equal(t, "content, more", readAll(t, c, other, "moved", nil))
	_, err = c.Append(t.Context(), other, "moved", 7, strings.NewReader("x"), nil)
	require.ErrorIs(t, err, sdk.ErrInvalidOffset)
	a, err := c.Attributes(t.Context(), other, "moved", nil)
	require.NoError(t, err)
	require.EqualValues(t, 13, a.Size)
	require.Equal(t, w.ETag, a.ETag)
	require.NotEmpty(t, a.Checksums[sdk.CRC64NVME])
}

// TestCopyInParts: objects above 5 GiB are copied in parts. Size makes the client believe that the source is one.
func TestCopyInParts(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Put(t.Context(), bucket, "a", strings.NewReader("content"), &sdk.PutOptions{Properties: sdk.Properties{ContentType: "text/a",
		Metadata: map[string]string{"m": "1"}, Tags: map[string]string{"t": "2"}}})
	require.NoError(t, err)
	w, err := c.Copy(t.Context(), sdk.Source{Bucket: bucket, Key: "a"}, bucket, "b", &sdk.CopyOptions{Size: 6 << 30})
	require.NoError(t, err)
	require.Contains(t, w.ETag, "-1")
	require.Equal(t, "content", readAll(t, c, bucket, "b", nil))
	info, err := c.Head(t.Context(), bucket, "b", nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"m": "1"}, info.Metadata)
	require.Equal(t, "text/a", info.ContentType)
	require.Equal(t, 1, info.TagCount)
	_, err = c.Copy(t.Context(), sdk.Source{Bucket: bucket, Key: "a"}, bucket, "b", &sdk.CopyOptions{Size: 6 << 30, Conditions: sdk.Conditions{IfNoneMatch: "*"}})
	require.ErrorIs(t, err, sdk.ErrPreconditionFailed)
	require.Empty(t, collect(t, c.Uploads(t.Context(), bucket, nil)), "the upload is aborted")
}

func TestDeleteAll(t *testing.T) {
	c, bucket := newBucket(t)
	require.NoError(t, c.SetVersioning(t.Context(), bucket, "Enabled"))
	var keys []string
	for i := range 1005 {
		keys = append(keys, fmt.Sprintf("k/%04d", i))
	}
	keys = append(keys, "odd \x01", "a&<b>\r\n'\"")
	put(t, c, bucket, keys...)
	before := c.Stats().Requests
	deleted := collect(t, c.DeleteAll(t.Context(), bucket, func(yield func(sdk.ObjectID) bool) {
		for _, key := range keys {
			if !yield(sdk.ObjectID{Key: key}) {
				return
			}
		}
	}, nil))
	require.EqualValues(t, 3, c.Stats().Requests-before, "1,006 keys in two requests, and one that no document can contain")
	require.Len(t, deleted, len(keys))
	for _, d := range deleted {
		require.NoError(t, d.Err)
		require.True(t, d.Marker)
		require.NotEmpty(t, d.MarkerID)
	}
	require.Empty(t, collect(t, c.List(t.Context(), bucket, nil)))
	for d, err := range c.DeleteAll(t.Context(), bucket, func(yield func(sdk.ObjectID) bool) {
		for e, err := range c.Versions(t.Context(), bucket, nil) {
			require.NoError(t, err)
			if !yield(sdk.ObjectID{Key: e.Key, VersionID: e.VersionID}) {
				return
			}
		}
	}, &sdk.DeleteOptions{Quiet: true}) {
		require.NoError(t, err)
		require.NoError(t, d.Err)
	}
	require.Empty(t, collect(t, c.Versions(t.Context(), bucket, nil)))

	locked := bucket + "-lock"
	require.NoError(t, c.CreateBucket(t.Context(), locked, &sdk.BucketOptions{ObjectLock: true}))
	put(t, c, locked, "a")
	require.NoError(t, c.SetLegalHold(t.Context(), locked, sdk.ObjectID{Key: "a"}, true))
	info, err := c.Head(t.Context(), locked, "a", nil)
	require.NoError(t, err)
	refused := collect(t, c.DeleteAll(t.Context(), locked, slices.Values([]sdk.ObjectID{{Key: "a", VersionID: info.VersionID}}), nil))
	require.Len(t, refused, 1)
	require.ErrorIs(t, refused[0].Err, sdk.ErrAccessDenied)
}

func TestVersions(t *testing.T) {
	c, bucket := newBucket(t)
	require.NoError(t, c.SetVersioning(t.Context(), bucket, "Enabled"))
	for range 3 {
		put(t, c, bucket, "a", "b")
	}
	d, err := c.Delete(t.Context(), bucket, "a", nil)
	require.NoError(t, err)
	require.True(t, d.Marker)
	for _, size := range []int{0, 1, 2, 7} {
		all := collect(t, c.Versions(t.Context(), bucket, &sdk.ListOptions{PageSize: size}))
		require.Len(t, all, 7)
		require.True(t, all[0].DeleteMarker && all[0].Latest && all[0].VersionID == d.MarkerID)
		require.True(t, all[4].Latest && all[4].Key == "b")
		require.Equal(t, "a", readAll(t, c, bucket, "a", &sdk.GetOptions{VersionID: all[1].VersionID}))
	}
	_, err = c.Get(t.Context(), bucket, "a", &sdk.GetOptions{VersionID: "AAAAAAAAAAAAAAAAAAAAAA"})
	require.Error(t, err)
}

func TestPresign(t *testing.T) {
	c, bucket := newBucket(t)
	url, header, err := c.PresignPut(bucket, "dir/ü +", time.Minute, &sdk.PutOptions{Properties: sdk.Properties{ContentType: "text/a", Metadata: map[string]string{"m": "1"}}})
	require.NoError(t, err)
	send := func(method, url string, header http.Header, body io.Reader) (int, string) {
		r, err := http.NewRequest(method, url, body)
		require.NoError(t, err)
		for name, v := range header {
			r.Header[name] = v
		}
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(b)
	}
	status, body := send(http.MethodPut, url, header, strings.NewReader("content"))
	require.Equal(t, 200, status, body)
	status, _ = send(http.MethodPut, url, nil, strings.NewReader("content"))
	require.Equal(t, 403, status, "the headers are signed")

	url, err = c.PresignGet(bucket, "dir/ü +", time.Minute, &sdk.GetOptions{Response: map[string]string{"response-content-type": "text/b"}})
	require.NoError(t, err)
	status, body = send(http.MethodGet, url, nil, nil)
	require.Equal(t, 200, status)
	require.Equal(t, "content", body)
	past := newClient(t, shared, func(c *sdk.Config) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
	url, err = past.PresignGet(bucket, "dir/ü +", time.Minute, nil)
	require.NoError(t, err)
	status, _ = send(http.MethodGet, url, nil, nil)
	require.Equal(t, 403, status, "it has expired")
	_, err = c.PresignGet(bucket, "a", 8*24*time.Hour, nil)
	require.ErrorIs(t, err, sdk.ErrInvalidArgument)

	post := func(p sdk.PostPolicy, name, content string, change map[string]string) int {
		url, fields, err := c.PresignPost(bucket, p)
		require.NoError(t, err)
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		for name, value := range fields {
			if v, ok := change[name]; ok {
				value = v
			}
			require.NoError(t, w.WriteField(name, value))
		}
		file, err := w.CreateFormFile("file", name)
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		status, _ := send(http.MethodPost, url, http.Header{"Content-Type": {w.FormDataContentType()}}, &form)
		return status
	}
	policy := sdk.PostPolicy{Key: "up/${filename}", Expires: time.Minute, MaxSize: 10, Fields: map[string]string{"Content-Type": "text/c", "success_action_status": "201"}}
	require.Equal(t, 201, post(policy, "a.txt", "small", nil))
	info, err := c.Head(t.Context(), bucket, "up/a.txt", nil)
	require.NoError(t, err)
	require.Equal(t, "text/c", info.ContentType)
	require.Equal(t, 400, post(policy, "b.txt", "larger than 10", nil))
	require.Equal(t, 403, post(policy, "b.txt", "small", map[string]string{"Content-Type": "text/d"}))
}

// TestErrorsAreNamed: an error names the operation, the object, and what the server said.
func TestErrorsAreNamed(t *testing.T) {
	c, bucket := newBucket(t)
	_, err := c.Get(t.Context(), bucket, "none", nil)
	require.ErrorContains(t, err, "Get s3://"+bucket+"/none: NoSuchKey (HTTP status 404)")
	var e *sdk.Error
	require.ErrorAs(t, err, &e)
	require.NotEmpty(t, e.RequestID)
	require.Equal(t, 1, e.Attempts)
	wrong := newClient(t, shared, func(c *sdk.Config) { c.Credentials = sdk.Static(access, "wrong") })
	_, err = wrong.Get(t.Context(), bucket, "none", nil)
	require.ErrorIs(t, err, sdk.ErrSignature)
	require.NotContains(t, err.Error(), "wrong\"")
	unknown := newClient(t, shared, func(c *sdk.Config) { c.Credentials = sdk.Static("unknown", "wrong") })
	_, err = unknown.Get(t.Context(), bucket, "none", nil)
	require.ErrorIs(t, err, sdk.ErrInvalidAccessKey)
	late := newClient(t, shared, func(c *sdk.Config) { c.Now = func() time.Time { return time.Now().Add(-time.Hour) } })
	_, err = late.Get(t.Context(), bucket, "none", nil)
	require.ErrorIs(t, err, sdk.ErrClockSkew)
	require.ErrorContains(t, err, "behind that of the server: set the clock")
	_, err = json.Marshal(e)
	require.NoError(t, err)
}

package sdk_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// TestMultipart uses the operations directly: parts that are sent, copied and replaced, in pages of lists.
func TestMultipart(t *testing.T) {
	c, bucket := newBucket(t)
	source := random(100, 6*mib)
	_, err := c.Put(t.Context(), bucket, "source ä", bytes.NewReader(source), nil)
	require.NoError(t, err)
	info, err := c.Head(t.Context(), bucket, "source ä", nil)
	require.NoError(t, err)
	o := &sdk.PutOptions{Checksum: sdk.CRC32C}
	o.ContentType, o.Metadata = "text/x", map[string]string{"a": "b"}
	id, err := c.CreateUpload(t.Context(), bucket, "key ö/+", o)
	require.NoError(t, err)
	one, three := random(101, 5*mib), random(102, 1000)
	_, err = c.UploadPart(t.Context(), bucket, "key ö/+", id, 1, strings.NewReader("replaced"), &sdk.PartOptions{Checksum: sdk.CRC32C})
	require.NoError(t, err)
	p1, err := c.UploadPart(t.Context(), bucket, "key ö/+", id, 1, bytes.NewReader(one), &sdk.PartOptions{Checksum: sdk.CRC32C})
	require.NoError(t, err)
	require.Equal(t, sumOf(sdk.CRC32C, one), p1.Checksums[sdk.CRC32C])
	p2, err := c.UploadPartCopy(t.Context(), sdk.Source{Bucket: bucket, Key: "source ä"}, bucket, "key ö/+", id, 2,
		&sdk.PartOptions{Offset: 100, Length: 5 * mib, Source: sdk.Conditions{IfMatch: info.ETag}})
	require.NoError(t, err)
	p3, err := c.UploadPart(t.Context(), bucket, "key ö/+", id, 3, bytes.NewReader(three), &sdk.PartOptions{Checksum: sdk.CRC32C})
	require.NoError(t, err)
	whole := bytes.Join([][]byte{one, source[100 : 100+5*mib], three}, nil)
	var listed []sdk.Part
	for p, err := range c.Parts(t.Context(), bucket, "key ö/+", id) {
		require.NoError(t, err)
		require.WithinDuration(t, time.Now(), p.LastModified, time.Minute)
		p.LastModified = time.Time{}
		listed = append(listed, p)
	}
	require.Len(t, listed, 3)
	require.Equal(t, p1, listed[0])
	require.Equal(t, p2.ETag, listed[1].ETag)
	require.Equal(t, int64(5*mib), listed[1].Size)
	list := uploads(t, c, bucket)
	require.Len(t, list, 1)
	require.Equal(t, "key ö/+", list[0].Key)
	require.Equal(t, id, list[0].UploadID)

	complete := &sdk.CompleteOptions{Size: int64(len(whole)), Checksum: sdk.CRC32C, ChecksumValue: sumOf(sdk.CRC32C, whole)}
	parts := []sdk.Part{p1, p2, p3}
	for name, wrong := range map[string]struct {
		parts []sdk.Part
		o     *sdk.CompleteOptions
		want  error
	}{
		"order":     {[]sdk.Part{p2, p1}, complete, sdk.ErrInvalidPart},
		"none":      {nil, complete, sdk.ErrInvalidArgument},
		"sum":       {parts, &sdk.CompleteOptions{Checksum: sdk.CRC32C, ChecksumValue: "AAAAAA=="}, sdk.ErrChecksum},
		"size":      {parts, &sdk.CompleteOptions{Size: 5}, sdk.ErrInvalidArgument},
		"algorithm": {parts, &sdk.CompleteOptions{ChecksumValue: "AAAAAA=="}, sdk.ErrInvalidArgument},
		"condition": {parts, &sdk.CompleteOptions{Conditions: sdk.Conditions{IfMatch: "x"}}, sdk.ErrNoSuchKey},
		"part":      {[]sdk.Part{{Number: 1, ETag: "x"}}, complete, sdk.ErrInvalidPart},
	} {
		_, err := c.CompleteUpload(t.Context(), bucket, "key ö/+", id, wrong.parts, wrong.o)
		require.ErrorIs(t, err, wrong.want, name)
	}
	w, err := c.CompleteUpload(t.Context(), bucket, "key ö/+", id, parts, complete)
	require.NoError(t, err)
	require.Equal(t, sumOf(sdk.CRC32C, whole), w.Checksums[sdk.CRC32C])
	require.True(t, strings.HasSuffix(w.ETag, "-3"))
	same(t, whole, read(t, c, bucket, "key ö/+"))
	info, err = c.Head(t.Context(), bucket, "key ö/+", nil)
	require.NoError(t, err)
	require.Equal(t, "text/x", info.ContentType)
	require.Empty(t, uploads(t, c, bucket))
}

// TestMultipartPages: lists of uploads and parts are read page by page.
func TestMultipartPages(t *testing.T) {
	c, bucket := newBucket(t)
	ids := map[string]string{}
	for i := range 7 {
		key := fmt.Sprintf("dir %d/ä", i%4) // several uploads of one key
		id, err := c.CreateUpload(t.Context(), bucket, key, nil)
		require.NoError(t, err)
		ids[id] = key
	}
	for _, size := range []int{0, 1, 2, 7} {
		got := map[string]string{}
		for u, err := range c.Uploads(t.Context(), bucket, &sdk.ListOptions{PageSize: size}) {
			require.NoError(t, err)
			require.NotContains(t, got, u.UploadID)
			got[u.UploadID] = u.Key
		}
		require.Equal(t, ids, got, size)
	}
	prefixes := 0
	for u, err := range c.Uploads(t.Context(), bucket, &sdk.ListOptions{Delimiter: "/", PageSize: 3}) {
		require.NoError(t, err)
		require.NotEmpty(t, u.Prefix)
		prefixes++
	}
	require.Equal(t, 4, prefixes)
	n := 0
	for _, err := range c.Uploads(t.Context(), bucket, &sdk.ListOptions{Prefix: "dir 1"}) {
		require.NoError(t, err)
		n++
		break
	}
	require.Equal(t, 1, n)
	for id, key := range ids {
		require.NoError(t, c.AbortUpload(t.Context(), bucket, key, id))
		require.ErrorIs(t, c.AbortUpload(t.Context(), bucket, key, id), sdk.ErrNoSuchUpload)
		for _, err := range c.Parts(t.Context(), bucket, key, id) {
			require.ErrorIs(t, err, sdk.ErrNoSuchUpload)
		}
	}
}

func TestMultipartArguments(t *testing.T) {
	c, bucket := newBucket(t)
	from := sdk.Source{Bucket: bucket, Key: "k"}
	for name, err := range map[string]error{
		"create":     second(c.CreateUpload(t.Context(), bucket, "", nil)),
		"id":         second(c.UploadPart(t.Context(), bucket, "k", "", 1, nil, nil)),
		"zero":       second(c.UploadPart(t.Context(), bucket, "k", "id", 0, nil, nil)),
		"high":       second(c.UploadPart(t.Context(), bucket, "k", "id", 10_001, nil, nil)),
		"copy zero":  second(c.UploadPartCopy(t.Context(), from, bucket, "k", "id", 0, nil)),
		"copy range": second(c.UploadPartCopy(t.Context(), from, bucket, "k", "id", 1, &sdk.PartOptions{Offset: 5})),
		"source":     second(c.UploadPartCopy(t.Context(), sdk.Source{}, bucket, "k", "id", 1, nil)),
		"refer":      second(c.ReferPart(t.Context(), bucket, "k", "id", 0, 1, hexSHA(nil), nil)),
		"key":        c.AbortUpload(t.Context(), bucket, "", "id"),
		"plain http": second(c.UploadPart(t.Context(), bucket, "k", "id", 1, nil, &sdk.PartOptions{CustomerKey: make([]byte, 32)})),
	} {
		require.ErrorIs(t, err, sdk.ErrInvalidArgument, name)
	}
	for _, err := range c.Uploads(t.Context(), "", nil) {
		require.ErrorIs(t, err, sdk.ErrInvalidArgument)
	}
}

func second[T any](_ T, err error) error { return err }

// TestMultipartLists: lists that loop, or make no sense, are errors.
func TestMultipartLists(t *testing.T) {
	body := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) }))
	defer s.Close()
	c := newClient(t, s.URL)
	for _, doc := range []string{
		"<ListPartsResult><IsTruncated>true</IsTruncated></ListPartsResult>",
		"<ListPartsResult><Part><PartNumber>2</PartNumber></Part><Part><PartNumber>1</PartNumber></Part></ListPartsResult>",
		"<ListPartsResult><IsTruncated>true</IsTruncated><Part><PartNumber>1</PartNumber></Part></ListPartsResult>", // the same page again
		"<ListPartsResult><Part><PartNumber>99999</PartNumber></Part></ListPartsResult>",
		"<html>", "",
	} {
		body = doc
		var failure error
		n := 0
		for _, err := range c.Parts(t.Context(), "bucket", "key", "id") {
			failure = err
			n++
		}
		require.ErrorIs(t, failure, sdk.ErrProtocol, doc)
		require.LessOrEqual(t, n, 2)
	}
	for _, doc := range []string{
		"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated></ListMultipartUploadsResult>",
		"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>b</NextUploadIdMarker></ListMultipartUploadsResult>",
		"<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload><Key>%zz</Key></Upload></ListMultipartUploadsResult>",
		"<Other/>",
	} {
		body = doc
		var failure error
		for _, err := range c.Uploads(t.Context(), "bucket", nil) {
			failure = err
		}
		require.ErrorIs(t, failure, sdk.ErrProtocol, doc)
	}
	body = "<InitiateMultipartUploadResult/>"
	_, err := c.CreateUpload(t.Context(), "bucket", "key", nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
	body = "<CompleteMultipartUploadResult/>"
	_, err = c.CompleteUpload(t.Context(), "bucket", "key", "id", []sdk.Part{{Number: 1, ETag: "e"}}, nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
	_, err = c.UploadPart(t.Context(), "bucket", "key", "id", 1, strings.NewReader("x"), nil)
	require.ErrorIs(t, err, sdk.ErrProtocol)
}

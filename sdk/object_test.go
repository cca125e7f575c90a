package sdk_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// noise returns n bytes that do not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func TestPutAndGet(t *testing.T) {
	c, bucket := newBucket(t)
	for _, size := range []int{0, 1, 4096, 1 << 20, 1<<20 + 1, 3 << 20} {
		content := noise(size)
		key := fmt.Sprintf("dir/ä +%%/%d", size)
		w, err := c.Put(t.Context(), bucket, key, bytes.NewReader(content), &sdk.PutOptions{Properties: sdk.Properties{
			ContentType: "text/plain", Metadata: map[string]string{"color": "blue"}, Tags: map[string]string{"a b": "c/d+e"}}})
		require.NoError(t, err)
		require.Equal(t, int64(size), w.Size)
		require.NotEmpty(t, w.Checksums[sdk.CRC64NVME])

		o, err := c.Get(t.Context(), bucket, key, nil)
		require.NoError(t, err)
		got, err := io.ReadAll(o)
		require.NoError(t, err)
		require.NoError(t, o.Close())
		require.True(t, bytes.Equal(content, got))
		require.Equal(t, "text/plain", o.ContentType)
		require.Equal(t, map[string]string{"color": "blue"}, o.Metadata)
		require.Equal(t, 1, o.TagCount)
		require.Equal(t, w.ETag, o.ETag)
		require.WithinDuration(t, time.Now(), o.LastModified, time.Minute)

		info, err := c.Head(t.Context(), bucket, key, nil)
		require.NoError(t, err)
		require.Equal(t, o.Info, *info)
	}
	d, err := c.Delete(t.Context(), bucket, "dir/ä +%/1", nil)
	require.NoError(t, err)
	require.False(t, d.Marker)
	_, err = c.Get(t.Context(), bucket, "dir/ä +%/1", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
	_, err = c.Head(t.Context(), bucket, "dir/ä +%/1", nil)
	require.ErrorIs(t, err, sdk.ErrNoSuchKey)
}

func TestList(t *testing.T) {
	c, bucket := newBucket(t)
	var want []string
	for i := range 25 {
		key := fmt.Sprintf("dir/%02d &<>\"' +%%\x01ü", i)
		want = append(want, key)
		_, err := c.Put(t.Context(), bucket, key, strings.NewReader("x"), nil)
		require.NoError(t, err)
	}
	for _, size := range []int{0, 1, 3, 25, 26} {
		var got []string
		for e, err := range c.List(t.Context(), bucket, &sdk.ListOptions{Prefix: "dir/", PageSize: size, Owner: true}) {
			require.NoError(t, err)
			require.Equal(t, int64(1), e.Size)
			require.Equal(t, "9dd4e461268c8034f5c8564e155c67a6", e.ETag)
			require.Equal(t, "STANDARD", e.StorageClass)
			require.NotEmpty(t, e.Owner)
			got = append(got, e.Key)
		}
		require.Equal(t, want, got)
	}
	for e, err := range c.List(t.Context(), bucket, &sdk.ListOptions{Delimiter: "/"}) {
		require.NoError(t, err)
		require.Equal(t, sdk.Entry{Prefix: "dir/"}, e)
	}
	for _, err := range c.List(t.Context(), "no-such-bucket", nil) {
		require.ErrorIs(t, err, sdk.ErrNoSuchBucket)
	}
}

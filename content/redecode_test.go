package content_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/mem"
	"orcas/storetest"
	"orcas/vfs"
)

// TestReadAcrossARepair reads an object of many parts that all refer to the same content. The content is repaired, with
// a new data key, between two pages of the list of parts.
func TestReadAcrossARepair(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *content.Options) { o.Keys, o.EncryptAll = parseKeys(t, firstKey), true })
	const count, size = 130, vfs.MinPartSize // more than a page
	part := storetest.Random(1, size)
	w.Put("part", part)
	source, err := w.FS.Stat(ctx, w.Bucket, "part", core.Current)
	require.NoError(t, err)
	id := w.Upload("key", core.UploadInfo{})
	var parts []vfs.CompletedPart
	for n := 1; n <= count; n++ {
		p, err := w.FS.CopyPart(ctx, vfs.CopyPartRequest{
			Bucket: w.Bucket, Key: "key", Upload: id, Number: n, Source: source, Length: size,
		})
		require.NoError(t, err)
		parts = append(parts, vfs.CompletedPart{Number: n, ETag: p.ETag})
	}
	_, err = w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "key", Upload: id, Parts: parts, Size: -1})
	require.NoError(t, err)

	o, err := w.FS.Open(ctx, w.Bucket, "key", core.Current)
	require.NoError(t, err)
	defer o.Close()
	const from = 127*size + size/2
	s, err := o.Range(ctx, from, count*size-from)
	require.NoError(t, err)
	defer s.Close()
	d := w.dataOf("part")
	require.NoError(t, w.FS.Repair(ctx, d, d))
	require.NotEqual(t, d.DataKey, w.dataOf("part").DataKey)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.True(t, bytes.Equal(bytes.Repeat(part, 3)[size/2:], got))
	require.False(t, w.dataOf("part").Damaged)
}

package vfs_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/storetest"
	"orcas/vfs"
)

func TestMultipart(t *testing.T) {
	w := newWorld(t)
	id := w.Upload("k", core.UploadInfo{Attrs: []core.Attr{{Name: "Content-Type", Value: "x/y"}}})
	bodies := [][]byte{storetest.Filler(1, 5<<20), storetest.Filler(2, 6<<20+1), storetest.Filler(3, 10)}
	whole := bytes.Join(bodies, nil)
	var parts []vfs.CompletedPart
	for i, body := range bodies {
		w.Part("k", id, i*3+1, storetest.Filler(9, 100), checksum.CRC64NVME) // replaced by the next line
		parts = append(parts, w.Part("k", id, i*3+1, body, checksum.CRC64NVME))
	}
	w.Part("k", id, 9, []byte("not named"), checksum.CRC64NVME)
	listed, more, err := w.FS.Parts(ctx, w.Bucket, "k", id, 1, 2)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []int{4, 7}, []int{listed[0].Number, listed[1].Number})
	before := w.blockCount()
	o, err := w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "k", Upload: id, Parts: parts, Size: int64(len(whole))})
	require.NoError(t, err)
	require.Equal(t, before, w.blockCount(), "content was copied")
	require.True(t, strings.HasSuffix(o.ETag, "-3"))
	require.Equal(t, []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: checksum.Sum(checksum.CRC64NVME, whole)}}, o.Sums)
	require.Equal(t, "x/y", o.Attrs[0].Value)
	w.RequireContent("k", whole)
	for _, off := range []int64{0, 5<<20 - 1, 5 << 20, 11<<20 + 1, int64(len(whole)) - 1} {
		n := min(300_000, int64(len(whole))-off)
		got, err := w.Read("k", off, n)
		require.NoError(t, err)
		require.True(t, bytes.Equal(whole[off:off+n], got))
	}
	_, err = w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "k", Upload: id, Parts: parts, Size: -1})
	require.Equal(t, core.NoSuchUpload, core.KindOf(err))

	// Copy the object, first as a whole and then a part of it.
	src, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.NoError(t, err)
	before = w.blockCount()
	copied, err := w.FS.Copy(ctx, vfs.CopyRequest{Source: src, Bucket: w.Bucket, Key: "copy"})
	require.NoError(t, err)
	all := md5.Sum(whole)
	require.Equal(t, hex.EncodeToString(all[:]), copied.ETag)
	require.Equal(t, o.Sums, copied.Sums)
	require.Equal(t, []any{0, src.List, before}, []any{copied.Parts, copied.List, w.blockCount()}, "the copy must have no parts, and content must not be copied")
	id = w.Upload("parts", core.UploadInfo{})
	p, err := w.FS.CopyPart(ctx, vfs.CopyPartRequest{Source: src, From: 1<<20 + 7, Length: 9 << 20, Bucket: w.Bucket, Key: "parts", Upload: id, Number: 1, Algorithms: []checksum.Algorithm{checksum.CRC64NVME}})
	require.NoError(t, err)
	run := whole[1<<20+7:][:9<<20]
	sum := md5.Sum(run)
	require.Equal(t, hex.EncodeToString(sum[:]), p.ETag)
	last := w.Part("parts", id, 2, []byte("tail"), checksum.CRC64NVME)
	_, err = w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "parts", Upload: id, Parts: []vfs.CompletedPart{{Number: 1, ETag: p.ETag}, last}, Size: -1})
	require.NoError(t, err)
	require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "k"}})[0].Err)
	w.RequireContent("copy", whole)
	w.RequireContent("parts", append(bytes.Clone(run), "tail"...))
}

func TestCompleteRefuses(t *testing.T) {
	w := newWorld(t)
	id := w.Upload("k", core.UploadInfo{Algorithm: checksum.SHA256, Composite: true})
	small := w.Part("k", id, 1, storetest.Filler(1, 100), checksum.SHA256)
	tail := w.Part("k", id, 2, storetest.Filler(2, 100), checksum.SHA256)
	complete := func(r vfs.CompleteRequest) core.Kind {
		r.Bucket, r.Key, r.Upload = w.Bucket, "k", id
		_, err := w.FS.CompleteUpload(ctx, r)
		require.Error(t, err)
		return core.KindOf(err)
	}
	require.Equal(t, core.TooSmall, complete(vfs.CompleteRequest{Parts: []vfs.CompletedPart{small, tail}, Size: -1}))
	require.Equal(t, core.InvalidPart, complete(vfs.CompleteRequest{Parts: []vfs.CompletedPart{{Number: 1, ETag: "x"}}, Size: -1}))
	require.Equal(t, core.InvalidPart, complete(vfs.CompleteRequest{Parts: []vfs.CompletedPart{{Number: 3, ETag: tail.ETag}}, Size: -1}))
	require.Equal(t, core.InvalidPart, complete(vfs.CompleteRequest{Size: -1,
		Parts: []vfs.CompletedPart{{Number: 1, ETag: small.ETag, Sums: []core.Checksum{{Algorithm: checksum.SHA256, Value: make([]byte, 32)}}}}}))
	require.Equal(t, core.InvalidArgument, complete(vfs.CompleteRequest{Parts: []vfs.CompletedPart{small}, Size: 99}))
	require.Equal(t, core.InvalidArgument, complete(vfs.CompleteRequest{Size: -1}))
	require.Equal(t, core.BadDigest, complete(vfs.CompleteRequest{Parts: []vfs.CompletedPart{small}, Size: -1,
		Sums: []core.Checksum{{Algorithm: checksum.SHA256, Composite: true, Value: make([]byte, 32)}}}))
	_, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.NoError(t, w.FS.AbortUpload(ctx, w.Bucket, "k", id))
	require.Equal(t, core.NoSuchUpload, core.KindOf(w.FS.AbortUpload(ctx, w.Bucket, "k", id)))
}

// TestLongPartLists reads ranges of an object whose parts take several pages and several index entries.
func TestLongPartLists(t *testing.T) {
	w := newWorld(t)
	w.Put("src", storetest.Filler(1, 5<<20))
	src, err := w.FS.Stat(ctx, w.Bucket, "src", core.Current)
	require.NoError(t, err)
	id := w.Upload("k", core.UploadInfo{})
	var parts []vfs.CompletedPart
	const n = 2600
	for i := range n {
		p, err := w.FS.CopyPart(ctx, vfs.CopyPartRequest{Source: src, Length: src.Size, Bucket: w.Bucket, Key: "k", Upload: id, Number: i*3 + 1})
		require.NoError(t, err)
		parts = append(parts, vfs.CompletedPart{Number: i*3 + 1, ETag: p.ETag})
	}
	o, err := w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "k", Upload: id, Parts: parts, Size: -1})
	require.NoError(t, err)
	require.Len(t, o.Index, (n-1)/core.IndexStride)
	body := storetest.Filler(1, 5<<20)
	for _, i := range []int64{0, 1, 255, 256, 257, 999, 1000, 1001, 2559, 2560, n - 2} {
		got, err := w.Read("k", i*5<<20+(5<<20-3), 6)
		require.NoError(t, err)
		require.Equal(t, append(bytes.Clone(body[5<<20-3:]), body[:3]...), got, "after part %d", i)
	}
}

package vfs_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/internal/checksum"
	"orcas/storetest"
	"orcas/vfs"
)

// TestManyAppends appends 1 KiB a thousand times. The number of written bytes must be bounded, and merged segments must
// not leak.
func TestManyAppends(t *testing.T) {
	counting := coretest.NewCountingBlocks(mem.NewBlocks())
	meta := mem.NewMeta()
	w := storetest.Open(t, storetest.Options{Blocks: counting, Meta: meta, FS: &content.Options{}})

	const n, size = 1000, 1 << 10
	body := storetest.Random(5, n*size)
	etag := md5.Sum(body[:size])
	w.Put("log", body[:size])
	counting.Reset()
	for i := 1; i < n; i++ {
		piece := body[i*size : (i+1)*size]
		o, err := w.Append("log", piece)
		require.NoError(t, err)
		sum := md5.Sum(piece)
		etag = md5.Sum(append(etag[:], sum[:]...))
		require.Equal(t, fmt.Sprintf("%s-%d", hex.EncodeToString(etag[:]), i+1), o.ETag)
		require.LessOrEqual(t, len(o.Segments), core.MaxInlineSegments)
		require.EqualValues(t, (i+1)*size, o.Size)
	}
	w.RequireContent("log", body)
	// Each byte of content is written 5.2 times on average; the rest is headers and records, about 1 KiB per append.
	require.Less(t, counting.Counts().Written, int64(7*n*size))
	data, err := coretest.ReadMeta(ctx, meta)
	require.NoError(t, err)
	require.LessOrEqual(t, len(data.Data), core.MaxInlineSegments, "merged segments still exist")
}

// TestAppends appends pieces of various sizes to objects of various kinds.
func TestAppends(t *testing.T) {
	for _, versioning := range []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended} {
		w := newWorld(t)
		var err error
		w.Bucket, err = w.FS.UpdateBucket(ctx, "bucket", func(b *core.BucketInfo) error { b.Versioning = versioning; return nil })
		require.NoError(t, err)
		bases := map[string][]byte{"empty": nil, "small": storetest.Random(1, 10), "large": storetest.Random(2, 700_000), "multipart": nil}
		for key, body := range bases {
			if key != "multipart" {
				w.Put(key, body)
			}
		}
		id := w.Upload("multipart", core.UploadInfo{Attrs: []core.Attr{{Name: "Content-Type", Value: "x/y"}}})
		parts := []vfs.CompletedPart{w.Part("multipart", id, 2, storetest.Random(3, 5<<20)), w.Part("multipart", id, 5, storetest.Random(4, 100))}
		_, err = w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "multipart", Upload: id, Parts: parts, Size: -1})
		require.NoError(t, err)
		bases["multipart"] = append(storetest.Random(3, 5<<20), storetest.Random(4, 100)...)
		for key, body := range bases {
			first, err := w.FS.Stat(ctx, w.Bucket, key, core.Current)
			require.NoError(t, err)
			want := bytes.Clone(body)
			for i, size := range []int{1, 100, 70_000, 300_000, 5, 5, 5, 66_000, 66_000, 5, 200_000, 1, 90_000, 400_000, 3, 3} {
				piece := storetest.Random(uint64(i), size)
				o, err := w.Append(key, piece)
				require.NoError(t, err, "%s %d", key, i)
				want = append(want, piece...)
				require.EqualValues(t, len(want), o.Size)
				require.LessOrEqual(t, len(o.Segments), core.MaxInlineSegments)
				require.Equal(t, first.Attrs, o.Attrs)
			}
			w.RequireContent(key, want)
			for off := int64(0); off < int64(len(want)); off += int64(len(want))/40 + 1 {
				n := min(3000, int64(len(want))-off)
				got, err := w.Read(key, off, n)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want[off:off+n], got), "%s at %d", key, off)
			}
			if versioning == core.VersioningEnabled {
				old, err := w.FS.Open(ctx, w.Bucket, key, first.Version())
				require.NoError(t, err)
				section, err := old.Range(ctx, 0, old.Info.Size)
				require.NoError(t, err)
				var got bytes.Buffer
				_, err = section.WriteTo(&got)
				require.NoError(t, err)
				require.True(t, bytes.Equal(body, got.Bytes()), "the previous version has changed")
				require.NoError(t, section.Close())
				old.Close()
			}
			// Copy a range that begins in the segment list and ends in the inline segments, as a part.
			src, err := w.FS.Stat(ctx, w.Bucket, key, core.Current)
			require.NoError(t, err)
			id := w.Upload("run", core.UploadInfo{})
			from := int64(len(body)) * 3 / 4
			p, err := w.FS.CopyPart(ctx, vfs.CopyPartRequest{Source: src, From: from, Length: src.Size - from, Bucket: w.Bucket, Key: "run", Upload: id, Number: 1})
			require.NoError(t, err)
			sum := md5.Sum(want[from:])
			require.Equal(t, hex.EncodeToString(sum[:]), p.ETag)
			_, err = w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "run", Upload: id, Parts: []vfs.CompletedPart{{Number: 1, ETag: p.ETag}}, Size: -1})
			require.NoError(t, err)
			w.RequireContent("run", want[from:])
		}
		state, err := coretest.ReadMeta(ctx, w.Meta)
		require.NoError(t, err)
		state.Check(t)
	}
}

func TestAppendRefuses(t *testing.T) {
	w := newWorld(t)
	base := w.Put("k", []byte("one"))
	_, err := w.Append("k", []byte("two"))
	require.NoError(t, err)
	request := vfs.AppendRequest{PutRequest: vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: w.Content([]byte("three"))}, Base: base}
	_, err = w.FS.Append(ctx, request)
	require.Equal(t, core.Conflict, core.KindOf(err), "Base is no longer the current version")
	w.RequireContent("k", []byte("onetwo"))

	full, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.NoError(t, err)
	full.ETag = full.ETag[:32] + "-10000"
	_, err = w.FS.Append(ctx, vfs.AppendRequest{PutRequest: vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: w.Content([]byte("three"))}, Base: full})
	require.Equal(t, core.TooLarge, core.KindOf(err))

	// If the segments must be merged, an append that fails with Conflict leaves no blocks behind.
	for range core.MaxInlineSegments {
		_, err := w.Append("k", storetest.Random(1, 70_000))
		require.NoError(t, err)
	}
	base, err = w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.NoError(t, err)
	w.Put("k", []byte("another"))
	blocks := w.blockCount()
	_, err = w.FS.Append(ctx, vfs.AppendRequest{PutRequest: vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: w.Content(storetest.Random(2, 70_000))}, Base: base})
	require.Equal(t, core.Conflict, core.KindOf(err))
	require.Equal(t, blocks, w.blockCount())
}

// TestOneAppender makes several concurrent appends to the same version: exactly one must succeed.
func TestOneAppender(t *testing.T) {
	w := newWorld(t)
	w.Put("k", []byte("0"))
	want := "0"
	for round := range 20 {
		base, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
		require.NoError(t, err)
		var wins sync.Map
		var wg sync.WaitGroup
		for i := range 8 {
			c := w.Content([]byte{byte('a' + i)})
			wg.Go(func() {
				_, err := w.FS.Append(ctx, vfs.AppendRequest{PutRequest: vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: c}, Base: base})
				if err == nil {
					wins.Store(i, true)
				} else if !core.Is(err, core.Conflict) {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
		winners := 0
		wins.Range(func(i, _ any) bool { winners++; want += string(rune('a' + i.(int))); return true })
		require.Equal(t, 1, winners)
		w.RequireContent("k", []byte(want))
	}
}

func TestFullSum(t *testing.T) {
	w := newWorld(t)
	body := append(storetest.Random(3, 5<<20), storetest.Random(4, 100)...)
	for _, alg := range []checksum.Algorithm{checksum.CRC32, checksum.SHA256} {
		id := w.Upload("k", core.UploadInfo{Algorithm: alg, Composite: true})
		parts := []vfs.CompletedPart{w.Part("k", id, 2, body[:5<<20], alg), w.Part("k", id, 5, body[5<<20:], alg)}
		o, err := w.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: w.Bucket, Key: "k", Upload: id, Parts: parts, Size: -1})
		require.NoError(t, err)
		require.True(t, o.Sums[0].Composite)
		got, err := w.FS.FullSum(ctx, o, nil)
		require.NoError(t, err)
		want := checksum.CRC32
		if alg == checksum.SHA256 {
			want = checksum.CRC64NVME // computed from the content
		}
		require.Equal(t, core.Checksum{Algorithm: want, Value: checksum.Sum(want, body)}, got)
	}
}

func TestMove(t *testing.T) {
	w := newWorld(t)
	other, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: "other", Versioning: core.VersioningEnabled})
	require.NoError(t, err)
	body := storetest.Random(1, 100_000)
	w.Put("k", body)
	src, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.NoError(t, err)
	blocks := w.blockCount()
	moved, err := w.FS.Move(ctx, vfs.MoveRequest{Source: src, Bucket: other, Key: "l", Token: "token"})
	require.NoError(t, err)
	require.Equal(t, blocks, w.blockCount())
	got, err := w.FS.Stat(ctx, other, "l", core.Current)
	require.NoError(t, err)
	require.Equal(t, got.Seq, moved.Seq)
	require.Equal(t, src.Modified, got.Modified)
	require.Empty(t, got.Attrs, "the token must not be visible")
	_, token, err := w.FS.MovedBy(ctx, other, "l")
	require.NoError(t, err)
	require.Equal(t, "token", token)
	_, err = w.FS.Move(ctx, vfs.MoveRequest{Source: src, Bucket: other, Key: "m"})
	require.Equal(t, core.Conflict, core.KindOf(err))
	_, token, err = w.FS.MovedBy(ctx, other, "none")
	require.NoError(t, err)
	require.Empty(t, token)
}

// TestAppendKeepsNewTags changes the tags of a version after an append has read them. Tags change in place, so the
// sequence of the version stays the same, but the append must still fail, or the new tags would be lost.
func TestAppendKeepsNewTags(t *testing.T) {
	w := newWorld(t)
	base := w.Put("k", storetest.Random(1, 100))
	tags := []core.Attr{{Name: "n", Value: "v"}}
	_, err := w.FS.Update(ctx, w.Bucket, core.UpdateObject{Key: "k", SetTags: true, Tags: tags})
	require.NoError(t, err)
	_, err = w.FS.Append(ctx, vfs.AppendRequest{PutRequest: vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: w.Content(storetest.Random(2, 10))}, Base: base})
	require.Equal(t, core.Conflict, core.KindOf(err))
	o, err := w.Append("k", storetest.Random(2, 10))
	require.NoError(t, err)
	require.Equal(t, tags, o.Tags)
}

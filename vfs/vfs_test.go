package vfs_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/storetest"
	"orcas/vfs"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

// world is the store of a test.
type world struct{ *storetest.Store }

func newWorld(t *testing.T) *world { return worldOver(t, mem.NewBlocks()) }

func worldOver(t *testing.T, blocks core.Blocks) *world {
	return &world{storetest.Open(t, storetest.Options{Blocks: blocks})}
}

var sizes = []int{
	0, 1, 4096, 65535, 65536, 65537, frame.MaxPlain, frame.MaxPlain + 1, 4<<20 - 1, 4 << 20, 4<<20 + 1, 9<<20 + 12345,
}

func TestPutAndReadBack(t *testing.T) {
	w := newWorld(t)
	for _, size := range sizes {
		body := storetest.Filler(uint64(size), size)
		o := w.Put("k", body)
		sum := md5.Sum(body)
		require.Equal(t, hex.EncodeToString(sum[:]), o.ETag)
		require.EqualValues(t, size, o.Size)
		w.RequireContent("k", body)
		stat, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
		require.NoError(t, err)
		require.Equal(t, o.Seq, stat.Seq)
		require.Equal(t, o.Version(), stat.Version())
	}
}

func TestRanges(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range sizes {
		body := storetest.Filler(uint64(size), size)
		w.Put("k", body)
		for range 30 {
			off := r.Int64N(int64(size) + 1)
			n := r.Int64N(int64(size) - off + 1)
			got, err := w.Read("k", off, n)
			require.NoError(t, err)
			require.True(t, bytes.Equal(body[off:off+n], got), "%d bytes from %d of %d", n, off, size)
		}
		for _, bad := range [][2]int64{{-1, 1}, {int64(size) + 1, 0}, {0, int64(size) + 1}, {0, 1 << 62}} {
			if bad[1] >= 0 {
				o, err := w.FS.Open(ctx, w.Bucket, "k", core.Current)
				require.NoError(t, err)
				_, err = o.Range(ctx, bad[0], bad[1])
				require.Equal(t, core.InvalidArgument, core.KindOf(err))
			}
		}
	}
}

func (w *world) blockCount() (n int) {
	require.NoError(w.T, w.Blocks.Walk(ctx, core.BlockID{}, func(core.BlockInfo) error { n++; return nil }))
	return n
}

// TestFailedConditionsLeaveNoBlock checks that a Put whose precondition fails deletes the block of its content.
func TestFailedConditionsLeaveNoBlock(t *testing.T) {
	w := newWorld(t)
	first := w.Put("k", storetest.Filler(1, 100_000))
	blocks := w.blockCount()
	for _, cond := range []core.Precondition{{NoneMatch: []string{"*"}}, {Match: []string{"x"}}, {NoneMatch: []string{first.ETag}}} {
		_, err := w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: w.Content(storetest.Filler(2, 100_000)), If: cond})
		require.Equal(t, core.PreconditionFailed, core.KindOf(err))
	}
	_, err := w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: "none", Content: w.Content(storetest.Filler(2, 100_000)), If: core.Precondition{Match: []string{"*"}}})
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.Equal(t, blocks, w.blockCount(), "a failed Put left a block behind")
	w.RequireContent("k", storetest.Filler(1, 100_000))
}

func TestOneWinner(t *testing.T) {
	w := newWorld(t)
	for round := range 20 {
		key := fmt.Sprint(round)
		var wg sync.WaitGroup
		won := make(chan int, 64)
		for i := range 64 {
			c := w.Content([]byte(fmt.Sprint(i)))
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: key, Content: c, If: core.Precondition{NoneMatch: []string{"*"}}})
				if err == nil {
					won <- i
				} else if !core.Is(err, core.PreconditionFailed) {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
		require.Len(t, won, 1)
		w.RequireContent(key, []byte(fmt.Sprint(<-won)))
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	w.Put("a", []byte("1"))
	w.Put("b", []byte("2"))
	res := w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "a"}, {Key: "none"}, {Key: "b", If: core.Precondition{Match: []string{"x"}}}})
	require.NoError(t, res[0].Err)
	require.NoError(t, res[1].Err)
	require.Equal(t, core.PreconditionFailed, core.KindOf(res[2].Err))
	_, err := w.FS.Stat(ctx, w.Bucket, "a", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.Equal(t, core.BucketNotEmpty, core.KindOf(w.FS.DeleteBucket(ctx, w.Bucket)))
	require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "b"}})[0].Err)
	require.NoError(t, w.FS.DeleteBucket(ctx, w.Bucket))
}

// TestDeleteBucketWithUploads checks that uploads do not prevent the deletion of a bucket, and that a bucket that
// cannot be deleted keeps its uploads.
func TestDeleteBucketWithUploads(t *testing.T) {
	w := newWorld(t)
	w.Put("a", []byte("1"))
	for range 3 {
		_, err := w.FS.CreateUpload(ctx, w.Bucket, core.UploadInfo{Bucket: w.Bucket.ID, Key: "u"})
		require.NoError(t, err)
	}
	require.Equal(t, core.BucketNotEmpty, core.KindOf(w.FS.DeleteBucket(ctx, w.Bucket)))
	page, err := w.FS.List(ctx, core.ListQuery{Kind: core.ListUploads, Bucket: w.Bucket.ID, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Uploads, 3)
	require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "a"}})[0].Err)
	require.NoError(t, w.FS.DeleteBucket(ctx, w.Bucket))
	_, err = w.FS.Bucket(ctx, "bucket")
	require.Equal(t, core.NoSuchBucket, core.KindOf(err))
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	versioned, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: "versioned", Versioning: core.VersioningEnabled})
	require.NoError(t, err)
	w.Bucket = versioned
	v1, v2 := w.Put("k", []byte("one")), w.Put("k", []byte("two"))
	res := w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "k"}})
	require.NoError(t, res[0].Err)
	require.True(t, res[0].Marker)
	info, err := w.FS.Stat(ctx, w.Bucket, "k", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.True(t, info.Marker)
	info, err = w.FS.Stat(ctx, w.Bucket, "k", res[0].Version)
	require.Equal(t, core.MethodNotAllowed, core.KindOf(err))
	require.True(t, info.Marker)
	for _, v := range []*core.ObjectInfo{v1, v2} {
		got, err := w.FS.Stat(ctx, w.Bucket, "k", v.Version())
		require.NoError(t, err)
		require.Equal(t, v.ETag, got.ETag)
	}
	require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "k", Version: res[0].Version}})[0].Err)
	w.RequireContent("k", []byte("two"))
}

func TestCopySharesContent(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{0, 100, 700_000} {
		body := storetest.Filler(uint64(size), size)
		w.Put("src", body)
		before := w.blockCount()
		src, err := w.FS.Stat(ctx, w.Bucket, "src", core.Current)
		require.NoError(t, err)
		o, err := w.FS.Copy(ctx, vfs.CopyRequest{Source: src, Bucket: w.Bucket, Key: "dst", Attrs: []core.Attr{{Name: "a", Value: "b"}}})
		require.NoError(t, err)
		require.Equal(t, src.ETag, o.ETag)
		require.Equal(t, before, w.blockCount())
		require.NoError(t, w.FS.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "src"}})[0].Err)
		w.RequireContent("dst", body)
		_, err = w.FS.Copy(ctx, vfs.CopyRequest{Source: src, Bucket: w.Bucket, Key: "late"})
		require.Equal(t, core.Conflict, core.KindOf(err), "the source was deleted")
	}
}

// TestManyWriters writes objects of random sizes from many goroutines, and reads everything back. It would detect two
// objects that were written to the same place.
func TestManyWriters(t *testing.T) {
	w := newWorld(t)
	const writers, each = 64, 30
	var wg sync.WaitGroup
	for g := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range each {
				body := storetest.Filler(uint64(g*each+i), r.IntN(70_000))
				c, err := w.FS.NewContent(ctx, w.Bucket, int64(len(body)))
				if err == nil {
					_, err = c.ReadFrom(bytes.NewReader(body))
				}
				if err == nil {
					_, err = w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: fmt.Sprintf("%d/%d", g, i), Content: c})
				}
				if err != nil {
					t.Error(err)
				}
				c.Discard()
			}
		}()
	}
	wg.Wait()
	for g := range writers {
		r := rand.New(rand.NewPCG(uint64(g), 1))
		for i := range each {
			w.RequireContent(fmt.Sprintf("%d/%d", g, i), storetest.Filler(uint64(g*each+i), r.IntN(70_000)))
		}
	}
}

type fixedSpace struct {
	core.Blocks
	free int64
}

func (s *fixedSpace) Unwrap() core.Blocks { return s.Blocks }

func (s *fixedSpace) Space(context.Context) (int64, int64, error) { return s.free, 1000, nil }

func TestReserve(t *testing.T) {
	w := newWorld(t)
	s := &fixedSpace{w.Blocks, 100}
	writer, err := batch.Open(ctx, batch.Options{Meta: w.Meta, Blocks: s})
	require.NoError(t, err)
	defer writer.Close()
	fs, err := storetest.NewFS(content.Options{Meta: w.Meta, Blocks: s, Writer: writer, Reserve: func(total int64) int64 { return total / 20 }})
	require.NoError(t, err)
	_, err = fs.NewContent(ctx, w.Bucket, 51)
	require.Equal(t, core.NoSpace, core.KindOf(err))
	c, err := fs.NewContent(ctx, w.Bucket, 50)
	require.NoError(t, err)
	c.Discard()
	s.free = 49
	require.NoError(t, fs.Delete(ctx, w.Bucket, "", []vfs.DeleteRequest{{Key: "k"}})[0].Err)
}

func TestUpdateBucketAndDocuments(t *testing.T) {
	w := newWorld(t)
	b := w.Bucket
	done := make(chan error, 20)
	for i := range cap(done) { // concurrent updates must not undo each other
		go func() {
			_, err := w.FS.UpdateBucket(t.Context(), "bucket", func(info *core.BucketInfo) error {
				info.Attrs = append(info.Attrs, core.Attr{Name: fmt.Sprint(i)})
				return nil
			})
			done <- err
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	info, err := w.FS.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	require.Len(t, info.Attrs, cap(done))

	value, err := w.FS.Document(t.Context(), b, "cors")
	require.NoError(t, err)
	require.Nil(t, value)
	require.NoError(t, w.FS.PutDocument(t.Context(), b, "cors", []byte("one")))
	require.NoError(t, w.FS.PutDocument(t.Context(), b, "tagging", []byte("two")))
	value, err = w.FS.Document(t.Context(), b, "cors")
	require.NoError(t, err)
	require.Equal(t, "one", string(value))
	require.NoError(t, w.FS.PutDocument(t.Context(), b, "cors", nil))
	value, err = w.FS.Document(t.Context(), b, "cors")
	require.NoError(t, err)
	require.Nil(t, value)
	require.Error(t, w.FS.PutDocument(t.Context(), b, "cors", []byte{}))
}

// TestDocumentsDoNotOutliveTheirBucket writes a document while its bucket is being deleted. Either the document is
// written first and deleted with the bucket, or the write fails. Otherwise the document would never be deleted.
func TestDocumentsDoNotOutliveTheirBucket(t *testing.T) {
	w := newWorld(t)
	for range 200 {
		b, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: "short-lived"})
		require.NoError(t, err)
		put := make(chan error)
		go func() { put <- w.FS.PutDocument(ctx, b, "cors", []byte("x")) }()
		require.NoError(t, w.FS.DeleteBucket(ctx, b))
		if err := <-put; err != nil {
			require.Equal(t, core.NoSuchBucket, core.KindOf(err))
		}
		left, err := w.Meta.Records(ctx, core.BucketRecordKind(b.ID), "", 1)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	old, err := w.FS.CreateBucket(ctx, core.BucketInfo{Name: "again"})
	require.NoError(t, err)
	require.NoError(t, w.FS.DeleteBucket(ctx, old))
	_, err = w.FS.CreateBucket(ctx, core.BucketInfo{Name: "again"})
	require.NoError(t, err)
	require.Equal(t, core.NoSuchBucket, core.KindOf(w.FS.PutDocument(ctx, old, "cors", []byte("x"))))
	require.Equal(t, core.NoSuchBucket, core.KindOf(w.FS.DeleteBucket(ctx, old)))
	_, err = w.FS.Bucket(ctx, "again")
	require.NoError(t, err)
}

package vfs_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/internal/checksum"
	"orcas/vfs"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/orca-zhang/ecache.init.0.func1"))
}

var ctx = context.Background()

type world struct {
	t      *testing.T
	fs     *vfs.FS
	blocks *mem.Blocks
	meta   *mem.Meta
	b      *core.BucketInfo
}

func newWorld(t *testing.T) *world {
	blocks := mem.NewBlocks()
	w := worldOver(t, blocks)
	w.blocks = blocks
	return w
}

func worldOver(t *testing.T, blocks core.Blocks) *world {
	return worldWith(t, blocks, func(*vfs.Options) {})
}

func worldWith(t *testing.T, blocks core.Blocks, set func(*vfs.Options)) *world {
	w := &world{t: t, meta: mem.NewMeta()}
	writer, err := batch.Open(ctx, batch.Options{Meta: w.meta, Blocks: blocks})
	require.NoError(t, err)
	t.Cleanup(func() { writer.Close() })
	o := vfs.Options{Meta: w.meta, Blocks: blocks, Writer: writer, Compression: compression(), Instant: true}
	encrypted(&o)
	set(&o)
	w.fs, err = vfs.New(o)
	require.NoError(t, err)
	w.b, err = w.fs.CreateBucket(ctx, core.BucketInfo{Name: "bucket"})
	require.NoError(t, err)
	return w
}

// compression is what all stores of this package's tests do: ORCAS_TEST_COMPRESSION runs them with it.
func compression() codec.Level {
	l, err := codec.ParseLevel(cmp.Or(os.Getenv("ORCAS_TEST_COMPRESSION"), "off"))
	if err != nil {
		panic(err)
	}
	return l
}

// encrypted makes all stores of this package's tests encrypt everything, where ORCAS_TEST_ENCRYPTION is set.
func encrypted(o *vfs.Options) {
	if os.Getenv("ORCAS_TEST_ENCRYPTION") == "" {
		return
	}
	var err error
	if o.Keys, err = codec.ParseKeys(strings.Repeat("e5", 32)); err != nil {
		panic(err)
	}
	o.EncryptAll = true
}

// needsPlain skips a test that knows how content is stored which nobody encrypts.
func needsPlain(t *testing.T) {
	if os.Getenv("ORCAS_TEST_ENCRYPTION") != "" {
		t.Skip("everything is encrypted")
	}
}

// random makes n bytes that do not repeat, and do not shrink.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

// filler makes n bytes that do not repeat, and do shrink where the tests run with compression.
func filler(seed uint64, n int) []byte {
	b := random(seed, n)
	if compression() > codec.Off {
		for i := range b {
			b[i] = 'a' + b[i]%5
		}
	}
	return b
}

func (w *world) content(body []byte, algs ...checksum.Algorithm) *vfs.Content {
	w.t.Helper()
	c, err := w.fs.NewContent(ctx, w.b, int64(len(body)), algs...)
	require.NoError(w.t, err)
	w.t.Cleanup(c.Discard)
	n, err := c.ReadFrom(bytes.NewReader(body))
	require.NoError(w.t, err)
	require.EqualValues(w.t, len(body), n)
	return c
}

func (w *world) put(key string, body []byte) *core.ObjectInfo {
	w.t.Helper()
	o, err := w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: key, Content: w.content(body)})
	require.NoError(w.t, err)
	return o
}

func (w *world) read(key string, off, n int64) ([]byte, error) {
	o, err := w.fs.Open(ctx, w.b, key, core.Current)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if n < 0 {
		n = o.Info.Size
	}
	s, err := o.Range(ctx, off, n)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var out bytes.Buffer
	_, err = s.WriteTo(&out)
	return out.Bytes(), err
}

func (w *world) requireContent(key string, want []byte) {
	w.t.Helper()
	got, err := w.read(key, 0, -1)
	require.NoError(w.t, err)
	require.True(w.t, bytes.Equal(want, got), "content of %q", key)
}

var sizes = []int{0, 1, 4096, 65535, 65536, 65537, frame.MaxPlain, frame.MaxPlain + 1, 4<<20 - 1, 4 << 20, 4<<20 + 1, 9<<20 + 12345}

func TestPutAndReadBack(t *testing.T) {
	w := newWorld(t)
	for _, size := range sizes {
		body := filler(uint64(size), size)
		o := w.put("k", body)
		sum := md5.Sum(body)
		require.Equal(t, hex.EncodeToString(sum[:]), o.ETag)
		require.EqualValues(t, size, o.Size)
		w.requireContent("k", body)
		stat, err := w.fs.Stat(ctx, w.b, "k", core.Current)
		require.NoError(t, err)
		require.Equal(t, o.Seq, stat.Seq)
		require.Equal(t, o.Version(), stat.Version())
	}
}

func TestSums(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{0, 100, 300_000} {
		body := filler(1, size)
		c := w.content(body, checksum.CRC32, checksum.CRC64NVME, checksum.SHA256)
		for _, a := range []checksum.Algorithm{checksum.MD5, checksum.SHA256, checksum.CRC32, checksum.CRC64NVME} {
			require.Equal(t, checksum.Sum(a, body), c.Sum(a), a)
		}
		require.Nil(t, c.Sum(checksum.SHA1))
	}
}

func TestRanges(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(3, 4))
	for _, size := range sizes {
		body := filler(uint64(size), size)
		w.put("k", body)
		for range 30 {
			off := r.Int64N(int64(size) + 1)
			n := r.Int64N(int64(size) - off + 1)
			got, err := w.read("k", off, n)
			require.NoError(t, err)
			require.True(t, bytes.Equal(body[off:off+n], got), "%d bytes from %d of %d", n, off, size)
		}
		for _, bad := range [][2]int64{{-1, 1}, {int64(size) + 1, 0}, {0, int64(size) + 1}, {0, 1 << 62}} {
			if bad[1] >= 0 {
				o, err := w.fs.Open(ctx, w.b, "k", core.Current)
				require.NoError(t, err)
				_, err = o.Range(ctx, bad[0], bad[1])
				require.Equal(t, core.InvalidArgument, core.KindOf(err))
			}
		}
	}
}

func TestBodiesOfTheWrongLength(t *testing.T) {
	w := newWorld(t)
	w.put("k", []byte("before"))
	for _, size := range []int{10, 100_000, 600_000} {
		body := filler(1, size)
		for _, n := range []int{0, 1, size / 2, size - 1} {
			c, err := w.fs.NewContent(ctx, w.b, int64(size))
			require.NoError(t, err)
			_, err = c.ReadFrom(bytes.NewReader(body[:n]))
			require.Equal(t, core.Incomplete, core.KindOf(err))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			c.Discard()
		}
		c, err := w.fs.NewContent(ctx, w.b, int64(size-1))
		require.NoError(t, err)
		_, err = c.ReadFrom(bytes.NewReader(body))
		require.Equal(t, core.TooLarge, core.KindOf(err))
		c.Discard()
		c, err = w.fs.NewContent(ctx, w.b, int64(size))
		require.NoError(t, err)
		mine := errors.New("mine")
		_, err = c.ReadFrom(io.MultiReader(bytes.NewReader(body), &failing{mine})) // a body that fails where it should end
		require.Equal(t, mine, err)
		c.Discard()
	}
	w.requireContent("k", []byte("before"))
	require.Equal(t, 1, w.blockCount())
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

func (w *world) blockCount() (n int) {
	require.NoError(w.t, w.blocks.Walk(ctx, core.BlockID{}, func(core.BlockInfo) error { n++; return nil }))
	return n
}

func TestConditionsAndTheLosersBlock(t *testing.T) {
	w := newWorld(t)
	first := w.put("k", filler(1, 100_000))
	blocks := w.blockCount()
	for _, cond := range []core.Precondition{{NoneMatch: []string{"*"}}, {Match: []string{"x"}}, {NoneMatch: []string{first.ETag}}} {
		_, err := w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: "k", Content: w.content(filler(2, 100_000)), If: cond})
		require.Equal(t, core.PreconditionFailed, core.KindOf(err))
	}
	_, err := w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: "none", Content: w.content(filler(2, 100_000)), If: core.Precondition{Match: []string{"*"}}})
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.Equal(t, blocks, w.blockCount(), "the losers' content is gone")
	w.requireContent("k", filler(1, 100_000))
}

func TestOneWinner(t *testing.T) {
	w := newWorld(t)
	for round := range 20 {
		key := fmt.Sprint(round)
		var wg sync.WaitGroup
		won := make(chan int, 64)
		for i := range 64 {
			c := w.content([]byte(fmt.Sprint(i)))
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: key, Content: c, If: core.Precondition{NoneMatch: []string{"*"}}})
				if err == nil {
					won <- i
				} else if !core.Is(err, core.PreconditionFailed) {
					t.Error(err)
				}
			}()
		}
		wg.Wait()
		require.Len(t, won, 1)
		w.requireContent(key, []byte(fmt.Sprint(<-won)))
	}
}

func TestDelete(t *testing.T) {
	w := newWorld(t)
	w.put("a", []byte("1"))
	w.put("b", []byte("2"))
	res := w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "a"}, {Key: "none"}, {Key: "b", If: core.Precondition{Match: []string{"x"}}}})
	require.NoError(t, res[0].Err)
	require.NoError(t, res[1].Err)
	require.Equal(t, core.PreconditionFailed, core.KindOf(res[2].Err))
	_, err := w.fs.Stat(ctx, w.b, "a", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.Equal(t, core.BucketNotEmpty, core.KindOf(w.fs.DeleteBucket(ctx, w.b)))
	require.NoError(t, w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "b"}})[0].Err)
	require.NoError(t, w.fs.DeleteBucket(ctx, w.b))
}

// TestDeleteBucketWithUploads: uploads keep no bucket, and a bucket that stays keeps its uploads.
func TestDeleteBucketWithUploads(t *testing.T) {
	w := newWorld(t)
	w.put("a", []byte("1"))
	for range 3 {
		_, err := w.fs.CreateUpload(ctx, w.b, core.UploadInfo{Bucket: w.b.ID, Key: "u"})
		require.NoError(t, err)
	}
	require.Equal(t, core.BucketNotEmpty, core.KindOf(w.fs.DeleteBucket(ctx, w.b)))
	page, err := w.fs.List(ctx, core.ListQuery{Kind: core.ListUploads, Bucket: w.b.ID, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Uploads, 3)
	require.NoError(t, w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "a"}})[0].Err)
	require.NoError(t, w.fs.DeleteBucket(ctx, w.b))
	_, err = w.fs.Bucket(ctx, "bucket")
	require.Equal(t, core.NoSuchBucket, core.KindOf(err))
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	versioned, err := w.fs.CreateBucket(ctx, core.BucketInfo{Name: "versioned", Versioning: core.VersioningEnabled})
	require.NoError(t, err)
	w.b = versioned
	v1, v2 := w.put("k", []byte("one")), w.put("k", []byte("two"))
	res := w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "k"}})
	require.NoError(t, res[0].Err)
	require.True(t, res[0].Marker)
	info, err := w.fs.Stat(ctx, w.b, "k", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
	require.True(t, info.Marker)
	info, err = w.fs.Stat(ctx, w.b, "k", res[0].Version)
	require.Equal(t, core.MethodNotAllowed, core.KindOf(err))
	require.True(t, info.Marker)
	for _, v := range []*core.ObjectInfo{v1, v2} {
		got, err := w.fs.Stat(ctx, w.b, "k", v.Version())
		require.NoError(t, err)
		require.Equal(t, v.ETag, got.ETag)
	}
	require.NoError(t, w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "k", Version: res[0].Version}})[0].Err)
	w.requireContent("k", []byte("two"))
}

func TestCopySharesContent(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{0, 100, 700_000} {
		body := filler(uint64(size), size)
		w.put("src", body)
		before := w.blockCount()
		src, err := w.fs.Stat(ctx, w.b, "src", core.Current)
		require.NoError(t, err)
		o, err := w.fs.Copy(ctx, vfs.CopyRequest{Source: src, Bucket: w.b, Key: "dst", Attrs: []core.Attr{{Name: "a", Value: "b"}}})
		require.NoError(t, err)
		require.Equal(t, src.ETag, o.ETag)
		require.Equal(t, before, w.blockCount())
		require.NoError(t, w.fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "src"}})[0].Err)
		w.requireContent("dst", body)
		_, err = w.fs.Copy(ctx, vfs.CopyRequest{Source: src, Bucket: w.b, Key: "late"})
		require.Equal(t, core.Conflict, core.KindOf(err), "the source is gone")
	}
}

// TestEveryBitOfAPackedBlock flips each bit of a block in turn: the object it belongs to says so or reads right, the others are served.
func TestEveryBitOfAPackedBlock(t *testing.T) {
	needsPlain(t)
	w := newWorld(t)
	contents := map[string][]byte{}
	for i := range 6 {
		key := fmt.Sprint(i)
		contents[key] = random(uint64(i), 50+i*40)
		w.put(key, contents[key])
	}
	flipped := &flipping{Blocks: w.blocks}
	writer, err := batch.Open(ctx, batch.Options{Meta: w.meta, Blocks: flipped})
	require.NoError(t, err)
	defer writer.Close()
	options := vfs.Options{Meta: w.meta, Blocks: flipped, Writer: writer, Compression: compression()}
	encrypted(&options)
	w.fs, err = vfs.New(options)
	require.NoError(t, err)
	o, err := w.meta.Object(ctx, w.b.ID, "0", core.Current)
	require.NoError(t, err)
	flipped.block = o.Segments[0].Info.Extents[0].Block
	var size int64
	require.NoError(t, w.blocks.Walk(ctx, flipped.block, func(i core.BlockInfo) error {
		if i.ID == flipped.block {
			size = i.Size
		}
		return nil
	}))
	found := 0
	for bit := range size * 8 {
		flipped.at, flipped.flip = bit/8, 1<<(bit%8)
		bad := 0
		for key, want := range contents {
			got, err := w.read(key, 0, -1)
			if err != nil {
				require.Equal(t, core.Damaged, core.KindOf(err))
				bad++
				continue
			}
			require.Equal(t, want, got, "bit %d", bit)
		}
		require.LessOrEqual(t, bad, 1, "bit %d", bit)
		found += bad
	}
	stored := 0
	for _, c := range contents {
		stored += len(c) + frame.HeaderSize
	}
	require.Equal(t, stored*8, found, "each bit of each frame is noticed")
}

// flipping is Blocks with one byte changed.
type flipping struct {
	core.Blocks
	block core.BlockID
	at    int64
	flip  byte
}

func (f *flipping) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := f.Blocks.Open(ctx, e)
	return &flippingReader{r, f, e}, err
}

type flippingReader struct {
	core.BlockReader
	f *flipping
	e core.Extent
}

func (r *flippingReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.BlockReader.ReadAt(p, off)
	if i := r.f.at - r.e.Offset - off; r.e.Block == r.f.block && i >= 0 && i < int64(n) {
		p[i] ^= r.f.flip
	}
	return n, err
}

// TestManyWriters writes random sizes from many goroutines and reads everything back: what finds two objects in the same bytes.
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
				body := filler(uint64(g*each+i), r.IntN(70_000))
				c, err := w.fs.NewContent(ctx, w.b, int64(len(body)))
				if err == nil {
					_, err = c.ReadFrom(bytes.NewReader(body))
				}
				if err == nil {
					_, err = w.fs.Put(ctx, vfs.PutRequest{Bucket: w.b, Key: fmt.Sprintf("%d/%d", g, i), Content: c})
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
			w.requireContent(fmt.Sprintf("%d/%d", g, i), filler(uint64(g*each+i), r.IntN(70_000)))
		}
	}
}

type fixedSpace struct {
	core.Blocks
	free int64
}

func (s *fixedSpace) Space(context.Context) (int64, int64, error) { return s.free, 1000, nil }

func TestReserve(t *testing.T) {
	w := newWorld(t)
	s := &fixedSpace{w.blocks, 100}
	writer, err := batch.Open(ctx, batch.Options{Meta: w.meta, Blocks: s})
	require.NoError(t, err)
	defer writer.Close()
	fs, err := vfs.New(vfs.Options{Meta: w.meta, Blocks: s, Writer: writer, Reserve: func(total int64) int64 { return total / 20 }})
	require.NoError(t, err)
	_, err = fs.NewContent(ctx, w.b, 51)
	require.Equal(t, core.NoSpace, core.KindOf(err))
	c, err := fs.NewContent(ctx, w.b, 50)
	require.NoError(t, err)
	c.Discard()
	s.free = 49
	require.NoError(t, fs.Delete(ctx, w.b, "", []vfs.DeleteRequest{{Key: "k"}})[0].Err)
}

func TestUpdateBucketAndDocuments(t *testing.T) {
	w := newWorld(t)
	b := w.b
	done := make(chan error, 20)
	for i := range cap(done) { // none undoes another
		go func() {
			_, err := w.fs.UpdateBucket(t.Context(), "bucket", func(info *core.BucketInfo) error {
				info.Attrs = append(info.Attrs, core.Attr{Name: fmt.Sprint(i)})
				return nil
			})
			done <- err
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	info, err := w.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	require.Len(t, info.Attrs, cap(done))

	value, err := w.fs.Document(t.Context(), b, "cors")
	require.NoError(t, err)
	require.Nil(t, value)
	require.NoError(t, w.fs.PutDocument(t.Context(), b, "cors", []byte("one")))
	require.NoError(t, w.fs.PutDocument(t.Context(), b, "tagging", []byte("two")))
	value, err = w.fs.Document(t.Context(), b, "cors")
	require.NoError(t, err)
	require.Equal(t, "one", string(value))
	require.NoError(t, w.fs.PutDocument(t.Context(), b, "cors", nil))
	value, err = w.fs.Document(t.Context(), b, "cors")
	require.NoError(t, err)
	require.Nil(t, value)
	require.Error(t, w.fs.PutDocument(t.Context(), b, "cors", []byte{}))
}

// A document and the end of its bucket, at once: either the document came first and went with the bucket, or it is refused. One that was
// written afterwards would stay for ever.
func TestADocumentNeverOutlivesItsBucket(t *testing.T) {
	w := newWorld(t)
	for range 200 {
		b, err := w.fs.CreateBucket(ctx, core.BucketInfo{Name: "short-lived"})
		require.NoError(t, err)
		put := make(chan error)
		go func() { put <- w.fs.PutDocument(ctx, b, "cors", []byte("x")) }()
		require.NoError(t, w.fs.DeleteBucket(ctx, b))
		if err := <-put; err != nil {
			require.Equal(t, core.NoSuchBucket, core.KindOf(err))
		}
		left, err := w.meta.Records(ctx, core.BucketRecordKind(b.ID), "", 1)
		require.NoError(t, err)
		require.Empty(t, left)
	}
	old, err := w.fs.CreateBucket(ctx, core.BucketInfo{Name: "again"})
	require.NoError(t, err)
	require.NoError(t, w.fs.DeleteBucket(ctx, old))
	_, err = w.fs.CreateBucket(ctx, core.BucketInfo{Name: "again"})
	require.NoError(t, err)
	require.Equal(t, core.NoSuchBucket, core.KindOf(w.fs.PutDocument(ctx, old, "cors", []byte("x"))))
	require.Equal(t, core.NoSuchBucket, core.KindOf(w.fs.DeleteBucket(ctx, old)))
	_, err = w.fs.Bucket(ctx, "again")
	require.NoError(t, err)
}

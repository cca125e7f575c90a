package vfs_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/core/reclaim"
	"orcas/internal/checksum"
	"orcas/vfs"
)

// finding is metadata in which something happens between finding equal content and what is done with it.
type finding struct {
	reclaim.Meta
	found func()
	err   error // nothing is found, for this reason
	blind bool  // nothing is guessed
	looks int   // calls of FindData
}

// FindData implements core.Meta.
func (f *finding) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	f.looks++
	if f.err != nil {
		return nil, f.err
	}
	d, err := f.Meta.FindData(ctx, k)
	if err == nil {
		f.happen()
	}
	return d, err
}

// GuessData implements core.Meta.
func (f *finding) GuessData(k core.ContentKey) core.DataID {
	if f.err != nil || f.blind {
		return 0
	}
	guess := f.Meta.GuessData(k)
	if guess != 0 {
		f.happen()
	}
	return guess
}

func (f *finding) happen() {
	if then := f.found; then != nil {
		f.found = nil
		then()
	}
}

// desk is a yard that counts what is written.
type desk struct {
	*yard
	counts *coretest.CountingBlocks
	meta   *finding
}

func newDesk(t *testing.T) *desk {
	d := &desk{counts: coretest.NewCountingBlocks(mem.NewBlocks()), meta: &finding{Meta: mem.NewMeta()}}
	d.yard = newYard(t, d.counts, d.meta, reclaim.Options{})
	t.Cleanup(func() { d.writer.Close() })
	return d
}

// written returns the bytes that fn had written into blocks.
func (d *desk) written(fn func()) int64 {
	d.counts.Reset()
	fn()
	return d.counts.Counts().Written
}

func (d *desk) dataOf(key string) *core.DataInfo {
	o, err := d.fs.Stat(ctx, d.b, key, core.Current)
	require.NoError(d.t, err)
	require.Len(d.t, o.Segments, 1)
	found, err := d.meta.Data(ctx, []core.DataID{o.Segments[0].Data})
	require.NoError(d.t, err)
	require.Len(d.t, found, 1)
	return &found[0]
}

var instantSizes = []int{1, 4096, 65_536, 65_537, 5<<20 + 1}

// Content that is there is not written again: a record is, of some hundred bytes.
func TestEqualContentIsStoredOnce(t *testing.T) {
	const record = 1024
	d := newDesk(t)
	for _, size := range instantSizes {
		body := random(uint64(size), size)
		first := d.written(func() { d.put(fmt.Sprint("first", size), body) })
		require.Greater(t, first, int64(size))
		large, before := size > 64<<10, d.blockBytes()
		second := d.written(func() { d.put(fmt.Sprint("second", size), body) })
		if !large {
			require.Less(t, second, int64(record), "bytes written for a duplicate of %d", size)
		} else {
			for d.blockBytes() != before { // what was spilled goes, if not at once
				runtime.Gosched()
			}
		}
		require.Equal(t, d.dataOf(fmt.Sprint("first", size)).ID, d.dataOf(fmt.Sprint("second", size)).ID)
		require.EqualValues(t, 2, d.dataOf(fmt.Sprint("first", size)).Refs)
		for _, key := range []string{"first", "second"} {
			d.requireContent(fmt.Sprint(key, size), body)
		}
		d.put(fmt.Sprint("first", size), random(99, 10))
		d.requireContent(fmt.Sprint("second", size), body)
		require.EqualValues(t, 1, d.dataOf(fmt.Sprint("second", size)).Refs)
	}
	d.checkMeta()
}

// blockBytes returns how large all blocks of large content are together.
func (d *desk) blockBytes() (n int64) {
	require.NoError(d.t, d.blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Large {
			n += b.Size
		}
		return nil
	}))
	return n
}

func (d *desk) checkMeta() {
	s, err := coretest.ReadMeta(ctx, d.meta)
	require.NoError(d.t, err)
	s.Check(d.t)
}

func TestPartsShare(t *testing.T) {
	d := newDesk(t)
	body := random(1, 5<<20)
	d.put("object", body)
	u, err := d.fs.CreateUpload(ctx, d.b, core.UploadInfo{Bucket: d.b.ID, Key: "m"})
	require.NoError(t, err)
	var parts []vfs.CompletedPart
	for n := 1; n <= 3; n++ {
		p, err := d.fs.PutPart(ctx, vfs.PartRequest{Bucket: d.b, Key: "m", Upload: u.ID, Number: n, Content: d.content(body)})
		require.NoError(t, err)
		parts = append(parts, vfs.CompletedPart{Number: n, ETag: p.ETag})
	}
	_, err = d.fs.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: d.b, Key: "m", Upload: u.ID, Parts: parts, Size: -1})
	require.NoError(t, err)
	require.EqualValues(t, 4, d.dataOf("object").Refs)
	d.requireContent("m", bytes.Repeat(body, 3))
	d.checkMeta()
}

// What is not to be shared is stored: other buckets' content, and all of it where instant upload is off.
func TestContentThatIsNotShared(t *testing.T) {
	d := newDesk(t)
	body := random(1, 4096)
	d.put("k", body)
	own := d.b
	other, err := d.fs.CreateBucket(ctx, core.BucketInfo{Name: "other"})
	require.NoError(t, err)
	d.b = other
	require.Greater(t, d.written(func() { d.put("k", body) }), int64(4096))
	known, err := d.fs.KnownContent(ctx, own, sha256.Sum256(body), 4097, vfs.Encryption{})
	require.NoError(t, err)
	require.Nil(t, known, "another size")
	d.b = own
	d.unshared()
	require.Greater(t, d.written(func() { d.put("l", body) }), int64(4096))
	known, err = d.fs.KnownContent(ctx, own, sha256.Sum256(body), 4096, vfs.Encryption{})
	require.NoError(t, err)
	require.Nil(t, known)
	d.checkMeta()
}

// Content that goes between being found and being referred to is stored, whether or not reclaim has freed it meanwhile.
func TestContentGoesMeanwhile(t *testing.T) {
	for _, size := range instantSizes {
		for i := range 4 {
			reclaimed := i&1 != 0
			d := newDesk(t)
			d.meta.blind = i&2 != 0
			body := random(uint64(size), size)
			d.put("k", body)
			d.put("stays", random(7, 1000))
			d.meta.found = func() {
				d.set("k", random(8, 10))
				if reclaimed {
					_, err := d.r.Round(ctx, true)
					require.NoError(t, err)
				}
			}
			d.put("l", body)
			require.Nil(t, d.meta.found, "it was found")
			d.requireContent("l", body)
			require.EqualValues(t, 1, d.dataOf("l").Refs)
			_, err := d.r.Round(ctx, true)
			require.NoError(t, err)
			d.requireContent("l", body)
			d.checkMeta()
		}
	}
}

// A reference that is made while reclaim works keeps the content, wherever reclaim is.
func TestContentIsSharedWhileItMoves(t *testing.T) {
	for _, place := range []string{reclaim.HookMarked, reclaim.HookCopied, reclaim.HookSwitched, reclaim.HookUnlinked} {
		d := newDesk(t)
		body, other := random(1, 20_000), random(2, 30_000)
		d.put("k", body)
		for n := range 20 {
			d.put(fmt.Sprint("other", n), random(uint64(10+n), 30_000))
		}
		d.put("other", other)
		for n := range 20 {
			d.set(fmt.Sprint("other", n), []byte("x"))
		}
		calls := 0
		d.hook = func(at string) {
			if at == place {
				calls++
				d.put(fmt.Sprint("equal", calls), body)
				d.set("k", []byte("y")) // from now on only the equal ones have it
			}
		}
		for range 3 {
			_, err := d.r.Round(ctx, true)
			require.NoError(t, err)
		}
		require.Positive(t, calls, place)
		for n := range calls {
			d.requireContent(fmt.Sprint("equal", n+1), body)
		}
		d.requireContent("other", other)
		d.checkMeta()
	}
}

func TestKnownContent(t *testing.T) {
	d := newDesk(t)
	body := random(1, 100_000)
	sum := sha256.Sum256(body)
	known := func(algs ...checksum.Algorithm) *vfs.Content {
		c, err := d.fs.KnownContent(ctx, d.b, sum, int64(len(body)), vfs.Encryption{}, algs...)
		require.NoError(t, err)
		return c
	}
	require.Nil(t, known())
	first, err := d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: "k", Content: d.content(body, checksum.CRC32)})
	require.NoError(t, err)
	require.Nil(t, known(checksum.SHA1), "a checksum that was never computed")
	_, err = d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: "k", Content: d.content(body, checksum.SHA1, checksum.CRC32)})
	require.NoError(t, err)
	require.NotNil(t, known(checksum.SHA1), "it was verified since")
	require.EqualValues(t, 1, d.dataOf("k").Refs)
	c := known(checksum.CRC32, checksum.SHA256)
	require.Equal(t, checksum.Sum(checksum.CRC32, body), c.Sum(checksum.CRC32))
	require.Equal(t, checksum.Sum(checksum.MD5, body), c.Sum(checksum.MD5))
	require.Equal(t, sum[:], c.Sum(checksum.SHA256))
	require.Less(t, d.written(func() {
		o, err := d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: "l", Content: c})
		require.NoError(t, err)
		require.Equal(t, first.ETag, o.ETag)
	}), int64(1024))
	d.requireContent("l", body)

	_, err = d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: "l", Content: known(), If: core.Precondition{NoneMatch: []string{"*"}}})
	require.True(t, core.Is(err, core.PreconditionFailed), "%v", err)
	c = known()
	d.set("k", nil)
	d.set("l", nil)
	_, err = d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: "l", Content: c})
	require.True(t, core.Is(err, core.NoSuchData), "%v", err)
	require.Nil(t, known())
}

// Larger content is found by its beginning, in a block of its own or packed.
func TestKnownByTheBeginning(t *testing.T) {
	for _, packed := range []int64{4096, 64 << 10, 1 << 20} {
		d := newDesk(t)
		o := vfs.Options{Meta: d.meta, Blocks: d.blocks, Writer: d.writer, MaxPacked: packed, Compression: compression(), Instant: true}
		encrypted(&o)
		var err error
		d.fs, err = vfs.New(o)
		require.NoError(t, err)
		for _, size := range []int{1, 5000, core.HeadSize, core.HeadSize + 1, 256 << 10, 300_000, 1<<20 + 1} {
			body := random(uint64(size), size)
			d.put(fmt.Sprint(size), body)
			head := sha256.Sum256(body[:min(size, core.HeadSize)])
			info := d.dataOf(fmt.Sprint(size))
			require.Equal(t, size > core.HeadSize, info.HasHead())
			if info.HasHead() {
				require.Equal(t, head, info.Head)
			}
			require.Equal(t, sha256.Sum256(body), info.SHA256)
			there, err := d.fs.Known(ctx, d.b, vfs.Encryption{}, []core.ContentKey{
				{SHA256: head, Size: int64(size), Head: true}, {SHA256: head, Size: int64(size) + 1, Head: true}, {SHA256: info.SHA256, Size: int64(size)},
				{SHA256: head, Size: int64(size)}, {SHA256: head, Head: true}, {},
			})
			require.NoError(t, err)
			require.Equal(t, []bool{true, false, true, size <= core.HeadSize, false, false}, there, "%d of %d", size, packed)
		}
		d.unshared()
		d.put("unshared", random(1, 100_000))
		require.False(t, d.dataOf("unshared").HasHead())
		there, err := d.fs.Known(ctx, d.b, vfs.Encryption{}, []core.ContentKey{{SHA256: sha256.Sum256(random(1, 1)), Size: 1}})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, there)
	}
}

// What is guessed right is not looked up, but for the beginning of what is large. A guess that is wrong costs a look, and nothing else.
func TestGuess(t *testing.T) {
	d := newDesk(t)
	for _, size := range instantSizes {
		body := random(uint64(size), size)
		first, second := fmt.Sprint("first", size), fmt.Sprint("second", size)
		d.put(first, body)
		d.meta.looks = 0
		d.put(second, body)
		begins := 0
		if size > 4<<20 {
			begins = 1
		}
		require.Equal(t, begins, d.meta.looks, size)
		require.Equal(t, d.dataOf(first).ID, d.dataOf(second).ID)
	}

	body := random(1, 5000)
	d.put("plain", body)
	seal := vfs.Encryption{Store: true}
	o := vfs.Options{Meta: d.meta, Blocks: d.blocks, Writer: d.writer, Instant: true}
	o.Keys = parseKeys(t, firstKey)
	var err error
	d.fs, err = vfs.New(o)
	require.NoError(t, err)
	put := func(key string, e vfs.Encryption) {
		c, err := d.fs.NewContent(ctx, d.b, int64(len(body)))
		require.NoError(t, err)
		require.NoError(t, c.Encrypt(ctx, e))
		_, err = c.ReadFrom(bytes.NewReader(body))
		require.NoError(t, err)
		_, err = d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: key, Content: c})
		require.NoError(t, err)
	}
	d.meta.looks = 0
	require.Greater(t, d.written(func() { put("sealed", seal) }), int64(5000), "the guess is of another key's content")
	require.Equal(t, 1, d.meta.looks)
	for i := range 10 { // the guess is of either
		put(fmt.Sprint("plain", i), vfs.Encryption{})
		put(fmt.Sprint("sealed", i), seal)
	}
	require.EqualValues(t, 11, d.dataOf("plain").Refs)
	require.EqualValues(t, 11, d.dataOf("sealed").Refs)
	d.requireContent("sealed9", body)
	d.checkMeta()
}

// deferring counts who says that its content is likely to be dropped.
type deferring struct {
	core.Blocks
	deferred int
}

// Create implements core.Blocks.
func (d *deferring) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	w, err := d.Blocks.Create(ctx, o)
	return &deferredWriter{w, d}, err
}

type deferredWriter struct {
	core.BlockWriter
	in *deferring
}

// Defer implements core.Deferrer.
func (w *deferredWriter) Defer() { w.in.deferred++ }

// Large content that begins like what is there waits for its end before it is written to the drive.
func TestLikelyDuplicatesAreDeferred(t *testing.T) {
	blocks := &deferring{Blocks: mem.NewBlocks()}
	d := &desk{meta: &finding{Meta: mem.NewMeta()}}
	d.yard = newYard(t, blocks, d.meta, reclaim.Options{})
	defer d.writer.Close()
	put := func(body []byte) int {
		before := blocks.deferred
		d.put("k", body)
		d.requireContent("k", body)
		return blocks.deferred - before
	}
	body := random(1, 4<<20)
	d.put("first", body)
	require.Equal(t, 1, put(body))
	require.Zero(t, put(append(body, 1)), "another size")
	similar := bytes.Clone(body)
	for i, want := range []int{1, 0, 0} { // once bitten
		similar[len(similar)-1] = body[len(body)-1] + byte(i) + 1
		require.Equal(t, want, put(similar), "similar content %d", i)
	}
	require.Zero(t, put(body), "this would have been dropped")
	require.Equal(t, 1, put(body), "so the next one is deferred")
	similar[0]++
	require.Zero(t, put(similar), "it begins otherwise")
	d.put("small", random(2, 4<<20-1))
	require.Zero(t, put(random(2, 4<<20-1)))
	d.unshared()
	require.Zero(t, put(body))
}

// Content that cannot be looked up is stored.
func TestFindDataFails(t *testing.T) {
	d := newDesk(t)
	body := random(1, 5000)
	d.put("k", body)
	d.meta.err = core.E("test", core.Damaged, coretest.ErrInjected)
	require.Greater(t, d.written(func() { d.put("l", body) }), int64(5000))
	d.requireContent("l", body)
	known, err := d.fs.KnownContent(ctx, d.b, sha256.Sum256(body), 5000, vfs.Encryption{})
	require.NoError(t, err)
	require.Nil(t, known)
}

// After damage was seen, by a reader or by the scrubber, whoever sends the content again has it stored.
func TestDamagedContentIsNotShared(t *testing.T) {
	for _, scrubbed := range []bool{false, true} {
		g, done := newGarden(t, t.TempDir())
		body := random(1, 20_000)
		g.put("k", body)
		d := g.data("k")
		require.Equal(t, g.b.ID, d.Scope)
		g.flip(d.Extents[0].Block, d.Extents[0].Offset+1000)
		if scrubbed {
			require.Equal(t, 1, g.pass().Found)
		} else {
			_, err := g.read("k", 0, -1)
			require.True(t, core.Is(err, core.Damaged), "%v", err)
		}
		g.put("again", body)
		g.requireContent("again", body)
		if scrubbed {
			require.Equal(t, 1, g.pass().Mended, "from the new copy")
			g.requireContent("k", body)
		}
		done()
	}
}

// Many writers of few contents, with deletes and reclaim among them: what is there is right, and references are exact.
func TestEqualContentUnderLoad(t *testing.T) {
	d := newDesk(t)
	bodies := make([][]byte, 6)
	for i := range bodies {
		bodies[i] = random(uint64(i), []int{100, 5000, 70_000}[i%3])
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := d.r.Round(ctx, true); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var writers sync.WaitGroup
	for n := range 6 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			key := fmt.Sprint("key", n)
			for range 150 {
				i := r.IntN(len(bodies))
				c, err := d.fs.NewContent(ctx, d.b, int64(len(bodies[i])))
				if err == nil {
					if _, err = c.ReadFrom(bytes.NewReader(bodies[i])); err == nil {
						_, err = d.fs.Put(ctx, vfs.PutRequest{Bucket: d.b, Key: key, Content: c})
					}
					c.Discard()
				}
				if err != nil {
					t.Error(err)
					return
				}
				got, err := d.read(key, 0, -1)
				if err != nil || !bytes.Equal(got, bodies[i]) {
					t.Errorf("content of %s: %v", key, err)
				}
				if r.IntN(3) == 0 {
					d.fs.Delete(ctx, d.b, "", []vfs.DeleteRequest{{Key: key}})
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	wg.Wait()
	d.checkMeta()
}

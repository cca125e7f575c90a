package content_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/internal/checksum"
	"orcas/reclaim"
	"orcas/scrub"
	"orcas/storetest"
	"orcas/vfs"
)

// finding is a Meta that calls a function after it finds equal content, before the content can be used.
type finding struct {
	reclaim.Meta
	found   func()       // called once
	err     error        // if not nil, FindData returns it
	blind   bool         // GuessData finds nothing
	lookups atomic.Int64 // calls of FindData
}

func (f *finding) Unwrap() core.Meta { return f.Meta }

// FindData implements core.Meta.
func (f *finding) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	f.lookups.Add(1)
	if f.err != nil {
		return nil, f.err
	}
	d, err := f.Meta.FindData(ctx, k)
	if err == nil {
		f.happen()
	}
	return d, err
}

// GuessData implements core.Guesser.
func (f *finding) GuessData(k core.ContentKey) core.DataID {
	if f.err != nil || f.blind {
		return 0
	}
	guesser, _ := core.As[core.Guesser](f.Meta)
	guess := guesser.GuessData(k)
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

// desk is a store that counts the writes.
type desk struct {
	*storetest.Store
	counts *coretest.CountingBlocks
	meta   *finding
}

func newDesk(t *testing.T) *desk {
	d := &desk{counts: coretest.NewCountingBlocks(mem.NewBlocks()), meta: &finding{Meta: mem.NewMeta()}}
	d.Store = storetest.Open(t, storetest.Options{Blocks: d.counts, Meta: d.meta})
	return d
}

// written returns the number of bytes that fn writes to blocks.
func (d *desk) written(fn func()) int64 {
	d.counts.Reset()
	fn()
	return d.counts.Counts().Written
}

func (d *desk) dataOf(key string) *core.DataInfo {
	o, err := d.FS.Stat(ctx, d.Bucket, key, core.Current)
	require.NoError(d.T, err)
	require.Len(d.T, o.Segments, 1)
	found, err := d.meta.Data(ctx, []core.DataID{o.Segments[0].Data})
	require.NoError(d.T, err)
	require.Len(d.T, found, 1)
	return &found[0]
}

var instantSizes = []int{1, 4096, 65_536, 65_537, 5<<20 + 1}

// TestEqualContentIsStoredOnce checks that equal content is not written again, except for a record of a few hundred
// bytes.
func TestEqualContentIsStoredOnce(t *testing.T) {
	const record = 1024
	d := newDesk(t)
	for _, size := range instantSizes {
		body := storetest.Random(uint64(size), size)
		first := d.written(func() { d.Put(fmt.Sprint("first", size), body) })
		require.Greater(t, first, int64(size))
		large, before := size > 64<<10, d.blockBytes()
		second := d.written(func() { d.Put(fmt.Sprint("second", size), body) })
		if !large {
			require.Less(t, second, int64(record), "bytes written for a duplicate of %d", size)
		} else {
			for d.blockBytes() != before { // the block of the duplicate is deleted in the background
				runtime.Gosched()
			}
		}
		require.Equal(t, d.dataOf(fmt.Sprint("first", size)).ID, d.dataOf(fmt.Sprint("second", size)).ID)
		require.EqualValues(t, 2, d.dataOf(fmt.Sprint("first", size)).Refs)
		for _, key := range []string{"first", "second"} {
			d.RequireContent(fmt.Sprint(key, size), body)
		}
		d.Put(fmt.Sprint("first", size), storetest.Random(99, 10))
		d.RequireContent(fmt.Sprint("second", size), body)
		require.EqualValues(t, 1, d.dataOf(fmt.Sprint("second", size)).Refs)
	}
	d.checkMeta()
}

// blockBytes returns the total size of all blocks of large content.
func (d *desk) blockBytes() (n int64) {
	require.NoError(d.T, d.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Large {
			n += b.Size
		}
		return nil
	}))
	return n
}

func (d *desk) checkMeta() {
	s, err := coretest.ReadMeta(ctx, d.meta)
	require.NoError(d.T, err)
	s.Check(d.T)
}

func TestPartsShare(t *testing.T) {
	d := newDesk(t)
	body := storetest.Random(1, 5<<20)
	d.Put("object", body)
	u, err := d.FS.CreateUpload(ctx, d.Bucket, core.UploadInfo{Bucket: d.Bucket.ID, Key: "m"})
	require.NoError(t, err)
	var parts []vfs.CompletedPart
	for n := 1; n <= 3; n++ {
		p, err := d.FS.PutPart(ctx, vfs.PartRequest{Bucket: d.Bucket, Key: "m", Upload: u.ID, Number: n, Content: d.Content(body)})
		require.NoError(t, err)
		parts = append(parts, vfs.CompletedPart{Number: n, ETag: p.ETag})
	}
	_, err = d.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: d.Bucket, Key: "m", Upload: u.ID, Parts: parts, Size: -1})
	require.NoError(t, err)
	require.EqualValues(t, 4, d.dataOf("object").Refs)
	d.RequireContent("m", bytes.Repeat(body, 3))
	d.checkMeta()
}

// TestContentThatIsNotShared checks that content is stored again in another bucket, and if deduplication is off.
func TestContentThatIsNotShared(t *testing.T) {
	d := newDesk(t)
	body := storetest.Random(1, 4096)
	d.Put("k", body)
	own := d.Bucket
	other, err := d.FS.CreateBucket(ctx, core.BucketInfo{Name: "other"})
	require.NoError(t, err)
	d.Bucket = other
	require.Greater(t, d.written(func() { d.Put("k", body) }), int64(4096))
	known, err := d.FS.KnownContent(ctx, own, sha256.Sum256(body), 4097, content.Encryption{})
	require.NoError(t, err)
	require.Nil(t, known, "another size")
	d.Bucket = own
	d.Unshared()
	require.Greater(t, d.written(func() { d.Put("l", body) }), int64(4096))
	known, err = d.FS.KnownContent(ctx, own, sha256.Sum256(body), 4096, content.Encryption{})
	require.NoError(t, err)
	require.Nil(t, known)
	d.checkMeta()
}

// TestContentDeletedBeforeReference deletes stored content between the lookup and the reference: the new content must
// then be stored, whether or not reclaim has already freed the old copy.
func TestContentDeletedBeforeReference(t *testing.T) {
	for _, size := range instantSizes {
		for i := range 4 {
			reclaimed := i&1 != 0
			d := newDesk(t)
			d.meta.blind = i&2 != 0
			body := storetest.Random(uint64(size), size)
			d.Put("k", body)
			d.Put("stays", storetest.Random(7, 1000))
			d.meta.found = func() {
				d.Set("k", storetest.Random(8, 10))
				if reclaimed {
					_, err := d.Reclaimer.Round(ctx, true)
					require.NoError(t, err)
				}
			}
			d.Put("l", body)
			require.Nil(t, d.meta.found, "the stored content was not found")
			d.RequireContent("l", body)
			require.EqualValues(t, 1, d.dataOf("l").Refs)
			_, err := d.Reclaimer.Round(ctx, true)
			require.NoError(t, err)
			d.RequireContent("l", body)
			d.checkMeta()
		}
	}
}

// TestContentIsSharedWhileItMoves adds a reference to content at each step of a reclaim round: the content must be
// kept.
func TestContentIsSharedWhileItMoves(t *testing.T) {
	for _, place := range []string{reclaim.HookMarked, reclaim.HookCopied, reclaim.HookSwitched, reclaim.HookUnlinked} {
		d := newDesk(t)
		body, other := storetest.Random(1, 20_000), storetest.Random(2, 30_000)
		d.Put("k", body)
		for n := range 20 {
			d.Put(fmt.Sprint("other", n), storetest.Random(uint64(10+n), 30_000))
		}
		d.Put("other", other)
		for n := range 20 {
			d.Set(fmt.Sprint("other", n), []byte("x"))
		}
		calls := 0
		d.Hook = func(at string) {
			if at == place {
				calls++
				d.Put(fmt.Sprint("equal", calls), body)
				d.Set("k", []byte("y")) // from now on, only the new keys refer to the content
			}
		}
		for range 3 {
			_, err := d.Reclaimer.Round(ctx, true)
			require.NoError(t, err)
		}
		require.Positive(t, calls, place)
		for n := range calls {
			d.RequireContent(fmt.Sprint("equal", n+1), body)
		}
		d.RequireContent("other", other)
		d.checkMeta()
	}
}

func TestKnownContent(t *testing.T) {
	d := newDesk(t)
	body := storetest.Random(1, 100_000)
	sum := sha256.Sum256(body)
	known := func(algs ...checksum.Algorithm) *content.Content {
		c, err := d.FS.KnownContent(ctx, d.Bucket, sum, int64(len(body)), content.Encryption{}, algs...)
		require.NoError(t, err)
		return c
	}
	require.Nil(t, known())
	first, err := d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: "k", Content: d.Content(body, checksum.CRC32)})
	require.NoError(t, err)
	require.Nil(t, known(checksum.SHA1), "this checksum was never computed")
	_, err = d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: "k", Content: d.Content(body, checksum.SHA1, checksum.CRC32)})
	require.NoError(t, err)
	require.NotNil(t, known(checksum.SHA1), "the second upload computed this checksum")
	require.EqualValues(t, 1, d.dataOf("k").Refs)
	c := known(checksum.CRC32, checksum.SHA256)
	require.Equal(t, checksum.Sum(checksum.CRC32, body), c.Sum(checksum.CRC32))
	require.Equal(t, checksum.Sum(checksum.MD5, body), c.Sum(checksum.MD5))
	require.Equal(t, sum[:], c.Sum(checksum.SHA256))
	require.Less(t, d.written(func() {
		o, err := d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: "l", Content: c})
		require.NoError(t, err)
		require.Equal(t, first.ETag, o.ETag)
	}), int64(1024))
	d.RequireContent("l", body)

	_, err = d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: "l", Content: known(), If: core.Precondition{NoneMatch: []string{"*"}}})
	require.True(t, core.Is(err, core.PreconditionFailed), "%v", err)
	c = known()
	d.Set("k", nil)
	d.Set("l", nil)
	_, err = d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: "l", Content: c})
	require.True(t, core.Is(err, core.NoSuchData), "%v", err)
	require.Nil(t, known())
}

// TestKnownByTheBeginning finds content by the hash of its beginning, whether it is packed or in a block of its own.
func TestKnownByTheBeginning(t *testing.T) {
	for _, packed := range []int64{4096, 64 << 10, 1 << 20} {
		d := newDesk(t)
		d.Packing(packed)
		for _, size := range []int{1, 5000, core.HeadSize, core.HeadSize + 1, 256 << 10, 300_000, 1<<20 + 1} {
			body := storetest.Random(uint64(size), size)
			d.Put(fmt.Sprint(size), body)
			head := sha256.Sum256(body[:min(size, core.HeadSize)])
			info := d.dataOf(fmt.Sprint(size))
			require.Equal(t, size > core.HeadSize, info.HasHead())
			if info.HasHead() {
				require.Equal(t, head, info.Head)
			}
			require.Equal(t, sha256.Sum256(body), info.SHA256)
			there, err := d.FS.Known(ctx, d.Bucket, content.Encryption{}, []core.ContentKey{
				{SHA256: head, Size: int64(size), Head: true}, {SHA256: head, Size: int64(size) + 1, Head: true}, {SHA256: info.SHA256, Size: int64(size)},
				{SHA256: head, Size: int64(size)}, {SHA256: head, Head: true}, {},
			})
			require.NoError(t, err)
			require.Equal(t, []bool{true, false, true, size <= core.HeadSize, false, false}, there, "%d of %d", size, packed)
		}
		d.Unshared()
		d.Put("unshared", storetest.Random(1, 100_000))
		require.False(t, d.dataOf("unshared").HasHead())
		there, err := d.FS.Known(ctx, d.Bucket, content.Encryption{}, []core.ContentKey{{SHA256: sha256.Sum256(storetest.Random(1, 1)), Size: 1}})
		require.NoError(t, err)
		require.Equal(t, []bool{false}, there)
	}
}

// TestGuess checks that content whose DataID is guessed correctly is not looked up, except for the beginning of large
// content. A wrong guess costs one lookup and has no other effect.
func TestGuess(t *testing.T) {
	d := newDesk(t)
	for _, size := range instantSizes {
		body := storetest.Random(uint64(size), size)
		first, second := fmt.Sprint("first", size), fmt.Sprint("second", size)
		d.Put(first, body)
		d.meta.lookups.Store(0)
		d.Put(second, body)
		begins := 0
		if size > 4<<20 {
			begins = 1
		}
		require.EqualValues(t, begins, d.meta.lookups.Load(), size)
		require.Equal(t, d.dataOf(first).ID, d.dataOf(second).ID)
	}

	body := storetest.Random(1, 5000)
	d.Put("plain", body)
	encrypted := content.Encryption{Store: true}
	o := content.Options{Meta: d.meta, Blocks: d.Blocks, Writer: d.Writer, Instant: true}
	o.Keys = parseKeys(t, firstKey)
	var err error
	d.FS, err = storetest.NewFS(o)
	require.NoError(t, err)
	put := func(key string, e content.Encryption) {
		c, err := d.FS.NewContent(ctx, d.Bucket, int64(len(body)))
		require.NoError(t, err)
		require.NoError(t, c.Encrypt(ctx, e))
		_, err = c.ReadFrom(bytes.NewReader(body))
		require.NoError(t, err)
		_, err = d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: key, Content: c})
		require.NoError(t, err)
	}
	d.meta.lookups.Store(0)
	require.Greater(t, d.written(func() { put("encrypted", encrypted) }), int64(5000), "the guessed content has another key")
	require.EqualValues(t, 1, d.meta.lookups.Load())
	for i := range 10 { // the guess alternates between the two
		put(fmt.Sprint("plain", i), content.Encryption{})
		put(fmt.Sprint("encrypted", i), encrypted)
	}
	require.EqualValues(t, 11, d.dataOf("plain").Refs)
	require.EqualValues(t, 11, d.dataOf("encrypted").Refs)
	d.RequireContent("encrypted9", body)
	d.checkMeta()
}

// deferring counts the calls of Defer.
type deferring struct {
	core.Blocks
	deferred int
}

func (d *deferring) Unwrap() core.Blocks { return d.Blocks }

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

// TestLikelyDuplicatesAreDeferred checks that large content that begins like stored content is not flushed to the drive
// before its end.
func TestLikelyDuplicatesAreDeferred(t *testing.T) {
	blocks := &deferring{Blocks: mem.NewBlocks()}
	d := &desk{meta: &finding{Meta: mem.NewMeta()}}
	d.Store = storetest.Open(t, storetest.Options{Blocks: blocks, Meta: d.meta})
	put := func(body []byte) int {
		before := blocks.deferred
		d.Put("k", body)
		d.RequireContent("k", body)
		return blocks.deferred - before
	}
	body := storetest.Random(1, 4<<20)
	d.Put("first", body)
	require.Equal(t, 1, put(body))
	require.Zero(t, put(append(body, 1)), "another size")
	similar := bytes.Clone(body)
	for i, want := range []int{1, 0, 0} { // after one wrong prediction, writes are not deferred
		similar[len(similar)-1] = body[len(body)-1] + byte(i) + 1
		require.Equal(t, want, put(similar), "similar content %d", i)
	}
	require.Zero(t, put(body), "a duplicate, but the previous prediction was wrong")
	require.Equal(t, 1, put(body), "the previous prediction was right")
	similar[0]++
	require.Zero(t, put(similar), "another beginning")
	d.Put("small", storetest.Random(2, 4<<20-1))
	require.Zero(t, put(storetest.Random(2, 4<<20-1)))
	d.Unshared()
	require.Zero(t, put(body))
}

// TestFindDataFails checks that content is stored if the lookup fails.
func TestFindDataFails(t *testing.T) {
	d := newDesk(t)
	body := storetest.Random(1, 5000)
	d.Put("k", body)
	d.meta.err = core.E("test", core.Damaged, coretest.ErrInjected)
	require.Greater(t, d.written(func() { d.Put("l", body) }), int64(5000))
	d.RequireContent("l", body)
	known, err := d.FS.KnownContent(ctx, d.Bucket, sha256.Sum256(body), 5000, content.Encryption{})
	require.NoError(t, err)
	require.Nil(t, known)
}

// TestDamagedContentIsRepaired uploads content again after a reader or the scrubber has found its stored copy damaged:
// the upload must repair it for every object that refers to it.
func TestDamagedContentIsRepaired(t *testing.T) {
	for _, scrubbed := range []bool{false, true} {
		g := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
		body := storetest.Random(1, 20_000)
		g.Put("k", body)
		d := g.Data("k")
		require.Equal(t, g.Bucket.ID, d.Scope)
		g.Flip(d.Extents[0].Block, d.Extents[0].Offset+1000)
		g.Scrubber = g.NewScrubber(scrub.Options{})
		if scrubbed {
			require.Equal(t, 1, g.Pass().Found)
		} else {
			_, err := g.Read("k", 0, -1)
			require.True(t, core.Is(err, core.Damaged), "%v", err)
		}
		require.True(t, g.Data("k").Damaged)
		g.Put("again", body)
		g.RequireContent("again", body)
		g.RequireContent("k", body)
		require.Equal(t, d.ID, g.Data("again").ID)
		require.False(t, g.Data("k").Damaged)
		st := g.Pass()
		require.Zero(t, st.Repaired)
		require.Zero(t, st.Found)
		g.Close()
	}
}

// TestEqualContentUnderLoad has many writers write and delete a few bodies while reclaim runs: all content must be
// correct, and the reference counts exact.
func TestEqualContentUnderLoad(t *testing.T) {
	d := newDesk(t)
	bodies := make([][]byte, 6)
	for i := range bodies {
		bodies[i] = storetest.Random(uint64(i), []int{100, 5000, 70_000}[i%3])
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
			if _, err := d.Reclaimer.Round(ctx, true); err != nil {
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
				c, err := d.FS.NewContent(ctx, d.Bucket, int64(len(bodies[i])))
				if err == nil {
					if _, err = c.ReadFrom(bytes.NewReader(bodies[i])); err == nil {
						_, err = d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: key, Content: c})
					}
					c.Discard()
				}
				if err != nil {
					t.Error(err)
					return
				}
				got, err := d.Read(key, 0, -1)
				if err != nil || !bytes.Equal(got, bodies[i]) {
					t.Errorf("%s has %d bytes, expected the %d bytes just written: %v", key, len(got), len(bodies[i]), err)
				}
				if r.IntN(3) == 0 {
					d.FS.Delete(ctx, d.Bucket, "", []vfs.DeleteRequest{{Key: key}})
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	wg.Wait()
	d.checkMeta()
}

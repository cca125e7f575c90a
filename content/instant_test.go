package content_test

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

// finding is metadata in which something happens between finding equal content and what is done with it.
type finding struct {
	reclaim.Meta
	found func()
	err   error // nothing is found, for this reason
	blind bool  // nothing is guessed
	looks int   // calls of FindData
}

func (f *finding) Unwrap() core.Meta { return f.Meta }

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

// desk is a store that counts what is written.
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

// written returns the bytes that fn had written into blocks.
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

// Content that is there is not written again: a record is, of some hundred bytes.
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
			for d.blockBytes() != before { // what was spilled goes, if not at once
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

// blockBytes returns how large all blocks of large content are together.
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

// What is not to be shared is stored: other buckets' content, and all of it where instant upload is off.
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

// Content that goes between being found and being referred to is stored, whether or not reclaim has freed it meanwhile.
func TestContentGoesMeanwhile(t *testing.T) {
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
			require.Nil(t, d.meta.found, "it was found")
			d.RequireContent("l", body)
			require.EqualValues(t, 1, d.dataOf("l").Refs)
			_, err := d.Reclaimer.Round(ctx, true)
			require.NoError(t, err)
			d.RequireContent("l", body)
			d.checkMeta()
		}
	}
}

// A reference that is made while reclaim works keeps the content, wherever reclaim is.
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
				d.Set("k", []byte("y")) // from now on only the equal ones have it
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
	require.Nil(t, known(checksum.SHA1), "a checksum that was never computed")
	_, err = d.FS.Put(ctx, vfs.PutRequest{Bucket: d.Bucket, Key: "k", Content: d.Content(body, checksum.SHA1, checksum.CRC32)})
	require.NoError(t, err)
	require.NotNil(t, known(checksum.SHA1), "it was verified since")
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

// Larger content is found by its beginning, in a block of its own or packed.
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

// What is guessed right is not looked up, but for the beginning of what is large. A guess that is wrong costs a look,
// and nothing else.
func TestGuess(t *testing.T) {
	d := newDesk(t)
	for _, size := range instantSizes {
		body := storetest.Random(uint64(size), size)
		first, second := fmt.Sprint("first", size), fmt.Sprint("second", size)
		d.Put(first, body)
		d.meta.looks = 0
		d.Put(second, body)
		begins := 0
		if size > 4<<20 {
			begins = 1
		}
		require.Equal(t, begins, d.meta.looks, size)
		require.Equal(t, d.dataOf(first).ID, d.dataOf(second).ID)
	}

	body := storetest.Random(1, 5000)
	d.Put("plain", body)
	seal := content.Encryption{Store: true}
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
	d.meta.looks = 0
	require.Greater(t, d.written(func() { put("sealed", seal) }), int64(5000), "the guess is of another key's content")
	require.Equal(t, 1, d.meta.looks)
	for i := range 10 { // the guess is of either
		put(fmt.Sprint("plain", i), content.Encryption{})
		put(fmt.Sprint("sealed", i), seal)
	}
	require.EqualValues(t, 11, d.dataOf("plain").Refs)
	require.EqualValues(t, 11, d.dataOf("sealed").Refs)
	d.RequireContent("sealed9", body)
	d.checkMeta()
}

// deferring counts who says that its content is likely to be dropped.
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

// Large content that begins like what is there waits for its end before it is written to the drive.
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
	for i, want := range []int{1, 0, 0} { // once bitten
		similar[len(similar)-1] = body[len(body)-1] + byte(i) + 1
		require.Equal(t, want, put(similar), "similar content %d", i)
	}
	require.Zero(t, put(body), "this would have been dropped")
	require.Equal(t, 1, put(body), "so the next one is deferred")
	similar[0]++
	require.Zero(t, put(similar), "it begins otherwise")
	d.Put("small", storetest.Random(2, 4<<20-1))
	require.Zero(t, put(storetest.Random(2, 4<<20-1)))
	d.Unshared()
	require.Zero(t, put(body))
}

// Content that cannot be looked up is stored.
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

// After damage was seen, by a reader or by the scrubber, whoever sends the content again repairs it, for all that refer
// to it.
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

// Many writers of few contents, with deletes and reclaim among them: what is there is right, and references are exact.
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
					t.Errorf("content of %s: %v", key, err)
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

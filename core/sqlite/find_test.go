package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// sharedPut returns a PutObject of content that may be shared.
func (f *feeder) sharedPut(key string, content uint64) (*core.PutObject, core.ContentKey) {
	c := f.put(key)
	info := c.Object.Segments[0].Info
	info.Scope = f.bucket
	binary.BigEndian.PutUint64(info.SHA256[:], content*0x9e3779b97f4a7c15)
	return c, info.ContentKey()
}

func finds(t *testing.T, m *Meta, k core.ContentKey) bool {
	_, err := m.FindData(context.Background(), k)
	if core.Is(err, core.NoSuchData) {
		return false
	}
	require.NoError(t, err)
	return true
}

// countPairs returns the number of pairs in the pages of the hash index, tombstones included.
func countPairs(t testing.TB, m *Meta) (n int) {
	require.NoError(t, m.onWriter(func(c *conn) error {
		return c.scan(background, "SELECT id, pairs FROM hash_pages", func(cols []driver.Value) error {
			p, err := openPage(integer(cols[0]), bytes(cols[1]))
			for _, ok := p.next(); ok; _, ok = p.next() {
				n++
			}
			return err
		})
	}))
	return n
}

// The same content is found by its hash before and after each restart, whether its pairs are buffered or in a run. Pairs
// of deleted content are deleted from the runs.
func TestFindsAcrossRestarts(t *testing.T) {
	dir := t.TempDir()
	o := Options{runLength: 50}
	f := feed(t, openAt(t, dir, o), core.VersioningOff)
	random := rand.New(rand.NewPCG(1, 2))
	live := map[string]core.ContentKey{}
	var all []core.ContentKey
	for round := range 8 {
		for range 60 {
			key := fmt.Sprint(random.IntN(150))
			c, k := f.sharedPut(key, random.Uint64())
			f.apply(c)
			live[key], all = k, append(all, k)
		}
		check := func() {
			isLive := map[core.ContentKey]bool{}
			for _, k := range live {
				isLive[k] = true
			}
			for _, k := range all {
				require.Equal(t, isLive[k], finds(t, f.m, k), "round %d", round)
			}
		}
		check()
		require.NoError(t, f.m.Close())
		f.m = openAt(t, dir, o)
		check()
		f.m.filling.Wait()
		require.True(t, f.m.w.index.filter.full.Load())
		check()
	}
	require.Positive(t, countPairs(t, f.m))
	require.Less(t, countPairs(t, f.m), 450, "pairs of overwritten content are deleted from the runs, except if a restart lost the tombstone")
}

// headed makes the content of a PutObject larger, so that it has a head, and returns the key of the head.
func headed(c *core.PutObject, head uint64) core.ContentKey {
	s := &c.Object.Segments[0]
	s.Length = core.HeadSize + 1
	s.Info.Size = s.Length
	binary.BigEndian.PutUint64(s.Info.Head[8:], head*0x9e3779b97f4a7c15)
	return s.Info.HeadKey()
}

// Even if all content has two pairs, a run is written long before the next one is full.
func TestFindsOfLargeContent(t *testing.T) {
	dir := t.TempDir()
	o := Options{runLength: 512}
	f := feed(t, openAt(t, dir, o), core.VersioningOff)
	random := rand.New(rand.NewPCG(1, 2))
	live, longest, runs := map[string][2]core.ContentKey{}, 0, 0
	var gone []core.ContentKey
	for n := range 12_000 {
		name := fmt.Sprint(n) // all new keys
		if n >= 4000 {
			name = fmt.Sprint(random.IntN(4000))
		}
		number := random.Uint64() | 1
		c, _ := f.sharedPut(name, number)
		head := headed(c, number)
		upto := f.m.w.index.upto
		f.apply(c)
		for _, k := range live[name] {
			if k.Scope != 0 {
				gone = append(gone, k)
			}
		}
		live[name] = [2]core.ContentKey{c.Object.Segments[0].Info.ContentKey(), head}
		if f.m.w.index.flush.active {
			longest = max(longest, f.m.w.index.seen)
		}
		if f.m.w.index.upto != upto {
			runs++
		}
	}
	require.Greater(t, runs, 30, "content was added or deleted 20,000 times")
	require.LessOrEqual(t, longest, o.runLength/2+2, "content added or deleted while a run was written")
	check := func() {
		for _, keys := range live {
			require.True(t, finds(t, f.m, keys[0]))
			require.True(t, finds(t, f.m, keys[1]))
		}
		for _, k := range gone[len(gone)-2000:] {
			require.False(t, finds(t, f.m, k))
		}
	}
	check()
	require.NoError(t, f.m.Close())
	f.m = openAt(t, dir, o)
	check()
	f.m.filling.Wait()
	check()
	require.Less(t, countPairs(t, f.m), 3*8000, "pairs of deleted content are deleted from the runs")
}

// If several pieces of content have the same beginning, each of them is found by it after a restart, even when the
// others were deleted.
func TestFindsOfOneHashAcrossRestarts(t *testing.T) {
	for _, reads := range []int{0, 60} { // the pairs are buffered, or in the table, when the others are deleted
		dir := t.TempDir()
		o := Options{runLength: 50}
		f := feed(t, openAt(t, dir, o), core.VersioningOff)
		var k core.ContentKey
		for n := range 4 {
			c, _ := f.sharedPut(fmt.Sprint(n), uint64(n+1))
			k = headed(c, 1)
			f.apply(c)
		}
		require.NoError(t, f.m.Close())
		f.m = openAt(t, dir, o)
		for n := range reads {
			c, _ := f.sharedPut(fmt.Sprint("other", n), uint64(n+100))
			f.apply(c)
		}
		for n := range 4 {
			require.True(t, finds(t, f.m, k), "%d deleted, %d other writes", n, reads)
			f.apply(&core.DeleteObject{Bucket: f.bucket, Key: fmt.Sprint(3 - n)})
		}
		require.False(t, finds(t, f.m, k))
	}
}

// A transaction that is rolled back neither adds nor loses pairs.
func TestFindsRolledBack(t *testing.T) {
	m := openAt(t, t.TempDir(), Options{runLength: 10})
	f := feed(t, m, core.VersioningOff)
	var keys []core.ContentKey
	for n := range 35 {
		c, k := f.sharedPut(fmt.Sprint(n), uint64(n+1))
		f.apply(c)
		keys = append(keys, k)
	}
	state := func() string {
		x := &m.w.index
		require.NoError(t, x.runs.refresh())
		runs := ""
		for _, r := range x.runs.list {
			runs += fmt.Sprintln(r.id, r.age, r.pairs, r.inputs, r.at)
		}
		return fmt.Sprint(*x.recent, *x.full, x.flush, x.late, x.moved, runs, countPairs(t, m))
	}
	before := state()
	c, k := f.sharedPut("new", 1000)
	c.Seq = f.seq + 1
	over, _ := f.sharedPut("34", 1001)
	over.Seq = f.seq + 2
	also := f.share("also", c)
	also.Seq = f.seq + 3
	results := rolledBack(t, m, []core.Change{c, over, also})
	require.NoError(t, results[0].Err)
	require.NoError(t, results[2].Err)
	require.True(t, core.Is(f.results([]core.Change{f.share("gone", c)})[0].Err, core.NoSuchData), "only the transaction that was rolled back shared it")
	require.Equal(t, before, state())
	require.False(t, finds(t, m, k))
	for _, k := range keys {
		require.True(t, finds(t, m, k))
	}
	for n := range 40 {
		c, k := f.sharedPut(fmt.Sprint("later", n), uint64(n+2000))
		f.apply(c)
		keys = append(keys, k)
	}
	for _, k := range keys {
		require.True(t, finds(t, m, k))
	}
}

// A filter has all hashes that were added, and few false positives, no matter how many were added.
func TestFilter(t *testing.T) {
	var f filter
	f.full.Store(true)
	require.False(t, f.mayHave(1))
	random := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, 700_000)
	for i := range hashes {
		hashes[i] = random.Uint64()
		f.add(hashes[i])
	}
	for _, h := range hashes {
		require.True(t, f.mayHave(h))
	}
	wrong := 0
	for range 100_000 {
		if f.mayHave(random.Uint64()) {
			wrong++
		}
	}
	require.Less(t, wrong, 600, "of 100,000")
	require.Len(t, *f.blooms.Load(), 2)
}

// After ReleaseMemory there is no filter, and content is found in the runs. When enough hashes have been looked up, the
// next commit fills the filter: with content in pages, content whose pairs are in memory, and content that was added
// while there was no filter.
func TestFilterIsDroppedAndFilled(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{runLength: 20}), core.VersioningOff)
	f.m.filling.Wait()
	filter := &f.m.w.index.filter
	var keys []core.ContentKey
	add := func(n int) {
		for range n {
			c, k := f.sharedPut(fmt.Sprint(len(keys)), uint64(len(keys)+1))
			f.apply(c)
			keys = append(keys, k)
		}
	}
	check := func() {
		for i, k := range keys {
			require.True(t, finds(t, f.m, k), "content %d", i)
		}
	}
	for range 2 {
		add(110)
		require.NoError(t, f.m.Checkpoint(t.Context()))
		f.m.ReleaseMemory(filterIdle - 1)
		require.True(t, filter.full.Load())
		f.m.ReleaseMemory(filterIdle)
		require.False(t, filter.full.Load())
		require.Nil(t, filter.blooms.Load())
		add(75)
		require.Nil(t, filter.blooms.Load(), "a few writes do not fill it")
		check()
		filter.lookups.Store(refillAfter(uint64(len(keys))))
		add(5)
		require.NoError(t, f.m.Checkpoint(t.Context()))
		f.m.filling.Wait()
		require.True(t, filter.full.Load())
		check()
		add(3)
		check()
		_, k := f.sharedPut("none", 0)
		require.False(t, filter.mayHave(k.Hash()))
	}
}

// A start reads only the content that was added since the last runs, even if none of it may be shared.
func TestFindsStart(t *testing.T) {
	dir := t.TempDir()
	o := Options{runLength: 20}
	f := feed(t, openAt(t, dir, o), core.VersioningOff)
	for n := range 500 {
		f.apply(f.put(fmt.Sprint(n)))
	}
	c, k := f.sharedPut("shared", 1)
	f.apply(c)
	require.NoError(t, f.m.Close())
	f.m = openAt(t, dir, o)
	require.LessOrEqual(t, f.m.w.index.seen, 3*o.runLength, "pieces of content read at the start")
	require.True(t, finds(t, f.m, k))
}

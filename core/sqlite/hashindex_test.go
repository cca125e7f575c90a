package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
)

// candidates returns the IDs of all content that the index has for a hash.
func candidates(t require.TestingT, m *Meta, hash uint64) []core.DataID {
	ids := m.w.index.buffered(hash, nil)
	require.NoError(t, m.read(context.Background(), "test", func(c *conn) error {
		return c.eachHashed(hash, nil, func(id core.DataID) (bool, error) {
			ids = append(ids, id)
			return true, nil
		})
	}))
	return ids
}

// hashModel is a database and the content that it has.
type hashModel struct {
	t     *rapid.T
	dir   string
	o     Options
	f     *feeder
	there map[string]*core.DataInfo // by key
	free  []core.DataID             // IDs that content is given later
	count uint64
}

// change makes the next change of a random key: new content, with few different hashes or beginnings, or a deletion.
func (h *hashModel) change() (key string, c core.Change, info *core.DataInfo) {
	key = fmt.Sprint(rapid.IntRange(0, 40).Draw(h.t, "key"))
	if rapid.IntRange(0, 3).Draw(h.t, "kind") == 0 {
		return key, &core.DeleteObject{Bucket: h.f.bucket, Key: key}, nil
	}
	h.count++
	content := h.count
	if rapid.IntRange(0, 5).Draw(h.t, "equal") == 0 {
		content = 1 + content%3
	}
	for range rapid.IntRange(0, 2).Draw(h.t, "reserved IDs") {
		h.f.data++
		h.free = append(h.free, h.f.data)
	}
	put, _ := h.f.sharedPut(key, content)
	info = put.Object.Segments[0].Info
	if n := len(h.free); n > 0 && rapid.Bool().Draw(h.t, "late") {
		at := rapid.IntRange(0, n-1).Draw(h.t, "which")
		info.ID = h.free[at]
		put.Object.Segments[0].Data = info.ID
		h.free = slices.Delete(h.free, at, at+1)
	}
	if rapid.Bool().Draw(h.t, "large") {
		headed(put, 1+content%2)
	}
	return key, put, info
}

// transaction applies some changes, or rolls them back.
func (h *hashModel) transaction(isRolledBack bool) {
	m := h.f.m
	there, free, seq := maps.Clone(h.there), slices.Clone(h.free), h.f.seq
	var changes []core.Change
	for range rapid.IntRange(1, 12).Draw(h.t, "changes") {
		key, c, info := h.change()
		seq++
		c.SetStamp(seq)
		changes = append(changes, c)
		if delete(h.there, key); info != nil {
			h.there[key] = info
		}
	}
	if !isRolledBack {
		h.f.seq = seq
		results, err := m.Apply(context.Background(), changes)
		require.NoError(h.t, err)
		for _, r := range results {
			require.NoError(h.t, r.Err)
		}
		return
	}
	h.there, h.free = there, free
	rolledBack(h.t, m, changes)
}

// restart opens the database again, after Close or as a kill leaves it.
func (h *hashModel) restart(isKilled bool) {
	m, dir := h.f.m, h.dir
	if isKilled {
		h.dir = filepath.Join(dir, "next")
		require.NoError(h.t, os.Mkdir(h.dir, 0o700))
		m.check.idle(m)
		for _, name := range []string{"meta.db", "meta.db-wal"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(h.t, err)
			require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, name), b, 0o600))
		}
	}
	require.NoError(h.t, m.Close())
	var err error
	h.f.m, err = Open(filepath.Join(h.dir, "meta.db"), h.o)
	require.NoError(h.t, err)
	if rapid.Bool().Draw(h.t, "fill") {
		h.f.m.filling.Wait()
	}
}

// check checks that the index has every pair of existing content, and that its pages are in order.
func (h *hashModel) check() {
	m := h.f.m
	for key, d := range h.there {
		require.True(h.t, m.w.index.filter.mayHave(d.Hash()), "the filter lacks %s", key)
		require.Contains(h.t, candidates(h.t, m, d.Hash()), d.ID, "the content of %s", key)
		if d.HasHead() {
			require.Contains(h.t, candidates(h.t, m, d.HeadHash()), d.ID, "the beginning of %s", key)
		}
		found, err := m.FindData(context.Background(), d.ContentKey())
		require.NoError(h.t, err)
		k := d.ContentKey()
		require.True(h.t, k.Fits(found))
	}
	lines, err := m.Verify(context.Background())
	require.NoError(h.t, err)
	require.Empty(h.t, lines)
}

// Whatever is added, removed, rolled back, merged, closed or killed: every pair of existing content is in the index.
func TestHashIndexModel(t *testing.T) {
	root := t.TempDir()
	n := 0
	merges := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &hashModel{t: rt, dir: filepath.Join(root, fmt.Sprint(n)), there: map[string]*core.DataInfo{}}
		h.o = Options{runLength: rapid.SampledFrom([]int{1, 3, 10, 60}).Draw(rt, "run length"), changes: 1}
		require.NoError(rt, os.Mkdir(h.dir, 0o700))
		m, err := Open(filepath.Join(h.dir, "meta.db"), h.o)
		require.NoError(rt, err)
		h.f = feed(t, m, core.VersioningOff)
		defer func() { require.NoError(rt, h.f.m.Close()) }()
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 11).Draw(rt, "step") {
			case 0:
				h.restart(false)
			case 1:
				h.restart(true)
			case 2, 3:
				h.transaction(true)
			default:
				h.transaction(false)
			}
			merges += len(h.f.m.w.index.runs.merges)
			if rapid.IntRange(0, 3).Draw(rt, "check") == 0 {
				h.check()
			}
		}
		h.check()
	})
	require.Positive(t, merges, "merges were in progress")
}

// indexInfo makes content for the index alone.
func indexInfo(id core.DataID) *core.DataInfo {
	d := &core.DataInfo{ID: id, Scope: 1, Size: 1}
	hash := uint64(id) * 0x9e3779b97f4a7c15
	hash = (hash ^ hash>>30) * 0xbf58476d1ce4e5b9
	binary.BigEndian.PutUint64(d.SHA256[:], hash^hash>>27)
	return d
}

// indexed changes the index alone, in one transaction.
func indexed(t testing.TB, m *Meta, next core.DataID, fn func(x *hashIndex)) {
	m.mu.Lock() // the checkpointer uses the writer's connection, too
	defer m.mu.Unlock()
	x := &m.w.index
	_, err := x.c.exec(beginWrite)
	require.NoError(t, err)
	fn(x)
	require.NoError(t, x.work())
	_, err = x.c.exec(commit)
	require.NoError(t, err)
	x.committed(next)
}

// As the index grows, the number of runs grows with its logarithm, each pair is written a few times, and no transaction
// does much more than its share. When everything is deleted, the index becomes small.
func TestHashIndexGrows(t *testing.T) {
	const length, together, contents = 256, 30, 60_000
	m := openAt(t, t.TempDir(), Options{runLength: length, CheckpointBytes: 1 << 40})
	m.filling.Wait()
	x := &m.w.index
	next, most, all, longest := core.DataID(1), 0, 0, 0
	run := func(fn func(id core.DataID)) {
		for to := next + contents; next < to; {
			before := x.c.ran
			indexed(t, m, next+together, func(x *hashIndex) {
				for range together {
					fn(next)
					next++
				}
			})
			ran := x.c.ran - before - 2
			most, all, longest = max(most, ran), all+ran, max(longest, len(x.runs.list))
		}
	}
	run(func(id core.DataID) { require.NoError(t, x.add(indexInfo(id))) })
	perPage := length / typicalLength
	require.Less(t, all*perPage, 60*contents, "statements for all pages")
	require.Less(t, most, 60, "statements of one transaction")
	require.Less(t, longest, 40, "runs")
	for id := core.DataID(1); id < contents; id += 997 {
		require.Contains(t, candidates(t, m, indexInfo(id).Hash()), id)
	}
	t.Logf("%d statements for %d pairs, with %d in a page; at most %d in a transaction of %d; at most %d runs", all, contents, perPage,
		most, together, longest)
	run(func(id core.DataID) { x.remove(indexInfo(id - contents)) })
	run(func(core.DataID) { x.noteContent() })
	require.Less(t, countPairs(t, m), contents/50, "pairs that are left")
	lines, err := m.Verify(context.Background())
	require.NoError(t, err)
	require.Empty(t, lines)
}

// Content is replaced again and again: the index has a few times as many pairs as it needs.
func TestHashIndexOfReplacedContent(t *testing.T) {
	const live = 5000
	m := openAt(t, t.TempDir(), Options{runLength: 100, CheckpointBytes: 1 << 40})
	x := &m.w.index
	next := core.DataID(1)
	for range 20 * live / 50 {
		indexed(t, m, next+50, func(x *hashIndex) {
			for range 50 {
				require.NoError(t, x.add(indexInfo(next)))
				if next > live {
					x.remove(indexInfo(next - live))
				}
				next++
			}
		})
	}
	require.Less(t, countPairs(t, m), 6*live)
	for id := next - live + 100; id < next; id += 7 {
		require.Contains(t, candidates(t, m, indexInfo(id).Hash()), id)
	}
	require.Positive(t, len(x.runs.list))
}

// One hash may have more pairs than fit in a page.
func TestHashIndexOfOneHash(t *testing.T) {
	dir := t.TempDir()
	o := Options{runLength: 64}
	m := openAt(t, dir, o)
	const contents = 3000
	same := indexInfo(7)
	same.ID = 0
	for id := core.DataID(1); id <= contents; id += 30 {
		indexed(t, m, id+30, func(x *hashIndex) {
			for i := range core.DataID(30) {
				d := *same
				d.ID = id + i
				require.NoError(t, x.add(&d))
				require.NoError(t, x.add(indexInfo(id+i+contents)))
			}
		})
	}
	ids := candidates(t, m, same.Hash())
	slices.Sort(ids)
	ids = slices.Compact(ids)
	require.Len(t, ids, contents)
	lines, err := m.Verify(context.Background())
	require.NoError(t, err)
	require.Empty(t, lines)
}

// Runs that are merged.
func TestPick(t *testing.T) {
	run := func(rank int, pairs uint64) *hashRun { return &hashRun{id: runID(rank << numberBits), pairs: pairs} }
	busy := func(r *hashRun) *hashRun {
		r.merge = &merge{}
		return r
	}
	same := func(n, rank int, pairs uint64) (runs []*hashRun) {
		for range n {
			runs = append(runs, run(rank, pairs))
		}
		return runs
	}
	hurt := run(0, 100)
	hurt.damaged = true
	for name, c := range map[string]struct {
		runs     []*hashRun
		from, to int
	}{
		"none":                           {nil, 0, 0},
		"one":                            {same(1, 15, 10), 0, 0},
		"two of a size":                  {same(2, 15, 10), 0, 2},
		"the oldest is larger":           {append(same(1, 0, 100), same(7, 15, 10)...), 0, 0},
		"eight beside the oldest":        {append(same(1, 0, 100), same(8, 15, 10)...), 1, 9},
		"as many as the oldest":          {append(same(1, 0, 100), same(10, 15, 10)...), 0, 11},
		"eight of two ranks":             {append(append(same(1, 0, 1000), same(4, 14, 80)...), same(4, 15, 10)...), 0, 0},
		"eight of the second rank":       {append(append(same(1, 0, 1000), same(4, 14, 80)...), same(9, 15, 10)...), 5, 13},
		"the oldest is busy":             {append([]*hashRun{busy(run(0, 100))}, same(8, 15, 100)...), 1, 9},
		"a busy one between":             {slices.Concat(same(1, 0, 100), same(4, 15, 10), []*hashRun{busy(run(15, 10))}, same(4, 15, 10)), 0, 0},
		"only those before the busy one": {slices.Concat(same(1, 0, 20), same(2, 15, 10), []*hashRun{busy(run(15, 10))}, same(4, 15, 10)), 0, 3},
		"the oldest is damaged":          {append([]*hashRun{hurt}, same(7, 15, 100)...), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := hashRuns{list: c.runs}
			require.Len(t, s.pick(-1), c.to-c.from)
			for i, r := range s.pick(-1) {
				require.Same(t, c.runs[c.from+i], r)
			}
		})
	}
	runs := same(2, 15, 10)
	runs[1].id++
	require.Empty(t, (&hashRuns{list: runs}).pick(runs[1].id), "one is being written")
}

// The pairs of a page are the same when it is decoded, and damaged pages are errors.
func TestHashPages(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var pairs []hashPair
	for range 100 {
		pairs = append(pairs, hashPair{hash: random.Uint64(), data: core.DataID(random.Uint64() >> random.IntN(63) >> 1), gone: random.IntN(5) == 0})
	}
	pairs = append(pairs, hashPair{}, hashPair{hash: 1<<64 - 1, data: 1<<63 - 1, gone: true})
	slices.SortFunc(pairs, comparePairs)
	var w pageWriter
	for _, p := range pairs {
		require.False(t, w.isFull(pageLength))
		w.add(p)
	}
	const id = 5<<pageBits | 77
	column := pageKey(id).appendSum(w.buf)
	p, err := openPage(id, column)
	require.NoError(t, err)
	for _, want := range pairs {
		got, ok := p.next()
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := p.next()
	require.False(t, ok)
	require.Empty(t, p.rest)
	_, err = openPage(id+1, column)
	require.Equal(t, core.Damaged, kindOf(err))
	for at := range column {
		column[at] ^= 0x10
		_, err = openPage(id, column)
		require.Equal(t, core.Damaged, kindOf(err))
		column[at] ^= 0x10
	}
	for range 1000 { // any bytes with a valid checksum end somewhere
		b := make([]byte, random.IntN(100))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		p, err := openPage(id, pageKey(id).appendSum(b))
		require.NoError(t, err)
		for ok := true; ok; {
			_, ok = p.next()
		}
		_, _ = decodeRun(3, runKey(3).appendSum(b))
	}
	run := &hashRun{id: 3, age: 7, pairs: 1 << 40, at: hashPair{hash: 1 << 63, data: 9}, inputs: []runID{1, 2047}}
	got, err := decodeRun(3, run.appendTo(nil))
	require.NoError(t, err)
	require.Equal(t, run, got)
	require.Positive(t, runID(maxRank<<numberBits|1<<numberBits-1).lastPage())
}

// A damaged page loses what it would find, and nothing else; it is reported, and writes continue.
func TestDamagedHashPages(t *testing.T) {
	ctx := context.Background()
	for name, sql := range map[string]string{
		"page": "UPDATE hash_pages SET pairs = CAST(substr(pairs, 1, 10) || x'ff' || substr(pairs, 12) AS BLOB) WHERE id IN " +
			"(SELECT id FROM hash_pages ORDER BY id LIMIT 3 OFFSET 2)",
		"all pages": "UPDATE hash_pages SET pairs = x''",
		"run":       "UPDATE hash_runs SET info = x'0102030405' WHERE id = (SELECT max(id) FROM hash_runs)",
		"all runs":  "UPDATE hash_runs SET info = x''",
	} {
		t.Run(name, func(t *testing.T) {
			dir, o := t.TempDir(), Options{runLength: 40}
			f := feed(t, openAt(t, dir, o), core.VersioningOff)
			var keys []core.ContentKey
			put := func(n int) {
				for range n {
					c, k := f.sharedPut(fmt.Sprint(len(keys)), uint64(len(keys)+1))
					f.apply(c)
					keys = append(keys, k)
				}
			}
			put(600)
			require.NoError(t, f.m.runSQL(sql))
			require.NoError(t, f.m.Close())
			f.m = openAt(t, dir, o)
			count := func() (n int) {
				for _, k := range keys {
					d, err := f.m.FindData(ctx, k)
					if core.Is(err, core.NoSuchData) {
						continue
					}
					require.NoError(t, err)
					require.True(t, k.Fits(d))
					n++
				}
				return n
			}
			before := count()
			lost := len(keys) - before
			lines, err := f.m.Verify(ctx)
			require.NoError(t, err)
			require.NotEmpty(t, lines)
			require.Contains(t, lines[0], "of the hash index: row checksum mismatch")
			put(3000)
			require.GreaterOrEqual(t, count(), len(keys)-lost, "nothing more is lost")
			lines, err = f.m.Verify(ctx)
			require.NoError(t, err)
			require.NotEmpty(t, lines)

			var rows []*core.Row
			require.NoError(t, f.m.Snapshot(ctx, func(r *core.Row) error {
				rows = append(rows, r)
				return nil
			}))
			f.m = openAt(t, t.TempDir(), o)
			require.NoError(t, f.m.Restore(ctx, rowsOf(rows)))
			require.Equal(t, len(keys), count())
			lines, err = f.m.Verify(ctx)
			require.NoError(t, err)
			require.Empty(t, lines)
		})
	}
}

func rowsOf(rows []*core.Row) func() (*core.Row, error) {
	return func() (*core.Row, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		row := rows[0]
		rows = rows[1:]
		return row, nil
	}
}

// A restore writes large runs and merges them, and what it restored is found at once and after a start.
func TestRestoreOfHashIndex(t *testing.T) {
	ctx := context.Background()
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	var keys []core.ContentKey
	var changes []core.Change
	for n := range 30_000 {
		c, k := f.sharedPut(fmt.Sprint(n), uint64(n+1))
		changes, keys = append(changes, c), append(keys, k)
	}
	f.apply(changes...)
	var rows []*core.Row
	require.NoError(t, f.m.Snapshot(ctx, func(r *core.Row) error {
		rows = append(rows, r)
		return nil
	}))
	dir, o := t.TempDir(), Options{runLength: 5}
	m := openAt(t, dir, o)
	require.NoError(t, m.Restore(ctx, rowsOf(rows)))
	check := func() {
		for i := 0; i < len(keys); i += 13 {
			require.True(t, finds(t, m, keys[i]))
		}
	}
	check()
	require.Less(t, m.w.index.seen, 10)
	require.NoError(t, m.Close())
	m = openAt(t, dir, o)
	require.Zero(t, m.w.index.seen)
	check()
	m.filling.Wait()
	check()
	require.NoError(t, m.Reset(ctx))
	require.Zero(t, countPairs(t, m))
	require.False(t, finds(t, m, keys[0]))
}

// A database of schema version 1 is migrated: its pairs become a run.
func TestMigrationOfFinds(t *testing.T) {
	for _, contents := range []int{0, 1, 3000} {
		dir, o := t.TempDir(), Options{runLength: 50}
		f := feed(t, openAt(t, dir, o), core.VersioningOff)
		var infos []*core.DataInfo
		for n := range contents {
			c, _ := f.sharedPut(fmt.Sprint(n), uint64(n+1))
			if n%3 == 0 {
				headed(c, uint64(n%5+1))
			}
			f.apply(c)
			infos = append(infos, c.Object.Segments[0].Info)
		}
		m := f.m
		require.NoError(t, m.runSQL(`
ALTER TABLE objects DROP COLUMN brief; DROP TABLE blocks; DROP TABLE hash_runs; DROP TABLE hash_pages; DROP TABLE hash_late; DROP TABLE hash_upto;
CREATE TABLE finds (hash INTEGER NOT NULL, data INTEGER NOT NULL, PRIMARY KEY (hash, data)) STRICT, WITHOUT ROWID;
CREATE TABLE finds_upto (id INTEGER PRIMARY KEY CHECK (id = 1), data INTEGER NOT NULL) STRICT;
PRAGMA user_version = 1`))
		upto := core.DataID(1)
		insert := func(hash uint64, id core.DataID) {
			require.NoError(t, m.runSQL(fmt.Sprintf("INSERT INTO finds VALUES (%d, %d)", int64(hash), id)))
		}
		for _, d := range infos[:contents*9/10] { // the others were buffered
			insert(d.Hash(), d.ID)
			if d.HasHead() {
				insert(d.HeadHash(), d.ID)
			}
			upto = d.ID + 1
		}
		require.NoError(t, m.runSQL(fmt.Sprintf("INSERT INTO finds_upto VALUES (1, %d)", upto)))
		require.NoError(t, m.Close())

		for range 2 { // migrated, and opened again
			m = openAt(t, dir, o)
			m.filling.Wait()
			require.True(t, m.w.index.filter.full.Load())
			row, err := m.w.c.pragma("user_version")
			require.NoError(t, err)
			require.EqualValues(t, len(steps()), integer(row[0]))
			require.NoError(t, m.w.c.scan(background, "SELECT count(*) FROM sqlite_master WHERE name LIKE 'finds%'", func(cols []driver.Value) error {
				require.Zero(t, integer(cols[0]))
				return nil
			}))
			require.Equal(t, upto, m.w.index.upto)
			for _, d := range infos {
				require.Contains(t, candidates(t, m, d.Hash()), d.ID)
				if d.HasHead() {
					require.Contains(t, candidates(t, m, d.HeadHash()), d.ID)
				}
			}
			lines, err := m.Verify(context.Background())
			require.NoError(t, err)
			require.Empty(t, lines)
			require.NoError(t, m.Close())
		}
	}
}

// Lookups beside a writer that merges find everything that existed when they began.
func TestFindsBesideMerges(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{runLength: 20}), core.VersioningOff)
	var keys []core.ContentKey
	for n := range 500 {
		c, k := f.sharedPut(fmt.Sprint(n), uint64(n+1))
		f.apply(c)
		keys = append(keys, k)
	}
	done, failed := make(chan struct{}), make(chan string, 1)
	go func() {
		defer close(failed)
		random := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-done:
				return
			default:
			}
			n := random.IntN(len(keys))
			if _, err := f.m.FindData(context.Background(), keys[n]); err != nil {
				failed <- fmt.Sprint(n, ": ", err)
				return
			}
		}
	}()
	for n := range 3000 {
		c, _ := f.sharedPut(fmt.Sprint("new", n), uint64(n+1000))
		f.apply(c)
	}
	close(done)
	require.Empty(t, <-failed)
}

// While the filter is filled, merges add the pairs that they move: their new pages may have been passed already.
func TestMergesFillTheFilter(t *testing.T) {
	m := openAt(t, t.TempDir(), Options{runLength: 50})
	m.filling.Wait()
	x := &m.w.index
	id := core.DataID(1)
	for ; len(x.runs.merges) == 0; id++ {
		indexed(t, m, id+1, func(x *hashIndex) { require.NoError(t, x.add(indexInfo(id))) })
	}
	last := id - 1
	x.filter.full.Store(false)
	x.filter.blooms.Store(nil)
	for len(x.runs.merges) > 0 {
		indexed(t, m, last+1, func(x *hashIndex) { x.noteContent() })
	}
	x.filter.full.Store(true)
	merged := x.runs.list[0].pairs
	require.Positive(t, merged)
	found := uint64(0)
	for id := core.DataID(1); id <= last; id++ {
		if x.filter.mayHave(indexInfo(id).Hash()) {
			found++
		}
	}
	require.GreaterOrEqual(t, found, merged)
}

package sqlite

import (
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	sqlite3 "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"orcas/core/encoding"
)

// BenchmarkObjectIndex compares forms of the index of objects, in transactions of 2,000 new keys:
//
//   - tree: the table objects without its column brief, and without anything else
//   - rows: the tables objects and data, without the column brief
//   - wide: objects has the info of the version, too, and data does not
//   - brief: the tables objects and data as they are; the column brief has what a listing shows: time, size, ETag
//   - runs: sorted runs instead of objects, without anything else (see runIndex)
//
// It puts keys in sequential, interleaved (64 sequences), or random order, up to the number in the name. The metrics
// cpu-ns/row, pages/row (in the log) and bytes/row (written to files, with checkpoints) are those of the last 100,000
// rows, but at most of the last half; for runs, whose merges are rare, they are always those of the last half. Then it
// reads: a walk in pages of 1,000 keys, and random keys. Finally, overwrite-ns/row is for existing keys at random.
func BenchmarkObjectIndex(b *testing.B) {
	keys := 100_000
	if s := os.Getenv("ORCAS_BENCH_SCALE"); s != "" {
		f, err := strconv.Atoi(s)
		require.NoError(b, err)
		keys *= f
	}
	for _, form := range []string{"tree", "rows", "wide", "brief", "runs"} {
		for _, order := range []string{"sequential", "interleaved", "random"} {
			b.Run(fmt.Sprintf("%s/%s/%d", form, order, keys), func(b *testing.B) {
				for b.Loop() {
					benchmarkObjectIndex(b, form, order, keys)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// indexKey returns key n in an order, as in the scenario growth of package perf.
func indexKey(order string, n int) string {
	switch order {
	case "random":
		x := uint64(n) + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return fmt.Sprintf("%016x", x^x>>31)
	case "interleaved":
		return fmt.Sprintf("%03d/%012d", n%64, n/64)
	}
	return fmt.Sprintf("%016d", n)
}

// objectIndex is a form of the index that is measured.
type objectIndex interface {
	put(key string, n int)     // a new or an existing key
	flush()                    // before each commit
	list(from string) []string // the next 1,000 keys after from
	has(key string) bool
}

func benchmarkObjectIndex(b *testing.B, form, order string, keys int) {
	measured := min(keys/2, 100_000)
	dir := b.TempDir()
	path := filepath.Join(dir, "meta.db")
	c, err := connect(path, role{synchronous: "NORMAL", cacheKiB: writerCacheKiB})
	require.NoError(b, err)
	defer c.close()
	require.NoError(b, c.run("PRAGMA cache_spill=OFF"))
	require.NoError(b, migrate(c, steps()))
	reader, err := connect(path, role{synchronous: "NORMAL", cacheKiB: readerCacheKiB, readOnly: true})
	require.NoError(b, err)
	defer reader.close()
	var x objectIndex
	if form == "runs" {
		x = newRunIndex(b, c, reader)
	} else {
		x = newTreeIndex(b, c, reader, form)
	}
	w := &indexWriter{b: b, c: c, x: x, order: order}
	from := keys - measured
	if form == "runs" {
		from = keys / 2
	}
	same := func(i int) int { return i }
	w.puts(0, from, same)
	framesBefore, bytesBefore := w.frames, bytesWritten(b)
	perUnit(b, "cpu-ns/row", keys-from, func() { w.puts(from, keys, same) })
	b.ReportMetric(float64(w.frames-framesBefore)/float64(keys-from), "pages/row")
	b.ReportMetric(float64(bytesWritten(b)-bytesBefore)/float64(keys-from), "bytes/row")
	file, err := os.Stat(path)
	require.NoError(b, err)
	b.ReportMetric(float64(file.Size())/float64(keys), "file-bytes/row")
	perUnit(b, "list-ns/key", keys, func() {
		found := 0
		for page := x.list(""); len(page) > 0; page = x.list(page[len(page)-1]) {
			found += len(page)
		}
		require.Equal(b, keys, found)
	})
	const gets = 50_000
	perUnit(b, "get-ns", gets, func() {
		for i := range gets {
			require.True(b, x.has(indexKey(order, i*7919%keys)))
		}
	})
	if x, ok := x.(*runIndex); ok {
		b.ReportMetric(float64(x.searched)/gets, "runs/get")
		b.ReportMetric(float64(len(slices.Concat(x.ranks...))), "runs")
		b.ReportMetric(float64(x.written)/float64(keys), "writes/row")
	}
	if form == "tree" {
		perUnit(b, "overwrite-ns/row", measured, func() {
			w.puts(0, measured, func(i int) int { return int(uint64(i) * 0x9e3779b97f4a7c15 % uint64(keys)) })
		})
	}
}

// indexWriter puts keys in transactions, with checkpoints.
type indexWriter struct {
	b      *testing.B
	c      *conn
	x      objectIndex
	order  string
	frames int64 // the number of pages that were written to the log
}

// puts puts the keys with the given numbers, for i from from to to.
func (w *indexWriter) puts(from, to int, number func(i int) int) {
	for from < to {
		require.NoError(w.b, w.c.run("BEGIN IMMEDIATE"))
		for end := min(from+transactionChanges, to); from < end; from++ {
			w.x.put(indexKey(w.order, number(from)), from)
		}
		w.x.flush()
		require.NoError(w.b, w.c.run("COMMIT"))
		l, err := w.c.checkpoint("NOOP")
		if require.NoError(w.b, err); l.frames*4096 > defaultLogBytes || from == to {
			w.frames += l.frames
			_, err = w.c.checkpoint("TRUNCATE")
			require.NoError(w.b, err)
		}
	}
}

// perUnit reports the CPU time that fn takes for each of n units.
func perUnit(b *testing.B, name string, n int, fn func()) {
	start := cpuTime()
	fn()
	b.ReportMetric(float64(cpuTime()-start)/float64(n), name)
}

// bytesWritten returns the bytes that this process has passed to write calls.
func bytesWritten(b *testing.B) (n int64) {
	text, err := os.ReadFile("/proc/self/io")
	require.NoError(b, err)
	_, rest, _ := strings.Cut(string(text), "wchar: ")
	_, err = fmt.Sscan(rest, &n)
	require.NoError(b, err)
	return n
}

// treeIndex is the index in B-trees.
type treeIndex struct {
	b            *testing.B
	form         string
	insert, data *sqlite3.SQLiteStmt
	reads, gets  *sqlite3.SQLiteStmt
	sha          []byte
	info, object []byte
}

const briefBytes = 32

func newTreeIndex(b *testing.B, c, reader *conn, form string) *treeIndex {
	f := &feeder{bucket: 1}
	put := f.put("")
	x := &treeIndex{b: b, form: form, sha: make([]byte, 32)}
	x.info = append(encoding.AppendDataRow(nil, put.Object.Segments[0].Info), 1, 2, 3, 4)
	x.object = append(encoding.AppendObject(nil, &put.Object, f.data), 1, 2, 3, 4)
	from, columns, column, info := " FROM objects v", ", NULL", "", ""
	switch form {
	case "rows":
		from += " LEFT JOIN data d ON d.id = v.data"
		columns = ", d.object"
	case "wide":
		require.NoError(b, c.run("ALTER TABLE objects ADD COLUMN info BLOB"))
		columns, column, info = ", v.info", ", info", ", ?6"
	case "brief":
		columns, column, info = ", v.brief", ", brief", ", ?6"
	}
	x.insert = prepareIn(b, c, "INSERT INTO objects (bucket, key, seq, nullver, data"+column+") VALUES (?1, ?2, ?3, ?4, ?5"+info+
		") ON CONFLICT DO UPDATE SET seq = excluded.seq, data = excluded.data")
	x.data = prepareIn(b, c, statementSQL[insertData])
	x.reads = prepareIn(b, reader, "SELECT v.key, v.seq, v.data"+columns+from+
		" WHERE v.bucket = ?1 AND v.key > ?2 ORDER BY v.key LIMIT 1000")
	if form != "tree" {
		from, columns = " FROM objects v LEFT JOIN data d ON d.id = v.data", columns+", d.refs, d.sha256, d.info"
	}
	x.gets = prepareIn(b, reader, "SELECT v.key, v.seq, v.data"+columns+from+" WHERE v.bucket = ?1 AND v.key = ?2")
	return x
}

func (x *treeIndex) put(key string, n int) {
	id, object := int64(n+1), x.object
	args := []driver.Value{int64(1), blob(key), id, int64(1), id}
	switch x.form {
	case "wide":
		args, object = append(args, x.object), nil
	case "brief":
		args = append(args, x.object[:briefBytes])
	}
	_, err := x.insert.Exec(args)
	require.NoError(x.b, err)
	if x.form != "tree" {
		_, err = x.data.Exec([]driver.Value{id, x.sha, x.info, object})
		require.NoError(x.b, err)
	}
}

func (x *treeIndex) flush() {}

func (x *treeIndex) list(from string) (keys []string) {
	eachRow(x.b, x.reads, func(cols []driver.Value) { keys = append(keys, text(cols[0])) }, int64(1), blob(from))
	return keys
}

func (x *treeIndex) has(key string) (found bool) {
	eachRow(x.b, x.gets, func([]driver.Value) { found = true }, int64(1), blob(key))
	return found
}

func prepareIn(b *testing.B, c *conn, sql string) *sqlite3.SQLiteStmt {
	s, err := c.c.Prepare(sql)
	require.NoError(b, err)
	b.Cleanup(func() { s.Close() })
	return s.(*sqlite3.SQLiteStmt)
}

func eachRow(b *testing.B, s *sqlite3.SQLiteStmt, fn func(cols []driver.Value), args ...driver.Value) {
	rows, err := s.Query(args)
	require.NoError(b, err)
	cols := make([]driver.Value, len(rows.Columns()))
	for rows.Next(cols) == nil {
		fn(cols)
	}
	require.NoError(b, rows.Close())
}

// runIndex is a prototype of an index in sorted runs, to measure what it would cost at least: nothing is deleted, a put
// does not look for an older version, and the first key of each page is in memory. A transaction writes a run; four
// runs of one rank are merged into a run of the next rank.
type runIndex struct {
	b                    *testing.B
	write, read          *sqlite3.SQLiteStmt
	readPage, deleteRuns *sqlite3.SQLiteStmt
	recent               []runRow
	ranks                [][]*sortedRun // from the lowest rank; in each rank, from the oldest
	next                 int64
	searched             int // the number of runs that has has searched
	written              int // the number of rows that were written, with those of merges
}

type runRow struct {
	key  []byte
	n    uint64
	data uint64
}

type sortedRun struct {
	id     int64
	firsts [][]byte // the first key of each page
}

const runPageBytes = 4000 // fits in a page of the database

func newRunIndex(b *testing.B, c, reader *conn) *runIndex {
	require.NoError(b, c.run("CREATE TABLE object_pages (id INTEGER PRIMARY KEY, rows BLOB NOT NULL) STRICT;"+
		" PRAGMA cache_spill=ON")) // a merge may change many pages
	const one, from = "SELECT rows FROM object_pages WHERE id = ?", "DELETE FROM object_pages WHERE id BETWEEN ? AND ?"
	return &runIndex{
		b: b, write: prepareIn(b, c, "INSERT INTO object_pages VALUES (?, ?)"), read: prepareIn(b, c, one),
		readPage: prepareIn(b, reader, one), deleteRuns: prepareIn(b, c, from),
	}
}

func (x *runIndex) put(key string, n int) {
	x.recent = append(x.recent, runRow{[]byte(key), uint64(n), uint64(n)})
}

func (x *runIndex) flush() {
	slices.SortFunc(x.recent, func(a, b runRow) int { return slices.Compare(a.key, b.key) })
	rows := x.recent
	out := x.writeRun(func() (r runRow, ok bool) {
		if len(rows) == 0 {
			return r, false
		}
		r, rows = rows[0], rows[1:]
		return r, true
	})
	x.recent = x.recent[:0]
	for rank := 0; ; rank++ {
		if rank == len(x.ranks) {
			x.ranks = append(x.ranks, nil)
		}
		if x.ranks[rank] = append(x.ranks[rank], out); len(x.ranks[rank]) < 4 {
			return
		}
		inputs := x.ranks[rank]
		out = x.writeRun(merged(x.cursors(inputs, x.read, "")))
		for _, r := range inputs {
			_, err := x.deleteRuns.Exec([]driver.Value{r.id << 32, r.id<<32 | 1<<32 - 1})
			require.NoError(x.b, err)
		}
		x.ranks[rank] = nil
	}
}

// writeRun writes the rows of next in pages.
func (x *runIndex) writeRun(next func() (runRow, bool)) *sortedRun {
	x.next++
	r := &sortedRun{id: x.next}
	var page, last []byte
	write := func() {
		if len(page) > 0 {
			_, err := x.write.Exec([]driver.Value{r.id<<32 | int64(len(r.firsts)-1), page})
			require.NoError(x.b, err)
			page, last = page[:0], nil
		}
	}
	for row, ok := next(); ok; row, ok = next() {
		if len(page)+len(row.key)+30 > runPageBytes {
			write()
		}
		if len(page) == 0 {
			r.firsts = append(r.firsts, row.key)
		}
		shared := 0
		for shared < min(len(last), len(row.key)) && last[shared] == row.key[shared] {
			shared++
		}
		x.written++
		page = binary.AppendUvarint(page, uint64(shared))
		page = binary.AppendUvarint(page, uint64(len(row.key)-shared))
		page = append(page, row.key[shared:]...)
		page = binary.AppendUvarint(binary.AppendUvarint(page, row.n), row.data)
		last = row.key
	}
	write()
	return r
}

// runCursor reads a run.
type runCursor struct {
	x    *runIndex
	run  *sortedRun
	read *sqlite3.SQLiteStmt
	page int
	rest []byte
	row  runRow
	ok   bool

	inPlace bool // a row is valid until the next one is read
}

func (c *runCursor) advance() {
	if len(c.rest) == 0 {
		if c.ok = c.page < len(c.run.firsts); !c.ok {
			return
		}
		eachRow(c.x.b, c.read, func(cols []driver.Value) { c.rest = cols[0].([]byte) }, c.run.id<<32|int64(c.page))
		c.page++
	}
	number := func() uint64 {
		n, size := binary.Uvarint(c.rest)
		c.rest = c.rest[size:]
		return n
	}
	shared, length := number(), number()
	key := c.row.key[:shared]
	if !c.inPlace {
		key = append(make([]byte, 0, shared+length), key...)
	}
	c.row.key, c.rest = append(key, c.rest[:length]...), c.rest[length:]
	c.row.n, c.row.data = number(), number()
	c.ok = true
}

// cursors returns a cursor for each run, at the first key that is greater than from.
func (x *runIndex) cursors(runs []*sortedRun, read *sqlite3.SQLiteStmt, from string) (list []*runCursor) {
	for _, r := range runs {
		c := &runCursor{x: x, run: r, read: read, page: r.pageOf([]byte(from))}
		for c.advance(); c.ok && slices.Compare(c.row.key, blob(from)) <= 0; {
			c.advance()
		}
		list = append(list, c)
	}
	return list
}

// pageOf returns the page that may have a key.
func (r *sortedRun) pageOf(key []byte) int {
	i, found := slices.BinarySearchFunc(r.firsts, key, slices.Compare[[]byte])
	if !found {
		i--
	}
	return max(i, 0)
}

// merged merges cursors.
func merged(list []*runCursor) func() (runRow, bool) {
	return func() (row runRow, ok bool) {
		var least *runCursor
		for _, c := range list {
			if c.ok && (least == nil || slices.Compare(c.row.key, least.row.key) < 0) {
				least = c
			}
		}
		if least == nil {
			return row, false
		}
		row = least.row
		least.advance()
		return row, true
	}
}

func (x *runIndex) list(from string) (keys []string) {
	next := merged(x.cursors(slices.Concat(x.ranks...), x.readPage, from))
	for len(keys) < 1000 {
		row, ok := next()
		if !ok {
			break
		}
		keys = append(keys, string(row.key))
	}
	return keys
}

// has searches the runs, from the lowest rank, until it finds the key.
func (x *runIndex) has(key string) bool {
	for _, rank := range x.ranks {
		for _, r := range rank {
			c := &runCursor{x: x, run: r, read: x.readPage, page: r.pageOf(blob(key)), inPlace: true}
			x.searched++
			for c.advance(); c.ok && string(c.row.key) < key; {
				if len(c.rest) == 0 {
					break
				}
				c.advance()
			}
			if c.ok && string(c.row.key) == key {
				return true
			}
		}
	}
	return false
}

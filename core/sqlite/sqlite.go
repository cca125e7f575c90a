// Package sqlite keeps metadata in a SQLite database. One connection writes, and a few connections read. They use the
// SQLite driver directly, because database/sql would double the cost of a statement.
//
// # Durability
//
// The database is in WAL mode. With synchronous=NORMAL, the default, the transaction of the writer stays open while
// Apply is called again and again (see transaction.go). A commit passes it to the operating system and does not wait
// for the drive. A killed process loses the open transaction, and a power failure also loses the newest ones before it.
// The next start recovers them from the records in the blocks (see core.Meta.Apply). With FULL each Apply is a
// transaction and waits for the drive. Every connection verifies these settings, since the driver has its own defaults.
//
// When the log (WAL) is longer than Options.CheckpointBytes, a goroutine copies it into the database. Then the writer
// copies the rest between two transactions and restarts the log. So the length of the log is bounded under any load,
// even beside a long read (see brake.go). Its file is truncated to zero bytes after some time without writes, and
// by Close.
//
// After a failed sync or write, the state of the files on disk is unknown. The engine then accepts no more writes:
// every later Apply returns Unavailable until the database is opened again. If the drive is full, the changes of the
// call are rolled back, and the next call may succeed. Uncommitted changes of earlier calls are kept in either case.
//
// # Schema, version 7 (PRAGMA user_version)
//
// Keys and names are BLOBs, so they compare as bytes. An info column has the encoding of package core/encoding.
//
//	state    one row: the last sequence applied, the next free DataID, State.ReplayFrom and, if it is not 0, State.Synced
//	buckets  id, name, info
//	objects  (bucket, key): seq, nullver, data, brief. Only current versions that are not delete markers
//	history  (bucket, key, seq): nullver, data. Every other version and every delete marker
//	data     id: refs, sha256, info (DataInfo without ID and SHA-256), object
//	infos    seq: info. ObjectInfo of versions whose data column is NULL
//	uploads  (bucket, key, id): info. Uploads in progress
//	parts    (list, number): seq, info. Parts of uploads, and of the objects that they became
//	lists    id: refs. Completed uploads, and the number of objects that refer to their parts
//	garbage  id: list, extents
//	records  (kind, key): value
//	tallies  bucket: info. What each bucket holds: the numbers of core.Tally as signed LEB128, written once per transaction that changes it
//	blocks   id: contents, bytes, seal (a row checksum). The amount of content in each block, and with a zero ID the plain size of all content; written once per transaction that changes it
//
// The hash index finds content by core.DataInfo.Hash, and by HeadHash if it has a head. Its entries are buffered in
// memory and then written in sorted runs, which are merged (see hashIndex):
//
//	hash_runs   id: info. The runs: LEB128 numbers (age, number of pairs, the last hash and DataID merged into it, runs being merged into it)
//	hash_pages  id: pairs. The pages of the runs: for each pair the difference to the hash before and twice the DataID, plus 1 for a tombstone, as LEB128
//	hash_upto   one row: the DataID below which the runs have all pairs, except those in hash_late
//	hash_late   id: data. The DataIDs below hash_upto whose pairs may not be in a run yet
//
// A plain PUT writes one small row at a random position (objects: key, seq, data, brief) and one at the end of data, which
// describes the content and has, in its column object, the info of the version that was written with the content. Every
// write at a random position costs a page of the log, so those rows are small: when objects had the infos, a PUT cost
// 50% more. So a listing of whole objects looks up each info by DataID. The column brief repeats what most listings need
// (core.ListQuery.Brief; see brief.go), so they need no lookup ("The object index" in docs/architecture.md has the costs).
// All other versions (copies, multipart objects, delete markers, empty objects) have their info in infos.
//
// The current version of a key is in objects, or, if it is a delete marker, the newest row in history. When the current
// version is deleted, the newest version of history moves to objects. So a listing of current keys reads no other rows.
//
// The ID of garbage is computed from the sequence of the change that freed it: twice the sequence for extents, and
// twice the sequence plus one for a list. So it does not depend on the grouping of changes into batches, and a replay
// produces the same IDs.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"orcas/core"
)

// Options are the settings of a database. The zero value has the defaults.
type Options struct {
	Synchronous     string // NORMAL (default): a crash requires a replay; FULL: each Apply is durable
	Readers         int    // the maximum number of concurrent reading connections; 0: 4
	BeforeSync      func() // called before the log is synced and copied; it makes the blocks durable that the log refers to
	CheckpointBytes int64  // the log length, in bytes, above which it is copied into the database; 0: 24 MiB

	LogBytes    int64 // the maximum log length, in bytes; 0: 128 MiB
	CacheBytes  int64 // the size of the page cache of a connection; 0: 8 MiB, or 256 MiB with Bulk
	FilterBytes int64 // the maximum size of the filter of the hash index, at least 1 MiB; 0: 63 MiB

	Idle time.Duration // the time without a write after which the log file is truncated to zero bytes; 0: 5 s

	// Checkpointed is called after each copy of the log into the database, with its duration. It must not block. If it is
	// nil, nothing is measured.
	Checkpointed func(took time.Duration, err error)

	// Bulk is for filling a new database that nobody uses before it is complete: nothing is synced, and the writer has a
	// large cache. After a crash the file must not be used. After Close the caller syncs the file.
	Bulk bool

	// For tests.
	runLength int // see hashIndex; 0: 8192
	changes   int // the number of changes after which a transaction is committed; 0: transactionChanges
	dumpRows  int // the maximum number of rows that a snapshot reads in one transaction; 0: 4096

	rested func(time.Duration) // called instead of the rest of a snapshot, if not nil
}

// Page caches and lock timeouts of the connections.
const (
	writerCacheKiB  = 8 << 10
	bulkCacheKiB    = 256 << 10
	readerCacheKiB  = 8 << 10
	checkCacheKiB   = 256
	readerBusyMs    = 5000 // a reader waits only for the recovery of the log
	writerBusyMs    = 2000 // the writer waits for readers of the old log when it restarts the log
	minSQLite       = 3_051_003
	defaultReaders  = 4
	defaultLogBytes = 24 << 20
)

var errClosed = errors.New("the database is closed")

// background is the context of all statements, because a context that can be canceled would cost a goroutine per
// statement.
var background = context.Background()

// Meta is a core.Meta in a SQLite database.
type Meta struct {
	path    string
	options Options

	worked atomic.Int64 // the number of reads and changes so far

	tokens chan struct{} // one token per reading connection in use; its capacity is the maximum
	done   chan struct{} // closed by Close
	idleMu sync.Mutex    // guards idle
	idle   []*conn       // unused reading connections; the last one is reused first, since its cache is the warmest

	rows chan struct{} // has an element while a snapshot or a restore is in progress

	mu      sync.Mutex // guards w, stopped, and imaged
	w       *writer
	stopped error // the reason why no more writes are accepted, or nil
	imaged  *dump // the snapshot whose images are attached to the writer's connection, or nil

	stateMu sync.Mutex // guards state and closed
	state   core.State
	closed  bool

	check     checkpointer
	committer committer
	filling   sync.WaitGroup // waits for fillFilter
}

var (
	_ core.Meta         = (*Meta)(nil)
	_ core.SingleWriter = (*Meta)(nil)
	_ core.Snapshotter  = (*Meta)(nil)
	_ core.Syncer       = (*Meta)(nil)
	_ core.Tallier      = (*Meta)(nil)
)

// Open opens the database at path, creates it if it does not exist, and migrates it to the current schema. It fails
// with Unsupported if a newer version of the program wrote it, Damaged if the file is not a database, and Busy if
// another process is writing to it.
func Open(path string, o Options) (*Meta, error) {
	const op = "sqlite.Open"
	switch o.Synchronous {
	case "":
		o.Synchronous = "NORMAL"
	case "NORMAL", "FULL":
	default:
		return nil, core.E(op, core.InvalidArgument, fmt.Errorf("synchronous must be NORMAL or FULL, not %q", o.Synchronous))
	}
	if o.Bulk {
		o.Synchronous = "OFF"
	}
	if o.Readers <= 0 {
		o.Readers = defaultReaders
	}
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = defaultLogBytes
	}
	if o.LogBytes <= 0 {
		o.LogBytes = defaultBound
	}
	if o.Idle <= 0 {
		o.Idle = defaultIdle
	}
	if o.changes <= 0 {
		o.changes = transactionChanges
	}
	if o.Synchronous == "FULL" || o.Bulk {
		o.changes = 1
	}
	if text, number, _ := sqlite3.Version(); number < minSQLite {
		return nil, core.E(op, core.Unsupported, fmt.Errorf("this program is linked with SQLite %s, but versions before 3.51.3 can damage the log of a database", text))
	}
	m := &Meta{path: path, options: o, tokens: make(chan struct{}, o.Readers), done: make(chan struct{}), rows: make(chan struct{}, 1)}
	if err := m.open(); err != nil {
		return nil, wrap(op, err)
	}
	m.check.start(m)
	m.committer.start(m)
	m.filling.Go(m.fillFilter)
	return m, nil
}

func (m *Meta) open() error {
	// SQLite would create a file that all users can read. The log file gets the mode of the database file.
	f, err := os.OpenFile(m.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	cacheKiB := writerCacheKiB
	if m.options.Bulk {
		cacheKiB = bulkCacheKiB
	}
	cacheKiB = m.options.cacheKiB(cacheKiB)
	c, err := connect(m.path, role{synchronous: m.options.Synchronous, cacheKiB: cacheKiB, busyMillis: writerBusyMs})
	if err != nil {
		return err
	}
	if err = c.limitFile(2 * m.options.CheckpointBytes); err == nil {
		err = c.run("PRAGMA cache_spill=OFF") // nothing of a transaction is written before its commit
	}
	if err == nil {
		err = migrate(c, steps())
	}
	if err == nil {
		m.w = newWriter(c)
		m.w.index.filter.limit(m.options.FilterBytes)
		m.w.state, err = c.state()
	}
	if err == nil {
		err = m.w.index.load(m.options.runLength)
	}
	if err == nil {
		m.state = m.w.state
		m.check.c, err = connect(m.path, role{synchronous: m.options.Synchronous, cacheKiB: checkCacheKiB})
	}
	if err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// cacheKiB returns the size of a page cache that has a size by default.
func (o *Options) cacheKiB(byDefault int) int {
	if o.CacheBytes > 0 {
		return int(o.CacheBytes >> 10)
	}
	return byDefault
}

// SingleWriter implements core.SingleWriter: the lock file of the data directory keeps other processes out.
func (m *Meta) SingleWriter() {}

// acquire returns a reading connection. It waits while all of them are in use.
func (m *Meta) acquire(ctx context.Context, op string) (*conn, error) {
	m.worked.Add(1)
	var c *conn
	select {
	case <-m.done:
		return nil, core.E(op, core.Unavailable, errClosed)
	case <-ctx.Done():
		return nil, core.E(op, core.Canceled, ctx.Err())
	default:
	}
	select {
	case m.tokens <- struct{}{}:
	case <-m.done:
		return nil, core.E(op, core.Unavailable, errClosed)
	case <-ctx.Done():
		return nil, core.E(op, core.Canceled, ctx.Err())
	}
	m.idleMu.Lock()
	if n := len(m.idle); n > 0 {
		c, m.idle = m.idle[n-1], m.idle[:n-1]
	}
	m.idleMu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := connect(m.path, role{synchronous: m.options.Synchronous, cacheKiB: m.options.cacheKiB(readerCacheKiB), readOnly: true, busyMillis: readerBusyMs})
	if err != nil {
		<-m.tokens
		return nil, wrap(op, err)
	}
	return c, nil
}

func (m *Meta) release(c *conn) {
	m.idleMu.Lock()
	m.idle = append(m.idle, c)
	m.idleMu.Unlock()
	<-m.tokens
}

// read runs fn with a reading connection.
func (m *Meta) read(ctx context.Context, op string, fn func(c *conn) error) error {
	c, err := m.acquire(ctx, op)
	if err != nil {
		return err
	}
	defer m.release(c)
	return wrap(op, fn(c))
}

// snapshot runs fn in a read transaction, so that all its statements see the same state.
func (c *conn) snapshot(fn func() error) error {
	if c.open {
		return fn()
	}
	if _, err := c.exec(begin); err != nil {
		return err
	}
	err := fn()
	if _, endErr := c.exec(commit); endErr != nil {
		err = errors.Join(err, endErr)
	}
	return err
}

// Close waits for reads in progress, copies the log into the database, and closes the database. Later calls fail with
// Unavailable.
func (m *Meta) Close() error {
	m.stateMu.Lock()
	again := m.closed
	m.closed = true
	m.stateMu.Unlock()
	if again {
		return nil
	}
	close(m.done)
	m.filling.Wait()
	m.committer.done.Wait()
	m.check.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for range m.options.Readers {
		m.tokens <- struct{}{}
	}
	conns := append(m.idle, m.check.c)
	var errs []error
	const op = "sqlite.Close"
	failed := m.commit(op)
	if m.w.c.open {
		_, err := m.w.c.exec(rollback)
		errs = append(errs, err)
	}
	if m.stopped == nil {
		l, err := m.w.c.checkpoint("TRUNCATE")
		if err == nil && l.busy {
			err = errors.New("another process is reading the database, so its log could not be emptied")
		}
		if err != nil {
			m.stopped = err
		}
		if kindOf(err) != core.NoSpace { // if the drive is full, the log file is kept, so nothing is lost
			errs = append(errs, err)
		}
	}
	conns = append(conns, m.w.c)
	for _, c := range conns {
		if m.stopped != nil {
			errs = append(errs, c.keepLog())
		}
		errs = append(errs, c.close())
	}
	if m.stopped == nil {
		m.stopped = errClosed
	}
	if failed != nil {
		return core.E(op, core.KindOf(failed), errors.Join(
			fmt.Errorf("the last changes could not be committed to the database; the next start applies them from their records: %w", failed),
			errors.Join(errs...)))
	}
	return wrap(op, errors.Join(errs...))
}

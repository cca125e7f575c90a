// Package sqlite keeps metadata in a SQLite database: one connection writes, a few read, all of them the driver's own
// (database/sql would double the price of a statement).
//
// # Durability
//
// The database is in WAL mode. With synchronous=NORMAL, the default, Apply hands its transaction to the operating system and
// does not wait for the drive: a killed process loses nothing, a power cut loses the newest transactions, and a start finds
// them in the records of the blocks (see core.Meta.Apply). With FULL each Apply waits for the drive. Both settings are read
// back on every connection, since the driver sets its own.
//
// The log (WAL) is copied into the database by a goroutine when it is longer than Options.CheckpointBytes; then the writer,
// between two transactions, copies the rest and begins the log anew. So the log stays bounded whatever the load. Close
// empties it.
//
// After a failed sync or write nobody knows what is on disk: the engine is sealed and every later Apply is Unavailable, until
// it is opened again. A full drive is no such case: the transaction is rolled back and the next one may succeed.
//
// # Schema, version 1 (PRAGMA user_version)
//
// Keys and names are BLOBs, so they compare as bytes. An info column is the binary form of its noun (core's encode.go).
//
//	state    one row: last sequence applied, the next free DataID, State.Floor and, where it is not 0, State.Synced
//	buckets  id, name, info
//	objects  (bucket, key): seq, nullver, data. Current versions that are no delete markers, and nothing else
//	history  (bucket, key, seq): nullver, data. Every other version and every delete marker
//	data     id: refs, sha256, info (DataInfo without its SHA-256), object
//	finds    (hash, data): content by core.DataInfo.Hash, and HeadHash where it has a head, but for what waits in memory (see finder)
//	infos    seq: info. ObjectInfo of versions that have no data column
//	uploads  (bucket, key, id): info. Uploads in progress
//	parts    (list, number): seq, info. Parts of uploads, and of the objects that they became
//	lists    id: refs. Uploads that became objects, and how many objects have their parts
//	garbage  id: list, extents
//	records  (kind, key): value
//	tallies  bucket: bytes, objects, seal. What buckets with a quota hold, written once per transaction that changes it
//
// A plain PUT writes one small row at a random place (objects: key, seq, data) and one at the end of data, which holds the
// content and, in its column object, the info of the version that it was born with. Anything at a random place costs a page
// of the log, so rows there are lean: with the infos in objects, a PUT cost half as much again. The price is that a
// listing looks each info up by DataID. All other versions (copies, multipart objects, delete markers, empty objects) have
// their info in infos.
//
// A key has its current version in objects, unless that is a delete marker: then in history, as the newest there. When the
// current version is deleted, the newest of history moves to objects. So a listing of current keys never meets anything
// else.
//
// The ids of garbage come from the sequence of the change that let go of it, twice the sequence for extents and one more for
// a list, so they do not depend on how changes were put together into batches: a replay gives the same ones.
package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	sqlite3 "github.com/mattn/go-sqlite3"

	"orcas/core"
)

// Options are the settings of a database. The zero value is good.
type Options struct {
	Synchronous     string // NORMAL (default): for use with a replay of records; FULL: each Apply is durable by itself
	Readers         int    // connections that read at the same time; 0: 4
	BeforeSync      func() // called before the log is synced and copied into the database: the time to make durable what the log refers to
	CheckpointBytes int64  // the length of the log from which on it is copied into the database; 0: 24 MiB

	runLength int // see finder; 0: 32,768. For tests
}

// What connections may use for pages, and how long they wait.
const (
	writerCacheKiB  = 8 << 10
	readerCacheKiB  = 8 << 10
	checkCacheKiB   = 256
	readerBusyMs    = 5000 // a reader waits for the recovery of the log only
	writerBusyMs    = 2000 // the writer waits for readers of the old log when it begins the log anew
	minSQLite       = 3_051_003
	defaultReaders  = 4
	defaultLogBytes = 24 << 20
)

var errClosed = errors.New("closed")

// background is the context of all statements: one that can be cancelled costs a goroutine for each.
var background = context.Background()

// Meta is a core.Meta in a SQLite database.
type Meta struct {
	path    string
	options Options

	tokens chan struct{} // one for each reading connection that may be in use
	done   chan struct{} // closed by Close
	idleMu sync.Mutex    // guards idle
	idle   []*conn       // reading connections, the one used last at the end: its cache is the warmest

	mu     sync.Mutex // held by Apply and by whoever else uses w
	w      *writer
	sealed error // why there are no writes any more

	stateMu sync.Mutex // guards state and closed
	state   core.State
	closed  bool

	check   checkpointer
	filling sync.WaitGroup // of the filter
}

var (
	_ core.Meta         = (*Meta)(nil)
	_ core.SingleWriter = (*Meta)(nil)
	_ core.Snapshotter  = (*Meta)(nil)
	_ core.Syncer       = (*Meta)(nil)
)

// Open opens the database at path, makes it where there is none, and brings it to the present schema. It says Unsupported
// where a newer program wrote it, Damaged where the file is no database, Busy where another process writes to it.
func Open(path string, o Options) (*Meta, error) {
	const op = "sqlite.Open"
	switch o.Synchronous {
	case "":
		o.Synchronous = "NORMAL"
	case "NORMAL", "FULL":
	default:
		return nil, core.E(op, core.InvalidArgument, fmt.Errorf("synchronous %q", o.Synchronous))
	}
	if o.Readers <= 0 {
		o.Readers = defaultReaders
	}
	if o.CheckpointBytes <= 0 {
		o.CheckpointBytes = defaultLogBytes
	}
	if text, number, _ := sqlite3.Version(); number < minSQLite {
		return nil, core.E(op, core.Unsupported, fmt.Errorf("SQLite %s is older than 3.51.3, which may damage a WAL", text))
	}
	m := &Meta{path: path, options: o, tokens: make(chan struct{}, o.Readers), done: make(chan struct{})}
	if err := m.open(); err != nil {
		return nil, wrap(op, err)
	}
	m.check.start(m)
	m.filling.Go(m.fillFilter)
	return m, nil
}

func (m *Meta) open() error {
	// SQLite would make it readable for all; the log takes the mode of the database.
	f, err := os.OpenFile(m.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	c, err := connect(m.path, role{synchronous: m.options.Synchronous, cacheKiB: writerCacheKiB, busyMillis: writerBusyMs})
	if err != nil {
		return err
	}
	if err = migrate(c, steps()); err == nil {
		m.w = newWriter(c)
		m.w.state, err = c.state()
	}
	if err == nil {
		err = m.w.find.load(c, m.options.runLength)
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

// SingleWriter implements core.SingleWriter: the data directory's lock file keeps other processes away.
func (m *Meta) SingleWriter() {}

// acquire takes a reading connection, and waits for one while all are in use.
func (m *Meta) acquire(ctx context.Context, op string) (*conn, error) {
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
	c, err := connect(m.path, role{synchronous: m.options.Synchronous, cacheKiB: readerCacheKiB, readOnly: true, busyMillis: readerBusyMs})
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

// snapshot runs fn in a reading transaction: all of its statements see the same state.
func (c *conn) snapshot(fn func() error) error {
	if _, err := c.exec(begin); err != nil {
		return err
	}
	err := fn()
	if _, endErr := c.exec(commit); endErr != nil {
		err = errors.Join(err, endErr)
	}
	return err
}

// Close waits for the reads in progress, empties the log into the database and closes it. Later calls are Unavailable.
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
	m.check.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	for range m.options.Readers {
		m.tokens <- struct{}{}
	}
	conns := append(m.idle, m.check.c)
	var errs []error
	if m.sealed == nil {
		l, err := m.w.c.checkpoint("TRUNCATE")
		if err == nil && l.busy {
			err = errors.New("another process reads the database: the log stays")
		}
		if err != nil {
			m.sealed = err
		}
		if kindOf(err) != core.NoSpace { // on a full drive the log stays, and nothing of it is lost
			errs = append(errs, err)
		}
	}
	conns = append(conns, m.w.c)
	for _, c := range conns {
		if m.sealed != nil {
			errs = append(errs, c.keepLog())
		}
		errs = append(errs, c.close())
	}
	if m.sealed == nil {
		m.sealed = errClosed
	}
	return wrap("sqlite.Close", errors.Join(errs...))
}

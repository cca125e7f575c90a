package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

// # The bound of the log
//
// SQLite restarts the log (WAL) when all of it has been copied into the database and no reader needs an old page. Nearly
// all reads are short, including those of a snapshot (see images.go), so the checkpointer keeps the log below about
// twice CheckpointBytes under any load: at that length, the next write waits for the copy.
//
// A few reads are long, because they need the whole database as of one moment: Verify, Salvage, and Places if a row of
// its table is damaged. Until such a read ends, the log grows with every write. Writes do not wait for it. When the log
// reaches half of LogBytes, long reads have to yield: they end with Busy, and the log is copied while writes continue.
// When it reaches three quarters, the next write waits until the log has been restarted. The last quarter is room for one
// transaction.
//
// Tried and dropped: to slow down writes, so that a read in progress can end before the log reaches its bound. That was
// necessary when a snapshot was one long read, because reclaim needs snapshots; the bound was a quarter of the database.
//
// SQLite does not shrink the log file by default. PRAGMA journal_size_limit makes it truncate the file when the log is
// restarted after such growth, and a checkpoint in TRUNCATE mode empties it after some time without writes
// (Options.Idle).

const (
	defaultBound = 128 << 20 // the default of Options.LogBytes

	defaultIdle = 5 * time.Second
	idleBytes   = 1 << 20 // a log file of at most this length, in bytes, is not truncated
)

// errYielded ends a long read.
var errYielded = errors.New("the read was ended in favor of writes, because the log of the database had become too long: " +
	"try again when there are fewer writes")

// longRead is a read that keeps the log from restarting.
type longRead struct {
	yield context.CancelCauseFunc
	ended chan struct{} // closed when the read has ended
}

// readLong runs fn, a long read, with a reading connection. It returns Busy if the read had to yield.
func (m *Meta) readLong(ctx context.Context, op string, fn func(ctx context.Context, c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return core.E(op, core.Canceled, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &longRead{yield: cancel, ended: make(chan struct{})}
	k := &m.check
	k.readsMu.Lock()
	k.reads[r] = true
	k.readsMu.Unlock()
	k.long.Add(1)
	err := m.commitOpen(op)
	if err == nil {
		err = m.read(ctx, op, func(c *conn) error { return fn(ctx, c) })
	}
	k.readsMu.Lock()
	delete(k.reads, r)
	k.readsMu.Unlock()
	k.leftOver.Store(true)
	if k.long.Add(-1) == 0 {
		k.wakeUp()
	}
	close(r.ended)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, errYielded):
		return core.E(op, core.Busy, cause)
	case cause != nil:
		return core.E(op, core.Canceled, err)
	}
	return err
}

// limitLog makes long reads yield, and the next Apply wait, if the log is too long.
func (m *Meta) limitLog(length int64) {
	if mutant.Is("no-log-bound") {
		return
	}
	if bound := m.options.LogBytes; length >= bound/2 {
		m.check.yieldReads()
		m.check.full.Store(length >= bound-bound/4)
	}
}

// yieldReads ends the long reads in progress, and returns them. They may not have ended yet.
func (k *checkpointer) yieldReads() (reads []*longRead) {
	k.readsMu.Lock()
	defer k.readsMu.Unlock()
	for r := range k.reads {
		r.yield(errYielded)
		reads = append(reads, r)
	}
	return reads
}

// brake waits until the log is short enough. The caller does not hold m.mu.
func (m *Meta) brake() {
	if m.check.full.Load() {
		m.clearLog()
	}
}

// clearLog ends long reads and copies the whole log into the database, so that it restarts.
func (m *Meta) clearLog() {
	k := &m.check
	for _, r := range k.yieldReads() {
		<-r.ended
	}
	k.running.Lock()
	defer k.running.Unlock()
	k.full.Store(false)
	k.behind.Store(true)
	m.copyLog()
}

// truncateLog empties the log file, if it is longer than idleBytes and no reader needs it.
func (m *Meta) truncateLog() {
	k := &m.check
	k.running.Lock()
	defer k.running.Unlock()
	info, err := os.Stat(m.path + "-wal")
	if err != nil || info.Size() <= idleBytes || k.long.Load() > 0 || mutant.Is("log-stays-long") {
		return
	}
	if m.commitOpen("sqlite.truncateLog") != nil {
		return // the next Apply tries again
	}
	if m.options.BeforeSync != nil {
		m.options.BeforeSync()
	}
	start := time.Now()
	_, err = k.c.checkpoint("PASSIVE")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.commit("sqlite.truncateLog") != nil {
		return // the next Apply tries again
	}
	if err == nil && m.stopped == nil {
		err = m.w.c.emptyLog()
	}
	m.options.checkpointed(start, err)
	if err != nil {
		m.checkFailed(err)
	}
}

// emptyLog empties the log file, unless a reader needs it.
func (c *conn) emptyLog() (err error) {
	const waitMs = 20
	if err := c.waitBusy(waitMs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.waitBusy(writerBusyMs)) }()
	_, err = c.checkpoint("TRUNCATE")
	return err
}

// limitFile makes SQLite truncate the log file to this length when it restarts the log.
func (c *conn) limitFile(bytes int64) error {
	return c.run(fmt.Sprintf("PRAGMA journal_size_limit=%d", bytes))
}

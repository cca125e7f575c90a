package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

// # The bound of the log
//
// SQLite restarts the log (WAL) when all of it has been copied into the database and no reader needs an old page. A
// long read (a snapshot of the metadata, a mark, a check) needs pages as they were when it began, so until it ends the
// log grows with every write. It once grew to 1.86 GB, with a database of 1.03 GB, during a snapshot of 4.5 million
// objects under load. Either writes or the read must yield:
//
//   - If only writes yield, by waiting at the bound for the end of the read, they stop for the rest of a snapshot,
//     which is tens of seconds.
//   - If only the read yields, by ending at the bound, then no snapshot ever finishes under a steady load. Reclaim
//     needs snapshots to free packed blocks, so the drive would fill up with garbage until writes are refused.
//
// So the writer slows down while the read continues at full speed. It begins to slow down when the log has reached a
// quarter of its bound, or twice CheckpointBytes if that is less. The distance is the difference between that length
// and the bound. The writer is not delayed as long as the fraction of the distance that it has used is below three
// quarters of the fraction of rows that have been read. The further ahead the writer is, the longer is the pause after
// each transaction, in proportion to the bytes that the transaction added to the log: the permitted growth rate of the
// log falls geometrically, from fastLog to slowLog at aheadMax. So writes settle at the rate at which the log reaches
// its bound just when the read ends, however long that takes. There are many short pauses (pauseMax) instead of one
// long pause. Because the bound grows with the database (a quarter of it, at least 256 MiB), that rate does not fall as
// the database grows.
//
// If the log reaches its bound anyway, because the read makes little progress, the read fails with Busy, and the next
// transaction waits until the log has been restarted. Reclaim retries a snapshot after a delay in proportion to the
// time that it took, so most of the time no long read is in progress.
//
// Tried and dropped: pauses that depend only on the length of the log. They suit only one speed of the machine: a
// snapshot that was expected to take 30 s took longer because other programs were running, and writes were already at
// their slowest when the snapshot had to yield.
//
// SQLite does not shrink the log file by default. PRAGMA journal_size_limit makes it truncate the file when the log is
// restarted after such growth, and a checkpoint in TRUNCATE mode empties it after some time without writes
// (Options.Idle).

const (
	minBound = 256 << 20 // the default of Options.LogBytes for a small database
	ofBase   = 4         // the default for a large database is its size divided by ofBase

	fastLog  = 256 << 20 // the permitted growth of the log, in bytes per second, when pauses begin
	slowLog  = 1 << 20   // the permitted growth at aheadMax, in bytes per second
	aheadMax = 0.25      // the lead of the writer, as a fraction of the distance, at which writes are slowest
	pauseMax = 100 * time.Millisecond

	defaultIdle = 5 * time.Second
	idleBytes   = 1 << 20 // a log file of at most this length, in bytes, is not truncated
)

// errYielded ends a long read.
var errYielded = errors.New("the read was ended in favor of writes, because the log of the database had reached its maximum length: " +
	"try again when there are fewer writes")

// longRead is a read that keeps the log from restarting.
type longRead struct {
	yield    context.CancelCauseFunc
	ended    chan struct{} // closed when the read has ended
	progress atomic.Int64  // the finished part of the read, out of progressAll
}

const progressAll = 1 << 20

// did records that n of all rows have been read.
func (r *longRead) did(n, all int64) { r.progress.Store(min(n, all) * progressAll / max(all, 1)) }

// readLong runs fn, a long read, with a reading connection. It returns Busy if the read had to yield.
func (m *Meta) readLong(ctx context.Context, op string, fn func(ctx context.Context, c *conn, r *longRead) error) error {
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
		err = m.read(ctx, op, func(c *conn) error { return fn(ctx, c, r) })
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

// bound returns the maximum length of the log, in bytes.
func (m *Meta) bound() int64 {
	if m.options.LogBytes > 0 {
		return m.options.LogBytes
	}
	info, err := os.Stat(m.path)
	if err != nil {
		return minBound
	}
	return max(minBound, info.Size()/ofBase)
}

// slowDown sets the pause before the next Apply, after a transaction that made the log grow by grown bytes to length.
func (m *Meta) slowDown(grown, length int64) {
	k := &m.check
	from := 2 * m.options.CheckpointBytes
	if k.long.Load() == 0 && length < from {
		return
	}
	bound := m.bound()
	bound -= bound / 8 // the rest is reserved for the next transaction
	from = min(from, bound/4)
	if length >= bound {
		k.full.Store(true)
	} else if length > from {
		used := float64(length-from) / float64(bound-from)
		k.pause.Store(int64(pauseFor(grown, used, k.slowest())))
	}
}

// slowest returns the progress of the slowest long read, from 0 to 1. It returns 0 if there is no long read: then the
// log is about to be restarted.
func (k *checkpointer) slowest() float64 {
	k.readsMu.Lock()
	defer k.readsMu.Unlock()
	least := int64(progressAll)
	for r := range k.reads {
		least = min(least, r.progress.Load())
	}
	if len(k.reads) == 0 {
		least = 0
	}
	return float64(least) / progressAll
}

// pauseFor returns the pause after a transaction that wrote grown bytes, given the used fraction of the distance and
// the progress of the read.
func pauseFor(grown int64, used, done float64) time.Duration {
	ahead := (used - done*(1-aheadMax)) / aheadMax // some distance must be left when the read ends
	if ahead <= 0 {
		return 0
	}
	rate := fastLog * math.Pow(float64(slowLog)/fastLog, min(ahead, 1))
	return min(time.Duration(float64(grown)/rate*float64(time.Second)), pauseMax)
}

// brake waits before a transaction, for the time that slowDown has set. The caller does not hold m.mu.
func (m *Meta) brake() {
	k := &m.check
	if k.full.Load() && !mutant.Is("no-log-bound") {
		m.clearLog()
	} else if pause := k.pause.Swap(0); pause > 0 {
		select {
		case <-time.After(time.Duration(pause)):
		case <-m.done:
		}
	}
}

// clearLog ends long reads and copies the whole log into the database, so that it restarts.
func (m *Meta) clearLog() {
	k := &m.check
	k.readsMu.Lock()
	var reads []*longRead
	for r := range k.reads {
		r.yield(errYielded)
		reads = append(reads, r)
	}
	k.readsMu.Unlock()
	for _, r := range reads {
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
	_, err = k.c.checkpoint("PASSIVE")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.commit("sqlite.truncateLog") != nil {
		return // the next Apply tries again
	}
	if err == nil && m.stopped == nil {
		err = m.w.c.emptyLog()
	}
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

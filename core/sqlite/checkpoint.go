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
	"orcas/internal/mutant"
)

// checkpointer copies the log into the database, concurrently with the writer.
type checkpointer struct {
	c    *conn
	wake chan struct{}
	wg   sync.WaitGroup

	running sync.Mutex  // held while the log is copied
	behind  atomic.Bool // the log is at least twice as long as CheckpointBytes, so the next Apply waits for running

	// See brake.go.
	readsMu  sync.Mutex         // guards reads
	reads    map[*longRead]bool // long reads in progress; the log cannot restart until they end
	long     atomic.Int32       // the number of long reads in progress
	leftOver atomic.Bool        // a long read has ended and left much of the log, which is copied while writes continue
	full     atomic.Bool        // the log is so long that the next Apply waits until it has been restarted
}

// measureEvery is the number of changes after which the log is measured.
const measureEvery = 256

// The log is copied concurrently, in at most maxRounds rounds, until at most writerFrames frames are left for the
// writer to copy.
const (
	writerFrames = 256
	maxRounds    = 4
)

const pageSize = 4096

// log is the length of the log, and of the part that has been copied into the database, in frames of one page each.
type log struct {
	frames, copied int64
	busy           bool // a reader or the writer blocked the checkpoint
}

// checkpoint runs a checkpoint in the given mode; NOOP only measures the log. A checkpoint that is blocked by readers
// or the writer ends early, without an error.
func (c *conn) checkpoint(mode string) (log, error) {
	row, err := c.pragma("wal_checkpoint(" + mode + ")")
	if err != nil {
		return log{}, err
	}
	if len(row) != 3 {
		return log{}, fmt.Errorf("a checkpoint returned %v instead of three numbers", row)
	}
	return log{max(integer(row[1]), 0), max(integer(row[2]), 0), integer(row[0]) != 0}, nil
}

// keepLog makes SQLite keep the log when the connection is closed: after a failed sync, the frames that were copied may
// be missing from the database.
func (c *conn) keepLog() error {
	return c.c.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_PERSIST_WAL, 1)
}

// Checkpoint implements core.Checkpointer: it copies the log into the database and syncs the database. It is meant for
// times when the database is not in use, such as a start; if a reader blocks it, the next checkpoint copies the rest.
func (m *Meta) Checkpoint(ctx context.Context) error {
	const op = "sqlite.Checkpoint"
	if err := ctx.Err(); err != nil {
		return core.E(op, core.Canceled, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return m.errStopped(op)
	}
	if err := m.commit(op); err != nil {
		return err
	}
	start := time.Now()
	_, err := m.w.c.checkpoint("TRUNCATE")
	m.options.checkpointed(start, err)
	if err != nil {
		m.checkFailed(err)
	}
	return wrap(op, err)
}

// checkpointed reports a checkpoint that began at start.
func (o *Options) checkpointed(start time.Time, err error) {
	if o.Checkpointed != nil {
		o.Checkpointed(time.Since(start), err)
	}
}

// Sync implements core.Syncer: it syncs the log. Transactions that are no longer in the log were synced in the database
// by a checkpoint before the log restarted.
func (m *Meta) Sync(ctx context.Context) (core.State, error) {
	const op = "sqlite.Sync"
	if _, err := m.State(ctx); err != nil {
		return core.State{}, err
	}
	m.mu.Lock()
	var err error
	if !mutant.Is("sync-uncommitted") {
		err = m.commit(op)
	}
	state := m.w.state
	m.mu.Unlock()
	if err != nil {
		return core.State{}, err
	}
	// SQLite's file descriptor is private, so Sync opens the log itself. Closing it releases no POSIX lock of SQLite,
	// since the locks are on other files.
	f, err := os.OpenFile(m.path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return core.State{}, core.E(op, core.Internal, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return core.State{}, core.E(op, core.Internal, err)
	}
	return state, nil
}

func (k *checkpointer) start(m *Meta) {
	k.wake, k.reads = make(chan struct{}, 1), map[*longRead]bool{}
	k.wg.Go(func() {
		idle := time.NewTicker(m.options.Idle)
		defer idle.Stop()
		var seen core.Seq
		for {
			select {
			case <-m.done:
				return
			case <-k.wake:
				m.shorten()
			case <-idle.C:
				st, err := m.State(background)
				if err == nil && st.Seq == seen {
					m.truncateLog()
				}
				seen = st.Seq
			}
		}
	})
}

// wakeUp makes the checkpointer shorten the log.
func (k *checkpointer) wakeUp() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *checkpointer) stop() { k.wg.Wait() }

// measure is called by the writer after each commit. It wakes the checkpointer when the log is long, and again
// whenever the log has grown by another quarter of CheckpointBytes. It does not do so more often, since a checkpoint
// copies each page once, no matter how many times it is in the log.
func (m *Meta) measure(changes int) error {
	limit := m.options.CheckpointBytes
	m.w.unmeasured += changes
	if m.w.unmeasured < measureEvery && m.check.long.Load() == 0 && m.w.logged < 2*limit {
		return nil
	}
	m.w.unmeasured = 0
	l, err := m.w.c.checkpoint("NOOP")
	if err != nil {
		return err
	}
	length := l.frames * pageSize
	if length < m.w.logged || m.w.longAt == 0 { // the log was restarted
		m.w.longAt = limit
	}
	m.w.logged = length
	if left := (l.frames - l.copied) * pageSize; left < 2*limit {
		m.check.leftOver.Store(false)
	}
	m.limitLog(length)
	if length >= m.w.longAt {
		m.w.longAt = length + limit/4
		m.check.behind.Store(length >= 2*limit && m.check.long.Load() == 0 && !m.check.leftOver.Load())
		m.check.wakeUp()
	}
	return nil
}

// catchUp copies the log if it is far too long, or waits for a copy in progress. The caller does not hold m.mu, which
// copyLog locks.
func (m *Meta) catchUp() {
	k := &m.check
	if !k.behind.Load() {
		return
	}
	k.running.Lock()
	defer k.running.Unlock()
	if k.behind.Load() {
		m.copyLog()
	}
}

// shorten copies the log into the database. The checkpointer calls it after wakeUp.
func (m *Meta) shorten() {
	m.check.running.Lock()
	defer m.check.running.Unlock()
	m.copyLog()
}

// copyLog copies the log into the database while the writer continues, in rounds until little is left. Then the
// writer's connection copies the rest between two transactions, so that the next transaction restarts the log, unless a
// reader still needs the old one. Writes wait for such readers only if the log is at least twice as long as
// CheckpointBytes. It must be the writer's connection, because SQLite drops the page cache of the writer if another
// connection restarts the log. The caller holds m.check.running.
func (m *Meta) copyLog() {
	k := &m.check
	if m.commitOpen("sqlite.copyLog") != nil {
		k.behind.Store(false)
		return // the next Apply tries again
	}
	if m.options.BeforeSync != nil {
		m.options.BeforeSync()
	}
	start := time.Now()
	var err error
	for range maxRounds {
		var before, now log
		if before, err = k.c.checkpoint("PASSIVE"); err == nil {
			now, err = k.c.checkpoint("NOOP")
		}
		if err != nil || now.frames-before.copied <= writerFrames || k.behind.Load() {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	defer k.behind.Store(false) // before m.mu is unlocked, because the next Apply may set it again
	if m.commit("sqlite.copyLog") != nil {
		return // the next Apply tries again
	}
	switch {
	case err != nil || m.stopped != nil:
	case k.behind.Load() && k.long.Load() == 0:
		err = m.w.c.restartLog()
	default:
		_, err = m.w.c.checkpoint("PASSIVE")
	}
	m.options.checkpointed(start, err)
	if err != nil {
		m.checkFailed(err)
	}
}

// restartLog copies the whole log, so that the next transaction restarts it, and waits at most writerBusyMs for readers
// that need the old one. It makes many short attempts. In each one SQLite checks once which read marks (positions in
// the log) are in use, and waits until they are free. In the meantime readers may have moved a mark to the end of the
// log. There it blocks nothing, but SQLite would still wait for it, and it is never free if readers overlap.
func (c *conn) restartLog() (err error) {
	const turnMs = 20
	if err := c.waitBusy(turnMs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.waitBusy(writerBusyMs)) }()
	for range writerBusyMs / turnMs {
		if l, err := c.checkpoint("RESTART"); err != nil || !l.busy {
			return err
		}
	}
	return nil
}

// waitBusy sets the time that statements wait for locks.
func (c *conn) waitBusy(ms int) error { return c.run(fmt.Sprintf("PRAGMA busy_timeout=%d", ms)) }

// checkFailed stops all further writes after a failed checkpoint. If the cause is a full drive or a lock, writes
// continue, and the log merely remains long. The caller holds m.mu.
func (m *Meta) checkFailed(err error) {
	if kind := kindOf(err); kind != core.NoSpace && kind != core.Busy && m.stopped == nil {
		m.stopped = fmt.Errorf("checkpoint: %w", err)
	}
}

// errStopped returns the error of every write after the engine has stopped accepting writes.
func (m *Meta) errStopped(op string) error {
	return core.E(op, core.Unavailable, errors.Join(errors.New("the database accepts no more writes until the server is restarted"), m.stopped))
}

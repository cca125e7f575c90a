package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	sqlite3 "github.com/mattn/go-sqlite3"

	"orcas/core"
)

// checkpointer copies the log into the database, beside the writer.
type checkpointer struct {
	c    *conn
	wake chan struct{}
	wg   sync.WaitGroup

	running sync.Mutex  // held while the log is copied
	behind  atomic.Bool // the log is twice as long as it should be: the next Apply waits for running first

	snapshots atomic.Int32 // in progress: the log cannot begin anew, so nobody waits for that
}

// The log is measured once for so many changes.
const measureEvery = 256

// At most so many frames are left for the writer to copy; more are copied beside it first, in so many rounds at most.
const (
	writerFrames = 256
	maxRounds    = 4
)

const pageSize = 4096

// log says how long the log is and how much of it is in the database, in frames of a page each.
type log struct {
	frames, copied int64
	busy           bool // somebody was in the way
}

// checkpoint runs a checkpoint of that mode; NOOP only measures. One that meets readers or the writer ends early, without
// an error.
func (c *conn) checkpoint(mode string) (log, error) {
	row, err := c.pragma("wal_checkpoint(" + mode + ")")
	if err != nil {
		return log{}, err
	}
	if len(row) != 3 {
		return log{}, fmt.Errorf("a checkpoint answered %v", row)
	}
	return log{max(integer(row[1]), 0), max(integer(row[2]), 0), integer(row[0]) != 0}, nil
}

// keepLog makes the closing of the connection leave the log where it is: after a failed sync what looks copied may not be.
func (c *conn) keepLog() error {
	return c.c.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_PERSIST_WAL, 1)
}

// Checkpoint implements core.Checkpointer: it copies the log into the database and syncs that. Nobody else uses the database
// meanwhile, as at a start; a reader in the way leaves the rest to the next checkpoint.
func (m *Meta) Checkpoint(ctx context.Context) error {
	const op = "sqlite.Checkpoint"
	if err := ctx.Err(); err != nil {
		return core.E(op, core.Canceled, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed != nil {
		return m.errSealed(op)
	}
	_, err := m.w.c.checkpoint("TRUNCATE")
	if err != nil {
		m.checkFailed(err)
	}
	return wrap(op, err)
}

// Sync implements core.Syncer: it syncs the log. What is not in it any more, a checkpoint has synced in the database before the log began
// anew.
func (m *Meta) Sync(ctx context.Context) (core.State, error) {
	const op = "sqlite.Sync"
	state, err := m.State(ctx)
	if err != nil {
		return core.State{}, err
	}
	// A descriptor of its own: SQLite's is not ours to use, and closing one of the log gives up no lock, since those are on other files.
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
	k.wake = make(chan struct{}, 1)
	k.wg.Go(func() {
		for {
			select {
			case <-m.done:
				return
			case <-k.wake:
				m.shorten()
			}
		}
	})
}

func (k *checkpointer) stop() { k.wg.Wait() }

// measure is called by the writer after its transactions, and wakes the checkpointer when the log is long, and again whenever it
// has grown by a quarter of that: each checkpoint copies a page once, however often it stands in the log.
func (m *Meta) measure(changes int) error {
	m.w.unmeasured += changes
	if m.w.unmeasured < measureEvery {
		return nil
	}
	m.w.unmeasured = 0
	l, err := m.w.c.checkpoint("NOOP")
	if err != nil {
		return err
	}
	limit, length := m.options.CheckpointBytes, l.frames*pageSize
	if length < m.w.logged || m.w.longAt == 0 { // it began anew
		m.w.longAt = limit
	}
	m.w.logged = length
	if length >= m.w.longAt {
		m.w.longAt = length + limit/4
		m.check.behind.Store(length >= 2*limit && m.check.snapshots.Load() == 0)
		select {
		case m.check.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// catchUp shortens the log, or lets the checkpoint end that does so, while it is far too long: it is called before m.mu is taken, which
// that needs.
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

// shorten is what the checkpointer does when it is woken.
func (m *Meta) shorten() {
	m.check.running.Lock()
	defer m.check.running.Unlock()
	m.copyLog()
}

// copyLog copies the log into the database while the writer goes on, again and again until little is left, and lets the
// writer's connection do the rest between two transactions: then the next one begins the log anew, unless a reader still
// needs the old one. Only when the log is twice as long as it should be, writes wait until that is so. It has to be the
// writer's connection, since it would drop its cache if another one began the log anew. The caller holds m.check.running.
func (m *Meta) copyLog() {
	k := &m.check
	if m.options.BeforeSync != nil {
		m.options.BeforeSync()
	}
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
	defer k.behind.Store(false) // before the lock goes to a writer, whose measurement may say otherwise
	switch {
	case err != nil || m.sealed != nil:
	case k.behind.Load() && k.snapshots.Load() == 0:
		err = m.w.c.restartLog()
	default:
		_, err = m.w.c.checkpoint("PASSIVE")
	}
	if err != nil {
		m.checkFailed(err)
	}
}

// restartLog copies all of the log, so that the next transaction begins it anew, and waits for readers that need the old one,
// writerBusyMs at most. It does so in short turns: SQLite looks once in a turn which places in the log readers hold, and
// waits until such a place is free; meanwhile readers may have moved it to the end of the log, where it is in nobody's way but is
// never free, one coming before the other goes.
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

// waitBusy sets how long statements wait for locks.
func (c *conn) waitBusy(ms int) error { return c.run(fmt.Sprintf("PRAGMA busy_timeout=%d", ms)) }

// checkFailed seals the engine after a failed checkpoint, unless the reason is a full drive or somebody in the way: then
// the log only stays long. The caller holds m.mu.
func (m *Meta) checkFailed(err error) {
	if kind := kindOf(err); kind != core.NoSpace && kind != core.Busy && m.sealed == nil {
		m.sealed = fmt.Errorf("checkpoint: %w", err)
	}
}

// errSealed is the error of every write after the one that failed.
func (m *Meta) errSealed(op string) error {
	return core.E(op, core.Unavailable, errors.Join(errors.New("no writes until a restart"), m.sealed))
}

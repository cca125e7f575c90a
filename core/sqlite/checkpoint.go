package sqlite

import (
	"errors"
	"fmt"
	"sync"

	sqlite3 "github.com/mattn/go-sqlite3"

	"orcas/core"
)

// checkpointer copies the log into the database, beside the writer.
type checkpointer struct {
	c    *conn
	wake chan struct{}
	wg   sync.WaitGroup
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

// measure is called by the writer after its transactions, and wakes the checkpointer when the log is long.
func (m *Meta) measure(changes int) error {
	m.w.unmeasured += changes
	if m.w.unmeasured < measureEvery {
		return nil
	}
	m.w.unmeasured = 0
	l, err := m.w.c.checkpoint("NOOP")
	if err == nil && l.frames*pageSize >= m.options.CheckpointBytes {
		select {
		case m.check.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// shorten copies the log into the database while the writer goes on, again and again until little is left, and lets the
// writer's connection do the rest. It is that connection that begins the log anew, since any other would make it drop
// its cache. Where a reader still needs the old log, the next round tries again.
func (m *Meta) shorten() {
	for range maxRounds {
		before, err := m.check.c.checkpoint("PASSIVE")
		if err != nil {
			m.mu.Lock()
			m.checkFailed(err)
			m.mu.Unlock()
			return
		}
		now, err := m.check.c.checkpoint("NOOP")
		if err != nil || now.frames-before.copied <= writerFrames {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed != nil {
		return
	}
	if _, err := m.w.c.checkpoint("RESTART"); err != nil {
		m.checkFailed(err)
	}
}

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

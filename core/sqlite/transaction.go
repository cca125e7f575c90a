package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// # Transactions that stay open
//
// A batch of 30 changes touches a page of the database for nearly every change, and a commit writes all of them to the
// log. So the transaction of the writer stays open while Apply is called again and again, and pages that several
// batches touch are written once. It is committed
//
//   - by the goroutine committer when it has transactionChanges changes, or transactionAge after its first change. The
//     goroutine locks m.mu between two calls of Apply, so the commit overlaps with the gatherer's sync of a later batch.
//   - at the end of an Apply with a change of any kind that mayWait does not list. So only the rows of versions, of
//     their content, and of their garbage can be uncommitted, and the state and the tallies.
//   - before everything that needs a committed database or the log: Checkpoint, Sync, Close, Restore, a copy of the log,
//     a read of many rows.
//   - at the end of each Apply while a long read is in progress, since the log is measured after each commit, and with
//     Options.Synchronous FULL.
//
// # What a reader sees
//
// A read must show every change whose Apply has returned, and never part of a change. A reading connection shows the
// last commit. So the writer marks what the open transaction has changed (touched): keys, their buckets, and content. A
// read looks for marks before it begins to read:
//
//   - Object of a marked key, and Data and FindData of marked content, read with the writer's connection, between two
//     calls of Apply. The version of a key without a mark is unchanged, and so are its content and the rows of its
//     parts, except for two fields of DataInfo, which the contract exempts: Refs and Sums, which change when other keys
//     share the content.
//   - Usage and Tallies of any bucket, whose changes are in memory, with the writer's connection.
//   - List of a marked bucket, Data of many IDs, Garbage, and the long reads commit first.
//   - All other reads show rows that are always committed: buckets, uploads, parts, and records.
//
// Marks are removed after the commit, so a read that finds none begins after the commit. FindData learns the DataIDs
// only while it reads: it looks for their marks then, and reads again if a transaction has been committed since it
// began. The buffered pairs of the hash index are in memory and thus always up to date.
//
// # Failures
//
// The changes of the open transaction are kept in memory, in the encoding of records (kept). If a change fails (a
// damaged page), or if a commit fails, the transaction is rolled back, and the kept changes are applied again, with the
// same results, but not those of the batch that failed. If the drive is full, they remain uncommitted: reads use the
// writer's connection where they would have committed, and Apply first tries to commit again, and returns NoSpace if it
// cannot. After a write error (Meta.stopped), nothing is committed any more. If the kept changes cannot be applied
// again, because the drive cannot be read, every read of something with a mark returns Unavailable, since the database
// has older data. The next read, and the next Apply, try again (revive).
//
// SQLite itself rolls a transaction back after an I/O error, even of a statement that only reads, and the statements
// after it would be transactions of their own (conn.isLost). So a change that continues after an error may do so only if
// that error is damage (isDamage), and after each batch and each read with the writer's connection it is checked that the
// transaction still exists. If it does not, the kept changes are applied again.
//
// A killed process loses the open transaction. The blocks have the records of its changes, and recovery applies them
// again.
//
// # Cost
//
// CPU of a change in batches of 30, beside 100,000 rows, in microseconds (BenchmarkApply and BenchmarkApplyShared), with
// a transaction per batch and with open transactions:
//
//	new key, ascending            4.7   3.8
//	new key, random              13.1   8.6
//	new key of shared content    25.8  16.3
//	existing key, random         28.5  28.3
//
// The encoding of the kept changes is a part of that. Overwriting random keys gains nothing, because each change frees
// content in a page that hardly any other change of the transaction touches.

// The bounds of a transaction. transactionMarks bounds the changed pages, which are in memory until the commit:
// overwriting a key at a random position makes three marks, and changes two pages.
const (
	transactionChanges = 2000
	transactionMarks   = 4 // per change
	transactionBytes   = 4 << 20
	transactionAge     = 250 * time.Millisecond
	transactionRetry   = 5 * time.Second // after a commit that failed because the drive is full
)

// transaction is the open transaction of the writer. Meta.mu guards it.
type transaction struct {
	before  core.State // the committed state
	kept    []byte     // the encoded changes of each batch, one after another
	ends    []int      // the ends of the batches in kept
	changes int        // the number of changes in kept
	marks   int        // the number of marks
	stuck   bool       // the last attempt to commit has failed, because the drive is full
	lost    error      // why the kept changes could not be applied again, or nil

	// touched has the marks. Readers use it without m.mu.
	touched *touched
}

// mayWait reports whether changes may remain uncommitted when Apply returns.
func mayWait(changes []core.Change) bool {
	for _, c := range changes {
		switch c.(type) {
		case *core.PutObject, *core.DeleteObject, *core.Void, *core.SetReplayFrom, *core.Synced:
		default:
			return false
		}
	}
	return true
}

// transact applies changes in the open transaction, and commits it if they may not wait. After an error, either nothing
// of the changes was written, or m.stopped is set.
func (m *Meta) transact(changes []core.Change, results []core.Result) error {
	w := m.w
	if err := m.beginWrite(); err != nil {
		return err
	}
	n := m.options.changes
	waits := len(changes) < n && mayWait(changes) && !m.isDue(2*n) && m.check.long.Load() == 0
	err := w.applyAll(changes, results)
	if err == nil && w.c.isLost() {
		err = errRolledBack
	}
	if err == nil && waits {
		m.keep(changes)
		return nil
	}
	committing := false
	if err == nil {
		committing, err = m.writeCommit(len(changes))
	}
	if err != nil {
		m.w.tx.stuck = committing
		m.rollBack(err, committing)
	}
	return err
}

// beginWrite begins a transaction if none is open.
func (m *Meta) beginWrite() error {
	w := m.w
	if w.c.open {
		return nil
	}
	if _, err := w.c.exec(beginWrite); err != nil {
		if isWriteFault(err) {
			m.stopped = err
		}
		return err
	}
	w.c.open, w.tx.before = true, w.state
	return nil
}

// keep keeps the changes of a batch in memory, and wakes the committer if the transaction is due.
func (m *Meta) keep(changes []core.Change) {
	tx := &m.w.tx
	if tx.changes == 0 {
		m.committer.after(m.committer.age)
	}
	tx.kept = encoding.AppendChanges(tx.kept, changes)
	tx.ends = append(tx.ends, len(tx.kept))
	tx.changes += len(changes)
	if m.isDue(m.options.changes) {
		m.committer.now()
	}
}

// isDue reports whether the transaction has reached its bounds, which are those of a number of changes.
func (m *Meta) isDue(changes int) bool {
	tx := &m.w.tx
	return tx.changes >= changes || tx.marks >= transactionMarks*changes || len(tx.kept) >= transactionBytes
}

// commit commits the open transaction, if there is one. After an error its changes are still applied, and uncommitted
// (see transaction.lost). The caller holds m.mu.
func (m *Meta) commit(op string) error {
	if err := m.revive(); err != nil {
		return wrap(op, err)
	}
	switch {
	case !m.w.c.open:
		return nil
	case m.stopped != nil:
		return m.errStopped(op)
	}
	committing, err := m.writeCommit(0)
	if err != nil {
		m.rollBack(err, committing)
		m.w.tx.stuck = true
		m.committer.after(transactionRetry)
	}
	return wrap(op, err)
}

// writeCommit writes what is written once per transaction, and commits the kept changes and the given number of others.
// After an error, committing reports whether the commit itself failed.
func (m *Meta) writeCommit(others int) (committing bool, err error) {
	w := m.w
	err = w.index.work()
	if err == nil {
		err = w.tallies.write()
	}
	if err == nil {
		err = w.contents.places.write()
	}
	if err == nil {
		err = w.writeState(w.state)
	}
	if err == nil && w.c.isLost() {
		err = errRolledBack
	}
	if err != nil {
		return false, err
	}
	if _, err = w.c.exec(commit); err != nil {
		return true, err
	}
	w.c.open = false
	w.index.committed(w.state.NextData)
	m.refillFilter()
	changes := w.tx.changes + others
	w.tx.forget()
	if err := m.measure(changes); err != nil {
		m.checkFailed(err) // the changes are committed
	}
	return false, nil
}

// rollBack rolls the transaction back after an error, and applies the kept changes again.
func (m *Meta) rollBack(err error, committing bool) {
	w := m.w
	// A failed commit certainly had no effect only if the drive was full, because then its commit frame is missing.
	if (isWriteFault(err) || committing && kindOf(err) != core.NoSpace) && !mutant.Is("no-metadata-seal") {
		m.stopped = err
	}
	if !w.c.c.AutoCommit() {
		if _, backErr := w.c.exec(rollback); backErr != nil && m.stopped == nil {
			m.stopped = errors.Join(err, backErr)
		}
	}
	w.c.open = false
	w.rolledBack(w.tx.before)
	if len(w.tx.ends) == 0 {
		w.tx.forget()
		return
	}
	w.tx.lost = m.applyKept()
}

// revive applies the kept changes again if SQLite has rolled them back after an error that belonged to no change, or if
// applying them has failed before: a drive that cannot be read may recover. The caller holds m.mu.
func (m *Meta) revive() error {
	if m.w.c.isLost() && !mutant.Is("lost-unnoticed") {
		m.rollBack(errRolledBack, false)
	}
	if m.w.tx.lost != nil && m.stopped != errClosed {
		m.w.tx.lost = m.applyKept()
	}
	if err := m.w.tx.lost; err != nil {
		return fmt.Errorf("the uncommitted changes could not be applied again: %v", err) // its kind says nothing about this call
	}
	return nil
}

// applyKept applies the kept changes in a new transaction. After an error, the state is that of the last commit.
func (m *Meta) applyKept() error {
	w := m.w
	if mutant.Is("kept-forgotten") {
		return nil
	}
	if _, err := w.c.exec(beginWrite); err != nil {
		return err
	}
	w.c.open = true
	err := m.applyKeptBatches()
	if err == nil && w.c.isLost() {
		err = errRolledBack
	}
	if err != nil {
		if !w.c.c.AutoCommit() {
			_, backErr := w.c.exec(rollback)
			err = errors.Join(err, backErr)
		}
		w.c.open = false
		w.rolledBack(w.tx.before)
	}
	return err
}

func (m *Meta) applyKeptBatches() error {
	w := m.w
	from := 0
	for _, end := range w.tx.ends {
		changes, err := encoding.DecodeChanges(w.tx.kept[from:end])
		if err == nil {
			err = w.applyAll(changes, make([]core.Result, len(changes)))
		}
		if err != nil {
			return err
		}
		from = end
	}
	return nil
}

// forget is called when nothing is uncommitted.
func (tx *transaction) forget() {
	const room = 1 << 20
	if tx.kept = tx.kept[:0]; cap(tx.kept) > room {
		tx.kept = nil
	}
	tx.ends, tx.changes, tx.marks, tx.stuck = tx.ends[:0], 0, 0, false
	tx.touched.clear()
}

// mark marks a place in the open transaction.
func (tx *transaction) mark(p place) {
	if mutant.Is("no-marks") {
		return
	}
	tx.marks++
	tx.touched.mark(p)
}

func (tx *transaction) markKey(bucket core.BucketID, key string) {
	tx.mark(placeOfKey(bucket, key))
	tx.mark(placeOfBucket(bucket))
}

// commitOpen commits the open transaction, if there is one.
func (m *Meta) commitOpen(op string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commit(op)
}

// readTouched runs fn with the writer's connection, which shows the open transaction.
func (m *Meta) readTouched(ctx context.Context, op string, fn func(c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return core.E(op, core.Canceled, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.done:
		return core.E(op, core.Unavailable, errClosed)
	default:
	}
	if err := m.revive(); err != nil {
		return core.E(op, core.Unavailable, err)
	}
	err := fn(m.w.c)
	if m.w.c.isLost() {
		if err == nil {
			err = core.E(op, core.Unavailable, errRolledBack)
		}
		m.rollBack(err, false)
	}
	return wrap(op, err)
}

// readCommitted runs fn with a reading connection, after the open transaction has been committed if isTouched returns
// true. If that fails, it runs fn with the writer's connection.
func (m *Meta) readCommitted(ctx context.Context, op string, isTouched func() bool, fn func(c *conn) error) error {
	if isTouched() && !mutant.Is("list-uncommitted") {
		if err := m.commitOpen(op); err != nil {
			return m.readTouched(ctx, op, fn)
		}
	}
	return m.read(ctx, op, fn)
}

// committer commits the open transaction when it is due.
type committer struct {
	wake  chan struct{}
	timer *time.Timer
	age   time.Duration // transactionAge, except in tests
	done  sync.WaitGroup
}

func (k *committer) start(m *Meta) {
	k.wake, k.age = make(chan struct{}, 1), transactionAge
	k.timer = time.AfterFunc(time.Hour, k.now)
	k.timer.Stop()
	k.done.Go(func() {
		for {
			select {
			case <-m.done:
				k.timer.Stop()
				return
			case <-k.wake:
				_ = m.commitOpen("sqlite.commit") // the changes are kept, and the next Apply returns the error
			}
		}
	})
}

// now wakes the committer.
func (k *committer) now() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *committer) after(d time.Duration) { k.timer.Reset(d) }

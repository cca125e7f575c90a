package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
)

// restoreTogether is the number of rows per transaction of a restore. After each transaction the log is copied into the
// database, so that the log remains short.
const restoreTogether = 20_000

// restorer fills an empty database.
type restorer struct {
	*writer
	next  func() (*core.Row, error)
	refs  map[core.DataID]int64 // references to content, except those of a version to the content it was written with
	state core.State

	buckets []core.BucketID              // all buckets
	held    map[core.BucketID]core.Tally // what the versions add to the tallies
}

// Restore implements core.Snapshotter. The state is written last. If its sequence is 0, all rows are left over from a
// failed restore, and the next restore deletes them.
func (m *Meta) Restore(ctx context.Context, next func() (*core.Row, error)) error {
	const op = "sqlite.Restore"
	unlock, err := m.lockRows(ctx, op)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return m.errStopped(op)
	}
	if m.w.state.Seq != 0 {
		return core.E(op, core.Conflict, errors.New("the database is not empty"))
	}
	if err := m.commit(op); err != nil {
		return err
	}
	clear(m.w.buckets)
	m.w.index.isDirect = true
	defer func() { m.w.index.isDirect = false }()
	r := &restorer{writer: m.w, next: next, refs: map[core.DataID]int64{}, held: map[core.BucketID]core.Tally{}, state: core.State{NextData: 1}}
	err = m.inTransaction(r.empty)
	for more := true; more && err == nil; {
		if err = ctx.Err(); err != nil {
			err = core.E(op, core.Canceled, err)
			break
		}
		err = m.inTransaction(func() (err error) {
			more, err = r.some()
			return err
		})
	}
	if err == nil {
		err = m.inTransaction(r.finish)
	}
	if err != nil {
		if m.stopped == nil {
			err = errors.Join(err, m.inTransaction(r.forget))
		}
		return wrap(op, err)
	}
	m.setState(r.state)
	return nil
}

// forget deletes all rows and resets the state, which may have been committed before the step that failed. A database
// with a state but without rows would be mistaken for an empty store.
func (r *restorer) forget() error {
	if err := r.writeState(core.State{NextData: 1}); err != nil {
		return err
	}
	return r.empty()
}

// Reset implements core.Snapshotter.
func (m *Meta) Reset(ctx context.Context) error {
	const op = "sqlite.Reset"
	unlock, err := m.lockRows(ctx, op)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return m.errStopped(op)
	}
	if err := m.commit(op); err != nil {
		return err
	}
	clear(m.w.buckets)
	r := &restorer{writer: m.w, state: core.State{NextData: 1}}
	err = m.inTransaction(r.forget)
	if err == nil {
		m.setState(r.state)
	}
	return wrap(op, err)
}

// setState makes s the current state. The caller holds m.mu.
func (m *Meta) setState(s core.State) {
	m.w.state = s
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	m.state = s
}

// inTransaction runs fn in a write transaction, and then copies the log into the database. The caller holds m.mu.
func (m *Meta) inTransaction(fn func() error) error {
	c := m.w.c
	_, err := c.exec(beginWrite)
	if err == nil {
		err = fn()
	}
	if err == nil {
		_, err = c.exec(commit)
	}
	if err == nil {
		_, err = c.checkpoint("PASSIVE")
	}
	if err == nil {
		return nil
	}
	if isWriteFault(err) {
		m.stopped = err
	}
	if !c.c.AutoCommit() {
		if _, backErr := c.exec(rollback); backErr != nil && m.stopped == nil {
			m.stopped = errors.Join(err, backErr)
		}
	}
	return err
}

// empty deletes all rows.
func (r *restorer) empty() error {
	for _, table := range []string{"buckets", "objects", "history", "data", "infos", "uploads", "parts", "lists", "garbage", "records", "tallies", "blocks",
		"hash_runs", "hash_pages", "hash_late"} {
		if err := r.c.run("DELETE FROM " + table); err != nil {
			return err
		}
	}
	r.index.empty()
	clear(r.contents.shared[:])
	clear(r.contents.places.changed)
	clear(r.tallies.changed)
	_, err := r.c.exec(updateUpto, int64(1))
	return err
}

// some writes the next rows and reports whether there may be more.
func (r *restorer) some() (more bool, err error) {
	for range restoreTogether {
		row, err := r.next()
		if err != nil || row == nil {
			return false, err
		}
		if err := r.row(row); err != nil {
			return false, err
		}
	}
	if err := r.contents.places.write(); err != nil {
		return false, err
	}
	return true, r.index.work()
}

func (r *restorer) row(row *core.Row) error {
	switch {
	case row.State != nil:
		r.state = *row.State
		return nil
	case row.Bucket != nil:
		b := row.Bucket
		r.infoBuf = bucketKey(int64(b.ID), b.Name).appendSum(encoding.AppendBucket(r.infoBuf[:0], b))
		r.buckets = append(r.buckets, b.ID)
		_, err := r.c.exec(insertBucket, int64(b.ID), blob(b.Name), r.infoBuf)
		return err
	case row.Data != nil:
		r.contents.encode(row.Data)
		if _, err := r.c.exec(restoreData, int64(row.Data.ID), row.Data.SHA256[:], r.contents.buf); err != nil {
			return err
		}
		r.contents.places.add(row.Data)
		return r.index.add(row.Data)
	case row.Object != nil:
		return r.version(row.Object)
	case row.Upload != nil:
		u := row.Upload
		r.infoBuf = uploadKey(int64(u.Bucket), u.Key, int64(u.ID)).appendSum(encoding.AppendUpload(r.infoBuf[:0], u))
		_, err := r.c.exec(insertUpload, int64(u.Bucket), blob(u.Key), int64(u.ID), r.infoBuf)
		return err
	case row.Part != nil:
		p := row.Part
		r.count(p.Segments)
		list, number, seq := int64(p.List), int64(p.Number), int64(p.Seq)
		r.infoBuf = partKey(list, number, seq).appendSum(encoding.AppendPart(r.infoBuf[:0], &p.PartInfo))
		_, err := r.c.exec(upsertPart, list, number, seq, r.infoBuf)
		return err
	case row.Garbage != nil:
		return r.contents.insertGarbage(int64(row.Garbage.ID), int64(row.Garbage.List), row.Garbage.Extents)
	case row.Record != nil:
		kind, key := row.Record.Kind, row.Record.Key
		r.infoBuf = recordKey(kind, key).appendSum(append(r.infoBuf[:0], row.Record.Value...))
		_, err := r.c.exec(upsertRecord, blob(kind), blob(key), r.infoBuf)
		return err
	}
	return fail(core.InvalidArgument, "a row of a snapshot is empty")
}

func (r *restorer) count(segments []core.Segment) {
	for i := range segments {
		r.refs[segments[i].Data]++
	}
}

// version writes a version: to objects if it is the current version and not a delete marker, otherwise to history.
func (r *restorer) version(o *core.ObjectInfo) error {
	var born core.DataID
	r.held[o.Bucket] = r.held[o.Bucket].Plus(core.TallyOf(o, o.Latest))
	r.encode(o)
	if isBorn(o) {
		born = o.Segments[0].Data
		free, err := r.contents.insert(o.Segments[0].Info, r.infoBuf)
		if err == nil && !free {
			err = fail(core.InvalidArgument, fmt.Sprintf("content %d is in two rows", born))
		}
		if err != nil {
			return err
		}
	} else {
		r.count(o.Segments)
		if _, err := r.c.exec(insertInfo, int64(o.Seq), r.infoBuf); err != nil {
			return err
		}
	}
	if o.List != 0 {
		if _, err := r.c.exec(restoreList, int64(o.List)); err != nil {
			return err
		}
	}
	n, err := int64(1), error(nil)
	if o.Latest && !o.Marker {
		n, err = r.c.exec(insertObject, int64(o.Bucket), blob(o.Key), int64(o.Seq), boolean(o.Null), bornWith(born), r.brief(o, born))
	} else {
		_, err = r.c.exec(insertHistory, int64(o.Bucket), blob(o.Key), int64(o.Seq), boolean(o.Null), bornWith(born))
	}
	if err == nil && n == 0 {
		err = fail(core.InvalidArgument, fmt.Sprintf("key %q has two current versions", o.Key))
	}
	return err
}

// finish writes the reference counts, the tallies, and the state.
func (r *restorer) finish() error {
	for id, n := range r.refs {
		found, err := r.c.exec(addRefs, int64(id), n)
		if err != nil {
			return err
		}
		if found == 0 {
			return fail(core.NoSuchData, fmt.Sprintf("content %d has references but no row", id))
		}
	}
	if err := r.c.scan(background, "SELECT id, refs, sha256, info FROM data WHERE refs = 0", func(cols []driver.Value) error {
		d, err := decodeData(integer(cols[0]), cols[1:])
		if err == nil {
			r.contents.places.remove(d)
		}
		return err
	}); err != nil {
		return err
	}
	if err := r.c.run("DELETE FROM data WHERE refs = 0"); err != nil {
		return err
	}
	if err := r.contents.places.write(); err != nil {
		return err
	}
	if err := r.finishTallies(); err != nil {
		return err
	}
	if err := r.index.restored(r.state.NextData); err != nil {
		return err
	}
	return r.writeState(r.state)
}

// finishTallies adds the uploads to the tallies, and writes them.
func (r *restorer) finishTallies() error {
	n := newBucketCount()
	if err := r.c.countUploads(background, n, 0); err != nil {
		return err
	}
	for _, id := range r.buckets {
		if err := r.tallies.writeOne(id, r.held[id].Plus(n.held[id])); err != nil {
			return err
		}
	}
	return nil
}

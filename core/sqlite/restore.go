package sqlite

import (
	"context"
	"errors"
	"fmt"

	"orcas/core"
)

// restoreTogether is how many rows a transaction of a restore writes. After each the log goes into the database, so that it stays short.
const restoreTogether = 20_000

// restorer fills an empty database.
type restorer struct {
	*writer
	next  func() (*core.Row, error)
	refs  map[core.DataID]int64 // segments that refer to content which is no row of their own version
	state core.State

	counted []core.BucketID // those with a quota
}

// Restore implements core.Snapshotter. The state is written last: while its sequence is 0, whatever else is there is left of a restore
// that failed, and is taken away by the next.
func (m *Meta) Restore(ctx context.Context, next func() (*core.Row, error)) error {
	const op = "sqlite.Restore"
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed != nil {
		return m.errSealed(op)
	}
	if m.w.state.Seq != 0 {
		return core.E(op, core.Conflict, errors.New("the database is not empty"))
	}
	clear(m.w.buckets)
	m.w.find.direct = true
	defer func() { m.w.find.direct = false }()
	r := &restorer{writer: m.w, next: next, refs: map[core.DataID]int64{}, state: core.State{NextData: 1}}
	err := m.inTransaction(r.empty)
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
		if m.sealed == nil {
			err = errors.Join(err, m.inTransaction(r.forget))
		}
		return wrap(op, err)
	}
	m.setState(r.state)
	return nil
}

// forget takes everything away, and the state, which may have been committed before the step that failed: a state without what it speaks of would
// pass for a store in which nothing is.
func (r *restorer) forget() error {
	if err := r.writeState(core.State{NextData: 1}); err != nil {
		return err
	}
	return r.empty()
}

// Reset implements core.Snapshotter.
func (m *Meta) Reset(ctx context.Context) error {
	const op = "sqlite.Reset"
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed != nil {
		return m.errSealed(op)
	}
	clear(m.w.buckets)
	r := &restorer{writer: m.w, state: core.State{NextData: 1}}
	err := m.inTransaction(r.forget)
	if err == nil {
		m.setState(r.state)
	}
	return wrap(op, err)
}

// setState makes a state the present one. The caller holds m.mu.
func (m *Meta) setState(s core.State) {
	m.w.state = s
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	m.state = s
}

// inTransaction runs fn in a transaction of the writer's, and copies the log into the database after it. The caller holds m.mu.
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
		m.sealed = err
	}
	if !c.c.AutoCommit() {
		if _, backErr := c.exec(rollback); backErr != nil && m.sealed == nil {
			m.sealed = errors.Join(err, backErr)
		}
	}
	return err
}

// empty takes everything away.
func (r *restorer) empty() error {
	for _, table := range []string{"buckets", "objects", "history", "data", "finds", "infos", "uploads", "parts", "lists", "garbage", "records", "tallies"} {
		if err := r.c.run("DELETE FROM " + table); err != nil {
			return err
		}
	}
	r.find.empty()
	clear(r.shared[:])
	_, err := r.c.exec(updateUpto, int64(1))
	return err
}

// some writes the next rows and says whether there may be more.
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
	return true, nil
}

func (r *restorer) row(row *core.Row) error {
	switch {
	case row.State != nil:
		r.state = *row.State
		return nil
	case row.Bucket != nil:
		b := row.Bucket
		r.infoBuf = placeOfBucket(int64(b.ID), b.Name).seal(core.AppendBucket(r.infoBuf[:0], b))
		if !b.Quota.IsZero() {
			r.counted = append(r.counted, b.ID)
		}
		_, err := r.c.exec(insertBucket, int64(b.ID), blob(b.Name), r.infoBuf)
		return err
	case row.Data != nil:
		r.encodeData(row.Data)
		if _, err := r.c.exec(restoreData, int64(row.Data.ID), row.Data.SHA256[:], r.dataBuf); err != nil {
			return err
		}
		return r.findable(row.Data)
	case row.Object != nil:
		return r.version(row.Object)
	case row.Upload != nil:
		u := row.Upload
		r.infoBuf = placeOfUpload(int64(u.Bucket), u.Key, int64(u.ID)).seal(core.AppendUpload(r.infoBuf[:0], u))
		_, err := r.c.exec(insertUpload, int64(u.Bucket), blob(u.Key), int64(u.ID), r.infoBuf)
		return err
	case row.Part != nil:
		p := row.Part
		r.count(p.Segments)
		list, number, seq := int64(p.List), int64(p.Number), int64(p.Seq)
		r.infoBuf = placeOfPart(list, number, seq).seal(core.AppendPart(r.infoBuf[:0], &p.PartInfo))
		_, err := r.c.exec(upsertPart, list, number, seq, r.infoBuf)
		return err
	case row.Garbage != nil:
		return r.insertGarbage(int64(row.Garbage.ID), int64(row.Garbage.List), row.Garbage.Extents)
	case row.Record != nil:
		kind, key := row.Record.Kind, row.Record.Key
		r.infoBuf = placeOfRecord(kind, key).seal(append(r.infoBuf[:0], row.Record.Value...))
		_, err := r.c.exec(upsertRecord, blob(kind), blob(key), r.infoBuf)
		return err
	}
	return fail(core.InvalidArgument, "an empty row")
}

func (r *restorer) count(segments []core.Segment) {
	for i := range segments {
		r.refs[segments[i].Data]++
	}
}

// version writes a version: to objects, where it is the one that is listed.
func (r *restorer) version(o *core.ObjectInfo) error {
	var born core.DataID
	r.encode(o)
	if isBorn(o) {
		born = o.Segments[0].Data
		free, err := r.insertData(o.Segments[0].Info, r.infoBuf)
		if err == nil && !free {
			err = fail(core.InvalidArgument, "content comes twice")
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
	table := insertHistory
	if o.Latest && !o.Marker {
		table = insertObject
	}
	n, err := r.c.exec(table, int64(o.Bucket), blob(o.Key), int64(o.Seq), boolean(o.Null), bornWith(born))
	if err == nil && n == 0 {
		err = fail(core.InvalidArgument, "a key has two current versions")
	}
	return err
}

// finish adds up the references, counts what buckets with a quota hold, and writes the state.
func (r *restorer) finish() error {
	for id, n := range r.refs {
		found, err := r.c.exec(addRefs, int64(id), n)
		if err != nil {
			return err
		}
		if found == 0 {
			return fail(core.NoSuchData, fmt.Sprint("content ", id, " is referred to and not there"))
		}
	}
	if err := r.c.run("DELETE FROM data WHERE refs = 0"); err != nil {
		return err
	}
	for _, id := range r.counted {
		held, err := r.c.count(id)
		if err == nil {
			err = r.writeTally(id, held)
		}
		if err != nil {
			return err
		}
	}
	r.find.upto = r.state.NextData
	if _, err := r.c.exec(updateUpto, int64(r.find.upto)); err != nil {
		return err
	}
	return r.writeState(r.state)
}

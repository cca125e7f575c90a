package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"orcas/core"
	"orcas/internal/mutant"
)

// writer is the writing connection and what it knows between two transactions. Meta.mu guards it.
type writer struct {
	c          *conn
	state      core.State                    // after the last change, of a transaction in progress too
	buckets    map[core.BucketID]bucketState // those used lately
	tallies    map[core.BucketID]*tally      // those that the transaction in progress changed
	logged     int64                         // bytes in the log when it was measured
	longAt     int64                         // the length at which the checkpointer is woken
	unmeasured int                           // changes since the log was measured
	object     core.ObjectInfo               // the version that is being written
	infoBuf    []byte                        // encoding of an info
	dataBuf    []byte                        // encoding of a DataInfo
	freed      []core.Extent                 // by the change in progress
	find       finder
	shared     sharedLately
}

// rolledBack forgets what the transaction did; before is the state that it began with.
func (w *writer) rolledBack(before core.State) {
	w.find.rolledBack()
	w.state = before
	clear(w.shared[:])
	clear(w.buckets)
	clear(w.tallies)
}

// sharedLately keeps contents that were shared lately, at their number modulo its length: who looks at one of them again spares a statement. An entry goes with any
// change to its row but of the count of references, which it has an old one of; and all go where a transaction is rolled back.
type sharedLately [256]*core.DataInfo

// maxSharedExtents is how many extents content may have to be kept so.
const maxSharedExtents = 16

func (s *sharedLately) at(id core.DataID) **core.DataInfo { return &s[uint64(id)%uint64(len(s))] }

func (s *sharedLately) forget(id core.DataID) {
	if d := s.at(id); *d != nil && (*d).ID == id {
		*d = nil
	}
}

// bucketState is what a write has to know of its bucket.
type bucketState struct {
	versioning core.Versioning
	locks      bool   // its versions may be locked
	tally      *tally // nil: it has no quota
}

// maxBuckets bounds writer.buckets.
const maxBuckets = 1024

func newWriter(c *conn) *writer {
	return &writer{c: c, buckets: map[core.BucketID]bucketState{}, tallies: map[core.BucketID]*tally{}}
}

// state reads the row of state.
func (c *conn) state() (s core.State, err error) {
	row, err := c.row(selectState)
	if err != nil {
		return s, err
	}
	if row == nil {
		return s, damaged("state", errors.New("it is not there"))
	}
	s = core.State{Seq: core.Seq(integer(row[0])), NextData: core.DataID(integer(row[1]))}
	floor, err := placeOfState(integer(row[0]), integer(row[1])).open(bytes(row[2]))
	if n := copy(s.Floor[:], floor); err == nil && n < len(s.Floor) {
		err = errors.New("a floor is a block")
	} else if synced := floor[n:]; len(synced) == 8 {
		s.Synced = core.Seq(binary.BigEndian.Uint64(synced))
	} else if len(synced) > 0 {
		err = errors.New("what is behind the floor is no sequence")
	}
	return s, damaged("state", err)
}

func (w *writer) writeState(s core.State) error {
	w.infoBuf = append(w.infoBuf[:0], s.Floor[:]...)
	if s.Synced != 0 {
		w.infoBuf = binary.BigEndian.AppendUint64(w.infoBuf, uint64(s.Synced))
	}
	w.infoBuf = placeOfState(int64(s.Seq), int64(s.NextData)).seal(w.infoBuf)
	_, err := w.c.exec(updateState, int64(s.Seq), int64(s.NextData), w.infoBuf)
	return err
}

// Apply implements core.Meta.
func (m *Meta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	const op = "sqlite.Apply"
	if err := ctx.Err(); err != nil {
		return nil, core.E(op, core.Canceled, err)
	}
	m.catchUp()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sealed != nil {
		return nil, m.errSealed(op)
	}
	results := make([]core.Result, len(changes))
	first := 0
	for first < len(changes) && changes[first].Place().Seq <= m.w.state.Seq {
		results[first] = core.Result{Seq: changes[first].Place().Seq, Skipped: true}
		first++
	}
	if first == len(changes) {
		return results, nil
	}
	if err := m.transact(changes[first:], results[first:]); err != nil {
		if m.sealed != nil {
			return nil, m.errSealed(op)
		}
		return nil, wrap(op, err)
	}
	m.stateMu.Lock()
	m.state = m.w.state
	m.stateMu.Unlock()
	if err := m.measure(len(changes) - first); err != nil {
		m.checkFailed(err) // what this call wrote is written
	}
	return results, nil
}

// transact writes changes in one transaction. After an error nothing is written, or the engine is sealed.
func (m *Meta) transact(changes []core.Change, results []core.Result) error {
	w := m.w
	before := w.state
	if _, err := w.c.exec(beginWrite); err != nil {
		if isWriteFault(err) {
			m.sealed = err
		}
		return err
	}
	err := w.applyAll(changes, results)
	committing := err == nil
	if committing {
		_, err = w.c.exec(commit)
	}
	if err == nil {
		w.find.committed(w.state.NextData)
		return nil
	}
	w.rolledBack(before)
	// A failed commit is known not to have happened only where the drive was full: the record that ends it is not there.
	if (isWriteFault(err) || committing && kindOf(err) != core.NoSpace) && !mutant.Is("no-metadata-seal") {
		m.sealed = err
	}
	if !w.c.c.AutoCommit() {
		if _, backErr := w.c.exec(rollback); backErr != nil && m.sealed == nil {
			m.sealed = errors.Join(err, backErr)
		}
	}
	return err
}

func (w *writer) applyAll(changes []core.Change, results []core.Result) error {
	for i, c := range changes {
		seq := c.Place().Seq
		results[i] = core.Result{Seq: seq}
		if seq <= w.state.Seq {
			results[i].Skipped = true
			continue
		}
		free := seq - w.state.Seq
		w.state.Seq = seq // whether or not it passes its checks: a replay of it would fail them again
		if free < core.Places(c) {
			results[i].Err = fail(core.InvalidArgument, "the change's places are taken")
			continue
		}
		w.freed = w.freed[:0]
		err := w.apply(c, &results[i])
		if check, ok := err.(*core.Error); ok {
			results[i].Err = check
			continue
		}
		if err == nil {
			err = w.writeFreed()
		}
		if err != nil {
			return fmt.Errorf("change %d (%T): %w", seq, c, err)
		}
	}
	if err := w.merge(); err != nil {
		return err
	}
	if err := w.writeTallies(); err != nil {
		return err
	}
	return w.writeState(w.state)
}

// fail is the error of a check. Nothing else in this package is a *core.Error while a change is applied: any other error
// ends the transaction.
func fail(kind core.Kind, why string) error { return core.E("sqlite.Apply", kind, errors.New(why)) }

func (w *writer) apply(c core.Change, r *core.Result) (err error) {
	switch c := c.(type) {
	case *core.PutBucket:
		return w.putBucket(c)
	case *core.DeleteBucket:
		return w.deleteBucket(c)
	case *core.PutObject:
		r.Version, err = w.putObject(c)
	case *core.DeleteObject:
		r.Version, r.Marker, err = w.deleteObject(c)
	case *core.UpdateObject:
		r.Version, err = w.updateObject(c)
	case *core.MoveObject:
		r.Version, err = w.moveObject(c)
	case *core.CreateUpload:
		return w.createUpload(c)
	case *core.PutPart:
		return w.putPart(c)
	case *core.CompleteUpload:
		r.Version, err = w.completeUpload(c)
	case *core.AbortUpload:
		return w.abortUpload(c)
	case *core.PutRecord:
		return w.putRecord(c)
	case *core.SetFloor:
		w.state.Floor = c.Floor
	case *core.Synced:
		c.Apply(&w.state)
	case *core.Void:
	case *core.MoveData:
		return w.moveData(c)
	case *core.RewrapData:
		return w.rewrapData(c)
	case *core.FreeGarbage:
		return w.freeGarbage(c)
	case *core.DropParts:
		return w.dropParts(c)
	case *core.Unshare:
		return w.unshare(c)
	default:
		return fail(core.Unsupported, fmt.Sprintf("change %T", c))
	}
	return err
}

// bucket returns the state of a bucket, and whether the bucket exists.
func (w *writer) bucket(id core.BucketID) (b bucketState, exists bool, err error) {
	if b, ok := w.buckets[id]; ok {
		return b, true, nil
	}
	row, err := w.c.row(selectBucketByID, int64(id))
	if err != nil || row == nil {
		return b, false, err
	}
	var info core.BucketInfo
	if err := decodeBucket(int64(id), text(row[0]), bytes(row[1]), &info); err != nil {
		return b, false, err
	}
	b = bucketState{versioning: info.Versioning, locks: info.ObjectLock}
	if !info.Quota.IsZero() {
		if b.tally, err = w.tallyOf(id, info.Quota); err != nil {
			return b, false, err
		}
	}
	w.remember(id, b)
	return b, true, nil
}

func (w *writer) remember(id core.BucketID, b bucketState) {
	if len(w.buckets) >= maxBuckets {
		clear(w.buckets)
	}
	w.buckets[id] = b
}

func (w *writer) putBucket(c *core.PutBucket) error {
	row, err := w.c.row(selectBucket, blob(c.Info.Name))
	if err != nil {
		return err
	}
	if c.Info.ID == 0 {
		if row != nil {
			return fail(core.BucketExists, c.Info.Name)
		}
		return w.newBucket(c)
	}
	if row == nil || core.BucketID(integer(row[0])) != c.Info.ID {
		return fail(core.NoSuchBucket, c.Info.Name)
	}
	was, _, err := w.bucket(c.Info.ID)
	if err != nil {
		return err
	}
	if c.Info.Versioning == core.VersioningOff && was.versioning != core.VersioningOff {
		return fail(core.Conflict, "versioning is never off again")
	}
	if err := c.Info.CheckLocks(was.locks); err != nil {
		return err
	}
	if err := c.Info.Quota.Check(); err != nil {
		return err
	}
	next := bucketState{versioning: c.Info.Versioning, locks: c.Info.ObjectLock}
	if next.tally, err = w.setQuota(c.Info.ID, was.tally, c.Info.Quota); err != nil {
		return err
	}
	w.remember(c.Info.ID, next)
	w.infoBuf = placeOfBucket(int64(c.Info.ID), c.Info.Name).seal(core.AppendBucket(w.infoBuf[:0], &c.Info))
	_, err = w.c.exec(updateBucket, int64(c.Info.ID), w.infoBuf)
	return err
}

func (w *writer) newBucket(c *core.PutBucket) error {
	if err := c.Info.CheckLocks(false); err != nil {
		return err
	}
	if err := c.Info.Quota.Check(); err != nil {
		return err
	}
	if _, err := w.setQuota(core.BucketID(c.Seq), nil, c.Info.Quota); err != nil {
		return err
	}
	w.infoBuf = placeOfBucket(int64(c.Seq), c.Info.Name).seal(core.AppendBucket(w.infoBuf[:0], &c.Info))
	_, err := w.c.exec(insertBucket, int64(c.Seq), blob(c.Info.Name), w.infoBuf)
	return err
}

func (w *writer) deleteBucket(c *core.DeleteBucket) error {
	b, exists, err := w.bucket(c.Bucket)
	if err != nil || !exists {
		if err == nil {
			err = fail(core.NoSuchBucket, "by number")
		}
		return err
	}
	for _, st := range []statement{anyObject, anyHistory, anyUpload} {
		if row, err := w.c.row(st, int64(c.Bucket)); err != nil || row != nil {
			if err == nil {
				err = fail(core.BucketNotEmpty, "by number")
			}
			return err
		}
	}
	delete(w.buckets, c.Bucket)
	if _, err := w.setQuota(c.Bucket, b.tally, core.Quota{}); err != nil {
		return err
	}
	if _, err := w.c.exec(deleteRecords, blob(core.BucketRecordKind(c.Bucket))); err != nil {
		return err
	}
	_, err = w.c.exec(deleteBucket, int64(c.Bucket))
	return err
}

func (w *writer) putRecord(c *core.PutRecord) error {
	kind, key := blob(c.Record.Kind), blob(c.Record.Key)
	if c.HasExpect {
		row, err := w.c.row(selectRecord, kind, key)
		if err != nil {
			return err
		}
		var value []byte
		if row != nil {
			if value, err = placeOfRecord(c.Record.Kind, c.Record.Key).open(bytes(row[0])); err != nil {
				return damaged("record", err)
			}
		}
		if (row != nil) != (len(c.Expect) > 0) || string(value) != string(c.Expect) {
			return fail(core.Conflict, "the record is not what was expected")
		}
	}
	var err error
	if c.Record.Value == nil {
		_, err = w.c.exec(deleteRecord, kind, key)
	} else {
		w.infoBuf = placeOfRecord(c.Record.Kind, c.Record.Key).seal(append(w.infoBuf[:0], c.Record.Value...))
		_, err = w.c.exec(upsertRecord, kind, key, w.infoBuf)
	}
	return err
}

// sawData moves NextData above the content that a change brings, also where the change then fails: frames with that number
// are in a block.
func (w *writer) sawData(segments []core.Segment) {
	for i := range segments {
		if info := segments[i].Info; info != nil && info.ID < math.MaxInt64 {
			w.state.NextData = max(w.state.NextData, info.ID+1)
		}
	}
}

// checkContent says whether the content of a change may be referred to: whether its source is still there, and all that segments say is. Found is
// the equal content that they share, if they do.
func (w *writer) checkContent(s *core.Source, segments []core.Segment) (found *core.DataInfo, err error) {
	if s != nil && s.Content != nil { // equal content is one segment
		if len(segments) > 0 {
			if found, err = w.sharedContent(segments[0].Data); err != nil {
				return nil, err
			}
		}
		return found, s.CheckContent(segments, found)
	}
	if err := w.checkSource(s); err != nil {
		return nil, err
	}
	return nil, w.checkSegments(segments)
}

// sharedContent returns content that is to be shared; nil: there is none of that number.
func (w *writer) sharedContent(id core.DataID) (*core.DataInfo, error) {
	kept := w.shared.at(id)
	if d := *kept; d != nil && d.ID == id {
		return d, nil
	}
	d, err := w.c.content(id)
	if d != nil && len(d.Extents) <= maxSharedExtents {
		*kept = d
	}
	return d, err
}

// checkSource says Conflict where the version that a copy was computed from is gone.
func (w *writer) checkSource(s *core.Source) error {
	if s == nil {
		return nil
	}
	for _, st := range []statement{sourceInObjects, sourceInHistory} {
		if row, err := w.c.row(st, int64(s.Bucket), blob(s.Key), int64(s.Seq)); err != nil || row != nil {
			return err
		}
	}
	return fail(core.Conflict, "the source is gone")
}

// checkSegments says whether all content that segments refer to is there, or is brought by one of them.
func (w *writer) checkSegments(segments []core.Segment) error {
	for i := range segments {
		s := &segments[i]
		known := false
		for j := range i {
			known = known || segments[j].Data == s.Data
		}
		if !known {
			row, err := w.c.row(hasData, int64(s.Data))
			if err != nil {
				return err
			}
			known = row != nil
		}
		switch {
		case s.Info == nil && !known:
			return fail(core.NoSuchData, "content is gone")
		case s.Info != nil && (known || s.Info.ID != s.Data):
			return fail(core.InvalidArgument, "content is brought twice, or under another number")
		}
	}
	return nil
}

// hold adds a reference for each segment, after checkSegments. Object is the info of the version that is born with its one
// segment's content; nil: none is.
func (w *writer) hold(segments []core.Segment, object []byte) error {
	for i := range segments {
		s := &segments[i]
		var err error
		if s.Info == nil {
			_, err = w.c.exec(holdData, int64(s.Data))
		} else {
			_, err = w.insertData(s.Info, object)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// learn keeps with equal content (nil: none) what a change knows of it, after hold.
func (w *writer) learn(s *core.Source, found *core.DataInfo) error {
	if found == nil || !s.AddSums(found) {
		return nil
	}
	return w.updateData(found)
}

// updateData writes a row of data anew, but for its references.
func (w *writer) updateData(d *core.DataInfo) error {
	w.shared.forget(d.ID)
	w.encodeData(d)
	_, err := w.c.exec(updateData, int64(d.ID), w.dataBuf)
	return err
}

// insertData writes a row of data with one reference and says whether the number was free.
func (w *writer) insertData(info *core.DataInfo, object []byte) (bool, error) {
	w.encodeData(info)
	n, err := w.c.exec(insertData, int64(info.ID), info.SHA256[:], w.dataBuf, object)
	if err != nil || n != 1 {
		return false, err
	}
	return true, w.findable(info)
}

// encodeData makes dataBuf the column info of content, with its seal.
func (w *writer) encodeData(info *core.DataInfo) {
	lean := *info
	lean.SHA256 = [32]byte{} // it has a column of its own
	w.dataBuf = placeOfData(int64(info.ID), info.SHA256[:]).seal(core.AppendData(w.dataBuf[:0], &lean))
}

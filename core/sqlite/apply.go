package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"orcas/core"
	"orcas/core/encoding"
)

// writer is the writing connection and the state that it keeps between transactions. Meta.mu guards it.
type writer struct {
	c          *conn
	state      core.State                    // the state after the last change, even if uncommitted
	buckets    map[core.BucketID]bucketState // recently used buckets
	logged     int64                         // the log length at its last measurement, in bytes
	longAt     int64                         // the log length, in bytes, at which to wake the checkpointer
	unmeasured int                           // the number of changes since the last measurement
	object     core.ObjectInfo               // the version being written
	infoBuf    []byte                        // a buffer for the encoding of an info
	briefBuf   []byte                        // a buffer for the column brief
	contents   contents
	index      hashIndex
	tallies    tallies
	tx         transaction
}

// rolledBack discards the in-memory effects of a transaction that was rolled back; before is the state at its
// beginning.
func (w *writer) rolledBack(before core.State) {
	w.index.rolledBack()
	w.state = before
	clear(w.contents.shared[:])
	clear(w.buckets)
	clear(w.tallies.changed)
	clear(w.contents.places.changed)
}

// bucketState is the part of a bucket's metadata that writes need.
type bucketState struct {
	versioning core.Versioning
	locks      bool // object lock is enabled
	tally      *tally
}

// maxBuckets bounds writer.buckets.
const maxBuckets = 1024

func newWriter(c *conn) *writer {
	w := &writer{c: c, buckets: map[core.BucketID]bucketState{}}
	w.index.c = c
	w.tx.touched = newTouched()
	w.contents = contents{c: c, index: &w.index, tx: &w.tx, places: places{c: c, changed: core.BlockContents{}}}
	w.tallies = tallies{c: c, changed: map[core.BucketID]*tally{}}
	return w
}

// state reads the row of the table state.
func (c *conn) state() (s core.State, err error) {
	row, err := c.row(selectState)
	if err != nil {
		return s, err
	}
	if row == nil {
		return s, damaged("state", errors.New("the row is missing"))
	}
	s = core.State{Seq: core.Seq(integer(row[0])), NextData: core.DataID(integer(row[1]))}
	floor, err := stateKey(integer(row[0]), integer(row[1])).checkSum(bytes(row[2]))
	if n := copy(s.ReplayFrom[:], floor); err == nil && n < len(s.ReplayFrom) {
		err = errors.New("the replay start is too short for a block ID")
	} else if synced := floor[n:]; len(synced) == 8 {
		s.Synced = core.Seq(binary.BigEndian.Uint64(synced))
	} else if len(synced) > 0 {
		err = errors.New("the bytes after the replay start are not a sequence")
	}
	return s, damaged("state", err)
}

func (w *writer) writeState(s core.State) error {
	w.infoBuf = append(w.infoBuf[:0], s.ReplayFrom[:]...)
	if s.Synced != 0 {
		w.infoBuf = binary.BigEndian.AppendUint64(w.infoBuf, uint64(s.Synced))
	}
	w.infoBuf = stateKey(int64(s.Seq), int64(s.NextData)).appendSum(w.infoBuf)
	_, err := w.c.exec(updateState, int64(s.Seq), int64(s.NextData), w.infoBuf)
	return err
}

// Apply implements core.Meta.
func (m *Meta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	const op = "sqlite.Apply"
	if err := ctx.Err(); err != nil {
		return nil, core.E(op, core.Canceled, err)
	}
	m.worked.Add(int64(len(changes)))
	m.brake()
	m.catchUp()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return nil, m.errStopped(op)
	}
	if m.w.tx.stuck {
		if err := m.commit(op); err != nil {
			return nil, err
		}
	}
	if err := m.revive(); err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	results := make([]core.Result, len(changes))
	first := 0
	for first < len(changes) && changes[first].Stamp() <= m.w.state.Seq {
		results[first] = core.Result{Seq: changes[first].Stamp(), Skipped: true}
		first++
	}
	if first == len(changes) {
		return results, nil
	}
	if err := m.transact(changes[first:], results[first:]); err != nil {
		if m.stopped != nil {
			return nil, m.errStopped(op)
		}
		return nil, wrap(op, err)
	}
	m.stateMu.Lock()
	m.state = m.w.state
	m.stateMu.Unlock()
	return results, nil
}

// applyAll applies changes in the open transaction. An error that is not in results leaves a part of them applied.
func (w *writer) applyAll(changes []core.Change, results []core.Result) error {
	for i, c := range changes {
		seq := c.Stamp()
		results[i] = core.Result{Seq: seq}
		if seq <= w.state.Seq {
			results[i].Skipped = true
			continue
		}
		free := seq - w.state.Seq
		w.state.Seq = seq // even if the change fails its checks, because a replay would fail them again
		if free < core.SeqCount(c) {
			results[i].Err = fail(core.InvalidArgument, "the sequences of the change are already in use")
			continue
		}
		w.contents.freed = w.contents.freed[:0]
		err := w.apply(c, &results[i])
		if check, ok := err.(*core.Error); ok {
			results[i].Err = check
			continue
		}
		if err == nil {
			err = w.contents.writeFreed(w.state.Seq)
		}
		if err != nil {
			return fmt.Errorf("change %d (%T): %w", seq, c, err)
		}
		switch c := c.(type) {
		case *core.PutObject:
			w.tx.markKey(c.Object.Bucket, c.Object.Key)
		case *core.DeleteObject:
			w.tx.markKey(c.Bucket, c.Key)
		}
	}
	return nil
}

// fail returns the error of a failed check. No other error that occurs while a change is applied is a *core.Error: any
// error of another type ends the transaction.
func fail(kind core.Kind, why string) error { return core.E("sqlite.Apply", kind, errors.New(why)) }

// noBucket returns the error of a change that refers to a missing bucket.
func noBucket(id core.BucketID) error {
	return fail(core.NoSuchBucket, fmt.Sprintf("the bucket with ID %d does not exist", id))
}

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
	case *core.SetReplayFrom:
		w.state.ReplayFrom = c.ReplayFrom
	case *core.Synced:
		c.Apply(&w.state)
	case *core.Void:
	case *core.MoveData:
		return w.contents.moveData(c)
	case *core.RewrapData:
		return w.contents.rewrapData(c)
	case *core.FreeGarbage:
		return w.contents.freeGarbage(c)
	case *core.DropParts:
		return w.contents.dropParts(c)
	case *core.Unshare:
		return w.contents.unshare(c)
	case *core.RepairData:
		return w.contents.repairData(c)
	default:
		return fail(core.Unsupported, fmt.Sprintf("a change of type %T is not supported", c))
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
	if b.tally, err = w.tallies.of(id); err != nil {
		return b, false, err
	}
	b.tally.quota = info.Quota
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
			return fail(core.BucketExists, fmt.Sprintf("bucket %q", c.Info.Name))
		}
		return w.newBucket(c)
	}
	if row == nil || core.BucketID(integer(row[0])) != c.Info.ID {
		return fail(core.NoSuchBucket, fmt.Sprintf("bucket %q does not exist", c.Info.Name))
	}
	if c.Expect != nil {
		var now core.BucketInfo
		if err := decodeBucket(integer(row[0]), c.Info.Name, bytes(row[1]), &now); err != nil {
			return err
		}
		if err := c.CheckExpect(&now); err != nil {
			return err
		}
	}
	was, _, err := w.bucket(c.Info.ID)
	if err != nil {
		return err
	}
	if c.Info.Versioning == core.VersioningOff && was.versioning != core.VersioningOff {
		return fail(core.Conflict, "versioning cannot be turned off once it was enabled, only suspended")
	}
	if err := c.Info.CheckLocks(was.locks); err != nil {
		return err
	}
	if err := c.Info.Quota.Check(); err != nil {
		return err
	}
	was.tally.quota = c.Info.Quota
	w.remember(c.Info.ID, bucketState{versioning: c.Info.Versioning, locks: c.Info.ObjectLock, tally: was.tally})
	w.infoBuf = bucketKey(int64(c.Info.ID), c.Info.Name).appendSum(encoding.AppendBucket(w.infoBuf[:0], &c.Info))
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
	w.tallies.add(core.BucketID(c.Seq), &tally{}, core.Tally{})
	w.infoBuf = bucketKey(int64(c.Seq), c.Info.Name).appendSum(encoding.AppendBucket(w.infoBuf[:0], &c.Info))
	_, err := w.c.exec(insertBucket, int64(c.Seq), blob(c.Info.Name), w.infoBuf)
	return err
}

func (w *writer) deleteBucket(c *core.DeleteBucket) error {
	_, exists, err := w.bucket(c.Bucket)
	if err != nil || !exists {
		if err == nil {
			err = noBucket(c.Bucket)
		}
		return err
	}
	for _, st := range []statement{anyObject, anyHistory, anyUpload} {
		if row, err := w.c.row(st, int64(c.Bucket)); err != nil || row != nil {
			if err == nil {
				err = fail(core.BucketNotEmpty, fmt.Sprintf("bucket ID %d", c.Bucket))
			}
			return err
		}
	}
	delete(w.buckets, c.Bucket)
	if err := w.tallies.remove(c.Bucket); err != nil {
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
	if c.In != 0 {
		if _, exists, err := w.bucket(c.In); err != nil || !exists {
			return cmp.Or(err, noBucket(c.In))
		}
	}
	if c.HasExpect {
		row, err := w.c.row(selectRecord, kind, key)
		if err != nil {
			return err
		}
		var value []byte
		if row != nil {
			if value, err = recordKey(c.Record.Kind, c.Record.Key).checkSum(bytes(row[0])); err != nil {
				return damaged("record", err)
			}
		}
		if (row != nil) != (len(c.Expect) > 0) || string(value) != string(c.Expect) {
			return fail(core.Conflict, fmt.Sprintf("record %q of kind %q has changed", c.Record.Key, c.Record.Kind))
		}
	}
	var err error
	if c.Record.Value == nil {
		_, err = w.c.exec(deleteRecord, kind, key)
	} else {
		w.infoBuf = recordKey(c.Record.Kind, c.Record.Key).appendSum(append(w.infoBuf[:0], c.Record.Value...))
		_, err = w.c.exec(upsertRecord, kind, key, w.infoBuf)
	}
	return err
}

// sawData raises NextData above the DataIDs of the new content of a change, even if the change then fails, because a
// block already has frames with those DataIDs.
func (w *writer) sawData(segments []core.Segment) {
	for i := range segments {
		if info := segments[i].Info; info != nil && info.ID < math.MaxInt64 {
			w.state.NextData = max(w.state.NextData, info.ID+1)
		}
	}
}

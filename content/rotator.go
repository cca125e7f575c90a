package content

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/dictionary"
)

// Rotator rotates master keys: it wraps every data key with the newest master key, so that older ones can be retired.
type Rotator struct {
	e       *Engine
	running sync.Mutex // held by a rotation
	mu      sync.Mutex // guards status
	status  RotateStatus
}

// NewRotator returns a Rotator.
func NewRotator(e *Engine) *Rotator { return &Rotator{e: e} }

// RotateStatus describes the master keys and the last rotation.
type RotateStatus struct {
	Newest    uint32   `json:"newest"`            // the key that wraps new data keys; 0 if there is none
	Needed    []uint32 `json:"needed"`            // keys without which the server does not start, unordered
	Running   bool     `json:"running"`           // a rotation is running
	Rewrapped int64    `json:"rewrapped"`         // data keys rewrapped by the running or the last rotation
	Retired   []uint32 `json:"retired,omitempty"` // keys that no content needs any more, according to that rotation
}

// Status returns the current status.
func (r *Rotator) Status(ctx context.Context) (RotateStatus, error) {
	records, err := r.e.master.records(ctx)
	if err != nil {
		return RotateStatus{}, err
	}
	r.mu.Lock()
	s := r.status
	r.mu.Unlock()
	s.Newest, _ = r.e.master.keys.Newest()
	s.Needed = make([]uint32, len(records))
	for i, record := range records {
		s.Needed[i] = record.id
	}
	return s, nil
}

func (r *Rotator) report(change func(*RotateStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

const (
	rotateBatch = 256     // number of data keys that are rewrapped in one batch
	rotatePass  = 1 << 20 // number of data keys at which a pass over the metadata stops: 8 MiB of IDs
)

// Run wraps every data key with the newest master key. Then it deletes the records of the older master keys, so that
// the server can start without them. Each change expects the value that was read, so a rotation may be interrupted at
// any point and started again. Run returns Busy if a rotation is already running, and NoKey if a key is missing.
func (r *Rotator) Run(ctx context.Context) (RotateStatus, error) {
	if !r.running.TryLock() {
		return RotateStatus{}, core.E("content.Rotator", core.Busy, errors.New("a rotation is already running"))
	}
	defer r.running.Unlock()
	if records, err := r.e.master.records(ctx); err != nil {
		return RotateStatus{}, err
	} else if len(records) == 0 && r.e.HasKey() { // nothing is encrypted: the server must still start without any key
		r.report(func(s *RotateStatus) { *s = RotateStatus{} })
		return r.Status(ctx)
	}
	newest, _, err := r.e.master.newest(ctx)
	if err != nil {
		return RotateStatus{}, err
	}
	r.report(func(s *RotateStatus) { *s = RotateStatus{Running: true} })
	defer r.report(func(s *RotateStatus) { s.Running = false })
	for {
		ids, err := r.wrappedByOthers(ctx, newest)
		if err != nil {
			return RotateStatus{}, err
		}
		if len(ids) == 0 {
			break
		}
		for some := range slices.Chunk(ids, rotateBatch) {
			if err := r.rewrap(ctx, some); err != nil {
				return RotateStatus{}, err
			}
		}
	}
	if err := r.rewrapDictionaries(ctx); err != nil {
		return RotateStatus{}, err
	}
	if err := r.e.writer.Settle(ctx); err != nil { // a power failure must not undo a rewrap when the old key is retired
		return RotateStatus{}, err
	}
	if err := r.retire(ctx, newest); err != nil {
		return RotateStatus{}, err
	}
	r.report(func(s *RotateStatus) { s.Running = false })
	return r.Status(ctx)
}

var errEnough = errors.New("enough")

// wrappedByOthers returns the DataIDs of content whose data key is wrapped by a master key other than the newest. It
// stops once it has found rotatePass of them.
func (r *Rotator) wrappedByOthers(ctx context.Context, newest uint32) (ids []core.DataID, err error) {
	meta, ok := core.As[core.Snapshotter](r.e.meta)
	if !ok {
		return nil, core.E("content.Rotator", core.Unsupported, errors.New("the metadata engine does not support snapshots"))
	}
	err = meta.Snapshot(ctx, func(row *core.Row) error {
		row.EachData(func(d *core.DataInfo) {
			if d.KeyID != 0 && d.KeyID != newest && d.KeyID != codec.CustomerKeyID {
				ids = append(ids, d.ID)
			}
		})
		if len(ids) >= rotatePass {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return ids, err
}

// rewrap wraps the data keys of content with the newest master key. Content that was deleted or changed in the
// meantime is left to the next pass.
func (r *Rotator) rewrap(ctx context.Context, ids []core.DataID) error {
	const op = "content.Rotator"
	keys := r.e.master.keys
	newest, to := keys.Newest()
	found, err := r.e.meta.Data(ctx, ids)
	if err != nil {
		return err
	}
	writes := make([]batch.Write, 0, len(found))
	for i := range found {
		d := &found[i]
		if d.KeyID == newest {
			continue
		}
		key := keys.Get(d.KeyID)
		if key == nil {
			return core.E(op, core.NoKey, missingKey(fmt.Sprintf("content %d", d.ID), d.KeyID))
		}
		wrapped, err := key.Rewrap(d.KeyID, uint64(d.ID), d.DataKey, to, newest)
		if err != nil {
			return core.E(op, core.Damaged, fmt.Errorf("cannot rewrap the data key of content %d: %w", d.ID, err))
		}
		change := &core.RewrapData{Data: d.ID, From: d.DataKey, KeyID: newest, DataKey: wrapped}
		writes = append(writes, batch.Write{Change: change})
	}
	done := int64(0)
	_, errs := r.e.writer.DoAll(ctx, writes)
	for _, failed := range errs {
		if failed == nil {
			done++
		} else if !core.Is(failed, core.Conflict) && !core.Is(failed, core.NoSuchData) {
			err = errors.Join(err, failed)
		}
	}
	r.report(func(s *RotateStatus) { s.Rewrapped += done })
	return err
}

// rewrapDictionaries wraps the data keys of dictionaries with the newest master key. It skips dictionaries that are
// deleted in the meantime.
func (r *Rotator) rewrapDictionaries(ctx context.Context) error {
	newest, to := r.e.master.keys.Newest()
	return r.e.dictionaries.each(ctx, func(record core.Record, d *dictionary.Record) error {
		if d.KeyID == 0 || d.KeyID == newest {
			return nil
		}
		from := r.e.master.keys.Get(d.KeyID)
		if from == nil {
			return core.E("content.Rotator", core.NoKey, missingKey("dictionary "+record.Key, d.KeyID))
		}
		again, err := d.Rewrap(from, to, newest)
		if err != nil {
			return err
		}
		change := &core.PutRecord{Record: again.Encode(), HasExpect: true, Expect: record.Value}
		if _, err := r.e.writer.Do(ctx, batch.Write{Change: change}); err != nil && !core.Is(err, core.Conflict) {
			return err
		}
		r.report(func(s *RotateStatus) { s.Rewrapped++ })
		return nil
	})
}

// retire deletes the records of keys that no content needs any more.
//
// One process: another server might still wrap new data keys with an older key, until it learns which key is the
// newest. With several servers, retiring a key needs a check in Apply.
func (r *Rotator) retire(ctx context.Context, newest uint32) error {
	records, err := r.e.master.records(ctx)
	if err != nil {
		return err
	}
	for _, old := range records {
		if old.id == newest {
			continue
		}
		record := core.Record{Kind: keyRecords, Key: strconv.FormatUint(uint64(old.id), 10)}
		change := &core.PutRecord{Record: record, HasExpect: true, Expect: old.check}
		if _, err := r.e.writer.Do(ctx, batch.Write{Change: change}); err != nil {
			return err
		}
		r.report(func(s *RotateStatus) { s.Retired = append(s.Retired, old.id) })
	}
	return r.e.writer.Settle(ctx)
}

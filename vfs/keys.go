package vfs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
)

// keyRecords is the kind of the records by which master keys are known again: a record for each key that content of the store may need, its key the
// id in decimal, its value what codec.Key.Check made. It is written before the first data key is wrapped, and goes when a rotation has found
// that no content needs the key any more.
const keyRecords = "master-key"

// maxKeyRecords is more than the records that there are: each key takes a rotation.
const maxKeyRecords = 10_000

// masterKeys are the keys of the store.
type masterKeys struct {
	keys   *codec.Keys
	noted  atomic.Bool // the newest key has its record
	noting sync.Mutex  // held by who writes it

	rotating sync.Mutex // held by a rotation
	mu       sync.Mutex // guards status
	status   RotateStatus
}

// keyRecord is a record of a master key.
type keyRecord struct {
	id    uint32
	check []byte
}

func (f *FS) keyRecords(ctx context.Context) ([]keyRecord, error) {
	list, err := f.meta.Records(ctx, keyRecords, "", maxKeyRecords)
	if err != nil {
		return nil, err
	}
	found := make([]keyRecord, len(list))
	for i, r := range list {
		id, err := strconv.ParseUint(r.Key, 10, 32)
		if err != nil {
			return nil, core.E("vfs.keyRecords", core.Damaged, fmt.Errorf("a record of master key %q", r.Key))
		}
		found[i] = keyRecord{uint32(id), r.Value}
	}
	return found, nil
}

// CheckKeys holds the master keys against what the store knows of them. NoKey: one that content needs is missing, or another one has its id.
func (f *FS) CheckKeys(ctx context.Context) error {
	const op = "vfs.CheckKeys"
	records, err := f.keyRecords(ctx)
	if err != nil {
		return err
	}
	newest, _ := f.master.keys.Newest()
	for _, r := range records {
		key := f.master.keys.Get(r.id)
		if key == nil {
			return core.E(op, core.NoKey, fmt.Errorf("the store holds content that is encrypted under master key %d, and that key is missing", r.id))
		}
		if !key.Is(r.check) {
			return core.E(op, core.NoKey, fmt.Errorf("master key %d is not the key under which content of this store is encrypted", r.id))
		}
		if r.id == newest {
			f.master.noted.Store(true)
		}
	}
	return nil
}

// HasKey says whether there is a master key, so that content can be encrypted.
func (f *FS) HasKey() bool {
	_, key := f.master.keys.Newest()
	return key != nil
}

// masterKey returns the key that wraps new data keys, and sees to it that the store knows it again. NoKey: there is none.
func (f *FS) masterKey(ctx context.Context) (uint32, *codec.Key, error) {
	const op = "vfs.masterKey"
	m := &f.master
	id, key := m.keys.Newest()
	if key == nil {
		return 0, nil, core.E(op, core.NoKey, errors.New("there is no master key"))
	}
	if m.noted.Load() {
		return id, key, nil
	}
	m.noting.Lock()
	defer m.noting.Unlock()
	if m.noted.Load() {
		return id, key, nil
	}
	record := core.Record{Kind: keyRecords, Key: strconv.FormatUint(uint64(id), 10), Value: key.Check()}
	_, err := f.writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: record, HasExpect: true}})
	if core.Is(err, core.Conflict) { // an answer that was lost: it is there
		err = f.CheckKeys(ctx)
	}
	if err != nil {
		return 0, nil, err
	}
	m.noted.Store(true)
	return id, key, nil
}

// RotateStatus says what the master keys do.
type RotateStatus struct {
	Newest    uint32   `json:"newest"`            // the key that wraps new data keys; 0: there is none
	Needed    []uint32 `json:"needed"`            // the keys without which the server does not start, in no order
	Running   bool     `json:"running"`           // a rotation does
	Rewrapped int64    `json:"rewrapped"`         // data keys, by this or the last rotation of this process
	Retired   []uint32 `json:"retired,omitempty"` // the keys of which that rotation found that no content needs them
}

// Rotation says where the master keys stand.
func (f *FS) Rotation(ctx context.Context) (RotateStatus, error) {
	records, err := f.keyRecords(ctx)
	if err != nil {
		return RotateStatus{}, err
	}
	f.master.mu.Lock()
	s := f.master.status
	f.master.mu.Unlock()
	s.Newest, _ = f.master.keys.Newest()
	s.Needed = make([]uint32, len(records))
	for i, r := range records {
		s.Needed[i] = r.id
	}
	return s, nil
}

func (m *masterKeys) report(change func(*RotateStatus)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.status)
}

const (
	rotateBatch = 256     // data keys that are wrapped anew in one batch
	rotatePass  = 1 << 20 // the most that are noted in one reading of the metadata: 8 MiB
)

// Rotate wraps every data key that another master key wraps by the newest one, and then forgets the others: from then on the server starts
// without them. It works by ordinary changes, each of which expects what it read, so it may be cut off at any point and begun again.
// Busy: a rotation is running. NoKey: a key is missing.
func (f *FS) Rotate(ctx context.Context) (RotateStatus, error) {
	m := &f.master
	if !m.rotating.TryLock() {
		return RotateStatus{}, core.E("vfs.Rotate", core.Busy, errors.New("a rotation is running"))
	}
	defer m.rotating.Unlock()
	if records, err := f.keyRecords(ctx); err != nil {
		return RotateStatus{}, err
	} else if len(records) == 0 && f.HasKey() { // nothing is encrypted, so no start shall need a key
		m.report(func(s *RotateStatus) { *s = RotateStatus{} })
		return f.Rotation(ctx)
	}
	newest, _, err := f.masterKey(ctx)
	if err != nil {
		return RotateStatus{}, err
	}
	m.report(func(s *RotateStatus) { *s = RotateStatus{Running: true} })
	defer m.report(func(s *RotateStatus) { s.Running = false })
	for {
		ids, err := f.wrappedByOthers(ctx, newest)
		if err != nil {
			return RotateStatus{}, err
		}
		if len(ids) == 0 {
			break
		}
		for len(ids) > 0 {
			n := min(len(ids), rotateBatch)
			if err := f.rewrap(ctx, ids[:n]); err != nil {
				return RotateStatus{}, err
			}
			ids = ids[n:]
		}
	}
	if err := f.rewrapDictionaries(ctx); err != nil {
		return RotateStatus{}, err
	}
	if err := f.writer.Settle(ctx); err != nil { // a power cut must not bring a wrapping back whose key is gone by then
		return RotateStatus{}, err
	}
	if err := f.retire(ctx, newest); err != nil {
		return RotateStatus{}, err
	}
	m.report(func(s *RotateStatus) { s.Running = false })
	return f.Rotation(ctx)
}

var errEnough = errors.New("enough")

// wrappedByOthers returns content whose data key is wrapped by another master key than the newest: all of it, or rotatePass of it.
func (f *FS) wrappedByOthers(ctx context.Context, newest uint32) (ids []core.DataID, err error) {
	meta, ok := f.meta.(core.Snapshotter)
	if !ok {
		return nil, core.E("vfs.Rotate", core.Unsupported, errors.New("the metadata cannot be read as a whole"))
	}
	note := func(d *core.DataInfo) {
		if d != nil && d.KeyID != 0 && d.KeyID != newest && d.KeyID != codec.CustomerKeyID {
			ids = append(ids, d.ID)
		}
	}
	err = meta.Snapshot(ctx, func(r *core.Row) error {
		note(r.Data)
		if r.Object != nil {
			for i := range r.Object.Segments {
				note(r.Object.Segments[i].Info)
			}
		}
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

// rewrap wraps the data keys of content by the newest master key. What went or changed meanwhile is left to the next reading.
func (f *FS) rewrap(ctx context.Context, ids []core.DataID) error {
	const op = "vfs.Rotate"
	keys := f.master.keys
	newest, to := keys.Newest()
	found, err := f.meta.Data(ctx, ids)
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
			return core.E(op, core.NoKey, fmt.Errorf("data %d is encrypted under master key %d, and that key is missing", d.ID, d.KeyID))
		}
		wrapped, err := key.Rewrap(d.KeyID, uint64(d.ID), d.DataKey, to, newest)
		if err != nil {
			return core.E(op, core.Damaged, fmt.Errorf("data %d: %w", d.ID, err))
		}
		writes = append(writes, batch.Write{Change: &core.RewrapData{Data: d.ID, From: d.DataKey, KeyID: newest, DataKey: wrapped}})
	}
	done := int64(0)
	_, errs := f.writer.DoAll(ctx, writes)
	for _, e := range errs {
		if e == nil {
			done++
		} else if !core.Is(e, core.Conflict) && !core.Is(e, core.NoSuchData) {
			err = errors.Join(err, e)
		}
	}
	f.master.report(func(s *RotateStatus) { s.Rewrapped += done })
	return err
}

// rewrapDictionaries wraps the data keys of dictionaries by the newest master key. One that goes meanwhile needs none.
func (f *FS) rewrapDictionaries(ctx context.Context) error {
	newest, to := f.master.keys.Newest()
	return f.eachDictionary(ctx, func(record core.Record, r *core.DictionaryRecord) error {
		if r.KeyID == 0 || r.KeyID == newest {
			return nil
		}
		from := f.master.keys.Get(r.KeyID)
		if from == nil {
			return core.E("vfs.Rotate", core.NoKey, fmt.Errorf("the dictionary %s is encrypted under master key %d, and that key is missing", record.Key, r.KeyID))
		}
		again, err := r.Rewrap(from, to, newest)
		if err != nil {
			return err
		}
		change := &core.PutRecord{Record: again.Record(), HasExpect: true, Expect: record.Value}
		if _, err := f.writer.Do(ctx, batch.Write{Change: change}); err != nil && !core.Is(err, core.Conflict) {
			return err
		}
		f.master.report(func(s *RotateStatus) { s.Rewrapped++ })
		return nil
	})
}

// retire forgets the keys that no content needs any more.
func (f *FS) retire(ctx context.Context, newest uint32) error {
	records, err := f.keyRecords(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.id == newest {
			continue
		}
		record := core.Record{Kind: keyRecords, Key: strconv.FormatUint(uint64(r.id), 10)}
		change := &core.PutRecord{Record: record, HasExpect: true, Expect: r.check}
		if _, err := f.writer.Do(ctx, batch.Write{Change: change}); err != nil {
			return err
		}
		f.master.report(func(s *RotateStatus) { s.Retired = append(s.Retired, r.id) })
	}
	return f.writer.Settle(ctx)
}

package content

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

// keyRecords is the kind of the records that identify master keys. There is one for each master key that stored content
// may need: Record.Key is the ID of the master key in decimal, and Record.Value is the result of codec.Key.Check. The
// record is written before the master key wraps its first data key. A rotation deletes it once no content needs the
// master key any longer.
const keyRecords = "master-key"

// maxKeyRecords is a limit that no store reaches in practice, because each new key requires a rotation.
const maxKeyRecords = 10_000

// masterKeys are the master keys of the process, and their records in the store.
type masterKeys struct {
	meta   core.Meta
	writer *batch.Writer
	keys   *codec.Keys

	recorded  atomic.Bool // the store has a record of the newest key
	recording sync.Mutex  // held while the record is written
}

// keyRecord is a record of a master key.
type keyRecord struct {
	id    uint32
	check []byte
}

func (m *masterKeys) records(ctx context.Context) ([]keyRecord, error) {
	list, err := m.meta.Records(ctx, keyRecords, "", maxKeyRecords)
	if err != nil {
		return nil, err
	}
	found := make([]keyRecord, len(list))
	for i, r := range list {
		id, err := strconv.ParseUint(r.Key, 10, 32)
		if err != nil {
			err = fmt.Errorf("the ID of a master key record is %q: expected a decimal number", r.Key)
			return nil, core.E("content.keys", core.Damaged, err)
		}
		found[i] = keyRecord{uint32(id), r.Value}
	}
	return found, nil
}

// CheckKeys compares the master keys with the records of the store. It returns NoKey if a key that content needs is
// missing, or if a different key is configured under its ID.
func (e *Engine) CheckKeys(ctx context.Context) error { return e.master.check(ctx) }

// HasKey reports whether there is a master key, so that content can be encrypted.
func (e *Engine) HasKey() bool {
	_, key := e.master.keys.Newest()
	return key != nil
}

func (m *masterKeys) check(ctx context.Context) error {
	const op = "content.CheckKeys"
	records, err := m.records(ctx)
	if err != nil {
		return err
	}
	newest, _ := m.keys.Newest()
	for _, r := range records {
		key := m.keys.Get(r.id)
		if key == nil {
			return core.E(op, core.NoKey, missingKey("content of this store", r.id))
		}
		if !key.Is(r.check) {
			err = fmt.Errorf("master key %d has the wrong value: content of this store was encrypted with a different "+
				"key of that ID", r.id)
			return core.E(op, core.NoKey, err)
		}
		if r.id == newest {
			m.recorded.Store(true)
		}
	}
	return nil
}

// newest returns the key that wraps new data keys. If the store has no record of that key yet, newest writes it first.
// It returns NoKey if there is no master key.
func (m *masterKeys) newest(ctx context.Context) (uint32, *codec.Key, error) {
	id, key := m.keys.Newest()
	if key == nil {
		return 0, nil, core.E("content.keys", core.NoKey, errors.New("no master key is configured"))
	}
	if m.recorded.Load() {
		return id, key, nil
	}
	m.recording.Lock()
	defer m.recording.Unlock()
	if m.recorded.Load() {
		return id, key, nil
	}
	record := core.Record{Kind: keyRecords, Key: strconv.FormatUint(uint64(id), 10), Value: key.Check()}
	_, err := m.writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: record, HasExpect: true}})
	if core.Is(err, core.Conflict) { // the record already exists: the result of an earlier write was lost
		err = m.check(ctx)
	}
	if err != nil {
		return 0, nil, err
	}
	m.recorded.Store(true)
	return id, key, nil
}

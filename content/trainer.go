package content

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
	"orcas/core/dictionary"
	"orcas/lease"
)

const (
	minSaving  = 10      // a new dictionary must save at least a tenth (1/minSaving) of the stored bytes
	retryFirst = 1 << 10 // how many small objects to skip before collecting samples again; doubles each time
	retryLast  = 1 << 20
	sweepEvery = 24 * time.Hour
)

// Documents writes the documents of buckets; *vfs.FS implements it. PutDocument returns NoSuchBucket if the bucket no
// longer exists.
type Documents interface {
	PutDocument(ctx context.Context, b *core.BucketInfo, name string, value []byte) error
}

// Trainer trains dictionaries on the samples that an Engine collects (see dictionary.go), and deletes dictionaries that
// are no longer needed.
type Trainer struct {
	e         *Engine
	documents Documents
	leases    lease.Leases
	mu        sync.Mutex // guards status
	status    TrainerStatus
}

// TrainerStatus counts the results of a Trainer since the start, and the samples in memory.
type TrainerStatus struct {
	SampleBytes int // total size of the samples for the next dictionaries
	Made        int // dictionaries that were trained and activated
	Rejected    int // dictionaries that could not be trained, or would not have saved enough
	Removed     int // dictionaries that were deleted because their bucket was deleted
}

// NewTrainer returns a Trainer. Documents stores the list of dictionaries of each bucket. Leases are those of the store
// and exclude other trainers; nil if no other process uses the store.
func NewTrainer(e *Engine, documents Documents, leases lease.Leases) *Trainer {
	if leases == nil {
		leases = &lease.Local{}
	}
	return &Trainer{e: e, documents: documents, leases: leases}
}

// Status returns the current status.
func (t *Trainer) Status() TrainerStatus {
	d := &t.e.dictionaries
	d.mu.Lock()
	sampled := d.sampled
	d.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	s.SampleBytes = sampled
	return s
}

// count increments a counter of the status.
func (t *Trainer) count(of func(*TrainerStatus) *int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*of(&t.status)++
}

// Run trains dictionaries when there are enough samples, and calls Sweep once a day, until ctx ends.
func (t *Trainer) Run(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	err := t.Sweep(ctx)
	for {
		if err != nil && ctx.Err() == nil {
			t.e.log.Warn("dictionary training failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			err = t.Sweep(ctx)
		case <-t.e.dictionaries.wake:
			err = t.TrainNow(ctx)
		}
	}
}

// TrainNow trains a dictionary for each bucket with enough samples, and activates those that save enough. It stops at
// the first dictionary that cannot be stored.
func (t *Trainer) TrainNow(ctx context.Context) error {
	d := &t.e.dictionaries
	for ctx.Err() == nil {
		bucket, samples := d.next()
		if bucket == nil {
			return nil
		}
		err := t.leases.Do(ctx, lease.Dictionaries, func(ctx context.Context) error { return t.train(ctx, bucket, samples) })
		d.done(bucket)
		if core.Is(err, core.NoSuchBucket) {
			d.forget(bucket.bucket.ID)
		} else if err != nil {
			return err
		}
	}
	return core.E("content.Trainer", core.Canceled, ctx.Err())
}

// train trains a dictionary on three quarters of the samples, tests it on the others, and activates it if it saves
// enough.
func (t *Trainer) train(ctx context.Context, b *training, samples [][]byte) error {
	log := t.e.log.With("bucket", b.bucket.Name)
	rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	test, samples := samples[:len(samples)/4], samples[len(samples)/4:]
	id := codec.MinDictionaryID + rand.Uint32N(codec.MaxDictionaryID-codec.MinDictionaryID)
	made, err := codec.Train(id, samples)
	if err != nil {
		log.Debug("cannot train a dictionary on these samples", "err", err)
		t.count(func(s *TrainerStatus) *int { return &s.Rejected })
		return nil
	}
	before, after := codec.Stored(b.active, core.CompressionBetter, test), codec.Stored(made, core.CompressionBetter, test)
	if after > before-before/minSaving {
		log.Debug("a new dictionary does not save enough", "before", before, "after", after)
		t.count(func(s *TrainerStatus) *int { return &s.Rejected })
		return nil
	}
	if err := t.keep(ctx, b, made); err != nil {
		return err
	}
	t.count(func(s *TrainerStatus) *int { return &s.Made })
	log.Info("new small objects are compressed with a new dictionary",
		"dictionary", dictionary.Key(id), "before", before, "after", after)
	return nil
}

// keep stores a dictionary durably, before any content can refer to it, and then activates it.
func (t *Trainer) keep(ctx context.Context, b *training, made *codec.Dictionary) error {
	var keyID uint32
	var key *codec.Key
	if b.encrypted {
		var err error
		if keyID, key, err = t.e.master.newest(ctx); err != nil {
			return err
		}
	}
	record := dictionary.New(b.bucket.ID, made, keyID, key).Encode()
	if _, err := t.e.writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: record, HasExpect: true}}); err != nil {
		return err
	}
	ids := append(append([]uint32(nil), b.ids...), made.ID())
	var document []byte
	for _, id := range ids {
		document = binary.BigEndian.AppendUint32(document, id)
	}
	if err := t.documents.PutDocument(ctx, &b.bucket, b.document(), document); err != nil {
		return err
	}
	d := &t.e.dictionaries
	d.mu.Lock()
	defer d.mu.Unlock()
	b.active, b.ids = made, ids
	return nil
}

// Sweep deletes the dictionaries of deleted buckets to which no content refers. New content cannot refer to them: a
// write to a deleted bucket fails, and a copy refers to the same content as its source.
func (t *Trainer) Sweep(ctx context.Context) error {
	return t.leases.Do(ctx, lease.Dictionaries, t.sweep)
}

func (t *Trainer) sweep(ctx context.Context) error {
	orphans, err := t.orphans(ctx)
	if err != nil || len(orphans) == 0 {
		return err
	}
	s, ok := core.As[core.Snapshotter](t.e.meta)
	if !ok {
		err := errors.New("the metadata engine does not support snapshots")
		return core.E("content.Trainer", core.Unsupported, err)
	}
	spare := func(d *core.DataInfo) {
		if d != nil && d.Dictionary != 0 {
			delete(orphans, d.Dictionary)
		}
	}
	err = s.Snapshot(ctx, func(r *core.Row) error {
		spare(r.Data)
		if r.Object != nil {
			for _, segment := range r.Object.Segments {
				spare(segment.Info)
			}
		}
		if r.Part != nil {
			for _, segment := range r.Part.Segments {
				spare(segment.Info)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range orphans {
		change := &core.PutRecord{Record: core.Record{Kind: r.Kind, Key: r.Key}, HasExpect: true, Expect: r.Value}
		if _, err := t.e.writer.Do(ctx, batch.Write{Change: change}); core.Is(err, core.Conflict) {
			continue // its data key was rewrapped; the next sweep deletes it
		} else if err != nil {
			return err
		}
		t.count(func(s *TrainerStatus) *int { return &s.Removed })
		t.e.log.Info("deleted a dictionary of a deleted bucket", "dictionary", r.Key)
	}
	return nil
}

// orphans returns the dictionaries whose buckets no longer exist.
func (t *Trainer) orphans(ctx context.Context) (map[uint32]core.Record, error) {
	found, owners := map[uint32]core.Record{}, map[uint32]core.BucketID{}
	err := t.e.dictionaries.each(ctx, func(record core.Record, r *dictionary.Record) error {
		found[r.ID], owners[r.ID] = record, r.Bucket
		return nil
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	// Read the buckets after the dictionaries, so that the bucket of each dictionary in found is listed if it exists.
	const page = 1000
	alive := map[core.BucketID]bool{}
	for after := ""; ; {
		list, err := t.e.meta.Buckets(ctx, "", after, page)
		if err != nil {
			return nil, err
		}
		for i := range list {
			alive[list[i].ID] = true
			after = list[i].Name
		}
		if len(list) < page {
			break
		}
	}
	for id, bucket := range owners {
		if alive[bucket] {
			delete(found, id)
		}
	}
	return found, nil
}

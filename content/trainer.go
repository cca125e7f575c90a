package content

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
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
}

// NewTrainer returns a Trainer. Documents stores the list of dictionaries of each bucket. Leases are those of the store
// and exclude other trainers; nil if no other process uses the store.
func NewTrainer(e *Engine, documents Documents, leases lease.Leases) *Trainer {
	return &Trainer{e: e, documents: documents, leases: cmp.Or[lease.Leases](leases, &lease.Local{})}
}

// Run trains dictionaries when there are enough samples, and calls Sweep once a day, until ctx ends.
func (t *Trainer) Run(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	_, err := t.Sweep(ctx)
	for {
		if err != nil && ctx.Err() == nil {
			t.e.log.Warn("compression dictionaries could not be trained or cleaned up; content is stored and read as before, and the server tries again later",
				"err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			_, err = t.Sweep(ctx)
		case <-t.e.dictionaries.wake:
			_, err = t.TrainNow(ctx)
		}
	}
}

// TrainNow trains a dictionary for each bucket with enough samples, and activates those that save enough. It returns
// their number, and stops at the first dictionary that cannot be stored.
func (t *Trainer) TrainNow(ctx context.Context) (activated int, err error) {
	d := &t.e.dictionaries
	for ctx.Err() == nil {
		bucket, samples := d.next()
		if bucket == nil {
			return activated, nil
		}
		err := t.leases.Do(ctx, lease.Dictionaries, func(ctx context.Context) error {
			enough, err := t.train(ctx, bucket, samples)
			if enough {
				activated++
			}
			return err
		})
		d.done(bucket)
		if core.Is(err, core.NoSuchBucket) {
			d.forget(bucket.bucket.ID)
		} else if err != nil {
			return activated, err
		}
	}
	return activated, core.E("content.Trainer", core.Canceled, ctx.Err())
}

// train trains a dictionary on three quarters of the samples, tests it on the others, and activates it if it saves
// enough, which it reports.
func (t *Trainer) train(ctx context.Context, b *training, samples [][]byte) (enough bool, err error) {
	log := t.e.log.With("bucket", b.bucket.Name)
	rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	test, samples := samples[:len(samples)/4], samples[len(samples)/4:]
	id := codec.MinDictionaryID + rand.Uint32N(codec.MaxDictionaryID-codec.MinDictionaryID)
	made, err := codec.Train(id, samples)
	if err != nil {
		log.Debug("cannot train a dictionary on these samples", "err", err)
		return false, nil
	}
	before, after := codec.Stored(b.active, core.CompressionBetter, test), codec.Stored(made, core.CompressionBetter, test)
	if after > before-before/minSaving {
		log.Debug("a new dictionary does not save enough", "before", before, "after", after)
		return false, nil
	}
	if err := t.keep(ctx, b, made); err != nil {
		return false, err
	}
	log.Info("new small objects are compressed with a new dictionary",
		"dictionary", dictionary.Key(id), "before", before, "after", after)
	return true, nil
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
// write to a deleted bucket fails, and a copy refers to the same content as its source. Sweep returns the number of
// deleted dictionaries.
func (t *Trainer) Sweep(ctx context.Context) (deleted int, err error) {
	err = t.leases.Do(ctx, lease.Dictionaries, func(ctx context.Context) (err error) {
		deleted, err = t.sweep(ctx)
		return err
	})
	return deleted, err
}

func (t *Trainer) sweep(ctx context.Context) (deleted int, err error) {
	orphans, err := t.orphans(ctx)
	if err != nil || len(orphans) == 0 {
		return 0, err
	}
	s, ok := core.As[core.Snapshotter](t.e.meta)
	if !ok {
		return 0, core.E("content.Trainer", core.Unsupported, errors.New("the metadata engine does not support snapshots"))
	}
	err = s.Snapshot(ctx, func(r *core.Row) error {
		r.EachData(func(d *core.DataInfo) { delete(orphans, d.Dictionary) })
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, r := range orphans {
		change := &core.PutRecord{Record: core.Record{Kind: r.Kind, Key: r.Key}, HasExpect: true, Expect: r.Value}
		if _, err := t.e.writer.Do(ctx, batch.Write{Change: change}); core.Is(err, core.Conflict) {
			continue // its data key was rewrapped; the next sweep deletes it
		} else if err != nil {
			return deleted, err
		}
		deleted++
		t.e.log.Info("deleted a dictionary of a deleted bucket", "dictionary", r.Key)
	}
	return deleted, nil
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
	alive := map[core.BucketID]bool{}
	for b, err := range core.EachBucket(ctx, t.e.meta, "") {
		if err != nil {
			return nil, err
		}
		alive[b.ID] = true
	}
	for id, bucket := range owners {
		if alive[bucket] {
			delete(found, id)
		}
	}
	return found, nil
}

package content

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/dictionary"
)

// # Dictionaries
//
// Small objects of a bucket have much in common, but each one is too short to compress well by itself. So, for a bucket
// with compression, samples of new content are collected in memory. When there are enough, a Trainer trains a
// dictionary in the background. New content uses the dictionary if it saves enough on samples that it was not trained
// on.
//
// Content that refers to a dictionary cannot be read without it. A dictionary is a record of the metadata
// (dictionary.Kind), so it is in the blocks before anything can refer to it, and in snapshots and backups, and a
// rebuild restores it. It is kept as long as its bucket exists, and after that as long as any content refers to it:
// copies by reference may exist in other buckets. Its ID is random, and Apply rejects an ID that is in use.
//
// A dictionary contains pieces of its samples, so it is encrypted if they are: a bucket has separate dictionaries for
// content encrypted with the master keys and for unencrypted content, each trained only on samples of its own kind.
// Content encrypted with a customer key is compressed without a dictionary: no part of it may be readable without that
// key.
const (
	maxSampled      = 16 << 10 // the maximum size of a sample, in bytes
	maxSmall        = 64 << 10 // the maximum size of content that is compressed with a dictionary, in bytes
	samplesWanted   = 256      // training begins at this many samples,
	sampleBytes     = 1 << 20  // ... or at this many bytes of samples, but with no fewer than
	samplesMin      = 32       // ... this many samples
	allSampleBytes  = 32 << 20 // the maximum size of the samples of all buckets together
	maxDictionaries = 8        // per bucket
	maxLoaded       = 64       // the maximum number of dictionaries in memory for reading
	maxTrainings    = 4096     // the maximum number of buckets whose state is in memory
	maxDocuments    = 1000     // more documents than a bucket can have
)

// The documents of a bucket that list the IDs of its dictionaries, 4 bytes each, with the active one last: one document
// for unencrypted content, one for encrypted content.
const (
	dictionariesDocument          = "orcas-dictionaries"
	encryptedDictionariesDocument = "orcas-sealed-dictionaries"
)

// dictionaries holds the loaded dictionaries of the store, and the samples for new ones.
type dictionaries struct {
	meta   core.Meta
	master *masterKeys
	log    *slog.Logger

	mu        sync.Mutex // guards the fields below, and the trainings
	loaded    map[uint32]*codec.Dictionary
	trainings map[trainingKey]*training
	sampled   int           // total size of all samples, in bytes
	wake      chan struct{} // receives a token when a bucket has enough samples; holds at most one
}

// trainingKey identifies the small objects that may share a dictionary.
type trainingKey struct {
	bucket    core.BucketID
	encrypted bool // with a master key
}

// training is the state of dictionary training for the small objects of a bucket.
type training struct {
	bucket    core.BucketInfo
	encrypted bool
	active    *codec.Dictionary // nil if there is none
	// The IDs of all dictionaries of the bucket. One process: they are read only once, so dictionaries of another
	// trainer would be missed.
	ids     []uint32
	samples [][]byte
	bytes   int // total size of the samples
	skip    int // how many small objects to skip before the next sample
	retry   int // the next value of skip
	busy    bool
}

func (d *dictionaries) init(meta core.Meta, master *masterKeys, log *slog.Logger) {
	d.meta, d.master, d.log = meta, master, log
	d.loaded, d.trainings = map[uint32]*codec.Dictionary{}, map[trainingKey]*training{}
	d.wake = make(chan struct{}, 1)
}

// get returns a dictionary by its ID. It returns Damaged if the dictionary does not exist.
func (d *dictionaries) get(ctx context.Context, id uint32) (*codec.Dictionary, error) {
	d.mu.Lock()
	found := d.loaded[id]
	d.mu.Unlock()
	if found != nil {
		return found, nil
	}
	list, err := d.meta.Records(ctx, dictionary.Kind, dictionary.Key(id-1), 1)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].Key != dictionary.Key(id) {
		err = fmt.Errorf("dictionary %s does not exist", dictionary.Key(id))
		return nil, core.E("content.dictionary", core.Damaged, err)
	}
	if found, err = d.open(list[0]); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.loaded) >= maxLoaded {
		for other := range d.loaded { // evict any one; it is read again when needed
			delete(d.loaded, other)
			break
		}
	}
	d.loaded[id] = found
	return found, nil
}

// open returns the dictionary in a record.
func (d *dictionaries) open(record core.Record) (*codec.Dictionary, error) {
	r, err := dictionary.Decode(record)
	if err != nil {
		return nil, err
	}
	key := d.master.keys.Get(r.KeyID)
	if r.KeyID != 0 && key == nil {
		return nil, core.E("content.dictionary", core.Internal, missingKey("dictionary "+record.Key, r.KeyID))
	}
	return r.Open(key)
}

// dictionaryPage is the number of dictionaries that one call reads.
const dictionaryPage = 32

// each calls fn with the record of each dictionary, raw and decoded.
func (d *dictionaries) each(ctx context.Context, fn func(core.Record, *dictionary.Record) error) error {
	for record, err := range core.EachRecord(ctx, d.meta, dictionary.Kind, dictionaryPage) {
		if err != nil {
			return err
		}
		r, err := dictionary.Decode(*record)
		if err == nil {
			err = fn(*record, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// document returns the name of the document that lists the dictionaries.
func (t *training) document() string {
	if t.encrypted {
		return encryptedDictionariesDocument
	}
	return dictionariesDocument
}

// readIDs returns the IDs of a bucket's dictionaries.
func (d *dictionaries) readIDs(ctx context.Context, t *training) ([]uint32, error) {
	list, err := d.meta.Records(ctx, core.BucketRecordKind(t.bucket.ID), "", maxDocuments)
	var ids []uint32
	for _, r := range list {
		if r.Key == t.document() {
			for ; len(r.Value) >= 4; r.Value = r.Value[4:] {
				ids = append(ids, binary.BigEndian.Uint32(r.Value))
			}
		}
	}
	return ids, err
}

// trainingOf returns the training state of a bucket, for encrypted or for unencrypted content. It loads the active
// dictionary.
func (d *dictionaries) trainingOf(ctx context.Context, b *core.BucketInfo, encrypted bool) (*training, error) {
	key := trainingKey{b.ID, encrypted}
	d.mu.Lock()
	t := d.trainings[key]
	d.mu.Unlock()
	if t != nil {
		return t, nil
	}
	t = &training{bucket: *b, encrypted: encrypted, retry: retryFirst}
	var err error
	if t.ids, err = d.readIDs(ctx, t); err != nil {
		return nil, err
	}
	if n := len(t.ids); n > 0 {
		if t.active, err = d.get(ctx, t.ids[n-1]); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.trainings[key]; other != nil {
		return other, nil
	}
	if len(d.trainings) >= maxTrainings {
		for id, other := range d.trainings {
			if !other.busy {
				d.takeSamples(other)
				delete(d.trainings, id)
				break
			}
		}
	}
	d.trainings[key] = t
	return t, nil
}

// choose sets the dictionary for compressing small content, if there is one, and keeps the content as a sample if more
// samples are needed. An error does not fail the write: without a dictionary the stored content is merely larger.
func (d *dictionaries) choose(ctx context.Context, c *Content, content []byte) {
	coder := &c.codec
	if c.bucket == nil || len(content) > maxSmall || coder.Level <= core.CompressionOff || coder.KeyID == codec.CustomerKeyID {
		return
	}
	t, err := d.trainingOf(ctx, c.bucket, coder.KeyID != 0)
	if err != nil {
		d.log.Warn("cannot load the compression dictionary of a bucket: compressing without it",
			"bucket", c.bucket.Name, "err", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	coder.Dictionary = t.active
	switch {
	case t.busy || len(content) > maxSampled || len(t.ids) >= maxDictionaries:
	case t.skip > 0:
		t.skip--
	case d.sampled+len(content) <= allSampleBytes:
		t.samples = append(t.samples, append([]byte(nil), content...))
		t.bytes += len(content)
		d.sampled += len(content)
		if t.full() {
			select {
			case d.wake <- struct{}{}:
			default:
			}
		}
	}
}

// full reports whether there are enough samples.
func (t *training) full() bool {
	n := len(t.samples)
	return n >= samplesWanted || n >= samplesMin && t.bytes >= sampleBytes
}

// takeSamples removes the samples of a bucket and returns them. The caller holds d.mu.
func (d *dictionaries) takeSamples(t *training) [][]byte {
	samples := t.samples
	d.sampled -= t.bytes
	t.samples, t.bytes = nil, 0
	return samples
}

// next returns a bucket with enough samples, together with the samples, and marks it as busy. It returns nil if no
// bucket has enough samples.
func (d *dictionaries) next() (*training, [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.trainings {
		if !t.busy && t.full() {
			t.busy = true
			return t, d.takeSamples(t)
		}
	}
	return nil, nil
}

// done ends the training that next began.
func (d *dictionaries) done(t *training) {
	d.mu.Lock()
	defer d.mu.Unlock()
	t.busy = false
	t.skip, t.retry = t.retry, min(2*t.retry, retryLast)
}

// ForgetBucket releases the memory that the engine uses for a deleted bucket.
func (e *Engine) ForgetBucket(id core.BucketID) { e.dictionaries.forget(id) }

func (d *dictionaries) forget(id core.BucketID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range []trainingKey{{id, false}, {id, true}} {
		if t := d.trainings[key]; t != nil {
			d.takeSamples(t)
			delete(d.trainings, key)
		}
	}
}

package vfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/codec"
)

// Small contents of a bucket have much in common, and by themselves are too short to shrink much. So where a bucket compresses, samples of what is put into it are
// gathered in memory; when there are enough of them a dictionary is made in the background, and taken for new content where it saves enough on samples that
// it was not made of.
//
// A dictionary is content: whatever names it cannot be read without it. It is a record of the metadata (core.DictionaryKind), so it is in the blocks
// before anything can name it, in snapshots and in backups, and a rebuild brings it back. It stays as long as its bucket, and then
// as long as any content names it: copies by reference live on in other buckets. Its number is drawn at random, and Apply refuses one that is taken.
//
// Being made of contents, it is encrypted where they are: a bucket has other dictionaries for what the master keys encrypt than for what is not encrypted, and samples
// of one kind go into no dictionary of the other. What a customer's key encrypts is compressed without any: nothing of it may be readable without that key.
const (
	maxSampled      = 16 << 10 // larger content is no sample, in bytes
	maxSmall        = 64 << 10 // larger content is compressed without a dictionary, in bytes
	samplesWanted   = 256      // a dictionary is made of so many samples,
	sampleBytes     = 1 << 20  // ... or of so many bytes of them, but of no fewer than
	samplesMin      = 32       // ... these
	allSampleBytes  = 32 << 20 // the most that all buckets together gather
	minSaving       = 10       // a new dictionary has to save a tenth of what is stored without it
	retryFirst      = 1 << 10  // small contents until samples are gathered again; doubles each time
	retryLast       = 1 << 20
	maxDictionaries = 8    // of a bucket
	maxLoaded       = 64   // dictionaries in memory for reading
	maxHabits       = 4096 // buckets that are known
	sweepEvery      = 24 * time.Hour
)

// The documents of a bucket that list the numbers of its dictionaries, 4 bytes each, the one in use last: for content that is not encrypted, and for content that is.
const (
	dictionariesDocument       = "orcas-dictionaries"
	sealedDictionariesDocument = "orcas-sealed-dictionaries"
)

// dictionaries is what an FS knows of dictionaries.
type dictionaries struct {
	mu      sync.Mutex
	loaded  map[uint32]*codec.Dictionary
	habits  map[habitKey]*habit
	sampled int           // bytes of samples, in all
	wake    chan struct{} // one token: a bucket has samples enough
}

// habitKey names small contents that may have a dictionary in common.
type habitKey struct {
	bucket core.BucketID
	sealed bool // encrypted under a master key
}

// habit is what is known of the small contents of a bucket that compresses.
type habit struct {
	bucket  core.BucketInfo
	sealed  bool
	active  *codec.Dictionary // nil: none
	ids     []uint32          // of all its dictionaries
	samples [][]byte
	bytes   int
	skip    int // contents until the next sample
	retry   int // the next skip
	busy    bool
}

func (d *dictionaries) init() {
	d.loaded, d.habits = map[uint32]*codec.Dictionary{}, map[habitKey]*habit{}
	d.wake = make(chan struct{}, 1)
}

// dictionary returns a dictionary by its number; Damaged where there is none of it.
func (f *FS) dictionary(ctx context.Context, id uint32) (*codec.Dictionary, error) {
	d := &f.dictionaries
	d.mu.Lock()
	found := d.loaded[id]
	d.mu.Unlock()
	if found != nil {
		return found, nil
	}
	list, err := f.meta.Records(ctx, core.DictionaryKind, core.DictionaryKey(id-1), 1)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[0].Key != core.DictionaryKey(id) {
		return nil, core.E("vfs.dictionary", core.Damaged, fmt.Errorf("the dictionary %08x is not there", id))
	}
	if found, err = f.openDictionary(list[0]); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.loaded) >= maxLoaded {
		for other := range d.loaded { // any: it is read again when it is needed
			delete(d.loaded, other)
			break
		}
	}
	d.loaded[id] = found
	return found, nil
}

// openDictionary makes a dictionary of its record.
func (f *FS) openDictionary(record core.Record) (*codec.Dictionary, error) {
	r, err := core.DecodeDictionary(record)
	if err != nil {
		return nil, err
	}
	key := f.master.keys.Get(r.KeyID)
	if r.KeyID != 0 && key == nil {
		return nil, core.E("vfs.dictionary", core.Internal, fmt.Errorf("the dictionary %s is encrypted under master key %d, and that key is missing", record.Key, r.KeyID))
	}
	return r.Open(key)
}

// document returns the name of the document that lists the dictionaries.
func (h *habit) document() string {
	if h.sealed {
		return sealedDictionariesDocument
	}
	return dictionariesDocument
}

// habitOf returns what is known of the content of a bucket that is encrypted, or is not; its dictionary included.
func (f *FS) habitOf(ctx context.Context, b *core.BucketInfo, sealed bool) (*habit, error) {
	d := &f.dictionaries
	key := habitKey{b.ID, sealed}
	d.mu.Lock()
	h := d.habits[key]
	d.mu.Unlock()
	if h != nil {
		return h, nil
	}
	h = &habit{bucket: *b, sealed: sealed, retry: retryFirst}
	document, err := f.Document(ctx, b, h.document())
	if err != nil {
		return nil, err
	}
	for ; len(document) >= 4; document = document[4:] {
		h.ids = append(h.ids, binary.BigEndian.Uint32(document))
	}
	if n := len(h.ids); n > 0 {
		if h.active, err = f.dictionary(ctx, h.ids[n-1]); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if other := d.habits[key]; other != nil {
		return other, nil
	}
	if len(d.habits) >= maxHabits {
		for id, other := range d.habits {
			if !other.busy {
				d.forget(other)
				delete(d.habits, id)
				break
			}
		}
	}
	d.habits[key] = h
	return h, nil
}

// forget takes the samples of a bucket away. The caller holds d.mu.
func (d *dictionaries) forget(h *habit) [][]byte {
	samples := h.samples
	d.sampled -= h.bytes
	h.samples, h.bytes = nil, 0
	return samples
}

// chooseDictionary sets the dictionary with which small content of a bucket that may shrink is compressed, if there is one, and takes the content as a sample, if one is
// wanted. Without it, content is merely larger, so what goes wrong here fails nothing.
func (f *FS) chooseDictionary(ctx context.Context, c *Content, content []byte) {
	if len(content) > maxSmall || c.codec.Level <= codec.Off || c.codec.KeyID == codec.CustomerKeyID {
		return
	}
	h, err := f.habitOf(ctx, c.bucket, c.codec.KeyID != 0)
	if err != nil {
		f.log.Warn("content is compressed without a dictionary", "bucket", c.bucket.Name, "err", err)
		return
	}
	d := &f.dictionaries
	d.mu.Lock()
	defer d.mu.Unlock()
	c.codec.Dictionary = h.active
	switch {
	case h.busy || len(content) > maxSampled || len(h.ids) >= maxDictionaries:
	case h.skip > 0:
		h.skip--
	case d.sampled+len(content) <= allSampleBytes:
		h.samples = append(h.samples, append([]byte(nil), content...))
		h.bytes += len(content)
		d.sampled += len(content)
		if h.full() {
			select {
			case d.wake <- struct{}{}:
			default:
			}
		}
	}
}

// full says whether there are samples enough.
func (h *habit) full() bool {
	n := len(h.samples)
	return n >= samplesWanted || n >= samplesMin && h.bytes >= sampleBytes
}

// Train makes dictionaries where they are due, and removes those that nobody needs any more, until ctx ends.
func (f *FS) Train(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	err := f.SweepDictionaries(ctx)
	for {
		if err != nil && ctx.Err() == nil {
			f.log.Warn("dictionaries", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			err = f.SweepDictionaries(ctx)
		case <-f.dictionaries.wake:
			_, err = f.TrainNow(ctx)
		}
	}
}

// TrainNow makes a dictionary for each bucket of which there are samples enough, and returns how many were taken into use: those that save
// enough. The first error of writing one down ends it.
func (f *FS) TrainNow(ctx context.Context) (made int, err error) {
	d := &f.dictionaries
	for ctx.Err() == nil {
		h, samples := d.due()
		if h == nil {
			return made, nil
		}
		taken, err := f.train(ctx, h, samples)
		d.mu.Lock()
		h.busy = false
		h.skip, h.retry = h.retry, min(2*h.retry, retryLast)
		d.mu.Unlock()
		if core.Is(err, core.NoSuchBucket) {
			d.drop(h.bucket.ID)
			continue
		}
		if err != nil {
			return made, err
		}
		if taken {
			made++
		}
	}
	return made, core.E("vfs.Train", core.Canceled, ctx.Err())
}

// due returns a bucket with samples enough, which is busy from now on, and its samples.
func (d *dictionaries) due() (*habit, [][]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.habits {
		if !h.busy && h.full() {
			h.busy = true
			return h, d.forget(h)
		}
	}
	return nil, nil
}

// drop forgets a bucket.
func (d *dictionaries) drop(id core.BucketID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range []habitKey{{id, false}, {id, true}} {
		if h := d.habits[key]; h != nil {
			d.forget(h)
			delete(d.habits, key)
		}
	}
}

// train makes a dictionary of three quarters of the samples, tries it on the others, and takes it into use where it saves enough.
func (f *FS) train(ctx context.Context, h *habit, samples [][]byte) (bool, error) {
	rand.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	test, samples := samples[:len(samples)/4], samples[len(samples)/4:]
	id := codec.MinDictionaryID + rand.Uint32N(codec.MaxDictionaryID-codec.MinDictionaryID)
	made, err := codec.Train(id, samples)
	if err != nil {
		f.log.Debug("no dictionary", "bucket", h.bucket.Name, "err", err)
		return false, nil
	}
	before, after := codec.Stored(h.active, codec.Better, test), codec.Stored(made, codec.Better, test)
	if after > before-before/minSaving {
		f.log.Debug("a dictionary would not pay", "bucket", h.bucket.Name, "before", before, "after", after)
		return false, nil
	}
	if err := f.keepDictionary(ctx, h, made); err != nil {
		return false, err
	}
	f.log.Info("small content is compressed with a new dictionary", "bucket", h.bucket.Name, "dictionary", core.DictionaryKey(id), "before", before, "after", after)
	return true, nil
}

// keepDictionary writes a dictionary down, so that nothing can name it before it is durable, and takes it into use.
func (f *FS) keepDictionary(ctx context.Context, h *habit, made *codec.Dictionary) error {
	var keyID uint32
	var key *codec.Key
	if h.sealed {
		var err error
		if keyID, key, err = f.masterKey(ctx); err != nil {
			return err
		}
	}
	record := core.KeepDictionary(h.bucket.ID, made, keyID, key).Record()
	if _, err := f.writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: record, HasExpect: true}}); err != nil {
		return err
	}
	ids := append(append([]uint32(nil), h.ids...), made.ID())
	var document []byte
	for _, id := range ids {
		document = binary.BigEndian.AppendUint32(document, id)
	}
	if err := f.PutDocument(ctx, &h.bucket, h.document(), document); err != nil {
		return err
	}
	d := &f.dictionaries
	d.mu.Lock()
	defer d.mu.Unlock()
	h.active, h.ids = made, ids
	return nil
}

// SweepDictionaries removes the dictionaries of buckets that are gone, where no content names them. Nothing new can name one: a write into a bucket that
// is gone fails, and copies name what was there before.
func (f *FS) SweepDictionaries(ctx context.Context) error {
	orphans, err := f.orphanDictionaries(ctx)
	if err != nil || len(orphans) == 0 {
		return err
	}
	s, ok := f.meta.(core.Snapshotter)
	if !ok {
		return core.E("vfs.SweepDictionaries", core.Unsupported, errors.New("this engine cannot say what it holds"))
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
		if _, err := f.writer.Do(ctx, batch.Write{Change: change}); core.Is(err, core.Conflict) {
			continue // its key was wrapped anew: the next sweep has it
		} else if err != nil {
			return err
		}
		f.log.Info("a dictionary that nobody needs any more is removed", "dictionary", r.Key)
	}
	return nil
}

// dictionaryPage is how many dictionaries are read at once.
const dictionaryPage = 32

// eachDictionary calls fn with the record of each dictionary, and with what it says.
func (f *FS) eachDictionary(ctx context.Context, fn func(core.Record, *core.DictionaryRecord) error) error {
	for after := ""; ; {
		list, err := f.meta.Records(ctx, core.DictionaryKind, after, dictionaryPage)
		if err != nil {
			return err
		}
		for _, record := range list {
			r, err := core.DecodeDictionary(record)
			if err == nil {
				err = fn(record, r)
			}
			if err != nil {
				return err
			}
			after = record.Key
		}
		if len(list) < dictionaryPage {
			return nil
		}
	}
}

// orphanDictionaries returns the dictionaries whose buckets are gone.
func (f *FS) orphanDictionaries(ctx context.Context) (map[uint32]core.Record, error) {
	found, owners := map[uint32]core.Record{}, map[uint32]core.BucketID{}
	err := f.eachDictionary(ctx, func(record core.Record, r *core.DictionaryRecord) error {
		found[r.ID], owners[r.ID] = record, r.Bucket
		return nil
	})
	if err != nil || len(found) == 0 {
		return nil, err
	}
	// Buckets are read after the dictionaries: one that was made for a bucket of which nothing is known yet cannot be among them.
	alive := map[core.BucketID]bool{}
	for after := ""; ; {
		list, more, err := f.Buckets(ctx, "", after, 1000)
		if err != nil {
			return nil, err
		}
		for i := range list {
			alive[list[i].ID] = true
			after = list[i].Name
		}
		if !more {
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

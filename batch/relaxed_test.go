package batch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
)

// relaxedStore is a store whose drive may lose any of the bytes that were not synced, and whose metadata may be ahead
// of the blocks or behind them.
type relaxedStore struct {
	t      *testing.T
	r      *rand.Rand
	blocks *mem.Blocks
	meta   *mem.Meta
	w      *batch.Writer
	bucket core.BucketID

	states []relaxedState // after each acknowledged write
	safe   int            // the index of the last state that was synced
}

type relaxedState struct {
	keys map[string][]byte
	rows [][]byte // the metadata
}

// open starts a writer on the current blocks and metadata.
func (s *relaxedStore) open(relaxed bool) {
	var err error
	s.w, err = batch.Open(ctx, batch.Options{Meta: s.meta, Blocks: s.blocks, Relaxed: relaxed, Window: time.Hour})
	require.NoError(s.t, err)
}

// TestRelaxedWithoutBlocks checks that a start without the blocks, for example because their file system is not
// mounted, leaves the metadata unchanged.
func TestRelaxedWithoutBlocks(t *testing.T) {
	s := &relaxedStore{t: t, blocks: mem.NewBlocks(), meta: mem.NewMeta()}
	s.open(true)
	res, err := s.w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b", Created: time.UnixMilli(1)}}})
	require.NoError(t, err)
	s.bucket = core.BucketID(res.Seq)
	for i := range 5 {
		_, err = s.w.Do(ctx, putting(s.w, s.bucket, fmt.Sprint(i), random(1, 1000)))
		require.NoError(t, err)
		require.NoError(t, s.w.Flush(ctx))
	}
	_, err = s.w.Do(ctx, putting(s.w, s.bucket, "not synced", random(1, 1000)))
	require.NoError(t, err)
	require.NoError(t, s.w.Close())
	before, err := coretest.Rows(ctx, s.meta)
	require.NoError(t, err)

	waiting, err := batch.Pending(ctx, s.meta, mem.NewBlocks(), discard())
	require.NoError(t, err)
	require.False(t, waiting.Ahead)
	_, err = batch.Recover(ctx, s.meta, mem.NewBlocks(), discard())
	require.NoError(t, err)
	after, err := coretest.Rows(ctx, s.meta)
	require.NoError(t, err)
	require.Equal(t, before, after)
	s.open(true)
	require.NoError(t, s.w.Close())
	content, err := read(s.meta, s.blocks, s.bucket, "4")
	require.NoError(t, err)
	require.Equal(t, random(1, 1000), content)
}

// act makes a random write.
func (s *relaxedStore) act() {
	before := s.states[len(s.states)-1].keys
	keys := map[string][]byte{}
	for k, v := range before {
		keys[k] = v
	}
	key := fmt.Sprint(s.r.IntN(6))
	switch s.r.IntN(5) {
	case 0:
		_, err := s.w.Do(ctx, batch.Write{Change: &core.DeleteObject{Bucket: s.bucket, Key: key, Modified: time.UnixMilli(2)}})
		require.NoError(s.t, err)
		delete(keys, key)
	case 1:
		body := random(s.r.Uint64(), 300_000)
		large, err := s.w.NewLarge(ctx, int64(len(body)), 0, nil)
		require.NoError(s.t, err)
		for rest := body; len(rest) > 0; {
			b := batch.NewBuffer(min(len(rest), 256<<10))
			n := copy(b.Content(), rest)
			require.NoError(s.t, large.Write(b.B[:80+n]))
			rest = rest[n:]
			b.Release()
		}
		info, err := large.Commit(ctx)
		require.NoError(s.t, err)
		write := putting(s.w, s.bucket, key, nil)
		change := write.Change.(*core.PutObject)
		change.Object.Size = info.Size
		change.Object.Segments = []core.Segment{{Data: info.ID, Length: info.Size, Info: info}}
		_, err = s.w.Do(ctx, batch.Write{Change: change})
		require.NoError(s.t, err)
		keys[key] = body
	default:
		body := random(s.r.Uint64(), 1+s.r.IntN(3000))
		_, err := s.w.Do(ctx, putting(s.w, s.bucket, key, body))
		require.NoError(s.t, err)
		keys[key] = body
	}
	s.note(keys)
}

func (s *relaxedStore) note(keys map[string][]byte) {
	rows, err := coretest.Rows(ctx, s.meta)
	require.NoError(s.t, err)
	s.states = append(s.states, relaxedState{keys, rows})
}

// keep decides which of the bytes that were not synced survive a power cut. It returns their number, and may clear some
// of them.
func (s *relaxedStore) keep(_ core.BlockID, doubtful []byte) int {
	switch s.r.IntN(4) {
	case 0:
		return 0
	case 1:
		return len(doubtful)
	}
	for at := 0; at < len(doubtful); at += 512 {
		if s.r.IntN(6) == 0 {
			clear(doubtful[at:min(at+512, len(doubtful))])
		}
	}
	return s.r.IntN(len(doubtful) + 1)
}

// cut cuts the power: synced bytes survive, others may be lost, and the metadata has any of the states since the store
// was opened.
func (s *relaxedStore) cut(from int) {
	s.blocks = s.blocks.PowerCut(s.keep)
	meta := mem.NewMeta()
	require.NoError(s.t, meta.Restore(ctx, coretest.NextOf(s.states[from+s.r.IntN(len(s.states)-from)].rows)))
	s.meta = meta
}

// find returns the index of the state that the store is in, or -1, and checks that all of its content is intact.
func (s *relaxedStore) find() int {
	got := map[string][]byte{}
	for i := range 6 {
		key := fmt.Sprint(i)
		body, err := read(s.meta, s.blocks, s.bucket, key)
		if core.Is(err, core.NoSuchKey) {
			continue
		}
		require.NoError(s.t, err)
		got[key] = body
	}
	for i := len(s.states) - 1; i >= 0; i-- {
		if assert.ObjectsAreEqual(s.states[i].keys, got) {
			return i
		}
	}
	return -1
}

// TestRelaxedPowerCuts checks that after every power cut the store is in one of its earlier states, which is not older
// than the last sync, and that all content is intact. Then it continues, relaxed or strict, until the next power cut.
func TestRelaxedPowerCuts(t *testing.T) {
	lost, ahead := 0, 0
	for seed := range uint64(300) {
		s := &relaxedStore{t: t, r: rand.New(rand.NewPCG(seed, 1)), blocks: mem.NewBlocks(), meta: mem.NewMeta()}
		s.open(s.r.IntN(3) > 0)
		res, err := s.w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b", Created: time.UnixMilli(1)}}})
		require.NoError(t, err)
		s.bucket = core.BucketID(res.Seq)
		require.NoError(t, s.w.Flush(ctx))
		s.note(map[string][]byte{})
		for range 3 {
			begun := len(s.states) - 1
			s.safe = begun
			for range s.r.IntN(25) {
				s.act()
				if s.r.IntN(8) == 0 {
					require.NoError(t, s.w.Flush(ctx))
					s.safe = len(s.states) - 1
				}
			}
			if !s.w.Relaxed() {
				s.safe = len(s.states) - 1
			}
			s.cut(begun)
			before, err := s.meta.State(ctx)
			require.NoError(t, err)
			require.NoError(t, s.w.Close()) // it writes to the blocks from before the power cut
			s.open(s.r.IntN(3) > 0)
			at := s.find()
			require.GreaterOrEqual(t, at, s.safe, "seed %d: state %d of %d", seed, at, len(s.states)-1)
			if at < len(s.states)-1 {
				lost++
			}
			found, err := encoding.DecodeRow(s.states[at].rows[0])
			require.NoError(t, err)
			if found.State.Seq < before.Seq {
				ahead++
			}
			s.states = s.states[:at+1]
			s.note(s.states[at].keys)
		}
		require.NoError(t, s.w.Close())
	}
	require.NotZero(t, lost)
	require.NotZero(t, ahead)
	t.Logf("writes were lost %d times, the metadata was ahead %d times", lost, ahead)
}

// TestRelaxedKills checks that a killed process loses nothing, and that a clean stop makes everything durable.
func TestRelaxedKills(t *testing.T) {
	for seed := range uint64(50) {
		s := &relaxedStore{t: t, r: rand.New(rand.NewPCG(seed, 2)), blocks: mem.NewBlocks(), meta: mem.NewMeta()}
		s.open(true)
		res, err := s.w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b", Created: time.UnixMilli(1)}}})
		require.NoError(t, err)
		s.bucket = core.BucketID(res.Seq)
		s.note(map[string][]byte{})
		for range 20 {
			s.act()
		}
		all := func(_ core.BlockID, doubtful []byte) int { return len(doubtful) }
		if seed%2 == 0 {
			s.blocks = s.blocks.PowerCut(all)
		} else {
			require.NoError(t, s.w.Close())
			s.blocks = s.blocks.Crash()
		}
		old := s.w
		s.open(seed%3 == 0)
		require.Equal(t, len(s.states)-1, s.find())
		require.NoError(t, s.w.Close())
		require.NoError(t, old.Close())
	}
}

// TestRelaxedWindow checks that writes are synced within the window automatically, and not each one before it is
// acknowledged.
func TestRelaxedWindow(t *testing.T) {
	blocks := &countingSync{Blocks: mem.NewBlocks(), synced: make(chan struct{}, 100)}
	w, err := batch.Open(ctx, batch.Options{Meta: mem.NewMeta(), Blocks: blocks, Relaxed: true, Window: 40 * time.Millisecond})
	require.NoError(t, err)
	for range 20 {
		_, err := w.Do(ctx, batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte("v")}}})
		require.NoError(t, err)
	}
	last := w.Synced()
	require.Less(t, last, core.Seq(40))
	<-blocks.synced
	require.Eventually(t, func() bool { return w.Synced() >= 40 }, 5*time.Second, time.Millisecond)
	require.NoError(t, w.Close())
}

type countingSync struct {
	*mem.Blocks
	synced chan struct{}
	fail   error
}

func (c *countingSync) Sync(ctx context.Context) error {
	if c.fail != nil {
		return c.fail
	}
	c.synced <- struct{}{}
	return c.Blocks.Sync(ctx)
}

// TestRelaxedSyncFails checks that no writes are accepted after a failed sync.
func TestRelaxedSyncFails(t *testing.T) {
	blocks := &countingSync{Blocks: mem.NewBlocks(), synced: make(chan struct{}, 100), fail: core.E("test", core.Internal, nil)}
	w, err := batch.Open(ctx, batch.Options{Meta: mem.NewMeta(), Blocks: blocks, Relaxed: true, Window: time.Hour})
	require.NoError(t, err)
	put := batch.Write{Change: &core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte("v")}}}
	_, err = w.Do(ctx, put)
	require.NoError(t, err)
	require.True(t, core.Is(w.Flush(ctx), core.Unavailable))
	_, err = w.Do(ctx, put)
	require.True(t, core.Is(err, core.Unavailable), "%v", err)
	require.Error(t, w.Close())
}

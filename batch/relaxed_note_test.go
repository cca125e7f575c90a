package batch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
)

// rotten is a drive on which one bit of a block reads wrong.
type rotten struct {
	*mem.Blocks
	block core.BlockID
	at    int64
}

// Open implements core.Blocks.
func (b *rotten) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := b.Blocks.Open(ctx, e)
	if err != nil || e.Block != b.block {
		return r, err
	}
	return &rottenReader{r, b.at - e.Offset}, nil
}

type rottenReader struct {
	core.BlockReader
	at int64
}

// ReadAt implements io.ReaderAt.
func (r *rottenReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.BlockReader.ReadAt(p, off)
	if off <= r.at && r.at < off+int64(n) {
		p[r.at-off] ^= 8
	}
	return n, err
}

const (
	noteWindow = time.Second
	noteKeys   = 10 // small ones: 0 to 9
)

// noteStore is a relaxed store with a large content, written first, and small ones.
func noteStore(t *testing.T) *relaxedStore {
	s := &relaxedStore{t: t, blocks: mem.NewBlocks(), meta: mem.NewMeta()}
	s.begin(s.blocks)
	res, err := s.w.Do(ctx, batch.Write{
		Change: &core.PutBucket{Info: core.BucketInfo{Name: "b", Created: time.UnixMilli(1)}},
	})
	require.NoError(t, err)
	s.bucket = core.BucketID(res.Seq)
	body := random(100, 200_000)
	large, err := s.w.NewLarge(ctx, int64(len(body)), 0, nil)
	require.NoError(t, err)
	b := batch.NewBuffer(len(body))
	n := copy(b.Content(), body)
	require.NoError(t, large.Write(b.B[:80+n]))
	b.Release()
	info, err := large.Commit(ctx)
	require.NoError(t, err)
	write := putting(s.w, s.bucket, "large", nil)
	change := write.Change.(*core.PutObject)
	change.Object.Size = info.Size
	change.Object.Segments = []core.Segment{{Data: info.ID, Length: info.Size, Info: info}}
	_, err = s.w.Do(ctx, batch.Write{Change: change})
	require.NoError(t, err)
	for i := range noteKeys {
		_, err := s.w.Do(ctx, putting(s.w, s.bucket, fmt.Sprint(i), random(uint64(i), 3000)))
		require.NoError(t, err)
	}
	return s
}

// begin is open with a window that ends.
func (s *relaxedStore) begin(blocks core.Blocks) {
	var err error
	s.w, err = batch.Open(ctx, batch.Options{Meta: s.meta, Blocks: blocks, Relaxed: true, Window: noteWindow})
	require.NoError(s.t, err)
}

// powerCut leaves what was synced, and the metadata as it is.
func (s *relaxedStore) powerCut() *relaxedStore {
	rows, err := coretest.Rows(ctx, s.meta)
	require.NoError(s.t, err)
	after := &relaxedStore{t: s.t, meta: mem.NewMeta(), bucket: s.bucket}
	require.NoError(s.t, after.meta.Restore(ctx, coretest.NextOf(rows)))
	after.blocks = s.blocks.PowerCut(func(core.BlockID, []byte) int { return 0 })
	return after
}

// seq returns how far the metadata is.
func (s *relaxedStore) seq() core.Seq {
	st, err := s.meta.State(ctx)
	require.NoError(s.t, err)
	return st.Seq
}

// extent returns where the content of a key stands.
func (s *relaxedStore) extent(key string) core.Extent {
	o, err := s.meta.Object(ctx, s.bucket, key, core.Current)
	require.NoError(s.t, err)
	return o.Segments[0].Info.Extents[0]
}

// damageOneByOne starts over damage of each content in turn: every other content is there.
func (s *relaxedStore) damageOneByOne() {
	keys := []string{"large"}
	for i := range noteKeys {
		keys = append(keys, fmt.Sprint(i))
	}
	for _, damaged := range keys {
		a := s.powerCut()
		e := a.extent(damaged)
		blocks := &rotten{a.blocks, e.Block, e.Offset + e.Length - 100}
		waiting, err := batch.Pending(ctx, a.meta, blocks, discard())
		require.NoError(s.t, err)
		require.False(s.t, waiting.Ahead, "damage of %s counts as a power cut", damaged)
		a.begin(blocks)
		for _, key := range keys {
			_, err := read(a.meta, blocks, a.bucket, key)
			if key == damaged {
				require.Error(s.t, err, key)
				require.False(s.t, core.Is(err, core.NoSuchKey), "%s is gone", key)
			} else {
				require.NoError(s.t, err, "%s, with damage of %s", key, damaged)
			}
		}
		require.NoError(s.t, a.w.Close())
	}
}

// TestRelaxedDamageAfterStop: after a clean stop, damage of one content is no power cut. A start and a stop without a
// write add no note to that.
func TestRelaxedDamageAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := noteStore(t)
		require.NoError(t, s.w.Close())
		s.damageOneByOne()
		was := s.seq()
		for range 3 {
			s.begin(s.blocks)
			require.NoError(t, s.w.Close())
		}
		require.Equal(t, was, s.seq())
		a := s.powerCut()
		e := a.extent("large")
		require.NoError(t, a.blocks.Delete(ctx, e.Block)) // and the loss of its block is none either
		a.begin(a.blocks)
		_, err := read(a.meta, a.blocks, a.bucket, "0")
		require.NoError(t, err)
		require.NoError(t, a.w.Close())
	})
}

// TestRelaxedDamageWhenIdle: the same when writes have ceased, without a stop. It takes one note, and no note follows
// it.
func TestRelaxedDamageWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := noteStore(t)
		defer func() { require.NoError(t, s.w.Close()) }()
		was := s.seq()
		time.Sleep(2 * noteWindow)
		synctest.Wait()
		noted := s.seq()
		require.Equal(t, was+2, noted, "one note: a Synced and a Void")
		require.Zero(t, s.w.Lag().Oldest, "a note is no write that a power cut may take")
		time.Sleep(1000 * noteWindow)
		synctest.Wait()
		require.Equal(t, noted, s.seq())
		s.damageOneByOne()

		// What comes after the note is exposed to a power cut, as ever.
		_, err := s.w.Do(ctx, putting(s.w, s.bucket, "tail", random(200, 3000)))
		require.NoError(t, err)
		a := s.powerCut()
		a.begin(a.blocks)
		_, err = read(a.meta, a.blocks, a.bucket, "tail")
		require.True(t, core.Is(err, core.NoSuchKey), "%v", err)
		_, err = read(a.meta, a.blocks, a.bucket, "9")
		require.NoError(t, err)
		require.NoError(t, a.w.Close())
	})
}

// TestRelaxedDamageAfterKill: a start makes durable what a killed process has left, and notes it.
func TestRelaxedDamageAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		killed := noteStore(t)
		s := killed.powerCut()
		s.blocks = killed.blocks.PowerCut(func(_ core.BlockID, doubtful []byte) int { return len(doubtful) })
		was := s.seq()
		s.begin(s.blocks)
		require.Equal(t, was+2, s.seq())
		time.Sleep(2 * noteWindow)
		synctest.Wait()
		require.Equal(t, was+2, s.seq())
		s.damageOneByOne()
		require.NoError(t, s.w.Close())
		require.NoError(t, killed.w.Close())
	})
}

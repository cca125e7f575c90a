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

// rotten is a drive with one flipped bit in one block.
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
	noteKeys   = 10 // the number of keys with small content: 0 to 9
)

// noteStore returns a relaxed store with one large object, written first, and several small ones.
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

// begin is like open, but with a short window.
func (s *relaxedStore) begin(blocks core.Blocks) {
	var err error
	s.w, err = batch.Open(ctx, batch.Options{Meta: s.meta, Blocks: blocks, Relaxed: true, Window: noteWindow})
	require.NoError(s.t, err)
}

// powerCut returns a copy of the store after a power cut: it has the bytes that were synced, and all metadata.
func (s *relaxedStore) powerCut() *relaxedStore {
	rows, err := coretest.Rows(ctx, s.meta)
	require.NoError(s.t, err)
	after := &relaxedStore{t: s.t, meta: mem.NewMeta(), bucket: s.bucket}
	require.NoError(s.t, after.meta.Restore(ctx, coretest.NextOf(rows)))
	after.blocks = s.blocks.PowerCut(func(core.BlockID, []byte) int { return 0 })
	return after
}

// seq returns the last sequence of the metadata.
func (s *relaxedStore) seq() core.Seq {
	st, err := s.meta.State(ctx)
	require.NoError(s.t, err)
	return st.Seq
}

// extent returns the extent of the content of a key.
func (s *relaxedStore) extent(key string) core.Extent {
	o, err := s.meta.Object(ctx, s.bucket, key, core.Current)
	require.NoError(s.t, err)
	return o.Segments[0].Info.Extents[0]
}

// damageOneByOne damages the content of each key in turn and starts a writer: the content of every other key can still
// be read.
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
		require.False(s.t, waiting.Ahead, "damage to %s is treated as a power cut", damaged)
		a.begin(blocks)
		for _, key := range keys {
			_, err := read(a.meta, blocks, a.bucket, key)
			if key == damaged {
				require.Error(s.t, err, key)
				require.False(s.t, core.Is(err, core.NoSuchKey), "%s no longer exists", key)
			} else {
				require.NoError(s.t, err, "reading %s, with damage to %s", key, damaged)
			}
		}
		require.NoError(s.t, a.w.Close())
	}
}

// TestRelaxedDamageAfterStop checks that after a clean stop, damaged content is not treated as the effect of a power
// cut, and that starts and stops without a write add no more notes.
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
		require.NoError(t, a.blocks.Delete(ctx, e.Block)) // a lost block is not treated as a power cut either
		a.begin(a.blocks)
		_, err := read(a.meta, a.blocks, a.bucket, "0")
		require.NoError(t, err)
		require.NoError(t, a.w.Close())
	})
}

// TestRelaxedDamageWhenIdle checks the same for a running writer when writes have ceased. It writes one note, and no
// note after that.
func TestRelaxedDamageWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := noteStore(t)
		defer func() { require.NoError(t, s.w.Close()) }()
		was := s.seq()
		time.Sleep(2 * noteWindow)
		synctest.Wait()
		noted := s.seq()
		require.Equal(t, was+2, noted, "one note: a Synced and a Void")
		require.Zero(t, s.w.Lag().Oldest, "a note does not count as a write that a power cut may lose")
		time.Sleep(1000 * noteWindow)
		synctest.Wait()
		require.Equal(t, noted, s.seq())
		s.damageOneByOne()

		// A power cut may lose writes after the note, as usual.
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

// TestRelaxedDamageAfterKill checks that a start makes the writes of a killed process durable, and records that in a
// note.
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

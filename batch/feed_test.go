package batch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/feed"
)

// watchedMeta records the events of the changes that were applied. It does not use package feed to compute them.
type watchedMeta struct {
	core.Meta
	mu      sync.Mutex // guards the fields below
	applied []feed.Event
	failed  map[core.Seq]bool // changes that failed their check
	fails   func() bool       // reports whether the next Apply fails and writes nothing; nil: no Apply fails
}

func (m *watchedMeta) setFails(fails func() bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = fails
}

func (m *watchedMeta) Unwrap() core.Meta { return m.Meta }

func (m *watchedMeta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails != nil && m.fails() {
		return nil, core.E("test", core.NoSpace, errors.New("injected"))
	}
	results, err := m.Meta.Apply(ctx, changes)
	if err != nil {
		return nil, err
	}
	for i, c := range changes {
		switch {
		case results[i].Err != nil:
			for seq := core.FirstSeq(c); seq <= c.Stamp(); seq++ {
				m.failed[seq] = true
			}
		case !results[i].Skipped:
			m.applied = append(m.applied, expected(c)...)
		}
	}
	return results, nil
}

// all returns the events so far.
func (m *watchedMeta) all() []feed.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.applied)
}

func expected(c core.Change) []feed.Event {
	seq := c.Stamp()
	switch c := c.(type) {
	case *core.PutBucket:
		if c.Info.ID == 0 {
			return []feed.Event{{Seq: seq, Kind: feed.BucketCreated, Bucket: core.BucketID(seq), Key: c.Info.Name}}
		}
		return []feed.Event{{Seq: seq, Kind: feed.BucketUpdated, Bucket: c.Info.ID, Key: c.Info.Name}}
	case *core.PutObject:
		kind := feed.ObjectCreated
		if c.Source != nil {
			kind = feed.ObjectCopied
		}
		return []feed.Event{{Seq: seq, Kind: kind, Bucket: c.Object.Bucket, Key: c.Object.Key}}
	case *core.DeleteObject:
		return []feed.Event{{Seq: seq, Kind: feed.ObjectDeleted, Bucket: c.Bucket, Key: c.Key, Version: c.Version}}
	case *core.MoveObject:
		return []feed.Event{
			{Seq: seq - 1, Kind: feed.ObjectDeleted, Bucket: c.From.Bucket, Key: c.From.Key},
			{Seq: seq, Kind: feed.ObjectMoved, Bucket: c.Bucket, Key: c.Key},
		}
	case *core.PutRecord:
		return []feed.Event{{Seq: seq, Kind: feed.DocumentChanged, Bucket: 2, Key: c.Record.Key}}
	}
	return nil
}

// watcher is a store whose process can be killed and restarted.
type watcher struct {
	t      *testing.T
	rand   *rand.Rand
	o      batch.Options
	blocks *mem.Blocks
	faults *coretest.FaultyBlocks
	meta   *watchedMeta
	w      *batch.Writer
	bucket core.BucketID
}

func newWatcher(t *testing.T, seed uint64, o batch.Options) *watcher {
	s := &watcher{t: t, rand: rand.New(rand.NewPCG(seed, 1)), o: o, blocks: mem.NewBlocks()}
	s.meta = &watchedMeta{Meta: mem.NewMeta(), failed: map[core.Seq]bool{}}
	s.start()
	res, err := s.w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b"}}})
	require.NoError(t, err)
	s.bucket = core.BucketID(res.Seq)
	return s
}

// start opens a writer on the current blocks and metadata.
func (s *watcher) start() {
	s.faults = coretest.NewFaultyBlocks(s.blocks)
	o := s.o
	o.Meta, o.Blocks = s.meta, s.faults
	w, err := batch.Open(ctx, o)
	require.NoError(s.t, err)
	s.w = w
	s.t.Cleanup(func() { w.Close() })
}

// kill kills the process and restarts it. The metadata is preserved.
func (s *watcher) kill() {
	s.w.Refuse(core.E("test", core.Unavailable, errors.New("killed")))
	s.blocks = s.blocks.Crash()
	s.start()
}

// powerCut loses all metadata and all content that was not synced, and restarts the process.
func (s *watcher) powerCut() {
	s.meta = &watchedMeta{Meta: mem.NewMeta(), failed: map[core.Seq]bool{}}
	s.kill()
}

// write makes n random changes from several goroutines; some fail their check.
func (s *watcher) write(n int) {
	var wg sync.WaitGroup
	for range n {
		write := s.random()
		wg.Go(func() { _, _ = s.w.Do(ctx, write) }) // watchedMeta records the result
		if s.rand.IntN(4) == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
}

func (s *watcher) random() batch.Write {
	key := func() string { return fmt.Sprint("key", s.rand.IntN(12)) }
	put := putting(s.w, s.bucket, key(), random(s.rand.Uint64(), s.rand.IntN(200)))
	switch s.rand.IntN(8) {
	case 0:
		return batch.Write{Change: &core.DeleteObject{Bucket: s.bucket, Key: key()}}
	case 1:
		put.Change.(*core.PutObject).If.NoneMatch = []string{"*"}
	case 2:
		from := key()
		if o, err := s.meta.Object(ctx, s.bucket, from, core.Current); err == nil && !o.Marker {
			source := core.Source{Bucket: s.bucket, Key: from, Seq: o.Seq}
			return batch.Write{Change: &core.MoveObject{From: source, Bucket: s.bucket, Key: key()}}
		}
	case 3:
		return batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{ID: s.bucket, Name: "b", Owner: key()}}}
	case 4:
		record := core.Record{Kind: core.BucketRecordKind(s.bucket), Key: key(), Value: []byte("x")}
		return batch.Write{Change: &core.PutRecord{Record: record, HasExpect: s.rand.IntN(2) == 0, Expect: []byte("y")}}
	}
	return put
}

// mark makes a change that cannot fail, and returns its sequence: a subscriber that has its event has all events before
// it.
func (s *watcher) mark() core.Seq {
	res, err := s.w.Do(ctx, putting(s.w, s.bucket, "mark", nil))
	require.NoError(s.t, err)
	require.NoError(s.t, s.w.Flush(ctx))
	return res.Seq
}

// readTo returns the events that a subscriber gets up to a sequence. It reads them in chunks of random size.
func (s *watcher) readTo(sub *feed.Subscription, to core.Seq) (got []feed.Event) {
	for {
		events := make([]feed.Event, 1+s.rand.IntN(5))
		n, err := sub.Next(ctx, events)
		require.NoError(s.t, err)
		require.NotZero(s.t, n)
		got = append(got, events[:n]...)
		if at := got[len(got)-1].Seq; at >= to {
			require.Equal(s.t, to, at)
			return got
		}
	}
}

// bare returns events without the fields that depend on how they were read, and without the events of changes that
// failed their check, which only a replay may deliver.
func (s *watcher) bare(events []feed.Event) (list []feed.Event) {
	for _, e := range events {
		if s.meta.failed[e.Seq] {
			require.True(s.t, e.Replayed, "change %d failed, but its event was delivered", e.Seq)
			continue
		}
		list = append(list, feed.Event{
			Seq: e.Seq, Kind: e.Kind, Bucket: e.Bucket, Key: e.Key, Version: e.Version, Upload: e.Upload, Data: e.Data,
		})
	}
	return list
}

// TestFeedDeliversAppliedChanges makes random changes; some changes fail, and some whole batches. One subscriber keeps
// up, another one falls behind the buffer, and others subscribe at the end, from random positions.
func TestFeedDeliversAppliedChanges(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			s := newWatcher(t, seed, batch.Options{FeedBuffer: 32, Relaxed: seed%3 == 2})
			along, behind := s.w.Feed().Subscribe(feed.Position{}), s.w.Feed().Subscribe(feed.Position{})
			var got []feed.Event
			var positions []feed.Position
			r := rand.New(rand.NewPCG(seed, 2)) // used only by the applier
			for range 6 {
				s.meta.setFails(nil)
				s.faults.Fail(coretest.Fault{})
				got = append(got, s.readTo(along, s.mark())...)
				positions = append(positions, along.Position(), got[s.rand.IntN(len(got))].Position())
				s.meta.setFails(func() bool { return r.IntN(15) == 0 })
				s.faults.Fail(coretest.Fault{Call: "Commit", Nth: 3 + s.rand.IntN(20), Done: s.rand.IntN(2) == 0, Kind: core.NoSpace})
				s.write(40)
			}
			s.meta.setFails(nil)
			s.faults.Fail(coretest.Fault{})
			end := s.mark()
			want := s.meta.all()
			require.NotEmpty(t, s.meta.failed)
			require.Equal(t, want, s.bare(append(got, s.readTo(along, end)...)))
			require.Equal(t, want, s.bare(s.readTo(behind, end)))
			for _, p := range positions {
				after := slices.DeleteFunc(slices.Clone(want), func(e feed.Event) bool { return e.Seq <= p.Seq })
				require.Equal(t, after, s.bare(s.readTo(s.w.Feed().Subscribe(p), end)), "after %d", p.Seq)
			}
		})
	}
}

// TestFeedAcrossRestarts kills the process repeatedly. A subscriber that stores its position together with the events
// misses no event and gets none twice.
func TestFeedAcrossRestarts(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprint("relaxed ", relaxed), func(t *testing.T) {
			s := newWatcher(t, 7, batch.Options{FeedBuffer: 16, Relaxed: relaxed})
			var got []feed.Event
			var kept feed.Position
			for range 8 {
				sub := s.w.Feed().Subscribe(kept)
				s.write(10)
				got = append(got, s.readTo(sub, s.mark())...)
				kept = sub.Position()
				s.write(20) // the subscriber does not read these before the kill
				require.NoError(t, s.w.Flush(ctx))
				s.kill()
			}
			end := s.mark()
			got = append(got, s.readTo(s.w.Feed().Subscribe(kept), end)...)
			require.Equal(t, s.meta.all(), s.bare(got))
		})
	}
}

// TestFeedAfterReplay checks that a subscriber gets changes that were committed before a crash but are applied only by
// the next start.
func TestFeedAfterReplay(t *testing.T) {
	s := newWatcher(t, 3, batch.Options{})
	kept := s.w.Feed().Latest()
	s.write(20)
	s.mark()
	want := slices.DeleteFunc(s.meta.all(), func(e feed.Event) bool { return e.Seq <= kept.Seq })
	failed := s.meta.failed
	s.powerCut() // loses all metadata
	s.meta.failed = failed
	got := s.readTo(s.w.Feed().Subscribe(kept), want[len(want)-1].Seq)
	require.Equal(t, want, s.bare(got))
	require.True(t, got[0].Replayed)
}

// tooOld checks that a subscriber at a position gets ErrTooOld, so that it reads the metadata again.
func (s *watcher) tooOld(after feed.Position) {
	s.t.Helper()
	sub := s.w.Feed().Subscribe(after)
	defer sub.Close()
	_, err := sub.Next(ctx, make([]feed.Event, 1))
	require.ErrorIs(s.t, err, feed.ErrTooOld)
	require.True(s.t, core.Is(err, core.Conflict), "%v", err)
}

func TestFeedTooOld(t *testing.T) {
	s := newWatcher(t, 4, batch.Options{Alone: true, FeedBuffer: 4})
	slow := s.w.Feed().Subscribe(s.w.Feed().Latest())
	first := s.w.Feed().Latest()
	s.mark()
	middle := s.w.Feed().Latest()
	for range 6 {
		s.mark()
	}
	end := s.mark()
	latest := s.w.Feed().Latest()
	require.Len(t, s.readTo(s.w.Feed().Subscribe(first), end), 8)

	t.Run("another history", func(t *testing.T) { // such as a copy restored from a backup
		s.tooOld(feed.Position{Seq: latest.Seq + 1, Block: latest.Block})
		s.tooOld(feed.Position{Seq: latest.Seq, Block: middle.Block})
		s.tooOld(feed.Position{Seq: middle.Seq, Block: core.MakeBlockID(middle.Block.Store(), middle.Block.Generation()+4096, 1)})
		s.tooOld(feed.Position{Seq: middle.Seq})
	})
	t.Run("deleted records", func(t *testing.T) {
		require.NoError(t, s.blocks.Delete(ctx, middle.Block))
		s.tooOld(first)
		s.tooOld(middle) // its own record is deleted, so nothing shows that it belongs to this history
		s.tooOld(feed.Position{})
		_, err := slow.Next(ctx, make([]feed.Event, 1))
		require.ErrorIs(t, err, feed.ErrTooOld, "it fell behind the buffer, and the records are deleted")
	})
	fresh := s.w.Feed().Subscribe(s.w.Feed().Latest())
	end = s.mark()
	require.Len(t, s.readTo(fresh, end), 1, "a new subscriber gets later changes")
}

// TestFeedRelaxed checks that with relaxed durability a change is delivered only after the sync, that changes lost in a
// power cut are not delivered, and that a subscriber can resume at its position.
func TestFeedRelaxed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatcher(t, 5, batch.Options{Relaxed: true, Window: time.Hour})
		s.mark()
		start := s.w.Feed().Latest()
		sub := s.w.Feed().Subscribe(start)
		res, err := s.w.Do(ctx, putting(s.w, s.bucket, "k", []byte("content")))
		require.NoError(t, err)
		got := make(chan feed.Event)
		go func() {
			events := make([]feed.Event, 1)
			_, err := sub.Next(ctx, events)
			if err == nil {
				got <- events[0]
			}
			close(got)
		}()
		synctest.Wait()
		select {
		case e := <-got:
			t.Fatal("delivered before it was durable: ", e)
		default:
		}
		require.Equal(t, start, s.w.Feed().Latest())
		require.NoError(t, s.w.Flush(ctx))
		e := <-got
		require.Equal(t, res.Seq, e.Seq)

		durable := s.w.Feed().Latest()
		_, err = s.w.Do(ctx, putting(s.w, s.bucket, "lost", []byte("content")))
		require.NoError(t, err)
		blocks := s.blocks.PowerCut(func(_ core.BlockID, doubtful []byte) int { return len(doubtful) / 2 })
		require.NoError(t, s.w.Close())
		s.blocks, s.meta = blocks, &watchedMeta{Meta: mem.NewMeta(), failed: map[core.Seq]bool{}}
		s.start()
		_, err = s.meta.Object(ctx, s.bucket, "lost", core.Current)
		require.True(t, core.Is(err, core.NoSuchKey), "%v", err)
		end := s.mark()
		for _, after := range []feed.Position{start, durable} {
			got := s.readTo(s.w.Feed().Subscribe(after), end)
			require.False(t, slices.ContainsFunc(got, func(e feed.Event) bool { return e.Key == "lost" }))
			require.Equal(t, after == start, got[0].Key == "k")
		}
		require.NoError(t, s.w.Close())
	})
}

// TestFeedEnds checks that a waiting subscriber gets an error when the writer is closed, and when its context ends.
func TestFeedEnds(t *testing.T) {
	s := newWatcher(t, 6, batch.Options{})
	sub := s.w.Feed().Subscribe(s.w.Feed().Latest())
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := sub.Next(canceled, make([]feed.Event, 1))
	require.True(t, core.Is(err, core.Canceled), "%v", err)
	ended := make(chan error)
	go func() {
		_, err := sub.Next(ctx, make([]feed.Event, 1))
		ended <- err
	}()
	require.NoError(t, s.w.Close())
	require.True(t, core.Is(<-ended, core.Unavailable))
}

// TestFeedWithoutSubscribers checks that no events are created if there are no subscribers.
func TestFeedWithoutSubscribers(t *testing.T) {
	f := feed.New(feed.Options{})
	changes, results := applied()
	require.Zero(t, testing.AllocsPerRun(100, func() { f.Applied(changes, results, feed.Position{Seq: 1}) }))
	sub := f.Subscribe(f.Latest())
	require.NotZero(t, testing.AllocsPerRun(100, func() { f.Applied(changes, results, feed.Position{Seq: 1}) }), "a subscriber causes allocations")
	sub.Close()
	require.Zero(t, testing.AllocsPerRun(100, func() { f.Applied(changes, results, feed.Position{Seq: 1}) }))
}

func applied() ([]core.Change, []core.Result) {
	changes, results := make([]core.Change, 100), make([]core.Result, 100)
	for i := range changes {
		seq := core.Seq(i + 1)
		changes[i] = &core.PutObject{Stamped: core.Stamped{Seq: seq}, Object: core.ObjectInfo{Bucket: 1, Key: fmt.Sprint("key", i)}}
		results[i] = core.Result{Seq: seq}
	}
	return changes, results
}

// BenchmarkFeed measures the cost of a batch of 100 changes for the writer, with and without subscribers.
func BenchmarkFeed(b *testing.B) {
	changes, results := applied()
	for _, subscribers := range []int{0, 1, 10} {
		b.Run(fmt.Sprint(subscribers), func(b *testing.B) {
			f := feed.New(feed.Options{})
			for range subscribers {
				f.Subscribe(f.Latest())
			}
			b.ReportAllocs()
			for range b.N {
				f.Applied(changes, results, feed.Position{Seq: 100})
			}
		})
	}
}

package batch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/core/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// brokenMeta is a Meta whose Apply can be made to fail or to wait.
type brokenMeta struct {
	core.Meta
	mu      sync.Mutex
	err     error         // the next Apply returns it and writes nothing
	gate    chan struct{} // if it is set, Apply waits until it is closed
	applies int
	changes int
}

func (m *brokenMeta) Unwrap() core.Meta { return m.Meta }

func (m *brokenMeta) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	if m.gate != nil {
		<-m.gate
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applies++
	m.changes += len(changes)
	if err := m.err; err != nil {
		m.err = nil
		return nil, err
	}
	return m.Meta.Apply(ctx, changes)
}

func (m *brokenMeta) failNext(kind core.Kind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = core.E("test", kind, errors.New("injected"))
}

type store struct {
	t      *testing.T
	mem    *mem.Blocks
	counts *coretest.CountingBlocks
	faults *coretest.FaultyBlocks
	meta   *brokenMeta
	w      *batch.Writer
	bucket core.BucketID
}

func newStore(t *testing.T, o batch.Options) *store {
	s := &store{t: t, mem: mem.NewBlocks(), meta: &brokenMeta{Meta: mem.NewMeta()}}
	s.faults = coretest.NewFaultyBlocks(s.mem)
	s.counts = coretest.NewCountingBlocks(s.faults)
	o.Meta, o.Blocks = s.meta, s.counts
	var err error
	s.w, err = batch.Open(ctx, o)
	require.NoError(t, err)
	t.Cleanup(func() { s.w.Close() })
	res, err := s.w.Do(ctx, batch.Write{Change: &core.PutBucket{Info: core.BucketInfo{Name: "b", Created: time.UnixMilli(1)}}})
	require.NoError(t, err)
	s.bucket = core.BucketID(res.Seq)
	return s
}

// putting returns a write that puts an object.
func putting(w *batch.Writer, bucket core.BucketID, key string, content []byte) batch.Write {
	o := core.ObjectInfo{Bucket: bucket, Key: key, Modified: time.UnixMilli(5).UTC(), Size: int64(len(content)), ETag: fmt.Sprintf("%032x", len(content))}
	c := &core.PutObject{Object: o}
	if len(content) == 0 {
		return batch.Write{Change: c}
	}
	info := &core.DataInfo{ID: w.NewData(), Size: int64(len(content))}
	c.Object.Segments = []core.Segment{{Data: info.ID, Length: info.Size, Info: info}}
	return batch.Write{Change: c, Info: info, Content: content}
}

func (s *store) put(key string, content []byte) error {
	_, err := s.w.Do(ctx, putting(s.w, s.bucket, key, content))
	return err
}

// read returns the content of a key, and verifies every frame.
func read(meta core.Meta, blocks core.Blocks, bucket core.BucketID, key string) ([]byte, error) {
	o, err := meta.Object(ctx, bucket, key, core.Current)
	if err != nil {
		return nil, err
	}
	var content []byte
	for _, seg := range o.Segments {
		for _, e := range seg.Info.Extents {
			r, err := blocks.Open(ctx, e)
			if err != nil {
				return nil, err
			}
			defer r.Close()
			raw := make([]byte, e.Length)
			if _, err := r.ReadAt(raw, 0); err != nil {
				return nil, err
			}
			for at := int64(0); at < e.Length; {
				h, err := frame.Decode(raw[at:], e.Block, e.Offset+at)
				if err != nil {
					return nil, err
				}
				payload := raw[at+int64(h.Size()) : h.End()-e.Offset]
				if err := h.Verify(payload); err != nil {
					return nil, err
				}
				content = append(content, payload...)
				at = h.End() - e.Offset
			}
		}
	}
	return content, nil
}

func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

func TestSingleWriteCostsOneCallOfEach(t *testing.T) {
	s := newStore(t, batch.Options{})
	s.counts.Reset()
	s.meta.applies = 0
	require.NoError(t, s.put("k", random(1, 4096)))
	n := s.counts.Counts()
	require.Equal(t, []int{1, 1, 1, 1}, []int{n.Creates, n.Writes, n.Commits, s.meta.applies})
}

func TestConcurrentWritesShareCommits(t *testing.T) {
	s := newStore(t, batch.Options{})
	s.counts.Reset()
	s.meta.applies, s.meta.gate = 0, make(chan struct{})
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			require.NoError(t, s.put(fmt.Sprint(i), random(uint64(i), 4096)))
		}()
	}
	close(s.meta.gate)
	wg.Wait()
	require.LessOrEqual(t, s.counts.Counts().Commits, 100) // the number depends on the scheduler; the next test has an exact bound
	for i := range 500 {
		got, err := read(s.meta, s.mem, s.bucket, fmt.Sprint(i))
		require.NoError(t, err)
		require.Equal(t, random(uint64(i), 4096), got)
	}
}

func TestWritesQueuedDuringApplyAreOneBatch(t *testing.T) {
	s := newStore(t, batch.Options{})
	gate := make(chan struct{})
	s.meta.gate = gate
	var wg sync.WaitGroup
	start := func(key string) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			require.NoError(t, s.put(key, random(3, 100)))
		}()
	}
	commits := func() int { return s.counts.Counts().Commits }
	s.counts.Reset()
	start("a") // its Apply is running
	require.Eventually(t, func() bool { return commits() == 1 }, 10*time.Second, time.Millisecond)
	start("b") // it is durable and waits for the applier
	require.Eventually(t, func() bool { return commits() == 2 }, 10*time.Second, time.Millisecond)
	writes := make([]batch.Write, 500)
	for i := range writes {
		writes[i] = putting(s.w, s.bucket, fmt.Sprint(i), random(uint64(i), 1000))
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		_, errs := s.w.DoAll(ctx, writes)
		for _, err := range errs {
			require.NoError(t, err)
		}
	}()
	close(gate)
	wg.Wait()
	require.Equal(t, 3, commits())
}

func TestBatchLimits(t *testing.T) {
	for _, c := range []struct {
		o       batch.Options
		commits int
	}{{batch.Options{Count: 10}, 10}, {batch.Options{Bytes: 10 * 1080}, 10}, {batch.Options{Alone: true}, 100}} {
		s := newStore(t, c.o)
		s.counts.Reset()
		writes := make([]batch.Write, 100)
		for i := range writes {
			writes[i] = putting(s.w, s.bucket, fmt.Sprint(i), random(1, 1000))
		}
		_, errs := s.w.DoAll(ctx, writes)
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, c.commits, s.counts.Counts().Commits)
		require.Equal(t, c.commits, s.counts.Counts().Creates)
	}
}

func TestEachWaiterGetsItsOwnResult(t *testing.T) {
	s := newStore(t, batch.Options{})
	require.NoError(t, s.put("existing", []byte("x")))
	w1 := putting(s.w, s.bucket, "existing", []byte("new"))
	w1.Change.(*core.PutObject).If.NoneMatch = []string{"*"}
	w2 := putting(s.w, s.bucket, "other", []byte("y"))
	w3 := putting(s.w, s.bucket, "other", []byte("z"))
	w3.Change.(*core.PutObject).If.NoneMatch = []string{"*"}
	w4 := putting(s.w, s.bucket+1000, "k", []byte("z"))
	_, errs := s.w.DoAll(ctx, []batch.Write{w1, w2, w3, w4})
	require.Equal(t, core.PreconditionFailed, core.KindOf(errs[0]))
	require.NoError(t, errs[1])
	require.Equal(t, core.PreconditionFailed, core.KindOf(errs[2]))
	require.Equal(t, core.NoSuchBucket, core.KindOf(errs[3]))
	got, err := read(s.meta, s.mem, s.bucket, "existing")
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
}

// TestFailuresFailTheirBatchOnly makes each driver call of a batch fail, before and after it has taken effect. The
// write returns the error, the next one succeeds, and a recovery of empty metadata results in the acknowledged state:
// it does not apply the failed write, because a later record voids it.
func TestFailuresFailTheirBatchOnly(t *testing.T) {
	for _, call := range []string{"Create", "Write", "Commit"} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", call, done), func(t *testing.T) {
				s := newStore(t, batch.Options{})
				require.NoError(t, s.put("before", []byte("1")))
				s.faults.Fail(coretest.Fault{Call: call, Nth: 1, Done: done, Kind: core.NoSpace})
				require.Equal(t, core.NoSpace, core.KindOf(s.put("lost", []byte("2"))))
				require.NoError(t, s.put("after", []byte("3")))
				s.rebuildEquals()
			})
		}
	}
}

func TestApplyThatWroteNothingIsVoided(t *testing.T) {
	s := newStore(t, batch.Options{})
	s.meta.failNext(core.NoSpace)
	require.Equal(t, core.NoSpace, core.KindOf(s.put("lost", []byte("2"))))
	require.NoError(t, s.put("after", []byte("3")))
	s.rebuildEquals()
	_, err := s.meta.Object(ctx, s.bucket, "lost", core.Current)
	require.Equal(t, core.NoSuchKey, core.KindOf(err))
}

// TestABatchBehindAFailureFailsWithIt checks that when a batch fails in Apply, the next batch, which was laid out in
// the meantime, fails too, since its record cannot void the first. At all times, a replay up to the sequence of the
// metadata reproduces the metadata.
func TestABatchBehindAFailureFailsWithIt(t *testing.T) {
	s := newStore(t, batch.Options{})
	require.NoError(t, s.put("k", []byte("0")))
	replays := func() {
		st, err := s.meta.State(ctx)
		require.NoError(t, err)
		cut := &cutBlocks{s.mem, map[core.BlockID]int64{}}
		require.NoError(t, s.mem.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
			cut.ends[b.ID], _, err = batch.Cut(ctx, s.mem, b, st)
			return err
		}))
		fresh := mem.NewMeta()
		_, err = batch.Recover(ctx, fresh, cut, discard())
		require.NoError(t, err)
		want, err := coretest.ReadMeta(ctx, s.meta)
		require.NoError(t, err)
		got, err := coretest.ReadMeta(ctx, fresh)
		require.NoError(t, err)
		require.Equal(t, want.Comparable(), got.Comparable())
	}
	for i := range 10 {
		gate := make(chan struct{})
		s.meta.gate = gate
		s.meta.failNext(core.NoSpace)
		var writes sync.WaitGroup
		errs := make([]error, 2)
		for j := range errs {
			before := s.counts.Counts().Commits
			writes.Go(func() { errs[j] = s.put("k", fmt.Appendf(nil, "%d %d", i, j)) })
			for s.counts.Counts().Commits == before {
				runtime.Gosched()
			}
		}
		close(gate)
		writes.Wait()
		s.meta.gate = nil
		require.Equal(t, core.NoSpace, core.KindOf(errs[0]))
		require.Equal(t, core.NoSpace, core.KindOf(errs[1]))
		replays()
		require.NoError(t, s.put("k", fmt.Append(nil, i)))
		replays()
	}
	require.NoError(t, s.put("after", []byte("3")))
	s.rebuildEquals()
	replays()
}

func TestUnknownResultOfApplyStopsTheWriter(t *testing.T) {
	s := newStore(t, batch.Options{})
	s.meta.failNext(core.Unavailable)
	require.Equal(t, core.Unavailable, core.KindOf(s.put("unknown", []byte("2"))))
	require.Equal(t, core.Unavailable, core.KindOf(s.put("after", []byte("3"))))
}

// rebuildEquals checks that a recovery of empty metadata, from the blocks after a power cut, reproduces the metadata,
// and that a second recovery applies nothing.
func (s *store) rebuildEquals() {
	s.t.Helper()
	want, err := coretest.ReadMeta(ctx, s.meta)
	require.NoError(s.t, err)
	fresh := mem.NewMeta()
	r, err := batch.Recover(ctx, fresh, s.mem.Crash(), discard())
	require.NoError(s.t, err)
	got, err := coretest.ReadMeta(ctx, fresh)
	require.NoError(s.t, err)
	got.Check(s.t)
	want.State, got.State = core.State{}, core.State{} // sequences of voided changes differ
	require.Equal(s.t, want.Comparable(), got.Comparable())
	again, err := batch.Recover(ctx, fresh, s.mem.Crash(), discard())
	require.NoError(s.t, err)
	require.Zero(s.t, again.Applied)
	require.Equal(s.t, r.Seq, again.Seq)
}

func TestCanceledBeforeDo(t *testing.T) {
	s := newStore(t, batch.Options{})
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	_, err := s.w.Do(canceled, putting(s.w, s.bucket, "k", []byte("x")))
	require.Equal(t, core.Canceled, core.KindOf(err))
}

func TestQueueLimit(t *testing.T) {
	s := newStore(t, batch.Options{Pending: 4})
	gate := make(chan struct{})
	s.meta.gate = gate
	var wg sync.WaitGroup
	var mu sync.Mutex
	kinds := map[core.Kind]int{}
	for i := range 50 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := s.put(fmt.Sprint(i), []byte("x")); err != nil {
				mu.Lock()
				kinds[core.KindOf(err)]++
				mu.Unlock()
			}
		}()
	}
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return kinds[core.Overloaded] > 0 }, 10*time.Second, time.Millisecond)
	close(gate)
	wg.Wait()
	require.Len(t, kinds, 1)
}

func TestCloseFinishesWaitingWrites(t *testing.T) {
	s := newStore(t, batch.Options{})
	gate := make(chan struct{})
	s.meta.gate = gate
	errs := make(chan error, 20)
	for i := range 20 {
		go func() { errs <- s.put(fmt.Sprint(i), []byte("x")) }()
	}
	go close(gate)
	require.NoError(t, s.w.Close())
	for range 20 { // each write either succeeds or is refused
		if err := <-errs; err != nil {
			require.Equal(t, core.Unavailable, core.KindOf(err))
		}
	}
	require.Equal(t, core.Unavailable, core.KindOf(s.put("late", nil)))
}

// TestEncodedFramesAreStoredUnchanged writes small content as frames that are already encoded.
func TestEncodedFramesAreStoredUnchanged(t *testing.T) {
	s := newStore(t, batch.Options{})
	for name, lengths := range map[string][]int{"one frame": {100}, "several frames": {frame.MaxPlain, frame.MaxPlain, 5}} {
		info := &core.DataInfo{ID: s.w.NewData(), Codec: frame.Zstd}
		var frames []byte
		var payloads [][]byte
		for i, n := range lengths {
			payload := random(uint64(i), n/2)
			h := frame.Header{Type: frame.Data, Codec: frame.Zstd, Offset: int64(len(frames)), ID: uint64(info.ID), Index: uint32(i), Plain: uint32(n), Last: i == len(lengths)-1}
			at := len(frames)
			frames = append(append(frames, make([]byte, frame.HeaderSize)...), payload...)
			frame.Encode(frames[at:], &h, payload)
			info.Size += int64(n)
			payloads = append(payloads, payload)
		}
		write := batch.Write{Info: info, Frames: frames, Change: &core.PutObject{Object: core.ObjectInfo{Bucket: s.bucket, Key: name, Size: info.Size, ETag: "x",
			Modified: time.UnixMilli(1), Segments: []core.Segment{{Data: info.ID, Length: info.Size, Info: info}}}}}
		_, err := s.w.Do(ctx, write)
		require.NoError(t, err)
		require.Len(t, info.Extents, 1)
		e := info.Extents[0]
		require.EqualValues(t, len(frames), e.Length)
		r, err := s.mem.Open(ctx, e)
		require.NoError(t, err)
		raw := make([]byte, e.Length)
		_, err = r.ReadAt(raw, 0)
		require.NoError(t, err)
		require.NoError(t, r.Close())
		at := int64(0)
		for i, payload := range payloads {
			h, err := frame.Decode(raw[at:], e.Block, e.Offset+at)
			require.NoError(t, err)
			require.Equal(t, frame.Header{Type: frame.Data, Codec: frame.Zstd, Block: e.Block, Offset: e.Offset + at, ID: uint64(info.ID), Index: uint32(i),
				Plain: uint32(lengths[i]), Stored: uint32(len(payload)), Last: i == len(payloads)-1, Sum: h.Sum}, h)
			require.NoError(t, h.Verify(payload))
			require.Equal(t, payload, raw[at+frame.HeaderSize:h.End()-e.Offset])
			at = h.End() - e.Offset
		}
		require.Equal(t, e.Length, at)
	}
	info := &core.DataInfo{ID: s.w.NewData(), Size: 5}
	_, err := s.w.Do(ctx, batch.Write{Info: info, Frames: []byte("no frames"), Change: &core.PutObject{Object: core.ObjectInfo{Bucket: s.bucket, Key: "none"}}})
	require.Equal(t, core.Internal, core.KindOf(err))
}

// TestDrop checks that dropped content is deleted by the time Close returns.
func TestDrop(t *testing.T) {
	s := newStore(t, batch.Options{})
	larges := func() (n int) {
		require.NoError(t, s.mem.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
			if b.Kind == core.Large {
				n++
			}
			return nil
		}))
		return n
	}
	var all []*batch.Large
	for range 40 {
		l, err := s.w.NewLarge(ctx, 10, 0, nil)
		require.NoError(t, err)
		require.NoError(t, l.Write(make([]byte, frame.HeaderSize+10)))
		all = append(all, l)
	}
	require.Equal(t, 40, larges())
	for _, l := range all {
		l.Drop()
	}
	require.NoError(t, s.w.Close())
	require.Zero(t, larges())
}

func TestLargeRoundTrip(t *testing.T) {
	s := newStore(t, batch.Options{})
	for _, size := range []int64{-frame.MaxPlain, frame.MaxPlain - 1, frame.MaxPlain * 3 / 2, core.MaxChunkSize + frame.MaxPlain} {
		_, err := s.w.NewLarge(ctx, 10, size, nil)
		require.True(t, core.Is(err, core.InvalidArgument), "chunks of %d bytes: %v", size, err)
	}
	for _, size := range []int{1, frame.MaxPlain - 1, frame.MaxPlain, frame.MaxPlain + 1, 5<<20 + 7, 8 << 20} {
		content := random(uint64(size), size)
		l, err := s.w.NewLarge(ctx, int64(size), 0, nil)
		require.NoError(t, err)
		b := batch.NewBuffer(frame.MaxPlain)
		for rest := content; len(rest) > 0; {
			n := copy(b.Content(), rest)
			require.NoError(t, l.Write(b.B[:frame.HeaderSize+n]))
			rest = rest[n:]
		}
		b.Release()
		info, err := l.Commit(ctx)
		require.NoError(t, err)
		require.Len(t, info.Extents, (size+core.DefaultChunkSize-1)/core.DefaultChunkSize)
		c := &core.PutObject{Object: core.ObjectInfo{Bucket: s.bucket, Key: "large", Size: info.Size, ETag: "x", Modified: time.UnixMilli(1),
			Segments: []core.Segment{{Data: info.ID, Length: info.Size, Info: info}}}}
		_, err = s.w.Do(ctx, batch.Write{Change: c})
		require.NoError(t, err)
		got, err := read(s.meta, s.mem, s.bucket, "large")
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, got))
	}
	l, err := s.w.NewLarge(ctx, 10, 0, nil)
	require.NoError(t, err)
	_, err = l.Commit(ctx)
	require.Equal(t, core.Incomplete, core.KindOf(err))
	l.Abort()
}

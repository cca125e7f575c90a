package cached_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/cached"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
	"orcas/internal/checksum"
)

var ctx = context.Background()

func open(t testing.TB, engine core.Meta) *cached.Meta {
	m, err := cached.New(engine, cached.Options{})
	require.NoError(t, err)
	return m
}

func TestMeta(t *testing.T) {
	coretest.Meta(t, func(t *testing.T) core.Meta { return open(t, mem.NewMeta()) })
}

// TestMetaTiny runs the suite with so few entries that they are evicted all the time.
func TestMetaTiny(t *testing.T) {
	coretest.Meta(t, func(t *testing.T) core.Meta {
		m, err := cached.New(mem.NewMeta(), cached.Options{Objects: 1, Buckets: 1})
		require.NoError(t, err)
		return m
	})
}

func TestMetaModel(t *testing.T) {
	coretest.MetaModel(t, func(t *testing.T) core.Meta { return open(t, mem.NewMeta()) })
}

// store is a cache under test, with a bucket.
type store struct {
	t   testing.TB
	m   core.Meta
	b   *core.BucketInfo
	seq core.Seq
}

func newStore(t testing.TB, m core.Meta) *store {
	s := &store{t: t, m: m}
	s.apply(&core.PutBucket{Info: core.BucketInfo{Name: "b"}})
	var err error
	s.b, err = m.Bucket(ctx, "b")
	require.NoError(t, err)
	return s
}

func (s *store) stamp(changes ...core.Change) []core.Change {
	for _, c := range changes {
		s.seq++
		c.SetStamp(s.seq)
	}
	return changes
}

func (s *store) apply(changes ...core.Change) {
	results, err := s.m.Apply(ctx, s.stamp(changes...))
	require.NoError(s.t, err)
	for _, r := range results {
		require.NoError(s.t, r.Err)
	}
}

func (s *store) put(key string) core.Change {
	return &core.PutObject{Object: core.ObjectInfo{Bucket: s.b.ID, Key: key, ETag: "etag", Modified: time.UnixMilli(1)}}
}

func (s *store) get(key string) *core.ObjectInfo {
	o, err := s.m.Object(ctx, s.b.ID, key, core.Current)
	require.NoError(s.t, err)
	return o
}

func TestHitsCostNoCall(t *testing.T) {
	engine := coretest.NewCountingMeta(mem.NewMeta())
	cache := open(t, engine)
	s := newStore(t, cache)
	s.apply(s.put("k"), s.put("l"))
	s.get("k")
	before := cache.Caches()
	engine.Reset()
	for range 100 {
		require.Equal(t, "k", s.get("k").Key)
		_, err := s.m.Bucket(ctx, "b")
		require.NoError(t, err)
	}
	require.Zero(t, engine.Counts())
	for i, now := range cache.Caches() {
		require.Equal(t, before[i].Hits+100, now.Hits, now.Name)
		require.Equal(t, before[i].Misses, now.Misses, now.Name)
		require.Greater(t, now.Bytes, int64(100), now.Name)
	}
	s.get("l")
	require.Equal(t, before[0].Misses+1, cache.Caches()[0].Misses)
	require.Equal(t, coretest.MetaCounts{Object: 1}, engine.Counts())
	_, err := s.m.Object(ctx, s.b.ID, "k", core.Null) // lookups of specific versions are not cached
	require.NoError(t, err)
	require.Equal(t, coretest.MetaCounts{Object: 2}, engine.Counts())
	for range 2 { // missing keys and buckets are not cached
		_, err = s.m.Object(ctx, s.b.ID, "none", core.Current)
		require.True(t, core.Is(err, core.NoSuchKey))
		_, err = s.m.Bucket(ctx, "none")
		require.True(t, core.Is(err, core.NoSuchBucket))
	}
	require.Equal(t, coretest.MetaCounts{Object: 4, Bucket: 2}, engine.Counts())
}

// TestWritesDropOnlyTheirEntries checks that a write drops the entries that it affects and no others.
func TestWritesDropOnlyTheirEntries(t *testing.T) {
	engine := coretest.NewCountingMeta(mem.NewMeta())
	s := newStore(t, open(t, engine))
	for i := range 100 {
		s.apply(s.put(fmt.Sprint(i)))
		s.get(fmt.Sprint(i))
	}
	engine.Reset()
	s.apply(s.put("7"))
	s.apply(&core.PutRecord{Record: core.Record{Kind: "k", Key: "k", Value: []byte{1}}})
	for i := range 100 {
		s.get(fmt.Sprint(i))
	}
	require.EqualValues(t, 1, engine.Counts().Object)
	require.Zero(t, engine.Counts().Bucket)
}

// TestReadsSeeChanges checks, for each kind of change, that the next read sees its result.
func TestReadsSeeChanges(t *testing.T) {
	s := newStore(t, open(t, mem.NewMeta()))
	s.apply(s.put("k"))
	first := s.get("k").Seq
	s.apply(s.put("k"))
	require.Greater(t, s.get("k").Seq, first)

	s.apply(&core.CreateUpload{Upload: core.UploadInfo{Bucket: s.b.ID, Key: "k", Initiated: time.UnixMilli(1)}})
	id := core.UploadID(s.seq)
	s.apply(&core.PutPart{Bucket: s.b.ID, Key: "k", Upload: id, Part: core.PartInfo{Number: 1}})
	s.apply(&core.CompleteUpload{Upload: id, Parts: []core.PartRef{{Number: 1, Seq: s.seq}}, Object: core.ObjectInfo{Bucket: s.b.ID, Key: "k"}})
	require.Equal(t, id, s.get("k").List)

	s.apply(&core.DeleteObject{Bucket: s.b.ID, Key: "k"})
	_, err := s.m.Object(ctx, s.b.ID, "k", core.Current)
	require.True(t, core.Is(err, core.NoSuchKey))

	changed := *s.b
	changed.Owner = "new"
	s.apply(&core.PutBucket{Info: changed})
	b, err := s.m.Bucket(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, "new", b.Owner)
	s.apply(&core.DeleteBucket{Bucket: s.b.ID})
	_, err = s.m.Bucket(ctx, "b")
	require.True(t, core.Is(err, core.NoSuchBucket))
	s.apply(&core.PutBucket{Info: core.BucketInfo{Name: "b"}})
	b, err = s.m.Bucket(ctx, "b")
	require.NoError(t, err)
	require.NotEqual(t, s.b.ID, b.ID)
}

// newer is a kind of change that is unknown to package cached.
type newer struct{ core.Void }

// TestEmptyContentIsWholeAgain checks that an entry does not stay damaged when its content, which has no extents, is
// moved.
func TestEmptyContentIsWholeAgain(t *testing.T) {
	s := newStore(t, open(t, mem.NewMeta()))
	put := s.put("k").(*core.PutObject)
	put.Object.Segments = []core.Segment{{Data: 9, Info: &core.DataInfo{ID: 9, ChunkSize: 1000}}}
	s.apply(put)
	damaged := func() bool { return s.get("k").Segments[0].Info.Damaged }
	require.False(t, damaged())
	s.apply(&core.Unshare{Data: 9})
	require.True(t, damaged())
	s.apply(&core.MoveData{Data: 9})
	require.False(t, damaged())
}

// TestUnknownChangeDropsAll protects kinds of changes that are added later: for example, one that moves content must
// not leave old extents in the cache.
func TestUnknownChangeDropsAll(t *testing.T) {
	engine := coretest.NewCountingMeta(mem.NewMeta())
	s := newStore(t, open(t, engine))
	for i := range 100 {
		s.apply(s.put(fmt.Sprint(i)))
		s.get(fmt.Sprint(i))
	}
	_, err := s.m.Apply(ctx, s.stamp(&newer{}))
	require.NoError(t, err)
	engine.Reset()
	for range 2 {
		for i := range 100 {
			s.get(fmt.Sprint(i))
		}
		_, err = s.m.Bucket(ctx, "b")
		require.NoError(t, err)
	}
	require.Equal(t, coretest.MetaCounts{Object: 100, Bucket: 1}, engine.Counts(), "dropped once, then cached again")
}

func TestLargeEntriesAreNotCached(t *testing.T) {
	engine := coretest.NewCountingMeta(mem.NewMeta())
	s := newStore(t, open(t, engine))
	large := s.put("large").(*core.PutObject)
	large.Object.Attrs = []core.Attr{{Name: "x-amz-meta-a", Value: strings.Repeat("x", 5000)}}
	extents := s.put("extents").(*core.PutObject)
	d := &core.DataInfo{ID: 1, Size: 1}
	for i := range int64(500) {
		d.Extents = append(d.Extents, core.Extent{Offset: 2 * i, Length: 1})
	}
	extents.Object.Segments = []core.Segment{{Data: 1, Length: 1, Info: d}}
	tags := []core.Attr{{Name: "tagging", Value: strings.Repeat("x", 30_000)}}
	rules := []core.Attr{{Name: "rules", Value: strings.Repeat("x", 40_000)}}
	s.apply(large, extents, &core.PutBucket{Info: core.BucketInfo{Name: "c", Attrs: rules}}, &core.PutBucket{Info: core.BucketInfo{Name: "d", Attrs: tags}})
	engine.Reset()
	for range 3 {
		s.get("large")
		s.get("extents")
		_, err := s.m.Bucket(ctx, "c")
		require.NoError(t, err)
		_, err = s.m.Bucket(ctx, "d")
		require.NoError(t, err)
	}
	require.Equal(t, coretest.MetaCounts{Object: 6, Bucket: 3 + 1}, engine.Counts(), "bucket d is cached")
}

func TestInvalidArguments(t *testing.T) {
	_, err := cached.New(struct{ core.Meta }{mem.NewMeta()}, cached.Options{})
	require.True(t, core.Is(err, core.InvalidArgument))
	for _, o := range []cached.Options{{Objects: -1}, {Buckets: -1}, {Objects: cached.MaxEntries + 1}} {
		_, err := cached.New(mem.NewMeta(), o)
		require.True(t, core.Is(err, core.InvalidArgument))
	}
	_, err = cached.New(mem.NewMeta(), cached.Options{Objects: cached.MaxEntries, Buckets: 1})
	require.NoError(t, err)
}

// TestBounded puts more keys than fit in the cache, so that most reads have to call the engine again.
func TestBounded(t *testing.T) {
	engine := coretest.NewCountingMeta(mem.NewMeta())
	m, err := cached.New(engine, cached.Options{Objects: 640})
	require.NoError(t, err)
	s := newStore(t, m)
	for i := range 5000 {
		s.apply(s.put(fmt.Sprint(i)))
	}
	for range 2 {
		engine.Reset()
		for i := range 5000 {
			s.get(fmt.Sprint(i))
		}
		require.GreaterOrEqual(t, engine.Counts().Object, int64(5000-640))
	}
}

// TestReleaseMemory: ReleaseMemory deletes the cached objects and reaches the engine, and later reads fill the cache
// again, up to its full size.
func TestReleaseMemory(t *testing.T) {
	engine := &releasing{CountingMeta: coretest.NewCountingMeta(mem.NewMeta())}
	m, err := cached.New(engine, cached.Options{Objects: 6400})
	require.NoError(t, err)
	s := newStore(t, m)
	for i := range 1000 {
		s.apply(s.put(fmt.Sprint(i)))
	}
	for range 2 {
		for _, reads := range []int64{1000, 0} {
			engine.Reset()
			for i := range 1000 {
				s.get(fmt.Sprint(i))
			}
			require.Equal(t, reads, engine.Counts().Object)
		}
		m.ReleaseMemory(time.Minute)
	}
	require.Equal(t, 2, engine.released)
}

// releasing is an engine that counts the calls of ReleaseMemory.
type releasing struct {
	*coretest.CountingMeta
	released int
}

func (r *releasing) ReleaseMemory(time.Duration) { r.released++ }

// gated is an engine that calls functions after each read, and before and after each Apply.
type gated struct {
	core.Meta
	read, applying, applied func()
}

func (g *gated) Unwrap() core.Meta { return g.Meta }

func (g *gated) Object(ctx context.Context, b core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	o, err := g.Meta.Object(ctx, b, key, v)
	if g.read != nil {
		g.read()
	}
	return o, err
}

func (g *gated) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	b, err := g.Meta.Bucket(ctx, name)
	if g.read != nil {
		g.read()
	}
	return b, err
}

func (g *gated) Apply(ctx context.Context, changes []core.Change) ([]core.Result, error) {
	if g.applying != nil {
		g.applying()
	}
	results, err := g.Meta.Apply(ctx, changes)
	if g.applied != nil {
		g.applied()
	}
	return results, err
}

// TestOldRowIsNotStored lets a reader read the old row before or during an Apply, and try to store it afterwards.
func TestOldRowIsNotStored(t *testing.T) {
	for _, during := range []bool{false, true} {
		t.Run(fmt.Sprint("during ", during), func(t *testing.T) {
			engine := &gated{Meta: mem.NewMeta()}
			s := newStore(t, open(t, engine))
			s.apply(s.put("k"))
			old := s.seq

			hasRead, mayStore := make(chan struct{}), make(chan struct{})
			var once sync.Once
			engine.read = func() {
				stop := false
				once.Do(func() { stop = true })
				if stop {
					close(hasRead)
					<-mayStore
				}
			}
			got := make(chan core.Seq, 1)
			read := func() {
				go func() { got <- s.get("k").Seq }()
				<-hasRead
			}
			if during {
				engine.applying = read // sequences are odd, and the engine still has the old row
			} else {
				read()
			}
			s.apply(s.put("k"))
			close(mayStore)
			require.Equal(t, old, <-got)
			require.Equal(t, s.seq, s.get("k").Seq, "the old row was stored")
		})
	}
}

// TestNothingIsStoredDuringApply lets a reader read during Apply, before and after the engine writes. The second read
// must return the new row, not an old one from the cache.
func TestNothingIsStoredDuringApply(t *testing.T) {
	engine := &gated{Meta: mem.NewMeta()}
	s := newStore(t, open(t, engine))
	s.apply(s.put("k"))
	old := s.get("k").Seq
	engine.applying = func() { require.Equal(t, old, s.get("k").Seq) }
	engine.applied = func() { require.Equal(t, old+1, s.get("k").Seq) }
	s.apply(s.put("k"))
	require.Equal(t, old+1, s.get("k").Seq)
}

// TestOldBucketIsNotStored is TestOldRowIsNotStored for buckets.
func TestOldBucketIsNotStored(t *testing.T) {
	engine := &gated{Meta: mem.NewMeta()}
	s := newStore(t, open(t, engine))
	s.apply(&core.PutBucket{Info: core.BucketInfo{Name: "c"}})
	hasRead, mayStore, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var once sync.Once
	engine.read = func() {
		once.Do(func() { close(hasRead); <-mayStore })
	}
	go func() {
		defer close(done)
		_, _ = s.m.Bucket(ctx, "c")
	}()
	<-hasRead
	s.apply(&core.DeleteBucket{Bucket: core.BucketID(s.seq)})
	close(mayStore)
	<-done
	_, err := s.m.Bucket(ctx, "c")
	require.True(t, core.Is(err, core.NoSuchBucket), "the deleted bucket was stored")
}

// TestAfterFailure checks that after a failed Apply, whose effect is unknown, reads of its keys go to the engine, and
// that the keys can be cached again. A panic counts as a failure.
func TestAfterFailure(t *testing.T) {
	for name, fault := range map[string]func(s *store, faulty *coretest.FaultyMeta, engine *gated){
		"not done": func(s *store, faulty *coretest.FaultyMeta, _ *gated) {
			faulty.Fail(coretest.Fault{Call: "Apply", Nth: 1, Kind: core.NoSpace})
			_, err := s.m.Apply(ctx, s.stamp(s.put("k")))
			require.True(s.t, core.Is(err, core.NoSpace))
		},
		"done, yet failed": func(s *store, faulty *coretest.FaultyMeta, _ *gated) {
			faulty.Fail(coretest.Fault{Call: "Apply", Nth: 1, Done: true})
			_, err := s.m.Apply(ctx, s.stamp(s.put("k")))
			require.True(s.t, core.Is(err, core.Unavailable))
		},
		"panic": func(s *store, _ *coretest.FaultyMeta, engine *gated) {
			engine.applied = func() { panic(errors.New("a defect")) }
			require.Panics(s.t, func() { _, _ = s.m.Apply(ctx, s.stamp(s.put("k"))) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			counting := coretest.NewCountingMeta(mem.NewMeta())
			faulty := coretest.NewFaultyMeta(counting)
			engine := &gated{Meta: faulty}
			s := newStore(t, open(t, engine))
			s.apply(s.put("k"))
			s.get("k")
			fault(s, faulty, engine)
			counting.Reset()
			want, err := counting.Meta.Object(ctx, s.b.ID, "k", core.Current)
			require.NoError(t, err)
			require.Equal(t, want.Seq, s.get("k").Seq)
			require.Equal(t, want.Seq, s.get("k").Seq)
			require.EqualValues(t, 1, counting.Counts().Object, "read from the engine once, then cached")
		})
	}
}

// TestNeverOlder lets readers read a few keys while one writer writes them: a read that begins after an Apply returned
// never sees an older row, and no reader sees a key go back to an older row, also while memory is released.
func TestNeverOlder(t *testing.T) {
	const keys, batches = 5, 3000
	m, err := cached.New(mem.NewMeta(), cached.Options{Objects: 3})
	require.NoError(t, err)
	s := newStore(t, m)
	var mu sync.Mutex // guards acked
	acked := map[string]core.Seq{}
	floor := func(key string) core.Seq {
		mu.Lock()
		defer mu.Unlock()
		return acked[key]
	}
	for i := range keys {
		key := fmt.Sprint(i)
		s.apply(s.put(key))
		acked[key] = s.seq
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			random := rand.New(rand.NewPCG(1, uint64(n)))
			last := map[string]core.Seq{}
			for {
				select {
				case <-done:
					return
				default:
				}
				key := fmt.Sprint(random.IntN(keys))
				least := max(floor(key), last[key])
				o, err := s.m.Object(ctx, s.b.ID, key, core.Current)
				if err != nil || o.Seq < least {
					t.Errorf("%s: %v, saw %+v after %d", key, err, o, least)
					return
				}
				last[key] = o.Seq
			}
		}()
	}
	random := rand.New(rand.NewPCG(2, 2))
	for range batches {
		var changes []core.Change
		wrote := map[string]core.Seq{}
		for i := range 1 + random.IntN(3) {
			key := fmt.Sprint(random.IntN(keys))
			changes = append(changes, s.put(key))
			wrote[key] = s.seq + core.Seq(i) + 1
		}
		s.apply(changes...)
		mu.Lock()
		for key, seq := range wrote {
			acked[key] = seq
		}
		mu.Unlock()
		if random.IntN(10) == 0 {
			m.ReleaseMemory(time.Minute)
		}
	}
	close(done)
	wg.Wait()
}

// fixed is an engine that always returns the same object.
type fixed struct {
	core.Meta
	o       *core.ObjectInfo
	results []core.Result
}

func (f fixed) Unwrap() core.Meta { return f.Meta }

func (fixed) SingleWriter() {}

func (f fixed) Object(context.Context, core.BucketID, string, core.Version) (*core.ObjectInfo, error) {
	return f.o, nil
}

func (f fixed) Apply(context.Context, []core.Change) ([]core.Result, error) { return f.results, nil }

func benchmark(b *testing.B, keys int) {
	content := &core.DataInfo{ID: 1 << 20, Size: 4096, SHA256: [32]byte{1}, Refs: 1, Extents: []core.Extent{{Offset: 1 << 20, Length: 4176}}}
	m := open(b, fixed{o: &core.ObjectInfo{
		Seq: 1 << 20, Size: 4096, Modified: time.UnixMilli(1_800_000_000_000), ETag: "0123456789abcdef0123456789abcdef", Owner: "root",
		Sums: []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: make([]byte, 8)}}, Attrs: []core.Attr{{Name: "Content-Type", Value: "text/plain"}},
		Segments: []core.Segment{{Data: 1 << 20, Length: 4096, Info: content}},
	}})
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("photos/2026/%08d.jpg", i)
		_, _ = m.Object(ctx, 1234, names[i], core.Current)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, err := m.Object(ctx, 1234, names[i%keys], core.Current); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

func BenchmarkHit(b *testing.B)  { benchmark(b, 5_000) }
func BenchmarkMiss(b *testing.B) { benchmark(b, 1_000_000) }

// BenchmarkApply measures the time that the cache adds to an Apply of 100 puts.
func BenchmarkApply(b *testing.B) {
	m := open(b, fixed{results: make([]core.Result, 100)})
	var changes []core.Change
	for i := range 100 {
		changes = append(changes, &core.PutObject{Object: core.ObjectInfo{Bucket: 1234, Key: fmt.Sprintf("photos/2026/%08d.jpg", i)}})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Apply(ctx, changes); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEveryChange applies every kind of change through a cache that has every entry. Afterwards the cache returns the
// same as the engine, and it has dropped only the entries that the change affects.
func TestEveryChange(t *testing.T) {
	engine := coretest.NewCountingMeta(mem.NewMeta())
	m, w := open(t, engine), &coretest.Walk{}
	buckets := []string{coretest.WalkBucket, "gone"}
	object := func(m core.Meta, key string) string {
		o, err := m.Object(ctx, w.Bucket, key, core.Current)
		if err != nil {
			return core.KindOf(err).String()
		}
		return string(encoding.AppendResolvedObject(nil, o))
	}
	bucket := func(m core.Meta, name string) string {
		b, err := m.Bucket(ctx, name)
		if err != nil {
			return core.KindOf(err).String()
		}
		return string(encoding.AppendBucket(nil, b))
	}
	for _, row := range coretest.EveryChange() {
		held := map[string]bool{}
		for _, key := range coretest.WalkKeys {
			held[key] = object(m, key) != core.NoSuchKey.String()
		}
		for _, name := range buckets {
			held[name] = bucket(m, name) != core.NoSuchBucket.String()
		}
		c := row.Change(w)
		w.Stamp(c)
		results, err := m.Apply(ctx, []core.Change{c})
		require.NoError(t, err)
		require.NoError(t, results[0].Err, "%T", c)
		w.Done(c, results[0])
		for _, key := range coretest.WalkKeys {
			engine.Reset()
			got := object(m, key)
			require.False(t, held[key] && !slices.Contains(row.Keys, key) && engine.Counts().Object > 0, "%T drops the key %q", c, key)
			require.Equal(t, object(engine.Meta, key), got, "the key %q after %T", key, c)
		}
		for _, name := range buckets {
			engine.Reset()
			got := bucket(m, name)
			require.False(t, held[name] && !slices.Contains(row.Buckets, name) && engine.Counts().Bucket > 0, "%T drops the bucket %q", c, name)
			require.Equal(t, bucket(engine.Meta, name), got, "the bucket %q after %T", name, c)
		}
	}
}

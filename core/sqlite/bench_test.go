package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

// scale multiplies the sizes of the benchmarks: with ORCAS_BENCH_SCALE=10 they have a million keys.
func scale(b *testing.B, n int) int {
	if s := os.Getenv("ORCAS_BENCH_SCALE"); s != "" {
		f, err := strconv.Atoi(s)
		require.NoError(b, err)
		return n * f
	}
	return n
}

// feeder applies the changes that a server makes for small objects.
type feeder struct {
	t      testing.TB
	m      *Meta
	bucket core.BucketID
	seq    core.Seq
	data   core.DataID
	shared bool // content may be shared: it has a scope and a unique hash
}

func feed(t testing.TB, m *Meta, v core.Versioning) *feeder {
	s, err := m.State(context.Background())
	require.NoError(t, err)
	f := &feeder{t: t, m: m, seq: s.Seq, data: s.NextData}
	f.bucket = core.BucketID(f.seq + 1)
	f.apply(&core.PutBucket{Info: core.BucketInfo{Name: fmt.Sprint("bucket-", f.bucket), Versioning: v}})
	return f
}

// results stamps changes, applies them, and returns their results.
func (f *feeder) results(changes []core.Change) []core.Result {
	for _, c := range changes {
		f.seq++
		c.SetStamp(f.seq)
	}
	results, err := f.m.Apply(context.Background(), changes)
	require.NoError(f.t, err)
	return results
}

func (f *feeder) apply(changes ...core.Change) {
	for _, r := range f.results(changes) {
		require.NoError(f.t, r.Err)
	}
}

func benchKey(n int) string { return fmt.Sprintf("bench/object-%012d", n) }

// put returns a PutObject like that of the server for 4 KiB, with an MD5, a CRC64NVME, and a content type.
func (f *feeder) put(key string) *core.PutObject {
	f.data++
	md5, crc := make([]byte, 16), make([]byte, 8)
	info := &core.DataInfo{
		ID: f.data, Size: 4096, ChunkSize: core.DefaultChunkSize,
		Sums:    []core.Checksum{{Algorithm: checksum.MD5, Value: md5}, {Algorithm: checksum.CRC64NVME, Value: crc}},
		Extents: []core.Extent{{Block: core.MakeBlockID(1<<62, 3, 17), Offset: int64(f.data) * 4176, Length: 4176}},
	}
	info.SHA256[0] = 1
	if f.shared {
		info.Scope, info.SHA256 = f.bucket, sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(f.data)))
	}
	return &core.PutObject{Object: core.ObjectInfo{
		Bucket: f.bucket, Key: key, Modified: time.UnixMilli(1_800_000_000_000), Size: 4096, ETag: "0123456789abcdef0123456789abcdef",
		Owner: "AKIAIOSFODNN7EXAMPLE", Attrs: []core.Attr{{Name: "Content-Type", Value: "application/octet-stream"}},
		Sums:     []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: crc}},
		Segments: []core.Segment{{Data: f.data, Length: 4096, Info: info}},
	}}
}

// share returns a PutObject that shares the content of another one.
func (f *feeder) share(key string, of *core.PutObject) *core.PutObject {
	c := f.put(key)
	d := of.Object.Segments[0].Info
	c.Object.Segments[0] = core.Segment{Data: d.ID, Length: d.Size}
	c.Source = &core.Source{Content: &core.ContentKey{Scope: d.Scope, SHA256: d.SHA256, Size: d.Size}}
	return c
}

// fill puts the keys with numbers in [from, to), in random order.
func (f *feeder) fill(from, to int) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(to - from)
	var changes []core.Change
	for i, n := range order {
		changes = append(changes, f.put(benchKey(from+n)))
		if len(changes) == 5000 || i == len(order)-1 {
			f.apply(changes...)
			changes = changes[:0]
		}
	}
}

func BenchmarkApply(b *testing.B) {
	for _, batch := range []int{1, 30, 300} {
		for _, kind := range []string{"new", "versioned", "overwrite", "delete", "ordered"} {
			b.Run(fmt.Sprintf("%s/%d", kind, batch), func(b *testing.B) { benchmarkApply(b, kind, batch, false) })
		}
	}
}

// BenchmarkApplyShared measures the cost of finding content by its hash: without hashes (off), and with pairs that are
// written in runs. It also measures a new key of shared content (hit).
func BenchmarkApplyShared(b *testing.B) {
	for _, kind := range []string{"new", "overwrite"} {
		b.Run(kind+"/off", func(b *testing.B) { benchmarkApply(b, kind, 30, false) })
		b.Run(kind+"/runs", func(b *testing.B) { benchmarkApply(b, kind, 30, true) })
	}
	b.Run("hit", func(b *testing.B) { benchmarkApply(b, "hit", 30, true) })
}

// BenchmarkShareOld measures a new key that shares old content, including the lookup that finds the content, and
// compares it with a new key of new content. There are no other writes at the same time.
func BenchmarkShareOld(b *testing.B) {
	for _, kind := range []string{"new", "old", "same"} {
		b.Run(kind, func(b *testing.B) {
			f := feed(b, openAt(b, b.TempDir(), Options{changes: transactionChanges}), core.VersioningOff)
			f.shared = true
			n := scale(b, 150_000)
			var old []*core.PutObject
			for range n / 5000 {
				var changes []core.Change
				for range 5000 {
					put := f.put(strconv.FormatUint(uint64(len(old))*0x9e3779b97f4a7c15, 16))
					old, changes = append(old, put), append(changes, put)
				}
				f.apply(changes...)
			}
			old = old[:n/3]
			random := rand.New(rand.NewPCG(3, 4))
			b.ReportAllocs()
			start := cpuTime()
			for i := 0; b.Loop(); i++ {
				c := f.put(strconv.FormatUint(uint64(n+i)*0x9e3779b97f4a7c15, 16))
				if kind != "new" {
					of := old[7]
					if kind == "old" {
						of = old[random.IntN(len(old))]
					}
					c = f.share(c.Object.Key, of)
					if f.m.GuessData(*c.Source.Content) == 0 {
						d, err := f.m.FindData(context.Background(), *c.Source.Content)
						if err != nil || d.ID != of.Object.Segments[0].Data {
							b.Fatal(d, err)
						}
					}
				}
				f.apply(c)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// benchmarkApply measures one change of a batch. New keys are at random positions among the existing ones.
func benchmarkApply(b *testing.B, kind string, batch int, shared bool) {
	const space = 1 << 20
	versioning := core.VersioningOff
	if kind == "versioned" { // like new, in a bucket with versioning
		kind, versioning = "new", core.VersioningEnabled
	}
	f := feed(b, openAt(b, b.TempDir(), Options{changes: transactionChanges}), versioning)
	f.shared = shared
	existing := scale(b, 100_000)
	if kind == "delete" {
		existing += b.N
	}
	random := rand.New(rand.NewPCG(3, 4))
	var found []*core.PutObject
	if kind == "new" || kind == "ordered" || kind == "hit" {
		var changes []core.Change
		for n := range existing {
			put := f.put(benchKey(n * (space / existing)))
			changes = append(changes, put)
			if n%100 == 0 {
				found = append(found, put)
			}
			if len(changes) == 5000 {
				f.apply(changes...)
				changes = changes[:0]
			}
		}
	} else {
		f.fill(0, existing)
	}
	order := random.Perm(max(existing, b.N))
	next := func(i int) core.Change {
		switch kind {
		case "new":
			return f.put(benchKey(random.IntN(space)) + "-" + strconv.Itoa(i))
		case "hit":
			return f.share(benchKey(random.IntN(space))+"-"+strconv.Itoa(i), found[random.IntN(len(found))])
		case "ordered":
			return f.put(fmt.Sprintf("run/%012d", i))
		case "overwrite":
			return f.put(benchKey(random.IntN(existing)))
		}
		return &core.DeleteObject{Bucket: f.bucket, Key: benchKey(order[i])}
	}
	b.ReportAllocs()
	var used time.Duration
	b.ResetTimer()
	for i := 0; i < b.N; {
		b.StopTimer()
		var changes []core.Change // created outside the measurement, and few, so that the garbage collector has little work
		for ; i < b.N && len(changes) < 3000; i++ {
			changes = append(changes, next(i))
		}
		start := cpuTime()
		b.StartTimer()
		for len(changes) > 0 {
			n := min(batch, len(changes))
			f.apply(changes[:n]...)
			changes = changes[n:]
		}
		used += cpuTime() - start
	}
	b.StopTimer()
	b.ReportMetric(float64(used)/float64(b.N), "cpu-ns/op")
}

func BenchmarkObject(b *testing.B) {
	f := feed(b, openAt(b, b.TempDir(), Options{changes: transactionChanges}), core.VersioningOff)
	n := scale(b, 100_000)
	f.fill(0, n)
	random := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		o, err := f.m.Object(context.Background(), f.bucket, benchKey(random.IntN(n)), core.Current)
		if err != nil || o.Segments[0].Info == nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkList lists a page of 1000 out of many keys in random order, the same in the brief form, a common prefix that
// rolls up nearly all of them, and a page after many delete markers.
func BenchmarkList(b *testing.B) {
	n := scale(b, 100_000)
	m := openAt(b, b.TempDir(), Options{changes: transactionChanges})
	plain, marked := feed(b, m, core.VersioningOff), feed(b, m, core.VersioningOff)
	plain.seq, plain.data = marked.seq, marked.data
	plain.fill(0, n)
	plain.apply(plain.put("zoo"))
	marked.seq, marked.data = plain.seq, plain.data
	marked.apply(&core.PutBucket{Info: core.BucketInfo{ID: marked.bucket, Name: fmt.Sprint("bucket-", marked.bucket), Versioning: core.VersioningEnabled}})
	for i := 0; i < n; {
		var changes []core.Change
		for ; len(changes) < 5000; i++ {
			changes = append(changes, &core.DeleteObject{Bucket: marked.bucket, Key: benchKey(i)})
		}
		marked.apply(changes...)
	}
	for i := range 1000 {
		marked.apply(marked.put(fmt.Sprintf("live/%d", i)))
	}
	many := feed(b, m, core.VersioningEnabled) // ten versions of each key
	many.data = marked.data
	for range 10 {
		many.fill(0, n/10)
	}
	random := rand.New(rand.NewPCG(3, 4))
	run := func(name string, bucket core.BucketID, delimiter string, after func() string, want int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				q := core.ListQuery{
					Bucket: bucket, Delimiter: delimiter, Limit: 1000, After: core.Cursor{Key: after()}, Brief: name == "brief",
				}
				page, err := m.List(context.Background(), q)
				if err != nil || len(page.Objects)+len(page.Prefixes) != want {
					b.Fatal(err, len(page.Objects))
				}
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
		})
	}
	run("1000", plain.bucket, "", func() string { return benchKey(random.IntN(n - 1000)) }, 1000)
	run("brief", plain.bucket, "", func() string { return benchKey(random.IntN(n - 1000)) }, 1000)
	run("delimiter", plain.bucket, "/", func() string { return "" }, 2)
	run("noncurrent", many.bucket, "", func() string { return benchKey(random.IntN(n/10 - 1000)) }, 1000)
	run("markers", marked.bucket, "", func() string { return "" }, 1000)
}

// BenchmarkCount measures the time per object to count what a bucket holds, as the migration and Verify do.
func BenchmarkCount(b *testing.B) {
	f := feed(b, openAt(b, b.TempDir(), Options{changes: transactionChanges}), core.VersioningOff)
	n := scale(b, 100_000)
	f.fill(0, n)
	for b.Loop() {
		f.m.mu.Lock() // as in Apply: between two transactions the checkpointer uses the writer's connection
		counted, err := f.m.w.c.countTallies(background, f.bucket)
		f.m.mu.Unlock()
		if err != nil || counted.held[f.bucket].Versions != int64(n) {
			b.Fatal(counted, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/object")
}

// BenchmarkHashIndex measures a pair of new content beside many pairs, in transactions of 30, with all merges that follow
// from it. Pages are those that are written to the log.
func BenchmarkHashIndex(b *testing.B) {
	for _, present := range []int{100_000, 1_000_000, 5_000_000} {
		b.Run(fmt.Sprint(present), func(b *testing.B) {
			m := openAt(b, b.TempDir(), Options{CheckpointBytes: 1 << 40, Idle: time.Hour})
			m.filling.Wait()
			buildIndex(b, m, present)
			next := core.DataID(present + 1)
			frames := func() int64 {
				l, err := m.logLength()
				require.NoError(b, err)
				return l.frames
			}
			require.NoError(b, m.Checkpoint(context.Background()))
			b.ReportAllocs()
			most := 0 // statements of a transaction, beside its beginning and its end
			b.ResetTimer()
			start, written := cpuTime(), frames()
			for to := next + core.DataID(b.N); next < to; next += 30 {
				before := m.w.c.ran
				indexed(b, m, next+30, func(x *hashIndex) {
					for i := range core.DataID(30) {
						if err := x.add(indexInfo(next + i)); err != nil {
							b.Fatal(err)
						}
					}
				})
				most = max(most, m.w.c.ran-before-2)
			}
			b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/pair")
			b.ReportMetric(float64(frames()-written)/float64(b.N), "pages/pair")
			b.ReportMetric(float64(most), "most-statements")
		})
	}
}

// buildIndex gives the index pairs of content with the IDs 1 to n.
func buildIndex(b *testing.B, m *Meta, n int) {
	indexed(b, m, core.DataID(n+1), func(x *hashIndex) {
		for id := range core.DataID(n) {
			d := indexInfo(id + 1)
			x.bulk = append(x.bulk, hashPair{hash: d.Hash(), data: d.ID})
			x.filter.add(d.Hash())
		}
		require.NoError(b, x.restored(core.DataID(n+1)))
	})
}

// BenchmarkFindMiss measures a lookup of new content that the filter does not rule out, with the runs that a million
// pairs leave.
func BenchmarkFindMiss(b *testing.B) {
	m := openAt(b, b.TempDir(), Options{changes: transactionChanges})
	m.filling.Wait()
	for next, to := core.DataID(1), core.DataID(scale(b, 1_000_000)); next < to; next += 1000 {
		indexed(b, m, next+1000, func(x *hashIndex) {
			for i := range core.DataID(1000) {
				require.NoError(b, x.add(indexInfo(next+i)))
			}
		})
	}
	m.w.index.filter.full.Store(false)
	random := rand.New(rand.NewPCG(3, 4))
	b.ReportAllocs()
	start := cpuTime()
	for b.Loop() {
		k := indexInfo(core.DataID(random.Uint64())).ContentKey()
		if _, err := m.FindData(context.Background(), k); !core.Is(err, core.NoSuchData) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(cpuTime()-start)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(len(m.w.index.runs.list)), "runs")
}

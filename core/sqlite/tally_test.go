package sqlite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

// limit gives the feeder's bucket a quota.
func (f *feeder) limit(q core.Quota) {
	f.apply(&core.PutBucket{Info: core.BucketInfo{ID: f.bucket, Name: fmt.Sprint("bucket-", f.bucket), Quota: q}})
}

// try applies changes, some of which may fail because of the quota, and returns how many succeeded.
func (f *feeder) try(changes ...core.Change) (passed int) {
	for _, r := range f.results(changes) {
		if r.Err == nil {
			passed++
		} else {
			require.True(f.t, core.Is(r.Err, core.QuotaExceeded), r.Err)
		}
	}
	return passed
}

func (f *feeder) usage() core.Usage {
	u, err := f.m.Usage(context.Background(), f.bucket)
	require.NoError(f.t, err)
	lines, err := f.m.Verify(context.Background())
	require.NoError(f.t, err)
	require.Empty(f.t, lines)
	return u
}

func (f *feeder) puts(prefix string, n int) (changes []core.Change) {
	for i := range n {
		changes = append(changes, f.put(fmt.Sprint(prefix, i)))
	}
	return changes
}

// A put of a new key takes two statements, and a transaction five more. A quota adds one statement per transaction,
// regardless of its changes, and no reads.
func TestStatementsOfAPut(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	for i, c := range []struct {
		quota core.Quota
		each  int
	}{{core.Quota{}, 5}, {core.Quota{Bytes: 1 << 40}, 6}, {core.Quota{}, 5}, {core.Quota{Objects: 1 << 40}, 6}} {
		f.limit(c.quota)
		for n := range 3 {
			n = 50*n + 1
			changes := f.puts(fmt.Sprint(i, "/", n, "/"), n)
			before := f.m.w.c.ran
			f.apply(changes...)
			require.Equal(t, c.each+2*n, f.m.w.c.ran-before, "%d puts with quota %+v", n, c.quota)
		}
	}
	b, _, err := f.m.w.bucket(f.bucket)
	require.NoError(t, err)
	for _, b := range []bucketState{{}, b} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if more := (core.Usage{Bytes: 1, Objects: 1}); b.tally.admits(more) {
				f.m.w.tallies.add(f.bucket, b.tally, more)
			}
		}))
	}
}

// A put of existing content takes three statements: for the key, the reference to the content, and the info. It takes a
// fourth one, which reads the content, unless the content was shared recently. A put whose content no longer exists has
// no effect.
func TestStatementsOfASharedPut(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.shared = true
	first := f.put("first")
	f.apply(first)
	for n := range 3 {
		n = 20*n + 1
		var changes []core.Change
		for i := range n {
			changes = append(changes, f.share(fmt.Sprint(n, "/", i), first))
		}
		before := f.m.w.c.ran
		f.apply(changes...)
		want := 3 + 3*n
		if n == 1 {
			want++ // the first one reads the content
		}
		require.Equal(t, want, f.m.w.c.ran-before, "%d puts", n)
	}
	for i, statements := range []int{4, 4, 3} { // a new checksum is stored with the content, which is then read again
		c := f.share(fmt.Sprint("sum", i), first)
		c.Source.Sums = []core.Checksum{{Algorithm: checksum.CRC32, Value: []byte{1, 2, 3, 4}}}
		before := f.m.w.c.ran
		f.apply(c)
		require.Equal(t, 3+statements, f.m.w.c.ran-before)
		f.apply(&core.DeleteObject{Bucket: f.bucket, Key: fmt.Sprint("sum", i)})
	}
	require.Equal(t, core.Usage{Bytes: 64 * 4096, Objects: 64}, f.count())

	gone := f.share("gone", first)
	gone.Object.Segments[0].Data++
	results := f.results([]core.Change{gone})
	require.True(t, core.Is(results[0].Err, core.NoSuchData), results[0].Err)
	_, err := f.m.Object(context.Background(), f.bucket, "gone", core.Current)
	require.True(t, core.Is(err, core.NoSuchKey), err)
	require.Equal(t, core.Usage{Bytes: 64 * 4096, Objects: 64}, f.count())
}

// count sets a quota, so that the usage is counted, and returns the usage.
func (f *feeder) count() core.Usage {
	f.limit(core.Quota{})
	f.limit(core.Quota{Bytes: 1 << 40})
	defer f.limit(core.Quota{})
	return f.usage()
}

// A rollback restores the tally, on disk and in memory.
func TestTallyRollsBack(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.limit(core.Quota{Objects: 10})
	f.apply(f.puts("a", 4)...)
	require.NoError(t, f.m.runSQL("UPDATE data SET info = x'00010203' WHERE id = "+fmt.Sprint(f.data)))
	damagedPuts := f.puts("b", 3)
	damagedPuts = append(damagedPuts, &core.DeleteObject{Bucket: f.bucket, Key: "a0"}, f.put("a3")) // the row with the content of a3 is damaged
	for i, c := range damagedPuts {
		c.SetStamp(f.seq + core.Seq(i) + 1)
	}
	for range 3 {
		_, err := f.m.Apply(context.Background(), damagedPuts)
		require.True(t, core.Is(err, core.Damaged), err)
	}
	u, err := f.m.Usage(context.Background(), f.bucket)
	require.NoError(t, err)
	require.Equal(t, core.Usage{Bytes: 4 * 4096, Objects: 4}, u)
	require.Equal(t, 6, f.try(f.puts("c", 20)...))
	require.NoError(t, f.m.Close())
	f.m = openAt(t, dir, Options{})
	require.Zero(t, f.try(f.puts("d", 2)...))
	u, err = f.m.Usage(context.Background(), f.bucket)
	require.NoError(t, err)
	require.Equal(t, core.Usage{Bytes: 10 * 4096, Objects: 10}, u)
}

// A transaction may change more buckets than the writer caches.
func TestTalliesOfManyBuckets(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	var buckets []core.BucketID
	var changes []core.Change
	for i := range maxBuckets + 100 {
		buckets = append(buckets, core.BucketID(f.seq)+core.BucketID(i)+1)
		changes = append(changes, &core.PutBucket{Info: core.BucketInfo{Name: fmt.Sprint("many-", i), Quota: core.Quota{Objects: 2}}})
	}
	f.apply(changes...)
	changes = changes[:0]
	for round := range 3 {
		for _, id := range buckets {
			f.bucket = id
			changes = append(changes, f.put(fmt.Sprint(round)))
		}
	}
	require.Equal(t, 2*len(buckets), f.try(changes...))
	for _, id := range buckets[:5] {
		f.bucket = id
		require.Equal(t, core.Usage{Bytes: 2 * 4096, Objects: 2}, f.usage())
	}
}

// Verify reports wrong tallies, and restoring a snapshot corrects them.
func TestVerifyTallies(t *testing.T) {
	ctx := context.Background()
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.limit(core.Quota{Objects: 10})
	f.apply(f.puts("a", 3)...)
	want := f.usage()
	name := fmt.Sprintf("%q", fmt.Sprint("bucket-", f.bucket))
	for _, c := range []struct{ sql, line string }{
		{"UPDATE tallies SET objects = 2", "the tally of bucket " + name + " cannot be verified: tally: row checksum mismatch"},
		{"DELETE FROM tallies", "bucket " + name + " has a quota but no tally"},
		{"", "the tally of bucket " + name + " is 7 bytes and 1 objects, but the bucket has 12288 bytes and 3 objects"},
		{"INSERT INTO tallies VALUES (4711, 0, 0, x'')", "the bucket with ID 4711 has a tally but no quota"},
	} {
		if c.sql == "" {
			require.NoError(t, f.m.w.tallies.writeOne(f.bucket, core.Usage{Bytes: 7, Objects: 1}))
		} else {
			require.NoError(t, f.m.runSQL(c.sql))
		}
		lines, err := f.m.Verify(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{c.line}, lines)
		f.m = restored(t, f.m)
		require.Equal(t, want, f.usage())
	}
	require.Equal(t, 7, f.try(f.puts("b", 20)...))
}

// Reading parts without their content takes one statement, no matter how many parts there are. With their content, each
// part takes one more.
func TestStatementsOfParts(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	begin := &core.CreateUpload{Upload: core.UploadInfo{Bucket: f.bucket, Key: "k"}}
	f.apply(begin)
	const parts = 20
	for n := range parts {
		put := f.put("k")
		f.apply(&core.PutPart{Bucket: f.bucket, Key: "k", Upload: core.UploadID(begin.Seq), Part: core.PartInfo{
			Number: n + 1, Size: put.Object.Size, ETag: put.Object.ETag, Segments: put.Object.Segments,
		}})
	}
	for content, want := range map[core.PartContent]int{core.WithoutContent: 1, core.WithContent: 1 + parts} {
		c, err := f.m.acquire(t.Context(), "test")
		require.NoError(t, err)
		before := c.ran
		list, err := c.parts(core.UploadID(begin.Seq), 0, 2*parts, content)
		ran := c.ran - before
		f.m.release(c)
		require.NoError(t, err)
		require.Len(t, list, parts)
		require.Equal(t, want, ran)
	}
}

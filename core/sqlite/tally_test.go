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

// A put of a new key takes two statements, and a transaction eight more, one of them for the tally, and two for the
// amount of all content. A quota adds none.
func TestStatementsOfAPut(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	for i, quota := range []core.Quota{{}, {Bytes: 1 << 40}, {}, {Objects: 1 << 40}} {
		f.limit(quota)
		for n := range 3 {
			n = 50*n + 1
			changes := f.puts(fmt.Sprint(i, "/", n, "/"), n)
			before := f.m.w.c.ran
			f.apply(changes...)
			require.Equal(t, 8+2*n, f.m.w.c.ran-before, "%d puts with quota %+v", n, quota)
		}
	}
	b, _, err := f.m.w.bucket(f.bucket)
	require.NoError(t, err)
	o := f.put("k").Object
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if b.tally.admit(core.UsageOf(&o)) == nil {
			f.m.w.tallies.add(f.bucket, b.tally, core.TallyOf(&o, true))
		}
	}))
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
		want := 4 + 3*n
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
		require.Equal(t, 4+statements, f.m.w.c.ran-before)
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
		{"UPDATE tallies SET info = substr(info, 2)", "the tally of bucket " + name + " cannot be read: tally: row checksum mismatch"},
		{"DELETE FROM tallies", "bucket " + name + " has no tally"},
		{"", "the tally of bucket " + name + " is " + core.Tally{Versions: 1, Bytes: 7}.String() + ", but the bucket has " + core.Tally{Versions: 3, Bytes: 12288}.String()},
		{"INSERT INTO tallies VALUES (4711, x'')", "there is a tally of the bucket with ID 4711, which does not exist"},
	} {
		if c.sql == "" {
			require.NoError(t, f.m.w.tallies.writeOne(f.bucket, core.Tally{Versions: 1, Bytes: 7}))
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

// tally returns the tally of the feeder's bucket.
func (f *feeder) tally() core.Tally {
	list, err := f.m.Tallies(context.Background(), f.bucket-1, 1)
	require.NoError(f.t, err)
	require.Len(f.t, list, 1)
	require.Equal(f.t, f.bucket, list[0].Bucket)
	return list[0].Tally
}

// everything fills the feeder's bucket with what a tally counts, and returns the tally.
func (f *feeder) everything() core.Tally {
	f.shared = true
	first := f.put("a")
	f.apply(first, f.put("a"), f.put("b"), &core.DeleteObject{Bucket: f.bucket, Key: "b"}, f.share("copy", first), f.share("copy", first))
	for n := range 3 {
		begin := &core.CreateUpload{Upload: core.UploadInfo{Bucket: f.bucket, Key: "u"}}
		f.apply(begin)
		for number := range n {
			put := f.put("u")
			f.apply(&core.PutPart{Bucket: f.bucket, Key: "u", Upload: core.UploadID(begin.Seq), Part: core.PartInfo{
				Number: number + 1, Size: put.Object.Size, ETag: put.Object.ETag, Segments: put.Object.Segments,
			}})
		}
	}
	return core.Tally{
		Versions: 5, Bytes: 5 * 4096, NoncurrentVersions: 3, NoncurrentBytes: 3 * 4096, DeleteMarkers: 1, Uploads: 3, UploadBytes: 3 * 4096,
	}
}

// older makes the tables of schema version 5, which had tallies only of buckets with a quota.
const olderTallies = "DROP TABLE tallies; PRAGMA user_version = 5; CREATE TABLE tallies (" +
	"bucket INTEGER PRIMARY KEY, bytes INTEGER NOT NULL, objects INTEGER NOT NULL, seal BLOB NOT NULL) STRICT; " +
	"INSERT INTO tallies VALUES (1, 4711, 42, x'00')"

// A database of schema version 5 is counted once. If that is interrupted, the next start counts again.
func TestMigrationOfTallies(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningEnabled)
	want := f.everything()
	require.Equal(t, want, f.tally())
	f.apply(&core.PutBucket{Info: core.BucketInfo{Name: "empty"}})
	require.NoError(t, f.m.runSQL(olderTallies))
	require.NoError(t, f.m.onWriter(func(c *conn) error {
		if err := c.run("BEGIN"); err != nil {
			return err
		}
		if err := tallyAll(c); err != nil {
			return err
		}
		return c.run("ROLLBACK")
	}))
	require.NoError(t, f.m.Close())
	for range 2 {
		f.m = openAt(t, dir, Options{})
		row, err := f.m.w.c.pragma("user_version")
		require.NoError(t, err)
		require.EqualValues(t, len(steps()), integer(row[0]))
		all, err := f.m.Tallies(t.Context(), 0, 10)
		require.NoError(t, err)
		require.Len(t, all, 2)
		require.Equal(t, []core.Tally{want, {}}, []core.Tally{all[0].Tally, all[1].Tally})
		lines, err := f.m.Verify(t.Context())
		require.NoError(t, err)
		require.Empty(t, lines)
		require.NoError(t, f.m.Close())
	}
}

// The migration, and a count after the row of a tally was damaged, skip what cannot be read. The quota keeps working.
func TestTalliesOfDamagedRows(t *testing.T) {
	for name, damage := range map[string]struct {
		sql  string
		lost core.Tally
	}{
		"content":                {"UPDATE data SET info = x'00', sha256 = x'00' WHERE id = (SELECT data FROM history)", core.Tally{Versions: 1, Bytes: 4096, NoncurrentVersions: 1, NoncurrentBytes: 4096}},
		"no content":             {"DELETE FROM data WHERE id = (SELECT data FROM history)", core.Tally{Versions: 1, Bytes: 4096, NoncurrentVersions: 1, NoncurrentBytes: 4096}},
		"info of its content":    {"UPDATE data SET object = x'00' WHERE id = (SELECT data FROM history)", core.Tally{}},
		"info":                   {"UPDATE infos SET info = x'00' WHERE seq = (SELECT seq FROM history WHERE data IS NULL AND key = CAST('copy' AS BLOB))", core.Tally{Versions: 1, Bytes: 4096, NoncurrentVersions: 1, NoncurrentBytes: 4096}},
		"no info of the current": {"DELETE FROM infos; UPDATE objects SET brief = NULL", core.Tally{Versions: 2, Bytes: 2 * 4096, NoncurrentVersions: 1, NoncurrentBytes: 4096, DeleteMarkers: 1}},
		"brief":                  {"UPDATE objects SET brief = x'00'", core.Tally{}},
		"part":                   {"UPDATE parts SET info = x'00' WHERE number = 2", core.Tally{UploadBytes: 4096}},
	} {
		for _, again := range []string{olderTallies, "UPDATE tallies SET info = x'00'", "DELETE FROM tallies"} {
			t.Run(name+"/"+again[:6], func(t *testing.T) {
				dir := t.TempDir()
				f := feed(t, openAt(t, dir, Options{}), core.VersioningEnabled)
				want := f.everything().Minus(damage.lost)
				require.NoError(t, f.m.commitOpen("test"))
				require.NoError(t, f.m.runSQL(damage.sql))
				require.NoError(t, f.m.runSQL(again))
				require.NoError(t, f.m.Close())
				f.m = openAt(t, dir, Options{})
				require.Equal(t, want, f.tally())
				f.apply(&core.PutBucket{Info: core.BucketInfo{
					ID: f.bucket, Name: fmt.Sprint("bucket-", f.bucket), Versioning: core.VersioningEnabled, Quota: core.Quota{Objects: want.Versions + 2}}})
				require.Equal(t, 2, f.try(f.puts("more", 3)...))
				require.NoError(t, f.m.Close())
				f.m = openAt(t, dir, Options{})
				require.Equal(t, want.Plus(core.Tally{Versions: 2, Bytes: 2 * 4096}), f.tally())
			})
		}
	}
}

// A version with a damaged info can be deleted. Its content tells its size.
func TestTallyOfADeletedDamagedVersion(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.apply(f.puts("a", 3)...)
	require.NoError(t, f.m.commitOpen("test"))
	require.NoError(t, f.m.runSQL("UPDATE data SET object = x'00' WHERE id <= 2"))
	f.apply(&core.DeleteObject{Bucket: f.bucket, Key: "a0"}, f.put("a1"))
	require.Equal(t, core.Tally{Versions: 2, Bytes: 2 * 4096}, f.tally())
}

package sqlite

import (
	stdbytes "bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// briefPage lists all keys in the brief form. It returns the entries, and the number of statements.
func (f *feeder) briefPage() (list []core.ObjectInfo, statements int) {
	f.t.Helper()
	before := f.m.w.c.ran
	require.NoError(f.t, f.m.onWriter(func(c *conn) error {
		before = c.ran
		l := &listing{c: c, q: core.ListQuery{Bucket: f.bucket, Limit: 100_000, Brief: true}, page: &core.ListPage{}}
		err := l.fill()
		list, statements = l.page.Objects, c.ran-before
		return err
	}))
	return list, statements
}

// requireBrief compares the brief listing with the full one, and requires n lookups of versions.
func (f *feeder) requireBrief(lookups int) {
	f.t.Helper()
	page, err := f.m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 100_000})
	require.NoError(f.t, err)
	list, statements := f.briefPage()
	require.Equal(f.t, len(page.Objects), len(list))
	for i := range list {
		require.Equal(f.t, page.Objects[i].Brief(), list[i])
	}
	require.Equal(f.t, 1+lookups, statements)
}

// A brief listing reads the rows of objects only, except those whose column is too long, missing or damaged.
func TestBriefListing(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.fill(0, 100)
	f.requireBrief(0)
	long := f.put("long")
	long.Object.ETag = strings.Repeat("e", maxBrief)
	f.apply(long)
	f.requireBrief(1)
	lines, err := f.m.Verify(context.Background())
	require.NoError(t, err)
	require.Empty(t, lines)

	for lookups, sql := range []string{
		"UPDATE objects SET brief = NULL WHERE key = CAST('" + benchKey(1) + "' AS BLOB)",
		"UPDATE objects SET brief = x'0011' WHERE key = CAST('" + benchKey(2) + "' AS BLOB)",
		"UPDATE objects SET brief = (SELECT brief FROM objects WHERE key = CAST('" + benchKey(4) + "' AS BLOB)) WHERE key = CAST('" + benchKey(3) + "' AS BLOB)",
	} {
		require.NoError(t, f.m.runSQL(sql))
		f.requireBrief(2 + lookups)
		lines, err := f.m.Verify(context.Background())
		require.NoError(t, err)
		require.Len(t, lines, 1+lookups)
		require.Contains(t, lines[lookups], fmt.Sprintf("the row of key %q", benchKey(1+lookups)))
	}
	f.m = restored(t, f.m)
	f.requireBrief(1)
	f.placed()
}

// The column is verified even if its checksum is right.
func TestVerifyOfBriefs(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	f.fill(0, 3)
	o, err := f.m.Object(context.Background(), f.bucket, benchKey(1), core.Current)
	require.NoError(t, err)
	o.Size++
	require.NoError(t, f.m.onWriter(func(c *conn) error {
		_, err := c.exec(updateBrief, int64(o.Bucket), blob(o.Key), encodeBrief(nil, o, int64(o.Segments[0].Data)))
		return err
	}))
	lines, err := f.m.Verify(context.Background())
	require.NoError(t, err)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], fmt.Sprintf("the row of key %q in the bucket with ID %d", o.Key, o.Bucket))
}

// A search does not find a key that a flipped bit has moved to another position, and may find another row for a key that
// it has changed to an existing one. A listing returns an error for either.
func TestBriefListingOfADamagedKey(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.fill(0, 8)
	require.NoError(t, f.m.Close())
	path := filepath.Join(dir, "meta.db")
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for i := range 8 {
		key := []byte(benchKey(i))
		require.Equal(t, 1, stdbytes.Count(whole, key))
		at := stdbytes.Index(whole, key)
		for _, flip := range []struct {
			at  int
			bit byte
		}{{at, 0x40}, {at + len(key) - 1, 1}} {
			b := stdbytes.Clone(whole)
			b[flip.at] ^= flip.bit
			require.NoError(t, os.WriteFile(path, b, 0o600))
			m := openAt(t, dir, Options{})
			_, err = m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 10, Brief: true})
			require.True(t, core.Is(err, core.Damaged), "%v: %v", flip, err)
			require.NoError(t, m.Close())
		}
	}
}

// If the previous version cannot be read, the current version can still be deleted.
func TestDeletionAboveADamagedVersion(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningEnabled)
	f.apply(f.put("k"), f.put("k"))
	require.NoError(t, f.m.runSQL("UPDATE data SET object = x'00' WHERE id = (SELECT data FROM history)"))
	f.apply(&core.DeleteObject{Bucket: f.bucket, Key: "k", Version: core.Version(f.seq)})
	_, err := f.m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 1, Brief: true})
	require.True(t, core.Is(err, core.Damaged), err)
}

// A database of schema version 3 has no column brief. It is added and then filled in several transactions, and after an
// interruption the next start continues.
func TestMigrationOfBriefs(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningEnabled)
	f.shared = true
	var changes []core.Change
	for n := range 1000 {
		put := f.put(benchKey(n % 700))
		switch {
		case n%50 == 7:
			put.Object.ETag = strings.Repeat("e", maxBrief)
		case n%50 == 9:
			put.Object.Segments, put.Object.Size = nil, 0
		}
		if changes = append(changes, put); n%50 == 11 {
			changes = append(changes, f.share(benchKey(n)+"/shared", put), &core.DeleteObject{Bucket: f.bucket, Key: benchKey(n - 3)})
		}
	}
	f.apply(changes...)
	long := 0
	require.NoError(t, f.m.w.c.scan(background, "SELECT count(*) FROM objects WHERE brief IS NULL", func(cols []driver.Value) error {
		long = int(integer(cols[0]))
		return nil
	}))
	require.NotZero(t, long)
	f.requireBrief(long)

	require.NoError(t, f.m.runSQL("ALTER TABLE objects DROP COLUMN brief; PRAGMA user_version = 3"))
	require.NoError(t, f.m.onWriter(func(c *conn) error { return migrate(c, steps()[:4]) }))
	for range 2 { // interrupted after three transactions
		fill := fillBriefs(100)
		for range 3 {
			require.NoError(t, f.m.onWriter(func(c *conn) error {
				more, err := fill(c)
				require.True(t, more)
				return err
			}))
		}
	}
	_, statements := f.briefPage()
	require.Greater(t, statements, 100+long, "some rows are not filled yet")
	require.NoError(t, f.m.Close())
	for range 2 {
		f.m = openAt(t, dir, Options{})
		row, err := f.m.w.c.pragma("user_version")
		require.NoError(t, err)
		require.EqualValues(t, len(steps()), integer(row[0]))
		f.requireBrief(long)
		lines, err := f.m.Verify(context.Background())
		require.NoError(t, err)
		require.Empty(t, lines)
		require.NoError(t, f.m.Close())
	}

	f.m = openAt(t, dir, Options{})
	require.NoError(t, f.m.runSQL("ALTER TABLE objects DROP COLUMN brief; PRAGMA user_version = 3; "+
		"UPDATE data SET object = x'00' WHERE id = (SELECT min(data) FROM objects)"))
	require.NoError(t, f.m.Close())
	f.m = openAt(t, dir, Options{})
	_, err := f.m.List(context.Background(), core.ListQuery{Bucket: f.bucket, Limit: 10_000, Brief: true})
	require.True(t, core.Is(err, core.Damaged), "the row of a damaged version is not filled: %v", err)
}

// A read returns Damaged if a byte of the row changed, wherever it is.
func TestDamagedRow(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	for at := 1; at <= 12; at++ {
		key := benchKey(at)
		f.apply(f.put(key))
		_, err := f.m.Object(context.Background(), f.bucket, key, core.Current)
		require.NoError(t, err)
		for _, column := range []string{"sha256", "info", "object"} {
			require.NoError(t, f.m.runSQL(fmt.Sprintf(`UPDATE data SET %[1]s = CAST(substr(%[1]s, 1, %[2]d - 1) ||
				CASE substr(%[1]s, %[2]d, 1) WHEN x'07' THEN x'08' ELSE x'07' END || substr(%[1]s, %[2]d + 1) AS BLOB)
				WHERE length(%[1]s) >= %[2]d AND id = (SELECT max(id) FROM data)`, column, at)))
		}
		_, err = f.m.Object(context.Background(), f.bucket, key, core.Current)
		require.True(t, core.Is(err, core.Damaged), "byte %d: %v", at, err)
	}
}

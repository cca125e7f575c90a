package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

func TestSettingsAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	for synchronous, level := range map[string]int64{"OFF": 0, "NORMAL": 1, "FULL": 2} {
		for _, readOnly := range []bool{false, true} {
			c, err := connect(path, role{synchronous: synchronous, cacheKiB: 64, readOnly: readOnly})
			require.NoError(t, err)
			row, err := c.pragma("synchronous")
			require.NoError(t, err)
			require.Equal(t, level, row[0])
			row, err = c.pragma("journal_mode")
			require.NoError(t, err)
			require.Equal(t, "wal", row[0])
			require.NoError(t, c.verify(synchronous))
			for _, change := range []string{fmt.Sprint("PRAGMA synchronous=", (level+1)%3), "PRAGMA wal_autocheckpoint=1000"} {
				require.NoError(t, c.run(change))
				require.Error(t, c.verify(synchronous), change)
				require.NoError(t, c.run("PRAGMA wal_autocheckpoint=0; PRAGMA synchronous="+synchronous))
			}
			require.NoError(t, c.close())
		}
	}
	c, err := connect(":memory:", role{synchronous: "NORMAL", cacheKiB: 64})
	require.Error(t, err, "a database in memory cannot have a log: %v", c)
}

// A bulk database syncs nothing. It is complete after Close, and later opens have the usual settings.
func TestBulk(t *testing.T) {
	dir := t.TempDir()
	for _, level := range []int64{0, 1} {
		m := openAt(t, dir, Options{Bulk: level == 0})
		for _, c := range []*conn{m.w.c, m.check.c} {
			row, err := c.pragma("synchronous")
			require.NoError(t, err)
			require.Equal(t, level, row[0])
		}
		f := feed(t, m, core.VersioningOff)
		f.fill(0, 20_000)
		f.placed()
		require.NoError(t, m.Close())
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, files, 1)
	}
	m := openAt(t, dir, Options{})
	objects, err := m.List(context.Background(), core.ListQuery{Kind: core.ListObjects, Bucket: 1, Limit: 1000})
	require.NoError(t, err)
	require.Len(t, objects.Objects, 1000)
}

func TestOpenRefusesInvalidOptions(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "meta.db"), Options{Synchronous: "OFF"})
	require.True(t, core.Is(err, core.InvalidArgument), err)
}

func TestOddPaths(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&_synchronous=OFF")
	require.NoError(t, os.Mkdir(dir, 0o700))
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.apply(f.put("k"))
	_, err := f.m.Object(context.Background(), f.bucket, "k", core.Current)
	require.NoError(t, err)
	require.NoError(t, f.m.Close())
	require.FileExists(t, filepath.Join(dir, "meta.db"))
}

// Only the owner may read the files of the database.
func TestOnlyOwnerMayRead(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.apply(f.put("k"))
	for _, name := range []string{"meta.db", "meta.db-wal", "meta.db-shm"} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), name)
	}
}

func TestMigrationForward(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meta.db")
	c, err := connect(path, role{synchronous: "NORMAL", cacheKiB: 64})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.close()) }()
	version := func() int64 {
		row, err := c.pragma("user_version")
		require.NoError(t, err)
		return row[0].(int64)
	}
	require.NoError(t, migrate(c, steps()))
	require.EqualValues(t, len(steps()), version())
	failing := append(steps(),
		once(func(c *conn) error { return c.run("CREATE TABLE second (a INTEGER) STRICT") }),
		once(func(c *conn) error {
			return errors.Join(c.run("CREATE TABLE third (a INTEGER) STRICT"), errors.New("no"))
		}))
	known := len(steps())
	require.ErrorContains(t, migrate(c, failing), fmt.Sprint("version ", known+2))
	require.EqualValues(t, known+1, version(), "the step before the failed one was kept")
	require.NoError(t, c.run("SELECT * FROM second"))
	require.Error(t, c.run("SELECT * FROM third"), "the failed step had no effect")
	require.True(t, c.c.AutoCommit())
	require.NoError(t, migrate(c, failing[:known+1]), "no step runs twice")
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	m := openAt(t, dir, Options{})
	require.NoError(t, m.runSQL("PRAGMA user_version = 77"))
	require.NoError(t, m.Close())
	_, err := Open(filepath.Join(dir, "meta.db"), Options{})
	require.True(t, core.Is(err, core.Unsupported), err)
	require.ErrorContains(t, err, "version 77")
	require.ErrorContains(t, err, "schema version")
}

func TestForeignFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "meta.db")
	c, err := connect(path, role{synchronous: "NORMAL", cacheKiB: 64})
	require.NoError(t, err)
	require.NoError(t, c.run("CREATE TABLE x (a); PRAGMA user_version = 1; PRAGMA application_id = 77"))
	require.NoError(t, c.close())
	_, err = Open(path, Options{})
	require.True(t, core.Is(err, core.Unsupported), err)

	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("this is no database ", 1000)), 0o600))
	_, err = Open(path, Options{})
	require.True(t, core.Is(err, core.Damaged), err)
}

func TestACleanStopLeavesNoLog(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.fill(0, 100)
	require.FileExists(t, filepath.Join(dir, "meta.db-wal"))
	require.NoError(t, f.m.Close())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "only the database remains: %v", files)
	_, err = f.m.Apply(context.Background(), nil)
	require.True(t, core.Is(err, core.Unavailable), err)
	_, err = f.m.Bucket(context.Background(), "x")
	require.True(t, core.Is(err, core.Unavailable), err)
	_, err = f.m.State(context.Background())
	require.True(t, core.Is(err, core.Unavailable), err)
	require.NoError(t, f.m.Close(), "closing twice is not an error")
}

// A statement that sorts or reads a whole table is slow only in large stores, which no test has.
func TestPlans(t *testing.T) {
	m := openAt(t, t.TempDir(), Options{})
	for st := range numStatements {
		sql := statementSQL[st]
		require.NotEmpty(t, sql, "statement %d", st)
		if !strings.Contains(sql, "?") {
			continue
		}
		for _, line := range plan(t, m.w.c, sql) {
			require.NotContains(t, line, "SCAN", sql)
			require.NotContains(t, line, "TEMP B-TREE", sql)
		}
	}
}

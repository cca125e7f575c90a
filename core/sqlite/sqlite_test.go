package sqlite

import (
	"cmp"
	"fmt"
	"os/signal"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
)

// openAt opens a database. By default each Apply is a transaction, so that tests see its effects on the database;
// transaction_test.go has the tests of larger transactions.
func openAt(t testing.TB, dir string, o Options) *Meta {
	o.changes = cmp.Or(o.changes, 1)
	m, err := Open(filepath.Join(dir, "meta.db"), o)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// The suites use short runs, so that pairs of the hash index are written and merged after a few changes, and the tests
// find them in every state.
//
// They run with transactions of several sizes. With three changes, commits come at any point of a case; with the
// default, only where a read, a kind of change, or the age of the transaction causes one.
func eachSize(t *testing.T, run func(t *testing.T, changes int), sizes ...int) {
	for _, changes := range append(sizes, 3, transactionChanges) {
		t.Run(fmt.Sprintf("transactions of %d", changes), func(t *testing.T) { run(t, changes) })
	}
}

func TestMeta(t *testing.T) {
	eachSize(t, func(t *testing.T, changes int) {
		coretest.Meta(t, func(t *testing.T) core.Meta {
			return openAt(t, t.TempDir(), Options{runLength: 1, changes: changes, dumpRows: changes})
		})
	})
}

func TestMetaReopen(t *testing.T) {
	eachSize(t, func(t *testing.T, changes int) {
		coretest.MetaReopen(t, func(t *testing.T, dir string) core.Meta { return openAt(t, dir, Options{changes: changes}) })
	})
}

func TestMetaModel(t *testing.T) {
	opened := 0
	eachSize(t, func(t *testing.T, changes int) {
		coretest.MetaModel(t, func(t *testing.T) core.Meta {
			opened++
			return openAt(t, t.TempDir(), Options{runLength: 7, changes: changes, dumpRows: []int{1, 2, 7}[opened%3]})
		})
	}, 1)
}

// onWriter runs fn with the writer's connection, which the committer uses too, at any time.
func (m *Meta) onWriter(fn func(c *conn) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fn(m.w.c)
}

// runSQL executes SQL with the writer's connection.
func (m *Meta) runSQL(sql string) error {
	return m.onWriter(func(c *conn) error { return c.run(sql) })
}

// logLength measures the log.
func (m *Meta) logLength() (l log, err error) {
	err = m.onWriter(func(c *conn) (err error) {
		l, err = c.checkpoint("NOOP")
		return err
	})
	return l, err
}

// restored returns a database with the rows of a snapshot of m, and more rows.
func restored(t *testing.T, m *Meta, more ...*core.Row) *Meta {
	var rows []*core.Row
	require.NoError(t, m.Snapshot(background, func(r *core.Row) error {
		row, err := encoding.DecodeRow(encoding.AppendRow(nil, r))
		if rows = append(rows, row); len(rows) == 1 { // the first row is the state
			rows = append(rows, more...)
		}
		return err
	}))
	fresh := openAt(t, t.TempDir(), Options{})
	require.NoError(t, fresh.Restore(background, func() (*core.Row, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		row := rows[0]
		rows = rows[1:]
		return row, nil
	}))
	return fresh
}

// limitFiles limits the size of every file that this process writes, and returns a function that lifts the limit.
func limitFiles(t *testing.T, bytes int64) (lift func()) {
	signal.Ignore(unix.SIGXFSZ)
	t.Cleanup(func() { signal.Reset(unix.SIGXFSZ) })
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &limit))
	tight := limit
	tight.Cur = uint64(bytes)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &tight))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit)) }
}

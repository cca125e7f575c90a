package server

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/durable"
	"orcas/vfs"
)

// TestSwapIsCutAnywhere interrupts the swap of databases before and after each of its steps: no database is ever next
// to the log of another one, and the old database is intact under its old or its new name.
func TestSwapIsCutAnywhere(t *testing.T) {
	cut := errors.New("cut")
	for n, whole := 0, false; !whole; n++ {
		for _, done := range []bool{false, true} {
			dir := t.TempDir()
			at := filepath.Join(dir, databaseFile)
			for name, text := range map[string]string{"": "old", logSuffix: "old log", indexSuffix: "old index", ".new": "new"} {
				require.NoError(t, os.WriteFile(at+name, []byte(text), 0o600))
			}
			steps := 0
			o := &Offline{Dir: dir, steps: durable.Steps{Hook: func(_ durable.Step, do func() error) error {
				steps++
				if steps-1 < n {
					return do()
				}
				if done && steps-1 == n {
					_ = do()
				}
				return cut
			}}}
			kept, err := o.SwapDatabase("test", time.Now())
			whole = err == nil
			read := func(path string) string {
				b, _ := os.ReadFile(path)
				return string(b)
			}
			database, log := read(at), read(at+logSuffix)
			switch database {
			case "old":
				require.Equal(t, "old log", log)
			case "new":
				require.Empty(t, log)
			default:
				require.Empty(t, database)
			}
			if database != "old" && kept != "" {
				require.Equal(t, "old", read(filepath.Join(dir, kept)))
			}
			if whole {
				require.Equal(t, "new", database)
				require.Equal(t, "old log", read(filepath.Join(dir, kept+logSuffix)))
				require.Greater(t, n, 6)
			}
		}
	}
}

// The new database is filled without a sync, so it is synced before anything is renamed.
func TestNewDatabaseIsSynced(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, databaseFile)
	for _, name := range []string{"", ".new"} {
		require.NoError(t, os.WriteFile(at+name, []byte(name), 0o600))
	}
	var steps []durable.Step
	o := &Offline{Dir: dir, steps: durable.Steps{Hook: func(s durable.Step, do func() error) error {
		steps = append(steps, s)
		return do()
	}}}
	_, err := o.SwapDatabase("test", time.Now())
	require.NoError(t, err)
	require.Equal(t, durable.Step{Op: durable.Sync, Path: at + ".new"}, steps[0])
	require.Equal(t, durable.Rename, steps[1].Op)
	require.Equal(t, durable.DirSync, steps[len(steps)-1].Op)
}

// putSmall writes an object through the namespace of a server.
func putSmall(t *testing.T, s *Server, key string) {
	t.Helper()
	b, err := s.fs.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	c, err := s.fs.NewContent(t.Context(), b, int64(len(key)))
	require.NoError(t, err)
	defer c.Discard()
	_, err = c.ReadFrom(strings.NewReader(key))
	require.NoError(t, err)
	_, err = s.fs.Put(t.Context(), vfs.PutRequest{Bucket: b, Key: key, Content: c})
	require.NoError(t, err)
}

// A start without a database fills a new one from the blocks, which gets its name when it is complete. Files that an
// interrupted rebuild or another database left are not used.
func TestMissingDatabaseIsRebuilt(t *testing.T) {
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket"}
	at := filepath.Join(config.Data, databaseFile)
	for round := range 3 {
		s, stop := running(t, config)
		require.NoFileExists(t, at+".new")
		b, err := s.fs.Bucket(t.Context(), "bucket")
		require.NoError(t, err)
		for n := range round {
			_, err := s.fs.Stat(t.Context(), b, fmt.Sprint("key-", n), core.Current)
			require.NoError(t, err)
		}
		putSmall(t, s, fmt.Sprint("key-", round))
		require.NoError(t, stop())
		require.NoError(t, os.Remove(at))
		for _, name := range []string{logSuffix, ".new", ".new" + logSuffix} {
			require.NoError(t, os.WriteFile(at+name, bytes.Repeat([]byte("stale"), 2000), 0o600))
		}
	}

	packed, err := filepath.Glob(filepath.Join(config.Data, "blocks", "00000001", "*", "*.packed"))
	require.NoError(t, err)
	require.NotEmpty(t, packed)
	for _, path := range packed {
		require.NoError(t, os.Remove(path))
	}
	_, err = Open(t.Context(), config)
	require.ErrorContains(t, err, "orcas rebuild --lossy")
	for _, name := range []string{"", ".new", ".new" + logSuffix} {
		require.NoFileExists(t, at+name, "a failed rebuild leaves nothing")
	}
}

package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/sqlite"
)

// TestCheckpointLastsWithoutTheLog checks that after a checkpoint the database is complete without its log.
func TestCheckpointLastsWithoutTheLog(t *testing.T) {
	dir := t.TempDir()
	checkpoints := 0
	m, err := sqlite.Open(filepath.Join(dir, "a.db"), sqlite.Options{Checkpointed: func(took time.Duration, err error) {
		require.NoError(t, err)
		require.Positive(t, took)
		checkpoints++
	}})
	require.NoError(t, err)
	defer m.Close()
	_, err = m.Apply(context.Background(), []core.Change{&core.PutBucket{Stamped: core.Stamped{Seq: 7}, Info: core.BucketInfo{Name: "b"}}})
	require.NoError(t, err)
	checkpoints = 0
	require.NoError(t, m.Checkpoint(context.Background()))
	require.Equal(t, 1, checkpoints, "the observer is called once for each checkpoint")
	b, err := os.ReadFile(filepath.Join(dir, "a.db"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.db"), b, 0o600))
	after, err := sqlite.Open(filepath.Join(dir, "b.db"), sqlite.Options{})
	require.NoError(t, err)
	defer after.Close()
	st, err := after.State(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 7, st.Seq)
}

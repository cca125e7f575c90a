package metrics

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
)

func TestWrites(t *testing.T) {
	r, err := New(Build{})
	require.NoError(t, err)
	w := &Writes{}
	require.NoError(t, r.Add(w))
	o := w.Batches()
	o.Recovered(&batch.Recovery{Applied: 7})
	o.Batch(batch.BatchStats{Writes: 3, Bytes: 5000, Commit: 2 * time.Millisecond, Apply: 300 * time.Microsecond})
	o.Batch(batch.BatchStats{Writes: 40, Commit: 2 * time.Second})
	o.Batch(batch.BatchStats{Writes: 40, Commit: 2 * time.Second, Err: errors.New("the drive is full")})
	w.Synced(time.Minute, nil)
	w.Checkpointed(time.Second, nil)
	w.Checkpointed(time.Second, errors.New("the drive is full"))
	got := text(t, r)
	for _, want := range []string{
		"orcas_replayed_changes 7",
		"orcas_batch_objects_count 2", "orcas_batch_objects_sum 43", `orcas_batch_objects_bucket{le="4"} 1`,
		"orcas_batch_bytes_sum 5000", `orcas_batch_bytes_bucket{le="4096"} 1`, `orcas_batch_bytes_bucket{le="16384"} 2`,
		"orcas_batch_commit_seconds_count 2", `orcas_batch_commit_seconds_bucket{le="0.0025"} 1`,
		"orcas_batch_apply_seconds_count 1", "orcas_batch_apply_seconds_sum 0.0003",
		"orcas_batch_errors_total 1", `orcas_fdatasync_seconds_bucket{le="10"} 0`, "orcas_fdatasync_seconds_sum 60",
		`orcas_checkpoints_total{result="ok"} 1`, `orcas_checkpoints_total{result="error"} 1`,
		"orcas_checkpoint_seconds_sum 2",
	} {
		require.Contains(t, got, want+"\n")
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { w.Synced(time.Millisecond, nil) }))
}

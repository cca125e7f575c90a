package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orcas/batch"
)

// Writes counts what happens on the way of a write to the drive. Its methods are called by the goroutines that writes
// wait for, so they only add to atomic integers. The zero value is ready to use. It is a prometheus.Collector.
type Writes struct {
	objects, bytes Histogram // of batches
	commit, apply  Histogram
	failed         atomic.Uint64
	replayed       atomic.Int64

	syncs       Histogram
	checkpoints Histogram
	copied      [2]atomic.Uint64 // checkpoints that succeeded, and those that failed
}

// Batches returns the observer of batches.
func (w *Writes) Batches() batch.Observer {
	return batch.Observer{
		Recovered: func(r *batch.Recovery) { w.replayed.Store(int64(r.Applied)) },
		Batch:     w.batch,
	}
}

// batch counts a batch.
func (w *Writes) batch(s batch.BatchStats) {
	if s.Err != nil {
		w.failed.Add(1)
		return
	}
	w.objects.observe(countBounds, int64(s.Writes))
	w.bytes.observe(sizeBounds, s.Bytes)
	w.commit.observe(syncBounds, int64(s.Commit))
	if s.Apply > 0 {
		w.apply.observe(syncBounds, int64(s.Apply))
	}
}

// Synced counts a sync of a block. It has the signature of disk.Options.Synced.
func (w *Writes) Synced(took time.Duration, _ error) { w.syncs.observe(syncBounds, int64(took)) }

// Checkpointed counts a checkpoint. It has the signature of sqlite.Options.Checkpointed.
func (w *Writes) Checkpointed(took time.Duration, err error) {
	w.checkpoints.observe(syncBounds, int64(took))
	if err != nil {
		w.copied[1].Add(1)
	} else {
		w.copied[0].Add(1)
	}
}

var (
	batchObjects  = prometheus.NewDesc("orcas_batch_objects", "The number of changes in a batch.", nil, nil)
	batchBytes    = prometheus.NewDesc("orcas_batch_bytes", "The size of the content in a batch.", nil, nil)
	batchCommit   = prometheus.NewDesc("orcas_batch_commit_seconds", "The time to write and sync a batch.", nil, nil)
	batchApply    = prometheus.NewDesc("orcas_batch_apply_seconds", "The time to apply a batch to the metadata.", nil, nil)
	batchErrors   = prometheus.NewDesc("orcas_batch_errors_total", "The number of batches that failed as a whole.", nil, nil)
	replayed      = prometheus.NewDesc("orcas_replayed_changes", "The number of changes that recovery replayed when the server started.", nil, nil)
	fdatasync     = prometheus.NewDesc("orcas_fdatasync_seconds", "The duration of an fdatasync of a block.", nil, nil)
	checkpoints   = prometheus.NewDesc("orcas_checkpoints_total", "The number of checkpoints of the metadata.", []string{"result"}, nil)
	checkpointing = prometheus.NewDesc("orcas_checkpoint_seconds", "The duration of a checkpoint of the metadata.", nil, nil)
)

// Describe implements prometheus.Collector.
func (w *Writes) Describe(c chan<- *prometheus.Desc) { prometheus.DescribeByCollect(w, c) }

// Collect implements prometheus.Collector.
func (w *Writes) Collect(c chan<- prometheus.Metric) {
	c <- w.objects.metric(countBounds, batchObjects)
	c <- w.bytes.metric(sizeBounds, batchBytes)
	c <- w.commit.metric(syncBounds, batchCommit)
	c <- w.apply.metric(syncBounds, batchApply)
	c <- w.syncs.metric(syncBounds, fdatasync)
	c <- w.checkpoints.metric(syncBounds, checkpointing)
	c <- prometheus.MustNewConstMetric(batchErrors, prometheus.CounterValue, float64(w.failed.Load()))
	c <- prometheus.MustNewConstMetric(replayed, prometheus.GaugeValue, float64(w.replayed.Load()))
	for i, result := range []string{"ok", "error"} {
		c <- prometheus.MustNewConstMetric(checkpoints, prometheus.CounterValue, float64(w.copied[i].Load()), result)
	}
}

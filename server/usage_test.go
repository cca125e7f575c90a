package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/core"
	"orcas/metrics"
	"orcas/survey"
)

func surveyed(buckets ...string) *survey.Result {
	r := &survey.Result{Total: core.Tally{Versions: 3, Bytes: 30, NoncurrentVersions: 1, NoncurrentBytes: 10}}
	for _, name := range buckets {
		r.Buckets = append(r.Buckets, survey.Bucket{Name: name, Tally: r.Total})
	}
	return r
}

// TestUsage: the history has a point per hour, survives a restart, and forgets deleted buckets.
func TestUsage(t *testing.T) {
	var log bytes.Buffer
	u := &usage{path: filepath.Join(t.TempDir(), UsageFile), log: slog.New(slog.NewTextHandler(&log, nil))}
	u.load()
	require.Empty(t, log.String())
	now := time.Unix(1_800_000_000, 0).UTC()
	require.True(t, u.add(surveyed("a", "b"), now))
	require.False(t, u.add(surveyed("a", "b"), now.Add(usageEvery-time.Second)))
	require.True(t, u.add(surveyed("a", "b"), now.Add(usageEvery)))
	want := admin.UsagePoint{Time: now, Objects: 2, Bytes: 20, Versions: 1, VersionBytes: 10}
	require.Equal(t, want, u.document("").Points[0])
	require.Len(t, u.document("a").Points, 2)
	require.Empty(t, u.document("other").Points)
	require.NoError(t, u.save())

	again := &usage{path: u.path, log: u.log}
	again.load()
	require.Equal(t, u.document("a"), again.document("a"))
	require.True(t, again.add(surveyed("b"), now.Add(2*usageEvery)))
	require.Empty(t, again.document("a").Points)
	require.Len(t, again.document("b").Points, 3)
	require.True(t, again.add(surveyed("b"), now.Add(-time.Hour)), "a clock that was set back must not stop the history")

	require.NoError(t, os.WriteFile(u.path, []byte("damaged"), 0o600))
	again.load()
	require.Contains(t, log.String(), "begins again")
	require.Empty(t, again.document("b").Points)
}

// TestUsageIsBounded: older points are thinned out, and only so many buckets have a history.
func TestUsageIsBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	var points []admin.UsagePoint
	for at := now.Add(-2 * usageKept); at.Before(now); at = at.Add(usageEvery) {
		points = append(points, admin.UsagePoint{Time: at})
	}
	points = thin(points, now)
	require.LessOrEqual(t, len(points), 14*24+401)
	require.Greater(t, len(points), 14*24+380)
	require.LessOrEqual(t, now.Sub(points[0].Time), usageKept)
	require.Len(t, thin(points, now), len(points), "it is stable")

	u := &usage{of: map[string][]admin.UsagePoint{}}
	var names []string
	for i := range usageBuckets + 50 {
		names = append(names, fmt.Sprintf("b%03d", i))
	}
	require.True(t, u.add(surveyed(names...), now))
	require.Len(t, u.of, usageBuckets)
}

// TestHistory: each point has what was counted since the one before.
func TestHistory(t *testing.T) {
	var h history
	now := time.Unix(1_800_000_000, 0)
	for i := range uint64(historyPoints + 5) {
		h.add(now.Add(time.Duration(i)*historyEvery), metrics.Totals{Requests: i * 7, Errors: i, In: int64(i) * 100, Out: int64(i) * 10})
	}
	d := h.document()
	require.Len(t, d.Points, historyPoints)
	require.InDelta(t, 10, d.Interval, 0)
	last := d.Points[historyPoints-1]
	require.Equal(t, admin.HistoryPoint{Time: last.Time, Requests: 7, Errors: 1, In: 100, Out: 10}, last)
	require.Equal(t, now.Add((historyPoints+4)*historyEvery).UTC(), last.Time)
}

// TestLogTail: readers get the last lines of a level, then new ones; a reader that is too slow learns how many it missed.
func TestLogTail(t *testing.T) {
	var tail logTail
	log := slog.New(tailed{slog.NewTextHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: slog.LevelInfo}), &tail, nil, ""})
	for i := range logTailLines + 5 {
		log.Info("line", "n", i)
	}
	log.With("key", "value").WithGroup("group").Warn("warning", "n", 1, "err", os.ErrNotExist)
	log.Debug("not logged")
	last, _, stop := tail.read(slog.LevelInfo, 3)
	require.Len(t, last, 3)
	require.Equal(t, map[string]any{"n": int64(logTailLines + 4)}, last[1].Attributes)
	require.Equal(t, "WARN", last[2].Level)
	require.Equal(t, map[string]any{"key": "value", "group.n": int64(1), "group.err": os.ErrNotExist.Error()}, last[2].Attributes)
	stop()
	last, next, stop := tail.read(slog.LevelWarn, 100)
	require.Len(t, last, 1)
	log.Info("too low")
	for range logTailQueue + 10 {
		log.Error("error")
	}
	require.Len(t, next, logTailQueue)
	for range logTailQueue {
		<-next
	}
	log.Error("after")
	require.Equal(t, int64(10), (<-next).Dropped)
	stop()
	for range logTailMost {
		_, next, _ = tail.read(slog.LevelInfo, 0)
		require.NotNil(t, next)
	}
	_, next, _ = tail.read(slog.LevelInfo, 0)
	require.Nil(t, next)
}

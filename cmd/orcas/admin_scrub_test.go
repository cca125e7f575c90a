package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/scrub"
	"orcas/storetest"
)

// scrubState returns the status of a server's scrub.
func scrubState(t *testing.T, data, admin string) (s scrub.Status) {
	t.Helper()
	var out, errs bytes.Buffer
	run([]string{"admin", "scrub", "--status", "--json", "--data", data, "--admin-address", admin}, nil, &out, &errs)
	require.NoError(t, json.Unmarshal(out.Bytes(), &s), errs.String())
	return s
}

// TestInterruptedWait: an interrupted command reports that the server continues, and how to watch the progress; another
// command can wait for the same pass.
func TestInterruptedWait(t *testing.T) {
	dir := filled(t)
	serveWith(t, dir, quiet, func(_ *s3.Client, admin string) {
		var errs bytes.Buffer
		status := make(chan int, 1)
		go func() {
			status <- run([]string{"admin", "scrub", "--wait", "--rate", "1KiB", "--data", dir, "--admin-address", admin}, nil, new(bytes.Buffer), &errs)
		}()
		require.Eventually(t, func() bool { return scrubState(t, dir, admin).Running }, time.Minute, 10*time.Millisecond)
		// The command now handles signals, since the server is already working on its request.
		require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGINT))
		require.Equal(t, exitFailed, <-status)
		require.Equal(t, "orcas: interrupted; the server continues, and orcas admin scrub --status shows the progress\n", errs.String())

		s := scrubState(t, dir, admin)
		require.True(t, s.Running)
		require.True(t, s.Asked)
		require.EqualValues(t, 1024, s.BytesPerSecond)
		stdout, _ := orcasExits(t, exitOK, "admin", "scrub", "--wait", "--data", dir, "--admin-address", admin)
		require.Contains(t, stdout, "passes: 1, repaired: 0, damaged: 0, missing blocks: 0")
		s = scrubState(t, dir, admin)
		require.False(t, s.Running)
		require.Equal(t, s.BytesTotal, s.BytesDone)
	})
}

// TestScrubReportsReplacedSnapshots: the report counts damaged snapshots that were replaced.
func TestScrubReportsReplacedSnapshots(t *testing.T) {
	dir := filled(t)
	s := openStore(t, dir)
	s.reclaims(true, 0)
	s.Close()
	storetest.FlipFile(t, blockFiles(t, dir, ".snapshot")[0], 200)
	serveWith(t, dir, quiet, func(_ *s3.Client, admin string) {
		stdout, _ := orcasExits(t, exitOK, "admin", "scrub", "--wait", "--data", dir, "--admin-address", admin)
		require.Contains(t, stdout, "damaged metadata snapshots, replaced with a new one: 1\n")
		state := scrubState(t, dir, admin)
		require.Equal(t, 1, state.BadSnapshots)
		require.Equal(t, 1, state.Snapshots)
		orcasExits(t, exitOK, "admin", "fsck", "--content", "--data", dir, "--admin-address", admin)
	})
}

func TestScrubFlags(t *testing.T) {
	for _, args := range []string{"--status --wait", "--status --rate 1MiB", "--rate 12 parsecs", "--rate -1"} {
		_, stderr := orcasExits(t, exitUsage, append([]string{"admin", "scrub"}, strings.Fields(args)...)...)
		require.Contains(t, stderr, "orcas admin scrub --help", args)
	}
}

func TestScrubMeter(t *testing.T) {
	m, at := &scrubMeter{}, time.Unix(1, 0)
	line := func(seconds int, done int64) string {
		return m.line(&scrub.Status{BytesDone: done, BytesTotal: 100 << 20}, at.Add(time.Duration(seconds)*time.Second))
	}
	require.Equal(t, "scrub: 10.0 MiB of 100.0 MiB, 10 %", line(0, 10<<20))
	require.Equal(t, "scrub: 20.0 MiB of 100.0 MiB, 20 %, 5.0 MiB/s, 16s left", line(2, 20<<20))
	require.Equal(t, "scrub: 1.0 MiB of 100.0 MiB, 1 %", line(3, 1<<20), "a new pass")
	require.Equal(t, "scrub: 0 bytes of 0 bytes", (&scrubMeter{}).line(&scrub.Status{}, at))
}

// lockedBuffer is a buffer that several goroutines can use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestWatch: on a terminal each line replaces the previous one, and the last one is cleared at the end; otherwise lines
// are printed one below the other.
func TestWatch(t *testing.T) {
	for terminal, want := range map[bool]string{true: "\r\x1b[K1\r\x1b[K2\r\x1b[K", false: "1\n2\n"} {
		var out lockedBuffer
		texts := make(chan string, 3)
		texts <- "1"
		texts <- ""
		texts <- "2"
		stop := (&adminTarget{}).watchEvery(context.Background(), &console{stderr: &out}, time.Millisecond, terminal, func(context.Context, *adminTarget) string {
			select {
			case text := <-texts:
				return text
			default:
				return ""
			}
		})
		require.Eventually(t, func() bool { return strings.Contains(out.String(), "2") }, time.Minute, time.Millisecond)
		stop()
		require.Equal(t, want, out.String())
	}
}

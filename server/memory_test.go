package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core/frame"
	"orcas/internal/sigv4"
)

// TestPlanMemory: what is in use at the same time fits into the soft limit, and that leaves some for the kernel. With
// much memory, everything that has a maximum has it, and without a limit nothing is changed.
func TestPlanMemory(t *testing.T) {
	require.Zero(t, planMemory(0))
	for _, limit := range []int64{64 << 20, 128 << 20, 256 << 20, 1 << 30, 64 << 30} {
		p := planMemory(limit)
		c := sqliteConnections * p.pageCache
		require.Less(t, p.soft+c, limit*4/5, "%d: the kernel needs memory", limit)
		require.Less(t, p.filter+int64(p.objects)<<10+p.receiving+p.reading, p.soft*9/10, "%d: the heap fits", limit)
		require.GreaterOrEqual(t, p.soft, limit/4)
	}
	p := planMemory(64 << 30)
	require.EqualValues(t, 8<<20, p.pageCache)
	require.Equal(t, 65_536, p.objects)
	require.Equal(t, maxConnections, p.connections)
	require.Equal(t, unsentMax, p.unsent)

	set := Settings{WriteSettings: WriteSettings{MaxBatchBytes: 8 << 20, MaxPackedSize: 64 << 10}}
	small, none := planMemory(128<<20), planMemory(0)
	require.EqualValues(t, 4<<20, small.batchBytes(&set))
	require.EqualValues(t, 8<<20, none.batchBytes(&set))
	set.MaxPackedSize = 6 << 20
	require.EqualValues(t, 6<<20, small.batchBytes(&set), "a packed object must fit into a batch")
}

// TestMemorySetting: ORCAS_MEMORY is a size, or off.
func TestMemorySetting(t *testing.T) {
	for value, want := range map[string]Memory{"256MiB": 256 << 20, "off": MemoryUnlimited, "": 0, "auto": 0} {
		set, err := ReadSettings([]string{"ORCAS_MEMORY=" + value})
		require.NoError(t, err)
		require.Equal(t, want, set.Memory)
	}
	for _, value := range []string{"63MiB", "on", "-1"} {
		_, err := ReadSettings([]string{"ORCAS_MEMORY=" + value})
		require.ErrorContains(t, err, "ORCAS_MEMORY")
	}
	n, _ := MemoryUnlimited.limit()
	require.Zero(t, n)
}

// TestSlowUploads: while slow uploads use all memory for uploads and others wait for it, small uploads are served, and the
// metrics and the status say what is the matter.
func TestSlowUploads(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // so that the test process keeps its own limit
	config := liveConfig(t)
	config.Settings.Memory = minMemory
	s, _ := running(t, config)
	root, clients := s.Credentials(), httpClient(t, s)
	ctx, end := context.WithCancel(t.Context())
	var uploads sync.WaitGroup
	defer uploads.Wait()
	defer end()
	upload := func(path string) {
		body, sender := io.Pipe()
		defer context.AfterFunc(ctx, func() { _ = sender.CloseWithError(ctx.Err()) })()
		r, err := http.NewRequestWithContext(ctx, "PUT", s.Endpoint()+path, body)
		if err != nil {
			panic(err)
		}
		r.ContentLength = 10 << 20
		signer := sigv4.Signer{AccessKey: root.AccessKey, SecretKey: root.SecretKey, Region: "us-east-1"}
		signer.Sign(r, sigv4.UnsignedPayload, time.Now())
		if response, err := clients.Do(r); err == nil {
			_ = response.Body.Close()
		}
	}
	const waiting = 3
	for i := range s.memory.receiving*3/4/frame.MaxPlain + waiting {
		uploads.Go(func() {
			for ctx.Err() == nil { // the server refuses an upload that waits or sends nothing for a long time
				upload(fmt.Sprint("/bucket/slow-", i))
			}
		})
	}
	requireMetric(t, s, fmt.Sprint("orcas_memory_waiting_uploads ", waiting))
	for i := range 10 {
		require.Equal(t, 200, sign(t, s, root.SecretKey, "s3", "PUT", fmt.Sprint("/bucket/small-", i), strings.Repeat("a", 900)))
	}
	requireMetric(t, s, fmt.Sprint("orcas_memory_waiting_uploads ", waiting))
	require.Eventually(t, func() bool {
		_, text, _ := ask(t, s, root.SecretKey, "GET", "/-/admin/status", "")
		return strings.Contains(string(text), "3 uploads wait for memory")
	}, time.Minute, 10*time.Millisecond)
}

// TestMemoryLimit: a server sets the soft limit of the Go runtime, and the bounds of its buffers.
func TestMemoryLimit(t *testing.T) {
	if os.Getenv("GOMEMLIMIT") != "" {
		t.Skip("GOMEMLIMIT is set")
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	s := &Server{log: slog.New(slog.DiscardHandler)}
	s.config.Settings.Memory = 512 << 20
	s.limitMemory()
	require.Equal(t, planMemory(512<<20).soft, debug.SetMemoryLimit(-1))
	require.Equal(t, planMemory(512<<20), s.memory)
	require.LessOrEqual(t, s.connections(), 4096)
}

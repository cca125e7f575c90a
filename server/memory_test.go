package server

import (
	"log/slog"
	"os"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
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

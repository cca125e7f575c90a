package procs

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// restore restores GOMAXPROCS and added at the end of a test.
func restore(t *testing.T) {
	procs, was := runtime.GOMAXPROCS(0), added.Load()
	t.Cleanup(func() {
		runtime.GOMAXPROCS(procs)
		added.Store(was)
	})
	added.Store(0)
}

func TestSpare(t *testing.T) {
	restore(t)
	t.Setenv("GOMAXPROCS", "")
	runtime.GOMAXPROCS(3)
	require.Equal(t, 4, cap(NewTurns()), "without spare processors, one turn more than processors")
	for range 2 {
		AddSpare()
		require.Equal(t, 3+spare, runtime.GOMAXPROCS(0), "spare processors are added once")
		require.Equal(t, 4, cap(NewTurns()))
	}
}

func TestEnvironmentWins(t *testing.T) {
	restore(t)
	t.Setenv("GOMAXPROCS", "1")
	runtime.GOMAXPROCS(1)
	AddSpare()
	require.Equal(t, 1, runtime.GOMAXPROCS(0))
	require.Equal(t, 2, cap(NewTurns()))
}

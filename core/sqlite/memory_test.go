package sqlite

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// TestReleaseMemory: after ReleaseMemory there is no unused reading connection, and reads and writes work as before,
// also at the same time.
func TestReleaseMemory(t *testing.T) {
	m, err := Open(t.TempDir()+"/db", Options{})
	require.NoError(t, err)
	f := feed(t, m, core.VersioningOff)
	f.fill(0, 1000)
	read := func(n int) {
		o, err := m.Object(context.Background(), f.bucket, benchKey(n), core.Current)
		require.NoError(t, err)
		require.EqualValues(t, 4096, o.Size)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				read(100*i + n)
			}
		})
	}
	for n := range 20 {
		m.ReleaseMemory(filterIdle)
		f.apply(f.put(benchKey(1000 + n)))
	}
	wg.Wait()
	require.NoError(t, m.Checkpoint(t.Context())) // the writer's connection reads what is not committed
	m.ReleaseMemory(filterIdle)
	require.Empty(t, m.idle)
	read(0)
	require.Len(t, m.idle, 1)
	require.NoError(t, m.Close())
	m.ReleaseMemory(filterIdle)
}

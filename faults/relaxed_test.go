package faults

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPowerCutAfterAKilledStart: the writes that a killed server with relaxed durability left in the page cache are
// durable once the next server has synced, so a later power cut must not lose them.
func TestPowerCutAfterAKilledStart(t *testing.T) {
	long(t)
	if !private(t) {
		return
	}
	b, disk := newPowerBench(t, buildServer(t, ""), true)
	p := b.Server.(*Process)
	p.Settings = [][]string{{"ORCAS_DURABILITY=relaxed", "ORCAS_WRITE_BUFFER_WINDOW_SEC=1"}}
	ctx := t.Context()
	start := func() *Client {
		endpoint, err := p.Start(ctx)
		require.NoError(t, err)
		return NewClient(endpoint, p.Credentials(), bucket, 1)
	}
	client := start()
	wrote := func() bool { // the first write is the scrub's, which records its start
		found, _ := filepath.Glob(filepath.Join(p.Data, "blocks", "*", "*", "*.packed"))
		return len(found) > 0
	}
	require.Eventually(t, wrote, 10*time.Second, time.Millisecond)
	client.Close()
	require.NoError(t, p.Kill())
	require.NoError(t, disk.SyncAll()) // the server's syncfs, which a strict disk does not see

	client = start()
	require.NoError(t, client.CreateBucket(ctx))
	durable := func() bool {
		health, err := p.relaxed(ctx)
		return err == nil && health.Oldest == 0 && health.Last > 0
	}
	require.Eventually(t, durable, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, disk.Cut())
	client.Close()
	require.NoError(t, p.Kill())
	require.NoError(t, disk.Restore(context.Background()))
	databases, err := filepath.Glob(filepath.Join(p.Data, "metadata.db*"))
	require.NoError(t, err)
	for _, path := range databases { // the blocks must contain everything
		require.NoError(t, os.Remove(path))
	}

	client = start()
	defer client.Close()
	_, err = client.Versioning(ctx)
	require.NoError(t, err, "the bucket must exist")
	require.NoError(t, p.Kill())
}

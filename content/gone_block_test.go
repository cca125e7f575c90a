package content_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/reclaim"
	"orcas/storetest"
)

// TestReaderBesideAnotherServer has another server compact the blocks that this server reads, without knowing about its
// readers. A reader whose block no longer exists must read the metadata again, and continue in the new block.
func TestReaderBesideAnotherServer(t *testing.T) {
	y := storetest.Open(t, storetest.Options{})
	y.Packing(1 << 20)
	y.Set("neighbor", storetest.Filler(1, 300_000))
	y.Set("key", storetest.Filler(2, 300_000))
	for i := range 3 {
		y.Set("neighbor", storetest.Filler(uint64(10+i), 300_000))
		y.Extend("key", storetest.Filler(uint64(20+i), 300_000))
	}
	body := y.Want["key"]
	y.Remove("neighbor")

	before, err := y.FS.Open(ctx, y.Bucket, "key", core.Current) // its blocks are deleted before its first read
	require.NoError(t, err)
	during := begin(y, "key") // its blocks are deleted after its first read
	defer during.Close()
	other, err := reclaim.New(ctx, reclaim.Options{Meta: y.Meta, Blocks: y.Blocks, Writer: y.Writer}) // without Readers
	require.NoError(t, err)
	for range 3 {
		_, err = other.Round(ctx, true)
		require.NoError(t, err)
	}
	for i := range before.Info.Segments {
		for _, x := range before.Info.Segments[i].Info.Extents {
			_, err := y.Blocks.Open(ctx, x)
			require.True(t, core.Is(err, core.NoSuchData), "a block was not moved: %v", err)
		}
	}

	s, err := before.Range(ctx, 0, before.Info.Size)
	require.NoError(t, err)
	defer s.Close()
	for _, r := range []io.Reader{s, during} {
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, got))
	}
	require.Zero(t, y.Reclaimer.Status().Readers, "pins remain")
}

package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/mem"
)

// rows is metadata that consists of a state and records with values of some lengths.
type rows struct {
	core.Snapshotter
	lengths []int
}

func (s rows) Snapshot(_ context.Context, emit func(*core.Row) error) error {
	err := emit(&core.Row{State: &core.State{Seq: 7}})
	for _, n := range s.lengths {
		if err == nil {
			err = emit(&core.Row{Record: &core.Record{Kind: "test", Key: "key", Value: valueOf(n)}})
		}
	}
	return err
}

func valueOf(n int) []byte { return bytes.Repeat([]byte{byte(n), byte(n >> 8), 3}, n/3+1)[:n] }

// TestLongRows reads rows that are shorter and longer than a frame and than the buffers of the reader. Each row has
// memory of its own.
func TestLongRows(t *testing.T) {
	ctx, blocks := context.Background(), mem.NewBlocks()
	lengths := []int{0, 1, 100, 64<<10 - 20, 64 << 10, 64<<10 + 1, frame.MaxPlain, 3*frame.MaxPlain + 5, 2}
	info, err := Write(ctx, rows{lengths: lengths}, blocks, WriteOptions{})
	require.NoError(t, err)
	var got []*core.Record
	require.NoError(t, Read(ctx, blocks, info, func(r *core.Row) error {
		if r.Record != nil {
			got = append(got, r.Record)
		}
		return nil
	}))
	require.EqualValues(t, len(lengths)+1, info.Rows)
	info.Rows = 0
	require.NoError(t, Read(ctx, blocks, info, nil))
	require.EqualValues(t, len(lengths)+1, info.Rows)
	require.Len(t, got, len(lengths))
	for i, n := range lengths {
		require.True(t, bytes.Equal(valueOf(n), got[i].Value), "the record with %d bytes", n)
	}
}

// TestRowsThatAreCutOff checks that a stream that ends within a row, or that has a length that is too high, is damaged.
func TestRowsThatAreCutOff(t *testing.T) {
	ctx := context.Background()
	for name, length := range map[string]uint64{"short": 100, "long": 1 << 20, "longest": maxRow, "too long": maxRow + 1} {
		for _, follow := range []int{0, 50} {
			blocks := mem.NewBlocks()
			bw, err := blocks.Create(ctx, core.BlockOptions{Kind: core.Snapshot})
			require.NoError(t, err)
			w := &writer{w: bw}
			w.zip, err = zstd.NewWriter(nil)
			require.NoError(t, err)
			first := encoding.AppendRow(nil, &core.Row{State: &core.State{}})
			stream := append(binary.AppendUvarint(nil, uint64(len(first))), first...)
			require.NoError(t, w.frame(append(binary.AppendUvarint(stream, length), make([]byte, follow)...), true))
			require.NoError(t, bw.Commit(ctx))
			for _, fn := range []func(*core.Row) error{nil, func(*core.Row) error { return nil }} {
				err = Read(ctx, blocks, &Info{Block: bw.Block(), Size: bw.Offset()}, fn)
				require.True(t, core.Is(err, core.Damaged), "%s: %v", name, err)
			}
		}
	}
}

// TestOtherStream: an intact snapshot that is not the one that was written is damaged.
func TestOtherStream(t *testing.T) {
	ctx, blocks := context.Background(), mem.NewBlocks()
	lengths := []int{1, 100, 3 * frame.MaxPlain}
	info, err := Write(ctx, rows{lengths: lengths}, blocks, WriteOptions{})
	require.NoError(t, err)
	lengths[1]++
	other, err := Write(ctx, rows{lengths: lengths}, blocks, WriteOptions{})
	require.NoError(t, err)
	info.Block, info.Size = other.Block, other.Size
	require.True(t, core.Is(Read(ctx, blocks, info, nil), core.Damaged))
	require.NoError(t, Read(ctx, blocks, other, nil))
}

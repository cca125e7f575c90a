package batch_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/frame"
	"orcas/core/mem"
)

// writeBatch writes a batch with one change, in the layout of the Writer: content, if the change has any, then the
// record. Torn content fails its checksum.
func writeBatch(t *testing.T, blocks core.Blocks, c core.Change, brings func(core.Change) (core.DataID, *[]core.Extent), torn bool) {
	w, err := blocks.Create(t.Context(), core.BlockOptions{Kind: core.Packed})
	require.NoError(t, err)
	start := w.Offset()
	var b []byte
	add := func(h frame.Header, payload []byte) {
		h.Block, h.Offset, h.Plain, h.Last = w.Block(), start+int64(len(b)), uint32(len(payload)), true
		at := len(b)
		b = append(append(b, make([]byte, frame.HeaderSize)...), payload...)
		frame.Encode(b[at:], &h, payload)
	}
	if brings != nil {
		id, extents := brings(c)
		content := make([]byte, 200-frame.HeaderSize) // as long as the extents of EveryChange
		add(frame.Header{Type: frame.Data, ID: uint64(id)}, content)
		*extents = []core.Extent{{Block: w.Block(), Offset: start, Length: int64(len(b))}}
		if torn {
			b[len(b)-1] ^= 1
		}
	}
	record := encoding.AppendChanges(binary.BigEndian.AppendUint64(nil, uint64(start)), []core.Change{c})
	add(frame.Header{Type: frame.Record, ID: uint64(c.Stamp())}, record)
	_, err = w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Commit(t.Context()))
}

// TestEveryChangeIsRecovered writes every kind of change to blocks and rebuilds the metadata from them. If the blocks
// end after a change, the metadata is rebuilt up to that change. If a crash has torn the content of the last change,
// that change is not applied.
func TestEveryChangeIsRecovered(t *testing.T) {
	ctx := t.Context()
	read := func(m core.Meta) *coretest.MetaState {
		s, err := coretest.ReadMeta(ctx, m, "user")
		require.NoError(t, err)
		return s
	}
	recovered := func(blocks core.Blocks) (*coretest.MetaState, *batch.Recovery) {
		m := mem.NewMeta()
		r, err := batch.Recover(ctx, m, blocks, discard())
		require.NoError(t, err)
		return read(m), r
	}
	for n := range coretest.EveryChange() {
		blocks, want, w := mem.NewBlocks(), mem.NewMeta(), &coretest.Walk{}
		for i, row := range coretest.EveryChange()[:n+1] {
			c := row.Change(w)
			w.Stamp(c)
			if i == n && row.Brings != nil {
				torn := blocks.Crash()
				writeBatch(t, torn, c, row.Brings, true)
				before := read(want)
				got, r := recovered(torn)
				require.Equal(t, before, got, "%T, torn", c)
				require.Equal(t, []*core.Void{{From: c.Stamp(), To: c.Stamp()}}, r.Voids, "%T, torn", c)
			}
			writeBatch(t, blocks, c, row.Brings, false)
			results, err := want.Apply(ctx, []core.Change{c})
			require.NoError(t, err)
			require.NoError(t, results[0].Err, "%T", c)
			w.Done(c, results[0])
			if i == n {
				got, r := recovered(blocks)
				require.Equal(t, read(want), got, "%T", c)
				require.Equal(t, c.Stamp(), r.Seq)
				if row.Brings != nil {
					id, _ := row.Brings(c)
					require.Greater(t, r.NextData, id, "%T", c)
				}
			}
		}
	}
}

package content_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/storetest"
)

// TestReadErrorsKeepTheirKind checks that a read error is Damaged, and ends sharing, only if it proves that the stored
// bytes are damaged or missing. Any other error of the block store must be returned unchanged, without writing a
// change.
func TestReadErrorsKeepTheirKind(t *testing.T) {
	for _, size := range []int{3000, 70_000} {
		for _, c := range []struct {
			call       string
			kind, want core.Kind
		}{
			{"Open", core.NoSuchData, core.Damaged}, // the block is missing
			{"ReadAt", core.Damaged, core.Damaged},  // the block ends inside the extent
			{"Open", core.Internal, core.Internal},  // permission denied
			{"ReadAt", core.Internal, core.Internal},
			{"Open", core.Overloaded, core.Overloaded},
			{"Open", core.Unavailable, core.Unavailable},
			{"Open", core.Canceled, core.Canceled},
			{"ReadAt", core.Canceled, core.Canceled},
		} {
			t.Run(fmt.Sprintf("%d bytes, %s: %v", size, c.call, c.kind), func(t *testing.T) {
				blocks, meta := coretest.NewFaultyBlocks(mem.NewBlocks()), mem.NewMeta()
				y := storetest.Open(t, storetest.Options{Blocks: blocks, Meta: meta})
				body := storetest.Random(1, size)
				y.Put("k", body)
				before, err := meta.State(ctx)
				require.NoError(t, err)

				blocks.Fail(coretest.Fault{Call: c.call, Nth: 1, On: true, Kind: c.kind})
				_, err = y.Read("k", 0, -1)
				require.ErrorIs(t, err, coretest.ErrInjected)
				require.Equal(t, c.want, core.KindOf(err), "%v", err)

				blocks.Fail(coretest.Fault{})
				after, err := meta.State(ctx)
				require.NoError(t, err)
				if c.want != core.Damaged {
					require.Equal(t, before.Seq, after.Seq, "a change was written")
				} else {
					require.Greater(t, after.Seq, before.Seq, "the damage was not recorded")
				}
				got, err := y.Read("k", 0, -1)
				require.NoError(t, err)
				require.Equal(t, body, got)
			})
		}
	}
}

// TestDamageOfAnOldPlaceEndsNoSharing checks that content is not marked as damaged if it was moved before a reader
// found damage in its old extents.
func TestDamageOfAnOldPlaceEndsNoSharing(t *testing.T) {
	blocks, meta := coretest.NewFaultyBlocks(mem.NewBlocks()), &moving{Meta: mem.NewMeta()}
	y := storetest.Open(t, storetest.Options{Blocks: blocks, Meta: meta})
	y.Put("k", storetest.Random(1, 3000))
	before, err := meta.State(ctx)
	require.NoError(t, err)
	meta.moved = true
	blocks.Fail(coretest.Fault{Call: "ReadAt", Nth: 1, Kind: core.Damaged})
	_, err = y.Read("k", 0, -1)
	require.Equal(t, core.Damaged, core.KindOf(err), "%v", err)
	after, err := meta.State(ctx)
	require.NoError(t, err)
	require.Equal(t, before.Seq, after.Seq, "a change was written")
}

// moving is a Meta that pretends that all content has been moved.
type moving struct {
	*mem.Meta
	moved bool
}

// Data implements core.Meta.
func (m *moving) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	found, err := m.Meta.Data(ctx, ids)
	for i := range found {
		for j := range found[i].Extents {
			if m.moved {
				found[i].Extents[j].Offset += 4096
			}
		}
	}
	return found, err
}

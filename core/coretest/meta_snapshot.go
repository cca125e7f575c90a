package coretest

import (
	"context"
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
)

// Rows returns everything that an engine says of itself, each row in its binary form.
func Rows(ctx context.Context, m core.Snapshotter) ([][]byte, error) {
	var rows [][]byte
	err := m.Snapshot(ctx, func(r *core.Row) error {
		rows = append(rows, core.AppendRow(nil, r))
		return nil
	})
	return rows, err
}

// NextOf returns what Restore asks for rows.
func NextOf(rows [][]byte) func() (*core.Row, error) {
	return func() (*core.Row, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		row := slices.Clone(rows[0])
		rows = rows[1:]
		return core.DecodeRow(row)
	}
}

// snapshots holds what the engine says of itself against what it says in answer to reads: another engine that is filled with it answers
// the same, and so does a fresh one of this kind that is filled with what the model says.
func (h *harness) snapshots() {
	own, ok := h.m.(core.Snapshotter)
	if !ok {
		return
	}
	want := h.state()
	rows, err := Rows(h.ctx, own)
	require.NoError(h.t, err)
	other := mem.NewMeta()
	require.NoError(h.t, other.Restore(h.ctx, NextOf(rows)))
	require.Equal(h.t, want, h.read(other), "the engine (expected) and what was made of its snapshot (actual)")
	if h.open == nil {
		return
	}
	if rows, err = Rows(h.ctx, other); err != nil {
		require.NoError(h.t, err)
	}
	fresh := h.open()
	defer fresh.Close()
	restorer := fresh.(core.Snapshotter)
	failed := errors.New("no more")
	half := NextOf(rows[:len(rows)/2])
	require.ErrorIs(h.t, restorer.Restore(h.ctx, func() (*core.Row, error) {
		if row, err := half(); row != nil || err != nil {
			return row, err
		}
		return nil, failed
	}), failed)
	require.Equal(h.t, core.State{NextData: 1}, h.read(fresh).State, "after a try that failed")
	require.Empty(h.t, h.read(fresh).Buckets)
	require.NoError(h.t, restorer.Restore(h.ctx, NextOf(rows)))
	require.Equal(h.t, want, h.read(fresh), "the engine (expected) and a fresh one (actual)")
	h.checkFound(fresh, want)
	if want.State.Seq > 0 {
		require.True(h.t, core.Is(restorer.Restore(h.ctx, NextOf(rows)), core.Conflict), "a second time")
	}
	require.NoError(h.t, restorer.Reset(h.ctx))
	require.Equal(h.t, core.State{NextData: 1}, h.read(fresh).State, "after a reset")
	require.Empty(h.t, h.read(fresh).Buckets)
	require.NoError(h.t, restorer.Restore(h.ctx, NextOf(rows)))
	require.Equal(h.t, want, h.read(fresh), "after a reset")
	h.checkFound(fresh, want)
}

// snapshotCases are about what a snapshot holds.
func snapshotCases() []metaCase {
	return []metaCase{
		{"snapshot/of an empty engine", func(*harness) {}},
		{"snapshot/of everything", func(h *harness) { h.everything() }},
		{"snapshot/content whose first owner is gone", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			o := h.put(b, "k")
			h.ok(h.copyOf(o, b, "a"))
			h.ok(h.copyOf(o, b, "z"))
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: o.Version(), Modified: h.at()})
		}},
		{"snapshot/a list in the garbage, half worked off", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.multipart(b, "m", 4)
			h.remove(b, "m")
			h.ok(&core.DropParts{Garbage: h.entries()[0].ID, Count: 2})
		}},
		{"snapshot/a row that refers to content that never comes", func(h *harness) {
			if _, ok := h.m.(core.Snapshotter); !ok || h.open == nil {
				return
			}
			b := h.bucket("b", core.VersioningOff)
			h.multipart(b, "m", 2)
			rows, err := Rows(h.ctx, h.m.(core.Snapshotter))
			require.NoError(h.t, err)
			missing := slices.DeleteFunc(rows, func(b []byte) bool {
				row, err := core.DecodeRow(slices.Clone(b))
				return err == nil && row.Data != nil
			})
			fresh := h.open()
			defer fresh.Close()
			err = fresh.(core.Snapshotter).Restore(h.ctx, NextOf(missing))
			require.True(h.t, core.Is(err, core.NoSuchData), "%v", err)
			require.Empty(h.t, h.read(fresh).Buckets)
		}},
	}
}

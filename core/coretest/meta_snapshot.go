package coretest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/core/mem"
)

// Rows returns the encoded rows of a snapshot of an engine.
func Rows(ctx context.Context, m core.Snapshotter) ([][]byte, error) {
	var rows [][]byte
	err := m.Snapshot(ctx, func(r *core.Row) error {
		rows = append(rows, encoding.AppendRow(nil, r))
		return nil
	})
	return rows, err
}

// SameRows checks that two snapshots have the same rows, in any order.
func SameRows(t require.TestingT, want, got [][]byte, when string) {
	want, got = slices.Clone(want), slices.Clone(got)
	slices.SortFunc(want, bytes.Compare)
	slices.SortFunc(got, bytes.Compare)
	if slices.EqualFunc(want, got, bytes.Equal) {
		return
	}
	for _, side := range []struct {
		what     string
		in, from [][]byte
	}{{"missing", want, got}, {"unexpected", got, want}} {
		for _, row := range side.in {
			if _, found := slices.BinarySearchFunc(side.from, row, bytes.Compare); !found {
				r, err := encoding.DecodeRow(slices.Clone(row))
				require.NoError(t, err)
				require.Fail(t, "the snapshot differs", "%s: %s: %+v", when, side.what, describe(r))
			}
		}
	}
	require.Equal(t, len(want), len(got), "%s: rows of the snapshot", when)
}

// describe returns the noun of a row.
func describe(r *core.Row) any {
	switch {
	case r.State != nil:
		return *r.State
	case r.Bucket != nil:
		return *r.Bucket
	case r.Data != nil:
		return *r.Data
	case r.Object != nil:
		return *r.Object
	case r.Upload != nil:
		return *r.Upload
	case r.Part != nil:
		return *r.Part
	case r.Garbage != nil:
		return *r.Garbage
	}
	return *r.Record
}

// NextOf returns a function that returns the rows one after the other, for Restore.
func NextOf(rows [][]byte) func() (*core.Row, error) {
	return func() (*core.Row, error) {
		if len(rows) == 0 {
			return nil, nil
		}
		row := slices.Clone(rows[0])
		rows = rows[1:]
		return encoding.DecodeRow(row)
	}
}

// snapshots checks the snapshot of the engine. A model that is restored from it must have the same state as the engine,
// and so must a new engine of the same kind that is restored from a snapshot of that model.
func (h *harness) snapshots() {
	own, ok := core.As[core.Snapshotter](h.m)
	if !ok {
		return
	}
	want := h.state()
	rows, err := Rows(h.ctx, own)
	require.NoError(h.t, err)
	h.places(rows)
	other := mem.NewMeta()
	require.NoError(h.t, other.Restore(h.ctx, NextOf(rows)))
	require.Equal(h.t, want, h.read(other), "the model restored from the snapshot (actual) differs from the engine (expected)")
	if h.open == nil {
		return
	}
	if rows, err = Rows(h.ctx, other); err != nil {
		require.NoError(h.t, err)
	}
	fresh := h.open()
	defer fresh.Close()
	restorer, ok := core.As[core.Snapshotter](fresh)
	require.True(h.t, ok)
	failed := errors.New("cannot read the next row")
	half := NextOf(rows[:len(rows)/2])
	require.ErrorIs(h.t, restorer.Restore(h.ctx, func() (*core.Row, error) {
		if row, err := half(); row != nil || err != nil {
			return row, err
		}
		return nil, failed
	}), failed)
	require.Equal(h.t, core.State{NextData: 1}, h.read(fresh).State, "after a failed Restore")
	require.Empty(h.t, h.read(fresh).Buckets)
	require.NoError(h.t, restorer.Restore(h.ctx, NextOf(rows)))
	require.Equal(h.t, want, h.read(fresh), "the restored engine (actual) differs from the original (expected)")
	h.checkFound(fresh, want)
	if want.State.Seq > 0 {
		require.True(h.t, core.Is(restorer.Restore(h.ctx, NextOf(rows)), core.Conflict), "a second Restore must fail")
	}
	require.NoError(h.t, restorer.Reset(h.ctx))
	require.Equal(h.t, core.State{NextData: 1}, h.read(fresh).State, "after Reset")
	require.Empty(h.t, h.read(fresh).Buckets)
	require.NoError(h.t, restorer.Restore(h.ctx, NextOf(rows)))
	require.Equal(h.t, want, h.read(fresh), "restored after Reset")
	h.checkFound(fresh, want)
}

// places compares the results of Places with the extents in the snapshot.
func (h *harness) places(rows [][]byte) {
	placer, ok := core.As[core.Placer](h.m)
	if !ok {
		return
	}
	type place struct {
		id    core.DataID
		block core.BlockID
	}
	known, want, got := map[place]bool{}, core.BlockContents{}, core.BlockContents{}
	var total core.BlockContent
	add := func(d *core.DataInfo) {
		total.Contents++
		total.Bytes += d.Size
		for _, e := range d.Extents {
			of := want[e.Block]
			if of.Bytes += e.Length; !known[place{d.ID, e.Block}] {
				of.Contents++
			}
			known[place{d.ID, e.Block}], want[e.Block] = true, of
		}
	}
	for _, row := range rows {
		r, err := encoding.DecodeRow(slices.Clone(row))
		require.NoError(h.t, err)
		r.EachData(add)
	}
	all, err := placer.Places(h.ctx, func(block core.BlockID, of core.BlockContent) error {
		require.NotContains(h.t, got, block)
		got[block] = of
		return nil
	})
	require.NoError(h.t, err)
	require.Equal(h.t, want, got)
	require.Equal(h.t, total, all)
	if len(want) > 0 {
		failed := errors.New("enough")
		_, err := placer.Places(h.ctx, func(core.BlockID, core.BlockContent) error { return failed })
		require.ErrorIs(h.t, err, failed)
	}
}

// snapshotCases returns the cases about the rows of a snapshot.
func snapshotCases() []metaCase {
	return []metaCase{
		{"snapshot/of an empty engine", func(*harness) {}},
		{"snapshot/of everything", func(h *harness) { h.everything() }},
		{"snapshot/content whose first version was deleted", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			o := h.put(b, "k")
			h.ok(h.copyOf(o, b, "a"))
			h.ok(h.copyOf(o, b, "z"))
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: o.Version(), Modified: h.at()})
		}},
		{"snapshot/a list in the garbage, partly deleted", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.multipart(b, "m", 4)
			h.remove(b, "m")
			h.ok(&core.DropParts{Garbage: h.entries()[0].ID, Count: 2})
		}},
		{"snapshot/content with a lower DataID that is committed meanwhile", func(h *harness) {
			own, ok := core.As[core.Snapshotter](h.m)
			if !ok {
				return
			}
			b := h.bucket("b", core.VersioningOff)
			h.data = 20
			h.put(b, "k")
			h.put(b, "l")
			want, err := Rows(h.ctx, own)
			require.NoError(h.t, err)
			h.data = 10
			var got [][]byte
			require.NoError(h.t, own.Snapshot(h.ctx, func(r *core.Row) error {
				got = append(got, encoding.AppendRow(nil, r))
				if len(got) == 1 {
					h.put(b, "late")
					h.part(b, "u", h.begin(b, "u"), 1)
				}
				return nil
			}))
			SameRows(h.t, want, got, "beside changes")
			h.data = 30
		}},
		{"snapshot/that a callback ends", func(h *harness) {
			own, ok := core.As[core.Snapshotter](h.m)
			if !ok {
				return
			}
			h.everything()
			rows, err := Rows(h.ctx, own)
			require.NoError(h.t, err)
			failed := errors.New("enough")
			for _, n := range []int{0, 1, 7, len(rows) / 2, len(rows) - 1} {
				seen := 0
				require.ErrorIs(h.t, own.Snapshot(h.ctx, func(*core.Row) error {
					if seen++; seen > n {
						return failed
					}
					return nil
				}), failed)
			}
			again, err := Rows(h.ctx, own)
			require.NoError(h.t, err)
			SameRows(h.t, rows, again, "after snapshots that were ended")
		}},
		{"snapshot/a row that refers to missing content", func(h *harness) {
			own, ok := core.As[core.Snapshotter](h.m)
			if !ok || h.open == nil {
				return
			}
			b := h.bucket("b", core.VersioningOff)
			h.multipart(b, "m", 2)
			rows, err := Rows(h.ctx, own)
			require.NoError(h.t, err)
			missing := slices.DeleteFunc(rows, func(b []byte) bool {
				row, err := encoding.DecodeRow(slices.Clone(b))
				return err == nil && row.Data != nil
			})
			fresh := h.open()
			defer fresh.Close()
			restorer, ok := core.As[core.Snapshotter](fresh)
			require.True(h.t, ok)
			err = restorer.Restore(h.ctx, NextOf(missing))
			require.True(h.t, core.Is(err, core.NoSuchData), "%v", err)
			require.Empty(h.t, h.read(fresh).Buckets)
		}},
	}
}

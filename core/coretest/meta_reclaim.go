package coretest

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
)

// elsewhere returns new extents with the same lengths.
func (m *maker) elsewhere(from []core.Extent) []core.Extent {
	to := slices.Clone(from)
	for i := range to {
		m.moved++
		to[i].Block, to[i].Offset = core.MakeBlockID(8, 1, m.moved), 64
	}
	return to
}

// contentOf returns the DataInfo of a DataID.
func (r *reader) contentOf(id core.DataID) core.DataInfo {
	found, err := r.m.Data(r.ctx, []core.DataID{id})
	require.NoError(r.t, err)
	require.Len(r.t, found, 1)
	return found[0]
}

// entries returns all garbage entries.
func (r *reader) entries() []core.Garbage {
	found, err := r.m.Garbage(r.ctx, 0, 1<<20)
	require.NoError(r.t, err)
	return found
}

// free frees garbage entries.
func (h *harness) free(ids ...uint64) {
	for _, g := range h.entries() {
		if g.List == 0 && slices.Contains(ids, g.ID) {
			h.freed = append(h.freed, g.Extents...)
		}
	}
	h.ok(&core.FreeGarbage{IDs: ids})
}

// reclaimCases returns the cases about moved content and freed garbage.
func reclaimCases() []metaCase {
	return []metaCase{
		{"reclaim/a move changes the extents for every reference", reclaimMove},
		{"reclaim/a move requires existing content, its current extents, and the same lengths", reclaimMoveRefused},
		{"reclaim/a repair applies to every reference", reclaimRepair},
		{"reclaim/a repair requires existing content, its current extents, and equal content", reclaimRepairRefused},
		{"reclaim/a data key is rewrapped for every reference", reclaimRewrap},
		{"reclaim/content can be moved and rewrapped", reclaimMoveAndRewrap},
		{"reclaim/a rewrap requires existing content and its current data key", reclaimRewrapRefused},
		{"reclaim/the ID of garbage is derived from the sequence of the change", reclaimGarbageIDs},
		{"reclaim/FreeGarbage frees extents, but not lists", reclaimFreeByID},
		{"reclaim/a list is deleted in slices", reclaimDropParts},
		{"reclaim/only a list in the garbage can be deleted", reclaimDropPartsRefused},
	}
}

func reclaimMove(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	h.ok(h.copyOf(o, b, "l"))
	id, from := o.Segments[0].Data, o.Segments[0].Info.Extents
	h.get(b, "k", core.Current) // so that a cache has it
	to := h.elsewhere(from)
	h.ok(&core.MoveData{Data: id, From: from, To: to})
	for _, key := range []string{"k", "l"} {
		require.Equal(h.t, to, h.get(b, key, core.Current).Segments[0].Info.Extents)
	}
	d := h.contentOf(id)
	require.Equal(h.t, to, d.Extents)
	require.EqualValues(h.t, 2, d.Refs, "a move must not change the reference count")
	require.Equal(h.t, o.Segments[0].Info.SHA256, d.SHA256)
	require.Equal(h.t, o.Segments[0].Info.Sums, d.Sums)
	extents, _ := h.trash()
	require.Equal(h.t, from, extents, "the old extents must be garbage")
	h.remove(b, "k")
	h.remove(b, "l")
	extents, _ = h.trash()
	require.ElementsMatch(h.t, append(slices.Clone(from), to...), extents)
}

func reclaimMoveRefused(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	id, from := o.Segments[0].Data, o.Segments[0].Info.Extents
	to := h.elsewhere(from)
	h.fails(core.NoSuchData, &core.MoveData{Data: 999, From: from, To: to})
	h.fails(core.Conflict, &core.MoveData{Data: id, From: to, To: from})
	h.fails(core.Conflict, &core.MoveData{Data: id, To: to})
	longer := slices.Clone(to)
	longer[0].Length++
	h.fails(core.InvalidArgument, &core.MoveData{Data: id, From: from, To: longer})
	h.fails(core.InvalidArgument, &core.MoveData{Data: id, From: from, To: append(to, to[0])})
	h.ok(&core.MoveData{Data: id, From: from, To: to})
	h.fails(core.Conflict, &core.MoveData{Data: id, From: from, To: h.elsewhere(from)})
	h.remove(b, "k")
	h.fails(core.NoSuchData, &core.MoveData{Data: id, From: to, To: from})
}

func reclaimRepair(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.sharable(b.ID, 1500, 1)
	s.Info.DataKey = []byte("wrapped")
	h.ok(&core.PutObject{Object: h.object(b, "k", s)})
	o := h.get(b, "k", core.Current)
	h.ok(h.copyOf(o, b, "l"))
	h.get(b, "l", core.Current) // so that a cache has both
	h.ok(&core.Unshare{Data: s.Data})
	from := s.Info.Extents
	for i := range 2 { // repair content that is marked as damaged, and then content that is not
		info := h.repaired(s.Info)
		h.ok(&core.RepairData{From: from, Info: info})
		d := h.contentOf(s.Data)
		want := *info
		want.Sums, want.Scope, want.Refs = s.Info.Sums, s.Info.Scope, 2
		require.Equal(h.t, want, d, "repair %d", i)
		for _, key := range []string{"k", "l"} {
			require.Equal(h.t, d, *h.get(b, key, core.Current).Segments[0].Info)
		}
		extents, _ := h.trash()
		for _, e := range from {
			require.Contains(h.t, extents, e, "the damaged copy must be garbage")
		}
		require.Equal(h.t, s.Data, h.found(s.Info.ContentKey()))
		from = info.Extents
	}
	h.ok(h.equalTo(b, "m", s.Info))
	require.EqualValues(h.t, 3, h.refs(s.Data))
}

func reclaimRepairRefused(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.sharable(b.ID, 1500, 1)
	s.Info.DataKey = []byte("wrapped")
	h.ok(&core.PutObject{Object: h.object(b, "k", s)})
	h.ok(&core.Unshare{Data: s.Data})
	for i, change := range []func(*core.DataInfo){
		func(d *core.DataInfo) { d.Size++ },
		func(d *core.DataInfo) { d.SHA256[5]++ },
		func(d *core.DataInfo) { d.Extents = nil },
		func(d *core.DataInfo) { d.KeyID, d.DataKey = 0, nil },
		func(d *core.DataInfo) { d.DataKey = nil },
	} {
		info := h.repaired(s.Info)
		change(info)
		h.fails(core.InvalidArgument, &core.RepairData{From: s.Info.Extents, Info: info})
		require.True(h.t, h.contentOf(s.Data).Damaged, "change %d", i)
	}
	h.fails(core.Conflict, &core.RepairData{Info: h.repaired(s.Info)})
	h.ok(&core.RepairData{From: s.Info.Extents, Info: h.repaired(s.Info)})
	h.fails(core.Conflict, &core.RepairData{From: s.Info.Extents, Info: h.repaired(s.Info)})
	extents := h.contentOf(s.Data).Extents
	h.remove(b, "k")
	h.fails(core.NoSuchData, &core.RepairData{From: extents, Info: h.repaired(s.Info)})
}

func reclaimRewrap(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.content(1500)
	s.Info.KeyID, s.Info.DataKey = 1, []byte("old")
	h.ok(&core.PutObject{Object: h.object(b, "k", s)})
	o := h.get(b, "k", core.Current) // so that a cache has it
	h.ok(h.copyOf(o, b, "l"))
	h.get(b, "l", core.Current)
	for _, c := range []*core.RewrapData{
		{Data: s.Data, From: []byte("old"), KeyID: 2, DataKey: []byte("new")},
		{Data: s.Data, From: []byte("new"), KeyID: 2, DataKey: []byte("newer")},
		{Data: s.Data, From: []byte("newer"), KeyID: 1, DataKey: []byte("old")},
	} {
		h.ok(c)
		d := h.contentOf(s.Data)
		for _, key := range []string{"k", "l"} {
			got := h.get(b, key, core.Current).Segments[0].Info
			require.Equal(h.t, c.KeyID, got.KeyID)
			require.Equal(h.t, c.DataKey, got.DataKey)
			require.Equal(h.t, d, *got)
		}
		require.EqualValues(h.t, 2, d.Refs)
		require.Equal(h.t, s.Info.Extents, d.Extents)
		require.Equal(h.t, s.Info.SHA256, d.SHA256)
	}
	extents, _ := h.trash()
	require.Empty(h.t, extents)
}

func reclaimMoveAndRewrap(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s := h.content(500)
	s.Info.KeyID, s.Info.DataKey = 1, []byte("old")
	h.ok(&core.PutObject{Object: h.object(b, "k", s)})
	for i := range byte(4) {
		o := h.get(b, "k", core.Current).Segments[0].Info
		move := &core.MoveData{Data: s.Data, From: o.Extents, To: h.elsewhere(o.Extents)}
		rewrap := &core.RewrapData{Data: s.Data, From: o.DataKey, KeyID: 2 + uint32(i), DataKey: []byte{i}}
		if h.ok(move); i%2 == 0 {
			h.get(b, "k", core.Current)
		}
		h.ok(rewrap)
		o = h.get(b, "k", core.Current).Segments[0].Info
		require.Equal(h.t, move.To, o.Extents)
		require.Equal(h.t, rewrap.DataKey, o.DataKey)
	}
}

func reclaimRewrapRefused(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	s, plain := h.content(1500), h.content(1500)
	s.Info.KeyID, s.Info.DataKey = 1, []byte("old")
	plain.Info.KeyID, plain.Info.DataKey = 0, nil
	h.ok(&core.PutObject{Object: h.object(b, "k", s)})
	h.ok(&core.PutObject{Object: h.object(b, "plain", plain)})
	old, to := []byte("old"), []byte("new")
	h.fails(core.NoSuchData, &core.RewrapData{Data: 999, From: old, KeyID: 2, DataKey: to})
	h.fails(core.Conflict, &core.RewrapData{Data: s.Data, From: to, KeyID: 2, DataKey: to})
	h.fails(core.Conflict, &core.RewrapData{Data: plain.Data, From: old, KeyID: 2, DataKey: to})
	h.fails(core.InvalidArgument, &core.RewrapData{Data: plain.Data, KeyID: 2, DataKey: to})
	h.fails(core.InvalidArgument, &core.RewrapData{Data: s.Data, From: old, DataKey: to})
	h.fails(core.InvalidArgument, &core.RewrapData{Data: s.Data, From: old, KeyID: 2})
	h.ok(&core.RewrapData{Data: s.Data, From: old, KeyID: 2, DataKey: to})
	h.fails(core.Conflict, &core.RewrapData{Data: s.Data, From: old, KeyID: 2, DataKey: to})
	h.remove(b, "k")
	h.fails(core.NoSuchData, &core.RewrapData{Data: s.Data, From: to, KeyID: 2, DataKey: to})
}

func reclaimGarbageIDs(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "k")
	h.multipart(b, "m", 2)
	h.remove(b, "k")
	first := 2 * uint64(h.seq)
	h.remove(b, "m")
	found := h.entries()
	require.Len(h.t, found, 2)
	require.Equal(h.t, []uint64{first, 2*uint64(h.seq) + 1}, []uint64{found[0].ID, found[1].ID})
}

func reclaimFreeByID(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	for _, key := range []string{"a", "b", "c"} {
		h.put(b, key)
		h.remove(b, key)
	}
	h.multipart(b, "m", 2)
	h.remove(b, "m")
	all := h.entries()
	require.Len(h.t, all, 4)
	h.free(all[1].ID, all[3].ID, 12345, all[1].ID)
	left := h.entries()
	require.Equal(h.t, []core.Garbage{all[0], all[2], all[3]}, left)
	h.free(all[0].ID, all[2].ID)
	require.Equal(h.t, []core.Garbage{all[3]}, h.entries())
	h.ok(&core.FreeGarbage{})
}

func reclaimDropParts(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.multipart(b, "m", 5)
	parts, err := h.m.Parts(h.ctx, o.List, 0, 9, core.WithContent)
	require.NoError(h.t, err)
	shared := parts[0].Segments[0].Data
	h.ok(&core.PutObject{Object: h.object(b, "shares", core.Segment{Data: shared, Length: 50})})
	h.remove(b, "m")
	id := h.entries()[0].ID
	for _, want := range []int{3, 1} {
		h.ok(&core.DropParts{Garbage: id, Count: 2})
		left, err := h.m.Parts(h.ctx, o.List, 0, 9, core.WithContent)
		require.NoError(h.t, err)
		require.Len(h.t, left, want)
		require.Equal(h.t, parts[5-want].Number, left[0].Number)
	}
	require.EqualValues(h.t, 1, h.refs(shared), "content with other references must be kept")
	h.ok(&core.DropParts{Garbage: id, Count: 2})
	extents, lists := h.trash()
	require.Empty(h.t, lists)
	require.Len(h.t, extents, 4)
	h.fails(core.NoSuchData, &core.DropParts{Garbage: id, Count: 2})
}

func reclaimDropPartsRefused(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	h.put(b, "k")
	h.remove(b, "k")
	h.fails(core.NoSuchData, &core.DropParts{Garbage: h.entries()[0].ID, Count: 1})
	h.fails(core.NoSuchData, &core.DropParts{Garbage: 777, Count: 1})
	o := h.multipart(b, "m", 2)
	h.fails(core.NoSuchData, &core.DropParts{Garbage: uint64(o.List), Count: 1})
	h.remove(b, "m")
	id := h.entries()[1].ID
	h.ok(&core.DropParts{Garbage: id}) // drops 0 parts
	require.Len(h.t, h.entries(), 2)
	h.ok(&core.DropParts{Garbage: id, Count: 100})
}

// move draws a move of content, one time in five with wrong current extents.
func (s *simulation) move() core.Change {
	c := &core.MoveData{Data: core.DataID(rapid.Uint64Range(1, uint64(s.data)+1).Draw(s.t, "data"))}
	found, err := s.model.Data(s.ctx, []core.DataID{c.Data})
	require.NoError(s.t, err)
	if len(found) > 0 && !s.one(5) {
		c.From = found[0].Extents
	}
	c.To = s.elsewhere(c.From)
	return c
}

// repaired returns the Info of a RepairData: the same content in another location, stored differently.
func (m *maker) repaired(d *core.DataInfo) *core.DataInfo {
	info := &core.DataInfo{
		ID: d.ID, Size: d.Size, SHA256: d.SHA256, KeyID: d.KeyID, Codec: d.Codec ^ 1, ChunkSize: 2 << 20, Dictionary: d.Dictionary + 1,
		Extents: m.elsewhere([]core.Extent{{Length: d.Size + 90}, {Length: 7}}), Written: m.at(),
	}
	if d.KeyID != 0 {
		info.DataKey = append([]byte("repaired "), d.DataKey...)
	}
	return info
}

// repair draws a repair of content, one time in five with wrong current extents.
func (s *simulation) repair() core.Change {
	id := core.DataID(rapid.Uint64Range(1, uint64(s.data)+1).Draw(s.t, "data"))
	found, err := s.model.Data(s.ctx, []core.DataID{id})
	require.NoError(s.t, err)
	if len(found) == 0 {
		return &core.RepairData{Info: &core.DataInfo{ID: id}}
	}
	c := &core.RepairData{Info: s.repaired(&found[0])}
	if !s.one(5) {
		c.From = found[0].Extents
	}
	if s.one(10) {
		c.Info.Size++
	}
	return c
}

// rewrap draws a RewrapData, one time in five with a wrong current data key.
func (s *simulation) rewrap() core.Change {
	c := &core.RewrapData{Data: core.DataID(rapid.Uint64Range(1, uint64(s.data)+1).Draw(s.t, "data")), From: []byte("other")}
	found, err := s.model.Data(s.ctx, []core.DataID{c.Data})
	require.NoError(s.t, err)
	if len(found) > 0 && !s.one(5) {
		c.From = found[0].DataKey
	}
	c.KeyID = rapid.Uint32Range(0, 3).Draw(s.t, "key id")
	c.DataKey = rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(s.t, "data key")
	return c
}

// free draws garbage to free.
func (s *simulation) free() core.Change {
	c := &core.FreeGarbage{}
	found, err := s.model.Garbage(s.ctx, 0, 1<<20)
	require.NoError(s.t, err)
	for _, g := range found {
		if s.one(2) {
			continue
		}
		c.IDs = append(c.IDs, g.ID)
		if g.List == 0 {
			s.freed = append(s.freed, g.Extents...)
		}
	}
	return c
}

// parts draws a DropParts.
func (s *simulation) parts() core.Change {
	c := &core.DropParts{Garbage: 1, Count: rapid.IntRange(0, 3).Draw(s.t, "count")}
	found, err := s.model.Garbage(s.ctx, 0, 1<<20)
	require.NoError(s.t, err)
	if len(found) > 0 {
		c.Garbage = rapid.SampledFrom(found).Draw(s.t, "garbage").ID
	}
	return c
}

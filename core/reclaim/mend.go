package reclaim

import (
	"context"
	"errors"
	"slices"

	"orcas/core"
	"orcas/core/frame"
)

// lookInto finds out what is damaged in the suspect blocks, and mends what can be mended.
func (s *Scrubber) lookInto(ctx context.Context) error {
	s.looked = s.o.Now()
	if len(s.suspects) == 0 {
		return nil
	}
	contents, err := s.contentsIn(ctx, s.suspects)
	if err != nil {
		return err
	}
	if err := s.lookAtContents(ctx, contents); err != nil {
		return err
	}
	var wanting []suspect
	for _, u := range s.suspects {
		if u.records {
			wanting = append(wanting, u)
		}
		if !slices.ContainsFunc(contents, func(d core.DataInfo) bool {
			return slices.ContainsFunc(d.Extents, func(e core.Extent) bool { return e.Block == u.block.ID && e.Offset+e.Length > u.tail })
		}) {
			s.harmless[u.block.ID] = u.tail
		}
	}
	s.suspects = nil
	return s.wantSnapshot(ctx, wanting)
}

// contentsIn returns the contents that stand where something is not whole.
func (s *Scrubber) contentsIn(ctx context.Context, suspects []suspect) ([]core.DataInfo, error) {
	in := map[core.BlockID][]stretch{}
	for _, u := range suspects {
		in[u.block.ID] = append(in[u.block.ID], u.stretches...)
	}
	var found []core.DataInfo
	add := func(d *core.DataInfo) {
		if d != nil && slices.ContainsFunc(d.Extents, func(e core.Extent) bool {
			return slices.ContainsFunc(in[e.Block], func(s stretch) bool { return e.Offset < s.to && s.from < e.Offset+e.Length })
		}) {
			c := *d
			c.Extents = slices.Clone(d.Extents)
			found = append(found, c)
		}
	}
	return found, s.eachContent(ctx, add, nil)
}

// eachContent calls fn with every content, and garbage with every entry of the garbage.
func (s *Scrubber) eachContent(ctx context.Context, fn func(*core.DataInfo), garbage func(*core.Garbage)) error {
	return eachRow(ctx, s.o.Meta, func(r *core.Row) error {
		switch {
		case r.Data != nil:
			fn(r.Data)
		case r.Object != nil:
			for _, s := range r.Object.Segments {
				fn(s.Info)
			}
		case r.Garbage != nil && garbage != nil:
			garbage(r.Garbage)
		}
		return nil
	}, func(string, error) {})
}

func unpaced(int) error { return nil }

// hurt is a content that is damaged for sure, and what is known of it.
type hurt struct {
	info   core.DataInfo
	err    error
	copies []core.DataInfo // where its bytes may be whole
}

// lookAtContents reads contents by themselves, and mends or reports those that are not whole.
func (s *Scrubber) lookAtContents(ctx context.Context, contents []core.DataInfo) error {
	var list []*hurt
	for i := range contents {
		now, err := verifyLive(ctx, s.o.Meta, s.o.Blocks, &contents[i], unpaced)
		if ctx.Err() != nil {
			return core.E("reclaim.Scrub", core.Canceled, ctx.Err())
		}
		if err != nil {
			list = append(list, &hurt{info: *now, err: err})
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.findCopies(ctx, list); err != nil {
		return err
	}
	ids := map[core.DataID]*users{}
	for _, h := range list {
		ids[h.info.ID] = &users{}
	}
	if err := findUsers(func(emit func(*core.Row) error) error {
		return eachRow(ctx, s.o.Meta, emit, func(string, error) {})
	}, ids); err != nil {
		return err
	}
	for _, h := range list {
		u := ids[h.info.ID]
		done, err := s.mend(ctx, h)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		s.log.Error("content is damaged, and there is no good copy", "content", h.info.ID, "objects", u.String(), "err", h.err)
		d := Damage{Kind: KindContent, Text: h.err.Error(), Content: h.info.ID, Bytes: h.info.Size, Objects: u.Names, Users: u.Count}
		if len(h.info.Extents) > 0 {
			d.Block = h.info.Extents[0].Block.String()
		}
		s.damaged(d)
		if err := s.unshare(ctx, &h.info); err != nil {
			return err
		}
	}
	return nil
}

// unshare has damaged content shared no more: whoever sends it again brings a copy that is whole.
func (s *Scrubber) unshare(ctx context.Context, d *core.DataInfo) error {
	if d.Scope == 0 {
		return nil
	}
	_, errs := s.o.Writer.DoAll(ctx, []Write{{Change: &core.Unshare{Data: d.ID}}})
	if core.Is(errs[0], core.NoSuchData) {
		return nil
	}
	return errs[0]
}

// likeness is what two contents of the same stored bytes have in common.
type likeness struct {
	sha256 [32]byte
	size   int64
	length int64 // of the extents
	codec  uint8
	dict   uint32
}

func likenessOf(d *core.DataInfo) likeness {
	l := likeness{sha256: d.SHA256, size: d.Size, codec: d.Codec, dict: d.Dictionary}
	for _, e := range d.Extents {
		l.length += e.Length
	}
	return l
}

// maxCopies bounds the places that are tried for one content.
const maxCopies = 100

// findCopies looks for places where the bytes of damaged contents may be whole: other contents of the same SHA-256 and size, and extents in the garbage
// of the same length, whose frames say whether they are of this content.
func (s *Scrubber) findCopies(ctx context.Context, list []*hurt) error {
	alike, lengths := map[likeness][]*hurt{}, map[int64][]*hurt{}
	for _, h := range list {
		if len(h.info.Extents) != 1 || h.info.Extents[0].Length > maxMended {
			continue
		}
		if h.info.KeyID == 0 && h.info.SHA256 != [32]byte{} { // under a key, equal content is not equal as stored
			alike[likenessOf(&h.info)] = append(alike[likenessOf(&h.info)], h)
		}
		n := h.info.Extents[0].Length
		lengths[n] = append(lengths[n], h)
	}
	err := s.eachContent(ctx, func(d *core.DataInfo) {
		if d == nil || d.KeyID != 0 {
			return
		}
		for _, h := range alike[likenessOf(d)] {
			if d.ID != h.info.ID && len(h.copies) < maxCopies {
				c := *d
				c.Extents = slices.Clone(d.Extents)
				h.copies = append(h.copies, c)
			}
		}
	}, func(g *core.Garbage) {
		for _, e := range g.Extents {
			for _, h := range lengths[e.Length] {
				if len(h.copies) < maxCopies && s.isOf(ctx, e, h.info.ID) {
					c := h.info
					c.Extents = []core.Extent{e}
					h.copies = append(h.copies, c)
				}
			}
		}
	})
	return err
}

// isOf says whether the first frame of an extent is one of that content.
func (s *Scrubber) isOf(ctx context.Context, e core.Extent, id core.DataID) bool {
	br, err := s.o.Blocks.Open(ctx, e)
	if err != nil {
		return false
	}
	defer br.Close()
	var head [frame.HeaderSize]byte
	if n, _ := br.ReadAt(head[:], 0); n < len(head) {
		return false
	}
	h, err := frame.Decode(head[:], e.Block, e.Offset)
	return err == nil && h.Type == frame.Data && core.DataID(h.ID) == id
}

// maxMended is the longest extent that is written again, in bytes.
const maxMended = 8 << 20

// mend writes a content again from the first copy that is whole, and reads what was written. It says true also where the content was deleted or
// moved meanwhile, and false with h.err where it stays damaged.
func (s *Scrubber) mend(ctx context.Context, h *hurt) (done bool, err error) {
	for i := range h.copies {
		raw, err := s.framesOf(ctx, &h.copies[i], &h.info)
		if ctx.Err() != nil {
			return false, core.E("reclaim.Scrub", core.Canceled, ctx.Err())
		}
		if err != nil {
			continue
		}
		err = s.o.Hold(ctx, func() error { return s.move(ctx, &h.info, raw) })
		if core.Is(err, core.NoSuchData) || core.Is(err, core.Conflict) {
			return true, nil
		}
		if err == nil {
			_, err = verifyLive(ctx, s.o.Meta, s.o.Blocks, &h.info, unpaced)
		}
		if err != nil { // a full drive, say: the next pass tries again
			h.err = errors.Join(h.err, err)
			return false, nil
		}
		s.note(func(st *ScrubStatus) { st.Mended++ })
		s.log.Warn("damaged content was mended from a copy", "content", h.info.ID, "from", h.copies[i].ID)
		return true, nil
	}
	return false, nil
}

// move writes the frames of a content to another block, always: caches know by that that it has moved.
func (s *Scrubber) move(ctx context.Context, d *core.DataInfo, raw []byte) error {
	st, err := s.o.Meta.State(ctx)
	if err != nil {
		return err
	}
	_, errs := s.o.Writer.DoAll(ctx, []Write{{
		Change: &core.MoveData{Data: d.ID, From: d.Extents}, Moved: raw, Fresh: compareIDs(d.Extents[0].Block, st.Floor) >= 0,
	}})
	return errs[0]
}

// framesOf reads a copy, verifies it, and returns its frames as they should stand where the damaged content stands.
func (s *Scrubber) framesOf(ctx context.Context, from, to *core.DataInfo) ([]byte, error) {
	v := newVerification(from, unpaced)
	v.keep = true
	if err := v.all(ctx, s.o.Blocks); err != nil {
		return nil, err
	}
	e := to.Extents[0]
	if int64(len(v.raw)) != e.Length {
		return nil, damage(to, e, frame.ErrNotFrame)
	}
	at := 0
	for _, h := range v.heads {
		h.Block, h.Offset, h.ID = e.Block, e.Offset+int64(at), uint64(to.ID)
		frame.PutHeader(v.raw[at:], &h)
		at += frame.HeaderSize + int(h.Stored)
	}
	return v.raw, nil
}

// wantSnapshot asks for a new snapshot of the metadata where one, or records, are damaged.
func (s *Scrubber) wantSnapshot(ctx context.Context, wanting []suspect) error {
	if len(wanting) == 0 {
		return nil
	}
	why := "nobody can be asked for a new snapshot"
	if s.o.NewSnapshot != nil {
		err := s.o.NewSnapshot(ctx)
		if ctx.Err() != nil {
			return core.E("reclaim.Scrub", core.Canceled, ctx.Err())
		}
		if err == nil {
			s.note(func(st *ScrubStatus) { st.Snapshots++ })
			s.log.Warn("a new snapshot of the metadata takes the place of what is damaged", "block", wanting[0].block.ID, "blocks", len(wanting))
			return nil
		}
		why = err.Error()
	}
	for _, u := range wanting {
		kind := KindRecord
		if u.block.Kind == core.Snapshot {
			kind = KindSnapshot
		}
		s.damaged(Damage{Kind: kind, Block: u.block.ID.String(), Text: why})
	}
	return nil
}

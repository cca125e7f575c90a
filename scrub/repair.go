package scrub

import (
	"context"
	"errors"
	"math"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/verify"
	"orcas/fsck"
	"orcas/internal/mutant"
)

// inspect finds the damaged content in the suspect blocks, and repairs it if possible.
func (s *Scrubber) inspect(ctx context.Context) error {
	s.inspected = s.o.Now()
	if len(s.suspects) == 0 {
		return nil
	}
	contents, err := s.contentsIn(ctx, s.suspects)
	if err != nil {
		return err
	}
	if err := s.inspectContents(ctx, contents); err != nil {
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

// contentsIn returns the content that overlaps damaged stretches.
func (s *Scrubber) contentsIn(ctx context.Context, suspects []suspect) ([]core.DataInfo, error) {
	in := map[core.BlockID][]verify.Stretch{}
	for _, u := range suspects {
		in[u.block.ID] = append(in[u.block.ID], u.stretches...)
	}
	var found []core.DataInfo
	add := func(d *core.DataInfo) {
		if slices.ContainsFunc(d.Extents, func(e core.Extent) bool {
			return slices.ContainsFunc(in[e.Block], func(s verify.Stretch) bool { return e.Offset < s.To && s.From < e.Offset+e.Length })
		}) {
			found = append(found, cloneOf(d))
		}
	}
	return found, s.eachContent(ctx, add, nil)
}

// eachContent calls fn with the DataInfo of all content, and garbage, if not nil, with every garbage entry.
func (s *Scrubber) eachContent(ctx context.Context, fn func(*core.DataInfo), garbage func(*core.Garbage)) error {
	return fsck.EachRow(ctx, s.o.Meta, func(r *core.Row) error {
		r.EachData(fn)
		if r.Garbage != nil && garbage != nil {
			garbage(r.Garbage)
		}
		return nil
	}, func(string, error) {})
}

// victim is content that is damaged or cannot be read.
type victim struct {
	info   core.DataInfo
	err    error
	proven bool            // the bytes were read and are damaged, or the block is missing
	equals []core.DataInfo // equal content
	copies []core.DataInfo // extents that may contain undamaged frames that can be copied as they are stored
}

// inspectContents reads all content in the list, and repairs or reports damage.
func (s *Scrubber) inspectContents(ctx context.Context, contents []core.DataInfo) error {
	var list []*victim
	for i := range contents {
		now, err := verify.Live(ctx, s.o.Meta, s.o.Blocks, &contents[i], verify.Unpaced)
		if ctx.Err() != nil {
			return core.E("scrub.Pass", core.Canceled, ctx.Err())
		}
		switch {
		case err == nil:
		case core.Is(err, core.Overloaded), core.Is(err, core.Unavailable), core.Is(err, core.Canceled):
			return err // this pass cannot continue
		default: // this includes read errors of the drive
			proven := core.Is(err, core.Damaged) || core.Is(err, core.NoSuchData)
			list = append(list, &victim{info: *now, err: err, proven: proven})
		}
	}
	if len(list) == 0 {
		return nil
	}
	if err := s.findCopies(ctx, list); err != nil {
		return err
	}
	ids := map[core.DataID]*fsck.Referrers{}
	for _, h := range list {
		ids[h.info.ID] = &fsck.Referrers{}
	}
	if err := fsck.FindReferrers(ctx, s.o.Meta, ids); err != nil {
		return err
	}
	for _, h := range list {
		u := ids[h.info.ID]
		done, err := s.repair(ctx, h)
		if err != nil {
			return err
		}
		if done {
			continue
		}
		s.log.Error("content is damaged, and no intact copy was found", "content", h.info.ID, "objects", u.String(), "err", h.err)
		d := Damage{Kind: fsck.KindContent, Text: core.Text(h.err), Content: h.info.ID, Bytes: h.info.Size, Objects: u.Names, Users: u.Count}
		if len(h.info.Extents) > 0 {
			d.Block = h.info.Extents[0].Block.String()
		}
		s.damaged(d)
		if !h.proven {
			for _, e := range h.info.Extents {
				s.unread[e.Block] = true
			}
			continue
		}
		if err := s.unshare(ctx, &h.info); err != nil {
			return err
		}
	}
	return nil
}

// repairMissing repairs the content of missing blocks as far as possible. The rest remains in the report as lost. If so
// many blocks are missing that a file system is probably not mounted, repairMissing does not write anything.
func (s *Scrubber) repairMissing(ctx context.Context, found *fsck.Comparison) error {
	if len(found.Missing) == 0 || s.o.Repair == nil || found.Severe() != "" {
		return nil
	}
	missing := make([]suspect, len(found.Missing))
	for i, m := range found.Missing {
		missing[i] = suspect{block: core.BlockInfo{ID: m.Block}, stretches: []verify.Stretch{{To: math.MaxInt64}}}
	}
	contents, err := s.contentsIn(ctx, missing)
	if err != nil {
		return err
	}
	list := make([]*victim, len(contents))
	for i := range contents {
		list[i] = &victim{info: contents[i], proven: true}
	}
	if err := s.findCopies(ctx, list); err != nil {
		return err
	}
	for _, h := range list {
		done, err := s.repair(ctx, h)
		if err != nil {
			return err
		}
		if !done && h.err != nil {
			s.log.Warn("cannot repair content of a missing block", "content", h.info.ID, "err", h.err)
		}
	}
	return nil
}

// unshare marks content as damaged, so that no new content is deduplicated against it until it is repaired.
func (s *Scrubber) unshare(ctx context.Context, d *core.DataInfo) error {
	if d.Scope == 0 || d.Damaged {
		return nil
	}
	_, errs := s.o.Writer.DoAll(ctx, []batch.Write{{Change: &core.Unshare{Data: d.ID}}})
	if core.Is(errs[0], core.NoSuchData) {
		return nil
	}
	return errs[0]
}

// storedForm is the same for content whose stored frames are identical except for their headers.
type storedForm struct {
	sha256 [32]byte
	size   int64
	length int64 // total length of the extents
	codec  uint8
	dict   uint32
}

func formOf(d *core.DataInfo) storedForm {
	l := storedForm{sha256: d.SHA256, size: d.Size, codec: d.Codec, dict: d.Dictionary}
	for _, e := range d.Extents {
		l.length += e.Length
	}
	return l
}

// identity is the same for equal content.
type identity struct {
	sha256 [32]byte
	size   int64
}

// maxCopies is the maximum number of copies to try for a repair.
const maxCopies = 100

// findCopies looks for intact copies of damaged content: equal content, and extents of the same length in the garbage
// whose frames have the same DataID.
func (s *Scrubber) findCopies(ctx context.Context, list []*victim) error {
	equal, alike, lengths := map[identity][]*victim{}, map[storedForm][]*victim{}, map[int64][]*victim{}
	for _, h := range list {
		if h.info.SHA256 != [32]byte{} && s.o.Repair != nil {
			e := identity{h.info.SHA256, h.info.Size}
			equal[e] = append(equal[e], h)
		}
		if len(h.info.Extents) != 1 || h.info.Extents[0].Length > maxRepaired {
			continue
		}
		if h.info.KeyID == 0 && h.info.SHA256 != [32]byte{} { // equal content that is encrypted has different frames
			alike[formOf(&h.info)] = append(alike[formOf(&h.info)], h)
		}
		n := h.info.Extents[0].Length
		lengths[n] = append(lengths[n], h)
	}
	return s.eachContent(ctx, func(d *core.DataInfo) {
		for _, h := range equal[identity{d.SHA256, d.Size}] {
			if d.ID != h.info.ID {
				h.equals = addCopy(h.equals, d)
			}
		}
		for _, h := range alike[formOf(d)] {
			if d.ID != h.info.ID && d.KeyID == 0 {
				h.copies = addCopy(h.copies, d)
			}
		}
	}, func(g *core.Garbage) {
		for _, e := range g.Extents {
			for _, h := range lengths[e.Length] {
				if len(h.copies) < maxCopies && s.startsWith(ctx, e, h.info.ID) {
					c := h.info
					c.Extents = []core.Extent{e}
					h.copies = append(h.copies, c)
				}
			}
		}
	})
}

// addCopy appends d to a list, unless the list already has maxCopies elements.
func addCopy(list []core.DataInfo, d *core.DataInfo) []core.DataInfo {
	if len(list) >= maxCopies {
		return list
	}
	return append(list, cloneOf(d))
}

// cloneOf returns a copy of a DataInfo whose row must not be retained.
func cloneOf(d *core.DataInfo) core.DataInfo {
	c := *d
	c.Extents = slices.Clone(d.Extents)
	return c
}

// startsWith reports whether the first frame of an extent has the DataID id.
func (s *Scrubber) startsWith(ctx context.Context, e core.Extent, id core.DataID) bool {
	br, err := s.o.Blocks.Open(ctx, e)
	if err != nil {
		return false
	}
	defer br.Close()
	head := make([]byte, min(frame.HeaderSize, e.Length))
	if n, _ := br.ReadAt(head, 0); n < len(head) {
		return false
	}
	h, err := frame.Decode(head, e.Block, e.Offset)
	return err == nil && h.Type == frame.Data && core.DataID(h.ID) == id
}

// maxRepaired is the maximum length, in bytes, of an extent that is copied in its stored form.
const maxRepaired = 8 << 20

// repair writes damaged content again, from the first intact copy, and reads it back. It also returns true if the
// content was deleted or moved in the meantime. If it returns false, h.err is the reason why the content is still
// damaged.
func (s *Scrubber) repair(ctx context.Context, h *victim) (done bool, err error) {
	for i := range h.copies {
		err := s.copy(ctx, h, &h.copies[i])
		if done, err = s.repaired(ctx, h, h.copies[i].ID, err); done || err != nil {
			return done, err
		}
	}
	for i := range h.equals {
		from := &h.equals[i]
		if now, err := verify.Live(ctx, s.o.Meta, s.o.Blocks, from, verify.Unpaced); err == nil {
			from = now
			err = s.o.Pause(ctx, func() error { return s.o.Repair(ctx, &h.info, from) })
			if core.Is(err, core.Damaged) || core.Is(err, core.Unsupported) {
				err = errUnusable
			}
			if done, err = s.repaired(ctx, h, from.ID, err); done || err != nil {
				return done, err
			}
		}
	}
	return false, nil
}

// copy writes content again from undamaged frames. An earlier repair may have given the content a new data key and
// another stored form, so frames from before that repair cannot be used. Therefore content that is not stored plain is
// decoded and compared with its SHA-256.
func (s *Scrubber) copy(ctx context.Context, h *victim, from *core.DataInfo) error {
	raw, err := s.framesOf(ctx, from, &h.info)
	if err != nil {
		return errUnusable
	}
	isPlain := h.info.KeyID == 0 && h.info.Codec == frame.Plain
	decode := !isPlain && h.info.SHA256 != [32]byte{} && s.o.Repair != nil && !mutant.Is("mend-undecoded")
	err = s.o.Pause(ctx, func() error {
		if decode {
			return s.o.Repair(ctx, &h.info, from)
		}
		return s.move(ctx, &h.info, raw)
	})
	if decode && (core.Is(err, core.Damaged) || core.Is(err, core.Unsupported)) {
		return errUnusable
	}
	return err
}

// errUnusable means that a copy cannot be used, so the next one must be tried.
var errUnusable = errors.New("the copy cannot be used for the repair")

// repaired handles the result of an attempt to repair content from a copy.
func (s *Scrubber) repaired(ctx context.Context, h *victim, from core.DataID, err error) (done bool, _ error) {
	switch {
	case ctx.Err() != nil:
		return false, core.E("scrub.Pass", core.Canceled, ctx.Err())
	case errors.Is(err, errUnusable):
		return false, nil
	case core.Is(err, core.NoSuchData), core.Is(err, core.Conflict):
		return true, nil
	}
	if err == nil {
		_, err = verify.Live(ctx, s.o.Meta, s.o.Blocks, &h.info, verify.Unpaced)
	}
	if err != nil { // for example, the drive is full; the next pass tries again
		h.err = errors.Join(h.err, err)
		return false, nil
	}
	s.note(func(st *Status) {
		st.Repaired++
		st.EverFound++
	})
	s.log.Warn("repaired damaged content from a copy", "content", h.info.ID, "from", from)
	return true, nil
}

// move writes the frames of content to another block. It must be another block because caches detect a move by the
// block ID.
func (s *Scrubber) move(ctx context.Context, d *core.DataInfo, raw []byte) error {
	st, err := s.o.Meta.State(ctx)
	if err != nil {
		return err
	}
	_, errs := s.o.Writer.DoAll(ctx, []batch.Write{{
		Change: &core.MoveData{Data: d.ID, From: d.Extents}, Moved: raw, Fresh: d.Extents[0].Block.Compare(st.ReplayFrom) >= 0,
	}})
	return errs[0]
}

// framesOf reads and verifies a copy, and returns its frames with the headers of the damaged frames that they replace.
func (s *Scrubber) framesOf(ctx context.Context, from, to *core.DataInfo) ([]byte, error) {
	raw, headers, err := verify.Frames(ctx, s.o.Blocks, from)
	if err != nil {
		return nil, err
	}
	e := to.Extents[0]
	if int64(len(raw)) != e.Length {
		return nil, errUnusable
	}
	at := 0
	for _, h := range headers {
		h.Block, h.Offset, h.ID = e.Block, e.Offset+int64(at), uint64(to.ID)
		frame.PutHeader(raw[at:], &h)
		at += h.Size() + int(h.Stored)
	}
	return raw, nil
}

// wantSnapshot requests a new snapshot of the metadata if an old snapshot or records are damaged.
func (s *Scrubber) wantSnapshot(ctx context.Context, wanting []suspect) error {
	if len(wanting) == 0 {
		return nil
	}
	why := "the block is damaged, and this scrub cannot write a new snapshot of the metadata"
	if s.o.NewSnapshot != nil {
		err := s.o.NewSnapshot(ctx)
		if ctx.Err() != nil {
			return core.E("scrub.Pass", core.Canceled, ctx.Err())
		}
		if err == nil {
			s.note(func(st *Status) {
				st.Snapshots++
				for _, u := range wanting {
					if u.block.Kind == core.Snapshot {
						st.BadSnapshots++
					} else {
						st.BadRecords++
					}
				}
			})
			s.log.Warn("wrote a new snapshot of the metadata because the old snapshot or records were damaged",
				"block", wanting[0].block.ID, "blocks", len(wanting))
			return nil
		}
		why = core.Text(err)
	}
	for _, u := range wanting {
		kind := KindRecord
		if u.block.Kind == core.Snapshot {
			kind = fsck.KindSnapshot
		}
		s.damaged(Damage{Kind: kind, Block: u.block.ID.String(), Text: why})
	}
	return nil
}

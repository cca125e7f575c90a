package content

import (
	"context"
	"time"

	"orcas/core"
	"orcas/internal/epoch"
	"orcas/internal/mutant"
	"orcas/internal/pins"
)

// pinned identifies what a reader pins (see package pins): a block or a long segment list.
type pinned struct {
	block core.BlockID
	list  core.UploadID
}

// Enter begins a lookup. Call it before looking up the location of content in the metadata, and call Leave on the
// result after NewSection or Slice has returned. Reclaim waits for every lookup, so do nothing slow in between, such as
// sending data to a client.
func (e *Engine) Enter() epoch.Reader { return e.lookups.Enter() }

// Quiet waits until every lookup that began before the call has ended, or until ctx ends. It does not wait for a
// Section that is being read after its lookup: pins protect that content.
func (e *Engine) Quiet(ctx context.Context) error {
	if err := e.lookups.Wait(ctx); err != nil {
		return core.E("content.Quiet", core.Canceled, err)
	}
	return nil
}

// Pins reports whether a reader still needs a block. If the metadata does not refer to the block, a result of false
// after Quiet is final.
func (e *Engine) Pins(block core.BlockID) bool { return e.pins.Pinned(pinned{block: block}) }

// PinsList reports whether a reader still needs a segment list. If the list is garbage, a result of false after Quiet
// is final.
func (e *Engine) PinsList(list core.UploadID) bool { return e.pins.Pinned(pinned{list: list}) }

// OldestReader returns the number of readers that pin content, and the age of the oldest of them.
func (e *Engine) OldestReader() (readers int, age time.Duration) {
	readers, since := e.pins.Oldest()
	if readers > 0 {
		age = time.Since(since)
	}
	return readers, age
}

// pinAhead pins the blocks and the segment list that the section has not read yet. It is called during the lookup.
func (s *Section) pinAhead() {
	if s.left == 0 || mutant.Is("no-pin") {
		return
	}
	s.pins = new(pins.Reader[pinned])
	if s.list != 0 {
		s.pins.Pin(&s.engine.pins, pinned{list: s.list})
	}
	s.pinSegments(s.segments)
	s.pinSegments(s.tail)
}

func (s *Section) pinSegments(segments []core.Segment) {
	var room [8]pinned
	s.pins.Pin(&s.engine.pins, blocksOf(room[:0], segments)...)
}

func (s *Section) unpinSegments(segments []core.Segment) {
	var room [8]pinned
	s.pins.Unpin(blocksOf(room[:0], segments)...)
}

// blocksOf appends the blocks of segments to list, in order. Consecutive extents of a segment in the same block count
// once.
func blocksOf(list []pinned, segments []core.Segment) []pinned {
	for i := range segments {
		if segments[i].Info == nil {
			continue
		}
		first := len(list)
		for _, x := range segments[i].Info.Extents {
			if len(list) == first || list[len(list)-1].block != x.Block {
				list = append(list, pinned{block: x.Block})
			}
		}
	}
	return list
}

// unpin removes all pins of the section.
func (s *Section) unpin() {
	if s.pins == nil {
		return
	}
	s.endList()
	s.unpinSegments(s.segments)
	s.unpinSegments(s.tail)
	s.pins = nil
}

// endList unpins the segment list once it is no longer needed.
func (s *Section) endList() {
	if s.pins != nil && s.list != 0 {
		s.pins.Unpin(pinned{list: s.list})
	}
	s.list = 0
}

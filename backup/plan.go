package backup

import (
	"fmt"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
)

// source is a block to be copied.
type source struct {
	info   core.BlockInfo
	name   string // slash-separated path of its copy within the backup directory
	length int64  // number of bytes that belong to the backup
	closed bool   // the block will not be written to again, and all of it belongs to the backup
}

// blockName returns the name of the copy of a block, which is the name of its file in a data directory (see package
// core/disk).
func blockName(i core.BlockInfo) string {
	const perDir = 4096
	id := i.ID
	return fmt.Sprintf("%s/%08x/%05x/%08x.%s", blocksDir, id.Generation(), id.Number()/perDir, id.Number(), kindNames[i.Kind])
}

// plan chooses S (see the package comment) and the blocks that belong to the backup.
func (b *backup) plan() ([]source, error) {
	st, err := b.Meta.State(b.ctx)
	if err != nil {
		return nil, err
	}
	b.manifest.Seq = st.Seq
	if f, ok := core.As[core.Flusher](b.Blocks); ok && st.Synced > 0 {
		// Some changes up to S may not be durable yet. If a power failure undid them, the store would reuse their
		// positions, and its blocks would no longer match the copies.
		if err := f.Sync(b.ctx); err != nil {
			return nil, err
		}
	}
	// Changes up to S do not refer to large blocks that are still being written or are created later.
	begun, newest := b.writers.Begun()
	var found []core.BlockInfo
	err = b.Blocks.Walk(b.ctx, core.BlockID{}, func(i core.BlockInfo) error {
		if i.Kind == core.Large && (begun[i.ID] || i.ID.Compare(newest) > 0) {
			return nil
		}
		if i.Size > frame.BlockHeaderSize { // otherwise it has no frames
			found = append(found, i)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	needed, err := b.needed(found, st.Seq)
	if err != nil {
		return nil, err
	}
	ends := map[core.BlockID]int64{}
	for _, i := range found {
		if i.Kind == core.Packed && i.ID.Compare(st.ReplayFrom) >= 0 {
			end, beside, err := batch.Cut(b.ctx, b.Blocks, i, st)
			if err != nil {
				return nil, err
			}
			ends[i.ID] = end
			for _, id := range beside {
				needed[id] = true
			}
		}
	}
	var sources []source
	for _, i := range found {
		s := source{info: i, name: blockName(i), length: i.Size, closed: true}
		switch i.Kind {
		case core.Packed:
			if i.ID.Compare(st.ReplayFrom) < 0 {
				break
			}
			s.length, s.closed = ends[i.ID], false
			if s.length == 0 {
				continue
			}
		case core.Large:
			if !needed[i.ID] {
				continue
			}
		case core.Snapshot:
			id, ok, err := b.firstID(i)
			if err != nil {
				return nil, err
			}
			if ok && core.Seq(id) > st.Seq {
				continue
			}
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// dataTogether is the number of DataIDs in one call of Meta.Data.
const dataTogether = 500

// needed returns the large blocks with content that the metadata refers to, or that was orphaned after seq.
func (b *backup) needed(blocks []core.BlockInfo, seq core.Seq) (map[core.BlockID]bool, error) {
	type suspect struct {
		block core.BlockID
		data  core.DataID
	}
	var all []suspect
	needed, orphaned := map[core.BlockID]bool{}, map[core.BlockID]bool{}
	for _, i := range blocks {
		if i.Kind != core.Large || i.Size < frame.BlockHeaderSize+frame.HeaderSize {
			continue
		}
		switch id, ok, err := b.firstID(i); {
		case core.Is(err, core.NoSuchData): // its writer has deleted it
		case err != nil:
			return nil, err
		case ok:
			all = append(all, suspect{i.ID, core.DataID(id)})
		default:
			needed[i.ID] = true // its content is unknown, so keep it
		}
	}
	for part := range slices.Chunk(all, dataTogether) {
		ids := make([]core.DataID, 0, dataTogether)
		blockOf := map[core.DataID]core.BlockID{}
		for _, s := range part {
			orphaned[s.block] = true
			ids = append(ids, s.data)
			blockOf[s.data] = s.block
		}
		infos, err := b.Meta.Data(b.ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, d := range infos {
			if id := blockOf[d.ID]; isIn(d.Extents, id, 0) {
				needed[id] = true
				delete(orphaned, id)
			}
		}
	}
	return needed, b.addOrphaned(needed, orphaned, seq)
}

// isIn reports whether one of the extents is in block and ends after the offset at.
func isIn(extents []core.Extent, block core.BlockID, at int64) bool {
	return slices.ContainsFunc(extents, func(e core.Extent) bool { return e.Block == block && e.Offset+e.Length > at })
}

// addOrphaned adds those of the blocks to needed whose content was orphaned by a change after seq. Garbage entries are
// not deleted during a backup, so content that existed at seq, and that the metadata no longer has, still has an entry.
func (b *backup) addOrphaned(needed, blocks map[core.BlockID]bool, seq core.Seq) error {
	const page = 1000
	for after := 2*uint64(seq) + 1; len(blocks) > 0; {
		entries, err := b.Meta.Garbage(b.ctx, after, page)
		if err != nil {
			return err
		}
		for _, g := range entries {
			after = g.ID
			for _, e := range g.Extents {
				if blocks[e.Block] {
					needed[e.Block] = true
				}
			}
		}
		if len(entries) < page {
			return nil
		}
	}
	return nil
}

// firstID returns the ID in the first intact frame header of a block. If the block has none, ok is false.
func (b *backup) firstID(i core.BlockInfo) (id uint64, ok bool, err error) {
	head := min(i.Size, frame.BlockHeaderSize+frame.HeaderSize) // read no more: there may be a million blocks
	err = b.scan(i, head, func(s *frame.Scanner) error {
		h, err := s.Header(frame.BlockHeaderSize)
		id, ok = h.ID, err == nil
		return err
	})
	if !frame.Broken(err) {
		return id, ok, err
	}
	err = b.scan(i, i.Size, func(s *frame.Scanner) error {
		at, err := s.Next(frame.BlockHeaderSize)
		if err != nil || at < 0 {
			return err
		}
		h, err := s.Header(at)
		id, ok = h.ID, err == nil
		return err
	})
	return id, ok, err
}

// scan calls fn with a scanner of the first size bytes of a block.
func (b *backup) scan(i core.BlockInfo, size int64, fn func(s *frame.Scanner) error) error {
	r, err := b.open(i.ID, size)
	if err != nil {
		return err
	}
	defer r.Close()
	return fn(&frame.Scanner{R: &patient{r: r}, Block: i.ID, Size: size})
}

// open returns a reader of the first size bytes of a block, as a server that starts now would read them. The driver may
// still have an old file open that has been replaced, for example by an intact copy of a damaged block. Stat makes the
// driver notice this (see core.Stater).
func (b *backup) open(id core.BlockID, size int64) (core.BlockReader, error) {
	if s, ok := core.As[core.Stater](b.Blocks); ok {
		if _, err := s.Stat(b.ctx, id); err != nil {
			return nil, err
		}
	}
	return b.Blocks.Open(b.ctx, core.Extent{Block: id, Length: size})
}

package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
)

// source is a block to be copied.
type source struct {
	info   core.BlockInfo
	name   string // of its file, within the data directory, with slashes
	path   string
	length int64 // bytes that belong to the backup
	closed bool  // it is never written to again, and length is all of it
}

// plan chooses S, and which blocks belong to the backup.
func (b *backup) plan() ([]source, error) {
	st, err := b.Meta.State(b.ctx)
	if err != nil {
		return nil, err
	}
	b.manifest.Seq = st.Seq
	if f, ok := b.Blocks.(core.Flusher); ok && st.Synced > 0 {
		// Some of it may have been answered before it was durable. A power cut must not take from the store what the backup has: blocks would
		// be other blocks then.
		if err := f.Sync(b.ctx); err != nil {
			return nil, err
		}
	}
	// What is being written now, or begins later, no change up to S names.
	begun, newest := b.files.Begun()
	var found []core.BlockInfo
	err = b.Blocks.Walk(b.ctx, core.BlockID{}, func(i core.BlockInfo) error {
		if i.Kind == core.Large && (begun[i.ID] || compareIDs(i.ID, newest) > 0) {
			return nil
		}
		if i.Size > frame.BlockHeaderSize { // else a crash was faster
			found = append(found, i)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	named, err := b.named(found, st.Seq)
	if err != nil {
		return nil, err
	}
	ends := map[core.BlockID]int64{}
	for _, i := range found {
		if i.Kind == core.Packed && compareIDs(i.ID, st.Floor) >= 0 {
			end, beside, err := batch.Cut(b.ctx, b.Blocks, i, st)
			if err != nil {
				return nil, err
			}
			ends[i.ID] = end
			for _, id := range beside {
				named[id] = true
			}
		}
	}
	var sources []source
	for _, i := range found {
		s := source{info: i, path: b.files.BlockFile(i), length: i.Size, closed: true}
		switch i.Kind {
		case core.Packed:
			if compareIDs(i.ID, st.Floor) < 0 {
				break
			}
			s.length, s.closed = ends[i.ID], false
			if s.length == 0 {
				continue
			}
		case core.Large:
			if !named[i.ID] {
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
		rel, err := filepath.Rel(b.DataDir, s.path)
		if err != nil {
			return nil, err
		}
		s.name = filepath.ToSlash(rel)
		sources = append(sources, s)
	}
	return sources, nil
}

// dataTogether is how many contents are looked up at once.
const dataTogether = 500

// named returns the large blocks in which there is content that the metadata names, or let go of behind seq.
func (b *backup) named(blocks []core.BlockInfo, seq core.Seq) (map[core.BlockID]bool, error) {
	type suspect struct {
		block core.BlockID
		data  core.DataID
	}
	var all []suspect
	named, lost := map[core.BlockID]bool{}, map[core.BlockID]bool{}
	for _, i := range blocks {
		if i.Kind != core.Large || i.Size < frame.BlockHeaderSize+frame.HeaderSize {
			continue
		}
		switch id, ok, err := b.firstID(i); {
		case errors.Is(err, fs.ErrNotExist): // its writer gave up
		case err != nil:
			return nil, err
		case ok:
			all = append(all, suspect{i.ID, core.DataID(id)})
		default:
			named[i.ID] = true // whatever it was
		}
	}
	for part := range slices.Chunk(all, dataTogether) {
		ids := make([]core.DataID, 0, dataTogether)
		blockOf := map[core.DataID]core.BlockID{}
		for _, s := range part {
			lost[s.block] = true
			ids = append(ids, s.data)
			blockOf[s.data] = s.block
		}
		infos, err := b.Meta.Data(b.ctx, ids)
		if err != nil {
			return nil, err
		}
		for _, d := range infos {
			if id := blockOf[d.ID]; isIn(d.Extents, id, 0) {
				named[id] = true
				delete(lost, id)
			}
		}
	}
	return named, b.addLetGo(named, lost, seq)
}

// isIn says whether one of the extents is in a block, behind an offset.
func isIn(extents []core.Extent, block core.BlockID, at int64) bool {
	return slices.ContainsFunc(extents, func(e core.Extent) bool { return e.Block == block && e.Offset+e.Length > at })
}

// addLetGo adds those of the blocks to named in which there is garbage of changes behind seq. Since nothing is unlinked, the garbage is all there; and what
// the metadata did not name a moment ago, it has let go of by now.
func (b *backup) addLetGo(named, blocks map[core.BlockID]bool, seq core.Seq) error {
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
					named[e.Block] = true
				}
			}
		}
		if len(entries) < page {
			return nil
		}
	}
	return nil
}

// firstID returns the ID in the first frame of a block that has a header.
func (b *backup) firstID(i core.BlockInfo) (id uint64, ok bool, err error) {
	head := min(i.Size, frame.BlockHeaderSize+frame.HeaderSize) // not a byte more: there may be a million blocks
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

// scan calls fn with a scanner of the first bytes of a block. It opens the file itself, not to drive those from the driver's cache that readers use.
func (b *backup) scan(i core.BlockInfo, size int64, fn func(s *frame.Scanner) error) error {
	f, err := os.Open(b.files.BlockFile(i))
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(&frame.Scanner{R: &patient{r: f}, Block: i.ID, Size: size})
}

package fsck

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/dictionary"
	"orcas/core/frame"
)

// readMetadata counts everything in one pass over the metadata.
func (c *check) readMetadata() error {
	c.o.Progress("metadata", 0, 0)
	rows := int64(0)
	err := EachRow(c.ctx, c.meta, func(r *core.Row) error {
		if rows++; rows%10_000 == 0 {
			c.o.Progress("metadata", rows, 0)
		}
		c.row(r)
		return nil
	}, func(what string, err error) {
		c.differ(Difference{Kind: KindRow, Where: what, Text: core.Text(err)})
	})
	if err != nil {
		return err
	}
	c.report.Seq = c.state.Seq
	for _, h := range []*hashes{&c.versions, &c.current, &c.uploads, &c.latest, &c.nulls} {
		h.sort()
	}
	return nil
}

func (c *check) row(r *core.Row) {
	switch {
	case r.State != nil:
		c.state = *r.State
	case r.Bucket != nil:
		c.report.Buckets++
		c.buckets[r.Bucket.ID] = r.Bucket.Name
	case r.Data != nil:
		c.content(r.Data)
	case r.Object != nil:
		c.version(r.Object)
	case r.Upload != nil:
		u := r.Upload
		c.report.Uploads++
		c.inBucket(u.Bucket, uploadName(c.codec, u.ID, u.Key))
		c.number(core.Seq(u.ID), uploadName(c.codec, u.ID, u.Key))
		c.uploads.add(hashOf(u.Bucket, u.Key, uint64(u.ID)))
		l := c.lists[u.ID]
		l.upload = true
		c.lists[u.ID] = l
	case r.Part != nil:
		p := r.Part
		c.report.Parts++
		where := fmt.Sprint("part ", p.Number, " of list ", p.List)
		c.number(p.Seq, where)
		c.covers(p.Segments, p.Size, where)
		l := c.lists[p.List]
		l.parts++
		l.bytes += p.Size
		c.lists[p.List] = l
	case r.Garbage != nil:
		c.garbage(r.Garbage)
	case r.Record != nil && r.Record.Kind == dictionary.Kind:
		c.dictionary(r.Record)
	}
}

func (c *check) content(d *core.DataInfo) {
	c.report.Contents++
	c.report.ContentBytes += d.Size
	n, known := c.contents[d.ID]
	if known && n.size != noRow {
		c.differAbout(d.ID, KindReferences, d.Size, "the content has two rows")
	}
	n.size, n.refs = d.Size, int32(d.Refs)
	c.codedWith(d)
	c.contents[d.ID] = n
	if d.ID >= c.state.NextData {
		c.differAbout(d.ID, KindNumber, d.Size, "DataIDs from %d on have not been assigned yet", c.state.NextData)
	}
	total := int64(0)
	for i, e := range d.Extents {
		total += e.Length
		if e.Length <= 0 || e.Offset < frame.BlockHeaderSize {
			c.differAbout(d.ID, KindExtent, d.Size, "%d bytes at offset %d of block %v cannot be frames", e.Length, e.Offset, e.Block)
			continue
		}
		c.own(e, ownedExtent{owner: uint64(d.ID), first: i == 0})
	}
	if why := misfit(d, total); why != "" {
		c.differAbout(d.ID, KindExtent, d.Size, "%s", why)
	}
}

// misfit returns why the extents of d, with a total length of total bytes, do not fit its size, or "" if they do.
func misfit(d *core.DataInfo, total int64) string {
	want := 1
	switch {
	case d.Size == 0:
		want = 0
	case d.ChunkSize > 0:
		want = int((d.Size + d.ChunkSize - 1) / d.ChunkSize)
	}
	if len(d.Extents) != want {
		return fmt.Sprintf("the content has %d extents: expected %d", len(d.Extents), want)
	}
	frames := (d.Size + frame.MaxPlain - 1) / frame.MaxPlain
	stored := d.Size + frames*frame.HeaderSize
	short := frames == 1 && total == d.Size+frame.ShortSize
	if d.Codec == frame.Plain && d.KeyID == 0 && total != stored && !short {
		return fmt.Sprintf("the extents have %d bytes: expected %d", total, stored)
	}
	return ""
}

// own records the owner of an extent.
func (c *check) own(e core.Extent, p ownedExtent) {
	i := c.blockOf(e.Block)
	p.block, p.offset, p.length = i, e.Offset, e.Length
	c.extents = append(c.extents, p)
	if p.garbage {
		c.table[i].dead += e.Length
	} else {
		c.table[i].live += e.Length
	}
}

func (c *check) blockOf(id core.BlockID) uint32 {
	i, ok := c.index[id]
	if !ok {
		i = uint32(len(c.table))
		c.index[id] = i
		c.table = append(c.table, block{id: id})
	}
	return i
}

func (c *check) version(o *core.ObjectInfo) {
	c.report.Versions++
	where := versionName(c.codec, c.buckets, o).String()
	c.inBucket(o.Bucket, where)
	c.number(o.Seq, where)
	h, key := hashOf(o.Bucket, o.Key, uint64(o.Seq)), hashOf(o.Bucket, o.Key, 0)
	c.versions.add(h)
	if o.Latest {
		c.latest.add(key)
		if !o.Marker {
			c.current.add(h)
		}
	}
	if o.Null {
		c.nulls.add(key)
	}
	if o.List == 0 {
		c.covers(o.Segments, o.Size, where)
		return
	}
	tail := int64(0)
	for _, s := range o.Segments {
		tail += s.Length
	}
	listed := o.Size - tail
	c.covers(o.Segments, tail, where)
	l := c.lists[o.List]
	if l.versions > 0 && l.size != listed {
		c.differ(Difference{Kind: KindSize, Where: where, Text: fmt.Sprintf("the size of its list of parts is %d, but %d for another version with the same list", listed, l.size), Bytes: o.Size})
	}
	l.versions++
	l.size = listed
	c.lists[o.List] = l
}

// covers counts the segments of a version or part, and adds a difference if a segment is invalid or their lengths do
// not add up to size.
func (c *check) covers(segments []core.Segment, size int64, where string) {
	total, bad := int64(0), false
	for _, s := range segments {
		if s.Info != nil {
			c.content(s.Info)
			bad = bad || s.Info.ID != s.Data
		}
		total += s.Length
		bad = bad || s.From < 0 || s.Length < 0
		n, known := c.contents[s.Data]
		if !known {
			n.size = noRow
		}
		n.counted++
		n.end = max(n.end, s.From+s.Length)
		c.contents[s.Data] = n
	}
	if total != size || bad {
		c.differ(Difference{Kind: KindSize, Where: where, Text: fmt.Sprintf("its size is %d bytes, but its segments have %d, or are invalid", size, total), Bytes: size})
	}
}

func (c *check) inBucket(id core.BucketID, where string) {
	if _, ok := c.buckets[id]; !ok {
		c.differ(Difference{Kind: KindBucket, Where: where, Text: fmt.Sprintf("bucket %d does not exist", id)})
	}
}

func (c *check) number(seq core.Seq, where string) {
	if seq > c.state.Seq {
		c.differ(Difference{Kind: KindNumber, Where: where, Text: fmt.Sprintf("its sequence %d is higher than the last one, %d", seq, c.state.Seq)})
	}
}

func (c *check) garbage(g *core.Garbage) {
	for _, e := range g.Extents {
		c.own(e, ownedExtent{owner: g.ID, garbage: true})
	}
	if g.List != 0 {
		l := c.lists[g.List]
		l.garbage = true
		c.lists[g.List] = l
	}
}

// walkBlocks compares the blocks with the metadata.
func (c *check) walkBlocks() error {
	c.o.Progress("blocks", 0, 0)
	done := int64(0)
	err := c.blocks.Walk(c.ctx, core.BlockID{}, func(b core.BlockInfo) error {
		i := c.blockOf(b.ID)
		n := &c.table[i]
		n.size, n.kind, n.found = b.Size, b.Kind, true
		gone, err := c.header(b, n.live+n.dead > 0)
		if err != nil || gone {
			return err
		}
		if done++; done%100 == 0 {
			c.o.Progress("blocks", done, 0)
		}
		c.report.Blocks++
		c.report.BlockBytes += b.Size
		c.report.LiveBytes += n.live
		c.report.GarbageBytes += n.dead
		unknown := c.o.Waiting > 0 && (b.Kind == core.Large || b.ID.Compare(c.state.ReplayFrom) >= 0)
		switch {
		case n.live > 0 || b.Kind == core.Snapshot:
		case unknown:
			c.report.UnknownBlocks++
		case b.Kind == core.Large || b.ID.Compare(c.state.ReplayFrom) < 0:
			c.report.UnusedBlocks++
			c.report.UnusedBytes += b.Size
		}
		return nil
	})
	return err
}

// header checks the header of a block. It returns gone if the block was deleted in the meantime.
func (c *check) header(b core.BlockInfo, named bool) (gone bool, err error) {
	br, err := c.blocks.Open(c.ctx, core.Extent{Block: b.ID, Length: frame.BlockHeaderSize})
	if core.Is(err, core.NoSuchData) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer br.Close()
	var head [frame.BlockHeaderSize]byte
	n, _ := br.ReadAt(head[:], 0) // after an error, the header is decoded as damaged
	id, kind, err := frame.DecodeBlockHeader(head[:n])
	switch {
	case err != nil && !named && b.Size < frame.BlockHeaderSize:
		return false, nil // a crash or an error interrupted its creation: it never had any content
	case errors.Is(err, frame.ErrNotFrame) && !named && head == [frame.BlockHeaderSize]byte{}:
		return false, nil // a writer has just created it, or a crash followed its creation
	case err == nil && (core.BlockID(id) != b.ID || core.BlockKind(kind) != b.Kind):
		err = fmt.Errorf("it has the header of block %v, kind %d", core.BlockID(id), kind)
	}
	if err != nil {
		c.differ(Difference{Kind: KindHeader, Where: "block " + b.ID.String(), Text: core.Text(err), Bytes: b.Size})
	}
	return false, nil
}

// judgeContents compares the reference counts with the number of segments found.
func (c *check) judgeContents() error {
	for id, n := range c.contents {
		switch {
		case n.size == noRow:
			c.differAbout(id, KindNoContent, n.end, "%d segments refer to the content, but it does not exist", n.counted)
		case n.counted == 0:
			c.differAbout(id, KindUnused, n.size, "the reference count is %d, but no segment refers to the content", n.refs)
		case n.counted != n.refs:
			c.differAbout(id, KindReferences, n.size, "the reference count is %d, but %d segments refer to the content", n.refs, n.counted)
		}
		if n.size != noRow && n.end > n.size {
			c.differAbout(id, KindSize, n.size, "a segment ends at byte %d, but the content has %d bytes", n.end, n.size)
		}
	}
	return nil
}

// judgeExtents looks for overlapping extents, and for extents outside of their blocks.
func (c *check) judgeExtents() error {
	slices.SortFunc(c.extents, func(a, b ownedExtent) int {
		return cmp.Or(cmp.Compare(a.block, b.block), cmp.Compare(a.offset, b.offset))
	})
	outside := map[core.DataID]bool{}
	last := 0 // among the previous extents in the block, the one with the highest end
	for i := range c.extents {
		p, n := &c.extents[i], &c.table[c.extents[i].block]
		if q := &c.extents[last]; i > 0 && q.block == p.block && p.offset < q.offset+q.length {
			shared := min(q.offset+q.length, p.offset+p.length) - p.offset
			d := Difference{Kind: KindOverlap, Where: q.String() + " and " + p.String(), Bytes: shared,
				Text: fmt.Sprintf("both have bytes at offset %d of block %v", p.offset, n.id)}
			if p.garbage {
				p, q = q, p
			}
			if p.garbage {
				c.differ(d)
			} else {
				c.about = append(c.about, about{d, core.DataID(p.owner)})
			}
			p = &c.extents[i]
		}
		if q := &c.extents[last]; q.block != p.block || p.offset+p.length > q.offset+q.length {
			last = i
		}
		switch {
		case n.found && p.offset+p.length <= n.size:
		case !p.garbage:
			outside[core.DataID(p.owner)] = true
		case n.found && c.o.Waiting == 0: // the next round of reclaim deletes the garbage entries of a missing block
			c.differ(Difference{Kind: KindExtent, Where: p.String(), Bytes: p.length,
				Text: fmt.Sprintf("%d bytes at offset %d are beyond the end of block %v, which has %d bytes", p.length, p.offset, n.id, n.size)})
		}
	}
	ids := make([]core.DataID, 0, len(outside))
	for id := range outside {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for part := range slices.Chunk(ids, dataTogether) {
		if err := c.judgeOutside(part); err != nil {
			return err
		}
	}
	return nil
}

// judgeOutside looks up content again whose block was missing or too short, because reclaim may have moved or freed it
// in the meantime.
func (c *check) judgeOutside(ids []core.DataID) error {
	now, err := c.meta.Data(c.ctx, ids)
	if err != nil {
		return err
	}
	for i := range now {
		kind, why, err := c.outside(&now[i])
		if err != nil {
			return err
		}
		switch {
		case kind == "":
		case c.o.Waiting > 0:
			c.note("content %d: %s; waiting changes may have released it", now[i].ID, why)
		default:
			c.differAbout(now[i].ID, kind, now[i].Size, "%s", why)
		}
	}
	return nil
}

// outside returns why content cannot be in its extents, or "" if it can.
func (c *check) outside(d *core.DataInfo) (kind, why string, err error) {
	for _, e := range d.Extents {
		br, err := c.blocks.Open(c.ctx, e)
		if core.Is(err, core.NoSuchData) {
			return KindNoBlock, fmt.Sprintf("block %v does not exist", e.Block), nil
		}
		if err != nil {
			return "", "", err
		}
		var b [1]byte
		n, _ := br.ReadAt(b[:], max(e.Length-1, 0))
		if err := br.Close(); err != nil {
			return "", "", err
		}
		if n == 0 {
			return KindExtent, fmt.Sprintf("%d bytes at offset %d are beyond the end of block %v", e.Length, e.Offset, e.Block), nil
		}
	}
	return "", "", nil
}

// judgeLists compares lists of parts with the versions, uploads and garbage entries that refer to them.
func (c *check) judgeLists() error {
	for id, l := range c.lists {
		where := fmt.Sprint("list ", id)
		switch {
		case l.garbage && (l.versions > 0 || l.upload), l.upload && l.versions > 0:
			c.differ(Difference{Kind: KindList, Where: where, Bytes: l.bytes,
				Text: fmt.Sprintf("it has conflicting uses: versions %d, upload in progress %v, garbage %v", l.versions, l.upload, l.garbage)})
		case l.versions == 0 && !l.upload && !l.garbage:
			c.differ(Difference{Kind: KindList, Where: where, Text: fmt.Sprintf("its %d parts are unreferenced", l.parts), Bytes: l.bytes})
		case l.versions > 0 && l.bytes != l.size:
			c.differ(Difference{Kind: KindSize, Where: where, Bytes: l.size,
				Text: fmt.Sprintf("its parts have %d bytes, but %d versions expect %d", l.bytes, l.versions, l.size)})
		}
	}
	return nil
}

// askEngine runs the engine's own check, which finds damage that is not visible in the rows.
func (c *check) askEngine() error {
	v, ok := core.As[core.Verifier](c.meta)
	if !ok {
		return nil
	}
	c.o.Progress("engine", 0, 0)
	lines, err := v.Verify(c.ctx)
	for _, line := range lines {
		c.differ(Difference{Kind: KindEngine, Where: "metadata", Text: line})
	}
	return err
}

// hashes is a set of hashes, each with a mark.
type hashes struct {
	list []uint64 // sorted after a call of sort
	seen []uint64 // a bit for each element of list: 1 if it is marked
}

func (h *hashes) add(n uint64) { h.list = append(h.list, n) }

func (h *hashes) sort() {
	slices.Sort(h.list)
	h.seen = make([]uint64, (len(h.list)+63)/64)
}

// mark marks a hash and reports whether it is in the set.
func (h *hashes) mark(n uint64) bool {
	i, ok := slices.BinarySearch(h.list, n)
	if ok {
		h.seen[i/64] |= 1 << (i % 64)
	}
	return ok
}

// has reports whether a hash is in the set.
func (h *hashes) has(n uint64) bool {
	_, ok := slices.BinarySearch(h.list, n)
	return ok
}

// unmarked returns the hashes without a mark. If a hash was added several times, only its first element is ever marked.
func (h *hashes) unmarked() map[uint64]bool {
	left := map[uint64]bool{}
	for i, n := range h.list {
		if h.seen[i/64]&(1<<(i%64)) == 0 && (i == 0 || h.list[i-1] != n) {
			left[n] = true
		}
	}
	return left
}

// twice returns the hashes that were added more than once.
func (h *hashes) twice() map[uint64]bool {
	found := map[uint64]bool{}
	for i := 1; i < len(h.list); i++ {
		if h.list[i] == h.list[i-1] {
			found[h.list[i]] = true
		}
	}
	return found
}

func hashOf(bucket core.BucketID, key string, number uint64) uint64 {
	var b [512]byte
	buf := binary.BigEndian.AppendUint64(b[:0], uint64(bucket))
	buf = binary.BigEndian.AppendUint64(buf, number)
	return xxh3.Hash(append(buf, key...))
}

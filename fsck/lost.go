package fsck

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"orcas/core"
	"orcas/core/ids"
)

// LostObject is a version of a key, or a part of an upload in progress, with content in a missing block.
type LostObject struct {
	ObjectName
	Size  int64  `json:"size"`
	Block string `json:"block"` // the first missing block
}

// losses holds the content and the lists of parts that are lost with the missing blocks of a Comparison.
type losses struct {
	codec    *ids.Codec
	contents []lostContent                  // ordered by DataID
	lists    map[core.UploadID]core.BlockID // the first missing block of each list with a lost part
}

type lostContent struct {
	id    core.DataID
	block core.BlockID
}

// EachLost calls emit with each object that has content in a missing block, in the order of buckets and keys. It reads
// the objects page by page, so emit may be slow. Objects that are written in the meantime may or may not be included.
// If the listing of a bucket is damaged, EachLost continues with the next bucket, and returns the error at the end.
func EachLost(ctx context.Context, meta Source, found *Comparison, emit func(LostObject) error) error {
	const op = "fsck.EachLost"
	if len(found.Missing) == 0 {
		return nil
	}
	l, err := findLosses(ctx, meta, found)
	if err != nil {
		return core.E(op, core.Internal, err)
	}
	var damaged error
	for b, err := range core.EachBucket(ctx, meta, "") {
		if err == nil {
			if err = l.inBucket(ctx, meta, b, emit); core.Is(err, core.Damaged) {
				damaged = errors.Join(damaged, err)
				continue
			}
		}
		if err != nil {
			return core.E(op, core.Internal, err)
		}
	}
	return damaged
}

// findLosses finds the content in missing blocks, and the lists of parts that refer to it.
func findLosses(ctx context.Context, meta Source, found *Comparison) (*losses, error) {
	blocks := make(map[core.BlockID]bool, len(found.Missing))
	for _, m := range found.Missing {
		blocks[m.Block] = true
	}
	l := &losses{codec: codecOf(ctx, meta), lists: map[core.UploadID]core.BlockID{}}
	skip := func(string, error) {}
	err := EachRow(ctx, meta, func(r *core.Row) error {
		r.EachData(func(d *core.DataInfo) {
			if i := slices.IndexFunc(d.Extents, func(e core.Extent) bool { return blocks[e.Block] }); i >= 0 {
				l.contents = append(l.contents, lostContent{d.ID, d.Extents[i].Block})
			}
		})
		return nil
	}, skip)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(l.contents, func(a, b lostContent) int { return cmp.Compare(a.id, b.id) })
	return l, EachRow(ctx, meta, func(r *core.Row) error {
		if r.Part != nil {
			if block, lost := l.in(r.Part.Segments); lost {
				if _, known := l.lists[r.Part.List]; !known {
					l.lists[r.Part.List] = block
				}
			}
		}
		return nil
	}, skip)
}

// in returns the missing block of the first lost segment.
func (l *losses) in(segments []core.Segment) (block core.BlockID, lost bool) {
	for i := range segments {
		at, ok := slices.BinarySearchFunc(l.contents, segments[i].Data, func(c lostContent, id core.DataID) int { return cmp.Compare(c.id, id) })
		if ok {
			return l.contents[at].block, true
		}
	}
	return block, false
}

// inBucket lists the lost objects of a bucket.
func (l *losses) inBucket(ctx context.Context, meta Source, b *core.BucketInfo, emit func(LostObject) error) error {
	name := func(key string) ObjectName { return ObjectName{Bucket: b.Name, Key: key} }
	kinds := []core.ListKind{core.ListVersions, core.ListUploads}
	if len(l.lists) == 0 {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		q := core.ListQuery{Kind: kind, Bucket: b.ID, Limit: pageSize}
		for {
			p, err := meta.List(ctx, q)
			if err != nil {
				return err
			}
			for i := range p.Objects {
				o := &p.Objects[i]
				block, lost := l.in(o.Segments)
				if !lost && o.List != 0 {
					block, lost = l.lists[o.List]
				}
				if !lost {
					continue
				}
				n := name(o.Key)
				n.Version = l.codec.Version(o.Version())
				if err := emit(LostObject{n, o.Size, block.String()}); err != nil {
					return err
				}
			}
			for i := range p.Uploads {
				if err := l.inUpload(ctx, meta, &p.Uploads[i], name, emit); err != nil {
					return err
				}
			}
			if !p.Truncated {
				break
			}
			q.After = p.Next
		}
	}
	return nil
}

// inUpload lists the lost parts of an upload in progress.
func (l *losses) inUpload(ctx context.Context, meta Source, u *core.UploadInfo, name func(string) ObjectName, emit func(LostObject) error) error {
	if _, some := l.lists[u.ID]; !some {
		return nil
	}
	for p, err := range core.EachPart(ctx, meta, u.ID) {
		if err != nil {
			return err
		}
		block, lost := l.in(p.Segments)
		if !lost {
			continue
		}
		n := name(u.Key)
		n.Upload, n.Part = l.codec.Upload(u.ID), p.Number
		if err := emit(LostObject{n, p.Size, block.String()}); err != nil {
			return err
		}
	}
	return nil
}

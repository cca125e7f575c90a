package encoding

import (
	"fmt"

	"orcas/core"
)

// SizeBound returns an upper bound on the size of the binary form of a change, in bytes.
func SizeBound(c core.Change) int64 {
	const fixed = 256
	switch c := c.(type) {
	case *core.PutBucket:
		n := fixed + int64(len(c.Info.Name)) + bucketBound(&c.Info)
		if c.Expect != nil {
			n += fixed + bucketBound(c.Expect)
		}
		return n
	case *core.PutObject:
		return fixed + objectBound(&c.Object) + ifBound(&c.If) + sourceBound(c.Source)
	case *core.DeleteObject:
		return fixed + int64(len(c.Key)+len(c.Owner)) + ifBound(&c.If)
	case *core.UpdateObject:
		return fixed + int64(len(c.Key)) + attrsBound(c.Tags)
	case *core.MoveObject:
		return fixed + int64(len(c.From.Key)+len(c.Key)+len(c.Token)+len(c.Owner)) + ifBound(&c.If)
	case *core.CreateUpload:
		return fixed + int64(len(c.Upload.Key)+len(c.Upload.Owner)) + attrsBound(c.Upload.Attrs) + attrsBound(c.Upload.Tags)
	case *core.PutPart:
		return fixed + int64(len(c.Key)+len(c.Part.ETag)) + sumsBound(c.Part.Sums) + segmentsBound(c.Part.Segments) + sourceBound(c.Source)
	case *core.CompleteUpload:
		return fixed + 20*int64(len(c.Parts)) + objectBound(&c.Object) + ifBound(&c.If)
	case *core.AbortUpload:
		return fixed + int64(len(c.Key))
	case *core.MoveData:
		return fixed + 48*int64(len(c.From)+max(len(c.From), len(c.To))) // the batch sets To
	case *core.RepairData:
		return fixed + 48*int64(len(c.From)) + segmentsBound([]core.Segment{{Info: c.Info}})
	case *core.RewrapData:
		return fixed + int64(len(c.From)+len(c.DataKey))
	case *core.FreeGarbage:
		return fixed + 10*int64(len(c.IDs))
	case *core.DeleteBucket, *core.SetReplayFrom, *core.Synced, *core.Void, *core.DropParts, *core.Unshare:
		return fixed
	case *core.PutRecord:
		return fixed + int64(len(c.Record.Kind)+len(c.Record.Key)+len(c.Record.Value)+len(c.Expect))
	}
	panic(fmt.Sprintf("encoding: no bound for %T", c)) // the set of changes is closed, so this is a bug
}

func bucketBound(b *core.BucketInfo) int64 {
	return int64(len(b.Owner)+len(b.Region)) + attrsBound(b.Attrs)
}

func objectBound(o *core.ObjectInfo) int64 {
	return int64(len(o.Key)+len(o.ETag)+len(o.Owner)+20*len(o.Index)) +
		attrsBound(o.Attrs) + attrsBound(o.Tags) + sumsBound(o.Sums) + segmentsBound(o.Segments)
}

func attrsBound(attrs []core.Attr) (n int64) {
	for _, a := range attrs {
		n += 8 + int64(len(a.Name)+len(a.Value))
	}
	return n
}

func sumsBound(sums []core.Checksum) (n int64) {
	for _, s := range sums {
		n += 16 + int64(len(s.Value))
	}
	return n
}

func segmentsBound(segments []core.Segment) (n int64) {
	for _, s := range segments {
		n += 32
		if s.Info != nil { // plus one extent, which the batch adds
			n += 128 + sumsBound(s.Info.Sums) + int64(len(s.Info.DataKey)) + 48*int64(1+len(s.Info.Extents))
		}
	}
	return n
}

func ifBound(p *core.Precondition) int64 {
	n := 64 + attrsBound(p.Tags)
	for _, list := range [][]string{p.Match, p.NoneMatch} {
		for _, s := range list {
			n += 8 + int64(len(s))
		}
	}
	return n
}

func sourceBound(s *core.Source) int64 {
	if s == nil {
		return 0
	}
	return 80 + int64(len(s.Key)) + sumsBound(s.Sums)
}

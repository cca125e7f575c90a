package mem

import (
	"slices"

	"orcas/core"
)

func cloneBucket(b core.BucketInfo) core.BucketInfo {
	b.Attrs = slices.Clone(b.Attrs)
	return b
}

func cloneSums(sums []core.Checksum) []core.Checksum {
	sums = slices.Clone(sums)
	for i := range sums {
		sums[i].Value = slices.Clone(sums[i].Value)
	}
	return sums
}

func cloneData(d *core.DataInfo) core.DataInfo {
	c := *d
	c.Sums = cloneSums(d.Sums)
	c.DataKey = slices.Clone(d.DataKey)
	c.Extents = slices.Clone(d.Extents)
	return c
}

// cloneSegments copies segments without their Info, which is stored in contents.
func cloneSegments(segments []core.Segment) []core.Segment {
	segments = slices.Clone(segments)
	for i := range segments {
		segments[i].Info = nil
	}
	return segments
}

func cloneObject(o *core.ObjectInfo) core.ObjectInfo {
	c := *o
	c.Sums = cloneSums(o.Sums)
	c.Attrs = slices.Clone(o.Attrs)
	c.Tags = slices.Clone(o.Tags)
	c.Segments = cloneSegments(o.Segments)
	c.Index = slices.Clone(o.Index)
	return c
}

func cloneUpload(u *core.UploadInfo) core.UploadInfo {
	c := *u
	c.Attrs = slices.Clone(u.Attrs)
	c.Tags = slices.Clone(u.Tags)
	return c
}

func clonePart(p *core.PartInfo) core.PartInfo {
	c := *p
	c.Sums = cloneSums(p.Sums)
	c.Segments = cloneSegments(p.Segments)
	return c
}

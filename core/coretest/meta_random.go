package coretest

import (
	"time"

	"pgregory.net/rapid"

	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/checksum"
)

// RandomChange draws a change of any kind with any contents that its binary form can carry: for tests of encodings, not for
// Apply. Lists are nil where they are empty, times are in UTC.
func RandomChange(t *rapid.T) core.Change {
	g := anything{t}
	var c core.Change
	switch rapid.IntRange(1, 18).Draw(t, "kind") {
	case 1:
		c = &core.PutBucket{Info: g.bucket()}
	case 2:
		c = &core.DeleteBucket{Bucket: core.BucketID(g.uint())}
	case 3:
		c = &core.PutObject{Object: g.object(), If: g.precondition(), Source: g.source()}
	case 4:
		c = &core.DeleteObject{Bucket: core.BucketID(g.uint()), Key: g.text(), Version: core.Version(g.uint()), If: g.precondition(), Modified: g.time(), Owner: g.text(), Bypass: g.bool()}
	case 5:
		c = &core.CreateUpload{Upload: core.UploadInfo{Bucket: core.BucketID(g.uint()), Key: g.text(), Initiated: g.time(), Owner: g.text(),
			Algorithm: checksum.Algorithm(g.int(10)), Composite: g.bool(), Attrs: g.attrs(), Tags: g.attrs(), Lock: g.lock()}}
	case 6:
		c = &core.PutPart{Bucket: core.BucketID(g.uint()), Key: g.text(), Upload: core.UploadID(g.uint()), Source: g.source(),
			Part: core.PartInfo{Number: int(g.int(1 << 40)), Modified: g.time(), Size: g.int(1 << 62), ETag: g.etag(), Sums: g.sums(), Segments: g.segments()}}
	case 7:
		o := g.object()
		c = &core.CompleteUpload{Upload: core.UploadID(g.uint()), Object: o, If: g.precondition(),
			Parts: some(g, 1, 4, func() core.PartRef { return core.PartRef{Number: int(g.int(1 << 40)), Seq: core.Seq(g.uint())} })}
	case 8:
		c = &core.AbortUpload{Bucket: core.BucketID(g.uint()), Key: g.text(), Upload: core.UploadID(g.uint())}
	case 9:
		r := &core.PutRecord{Record: core.Record{Kind: g.text(), Key: g.text()}, HasExpect: g.bool()}
		if g.bool() {
			r.Record.Value = append([]byte{}, g.bytes()...)
		}
		if r.HasExpect {
			r.Expect = g.bytes()
		}
		c = r
	case 10:
		c = &core.SetFloor{Floor: g.block()}
	case 11:
		c = &core.Void{From: core.Seq(g.uint()), To: core.Seq(g.uint())}
	case 12:
		c = &core.MoveData{Data: core.DataID(g.uint()), From: g.extents(), To: g.extents()}
	case 13:
		c = &core.FreeGarbage{IDs: some(g, 1, 4, g.uint)}
	case 14:
		c = &core.DropParts{Garbage: g.uint(), Count: int(g.int(10_000))}
	case 15:
		c = &core.UpdateObject{Bucket: core.BucketID(g.uint()), Key: g.text(), Version: core.Version(g.uint()), SetTags: g.bool(),
			SetRetention: g.bool(), SetHold: g.bool(), Tags: g.attrs(), Lock: g.lock(), Time: g.time(), Bypass: g.bool()}
	case 16:
		c = &core.RewrapData{Data: core.DataID(g.uint()), From: g.bytes(), KeyID: uint32(g.int(1<<32 - 1)), DataKey: g.bytes()}
	case 17:
		c = &core.MoveObject{From: core.Source{Bucket: core.BucketID(g.uint()), Key: g.text(), Seq: core.Seq(g.uint())}, Bucket: core.BucketID(g.uint()),
			Key: g.text(), If: g.precondition(), Lock: g.lock(), Token: g.text(), Time: g.time(), Owner: g.text()}
	case 18:
		c = &core.Unshare{Data: core.DataID(g.uint())}
	}
	c.Place().Seq = core.Seq(g.uint())
	return c
}

// anything draws the fields of nouns, the zero value often.
type anything struct{ t *rapid.T }

func (g anything) bool() bool { return rapid.Bool().Draw(g.t, "bool") }

func (g anything) uint() uint64 {
	return rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64()).Draw(g.t, "uint")
}

// int draws from 0 up to most.
func (g anything) int(most int64) int64 {
	return rapid.OneOf(rapid.Int64Range(0, min(most, 300)), rapid.Int64Range(0, most)).Draw(g.t, "int")
}

func (g anything) text() string { return string(g.bytes()) }

func (g anything) bytes() []byte {
	b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(g.t, "bytes")
	if len(b) == 0 {
		return nil
	}
	return b
}

func (g anything) time() time.Time {
	if !g.bool() {
		return time.Time{}
	}
	return time.UnixMilli(1 + g.int(1<<48)).UTC()
}

func (g anything) block() core.BlockID {
	return core.MakeBlockID(g.uint(), uint32(g.int(1<<32-1)), uint32(g.int(1<<32-1)))
}

// some draws a list of least to most elements, nil where there are none.
func some[T any](g anything, least, most int, one func() T) []T {
	var found []T
	for range rapid.IntRange(least, most).Draw(g.t, "length") {
		found = append(found, one())
	}
	return found
}

func (g anything) attrs() []core.Attr {
	return some(g, 0, 3, func() core.Attr {
		name := rapid.SampledFrom([]string{"Content-Type", "Expires", "x-amz-meta-a", "content-type", ""}).Draw(g.t, "name")
		return core.Attr{Name: name, Value: g.text()}
	})
}

func (g anything) sums() []core.Checksum {
	return some(g, 0, 3, func() core.Checksum {
		s := core.Checksum{Algorithm: checksum.Algorithm(g.int(10)), Composite: g.bool(), Value: g.bytes()}
		if s.Composite {
			s.Parts = int(g.int(10_000))
		}
		return s
	})
}

func (g anything) etag() string {
	return rapid.OneOf(rapid.StringMatching(`[0-9a-f]{32}(-[0-9]{1,5})?`), rapid.String(), rapid.StringMatching(`[0-9a-fA-F]{31,33}(-+[0-9]{1,25})?`)).Draw(g.t, "etag")
}

func (g anything) lock() core.Lock {
	return core.Lock{Mode: core.LockMode(g.int(2)), Until: g.time(), Hold: core.LegalHold(g.int(2))}
}

func (g anything) precondition() core.Precondition {
	if !g.bool() {
		return core.Precondition{}
	}
	p := core.Precondition{Match: some(g, 0, 2, g.etag), NoneMatch: some(g, 0, 2, g.etag), Seq: core.Seq(g.uint()), Modified: g.time(), HasSize: g.bool()}
	if p.HasSize {
		p.Size = g.int(1 << 62)
	}
	if p.HasTags = g.bool(); p.HasTags && g.bool() {
		p.Tags = []core.Attr{{Name: "a", Value: "b"}}
	}
	return p
}

func (g anything) source() *core.Source {
	if !g.bool() {
		return nil
	}
	if g.bool() {
		return &core.Source{Content: &core.ContentKey{Scope: core.BucketID(g.uint()), KeyID: uint32(g.int(1<<32 - 1)),
			SHA256: [32]byte{byte(g.int(255)), 2}, Size: g.int(1 << 62)}, Sums: g.sums()}
	}
	return &core.Source{Bucket: core.BucketID(g.uint()), Key: g.text(), Seq: core.Seq(g.uint())}
}

// extents draws extents some of which follow each other in a block, as those of a large content do.
func (g anything) extents() []core.Extent {
	var found []core.Extent
	some(g, 0, 3, func() bool {
		e := core.Extent{Block: g.block(), Offset: g.int(1 << 50), Length: g.int(1 << 40)}
		if n := len(found); n > 0 && g.bool() {
			e.Block = found[n-1].Block
		}
		for range rapid.IntRange(1, 4).Draw(g.t, "run") {
			found = append(found, e)
			e.Offset += e.Length
		}
		return true
	})
	return found
}

func (g anything) segments() []core.Segment {
	return some(g, 0, 3, func() core.Segment {
		s := core.Segment{Data: core.DataID(g.uint()), From: g.int(1 << 62), Length: g.int(1 << 62)}
		if g.bool() {
			s.Info = &core.DataInfo{ID: s.Data, Size: g.int(1 << 62), Sums: g.sums(), Codec: uint8(g.int(255)), Dictionary: uint32(g.int(1<<32 - 1)), KeyID: uint32(g.int(1<<32 - 1)),
				DataKey: g.bytes(), ChunkSize: g.int(1 << 40), Extents: g.extents(), Scope: core.BucketID(g.uint())}
			if g.bool() {
				s.Info.SHA256 = [32]byte{1, 2, byte(g.int(255))}
			}
		}
		return s
	})
}

func (g anything) bucket() core.BucketInfo {
	return core.BucketInfo{ID: core.BucketID(g.uint()), Name: g.text(), Owner: g.text(), Region: g.text(), Created: g.time(),
		Versioning: core.Versioning(g.int(2)), ObjectLock: g.bool(), ChunkSize: g.int(1 << 40), Compression: codec.Level(g.int(255)),
		Encrypted: g.bool(), Attrs: g.attrs(), Quota: core.Quota{Bytes: g.int(1 << 62), Objects: g.int(1 << 62)},
		Retention: core.DefaultRetention{Mode: core.LockMode(g.int(2)), Days: int(g.int(36_500)), Years: int(g.int(100))}}
}

func (g anything) object() core.ObjectInfo {
	return core.ObjectInfo{Bucket: core.BucketID(g.uint()), Key: g.text(), Null: g.bool(), Marker: g.bool(), Modified: g.time(), Placed: g.time(), Size: g.int(1 << 62),
		ETag: g.etag(), Sums: g.sums(), Attrs: g.attrs(), Tags: g.attrs(), Owner: g.text(), Lock: g.lock(), Segments: g.segments(),
		List: core.UploadID(g.uint()), Parts: int(g.int(10_000)),
		Index: some(g, 0, 3, func() core.PartIndex {
			return core.PartIndex{After: int(g.int(10_000)), Offset: g.int(1 << 62)}
		})}
}

package coretest

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"orcas/core"
	"orcas/internal/checksum"
)

// RandomChange draws a change of any kind with any values that can be encoded. It is for tests of encodings, not for
// Apply. Empty lists are nil, and times are in UTC.
func RandomChange(t *rapid.T) core.Change {
	c := randomChanges[rapid.SampledFrom(RandomKinds()).Draw(t, "kind")](anything{t})
	c.SetStamp(core.Seq(anything{t}.uint()))
	return c
}

// RandomKinds returns the kinds that RandomChange draws.
func RandomKinds() []core.ChangeKind { return slices.Sorted(maps.Keys(randomChanges)) }

var randomChanges = map[core.ChangeKind]func(g anything) core.Change{
	core.ChangePutBucket: func(g anything) core.Change {
		c := &core.PutBucket{Info: g.bucket()}
		if g.bool() {
			expect := g.bucket()
			expect.ID, expect.Name = 0, ""
			c.Expect = &expect
		}
		return c
	},
	core.ChangeDeleteBucket: func(g anything) core.Change { return &core.DeleteBucket{Bucket: core.BucketID(g.uint())} },
	core.ChangePutObject: func(g anything) core.Change {
		return &core.PutObject{Object: g.object(), If: g.precondition(), Source: g.source()}
	},
	core.ChangeDeleteObject: func(g anything) core.Change {
		return &core.DeleteObject{Bucket: core.BucketID(g.uint()), Key: g.text(), Version: core.Version(g.uint()), If: g.precondition(), Modified: g.time(), Owner: g.text(), Bypass: g.bool()}
	},
	core.ChangeCreateUpload: func(g anything) core.Change {
		return &core.CreateUpload{Upload: core.UploadInfo{Bucket: core.BucketID(g.uint()), Key: g.text(), Initiated: g.time(), Owner: g.text(),
			Algorithm: checksum.Algorithm(g.int(10)), Composite: g.bool(), Attrs: g.attrs(), Tags: g.attrs(), Lock: g.lock()}}
	},
	core.ChangePutPart: func(g anything) core.Change {
		return &core.PutPart{Bucket: core.BucketID(g.uint()), Key: g.text(), Upload: core.UploadID(g.uint()), Source: g.source(),
			Part: core.PartInfo{Number: int(g.int(1 << 40)), Modified: g.time(), Size: g.int(1 << 62), ETag: g.etag(), Sums: g.sums(), Segments: g.segments()}}
	},
	core.ChangeCompleteUpload: func(g anything) core.Change {
		o := g.object()
		return &core.CompleteUpload{Upload: core.UploadID(g.uint()), Object: o, If: g.precondition(),
			Parts: some(g, 1, 4, func() core.PartRef { return core.PartRef{Number: int(g.int(1 << 40)), Seq: core.Seq(g.uint())} })}
	},
	core.ChangeAbortUpload: func(g anything) core.Change {
		return &core.AbortUpload{Bucket: core.BucketID(g.uint()), Key: g.text(), Upload: core.UploadID(g.uint())}
	},
	core.ChangePutRecord: func(g anything) core.Change {
		r := &core.PutRecord{Record: core.Record{Kind: g.text(), Key: g.text()}, HasExpect: g.bool()}
		if g.bool() {
			r.Record.Value = append([]byte{}, g.bytes()...)
		}
		if r.HasExpect {
			r.Expect = g.bytes()
		}
		if g.bool() {
			r.In = core.BucketID(g.uint())
		}
		return r
	},
	core.ChangeSetReplayFrom: func(g anything) core.Change { return &core.SetReplayFrom{ReplayFrom: g.block()} },
	core.ChangeSynced: func(g anything) core.Change {
		return &core.Synced{UpTo: core.Seq(g.uint()), ReplayFrom: g.block(), Relaxed: g.bool()}
	},
	core.ChangeVoid: func(g anything) core.Change { return &core.Void{From: core.Seq(g.uint()), To: core.Seq(g.uint())} },
	core.ChangeMoveData: func(g anything) core.Change {
		return &core.MoveData{Data: core.DataID(g.uint()), From: g.extents(), To: g.extents()}
	},
	core.ChangeFreeGarbage: func(g anything) core.Change { return &core.FreeGarbage{IDs: some(g, 1, 4, g.uint)} },
	core.ChangeDropParts:   func(g anything) core.Change { return &core.DropParts{Garbage: g.uint(), Count: int(g.int(10_000))} },
	core.ChangeUpdateObject: func(g anything) core.Change {
		return &core.UpdateObject{Bucket: core.BucketID(g.uint()), Key: g.text(), Version: core.Version(g.uint()), SetTags: g.bool(),
			SetRetention: g.bool(), SetHold: g.bool(), Tags: g.attrs(), Lock: g.lock(), Time: g.time(), Bypass: g.bool()}
	},
	core.ChangeRewrapData: func(g anything) core.Change {
		return &core.RewrapData{Data: core.DataID(g.uint()), From: g.bytes(), KeyID: uint32(g.int(1<<32 - 1)), DataKey: g.bytes()}
	},
	core.ChangeMoveObject: func(g anything) core.Change {
		return &core.MoveObject{From: core.Source{Bucket: core.BucketID(g.uint()), Key: g.text(), Seq: core.Seq(g.uint())}, Bucket: core.BucketID(g.uint()),
			Key: g.text(), If: g.precondition(), Lock: g.lock(), Token: g.text(), Time: g.time(), Owner: g.text()}
	},
	core.ChangeUnshare:    func(g anything) core.Change { return &core.Unshare{Data: core.DataID(g.uint())} },
	core.ChangeRepairData: func(g anything) core.Change { return &core.RepairData{From: g.extents(), Info: g.data()} },
}

// anything draws values of fields, often the zero value.
type anything struct{ t *rapid.T }

func (g anything) bool() bool { return rapid.Bool().Draw(g.t, "bool") }

func (g anything) uint() uint64 {
	return rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64()).Draw(g.t, "uint")
}

// int draws a number from 0 to highest.
func (g anything) int(highest int64) int64 {
	return rapid.OneOf(rapid.Int64Range(0, min(highest, 300)), rapid.Int64Range(0, highest)).Draw(g.t, "int")
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

// some draws a list of shortest to longest elements, or nil if it is empty.
func some[T any](g anything, shortest, longest int, one func() T) []T {
	var found []T
	for range rapid.IntRange(shortest, longest).Draw(g.t, "length") {
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
		p.Tags = g.attrs()
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

// extents draws extents, some of which are adjacent in a block, as in large content.
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
			s.Info = g.data()
			s.Info.ID = s.Data
		}
		return s
	})
}

func (g anything) data() *core.DataInfo {
	d := &core.DataInfo{ID: core.DataID(g.uint()), Size: g.int(1 << 62), Sums: g.sums(), Codec: uint8(g.int(255)), Dictionary: uint32(g.int(1<<32 - 1)),
		KeyID: uint32(g.int(1<<32 - 1)), DataKey: g.bytes(), ChunkSize: g.int(1 << 40), Extents: g.extents(), Scope: core.BucketID(g.uint()),
		Damaged: g.bool(), Written: g.time()}
	if g.bool() {
		d.SHA256 = [32]byte{1, 2, byte(g.int(255))}
	}
	return d
}

func (g anything) bucket() core.BucketInfo {
	return core.BucketInfo{ID: core.BucketID(g.uint()), Name: g.text(), Owner: g.text(), Region: g.text(), Created: g.time(),
		Versioning: core.Versioning(g.int(2)), ObjectLock: g.bool(), ChunkSize: g.int(1 << 40), Compression: core.Compression(g.int(255)),
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

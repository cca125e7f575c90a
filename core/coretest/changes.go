package coretest

import (
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// ChangeCase is a row of the table of changes.
type ChangeCase struct {
	Change func(w *Walk) core.Change // returns the change, without a stamp

	// Idle is set if the change only updates the sequence of the store.
	Idle bool

	// The keys in the bucket of the Walk, and the names of buckets, that a cache must invalidate after the change.
	Keys, Buckets []string

	// Brings returns the DataID and the extents of content that the change adds. It is nil if the change adds no
	// content.
	Brings func(core.Change) (core.DataID, *[]core.Extent)
}

// EveryChange has at least one row for each kind of change, in an order in which all of them succeed. Tests use it for
// all code that must handle every kind: size bounds, caches, engines, recovery. TestEveryChangeHasItsRows fails if a
// kind has no row.
func EveryChange() []ChangeCase {
	at := time.UnixMilli(1_790_000_000_123).UTC()
	key := func(w *Walk, key string, id core.DataID) core.ObjectInfo {
		return core.ObjectInfo{Bucket: w.Bucket, Key: key, Modified: at, Size: 100, ETag: "e", Segments: walkSegments(id, w.block())}
	}
	target := func(w *Walk) core.Source { return core.Source{Bucket: w.Bucket, Key: "a", Seq: w.object} }
	return []ChangeCase{
		{Change: func(*Walk) core.Change { return &core.PutBucket{Info: core.BucketInfo{Name: WalkBucket, Created: at}} }, Buckets: []string{WalkBucket}},
		{Change: func(*Walk) core.Change { return &core.PutBucket{Info: core.BucketInfo{Name: "gone", Created: at}} }, Buckets: []string{"gone"}},
		{Change: func(w *Walk) core.Change { return &core.DeleteBucket{Bucket: w.newest} }, Buckets: []string{"gone", WalkBucket}},
		{Change: func(w *Walk) core.Change { return &core.PutObject{Object: key(w, "other", 1)} }, Keys: []string{"other"}, Brings: broughtByPut},
		{Change: func(w *Walk) core.Change { return &core.PutObject{Object: key(w, "a", walkData)} }, Keys: []string{"a"}, Brings: broughtByPut},
		{Change: func(w *Walk) core.Change {
			return &core.UpdateObject{Bucket: w.Bucket, Key: "a", SetTags: true, Tags: []core.Attr{{Name: "k", Value: "v"}}, Time: at}
		}, Keys: []string{"a"}},
		{Change: func(w *Walk) core.Change {
			c := &core.MoveData{Data: walkData, From: w.extents}
			c.To = walkExtents(w.block())
			return c
		}, Keys: []string{"a"}, Brings: func(c core.Change) (core.DataID, *[]core.Extent) {
			return c.(*core.MoveData).Data, &c.(*core.MoveData).To
		}},
		{Change: func(*Walk) core.Change {
			return &core.RewrapData{Data: walkData, From: []byte("wrapped"), KeyID: 2, DataKey: []byte("wrapped again")}
		}, Keys: []string{"a"}},
		{Change: func(*Walk) core.Change { return &core.Unshare{Data: walkData} }, Keys: []string{"a"}},
		{Change: func(w *Walk) core.Change {
			return &core.RepairData{From: w.extents, Info: walkSegments(walkData, w.block())[0].Info}
		}, Keys: []string{"a"}, Brings: func(c core.Change) (core.DataID, *[]core.Extent) {
			info := c.(*core.RepairData).Info
			return info.ID, &info.Extents
		}},
		{Change: func(w *Walk) core.Change {
			return &core.MoveObject{From: target(w), Bucket: w.Bucket, Key: "moved", Time: at}
		},
			Keys: []string{"a", "moved"}},
		{Change: func(w *Walk) core.Change { return &core.DeleteObject{Bucket: w.Bucket, Key: "moved", Modified: at} }, Keys: []string{"moved"}},
		{Change: func(w *Walk) core.Change { return &core.FreeGarbage{IDs: []uint64{2 * uint64(w.last)}} }},
		{Change: func(w *Walk) core.Change {
			return &core.CreateUpload{Upload: core.UploadInfo{Bucket: w.Bucket, Key: "parts", Initiated: at}}
		}},
		{Change: putWalkPart, Brings: broughtByPart},
		{Change: func(w *Walk) core.Change {
			return &core.CompleteUpload{Upload: w.upload, Parts: []core.PartRef{{Number: 1, Seq: w.last}},
				Object: core.ObjectInfo{Bucket: w.Bucket, Key: "parts", Modified: at, Size: 100, ETag: "e", Parts: 1}}
		}, Keys: []string{"parts"}},
		{Change: func(w *Walk) core.Change {
			return &core.CreateUpload{Upload: core.UploadInfo{Bucket: w.Bucket, Key: "parts", Initiated: at}}
		}},
		{Change: putWalkPart, Brings: broughtByPart},
		{Change: func(w *Walk) core.Change { return &core.AbortUpload{Bucket: w.Bucket, Key: "parts", Upload: w.upload} }},
		{Change: func(w *Walk) core.Change { return &core.DropParts{Garbage: 2*uint64(w.last) + 1, Count: 1} }},
		{Change: func(*Walk) core.Change {
			return &core.PutRecord{Record: core.Record{Kind: kindUser, Key: "name", Value: []byte("value")}}
		}},
		{Change: func(w *Walk) core.Change { return &core.SetReplayFrom{ReplayFrom: core.MakeBlockID(1, 1, w.block())} }},
		{Change: func(w *Walk) core.Change {
			return &core.Synced{UpTo: w.last, ReplayFrom: core.MakeBlockID(1, 1, w.block())}
		}},
		{Change: func(w *Walk) core.Change { return &core.Void{From: w.last + 1, To: w.last + 1} }, Idle: true},
	}
}

// The constants in the changes of EveryChange. A Walk determines all other values.
const (
	WalkBucket = "b"
	walkData   = core.DataID(2) // the content of the key "a"
)

// WalkKeys are the keys that EveryChange writes.
var WalkKeys = []string{"a", "moved", "other", "parts"}

// Walk iterates over EveryChange, and keeps the results of earlier changes that later changes need.
type Walk struct {
	Bucket core.BucketID // the ID of WalkBucket

	newest  core.BucketID
	object  core.Seq // the sequence of the key "a"
	extents []core.Extent
	upload  core.UploadID
	data    core.DataID
	blocks  uint32
	last    core.Seq // the sequence of the last change
}

// Stamp gives a change the sequence after the last change. It skips the sequence that a Void refers to.
func (w *Walk) Stamp(c core.Change) {
	seq := w.last + core.SeqCount(c)
	if _, void := c.(*core.Void); void {
		seq++
	}
	c.SetStamp(seq)
}

// Done records that a change was written.
func (w *Walk) Done(c core.Change, r core.Result) {
	w.last = r.Seq
	switch c := c.(type) {
	case *core.PutBucket:
		w.newest = core.BucketID(r.Seq)
		if c.Info.Name == WalkBucket {
			w.Bucket = w.newest
		}
	case *core.PutObject:
		w.object = r.Seq
		w.extents = c.Object.Segments[0].Info.Extents
	case *core.MoveData:
		w.extents = c.To
	case *core.RepairData:
		w.extents = c.Info.Extents
	case *core.CreateUpload:
		w.upload = core.UploadID(r.Seq)
	}
}

// block returns the number of a new, empty block.
func (w *Walk) block() uint32 {
	w.blocks++
	return w.blocks
}

func walkExtents(block uint32) []core.Extent {
	return []core.Extent{{Block: core.MakeBlockID(1, 1, block), Offset: 64, Length: 200}}
}

func walkSegments(id core.DataID, block uint32) []core.Segment {
	return []core.Segment{{Data: id, Length: 100, Info: &core.DataInfo{
		ID: id, Size: 100, SHA256: [32]byte{byte(id), 1}, KeyID: 1, DataKey: []byte("wrapped"), Extents: walkExtents(block),
	}}}
}

func putWalkPart(w *Walk) core.Change {
	w.data++
	return &core.PutPart{Bucket: w.Bucket, Key: "parts", Upload: w.upload, Part: core.PartInfo{
		Number: 1, Modified: time.UnixMilli(1_790_000_000_123).UTC(), Size: 100, ETag: "e", Segments: walkSegments(walkData+w.data, w.block()),
	}}
}

func broughtByPut(c core.Change) (core.DataID, *[]core.Extent) {
	s := &c.(*core.PutObject).Object.Segments[0]
	return s.Data, &s.Info.Extents
}

func broughtByPart(c core.Change) (core.DataID, *[]core.Extent) {
	s := &c.(*core.PutPart).Part.Segments[0]
	return s.Data, &s.Info.Extents
}

// changeCases returns a case that applies every kind of change to the engine.
func changeCases() []metaCase {
	return []metaCase{{"changes/each kind has an effect", func(h *harness) {
		w := &Walk{}
		before := h.state()
		for _, row := range EveryChange() {
			c := row.Change(w)
			if f, ok := c.(*core.FreeGarbage); ok {
				h.freed = append(h.freed, w.extents...)
				require.Len(h.t, f.IDs, 1)
			}
			w.Done(c, h.ok(c))
			after := h.check()
			before.State.Seq = after.State.Seq
			if row.Idle {
				require.Equal(h.t, before, after, "%T must not write anything", c)
			} else {
				require.NotEqual(h.t, before, after, "%T did not write anything", c)
			}
			before = after
		}
	}}}
}

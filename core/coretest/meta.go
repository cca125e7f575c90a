// Package coretest holds what every driver of core's contracts has to pass: Meta, MetaReopen and MetaModel for metadata
// engines, their counterparts for block stores, and wrappers that fail and count, for tests of the floors above. A defect that
// is found in one driver becomes a case here.
//
// Where core leaves something open, the case that settles it says so in its name or its comment; the answer is what S3 does.
package coretest

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/mem"
	"orcas/internal/checksum"
)

// Meta runs the conformance suite. open returns an empty engine; the suite closes it. After each case everything that the engine
// says is checked against the invariants and against the model (package mem) after the same changes, and all changes are
// applied once more, which has to change nothing. The engine is a core.SingleWriter, or stands before one: stamps are sequences.
func Meta(t *testing.T, open func(t *testing.T) core.Meta) {
	for _, group := range [][]metaCase{
		bucketCases(), recordCases(), applyCases(), objectCases(), versionCases(), preconditionCases(), copyCases(), moveCases(), tailCases(), sameCases(),
		contentCases(), uploadCases(), completeCases(), listCases(), listVersionCases(), listUploadCases(), updateCases(), lockCases(), quotaCases(), findCases(), reclaimCases(), snapshotCases(),
	} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				h := newHarness(t, open(t))
				h.open = func() core.Meta { return open(t) }
				c.run(h)
				h.finish()
			})
		}
	}
}

type metaCase struct {
	name string
	run  func(h *harness)
}

// harness is an engine under test, with what has been done to it.
type harness struct {
	t       require.TestingT
	ctx     context.Context
	m       core.Meta
	open    func() core.Meta // an empty engine of the kind of m; nil: not known
	seq     core.Seq         // the last one stamped
	data    core.DataID      // the last one given to content
	moved   uint32           // the last block to which content was moved
	history []core.Change
	brought []core.Extent // by changes that were written
	freed   []core.Extent // of garbage that was taken away
}

func newHarness(t require.TestingT, m core.Meta) *harness {
	return &harness{t: t, ctx: context.Background(), m: m}
}

// finish checks everything at the end of a case and closes the engine.
func (h *harness) finish() {
	s := h.check()
	model := mem.NewMeta()
	_, err := model.Apply(h.ctx, h.history)
	require.NoError(h.t, err)
	require.Equal(h.t, h.read(model).Comparable(), s.Comparable(), "the model (expected) and the driver (actual)")
	for _, r := range h.applyAgain(h.history...) {
		require.True(h.t, r.Skipped, "change %d is applied twice", r.Seq)
		require.NoError(h.t, r.Err)
	}
	require.Equal(h.t, s, h.state(), "a replay changes nothing")
	h.snapshots()
	require.NoError(h.t, h.m.Close())
}

// check reads everything, checks the invariants, and that no extent is lost.
func (h *harness) check() *MetaState {
	s := h.state()
	s.Check(h.t)
	var have []core.Extent
	for _, d := range s.Data {
		have = append(have, d.Extents...)
	}
	for _, g := range s.Garbage {
		have = append(have, g.Extents...)
	}
	have = append(have, h.freed...)
	slices.SortFunc(have, compareExtents)
	want := slices.Clone(h.brought)
	slices.SortFunc(want, compareExtents)
	require.Equal(h.t, want, have, "every extent ever brought is live, garbage, or freed as garbage")
	h.checkFound(h.m, s)
	return s
}

// The kinds of records that cases use; those of buckets are known anyway.
const kindUser, kindCursor = "user", "cursor"

func (h *harness) state() *MetaState { return h.read(h.m) }

func (h *harness) read(m core.Meta) *MetaState {
	s, err := ReadMeta(h.ctx, m, kindUser, kindCursor)
	require.NoError(h.t, err)
	return s
}

// apply stamps changes, applies them in one batch and keeps the books.
func (h *harness) apply(changes ...core.Change) []core.Result {
	for _, c := range changes {
		h.seq += core.Places(c)
		c.Place().Seq = h.seq
	}
	results, err := h.m.Apply(h.ctx, changes)
	require.NoError(h.t, err)
	h.record(changes, results)
	return results
}

// applyAgain applies changes that have their sequences already, and keeps no books.
func (h *harness) applyAgain(changes ...core.Change) []core.Result {
	results, err := h.m.Apply(h.ctx, changes)
	require.NoError(h.t, err)
	require.Len(h.t, results, len(changes))
	return results
}

// record keeps the books: the history, and the extents that changes brought.
func (h *harness) record(changes []core.Change, results []core.Result) {
	require.Len(h.t, results, len(changes))
	for i, c := range changes {
		require.Equal(h.t, c.Place().Seq, results[i].Seq, "Result.Seq")
		require.False(h.t, results[i].Skipped)
		if results[i].Err == nil {
			for _, s := range segmentsOf(c) {
				if s.Info != nil {
					h.brought = append(h.brought, s.Info.Extents...)
				}
			}
			if move, ok := c.(*core.MoveData); ok {
				h.brought = append(h.brought, move.To...)
			}
		}
	}
	h.history = append(h.history, changes...)
}

func segmentsOf(c core.Change) []core.Segment {
	switch c := c.(type) {
	case *core.PutObject:
		return c.Object.Segments
	case *core.PutPart:
		return c.Part.Segments
	}
	return nil
}

// ok applies one change, which has to pass.
func (h *harness) ok(c core.Change) core.Result {
	r := h.apply(c)[0]
	require.NoError(h.t, r.Err)
	return r
}

// fails applies one change, which has to fail with kind and to write nothing but its sequence (and NextData).
func (h *harness) fails(kind core.Kind, c core.Change) {
	before := h.state()
	r := h.apply(c)[0]
	require.Error(h.t, r.Err)
	require.Equal(h.t, kind.String(), core.KindOf(r.Err).String(), r.Err)
	require.Zero(h.t, r.Version, "the version of a change that failed")
	after := h.state()
	require.Equal(h.t, h.seq, after.State.Seq)
	before.State.Seq, before.State.NextData = after.State.Seq, after.State.NextData
	require.Equal(h.t, before, after, "a change that fails writes nothing")
}

// at is a time that goes with the present sequence, and runs backwards: nothing may be ordered by it.
func (h *harness) at() time.Time {
	return time.UnixMilli(1_700_000_000_123 - int64(h.seq%1_000_000)*1001).UTC()
}

func (h *harness) bucket(name string, v core.Versioning) *core.BucketInfo {
	r := h.ok(&core.PutBucket{Info: core.BucketInfo{Name: name, Owner: "owner", Region: "us-east-1", Created: h.at(), Versioning: v}})
	b, err := h.m.Bucket(h.ctx, name)
	require.NoError(h.t, err)
	require.Equal(h.t, core.BucketID(r.Seq), b.ID)
	return b
}

// set changes the versioning state of a bucket.
func (h *harness) set(b *core.BucketInfo, v core.Versioning) {
	changed := *b
	changed.Versioning = v
	h.ok(&core.PutBucket{Info: changed})
}

// content makes a segment with new content of size bytes, in extents of at most 1000.
func (h *harness) content(size int64) core.Segment {
	h.data++
	d := &core.DataInfo{ID: h.data, Size: size, SHA256: [32]byte{byte(h.data), 1}, ChunkSize: 1000,
		Sums: []core.Checksum{{Algorithm: checksum.MD5, Value: bytes.Repeat([]byte{byte(h.data)}, 16)}}}
	if h.data%2 == 0 {
		d.KeyID, d.DataKey = 1, []byte{byte(h.data), 2}
	}
	block := core.MakeBlockID(7, 1, uint32(h.data/3))
	for left := size; left > 0; left -= 1000 {
		d.Extents = append(d.Extents, core.Extent{Block: block, Offset: int64(h.data%3)<<20 + size - left, Length: min(left, 1000)})
	}
	return core.Segment{Data: d.ID, Length: size, Info: d}
}

// object makes an object of segments.
func (h *harness) object(b *core.BucketInfo, key string, segments ...core.Segment) core.ObjectInfo {
	o := core.ObjectInfo{
		Bucket: b.ID, Key: key, Modified: h.at(), Owner: "owner",
		ETag:     hex.EncodeToString(fmt.Appendf(make([]byte, 0, 16), "%016d", h.seq)),
		Sums:     []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: []byte("8 bytes.")}},
		Attrs:    []core.Attr{{Name: "Content-Type", Value: "text/plain"}, {Name: "x-amz-meta-n", Value: fmt.Sprint(h.seq)}},
		Tags:     []core.Attr{{Name: "tag", Value: key}},
		Segments: segments,
	}
	for _, s := range segments {
		o.Size += s.Length
	}
	return o
}

// put writes a version with new content of 100 bytes and returns it as it is read.
func (h *harness) put(b *core.BucketInfo, key string) *core.ObjectInfo {
	r := h.ok(&core.PutObject{Object: h.object(b, key, h.content(100))})
	return h.get(b, key, r.Version)
}

// remove deletes what a plain DELETE deletes.
func (h *harness) remove(b *core.BucketInfo, key string) core.Result {
	return h.ok(&core.DeleteObject{Bucket: b.ID, Key: key, Modified: h.at(), Owner: "owner"})
}

func (h *harness) get(b *core.BucketInfo, key string, v core.Version) *core.ObjectInfo {
	o, err := h.m.Object(h.ctx, b.ID, key, v)
	require.NoError(h.t, err)
	return o
}

// none says that a version is not there, for the reason kind.
func (h *harness) none(kind core.Kind, b *core.BucketInfo, key string, v core.Version) {
	_, err := h.m.Object(h.ctx, b.ID, key, v)
	require.Error(h.t, err)
	require.Equal(h.t, kind.String(), core.KindOf(err).String(), err)
}

// refs returns the references of content, 0 where it is not there.
func (h *harness) refs(id core.DataID) int64 {
	found, err := h.m.Data(h.ctx, []core.DataID{id})
	require.NoError(h.t, err)
	if len(found) == 0 {
		return 0
	}
	return found[0].Refs
}

// trash returns the extents and lists in the garbage.
func (h *harness) trash() (extents []core.Extent, lists []core.UploadID) {
	found, err := h.m.Garbage(h.ctx, 0, 1<<20)
	require.NoError(h.t, err)
	for _, g := range found {
		extents = append(extents, g.Extents...)
		if g.List != 0 {
			lists = append(lists, g.List)
		}
	}
	slices.SortFunc(extents, compareExtents)
	return extents, lists
}

// begin creates an upload.
func (h *harness) begin(b *core.BucketInfo, key string) core.UploadID {
	r := h.ok(&core.CreateUpload{Upload: core.UploadInfo{Bucket: b.ID, Key: key, Initiated: h.at(), Owner: "uploader",
		Algorithm: checksum.CRC32, Composite: true,
		Attrs: []core.Attr{{Name: "Content-Type", Value: "video/x"}}, Tags: []core.Attr{{Name: "t", Value: "u"}}}})
	return core.UploadID(r.Seq)
}

// part writes a part with new content and returns what a Complete calls it by.
func (h *harness) part(b *core.BucketInfo, key string, id core.UploadID, number int) core.PartRef {
	r := h.ok(h.partOf(b, key, id, number, h.content(50)))
	return core.PartRef{Number: number, Seq: r.Seq}
}

func (h *harness) partOf(b *core.BucketInfo, key string, id core.UploadID, number int, segments ...core.Segment) *core.PutPart {
	p := core.PartInfo{Number: number, Modified: h.at(), ETag: fmt.Sprintf("%032x", h.seq), Segments: segments}
	for _, s := range segments {
		p.Size += s.Length
	}
	return &core.PutPart{Bucket: b.ID, Key: key, Upload: id, Part: p}
}

// complete makes the change that completes an upload.
func (h *harness) complete(b *core.BucketInfo, key string, id core.UploadID, refs ...core.PartRef) *core.CompleteUpload {
	o := core.ObjectInfo{Bucket: b.ID, Key: key, Modified: h.at(), Size: 50 * int64(len(refs)), Parts: len(refs), ETag: fmt.Sprintf("%032x-%d", h.seq, len(refs)),
		Sums: []core.Checksum{{Algorithm: checksum.CRC32, Composite: true, Parts: len(refs), Value: []byte("4444")}}}
	return &core.CompleteUpload{Upload: id, Parts: refs, Object: o}
}

// multipart uploads an object of n parts.
func (h *harness) multipart(b *core.BucketInfo, key string, n int) *core.ObjectInfo {
	id := h.begin(b, key)
	var refs []core.PartRef
	for i := range n {
		refs = append(refs, h.part(b, key, id, i+1))
	}
	r := h.ok(h.complete(b, key, id, refs...))
	return h.get(b, key, r.Version)
}

// Package coretest has the test suites that every driver of the contracts in core must pass: Meta, MetaReopen, and
// MetaModel for metadata engines, and their counterparts for block stores. It also has wrappers that inject failures
// and count calls, for tests of the layers above. A bug found in one driver becomes a case here.
//
// If core does not specify a behavior, a case defines it, in its name or its comment. The behavior is that of S3.
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

// Meta runs the suite that every core.Meta must pass. Open returns an empty engine, which the suite closes. After each
// case the suite reads the whole engine, checks the invariants, and compares it with the model (package mem) after the
// same changes. Then it applies all changes again, which must have no effect. The engine must be a core.SingleWriter or
// wrap one, so that stamps are sequences.
func Meta(t *testing.T, open func(t *testing.T) core.Meta) {
	for _, group := range [][]metaCase{
		bucketCases(), recordCases(), applyCases(), objectCases(), versionCases(), preconditionCases(), copyCases(), moveCases(), tailCases(), sameCases(),
		contentCases(), uploadCases(), completeCases(), listCases(), listVersionCases(), listUploadCases(), updateCases(), lockCases(), quotaCases(), tallyCases(), findCases(), reclaimCases(), snapshotCases(), changeCases(),
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

// harness is an engine under test with the history of its changes. It makes changes, applies them, and reads the
// engine.
type harness struct {
	reader
	maker
	open    func() core.Meta // returns an empty engine of the same kind as m; may be nil
	history []core.Change
	brought []core.Extent // the extents that successful changes have added
	freed   []core.Extent // the extents of freed garbage
}

// reader reads an engine. An error that the case does not expect fails the test.
type reader struct {
	t   require.TestingT
	ctx context.Context
	m   core.Meta
}

// maker makes changes and unique content for them. It does not apply them.
type maker struct {
	seq   core.Seq    // the last stamp
	data  core.DataID // the last DataID given to content
	moved uint32      // the last block to which content was moved
}

func newHarness(t require.TestingT, m core.Meta) *harness {
	return &harness{reader: reader{t: t, ctx: context.Background(), m: m}}
}

// finish checks everything at the end of a case and closes the engine.
func (h *harness) finish() {
	s := h.check()
	model := mem.NewMeta()
	_, err := model.Apply(h.ctx, h.history)
	require.NoError(h.t, err)
	require.Equal(h.t, h.read(model).Comparable(), s.Comparable(), "the driver (actual) differs from the model (expected)")
	for _, r := range h.applyAgain(h.history...) {
		require.True(h.t, r.Skipped, "change %d was applied twice", r.Seq)
		require.NoError(h.t, r.Err)
	}
	require.Equal(h.t, s, h.state(), "a replay changed the state")
	h.snapshots()
	require.NoError(h.t, h.m.Close())
}

// check reads everything, and checks the invariants and that no extent is lost.
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
	require.Equal(h.t, want, have, "every extent that was added must be live, garbage, or freed")
	h.checkFound(h.m, s)
	return s
}

// The kinds of records that cases use, except the kinds of buckets, which can be derived.
const kindUser, kindCursor = "user", "cursor"

func (r *reader) state() *MetaState { return r.read(r.m) }

func (r *reader) read(m core.Meta) *MetaState {
	s, err := ReadMeta(r.ctx, m, kindUser, kindCursor)
	require.NoError(r.t, err)
	return s
}

// apply stamps changes, applies them in one batch, and records them.
func (h *harness) apply(changes ...core.Change) []core.Result {
	for _, c := range changes {
		h.seq += core.SeqCount(c)
		c.SetStamp(h.seq)
	}
	results, err := h.m.Apply(h.ctx, changes)
	require.NoError(h.t, err)
	h.record(changes, results)
	return results
}

// applyAgain applies changes that already have their stamps, and does not record them.
func (h *harness) applyAgain(changes ...core.Change) []core.Result {
	results, err := h.m.Apply(h.ctx, changes)
	require.NoError(h.t, err)
	require.Len(h.t, results, len(changes))
	return results
}

// record adds changes to the history, and their extents to brought.
func (h *harness) record(changes []core.Change, results []core.Result) {
	require.Len(h.t, results, len(changes))
	for i, c := range changes {
		require.Equal(h.t, c.Stamp(), results[i].Seq, "Result.Seq")
		require.False(h.t, results[i].Skipped)
		if results[i].Err == nil {
			for _, s := range segmentsOf(c) {
				if s.Info != nil {
					h.brought = append(h.brought, s.Info.Extents...)
				}
			}
			switch c := c.(type) {
			case *core.MoveData:
				h.brought = append(h.brought, c.To...)
			case *core.RepairData:
				h.brought = append(h.brought, c.Info.Extents...)
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

// ok applies one change, which must succeed.
func (h *harness) ok(c core.Change) core.Result {
	r := h.apply(c)[0]
	require.NoError(h.t, r.Err)
	return r
}

// fails applies one change, which must fail with kind and must not write anything except its sequence and NextData.
func (h *harness) fails(kind core.Kind, c core.Change) {
	before := h.state()
	r := h.apply(c)[0]
	require.Error(h.t, r.Err)
	require.Equal(h.t, kind.String(), core.KindOf(r.Err).String(), r.Err)
	require.Zero(h.t, r.Version, "a failed change must not return a version")
	after := h.state()
	require.Equal(h.t, h.seq, after.State.Seq)
	before.State.Seq, before.State.NextData = after.State.Seq, after.State.NextData
	require.Equal(h.t, before, after, "a failed change must not write anything")
}

// at returns a time that decreases as the sequence increases, to detect code that orders by time.
func (m *maker) at() time.Time {
	return time.UnixMilli(1_700_000_000_123 - int64(m.seq%1_000_000)*1001).UTC()
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

// content returns a segment with new content of size bytes, in extents of at most 1000 bytes.
func (m *maker) content(size int64) core.Segment {
	m.data++
	d := &core.DataInfo{ID: m.data, Size: size, SHA256: [32]byte{byte(m.data), 1}, ChunkSize: 1000,
		Sums: []core.Checksum{{Algorithm: checksum.MD5, Value: bytes.Repeat([]byte{byte(m.data)}, 16)}}}
	if m.data%2 == 0 {
		d.KeyID, d.DataKey = 1, []byte{byte(m.data), 2}
	}
	block := core.MakeBlockID(7, 1, uint32(m.data/3))
	for left := size; left > 0; left -= 1000 {
		d.Extents = append(d.Extents, core.Extent{Block: block, Offset: int64(m.data%3)<<20 + size - left, Length: min(left, 1000)})
	}
	return core.Segment{Data: d.ID, Length: size, Info: d}
}

// object returns an object with the given segments.
func (m *maker) object(b *core.BucketInfo, key string, segments ...core.Segment) core.ObjectInfo {
	o := core.ObjectInfo{
		Bucket: b.ID, Key: key, Modified: m.at(), Owner: "owner",
		ETag:     hex.EncodeToString(fmt.Appendf(make([]byte, 0, 16), "%016d", m.seq)),
		Sums:     []core.Checksum{{Algorithm: checksum.CRC64NVME, Value: []byte("8 bytes.")}},
		Attrs:    []core.Attr{{Name: "Content-Type", Value: "text/plain"}, {Name: "x-amz-meta-n", Value: fmt.Sprint(m.seq)}},
		Tags:     []core.Attr{{Name: "tag", Value: key}},
		Segments: segments,
	}
	for _, s := range segments {
		o.Size += s.Length
	}
	return o
}

// put writes a version with new content of 100 bytes, and returns it as read back.
func (h *harness) put(b *core.BucketInfo, key string) *core.ObjectInfo {
	r := h.ok(&core.PutObject{Object: h.object(b, key, h.content(100))})
	return h.get(b, key, r.Version)
}

// remove deletes a key without specifying a version.
func (h *harness) remove(b *core.BucketInfo, key string) core.Result {
	return h.ok(&core.DeleteObject{Bucket: b.ID, Key: key, Modified: h.at(), Owner: "owner"})
}

func (r *reader) get(b *core.BucketInfo, key string, v core.Version) *core.ObjectInfo {
	o, err := r.m.Object(r.ctx, b.ID, key, v)
	require.NoError(r.t, err)
	return o
}

// none checks that a version cannot be read, with an error of the given kind.
func (r *reader) none(kind core.Kind, b *core.BucketInfo, key string, v core.Version) {
	_, err := r.m.Object(r.ctx, b.ID, key, v)
	require.Error(r.t, err)
	require.Equal(r.t, kind.String(), core.KindOf(err).String(), err)
}

// refs returns the reference count of a DataID, or 0 if it does not exist.
func (r *reader) refs(id core.DataID) int64 {
	found, err := r.m.Data(r.ctx, []core.DataID{id})
	require.NoError(r.t, err)
	if len(found) == 0 {
		return 0
	}
	return found[0].Refs
}

// trash returns the extents and lists in the garbage.
func (r *reader) trash() (extents []core.Extent, lists []core.UploadID) {
	found, err := r.m.Garbage(r.ctx, 0, 1<<20)
	require.NoError(r.t, err)
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

// part writes a part with new content and returns the reference to it for CompleteUpload.
func (h *harness) part(b *core.BucketInfo, key string, id core.UploadID, number int) core.PartRef {
	r := h.ok(h.partOf(b, key, id, number, h.content(50)))
	return core.PartRef{Number: number, Seq: r.Seq}
}

func (m *maker) partOf(b *core.BucketInfo, key string, id core.UploadID, number int, segments ...core.Segment) *core.PutPart {
	p := core.PartInfo{Number: number, Modified: m.at(), ETag: fmt.Sprintf("%032x", m.seq), Segments: segments}
	for _, s := range segments {
		p.Size += s.Length
	}
	return &core.PutPart{Bucket: b.ID, Key: key, Upload: id, Part: p}
}

// complete returns the change that completes an upload.
func (m *maker) complete(b *core.BucketInfo, key string, id core.UploadID, refs ...core.PartRef) *core.CompleteUpload {
	o := core.ObjectInfo{Bucket: b.ID, Key: key, Modified: m.at(), Size: 50 * int64(len(refs)), Parts: len(refs), ETag: fmt.Sprintf("%032x-%d", m.seq, len(refs)),
		Sums: []core.Checksum{{Algorithm: checksum.CRC32, Composite: true, Parts: len(refs), Value: []byte("4444")}}}
	return &core.CompleteUpload{Upload: id, Parts: refs, Object: o}
}

// multipart uploads an object with n parts.
func (h *harness) multipart(b *core.BucketInfo, key string, n int) *core.ObjectInfo {
	id := h.begin(b, key)
	var refs []core.PartRef
	for i := range n {
		refs = append(refs, h.part(b, key, id, i+1))
	}
	r := h.ok(h.complete(b, key, id, refs...))
	return h.get(b, key, r.Version)
}

package coretest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// MetaReopen runs the suite for engines that keep their state: after Close, opening the same directory must return an
// engine with the same state. Open is called again only after the previous engine has been closed.
func MetaReopen(t *testing.T, open func(t *testing.T, dir string) core.Meta) {
	t.Run("an empty store", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, open(t, dir).Close())
		h := newHarness(t, open(t, dir))
		require.Equal(t, core.State{NextData: 1}, h.state().State)
		h.finish()
	})
	t.Run("the state is kept", func(t *testing.T) {
		dir := t.TempDir()
		h := newHarness(t, open(t, dir))
		h.everything()
		before := h.check()
		require.NoError(t, h.m.Close())
		h.m = open(t, dir)
		require.Equal(t, before, h.state())
		// Garbage is kept, with the same IDs.
		b := &before.Buckets[0].Info
		h.put(b, "after")
		h.put(b, "after")
		h.remove(b, "after")
		garbage := h.check().Garbage
		require.Subset(t, garbage, before.Garbage)
		require.Greater(t, len(garbage), len(before.Garbage))
		h.finish()
	})
	t.Run("a bucket ID is not reused", func(t *testing.T) {
		dir := t.TempDir()
		h := newHarness(t, open(t, dir))
		b := h.bucket("b", core.VersioningOff)
		h.put(b, "k")
		h.remove(b, "k")
		h.ok(&core.DeleteBucket{Bucket: b.ID})
		before := h.state()
		require.NoError(t, h.m.Close())
		h.m = open(t, dir)
		require.Equal(t, before, h.state())
		require.NotEqual(t, b.ID, h.bucket("b", core.VersioningOff).ID)
		h.finish()
	})
	t.Run("a replay after reopening is skipped", func(t *testing.T) {
		dir := t.TempDir()
		h := newHarness(t, open(t, dir))
		h.everything()
		require.NoError(t, h.m.Close())
		h.m = open(t, dir)
		h.finish() // replays
	})
}

// everything writes rows of every kind: buckets in each state, versions, markers, copies, uploads, lists, garbage of
// both kinds, records, a replay start and a quota. It also makes changes that fail.
func (h *harness) everything() {
	b, v := h.bucket("b", core.VersioningOff), h.bucket("v", core.VersioningEnabled)
	o := h.put(b, "k")
	g := h.sharable(b.ID, 2500, 7)
	h.ok(&core.PutObject{Object: h.object(b, "shared", g)})
	h.ok(h.equalTo(b, "equal", g.Info))
	h.put(b, "gone")
	h.remove(b, "gone")
	h.ok(h.copyOf(o, v, "copy"))
	h.put(v, "k")
	h.put(v, "k")
	h.remove(v, "k")
	h.set(v, core.VersioningSuspended)
	h.put(v, "k")
	h.multipart(b, "m", 3)
	h.ok(h.copyOf(h.get(b, "m", core.Current), v, "m"))
	h.multipart(b, "lost", 2)
	h.put(b, "lost")
	id := h.begin(b, "u")
	h.part(b, "u", id, 2)
	h.part(b, "u", id, 2)
	h.ok(&core.AbortUpload{Bucket: b.ID, Key: "x", Upload: h.begin(b, "x")})
	q := h.limited("q", core.VersioningEnabled, 200, 0)
	h.put(q, "k")
	h.part(q, "u", h.begin(q, "u"), 1)
	h.fails(core.QuotaExceeded, h.sized(q, "l", 51))
	h.ok(&core.PutRecord{Record: core.Record{Kind: kindUser, Key: "a", Value: []byte("1")}})
	h.ok(&core.PutRecord{Record: core.Record{Kind: kindCursor, Key: "empty", Value: []byte{}}})
	h.ok(&core.PutRecord{Record: core.Record{Kind: core.BucketRecordKind(b.ID), Key: "cors", Value: []byte("\x00\xff")}})
	h.ok(&core.SetReplayFrom{ReplayFrom: core.MakeBlockID(3, 4, 5)})
	h.fails(core.BucketNotEmpty, &core.DeleteBucket{Bucket: b.ID})
}

package coretest

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orcas/core"
)

// moveOf returns the change that moves a version to another key.
func (m *maker) moveOf(from *core.ObjectInfo, b *core.BucketInfo, key string) *core.MoveObject {
	return &core.MoveObject{
		From: core.Source{Bucket: from.Bucket, Key: from.Key, Seq: from.Seq}, Bucket: b.ID, Key: key, Time: m.at(), Owner: "mover",
	}
}

// isMoved checks that the current version of a key is the version from, moved to that key.
func (h *harness) isMoved(from *core.ObjectInfo, b *core.BucketInfo, key string, r core.Result) {
	got := h.get(b, key, core.Current)
	want := normalObject(from)
	want.Bucket, want.Key, want.Seq, want.Null = b.ID, key, r.Seq, b.Versioning != core.VersioningEnabled
	want.Latest, want.Placed = true, got.Placed
	require.Equal(h.t, want, normalObject(got))
	require.Equal(h.t, got.Version(), r.Version)
}

func moveCases() []metaCase {
	return []metaCase{
		{"move/within a bucket without versions", moveWithinBucket},
		{"move/onto an existing key frees its content", moveOntoExistingKey},
		{"move/with versioning: a new version at the target, a delete marker at the source", moveWithVersions},
		{"move/with suspended versioning both keys lose their null version", moveWithSuspendedVersions},
		{"move/between buckets with every versioning state", moveBetweenBuckets},
		{"move/of a multipart object keeps its list", moveMultipartObject},
		{"move/the source has changed: Conflict", moveSourceChanged},
		{"move/of a locked version: Locked", moveLockedVersion},
		{"move/onto itself: InvalidArgument", moveOntoItself},
		{"move/the precondition applies to the target", movePreconditionOfTarget},
		{"move/twice in one batch: one succeeds", moveTwiceInBatch},
		{"move/the version keeps its token until the next move", moveKeepsToken},
		{"move/the previous version is noncurrent since the move", moveMakesVersionNoncurrent},
		{"move/a stamp without room for two sequences: InvalidArgument", moveTakesTwoSequences},
	}
}

func moveWithinBucket(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	h.isMoved(o, b, "l", h.ok(h.moveOf(o, b, "l")))
	h.none(core.NoSuchKey, b, "k", core.Current)
	require.EqualValues(h.t, 1, h.refs(o.Segments[0].Data))
	extents, _ := h.trash()
	require.Empty(h.t, extents)
	require.Equal(h.t, "l", h.pages(core.ListQuery{Bucket: b.ID, Limit: 9}, 0))
}

func moveOntoExistingKey(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	old, o := h.put(b, "l"), h.put(b, "k")
	h.isMoved(o, b, "l", h.ok(h.moveOf(o, b, "l")))
	extents, _ := h.trash()
	require.Equal(h.t, old.Segments[0].Info.Extents, extents)
}

func moveWithVersions(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	o, below := h.put(b, "k"), h.put(b, "l")
	c := h.moveOf(o, b, "l")
	r := h.ok(c)
	h.isMoved(o, b, "l", r)
	require.Equal(h.t, below.Seq, h.get(b, "l", below.Version()).Seq)
	marker := h.get(b, "k", core.Current)
	require.True(h.t, marker.Marker)
	require.Equal(h.t, "mover", marker.Owner)
	require.Equal(h.t, c.Time, marker.Modified)
	require.Equal(h.t, r.Seq-1, marker.Seq)
	require.EqualValues(h.t, 2, h.refs(o.Segments[0].Data))
	h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: marker.Version()})
	require.Equal(h.t, o.Seq, h.get(b, "k", core.Current).Seq, "the moved version must remain in a bucket with versioning")
}

func moveWithSuspendedVersions(h *harness) {
	b, c := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningSuspended)
	null := h.multipart(b, "k", 2)
	h.set(b, core.VersioningEnabled)
	o := h.put(b, "k")
	h.set(b, core.VersioningSuspended)
	replaced := h.multipart(c, "k", 3)
	h.isMoved(o, c, "k", h.ok(h.moveOf(o, c, "k")))
	_, lists := h.trash()
	require.ElementsMatch(h.t, []core.UploadID{null.List, replaced.List}, lists)
	marker := h.get(b, "k", core.Null)
	require.True(h.t, marker.Marker && marker.Latest)
	require.Equal(h.t, o.Seq, h.get(b, "k", o.Version()).Seq)
}

func moveBetweenBuckets(h *harness) {
	states := []core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended}
	for _, x := range states {
		for _, y := range states {
			from, to := h.bucket(string([]byte{'f', '0' + byte(x), '0' + byte(y)}), x), h.bucket(string([]byte{'t', '0' + byte(x), '0' + byte(y)}), y)
			o := h.put(from, "k")
			h.isMoved(o, to, "k", h.ok(h.moveOf(o, to, "k")))
			if x == core.VersioningOff {
				h.none(core.NoSuchKey, from, "k", core.Current)
			} else {
				require.True(h.t, h.get(from, "k", core.Current).Marker)
			}
		}
	}
}

func moveMultipartObject(h *harness) {
	b, c := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	o := h.multipart(b, "k", 3)
	h.isMoved(o, c, "l", h.ok(h.moveOf(o, c, "l")))
	_, lists := h.trash()
	require.Empty(h.t, lists)
	h.remove(c, "l")
	_, lists = h.trash()
	require.Equal(h.t, []core.UploadID{o.List}, lists)
}

func moveSourceChanged(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	h.fails(core.Conflict, h.moveOf(&core.ObjectInfo{Bucket: b.ID, Key: "k", Seq: 1}, b, "l"))
	o := h.put(b, "k")
	newer := h.put(b, "k")
	h.fails(core.Conflict, h.moveOf(o, b, "l"))
	h.remove(b, "k")
	h.fails(core.Conflict, h.moveOf(newer, b, "l"))
	h.fails(core.Conflict, h.moveOf(h.get(b, "k", core.Current), b, "l"))
	gone := h.moveOf(o, b, "l")
	gone.From.Bucket = 999
	h.fails(core.NoSuchBucket, gone)
	h.fails(core.NoSuchBucket, h.moveOf(o, &core.BucketInfo{ID: 999}, "l"))
}

func moveLockedVersion(h *harness) {
	b, c := h.lockBucket("b"), h.bucket("c", core.VersioningOff)
	o := h.put(b, "k")
	until := h.at().Add(time.Hour)
	lock := func(l core.Lock, bypass bool) {
		h.ok(&core.UpdateObject{Bucket: b.ID, Key: "k", SetRetention: true, SetHold: true, Lock: l, Time: h.at(), Bypass: bypass})
	}
	lock(core.Lock{Hold: core.HoldOn}, false)
	h.fails(core.Locked, h.moveOf(o, c, "k"))
	lock(core.Lock{Mode: core.LockGovernance, Until: until}, false)
	h.fails(core.Locked, h.moveOf(o, c, "k"))
	over := h.moveOf(o, c, "k")
	over.Time, over.Lock.Hold = until, core.HoldOn
	h.fails(core.BucketState, over)
	over.Bucket, over.Key = b.ID, "l"
	h.ok(over)
	require.Equal(h.t, over.Lock, h.get(b, "l", core.Current).Lock, "the new version must have the lock of the change")
}

func moveOntoItself(h *harness) {
	b, c := h.bucket("b", core.VersioningOff), h.bucket("c", core.VersioningOff)
	o := h.put(b, "k")
	h.fails(core.InvalidArgument, h.moveOf(o, b, "k"))
	h.ok(h.moveOf(o, c, "k"))
}

func movePreconditionOfTarget(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o, target := h.put(b, "k"), h.put(b, "l")
	try := func(p core.Precondition) *core.MoveObject {
		c := h.moveOf(o, b, "l")
		c.If = p
		return c
	}
	h.fails(core.PreconditionFailed, try(core.Precondition{NoneMatch: []string{"*"}}))
	h.fails(core.PreconditionFailed, try(core.Precondition{Match: []string{o.ETag}}))
	h.fails(core.Conflict, try(core.Precondition{Seq: o.Seq}))
	h.ok(try(core.Precondition{Match: []string{target.ETag}, Seq: target.Seq}))
	last := h.moveOf(h.get(b, "l", core.Current), b, "m")
	last.If.Match = []string{"*"}
	h.fails(core.NoSuchKey, last)
}

func moveTwiceInBatch(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	rs := h.apply(h.moveOf(o, b, "l"), h.moveOf(o, b, "m"))
	require.NoError(h.t, rs[0].Err)
	require.True(h.t, core.Is(rs[1].Err, core.Conflict), rs[1].Err)
	again := h.get(b, "l", core.Current)
	rs = h.apply(h.moveOf(again, b, "k"), &core.DeleteObject{Bucket: b.ID, Key: "k"}, &core.PutObject{Object: h.object(b, "k", h.content(1))})
	for _, r := range rs {
		require.NoError(h.t, r.Err)
	}
	require.Zero(h.t, h.refs(o.Segments[0].Data))
}

func moveKeepsToken(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	c := h.moveOf(o, b, "l")
	c.Token, c.Lock = "token", core.Lock{}
	h.ok(c)
	got := h.get(b, "l", core.Current)
	require.Equal(h.t, "token", core.MoveToken(got))
	require.Equal(h.t, o.Attrs, core.WithoutToken(got.Attrs))
	h.ok(h.moveOf(got, b, "m"))
	got = h.get(b, "m", core.Current)
	require.Empty(h.t, core.MoveToken(got))
	require.Equal(h.t, o.Attrs, got.Attrs)
}

func moveMakesVersionNoncurrent(h *harness) {
	b := h.bucket("b", core.VersioningEnabled)
	o := h.put(b, "k")
	c := h.moveOf(o, b, "l")
	c.Time = o.Modified.Add(time.Hour)
	h.ok(c)
	got := h.get(b, "l", core.Current)
	require.Equal(h.t, o.Modified, got.Modified)
	require.Equal(h.t, c.Time, got.Since())
	early := h.moveOf(got, b, "m")
	early.Time = o.Modified.Add(-time.Hour)
	h.ok(early)
	require.Equal(h.t, o.Modified, h.get(b, "m", core.Current).Since(), "the clock was set back")
}

func moveTakesTwoSequences(h *harness) {
	b := h.bucket("b", core.VersioningOff)
	o := h.put(b, "k")
	c := h.moveOf(o, b, "l")
	c.Seq = h.seq + 1
	before := h.state()
	r := h.applyAgain(c)[0]
	require.True(h.t, core.Is(r.Err, core.InvalidArgument), r.Err)
	h.seq++
	h.record([]core.Change{c}, []core.Result{r})
	before.State.Seq = h.seq
	require.Equal(h.t, before, h.state())
}

// sameCases returns the cases about preconditions on the time, the size, and the tags of the current version.
func sameCases() []metaCase {
	return []metaCase{
		{"precondition/time and size", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			o := h.put(b, "k")
			second := o.Modified.Truncate(time.Second)
			try := func(p core.Precondition) *core.DeleteObject {
				return &core.DeleteObject{Bucket: b.ID, Key: "k", If: p, Modified: h.at()}
			}
			h.fails(core.PreconditionFailed, try(core.Precondition{Modified: second.Add(time.Second)}))
			h.fails(core.PreconditionFailed, try(core.Precondition{HasSize: true}))
			h.fails(core.PreconditionFailed, try(core.Precondition{Modified: second, HasSize: true, Size: o.Size + 1}))
			h.ok(try(core.Precondition{Modified: second, HasSize: true, Size: o.Size, Match: []string{o.ETag}}))
			r := h.ok(try(core.Precondition{Modified: second, HasSize: true, Size: 1}))
			require.Equal(h.t, core.Current, r.Version, "the key was already deleted")
		}},
		{"precondition/tags", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			o := h.put(b, "k")
			try := func(tags ...core.Attr) *core.DeleteObject {
				return &core.DeleteObject{Bucket: b.ID, Key: "k", If: core.Precondition{Seq: o.Seq, HasTags: true, Tags: tags}, Modified: h.at()}
			}
			tag := core.Attr{Name: "n", Value: "v"}
			h.fails(core.Conflict, try(tag))
			h.ok(&core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: []core.Attr{tag}})
			h.fails(core.Conflict, try())
			h.fails(core.Conflict, try(core.Attr{Name: "n", Value: "w"}))
			h.ok(try(tag))
			h.fails(core.Conflict, try(tag))
		}},
		{"precondition/time and size do not apply to delete markers", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			h.remove(b, "k")
			r := h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", If: core.Precondition{HasSize: true, Size: 5}, Modified: h.at()})
			require.True(h.t, r.Marker)
		}},
	}
}

// tailCases returns the cases about versions that have a list followed by segments: multipart objects with appended
// content.
func tailCases() []metaCase {
	tailed := func(h *harness, b *core.BucketInfo, key string) *core.ObjectInfo {
		list := h.multipart(b, "m", 2).List
		o := h.object(b, key, h.content(10))
		o.List, o.Parts = list, 2
		r := h.ok(&core.PutObject{Object: o})
		return h.get(b, key, r.Version)
	}
	return []metaCase{
		{"tail/the list and the segments are referenced and released", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			o := tailed(h, b, "k")
			require.NotZero(h.t, o.List)
			require.Len(h.t, o.Segments, 1)
			h.remove(b, "m")
			_, lists := h.trash()
			require.Empty(h.t, lists)
			h.remove(b, "k")
			extents, lists := h.trash()
			require.Equal(h.t, []core.UploadID{o.List}, lists)
			require.Equal(h.t, o.Segments[0].Info.Extents, extents)
		}},
		{"tail/copied, moved and appended to", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			o := tailed(h, b, "m") // replaces the object without a tail
			h.ok(h.copyOf(o, b, "copy"))
			h.isMoved(o, b, "moved", h.ok(h.moveOf(o, b, "moved")))
			from := h.get(b, "moved", core.Current)
			longer := h.copyOf(from, b, "moved")
			longer.Source, longer.If.Seq = nil, from.Seq
			longer.Object.Segments = append(longer.Object.Segments, h.content(20))
			h.ok(longer)
			require.EqualValues(h.t, 2, h.refs(o.Segments[0].Data))
			require.Len(h.t, h.get(b, "moved", core.Current).Segments, 2)
		}},
		{"tail/too many segments, or a missing list", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			o := tailed(h, b, "k")
			c := h.copyOf(o, b, "l")
			for range core.MaxInlineSegments {
				c.Object.Segments = append(c.Object.Segments, h.content(1))
			}
			h.fails(core.InvalidArgument, c)
			c = h.copyOf(o, b, "l")
			c.Object.List = 999
			h.fails(core.NoSuchData, c)
		}},
	}
}

// renaming draws a move of a version that exists or existed.
func (s *simulation) renaming() core.Change {
	if len(s.objects) == 0 {
		return s.putBucket()
	}
	from := rapid.SampledFrom(s.objects).Draw(s.t, "renamed")
	if s.one(2) { // often take the current version, which can be moved
		if cur, err := s.model.Object(s.ctx, from.Bucket, from.Key, core.Current); err == nil {
			from = *cur
		}
	}
	c := s.moveOf(&from, &core.BucketInfo{ID: s.bucketID()}, s.key())
	c.If = s.precondition()
	if s.one(3) {
		c.Token = "t"
	}
	return c
}

// appending draws an object with the segments of a version that exists or existed, followed by more segments.
func (s *simulation) appending() core.Change {
	if len(s.objects) == 0 {
		return s.putBucket()
	}
	from := rapid.SampledFrom(s.objects).Draw(s.t, "appended")
	c := s.copyOf(&from, &core.BucketInfo{ID: from.Bucket}, from.Key)
	c.Object.Segments = append(c.Object.Segments, s.segments()...)
	if s.one(2) {
		c.Source, c.If.Seq = nil, from.Seq
	}
	return c
}

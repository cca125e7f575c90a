package coretest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// lockBucket creates a bucket with object lock.
func (h *harness) lockBucket(name string) *core.BucketInfo {
	h.ok(&core.PutBucket{Info: core.BucketInfo{Name: name, Created: h.at(), Versioning: core.VersioningEnabled, ObjectLock: true}})
	b, err := h.m.Bucket(h.ctx, name)
	require.NoError(h.t, err)
	return b
}

// updated applies an update, which must succeed, change only the fields that it sets, and keep the sequence of the
// version.
func (h *harness) updated(c *core.UpdateObject) *core.ObjectInfo {
	b := &core.BucketInfo{ID: c.Bucket}
	want := normalObject(h.get(b, c.Key, c.Version))
	r := h.ok(c)
	got := h.get(b, c.Key, c.Version)
	require.Equal(h.t, want.Version(), r.Version)
	require.False(h.t, r.Marker)
	if c.SetTags {
		want.Tags = list(c.Tags)
	}
	if c.SetRetention {
		want.Lock.Mode, want.Lock.Until = c.Lock.Mode, c.Lock.Until
	}
	if c.SetHold {
		want.Lock.Hold = c.Lock.Hold
	}
	require.Equal(h.t, want, normalObject(got))
	return got
}

func updateCases() []metaCase {
	tags := func(n int) (list []core.Attr) {
		for i := range n {
			list = append(list, core.Attr{Name: fmt.Sprint("tag", i), Value: "värde"})
		}
		return list
	}
	return []metaCase{
		{"update/tags", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.put(b, "k")
			other := h.put(b, "l")
			for _, n := range []int{10, 1, 0, 3} {
				h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: tags(n)})
				h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Null, SetTags: true, Tags: tags(n + 1)})
			}
			require.Equal(h.t, normalObject(other), normalObject(h.get(b, "l", core.Current)))
			h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k"}) // an empty update
		}},
		{"update/every kind of content", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.put(b, "born")
			h.multipart(b, "list", 3)
			h.ok(&core.PutObject{Object: h.object(b, "empty")})
			h.ok(&core.PutObject{Object: h.object(b, "two", h.content(5), h.content(6))})
			source := h.get(b, "born", core.Current)
			h.ok(h.copyOf(source, b, "copy"))
			for _, key := range []string{"born", "list", "empty", "two", "copy"} {
				h.updated(&core.UpdateObject{Bucket: b.ID, Key: key, SetTags: true, Tags: tags(2)})
			}
			// Updated versions can be copied, overwritten, and deleted like any other version.
			h.ok(h.copyOf(h.get(b, "born", core.Current), b, "another"))
			for _, key := range []string{"born", "list", "empty", "two", "copy"} {
				h.put(b, key)
			}
			h.remove(b, "another")
			require.Zero(h.t, h.refs(source.Segments[0].Data))
		}},
		{"update/a version that is not the newest", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			null := h.put(b, "k")
			h.set(b, core.VersioningEnabled)
			old, marker := h.put(b, "k"), h.remove(b, "k")
			last := h.put(b, "k")
			h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Null, SetTags: true, Tags: tags(1)})
			h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", Version: old.Version(), SetTags: true, Tags: tags(2)})
			h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: tags(3)})
			require.Equal(h.t, []int{1, 2, 3}, []int{len(h.get(b, "k", core.Null).Tags), len(h.get(b, "k", old.Version()).Tags), len(h.get(b, "k", last.Version()).Tags)})
			h.fails(core.MethodNotAllowed, &core.UpdateObject{Bucket: b.ID, Key: "k", Version: marker.Version, SetTags: true})
			h.fails(core.NoSuchVersion, &core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Version(null.Seq), SetTags: true})
		}},
		{"update/a missing version", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			h.fails(core.NoSuchKey, &core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true})
			h.fails(core.NoSuchKey, &core.UpdateObject{Bucket: b.ID, Key: "k", Version: 3, SetTags: true})
			h.fails(core.NoSuchKey, &core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Null, SetTags: true})
			o := h.put(b, "k")
			h.fails(core.NoSuchVersion, &core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Null, SetTags: true})
			h.fails(core.NoSuchVersion, &core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Version(o.Seq + 9), SetTags: true})
			h.remove(b, "k")
			h.fails(core.MethodNotAllowed, &core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true})
			h.fails(core.NoSuchBucket, &core.UpdateObject{Bucket: 999, Key: "k", SetTags: true})
		}},
		{"update/within a batch", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			rs := h.apply(&core.PutObject{Object: h.object(b, "k", h.content(9))}, &core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: tags(2)},
				&core.DeleteObject{Bucket: b.ID, Key: "k", Modified: h.at()}, &core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: tags(2)})
			require.NoError(h.t, rs[1].Err)
			require.True(h.t, core.Is(rs[3].Err, core.NoSuchKey))
		}},
		{"update/does not keep the tags of the change", func(h *harness) {
			b := h.bucket("b", core.VersioningOff)
			h.put(b, "k")
			c := &core.UpdateObject{Bucket: b.ID, Key: "k", SetTags: true, Tags: tags(2)}
			h.ok(c)
			c.Tags[0].Name = "scribbled"
			require.Equal(h.t, tags(2), h.get(b, "k", core.Current).Tags)
			c.Tags[0].Name = "tag0"
		}},
	}
}

func lockCases() []metaCase {
	return append([]metaCase{
		{"lock/buckets", func(h *harness) {
			for _, v := range []core.Versioning{core.VersioningOff, core.VersioningSuspended} {
				h.fails(core.BucketState, &core.PutBucket{Info: core.BucketInfo{Name: "b", Versioning: v, ObjectLock: true}})
			}
			b := h.bucket("b", core.VersioningOff)
			changed := *b
			changed.ObjectLock = true
			h.fails(core.BucketState, &core.PutBucket{Info: changed})
			changed.Versioning = core.VersioningEnabled
			changed.Retention = core.DefaultRetention{Mode: core.LockGovernance, Days: 3}
			h.ok(&core.PutBucket{Info: changed})
			got, err := h.m.Bucket(h.ctx, "b")
			require.NoError(h.t, err)
			require.Equal(h.t, normalBucket(changed), normalBucket(*got))
			suspended, off := changed, changed
			suspended.Versioning, off.ObjectLock = core.VersioningSuspended, false
			h.fails(core.BucketState, &core.PutBucket{Info: suspended})
			h.fails(core.Conflict, &core.PutBucket{Info: off})
			off.Versioning = core.VersioningSuspended
			h.fails(core.Conflict, &core.PutBucket{Info: off})
		}},
		{"lock/not allowed in a bucket without object lock", func(h *harness) {
			b := h.bucket("b", core.VersioningEnabled)
			locked := core.Lock{Mode: core.LockGovernance, Until: h.at()}
			o := h.object(b, "k")
			for _, o.Lock = range []core.Lock{locked, {Hold: core.HoldOn}, {Hold: core.HoldOff}} {
				h.fails(core.BucketState, &core.PutObject{Object: o})
				h.fails(core.BucketState, &core.CreateUpload{Upload: core.UploadInfo{Bucket: b.ID, Key: "k", Lock: o.Lock}})
			}
			h.put(b, "k")
			h.fails(core.BucketState, &core.UpdateObject{Bucket: b.ID, Key: "k", SetRetention: true, Lock: locked})
			h.fails(core.BucketState, &core.UpdateObject{Bucket: b.ID, Key: "k", SetHold: true, SetTags: true, Tags: []core.Attr{{Name: "a"}}})
		}},
		{"lock/set when a version is written", func(h *harness) {
			b := h.lockBucket("b")
			want := core.Lock{Mode: core.LockGovernance, Until: h.at().Add(time.Hour), Hold: core.HoldOff}
			o := h.object(b, "k", h.content(9))
			o.Lock = want
			h.ok(&core.PutObject{Object: o})
			require.Equal(h.t, want, normalLock(h.get(b, "k", core.Current).Lock))
			r := h.ok(&core.CreateUpload{Upload: core.UploadInfo{Bucket: b.ID, Key: "m", Initiated: h.at(), Lock: want}})
			id := core.UploadID(r.Seq)
			h.ok(h.complete(b, "m", id, h.part(b, "m", id, 1)))
			require.Equal(h.t, want, normalLock(h.get(b, "m", core.Current).Lock))
			// A copy gets the lock in its change, not that of the source.
			bare := h.copyOf(h.get(b, "k", core.Current), b, "copy")
			bare.Object.Lock = core.Lock{}
			h.ok(bare)
			require.True(h.t, h.get(b, "copy", core.Current).Lock.IsZero())
		}},
		{"lock/of a null version", func(h *harness) {
			// A null version from before versioning was enabled can be locked like any other.
			b := h.bucket("b", core.VersioningOff)
			h.put(b, "k")
			changed := *b
			changed.Versioning, changed.ObjectLock = core.VersioningEnabled, true
			h.ok(&core.PutBucket{Info: changed})
			h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Null, SetHold: true, Lock: core.Lock{Hold: core.HoldOn}})
			h.put(b, "k") // another version; the null version is kept
			h.fails(core.Locked, &core.DeleteObject{Bucket: b.ID, Key: "k", Version: core.Null, Modified: h.at(), Bypass: true})
			require.True(h.t, h.remove(b, "k").Marker, "a lock must not prevent a delete marker")
			h.updated(&core.UpdateObject{Bucket: b.ID, Key: "k", Version: core.Null, SetHold: true, Lock: core.Lock{Hold: core.HoldOff}})
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: core.Null, Modified: h.at()})
		}},
	}, append(deleteLockCases(), retentionCases()...)...)
}

// deleteLockCases returns cases that delete versions with each kind of lock, at times around its end.
func deleteLockCases() []metaCase {
	const passes = "passes"
	until := time.UnixMilli(1_800_000_000_000).UTC()
	before, after := until.Add(-time.Millisecond), until.Add(time.Millisecond)
	var cases []metaCase
	for _, c := range []struct {
		name       string
		lock       core.Lock
		at         time.Time
		plain, all string // the outcomes without and with bypass
	}{
		{"governance", core.Lock{Mode: core.LockGovernance, Until: until}, before, "", passes},
		{"governance, at its end", core.Lock{Mode: core.LockGovernance, Until: until}, until, passes, passes},
		{"governance, past its end", core.Lock{Mode: core.LockGovernance, Until: until}, after, passes, passes},
		{"compliance", core.Lock{Mode: core.LockCompliance, Until: until}, before, "", ""},
		{"compliance, at its end", core.Lock{Mode: core.LockCompliance, Until: until}, until, passes, passes},
		{"hold", core.Lock{Hold: core.HoldOn}, after, "", ""},
		{"hold off", core.Lock{Hold: core.HoldOff}, before, passes, passes},
		{"hold and governance", core.Lock{Mode: core.LockGovernance, Until: until, Hold: core.HoldOn}, before, "", ""},
		{"hold off and compliance", core.Lock{Mode: core.LockCompliance, Until: until, Hold: core.HoldOff}, before, "", ""},
		{"none", core.Lock{}, before, passes, passes},
	} {
		cases = append(cases, metaCase{"lock/delete, " + c.name, func(h *harness) {
			b := h.lockBucket("b")
			h.put(b, "k") // the key always has another version
			for i, outcome := range []string{c.plain, c.all} {
				for _, below := range []bool{false, true} {
					o := h.object(b, "k", h.content(9))
					o.Lock = c.lock
					r := h.ok(&core.PutObject{Object: o})
					if below {
						h.put(b, "k")
					}
					del := &core.DeleteObject{Bucket: b.ID, Key: "k", Version: r.Version, Modified: c.at, Bypass: i == 1}
					if outcome == passes {
						require.Equal(h.t, r.Version, h.ok(del).Version)
						h.none(core.NoSuchVersion, b, "k", r.Version)
					} else {
						h.fails(core.Locked, del)
					}
				}
			}
			// A delete marker has no lock.
			m := h.remove(b, "k")
			h.ok(&core.DeleteObject{Bucket: b.ID, Key: "k", Version: m.Version, Modified: c.at})
		}})
	}
	return cases
}

// retentionCases returns cases that change each kind of retention into each other kind.
func retentionCases() []metaCase {
	at := time.UnixMilli(1_800_000_000_000).UTC()
	none := core.Lock{}
	retention := func(m core.LockMode, seconds int) core.Lock {
		return core.Lock{Mode: m, Until: at.Add(time.Duration(seconds) * time.Second)}
	}
	const g, c = core.LockGovernance, core.LockCompliance
	var cases []metaCase
	for i, x := range []struct {
		from, to   core.Lock
		plain, all bool // whether the change succeeds without and with bypass
	}{
		{none, retention(g, 9), true, true},
		{none, retention(c, 9), true, true},
		{retention(g, 9), retention(g, 9), true, true},
		{retention(g, 9), retention(g, 10), true, true},
		{retention(g, 9), retention(g, 8), false, true},
		{retention(g, 9), retention(c, 9), false, true},
		{retention(g, 9), retention(c, 10), false, true},
		{retention(g, 9), none, false, true},
		{retention(c, 9), retention(c, 9), true, true},
		{retention(c, 9), retention(c, 10), true, true},
		{retention(c, 9), retention(c, 8), false, false},
		{retention(c, 9), retention(g, 9), false, false},
		{retention(c, 9), retention(g, 10), false, false},
		{retention(c, 9), none, false, false},
		{retention(c, 0), none, true, true}, // the retention has ended
		{retention(c, 0), retention(g, 1), true, true},
		{retention(g, -1), none, true, true},
	} {
		cases = append(cases, metaCase{fmt.Sprint("lock/retention ", i), func(h *harness) {
			b := h.lockBucket("b")
			for _, bypass := range []bool{false, true} {
				o := h.object(b, "k", h.content(9))
				o.Lock = x.from
				o.Lock.Hold = core.HoldOn // a hold does not prevent changes of the retention
				r := h.ok(&core.PutObject{Object: o})
				u := &core.UpdateObject{Bucket: b.ID, Key: "k", Version: r.Version, SetRetention: true, Lock: x.to, Time: at, Bypass: bypass}
				if bypass && x.all || !bypass && x.plain {
					h.updated(u)
				} else {
					u.SetTags, u.Tags = true, []core.Attr{{Name: "not", Value: "written"}}
					h.fails(core.Locked, u)
				}
			}
		}})
	}
	return cases
}

package coretest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"orcas/core"
)

// modelKeys are few, so that changes often affect the same key, and they are difficult to list.
var modelKeys = []string{"a", "a/", "a/b", "a/b/c", "ab", "b", "\x01", "\xff", "\xff\xff/b", "a\x00"}

// one returns true one time in n. Failures shrink towards false.
func (s *simulation) one(n int) bool { return rapid.IntRange(0, n-1).Draw(s.t, "one") == n-1 }

func (s *simulation) key() string { return rapid.SampledFrom(modelKeys).Draw(s.t, "key") }

// bucketID draws the ID of a bucket, or one time in twenty an ID that no bucket has.
func (s *simulation) bucketID() core.BucketID {
	if len(s.buckets) == 0 || s.one(20) {
		return 999_999
	}
	return rapid.SampledFrom(s.buckets).Draw(s.t, "bucket").ID
}

// change draws the next change.
func (s *simulation) change() core.Change {
	if len(s.buckets) == 0 {
		return s.putBucket()
	}
	switch rapid.SampledFrom([]string{
		"object", "object", "object", "object", "copy", "copy", "copy", "delete", "delete", "version", "version",
		"upload", "upload", "part", "part", "part", "part", "complete", "complete", "abort", "bucket", "versioning", "record", "other",
		"move", "move", "rewrap", "free", "parts", "update", "update", "update", "rename", "rename", "append", "equal", "equal", "equal", "unshare",
		"repair",
	}).Draw(s.t, "change") {
	case "object":
		o := s.object(&core.BucketInfo{ID: s.bucketID()}, s.key(), s.segments()...)
		o.ETag, o.Lock = s.etag(), s.lock()
		return &core.PutObject{Object: o, If: s.precondition(), Source: s.source()}
	case "copy":
		if len(s.objects) > 0 {
			from := rapid.SampledFrom(s.objects).Draw(s.t, "from")
			c := s.copyOf(&from, &core.BucketInfo{ID: s.bucketID()}, s.key())
			if s.one(3) { // copy onto itself
				c.Object.Bucket, c.Object.Key = from.Bucket, from.Key
			}
			c.If = s.precondition()
			return c
		}
	case "delete":
		return &core.DeleteObject{Bucket: s.bucketID(), Key: s.key(), If: s.precondition(), Modified: s.at(), Owner: "o"}
	case "version":
		c := &core.DeleteObject{Bucket: s.bucketID(), Key: s.key(), Version: core.Null, Modified: s.at(), Bypass: s.one(2)}
		if len(s.objects) > 0 {
			o := rapid.SampledFrom(s.objects).Draw(s.t, "version")
			c.Bucket, c.Key, c.Version = o.Bucket, o.Key, o.Version()
			if s.one(10) {
				c.Version = core.Version(o.Seq)
			}
		}
		c.If = s.precondition()
		return c
	case "update":
		return s.update()
	case "upload":
		return &core.CreateUpload{Upload: core.UploadInfo{Bucket: s.bucketID(), Key: s.key(), Initiated: s.at(), Owner: "o", Lock: s.lock()}}
	case "part":
		u := s.upload()
		p := s.partOf(&core.BucketInfo{ID: u.Bucket}, u.Key, u.ID, rapid.SampledFrom([]int{1, 1, 2, 3, 10_000, 0}).Draw(s.t, "number"), s.segments()...)
		p.Source = s.source()
		return p
	case "complete":
		return s.completion()
	case "abort":
		u := s.upload()
		return &core.AbortUpload{Bucket: u.Bucket, Key: u.Key, Upload: u.ID}
	case "bucket":
		if s.one(2) {
			return &core.DeleteBucket{Bucket: s.bucketID()}
		}
	case "versioning":
		b := rapid.SampledFrom(s.buckets).Draw(s.t, "bucket")
		b.Versioning = rapid.SampledFrom([]core.Versioning{core.VersioningEnabled, core.VersioningSuspended, core.VersioningOff}).Draw(s.t, "versioning")
		b.ObjectLock = s.one(4)
		b.Quota = s.quota()
		c := &core.PutBucket{Info: b}
		if s.one(3) {
			expect := rapid.SampledFrom(s.buckets).Draw(s.t, "expect")
			c.Expect = &expect
		}
		return c
	case "record":
		return s.putRecord()
	case "move":
		return s.move()
	case "rewrap":
		return s.rewrap()
	case "rename":
		return s.renaming()
	case "append":
		return s.appending()
	case "free":
		return s.free()
	case "equal":
		source, segments := s.equal()
		if s.one(4) {
			u := s.upload()
			p := s.partOf(&core.BucketInfo{ID: u.Bucket}, u.Key, u.ID, 1, segments...)
			p.Source = source
			return p
		}
		return &core.PutObject{Object: s.object(&core.BucketInfo{ID: s.bucketID()}, s.key(), segments...), Source: source, If: s.precondition()}
	case "unshare":
		return &core.Unshare{Data: core.DataID(rapid.Uint64Range(1, uint64(s.data)+1).Draw(s.t, "unshare"))}
	case "repair":
		return s.repair()
	case "parts":
		return s.parts()
	case "other":
		if s.one(3) {
			return &core.Synced{UpTo: s.seq - min(s.seq, 3), ReplayFrom: core.MakeBlockID(1, 2, uint32(s.seq)), Relaxed: s.one(2)}
		}
		if s.one(2) {
			return &core.SetReplayFrom{ReplayFrom: core.MakeBlockID(1, 2, uint32(s.seq))}
		}
		return &core.Void{From: 1, To: s.seq}
	}
	return s.putBucket()
}

func (s *simulation) putBucket() *core.PutBucket {
	return &core.PutBucket{Info: core.BucketInfo{Name: rapid.SampledFrom([]string{"b", "c", "d"}).Draw(s.t, "name"), Created: s.at(), ObjectLock: s.one(4), Quota: s.quota(),
		Versioning: rapid.SampledFrom([]core.Versioning{core.VersioningOff, core.VersioningEnabled, core.VersioningSuspended}).Draw(s.t, "versioning")}}
}

// lock usually returns no lock, and otherwise a lock that ends at about the time of the change.
func (s *simulation) lock() core.Lock {
	if !s.one(4) {
		return core.Lock{}
	}
	l := core.Lock{
		Mode: rapid.SampledFrom([]core.LockMode{core.LockNone, core.LockGovernance, core.LockCompliance}).Draw(s.t, "mode"),
		Hold: rapid.SampledFrom([]core.LegalHold{core.HoldNone, core.HoldOff, core.HoldOn}).Draw(s.t, "hold"),
	}
	if l.Mode != core.LockNone {
		l.Until = s.at().Add(time.Duration(rapid.IntRange(-10, 10).Draw(s.t, "until")) * time.Second)
	}
	return l
}

// update draws an update of a version that exists or existed.
func (s *simulation) update() core.Change {
	c := &core.UpdateObject{
		Bucket: s.bucketID(), Key: s.key(), SetTags: s.one(2), SetRetention: s.one(2), SetHold: s.one(3), Lock: s.lock(), Time: s.at(), Bypass: s.one(2),
	}
	if len(s.objects) > 0 {
		o := rapid.SampledFrom(s.objects).Draw(s.t, "updated")
		c.Bucket, c.Key = o.Bucket, o.Key
		if !s.one(3) {
			c.Version = o.Version()
		}
	}
	if s.one(2) {
		c.Tags = []core.Attr{{Name: "n", Value: fmt.Sprint(s.seq)}}
	}
	return c
}

func (s *simulation) putRecord() *core.PutRecord {
	c := &core.PutRecord{Record: core.Record{Kind: rapid.SampledFrom([]string{kindUser, kindCursor, core.BucketRecordKind(s.bucketID())}).Draw(s.t, "kind"), Key: s.key()}}
	values := []string{"1", "2", ""}
	if !s.one(4) {
		c.Record.Value = []byte(rapid.SampledFrom(values).Draw(s.t, "value"))
	}
	if c.HasExpect = s.one(3); c.HasExpect {
		c.Expect = []byte(rapid.SampledFrom(values).Draw(s.t, "expect"))
	}
	if s.one(3) {
		c.In = s.bucketID()
	}
	return c
}

func (s *simulation) etag() string {
	return rapid.SampledFrom([]string{"x", "y", "z"}).Draw(s.t, "etag")
}

func (s *simulation) precondition() (p core.Precondition) {
	switch rapid.SampledFrom([]string{"", "", "", "", "", "match", "none", "seq", "time", "size", "tags"}).Draw(s.t, "if") {
	case "match":
		p.Match = []string{rapid.SampledFrom([]string{"*", "x", "y"}).Draw(s.t, "match")}
	case "none":
		p.NoneMatch = []string{rapid.SampledFrom([]string{"*", "x", "y"}).Draw(s.t, "none-match")}
	case "time":
		p.Modified = s.at().Truncate(time.Second)
		if len(s.objects) > 0 {
			p.Modified = rapid.SampledFrom(s.objects).Draw(s.t, "time").Modified.Truncate(time.Second)
		}
	case "size":
		p.HasSize, p.Size = true, rapid.SampledFrom([]int64{0, 1, 2, 2500, 2501}).Draw(s.t, "size")
	case "tags":
		p.HasTags = true
		if len(s.objects) > 0 {
			p.Tags = rapid.SampledFrom(s.objects).Draw(s.t, "tagged").Tags
		}
	case "seq":
		p.Seq = 1
		if len(s.objects) > 0 {
			p.Seq = rapid.SampledFrom(s.objects).Draw(s.t, "expected").Seq
		}
	}
	return p
}

func (s *simulation) source() *core.Source {
	if len(s.objects) == 0 || !s.one(5) {
		return nil
	}
	o := rapid.SampledFrom(s.objects).Draw(s.t, "source")
	return &core.Source{Bucket: o.Bucket, Key: o.Key, Seq: o.Seq}
}

// segments draws up to three segments, with new content or with content that exists or existed.
func (s *simulation) segments() []core.Segment {
	var segments []core.Segment
	for range rapid.IntRange(0, 3).Draw(s.t, "segments") {
		switch {
		case s.one(2):
			segments = append(segments, s.sharableContent())
		case s.data == 0 || s.one(2):
			segments = append(segments, s.content(rapid.SampledFrom([]int64{1, 0, 2500}).Draw(s.t, "size")))
		default:
			segments = append(segments, core.Segment{Data: core.DataID(rapid.Uint64Range(1, uint64(s.data)).Draw(s.t, "data")), From: 1, Length: 1})
		}
	}
	return segments
}

// upload draws an upload that was begun, one time in twenty with another key.
func (s *simulation) upload() core.UploadInfo {
	if len(s.uploads) == 0 {
		return core.UploadInfo{ID: 1, Bucket: s.bucketID(), Key: s.key()}
	}
	u := rapid.SampledFrom(s.uploads).Draw(s.t, "upload")
	if s.one(20) {
		u.Key = s.key()
	}
	return u
}

// completion draws a CompleteUpload with some of the parts of an upload, and sometimes with wrong parts.
func (s *simulation) completion() *core.CompleteUpload {
	u := s.upload()
	var refs []core.PartRef
	for _, n := range slices.Sorted(maps.Keys(s.partsOf[u.ID])) {
		if !s.one(4) {
			refs = append(refs, s.partsOf[u.ID][n])
		}
	}
	if len(refs) > 0 && s.one(10) {
		refs[0].Seq--
	}
	if s.one(20) {
		refs = append(refs, core.PartRef{Number: 20_000, Seq: 1})
	}
	c := s.complete(&core.BucketInfo{ID: u.Bucket}, u.Key, u.ID, refs...)
	c.Object.ETag, c.If = s.etag(), s.precondition()
	return c
}

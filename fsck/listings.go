package fsck

import (
	"cmp"
	"fmt"
	"slices"

	"orcas/core"
)

// listing compares the listings of the buckets with the metadata.
type listing struct {
	*check
	shifted []Difference // reported only if there was no write in the meantime
}

// compareListings reads the listings, and reports missing and wrong entries.
func (c *check) compareListings() error {
	c.o.Progress("listings", 0, int64(c.report.Versions))
	l := &listing{check: c}
	ids := make([]core.BucketID, 0, len(c.buckets))
	for id := range c.buckets {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		for _, list := range []func(core.BucketID) error{l.allVersions, l.allCurrent, l.allUploads} {
			if err := list(id); err != nil {
				return err
			}
		}
	}
	st, err := c.meta.State(c.ctx)
	if err != nil {
		return err
	}
	quiet := st.Seq == c.state.Seq
	if quiet {
		for _, d := range l.shifted {
			c.differ(d)
		}
	}
	return l.missing(quiet)
}

// pages reads a listing to its end.
func (l *listing) pages(kind core.ListKind, bucket core.BucketID, fn func(*core.ListPage)) error {
	q := core.ListQuery{Kind: kind, Bucket: bucket, Limit: pageSize}
	for {
		p, err := l.meta.List(l.ctx, q)
		if core.Is(err, core.Damaged) { // the damaged row has already been reported
			l.note("the listing of bucket %q ends at %q: %v", l.buckets[bucket], q.After.Key, err)
			return nil
		}
		if err != nil {
			return err
		}
		fn(p)
		if !p.Truncated {
			return nil
		}
		q.After = p.Next
	}
}

func (l *listing) allVersions(id core.BucketID) error {
	last, seq := "", core.Seq(0)
	return l.pages(core.ListVersions, id, func(p *core.ListPage) {
		for i := range p.Objects {
			o := &p.Objects[i]
			where := versionName(l.codec, l.buckets, o).String()
			first := seq == 0 || o.Key != last
			if !first && o.Seq >= seq || first == !o.Latest {
				l.shift(KindLatest, where, "the listing of versions is not in order", o.Size)
			}
			last, seq = o.Key, o.Seq
			if o.Seq > l.state.Seq {
				continue // written in the meantime
			}
			h := hashOf(o.Bucket, o.Key, uint64(o.Seq))
			if !l.versions.mark(h) {
				l.absent(where, "it is listed, but does not exist", o.Size)
			} else if !o.Marker && o.Latest != l.current.has(h) {
				l.shift(KindLatest, where, "it is the newest version but not listed as current, or vice versa", o.Size)
			}
		}
	})
}

func (l *listing) allCurrent(id core.BucketID) error {
	return l.pages(core.ListObjects, id, func(p *core.ListPage) {
		for i := range p.Objects {
			o := &p.Objects[i]
			h := hashOf(o.Bucket, o.Key, uint64(o.Seq))
			if o.Seq <= l.state.Seq && l.versions.has(h) && !l.current.mark(h) {
				l.shift(KindListing, versionName(l.codec, l.buckets, o).String(), "it is listed as current, but is not the newest version", o.Size)
			}
		}
	})
}

func (l *listing) allUploads(id core.BucketID) error {
	return l.pages(core.ListUploads, id, func(p *core.ListPage) {
		for _, u := range p.Uploads {
			if core.Seq(u.ID) <= l.state.Seq && !l.uploads.mark(hashOf(u.Bucket, u.Key, uint64(u.ID))) {
				l.absent(uploadName(l.codec, u.ID, u.Key), "it is listed, but does not exist", 0)
			}
		}
	})
}

// absent reports a listed entry without a row. If some rows could not be read, it does nothing, because the entry may
// belong to one of those rows.
func (l *listing) absent(where, text string, size int64) {
	if l.report.ByKind[KindRow] == 0 {
		l.differ(Difference{Kind: KindListing, Where: where, Text: text, Bytes: size})
	}
}

// shift records a difference that may be due to a write between two reads.
func (l *listing) shift(kind, where, text string, size int64) {
	if len(l.shifted) < l.o.MaxDifferences {
		l.shifted = append(l.shifted, Difference{Kind: kind, Where: where, Text: text, Bytes: size})
	}
}

// doubt is a row that was missing from a listing, or a row of a key with several newest or null versions.
type doubt struct {
	object core.ObjectInfo // only the fields that identify the row
	upload bool
	which  uint8 // a combination of the constants below
}

const (
	doubtVersion = 1 << iota
	doubtCurrent
	doubtLatest
	doubtNull
)

// missing looks for rows that were missing from the listings, and for keys with two newest or two null versions.
func (l *listing) missing(quiet bool) error {
	versions, current, uploads := l.versions.unmarked(), l.current.unmarked(), l.uploads.unmarked()
	latest, nulls := l.latest.twice(), l.nulls.twice()
	if len(versions)+len(current)+len(uploads)+len(latest)+len(nulls) == 0 {
		return nil
	}
	var doubts []doubt
	add := func(d doubt) {
		if len(doubts) < 10*l.o.MaxDifferences {
			doubts = append(doubts, d)
		}
	}
	err := EachRow(l.ctx, l.meta, func(r *core.Row) error {
		if o := r.Object; o != nil {
			d := doubt{object: core.ObjectInfo{Bucket: o.Bucket, Key: o.Key, Seq: o.Seq, Null: o.Null, Latest: o.Latest, Size: o.Size}}
			h, key := hashOf(o.Bucket, o.Key, uint64(o.Seq)), hashOf(o.Bucket, o.Key, 0)
			for _, q := range []struct {
				is  bool
				bit uint8
			}{
				{versions[h], doubtVersion}, {current[h], doubtCurrent}, {o.Latest && latest[key], doubtLatest}, {o.Null && nulls[key], doubtNull},
			} {
				if q.is {
					d.which |= q.bit
				}
			}
			if d.which != 0 {
				add(d)
			}
		}
		if u := r.Upload; u != nil && uploads[hashOf(u.Bucket, u.Key, uint64(u.ID))] {
			add(doubt{object: core.ObjectInfo{Bucket: u.Bucket, Key: u.Key, Seq: core.Seq(u.ID)}, upload: true})
		}
		return nil
	}, func(string, error) {})
	if err != nil {
		return err
	}
	for i := range doubts {
		if err := l.resolve(&doubts[i], quiet); err != nil {
			return err
		}
	}
	l.tooMany(doubts, doubtLatest, KindLatest, "newest")
	l.tooMany(doubts, doubtNull, KindNull, "null")
	return nil
}

// resolve looks up a row again that was missing from a listing.
func (l *listing) resolve(d *doubt, quiet bool) error {
	o := &d.object
	if _, ok := l.buckets[o.Bucket]; !ok {
		return nil // the missing bucket has already been reported
	}
	where := versionName(l.codec, l.buckets, o).String()
	differ := func(text string) {
		l.differ(Difference{Kind: KindListing, Where: where, Text: text, Bytes: o.Size})
	}
	if d.upload {
		_, err := l.meta.Upload(l.ctx, o.Bucket, o.Key, core.UploadID(o.Seq))
		if err == nil || quiet && core.Is(err, core.NoSuchUpload) {
			l.differ(Difference{Kind: KindListing, Where: uploadName(l.codec, core.UploadID(o.Seq), o.Key), Text: "it is not listed"})
		}
		return ignore(err, core.NoSuchUpload, core.Damaged)
	}
	if d.which&(doubtVersion|doubtCurrent) == 0 {
		return nil
	}
	now, err := l.meta.Object(l.ctx, o.Bucket, o.Key, o.Version())
	if quiet && (core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion)) {
		differ("it exists, but is neither listed nor found by its key")
	}
	if err != nil {
		return ignore(err, core.NoSuchKey, core.NoSuchVersion, core.Damaged)
	}
	if now.Seq != o.Seq { // another null version has replaced it
		return nil
	}
	if d.which&doubtVersion != 0 {
		shows, err := l.shows(core.ListQuery{Kind: core.ListVersions, Bucket: o.Bucket, Prefix: o.Key,
			After: core.Cursor{Key: o.Key, Version: core.Version(o.Seq + 1)}}, o)
		if err == nil && !shows {
			differ("it is not in the listing of versions")
		}
		if err != nil || d.which&doubtCurrent == 0 {
			return err
		}
	}
	if now, err = l.meta.Object(l.ctx, o.Bucket, o.Key, core.Current); err != nil || now.Seq != o.Seq {
		return ignore(err, core.NoSuchKey, core.NoSuchVersion, core.Damaged)
	}
	shows, err := l.shows(core.ListQuery{Kind: core.ListObjects, Bucket: o.Bucket, Prefix: o.Key}, o)
	if err == nil && !shows {
		differ("it is the newest version of its key, but is not listed")
	}
	return err
}

// shows reports whether a page of one entry contains a version.
func (l *listing) shows(q core.ListQuery, o *core.ObjectInfo) (bool, error) {
	q.Limit = 1
	p, err := l.meta.List(l.ctx, q)
	if err != nil {
		return true, ignore(err, core.Damaged)
	}
	return len(p.Objects) == 1 && p.Objects[0].Key == o.Key && p.Objects[0].Seq >= o.Seq, nil
}

// tooMany reports keys for which several of the doubts have the same bit set.
func (l *listing) tooMany(doubts []doubt, bit uint8, kind, what string) {
	var list []*core.ObjectInfo
	for i := range doubts {
		if doubts[i].which&bit != 0 {
			list = append(list, &doubts[i].object)
		}
	}
	slices.SortFunc(list, func(a, b *core.ObjectInfo) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
	})
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if a.Bucket == b.Bucket && a.Key == b.Key {
			l.differ(Difference{Kind: kind, Where: versionName(l.codec, l.buckets, b).String(), Bytes: b.Size,
				Text: fmt.Sprintf("the versions with sequences %d and %d are both marked as the %s version", b.Seq, a.Seq, what)})
		}
	}
}

// ignore returns nil for errors of some kinds.
func ignore(err error, kinds ...core.Kind) error {
	if err != nil && slices.Contains(kinds, core.KindOf(err)) {
		return nil
	}
	return err
}

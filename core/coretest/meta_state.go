package coretest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// MetaState is the result of all reads of a Meta, normalized for comparison: times are in UTC, empty lists are nil, and
// reference counts and checksums of content are only in Data (in a cached ObjectInfo they may be out of date).
type MetaState struct {
	State   core.State
	Buckets []BucketState
	Lists   map[core.UploadID][]core.PartInfo // the parts of uploads, objects, and garbage
	Data    []core.DataInfo
	Garbage []core.Garbage
	Records map[string][]core.Record

	HasTallies bool // whether the engine keeps a tally of every bucket
}

// BucketState is a bucket with its versions and uploads.
type BucketState struct {
	Info     core.BucketInfo
	Versions []core.ObjectInfo // as Object returns them, in the order of ListVersions
	Current  []string          // the keys in ListObjects
	Uploads  []core.UploadInfo // as Upload returns them, in the order of ListUploads
	Usage    core.Usage        // zero if the bucket has no quota
	Tally    core.Tally        // zero if the engine keeps no tallies
}

const statePage = 1000 // entries per read

// ReadMeta reads all of m: buckets with their versions, uploads and documents, all content, all garbage, and the
// records of the given kinds. It also returns an error if two reads contradict each other.
func ReadMeta(ctx context.Context, m core.Meta, kinds ...string) (*MetaState, error) {
	s := &MetaState{Lists: map[core.UploadID][]core.PartInfo{}, Records: map[string][]core.Record{}}
	var err error
	if s.State, err = m.State(ctx); err != nil {
		return nil, err
	}
	for after := ""; ; after = s.Buckets[len(s.Buckets)-1].Info.Name {
		page, err := m.Buckets(ctx, "", after, statePage)
		if err != nil {
			return nil, err
		}
		for _, info := range page {
			named, err := m.Bucket(ctx, info.Name)
			if err != nil {
				return nil, err
			}
			if want, got := normalBucket(info), normalBucket(*named); !reflect.DeepEqual(want, got) {
				return nil, fmt.Errorf("Buckets returns %+v, but Bucket returns %+v", want, got)
			}
			b, err := readBucket(ctx, m, info)
			if err == nil {
				b.Usage, err = readUsage(ctx, m, &info)
			}
			if err != nil {
				return nil, err
			}
			s.Buckets = append(s.Buckets, *b)
			kinds = append(kinds, core.BucketRecordKind(info.ID))
		}
		if len(page) < statePage {
			break
		}
	}
	if err := s.readTallies(ctx, m); err != nil {
		return nil, err
	}
	if err := s.readData(ctx, m); err != nil {
		return nil, err
	}
	if err := s.readLists(ctx, m); err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if err := s.readRecords(ctx, m, kind); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func readBucket(ctx context.Context, m core.Meta, info core.BucketInfo) (*BucketState, error) {
	b := &BucketState{Info: normalBucket(info)}
	for _, kind := range []core.ListKind{core.ListObjects, core.ListVersions} {
		if err := checkBrief(ctx, m, core.ListQuery{Kind: kind, Bucket: info.ID, Limit: statePage}); err != nil {
			return nil, err
		}
	}
	err := eachPage(ctx, m, core.ListQuery{Kind: core.ListVersions, Bucket: info.ID}, func(page *core.ListPage) error {
		for i := range page.Objects {
			listed := &page.Objects[i]
			o, err := m.Object(ctx, info.ID, listed.Key, listed.Version())
			if err != nil {
				return err
			}
			whole, bare := normalObject(o), normalObject(o)
			stripInfo(bare.Segments)
			if want := normalObject(listed); !reflect.DeepEqual(want, bare) {
				return fmt.Errorf("List returns %+v, but Object returns %+v", want, bare)
			}
			if listed.Latest {
				current, err := m.Object(ctx, info.ID, listed.Key, core.Current)
				if err != nil {
					return err
				}
				if got := normalObject(current); !reflect.DeepEqual(whole, got) {
					return fmt.Errorf("the newest version is %s, but Object(Current) returns %s", formatObject(whole), formatObject(got))
				}
			}
			b.Versions = append(b.Versions, whole)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachPage(ctx, m, core.ListQuery{Kind: core.ListObjects, Bucket: info.ID}, func(page *core.ListPage) error {
		for i := range page.Objects {
			b.Current = append(b.Current, page.Objects[i].Key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, eachPage(ctx, m, core.ListQuery{Kind: core.ListUploads, Bucket: info.ID}, func(page *core.ListPage) error {
		for i := range page.Uploads {
			listed := normalUpload(&page.Uploads[i])
			u, err := m.Upload(ctx, info.ID, listed.Key, listed.ID)
			if err != nil {
				return err
			}
			if got := normalUpload(u); !reflect.DeepEqual(got, listed) {
				return fmt.Errorf("List returns %+v, but Upload returns %+v", listed, got)
			}
			b.Uploads = append(b.Uploads, listed)
		}
		return nil
	})
}

// checkBrief compares the brief form of a listing with its full form.
func checkBrief(ctx context.Context, m core.Meta, q core.ListQuery) error {
	return eachPage(ctx, m, q, func(page *core.ListPage) error {
		q.Brief = true
		brief, err := m.List(ctx, q)
		if err != nil {
			return err
		}
		if len(brief.Objects) != len(page.Objects) || brief.Next != page.Next || brief.Truncated != page.Truncated {
			return fmt.Errorf("a brief page has %d objects and ends at %+v, but the full one has %d and ends at %+v",
				len(brief.Objects), brief.Next, len(page.Objects), page.Next)
		}
		for i := range page.Objects {
			want := page.Objects[i].Brief()
			if want, got := normalObject(&want), normalObject(&brief.Objects[i]); !reflect.DeepEqual(want, got) {
				return fmt.Errorf("a brief listing has %+v, but the full one has %+v", got, want)
			}
		}
		q.After = page.Next
		return nil
	})
}

// readUsage returns the usage of a bucket with a quota. For a bucket without a quota, it checks that Usage fails.
func readUsage(ctx context.Context, m core.Meta, b *core.BucketInfo) (core.Usage, error) {
	u, err := m.Usage(ctx, b.ID)
	if b.Quota.IsZero() && core.Is(err, core.BucketState) {
		return core.Usage{}, nil
	}
	if err == nil && b.Quota.IsZero() {
		err = fmt.Errorf("bucket %q has no quota, but its usage is %+v: expected BucketState", b.Name, u)
	}
	return u, err
}

// readTallies reads the tallies of all buckets, if the engine keeps them, and checks that there is one for each bucket.
func (s *MetaState) readTallies(ctx context.Context, m core.Meta) error {
	tallier, ok := core.As[core.Tallier](m)
	if s.HasTallies = ok; !ok {
		return nil
	}
	found := map[core.BucketID]core.Tally{}
	for after, page := core.BucketID(0), statePage; page == statePage; {
		list, err := tallier.Tallies(ctx, after, statePage)
		if err != nil {
			return err
		}
		for _, b := range list {
			if b.Bucket <= after {
				return fmt.Errorf("the tally of bucket %d follows that of bucket %d", b.Bucket, after)
			}
			after, found[b.Bucket] = b.Bucket, b.Tally
		}
		page = len(list)
	}
	for i := range s.Buckets {
		b := &s.Buckets[i]
		var ok bool
		if b.Tally, ok = found[b.Info.ID]; !ok {
			return fmt.Errorf("bucket %q has no tally", b.Info.Name)
		}
		delete(found, b.Info.ID)
	}
	if len(found) > 0 {
		return fmt.Errorf("tallies of buckets that do not exist: %v", found)
	}
	return nil
}

func eachPage(ctx context.Context, m core.Meta, q core.ListQuery, fn func(*core.ListPage) error) error {
	for q.Limit = statePage; ; {
		page, err := m.List(ctx, q)
		if err == nil {
			err = fn(page)
		}
		if err != nil || !page.Truncated {
			return err
		}
		q.After = page.Next
	}
}

func (s *MetaState) readData(ctx context.Context, m core.Meta) error {
	for id := core.DataID(1); id < s.State.NextData; id += statePage {
		ids := make([]core.DataID, 0, statePage)
		for i := id; i < min(id+statePage, s.State.NextData); i++ {
			ids = append(ids, i)
		}
		page, err := m.Data(ctx, ids)
		if err != nil {
			return err
		}
		for i := range page {
			d := normalData(&page[i])
			d.Refs = page[i].Refs
			s.Data = append(s.Data, *d)
		}
	}
	for {
		after := uint64(0)
		if n := len(s.Garbage); n > 0 {
			after = s.Garbage[n-1].ID
		}
		page, err := m.Garbage(ctx, after, statePage)
		if err != nil {
			return err
		}
		for _, g := range page {
			if len(g.Extents) == 0 {
				g.Extents = nil
			}
			s.Garbage = append(s.Garbage, g)
		}
		if len(page) < statePage {
			return nil
		}
	}
}

func (s *MetaState) readLists(ctx context.Context, m core.Meta) error {
	for _, b := range s.Buckets {
		for _, o := range b.Versions {
			s.Lists[o.List] = nil
		}
		for _, u := range b.Uploads {
			s.Lists[u.ID] = nil
		}
	}
	for _, g := range s.Garbage {
		s.Lists[g.List] = nil
	}
	delete(s.Lists, 0)
	for id := range s.Lists {
		for after := 0; ; {
			page, err := m.Parts(ctx, id, after, statePage, core.WithContent)
			if err != nil {
				return err
			}
			for i := range page {
				s.Lists[id] = append(s.Lists[id], normalPart(&page[i]))
				after = page[i].Number
			}
			if len(page) < statePage {
				break
			}
		}
	}
	return nil
}

func (s *MetaState) readRecords(ctx context.Context, m core.Meta, kind string) error {
	for after := ""; ; {
		page, err := m.Records(ctx, kind, after, statePage)
		if err != nil {
			return err
		}
		for _, r := range page {
			r.Value = append([]byte{}, r.Value...)
			s.Records[kind] = append(s.Records[kind], r)
			after = r.Key
		}
		if len(page) < statePage {
			return nil
		}
	}
}

// Comparable returns s without the aspects in which drivers may differ: how extents are distributed over garbage
// entries.
func (s *MetaState) Comparable() *MetaState {
	c := *s
	c.Garbage = nil
	var extents []core.Extent
	for _, g := range s.Garbage {
		extents = append(extents, g.Extents...)
		if g.List != 0 {
			c.Garbage = append(c.Garbage, core.Garbage{List: g.List})
		}
	}
	slices.SortFunc(c.Garbage, func(x, y core.Garbage) int { return cmp.Compare(x.List, y.List) })
	slices.SortFunc(extents, compareExtents)
	c.Garbage = append(c.Garbage, core.Garbage{Extents: extents})
	return &c
}

func compareExtents(x, y core.Extent) int {
	return cmp.Or(slices.Compare(x.Block[:], y.Block[:]), cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Length, y.Length))
}

// Check fails t if s violates an invariant: reference counts are equal to the number of segments that refer to the
// content; each extent belongs to one DataID or to the garbage, and only once; a key has one newest version and at most
// one null version; tallies are equal to the usage of their buckets; and listings agree with each other.
func (s *MetaState) Check(t require.TestingT) {
	refs := map[core.DataID]int64{}
	count := func(segments []core.Segment) {
		for _, g := range segments {
			refs[g.Data]++
			require.NotNil(t, g.Info, "content %d is not resolved", g.Data)
			require.Equal(t, g.Data, g.Info.ID)
		}
	}
	for _, b := range s.Buckets {
		b.check(t)
		for _, o := range b.Versions {
			count(o.Segments)
			require.LessOrEqual(t, o.Seq, s.State.Seq)
		}
		held := b.counted(s.Lists)
		if !b.Info.Quota.IsZero() {
			require.Equal(t, held.Usage(), b.Usage, "the recorded usage of bucket %q (actual) differs from its usage (expected)", b.Info.Name)
		}
		if s.HasTallies {
			require.Equal(t, held, b.Tally, "the tally of bucket %q (actual) differs from what it holds (expected)", b.Info.Name)
			require.Equal(t, int64(len(b.Current)), held.Objects(), "the objects of bucket %q", b.Info.Name)
		}
	}
	for _, parts := range s.Lists {
		for _, p := range parts {
			count(p.Segments)
		}
	}
	at := map[core.Extent]string{}
	place := func(extents []core.Extent, where string) {
		for _, e := range extents {
			require.Empty(t, at[e], "extent %v is also in %s", e, where)
			at[e] = where
		}
	}
	for _, d := range s.Data {
		require.Equal(t, refs[d.ID], d.Refs, "references to content %d", d.ID)
		require.Positive(t, d.Refs, "content %d", d.ID)
		delete(refs, d.ID)
		require.Less(t, d.ID, s.State.NextData)
		place(d.Extents, fmt.Sprint("content ", d.ID))
	}
	require.Empty(t, refs, "references to missing content")
	lists, last := map[core.UploadID]bool{}, uint64(0)
	for _, g := range s.Garbage {
		require.Greater(t, g.ID, last, "garbage must be in the order of its IDs")
		last = g.ID
		require.True(t, len(g.Extents) > 0 || g.List != 0, "garbage %d is empty", g.ID)
		place(g.Extents, fmt.Sprint("garbage ", g.ID))
		if g.List != 0 {
			require.False(t, lists[g.List], "list %d has two garbage entries", g.List)
			lists[g.List] = true
		}
	}
	for _, b := range s.Buckets {
		for _, o := range b.Versions {
			require.False(t, lists[o.List], "list %d is garbage, but %q refers to it", o.List, o.Key)
		}
	}
}

// counted computes what a bucket holds. Lists must include the lists of its uploads.
func (b *BucketState) counted(lists map[core.UploadID][]core.PartInfo) (held core.Tally) {
	for i := range b.Versions {
		o := &b.Versions[i]
		switch {
		case o.Marker:
			held.DeleteMarkers++
			continue
		case !o.Latest:
			held.NoncurrentVersions++
			held.NoncurrentBytes += o.Size
		}
		held.Versions++
		held.Bytes += o.Size
	}
	for _, u := range b.Uploads {
		held.Uploads++
		for _, p := range lists[u.ID] {
			held.UploadBytes += p.Size
		}
	}
	return held
}

func (b *BucketState) check(t require.TestingT) {
	var current []string
	nulls := 0
	for i, o := range b.Versions {
		require.Equal(t, b.Info.ID, o.Bucket)
		first := i == 0 || b.Versions[i-1].Key != o.Key
		if !first {
			require.Greater(t, b.Versions[i-1].Seq, o.Seq, "versions of %q are not in order", o.Key)
		}
		if i > 0 {
			require.LessOrEqual(t, b.Versions[i-1].Key, o.Key)
		}
		require.Equal(t, first, o.Latest, "Latest of %q %d", o.Key, o.Seq)
		if first && !o.Marker {
			current = append(current, o.Key)
		}
		if first {
			nulls = 0
		}
		if o.Null {
			nulls++
		}
		require.LessOrEqual(t, nulls, 1, "%q has several null versions", o.Key)
		if b.Info.Versioning == core.VersioningOff {
			require.True(t, o.Null && !o.Marker, "%q must be a null version, because its bucket has no versioning", o.Key)
		}
	}
	require.Equal(t, current, b.Current, "ListObjects must list the newest versions of ListVersions")
	for i := 1; i < len(b.Uploads); i++ {
		p, u := b.Uploads[i-1], b.Uploads[i]
		require.Negative(t, cmp.Or(cmp.Compare(p.Key, u.Key), cmp.Compare(p.ID, u.ID)), "uploads are not in order")
	}
}

func normalTime(t time.Time) time.Time { return t.Round(0).UTC() }

func normalLock(l core.Lock) core.Lock {
	if l.Mode == core.LockNone {
		l.Until = time.Time{}
	}
	l.Until = normalTime(l.Until)
	return l
}

func list[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}

func normalSums(sums []core.Checksum) []core.Checksum {
	sums = list(sums)
	for i := range sums {
		sums[i].Value = list(sums[i].Value)
	}
	return sums
}

func normalBucket(b core.BucketInfo) core.BucketInfo {
	b.Created = normalTime(b.Created)
	b.Attrs = list(b.Attrs)
	return b
}

func normalData(d *core.DataInfo) *core.DataInfo {
	if d == nil {
		return nil
	}
	c := *d
	c.Refs = 0
	c.Sums, c.DataKey, c.Extents = normalSums(d.Sums), list(d.DataKey), list(d.Extents)
	return &c
}

func normalSegments(segments []core.Segment) []core.Segment {
	segments = list(segments)
	for i := range segments {
		segments[i].Info = normalData(segments[i].Info)
		if segments[i].Info != nil {
			segments[i].Info.Sums = nil
		}
	}
	return segments
}

// stripInfo sets the Info of segments to nil in place. The caller owns the segments.
func stripInfo(segments []core.Segment) {
	for i := range segments {
		segments[i].Info = nil
	}
}

func normalObject(o *core.ObjectInfo) core.ObjectInfo {
	c := *o
	c.Modified, c.Lock = normalTime(o.Modified), normalLock(o.Lock)
	c.Sums, c.Attrs, c.Tags, c.Index = normalSums(o.Sums), list(o.Attrs), list(o.Tags), list(o.Index)
	c.Segments = normalSegments(o.Segments)
	return c
}

// formatObject formats an object with the DataInfo of its segments.
func formatObject(o core.ObjectInfo) string {
	b := fmt.Appendf(nil, "%+v", o)
	for i := range o.Segments {
		if info := o.Segments[i].Info; info != nil {
			b = fmt.Appendf(b, ", segment %d: %+v", i, *info)
		}
	}
	return string(b)
}

func normalUpload(u *core.UploadInfo) core.UploadInfo {
	c := *u
	c.Initiated, c.Lock = normalTime(u.Initiated), normalLock(u.Lock)
	c.Attrs, c.Tags = list(u.Attrs), list(u.Tags)
	return c
}

func normalPart(p *core.PartInfo) core.PartInfo {
	c := *p
	c.Modified = normalTime(p.Modified)
	c.Sums, c.Segments = normalSums(p.Sums), normalSegments(p.Segments)
	return c
}

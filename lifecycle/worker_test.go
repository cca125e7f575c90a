package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/mem"
	"orcas/core/sqlite"
	"orcas/lifecycle"
)

// store is metadata with a writer and a clock that the test sets.
type store struct {
	t      *testing.T
	meta   core.Meta
	writer *batch.Writer
	now    time.Time
}

// drivers runs a test on each metadata engine.
func drivers(t *testing.T, test func(t *testing.T, s *store)) {
	open := map[string]func(t *testing.T) core.Meta{
		"mem": func(*testing.T) core.Meta { return mem.NewMeta() },
		"sqlite": func(t *testing.T) core.Meta {
			m, err := sqlite.Open(filepath.Join(t.TempDir(), "metadata.db"), sqlite.Options{})
			require.NoError(t, err)
			t.Cleanup(func() { m.Close() })
			return m
		},
	}
	for name, open := range open {
		t.Run(name, func(t *testing.T) {
			s := &store{t: t, meta: open(t), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
			w, err := batch.Open(t.Context(), batch.Options{Meta: s.meta, Blocks: mem.NewBlocks()})
			require.NoError(t, err)
			t.Cleanup(func() { w.Close() })
			s.writer = w
			test(t, s)
		})
	}
}

func (s *store) do(c core.Change) core.Result {
	s.t.Helper()
	res, err := s.writer.Do(context.Background(), batch.Write{Change: c})
	require.NoError(s.t, err)
	return res
}

// bucket creates or updates a bucket.
func (s *store) bucket(name string, state core.Versioning, rules ...lifecycle.Rule) *core.BucketInfo {
	s.t.Helper()
	b, err := s.meta.Bucket(context.Background(), name)
	if err != nil {
		id := s.do(&core.PutBucket{Info: core.BucketInfo{Name: name, Owner: "owner"}}).Seq
		b = &core.BucketInfo{ID: core.BucketID(id), Name: name, Owner: "owner"}
	}
	next := *b
	next.Attrs = slices.Clone(b.Attrs)
	next.Versioning = state
	var config *lifecycle.Config
	if len(rules) > 0 {
		config = &lifecycle.Config{Rules: rules}
	}
	require.NoError(s.t, lifecycle.Set(&next, config))
	s.do(&core.PutBucket{Info: next})
	return &next
}

// put writes a version that is a number of days old.
func (s *store) put(b *core.BucketInfo, key string, days float64, more ...func(*core.ObjectInfo)) core.Seq {
	s.t.Helper()
	o := core.ObjectInfo{Bucket: b.ID, Key: key, Modified: s.ago(days), Size: 10, ETag: "e"}
	for _, m := range more {
		m(&o)
	}
	return s.do(&core.PutObject{Object: o}).Seq
}

func (s *store) mark(b *core.BucketInfo, key string, days float64) core.Seq {
	s.t.Helper()
	return s.do(&core.DeleteObject{Bucket: b.ID, Key: key, Modified: s.ago(days)}).Seq
}

func (s *store) ago(days float64) time.Time {
	return s.now.Add(-time.Duration(days * float64(lifecycle.Day))).Truncate(time.Millisecond)
}

func (s *store) worker(change ...func(*lifecycle.Options)) *lifecycle.Worker {
	o := lifecycle.Options{Meta: s.meta, Writer: s.writer, Now: func() time.Time { return s.now }, Page: 3}
	for _, c := range change {
		c(&o)
	}
	return lifecycle.New(o)
}

func (s *store) pass() lifecycle.Report {
	s.t.Helper()
	r, err := s.worker().Pass(s.t.Context())
	require.NoError(s.t, err)
	return r
}

// versions returns all versions of a bucket, the newest version of each key first.
func (s *store) versions(b *core.BucketInfo) (all []core.ObjectInfo) {
	s.t.Helper()
	page, err := s.meta.List(context.Background(), core.ListQuery{Kind: core.ListVersions, Bucket: b.ID, Limit: 100_000})
	require.NoError(s.t, err)
	require.False(s.t, page.Truncated)
	return page.Objects
}

// is requires that a bucket has exactly these versions: "key:seq", followed by "+" for a delete marker.
func (s *store) is(b *core.BucketInfo, want ...string) {
	s.t.Helper()
	got := []string{}
	for _, o := range s.versions(b) {
		got = append(got, name(&o))
	}
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(s.t, append([]string{}, want...), got)
}

func name(o *core.ObjectInfo) string {
	plus := ""
	if o.Marker {
		plus = "+"
	}
	return fmt.Sprint(o.Key, ":", o.Seq, plus)
}

func at(key string, seq core.Seq) string { return fmt.Sprint(key, ":", seq) }

func ptr[T any](v T) *T { return &v }

func days(n int) *lifecycle.Expiration { return &lifecycle.Expiration{Days: n} }

func rule(id string, change func(*lifecycle.Rule)) lifecycle.Rule {
	r := lifecycle.Rule{ID: id, Enabled: true}
	change(&r)
	return r
}

// TestExpiration checks that days end at midnight, and that versions are kept until the end of their last day.
func TestExpiration(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.Expiration = days(2); r.Filter.Prefix = ptr("log/") }))
		s.put(b, "log/old", 3)
		s.put(b, "log/due", 2.6)          // written on the 26th at 21:36: expires at the end of the 28th
		two := s.put(b, "log/young", 2.4) // written on the 27th at 02:24: expires at the end of the 1st
		other := s.put(b, "other", 100)   // the rule has another prefix
		empty := s.bucket("empty", core.VersioningOff)
		untouched := s.put(empty, "log/old", 100)
		r := s.pass()
		require.Equal(t, int64(2), r.Expired)
		require.Equal(t, int64(3), r.Scanned, "only keys with the prefix of the rule")
		require.Equal(t, 1, r.Buckets)
		s.is(b, at("log/young", two), at("other", other))
		s.is(empty, at("log/old", untouched))
		s.now = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(-time.Millisecond)
		require.Zero(t, s.pass().Expired)
		s.now = s.now.Add(time.Millisecond)
		require.Equal(t, int64(1), s.pass().Expired)
		s.is(b, at("other", other))
		records, err := s.meta.Records(t.Context(), "lifecycle", "", 9)
		require.NoError(t, err)
		require.Empty(t, records, "a short pass must not leave a record")
	})
}

// TestFilters checks that a version expires only if it meets all conditions of the filter.
func TestFilters(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		tags := []core.Attr{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}
		b := s.bucket("bucket", core.VersioningOff, rule("r", func(r *lifecycle.Rule) {
			r.Expiration = days(1)
			r.Filter = lifecycle.Filter{And: true, Prefix: ptr("p"), Tags: tags, Larger: ptr(int64(5)), Smaller: ptr(int64(20))}
		}), rule("off", func(r *lifecycle.Rule) { r.Expiration = days(1); r.Enabled = false }))
		with := func(size int64, tags ...core.Attr) func(*core.ObjectInfo) {
			return func(o *core.ObjectInfo) { o.Size, o.Tags = size, tags }
		}
		s.put(b, "p-all", 9, with(6, tags...))
		s.put(b, "p-more", 9, with(19, append(slices.Clone(tags), core.Attr{Name: "c", Value: "3"})...))
		var left []string
		for key, m := range map[string]func(*core.ObjectInfo){
			"p-small": with(5, tags...), "p-large": with(20, tags...), "p-one-tag": with(10, tags[0]), "p-other-value": with(10, tags[0], core.Attr{Name: "b", Value: "3"}),
			"p-no-tag": with(10), "q-prefix": with(10, tags...),
		} {
			left = append(left, at(key, s.put(b, key, 9, m)))
		}
		require.Equal(t, int64(2), s.pass().Expired)
		s.is(b, left...)
	})
}

// TestVersioned checks that an expired current version gets a delete marker, and that a noncurrent version is deleted a
// number of days after the next version was written.
func TestVersioned(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) {
			r.Expiration = days(10)
			r.Noncurrent = &lifecycle.Noncurrent{Days: 5, Newer: 1}
		}))
		var seqs []core.Seq
		for _, age := range []float64{40, 30, 20, 9} {
			seqs = append(seqs, s.put(b, "key", age))
		}
		// The versions of 40 and 30 days became noncurrent long ago. The version of 20 days became noncurrent 9 days
		// ago, but it is the newest noncurrent version.
		old := s.put(b, "old", 11)
		r := s.pass()
		require.Equal(t, int64(2), r.Noncurrent)
		require.Equal(t, int64(1), r.Expired)
		all := s.versions(b)
		require.Equal(t, []string{at("key", seqs[3]), at("key", seqs[2])}, []string{name(&all[0]), name(&all[1])})
		require.True(t, all[2].Marker && all[2].Latest && all[2].Key == "old" && all[2].Owner == "owner")
		require.Equal(t, old, all[3].Seq)
		require.Len(t, all, 4)

		// The marker makes the version noncurrent. Days later the version is deleted, if the rule keeps no noncurrent
		// versions, and then the marker.
		b = s.bucket("bucket", core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) {
			r.Filter.Prefix = ptr("old")
			r.Expiration = &lifecycle.Expiration{Marker: ptr(true)}
			r.Noncurrent = &lifecycle.Noncurrent{Days: 5}
		}))
		require.Zero(t, s.pass().Deleted())
		s.now = s.now.Add(6 * lifecycle.Day)
		require.Equal(t, int64(1), s.pass().Noncurrent)
		require.Equal(t, int64(1), s.pass().Markers)
		s.is(b, at("key", seqs[3]), at("key", seqs[2]))
	})
}

// TestMoved moves an old object onto a key: the version there became noncurrent at the time of the move, not when the
// moved object was written.
func TestMoved(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) {
			r.Filter.Prefix, r.Noncurrent = ptr("key"), &lifecycle.Noncurrent{Days: 5}
		}))
		below, source := s.put(b, "key", 40), s.put(b, "source", 30)
		moved := s.do(&core.MoveObject{From: core.Source{Bucket: b.ID, Key: "source", Seq: source}, Bucket: b.ID, Key: "key", Time: s.ago(1)}).Seq
		require.Zero(t, s.pass().Deleted())
		s.now = s.now.Add(6 * lifecycle.Day)
		require.Equal(t, int64(1), s.pass().Noncurrent)
		all := s.versions(b)
		require.Equal(t, at("key", moved), name(&all[0]))
		for _, o := range all {
			require.NotEqual(t, below, o.Seq)
		}
	})
}

// TestSuspended checks that an expired null version is replaced by a null marker, and that a noncurrent null version
// expires like any other noncurrent version.
func TestSuspended(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningOff)
		s.put(b, "key", 30)
		s.bucket("bucket", core.VersioningEnabled)
		current := s.put(b, "key", 20)
		s.bucket("bucket", core.VersioningSuspended, rule("r", func(r *lifecycle.Rule) {
			r.Expiration = days(50)
			r.Noncurrent = &lifecycle.Noncurrent{Days: 5}
		}))
		other := s.put(b, "null", 60)
		r := s.pass()
		require.Equal(t, int64(1), r.Noncurrent, "the null version")
		require.Equal(t, int64(1), r.Expired)
		all := s.versions(b)
		require.Len(t, all, 2)
		require.Equal(t, current, all[0].Seq)
		require.True(t, all[1].Marker && all[1].Null)
		require.NotEqual(t, other, all[1].Seq)
	})
}

// TestMarkers checks that a delete marker without other versions expires, by its age or by a rule for markers.
func TestMarkers(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) { r.Expiration = days(10) }))
		s.mark(b, "gone", 20)
		young := s.mark(b, "young", 5)
		version := s.put(b, "kept", 30)
		marker := s.mark(b, "kept", 20)
		require.Equal(t, int64(1), s.pass().Markers)
		s.is(b, at("young", young)+"+", at("kept", version), at("kept", marker)+"+")
		s.bucket("bucket", core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) { r.Expiration = &lifecycle.Expiration{Marker: ptr(false)} }))
		require.Zero(t, s.pass().Deleted())
		s.bucket("bucket", core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) { r.Expiration = &lifecycle.Expiration{Marker: ptr(true)} }))
		require.Equal(t, int64(1), s.pass().Markers)
		s.is(b, at("kept", version), at("kept", marker)+"+")
	})
}

// TestDates checks that at the date of a rule all versions expire, whenever they were written.
func TestDates(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		date := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
		b := s.bucket("bucket", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.Expiration = &lifecycle.Expiration{Date: &date} }))
		s.put(b, "old", 1000)
		s.put(b, "new", 0)
		require.Zero(t, s.pass().Deleted())
		s.now = date
		require.Equal(t, int64(2), s.pass().Expired)
		s.is(b)
	})
}

func (s *store) begin(b *core.BucketInfo, key string, days float64) core.UploadID {
	return core.UploadID(s.do(&core.CreateUpload{Upload: core.UploadInfo{Bucket: b.ID, Key: key, Initiated: s.ago(days)}}).Seq)
}

// TestUploads checks a rule that only aborts uploads: it must abort old uploads with its prefix, and nothing else.
func TestUploads(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.AbortDays = 3; r.Filter.Prefix = ptr("a") }))
		for i := range 7 {
			s.begin(b, fmt.Sprint("a", i/2), 9)
		}
		young, other := s.begin(b, "a1", 1), s.begin(b, "b", 99)
		object := s.put(b, "a", 99)
		require.Equal(t, int64(7), s.pass().Uploads)
		page, err := s.meta.List(t.Context(), core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 100})
		require.NoError(t, err)
		require.Equal(t, []core.UploadID{young, other}, []core.UploadID{page.Uploads[0].ID, page.Uploads[1].ID})
		require.Len(t, page.Uploads, 2)
		s.is(b, at("a", object))
	})
}

// TestAbandonedUploads checks that Options.UploadAge aborts uploads in every bucket, and deletes no objects.
func TestAbandonedUploads(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		plain := s.bucket("plain", core.VersioningOff)
		ruled := s.bucket("ruled", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.AbortDays = 1; r.Filter.Prefix = ptr("a") }))
		var left []core.UploadID
		for _, b := range []*core.BucketInfo{plain, ruled} {
			s.put(b, "object", 99)
			s.begin(b, "old", 8)
			left = append(left, s.begin(b, "young", 6.9))
		}
		s.begin(ruled, "a", 3)
		r, err := s.worker(func(o *lifecycle.Options) { o.UploadAge = 7 * lifecycle.Day }).Pass(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(3), r.Uploads)
		require.Equal(t, int64(3), r.Deleted())
		for i, b := range []*core.BucketInfo{plain, ruled} {
			page, err := s.meta.List(t.Context(), core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 9})
			require.NoError(t, err)
			require.Len(t, page.Uploads, 1)
			require.Equal(t, left[i], page.Uploads[0].ID)
		}
	})
}

// TestLocked checks that versions protected by retention or a legal hold are kept, and counted in the report.
func TestLocked(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		id := s.do(&core.PutBucket{Info: core.BucketInfo{Name: "bucket", ObjectLock: true, Versioning: core.VersioningEnabled}}).Seq
		b := &core.BucketInfo{ID: core.BucketID(id)}
		info, err := s.meta.Bucket(t.Context(), "bucket")
		require.NoError(t, err)
		next := *info
		require.NoError(t, lifecycle.Set(&next, &lifecycle.Config{Rules: []lifecycle.Rule{rule("r", func(r *lifecycle.Rule) { r.Noncurrent = &lifecycle.Noncurrent{Days: 1} })}}))
		s.do(&core.PutBucket{Info: next})
		var left []string
		for i, lock := range []core.Lock{
			{Hold: core.HoldOn}, {Mode: core.LockGovernance, Until: s.ago(-2)}, {Mode: core.LockCompliance, Until: s.ago(-2)}, {Mode: core.LockCompliance, Until: s.ago(1)}, {},
		} {
			seq := s.put(b, "key", 9, func(o *core.ObjectInfo) { o.Lock = lock })
			if i < 3 {
				left = append(left, at("key", seq))
			}
		}
		left = append(left, at("key", s.put(b, "key", 9)))
		r := s.pass()
		require.Equal(t, int64(3), r.Held)
		require.Equal(t, int64(2), r.Noncurrent)
		s.is(b, left...)
		s.now = s.now.Add(3 * lifecycle.Day)
		require.Equal(t, int64(2), s.pass().Noncurrent)
	})
}

var errDying = core.E("test", core.Unavailable, errors.New("the writer has failed"))

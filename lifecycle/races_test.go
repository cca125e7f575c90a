package lifecycle_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/lifecycle"
)

// TestRaces writes, deletes or restores a key after a pass has found an expired version and before the pass deletes it:
// the version must be kept.
func TestRaces(t *testing.T) {
	races := map[string]struct {
		state core.Versioning
		race  func(s *store, b *core.BucketInfo, seqs []core.Seq) []string // returns the versions that must remain
	}{
		"overwritten": {core.VersioningOff, func(s *store, b *core.BucketInfo, _ []core.Seq) []string {
			return []string{at("key", s.put(b, "key", 0))}
		}},
		"deleted and written": {core.VersioningOff, func(s *store, b *core.BucketInfo, _ []core.Seq) []string {
			s.do(&core.DeleteObject{Bucket: b.ID, Key: "key"})
			return []string{at("key", s.put(b, "key", 0))}
		}},
		"null becomes current": {core.VersioningSuspended, func(s *store, b *core.BucketInfo, seqs []core.Seq) []string {
			// The pass has read a noncurrent null version; the null version that replaces it is current.
			return []string{at("key", s.put(b, "key", 0)), at("key", seqs[1])}
		}},
		"noncurrent becomes current": {core.VersioningEnabled, func(s *store, b *core.BucketInfo, seqs []core.Seq) []string {
			s.do(&core.DeleteObject{Bucket: b.ID, Key: "key", Version: core.Version(seqs[1])})
			return []string{at("key", seqs[0])}
		}},
	}
	for name, c := range races {
		t.Run(name, func(t *testing.T) {
			drivers(t, func(t *testing.T, s *store) {
				b := s.bucket("bucket", core.VersioningOff)
				seqs := []core.Seq{s.put(b, "key", 50)}
				if c.state != core.VersioningOff {
					s.bucket("bucket", core.VersioningEnabled)
					if c.state == core.VersioningEnabled {
						seqs[0] = s.put(b, "key", 50)
						s.do(&core.DeleteObject{Bucket: b.ID, Key: "key", Version: core.Null})
					}
					seqs = append(seqs, s.put(b, "key", 40))
				}
				s.bucket("bucket", c.state, rule("r", func(r *lifecycle.Rule) { r.Expiration = days(45); r.Noncurrent = &lifecycle.Noncurrent{Days: 1} }))
				var want []string
				w := s.worker(func(o *lifecycle.Options) {
					o.Hook = func() {
						if want == nil {
							want = c.race(s, b, seqs)
						}
					}
				})
				r, err := w.Pass(t.Context())
				require.NoError(t, err)
				require.Equal(t, int64(1), r.Changed)
				require.Zero(t, r.Deleted())
				s.is(b, want...)
			})
		})
	}
}

// TestUnderLoad overwrites expired objects while one pass follows another: the new objects must never be lost.
func TestUnderLoad(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningSuspended, rule("r", func(r *lifecycle.Rule) {
			r.Expiration = days(1)
			r.Noncurrent = &lifecycle.Noncurrent{Days: 1}
		}))
		plain := s.bucket("plain", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.Expiration = days(1) }))
		ctx, cancel := context.WithCancel(t.Context())
		var passes, deleted int64
		var wg sync.WaitGroup
		wg.Go(func() {
			w := s.worker()
			for ctx.Err() == nil {
				r, err := w.Pass(t.Context())
				assert.NoError(t, err)
				passes, deleted = passes+1, deleted+r.Deleted()
			}
		})
		var writers sync.WaitGroup
		for i := range 4 {
			writers.Go(func() {
				for n := range 150 {
					for _, bucket := range []*core.BucketInfo{b, plain} {
						key := fmt.Sprint("key", i, "-", n%3)
						s.put(bucket, key, 9)
						young := s.put(bucket, key, 0)
						o, err := s.meta.Object(t.Context(), bucket.ID, key, core.Current)
						if assert.NoError(t, err) {
							assert.Equal(t, young, o.Seq)
							assert.False(t, o.Marker)
						}
					}
				}
			})
		}
		writers.Wait()
		cancel()
		wg.Wait()
		require.Positive(t, passes)
		s.pass()
		for _, bucket := range []*core.BucketInfo{b, plain} {
			live := 0
			for _, o := range s.versions(bucket) {
				if o.Latest && !o.Marker {
					live++
				}
			}
			require.Equal(t, 12, live)
		}
		t.Logf("%d passes deleted %d versions", passes, deleted)
	})
}

// TestRulesAreDeleted deletes the rules of a bucket during a pass: from then on the pass must not delete any versions.
func TestRulesAreDeleted(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.Expiration = days(1) }))
		for i := range 10 {
			s.put(b, fmt.Sprint("key", i), 9)
		}
		r, err := s.worker(func(o *lifecycle.Options) { o.Hook = func() { s.bucket("bucket", core.VersioningOff) } }).Pass(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(3), r.Expired, "the first page")
		require.Len(t, s.versions(b), 7)
	})
}

// TestResumed checks that a resumed pass does not read again the entries before its position.
func TestResumed(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		b := s.bucket("bucket", core.VersioningOff, rule("r", func(r *lifecycle.Rule) { r.Expiration = days(1); r.AbortDays = 1 }))
		for i := range 20 {
			s.put(b, fmt.Sprintf("key%02d", i), 0)
			s.begin(b, fmt.Sprintf("key%02d", i), 0)
		}
		small := func(o *lifecycle.Options) { o.Save = 4; o.Page = 4; o.Every = time.Hour }
		for n, left := range map[int]int64{
			3: 20 - 11 + 20, // three pages of versions are done, except the last key, which may have more versions
			8: 20 - 11,      // all versions and three pages of uploads are done, except the last key
		} {
			_, err := s.worker(small, func(o *lifecycle.Options) { o.Writer = &dying{Writer: s.writer, left: n} }).Pass(t.Context())
			require.ErrorIs(t, err, errDying)
			ctx, cancel := context.WithCancel(t.Context())
			w := s.worker(small)
			done := make(chan struct{})
			go func() { w.Run(ctx); close(done) }()
			require.Eventually(t, func() bool { return w.Status().Passes > 0 }, time.Minute, time.Millisecond)
			cancel()
			<-done
			require.True(t, w.Status().Last.Resumed)
			require.Equal(t, left, w.Status().Last.Scanned)
		}
	})
}

// TestUnreadableRules checks that nothing is deleted in a bucket whose rules cannot be decoded, and that the pass
// continues with other buckets.
func TestUnreadableRules(t *testing.T) {
	drivers(t, func(t *testing.T, s *store) {
		expire := rule("r", func(r *lifecycle.Rule) { r.Expiration = days(1) })
		for _, name := range []string{"a", "b", "c"} {
			s.put(s.bucket(name, core.VersioningOff, expire), "key", 9)
		}
		b := s.bucket("b", core.VersioningOff, expire)
		b.Attrs[0].Value = strings.Replace(b.Attrs[0].Value, `"id"`, `"unknown":"condition","id"`, 1)
		s.do(&core.PutBucket{Info: *b})
		_, err := lifecycle.Of(b)
		require.True(t, core.Is(err, core.Unsupported), err)
		r := s.pass()
		require.Equal(t, int64(2), r.Expired)
		require.Equal(t, 1, r.Unreadable)
		require.Len(t, s.versions(b), 1)
	})
}

// dying is a writer that fails after left calls, like a writer that is shut down.
type dying struct {
	*batch.Writer
	left  int
	after bool // the first call that fails makes its changes nevertheless
}

func (d *dying) DoAll(ctx context.Context, writes []batch.Write) ([]core.Result, []error) {
	d.left--
	var results []core.Result
	if d.left >= 0 || d.left == -1 && d.after {
		var errs []error
		if results, errs = d.Writer.DoAll(ctx, writes); d.left >= 0 {
			return results, errs
		}
	}
	errs := make([]error, len(writes))
	for i := range errs {
		errs[i] = errDying
	}
	return make([]core.Result, len(writes)), errs
}

// TestInterrupted interrupts a pass at each of its writes, with the write done or not done, and continues with another
// worker. In the end all expired versions must have been deleted, and no others. A resumed pass must not start from the
// beginning.
func TestInterrupted(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			ended := false
			drivers(t, func(t *testing.T, s *store) {
				var left []string
				for _, name := range []string{"one", "two"} {
					b := s.bucket(name, core.VersioningEnabled, rule("r", func(r *lifecycle.Rule) {
						r.Noncurrent = &lifecycle.Noncurrent{Days: 1, Newer: 1}
						r.AbortDays = 1
					}))
					for i := range 5 {
						for range 4 {
							s.put(b, fmt.Sprint("key", i), 9)
						}
						s.begin(b, fmt.Sprint("key", i), 9)
					}
				}
				w := &dying{Writer: s.writer, left: n, after: after}
				small := func(o *lifecycle.Options) { o.Save = 4; o.Page = 4; o.Writer = w }
				r, err := s.worker(small).Pass(t.Context())
				ended = err == nil
				if !ended {
					require.ErrorIs(t, err, errDying)
					require.NotEmpty(t, r.Error)
				}
				records, err := s.meta.Records(t.Context(), "lifecycle", "", 9)
				require.NoError(t, err)
				if ended {
					require.Empty(t, records)
				}

				w.left = 1 << 30
				ctx, cancel := context.WithCancel(t.Context())
				worker := s.worker(small, func(o *lifecycle.Options) { o.Every = time.Hour })
				if len(records) > 0 {
					done := make(chan struct{})
					go func() { worker.Run(ctx); close(done) }()
					require.Eventually(t, func() bool { return worker.Status().Passes > 0 }, time.Minute, time.Millisecond)
					cancel()
					<-done
					last := worker.Status().Last
					require.True(t, last.Resumed)
					require.Less(t, last.Scanned, int64(50))
				} else {
					_, err := worker.Pass(ctx)
					require.NoError(t, err)
				}
				cancel()
				for _, name := range []string{"one", "two"} {
					b, err := s.meta.Bucket(t.Context(), name)
					require.NoError(t, err)
					left = left[:0]
					for _, o := range s.versions(b) {
						left = append(left, o.Key)
					}
					require.Equal(t, []string{"key0", "key0", "key1", "key1", "key2", "key2", "key3", "key3", "key4", "key4"}, left)
					page, err := s.meta.List(t.Context(), core.ListQuery{Kind: core.ListUploads, Bucket: b.ID, Limit: 9})
					require.NoError(t, err)
					require.Empty(t, page.Uploads)
				}
				records, err = s.meta.Records(t.Context(), "lifecycle", "", 9)
				require.NoError(t, err)
				require.Empty(t, records)
			})
			if ended || t.Failed() {
				require.Greater(t, n, 10)
				break
			}
		}
	}
}

package lifecycle_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/lifecycle"
)

// TestModel compares passes over random buckets with an independent evaluation of the rules for each version.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var round atomic.Uint64
	rounds := 25
	if testing.Short() {
		rounds = 5
	}
	for range rounds {
		drivers(t, func(t *testing.T, s *store) {
			r := rand.New(rand.NewPCG(seed, round.Add(1)))
			state := core.Versioning(r.IntN(3))
			var rules []lifecycle.Rule
			for i := range 1 + r.IntN(4) {
				rules = append(rules, randomRule(r, i, s.now))
			}
			b := s.bucket("bucket", state)
			if state == core.VersioningSuspended {
				s.bucket("bucket", core.VersioningEnabled)
			}
			fill(s, r, b, state)
			b = s.bucket("bucket", state, rules...)
			if state == core.VersioningSuspended {
				fill(s, r, b, core.VersioningEnabled)
			}
			want := expected(s.versions(b), rules, s.now, state)
			s.pass()
			got := map[string]bool{}
			for _, o := range s.versions(b) {
				if _, was := want[name(&o)]; !was && o.Marker && o.Latest {
					got["new marker of "+o.Key] = true
					continue
				}
				got[name(&o)] = true
			}
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "%+v", rules)
			before := got
			s.pass()
			for _, o := range s.versions(b) {
				_, was := before[name(&o)]
				require.True(t, was || before["new marker of "+o.Key], "a second pass must not write anything")
			}
		})
	}
}

// fill writes versions and markers of keys, in order of age.
func fill(s *store, r *rand.Rand, b *core.BucketInfo, state core.Versioning) {
	for i := range 12 {
		key := fmt.Sprintf("%c/%d", "ab"[i%2], i)
		age := 20.0
		for range r.IntN(6) {
			age -= r.Float64() * 4
			if r.IntN(4) == 0 && state != core.VersioningOff {
				s.mark(b, key, age)
				continue
			}
			s.put(b, key, age, func(o *core.ObjectInfo) {
				o.Size = int64(r.IntN(4))
				if r.IntN(2) == 0 {
					o.Tags = []core.Attr{{Name: "t", Value: "1"}}
				}
			})
		}
	}
}

func randomRule(r *rand.Rand, i int, now time.Time) lifecycle.Rule {
	return rule(fmt.Sprint("r", i), func(x *lifecycle.Rule) {
		x.Enabled = r.IntN(5) > 0
		if r.IntN(2) == 0 {
			x.Filter.Prefix = ptr([]string{"", "a/", "a/1", "b"}[r.IntN(4)])
		}
		if r.IntN(4) == 0 {
			x.Filter.Tags = []core.Attr{{Name: "t", Value: "1"}}
		}
		if r.IntN(4) == 0 {
			x.Filter.Larger = ptr(int64(r.IntN(3)))
		}
		if r.IntN(4) == 0 {
			x.Filter.Smaller = ptr(int64(1 + r.IntN(3)))
		}
		switch r.IntN(4) {
		case 0:
			x.Expiration = days(1 + r.IntN(20))
		case 1:
			date := now.Truncate(lifecycle.Day).Add(time.Duration(r.IntN(3)-1) * lifecycle.Day)
			x.Expiration = &lifecycle.Expiration{Date: &date}
		case 2:
			x.Expiration = &lifecycle.Expiration{Marker: ptr(r.IntN(3) > 0)}
		}
		if x.Expiration == nil || r.IntN(2) == 0 {
			x.Noncurrent = &lifecycle.Noncurrent{Days: 1 + r.IntN(10), Newer: r.IntN(3)}
		}
	})
}

// expected returns the versions that a pass must keep, and the keys for which it must write delete markers.
func expected(all []core.ObjectInfo, rules []lifecycle.Rule, now time.Time, state core.Versioning) map[string]bool {
	left := map[string]bool{}
	keys := map[string][]core.ObjectInfo{}
	for _, o := range all {
		left[name(&o)] = true
		keys[o.Key] = append(keys[o.Key], o)
	}
	// over reports whether n days have passed since t, rounded up to the end of the last day.
	over := func(t time.Time, n int) bool {
		end := t.AddDate(0, 0, n)
		midnight := time.Date(end.Year(), end.Month(), end.Day(), 0, 0, 0, 0, time.UTC)
		if !midnight.Equal(end) {
			midnight = midnight.AddDate(0, 0, 1)
		}
		return !midnight.After(now)
	}
	for _, r := range rules {
		for key, list := range keys {
			for i, o := range list {
				p := ""
				if r.Filter.Prefix != nil {
					p = *r.Filter.Prefix
				}
				if !r.Enabled || len(key) < len(p) || key[:len(p)] != p ||
					r.Filter.Larger != nil && !(o.Size > *r.Filter.Larger) || r.Filter.Smaller != nil && !(o.Size < *r.Filter.Smaller) ||
					len(r.Filter.Tags) > 0 && len(o.Tags) == 0 {
					continue
				}
				e := r.Expiration
				aged := e != nil && (e.Days > 0 && over(o.Modified, e.Days) || e.Date != nil && !e.Date.After(now))
				switch {
				case i > 0 && r.Noncurrent != nil && i-1 >= r.Noncurrent.Newer && over(list[i-1].Modified, r.Noncurrent.Days):
					delete(left, name(&o))
				case i == 0 && !o.Marker && aged && state == core.VersioningOff:
					delete(left, name(&o))
				case i == 0 && !o.Marker && aged:
					left["new marker of "+key] = true
					if o.Null && state == core.VersioningSuspended {
						delete(left, name(&o))
					}
					// In a suspended bucket the null marker also replaces an older null version.
					for _, older := range list[1:] {
						if older.Null && state == core.VersioningSuspended {
							delete(left, name(&older))
						}
					}
				case i == 0 && o.Marker && len(list) == 1 && (aged || e != nil && e.Marker != nil && *e.Marker):
					delete(left, name(&o))
				}
			}
		}
	}
	return left
}

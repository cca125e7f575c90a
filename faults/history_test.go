package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requests is a State to which tests apply requests on keys with versions.
type requests struct {
	*State
	t     *testing.T
	at    int64
	begun map[uint64]Record
}

func newRequests(t *testing.T) *requests {
	return &requests{State: newState(), t: t, begun: map[uint64]Record{}}
}

func (s *requests) write(r Record) {
	s.t.Helper()
	s.at++
	r.Time = s.at
	require.NoError(s.t, s.apply(r))
}

// begin begins a request that puts a version, whose content has the number of the request. done acknowledges it with
// version IDs.
func (s *requests) begin(request uint64, n Name) {
	v, _ := NewValue(Piece{ID: request, Size: 10})
	s.write(Record{Type: Begin, Request: request, Steps: []Step{{Name: n, Do: Push, Version: &Version{ID: "?" + string(rune('0'+request)), Value: v}}}})
}

func (s *requests) done(request uint64, ids ...string) {
	s.write(Record{Type: Done, Request: request, IDs: ids})
}

// ids returns the possible versions of n, as lists of version IDs, newest first.
func (s *requests) ids(n Name) (list []string) {
	for _, b := range s.history(n).all {
		line := ""
		for _, v := range b.versions {
			line += v.ID + " "
		}
		list = append(list, line)
	}
	return list
}

// TestHistoryOfACut: any prefix of the requests acknowledged while the power was cut may survive, but never a request
// without those before it.
func TestHistoryOfACut(t *testing.T) {
	n := Name{Bucket: "b", Key: "k"}
	s := newRequests(t)
	s.begin(1, n)
	s.done(1, "a")
	s.begin(2, n)
	require.Equal(t, []string{"a ", "?2 a "}, s.ids(n))
	s.write(Record{Type: Cut})
	s.done(2, "b")
	require.Equal(t, []string{"b a "}, s.ids(n))
	s.begin(3, n)
	s.done(3, "c")
	s.begin(4, n)
	s.write(Record{Type: Unknown, Request: 4})
	s.begin(5, n)
	s.write(Record{Type: CutDone})
	s.begin(6, n)
	s.done(6, "f")
	s.write(Record{Type: Rewind})
	require.Equal(t, []string{"a ", "b a ", "c b a ", "?4 c b a ", "?5 c b a ", "?5 ?4 c b a "}, s.ids(n))
	s.write(Record{Type: Seen, Steps: []Step{{Name: n, Do: Become, Versions: s.history(n).all[1].versions}}})
	s.write(Record{Type: Checked})
	require.Equal(t, []string{"b a "}, s.ids(n))
}

// TestHistoryRelaxed: requests acknowledged before the window survive, and any prefix of the later ones may.
func TestHistoryRelaxed(t *testing.T) {
	n := Name{Bucket: "b", Key: "k"}
	s := newRequests(t)
	s.relax()
	s.begin(1, n)
	s.done(1, "a")
	s.at = 20
	s.begin(2, n)
	s.done(2, "b")
	s.write(Record{Type: Begin, Request: 3, Steps: []Step{{Name: n, Do: Drop, ID: "a"}}})
	s.done(3)
	s.begin(4, n)
	s.write(Record{Type: Refused, Request: 4})
	s.write(Record{Type: Cut, Window: 10})
	s.write(Record{Type: CutDone})
	s.write(Record{Type: Rewind})
	require.Equal(t, []string{"a ", "b a ", "b "}, s.ids(n), "the key must have a version, and no delete marker")
}

// TestHalfARename: an unacknowledged rename must have happened for both keys or for neither.
func TestHalfARename(t *testing.T) {
	from, to := Name{Bucket: "b", Key: "from"}, Name{Bucket: "b", Key: "to"}
	for name, test := range map[string]struct {
		from, to []held
		half     bool
	}{
		"before": {[]held{{id: "a", size: 10}}, nil, false},
		"after":  {[]held{{id: "m", marker: true}, {id: "a", size: 10}}, []held{{id: "b", size: 10}}, false},
		"copied": {[]held{{id: "a", size: 10}}, []held{{id: "b", size: 10}}, true},
		"lost":   {[]held{{id: "m", marker: true}, {id: "a", size: 10}}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRequests(t)
			s.begin(1, from)
			s.done(1, "a")
			v := s.history(from).all[0].versions[0].Value
			s.write(Record{Type: Begin, Request: 2, Op: "v-rename", Atomic: true, Steps: []Step{
				{Name: to, Do: Push, Version: &Version{ID: "?2", Value: v}}, {Name: from, Do: Push, Version: &Version{ID: "?3"}}}})
			c := &checker{state: s.State, courses: map[Name][]branch{}}
			for n, got := range map[Name][]held{from: test.from, to: test.to} {
				for i := range got {
					if !got[i].marker {
						got[i].etag = v.ETag
					}
				}
				versions, courses := s.history(n).explain(n, got, time.Now())
				require.NotNil(t, courses)
				c.explained(n, s.history(n), versions, courses)
			}
			c.atomicity()
			require.Equal(t, test.half, len(c.report.Violations) > 0, c.report.Violations)
		})
	}
}

// TestLifecycleDeletions: a lifecycle deletes versions and adds delete markers only as its rules specify, and not
// before they are due.
func TestLifecycleDeletions(t *testing.T) {
	const day = int64(lifeDay)
	value, _ := NewValue(Piece{ID: 1, Size: 10})
	content := func(id string, written, under int64) Version {
		return Version{ID: id, Value: value, Written: written, Placed: written, Under: under}
	}
	marker := func(id string, placed, under int64) Version {
		return Version{ID: id, Written: placed, Placed: placed, Under: under}
	}
	dropped := func(v Version) Version {
		v.Dropped = true
		return v
	}
	sees := func(ids ...string) (list []held) { // markers begin with m
		for _, id := range ids {
			if id[0] == 'm' {
				list = append(list, held{id: id, marker: true})
			} else {
				list = append(list, held{id: id, size: value.Size, etag: value.ETag})
			}
		}
		return list
	}
	tests := []struct {
		name   string
		bucket string
		key    string
		now    int64 // in days
		want   []Version
		got    []held
		ok     bool
	}{
		{"fresh", lifeBucket, "e/1", 2, []Version{content("a", 0, 0)}, sees("a"), true},
		{"expired early", lifeBucket, "e/1", 2, []Version{content("a", 0, 0)}, sees("m", "a"), false},
		{"expired", lifeBucket, "e/1", 3, []Version{content("a", 0, 0)}, sees("m", "a"), true},
		{"expired, without a marker", lifeBucket, "e/1", 3, []Version{content("a", 0, 0)}, nil, false},
		{"noncurrent by its expiry", lifeBucket, "e/1", 5, []Version{content("a", 0, 0)}, sees("m"), true},
		{"all deleted", lifeBucket, "e/1", 6, []Version{content("a", 0, 0)}, nil, true},
		{"two markers", lifeBucket, "e/1", 9, []Version{content("a", 0, 0)}, sees("m1", "m2", "a"), false},
		{"no rule", lifeBucket, "k/1", 90, []Version{content("a", 0, 0)}, nil, false},
		{"no rule, a marker", lifeBucket, "k/1", 90, []Version{content("a", 0, 0)}, sees("m", "a"), false},
		{"noncurrent early", lifeBucket, "m/1", 3, []Version{content("b", 2*day, 0), content("a", 0, 2*day)}, sees("b"), false},
		{"noncurrent", lifeBucket, "m/1", 4, []Version{content("b", 2*day, 0), content("a", 0, 2*day)}, sees("b"), true},
		{"without the newest version", lifeBucket, "m/1", 90, []Version{content("b", 2*day, 0), content("a", 0, 2*day)}, sees("a"), false},
		{"without a marker that has a version below", lifeBucket, "m/1", 1, []Version{marker("m", day, 0), content("a", 0, day)}, sees("a"), false},
		{"without a marker that is alone", lifeBucket, "m/1", 1, []Version{marker("m", day, 0)}, nil, true},
		{"without a marker and the version below", lifeBucket, "m/1", 3, []Version{marker("m", day, 0), content("a", 0, day)}, nil, true},
		{"a marker in between", lifeBucket, "e/1", 5, []Version{content("b", 4*day, 0), content("a", 0, 4*day)}, sees("b", "m", "a"), true},
		{"a marker in between early", lifeBucket, "e/1", 2, []Version{content("b", 2*day, 0), content("a", 0, 2*day)}, sees("b", "m", "a"), false},
		{"no versioning, expired", goneBucket, "e/1", 3, []Version{content("null", 0, 0)}, nil, true},
		{"no versioning, expired early", goneBucket, "e/1", 2, []Version{content("null", 0, 0)}, nil, false},
		{"no versioning, a marker", goneBucket, "e/1", 3, []Version{content("null", 0, 0)}, sees("m", "null"), false},
		{"no lifecycle", "b", "e/1", 90, []Version{content("a", 0, 0)}, nil, false},
		{"deleted below a marker", lifeBucket, "e/1", 3, []Version{dropped(content("a", 0, 0))}, sees("m"), true},
		{"deleted below a marker early", lifeBucket, "e/1", 2, []Version{dropped(content("a", 0, 0))}, sees("m"), false},
		{"deleted", lifeBucket, "e/1", 1, []Version{dropped(content("b", 1, 0)), content("a", 0, 1)}, sees("a"), true},
		{"deleted, but came back", lifeBucket, "e/1", 1, []Version{dropped(content("a", 0, 0))}, sees("a"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			// Times begin at day 1, because 0 means none.
			for i := range test.want {
				v := &test.want[i]
				v.Written, v.Placed = v.Written+day, v.Placed+day
				if v.Under > 0 {
					v.Under += day
				}
			}
			h := history{all: []branch{{versions: test.want}}}
			_, courses := h.explain(Name{Bucket: test.bucket, Key: test.key}, test.got, time.Unix(0, (test.now+1)*day))
			require.Equal(t, test.ok, courses != nil)
		})
	}
}

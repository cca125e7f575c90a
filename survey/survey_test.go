package survey_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/storetest"
	"orcas/survey"
)

// run runs a survey with hardly any pauses until the end of the test.
func run(t *testing.T, o survey.Options) *survey.Survey {
	o.TalliesEvery, o.SpaceEvery = time.Millisecond, time.Millisecond
	s := survey.New(o)
	require.Nil(t, s.Last())
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// wait waits for a result for which ok returns true.
func wait(t *testing.T, s *survey.Survey, ok func(r *survey.Result) bool) *survey.Result {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r := s.Last(); r != nil && ok(r) {
			return r
		}
	}
	require.FailNow(t, "no such result", "%+v", s.Last())
	return nil
}

// The result follows the store: its buckets, the size of its blocks, deduplication and compression.
func TestSurvey(t *testing.T) {
	storetest.NeedsPlain(t)
	st := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
	s := run(t, survey.Options{Meta: st.Meta, Blocks: st.Blocks})
	empty := wait(t, s, func(r *survey.Result) bool { return !r.SpaceAt.IsZero() })
	require.Equal(t, []survey.Bucket{{Name: "bucket"}}, empty.Buckets)
	require.Zero(t, empty.Space.Live)
	require.EqualValues(t, 1, empty.Space.Deduplication())
	require.EqualValues(t, 1, empty.Space.Compression())

	body := storetest.Random(1, 100_000)
	st.Put("a", body)
	st.Copy("a", "b")
	st.Copy("a", "c")
	st.In(st.OpenBucket("another", core.VersioningEnabled)).Put("text", storetest.Text(1, 500_000))
	r := wait(t, s, func(r *survey.Result) bool { return r.Total.Versions == 4 && r.Space.Logical == 800_000 })
	require.Equal(t, []survey.Bucket{
		{Name: "another", Tally: core.Tally{Versions: 1, Bytes: 500_000}}, {Name: "bucket", Tally: core.Tally{Versions: 3, Bytes: 300_000}},
	}, r.Buckets)
	all, live := st.Used()
	require.Equal(t, live, r.Space.Live)
	require.Equal(t, core.BlockContent{Contents: 2, Bytes: 600_000}, r.Space.Contents)
	require.LessOrEqual(t, r.Space.Stored, all)
	require.GreaterOrEqual(t, r.Space.Stored, live)
	require.Equal(t, r.Space.Stored-live, r.Space.Reclaimable())
	require.InDelta(t, 8.0/6, r.Space.Deduplication(), 1e-9)
	require.InDelta(t, 600_000/float64(live), r.Space.Compression(), 1e-9)
	running, succeeded, failed := s.Status()
	require.False(t, succeeded.IsZero(), running)
	require.NoError(t, failed)

	for _, key := range []string{"a", "b", "c"} {
		st.Delete(key)
	}
	r = wait(t, s, func(r *survey.Result) bool { return r.Space.Logical == 500_000 })
	require.Equal(t, core.BlockContent{Contents: 1, Bytes: 500_000}, r.Space.Contents)
	require.Less(t, r.Space.Live, live)
}

// A final survey also determines the use of the drive, however recent it is. If there is no time for that, the rest of the
// result is current.
func TestFinalSurvey(t *testing.T) {
	st := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
	f := &failing{Meta: st.Meta}
	s := survey.New(survey.Options{Meta: f, Blocks: st.Blocks, SpaceEvery: time.Hour})
	figures := func(round func(context.Context) error) (bytes, logical int64, failed error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.placing.Store(&cancel)
		failed = round(ctx)
		return s.Last().Total.Bytes, s.Last().Space.Logical, failed
	}
	require.NoError(t, s.Round(t.Context()))
	st.Put("a", make([]byte, 100))
	bytes, logical, err := figures(s.Round)
	require.Equal(t, []any{int64(100), int64(0), nil}, []any{bytes, logical, err})
	bytes, logical, err = figures(s.Final)
	require.Equal(t, []any{int64(100), int64(0)}, []any{bytes, logical})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.Final(t.Context()))
	require.Equal(t, int64(100), s.Last().Space.Logical)
}

// Nothing but the state is read while nothing changes, except the list of blocks.
func TestSurveyOfAnIdleStore(t *testing.T) {
	st := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
	counting := coretest.NewCountingMeta(st.Meta)
	s := run(t, survey.Options{Meta: counting, Blocks: st.Blocks})
	first := wait(t, s, func(*survey.Result) bool { return true })
	wait(t, s, func(r *survey.Result) bool { return r.At.After(first.At) && counting.Counts().State > 10 })
	require.EqualValues(t, 1, counting.Counts().Buckets)
}

// failing is an engine whose tallies cannot be read, or whose places are busy.
type failing struct {
	core.Meta
	broken, busy atomic.Bool
	failed       atomic.Int64
	placing      atomic.Pointer[context.CancelFunc] // called once when places are read
}

func (f *failing) Unwrap() core.Meta { return f.Meta }

func (f *failing) Tallies(ctx context.Context, after core.BucketID, limit int) ([]core.BucketTally, error) {
	if f.broken.Load() {
		f.failed.Add(1)
		return nil, errors.New("broken")
	}
	t, _ := core.As[core.Tallier](f.Meta)
	return t.Tallies(ctx, after, limit)
}

func (f *failing) Places(ctx context.Context, emit func(core.BlockID, core.BlockContent) error) (core.BlockContent, error) {
	if f.busy.Load() {
		return core.BlockContent{}, core.E("test", core.Busy, nil)
	}
	if cancel := f.placing.Swap(nil); cancel != nil {
		(*cancel)()
	}
	p, _ := core.As[core.Placer](f.Meta)
	return p.Places(ctx, emit)
}

// After an error, and if the engine is busy, the last result remains.
func TestSurveyFails(t *testing.T) {
	st := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
	f := &failing{Meta: st.Meta}
	f.busy.Store(true)
	s := run(t, survey.Options{Meta: f, Blocks: st.Blocks})
	r := wait(t, s, func(*survey.Result) bool { return true })
	require.True(t, r.SpaceAt.IsZero())
	f.busy.Store(false)
	wait(t, s, func(r *survey.Result) bool { return !r.SpaceAt.IsZero() })
	f.broken.Store(true)
	st.Put("a", []byte("a"))
	wait(t, s, func(*survey.Result) bool { return f.failed.Load() > 1 })
	require.Zero(t, s.Last().Total.Versions)
	_, _, failed := s.Status()
	require.EqualError(t, failed, "broken")
	f.broken.Store(false)
	wait(t, s, func(r *survey.Result) bool { return r.Total.Versions == 1 })
	_, _, failed = s.Status()
	require.NoError(t, failed)
}

// An engine without tallies is not surveyed.
func TestSurveyWithoutTallies(t *testing.T) {
	st := storetest.Open(t, storetest.Options{})
	type bare struct{ core.Meta }
	s := survey.New(survey.Options{Meta: bare{st.Meta}, Blocks: st.Blocks})
	s.Run(t.Context())
	require.Nil(t, s.Last())
}

func TestLargest(t *testing.T) {
	r := &survey.Result{}
	for i := range 10 {
		r.Buckets = append(r.Buckets, survey.Bucket{Name: fmt.Sprint("b", i), Tally: core.Tally{Versions: 1, Bytes: int64(i / 2), UploadBytes: 1}})
	}
	list, others := r.Largest(10)
	require.Equal(t, r.Buckets, list)
	require.Zero(t, others)
	list, others = r.Largest(3)
	require.Equal(t, []survey.Bucket{r.Buckets[8], r.Buckets[9], r.Buckets[6]}, list, "equal buckets are in the order of their names")
	require.Equal(t, core.Tally{Versions: 7, Bytes: 9, UploadBytes: 7}, others)
	require.Equal(t, "b0", r.Buckets[0].Name)
}

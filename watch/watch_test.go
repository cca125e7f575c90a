package watch

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/gate"
)

// put returns the event of a PutObject.
func put(bucket, key string, status int) *gate.Event {
	return &gate.Event{
		ID: "id", Operation: "PutObject", Method: "PUT", Bucket: bucket, Key: key, Status: status, In: 5, Took: time.Millisecond,
		Principal: &auth.Principal{ARN: "arn"}, Remote: "192.0.2.1:7",
	}
}

// TestTrace: a trace gets the requests that its filter selects, and others none.
func TestTrace(t *testing.T) {
	for name, c := range map[string]struct {
		filter   Filter
		expected string // keys
	}{
		"all":       {Filter{}, "a b c d "},
		"operation": {Filter{Operation: "putobject"}, "a b c "},
		"bucket":    {Filter{Bucket: "two"}, "b "},
		"status":    {Filter{Status: "404"}, "c "},
		"class":     {Filter{Status: "2xx"}, "a b "},
		"none":      {Filter{Status: "000"}, "d "},
		"duration":  {Filter{Least: time.Second}, "d "},
		"key":       {Filter{Key: "c"}, "c "},
		"errors":    {Filter{Errors: true}, "c d "},
		"both":      {Filter{Errors: true, Bucket: "one", Key: "x"}, ""},
	} {
		var h Hub
		o := h.For("s3")
		o.Observe(t.Context(), put("one", "before", 200))
		trace, err := h.Trace(c.filter)
		require.NoError(t, err)
		o.Observe(t.Context(), put("one", "a", 200))
		o.Observe(t.Context(), put("two", "b", 204))
		o.Observe(t.Context(), put("one", "c", 404))
		o.Observe(t.Context(), &gate.Event{Operation: "GetObject", Bucket: "one", Key: "d", Took: time.Minute})
		trace.Close()
		trace.Close()
		o.Observe(t.Context(), put("one", "after", 200))
		var got string
		for len(trace.Events()) > 0 {
			got += (<-trace.Events()).Key + " "
		}
		require.Equal(t, c.expected, got, name)
		require.Zero(t, trace.Dropped())
		require.Nil(t, h.watchers.Load())
	}
}

// TestFilterCheck: a filter that cannot select anything is refused.
func TestFilterCheck(t *testing.T) {
	for _, status := range []string{"", "200", "404", "5xx", "0xx", "000"} {
		require.NoError(t, (&Filter{Status: status}).Check(), status)
	}
	for _, status := range []string{"2", "2xx2", "x00", "999", "20x", "012", "4XX"} {
		_, err := new(Hub).Trace(Filter{Status: status})
		require.Error(t, err, status)
	}
	require.Error(t, (&Filter{Least: -1}).Check())
}

// TestEventIsBounded: long texts are cut, and marked.
func TestEventIsBounded(t *testing.T) {
	e := eventOf("s3", put(strings.Repeat("b", 1000), strings.Repeat("ä", 1000), 200))
	require.True(t, e.Cut)
	require.Equal(t, strings.Repeat("b", 256)+"...", e.Bucket)
	require.Equal(t, strings.Repeat("ä", 512)+"...", e.Key)
	require.False(t, eventOf("s3", put("b", strings.Repeat("k", 1024), 200)).Cut)
	require.Empty(t, e.Reason)
	require.Equal(t, "rate", eventOf("s3", &gate.Event{Reason: gate.Rate}).Reason)
}

// TestSlowTrace: requests do not wait for a trace that nobody reads; those that it misses are counted.
func TestSlowTrace(t *testing.T) {
	var h Hub
	trace, err := h.Trace(Filter{})
	require.NoError(t, err)
	for range queueLength + 10 {
		h.For("s3").Observe(t.Context(), put("bucket", "key", 200))
	}
	require.EqualValues(t, 10, trace.Dropped())
	require.Len(t, trace.Events(), queueLength)
	trace.Close()
}

// TestTooMany: the number of those who watch is bounded.
func TestTooMany(t *testing.T) {
	var h Hub
	var all []*Meter
	for range maxWatchers {
		m, err := h.Meter()
		require.NoError(t, err)
		all = append(all, m)
	}
	_, err := h.Trace(Filter{})
	require.ErrorIs(t, err, ErrTooMany)
	all[3].Close()
	trace, err := h.Trace(Filter{})
	require.NoError(t, err)
	trace.Close()
}

// TestClose: all who watch learn that the server stops, and nobody begins afterwards.
func TestClose(t *testing.T) {
	var h Hub
	trace, err := h.Trace(Filter{})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		<-h.Done()
		trace.Close()
		close(ended)
	}()
	h.Close(time.Minute)
	<-ended
	_, err = h.Meter()
	require.ErrorIs(t, err, ErrClosed)
	h.Close(time.Minute)
}

// TestMeter: the busiest operations and buckets come first, and an interval begins with the end of the last one.
func TestMeter(t *testing.T) {
	var h Hub
	m, err := h.Meter()
	require.NoError(t, err)
	defer m.Close()
	o := h.For("s3")
	for i := range 30 {
		for range i + 1 {
			o.Observe(t.Context(), put(fmt.Sprintf("bucket-%02d", i), "key", 200))
		}
	}
	o.Observe(t.Context(), put("unknown", "key", 404))
	o.Observe(t.Context(), put("bucket-29", "key", 500))
	h.For("iam").Observe(t.Context(), &gate.Event{Operation: "CreateUser", Status: 200, Took: time.Second})
	h.For("s3").Observe(t.Context(), &gate.Event{Status: 403, Out: 7})
	r := m.Take()
	require.Positive(t, r.Seconds)
	require.Equal(t, []int64{469, 3, 1, 467 * 5, 7}, []int64{r.All.Requests, r.All.Errors, r.All.Faults, r.All.In, r.All.Out})
	require.InDelta(t, 1000, r.All.Half, 250)
	require.Equal(t, "PutObject", r.Operations[0].Name)
	require.ElementsMatch(t, []string{"PutObject", "iam CreateUser", "Unknown"}, []string{r.Operations[0].Name, r.Operations[1].Name, r.Operations[2].Name})
	require.Len(t, r.Buckets, shown)
	require.Equal(t, "bucket-29", r.Buckets[0].Name)
	require.EqualValues(t, 31, r.Buckets[0].Requests)
	require.Zero(t, m.Take().All.Requests)
}

// TestMeterOfUnknownBuckets: clients cannot fill a meter with names of buckets that do not exist. Requests for a known
// bucket count for it, whatever their status.
func TestMeterOfUnknownBuckets(t *testing.T) {
	var h Hub
	m, err := h.Meter()
	require.NoError(t, err)
	defer m.Close()
	o := h.For("s3")
	o.Observe(t.Context(), put("known", "key", 200))
	for i, status := range []int{400, 403, 404, 405, 503} {
		o.Observe(t.Context(), put("known", "key", status))
		o.Observe(t.Context(), put(fmt.Sprint("unknown-", i), "key", status))
	}
	o.Observe(t.Context(), put(strings.Repeat("x", 20_000), "key", 500))
	r := m.Take()
	require.Len(t, r.Buckets, 2)
	require.Equal(t, []string{"(other)", "known"}, []string{r.Buckets[0].Name, r.Buckets[1].Name})
	require.Equal(t, []int64{6, 6}, []int64{r.Buckets[0].Requests, r.Buckets[1].Requests})
}

// TestConcurrently: watching begins and ends while requests end.
func TestConcurrently(t *testing.T) {
	var h Hub
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 1000 {
				h.For("s3").Observe(t.Context(), put("bucket", "key", 200))
			}
		})
		group.Go(func() {
			for range 100 {
				m, err := h.Meter()
				if err != nil {
					t.Error(err)
					return
				}
				m.Take()
				m.Close()
			}
		})
	}
	group.Wait()
	require.Nil(t, h.watchers.Load())
}

// TestObserveAllocations: a request that nobody watches allocates nothing.
func TestObserveAllocations(t *testing.T) {
	var h Hub
	o, e := h.For("s3"), put("bucket", "key", 200)
	require.Zero(t, testing.AllocsPerRun(100, func() { o.Observe(t.Context(), e) }))
}

func BenchmarkObserve(b *testing.B) {
	var h Hub
	o, e := h.For("s3"), put("bucket", "key", 200)
	b.Run("nobody", func(b *testing.B) {
		for b.Loop() {
			o.Observe(b.Context(), e)
		}
	})
	b.Run("meter", func(b *testing.B) {
		m, err := h.Meter()
		require.NoError(b, err)
		defer m.Close()
		for b.Loop() {
			o.Observe(b.Context(), e)
		}
	})
}

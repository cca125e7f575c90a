package perf

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// TestSmallBesideLarge runs the scenario and checks that every load ran, in every phase.
func TestSmallBesideLarge(t *testing.T) {
	o := tiny(t, "small-beside-large")
	o.Turns = 2
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	s := doc.Scenarios[0]
	for _, name := range []string{
		"small_p50_ms", "small_p99_ms", "small_rps", "small_alone_p50_ms", "small_alone_p99_ms", "small_alone_rps",
		"streams_bytes_per_sec", "streams_alone_bytes_per_sec", "streams_ratio", "create_upload_p50_ms", "create_upload_p99_ms",
	} {
		require.Positive(t, s.Values[name], name)
	}
	require.Len(t, s.Goals, 3)
	var variants []string
	for _, r := range s.Results {
		variants = append(variants, r.Operation+" "+r.Variant)
		require.Equal(t, 2, r.Turns)
		require.Positive(t, r.Requests)
		require.Zero(t, r.ErrorRate)
	}
	require.Equal(t, []string{
		"put streams alone", "put streams beside small", "put small alone", "put small beside streams", "create-upload beside streams",
	}, variants)
}

// TestLoadsEndTogether: loads of a phase end when the first of them does.
func TestLoadsEndTogether(t *testing.T) {
	target, _ := start(t)
	s := &session{run: &run{ctx: t.Context(), o: Options{Progress: quiet{t}}}, target: target}
	s.bucket = "no-such-bucket"
	b := &beside{session: s}
	var short, long []*LoadResult
	c := s.contents(kib)
	closed, open := s.putLoad(c, 1), s.putLoad(c, 1)
	closed.Count, open.Rate = 20, 500
	s.o.MaxErrorRate = 1
	s.out = &result.Scenario{}
	require.NoError(t, b.together(phase{closed, &short}, phase{open, &long}))
	require.EqualValues(t, 20, short[0].Sent)
	require.Positive(t, long[0].Sent)
}

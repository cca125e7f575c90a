package perf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLengthsAreThoseUsed: the notes describe the loads that were actually run, whatever the profile and the options
// requested.
func TestLengthsAreThoseUsed(t *testing.T) {
	find := func(id string) *scenario {
		all := allScenarios()
		for i := range all {
			if all[i].id == id {
				return &all[i]
			}
		}
		t.Fatal(id)
		return nil
	}
	s := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	for _, c := range []struct {
		id    string
		o     Options
		loads []timed
		want  string
	}{
		{id: "overwrite", o: Options{Profile: Baseline}, loads: []timed{{s(15), s(15), 0}}, want: "Loads of 15 s; with the profile saturation 60 s."},
		{id: "overwrite", o: Options{Profile: Baseline, Duration: s(3)}, loads: []timed{{s(3), s(3), 0}}, want: "Loads of 3 s; with the profile saturation 60 s."},
		{id: "overwrite", o: Options{Profile: Saturation}, loads: []timed{{s(60), s(60), 0}}},
		{id: "overwrite", o: Options{Profile: Smoke, Duration: s(120)}, loads: []timed{{s(120), s(120), 0}}},
		{id: "web-sustained", o: Options{Profile: Baseline}, loads: []timed{{s(10), s(10), 0}, {s(40), s(40), 0}}, want: "Loads of 10 s, 40 s; with the profile saturation 600 s."},
		{id: "batch-compare", o: Options{Profile: Baseline}, loads: []timed{{s(2), s(2), gib}}, want: "Loads of 2 s, 3 turns each; with the profile saturation 10 s, 5 turns."},
		{id: "batch-compare", o: Options{Profile: Smoke}, loads: []timed{{s(0.3), s(0.3), gib}}, want: "Loads of 0.3 s, 1 turn each; with the profile saturation 10 s, 5 turns."},
		{id: "multipart", o: Options{Profile: Baseline}, loads: []timed{{s(8), s(5), 5 * gib}}, want: "Loads of 8 s, or until 5 GiB were sent; with the profile saturation 30 s."},
		{id: "multipart", o: Options{Profile: Saturation}, loads: []timed{{s(30), s(20), 20 * gib}}, want: "Loads of 30 s, or until 20 GiB were sent."},
		{id: "mixed-ramp", o: Options{Profile: Baseline, Duration: s(0.25)}, loads: []timed{{s(0.25), s(0.25), 0}}, want: "Loads of 0.25 s; with the profile saturation 30 s."},
		{id: "list", o: Options{Profile: Baseline}},
	} {
		r := &run{o: c.o}
		sc := find(c.id)
		require.Equal(t, c.want, (&session{run: r, sc: sc, p: r.params(sc), timed: c.loads}).lengths())
	}
}

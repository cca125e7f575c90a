package draw

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/perf/result"
)

// example returns a run with a scenario for every kind of plot.
func example() *result.Run {
	put := func(variant string, size int64, workers int, rate float64) result.Row {
		return result.Row{Operation: "put", Variant: variant, SizeBytes: size, Workers: workers, ThroughputRPS: rate, BytesPerSec: rate * float64(size), P50Ms: 1, P95Ms: 2}
	}
	list := func(variant string, keys, ms float64) result.Row {
		return result.Row{Operation: "list", Variant: variant, P50Ms: ms, Values: map[string]float64{"keys": keys}}
	}
	mixed := func(variant string, rate, p95 float64) result.Row {
		return result.Row{Operation: "mixed", Variant: variant, OpenLoop: true, RequestedRPS: rate, SentRPS: rate, ThroughputRPS: rate, P50Ms: 1, P95Ms: p95}
	}
	grown := func(operation, variant string, objects, rate float64) result.Row {
		return result.Row{Operation: operation, Variant: variant, SizeBytes: 256, Workers: 64, ThroughputRPS: rate, P50Ms: 1, Values: map[string]float64{"keys": objects}}
	}
	part := put("", 5<<20, 10, 100)
	part.Operation = "part"
	one, none := 1.0, 0.0
	return &result.Run{
		Version: 1, ID: "r", Profile: "smoke", StartedAt: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC),
		Environment: result.Environment{CPU: "Some(R) Processor", NumCPU: 2, Commit: "abc1234", FileSystem: "ext4", SameMachine: true},
		Ceilings:    &result.Ceilings{Disk: []result.DiskRow{{SizeBytes: 4096, P50us: 150, BytesPerSec: 27e6}}},
		Scenarios: []result.Scenario{
			{Scenario: "batch-compare", Results: []result.Row{put("packing-off", 4096, 1, 1000), put("packing-on", 4096, 1, 3000), put("null", 4096, 1, 12_000),
				put("packing-off", 4096, 64, 2000), put("packing-on", 4096, 64, 18_000), put("null", 4096, 64, 40_000)}},
			{Scenario: "workers-sweep", Results: []result.Row{put("", 1<<20, 1, 100), put("null", 1<<20, 1, 500), put("", 1<<20, 16, 300), put("null", 1<<20, 16, 800),
				put("", 1<<20, 64, 200), put("null", 1<<20, 64, 700)}},
			{Scenario: "multipart", Results: []result.Row{part}},
			{Scenario: "list", Results: []result.Row{list("first page", 10_000, 2), list("null: first page", 10_000, 0.2), list("first page", 1_000_000, 2.5), list("null: first page", 1_000_000, 0.2),
				list("walk", 1_000_000, 2)}},
			{Scenario: "mixed-ramp", Values: map[string]float64{"kept_up_rps_50_50": 100}, Results: []result.Row{mixed("50/50 get/put", 100, 2), mixed("null: 50/50 get/put", 100, 0.3),
				mixed("50/50 get/put", 300, 30), mixed("null: 50/50 get/put", 300, 0.3)}},
			{Scenario: "growth", Order: "random", Results: []result.Row{grown("put", "random, before", 100_000, 17_000), grown("put", "random", 100_000, 16_000), grown("get", "random", 100_000, 21_000),
				grown("put", "null: random", 100_000, 45_000), grown("put", "random", 10_000_000, 8_000), grown("get", "random", 10_000_000, 13_000), grown("put", "null: random", 10_000_000, 44_000),
				grown("list", "walk", 10_000_000, 300), grown("put", "random, in turns", 10_000_000, 9_000)}},
			{Scenario: "peers", Results: []result.Row{put("ORCAS", 4096, 64, 13_000), put("null", 4096, 64, 30_000)},
				Servers: []result.Server{{Name: "ORCAS", SyncsPerPut: &one}, {Name: "null server"}, {Name: "Versity S3 Gateway", SyncsPerPut: &none}}},
		},
	}
}

// TestPlots draws every kind of plot, at twice the usual size, with nothing cut off.
func TestPlots(t *testing.T) {
	plots, err := Plots(example())
	require.NoError(t, err)
	names := map[string]bool{}
	for _, p := range plots {
		names[p.Name] = true
		require.NotEmpty(t, p.Text, p.Name)
		picture, err := png.Decode(bytes.NewReader(p.PNG))
		require.NoError(t, err)
		require.GreaterOrEqual(t, picture.Bounds().Dx(), 2*672-10)
		require.Less(t, len(p.PNG), 200<<10)
		require.True(t, frameIsWhite(picture), "%s: something is drawn on the border", p.Name)
	}
	require.Equal(t, map[string]bool{"summary.png": true, "batch-compare.png": true, "workers-sweep-put.png": true, "multipart.png": true, "list.png": true, "mixed-ramp.png": true, "growth.png": true}, names)
}

// frameIsWhite reports whether nothing touches the border of a picture.
func frameIsWhite(p image.Image) bool {
	b := p.Bounds()
	white := func(x, y int) bool { return color.GrayModel.Convert(p.At(x, y)).(color.Gray).Y == 255 }
	for x := b.Min.X; x < b.Max.X; x++ {
		if !white(x, b.Min.Y) || !white(x, b.Max.Y-1) {
			return false
		}
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		if !white(b.Min.X, y) || !white(b.Max.X-1, y) {
			return false
		}
	}
	return true
}

// TestNullServerIsACurve: the null server has a point wherever ORCAS has one.
func TestNullServerIsACurve(t *testing.T) {
	run := example()
	for i := range run.Scenarios {
		for _, d := range drawings(&run.Scenarios[i], run.Ceilings) {
			for _, c := range d.curves {
				for _, n := range d.curves {
					if n.null && n.color == c.color {
						require.Len(t, n.points, len(c.points), d.title)
					}
				}
			}
		}
	}
	packing := packingOnAndOff(&run.Scenarios[0])
	require.True(t, packing.curves[2].null)
	require.Equal(t, []float64{12_000, 40_000}, []float64{packing.curves[2].points[0].Y, packing.curves[2].points[1].Y})
}

// TestWords: each curve is explained, and so is a curve that falls.
func TestWords(t *testing.T) {
	run := example()
	for i := range run.Scenarios {
		for _, d := range drawings(&run.Scenarios[i], run.Ceilings) {
			text := strings.Join(d.words(), "\n")
			for _, c := range d.curves {
				require.Contains(t, text, c.name+": ")
				require.NotEmpty(t, c.means)
			}
		}
	}
	require.Contains(t, throughputAgainstWorkers(&run.Scenarios[1], "put").words(),
		"ORCAS, 1 MiB falls from 315 MB/s at 16 to 210 at 64 connections; the null server goes from 839 to 734 over the same points.")
	require.Contains(t, strings.Join(latencyAgainstLoad(&run.Scenarios[4], run.Ceilings).words(), "\n"), "With 50/50 ORCAS keeps up with 100 requests per second.")
}

// TestGrowth: the curves have exactly the points at which rates were measured.
func TestGrowth(t *testing.T) {
	run := example()
	d := rateAgainstObjects(&run.Scenarios[5])
	require.Len(t, d.curves, 3)
	for _, c := range d.curves {
		require.Len(t, c.points, 2, c.name)
		require.Equal(t, []float64{100_000, 10_000_000}, []float64{c.points[0].X, c.points[1].X}, c.name)
	}
	require.Contains(t, strings.Join(d.words(), "\n"), "PUT falls from 16,000 requests per second at 100,000 to 8000 at 10,000,000 objects in the store; the null server goes from 45,000 to 44,000")
}

// TestAxes: an axis is logarithmic only if its data span two decades.
func TestAxes(t *testing.T) {
	require.False(t, logarithmic(1, 64))
	require.True(t, logarithmic(1, 100))
	require.False(t, logarithmic(0, 100))
	marks := spaced([]float64{1, 2, 4, 8, 16, 32, 64}, func(x float64) float64 { return x / 64 })
	var labels []string
	for _, m := range marks {
		labels = append(labels, m.Label)
	}
	require.Equal(t, []string{"1", "", "4", "8", "16", "32", "64"}, labels, "points with space must be labeled, and always the last one")
}

// TestEven: a linear axis has between five and ten ticks above 0.
func TestEven(t *testing.T) {
	for to, want := range map[float64][2]string{26_500: {"5,000", "25,000"}, 4.58: {"0.5", "4.5"}, 1: {"0.2", "1.0"}, 380: {"50", "350"}, 9: {"1", "9"}} {
		list := even{}.Ticks(0, to)
		require.Equal(t, []string{list[1].Label, list[len(list)-1].Label}, want[:], to)
		require.GreaterOrEqual(t, len(list), 6)
		require.LessOrEqual(t, len(list), 11)
	}
}

// TestPowers: a logarithmic axis is labeled at the powers of ten, the first included.
func TestPowers(t *testing.T) {
	var labels []string
	list := powers{}.Ticks(0.1, 25)
	for _, m := range list {
		if m.Label != "" {
			labels = append(labels, m.Label)
		}
	}
	require.Equal(t, []string{"0.1", "1", "10"}, labels)
	require.Len(t, list, 9+9+2)
}

func TestOrigin(t *testing.T) {
	require.Equal(t, "Some Processor, 2 cores | ext4 | client on the same machine | 2026-01-02 | commit abc1234 | profile smoke", origin(example()))
}

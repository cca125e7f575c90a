package perf

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// streamWorkers is the number of connections that upload large objects in the scenario small-beside-large.
const streamWorkers = 6

// beside is the scenario small-beside-large in progress: PUT of small objects alone, PUT of large objects (the streams)
// alone, and both at the same time. While both run, one connection also creates multipart uploads at a fixed rate.
type beside struct {
	*session
	small, large *Contents
	smallAlone   []*LoadResult
	largeAlone   []*LoadResult
	smallBeside  []*LoadResult
	largeBeside  []*LoadResult
	creates      []*LoadResult
}

// runBeside measures how much uploads of large objects delay small ones, and the reverse.
func runBeside(s *session) error {
	b := &beside{session: s, small: s.contents(s.p.sizes[0]), large: s.contents(s.p.sizes[1])}
	phases := []struct {
		name string
		run  func() error
	}{
		{"streams alone", func() error { return b.together(phase{b.largeLoad(), &b.largeAlone}) }},
		{"small objects alone", func() error { return b.together(phase{b.smallLoad(), &b.smallAlone}) }},
		{"both", func() error {
			return b.together(phase{b.largeLoad(), &b.largeBeside}, phase{b.smallLoad(), &b.smallBeside}, phase{b.createLoad(), &b.creates})
		}},
	}
	for turn := range s.p.turns {
		for _, p := range phases {
			s.o.Progress.Step(fmt.Sprintf("%s, turn %d", p.name, turn+1))
			if s.main != nil {
				s.settle(s.main)
			}
			if err := p.run(); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		slices.Reverse(phases) // so that work left behind by one load does not always slow down the same other load
	}
	b.report()
	return nil
}

func (b *beside) smallLoad() *Load { return b.putLoad(b.small, b.p.workers[0]) }

func (b *beside) largeLoad() *Load { return b.putLoad(b.large, streamWorkers) }

// createLoad creates multipart uploads. It is an open loop, so an upload that is created late counts as slow.
func (b *beside) createLoad() *Load {
	base := b.fresh()
	return &Load{Workers: 8, Rate: b.p.rates[0], Duration: b.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "create-upload", Method: http.MethodPost, Path: b.path("upload/" + key(base+n)), Query: "uploads="}, Expect{Status: http.StatusOK}
	}}
}

// phase is one of the loads that run at the same time, and the list to which its result is added.
type phase struct {
	load *Load
	out  *[]*LoadResult
}

// together runs loads at the same time, until the first of them ends.
func (b *beside) together(phases ...phase) error {
	var loads sync.WaitGroup
	var stop atomic.Bool
	results, errs := make([]*LoadResult, len(phases)), make([]error, len(phases))
	for i, p := range phases {
		p.load.Stop, p.load.Script = &stop, true
		loads.Go(func() {
			results[i], errs[i] = b.load(p.load)
			stop.Store(true)
		})
	}
	loads.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, p := range phases {
		if len(phases) > 1 { // CPU times could not be attributed to one of the loads
			results[i].ServerCPU, results[i].ClientCPU = 0, 0
		}
		*p.out = append(*p.out, results[i])
	}
	return nil
}

func p50ms(r *LoadResult) float64 { return ms(r.All, 50) }

func p99ms(r *LoadResult) float64 { return ms(r.All, 99) }

func bytesPerSec(r *LoadResult) float64 { return float64(r.All.Bytes) / r.Elapsed.Seconds() }

// report adds the rows, the figures and the goals.
func (b *beside) report() {
	for _, side := range []struct {
		op, variant string
		size        int
		results     []*LoadResult
	}{
		{"put", "streams alone", b.p.sizes[1], b.largeAlone}, {"put", "streams beside small", b.p.sizes[1], b.largeBeside},
		{"put", "small alone", b.p.sizes[0], b.smallAlone}, {"put", "small beside streams", b.p.sizes[0], b.smallBeside},
		{"create-upload", "beside streams", 0, b.creates},
	} {
		var rows []result.Row
		for _, r := range side.results {
			rows = append(rows, r.Row(side.op))
		}
		row := medianRow(rows)
		row.Variant, row.SizeBytes = side.variant, int64(side.size)
		b.out.Results = append(b.out.Results, row)
		b.o.Progress.Row(rowText(&row))
	}
	v := b.out.Values
	v["small_alone_p50_ms"], v["small_alone_p99_ms"], v["small_alone_rps"] = median(b.smallAlone, p50ms), median(b.smallAlone, p99ms), median(b.smallAlone, rate)
	v["small_p50_ms"], v["small_p99_ms"], v["small_rps"] = median(b.smallBeside, p50ms), median(b.smallBeside, p99ms), median(b.smallBeside, rate)
	v["streams_alone_bytes_per_sec"], v["streams_bytes_per_sec"] = median(b.largeAlone, bytesPerSec), median(b.largeBeside, bytesPerSec)
	v["streams_ratio"], _ = pairs(b.largeBeside, b.largeAlone, rate) // every load has a rate
	v["create_upload_p50_ms"], v["create_upload_p99_ms"] = median(b.creates, p50ms), median(b.creates, p99ms)
	small := fmt.Sprintf("PUT %s, connections: %d, beside %d streams of %s", sizeText(int64(b.p.sizes[0])), b.p.workers[0], streamWorkers, sizeText(int64(b.p.sizes[1])))
	for _, g := range []result.Goal{
		{Name: small + ", median ms", Value: v["small_p50_ms"], Limit: "at most 5", Met: v["small_p50_ms"] <= 5},
		{Name: small + ", p99 ms", Value: v["small_p99_ms"], Limit: "at most 25", Met: v["small_p99_ms"] <= 25},
		{Name: small + ", streams relative to their rate alone", Value: v["streams_ratio"], Limit: "at least 0.90", Met: v["streams_ratio"] >= 0.90},
	} {
		b.out.Goals = append(b.out.Goals, g)
		mark := "MISSED"
		if g.Met {
			mark = "met"
		}
		b.o.Progress.Row(fmt.Sprintf("%s: %s, %s: %s", g.Name, goalFigure(g.Value), g.Limit, mark))
	}
}

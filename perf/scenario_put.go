package perf

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// fresh returns a base for body numbers that have not been used in this scenario.
func (s *session) fresh() uint64 {
	s.loads++
	return s.loads << 36
}

// key returns the key for a number. Keys of consecutive numbers are not adjacent in a listing.
func key(n uint64) string { return strconv.FormatUint(n*0x9e3779b97f4a7c15, 16) }

// putLoad returns a load that puts new bodies under new keys.
func (s *session) putLoad(c *Contents, workers int) *Load {
	base := s.fresh()
	return &Load{Workers: workers, Duration: s.p.duration, MaxBytes: s.p.maxBytes, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
		return s.put(w, c, strconv.Itoa(c.size)+"/"+key(base+n), base+n)
	}}
}

// getLoad returns a load that gets keys that seed has put, in a pseudorandom order.
func (s *session) getLoad(c *Contents, workers, keys int, name func(uint64) string) *Load {
	return &Load{Workers: workers, Duration: s.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
		number := scatter(n, keys)
		return s.get(c, name(number), number)
	}}
}

// seedName returns the function that names the seeded keys of a size.
func seedName(size int) func(uint64) string {
	return func(n uint64) string { return "seed-" + strconv.Itoa(size) + "/" + key(n) }
}

// medianRow returns the row whose throughput is the median.
func medianRow(rows []result.Row) result.Row {
	slices.SortFunc(rows, func(a, b result.Row) int { return int(math.Copysign(1, a.ThroughputRPS-b.ThroughputRPS)) })
	row := rows[len(rows)/2]
	row.Turns = len(rows)
	return row
}

func runBatchCompare(s *session) error {
	if s.o.Target != nil {
		return needsOwn
	}
	s.prefix = ""
	on, err := s.server("packing-on", "ORCAS_BATCH_WRITE_ENABLED=true")
	if err != nil {
		return err
	}
	defer s.remove(on)
	off, err := s.server("packing-off", "ORCAS_BATCH_WRITE_ENABLED=false")
	if err != nil {
		return err
	}
	defer s.remove(off)
	if _, err := s.withNull(); err != nil {
		return err
	}
	s.out.Endpoint = on.Target.Endpoint()
	type cell struct{ size, workers int }
	var cells []cell
	for _, size := range s.p.sizes {
		for _, workers := range s.p.workers {
			cells = append(cells, cell{size, workers})
		}
	}
	for _, workers := range s.p.workers {
		if workers >= 10 { // larger than packed content, so both servers use the same path
			cells = append(cells, cell{10 * mib, workers})
		}
	}
	for _, c := range cells {
		s.o.Progress.Step(fmt.Sprintf("%s, %d connections", sizeText(int64(c.size)), c.workers))
		contents := s.contents(c.size)
		side := func(p *Process) func() *Load {
			return func() *Load {
				l := s.putLoad(contents, c.workers)
				l.Target, l.PID = p.Target, p.PID
				return l
			}
		}
		rows, err := s.inTurns("put", side(off), side(on), s.nullTurn(http.MethodPut, c.size, c.workers))
		if err != nil {
			return err
		}
		off, on, null := medianRow(rows[0]), medianRow(rows[1]), medianRow(rows[2])
		off.Variant, on.Variant, null.Variant = "packing-off", "packing-on", "null"
		off.SizeBytes, on.SizeBytes, null.SizeBytes = int64(c.size), int64(c.size), int64(c.size)
		on.Values = map[string]float64{"gain": on.ThroughputRPS / off.ThroughputRPS}
		s.out.Results = append(s.out.Results, off, on, null)
		for _, row := range []*result.Row{&off, &on, &null} {
			s.o.Progress.Row(rowText(row))
		}
	}
	return nil
}

func runPutSweep(s *session) error {
	for _, size := range s.p.sizes {
		s.o.Progress.Step(sizeText(int64(size)))
		l := s.putLoad(s.contents(size), s.p.workers[0])
		if size <= mib {
			l.Rate, l.Workers = s.p.rates[0], openConnections
		}
		res, err := s.load(l)
		if err != nil {
			return err
		}
		s.add(res, "put", "", size)
	}
	return nil
}

func runOverwrite(s *session) error {
	size, keys := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	if err := s.seed(c, keys, seedName(size)); err != nil {
		return err
	}
	base := s.fresh()
	res, err := s.load(&Load{Rate: s.p.rates[0], Duration: s.p.duration, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
		return s.put(w, c, seedName(size)(n%uint64(keys)), base+n)
	}})
	if err == nil {
		s.add(res, "put", "overwrite", size)
	}
	return err
}

// runBurst measures one worker alone, then many workers that start within 2 s, then one worker alone again until it is
// as fast as before.
func runBurst(s *session, reads bool) error {
	size, keys := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	op, load := "put", func(workers int) *Load { return s.putLoad(c, workers) }
	if reads {
		op, load = "get", func(workers int) *Load { return s.getLoad(c, workers, keys, seedName(size)) }
		if err := s.seed(c, keys, seedName(size)); err != nil {
			return err
		}
	}
	alone := func(count uint64) (*LoadResult, error) {
		l := load(1)
		l.Duration, l.Count = 0, count
		return s.tolerate(l)
	}
	before, err := alone(100)
	if err != nil {
		return err
	}
	crowd := load(s.p.workers[0])
	crowd.Ramp = min(2*time.Second, s.p.duration/2)
	res, err := s.tolerate(crowd)
	if err != nil {
		return err
	}
	row := s.add(res, op, "burst", size)
	row.Values = map[string]float64{"status_503": float64(res.All.Statuses[http.StatusServiceUnavailable]), "alone_p50_ms": ms(before.All, 50)}
	for start := time.Now(); ; {
		after, err := alone(20)
		if err != nil {
			return err
		}
		if calm := after.ErrorRate() == 0 && ms(after.All, 50) <= 2*ms(before.All, 50); calm || time.Since(start) > time.Minute {
			// The batch of requests that was as fast as before is not part of the recovery.
			row.Values["recovery_sec"] = max(time.Since(start)-after.Elapsed, 0).Seconds()
			return nil
		}
	}
}

func runConcurrent(s *session) error {
	size, keys := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	if err := s.seed(c, keys, seedName(size)); err != nil {
		return err
	}
	for _, op := range []string{"put", "get"} {
		var alone float64
		for _, workers := range s.p.workers {
			method, load := s.transfer(op, c, workers, keys)
			row, _, err := s.point(op, method, "", size, workers, load)
			if err != nil {
				return err
			}
			if alone == 0 {
				alone = row.ThroughputRPS
			}
			row.Values = map[string]float64{"scaling": row.ThroughputRPS / alone}
		}
	}
	return nil
}

// transfer returns the method of an operation, put or get, and a function that makes its loads: puts of new keys, or
// gets of seeded ones.
func (s *session) transfer(op string, c *Contents, workers, keys int) (method string, load func() *Load) {
	if op == "get" {
		return http.MethodGet, func() *Load { return s.getLoad(c, workers, keys, seedName(c.size)) }
	}
	return http.MethodPut, func() *Load { return s.putLoad(c, workers) }
}

// runOpsSweep measures each operation with one worker.
func runOpsSweep(s *session) error {
	for _, size := range s.p.sizes {
		keys := s.p.keys[0]
		c, name := s.contents(size), seedName(size)
		if err := s.seed(c, keys, name); err != nil {
			return err
		}
		put := s.putLoad(c, 1)
		base := s.loads << 36 // the base of putLoad's body numbers
		head := func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			return loadgen.Request{Op: "head", Method: http.MethodHead, Path: s.path(name(scatter(n, keys)))}, Expect{Status: http.StatusOK}
		}
		remove := func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			return loadgen.Request{Op: "delete", Method: http.MethodDelete, Path: s.path(strconv.Itoa(size) + "/" + key(base+n))}, Expect{Status: http.StatusNoContent}
		}
		var puts uint64
		for i, l := range []*Load{put, s.getLoad(c, 1, keys, name), {Duration: s.p.duration, Next: head}, {Duration: s.p.duration, Next: remove}} {
			l.Script = true // the operations must run sequentially
			if i == 3 {
				l.Count = puts // delete nothing twice
			}
			res, err := s.load(l)
			if err != nil {
				return err
			}
			if l == put {
				puts = uint64(res.Sent)
			}
			s.add(res, "", "", size)
		}
	}
	return nil
}

func runWorkersSweep(s *session) error {
	for _, size := range s.p.sizes {
		keys := s.p.keys[0]
		c := s.contents(size)
		if err := s.seed(c, keys, seedName(size)); err != nil {
			return err
		}
		for _, op := range []string{"put", "get"} {
			for _, workers := range s.p.workers {
				method, load := s.transfer(op, c, workers, keys)
				row, rows, err := s.point(op, method, "", size, workers, load)
				if err != nil {
					return err
				}
				mean, deviation := spread(rows[0])
				row.Values = map[string]float64{"mean_rps": mean, "deviation_rps": deviation}
			}
		}
	}
	return nil
}

// spread returns the mean and the standard deviation of the throughput.
func spread(rows []result.Row) (mean, deviation float64) {
	for _, r := range rows {
		mean += r.ThroughputRPS / float64(len(rows))
	}
	for _, r := range rows {
		deviation += (r.ThroughputRPS - mean) * (r.ThroughputRPS - mean)
	}
	if len(rows) < 2 {
		return mean, 0
	}
	return mean, math.Sqrt(deviation / float64(len(rows)-1))
}

// runFileSweep transfers single files, one at a time. The ETag of each must be its MD5.
func runFileSweep(s *session) error {
	for _, size := range s.p.sizes {
		c := s.contents(size)
		name := "file-" + strconv.Itoa(size)
		var last string
		for _, op := range []string{"put", "get"} {
			next := func(w *Worker, n uint64) (loadgen.Request, Expect) {
				if op == "get" {
					return s.get(c, name, uint64(s.p.turns))
				}
				call, want := s.put(w, c, name, n)
				sum := md5.Sum(call.Body)
				last = hex.EncodeToString(sum[:])
				call.Keep, want.Check = true, func(a *loadgen.Reply) error {
					if a.ETag != `"`+last+`"` {
						return fmt.Errorf("ETag %s, not %q", a.ETag, last)
					}
					return nil
				}
				return call, want
			}
			// The first request is the warm-up. A GET reads the same file as later.
			if _, err := s.load(&Load{Count: 1, Script: true, Next: next}); err != nil {
				return err
			}
			res, err := s.load(&Load{Count: uint64(s.p.turns), Script: true, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) { return next(w, n+1) }})
			if err != nil {
				return err
			}
			row := s.add(res, op, "", size)
			row.MD5 = last
		}
	}
	return nil
}

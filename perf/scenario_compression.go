package perf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/internal/loadgen"
)

// trainingRecords is enough records to train a dictionary, and trainingTime is longer than the training takes.
const (
	trainingRecords = 400
	trainingTime    = 2 * time.Second
)

// runCompression compares a server that compresses with one that does not, with JSON records, which can be compressed,
// and with random content, which cannot.
func runCompression(s *session) error {
	return s.compare("compression", []string{"ORCAS_COMPRESSION=off"}, []string{"ORCAS_COMPRESSION=better"}, func(c *core) error {
		if err := c.records(); err != nil {
			return fmt.Errorf("records: %w", err)
		}
		for _, size := range []int{4 * kib, 256 * kib, 10 * mib} {
			if err := c.incompressible(size); err != nil {
				return err
			}
		}
		return nil
	})
}

// records puts and gets JSON records.
func (c *core) records() error {
	r := Records{Seed: 1, Size: c.p.sizes[0]}
	put := func(from, n uint64) func(*Process) *Load {
		return func(*Process) *Load {
			return &Load{Workers: 16, Count: n, Next: func(_ *Worker, i uint64) (loadgen.Request, Expect) {
				body := r.Record(from + i)
				sum := sha256.Sum256(body)
				return loadgen.Request{Op: "put", Method: http.MethodPut, Path: c.path("record/" + key(from+i)), Body: body, Hash: hex.EncodeToString(sum[:])}, Expect{Status: http.StatusOK}
			}}
		}
	}
	if err := c.each(put(1<<32, trainingRecords)); err != nil {
		return err
	}
	sleep(c.ctx, trainingTime)
	keys := uint64(c.p.keys[0])
	if err := c.each(put(0, keys)); err != nil {
		return err
	}
	sums := make([]Expect, keys)
	for n := range sums {
		body := r.Record(uint64(n))
		sums[n] = Expect{Status: http.StatusOK, Body: true, Size: int64(len(body)), XXH3: xxh3.Hash(body)}
	}
	off, on, err := c.turns(c.unpacked, c.orcas, func(*Process) *Load {
		return &Load{Workers: 16, Duration: c.p.duration, Next: func(_ *Worker, i uint64) (loadgen.Request, Expect) {
			n := scatter(i, len(sums))
			return loadgen.Request{Op: "get", Method: http.MethodGet, Path: c.path("record/" + key(n))}, sums[n]
		}}
	})
	if err != nil {
		return err
	}
	value, _ := pairs(on, off, rate)
	c.goal(goal{name: "GET of JSON records, compressed relative to uncompressed", size: r.Size, limit: "at least 0.70", value: value, met: value >= 0.70}, on, off)
	return nil
}

// each runs a load against both servers, once.
func (c *core) each(load func(*Process) *Load) error {
	for _, p := range []*Process{c.unpacked, c.orcas} {
		if _, err := c.load(p.under(load)); err != nil {
			return err
		}
	}
	return nil
}

// incompressible puts random content.
func (c *core) incompressible(size int) error {
	contents := NewContents(size, 0)
	workers := 16
	if size > mib {
		workers = 4
	}
	off, on, err := c.together(c.unpacked, c.orcas, func(*Process) *Load {
		l := c.putLoad(contents, workers)
		l.MaxBytes = c.p.maxBytes
		return l
	})
	if err != nil {
		return err
	}
	value, _ := pairs(on, off, rate)
	c.goal(goal{name: fmt.Sprintf("PUT of random %s, compression on relative to off", sizeText(int64(size))), size: size, limit: "at least 0.97", value: value, met: value >= 0.97}, on, off)
	cpu, ok := pairs(on, off, func(r *LoadResult) float64 { return r.Row("").ServerCPUus })
	if !ok { // the loads were shorter than 10 ms, the resolution of the system's CPU times
		return nil
	}
	c.goal(goal{name: fmt.Sprintf("server CPU for a PUT of random %s, compression on relative to off", sizeText(int64(size))), size: size, limit: "at most 1.03", value: cpu, met: cpu <= 1.03})
	return nil
}

// pairs returns the median of the ratios of a to b in each turn. It ignores turns in which b is 0, and returns 0 and
// false if no turn is left.
func pairs(a, b []*LoadResult, of func(*LoadResult) float64) (median float64, ok bool) {
	var v []float64
	for i := range a {
		if whole := of(b[i]); whole > 0 {
			v = append(v, of(a[i])/whole)
		}
	}
	if len(v) == 0 {
		return 0, false
	}
	slices.Sort(v)
	return v[len(v)/2], true
}

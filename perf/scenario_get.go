package perf

import (
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

func runGetWarm(s *session) error {
	for _, size := range s.p.sizes {
		c, keys := s.contents(size), s.p.keys[0]
		if err := s.seed(c, keys, seedName(size)); err != nil {
			return err
		}
		each := &Load{Workers: 16, Count: uint64(keys), Script: true, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) { return s.get(c, seedName(size)(n), n) }}
		if _, err := s.load(each); err != nil { // warm up
			return err
		}
		l := s.getLoad(c, 0, keys, seedName(size))
		l.Rate = s.p.rates[0]
		res, err := s.load(l)
		if err != nil {
			return err
		}
		s.add(res, "get", "warm", size)
	}
	return nil
}

// runGetCold gets each key once after a restart, and then once more.
func runGetCold(s *session) error {
	if s.main == nil {
		return unsupported("a cold GET needs a restart of the server: " + needsOwn.Error())
	}
	contents := map[int]*Contents{}
	for _, size := range s.p.sizes {
		contents[size] = s.contents(size)
		if err := s.seed(contents[size], s.p.keys[0], seedName(size)); err != nil {
			return err
		}
	}
	for _, size := range s.p.sizes {
		s.o.Progress.Step("restart")
		if err := s.restart(); err != nil {
			return err
		}
		if err := dropCaches(); err != nil {
			s.out.Note = strings.TrimSpace(s.out.Note + fmt.Sprintf(" The page cache could not be dropped (%v): cold means after a restart only.", err))
		}
		c, keys := contents[size], uint64(s.p.keys[0])
		var p95, rate [2]float64
		for i, variant := range []string{"cold", "warm"} {
			res, err := s.load(&Load{Rate: s.p.rates[0], Count: keys, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) { return s.get(c, seedName(size)(n), n) }})
			if err != nil {
				return err
			}
			row := s.add(res, "get", variant, size)
			p95[i], rate[i] = row.P95Ms, row.BytesPerSec
		}
		name := strings.ReplaceAll(sizeText(int64(size)), " ", "")
		s.out.Values["p95_warm_by_cold_"+name], s.out.Values["mb_warm_by_cold_"+name] = p95[1]/p95[0], rate[1]/rate[0]
	}
	return nil
}

// restart stops the session's server and starts it again on the same data.
func (s *session) restart() (err error) {
	s.main.Stop()
	return s.again()
}

// again starts the session's server, which has stopped, on the same data.
func (s *session) again() error {
	p, err := s.main.Again(s.ctx)
	if err != nil {
		return err
	}
	s.adapt(p)
	s.main, s.target = p, p.Target
	return nil
}

// dropCaches empties the page cache of the machine, which only root may do.
func dropCaches() error {
	unix.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}

func runRanges(s *session) error {
	const size = 10 * mib
	c := s.contents(size)
	if err := s.seed(c, 1, seedName(size)); err != nil {
		return err
	}
	body, _ := c.Body(0, nil)
	for _, length := range s.p.sizes {
		res, err := s.load(&Load{Workers: s.p.workers[0], Duration: s.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			from := int(scatter(n, size-length))
			return loadgen.Request{Op: "get", Method: http.MethodGet, Path: s.path(seedName(size)(0)), Header: byteRange(from, length)},
				Expect{Status: http.StatusPartialContent, Body: true, Size: int64(length), XXH3: xxh3.Hash(body[from : from+length])}
		}})
		if err != nil {
			return err
		}
		s.add(res, "get", "range", length)
	}
	return nil
}

func byteRange(from, length int) []loadgen.Header {
	return []loadgen.Header{{Name: "Range", Value: fmt.Sprintf("bytes=%d-%d", from, from+length-1)}}
}

// mix is a mixture of requests: the percentages of GET and PUT. The rest are DELETE.
type mix struct {
	name     string
	get, put int
}

// runMixedRamp raises the rate until the server fails too often or does not keep up.
func runMixedRamp(s *session) error {
	const tooManyErrors, keepsUp = 0.05, 0.95
	size, keys := s.p.sizes[0], s.p.keys[0]
	c := s.contents(size)
	if err := s.seed(c, keys, seedName(size)); err != nil {
		return err
	}
	with, err := s.withNull()
	if err != nil {
		return err
	}
	for _, mix := range []mix{{"50/50 get/put", 50, 50}, {"70/20/10 get/put/delete", 70, 20}} {
		rate, last := 0.0, 0.0
		for step := range max(s.p.turns, len(s.p.rates)) {
			if step < len(s.p.rates) {
				rate = s.p.rates[step]
			} else {
				rate *= 1.5
			}
			s.o.Progress.Step(fmt.Sprintf("%s at %.0f/s", mix.name, rate))
			res, err := s.tolerate(&Load{Rate: rate, Duration: s.p.duration, Next: s.mixed(c, keys, mix.get, mix.put)})
			if err != nil {
				return err
			}
			row := *s.add(res, "mixed", mix.name, size)
			if with {
				l := s.ofNull(&Load{Rate: rate, Duration: s.p.duration, Next: s.mixedNull(c, mix.get, mix.put)})
				l.Script = false
				if res, err = s.tolerate(l); err != nil {
					return err
				}
				s.add(res, "mixed", result.NullVariant(mix.name), size)
			}
			if row.ErrorRate > tooManyErrors || row.ThroughputRPS < keepsUp*rate {
				break
			}
			last = rate
		}
		short, _, _ := strings.Cut(mix.name, " ")
		s.out.Values["kept_up_rps_"+strings.ReplaceAll(short, "/", "_")] = last
		s.out.SaturationRPS = max(s.out.SaturationRPS, last)
	}
	return nil
}

// mixedNull returns the requests of a mix for the null server.
func (s *session) mixedNull(c *Contents, get, put int) func(w *Worker, n uint64) (loadgen.Request, Expect) {
	gets := s.nullLoad(http.MethodGet, c.size, 1, 0).Next
	return func(w *Worker, n uint64) (loadgen.Request, Expect) {
		switch turn := int(n % 10 * 10); {
		case turn < get:
			return gets(w, n)
		case turn < get+put:
			return s.put(w, c, "mixed/"+key(n), n)
		}
		return loadgen.Request{Op: "delete", Method: http.MethodDelete, Path: s.path("mixed/" + key(n))}, Expect{Status: http.StatusNoContent}
	}
}

// mixed returns the requests of a mix. A DELETE deletes a key that a PUT of the same load has created before, or one
// that does not exist; the response is the same.
func (s *session) mixed(c *Contents, keys, get, put int) func(w *Worker, n uint64) (loadgen.Request, Expect) {
	base := s.fresh()
	return func(w *Worker, n uint64) (loadgen.Request, Expect) {
		switch turn := int(n % 10 * 10); {
		case turn < get:
			number := scatter(n, keys)
			return s.get(c, seedName(c.size)(number), number)
		case turn < get+put:
			return s.put(w, c, "mixed/"+key(base+n), base+n)
		}
		return loadgen.Request{Op: "delete", Method: http.MethodDelete, Path: s.path("mixed/" + key(base+n-n%10-3))}, Expect{Status: http.StatusNoContent}
	}
}

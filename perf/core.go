package perf

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// runCore measures the goals of the core, alternating with the null server, a server with packing off, and the disk.
func runCore(s *session) error {
	if s.o.Target != nil {
		return needsOwn
	}
	s.prefix = ""
	c := &core{session: s}
	defer c.stop()
	if err := c.start(); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"put", c.puts}, {"packing", c.packing}, {"alone", c.alone}, {"get", c.gets}, {"large", c.large}, {"list", c.lists}} {
		s.o.Progress.Step(part.name)
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// core is a scenario in progress that compares two servers, and possibly the null server.
type core struct {
	*session
	null, orcas, unpacked *Process
}

func (c *core) start() (err error) {
	if c.null, err = c.nullServer(); err != nil {
		return err
	}
	if c.orcas, err = c.server("core"); err != nil {
		return err
	}
	c.target, c.main = c.orcas.Target, c.orcas
	c.unpacked, err = c.server("core-unpacked", "ORCAS_BATCH_WRITE_ENABLED=false")
	return err
}

// compare starts two servers, one without and one with the measured feature, and calls run to compare them. The server
// without the feature is c.unpacked, the other one c.orcas.
func (s *session) compare(what string, without, with []string, run func(c *core) error) error {
	if s.o.Target != nil {
		return needsOwn
	}
	s.prefix = ""
	c := &core{session: s}
	defer c.stop()
	var err error
	if c.unpacked, err = c.server(what+"-off", without...); err != nil {
		return err
	}
	if c.orcas, err = c.server(what+"-on", with...); err != nil {
		return err
	}
	return run(c)
}

func (c *core) stop() {
	for _, p := range []*Process{c.null, c.orcas, c.unpacked} {
		if p != nil {
			c.remove(p)
		}
	}
}

// goal is a comparison with a limit.
type goal struct {
	name  string
	size  int
	limit string
	value float64
	met   bool
}

// goal adds a goal, and the median row of each side from which it was computed.
func (c *core) goal(g goal, sides ...[]*LoadResult) {
	c.out.Goals = append(c.out.Goals, result.Goal{Name: g.name, Value: g.value, Limit: g.limit, Met: g.met})
	mark := "MISSED"
	if g.met {
		mark = "met"
	}
	for i, rs := range sides {
		var rows []result.Row
		for _, r := range rs {
			rows = append(rows, r.Row(""))
		}
		row := medianRow(rows)
		row.Variant, row.SizeBytes = [...]string{"orcas", "compared"}[i], int64(g.size)
		row.Variant = g.name + ": " + row.Variant
		c.out.Results = append(c.out.Results, row)
		c.o.Progress.Row(rowText(&row))
	}
	c.o.Progress.Row(fmt.Sprintf("%s: %.3f, %s: %s", g.name, g.value, g.limit, mark))
}

// under returns a load that is directed at the server.
func (s *Process) under(load func(p *Process) *Load) *Load {
	l := load(s)
	l.Target, l.PID, l.Script = s.Target, s.PID, true
	return l
}

// turns runs a load against two servers alternately and returns the results of both.
func (c *core) turns(a, b *Process, load func(p *Process) *Load) (as, bs []*LoadResult, err error) {
	type side struct {
		p   *Process
		out *[]*LoadResult
	}
	sides := []side{{b, &bs}, {a, &as}}
	for range c.p.turns {
		slices.Reverse(sides) // so that work left behind by one load does not always slow down the same other load
		for _, side := range sides {
			r, err := c.load(side.p.under(load))
			if err != nil {
				return nil, nil, err
			}
			*side.out = append(*side.out, r)
		}
	}
	return as, bs, nil
}

// together runs a load against two servers at the same time, once per turn, and returns the results of both. Other work
// on the machine affects both alike, so a difference of 1% can be seen; each server does about half of what it could do
// alone. The results have no client CPU time, because it could not be attributed to one of the loads.
func (c *core) together(a, b *Process, load func(p *Process) *Load) (as, bs []*LoadResult, err error) {
	servers := []*Process{a, b}
	results := make([]*LoadResult, len(servers))
	errs := make([]error, len(servers))
	for range c.p.turns {
		var loads sync.WaitGroup
		for i, p := range servers {
			l := p.under(load)
			loads.Go(func() { results[i], errs[i] = c.load(l) })
		}
		loads.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, nil, err
		}
		for _, r := range results {
			r.ClientCPU = 0
		}
		as, bs = append(as, results[0]), append(bs, results[1])
	}
	return as, bs, nil
}

func median(rs []*LoadResult, of func(*LoadResult) float64) float64 {
	v := make([]float64, len(rs))
	for i, r := range rs {
		v[i] = of(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func rate(r *LoadResult) float64 { return r.Rate() }

func p50us(r *LoadResult) float64 { return 1000 * ms(r.All, 50) }

// clientByServer returns the client's CPU time divided by the server's.
func clientByServer(r *LoadResult) float64 {
	return r.ClientCPU.Seconds() / max(r.ServerCPU.Seconds(), 1e-3)
}

// put returns a function that makes loads that put new bodies under new keys; the null server accepts them too.
func (c *core) put(size, workers int) func(*Process) *Load {
	contents := c.contents(size)
	return func(*Process) *Load {
		l := c.putLoad(contents, workers)
		l.MaxBytes = 2 * gib
		return l
	}
}

func (c *core) puts() error {
	for _, s := range []struct {
		size  int
		least float64
	}{{kib, 0.45}, {4 * kib, 0.52}} {
		size := s.size
		null, orcas, err := c.turns(c.null, c.orcas, c.put(size, 64))
		if err != nil {
			return err
		}
		value := median(orcas, rate) / median(null, rate)
		c.goal(goal{name: fmt.Sprintf("PUT %s, 64 connections, relative to the null server", sizeText(int64(size))), size: size,
			limit: fmt.Sprintf("at least %.2f", s.least), value: value, met: value >= s.least}, orcas, null)
		if size == 4*kib {
			cpu := median(orcas, serverCPU) / max(median(null, serverCPU), 1e-9)
			c.goal(goal{name: "PUT 4 KiB, 64 connections, server CPU per request relative to the null server", size: size,
				limit: "at most 2.2", value: cpu, met: cpu <= 2.2}, orcas, null)
			value := median(orcas, clientByServer)
			c.goal(goal{name: "PUT 4 KiB, 64 connections, client CPU relative to server CPU", limit: "at most 0.80", value: value, met: value <= 0.80})
		}
	}
	return nil
}

func (c *core) packing() error {
	for _, workers := range []int{1, 64} {
		off, on, err := c.turns(c.unpacked, c.orcas, c.put(4*kib, workers))
		if err != nil {
			return err
		}
		value := median(on, rate) / median(off, rate)
		c.goal(goal{name: fmt.Sprintf("PUT 4 KiB, connections: %d, relative to packing off", workers), size: 4 * kib, limit: "at least 1", value: value, met: value >= 1}, on, off)
	}
	return nil
}

func (c *core) alone() error {
	var syncs []float64
	for range c.p.turns {
		row, err := MeasureDisk(c.ctx, c.dir, 4*kib, 1000)
		if err != nil {
			return err
		}
		syncs = append(syncs, row.P50us)
	}
	slices.Sort(syncs)
	fdatasync := syncs[len(syncs)/2]
	null, orcas, err := c.turns(c.null, c.orcas, c.put(4*kib, 1))
	if err != nil {
		return err
	}
	value := (median(orcas, p50us) - median(null, p50us) - fdatasync) / 1000
	c.goal(goal{name: "PUT 4 KiB, 1 connection, median in ms beyond that of the null server and one append with fdatasync", size: 4 * kib,
		limit: "at most 0.10", value: value, met: value <= 0.10}, orcas, null)
	return nil
}

// get returns a function that makes loads that get seeded keys, or as many bytes from the null server.
func (c *core) get(contents *Contents, keys, workers int, name func(uint64) string) func(*Process) *Load {
	return func(p *Process) *Load {
		if p == c.null {
			return c.nullLoad(http.MethodGet, contents.size, workers, c.p.duration)
		}
		return c.getLoad(contents, workers, keys, name)
	}
}

func (c *core) gets() error {
	contents := c.contents(4 * kib)
	for _, s := range []struct {
		name  string
		keys  int
		least float64
	}{{"hot", 1000, 0.75}, {"over many keys", c.p.keys[0], 0.60}} {
		name := func(n uint64) string { return strings.ReplaceAll(s.name, " ", "-") + "/" + key(n) }
		if err := c.seed(contents, s.keys, name); err != nil {
			return err
		}
		null, orcas, err := c.turns(c.null, c.orcas, c.get(contents, s.keys, 16, name))
		if err != nil {
			return err
		}
		value := median(orcas, rate) / median(null, rate)
		c.goal(goal{name: fmt.Sprintf("GET 4 KiB, 16 connections, %s (%d), relative to the null server", s.name, s.keys), size: 4 * kib,
			limit: fmt.Sprintf("at least %.2f", s.least), value: value, met: value >= s.least}, orcas, null)
	}
	return nil
}

func (c *core) large() error {
	const size, workers = 10 * mib, 10
	null, orcas, err := c.turns(c.null, c.orcas, c.put(size, workers))
	if err != nil {
		return err
	}
	var disk []float64
	for range c.p.turns {
		d, err := MeasureFiles(c.dir, size, 30, workers)
		if err != nil {
			return err
		}
		disk = append(disk, d)
	}
	slices.Sort(disk)
	value := median(orcas, rate) / min(median(null, rate), disk[len(disk)/2])
	c.goal(goal{name: "PUT 10 MiB, 10 connections, relative to the slower of null server and disk", size: size, limit: "at least 0.75", value: value, met: value >= 0.75}, orcas, null)
	contents := c.contents(size)
	const keys = 20
	if err := c.seed(contents, keys, seedName(size)); err != nil {
		return err
	}
	null, orcas, err = c.turns(c.null, c.orcas, c.get(contents, keys, workers, seedName(size)))
	if err != nil {
		return err
	}
	value = median(orcas, rate) / median(null, rate)
	c.goal(goal{name: "GET 10 MiB, 10 connections, relative to the null server", size: size, limit: "at least 0.50", value: value, met: value >= 0.50}, orcas, null)
	return nil
}

// lists lists pages of 1000 keys, without a delimiter and with one that hides all but a thousandth of the keys.
func (c *core) lists() error {
	keys := c.p.keys[0]
	err := c.seed(c.contents(16), keys, func(n uint64) string {
		if n%1000 == 0 {
			return fmt.Sprintf("list/shown-%08d", n)
		}
		return fmt.Sprintf("list/hidden/%08d", n)
	})
	if err != nil {
		return err
	}
	for _, v := range []struct {
		name, query string
		limitMs     float64
	}{
		{"1000 keys", "list-type=2&max-keys=1000&prefix=list%2Fhidden%2F", 10},
		{"with a delimiter", "delimiter=%2F&list-type=2&prefix=list%2F", 2},
	} {
		res, err := c.load(&Load{Workers: 1, Duration: c.p.duration, Script: true, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			query := v.query
			if v.name == "1000 keys" {
				query = fmt.Sprintf("%s&start-after=list%%2Fhidden%%2F%08d", query, n*7919%uint64(max(keys-1000, 1)))
			}
			return loadgen.Request{Op: "list", Method: http.MethodGet, Path: "/" + c.bucket, Query: query}, Expect{Status: http.StatusOK}
		}})
		if err != nil {
			return err
		}
		value := ms(res.All, 50)
		c.goal(goal{name: fmt.Sprintf("LIST a bucket of %d keys, %s, median in ms", keys, v.name), limit: fmt.Sprintf("at most %.0f", v.limitMs), value: value, met: value <= v.limitMs},
			[]*LoadResult{res})
	}
	return nil
}

package perf

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

const idGrowth = "growth"

// firstObjects is the number of objects at which the first rates are measured. If the store grows to less than twice as
// many objects, the first rates are measured at half of the final number.
const firstObjects = 100_000

// GrowthKeysMin is the smallest number of keys for the scenario growth.
const GrowthKeysMin = 16

// growthPoints returns the numbers of objects at which rates are measured: the first number, its doublings, and keys.
func growthPoints(keys int) []int {
	first := min(firstObjects, keys/2)
	var list []int
	for n := first; n <= keys-max(first/2, n/4); n *= 2 {
		list = append(list, n)
	}
	return append(list, keys)
}

// growth is the scenario growth in progress.
//
// The store of a server that the run starts grows from 0 to the requested number of keys, over 64 connections in closed
// loops. It is loaded without interruption, except at the points of growthPoints. The PUT rate at a point is that of
// the last PUTs before it, as many as half of the first point: at 100,000 objects the PUTs from 50,000 to 100,000, and
// at N objects those from N - 50,000 to N. Then the loading pauses, GETs of uniformly random existing keys are
// measured, and, once the server is idle, PUTs to the null server.
//
// At the end the listing is measured. Then PUT and GET alternate between this server and a second one that has as many
// objects as the first point, and the server idles. Finally more PUTs run, the server is killed right after the last
// response, and is started again. It must have every object of the last load.
type growth struct {
	*session
	watch   *watch
	order   Order
	workers int
	window  uint64 // number of PUTs that are measured at a point
	big     *store
	written int64 // result of writtenBytes at the previous point
}

// store is a server and the objects in it.
type store struct {
	*growth
	server *Process
	keys   *keyspace
	bodies *Contents
	watch  *watch // nil if the server is not watched
}

// runGrowth measures how rates, pauses, memory and disk usage change while a store grows.
func runGrowth(s *session) error {
	if s.main == nil {
		return needsOwn
	}
	keys := s.p.keys[0]
	if keys < GrowthKeysMin {
		return unsupported(fmt.Sprintf("--keys: %d is too few for the scenario %s: expected at least %d", keys, idGrowth, GrowthKeysMin))
	}
	g := &growth{session: s, order: cmp.Or(s.o.Order, Sequential), workers: s.p.workers[0]}
	if !slices.Contains(Orders(), g.order) {
		return fmt.Errorf("--order: %q is not an order: expected sequential, random or interleaved", g.order)
	}
	s.prefix, s.out.Order = "", string(g.order)
	points := growthPoints(keys)
	g.window = max(uint64(points[0]/2), 1)
	g.watch = &watch{dir: s.dir, data: s.data(), size: s.p.sizes[0], from: int64(points[0])}
	g.big = g.store(s.main)
	g.big.watch = g.watch
	g.watch.start(s.ctx)
	defer g.watch.stop() // ignore the error: either crash has returned it, or an earlier error ended the scenario
	for _, step := range []func() error{
		func() error { return g.grow(points) }, g.list, func() error { return g.compare(points[0], keys) }, g.idle, g.crash, g.end,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	g.goals(points[0], keys)
	return nil
}

// store returns an empty store.
func (g *growth) store(p *Process) *store {
	return &store{growth: g, server: p, keys: newKeyspace(g.order, g.workers), bodies: g.contents(g.p.sizes[0])}
}

// put puts the next n objects. Each PUT must succeed, because later loads read all objects.
func (s *store) put(n uint64) (*LoadResult, error) {
	begin, completed := func() {}, func(*loadgen.Reply) error { return nil }
	if s.watch != nil {
		begin = s.watch.begin
		completed = func(*loadgen.Reply) error { s.watch.put(); return nil } // called only for expected responses
	}
	begin()
	res, err := s.tolerate(s.server.under(func(*Process) *Load {
		return &Load{Workers: s.workers, Count: n, Shared: true, StopAtFailure: true, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
			if n == 0 {
				begin() // opening the connections is not a pause
			}
			id := s.keys.take(w, n)
			call, want := s.session.put(w, s.bodies, s.keys.name(id), id)
			want.Check = completed
			return call, want
		}}
	}))
	if err != nil {
		return nil, err
	}
	if failed := res.Sent - res.All.Successful; failed > 0 {
		return nil, fmt.Errorf("%d of %d PUTs failed; the first: %w", failed, res.Sent, res.FirstError)
	}
	s.keys.taken(n)
	return res, nil
}

// get gets uniformly random objects.
func (s *store) get() (*LoadResult, error) {
	base, count := s.fresh(), s.keys.count(nil)
	return s.load(s.server.under(func(*Process) *Load {
		return &Load{Workers: s.workers, Duration: s.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			id := s.keys.pick(nil, scramble(base+n)%count)
			return s.session.get(s.bodies, s.keys.name(id), id)
		}}
	}))
}

// grow fills the store and measures it at each point.
func (g *growth) grow(points []int) error {
	start := time.Now()
	var err error
	if g.written, err = writtenBytes(g.main.PID); err != nil {
		return err
	}
	written, v := g.written, g.out.Values
	device, onDevice := deviceWrittenBytes(g.dir)
	for i, objects := range points {
		put, get, null, err := g.point(objects)
		if err != nil {
			return fmt.Errorf("at %d objects: %w", objects, err)
		}
		suffix := ""
		switch i {
		case 0:
			suffix = "_first"
		case len(points) - 1:
			suffix = "_last"
		default:
			continue
		}
		v["objects"+suffix] = float64(objects)
		v["put_rps"+suffix], v["get_rps"+suffix] = put.ThroughputRPS, get.ThroughputRPS
		v["null_put_rps"+suffix], v["put_of_null"+suffix] = null.ThroughputRPS, put.ThroughputRPS/null.ThroughputRPS
		for name, us := range map[string]float64{"server_cpu_us_per_put": put.ServerCPUus, "server_cpu_us_per_get": get.ServerCPUus, "null_cpu_us_per_put": null.ServerCPUus} {
			if us > 0 {
				v[name+suffix] = us
			}
		}
	}
	objects := float64(points[len(points)-1])
	v["growth_sec"] = time.Since(start).Seconds()
	v["drive_bytes_per_put"] = float64(g.written-written) / objects
	if now, ok := deviceWrittenBytes(g.dir); ok && onDevice {
		v["device_bytes_per_put"] = float64(now-device) / objects
	}
	return nil
}

// point brings the store to a number of objects, and measures PUT, GET, and PUT to the null server.
func (g *growth) point(objects int) (put, get, null result.Row, err error) {
	g.o.Progress.Step(fmt.Sprintf("growing to %d objects", objects))
	variant, size, keys := string(g.order), g.p.sizes[0], float64(objects)
	if fill := uint64(objects) - g.window - g.big.keys.count(nil); fill > 0 {
		res, err := g.big.put(fill)
		if err != nil {
			return put, get, null, err
		}
		g.add(res, "put", variant+", before", size).Values = map[string]float64{"keys": keys}
	}
	res, err := g.big.put(g.window)
	if err != nil {
		return put, get, null, err
	}
	beyond, err := g.watch.measure()
	if err != nil {
		return put, get, null, err
	}
	pause := g.pause()
	row := g.add(res, "put", variant, size)
	row.Values = map[string]float64{"keys": keys, "pause_max_ms": micros(pause) / 1000, "bytes_beyond_content": beyond}
	put = *row

	if res, err = g.big.get(); err != nil {
		return put, get, null, err
	}
	row = g.add(res, "get", variant, size)
	row.Values = map[string]float64{"keys": keys}
	get = *row

	if _, err = g.withNull(); err != nil {
		return put, get, null, err
	}
	g.settle(g.main)
	if g.written, err = writtenBytes(g.main.PID); err != nil {
		return put, get, null, err
	}
	if res, err = g.load(g.ofNull(g.nullLoad(http.MethodPut, size, g.workers, g.p.duration))); err != nil {
		return put, get, null, err
	}
	row = g.add(res, "put", result.NullVariant(variant), size)
	row.Values = map[string]float64{"keys": keys}
	return put, get, *row, nil
}

// pause returns the longest pause since the last call, and updates the longest of the run.
func (g *growth) pause() time.Duration {
	pause := g.watch.pauses.take()
	g.out.Values["pause_max_ms"] = max(g.out.Values["pause_max_ms"], micros(pause)/1000)
	return pause
}

// settleMax is the maximum time that settle waits.
const settleMax = 10 * time.Second

// settle waits, at most settleMax, until a server has done the work that a load left behind: until it has used at most
// a tenth of a core for 200 ms.
func (s *session) settle(p *Process) {
	const quiet = 200 * time.Millisecond
	for start := time.Now(); time.Since(start) < settleMax && s.ctx.Err() == nil; {
		before := cpuTime(p.PID)
		sleep(s.ctx, quiet)
		if cpuTime(p.PID)-before <= quiet/10 {
			return
		}
	}
}

// list measures the first page of the listing, and a listing of all keys.
func (g *growth) list() error {
	const query, pages = "list-type=2", 100
	keys := int(g.big.keys.count(nil))
	g.o.Progress.Step(fmt.Sprintf("listing %d objects", keys))
	want := min(keys, 1000)
	res, err := g.load(&Load{Workers: 1, Count: pages, Script: true, Next: func(*Worker, uint64) (loadgen.Request, Expect) {
		return loadgen.Request{Op: "list", Method: http.MethodGet, Path: "/" + g.bucket, Query: query, Keep: true},
			Expect{Status: http.StatusOK, Check: func(a *loadgen.Reply) error {
				if found := bytes.Count(a.Body, []byte("<Contents>")); found != want {
					return fmt.Errorf("the first page has %d keys, not %d", found, want)
				}
				return nil
			}}
	}})
	if err != nil {
		return err
	}
	g.out.Values["list_first_page_ms"] = ms(res.All, 50)
	g.add(res, "list", string(g.order)+", first page", 0).Values = map[string]float64{"keys": float64(keys)}
	if err := g.walk(query, keys); err != nil {
		return err
	}
	g.out.Values["list_walk_keys_per_sec"] = g.out.Results[len(g.out.Results)-1].Values["keys_per_sec"]
	return nil
}

// compare alternates PUT and GET between the store and a small one that has as many objects as the first point. Each
// PUT load puts half as many objects as are measured at a point.
func (g *growth) compare(first, keys int) error {
	g.o.Progress.Step(fmt.Sprintf("comparing with a store of %d objects", first))
	p, err := g.server(idGrowth + "-small")
	if err != nil {
		return err
	}
	defer g.remove(p)
	small := g.store(p)
	if _, err := small.put(uint64(first)); err != nil {
		return fmt.Errorf("filling the small store: %w", err)
	}
	g.settle(g.main)
	g.settle(p)
	type side struct {
		*store
		objects    int
		puts, gets []*LoadResult
	}
	sides := []*side{{store: g.big, objects: keys}, {store: small, objects: first}}
	large, beside := sides[0], sides[1]
	for range g.p.turns {
		slices.Reverse(sides) // as in core.turns
		for _, side := range sides {
			res, err := side.put(max(g.window/2, 1))
			if err != nil {
				return err
			}
			side.puts = append(side.puts, res)
		}
		for _, side := range sides {
			res, err := side.get()
			if err != nil {
				return err
			}
			side.gets = append(side.gets, res)
		}
	}
	g.pause()
	g.out.Values["put_ratio"], _ = pairs(large.puts, beside.puts, rate) // every load has a rate
	g.out.Values["get_ratio"], _ = pairs(large.gets, beside.gets, rate)
	for _, side := range []*side{large, beside} {
		for _, results := range [][]*LoadResult{side.puts, side.gets} {
			var rows []result.Row
			for _, res := range results {
				rows = append(rows, res.Row(""))
			}
			row := medianRow(rows)
			row.Variant, row.SizeBytes, row.Values = string(g.order)+", in turns", int64(g.p.sizes[0]), map[string]float64{"keys": float64(side.objects)}
			g.out.Results = append(g.out.Results, row)
			g.o.Progress.Row(rowText(&row))
		}
	}
	return nil
}

// idle measures memory and files after some time without requests.
func (g *growth) idle() error {
	g.o.Progress.Step("idling")
	v := g.out.Values
	sleep(g.ctx, g.p.idle)
	now, _ := ResidentBytes(g.main.PID)
	v["idle_sec"], v["rss_idle_bytes"] = g.p.idle.Seconds(), float64(now)
	var err error
	v["bytes_beyond_content"], err = g.watch.measure()
	return err
}

// crash puts more objects, kills the server right after the last response, starts it again, and gets all of them.
func (g *growth) crash() error {
	g.o.Progress.Step("start after SIGKILL")
	v, mark := g.out.Values, g.big.keys.mark()
	if _, err := g.big.put(g.window); err != nil {
		return err
	}
	_, peak := ResidentBytes(g.main.PID)
	g.main.Kill()
	err := g.watch.stop()
	g.pause()
	v["objects"], v["rss_max"] = float64(g.big.keys.count(nil)), float64(peak)
	g.watch.values(v)
	if err != nil {
		return fmt.Errorf("watching the server: %w", err)
	}
	if err := g.again(); err != nil {
		return err
	}
	now, _ := ResidentBytes(g.main.PID)
	v["restart_ms"], v["rss_after_restart_bytes"] = micros(g.main.ReadyAfter)/1000, float64(now)
	g.big.server = g.main
	res, err := g.load(g.main.under(func(*Process) *Load {
		return &Load{Workers: g.workers, Count: g.window, Shared: true, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			id := g.big.keys.pick(mark, n)
			return g.get(g.big.bodies, g.big.keys.name(id), id)
		}}
	}))
	if err != nil {
		return fmt.Errorf("reading back the objects that were put before SIGKILL: %w", err)
	}
	g.add(res, "get", string(g.order)+", after SIGKILL", g.p.sizes[0]).Values = map[string]float64{"keys": v["objects"]}
	return nil
}

// end stops the server and measures the space of its files.
func (g *growth) end() error {
	g.main.Stop()
	beyond, err := g.watch.measure()
	g.out.Values["bytes_beyond_content_stopped"] = beyond
	return err
}

// goals compares the figures with the goals for stores that grow.
func (g *growth) goals(first, keys int) {
	v, ratio := g.out.Values, 0.90
	if g.order == Random {
		ratio = 0.70
	}
	pause := max(50, 3*v["fdatasync_max_ms"])
	type limit struct {
		name, limit string
		value       float64
		met         bool
	}
	least := func(name string, value, least float64) limit {
		return limit{name, "at least " + goalFigure(least), value, value >= least}
	}
	most := func(name string, value, most float64) limit {
		return limit{name, "at most " + goalFigure(most), value, value <= most}
	}
	than := fmt.Sprintf("with %d objects, relative to the rate with %d", keys, first)
	list := []limit{
		least("PUT "+than, v["put_ratio"], ratio),
		least("GET "+than, v["get_ratio"], ratio),
		most("longest time without a completed PUT, ms (limit: 50, or 3 x the longest fdatasync)", v["pause_max_ms"], pause),
		most("largest WAL, MB", v["wal_max_bytes"]/1e6, 128),
		most("bytes per object beyond its content, at any time", max(v["bytes_beyond_content_max"], v["bytes_beyond_content"]), 400),
		most("start after SIGKILL, ms", v["restart_ms"], 2000),
		most("peak RSS, MB", v["rss_max"]/1e6, 200),
		most(fmt.Sprintf("RSS after %s without requests, MB", seconds(g.p.idle)), v["rss_idle_bytes"]/1e6, 25),
		most("LIST, first page, median ms", v["list_first_page_ms"], 3),
		least("LIST, all pages, keys per second", v["list_walk_keys_per_sec"], 300_000),
	}
	if g.p.sizes[0] == 256 { // larger objects need more
		list = append(list, most("bytes written to the drive per PUT of 256 B", v["drive_bytes_per_put"], 3000))
	}
	for _, l := range list {
		name := fmt.Sprintf("growth to %d, %s: %s", keys, g.order, l.name)
		g.out.Goals = append(g.out.Goals, result.Goal{Name: name, Value: l.value, Limit: l.limit, Met: l.met})
		mark := "MISSED"
		if l.met {
			mark = "met"
		}
		g.o.Progress.Row(fmt.Sprintf("%s: %s, %s: %s", l.name, goalFigure(l.value), l.limit, mark))
	}
}

// goalFigure formats a figure of a goal.
func goalFigure(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

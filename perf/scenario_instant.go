package perf

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// runInstant compares PUTs of existing content with PUTs of new content, on a server that deduplicates. It also
// compares the cost of new content on that server with a server that does not deduplicate, alternately.
func runInstant(s *session) error {
	if s.main == nil {
		return unsupported("deduplication cannot be observed from outside: " + needsOwn.Error())
	}
	shared, err := s.sharesContent()
	if err != nil {
		return err
	}
	if !shared {
		return unsupported(ErrUnsupported.Error() + ": it stored equal content twice")
	}
	s.out.Goals = append(s.out.Goals, result.Goal{Name: "equal content is shared", Value: 1, Limit: "1", Met: true})
	off, err := s.server("instant-off", "ORCAS_INSTANT_UPLOAD_ENABLED=false")
	if err != nil {
		return err
	}
	defer s.remove(off)
	c := &core{session: s, orcas: s.main}
	for _, size := range s.p.sizes {
		if err := c.duplicates(size, off); err != nil {
			return err
		}
	}
	for _, size := range []int{kib, 4 * kib, 256 * kib, mib} {
		if err := c.newContent(size, off); err != nil {
			return err
		}
	}
	return c.older()
}

// duplicates puts content, one request at a time: new content to both servers, and existing content.
func (c *core) duplicates(size int, off *Process) error {
	contents := c.contents(size)
	count := uint64(c.p.keys[0] * max(1, 20*kib/size)) // otherwise a turn of the smallest size would be too short
	puts := func(p *Process, variant string) (*LoadResult, error) {
		base := c.fresh()
		put := func(same bool) func(w *Worker, n uint64) (loadgen.Request, Expect) {
			return func(w *Worker, n uint64) (loadgen.Request, Expect) {
				number := base + n
				if same {
					number = base
				}
				return c.session.put(w, contents, variant+"/"+key(base+n), number)
			}
		}
		if variant == "duplicate" { // store the content first
			if _, err := c.load(&Load{Target: p.Target, PID: p.PID, Workers: 1, Count: 1, Script: true, Next: put(true)}); err != nil {
				return nil, err
			}
		}
		return c.load(&Load{Target: p.Target, PID: p.PID, Workers: 1, Count: count, Script: true, Next: put(variant == "duplicate")})
	}
	results := map[string][]*LoadResult{}
	type side struct {
		variant string
		p       *Process
	}
	sides := []side{{"unique, off", off}, {"unique", c.orcas}, {"duplicate", c.orcas}}
	for range max(c.p.turns, 1) {
		slices.Reverse(sides) // so that deferred work of a server does not always slow down the same load
		for _, side := range sides {
			res, err := puts(side.p, side.variant)
			if err != nil {
				return err
			}
			results[side.variant] = append(results[side.variant], res)
		}
	}
	for _, variant := range []string{"unique, off", "unique", "duplicate"} {
		var rows []result.Row
		for _, r := range results[variant] {
			rows = append(rows, r.Row("put"))
		}
		row := medianRow(rows)
		row.Variant, row.SizeBytes = variant, int64(size)
		c.out.Results = append(c.out.Results, row)
		c.o.Progress.Row(rowText(&row))
	}
	overhead, _ := pairs(results["unique, off"], results["unique"], rate)
	c.out.Values[fmt.Sprintf("overhead_percent_%d", size)] = 100 * (overhead - 1)
	value, _ := pairs(results["unique"], results["duplicate"], rate)
	c.goal(goal{name: fmt.Sprintf("duplicate PUT %s, time relative to a unique one", sizeText(int64(size))), size: size, limit: "at most 1", value: value, met: value <= 1})
	return nil
}

// older puts content that was stored long before much other content, so its rows may be anywhere in the database. It
// alternates between different content each time, the same content repeatedly, and new content. It needs a separate
// store, because the result depends on the amount of stored content.
func (c *core) older() error {
	p, err := c.server("instant-older")
	if err != nil {
		return err
	}
	defer c.remove(p)
	contents, there, first := c.contents(kib), uint64(c.p.keys[len(c.p.keys)-1]), c.fresh()
	c.o.Progress.Step(fmt.Sprintf("seeding %d objects", there))
	seed := func(w *Worker, n uint64) (loadgen.Request, Expect) {
		return c.session.put(w, contents, "seed/"+key(first+n), first+n)
	}
	if _, err := c.load(&Load{Target: p.Target, PID: p.PID, Workers: 64, Count: there, Script: true, Next: seed}); err != nil {
		return err
	}
	c.out.SeedCount += int(there)
	old := max(there*2/3, 1)
	next, apart := uint64(0), uint64(1_000_003) // a prime, so that no content is repeated before all have been put
	variants := []string{"new", "different each time", "the same repeatedly"}
	for _, workers := range []int{1, 16} {
		results := map[string][]*LoadResult{}
		for range max(c.p.turns, 1) {
			slices.Reverse(variants)
			for _, variant := range variants {
				base, begin := c.fresh(), next
				put := func(w *Worker, n uint64) (loadgen.Request, Expect) {
					number := base + n
					switch variant {
					case "different each time":
						number = first + (begin+n)*apart%old
					case "the same repeatedly":
						number = first + begin*apart%old
					}
					return c.session.put(w, contents, "older/"+key(base+n), number)
				}
				count := min(uint64(40*c.p.keys[0]*(1+workers/8)), old)
				if variant != "new" {
					next += count
				}
				r, err := c.load(&Load{Target: p.Target, PID: p.PID, Workers: workers, Count: count, Script: true, Next: put})
				if err != nil {
					return err
				}
				results[variant] = append(results[variant], r)
			}
		}
		for _, variant := range []string{"different each time", "the same repeatedly"} {
			value, _ := pairs(results["new"], results[variant], rate)
			c.goal(goal{name: fmt.Sprintf("PUT of 1 KiB stored long ago (%s), connections: %d, time relative to new content", variant, workers), size: kib,
				limit: "at most 1", value: value, met: value <= 1}, results[variant], results["new"])
		}
	}
	return nil
}

// newContent measures the server's CPU time for content that is new.
func (c *core) newContent(size int, off *Process) error {
	workers, most := 64, 1.08
	if size >= 256*kib {
		workers, most = 8, 1.03
	}
	offs, ons, err := c.together(off, c.orcas, c.put(size, workers))
	if err != nil {
		return err
	}
	value, ok := pairs(ons, offs, serverCPU)
	if !ok { // the loads were shorter than 10 ms, the resolution of the system's CPU times
		return nil
	}
	c.goal(goal{name: fmt.Sprintf("PUT of new content, %s, server CPU relative to instant upload off", sizeText(int64(size))), size: size,
		limit: fmt.Sprintf("at most %.2f", most), value: value, met: value <= most}, ons, offs)
	return nil
}

// serverCPU returns the server's CPU time per successful request, in seconds.
func serverCPU(r *LoadResult) float64 {
	return r.ServerCPU.Seconds() / float64(max(r.All.Successful, 1))
}

// sharesContent reports whether the server deduplicates: whether equal objects use the space of one.
func (s *session) sharesContent() (bool, error) {
	const copies, size = 8, mib
	_, before, err := usage(s.data())
	if err != nil {
		return false, err
	}
	c := s.contents(size)
	body, sha := c.Body(0, nil)
	for i := range copies {
		call := loadgen.Request{Method: http.MethodPut, Path: s.path("same-" + strconv.Itoa(i)), Body: body, Hash: sha}
		if _, err := s.once(call, http.StatusOK); err != nil {
			return false, err
		}
	}
	_, after, err := usage(s.data())
	return after-before < copies*size/2, err
}

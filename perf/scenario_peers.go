package perf

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// comparison is the scenario "peers" in progress. It runs the same loads alternately against ORCAS, the null server and
// other S3 servers. A server that fails is skipped from then on, and the report contains the reason.
type comparison struct {
	*session
	list    []*contender
	servers map[string]*result.Server // by name
}

// runPeers compares servers on this machine.
func runPeers(s *session) error {
	if s.o.Target != nil {
		return needsOwn
	}
	s.prefix = ""
	c := &comparison{session: s, list: s.contenders(), servers: map[string]*result.Server{}}
	c.describe()
	defer func() {
		for _, x := range c.list {
			s.endContender(x)
		}
		for i := range s.out.Servers {
			s.out.Servers[i] = *c.servers[s.out.Servers[i].Name]
		}
	}()
	for _, step := range []func() error{c.begin, c.small, c.large, c.lists, c.end, c.syncs, c.footprints} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the servers.
func (c *comparison) begin() error {
	return c.each(func(x *contender) error { return c.beginContender(x, c.sc.id+"-"+fileName(x.name)) })
}

// end records the peak memory of the servers, and kills them.
func (c *comparison) end() error {
	return c.each(func(x *contender) error {
		_, peak := ResidentBytes(x.process.PID)
		c.servers[x.name].PeakRSS = figure(float64(peak))
		c.endContender(x)
		return nil
	})
}

// describe adds the servers to the result, including those for which no program was given.
func (c *comparison) describe() {
	add := func(s result.Server) {
		c.out.Servers = append(c.out.Servers, s)
		c.servers[s.Name] = &result.Server{}
		*c.servers[s.Name] = s
	}
	add(result.Server{Name: "ORCAS", Version: cmp.Or(c.doc.Environment.Commit, c.o.Version)})
	add(result.Server{Name: nullName, Durability: "stores nothing"})
	for _, p := range c.o.Peers.list() {
		s := result.Server{Name: p.name}
		if p.path == "" {
			s.Missing = "no program was given (" + p.flag + ")"
		} else {
			s.Version = p.programVersion(c.ctx)
		}
		add(s)
	}
}

// variant returns the variant of a server's rows.
func (x *contender) variant() string {
	if x.name == nullName {
		return result.NullVariant("")
	}
	return x.name
}

// fileName returns a directory name for a server.
func fileName(name string) string {
	return string(bytes.ReplaceAll(bytes.ToLower([]byte(name)), []byte(" "), []byte("-")))
}

func figure(v float64) *float64 { return &v }

// drop skips a server from now on. If it is ORCAS or the null server, drop returns the error, and the scenario fails.
func (c *comparison) drop(x *contender, err error) error {
	if x.name == "ORCAS" || x.name == nullName || c.ctx.Err() != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	c.servers[x.name].Missing = err.Error()
	c.o.Progress.Row(fmt.Sprintf("%s is skipped: %v", x.name, err))
	c.endContender(x)
	for i := range c.list {
		if c.list[i] == x {
			c.list = append(c.list[:i:i], c.list[i+1:]...)
			break
		}
	}
	return nil
}

// each calls do for every server that is not skipped. A server for which do fails is skipped from then on.
func (c *comparison) each(do func(x *contender) error) error {
	for _, x := range append([]*contender(nil), c.list...) {
		if err := do(x); err != nil {
			if err := c.drop(x, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure loads one server after another in each turn, and every second turn in reverse order. It syncs the drive
// between two loads, so that no load is slowed down by writes that another server has not synced.
func (c *comparison) measure(op string, size int, load func(x *contender) *Load) error {
	rows := map[string][]result.Row{}
	for turn := range max(c.p.turns, 1) {
		order := append([]*contender(nil), c.list...)
		for i := range order {
			x := order[i]
			if turn%2 == 1 {
				x = order[len(order)-1-i]
			}
			unix.Sync()
			l := load(x)
			l.Target, l.PID, l.Script = x.process.Target, x.process.PID, true
			res, err := c.load(l)
			if err != nil {
				if err := c.drop(x, err); err != nil {
					return err
				}
				continue
			}
			rows[x.name] = append(rows[x.name], res.Row(op))
		}
	}
	for _, x := range c.list {
		row := medianRow(rows[x.name])
		row.Operation, row.Variant, row.SizeBytes = op, x.variant(), int64(size)
		c.out.Results = append(c.out.Results, row)
		c.o.Progress.Row(rowText(&row))
	}
	return nil
}

// seedAll puts the same objects into every server.
func (c *comparison) seedAll(contents *Contents, n int, name func(uint64) string) error {
	return c.each(func(x *contender) error {
		if x.name == nullName {
			return nil
		}
		c.target = x.process.Target
		return c.seed(contents, n, name)
	})
}

func (c *comparison) puts(size, workers int) error {
	contents := c.contents(size)
	c.o.Progress.Step(fmt.Sprintf("PUT %s, %d connections", sizeText(int64(size)), workers))
	return c.measure("put", size, func(*contender) *Load { return c.putLoad(contents, workers) })
}

func (c *comparison) gets(size, workers, keys int) error {
	contents := c.contents(size)
	if err := c.seedAll(contents, keys, seedName(size)); err != nil {
		return err
	}
	c.o.Progress.Step(fmt.Sprintf("GET %s, %d connections", sizeText(int64(size)), workers))
	return c.measure("get", size, func(x *contender) *Load {
		if x.name == nullName {
			return c.nullLoad(http.MethodGet, size, workers, c.p.duration)
		}
		return c.getLoad(contents, workers, keys, seedName(size))
	})
}

func (c *comparison) small() error {
	return errors.Join(c.puts(4*kib, 64), c.puts(4*kib, 1), c.gets(4*kib, 16, 1000))
}

func (c *comparison) large() error {
	return errors.Join(c.puts(10*mib, 10), c.gets(10*mib, 10, 20))
}

// lists measures listings: each request asks for one page of 1000 keys, or of half of all keys if there are fewer than
// 2000. The null server returns as many bytes as ORCAS.
func (c *comparison) lists() error {
	keys := c.p.keys[0]
	page := min(1000, max(keys/2, 1))
	if err := c.seedAll(c.contents(16), keys, func(n uint64) string { return fmt.Sprintf("list/%08d", n) }); err != nil {
		return err
	}
	query := fmt.Sprintf("list-type=2&max-keys=%d&prefix=list%%2F", page)
	c.target = c.list[0].process.Target
	first, err := c.once(loadgen.Request{Method: http.MethodGet, Path: "/" + c.bucket, Query: query}, http.StatusOK)
	if err != nil {
		return err
	}
	c.o.Progress.Step("LIST")
	return c.measure("list", 0, func(x *contender) *Load {
		if x.name == nullName {
			return c.nullLoad(http.MethodGet, len(first.Body), 1, c.p.duration)
		}
		return &Load{Workers: 1, Duration: c.p.duration, Next: func(_ *Worker, n uint64) (loadgen.Request, Expect) {
			from := fmt.Sprintf("&start-after=list%%2F%08d", n*7919%uint64(keys-page))
			return loadgen.Request{Op: "list", Method: http.MethodGet, Path: "/" + c.bucket, Query: query + from, Keep: true},
				Expect{Status: http.StatusOK, Check: func(a *loadgen.Reply) error {
					if found := bytes.Count(a.Body, []byte("<Key>")); found != page {
						return fmt.Errorf("the page has %d keys, not %d", found, page)
					}
					return nil
				}}
		}}
	})
}

// syncs counts the sync calls of each server per PUT.
func (c *comparison) syncs() error {
	return c.each(func(x *contender) error {
		if x.name == nullName {
			return nil
		}
		c.o.Progress.Step(x.name + ": syncs")
		n, err := c.countSyncs(x, 100)
		if err != nil { // strace is missing, or the server does not run under it
			c.servers[x.name].Durability = "unknown: its syncs could not be counted (" + err.Error() + ")"
			return nil
		}
		c.servers[x.name].SyncsPerPut, c.servers[x.name].Durability = figure(n), durabilityOf(n)
		return nil
	})
}

func (c *comparison) footprints() error {
	c.out.Values["footprint_keys"] = float64(c.p.keys[len(c.p.keys)-1])
	return c.each(func(x *contender) error {
		if x.name == nullName {
			return nil
		}
		return c.footprint(x)
	})
}

// footprint fills a new store with objects of 4 KiB. It measures the disk usage after a stop, and the time from a start
// after a SIGKILL until an object can be read.
func (c *comparison) footprint(x *contender) error {
	keys, contents, name := c.p.keys[len(c.p.keys)-1], c.contents(4*kib), c.sc.id+"-full-"+fileName(x.name)
	if err := c.beginContender(x, name); err != nil {
		return err
	}
	defer c.endContender(x)
	c.target = x.process.Target
	if err := c.seed(contents, keys, seedName(4*kib)); err != nil {
		return err
	}
	x.process.Stop()
	unix.Sync() // delayed allocation must be complete before the usage is measured
	files, bytes, err := usage(filepath.Join(c.dir, name))
	if err != nil {
		return err
	}
	server := c.servers[x.name]
	server.BytesPerObject, server.FilesPerObject = figure(float64(bytes)/float64(keys)), figure(float64(files)/float64(keys))
	for _, crash := range []bool{false, true} {
		began := time.Now()
		if x.process, err = x.process.Again(c.ctx); err != nil {
			return err
		}
		if err := c.readBack(x, contents, uint64(keys)); err != nil {
			return err
		}
		if crash {
			server.StartAfterCrash = figure(time.Since(began).Seconds())
			break
		}
		c.target = x.process.Target
		if err := c.seed(contents, 1000, func(n uint64) string { return "more/" + seedName(4*kib)(n) }); err != nil { // give the recovery something to do
			return err
		}
		x.process.Kill()
	}
	c.o.Progress.Row(fmt.Sprintf("%-18s %.0f bytes and %.4f files per object, ready %.2f s after a SIGKILL", x.name, *server.BytesPerObject, *server.FilesPerObject, *server.StartAfterCrash))
	return nil
}

// readBack waits until a GET of an object returns the content that was put.
func (c *comparison) readBack(x *contender, contents *Contents, keys uint64) error {
	x.process.Target.Signing = c.o.Signing
	c.target = x.process.Target
	call, want := c.get(contents, seedName(4*kib)(keys/2), keys/2)
	for start := time.Now(); ; sleep(c.ctx, 5*time.Millisecond) {
		a, err := once(c.ctx, c.target, call)
		if err == nil {
			if err = want.mismatch(&a); err == nil {
				return nil
			}
		}
		if c.ctx.Err() != nil || time.Since(start) > time.Minute {
			return fmt.Errorf("reading back: %w", err)
		}
	}
}

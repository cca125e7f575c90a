package perf

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"
)

// CoreOptions say how the core scenarios are run.
type CoreOptions struct {
	Program string        // this program
	Dir     string        // on the file system to be measured; a directory in it is made, and removed at the end
	Turn    time.Duration // of one side
	Turns   int
	Only    []string  // scenarios; none: all
	Keys    int       // keys of the cold GET and of the listings
	Log     io.Writer // progress
}

// CoreRow is one comparison: what was measured on both sides, in turns, and the ratio asked for.
type CoreRow struct {
	Scenario    string  `json:"scenario"`
	Unit        string  `json:"unit"`
	Ceiling     float64 `json:"ceiling"`
	Orcas       float64 `json:"orcas"`
	Value       float64 `json:"value"` // what Limit is about
	Limit       string  `json:"limit"`
	Met         bool    `json:"met"`
	ServerCPUus float64 `json:"server_cpu_us_per_op,omitempty"`
	NullCPUus   float64 `json:"null_cpu_us_per_op,omitempty"`
	Note        string  `json:"note,omitempty"`
}

// core is a run of the core scenarios.
type core struct {
	o        CoreOptions
	dir      string
	keys     Keys
	null     *Process
	orcas    *Process
	unpacked *Process
	rows     []CoreRow
	numbers  uint64
	nullBody map[int]uint64
}

// RunCore measures the scenarios by which the core is judged and writes them as JSON and as a table.
func RunCore(o CoreOptions) ([]CoreRow, error) {
	dir, err := os.MkdirTemp(o.Dir, "orcas-perf-")
	if err != nil {
		return nil, err
	}
	c := &core{o: o, dir: dir, keys: NewKeys(), nullBody: map[int]uint64{}}
	defer os.RemoveAll(dir)
	defer c.stop()
	if err := c.start(); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"put", c.puts}, {"packing", c.packing}, {"alone", c.alone}, {"get", c.gets}, {"large", c.large}, {"list", c.lists}, {"footprint", c.footprint},
	} {
		if len(o.Only) > 0 && !slices.Contains(o.Only, s.name) {
			continue
		}
		if err := s.run(); err != nil {
			return c.rows, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return c.rows, nil
}

func (c *core) start() (err error) {
	if c.null, err = Start(c.o.Program, c.dir, "null", c.keys, "/-/health/live", nil, "perf", "null-server"); err != nil {
		return err
	}
	if c.orcas, err = Start(c.o.Program, c.dir, "orcas", c.keys, "/-/health/ready", nil, "server", "--data", filepath.Join(c.dir, "data")); err != nil {
		return err
	}
	c.unpacked, err = Start(c.o.Program, c.dir, "unpacked", c.keys, "/-/health/ready", []string{"ORCAS_BATCH_WRITE_ENABLED=false"}, "server", "--data", filepath.Join(c.dir, "unpacked"))
	if err != nil {
		return err
	}
	for _, p := range []*Process{c.orcas, c.unpacked} {
		if err := c.one(p, Call{Method: http.MethodPut, Path: "/perf"}, http.StatusOK); err != nil {
			return err
		}
	}
	return nil
}

func (c *core) stop() {
	for _, p := range []*Process{c.null, c.orcas, c.unpacked} {
		if p != nil {
			_ = p.Stop() // the run is over
		}
	}
}

func (c *core) one(p *Process, call Call, status int) error {
	client, err := Dial(p.Target)
	if err != nil {
		return err
	}
	defer client.Close()
	call.Keep = true
	a, err := client.Do(call)
	if err != nil {
		return err
	}
	if a.Status != status {
		return fmt.Errorf("%s %s: %d %s", call.Method, call.Path, a.Status, a.Body)
	}
	return nil
}

// turns runs a load against two servers in turns and returns the results of both.
func (c *core) turns(a, b *Process, load func(p *Process) *Load) (as, bs []*LoadResult, err error) {
	for range c.o.Turns {
		for _, side := range []struct {
			p   *Process
			out *[]*LoadResult
		}{{a, &as}, {b, &bs}} {
			l := load(side.p)
			l.Target, l.PID = side.p.Target, side.p.PID
			r, err := l.Run()
			if err != nil {
				return nil, nil, err
			}
			*side.out = append(*side.out, r)
		}
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

func cpu(r *LoadResult) float64 {
	return float64(r.ServerCPU.Microseconds()) / float64(r.Operations)
}

func micros(r *LoadResult) float64 { return float64(r.Median().Microseconds()) }

func (c *core) add(row CoreRow) {
	c.rows = append(c.rows, row)
	mark := "missed"
	if row.Met {
		mark = "met"
	}
	fmt.Fprintf(c.o.Log, "%-44s ceiling %10.1f  orcas %10.1f %-5s value %7.2f  (%s: %s)  cpu us/op null %.1f orcas %.1f %s\n",
		row.Scenario, row.Ceiling, row.Orcas, row.Unit, row.Value, row.Limit, mark, row.NullCPUus, row.ServerCPUus, row.Note)
}

// putLoad puts bodies of a size under keys that were never used.
func (c *core) putLoad(size, workers int) func(*Process) *Load {
	contents := NewContents(size)
	return func(*Process) *Load {
		c.numbers += 1 << 32
		base := c.numbers
		bodies := make([][]byte, workers)
		return &Load{Workers: workers, Duration: c.o.Turn, Next: func(w, i int) (Call, Expect) {
			number := base + uint64(w)<<24 + uint64(i)
			body, hash := contents.Body(number, bodies[w])
			bodies[w] = body
			return Call{Method: http.MethodPut, Path: fmt.Sprintf("/perf/put/%d/%016x", size, number*0x9e3779b97f4a7c15), Body: body, Hash: hash},
				Expect{Status: http.StatusOK}
		}}
	}
}

func (c *core) puts() error {
	for _, size := range []int{1 << 10, 4 << 10} {
		null, orcas, err := c.turns(c.null, c.orcas, c.putLoad(size, 64))
		if err != nil {
			return err
		}
		n, o := median(null, rate), median(orcas, rate)
		c.add(CoreRow{Scenario: fmt.Sprintf("PUT %d KiB, 64 connections", size>>10), Unit: "op/s", Ceiling: n, Orcas: o, Value: o / n,
			Limit: "at least 0.40 of the null server", Met: o/n >= 0.40, NullCPUus: median(null, cpu), ServerCPUus: median(orcas, cpu)})
	}
	return nil
}

func (c *core) packing() error {
	for _, workers := range []int{1, 64} {
		off, on, err := c.turns(c.unpacked, c.orcas, c.putLoad(4<<10, workers))
		if err != nil {
			return err
		}
		n, o := median(off, rate), median(on, rate)
		c.add(CoreRow{Scenario: fmt.Sprintf("PUT 4 KiB, %d connections, packing off / on", workers), Unit: "op/s", Ceiling: n, Orcas: o, Value: o / n,
			Limit: "at least 1 of packing off", Met: o/n >= 1, NullCPUus: median(off, cpu), ServerCPUus: median(on, cpu)})
	}
	return nil
}

func (c *core) alone() error {
	var syncs []time.Duration
	for range c.o.Turns {
		d, err := MeasureDisk(c.dir, 4<<10, 2000)
		if err != nil {
			return err
		}
		syncs = append(syncs, d.Median)
	}
	slices.Sort(syncs)
	fdatasync := float64(syncs[len(syncs)/2].Nanoseconds()) / 1000
	null, orcas, err := c.turns(c.null, c.orcas, c.putLoad(4<<10, 1))
	if err != nil {
		return err
	}
	n, o := median(null, micros), median(orcas, micros)
	c.add(CoreRow{Scenario: "PUT 4 KiB, 1 connection, median", Unit: "us", Ceiling: n + 2.5*fdatasync, Orcas: o, Value: (o - n) / fdatasync,
		Limit: "null + 2.5 fdatasync", Met: o <= n+2.5*fdatasync, NullCPUus: median(null, cpu), ServerCPUus: median(orcas, cpu),
		Note: fmt.Sprintf("null %.0f us, append and fdatasync %.0f us", n, fdatasync)})
	return nil
}

// seed puts keys numbered from 0 on.
func (c *core) seed(prefix string, contents *Contents, keys, workers int) error {
	_, err := c.seedLoad(prefix, contents, keys, workers).Run()
	return err
}

func (c *core) seedLoad(prefix string, contents *Contents, keys, workers int) *Load {
	bodies := make([][]byte, workers)
	return &Load{Target: c.orcas.Target, Workers: workers, Count: keys, Next: func(w, i int) (Call, Expect) {
		number := uint64(i*workers + w)
		body, hash := contents.Body(number, bodies[w])
		bodies[w] = body
		return Call{Method: http.MethodPut, Path: fmt.Sprintf("/perf/%s/%08d", prefix, number), Body: body, Hash: hash}, Expect{Status: http.StatusOK}
	}}
}

// getLoad gets keys that seed has put, in an order that looks random; the null server is asked for as many bytes.
func (c *core) getLoad(prefix string, contents *Contents, keys, workers int) func(*Process) *Load {
	return func(p *Process) *Load {
		return &Load{Workers: workers, Duration: c.o.Turn, Next: func(w, i int) (Call, Expect) {
			if p == c.null {
				return Call{Method: http.MethodGet, Path: fmt.Sprintf("/perf/%s/%08d-%d", prefix, i, contents.size)},
					Expect{Status: http.StatusOK, Body: true, Size: int64(contents.size), XXH3: c.nullHash(contents.size)}
			}
			number := (uint64(i)*uint64(workers) + uint64(w)) * 0x9e3779b97f4a7c15 >> 20 % uint64(keys)
			return Call{Method: http.MethodGet, Path: fmt.Sprintf("/perf/%s/%08d", prefix, number)},
				Expect{Status: http.StatusOK, Body: true, Size: int64(contents.size), XXH3: contents.XXH3(number)}
		}}
	}
}

func (c *core) nullHash(size int) uint64 { return c.nullBody[size] }

func (c *core) prepareNull(size int) {
	c.nullBody[size] = xxh3.Hash(NewNullServer("", "", "").NullContent(size))
}

func (c *core) gets() error {
	contents := NewContents(4 << 10)
	c.prepareNull(4 << 10)
	for _, s := range []struct {
		name string
		keys int
	}{{"hot", 1000}, {"over many keys", c.o.Keys}} {
		prefix := strings.ReplaceAll(s.name, " ", "-")
		if err := c.seed(prefix, contents, s.keys, 64); err != nil {
			return err
		}
		null, orcas, err := c.turns(c.null, c.orcas, c.getLoad(prefix, contents, s.keys, 16))
		if err != nil {
			return err
		}
		n, o := median(null, rate), median(orcas, rate)
		c.add(CoreRow{Scenario: fmt.Sprintf("GET 4 KiB, 16 connections, %s (%d)", s.name, s.keys), Unit: "op/s", Ceiling: n, Orcas: o, Value: o / n,
			Limit: "at least 0.60 of the null server", Met: o/n >= 0.60, NullCPUus: median(null, cpu), ServerCPUus: median(orcas, cpu)})
	}
	return nil
}

func (c *core) large() error {
	const size, workers = 10 << 20, 10
	var disk []float64
	null, orcas, err := c.turns(c.null, c.orcas, c.putLoad(size, workers))
	if err != nil {
		return err
	}
	for range c.o.Turns {
		d, err := MeasureFiles(c.dir, size, 60, workers)
		if err != nil {
			return err
		}
		disk = append(disk, d)
	}
	slices.Sort(disk)
	n, d, o := median(null, rate), disk[len(disk)/2], median(orcas, rate)
	ceiling := min(n, d)
	c.add(CoreRow{Scenario: "PUT 10 MiB, 10 connections", Unit: "op/s", Ceiling: ceiling, Orcas: o, Value: o / ceiling,
		Limit: "at least 0.75 of the lower ceiling", Met: o/ceiling >= 0.75, NullCPUus: median(null, cpu), ServerCPUus: median(orcas, cpu),
		Note: fmt.Sprintf("null %.1f, disk %.1f", n, d)})
	contents := NewContents(size)
	c.prepareNull(size)
	if err := c.seed("large", contents, 20, 4); err != nil {
		return err
	}
	for i := range uint64(20) {
		contents.XXH3(i)
	}
	null, orcas, err = c.turns(c.null, c.orcas, c.getLoad("large", contents, 20, workers))
	if err != nil {
		return err
	}
	n, o = median(null, rate), median(orcas, rate)
	c.add(CoreRow{Scenario: "GET 10 MiB, 10 connections", Unit: "op/s", Ceiling: n, Orcas: o, Value: o / n,
		Limit: "at least 0.50 of the null server", Met: o/n >= 0.50, NullCPUus: median(null, cpu), ServerCPUus: median(orcas, cpu)})
	return nil
}

// lists lists pages of 1000 keys, and behind a delimiter that hides all but a thousandth of the keys.
func (c *core) lists() error {
	contents := NewContents(16)
	bodies := make([][]byte, 64)
	keys := c.o.Keys
	l := &Load{Target: c.orcas.Target, Workers: 64, Count: keys, Next: func(w, i int) (Call, Expect) {
		number := i*64 + w
		body, hash := contents.Body(uint64(number), bodies[w])
		bodies[w] = body
		path := fmt.Sprintf("/perf/list/hidden/%08d", number)
		if number%1000 == 0 {
			path = fmt.Sprintf("/perf/list/shown-%08d", number)
		}
		return Call{Method: http.MethodPut, Path: path, Body: body, Hash: hash}, Expect{Status: http.StatusOK}
	}}
	if _, err := l.Run(); err != nil {
		return err
	}
	for _, s := range []struct {
		name, query string
		limit       float64
	}{
		{"1000 keys", "list-type=2&max-keys=1000&prefix=list%2Fhidden%2F", 10_000},
		{"with a delimiter", "delimiter=%2F&list-type=2&prefix=list%2F", 2_000},
	} {
		l := &Load{Target: c.orcas.Target, PID: c.orcas.PID, Workers: 1, Duration: c.o.Turn, Next: func(_, i int) (Call, Expect) {
			query := s.query
			if s.name == "1000 keys" {
				query = fmt.Sprintf("%s&start-after=list%%2Fhidden%%2F%08d", query, i*7919%(keys-1000))
			}
			return Call{Method: http.MethodGet, Path: "/perf", Query: query}, Expect{Status: http.StatusOK}
		}}
		r, err := l.Run()
		if err != nil {
			return err
		}
		c.add(CoreRow{Scenario: fmt.Sprintf("LIST out of %d, %s, median", keys, s.name), Unit: "us", Ceiling: s.limit, Orcas: micros(r),
			Value: micros(r) / 1000, Limit: fmt.Sprintf("at most %.0f ms", s.limit/1000), Met: micros(r) <= s.limit, ServerCPUus: cpu(r)})
	}
	return nil
}

// footprint puts objects of 4 KiB into a store of their own, stops its server, and counts files and bytes; a second start tells what an
// idle server takes.
func (c *core) footprint() error {
	const size = 4 << 10
	data := filepath.Join(c.dir, "footprint")
	run := func() (*Process, error) {
		return Start(c.o.Program, c.dir, "footprint", c.keys, "/-/health/ready", nil, "server", "--data", data)
	}
	p, err := run()
	if err != nil {
		return err
	}
	stop := p.Stop
	defer func() { _ = stop() }()
	if err := c.one(p, Call{Method: http.MethodPut, Path: "/perf"}, http.StatusOK); err != nil {
		return err
	}
	contents := NewContents(size)
	l := c.seedLoad("footprint", contents, c.o.Keys, 64)
	l.Target = p.Target
	if _, err := l.Run(); err != nil {
		return err
	}
	_, peak := ResidentBytes(p.PID)
	if err := p.Stop(); err != nil {
		return err
	}
	files, bytes, err := usage(data)
	if err != nil {
		return err
	}
	if p, err = run(); err != nil {
		return err
	}
	stop = p.Stop
	idle, _ := ResidentBytes(p.PID)
	beyond := float64(bytes)/float64(c.o.Keys) - size
	c.add(CoreRow{Scenario: fmt.Sprintf("%d objects of 4 KiB, bytes beyond content", c.o.Keys), Unit: "B", Ceiling: 700, Orcas: beyond, Value: beyond,
		Limit: "at most 700 each", Met: beyond <= 700, Note: fmt.Sprintf("peak RSS %d MB", peak>>20)})
	c.add(CoreRow{Scenario: fmt.Sprintf("%d objects of 4 KiB, files", c.o.Keys), Unit: "files", Ceiling: 2000, Orcas: float64(files), Value: float64(files),
		Limit: "at most 2000 per million", Met: files <= 2000})
	c.add(CoreRow{Scenario: "idle after a start, RSS", Unit: "MB", Ceiling: 64, Orcas: float64(idle) / (1 << 20), Value: float64(idle) / (1 << 20),
		Limit: "at most 64 MB", Met: idle <= 64<<20})
	return nil
}

// usage returns the files below a directory and the bytes that they take on the drive.
func usage(dir string) (files int, bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return err
		}
		files++
		bytes += st.Blocks * 512
		return nil
	})
	return files, bytes, err
}

// WriteRows writes rows as JSON.
func WriteRows(w io.Writer, rows []CoreRow) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rows)
}

package iofault

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Bench has what all sweeps share.
type Bench struct {
	Binary  string
	Dir     string // for everything; empty
	Workers int    // points that are tried at the same time

	bases map[string]base
}

// base is a data directory to begin with, and what it holds.
type base struct {
	dir   string // "": none
	model *model
}

// The ids of contents: of bases, and of points.
const (
	baseIDs  = 1
	pointIDs = 1000
)

// Prepare makes the data directories that scripts begin with: "empty"; "stocked", which a server filled and was stopped; and
// "crashed": the same, but the server was killed when it had made a batch durable and was about to apply it.
func (b *Bench) Prepare() error {
	b.bases = map[string]base{"empty": {"", newModel()}}
	r := newRun(newModel(), baseIDs)
	stocked := filepath.Join(b.Dir, "stocked")
	p, err := start(b.Binary, stocked, nil)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.tail())
	}
	r.c = newClient(p.endpoint)
	stock(r)
	if err := p.stop(); err != nil || len(r.wrong) > 0 || len(r.failed) > 0 {
		return fmt.Errorf("stocking: %w, %v, %v", err, r.wrong, r.failed)
	}
	b.bases["stocked"] = base{stocked, r.m}
	return b.prepareCrashed(r)
}

func (b *Bench) prepareCrashed(before *run) error {
	d, err := b.mount("prepare")
	if err != nil {
		return err
	}
	defer d.Unmount()
	crashed := filepath.Join(b.Dir, "back-prepare", "crashed")
	if err := os.CopyFS(crashed, os.DirFS(b.bases["stocked"].dir)); err != nil {
		return err
	}
	r := newRun(before.m.clone(), before.id)
	r.killed = true
	p, err := start(b.Binary, filepath.Join(d.Dir(), "crashed"), nil)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, p.tail())
	}
	r.c = newClient(p.endpoint)
	for i := range 5 {
		r.put(fmt.Sprint("before-", i), smallSize)
	}
	r.remove("small2")
	d.Set(Fault{Action: KILL, At: 1, Only: func(op Op) bool { return op.Name == "write" && strings.HasSuffix(op.File, "-wal") }},
		func() { p.signal(syscall.SIGKILL) })
	r.put("not-applied", smallSize)
	p.kill()
	if s := d.Lift(); s.Times != 1 || len(r.wrong) > 0 {
		return fmt.Errorf("the server was not killed as it should: %+v %v", s, r.wrong)
	}
	b.bases["crashed"] = base{crashed, r.m}
	return nil
}

// mount mounts a drive of that name.
func (b *Bench) mount(name string) (*Drive, error) {
	back, dir := filepath.Join(b.Dir, "back-"+name), filepath.Join(b.Dir, "drive-"+name)
	for _, path := range []string{back, dir} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return nil, err
		}
	}
	return Mount(back, dir)
}

// Row is what came of one script with one fault.
type Row struct {
	Script  string `json:"script"`
	Fault   Action `json:"fault"`
	ForEver bool   `json:"forEver"`
	Reads   bool   `json:"reads"`
	// Points is how many operations were tried, one after the other.
	Points int `json:"points"`
	// Acked and Failed count requests; those that failed by status and code.
	Acked  int            `json:"acknowledged"`
	Failed map[string]int `json:"failed"`
	// Then is how the server was after the fault (see point.then), by points; Met tells the same for each operation that met
	// the fault first, by its name and the kind of its file.
	Then map[string]int            `json:"then"`
	Met  map[string]map[string]int `json:"met"`
	// SlowestStart is the longest time from a start after the fault to a server that is ready, in milliseconds.
	SlowestStart int64       `json:"slowestStartMs"`
	Seconds      float64     `json:"seconds"`
	Violations   []Violation `json:"violations"`
}

// Violation is something that must not be.
type Violation struct {
	At   int    `json:"at"`
	Op   string `json:"operation"` // that met the fault first
	What string `json:"what"`
}

// String gives all on one line.
func (v Violation) String() string { return fmt.Sprintf("at %d (%s): %s", v.At, v.Op, v.What) }

// pointsMax bounds a sweep that does not end.
const pointsMax = 5000

// Sweep runs a script with the fault at the first operation, at the second, and so on until the script ends before the fault. Of fault,
// At is not used. An error means that the bench itself failed.
func (b *Bench) Sweep(s Script, fault Fault) (*Row, error) {
	begun := time.Now()
	row := &Row{Script: s.Name, Fault: fault.Action, ForEver: fault.ForEver, Reads: fault.Reads,
		Met: map[string]map[string]int{}, Failed: map[string]int{}, Then: map[string]int{}}
	var (
		next atomic.Int64
		end  atomic.Bool
		wg   sync.WaitGroup
		mu   sync.Mutex // guards row and errs
		errs []error
	)
	for w := range b.Workers {
		wg.Go(func() {
			d, err := b.mount(fmt.Sprint(w))
			for err == nil && !end.Load() {
				f := fault
				f.At = int(next.Add(1))
				p := &point{bench: b, drive: d, script: s, fault: f}
				if err = p.try(); err == nil && (p.struck.Times == 0 || f.At == pointsMax) {
					end.Store(true)
				}
				mu.Lock()
				p.report(row)
				mu.Unlock()
			}
			end.Store(true)
			if d != nil {
				err = errors.Join(err, d.Unmount())
			}
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	wg.Wait()
	row.Seconds = time.Since(begun).Seconds()
	return row, errors.Join(errs...)
}

// report adds a point to a row.
func (p *point) report(row *Row) {
	for _, what := range p.wrong {
		row.Violations = append(row.Violations, Violation{p.fault.At, p.struck.First.String(), what})
	}
	row.SlowestStart = max(row.SlowestStart, p.slowestStart.Milliseconds())
	if p.struck.Times == 0 {
		return
	}
	row.Points++
	op := p.struck.First.kind(filepath.Base(p.data))
	if row.Met[op] == nil {
		row.Met[op] = map[string]int{}
	}
	row.Met[op][p.then]++
	row.Then[p.then]++
	if p.run != nil {
		row.Acked += p.run.acked
		for k, n := range p.run.failed {
			row.Failed[k] += n
		}
	}
}

// kind returns the operation and the kind of its file. The data directory is called data.
func (o Op) kind(data string) string {
	file := o.File
	switch ext := filepath.Ext(file); {
	case ext == ".packed" || ext == ".large":
		file = "*" + ext
	case strings.Trim(file, "0123456789abcdef") == "":
		file = "DIR"
	case file == data:
		file = "DATA"
	}
	return o.Name + " " + file
}

// String is a line of a table.
func (r *Row) String() string {
	mode, class := "once", "changes"
	if r.ForEver {
		mode = "for ever"
	}
	if r.Reads {
		class = "reads"
	}
	return fmt.Sprintf("%-18s %-6s %-8s %-7s %4d points, %5d acknowledged, failed %v, then %v, ready within %d ms, %.0f s, %d violations",
		r.Script, r.Fault, mode, class, r.Points, r.Acked, r.Failed, r.Then, r.SlowestStart, r.Seconds, len(r.Violations))
}

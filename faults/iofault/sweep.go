package iofault

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Row is the result of one script with one fault.
type Row struct {
	Script  string
	Fault   Action
	ForEver bool
	Reads   bool
	Stride  int // every Stride-th operation was tried
	Features
	// Points is the number of operations at which the fault was injected, one per run.
	Points int
	// Acked and Failed count requests; those that failed by status and code.
	Acked  int
	Failed map[string]int
	// Then counts the points by the state of the server after the fault (see point.then). Met does the same for each
	// operation that the fault hit first, by its name and the kind of its file.
	Then map[string]int
	Met  map[string]map[string]int
	// SlowestStart is the longest time until the server was ready after a restart, in milliseconds.
	SlowestStart int64
	Seconds      float64
	Violations   []Violation
}

// Violation is a broken guarantee.
type Violation struct {
	At   int
	Op   string // the operation that the fault hit first
	What string
}

// String returns all fields on one line.
func (v Violation) String() string { return fmt.Sprintf("at %d (%s): %s", v.At, v.Op, v.What) }

// A sweep ends when three runs have not reached the fault. One is not enough, because background work of the server may
// happen either before or after the end of the script. pointsMax limits a sweep that would not end.
const (
	missesMax = 3
	pointsMax = 5000
)

// Sweep runs a script with the fault at the first operation, at the second, and so on, until the script ends before it
// reaches the fault. It ignores fault.At. An error means that the test bench itself failed.
func (b *Bench) Sweep(s Script, fault Fault) (*Row, error) {
	var err error
	if b.base, err = b.prepare(s.Base); err != nil {
		return nil, fmt.Errorf("the data directory %q: %w", s.Base, err)
	}
	begun := time.Now()
	stride := max(s.Stride, 1)
	if fault.Reads || fault.ForEver {
		stride = max(s.RestStride, 1)
	}
	row := &Row{Script: s.Name, Fault: fault.Action, ForEver: fault.ForEver, Reads: fault.Reads, Features: b.Features, Stride: stride,
		Met: map[string]map[string]int{}, Failed: map[string]int{}, Then: map[string]int{}}
	var (
		next atomic.Int64
		miss atomic.Int64 // runs that did not reach the fault
		wg   sync.WaitGroup
		mu   sync.Mutex // guards row and errs
		errs []error
	)
	for w := range b.Workers {
		wg.Go(func() {
			d, err := b.mount(fmt.Sprint(w))
			for err == nil && miss.Load() < missesMax {
				f := fault
				f.At = 1 + b.Turn%stride + (int(next.Add(1))-1)*stride
				p := &point{bench: b, drive: d, script: s, fault: f}
				if err = p.try(); p.struck.Times == 0 || f.At >= pointsMax {
					miss.Add(1)
				}
				mu.Lock()
				p.report(row)
				mu.Unlock()
			}
			miss.Store(missesMax)
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

// title returns the names of the script and the fault.
func (r *Row) title() string {
	mode, class := "once", "changes"
	if r.ForEver {
		mode = "forever"
	}
	if r.Reads {
		class = "reads"
	}
	return fmt.Sprintf("%-18s %-6s %-8s %s%v", r.Script, r.Fault, mode, class, r.Features)
}

// String returns a line of a table.
func (r *Row) String() string {
	return fmt.Sprintf("%s %4d points, %5d requests acknowledged, failures %v, servers after the fault %v, ready within %d ms, %.0f s, %d violations",
		r.title(), r.Points, r.Acked, r.Failed, r.Then, r.SlowestStart, r.Seconds, len(r.Violations))
}

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"orcas/perf/result"
)

// Plot is a picture of a scenario.
type Plot struct {
	Scenario string
	Name     string // of its file
	Title    string
	PNG      []byte
}

// line is one line of a plot.
type line struct {
	name   string
	points plotter.XYs
	dashed bool // a ceiling
}

// palette is distinguishable without red and green, after Okabe and Ito.
func palette(i int) color.Color {
	list := []color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {213, 94, 0, 255}}
	return list[i%len(list)]
}

// Plots draws what a run has of: latency against load, throughput against concurrency, packing on and off, and the time of a listing
// against the keys there are; each with the lines of the null server, and of the disk where it has to do with it.
func Plots(r *result.Run) ([]Plot, error) {
	var list []Plot
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		var drawings []*drawing
		switch s.Scenario {
		case "mixed-ramp":
			drawings = []*drawing{latencyAgainstLoad(s, r.Ceilings)}
		case "concurrent-1m", "workers-sweep":
			drawings = []*drawing{throughputAgainstWorkers(s, "put", r.Ceilings), throughputAgainstWorkers(s, "get", r.Ceilings)}
		case "batch-compare":
			drawings = []*drawing{packingOnAndOff(s, r.Ceilings)}
		case "list":
			drawings = []*drawing{listAgainstKeys(s, r.Ceilings)}
		}
		for _, d := range drawings {
			if len(d.lines) == 0 {
				continue
			}
			png, err := d.draw()
			if err != nil {
				return nil, fmt.Errorf("plot of %s: %w", s.Scenario, err)
			}
			list = append(list, Plot{s.Scenario, s.Scenario + d.suffix + ".png", d.title, png})
		}
	}
	return list, nil
}

// drawing is what a plot shows.
type drawing struct {
	title, x, y string
	suffix      string // of the name of its file, where a scenario has several
	logX, logY  bool
	lines       []line
}

// add adds points to the line of that name.
func (d *drawing) add(name string, x, y float64) {
	if x <= 0 || y <= 0 {
		return
	}
	i := slices.IndexFunc(d.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		i = len(d.lines)
		d.lines = append(d.lines, line{name: name})
	}
	d.lines[i].points = append(d.lines[i].points, plotter.XY{X: x, Y: y})
}

// ceiling draws a line over all x at y.
func (d *drawing) ceiling(name string, y float64) {
	lo, hi := d.extent()
	if y > 0 && hi.X > 0 {
		d.lines = append(d.lines, line{name, plotter.XYs{{X: lo.X, Y: y}, {X: hi.X, Y: y}}, true})
	}
}

// wall draws a line over all y at x.
func (d *drawing) wall(name string, x float64) {
	lo, hi := d.extent()
	if x > 0 && hi.Y > 0 {
		d.lines = append(d.lines, line{name, plotter.XYs{{X: x, Y: lo.Y}, {X: x, Y: hi.Y}}, true})
	}
}

// extent returns the corners of what was drawn so far; zero where there is nothing.
func (d *drawing) extent() (lo, hi plotter.XY) {
	for _, l := range d.lines {
		for _, p := range l.points {
			if hi.X == 0 {
				lo, hi = p, p
			}
			lo.X, lo.Y, hi.X, hi.Y = min(lo.X, p.X), min(lo.Y, p.Y), max(hi.X, p.X), max(hi.Y, p.Y)
		}
	}
	return lo, hi
}

// nullRow returns the null server's row of an operation of 4 KiB, with one connection or with the most; nil where there is none.
func nullRow(c *result.Ceilings, operation string, alone bool) (found *result.Row) {
	if c == nil {
		return nil
	}
	for i := range c.Null {
		n := &c.Null[i]
		if n.Operation == operation && n.SizeBytes == 4<<10 && (n.Workers <= 1) == alone && (found == nil || n.Workers > found.Workers) {
			found = n
		}
	}
	return found
}

func latencyAgainstLoad(s *result.Scenario, c *result.Ceilings) *drawing {
	d := &drawing{title: "Latency against load, open loop", x: "requests a second asked for", y: "p95, ms", logY: true}
	for i := range s.Results {
		r := &s.Results[i]
		if r.Operation == "all" || r.Operation == "mixed" {
			d.add(r.Variant, r.RequestedRPS, r.P95Ms)
		}
	}
	if len(d.lines) == 0 {
		for i := range s.Results {
			d.add(s.Results[i].Operation+" "+s.Results[i].Variant, s.Results[i].RequestedRPS, s.Results[i].P95Ms)
		}
	}
	if c != nil {
		for _, row := range c.Disk {
			if row.SizeBytes == 4<<10 && !row.Sequential {
				d.ceiling("fdatasync of 4 KiB, p50", row.P50us/1000)
			}
		}
	}
	for _, op := range []string{"get", "put"} {
		if n := nullRow(c, op, false); n != nil {
			d.wall("null server, "+op+" of 4 KiB: all that it gets", n.ThroughputRPS)
		}
	}
	return d
}

func throughputAgainstWorkers(s *result.Scenario, operation string, c *result.Ceilings) *drawing {
	d := &drawing{title: strings.ToUpper(operation) + " throughput against concurrency: " + s.Scenario, suffix: "-" + operation, x: "workers", y: "MB/s", logX: true, logY: true}
	sizes := map[int64]bool{}
	for i := range s.Results {
		if r := &s.Results[i]; r.Operation == operation {
			sizes[r.SizeBytes] = true
			d.add(size(r.SizeBytes), float64(r.Workers), r.BytesPerSec/1e6)
		}
	}
	if c != nil {
		for i := range c.Null {
			if n := &c.Null[i]; n.Operation == operation && sizes[n.SizeBytes] && n.Workers > 1 {
				d.ceiling("null server, "+size(n.SizeBytes), n.BytesPerSec/1e6)
			}
		}
	}
	return d
}

func packingOnAndOff(s *result.Scenario, c *result.Ceilings) *drawing {
	d := &drawing{title: "PUT of 4 KiB, packing on and off", x: "workers", y: "PUT a second", logX: true, logY: true}
	for i := range s.Results {
		if r := &s.Results[i]; r.SizeBytes == 4096 {
			d.add(words(r.Variant), float64(r.Workers), r.ThroughputRPS)
		}
	}
	if n := nullRow(c, "put", false); n != nil {
		d.ceiling("null server", n.ThroughputRPS)
	}
	return d
}

func listAgainstKeys(s *result.Scenario, c *result.Ceilings) *drawing {
	d := &drawing{title: "Time of a page of a listing against the keys there are", x: "keys", y: "p50, ms", logX: true, logY: true}
	for i := range s.Results {
		if r := &s.Results[i]; r.Variant != "walk" {
			d.add(r.Variant, r.Values["keys"], r.P50Ms)
		}
	}
	if n := nullRow(c, "get", true); n != nil {
		d.ceiling("null server, a GET of 4 KiB", n.P50Ms)
	}
	return d
}

// ticks are the marks of an axis, their numbers as in the tables.
type ticks struct{ plot.Ticker }

// Ticks implements plot.Ticker.
func (t ticks) Ticks(from, to float64) []plot.Tick {
	list := t.Ticker.Ticks(from, to)
	for i := range list {
		if list[i].Label != "" {
			list[i].Label = thousands(strconv.FormatFloat(list[i].Value, 'f', -1, 64))
		}
	}
	return list
}

// draw renders the plot.
func (d *drawing) draw() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = d.title, d.x, d.y
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	xs := map[float64]bool{}
	for i, l := range d.lines {
		slices.SortFunc(l.points, func(a, b plotter.XY) int {
			if a.X < b.X {
				return -1
			}
			return 1
		})
		drawn, dots, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return nil, err
		}
		drawn.Color, drawn.Width, dots.Color = palette(i), vg.Points(1.5), palette(i)
		if l.dashed {
			drawn.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
			p.Add(drawn)
			p.Legend.Add(l.name, drawn)
			continue
		}
		for _, xy := range l.points {
			xs[xy.X] = true
		}
		p.Add(drawn, dots)
		p.Legend.Add(l.name, drawn, dots)
	}
	if d.logX {
		p.X.Scale = plot.LogScale{}
		var marks []plot.Tick
		for _, x := range slices.Sorted(maps.Keys(xs)) {
			marks = append(marks, plot.Tick{Value: x, Label: thousands(fmt.Sprintf("%.0f", x))})
		}
		p.X.Tick.Marker = plot.ConstantTicks(marks)
	} else {
		p.X.Min, p.X.Tick.Marker = 0, ticks{plot.DefaultTicks{}}
	}
	if d.logY {
		// One power of ten more has room for the legend.
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(p.Y.Min))), math.Pow(10, math.Ceil(math.Log10(p.Y.Max))+1)
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, ticks{plot.LogTicks{}}
	} else {
		p.Y.Min, p.Y.Tick.Marker = 0, ticks{plot.DefaultTicks{}}
	}
	w, err := p.WriterTo(7*vg.Inch, 4*vg.Inch, "png")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.Bytes(), err
}

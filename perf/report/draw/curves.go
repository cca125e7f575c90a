package draw

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"

	"orcas/perf/report"
	"orcas/perf/result"
)

// curve is one curve of a plot.
type curve struct {
	name   string // name in the legend
	means  string // a description in words
	points plotter.XYs
	color  int  // index into the palette
	null   bool // the curve is of the null server, so it is dashed
}

// drawing is the content of a plot.
type drawing struct {
	title, x, y string
	suffix      string // suffix of the file name, if a scenario has several plots
	curves      []curve
	floor       float64 // the time of an fdatasync on the y scale; 0 if it is not shown
	notes       []string
}

// drawings returns the contents of a scenario's plots, or nil if it has none.
func drawings(s *result.Scenario, c *result.Ceilings) []*drawing {
	switch s.Scenario {
	case "mixed-ramp":
		return []*drawing{latencyAgainstLoad(s, c)}
	case "concurrent-1m", "workers-sweep":
		return []*drawing{throughputAgainstWorkers(s, "put"), throughputAgainstWorkers(s, "get")}
	case "batch-compare":
		return []*drawing{packingOnAndOff(s)}
	case "list":
		return []*drawing{listAgainstKeys(s)}
	case "multipart":
		return []*drawing{multipart(s)}
	case "growth":
		return []*drawing{rateAgainstObjects(s)}
	}
	return nil
}

// add adds a point to the curve with a name, which it creates if necessary.
func (d *drawing) add(name, means string, color int, null bool, x, y float64) {
	if x <= 0 || y <= 0 {
		return
	}
	i := slices.IndexFunc(d.curves, func(c curve) bool { return c.name == name })
	if i < 0 {
		i = len(d.curves)
		d.curves = append(d.curves, curve{name: name, means: means, color: color, null: null})
	}
	d.curves[i].points = append(d.curves[i].points, plotter.XY{X: x, Y: y})
}

// index returns the index of a value in a list, which is the number of its color. It adds the value if it is missing.
func index[T comparable](list *[]T, v T) int {
	i := slices.Index(*list, v)
	if i < 0 {
		*list = append(*list, v)
		i = len(*list) - 1
	}
	return i
}

func latencyAgainstLoad(s *result.Scenario, c *result.Ceilings) *drawing {
	d := &drawing{title: "Latency against load: a mix of requests at a given rate", x: "requested rate, per second", y: "95th percentile of latency, ms"}
	var mixes []string
	for i := range s.Results {
		r := &s.Results[i]
		mix := strings.TrimPrefix(r.Variant, "null: ")
		shares, kinds, _ := strings.Cut(mix, " ")
		color := index(&mixes, shares)
		if r.Null() {
			d.add("null server, "+shares, "the null server with the same requests at the same rates.", color, true, r.RequestedRPS, r.P95Ms)
		} else {
			d.add("ORCAS, "+shares, "ORCAS with objects of 4 KiB; "+shares+" are the shares of "+strings.ToUpper(kinds)+" in percent.", color, false, r.RequestedRPS, r.P95Ms)
		}
	}
	for _, mix := range mixes {
		if kept := s.Values["kept_up_rps_"+strings.ReplaceAll(mix, "/", "_")]; kept > 0 {
			d.notes = append(d.notes, fmt.Sprintf("With %s ORCAS keeps up with %s requests per second. At the next step, the last point of its curve, it does not: requests queue up, and the latency is mostly the time in the queue.",
				mix, report.Number(kept)))
		}
	}
	if c != nil {
		for _, row := range c.Disk {
			if row.SizeBytes == 4<<10 && !row.Sequential {
				d.floor = row.P50us / 1000
			}
		}
	}
	return d
}

func throughputAgainstWorkers(s *result.Scenario, operation string) *drawing {
	d := &drawing{title: strings.ToUpper(operation) + ": throughput against the number of connections", suffix: "-" + operation, x: "connections", y: "MB per second"}
	var sizes []int64
	for i := range s.Results {
		r := &s.Results[i]
		if r.Operation != operation {
			continue
		}
		size := report.Size(r.SizeBytes)
		if r.Null() {
			d.add("null server, "+size, "the null server with objects of "+size+".", index(&sizes, r.SizeBytes), true, float64(r.Workers), r.BytesPerSec/1e6)
		} else {
			d.add("ORCAS, "+size, "ORCAS with objects of "+size+", each connection with one request at a time.", index(&sizes, r.SizeBytes), false, float64(r.Workers), r.BytesPerSec/1e6)
		}
	}
	d.falls("MB/s")
	return d
}

// falls adds notes about curves that fall after their highest point, compared with the null server at the same points.
func (d *drawing) falls(unit string) {
	for _, c := range d.curves {
		if c.null || len(c.points) < 2 {
			continue
		}
		top, last := slices.MaxFunc(c.points, byY), slices.MaxFunc(c.points, byX)
		if last.Y > 0.9*top.Y {
			continue
		}
		fall := fmt.Sprintf("%s falls from %s %s at %s to %s at %s %s", c.name, report.Number(top.Y), unit, axisNumber(top.X), report.Number(last.Y), axisNumber(last.X), d.x)
		for _, n := range d.curves {
			if !n.null || n.color != c.color {
				continue
			}
			at := func(x float64) (y float64) {
				for _, p := range n.points {
					if p.X == x {
						y = p.Y
					}
				}
				return y
			}
			if before, after := at(top.X), at(last.X); before > 0 && after > 0 {
				fall += fmt.Sprintf("; the null server goes from %s to %s over the same points", report.Number(before), report.Number(after))
			}
		}
		d.notes = append(d.notes, fall+".")
	}
}

func byX(a, b plotter.XY) int { return int(math.Copysign(1, a.X-b.X)) }
func byY(a, b plotter.XY) int { return int(math.Copysign(1, a.Y-b.Y)) }

func packingOnAndOff(s *result.Scenario) *drawing {
	d := &drawing{title: "PUT of 4 KiB with packing on and off", x: "connections", y: "PUTs per second"}
	for i := range s.Results {
		r := &s.Results[i]
		if r.SizeBytes != 4096 {
			continue
		}
		switch workers := float64(r.Workers); {
		case r.Variant == "packing-on":
			d.add("packing on", "ORCAS with its defaults: objects of up to 64 KiB share blocks, syncs and transactions.", 0, false, workers, r.ThroughputRPS)
		case r.Variant == "packing-off":
			d.add("packing off", "ORCAS with `ORCAS_BATCH_WRITE_ENABLED=false`: each object has a block, a sync and a transaction of its own.", 1, false, workers, r.ThroughputRPS)
		case r.Null():
			d.add("null server", "the null server with the same number of connections: it stores nothing.", 2, true, workers, r.ThroughputRPS)
		}
	}
	return d
}

// listed describes the kinds of listings.
var listed = map[string]string{
	"first page":    "the first 1,000 of all keys, without a delimiter.",
	"few prefixes":  "all keys, with the delimiter `/`: ten common prefixes, each for a tenth of the keys.",
	"many prefixes": "one of these tenths, with the delimiter `/`: one common prefix for every ten keys, up to 1,000 per page. So the page for 10,000 keys has 100 prefixes, and those for more keys are full.",
}

func listAgainstKeys(s *result.Scenario) *drawing {
	d := &drawing{title: "LIST: time of one page against the number of keys in the bucket", x: "keys in the bucket", y: "median, ms"}
	var kinds []string
	for i := range s.Results {
		r := &s.Results[i]
		kind := strings.TrimPrefix(r.Variant, "null: ")
		means, known := listed[kind]
		switch {
		case !known: // the walk
		case r.Null():
			d.add("null server, "+kind, "the null server with a GET of as many bytes as the page has.", index(&kinds, kind), true, r.Values["keys"], r.P50Ms)
		default:
			d.add(kind, means, index(&kinds, kind), false, r.Values["keys"], r.P50Ms)
		}
	}
	return d
}

func multipart(s *result.Scenario) *drawing {
	d := &drawing{title: "Multipart uploads: throughput of their parts", x: "concurrent uploads", y: "MB per second"}
	for i := range s.Results {
		r := &s.Results[i]
		switch {
		case r.Operation != "part":
		case r.Null():
			d.add("null server", "the null server with PUTs of "+report.Size(r.SizeBytes)+" over as many connections.", 0, true, float64(r.Workers), r.BytesPerSec/1e6)
		default:
			d.add("ORCAS", "ORCAS with uploads in parts of "+report.Size(r.SizeBytes)+", one part of each upload at a time.", 0, false, float64(r.Workers), r.BytesPerSec/1e6)
		}
	}
	d.falls("MB/s")
	return d
}

// orders describes the orders of keys.
var orders = map[string]string{
	"sequential":  "in one ascending sequence",
	"random":      "in random order",
	"interleaved": "in an ascending sequence for each connection",
}

func rateAgainstObjects(s *result.Scenario) *drawing {
	d := &drawing{title: "Growth: rates against the number of objects, with " + s.Order + " keys", x: "objects in the store", y: "requests per second"}
	for i := range s.Results {
		r := &s.Results[i]
		size, connections := report.Size(r.SizeBytes), fmt.Sprintf("%d connections", r.Workers)
		switch x := r.Values["keys"]; {
		case r.Variant == result.NullVariant(s.Order):
			d.add("null server, PUT", "the null server with PUTs of "+size+" over "+connections+", measured right after each point.", 0, true, x, r.ThroughputRPS)
		case r.Variant != s.Order: // loads between two points, comparisons with the small store, and listings
		case r.Operation == "put":
			d.add("PUT", "ORCAS with new objects of "+size+" over "+connections+", their keys "+orders[s.Order]+": the PUTs that bring the store to this number of objects.", 0, false, x, r.ThroughputRPS)
		default:
			d.add("GET", "ORCAS with GETs of uniformly random objects over "+connections+".", 1, false, x, r.ThroughputRPS)
		}
	}
	d.falls("requests per second")
	return d
}

// words returns a description of each curve.
func (d *drawing) words() []string {
	var list []string
	for _, c := range d.curves {
		list = append(list, c.name+": "+c.means)
	}
	if d.floor > 0 {
		list = append(list, fmt.Sprintf("fdatasync: the median time of an append of 4 KiB and its fdatasync on this drive, %s ms. An acknowledged PUT has waited for at least one.", report.Number(d.floor)))
	}
	return append(list, d.notes...)
}

// decades is the span of the data, in powers of ten, from which on an axis is logarithmic.
const decades = 2

// logarithmic reports whether an axis from lo to hi should be logarithmic.
func logarithmic(lo, hi float64) bool { return lo > 0 && hi >= lo*math.Pow(10, decades) }

// extent returns the minimum and maximum coordinates of the curves.
func (d *drawing) extent() (lo, hi plotter.XY) {
	lo, hi = plotter.XY{X: math.Inf(1), Y: math.Inf(1)}, plotter.XY{}
	for _, c := range d.curves {
		for _, p := range c.points {
			lo.X, lo.Y, hi.X, hi.Y = min(lo.X, p.X), min(lo.Y, p.Y), max(hi.X, p.X), max(hi.Y, p.Y)
		}
	}
	return lo, hi
}

// legendWidth is the width of the legend at the right of a plot.
const legendWidth = 2.35 * vg.Inch

// draw renders the plot, with its legend beside it.
func (d *drawing) draw(c vgdraw.Canvas) error {
	p := plot.New()
	c.FillText(heading(12), vg.Point{X: c.Min.X + 4, Y: c.Max.Y - 12}, d.title)
	c = vgdraw.Crop(c, 0, 0, 0, -22)
	p.X.Tick.Label.Font, p.Y.Tick.Label.Font = style(9, black).Font, style(9, black).Font
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = pale, pale
	p.Add(grid)
	legend := plot.NewLegend()
	legend.Top, legend.Left, legend.YOffs, legend.XOffs, legend.Padding = true, true, -6, 10, 4
	legend.TextStyle.Font, legend.ThumbnailWidth = style(9, black).Font, 28
	lo, hi := d.extent()
	for _, v := range d.curves {
		slices.SortFunc(v.points, byX)
		line, dots, err := plotter.NewLinePoints(v.points)
		if err != nil {
			return err
		}
		line.Color, line.Width = palette(v.color), vg.Points(2)
		dots.Color, dots.Shape, dots.Radius = palette(v.color), vgdraw.CircleGlyph{}, vg.Points(3)
		if v.null {
			line.Width, line.Dashes = vg.Points(1.3), []vg.Length{vg.Points(5), vg.Points(3)}
			dots.Shape, dots.Radius = vgdraw.RingGlyph{}, vg.Points(2.5)
		}
		p.Add(line, dots)
		legend.Add(v.name, line, dots)
	}
	if d.floor > 0 {
		line, err := plotter.NewLine(plotter.XYs{{X: lo.X, Y: d.floor}, {X: hi.X, Y: d.floor}})
		if err != nil {
			return err
		}
		line.Color, line.Dashes = gray, []vg.Length{vg.Points(1), vg.Points(3)}
		p.Add(line)
		legend.Add("fdatasync of 4 KiB, median", line)
		lo.Y = min(lo.Y, d.floor)
	}
	d.axes(p, lo, hi)
	at := vgdraw.Crop(c, 20, -legendWidth, 20, 0)
	p.Draw(at)
	// The plot package reserves space for the labels of logarithmic axes as if they were at the end of the axis.
	label := style(10, black)
	label.XAlign = text.XCenter
	c.FillText(label, vg.Point{X: (at.Min.X + at.Max.X) / 2, Y: c.Min.Y + 4}, d.x)
	label.Rotation = math.Pi / 2
	c.FillText(label, vg.Point{X: c.Min.X + 14, Y: (at.Min.Y + at.Max.Y) / 2}, d.y)
	legend.Draw(vgdraw.Crop(c, c.Size().X-legendWidth, 0, 0, 0))
	return nil
}

// axes sets scales and ticks: linear from 0, or logarithmic if the data span two decades. The ticks of x are at the
// measured points.
func (d *drawing) axes(p *plot.Plot, lo, hi plotter.XY) {
	xs := map[float64]bool{}
	for _, c := range d.curves {
		for _, xy := range c.points {
			xs[xy.X] = true
		}
	}
	p.X.Min, p.X.Max = 0, hi.X*1.03
	at := func(x float64) float64 { return x / hi.X }
	if logarithmic(lo.X, hi.X) {
		p.X.Min, p.X.Max, p.X.Scale = lo.X/1.08, hi.X*1.12, plot.LogScale{}
		at = func(x float64) float64 { return math.Log(x/lo.X) / math.Log(hi.X/lo.X) }
	}
	p.X.Tick.Marker = plot.ConstantTicks(spaced(sortedKeys(xs), at))
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, hi.Y*1.06, even{}
	if logarithmic(lo.Y, hi.Y) {
		p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(lo.Y))), hi.Y*1.3
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powers{}
	}
}

// spaced labels those points of an axis that have space for a label, and always the last one; at returns the position
// of a point, from 0 to 1.
func spaced(xs []float64, at func(float64) float64) []plot.Tick {
	marks := make([]plot.Tick, len(xs))
	next := math.Inf(1)
	for i := len(xs) - 1; i >= 0; i-- {
		marks[i].Value = xs[i]
		label := axisNumber(xs[i])
		if place := at(xs[i]); next-place >= 0.02+0.012*float64(len(label)) {
			marks[i].Label, next = label, place
		}
	}
	return marks
}

func axisNumber(v float64) string {
	return report.Thousands(strconv.FormatFloat(math.Round(v), 'f', -1, 64))
}

// powers returns the ticks of a logarithmic axis: labels at powers of ten, and ticks without labels at their multiples.
type powers struct{}

// Ticks implements plot.Ticker.
func (powers) Ticks(from, to float64) (list []plot.Tick) {
	const rounding = 1e-9
	for e := math.Floor(math.Log10(from) + rounding); ; e++ {
		power := math.Pow(10, e)
		for times := 1.0; times < 10; times++ {
			v := times * power
			switch {
			case v > to*(1+rounding):
				return list
			case v < from*(1-rounding):
			case times == 1:
				list = append(list, plot.Tick{Value: v, Label: report.Thousands(strconv.FormatFloat(v, 'f', max(0, int(-e)), 64))})
			default:
				list = append(list, plot.Tick{Value: v})
			}
		}
	}
}

// even returns the ticks of a linear axis: between five and ten, at multiples of 1, 2 or 5 times a power of ten.
type even struct{}

// Ticks implements plot.Ticker.
func (even) Ticks(_, to float64) (list []plot.Tick) {
	power := math.Pow(10, math.Floor(math.Log10(to/5)))
	step := power
	for _, times := range []float64{2, 5} {
		if to/(times*power) >= 5 {
			step = times * power
		}
	}
	for i := 0; float64(i)*step <= to; i++ {
		v := float64(i) * step
		list = append(list, plot.Tick{Value: v, Label: report.Thousands(strconv.FormatFloat(v, 'f', max(0, int(math.Ceil(-math.Log10(step)))), 64))})
	}
	return list
}

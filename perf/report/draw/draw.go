// Package draw draws the plots of a performance run.
package draw

import (
	"bytes"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"orcas/perf/report"
	"orcas/perf/result"
)

// A picture is width by height, at a resolution that is sharp on high-density screens (twice the usual pixels).
const (
	width  = 9 * vg.Inch
	height = 5 * vg.Inch
	dpi    = 150
)

var (
	black = color.Gray{0x10}
	gray  = color.Gray{0x70}
	pale  = color.Gray{0xdd}
)

// palette returns a color that color-blind readers can distinguish from the others, after Okabe and Ito.
func palette(i int) color.Color {
	list := []color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {213, 94, 0, 255}, {86, 180, 233, 255}}
	return list[i%len(list)]
}

// Plots draws the following plots, as far as a run has figures for them: the summary, latency against load, throughput
// against concurrency, packing on and off, the time of a listing against the number of keys, and rates against the
// number of objects. Each shows the null server at the same points.
func Plots(r *result.Run) ([]report.Plot, error) {
	var list []report.Plot
	if s := report.Summarize(r); s != nil {
		png, err := picture(r, func(c vgdraw.Canvas) error { return bars(c, s) })
		if err != nil {
			return nil, err
		}
		list = append(list, report.Plot{Name: "summary.png", Title: "ORCAS compared with other servers on one machine", PNG: png, Text: []string{
			"Each bar shows the figure of one server in the table above. ORCAS is blue. The null server, which is gray, is the upper limit for an HTTP front end like that of ORCAS on this machine."}})
	}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		for _, d := range drawings(s, r.Ceilings) {
			if len(d.curves) == 0 {
				continue
			}
			png, err := picture(r, d.draw)
			if err != nil {
				return nil, fmt.Errorf("plot of %s: %w", s.Scenario, err)
			}
			list = append(list, report.Plot{Scenario: s.Scenario, Name: s.Scenario + d.suffix + ".png", Title: d.title, Text: d.words(), PNG: png})
		}
	}
	return list, nil
}

// picture draws on a white canvas, with the machine, the date and the commit of the run in the lower right corner, and
// returns the PNG.
func picture(r *result.Run, draw func(c vgdraw.Canvas) error) ([]byte, error) {
	img := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi))
	c := vgdraw.New(img)
	foot := style(7, gray)
	foot.XAlign = text.XRight
	c.FillText(foot, vg.Point{X: c.Max.X - 6, Y: c.Min.Y + 4}, origin(r))
	if err := draw(vgdraw.Crop(c, 8, -8, 18, -6)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err := vgimg.PngCanvas{Canvas: img}.WriteTo(&b)
	return b.Bytes(), err
}

// origin returns the machine, the date and the commit of a run.
func origin(r *result.Run) string {
	e := &r.Environment
	parts := []string{fmt.Sprintf("%s, %d cores", strings.NewReplacer("(R)", "", "(TM)", "").Replace(e.CPU), e.NumCPU)}
	if e.FileSystem != "" {
		parts = append(parts, e.FileSystem)
	}
	if e.SameMachine {
		parts = append(parts, "client on the same machine")
	}
	parts = append(parts, r.StartedAt.UTC().Format("2006-01-02"))
	if e.Commit != "" {
		parts = append(parts, "commit "+e.Commit)
	}
	return strings.Join(append(parts, "profile "+r.Profile), " | ")
}

// style returns a text style in the common font.
func style(size vg.Length, c color.Color) vgdraw.TextStyle {
	return vgdraw.TextStyle{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, Handler: plot.DefaultTextHandler}
}

// heading returns the text style of a title.
func heading(size vg.Length) vgdraw.TextStyle {
	s := style(size, black)
	s.Font.Weight = 3 // bold, in the scale of golang.org/x/image/font
	return s
}

// bars draws a panel for each line of the summary, with a bar for each server.
func bars(c vgdraw.Canvas, s *report.Summary) error {
	const columns = 2
	c.FillText(heading(12), vg.Point{X: c.Min.X, Y: c.Max.Y - 12}, "ORCAS compared with other servers, one machine, one run")
	c = vgdraw.Crop(c, 0, 0, 0, -20)
	rows := (len(s.Lines) + columns - 1) / columns
	w, h := c.Size().X/columns, c.Size().Y/vg.Length(rows)
	for i, l := range s.Lines {
		x, y := c.Min.X+w*vg.Length(i%columns), c.Max.Y-h*vg.Length(i/columns)
		panel(c, vg.Rectangle{Min: vg.Point{X: x, Y: y - h}, Max: vg.Point{X: x + w - 10, Y: y}}, l, s.Servers)
	}
	c.FillText(style(7, gray), vg.Point{X: c.Min.X, Y: c.Min.Y - 14}, "* does not sync before it responds: a power cut can lose acknowledged writes")
	return nil
}

// panel draws the bars of one line of the summary.
func panel(c vgdraw.Canvas, at vg.Rectangle, l report.Line, servers []result.Server) {
	better := "less is better"
	if l.More {
		better = "more is better"
	}
	c.FillText(heading(8), vg.Point{X: at.Min.X, Y: at.Max.Y - 8}, l.Title)
	unit := style(7, gray)
	unit.XAlign = text.XRight
	c.FillText(unit, vg.Point{X: at.Max.X, Y: at.Max.Y - 8}, l.Unit+", "+better)
	most := 0.0
	for _, v := range l.Values {
		if v != nil {
			most = max(most, *v)
		}
	}
	const names, figures = 84, 44 // space to the left and right of the bars
	step := (at.Max.Y - 12 - at.Min.Y - 4) / vg.Length(len(servers))
	for i, server := range servers {
		y := at.Max.Y - 12 - step*vg.Length(i+1)
		label := style(7, black)
		c.FillText(label, vg.Point{X: at.Min.X, Y: y + step/2 - 3}, short(server))
		if l.Values[i] == nil {
			c.FillText(style(7, gray), vg.Point{X: at.Min.X + names, Y: y + step/2 - 3}, "-")
			continue
		}
		long := vg.Length(0)
		if most > 0 {
			long = max((at.Max.X-at.Min.X-names-figures)*vg.Length(*l.Values[i]/most), 0.5)
		}
		x := at.Min.X + names
		c.FillPolygon(barColor(server, i), []vg.Point{{X: x, Y: y + step*0.14}, {X: x + long, Y: y + step*0.14}, {X: x + long, Y: y + step*0.86}, {X: x, Y: y + step*0.86}})
		c.FillText(style(7, black), vg.Point{X: x + long + 3, Y: y + step/2 - 3}, report.Figure(l.Values[i]))
	}
}

// short returns the name of a server, abbreviated, with an asterisk if the server does not sync.
func short(s result.Server) string {
	name := strings.Replace(s.Name, "S3 Gateway", "GW", 1)
	if s.SyncsPerPut != nil && *s.SyncsPerPut < 0.9 {
		name += " *"
	}
	return name
}

func barColor(s result.Server, i int) color.Color {
	switch s.Name {
	case "ORCAS":
		return palette(0)
	case "null server":
		return color.Gray{0xb8}
	}
	return palette(1 + max(i-1, 0)%4)
}

// sortedKeys returns the numbers of a set in ascending order.
func sortedKeys(set map[float64]bool) []float64 {
	list := make([]float64, 0, len(set))
	for k := range set {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

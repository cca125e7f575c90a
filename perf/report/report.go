// Package report writes reports on a performance run: Markdown, one HTML page, and the comparison of two runs. It
// measures nothing: all figures come from the document of package perf/result. Plots are drawn by package draw, because
// drawing needs fonts and other packages that the server program should not link.
package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orcas/perf/result"
)

// Table is a table of text.
type Table struct {
	Header []string
	Rows   [][]string
	Prose  bool   // cells are sentences rather than figures
	Limit  string // a sentence about the limits of its rows; may be empty
}

// Plot is a plot of a scenario, or of the summary.
type Plot struct {
	Scenario string // empty for the summary
	Name     string // file name
	Title    string
	Text     []string // a description of each curve
	PNG      []byte
}

// Section is a part of a report.
type Section struct {
	Title string
	Text  []string // paragraphs
	Table []Table
	Plots []Plot
	After []string // paragraphs after tables and plots
}

// Front returns the sections of the first page of a report.
func Front(r *result.Run, plots []Plot) []Section {
	return titled(summary(r, plots), goals(r, limitsOf(r)), environment(r))
}

// Tables returns sections with all figures of a run.
func Tables(r *result.Run, plots []Plot) []Section {
	l := limitsOf(r)
	list := []Section{method()}
	if r.Ceilings != nil {
		list = append(list, ceilings(r.Ceilings, l))
	}
	for i := range r.Scenarios {
		s := &r.Scenarios[i]
		if s.Scenario == "ceilings" || s.Scenario == "core" {
			continue // they have separate sections
		}
		list = append(list, scenario(s, plots, l))
	}
	return titled(append(append(append(list, benchmarks(r)...), failures(r)), elsewhere(r))...)
}

// titled returns the sections that have a title; empty sections have none.
func titled(list ...Section) []Section {
	return slices.DeleteFunc(list, func(s Section) bool { return s.Title == "" })
}

func environment(r *result.Run) Section {
	e := &r.Environment
	rows := [][]string{
		{"run", fmt.Sprintf("%s, profile %s, begun %s, took %.0f minutes", r.ID, r.Profile, r.StartedAt.UTC().Format("2006-01-02 15:04 UTC"), r.DurationSec/60)},
		{"machine", fmt.Sprintf("%s, %d cores, %.1f GiB, %s/%s, kernel %s", e.CPU, e.NumCPU, float64(e.MemoryBytes)/(1<<30), e.OS, e.Arch, e.Kernel)},
		{"disk", fmt.Sprintf("%s; append and fdatasync of 4 KiB: p50 %.0f us, p99 %.0f us", e.FileSystem, e.FdatasyncP50us, e.FdatasyncP99us)},
		{"server", strings.TrimSpace(fmt.Sprintf("%s %s, %s; durability %s", e.Server, e.Commit, e.GoVersion, e.Durability))},
		{"client", fmt.Sprintf("%s, bodies %s; on the same machine: %v", e.Protocol, e.SigningMode, e.SameMachine)},
	}
	if e.Encryption != "" {
		rows = append(rows, []string{"encryption by", e.Encryption})
	}
	for _, name := range slices.Sorted(maps.Keys(e.Settings)) {
		rows = append(rows, []string{name, e.Settings[name]})
	}
	return Section{Title: "Environment", After: r.Notes, Table: []Table{{Header: []string{"", ""}, Rows: rows, Prose: true}}}
}

// goals collects the goals of all scenarios. The rows of a goal that is a comparison contain its name.
func goals(r *result.Run, l *limits) Section {
	t := Table{Header: []string{"goal", "required", "measured", "", "limited by"}, Prose: true}
	var found []limit
	for _, s := range r.Scenarios {
		for _, g := range s.Goals {
			mark, by := "met", ""
			if !g.Met {
				mark = "**missed**"
			}
			if i := slices.IndexFunc(s.Results, func(row result.Row) bool { return row.Variant == g.Name+": orcas" }); i >= 0 {
				found = append(found, l.of(&s.Results[i], nil))
				by = found[len(found)-1].String()
			}
			t.Rows = append(t.Rows, []string{g.Name, g.Limit, Number(g.Value), mark, by})
		}
	}
	t.Limit = l.sentence(found)
	return Section{Title: "Goals", Text: []string{"Each ratio compares two loads of this run that were measured alternately or, if a difference of 1 % matters, at the same time. In that case each load had about half of the machine, and the client's CPU time is that of both loads. The median counts."}, Table: tables(t)}
}

func ceilings(c *result.Ceilings, l *limits) Section {
	disk := Table{Header: []string{"one writer", "p50 us", "p99 us", "MB/s"}, Limit: l.diskSentence()}
	for _, d := range c.Disk {
		name := Size(d.SizeBytes) + " appended, fdatasync"
		if d.Sequential {
			name = Size(d.SizeBytes) + " written, one sync at the end"
		}
		disk.Rows = append(disk.Rows, []string{name, Number(d.P50us), Number(d.P99us), mb(d.BytesPerSec)})
	}
	memory := Table{Header: []string{"one core", "MB/s"}, Limit: l.memorySentence()}
	for _, m := range c.Memory {
		memory.Rows = append(memory.Rows, []string{m.Function, mb(m.BytesPerSec)})
	}
	return Section{
		Title: "Ceilings",
		Text: []string{"The null server has the same HTTP front end: it verifies signatures, reads and hashes bodies, and stores nothing. No server with such a front end can be " +
			"faster on this machine. The disk limits how much can be made durable, and the hashes limit how much can be verified."},
		Table: tables(rows(c.Null, l), disk, memory),
	}
}

func scenario(s *result.Scenario, plots []Plot, l *limits) Section {
	sec := Section{Title: s.Scenario}
	var facts []string
	if s.SeedCount > 0 {
		facts = append(facts, fmt.Sprintf("%d keys", s.SeedCount))
	}
	if s.Order != "" {
		facts = append(facts, "Order of keys: "+s.Order)
	}
	if s.SaturationRPS > 0 {
		facts = append(facts, fmt.Sprintf("saturation at %.0f requests per second", s.SaturationRPS))
	}
	if len(facts) > 0 {
		sec.Text = append(sec.Text, strings.Join(facts, ", ")+".")
	}
	if s.Note != "" {
		sec.Text = append(sec.Text, s.Note)
	}
	if s.Scenario == "batch-compare" {
		sec.Table = tables(packing(s, l))
	} else {
		sec.Table = tables(rows(s.Results, l))
	}
	values := Table{Header: []string{"", ""}, Limit: l.values(s)}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		values.Rows = append(values.Rows, []string{words(name), Number(s.Values[name])})
	}
	sec.Table = append(sec.Table, tables(values)...)
	for _, p := range plots {
		if p.Scenario == s.Scenario {
			sec.Plots = append(sec.Plots, p)
		}
	}
	return sec
}

// packing returns a table that compares packing on and off.
func packing(s *result.Scenario, l *limits) Table {
	t := Table{Header: []string{"size", "workers", "off: PUT/s", "on: PUT/s", "gain", "on: MB/s", "on: p50 ms", "p95 ms", "p99 ms", "CPU us off", "CPU us on", "on of null",
		"off limited by", "on limited by"}}
	for i := range s.Results {
		on := &s.Results[i]
		if on.Variant != "packing-on" {
			continue
		}
		off, offBy := &result.Row{}, ""
		for j := range s.Results {
			if x := &s.Results[j]; x.Variant == "packing-off" && x.SizeBytes == on.SizeBytes && x.Workers == on.Workers {
				off, offBy = x, l.of(x, nil).String()
			}
		}
		t.Rows = append(t.Rows, []string{
			Size(on.SizeBytes), fmt.Sprint(on.Workers), Number(off.ThroughputRPS), Number(on.ThroughputRPS), fmt.Sprintf("%.2f", on.ThroughputRPS/max(off.ThroughputRPS, 1e-9)),
			mb(on.BytesPerSec), Number(on.P50Ms), Number(on.P95Ms), Number(on.P99Ms), Number(off.ServerCPUus), Number(on.ServerCPUus),
			hundredths(l.ofNull(on)), offBy, l.of(on, nil).String(),
		})
	}
	t.Limit = l.sentence(l.all(s.Results))
	return t
}

// column is a figure of rows. It is shown if at least one row has the figure.
type column struct {
	name string
	of   func(r *result.Row) string
}

// columns returns the columns of the general table.
func columns(list []result.Row, l *limits) []column {
	all := []column{
		{"operation", func(r *result.Row) string { return r.Operation }},
		{"variant", func(r *result.Row) string { return r.Variant }},
		{"size", func(r *result.Row) string { return Size(r.SizeBytes) }},
		{"workers", func(r *result.Row) string {
			if r.OpenLoop {
				return "open"
			}
			return fmt.Sprint(r.Workers)
		}},
		{"requested /s", func(r *result.Row) string { return Number(r.RequestedRPS) }},
		{"sent /s", func(r *result.Row) string {
			if !r.OpenLoop || r.SentRPS == r.RequestedRPS {
				return ""
			}
			return Number(r.SentRPS)
		}},
		{"ok /s", func(r *result.Row) string { return Number(r.ThroughputRPS) }},
		{"MB/s", func(r *result.Row) string { return mb(r.BytesPerSec) }},
		{"mean ms", func(r *result.Row) string { return Number(r.MeanMs) }},
		{"p50 ms", func(r *result.Row) string { return Number(r.P50Ms) }},
		{"p95 ms", func(r *result.Row) string { return Number(r.P95Ms) }},
		{"p99 ms", func(r *result.Row) string { return Number(r.P99Ms) }},
		{"max ms", func(r *result.Row) string { return Number(r.MaxMs) }},
		{"err %", func(r *result.Row) string { return fmt.Sprintf("%.2g", 100*r.ErrorRate) }},
		{"samples", func(r *result.Row) string { return fmt.Sprint(r.Samples) }},
		{"server CPU us", func(r *result.Row) string { return Number(r.ServerCPUus) }},
		{"client CPU us", func(r *result.Row) string { return Number(r.ClientCPUus) }},
		{"RSS MiB", func(r *result.Row) string { return Number(float64(r.PeakRSS) / (1 << 20)) }},
		{"MD5", func(r *result.Row) string { return r.MD5 }},
	}
	names := map[string]bool{}
	for i := range list {
		for name := range list[i].Values {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		all = append(all, column{words(name), func(r *result.Row) string {
			v, ok := r.Values[name]
			if !ok {
				return ""
			}
			return Number(v)
		}})
	}
	all = append(all,
		column{"of null", func(r *result.Row) string { return hundredths(l.ofNull(r)) }},
		column{"limited by", func(r *result.Row) string { return l.of(r, list).String() }})
	return slices.DeleteFunc(all, func(c column) bool {
		return !slices.ContainsFunc(list, func(r result.Row) bool { return c.of(&r) != "" })
	})
}

// rows returns the general table.
func rows(list []result.Row, l *limits) Table {
	t := Table{Limit: l.sentence(l.all(list))}
	cols := columns(list, l)
	for _, c := range cols {
		t.Header = append(t.Header, c.name)
	}
	for i := range list {
		var line []string
		for _, c := range cols {
			line = append(line, c.of(&list[i]))
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

func failures(r *result.Run) Section {
	t := Table{Header: []string{"scenario", "error"}, Prose: true}
	for _, f := range r.Failures {
		t.Rows = append(t.Rows, []string{f.Scenario, f.Error})
	}
	if len(t.Rows) == 0 {
		return Section{}
	}
	return Section{Title: "Failed scenarios", Table: tables(t)}
}

// tables returns the tables that are not empty.
func tables(list ...Table) []Table {
	return slices.DeleteFunc(list, func(t Table) bool { return len(t.Rows) == 0 })
}

// Number formats a number with three significant digits, or with all digits before the decimal point. It returns "" for
// 0, which means not measured.
func Number(v float64) string {
	switch {
	case v == 0:
		return ""
	case v >= 10_000:
		return Thousands(fmt.Sprintf("%.0f", v))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Thousands adds thousands separators to the digits of a number.
func Thousands(digits string) string {
	if strings.ContainsAny(digits, ".e") {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// hundredths formats a ratio with two decimals. It returns "" for 0, which means not measured.
func hundredths(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", v)
}

// mb formats bytes per second in MB (10^6 bytes) per second.
func mb(bytesPerSec float64) string { return Number(bytesPerSec / 1e6) }

// Size formats a number of bytes in the largest unit that divides it, and returns "" for 0.
func Size(n int64) string {
	switch {
	case n == 0:
		return ""
	case n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// words makes the name of a value, which contains its units, readable.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }

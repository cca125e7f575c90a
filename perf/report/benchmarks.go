package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"orcas/perf/result"
)

// ReadBenchmarks reads the output of `go test -bench`; name is used in errors. It skips lines that are not results. It
// returns an error if the output has no results, or if a result is malformed. If a benchmark was run several times, it
// returns the medians.
func ReadBenchmarks(from io.Reader, name string) ([]result.Benchmark, error) {
	var list []result.Benchmark
	runs := map[string][]float64{} // by package, name and unit
	pkg, cpu := "", ""
	lines := bufio.NewScanner(from)
	for number := 1; lines.Scan(); number++ {
		text := lines.Text()
		if v, ok := strings.CutPrefix(text, "pkg: "); ok {
			pkg = v
		}
		if v, ok := strings.CutPrefix(text, "cpu: "); ok {
			cpu = v
		}
		f := strings.Fields(text)
		if !strings.HasPrefix(text, "Benchmark") || len(f) < 2 { // go test -v prints the name alone before the benchmark runs
			continue
		}
		b, err := benchmark(f)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		b.Package, b.CPU = pkg, cpu
		i := slices.IndexFunc(list, func(x result.Benchmark) bool { return x.Package == b.Package && x.Name == b.Name })
		if i < 0 {
			i = len(list)
			list = append(list, b)
		}
		for unit, v := range b.Values {
			key := b.Package + " " + b.Name + " " + unit
			runs[key] = append(runs[key], v)
			slices.Sort(runs[key])
			list[i].Values[unit] = runs[key][len(runs[key])/2]
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s contains no benchmark results", name)
	}
	return list, nil
}

// processors matches the number of processors that go test appends to a name, unless it is 1.
var processors = regexp.MustCompile(`-[0-9]+$`)

// benchmark parses the fields of a line: the name, the number of iterations, and pairs of a figure and its unit.
func benchmark(f []string) (b result.Benchmark, err error) {
	b.Name = processors.ReplaceAllString(strings.TrimPrefix(f[0], "Benchmark"), "")
	if b.Iters, err = strconv.Atoi(f[1]); err != nil || len(f) < 4 || len(f)%2 != 0 {
		return b, fmt.Errorf("%q is not a benchmark result", strings.Join(f, " "))
	}
	b.Values = map[string]float64{}
	for i := 2; i < len(f); i += 2 {
		if b.Values[f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
			return b, err
		}
	}
	return b, nil
}

// benchmarks returns a section with a table for each package, or no section if the run has no benchmarks.
func benchmarks(r *result.Run) []Section {
	if len(r.Benchmarks) == 0 {
		return nil
	}
	sec := Section{Title: "Go benchmarks", Text: []string{
		"Benchmarks of each layer by itself, in one process: go test -run '^$' -bench . -benchmem, on " + r.Benchmarks[0].CPU + ". Allocations are those of the benchmark's whole process.",
	}}
	var packages []string
	for _, b := range r.Benchmarks {
		if !slices.Contains(packages, b.Package) {
			packages = append(packages, b.Package)
		}
	}
	for _, pkg := range packages {
		sec.Table = append(sec.Table, benchmarkTable(r, pkg))
	}
	return []Section{sec}
}

// benchmarkTable returns the table of a package. Units that only some packages have come last.
func benchmarkTable(r *result.Run, pkg string) Table {
	var list []result.Benchmark
	units := []string{"ns/op", "MB/s", "B/op", "allocs/op"}
	var more []string
	for _, b := range r.Benchmarks {
		if b.Package != pkg {
			continue
		}
		list = append(list, b)
		for unit := range b.Values {
			if !slices.Contains(units, unit) && !slices.Contains(more, unit) {
				more = append(more, unit)
			}
		}
	}
	slices.Sort(more)
	units = slices.DeleteFunc(append(units, more...), func(unit string) bool {
		return !slices.ContainsFunc(list, func(b result.Benchmark) bool { _, ok := b.Values[unit]; return ok })
	})
	t := Table{Header: append([]string{pkg}, units...), Limit: benchmarkLimit(r, list)}
	for _, b := range list {
		line := []string{b.Name}
		for _, unit := range units {
			cell := ""
			if v, ok := b.Values[unit]; ok {
				cell = counted(v)
			}
			line = append(line, cell)
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// counted formats a figure that may be a count, which has no fraction and may be 0.
func counted(v float64) string {
	if v == math.Trunc(v) && v < 10_000 {
		return fmt.Sprintf("%.0f", v)
	}
	return Number(v)
}

// benchmarkLimit compares a package's benchmarks with the run's fdatasync, if both ran on the same kind of processor:
// an operation that must be durable waits for an fdatasync, or shares one.
func benchmarkLimit(r *result.Run, list []result.Benchmark) string {
	sync := 1000 * r.Environment.FdatasyncP50us
	if sync == 0 || list[0].CPU != r.Environment.CPU {
		return ""
	}
	byTime := func(a, b result.Benchmark) int { return cmp.Compare(a.Values["ns/op"], b.Values["ns/op"]) }
	least, most := slices.MinFunc(list, byTime), slices.MaxFunc(list, byTime)
	return fmt.Sprintf("Compared with this run's fdatasync of 4 KiB (%.0f us): the fastest, %s, takes %s times as long, the slowest, %s, %s times.",
		sync/1000, least.Name, Number(least.Values["ns/op"]/sync), most.Name, Number(most.Values["ns/op"]/sync))
}

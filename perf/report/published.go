package report

import (
	"fmt"
	"strings"

	"orcas/perf/result"
)

// published compares figures that others have published with figures of this run.
type published struct {
	what, figures, conditions string
	ours                      func(o ours) string // returns the figure of this run, or "" if it has none; nil if no run measures it
	served                    bool                // ORCAS supports this, so a run without the figure was shortened
}

// elsewhere returns the section about figures that others have published. Their machines and conditions differ from
// ours; each row states the conditions.
func elsewhere(r *result.Run) Section {
	t := Table{Header: []string{"what", "figures", "conditions", "this run"}, Prose: true}
	for _, p := range append(publishedPacking(), append(publishedFiles(), publishedServers()...)...) {
		mine := ""
		if p.ours != nil {
			mine = p.ours(ours{r})
		}
		switch {
		case mine == "" && p.served:
			mine = "not in this run"
		case mine == "":
			mine = "not measured yet"
		}
		t.Rows = append(t.Rows, []string{p.what, p.figures, p.conditions, mine})
	}
	return Section{
		Title: "Published elsewhere",
		Text: []string{"Figures that others published, from their machines and under their conditions, next to the figures of this run for the same kind of work. In this run, requests go over " +
			"sockets and are signed, writes are durable, and data that is read is compared. Figures without sockets, signatures or durability are for less work. Requested rates do not show what " +
			"a server can do."},
		Table: []Table{t},
		After: []string{"[1] github.com/orcastor/orcas, s3/docs/PERFORMANCE_TEST_REPORT.md. [2] The same project, vfs/PERFORMANCE_OPTIMIZATION_FINAL.md and its earlier versions. " +
			"[3] github.com/gmoon/s3proxy, docs/performance.md, which gives lower bounds. [4] The object store Buckets, \"Buckets Performance Benchmark Results\", 2026-02-27. " +
			"[5] The publication names the systems, but it could not be found again, so its author is unknown."},
	}
}

func publishedPacking() []published {
	return []published{
		{"OrcaS [1], PUT/s of 1, 4, 64 KiB, packing on", "1 thread 409, 629, 482; 10: 1,226, 1,584, 1,277; 50: 1,545, 1,482, 973; 100: 1,589, 1,297, 953",
			"Apple M4 Pro; in process with httptest: no signature, not durable", func(o ours) string { return o.packing("packing-on") }, true},
		{"OrcaS [1], the same, packing off", "264, 249, 241; 740, 729, 723; 779, 805, 712; 721, 735, 727", "as above", func(o ours) string { return o.packing("packing-off") }, true},
		{"OrcaS [1], the same, 10 MiB", "at 10, 50, 100: 1,063, 1,643, 2,126 MB/s", "as above", func(o ours) string {
			return o.list("batch-compare", "put", "packing-on", 10<<20, []int{10, 50, 100}, megabytes)
		}, true},
		{"OrcaS [1], the same, 1 MiB", "at 1, 10, 50, 100: 16.9, 165, 521, 774 MB/s", "as above", func(o ours) string {
			return o.list("concurrent-1m", "put", "", 1<<20, []int{1, 10, 50, 100}, megabytes)
		}, true},
		{"OrcaS [1], instant upload, 10 KiB", "duplicate 2.63 ms, unique 3.45 ms (1.31 times); 6,677 and 15,927 allocations", "as above", instantGain, true},
		{"OrcaS [1], instant upload, overhead on unique content", "1 KiB -10.6 %, 10 KiB -6.9 %, 100 KiB -1.8 %, 1 MiB +1.8 %, 10 MiB +13.9 %", "as above", instantOverhead, true},
	}
}

// instantGain compares the time of a PUT of existing content with that of new content.
func instantGain(o ours) string {
	duplicate, unique := o.row("instant", "put", "duplicate", 10<<10, 0), o.row("instant", "put", "unique", 10<<10, 0)
	if duplicate == nil || unique == nil || duplicate.P50Ms == 0 {
		return ""
	}
	text := fmt.Sprintf("duplicate %s ms, unique %s ms (%.2f times)", Number(duplicate.P50Ms), Number(unique.P50Ms), unique.P50Ms/duplicate.P50Ms)
	less, more := o.benchmark("Instant/10240/duplicate", "allocs/op"), o.benchmark("Instant/10240/unique", "allocs/op")
	if less == "" || more == "" {
		return text
	}
	return text + "; in process " + less + " and " + more
}

// instantOverhead compares the times of new content with and without instant upload, for each size.
func instantOverhead(o ours) string {
	var parts []string
	for i := range o.run.Scenarios {
		s := &o.run.Scenarios[i]
		for _, bytes := range []int64{1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20} {
			if v, ok := s.Values[fmt.Sprintf("overhead_percent_%d", bytes)]; ok {
				parts = append(parts, fmt.Sprintf("%s %+.1f %%", Size(bytes), v))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// publishedFiles returns figures for writing in process. Ours are from Go benchmarks, whose names are given.
func publishedFiles() []published {
	const conditions = "Apple M4 Pro; in process, not durable; ours: in process, durable"
	mb := func(name string) func(ours) string { return func(o ours) string { return o.benchmark(name, "MB/s") } }
	return []published{
		{"OrcaS [2], files in process, small (4 KiB)", "41,743/s, 163 MB/s", conditions, func(o ours) string {
			return join(o.benchmark("Files/small", "files/s"), o.benchmark("Files/small", "MB/s"))
		}, true},
		{"OrcaS [2], medium (256 KiB)", "2,147 MB/s", "as above", mb("Files/medium"), true},
		{"OrcaS [2], small, 3 at a time", "2,898/s", "as above", func(o ours) string { return o.benchmark("Files/small-concurrent", "files/s") }, true},
		{"OrcaS [2], large (100 MiB)", "2,676 MB/s", "as above", mb("Files/large"), true},
		{"OrcaS [2], sequential (1 MiB)", "974 MB/s", "as above", mb("Files/sequential"), true},
		{"OrcaS [2], 256 KiB encrypted", "276 MB/s", "as above", mb("Files/encrypted"), true},
		{"OrcaS [2], 256 KiB compressed", "1,007 MB/s", "as above", mb("Files/compressed"), true},
		{"OrcaS [2], 256 KiB both", "1,036 MB/s", "as above", mb("Files/compressed-encrypted"), true},
		{"OrcaS [2], large, both", "2,244 MB/s", "as above", mb("Files/large-compressed-encrypted"), true},
		{"OrcaS [2], sequential, both", "973 MB/s", "as above", mb("Files/sequential-compressed-encrypted"), true},
		{"OrcaS [2], random places (512 KiB)", "346 MB/s", "as above", mb("Files/random"), false},
		{"OrcaS [2], random, both", "211 MB/s", "as above", mb("Files/random-compressed-encrypted"), false},
		{"OrcaS [2], random, overlapping (1 MiB)", "494 MB/s", "as above", mb("Files/random-overlapping"), false},
		{"OrcaS [2], random, small (64 KiB)", "514 MB/s", "as above", mb("Files/random-small"), false},
	}
}

func publishedServers() []published {
	return []published{
		{"s3proxy [3], below 1 KB", "500/s or more, p50 45, p95 85, p99 150 ms", "t3.medium, a web front end for AWS S3; ours: at a rate of 500/s", func(o ours) string { return o.rate("get-warm", "get", "warm", 1<<10) }, true},
		{"s3proxy [3], 1 MB", "100/s or more, 120, 280, 450 ms", "as above", func(o ours) string { return o.rate("get-warm", "get", "warm", 1<<20) }, true},
		{"s3proxy [3], 10 MB", "50/s or more, 250, 450, 800 ms", "as above; ours: a fifth of the requests to a website", func(o ours) string { return o.rate("web-sustained", "large", "at 100/s", 10<<20) }, true},
		{"s3proxy [3], memory", "RSS 45 to 52 MB", "as above", webMemory, true},
		{"s3proxy [3], ranges of 100 B, 1 KB, 100 KB", "800/s or more, p95 65 ms; 750/s, 75 ms; 400/s, 120 ms", "as above", func(o ours) string {
			var parts []string
			for _, size := range []int64{100, 1 << 10, 100 << 10} {
				parts = append(parts, o.rate("range", "get", "range", size))
			}
			return join(parts...)
		}, true},
		{"Buckets [4], files of 1 MB", "up 8.0, down 32.3 MB/s", "6 nodes on loopback, erasure code of 8+4", func(o ours) string { return o.upDown(1 << 20) }, true},
		{"Buckets [4], files of 2 MB", "up 1.6, down 47.6 MB/s", "as above", func(o ours) string { return o.upDown(2 << 20) }, true},
		{"SeaweedFS, Garage, MinIO [5], creates of 1 KiB per second, 1 million in all", "4,572; 2,877; 498", "laptop, 16 clients; ours: 10 clients", func(o ours) string {
			return o.list("batch-compare", "put", "packing-on", 1<<10, []int{10}, perSecond)
		}, true},
		{"SeaweedFS, Garage, MinIO [5], listed keys per second", "224,930; 27,695; 4,573", "laptop, 16 clients; ours: 1 client", walked, true},
	}
}

// webMemory returns the server's peak memory while it served the website.
func webMemory(o ours) string {
	row := o.row("web-sustained", "all", "at 100/s", 0, 0)
	if row == nil || row.PeakRSS == 0 {
		return ""
	}
	return "RSS " + Number(float64(row.PeakRSS)/1e6) + " MB"
}

// walked returns the result of the walk over the largest namespace.
func walked(o ours) string {
	best := ""
	o.each("list", func(r *result.Row) {
		if r.Variant == "walk" { // the last one is the largest
			best = fmt.Sprintf("%s, in a walk over %s", Number(r.Values["keys_per_sec"]), Number(r.Values["keys"]))
		}
	})
	return best
}

// ours finds figures in a run. Its methods return "" for figures that do not exist.
type ours struct{ run *result.Run }

func (o ours) each(scenario string, do func(r *result.Row)) {
	for i := range o.run.Scenarios {
		if s := &o.run.Scenarios[i]; s.Scenario == scenario {
			for j := range s.Results {
				do(&s.Results[j])
			}
		}
	}
}

// row returns a row. If workers is 0, any number of workers matches.
func (o ours) row(scenario, operation, variant string, size int64, workers int) (found *result.Row) {
	o.each(scenario, func(r *result.Row) {
		if r.Operation == operation && r.Variant == variant && r.SizeBytes == size && (workers == 0 || r.Workers == workers) {
			found = r
		}
	})
	return found
}

func perSecond(r *result.Row) string { return Number(r.ThroughputRPS) + "/s" }

func megabytes(r *result.Row) string { return mb(r.BytesPerSec) + " MB/s" }

// list returns a figure for growing numbers of workers.
func (o ours) list(scenario, operation, variant string, size int64, workers []int, figure func(*result.Row) string) string {
	var parts []string
	for _, w := range workers {
		if r := o.row(scenario, operation, variant, size, w); r != nil {
			parts = append(parts, fmt.Sprintf("at %d: %s", w, figure(r)))
		}
	}
	return strings.Join(parts, "; ")
}

// packing returns the PUTs per second of 1, 4 and 64 KiB for growing numbers of workers.
func (o ours) packing(variant string) string {
	var lines []string
	for _, workers := range []int{1, 10, 50, 100} {
		var line []string
		for _, size := range []int64{1 << 10, 4 << 10, 64 << 10} {
			if r := o.row("batch-compare", "put", variant, size, workers); r != nil {
				line = append(line, Number(r.ThroughputRPS))
			}
		}
		if len(line) == 3 {
			lines = append(lines, fmt.Sprintf("at %d: %s", workers, strings.Join(line, ", ")))
		}
	}
	return strings.Join(lines, "; ")
}

// rate returns requests per second with their latencies.
func (o ours) rate(scenario, operation, variant string, size int64) string {
	r := o.row(scenario, operation, variant, size, 0)
	if r == nil {
		return ""
	}
	parts := []string{perSecond(r)}
	for _, p := range []struct {
		name string
		ms   float64
	}{{"p50", r.P50Ms}, {"p95", r.P95Ms}, {"p99", r.P99Ms}} {
		if p.ms > 0 {
			parts = append(parts, p.name+" "+Number(p.ms))
		}
	}
	return strings.Join(parts, ", ") + " ms"
}

// upDown returns the figures of single files, transferred one at a time.
func (o ours) upDown(size int64) string {
	up, down := o.row("file-sweep", "put", "", size, 0), o.row("file-sweep", "get", "", size, 0)
	if up == nil || down == nil {
		return ""
	}
	return "up " + mb(up.BytesPerSec) + ", down " + megabytes(down)
}

// benchmark returns a figure of a Go benchmark.
func (o ours) benchmark(name, unit string) string {
	for _, b := range o.run.Benchmarks {
		if v, ok := b.Values[unit]; ok && b.Name == name {
			return Number(v) + " " + unit
		}
	}
	return ""
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	var list []string
	for _, p := range parts {
		if p != "" {
			list = append(list, p)
		}
	}
	return strings.Join(list, "; ")
}

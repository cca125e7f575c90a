package report

import (
	"fmt"
	"strings"

	"orcas/perf/result"
)

// Summary contains a few figures of ORCAS and other servers from one run, for a quick overview.
type Summary struct {
	Servers []result.Server // servers that have figures, the null server last
	Missing []result.Server // servers that have none, with the reason
	Lines   []Line
}

// Line is one figure of each server.
type Line struct {
	Title, Unit string
	More        bool       // whether more is better
	Values      []*float64 // one for each of Servers; nil if not measured
}

const (
	ourName  = "ORCAS"
	nullName = "null server"
)

// Summarize returns the summary of a run, or nil if the run did not compare servers.
func Summarize(r *result.Run) *Summary {
	var s Summary
	var rows []result.Row
	for i := range r.Scenarios {
		if len(r.Scenarios[i].Servers) == 0 {
			continue
		}
		rows = r.Scenarios[i].Results
		var null []result.Server
		for _, server := range r.Scenarios[i].Servers {
			switch {
			case server.Missing != "":
				s.Missing = append(s.Missing, server)
			case server.Name == nullName:
				null = append(null, server)
			default:
				s.Servers = append(s.Servers, server)
			}
		}
		s.Servers = append(s.Servers, null...)
	}
	if len(s.Servers) == 0 {
		return nil
	}
	row := func(op string, size int64, workers int, of func(*result.Row) float64) []*float64 {
		values := make([]*float64, len(s.Servers))
		for i, server := range s.Servers {
			for j := range rows {
				r := &rows[j]
				mine := r.Variant == server.Name || r.Null() && server.Name == nullName
				if mine && r.Operation == op && r.SizeBytes == size && r.Workers == workers {
					v := of(r)
					values[i] = &v
				}
			}
		}
		return values
	}
	fact := func(of func(*result.Server) *float64) []*float64 {
		values := make([]*float64, len(s.Servers))
		for i := range s.Servers {
			values[i] = of(&s.Servers[i])
		}
		return values
	}
	rate := func(r *result.Row) float64 { return r.ThroughputRPS }
	mbs := func(r *result.Row) float64 { return r.BytesPerSec / 1e6 }
	median := func(r *result.Row) float64 { return r.P50Ms }
	const small, large = 4 << 10, 10 << 20
	s.Lines = []Line{
		{"PUT 4 KiB, 64 connections", "per second", true, row("put", small, 64, rate)},
		{"PUT 4 KiB, 1 connection", "ms, median", false, row("put", small, 1, median)},
		{"GET 4 KiB, 16 connections", "per second", true, row("get", small, 16, rate)},
		{"PUT 10 MiB, 10 connections", "MB/s", true, row("put", large, 10, mbs)},
		{"GET 10 MiB, 10 connections", "MB/s", true, row("get", large, 10, mbs)},
		{"LIST a page of 1,000 keys", "ms, median", false, row("list", 0, 1, median)},
		{"Disk space per object of 4 KiB", "bytes", false, fact(func(s *result.Server) *float64 { return s.BytesPerObject })},
		{"Files per object of 4 KiB", "files", false, fact(func(s *result.Server) *float64 { return s.FilesPerObject })},
		{"Peak memory under these loads", "MiB", false, fact(func(s *result.Server) *float64 { return scaled(s.PeakRSS, 1<<20) })},
		{"Ready again after SIGKILL", "seconds", false, fact(func(s *result.Server) *float64 { return s.StartAfterCrash })},
	}
	return &s
}

func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	x := *v / by
	return &x
}

// Figure formats a figure of a Line.
func Figure(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case *v < 0.01:
		return fmt.Sprintf("%.4f", *v)
	}
	return Number(*v)
}

// summary returns the first section of a report.
func summary(r *result.Run, plots []Plot) Section {
	s := Summarize(r)
	if s == nil {
		return Section{}
	}
	sec := Section{Title: "Summary", Text: []string{headline(r, s)}}
	t := Table{Header: []string{"", "unit"}, Prose: true}
	for _, server := range s.Servers {
		t.Header = append(t.Header, server.Name)
	}
	for _, l := range s.Lines {
		row := []string{l.Title, l.Unit + map[bool]string{true: ", more is better", false: ", less is better"}[l.More]}
		for _, v := range l.Values {
			row = append(row, Figure(v))
		}
		t.Rows = append(t.Rows, row)
	}
	durability := []string{"Durability of an acknowledged PUT", ""}
	for _, server := range s.Servers {
		durability = append(durability, server.Durability)
	}
	t.Rows = append(t.Rows, durability)
	sec.Table = []Table{t}
	for _, p := range plots {
		if p.Scenario == "" {
			sec.Plots = append(sec.Plots, p)
		}
	}
	sec.After = []string{conditions(r, s)}
	return sec
}

// headline returns a few sentences with the most important results.
func headline(r *result.Run, s *Summary) string {
	ours := -1
	for i, server := range s.Servers {
		if server.Name == ourName {
			ours = i
		}
	}
	if ours < 0 {
		return "This run has no figures of ORCAS."
	}
	v := func(line int) string { return Figure(s.Lines[line].Values[ours]) }
	text := fmt.Sprintf("On %d cores of an %s with %s, client and server together, %s stores %s objects of 4 KiB per second, each on the drive before the response, and reads %s per second.",
		r.Environment.NumCPU, r.Environment.CPU, r.Environment.FileSystem, strings.TrimSpace(ourName+" "+r.Environment.Commit), v(0), v(2))
	if bytes := s.Servers[ours].BytesPerObject; bytes != nil {
		text += fmt.Sprintf(" An object of 4 KiB uses %s bytes on the drive and %s files.", v(6), v(7))
	}
	for _, sc := range r.Scenarios {
		if f := sc.Values; sc.Scenario == "footprint" && f["keys"] > 0 {
			text += fmt.Sprintf(" A store of %s such objects uses %s bytes and %s files per object, and serves requests %s s after a SIGKILL, using %s MiB of memory.", Number(f["keys"]),
				Number(f["disk_bytes_per_object"]), fmt.Sprintf("%.4f", f["files_per_object"]), Number(f["start_after_kill_sec"]), Number(f["rss_after_kill_bytes"]/(1<<20)))
		}
	}
	return text
}

// conditions describes how the servers were compared, and lists the servers that are missing.
func conditions(r *result.Run, s *Summary) string {
	text := "All servers ran on this machine with their defaults, alternately in the same run (the median counts), under the same load: signed with SigV4, with every body compared. " +
		"The drive was synced between loads. The null server is the HTTP front end of ORCAS with nothing behind it: no server with such a front end can be faster here. " +
		"Syncs were counted with strace. Disk space and files are those of a stopped server"
	for _, sc := range r.Scenarios {
		if len(sc.Servers) > 0 && sc.Values["footprint_keys"] > 0 {
			text += fmt.Sprintf(" with %s objects", Number(sc.Values["footprint_keys"]))
		}
	}
	text += "; the time after SIGKILL is the time until an object was read."
	var versions, missing []string
	for _, server := range s.Servers {
		if server.Version != "" {
			versions = append(versions, server.Name+" "+server.Version)
		}
	}
	for _, server := range s.Missing {
		missing = append(missing, fmt.Sprintf("%s (%s)", server.Name, server.Missing))
	}
	if len(versions) > 0 {
		text += " Versions: " + strings.Join(versions, ", ") + "."
	}
	if len(missing) > 0 {
		text += " Not measured: " + strings.Join(missing, ", ") + "."
	}
	return text
}

package report

import (
	"fmt"
	"strings"

	"orcas/perf/result"
)

// hashes names the hashes that are computed for the body of a PUT.
const hashes = "MD5 and SHA-256"

// String formats a limit for a table cell.
func (x limit) String() string {
	switch x.by {
	case byRate:
		return "requested rate"
	case byCPU:
		return "CPU " + percent(x.server+x.client)
	case byDisk:
		return "disk " + percent(x.disk)
	case byWait:
		return "waiting, CPU " + percent(x.server+x.client)
	case byTurn:
		var parts []string
		for _, p := range []struct {
			name  string
			share float64
		}{{"server CPU", x.cpu}, {"sync", x.sync}, {"hashes", x.hash}} {
			if p.share >= 0.05 {
				parts = append(parts, p.name+" "+percent(p.share))
			}
		}
		return strings.TrimSuffix("one at a time: "+strings.Join(parts, ", "), ": ")
	}
	return "unknown"
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// sentence returns a sentence about the limits of the rows of a table, or "" if there are no rows.
func (l *limits) sentence(list []limit) string {
	if len(list) == 0 {
		return ""
	}
	groups := make([][]limit, bounds)
	var loaded []limit // rows that are not limited by the requested rate
	for _, x := range list {
		groups[x.by] = append(groups[x.by], x)
		if x.by != byRate {
			loaded = append(loaded, x)
		}
	}
	var parts []string
	for by, group := range groups {
		if len(group) == 0 {
			continue
		}
		text := l.group(bound(by), group)
		if len(group) < len(list) {
			text = fmt.Sprintf("%s (%d of %d rows)", text, len(group), len(list))
		}
		parts = append(parts, text)
	}
	return "What limits it: " + strings.Join(parts, "; ") + "." + l.against(loaded)
}

// group returns text about rows with the same kind of limit.
func (l *limits) group(by bound, list []limit) string {
	switch by {
	case byRate:
		text := "the requested rate, which was reached"
		if busy := span(list, percent, func(x limit) float64 {
			if x.server == 0 {
				return 0 // the client's CPU time alone means little
			}
			return x.server + x.client
		}); busy != "" {
			text += ", with " + busy + " of the CPU in use where it was measured"
		}
		return text
	case byCPU:
		text := "the CPU: " + figures(list, named{"server", func(x limit) float64 { return x.server }}, named{"client", func(x limit) float64 { return x.client }}) +
			fmt.Sprintf(" of %.0f cores", l.cores)
		if len(l.null) > 0 {
			text += ", while the null server reaches " + span(list, percent, func(x limit) float64 { return x.busy })
		}
		return text
	case byDisk:
		return "the disk, at " + span(list, percent, func(x limit) float64 { return x.disk }) + " of the rate of one writer that syncs once at the end"
	case byTurn:
		parts := figures(list, named{"the server's CPU", func(x limit) float64 { return x.cpu }}, named{"an fdatasync", func(x limit) float64 { return x.sync }},
			named{hashes, func(x limit) float64 { return x.hash }})
		if parts == "" {
			return "one request at a time"
		}
		return "one request at a time, in overlapping shares: " + parts
	case byWait:
		return "waiting for the disk or for other requests, with " + span(list, percent, func(x limit) float64 { return x.server + x.client }) + " of the CPU in use"
	}
	return "unknown, because the server's CPU time was too short to be measured"
}

// against compares rows with their ceilings, if they have one.
func (l *limits) against(list []limit) string {
	var parts []string
	plain := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	if s := span(list, plain, func(x limit) float64 { return x.null }); s != "" {
		parts = append(parts, s+" of the null server's rate")
	}
	if s := span(list, plain, func(x limit) float64 { return x.synced }); s != "" {
		parts = append(parts, s+" of the rate of one writer that syncs each write")
	}
	if s := span(list, percent, func(x limit) float64 {
		if x.by == byTurn {
			return 0 // the text about the time of a request contains this already
		}
		return x.hash
	}); s != "" {
		parts = append(parts, hashes+" take "+s+" of all cores")
	}
	if len(parts) == 0 {
		return ""
	}
	return " Compared with the ceilings: " + strings.Join(parts, "; ") + "."
}

// named is a named figure of limits.
type named struct {
	name string
	of   func(limit) float64
}

// figures lists the figures that were measured.
func figures(list []limit, of ...named) string {
	var parts []string
	for _, n := range of {
		if s := span(list, percent, n.of); s != "" {
			parts = append(parts, n.name+" "+s)
		}
	}
	return strings.Join(parts, ", ")
}

// span returns the range of a figure, or "" if no limit has it. Figures of 0 were not measured.
func span(list []limit, text func(float64) string, of func(limit) float64) string {
	lo, hi := 0.0, 0.0
	for _, x := range list {
		v := of(x)
		if v <= 0 {
			continue
		}
		if lo == 0 {
			lo = v
		}
		lo, hi = min(lo, v), max(hi, v)
	}
	switch from, to := text(lo), text(hi); {
	case hi == 0:
		return ""
	case from == to:
		return to
	default:
		return strings.TrimSuffix(from, " %") + " to " + to
	}
}

// diskSentence explains the table of the disk.
func (l *limits) diskSentence() string {
	if len(l.syncs) == 0 {
		return ""
	}
	first, last := l.syncs[0], l.syncs[len(l.syncs)-1]
	text := fmt.Sprintf("What limits it: one writer can sync %s writes of %s per second, one after the other; for a higher rate, writes must share syncs.",
		Number(1e6/first.P50us), Size(first.SizeBytes))
	if l.disk > 0 {
		text += fmt.Sprintf(" Synced writes of %s reach %s of the rate with one sync at the end.", Size(last.SizeBytes), percent(last.BytesPerSec/l.disk))
	}
	return text
}

// memorySentence explains the table of memory throughput.
func (l *limits) memorySentence() string {
	if l.hash == 0 {
		return ""
	}
	return fmt.Sprintf("What limits it: one core. The body of a PUT is hashed with %s: at most %s MB/s per core, or %s MB/s on %.0f cores that do nothing else.",
		hashes, mb(1/l.hash), mb(l.cores/l.hash), l.cores)
}

// values explains the figures of a scenario that are about limits.
func (l *limits) values(s *result.Scenario) string {
	v := s.Values
	switch s.Scenario {
	case "footprint":
		return l.footprint(s)
	case "churn":
		before, after := v["disk_bytes_before_reclaim"], v["disk_bytes_after_reclaim"]
		if before == 0 {
			return ""
		}
		return "What limits it: reclaim, which freed " + percent(max(1-after/before, 0)) + " of the bytes on the disk."
	case "mixed-ramp":
		return l.ramp(s)
	case "get-cold":
		return l.cold(s)
	}
	return ""
}

// ramp returns a sentence about the limit of the steps that did not keep up.
func (l *limits) ramp(s *result.Scenario) string {
	var behind []limit
	open := false
	for i := range s.Results {
		r := &s.Results[i]
		open = open || r.OpenLoop
		if r.OpenLoop && !keptUp(r) {
			behind = append(behind, l.of(r, s.Results))
		}
	}
	switch {
	case !open: // the options requested a closed loop
		return ""
	case len(behind) == 0:
		return "What limits it: the ramp, which ended before the server reached its limit."
	}
	return strings.Replace(l.sentence(behind), "What limits it:", "What limits the steps that fell behind:", 1)
}

// cold returns a sentence that compares the times of cold and warm GETs.
func (l *limits) cold(s *result.Scenario) string {
	var parts []string
	for i := range s.Results {
		cold := &s.Results[i]
		for j := range s.Results {
			warm := &s.Results[j]
			if cold.Variant == "cold" && warm.Variant == "warm" && warm.SizeBytes == cold.SizeBytes && warm.P50Ms > 0 {
				parts = append(parts, fmt.Sprintf("%.2f ms for %s", max(cold.P50Ms-warm.P50Ms, 0), Size(cold.SizeBytes)))
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "What limits it: reads from the drive. The median of a cold GET is higher than that of a warm one by " + strings.Join(parts, ", ") + "."
}

// footprint compares filling and rebuilding a store with the ceilings.
func (l *limits) footprint(s *result.Scenario) string {
	v := s.Values
	if v["fill_sec"] == 0 || len(s.Results) == 0 {
		return ""
	}
	fill := result.Row{Operation: "put", SizeBytes: s.Results[0].SizeBytes, Workers: 64, ThroughputRPS: v["keys"] / v["fill_sec"]}
	text := "What limits it: the store was filled at " + Number(fill.ThroughputRPS) + " objects per second"
	if n := l.ofNull(&fill); n > 0 {
		text += fmt.Sprintf(", %.2f of the null server's rate", n)
	}
	rebuild := v["start_after_rebuild_sec"]
	if rebuild == 0 {
		return text + "."
	}
	bytes := v["keys"] * v["disk_bytes_per_object"] / rebuild
	text += fmt.Sprintf("; a start without the database read %s MB/s of blocks", mb(bytes))
	if l.disk > 0 {
		text += ", " + percent(bytes/l.disk) + " of the disk's rate for sequential writes"
	}
	return text + "."
}

package report

import (
	"math"
	"slices"

	"orcas/perf/result"
)

// The limit of a row is derived from the figures of the same run, so the code contains no figures of any machine. A row
// is compared with
//
//   - the requested rate: an open loop that kept up does not show the server's limits;
//   - the cores: the CPU time of server and client, compared with that of the null server for a similar request. The
//     null server waits for nothing else, but even with it small requests leave cores partly idle, and the machine may
//     have other work;
//   - the disk: bytes per second compared with one writer that syncs at the end, and rates compared with one writer
//     that syncs each time;
//   - the hashes: MD5 and SHA-256 of the bodies of PUTs, both of which the server always computes;
//   - the null server's rate for the same operation, size and number of connections.

// bound is the kind of limit of a row.
type bound int

const (
	byRate bound = iota // the requested rate
	byCPU
	byDisk
	byTurn  // each request waits for the previous one
	byWait  // cores are idle although many requests are in progress
	unknown // the server's CPU time was not measured
	bounds  // the number of bounds
)

// nearly is the share of a ceiling from which it is considered the limit.
const nearly = 0.8

// keepsUp is the share of the requested rate that an open loop must reach to keep up.
const keepsUp = 0.95

// limit describes the limit of a row. A share of 0 is unknown.
type limit struct {
	by             bound
	server, client float64 // CPU time, as a share of all cores
	busy           float64 // share of all cores that server and client together use with the null server
	cpu            float64 // the server's CPU time, as a share of the time of a request; byTurn only
	sync           float64 // fdatasync, as a share of the time of a request; byTurn only
	hash           float64 // hashing, as a share of all cores, or for byTurn of the time of a request
	disk           float64 // share of the bytes per second of one writer that syncs at the end
	synced         float64 // share of the rate of one writer that syncs each time
	null           float64 // share of the null server's rate for the same kind of request
}

// limits are the ceilings of a run.
type limits struct {
	cores    float64
	hash     float64 // seconds of one core to hash a byte of a PUT
	disk     float64 // bytes per second, synced at the end
	syncs    []result.DiskRow
	null     []result.Row
	fallback result.DiskRow // a sync of 4 KiB, if the run has no ceilings
}

func limitsOf(r *result.Run) *limits {
	e := &r.Environment
	l := &limits{cores: float64(max(e.NumCPU, 1)), fallback: result.DiskRow{SizeBytes: 4 << 10, P50us: e.FdatasyncP50us}}
	for i := range r.Scenarios { // rows of the null server that were measured alternately with others
		for _, row := range r.Scenarios[i].Results {
			if row.Null() && !row.OpenLoop && r.Scenarios[i].Scenario != "ceilings" {
				l.null = append(l.null, row)
			}
		}
	}
	if r.Ceilings == nil {
		return l
	}
	for _, m := range r.Ceilings.Memory {
		if m.BytesPerSec > 0 && (m.Function == "md5" || m.Function == "sha256") {
			l.hash += 1 / m.BytesPerSec
		}
	}
	for _, d := range r.Ceilings.Disk {
		if d.Sequential {
			l.disk = d.BytesPerSec
		} else if d.P50us > 0 {
			l.syncs = append(l.syncs, d)
		}
	}
	slices.SortFunc(l.syncs, func(a, b result.DiskRow) int { return int(a.SizeBytes - b.SizeBytes) })
	l.null = append(l.null, r.Ceilings.Null...)
	return l
}

// busy returns the share of all cores that is used when the null server serves the same operation with the nearest
// size, over several connections. If the operation was not measured, it returns the maximum of all operations, or 1 if
// there are none.
func (l *limits) busy(r *result.Row) float64 {
	operation := r.Operation
	if operation == "part" {
		operation = "put"
	}
	best, distance, most := 0.0, math.Inf(1), 0.0
	for i := range l.null {
		n := &l.null[i]
		if n.Workers <= 1 {
			continue
		}
		server, client := l.shares(n, nil)
		most = max(most, server+client)
		if d := apart(n.SizeBytes, r.SizeBytes); n.Operation == operation && d < distance {
			best, distance = server+client, d
		}
	}
	switch {
	case best > 0:
		return min(best, 1)
	case most > 0:
		return min(most, 1)
	}
	return 1
}

// apart returns the distance of two numbers, by their ratio.
func apart[N int | int64](a, b N) float64 {
	return math.Abs(math.Log(float64(max(a, 1)) / float64(max(b, 1))))
}

// of returns the limit of a row. If a load has several operations, only the row of the whole load has a CPU time; it is
// looked up in beside, the other rows of the scenario.
func (l *limits) of(r *result.Row, beside []result.Row) limit {
	var x limit
	x.server, x.client = l.shares(r, beside)
	x.busy = l.busy(r)
	if r.OpenLoop && keptUp(r) {
		return x // byRate
	}
	null := r.Null() // the null server stores nothing
	sync := 0.0
	if r.Operation == "put" || r.Operation == "part" {
		x.hash = r.BytesPerSec * l.hash / l.cores
		if !null && l.disk > 0 {
			x.disk = r.BytesPerSec / l.disk
		}
	}
	if whole(r) && !null {
		sync = l.sync(r)
		x.synced = r.ThroughputRPS * sync / 1e6
	}
	x.null = l.ofNull(r)
	switch {
	case x.disk >= nearly:
		x.by = byDisk
	case !r.OpenLoop && r.Workers <= 1:
		x.by = byTurn
		x.sync = share(sync, 1000*r.P50Ms)
		x.hash *= l.cores                           // only one core hashes a request
		x.cpu = share(r.ServerCPUus, 1000*r.MeanMs) // not the client's, which generates bodies outside of the measured time
	case null || x.server+x.client >= nearly*x.busy:
		x.by = byCPU // the null server waits for nothing else
	case x.server == 0:
		x.by = unknown
	default:
		x.by = byWait
	}
	return x
}

// all returns the limits of rows.
func (l *limits) all(list []result.Row) []limit {
	found := make([]limit, len(list))
	for i := range list {
		found[i] = l.of(&list[i], list)
	}
	return found
}

// keptUp reports whether an open loop reached the requested rate. That is the rate of the whole load, so a part of a
// load is compared with the requests that were sent for it.
func keptUp(r *result.Row) bool {
	if whole(r) && r.SentRPS < keepsUp*r.RequestedRPS {
		return false
	}
	return r.ThroughputRPS >= keepsUp*r.SentRPS
}

// whole reports whether a row is for a whole load rather than for one of its operations. Only whole loads have CPU
// times.
func whole(r *result.Row) bool { return r.ClientCPUus > 0 }

// shares returns the CPU times of server and client, as shares of all cores.
func (l *limits) shares(r *result.Row, beside []result.Row) (server, client float64) {
	if !whole(r) {
		i := slices.IndexFunc(beside, func(b result.Row) bool {
			return b.Operation == "all" && b.Variant == r.Variant && b.Workers == r.Workers && b.OpenLoop == r.OpenLoop
		})
		if i < 0 {
			return 0, 0
		}
		r = &beside[i]
	}
	each := r.CompletedRPS / 1e6 / l.cores
	return r.ServerCPUus * each, r.ClientCPUus * each
}

// durable contains the operations that are acknowledged once they are durable, and whether they write a body.
var durable = map[string]bool{"put": true, "part": true, "delete": false, "delete-batch": false, "copy": false, "create": false, "complete": false, "put-tagging": false}

// sync returns the median time in microseconds of an fdatasync of as many bytes as a row's operation makes durable, or
// 0 if it makes nothing durable.
func (l *limits) sync(r *result.Row) float64 {
	body, ok := durable[r.Operation]
	if !ok {
		return 0
	}
	list := l.syncs
	if len(list) == 0 {
		list = []result.DiskRow{l.fallback}
	}
	first, last := list[0], list[len(list)-1]
	switch {
	case !body || r.SizeBytes <= first.SizeBytes:
		return first.P50us
	case r.SizeBytes >= last.SizeBytes && len(list) == 1:
		return 0 // a sync of 4 KiB shows nothing about large ones
	case r.SizeBytes >= last.SizeBytes:
		return last.P50us * float64(r.SizeBytes) / float64(last.SizeBytes)
	}
	i := slices.IndexFunc(list, func(d result.DiskRow) bool { return d.SizeBytes >= r.SizeBytes })
	a, b := list[i-1], list[i]
	return a.P50us + (b.P50us-a.P50us)*float64(r.SizeBytes-a.SizeBytes)/float64(b.SizeBytes-a.SizeBytes)
}

// ofNull returns a closed loop's rate divided by the null server's for the same operation and size (a HEAD has none).
// A row with one connection is compared with a null row with one connection, and a row with several connections with
// the null row with the nearest number. A null row of a variant is compared only with rows of that variant.
func (l *limits) ofNull(r *result.Row) float64 {
	if r.OpenLoop || r.Null() || r.Variant == "range" {
		return 0
	}
	var nearest *result.Row
	for i := range l.null {
		n := &l.null[i]
		if n.Operation != r.Operation || n.SizeBytes != r.SizeBytes && n.Operation != "head" || (n.Workers <= 1) != (r.Workers <= 1) {
			continue
		}
		if n.Variant != "null" && (n.Variant != result.NullVariant(r.Variant) || n.Values["keys"] != r.Values["keys"]) {
			continue
		}
		if nearest == nil || apart(n.Workers, r.Workers) < apart(nearest.Workers, r.Workers) {
			nearest = n
		}
	}
	if nearest == nil {
		return 0
	}
	return share(r.ThroughputRPS, nearest.ThroughputRPS)
}

// share returns a divided by b, or 0 if b is 0.
func share(a, b float64) float64 { return ratio(b, a) }

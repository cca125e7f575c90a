package report

import (
	"math"
	"slices"

	"orcas/perf/result"
)

// What limits a row is found in the run's own figures: nothing here knows a machine. A row is held against
//
//   - the rate asked for: an open loop that kept up says nothing about the server's limits;
//   - the cores: the CPU time of server and client, against what the null server gets to with the like request. It waits for nothing else,
//     and yet small requests leave cores idle between them, and a machine may have other work;
//   - the disk: bytes a second against one writer that syncs at the end, and rates against one writer that syncs each time;
//   - the hashes: MD5 and SHA-256 of what is put, both of which the server always computes;
//   - the null server's rate for the same operation, size and number of connections.

// bound is what limits a row.
type bound int

const (
	byRate bound = iota // that was asked for
	byCPU
	byDisk
	byTurn  // one request waits for the one before
	byWait  // cores are idle, and many requests are under way
	unknown // the server's CPU time was not measured
	bounds  // how many there are
)

// nearly is the share of a ceiling from which on it is taken for the limit.
const nearly = 0.8

// keepsUp is the share of what was asked for that an open loop must get.
const keepsUp = 0.95

// limit is what is known of the limits of a row. A share that could not be told is 0.
type limit struct {
	by             bound
	server, client float64 // CPU time, of all cores
	busy           float64 // what server and client together take of all cores with the null server
	cpu            float64 // the server's CPU time, of the time that a request takes; byTurn only
	sync           float64 // fdatasync, of the time that a request takes; byTurn only
	hash           float64 // of all cores; byTurn: of the time that a request takes
	disk           float64 // of the bytes that one writer gets who syncs at the end
	synced         float64 // of the rate of one writer that syncs each time
	null           float64 // of the null server's rate for the same shape
}

// limits are the ceilings of a run.
type limits struct {
	cores    float64
	hash     float64 // seconds of a core for a byte that is put
	disk     float64 // bytes a second, synced at the end
	syncs    []result.DiskRow
	null     []result.Row
	fallback result.DiskRow // a sync of 4 KiB, where there were no ceilings
}

func limitsOf(r *result.Run) *limits {
	e := &r.Environment
	l := &limits{cores: float64(max(e.NumCPU, 1)), fallback: result.DiskRow{SizeBytes: 4 << 10, P50us: e.FdatasyncP50us}}
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
	l.null = r.Ceilings.Null
	return l
}

// busy returns the share of all cores that the null server, over several connections, gets to with the same operation of the nearest size;
// with what it does not know, the most that it gets to; 1 where there was none.
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

// apart says how far two numbers are from each other, by their ratio.
func apart[N int | int64](a, b N) float64 {
	return math.Abs(math.Log(float64(max(a, 1)) / float64(max(b, 1))))
}

// of finds the limit of a row. The rows beside it are asked for the CPU time where a load did several things and only the whole of it has one.
func (l *limits) of(r *result.Row, beside []result.Row) limit {
	var x limit
	x.server, x.client = l.shares(r, beside)
	x.busy = l.busy(r)
	if r.OpenLoop && keptUp(r) {
		return x // byRate
	}
	null := r.Variant == "null" // it stores nothing
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
		x.hash *= l.cores                           // there is one to do it
		x.cpu = share(r.ServerCPUus, 1000*r.MeanMs) // the client's includes making bodies, which is outside of the time
	case null || x.server+x.client >= nearly*x.busy:
		x.by = byCPU // the null server has nothing else to wait for
	case x.server == 0:
		x.by = unknown
	default:
		x.by = byWait
	}
	return x
}

// all finds the limits of rows.
func (l *limits) all(list []result.Row) []limit {
	found := make([]limit, len(list))
	for i := range list {
		found[i] = l.of(&list[i], list)
	}
	return found
}

// keptUp says whether an open loop got what it asked for. The rate asked for is the whole load's, so a part of one is held against what
// was sent of it.
func keptUp(r *result.Row) bool {
	if whole(r) && r.SentRPS < keepsUp*r.RequestedRPS {
		return false
	}
	return r.ThroughputRPS >= keepsUp*r.SentRPS
}

// whole says whether a row is a whole load rather than one of the things that it did: CPU time belongs to the whole.
func whole(r *result.Row) bool { return r.ClientCPUus > 0 }

// shares returns the CPU time of server and client, of all cores.
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

// durable are the operations that are answered when they are on the disk, and whether that includes a body.
var durable = map[string]bool{"put": true, "part": true, "delete": false, "delete-batch": false, "copy": false, "create": false, "complete": false, "put-tagging": false}

// sync returns the median time of an fdatasync of as many bytes as a row's operation makes durable, in microseconds; 0 for one that
// makes nothing durable.
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
		return 0 // 4 KiB say nothing of large ones
	case r.SizeBytes >= last.SizeBytes:
		return last.P50us * float64(r.SizeBytes) / float64(last.SizeBytes)
	}
	i := slices.IndexFunc(list, func(d result.DiskRow) bool { return d.SizeBytes >= r.SizeBytes })
	a, b := list[i-1], list[i]
	return a.P50us + (b.P50us-a.P50us)*float64(r.SizeBytes-a.SizeBytes)/float64(b.SizeBytes-a.SizeBytes)
}

// ofNull returns a closed loop's rate by the null server's: of the same operation and size (a HEAD has none), and with one connection
// as the row has, or with several: of those the nearest number.
func (l *limits) ofNull(r *result.Row) float64 {
	if r.OpenLoop || r.Variant == "null" || r.Variant == "range" {
		return 0
	}
	var nearest *result.Row
	for i := range l.null {
		n := &l.null[i]
		if n.Operation != r.Operation || n.SizeBytes != r.SizeBytes && n.Operation != "head" || (n.Workers <= 1) != (r.Workers <= 1) {
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

// share is a by b; 0 where there is no b.
func share(a, b float64) float64 { return ratio(b, a) }

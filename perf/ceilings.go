package perf

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/zeebo/xxh3"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// idCeilings is the ID of the scenario that measures only the ceilings. Every run with its own servers begins with
// them.
const idCeilings = "ceilings"

// ceilings measures the null server, the disk and memory.
func (r *run) ceilings() (*result.Ceilings, error) {
	turn, syncs, total := 500*time.Millisecond, 50, int64(128<<20)
	if r.o.Profile != Smoke {
		turn, syncs, total = 1500*time.Millisecond, 1000, 2<<30
	}
	if r.o.Duration > 0 {
		turn = r.o.Duration
	}
	var c result.Ceilings
	var err error
	if c.Memory, err = MeasureMemory(turn / 4); err != nil {
		return nil, err
	}
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 8 << 20} {
		row, err := MeasureDisk(r.ctx, r.dir, size, max(syncs/max(size>>18, 1), 10))
		if err != nil {
			return nil, err
		}
		c.Disk = append(c.Disk, row)
	}
	row, err := MeasureSequential(r.dir, 1<<20, total)
	if err != nil {
		return nil, err
	}
	c.Disk = append(c.Disk, row)
	for _, m := range c.Memory {
		r.o.Progress.Row(fmt.Sprintf("%-9s %-14s %9s  %38.1f MB/s", "memory", m.Function, "", m.BytesPerSec/1e6))
	}
	for _, d := range c.Disk {
		kind := "fdatasync each"
		if d.Sequential {
			kind = "one fdatasync"
		}
		r.o.Progress.Row(fmt.Sprintf("%-9s %-14s %9s  %38.1f MB/s  p50 %.2f p99 %.2f ms", "disk", kind, sizeText(d.SizeBytes), d.BytesPerSec/1e6, d.P50us/1000, d.P99us/1000))
	}
	if c.Null, err = r.nullCeilings(turn); err != nil {
		return nil, err
	}
	return &c, nil
}

// nullCeilings measures the null server under several loads.
func (r *run) nullCeilings(turn time.Duration) (rows []result.Row, err error) {
	null, err := r.nullServer()
	if err != nil {
		return nil, err
	}
	defer null.Kill()
	for _, l := range []struct {
		method        string
		size, workers int
	}{
		{http.MethodPut, 1 << 10, 64}, {http.MethodPut, 4 << 10, 1}, {http.MethodPut, 4 << 10, 64}, {http.MethodPut, 64 << 10, 64},
		{http.MethodPut, 256 << 10, 16}, {http.MethodPut, 1 << 20, 10}, {http.MethodPut, 10 << 20, 10}, {http.MethodGet, 4 << 10, 1},
		{http.MethodGet, 4 << 10, 16}, {http.MethodGet, 4 << 10, 64}, {http.MethodGet, 64 << 10, 64},
		{http.MethodGet, 256 << 10, 16}, {http.MethodGet, 1 << 20, 10}, {http.MethodGet, 10 << 20, 10}, {http.MethodHead, 4 << 10, 16},
	} {
		load := r.nullLoad(l.method, l.size, l.workers, turn)
		load.Target, load.PID = null.Target, null.PID
		res, err := load.Run(r.ctx)
		if err == nil && res.ErrorRate() > 0 {
			err = res.FirstError
		}
		if err != nil {
			return nil, err
		}
		row := res.Row("")
		row.Variant, row.SizeBytes = "null", int64(l.size)
		r.o.Progress.Row(rowText(&row))
		rows = append(rows, row)
	}
	return rows, nil
}

// nullLoad returns a closed loop of one kind of request for the null server.
func (r *run) nullLoad(method string, size, workers int, turn time.Duration) *Load {
	contents, hash := NewContents(size, r.o.Compressible), xxh3.Hash(nullBody(size))
	return &Load{Workers: workers, Duration: turn, Next: func(w *Worker, n uint64) (loadgen.Request, Expect) {
		path := "/perf/" + strconv.FormatUint(n, 16) + "-" + strconv.Itoa(size)
		switch method {
		case http.MethodPut:
			body, sha := w.Body(contents, n)
			return loadgen.Request{Op: "put", Method: method, Path: path, Body: body, Hash: sha}, Expect{Status: 200}
		case http.MethodHead:
			return loadgen.Request{Op: "head", Method: method, Path: path}, Expect{Status: 200}
		}
		return loadgen.Request{Op: "get", Method: method, Path: path}, Expect{Status: 200, Body: true, Size: int64(size), XXH3: hash}
	}}
}

package perf

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// pauses finds the longest time without a completed request, over all connections. All times are relative to the same
// fixed time.
type pauses struct {
	last    atomic.Int64 // when the last request was completed, or the load began, in nanoseconds
	longest atomic.Int64 // nanoseconds
}

// begin begins a load, so that the time before it does not count as a pause.
func (p *pauses) begin(now time.Duration) { p.last.Store(int64(now)) }

// completed records that a request was completed. A caller that was delayed after it read the clock cannot make a later
// pause look longer, because last never decreases.
func (p *pauses) completed(now time.Duration) {
	last := p.last.Load()
	for int64(now) > last && !p.last.CompareAndSwap(last, int64(now)) {
		last = p.last.Load()
	}
	pause := int64(now) - last
	for longest := p.longest.Load(); pause > longest && !p.longest.CompareAndSwap(longest, pause); {
		longest = p.longest.Load()
	}
}

// take returns the longest pause since the last call of take.
func (p *pauses) take() time.Duration { return time.Duration(p.longest.Swap(0)) }

// Intervals of a watch. The files of a data directory are measured at most every filesEvery, and that takes at most a
// twentieth of the time.
const (
	probeEvery  = 100 * time.Millisecond
	logEvery    = 50 * time.Millisecond
	filesEvery  = time.Second
	filesFactor = 20
)

// watch observes a server of the run while its store grows.
type watch struct {
	dir  string // a directory next to the data directory, for the probe
	data string // the data directory
	size int    // size of an object, in bytes
	from int64  // number of objects from which on bytesBeyond counts: a small store reserves more space than it needs

	epoch   time.Time
	pauses  pauses
	objects atomic.Int64 // number of PUTs that succeeded

	cancel  context.CancelFunc
	running sync.WaitGroup

	mu          sync.Mutex      // guards the fields below
	syncs       []time.Duration // durations measured by the probe
	walMax      int64           // largest observed size of the WAL, in bytes
	bytesBeyond float64         // the largest result of measure
	err         error
}

// start starts the watch, which runs until stop or the end of ctx.
func (w *watch) start(ctx context.Context) {
	w.epoch = time.Now()
	ctx, w.cancel = context.WithCancel(ctx)
	for _, f := range []func(context.Context) error{w.probe, w.sample} {
		w.running.Go(func() {
			err := f(ctx)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.err = errors.Join(w.err, err)
		})
	}
}

// stop stops the watch, and returns an error if the probe or the sampling ended early. It may be called repeatedly.
func (w *watch) stop() error {
	w.cancel()
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// begin begins a load of PUTs.
func (w *watch) begin() { w.pauses.begin(time.Since(w.epoch)) }

// put records that a PUT succeeded.
func (w *watch) put() {
	w.objects.Add(1)
	w.pauses.completed(time.Since(w.epoch))
}

// probe measures how long the drive takes to make a small write durable while the server uses it: every probeEvery, it
// appends 4 KiB to a separate file on the same file system and calls fdatasync. The measured time is that of both
// calls: it includes waiting for the server's writes, for the journal of the file system, and for a processor. A stall
// of the drive that is shorter than probeEvery may fall between two probes.
func (w *watch) probe(ctx context.Context) error {
	f, b, done, err := measured(w.dir, 4*kib)
	if err != nil {
		return err
	}
	defer done()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		start := time.Now()
		if _, err := f.Write(b); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return os.NewSyscallError("fdatasync", err)
		}
		w.mu.Lock()
		w.syncs = append(w.syncs, time.Since(start))
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// sample measures the size of the WAL every logEvery, and the space of all files every filesEvery.
func (w *watch) sample(ctx context.Context) error {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	next := time.Now()
	for {
		info, err := os.Stat(filepath.Join(w.data, "metadata.db-wal"))
		switch {
		case err == nil:
			w.mu.Lock()
			w.walMax = max(w.walMax, info.Size())
			w.mu.Unlock()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if start := time.Now(); !start.Before(next) {
			if _, err := w.measure(); err != nil {
				return err
			}
			next = start.Add(max(filesEvery, filesFactor*time.Since(start)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// measure returns the bytes that all files in the data directory use on the drive, minus the bytes of the content, per
// object. Content whose PUT has not been acknowledged yet counts as overhead: at most one object per connection.
func (w *watch) measure() (float64, error) {
	objects := w.objects.Load() // before the files are measured, because they may grow in the meantime
	_, bytes, err := usage(w.data)
	if err != nil || objects == 0 {
		return 0, err
	}
	beyond := float64(bytes)/float64(objects) - float64(w.size)
	if objects >= w.from {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.bytesBeyond = max(w.bytesBeyond, beyond)
	}
	return beyond, nil
}

// values adds the figures of a stopped watch to v.
func (w *watch) values(v map[string]float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v["wal_max_bytes"], v["bytes_beyond_content_max"] = float64(w.walMax), w.bytesBeyond
	if n := len(w.syncs); n > 0 {
		slices.Sort(w.syncs)
		v["fdatasync_probes"], v["fdatasync_p50_ms"], v["fdatasync_max_ms"] = float64(n), micros(w.syncs[n/2])/1000, micros(w.syncs[n-1])/1000
	}
}

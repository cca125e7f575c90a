package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Sizes of content in bytes, and the number of parts. The bounds are inclusive.
const (
	smallMax = 64 << 10
	largeMin = 1 << 20
	largeMax = 12 << 20
	partMin  = 5 << 20 // the smallest part that is not the last
	partsMax = 4       // the maximum number of parts of an upload
)

// Mix describes the mixture of operations and content of a load.
type Mix struct {
	Workers   int
	SmallKeys int   // number of keys for small content, of all workers
	LargeKeys int   // number of keys for large content, of all workers
	LargeRate int64 // maximum bytes of large content per second; 0 means no limit
	Equal     int   // one in Equal pieces of content repeats content that a worker has written; 0 means none
	Ops       []Op
	Versions  bool // also use buckets with versions, locks and lifecycles
}

// StandardMix returns the mixture of all operations that the bench uses. The rate of large content is limited, so that
// it does not fill the disk, and leaves room for hundreds of small objects per second.
func StandardMix() Mix {
	return Mix{Workers: 16, SmallKeys: 1600, LargeKeys: 48, LargeRate: 24 << 20, Equal: 4, Ops: Operations(), Versions: true}
}

// Load is a mixed load of write operations. Each worker has separate keys for small objects and for large ones.
type Load struct {
	Mix
	Ledger *Ledger
	Client *Client
	Seed   uint64

	expectFailures atomic.Bool  // the server is being taken down, so failures are not violations
	stopping       atomic.Bool  // begin no more requests
	acked          atomic.Int64 // operations acknowledged
	largeBytes     atomic.Int64 // bytes of large content in requests that have begun
	begun          time.Time
	ended          time.Time

	wg         sync.WaitGroup
	mu         sync.Mutex // guards the fields below
	violations []Violation
	written    [2][64]Piece // recently sent content, small and large, which other requests repeat
}

// Start starts the workers.
func (l *Load) Start(ctx context.Context) {
	l.begun = time.Now()
	for i := range l.Workers {
		w := &worker{load: l, number: i, rand: rand.New(rand.NewPCG(l.Seed, uint64(i)))}
		l.wg.Go(func() { w.run(ctx) })
	}
}

// ExpectFailures announces that the server is being taken down: from now on requests may fail, and a worker whose
// request fails ends.
func (l *Load) ExpectFailures() { l.expectFailures.Store(true) }

// Stop makes the workers end after their current requests.
func (l *Load) Stop() { l.stopping.Store(true) }

// Wait waits until all workers have ended and returns the violations that they found.
func (l *Load) Wait() []Violation {
	l.wg.Wait()
	l.ended = time.Now()
	return l.violations
}

// Acked returns the number of operations that have been acknowledged.
func (l *Load) Acked() int64 { return l.acked.Load() }

// Took returns the duration of the load. It may be called only after Wait.
func (l *Load) Took() time.Duration { return l.ended.Sub(l.begun) }

// violate records a violation that the load itself found.
func (l *Load) violate(kind, where, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, Violation{kind, where, fmt.Sprintf(format, args...)})
}

// worker sends one request at a time.
type worker struct {
	load   *Load
	number int
	rand   *rand.Rand
	failed bool // a request got no response, or the ledger cannot be written
}

// run performs operations until the load stops or the server is down.
func (w *worker) run(ctx context.Context) {
	total := 0
	for _, op := range w.load.Ops {
		total += op.Weight
	}
	for !w.load.stopping.Load() && !w.failed && ctx.Err() == nil {
		n := w.rand.IntN(total)
		for _, op := range w.load.Ops {
			if n -= op.Weight; n < 0 {
				if !op.Large || w.mayLarge() {
					op.Run(ctx, w)
				}
				break
			}
		}
	}
}

// mayLarge reports whether the limit allows more large content now.
func (w *worker) mayLarge() bool {
	allowed := float64(w.load.LargeRate) * (time.Since(w.load.begun).Seconds() + 0.5)
	return w.load.LargeRate == 0 || float64(w.load.largeBytes.Load()) < allowed
}

// smallKey returns a key of this worker for small content, largeKey one for large content.
func (w *worker) smallKey() string { return w.key("small", w.load.SmallKeys) }
func (w *worker) largeKey() string { return w.key("large", w.load.LargeKeys) }

// key returns one of n keys, of which this worker owns every Workers-th.
func (w *worker) key(kind string, n int) string {
	return fmt.Sprintf("%s/%05d", kind, w.number+w.load.Workers*w.rand.IntN(max(1, n/w.load.Workers)))
}

// owns reports whether a key belongs to this worker.
func (w *worker) owns(key string) bool {
	var kind string
	var n int
	_, err := fmt.Sscanf(key, "%5s/%d", &kind, &n)
	return err == nil && n%w.load.Workers == w.number
}

// small returns new content of 0 to smallMax bytes.
func (w *worker) small() (*Value, []byte) { return w.content(w.rand.Int64N(smallMax + 1)) }

// large returns new content of lo to hi bytes.
func (w *worker) large(lo, hi int64) (*Value, []byte) {
	size := lo + w.rand.Int64N(hi-lo+1)
	w.load.largeBytes.Add(size)
	return w.content(size)
}

// content returns new content of size bytes.
func (w *worker) content(size int64) (*Value, []byte) { return NewValue(w.load.piece(w.rand, size)) }

// piece returns new content of size bytes or, sometimes, content of the same size class that was sent before.
func (l *Load) piece(r *rand.Rand, size int64) Piece {
	if l.Equal == 0 {
		return Piece{ID: l.Ledger.Number(), Size: size}
	}
	class := &l.written[0]
	if size > smallMax {
		class = &l.written[1]
	}
	equal, i := r.IntN(l.Equal) == 0, r.IntN(len(class))
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := class[i]; equal && old.Size > 0 && (size < partMin) == (old.Size < partMin) {
		return old
	}
	class[i] = Piece{ID: l.Ledger.Number(), Size: size}
	return class[i]
}

// change is a request and its effects.
type change struct {
	op      string
	name    Name // the item, if there are neither effects nor steps
	effects []Effect
	atomic  bool            // either all of effects happen, or none
	refusal int             // the HTTP status of a refusal that is allowed; 0 if none is
	send    func() error    // sends the request, and compares a returned ETag (see check)
	result  func() []Effect // if set, returns the effects, which only the response names
	steps   []Step          // effects on keys with versions
	ids     func() []string // returns the version IDs in the response, for the versions in steps
	seen    func() []Step   // returns the versions that the response lists
}

// do records a change in the ledger, sends it, and records and returns its outcome: Done, Refused or Unknown.
func (w *worker) do(c change) string {
	l := w.load
	number := l.Ledger.Number()
	if err := l.Ledger.Write(Record{Type: Begin, Request: number, Op: c.op, Effects: c.effects, Steps: c.steps, Atomic: c.atomic}); err != nil {
		return w.broken(err)
	}
	err := c.send()
	end := Record{Type: Done, Request: number}
	code, name := status(err)
	switch {
	case err == nil:
		l.acked.Add(1)
		if c.result != nil {
			end.Effects = c.result()
		}
		if c.ids != nil {
			end.IDs = c.ids()
		}
		if c.seen != nil {
			end.Steps = c.seen()
		}
	case c.refusal != 0 && code == c.refusal:
		end.Type, end.Text = Refused, name
	default:
		end.Type, end.Text = Unknown, err.Error()
		if l.expectFailures.Load() {
			w.failed = code == 0
		} else if code != http.StatusServiceUnavailable {
			l.violate("failed", c.op, "request %d on %v: %v", number, c.about(), err)
			w.failed = code == 0
		}
	}
	if e := l.Ledger.Write(end); e != nil {
		return w.broken(e)
	}
	return end.Type
}

// about returns an item that the change affects, for messages.
func (c *change) about() Name {
	switch {
	case len(c.steps) > 0:
		return c.steps[0].Name
	case len(c.effects) > 0:
		return c.effects[0].Name
	}
	return c.name
}

// broken ends the load, because the ledger cannot be written.
func (w *worker) broken(err error) string {
	w.failed = true
	w.load.Stop()
	w.load.violate("bench", "ledger", "%v", err)
	return Unknown
}

// check compares the ETag of a response with that of the value written.
func (w *worker) check(n Name, v *Value, got string, err error) error {
	if err == nil && got != v.ETag {
		w.load.violate("etag", n.String(), "acknowledged with ETag %q; expected %q", got, v.ETag)
	}
	return err
}

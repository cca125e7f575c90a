package sdk

import (
	"context"
	"sync"
)

// Progress is how far a transfer has got.
type Progress struct {
	Done  int64 // bytes of the content that are at their destination; never decreases
	Total int64 // bytes of the content; 0 if unknown
	Sent  int64 // bytes of bodies that were sent, by a download: received. Includes what had to be sent again
}

// Transferred is the result of a transfer.
type Transferred struct {
	Written

	BytesSent     int64 // bytes of bodies, including retries and documents
	BytesReceived int64 // bytes of bodies, likewise
	BytesReferred int64 // bytes of the content that were not sent, because the server held them
	Resumed       int64 // bytes of the content that an earlier attempt had transferred

	Info     *Info // downloads: the object
	Verified bool  // downloads: the content was compared with a checksum of the server
}

// progressStep is how many bytes there are at least between two reports, except the last.
const progressStep = 256 << 10

// meter counts the bytes of one transfer and reports its progress. Reports are made one at a time, and hold its lock.
type meter struct {
	report func(Progress) // nil: nobody is interested
	upload bool

	mu       sync.Mutex // guards the fields below, and orders the reports
	total    int64
	done     int64 // bytes of parts that are complete
	inFlight int64 // bytes of parts that are not
	sent     int64
	received int64
	referred int64
	resumed  int64
	last     int64 // Progress.Done of the last report
}

// flow counts the bytes of one part, over all of its requests. It travels in the context of the requests. A flow without
// content counts requests that transfer none, such as listings.
type flow struct {
	meter   *meter
	content bool
	n       int64 // in flight; guarded by meter.mu
}

type flowKey struct{}

func withFlow(ctx context.Context, f *flow) context.Context {
	return context.WithValue(ctx, flowKey{}, f)
}

// flowOf returns the flow of a context, or nil.
func flowOf(ctx context.Context) *flow {
	f, _ := ctx.Value(flowKey{}).(*flow)
	return f
}

// restart forgets what an attempt has sent, because the next one sends it again.
func (f *flow) restart() {
	if f == nil || !f.content {
		return
	}
	f.meter.mu.Lock()
	defer f.meter.mu.Unlock()
	f.meter.inFlight -= f.n
	f.n = 0
}

// sent counts bytes of the body of a request.
func (f *flow) sent(n int) {
	if f != nil {
		f.count(int64(n), 0, f.meter.upload)
	}
}

// received counts bytes of the body of a response.
func (f *flow) received(n int) {
	if f != nil {
		f.count(0, int64(n), !f.meter.upload)
	}
}

func (f *flow) count(sent, received int64, content bool) {
	m := f.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent += sent
	m.received += received
	if content && f.content {
		m.inFlight += sent + received
		f.n += sent + received
		m.tell(progressStep)
	}
}

// complete counts size bytes of content as done, instead of what is in flight.
func (f *flow) complete(size int64) {
	m := f.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inFlight -= f.n
	f.n = 0
	m.done += size
	m.tell(1)
}

// refer counts content that was not sent, and resume content of an earlier attempt.
func (m *meter) refer(size int64)  { m.skip(&m.referred, size) }
func (m *meter) resume(size int64) { m.skip(&m.resumed, size) }

func (m *meter) skip(counter *int64, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*counter += size
	m.done += size
	m.tell(1)
}

// tell reports the progress if it has grown by step bytes. The caller holds the lock.
func (m *meter) tell(step int64) {
	if m.report == nil {
		return
	}
	done := m.done + m.inFlight
	if m.total > 0 {
		done = min(done, m.total)
	}
	if done-m.last < step {
		return
	}
	m.last = done
	m.report(m.progress(done))
}

func (m *meter) progress(done int64) Progress {
	p := Progress{Done: done, Total: m.total, Sent: m.sent}
	if !m.upload {
		p.Sent = m.received
	}
	return p
}

// finish makes the last report, and adds the counts to the result.
func (m *meter) finish(t *Transferred) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.report != nil {
		m.last = max(m.last, m.done)
		m.report(m.progress(m.last))
	}
	t.BytesSent, t.BytesReceived, t.BytesReferred, t.Resumed = m.sent, m.received, m.referred, m.resumed
}

// size sets the total, once it is known.
func (m *meter) size(total int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = max(total, 0)
}

// control returns a context for requests that transfer no content.
func (m *meter) control(ctx context.Context) context.Context { return withFlow(ctx, &flow{meter: m}) }

// part returns a context for the requests of one part.
func (m *meter) part(ctx context.Context) (context.Context, *flow) {
	f := &flow{meter: m, content: true}
	return withFlow(ctx, f), f
}

// parallel runs work in up to n goroutines until all return. After the first error the context of the others ends with
// that error as its cause; parallel returns it.
func parallel(ctx context.Context, n int, work func(context.Context) error) error {
	if n <= 1 {
		return work(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var once sync.Once
	var failure error
	for range n {
		wg.Go(func() {
			if err := work(ctx); err != nil {
				once.Do(func() { failure = err })
				cancel(err)
			}
		})
	}
	wg.Wait()
	return failure
}

package perf

import (
	"context"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"orcas/internal/loadgen"
)

// due returns the time after the start at which request n of an open loop is due.
func (l *Load) due(n uint64) time.Duration {
	if l.RateTo == 0 || l.Duration == 0 {
		return time.Duration(float64(n) / l.Rate * float64(time.Second))
	}
	// n requests are sent in t seconds: n = Rate t + slope/2 t^2.
	slope := (l.RateTo - l.Rate) / l.Duration.Seconds()
	if math.Abs(slope) < 1e-9 {
		return time.Duration(float64(n) / l.Rate * float64(time.Second))
	}
	root := l.Rate*l.Rate + 2*slope*float64(n)
	if root < 0 {
		return math.MaxInt64 // a falling rate reaches 0 earlier
	}
	return time.Duration((math.Sqrt(root) - l.Rate) / slope * float64(time.Second))
}

// ticket is a request that is due.
type ticket struct {
	n        uint64
	intended time.Time
}

// pool holds the workers of an open loop. The worker that became idle last is used first, so that a light load uses few
// connections.
type pool struct {
	r     *runner
	mu    sync.Mutex // guards the fields below, except wg
	idle  []chan ticket
	made  int
	queue []ticket // requests that are due while every connection is busy
	wg    sync.WaitGroup
}

// opened is the result of an open loop.
type opened struct {
	window      time.Duration // time in which requests were due
	connections int
	unsent      []ticket // requests that were due, but found no free connection
}

// open sends requests at their intended times.
func (r *runner) open() (o opened, err error) {
	clock, err := newAlarm(r.ctx)
	if err != nil {
		return o, err
	}
	defer clock.close()
	first := loadgen.NewConn(r.ctx, r.Target)
	if err := first.Connect(); err != nil { // no server is listening
		return o, err
	}
	_ = first.Close() // the connection was only a test
	p := &pool{r: r}  // until finish, only this goroutine changes p.made
	r.start = time.Now()
	for n := uint64(0); ; n++ {
		at := r.due(n)
		o.window = at
		if r.Duration > 0 && at >= r.Duration {
			o.window = r.Duration
			break
		}
		if r.Stop != nil && r.Stop.Load() || r.Count > 0 && n >= r.Count || r.MaxBytes > 0 && r.bytes.Load() >= r.MaxBytes {
			break
		}
		intended := r.start.Add(at)
		if err := clock.wait(intended); err != nil || r.ctx.Err() != nil {
			break
		}
		p.send(ticket{n, intended})
	}
	o.connections = p.made // read before finish decreases it
	o.unsent = p.finish()
	return o, nil
}

// send hands a ticket to a worker, or queues it.
func (p *pool) send(t ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case len(p.idle) > 0:
		last := len(p.idle) - 1
		p.idle[last] <- t
		p.idle = p.idle[:last]
	case p.made < p.r.Workers:
		work := make(chan ticket, 1)
		work <- t
		id := p.made
		p.made++
		p.wg.Go(func() { p.work(id, work) })
	default:
		p.queue = append(p.queue, t)
	}
}

func (p *pool) work(id int, work chan ticket) {
	c := loadgen.NewConn(p.r.ctx, p.r.Target)
	defer func() { _ = c.Close() }() // an error does not matter at this point
	w := &Worker{ID: id}
	for t := range work {
		for again := true; again; {
			p.r.one(c, w, t.n, t.intended)
			t, again = p.next(work)
		}
	}
}

// next returns the oldest ticket in the queue. If the queue is empty, it marks the worker as idle and returns false.
func (p *pool) next(work chan ticket) (ticket, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 {
		t := p.queue[0]
		p.queue = p.queue[1:]
		return t, true
	}
	p.idle = append(p.idle, work)
	return ticket{}, false
}

// finish waits for the responses to all requests that were sent, and returns the tickets that were not sent.
func (p *pool) finish() []ticket {
	p.mu.Lock()
	unsent := p.queue
	p.queue = nil
	p.mu.Unlock()
	for {
		p.mu.Lock()
		for _, work := range p.idle {
			close(work)
		}
		p.made -= len(p.idle)
		p.idle = nil
		left := p.made
		p.mu.Unlock()
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	p.wg.Wait()
	return unsent
}

// alarm waits with a precision of some microseconds. The runtime rounds its timers up to milliseconds when the process
// is idle, which would add to every latency of an open loop.
type alarm struct {
	f      *os.File
	stopIt func() bool
}

func newAlarm(ctx context.Context) (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{f: os.NewFile(uintptr(fd), "timerfd")}
	a.stopIt = context.AfterFunc(ctx, func() { _ = a.f.SetDeadline(time.Unix(1, 0)) }) // wakes up wait
	return a, nil
}

func (a *alarm) close() {
	a.stopIt()
	_ = a.f.Close() // ignore the error: a timer has no data to lose
}

// wait returns at t, or immediately if t has passed.
func (a *alarm) wait(t time.Time) error {
	d := time.Until(t)
	if d <= 0 {
		return nil
	}
	conn, err := a.f.SyscallConn()
	if err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	if e := conn.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &spec, nil) }); e != nil || err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var expirations [8]byte
	_, err = a.f.Read(expirations[:])
	return err
}

package perf

import (
	"context"
	"math"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// due returns when request n of an open loop is to be sent, after the start.
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
		return math.MaxInt64 // a falling rate comes to nothing before
	}
	return time.Duration((math.Sqrt(root) - l.Rate) / slope * float64(time.Second))
}

// ticket is a request that is due.
type ticket struct {
	n        uint64
	intended time.Time
}

// pool is the workers of an open loop. The one that became idle last is used first, so that few connections carry a light load.
type pool struct {
	r     *runner
	mu    sync.Mutex // guards what follows
	idle  []chan ticket
	made  int
	queue []ticket // due, while every connection is busy
	wg    sync.WaitGroup
}

// opened is what an open loop was.
type opened struct {
	window      time.Duration // in which requests were due
	connections int
	unsent      []ticket // due, but no connection was free
}

// open sends requests at their times.
func (r *runner) open() (o opened, err error) {
	clock, err := newAlarm(r.ctx)
	if err != nil {
		return o, err
	}
	defer clock.close()
	first := NewClient(r.ctx, r.Target)
	if err := first.Connect(); err != nil { // nobody is there
		return o, err
	}
	_ = first.Close() // it was only to be told
	p := &pool{r: r}  // its made is changed here alone until finish
	r.start = time.Now()
	for n := uint64(0); ; n++ {
		at := r.due(n)
		o.window = at
		if r.Duration > 0 && at >= r.Duration {
			o.window = r.Duration
			break
		}
		if r.Count > 0 && n >= r.Count || r.MaxBytes > 0 && r.bytes.Load() >= r.MaxBytes {
			break
		}
		intended := r.start.Add(at)
		if err := clock.wait(intended); err != nil || r.ctx.Err() != nil {
			break
		}
		p.send(ticket{n, intended})
	}
	o.connections = p.made // before finish takes them away
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
	c := NewClient(p.r.ctx, p.r.Target)
	defer func() { _ = c.Close() }() // it is of no use any more
	w := &Worker{ID: id}
	for t := range work {
		for again := true; again; {
			p.r.one(c, w, t.n, t.intended)
			t, again = p.next(work)
		}
	}
}

// next returns the oldest ticket of the queue, or makes the worker idle.
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

// finish waits for the answers to what was sent, and returns what was not.
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

// alarm waits to some microseconds exactly. The runtime's timers are rounded up to milliseconds when nothing else goes on, which
// would stand in every latency of an open loop.
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
	a.stopIt = context.AfterFunc(ctx, func() { _ = a.f.SetDeadline(time.Unix(1, 0)) }) // wakes the one who waits
	return a, nil
}

func (a *alarm) close() {
	a.stopIt()
	_ = a.f.Close() // nothing was written
}

// wait returns at t, or at once where t has passed.
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

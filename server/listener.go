package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"orcas/gate"
)

// limitListener limits the number of connections of an HTTP server.
//
// When all slots are taken, a new connection takes the slot of the connection that has been idle longest, which is
// closed. A connection is idle if no request is in progress on it: between two requests, or before its first complete
// request header. Connections to which the kernel is still sending the last response are closed last, but they are
// closed: a client that does not read must not keep a slot. If a request is in progress on every connection, the new
// connection gets one of a few extra slots, and its requests are refused with 503 unless a slot is free by then. If
// the extra slots are taken too, it is closed.
//
// So clients that hold connections and send nothing cannot keep others out, and a client beyond the limit gets a
// response.
//
// A client that receives no byte of a write for the duration stall is disconnected, so no client holds a slot forever,
// and only a bounded number of bytes wait in the kernel for it (see unsentMax). (Reads are limited by the server's
// timeouts for headers and idle connections and, for bodies, by package s3.)
//
// A request costs two atomic writes, when it begins and when it ends. The listener searches for the connections that
// have been idle longest only when all slots are taken, and then finds a few hundred at a time.
type limitListener struct {
	net.Listener
	slots, extraSlots int
	stall             time.Duration
	proxies           *gate.Proxies  // nil if none are trusted; set before install
	unsent            int            // see unsentMax
	start             time.Time      // time zero of limitedConn.idleSince
	throttle          *gate.Throttle // counts wrong signatures; nil for none; set before install

	mu        sync.Mutex     // guards the fields below
	conns     []*limitedConn // all connections with slots
	extra     int            // the number of connections in extra slots
	addresses perAddress
	crowdedBy string     // the first client since the last report whose address had too many connections
	queue     []idleConn // the connections that had been idle longest, oldest first; some may be active by now

	// Counts since the start: connections closed, requests refused, connections without a slot, and connections of
	// addresses with too many.
	evicted, refused, dropped, crowded atomic.Int64
}

// idleConn is a connection, and the time since which it was idle, in the unit of limitedConn.idleSince.
type idleConn struct {
	*limitedConn
	since int64
}

const (
	// extraShare determines the number of extra slots: one for this many slots.
	extraShare = 8
	// queueMax is the maximum number of idle connections in the queue.
	queueMax = 256
)

func newLimitListener(l net.Listener, connections int, stall time.Duration) *limitListener {
	return &limitListener{
		Listener: l, slots: connections, extraSlots: max(4, connections/extraShare), stall: stall, unsent: unsentMax, start: time.Now().Add(-time.Second),
	}
}

// Accept returns the next connection that gets a slot.
func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && l.evict() {
			continue
		}
		if err != nil {
			return nil, err
		}
		boundUnsent(c, l.unsent)
		if conn := l.admit(c); conn != nil {
			return conn, nil
		}
		_ = c.Close() // an error has no consequences
	}
}

// admit gives a connection a slot, if necessary the slot of an idle connection, which it closes. It returns nil if no
// slot is available.
func (l *limitListener) admit(c net.Conn) *limitedConn {
	conn := &limitedConn{Conn: c, listener: l, address: l.addresses.key(c)}
	conn.idleSince.Store(l.now())
	l.mu.Lock()
	if !l.addresses.add(conn.address) {
		l.crowded.Add(1)
		if l.crowdedBy == "" {
			l.crowdedBy = clientOf(c)
		}
		l.mu.Unlock()
		return nil
	}
	var victim *limitedConn
	if l.full() {
		victim = l.popOldest()
	}
	if l.full() {
		if l.extra >= l.extraSlots {
			l.addresses.remove(conn.address)
			l.mu.Unlock()
			l.dropped.Add(1)
			victim.endEvicted()
			return nil
		}
		l.extra++
		conn.extra.Store(true)
	}
	conn.hasSlot, conn.index = true, len(l.conns)
	l.conns = append(l.conns, conn)
	l.mu.Unlock()
	victim.endEvicted()
	return conn
}

// full reports whether all slots other than extra ones are taken. The caller holds l.mu.
func (l *limitListener) full() bool { return len(l.conns)-l.extra >= l.slots }

// now returns the time since l.start, in nanoseconds; it is never 0.
func (l *limitListener) now() int64 { return int64(time.Since(l.start)) }

// evict closes the connection that has been idle longest, and reports whether there was one.
func (l *limitListener) evict() bool {
	l.mu.Lock()
	victim := l.popOldest()
	l.mu.Unlock()
	victim.endEvicted()
	return victim != nil
}

// popOldest removes the connection that has been idle longest from its slot and returns it, or nil if no connection is
// idle. The caller holds l.mu.
func (l *limitListener) popOldest() *limitedConn {
	for {
		for len(l.queue) > 0 {
			c := l.queue[0]
			l.queue = l.queue[1:]
			if c.idleSince.CompareAndSwap(c.since, gone) {
				l.release(c.limitedConn)
				l.evicted.Add(1)
				return c.limitedConn
			}
		}
		l.findIdle()
		if len(l.queue) == 0 {
			return nil
		}
	}
}

// findIdle refills the queue. Connections to which the kernel is still sending are queued only if there are no others.
// The caller holds l.mu.
func (l *limitListener) findIdle() {
	l.queue = nil
	for _, c := range l.conns {
		if since := c.idleSince.Load(); since > 0 {
			l.queue = append(l.queue, idleConn{c, since})
		}
	}
	slices.SortFunc(l.queue, func(a, b idleConn) int { return cmp.Compare(a.since, b.since) })
	l.queue = slices.Clone(l.queue[:min(queueMax, len(l.queue))])
	settled := make([]idleConn, 0, len(l.queue))
	for _, c := range l.queue {
		if !c.sending() {
			settled = append(settled, c)
		}
	}
	if len(settled) > 0 {
		l.queue = settled
	}
}

// release frees the slot of a connection, if it has one. The caller holds l.mu.
func (l *limitListener) release(c *limitedConn) {
	if !c.hasSlot {
		return
	}
	c.hasSlot = false
	l.addresses.remove(c.address)
	last := len(l.conns) - 1
	l.conns[c.index] = l.conns[last]
	l.conns[c.index].index = c.index
	l.conns[last] = nil
	l.conns = l.conns[:last]
	if c.extra.Load() {
		l.extra--
	}
}

// promote moves a connection from an extra slot to a regular one if one is free. It reports whether the connection is
// now in a regular slot.
func (l *limitListener) promote(c *limitedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.extra.Load() && c.hasSlot && !l.full() {
		c.extra.Store(false)
		l.extra--
	}
	return !c.extra.Load()
}

// install configures a server so that it reports idle connections to the listener, calls refuse for requests in extra
// slots (refuse must also close the connection), and does not wait long for unread bodies.
func (l *limitListener) install(s *http.Server, refuse http.Handler) {
	s.ConnState = l.connState
	s.DisableGeneralOptionsHandler = true // it responds to OPTIONS *, and waits for the body without a time limit
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if conn := limited(c); conn != nil {
			ctx = context.WithValue(ctx, connKey{}, conn)
		}
		if l.throttle != nil {
			ctx = l.throttle.WithClient(ctx, c.RemoteAddr())
		}
		return ctx
	}
	serve := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(*limitedConn)
		r = l.identify(r)
		switch {
		case conn == nil:
			serve.ServeHTTP(w, r)
			return
		case conn.idleSince.Load() == gone:
			panic(http.ErrAbortHandler) // the connection was closed before the header was complete
		case conn.extra.Load() && !l.promote(conn):
			l.refused.Add(1)
			refuse.ServeHTTP(w, r)
			conn.limitRest(r)
			return
		}
		conn.joiner.expect(r)
		serve.ServeHTTP(w, r)
		conn.joiner.end()
		conn.limitRest(r)
	})
}

// restTime is the time that a client has to send the part of a body that the handler did not read.
const restTime = 5 * time.Second

// limitRest limits the time that net/http waits for the rest of a request body after the response. Otherwise it waits
// without a limit, and the connection counts as busy. The deadline ends with the request: net/http sets a new one for
// the next request.
func (c *limitedConn) limitRest(r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength != 0 {
		_ = c.SetReadDeadline(time.Now().Add(restTime)) // it fails only if the connection is closed
	}
}

// connKey is the key of the *limitedConn in the context of a request.
type connKey struct{}

// connState is called by a server when the state of a connection changes: to active at the end of a request header,
// and to idle after the response. With HTTP/2 a connection is active while any stream is open.
func (l *limitListener) connState(c net.Conn, state http.ConnState) {
	if state != http.StateActive && state != http.StateIdle {
		return
	}
	conn := limited(c)
	if conn == nil {
		return
	}
	if state == http.StateActive {
		conn.setIdle(0)
	} else {
		conn.setIdle(l.now())
	}
}

// limited returns the limitedConn inside a connection, or nil if it contains none.
func limited(c net.Conn) *limitedConn {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok { // a connection of TLS, or of package heads
		c = outer.NetConn()
	}
	conn, _ := c.(*limitedConn)
	return conn
}

// limitReportEvery is the interval at which closed and refused connections are logged.
const limitReportEvery = time.Minute

// report logs the effects of the limit after every interval, until ctx ends.
func (l *limitListener) report(ctx context.Context, log *slog.Logger, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last [4]int64
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		now, client := [4]int64{l.evicted.Load(), l.refused.Load(), l.dropped.Load(), l.crowded.Load()}, l.crowdedBy
		l.crowdedBy = ""
		l.mu.Unlock()
		evicted, refused, dropped, crowded := now[0]-last[0], now[1]-last[1], now[2]-last[2], now[3]-last[3]
		last = now
		if crowded > 0 {
			log.Warn("client addresses reached ORCAS_LIMIT_ADDRESS_CONNECTIONS, so their new connections were closed",
				"limit", l.addresses.most, "closed", crowded, "first_address", client)
		}
		if evicted+refused+dropped > 0 {
			log.Warn("all connections were in use, so idle ones were closed and requests on additional ones got 503; a higher limit on open files allows more",
				"limit", l.slots, "closed_idle", evicted, "requests_refused", refused, "closed_new", dropped)
		}
	}
}

// clientOf returns the address of the other end of a connection, without the port.
func clientOf(c net.Conn) string {
	remote, _, _ := net.SplitHostPort(c.RemoteAddr().String()) // a connection over TCP has a port
	return remote
}

// open returns the number of open connections.
func (l *limitListener) open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns)
}

// limitedConn is a connection in a slot of a limitListener.
type limitedConn struct {
	net.Conn
	listener  *limitListener
	deadline  atomic.Int64 // for writes, in nanoseconds since 1970; 0 for none. See stall.go
	aborted   atomic.Bool  // the deadline was set to s3.Abort
	idleSince atomic.Int64 // a value of listener.now; 0 while a request is in progress; gone after the connection was closed
	extra     atomic.Bool  // in an extra slot; changed under listener.mu
	joiner    joiner

	address netip.Prefix // see perAddress; not valid if it does not count

	hasSlot bool // guarded by listener.mu
	index   int  // in listener.conns, if hasSlot; guarded by listener.mu
}

// sending reports whether the client has not yet acknowledged all written bytes. If the connection were closed now and
// the client sent anything more, such as the window updates of HTTP/2, the kernel would respond with a reset and
// discard the bytes that it has not sent.
func (c *limitedConn) sending() bool {
	raw, ok := c.Conn.(syscall.Conn)
	if !ok {
		return false
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return false
	}
	unsent := 0
	err = control.Control(func(fd uintptr) { unsent, _ = unsentBytes(int(fd)) })
	return err == nil && unsent > 0
}

// gone is the final value of idleSince: the connection was closed.
const gone = -1

// setIdle sets idleSince, unless the connection was closed.
func (c *limitedConn) setIdle(since int64) {
	for {
		was := c.idleSince.Load()
		if was == gone || c.idleSince.CompareAndSwap(was, since) {
			return
		}
	}
}

// endEvicted closes a connection that has lost its slot. c may be nil.
func (c *limitedConn) endEvicted() {
	if c != nil {
		_ = c.Conn.Close() // ignore the error: the server gets it too when it uses the connection
	}
}

// CloseWrite closes the sending side of the connection. After a response that leaves a body unread, net/http calls it
// and waits, so that a reset does not discard the response before the client has read it.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection and frees its slot.
func (c *limitedConn) Close() error {
	c.idleSince.Store(gone)
	err := c.Conn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.release(c)
	return err
}

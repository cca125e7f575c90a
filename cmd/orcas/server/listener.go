package server

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// limitListener accepts as many connections as it has slots; more wait in the kernel's queue. A client that takes nothing of a
// write for stall loses its connection, so that nobody holds a slot for ever. (Reads have their limits in the server's timeouts
// for headers and idleness and in package s3, for bodies.)
type limitListener struct {
	net.Listener
	slots chan struct{}
	stall time.Duration
	done  chan struct{}
	once  sync.Once
}

func newLimitListener(l net.Listener, connections int, stall time.Duration) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, connections), stall: stall, done: make(chan struct{})}
}

// Accept waits for a slot, then for a connection.
func (l *limitListener) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitedConn{Conn: c, listener: l}, nil
}

// Close ends Accept; the connections live on.
func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	net.Conn
	listener *limitListener
	deadline atomic.Int64 // of writes, in nanoseconds since 1970; 0: none
	once     sync.Once
}

// Write writes all of p, or fails when the client stalls. To move a deadline costs more than to look at the clock, so it is moved
// when half of it is used up: a client has between half of stall and all of it.
func (c *limitedConn) Write(p []byte) (int, error) {
	now := time.Now()
	if c.deadline.Load()-now.UnixNano() < int64(c.listener.stall/2) {
		if err := c.SetWriteDeadline(now.Add(c.listener.stall)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// SetWriteDeadline sets the deadline, and takes note of it for Write. To take it away, as net/http does behind every answer, changes
// nothing: the next Write moves it on if it is near.
func (c *limitedConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return nil
	}
	c.deadline.Store(t.UnixNano())
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *limitedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite ends our side of the connection: after an answer that leaves a body unread, net/http does so and waits, lest a
// reset take the answer away before the client reads it.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.listener.slots })
	return err
}

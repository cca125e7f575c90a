package server

import (
	"net"
	"sync"
)

// limitListener accepts as many connections as it has slots; more wait in the kernel's queue. (x/net/netutil has one too, but
// its connections hide CloseWrite.)
type limitListener struct {
	net.Listener
	slots chan struct{}
	done  chan struct{}
	once  sync.Once
}

func newLimitListener(l net.Listener, connections int) *limitListener {
	return &limitListener{Listener: l, slots: make(chan struct{}, connections), done: make(chan struct{})}
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
	once     sync.Once
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

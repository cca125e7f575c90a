package server

import (
	"errors"
	"os"
	"time"

	"orcas/s3"
)

// Write implements net.Conn. It may hold the beginning of a response until the next Write (see joiner).
func (c *limitedConn) Write(p []byte) (int, error) {
	switch {
	case c.joiner.hold(p):
		return len(p), nil
	case c.joiner.held != nil:
		return c.joiner.flush(p, c.write)
	}
	return c.write(p)
}

// write writes all of p, or fails if the client receives no byte of it for the duration stall. Setting a deadline
// costs more than reading the clock, so it is extended only when half of it has passed: a client has between half of
// stall and all of it for the next byte. If the client has received at least one byte when the deadline passes, the
// deadline is extended, unless it is s3.Abort.
func (c *limitedConn) write(p []byte) (n int, err error) {
	for {
		now := time.Now()
		if c.deadline.Load()-now.UnixNano() < int64(c.listener.stall/2) {
			if err := c.SetWriteDeadline(now.Add(c.listener.stall)); err != nil {
				return n, err
			}
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if !errors.Is(err, os.ErrDeadlineExceeded) || c.aborted.Load() {
			return n, err
		}
		if m == 0 {
			if m = c.probe(p[n:]); m == 0 || c.aborted.Load() {
				return n + m, err
			}
			n += m
		}
	}
}

// probeTime is the duration of a probe if the kernel's buffer is full.
const probeTime = 10 * time.Millisecond

// probe writes as much as the kernel's buffer has space for. The kernel wakes a blocked writer only when a third of
// the buffer is free, which may take minutes with a slow client, but a new write succeeds if there is space for one
// byte.
func (c *limitedConn) probe(p []byte) int {
	if c.SetWriteDeadline(time.Now().Add(probeTime)) != nil {
		return 0
	}
	n, _ := c.Conn.Write(p) // ignore the error: the next write returns it too
	return n
}

// SetWriteDeadline sets the deadline, and records it for write. Removing the deadline, as net/http does at the end of
// every response, only sends any held bytes: the next write extends the deadline if it is near. After s3.Abort the
// deadline no longer changes.
func (c *limitedConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		if c.joiner.held == nil {
			return nil
		}
		_, err := c.joiner.flush(nil, c.write)
		return err
	}
	if t.Equal(s3.Abort) {
		c.aborted.Store(true)
	}
	c.deadline.Store(t.UnixNano())
	err := c.Conn.SetWriteDeadline(t)
	if c.aborted.Load() { // another goroutine may have aborted in the meantime
		err = c.Conn.SetWriteDeadline(s3.Abort)
	}
	return err
}

// SetDeadline sets the deadlines for reads and writes.
func (c *limitedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

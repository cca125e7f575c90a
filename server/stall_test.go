package server

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/s3"
)

// halting is a connection whose client reads only a few bytes before each deadline.
type halting struct {
	net.Conn
	takes   []int  // the number of bytes that the client reads during each write
	abort   func() // called during the last write
	written int
}

func (h *halting) SetWriteDeadline(time.Time) error { return nil }

func (h *halting) Write(p []byte) (int, error) {
	n := min(h.takes[0], len(p))
	if h.takes = h.takes[1:]; len(h.takes) == 0 && h.abort != nil {
		h.abort()
	}
	h.written += n
	if n == len(p) {
		return n, nil
	}
	return n, os.ErrDeadlineExceeded
}

// TestClientThatReadsALittle: a deadline ends a write only if the client has read nothing since the previous deadline,
// or if the write is aborted.
func TestClientThatReadsALittle(t *testing.T) {
	l := &limitListener{stall: time.Minute}
	slow := &halting{takes: []int{10, 1, 1, 0, 1, 0, 5, 100}} // after each 0, the next write is a probe
	n, err := (&limitedConn{Conn: slow, listener: l}).Write(make([]byte, 100))
	require.NoError(t, err)
	require.Equal(t, 100, n)
	require.Equal(t, 100, slow.written)

	stalled := &halting{takes: []int{10, 1, 0, 0, 100}}
	n, err = (&limitedConn{Conn: stalled, listener: l}).Write(make([]byte, 100))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, 11, n)

	aborted := &halting{takes: []int{10, 10}}
	c := &limitedConn{Conn: aborted, listener: l}
	aborted.abort = func() { _ = c.SetWriteDeadline(s3.Abort) }
	n, err = c.Write(make([]byte, 100))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, 20, n)
}

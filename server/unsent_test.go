package server

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestKernelHoldsLittleForAClient: the kernel takes only a few bytes more than unsentMax for a client that reads
// nothing.
func TestKernelHoldsLittleForAClient(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := newLimitListener(inner, 1, time.Minute)
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.(*net.TCPConn).SetReadBuffer(16<<10))
	conn, err := l.Accept()
	require.NoError(t, err)
	defer conn.Close()
	raw, err := limited(conn).Conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	taken, piece := 0, make([]byte, 64<<10)
	require.NoError(t, raw.Write(func(fd uintptr) bool {
		for err == nil && taken < 16*unsentMax {
			var n int
			if n, err = unix.Write(int(fd), piece); err == nil {
				taken += n
			}
		}
		return true
	}))
	require.ErrorIs(t, err, unix.EAGAIN)
	require.GreaterOrEqual(t, taken, unsentMax)
	require.Less(t, taken, 2*unsentMax)
	t.Log(taken)
}

package faults

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orcas/faults/result"
	"orcas/sdk"
)

// TestSlowReaders has a thousand clients read objects slowly from a small drive, and one more read an object that is
// then deleted, while one key is overwritten often enough to fill the drive many times. No write may be refused, a
// round of reclaim must not wait for readers, and a reader that continues must get the correct bytes to the end.
func TestSlowReaders(t *testing.T) {
	const driveSize, slowSize, otherSize, hotSize, others = 1200 << 20, 30 << 20, 8 << 20, 5 << 20, 10
	if !private(t) {
		return
	}
	overwrites, readers := count(t, "ORCAS_FAULTS_OVERWRITES", 200), count(t, "ORCAS_FAULTS_READERS", 1000)
	d := newDrive(t, driveSize, nil, nil)
	d.row = result.Of(t, result.Row{
		Fault: "slow-readers", Name: fmt.Sprintf("%d readers of other objects, and one of a deleted object", readers), Unit: "overwrites of 5 MiB", Seed: d.seed,
	})
	d.start(t)
	require.NoError(t, d.client.CreateBucket(t.Context()))
	require.True(t, d.put(t, "slow", slowSize))
	require.True(t, d.put(t, "gone", 50<<20))
	slow := d.has["slow"]
	for i := range others {
		require.True(t, d.put(t, fmt.Sprint("other-", i), otherSize))
	}
	trickle := newTrickle(t, d)
	first := trickle.open("slow", slowSize)
	for i := range readers {
		trickle.open(fmt.Sprint("other-", i%others), otherSize)
	}
	trickle.begin()

	begun := time.Now()
	for i := range overwrites {
		require.True(t, d.put(t, "hot", hotSize), "overwrite %d", i)
		d.row.Tried++
	}
	took := time.Since(begun)
	status, err := d.p.ReclaimStatus(t.Context())
	require.NoError(t, err)
	require.Equal(t, readers+1, status.Readers, "all clients must still be reading")
	require.Positive(t, status.OldestReader)

	// Delete the slow reader's object and another one. Only the space of the other one is freed.
	before := status.Freed
	d.remove(t, "slow", "gone")
	report, err := d.p.Reclaim(t.Context())
	require.NoError(t, err)
	assert.GreaterOrEqual(t, report.PinnedBytes, int64(slowSize))
	assert.Less(t, report.PinnedBytes, int64(slowSize+hotSize))
	assert.Positive(t, report.OldestReader)
	status, err = d.p.ReclaimStatus(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, status.Freed-before, int64(50<<20))
	require.Equal(t, report.PinnedBytes, status.PinnedBytes)
	require.True(t, d.put(t, "hot", hotSize))

	got := append(trickle.stop(first), first.rest(t)...)
	require.Len(t, got, slowSize)
	require.Empty(t, slow.differ(got), "the object was deleted while it was read")
	report, err = d.p.Reclaim(t.Context())
	require.NoError(t, err)
	require.Zero(t, report.PinnedBytes)
	d.check(t)
	require.NoError(t, d.p.Kill()) // a stop would wait for the other readers
	require.Empty(t, d.p.Alarms())
	d.row.Note = fmt.Sprintf("%.0f overwrites per minute with %d readers", float64(overwrites)/took.Minutes(), readers+1)
}

// trickle is a set of clients that read slowly.
type trickle struct {
	t       *testing.T
	d       *smallDrive
	clients []*slowClient
	end     context.CancelFunc
	ended   chan struct{}
}

// slowClient reads one object.
type slowClient struct {
	conn net.Conn
	body io.Reader
	got  []byte // only of the first client
	keep bool
}

func newTrickle(t *testing.T, d *smallDrive) *trickle {
	tr := &trickle{t: t, d: d, ended: make(chan struct{})}
	t.Cleanup(func() {
		for _, c := range tr.clients {
			_ = c.conn.Close()
		}
	})
	return tr
}

// open requests an object, and returns when the head of the response has arrived.
func (tr *trickle) open(key string, size int64) *slowClient {
	const window = 16 << 10 // small, so that little data is buffered
	address, err := url.Parse(tr.d.client.endpoint)
	require.NoError(tr.t, err)
	dialer := net.Dialer{Timeout: requestTimeout, Control: func(_, _ string, c syscall.RawConn) (err error) {
		outer := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, window) })
		if err == nil {
			err = outer
		}
		return err
	}}
	conn, err := dialer.DialContext(tr.t.Context(), "tcp", address.Host)
	require.NoError(tr.t, err)
	c := &slowClient{conn: conn, keep: len(tr.clients) == 0}
	tr.clients = append(tr.clients, c)
	r, err := tr.d.client.raw.Sign(tr.t.Context(), &sdk.Request{Method: http.MethodGet, Path: "/" + bucket + "/" + key})
	require.NoError(tr.t, err)
	require.NoError(tr.t, conn.SetDeadline(time.Now().Add(requestTimeout)))
	require.NoError(tr.t, r.Write(conn))
	response, err := http.ReadResponse(bufio.NewReaderSize(conn, 4096), r)
	require.NoError(tr.t, err)
	require.Equal(tr.t, http.StatusOK, response.StatusCode)
	require.Equal(tr.t, size, response.ContentLength)
	require.NoError(tr.t, conn.SetDeadline(time.Time{}))
	c.body = response.Body
	return c
}

// begin makes all clients read 4 KiB every two seconds.
func (tr *trickle) begin() {
	ctx, cancel := context.WithCancel(tr.t.Context())
	tr.end = cancel
	go func() {
		defer close(tr.ended)
		tick := time.NewTicker(2 * time.Second)
		defer tick.Stop()
		piece := make([]byte, 4<<10)
		for {
			for _, c := range tr.clients {
				n, err := io.ReadFull(c.body, piece)
				if err != nil {
					tr.t.Errorf("a slow reader was disconnected: %v", err)
					return
				}
				if c.keep {
					c.got = append(c.got, piece[:n]...)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// stop ends the reading, and returns what a client has read.
func (tr *trickle) stop(c *slowClient) []byte {
	tr.end()
	<-tr.ended
	return bytes.Clone(c.got)
}

// rest reads the rest of the object at full speed.
func (c *slowClient) rest(t *testing.T) []byte {
	require.NoError(t, c.conn.SetDeadline(time.Now().Add(requestTimeout)))
	got, err := io.ReadAll(c.body)
	require.NoError(t, err)
	return got
}

package s3_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/gate/limit"
	"orcas/internal/live"
	"orcas/s3"
)

// frozen returns a clock that stands still.
func frozen() func() time.Time {
	now := time.Now()
	return func() time.Time { return now }
}

// TestOverTheRate: a request over the rate is refused with Retry-After before its body is read. After a small body the
// connection can be used again; with a large one it is closed, and the body is not read.
func TestOverTheRate(t *testing.T) {
	for name, o := range map[string]limit.Options{"address": {AddressRate: 3}, "key": {KeyRate: 3}} {
		t.Run(name, func(t *testing.T) {
			o.Now = frozen()
			w := newWorld(t, setup{options: func(s *s3.Options) { s.Limits = limit.New(o) }})
			w.bucket("bucket")
			w.put("/bucket/key", "before")
			require.Equal(t, "before", w.content("/bucket/key"))
			got := w.do("GET", "/bucket/key", nil).is(503, "SlowDown")
			require.Equal(t, "1", got.header.Get("Retry-After"))
			require.Contains(t, string(got.body), "requests of this "+map[string]string{"address": "address", "key": "access key"}[name])

			conn := w.raw("PUT", "/bucket/key", 5, hash([]byte("after")))
			_, err := conn.Write([]byte("after"))
			require.NoError(t, err)
			a, res := w.readResponse(conn)
			a.is(503, "SlowDown")
			require.False(t, res.Close)

			conn = w.raw("PUT", "/bucket/key", 100<<20, hash(nil))
			a, res = w.readResponse(conn)
			a.is(503, "SlowDown")
			require.True(t, res.Close)
			_, err = conn.Read(make([]byte, 1))
			require.Error(t, err, "the connection is closed without waiting for the body")

			body := make([]byte, 100<<10) // net/http would discard it
			conn = w.raw("PUT", "/bucket/key", len(body), hash(body))
			_, err = conn.Write(body)
			require.NoError(t, err)
			a, res = w.readResponse(conn)
			a.is(503, "SlowDown")
			require.True(t, res.Close)
		})
	}
}

// TestRefusedBeforeLimits: with limits, the body of a request that is refused because the server is busy is not read.
func TestRefusedBeforeLimits(t *testing.T) {
	busy := live.New(live.Settings{BodyTimeout: time.Minute}) // no request may be in flight
	w := newWorld(t, setup{options: func(o *s3.Options) {
		o.Live, o.Limits = busy, limit.New(limit.Options{KeyBandwidth: 1 << 20})
	}})
	const size = 24 << 20 // less than what is read without limits, and more than the kernel's buffers
	conn := w.raw("PUT", "/bucket/key", size, hash(nil))
	a, _ := w.readResponse(conn)
	a.is(503, "SlowDown")
	_, err := conn.Write(make([]byte, size))
	require.Error(t, err)
}

// TestPausesAreNotTheFaultOfTheClient: a body is paced, in both directions, and the pauses, which are longer than the
// time limits for clients, do not count for these.
func TestPausesAreNotTheFaultOfTheClient(t *testing.T) {
	for name, start := range map[string]setup{"HTTP/1.1": {}, "HTTP/2": {start: overHTTP2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const bandwidth, pause = 64 << 10, 3500 * time.Millisecond
			limits := limit.New(limit.Options{AddressBandwidth: bandwidth})
			start.options = func(o *s3.Options) {
				o.Limits, o.BodyTimeout, o.MinRate, o.RateWindow = limits, 2*time.Second, 64<<10, 2*time.Second
			}
			w := newWorld(t, start)
			w.bucket("bucket")
			slow := func(method string, body []byte) *response {
				other, err := limits.Begin("127.0.0.1:1")
				require.NoError(t, err)
				defer other.End()
				if debt := other.Take(0); debt < pause { // another request of the same address has left a debt
					other.Take(int((pause - debt).Seconds() * bandwidth))
				}
				other.Take(bandwidth)
				begun := time.Now()
				got := w.do(method, "/bucket/key", body)
				require.Greater(t, time.Since(begun), time.Second, "the request waits")
				return got
			}
			body := random(1, 70_000)
			slow("PUT", body).is(200, "")
			got := slow("GET", nil).is(200, "")
			require.True(t, bytes.Equal(body, got.body))
		})
	}
}

// TestDebtRefusesRequests: while an address owes many bytes, its requests are refused.
func TestDebtRefusesRequests(t *testing.T) {
	limits := limit.New(limit.Options{AddressBandwidth: 1 << 20, Now: frozen()})
	w := newWorld(t, setup{options: func(o *s3.Options) { o.Limits = limits }})
	w.bucket("bucket")
	other, err := limits.Begin("127.0.0.1:1")
	require.NoError(t, err)
	defer other.End()
	other.Take(10 << 20)
	got := w.do("PUT", "/bucket/key", []byte(strings.Repeat("x", 1000))).is(503, "SlowDown")
	require.Equal(t, "4", got.header.Get("Retry-After"))
}

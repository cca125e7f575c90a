package limit

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
)

// clock is a clock that tests set.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) pass(d time.Duration) { c.now = c.now.Add(d) }

func newClock() *clock { return &clock{time.Unix(1_000_000, 0)} }

// count sends requests until one is refused, and returns how many were not.
func count(t *testing.T, send func() error) (n int, refused *Error) {
	t.Helper()
	for ; n < 1000; n++ {
		if err := send(); err != nil {
			require.True(t, errors.As(err, &refused), "%v", err)
			return n, refused
		}
	}
	t.Fatal("nothing is refused")
	return 0, nil
}

// TestRates: an address and an access key have one second's worth of requests at once, and then as many as time gives.
func TestRates(t *testing.T) {
	c := newClock()
	l := New(Options{AddressRate: 10, KeyRate: 4, Now: c.Now})
	from := func(remote string) func() error {
		return func() error {
			f, err := l.Begin(remote)
			defer f.End()
			return err
		}
	}
	n, refused := count(t, from("192.0.2.1:1"))
	require.Equal(t, 10, n)
	require.Equal(t, "1", refused.RetryAfter())
	require.NoError(t, from("192.0.2.2:1")(), "another address")
	c.pass(500 * time.Millisecond)
	n, _ = count(t, from("192.0.2.1:2"))
	require.Equal(t, 5, n, "the port does not matter")
	c.pass(time.Hour)
	n, _ = count(t, from("[::ffff:192.0.2.1]:2"))
	require.Equal(t, 10, n, "the same address in another form; no more than a second's worth")
	n, _ = count(t, from("[2001:db8::1]:2"))
	require.Equal(t, 10, n)
	require.Error(t, from("[2001:db8::2]:2")(), "the same network")
	require.NoError(t, from("[2001:db8:0:1::2]:2")(), "another network")

	address := 0
	as := func(key string, p *auth.Principal) func() error {
		return func() error {
			address++
			f, err := l.Begin(fmt.Sprintf("10.1.%d.%d:1", address/256, address%256))
			defer f.End()
			require.NoError(t, err)
			return f.Identify(key, p)
		}
	}
	user := &auth.Principal{Account: "1", ID: "u"}
	n, _ = count(t, as("key", user))
	require.Equal(t, 4, n)
	require.NoError(t, as("other", user)(), "another access key")
	require.NoError(t, as("", auth.Anonymous)(), "anonymous requests count for their address only")

	session := func(name string) *auth.Principal {
		return &auth.Principal{Account: "1", ID: "role:" + name, Session: name, Role: "role"}
	}
	i := 0
	n, _ = count(t, func() error { i++; return as(fmt.Sprint("key", i), session(fmt.Sprint("name:", i)))() })
	require.Equal(t, 4, n, "a new session does not have limits of its own")
	require.NoError(t, as("x", &auth.Principal{Account: "1", Session: "a", Role: "role2"})(), "another role")
	require.NoError(t, as("x", &auth.Principal{Account: "2", Session: "a", Role: "role"})(), "another account")
}

// TestBandwidth: bytes beyond one second's worth take time, for both buckets, and new requests are refused while the
// debt is large.
func TestBandwidth(t *testing.T) {
	c := newClock()
	l := New(Options{AddressBandwidth: 1 << 20, KeyBandwidth: 1 << 19, Now: c.Now})
	begin := func() (Flow, error) { return l.Begin("192.0.2.1:1") }
	f, err := begin()
	require.NoError(t, err)
	require.True(t, f.Paced())
	require.Zero(t, f.Take(1<<20))
	require.Equal(t, time.Second, f.Take(1<<20))
	c.pass(time.Second)
	require.Zero(t, f.Take(0))
	require.NoError(t, f.Identify("key", &auth.Principal{Account: "1"}))
	require.Equal(t, time.Second, f.Take(1<<20), "the lower bandwidth counts")
	f.Take(9 << 20)
	_, err = begin()
	var refused *Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "5", refused.RetryAfter())
	c.pass(5 * time.Second)
	_, err = begin()
	require.NoError(t, err)
	f.End()
	require.Zero(t, f.Take(1<<30), "it has ended")
	require.Equal(t, maxChunk, f.Chunk())

	require.Equal(t, maxChunk, l.chunk)
	require.Equal(t, minChunk, New(Options{KeyBandwidth: 16 << 10}).chunk)
}

// TestOff: without limits there is nothing to count.
func TestOff(t *testing.T) {
	l := New(Options{})
	require.Nil(t, l)
	f, err := l.Begin("192.0.2.1:1")
	require.NoError(t, err)
	require.NoError(t, f.Identify("key", &auth.Principal{Account: "1"}))
	require.False(t, f.Paced())
	require.Zero(t, f.Take(1<<40))
	f.End()
}

// TestFullTable: the number of entries is bounded, entries in debt or in use stay, and whoever does not fit is limited
// all the same.
func TestFullTable(t *testing.T) {
	c := newClock()
	l := New(Options{AddressRate: 2, AddressBandwidth: 1 << 20, Now: c.Now})
	const most = 64
	l.addresses.most = most
	send := func(i int) error {
		f, err := l.Begin(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1).String())
		defer f.End()
		return err
	}
	entries := func() (n int) {
		for i := range l.addresses.shards {
			n += len(l.addresses.shards[i].entries)
		}
		return n
	}
	const many = 4 * shards * most
	refused := 0
	require.NoError(t, send(0))
	require.NoError(t, send(0))
	for i := 1; i < many; i++ {
		if send(i) != nil {
			refused++
		}
	}
	require.LessOrEqual(t, entries(), shards*most)
	require.Greater(t, refused, many/2, "those that do not fit share one limit")
	require.Error(t, send(0), "a full table does not forget who is over the limit")
	c.pass(time.Hour)
	for i := range many {
		require.NoError(t, send(many+i%(1<<22)), "old entries are removed")
		if i%100 == 0 {
			c.pass(time.Second)
		}
	}
	require.Less(t, entries(), shards*most/4)
}

// TestRemovalKeepsUsers: the entry of a request in progress is not removed, even if it is full.
func TestRemovalKeepsUsers(t *testing.T) {
	c := newClock()
	l := New(Options{AddressBandwidth: 1 << 20, Now: c.Now})
	f, err := l.Begin("192.0.2.1:1")
	require.NoError(t, err)
	l.addresses.most = 64
	for i := range 10_000 {
		other, err := l.Begin(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
		require.NoError(t, err)
		other.End()
	}
	again, err := l.Begin("192.0.2.1:2")
	require.NoError(t, err)
	require.Same(t, f.address, again.address)
}

// TestCosts: without limits a request costs nothing, and with them no memory.
func TestCosts(t *testing.T) {
	p := &auth.Principal{Account: "1"}
	for name, l := range map[string]*Limits{"off": nil, "on": New(Options{AddressRate: 1e6, KeyRate: 1e6, KeyBandwidth: 1 << 40})} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(100, func() {
				f, _ := l.Begin("192.0.2.1:1")
				_ = f.Identify("key", p)
				f.Take(1000)
				f.End()
			}))
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	p := &auth.Principal{Account: "1"}
	for name, l := range map[string]*Limits{"off": nil, "on": New(Options{AddressRate: 1e9, KeyRate: 1e9})} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f, _ := l.Begin("192.0.2.1:1")
				_ = f.Identify("key", p)
				f.End()
			}
		})
	}
}

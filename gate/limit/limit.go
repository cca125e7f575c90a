// Package limit bounds how much of a server one client can use: the requests per second and the bytes per second of an
// access key, and of a client address. Each limit is a token bucket that holds one second's worth.
//
// A request that exceeds a rate is refused. Bodies are paced instead: a client that has transferred more bytes than its
// bucket held is in debt, and waits until the debt is paid. A request that begins while the debt is large is refused,
// too, since it would only wait.
//
// With IPv6, all addresses in a network of 64 bits share a bucket, because one client can have such a network. An
// access key has a bucket of its own. All sessions of a role share one, whatever their names are: otherwise a client
// could begin a new session for each request.
//
// One process: other servers would count on their own.
package limit

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"orcas/auth"
)

// Options are the limits; a limit of 0 is off.
type Options struct {
	KeyRate, AddressRate           int64 // requests per second
	KeyBandwidth, AddressBandwidth int64 // bytes per second, of bodies in both directions

	Now func() time.Time // default time.Now
}

// Limits are the buckets of all clients. A nil *Limits has no limits.
type Limits struct {
	now       func() time.Time
	addresses *table[netip.Prefix] // nil if addresses have no limits
	keys      *table[sender]       // nil if access keys have no limits
	chunk     int                  // see Flow.Chunk
}

// sender is who shares the bucket of an access key.
type sender struct {
	account string
	role    string // the ID of the role of a session
	key     string // the access key of anyone else
}

// New returns Limits, or nil if all limits are off.
func New(o Options) *Limits {
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Limits{
		now: o.Now, chunk: maxChunk,
		addresses: newTable[netip.Prefix](o.AddressRate, o.AddressBandwidth), keys: newTable[sender](o.KeyRate, o.KeyBandwidth),
	}
	for _, bandwidth := range []int64{o.KeyBandwidth, o.AddressBandwidth} {
		if bandwidth > 0 {
			l.chunk = min(l.chunk, max(minChunk, int(min(bandwidth, maxChunk*4))/4))
		}
	}
	if l.addresses == nil && l.keys == nil {
		return nil
	}
	return l
}

// The limits of Flow.Chunk.
const minChunk, maxChunk = 4 << 10, 64 << 10

// maxDebt is the debt, as the time in which it is paid, beyond which new requests are refused.
const maxDebt = 5 * time.Second

// Error is the error for a request that is refused. Clients see its text.
type Error struct {
	Retry time.Duration // the time after which the request may succeed
	what  string
}

func (e *Error) Error() string { return "too many " + e.what + ": try again later" }

// RetryAfter returns the value of the header Retry-After: whole seconds.
func (e *Error) RetryAfter() string {
	return fmt.Sprint(int64(min(max(math.Ceil(e.Retry.Seconds()), 1), 60)))
}

// Flow is a request that counts for the buckets of its sender. The zero value counts for none.
type Flow struct {
	limits  *Limits
	address *entry
	key     *entry
}

// Begin counts a request of a client at an address with a port. It returns an *Error if the request is to be refused.
// The caller calls End in any case.
func (l *Limits) Begin(remote string) (Flow, error) {
	f := Flow{limits: l}
	if l == nil || l.addresses == nil {
		return f, nil
	}
	now := l.now()
	f.address = l.addresses.get(network(remote), now)
	return f, l.addresses.admit(f.address, now, "address")
}

// Identify counts the request for its sender, who has been authenticated. Anonymous requests count for their address
// only. It returns an *Error if the request is to be refused.
func (f *Flow) Identify(accessKey string, p *auth.Principal) error {
	l := f.limits
	if l == nil || l.keys == nil || p.IsAnonymous() || f.key != nil {
		return nil
	}
	s := sender{account: p.Account, key: accessKey}
	if p.Session != "" {
		s = sender{account: p.Account, role: p.Role}
	}
	now := l.now()
	f.key = l.keys.get(s, now)
	return l.keys.admit(f.key, now, "access key")
}

// End ends the request.
func (f *Flow) End() {
	for _, e := range [...]*entry{f.address, f.key} {
		if e != nil {
			e.users.Add(-1)
		}
	}
	*f = Flow{}
}

// Paced reports whether the bodies of the request are paced.
func (f *Flow) Paced() bool {
	return f.address != nil && f.limits.addresses.bytes.rate > 0 || f.key != nil && f.limits.keys.bytes.rate > 0
}

// Chunk returns the number of bytes, at most, that should be transferred between two calls of Take.
func (f *Flow) Chunk() int {
	if f.limits == nil {
		return maxChunk
	}
	return f.limits.chunk
}

// Take counts n bytes of a body, and returns the time until the debt is paid.
func (f *Flow) Take(n int) time.Duration {
	if !f.Paced() || n <= 0 {
		return 0
	}
	now, wait := f.limits.now(), time.Duration(0)
	if f.address != nil {
		wait = f.address.bytes.spend(f.limits.addresses.bytes, float64(n), now)
	}
	if f.key != nil {
		wait = max(wait, f.key.bytes.spend(f.limits.keys.bytes, float64(n), now))
	}
	return wait
}

// Wait waits for d, or until ctx ends.
func Wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// network returns the addresses that count as one client. All clients whose address is not known are one.
func network(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	return Network(a)
}

// Network returns the addresses that count as one client: with IPv6 a network of 64 bits, with IPv4 the address.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // a has at least as many bits
	return p
}

package gate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"orcas/internal/sigv4"
)

// Throttle slows down clients that guess secrets. Of the requests of one client address with one access key, a number
// may have wrong signatures at once, and then one more in each interval. Beyond that, requests of this address with this
// access key are refused before their signature is compared, so that a guess learns nothing. The access key works from
// all other addresses, and other access keys work from this address: nobody can lock an account, and clients behind one
// proxy do not disturb each other.
//
// Requests with unknown access keys do not count, since they have no secret that could be guessed.
//
// One process: other servers would count on their own.
type Throttle struct {
	burst int
	every time.Duration
	now   func() time.Time
	log   *slog.Logger

	tracked atomic.Int64 // the number of guesses; 0 nearly always

	mu      sync.Mutex // guards the fields below
	guesses map[guess]*guesses
	swept   time.Time
}

// guess is who has sent wrong signatures.
type guess struct {
	network   netip.Prefix // the address; with IPv6, the network of 64 bits, which one client can have
	accessKey string
}

// guesses limits the wrong signatures of a client.
type guesses struct {
	*rate.Limiter
	warned time.Time // when the log last had a warning
}

const (
	// maxGuesses bounds the memory of a Throttle, at about 300 bytes each.
	maxGuesses = 10_000
	sweepEvery = time.Minute
	warnEvery  = time.Minute
)

// ErrThrottled is returned for requests that a Throttle refuses.
var ErrThrottled = errors.New("too many requests from this address had wrong signatures for this access key: try again later")

// NewThrottle returns a Throttle that accepts burst wrong signatures at once, and then one in each interval every. now is
// the clock.
func NewThrottle(burst int, every time.Duration, now func() time.Time, log *slog.Logger) *Throttle {
	return &Throttle{burst: burst, every: every, now: now, log: log, guesses: map[guess]*guesses{}}
}

// client is the client at the other end of a connection.
type client struct {
	network  netip.Prefix
	throttle *Throttle
}

// clientKey is the key of the *client in the context of a connection.
type clientKey struct{}

// WithClient returns the context of a connection, whose requests the schemes of this package count.
func (t *Throttle) WithClient(ctx context.Context, remote net.Addr) context.Context {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		return context.WithValue(ctx, clientKey{}, &client{networkOf(tcp.AddrPort().Addr()), t})
	}
	return ctx
}

// networkOf returns the addresses that count as one client.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // a has at least as many bits
	return p
}

// refuses reports whether the sender of a request has sent too many wrong signatures for an access key.
func refuses(ctx context.Context, accessKey string) bool {
	c, ok := ctx.Value(clientKey{}).(*client)
	if !ok || c.throttle.tracked.Load() == 0 {
		return false
	}
	t := c.throttle
	t.mu.Lock()
	l := t.guesses[guess{c.network, accessKey}]
	t.mu.Unlock()
	return l != nil && l.TokensAt(t.now()) < 1
}

// note counts the error of a request if it is a wrong signature.
func note(ctx context.Context, err error) {
	var refused *sigv4.Error
	c, ok := ctx.Value(clientKey{}).(*client)
	if !ok || !errors.As(err, &refused) || refused.Code != sigv4.SignatureDoesNotMatch {
		return
	}
	for _, d := range refused.Details {
		if d.Name == "AWSAccessKeyId" {
			c.throttle.count(guess{c.network, d.Value})
			return
		}
	}
}

// count counts a wrong signature.
func (t *Throttle) count(g guess) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	l := t.guesses[g]
	if l == nil {
		t.makeRoom(now)
		l = &guesses{Limiter: rate.NewLimiter(rate.Every(t.every), t.burst)}
		t.guesses[g] = l
		t.tracked.Store(int64(len(t.guesses)))
	}
	if l.AllowN(now, 1) && l.TokensAt(now) < 1 && now.Sub(l.warned) >= warnEvery {
		l.warned = now
		t.log.Warn("too many wrong signatures: requests are refused for a while", "client", g.network.Addr().String(), "access_key", g.accessKey)
	}
}

// makeRoom forgets clients that have not sent wrong signatures for a while and, if there are too many others, any of
// them. The caller holds t.mu.
func (t *Throttle) makeRoom(now time.Time) {
	if now.Sub(t.swept) >= sweepEvery || now.Before(t.swept) {
		t.swept = now
		for g, l := range t.guesses {
			if l.TokensAt(now) >= float64(t.burst) {
				delete(t.guesses, g)
			}
		}
	}
	for g := range t.guesses {
		if len(t.guesses) < maxGuesses {
			break
		}
		delete(t.guesses, g)
	}
}

// signIns is the access key under which all failed attempts of a client to sign in count together.
const signIns = ""

// Throttled reports whether the client of a request has failed to sign in too often. Its further attempts are refused
// for a while before anything is compared.
func Throttled(ctx context.Context) bool { return refuses(ctx, signIns) }

// NoteFailure counts a failed attempt to sign in.
func NoteFailure(ctx context.Context) {
	if c, ok := ctx.Value(clientKey{}).(*client); ok {
		c.throttle.count(guess{c.network, signIns})
	}
}

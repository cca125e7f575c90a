// Package session keeps the sessions of browsers: who has signed in, so that a page needs no secret.
//
// A session begins with an access key and its secret, or with a link that the holder of an access key has made. The browser gets a token in a cookie that scripts cannot read. The session has no rights of its own: for each
// request the access key is looked up again, and the request has the principal of the key at that moment. So a session
// ends at once if its key is deleted, disabled, expired or gets another secret, and every request passes the gate like a
// signed one.
//
// # Pages of other origins
//
// Cookies do not know ports: a browser sends those of this listener to all ports of the host, also with requests that a
// page of another port makes, such as an HTML object from the address of S3. Such a page is "same-site", so SameSite
// does not help. It could also replace the cookie by one of its own, so that the user works in somebody else's session.
// Therefore a request with a cookie needs more:
//
//   - A request by a script, and every request that may change something, must have a second token in the header
//     X-Orcas-Session. The page gets it when it signs in, and keeps it in its localStorage, which knows ports.
//   - Without that header, a request must be a GET or a HEAD that the page itself or the user began: Sec-Fetch-Site, which
//     pages cannot change, is same-origin or none. Browsers omit it only over plain HTTP to other hosts.
//
// Sessions are in memory and end when the server stops.
//
// One process: another server would have sessions of its own.
package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"orcas/auth"
	"orcas/gate"
)

// Options configure Sessions. Lookup is required.
type Options struct {
	Lookup gate.Lookup
	Cookie string           // the name of the cookie, without __Host-; default orcas-session
	Secure bool             // browsers reach the listener with HTTPS, so the cookie is bound to the host and to HTTPS
	Idle   time.Duration    // a session ends when it was not used for this long; default 1 h
	Life   time.Duration    // a session ends at this age; default 12 h
	Now    func() time.Time // default time.Now
}

// The limits. A session needs about 500 bytes.
const (
	maxSessions = 10_000
	maxPerKey   = 100
	maxLinks    = 1000
)

// LinkLife is the time for which a link to sign in is valid.
const LinkLife = 15 * time.Minute

// Header is the header of the second token.
const Header = "X-Orcas-Session"

// Field is the form field of the second token, in forms that a page posts.
const Field = "session"

// Errors of sessions.
var (
	// ErrCredentials is returned by SignIn. It is the same whether or not the access key exists.
	ErrCredentials = errors.New("the access key does not exist, or the secret key is wrong")
	// ErrLink is returned by SignInByLink.
	ErrLink = errors.New("the link has been used or has expired: get a new one with orcas admin login-link")
	// ErrEnded is returned for requests without a session.
	ErrEnded = fmt.Errorf("%w: there is no session, or it has ended: sign in", auth.ErrDenied)
	// ErrForeign is returned for requests with the cookie of a session that its page has not made.
	ErrForeign = fmt.Errorf("%w: the request does not come from the page of this session", auth.ErrDenied)
)

// credential is an access key with which somebody has signed in.
type credential struct {
	accessKey string
	token     string   // the session token of temporary credentials; "" for others
	secret    [32]byte // SHA-256 of the secret key
	principal string   // the ID of the principal
	account   string
}

// held is a session that has begun.
type held struct {
	credential
	second      [32]byte // SHA-256 of the second token
	began, used time.Time
}

// link is a link with which nobody has signed in yet.
type link struct {
	credential
	ends time.Time
}

// Sessions are the sessions of a server.
type Sessions struct {
	o Options

	mu    sync.Mutex         // guards the fields below
	held  map[[32]byte]*held // by the SHA-256 of the token
	links map[[32]byte]*link
}

// New returns Sessions without any session.
func New(o Options) *Sessions {
	o.Cookie = cmp.Or(o.Cookie, "orcas-session")
	o.Idle, o.Life = cmp.Or(o.Idle, time.Hour), cmp.Or(o.Life, 12*time.Hour)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sessions{o: o, held: map[[32]byte]*held{}, links: map[[32]byte]*link{}}
}

// Session is a session that has just begun, or that a request has.
type Session struct {
	AccessKey string
	Principal *auth.Principal
	Ends      time.Time // when it ends at the latest

	cookie, Second string // the tokens, of a session that has just begun
}

// newToken returns a token of 256 random bits, and its SHA-256.
func newToken() (string, [32]byte) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	token := base64.RawURLEncoding.EncodeToString(b[:])
	return token, sha256.Sum256([]byte(token))
}

// verify looks up an access key, and compares its secret with the SHA-256 of the one that was presented. If it is
// wrong, the error is ErrCredentials.
func (s *Sessions) verify(ctx context.Context, accessKey, token string, secret [32]byte) (credential, gate.Credential, error) {
	c, err := s.o.Lookup(ctx, accessKey, token)
	switch {
	case errors.Is(err, gate.ErrToken), errors.Is(err, gate.ErrExpired):
		return credential{}, c, ErrCredentials
	case err != nil:
		return credential{}, c, &gate.LookupError{Cause: err}
	}
	found := sha256.Sum256([]byte(c.SecretKey))
	if subtle.ConstantTimeCompare(found[:], secret[:]) != 1 || c.SecretKey == "" || c.Token != token ||
		c.Principal == nil || c.Principal.IsAnonymous() {
		return credential{}, c, ErrCredentials
	}
	return credential{accessKey, token, secret, c.Principal.ID, c.Principal.Account}, c, nil
}

// SignIn begins a session with an access key and, for temporary credentials, their session token. After too many wrong
// secrets of a client, the error is gate.ErrThrottled.
func (s *Sessions) SignIn(ctx context.Context, accessKey, secretKey, token string) (*Session, error) {
	if gate.Throttled(ctx) {
		return nil, gate.ErrThrottled
	}
	c, found, err := s.verify(ctx, accessKey, token, sha256.Sum256([]byte(secretKey)))
	if err != nil {
		if errors.Is(err, ErrCredentials) {
			gate.NoteFailure(ctx)
		}
		return nil, err
	}
	return s.begin(c, found.Principal), nil
}

// NewLink returns the token of a link with which the holder of an access key can sign in once. The error is ErrCredentials
// if the access key is unknown.
func (s *Sessions) NewLink(ctx context.Context, accessKey, token string) (secret string, ends time.Time, err error) {
	found, err := s.o.Lookup(ctx, accessKey, token)
	if err != nil {
		return "", ends, err
	}
	if found.SecretKey == "" || found.Principal == nil || found.Token != token {
		return "", ends, ErrCredentials
	}
	c := credential{accessKey, token, sha256.Sum256([]byte(found.SecretKey)), found.Principal.ID, found.Principal.Account}
	secret, sum := newToken()
	ends = s.o.Now().Add(LinkLife)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropLinks()
	s.links[sum] = &link{c, ends}
	return secret, ends, nil
}

// dropLinks forgets links that have expired and, if there are too many, the one that expires first. The caller holds s.mu.
func (s *Sessions) dropLinks() {
	now := s.o.Now()
	var oldest [32]byte
	var ends time.Time
	for sum, l := range s.links {
		if !now.Before(l.ends) {
			delete(s.links, sum)
		} else if ends.IsZero() || l.ends.Before(ends) {
			oldest, ends = sum, l.ends
		}
	}
	if len(s.links) >= maxLinks {
		delete(s.links, oldest)
	}
}

// SignInByLink begins a session with the token of a link, which is invalid from then on.
func (s *Sessions) SignInByLink(ctx context.Context, token string) (*Session, error) {
	if gate.Throttled(ctx) {
		return nil, gate.ErrThrottled
	}
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	l := s.links[sum]
	delete(s.links, sum)
	s.mu.Unlock()
	if l == nil || !s.o.Now().Before(l.ends) {
		gate.NoteFailure(ctx)
		return nil, ErrLink
	}
	c, found, err := s.verify(ctx, l.accessKey, l.token, l.secret)
	if errors.Is(err, ErrCredentials) || err == nil && c != l.credential {
		return nil, ErrLink // the key has changed since
	}
	if err != nil {
		return nil, err
	}
	return s.begin(c, found.Principal), nil
}

// begin adds a session.
func (s *Sessions) begin(c credential, p *auth.Principal) *Session {
	now := s.o.Now()
	token, sum := newToken()
	second, secondSum := newToken()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.makeRoom(c.accessKey, now)
	s.held[sum] = &held{c, secondSum, now, now}
	return &Session{AccessKey: c.accessKey, Principal: p, Ends: now.Add(s.o.Life), cookie: token, Second: second}
}

// makeRoom forgets sessions that have ended and, if there are too many, those that were not used for longest. The caller
// holds s.mu.
func (s *Sessions) makeRoom(accessKey string, now time.Time) {
	type last struct {
		sum  [32]byte
		used time.Time
		n    int
	}
	var all, same last
	note := func(l *last, sum [32]byte, used time.Time) {
		if l.n == 0 || used.Before(l.used) {
			l.sum, l.used = sum, used
		}
		l.n++
	}
	for sum, h := range s.held {
		if s.ended(h, now) {
			delete(s.held, sum)
			continue
		}
		note(&all, sum, h.used)
		if h.accessKey == accessKey {
			note(&same, sum, h.used)
		}
	}
	if same.n >= maxPerKey {
		delete(s.held, same.sum)
	} else if all.n >= maxSessions {
		delete(s.held, all.sum)
	}
}

// ended reports whether a session is too old, or was not used for too long.
func (s *Sessions) ended(h *held, now time.Time) bool {
	return now.Sub(h.began) >= s.o.Life || now.Sub(h.used) >= s.o.Idle
}

// End ends the session that a request has, if it has one.
func (s *Sessions) End(r *http.Request) {
	sum, ok := s.token(r)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, sum)
}

// EndAll ends all sessions and links of an access key.
func (s *Sessions) EndAll(accessKey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for sum, h := range s.held {
		if h.accessKey == accessKey {
			delete(s.held, sum)
		}
	}
	for sum, l := range s.links {
		if l.accessKey == accessKey {
			delete(s.links, sum)
		}
	}
}

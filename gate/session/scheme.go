package session

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"orcas/auth"
	"orcas/gate"
)

// cookieName returns the name of the cookie. Browsers accept one with the prefix __Host- only over HTTPS from this host
// itself, so that no other host of the domain can set it.
func (s *Sessions) cookieName() string {
	if s.o.Secure {
		return "__Host-" + s.o.Cookie
	}
	return s.o.Cookie
}

// setCookie gives a browser the cookie of a session. It has no lifetime, so it ends with the browser.
func (s *Sessions) setCookie(w http.ResponseWriter, value string, age int) {
	http.SetCookie(w, &http.Cookie{
		Name: s.cookieName(), Value: value, Path: "/", MaxAge: age, Secure: s.o.Secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// token returns the SHA-256 of the token in the cookie of a request, and whether it has exactly one such cookie: a second
// one was set by another host or path.
func (s *Sessions) token(r *http.Request) (sum [32]byte, ok bool) {
	cookies := r.CookiesNamed(s.cookieName())
	if len(cookies) != 1 || cookies[0].Value == "" {
		return sum, false
	}
	return sha256.Sum256([]byte(cookies[0].Value)), true
}

// Has reports whether a request has the cookie of a session, which need not exist.
func (s *Sessions) Has(r *http.Request) bool { return len(r.CookiesNamed(s.cookieName())) > 0 }

// Authenticate implements gate.Scheme. A request without a cookie, or with a signature, is anonymous: another scheme may
// identify its sender.
func (s *Sessions) Authenticate(r *http.Request) (gate.Identity, error) {
	if !s.Has(r) || r.Header.Get("Authorization") != "" {
		return gate.Identity{Principal: auth.Anonymous}, nil
	}
	return s.identify(r, r.Header.Get(Header))
}

// Scripts returns a scheme that accepts only requests with the second token.
func (s *Sessions) Scripts() gate.Scheme { return scripts{s} }

type scripts struct{ *Sessions }

// Authenticate implements gate.Scheme.
func (s scripts) Authenticate(r *http.Request) (gate.Identity, error) {
	if s.Has(r) && r.Header.Get("Authorization") == "" && r.Header.Get(Header) == "" {
		return gate.Identity{}, ErrForeign
	}
	return s.Sessions.Authenticate(r)
}

// AuthenticateForm is like Authenticate for a form, which has the second token in the field Field.
func (s *Sessions) AuthenticateForm(r *http.Request, second string) (gate.Identity, error) {
	return s.identify(r, second)
}

// identify returns the identity of the session of a request with a second token, or "".
func (s *Sessions) identify(r *http.Request, second string) (gate.Identity, error) {
	h, sum, err := s.find(r, second)
	if err != nil {
		return gate.Identity{}, err
	}
	c, found, err := s.verify(r.Context(), h.accessKey, h.credential.token, h.secret)
	if err == nil && c != h.credential {
		err = ErrCredentials // the access key belongs to another identity now
	}
	if errors.Is(err, ErrCredentials) {
		s.mu.Lock()
		delete(s.held, sum)
		s.mu.Unlock()
		return gate.Identity{}, ErrEnded
	}
	if err != nil {
		return gate.Identity{}, err
	}
	return gate.IdentityOf(s.o.Lookup, h.accessKey, found), nil
}

// find returns the session of a request, and notes that it was used.
func (s *Sessions) find(r *http.Request, second string) (held, [32]byte, error) {
	sum, ok := s.token(r)
	if !ok {
		return held{}, sum, ErrEnded
	}
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.held[sum]
	if h == nil || s.ended(h, now) {
		delete(s.held, sum)
		return held{}, sum, ErrEnded
	}
	if second != "" {
		got := sha256.Sum256([]byte(second))
		if subtle.ConstantTimeCompare(got[:], h.second[:]) != 1 {
			return held{}, sum, ErrForeign
		}
	} else if !navigates(r) {
		return held{}, sum, ErrForeign
	}
	h.used = now
	return *h, sum, nil
}

// navigates reports whether a request without the second token can only have been made by the page or by the user, and
// changes nothing.
func navigates(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	switch site := r.Header.Values("Sec-Fetch-Site"); {
	case len(site) == 0: // plain HTTP to another host: a page of another origin can neither read nor run the response
		return r.Header.Get("Origin") == ""
	case len(site) > 1:
		return false
	default:
		return site[0] == "same-origin" || site[0] == "none"
	}
}

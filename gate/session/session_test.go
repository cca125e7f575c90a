package session

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/gate"
)

// world is a set of keys, a clock, and the sessions of a server.
type world struct {
	t    *testing.T
	now  time.Time
	keys map[string]gate.Credential
	*Sessions
	*Handler
	seen []gate.Event
}

// Observe implements gate.Observer.
func (w *world) Observe(_ context.Context, e *gate.Event) { w.seen = append(w.seen, *e) }

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Unix(1_800_000_000, 0)}
	alice := &auth.Principal{Account: "111122223333", ID: "AIDALICE", ARN: "arn:aws:iam::111122223333:user/team/alice"}
	w.keys = map[string]gate.Credential{
		"alice": {SecretKey: "secret of alice", Principal: alice},
		"temp":  {SecretKey: "secret of temp", Principal: alice, Token: "token"},
		"root":  {SecretKey: "secret of root", Principal: &auth.Principal{Account: "111122223333", ID: "111122223333", ARN: auth.RootARN("111122223333")}},
	}
	w.Sessions = New(Options{
		Lookup: func(_ context.Context, key, token string) (gate.Credential, error) {
			c := w.keys[key]
			if c.Token != token && c.SecretKey != "" {
				return gate.Credential{}, gate.ErrToken
			}
			return c, nil
		},
		Now: func() time.Time { return w.now },
	})
	w.Handler = &Handler{
		Sessions: w.Sessions, Observers: []gate.Observer{w}, Logger: slog.New(slog.DiscardHandler),
		About: func(*http.Request, *auth.Principal) About { return About{Allowed: []string{"GetStatus"}} },
	}
	return w
}

// browser is what a browser keeps.
type browser struct {
	w      *world
	cookie *http.Cookie
	second string
}

// do sends a request to the API of sessions.
func (b *browser) do(method, query, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+Path+query, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	b.dress(r)
	out := httptest.NewRecorder()
	b.w.Handler.ServeHTTP(out, r)
	return out
}

// dress adds the cookie and the second token.
func (b *browser) dress(r *http.Request) {
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	if b.second != "" {
		r.Header.Set(Header, b.second)
	}
}

// signIn signs in, and keeps the tokens.
func (b *browser) signIn(body string) *Document {
	out := b.do("POST", "", body)
	require.Equal(b.w.t, 200, out.Code, out.Body.String())
	var d Document
	require.NoError(b.w.t, json.Unmarshal(out.Body.Bytes(), &d))
	require.Len(b.w.t, out.Result().Cookies(), 1)
	b.cookie, b.second = out.Result().Cookies()[0], d.Token
	return &d
}

const asAlice = `{"access_key": "alice", "secret_key": "secret of alice"}`

// get returns the result of a GET of something else than the API, after change has changed it.
func (b *browser) get(change func(*http.Request)) (gate.Identity, error) {
	r := httptest.NewRequest("GET", "http://localhost/-/s3/bucket/key", nil)
	b.dress(r)
	if change != nil {
		change(r)
	}
	return b.w.Sessions.Authenticate(r)
}

func TestSignIn(t *testing.T) {
	w := newWorld(t)
	b := &browser{w: w}
	d := b.signIn(asAlice)
	require.Equal(t, Principal{ID: "AIDALICE", ARN: "arn:aws:iam::111122223333:user/team/alice", Name: "team/alice", Kind: "user"}, d.Principal)
	require.Equal(t, w.now.Add(12*time.Hour).UTC(), d.Ends)
	require.True(t, b.cookie.HttpOnly)
	require.Equal(t, http.SameSiteStrictMode, b.cookie.SameSite)
	require.Equal(t, "/", b.cookie.Path)
	require.Empty(t, b.cookie.Domain)
	require.NotContains(t, b.cookie.Value+b.second, "secret")

	id, err := b.get(nil)
	require.NoError(t, err)
	require.True(t, id.Session)
	require.Equal(t, w.keys["alice"].Principal, id.Principal)
	require.Equal(t, "alice", id.AccessKey)
	_, changed, err := id.Again(t.Context())
	require.NoError(t, err)
	require.False(t, changed)

	out := b.do("GET", "", "")
	require.Equal(t, 200, out.Code)
	require.NotContains(t, out.Body.String(), b.second, "only the response to a sign-in has the token")
	for _, body := range []string{
		`{"access_key": "alice", "secret_key": "wrong"}`, `{"access_key": "nobody", "secret_key": "secret of alice"}`,
		`{"access_key": "temp", "secret_key": "secret of temp"}`, `{"access_key": "temp", "secret_key": "secret of temp", "session_token": "other"}`,
		`{"link": "unknown"}`,
	} {
		out := (&browser{w: w}).do("POST", "", body)
		require.Equal(t, 403, out.Code, body)
		require.Empty(t, out.Result().Cookies())
	}
	for _, body := range []string{"", "{", `{}`, `{"access_key": "alice"}`, strings.Repeat("x", maxBody+1)} {
		require.Equal(t, 400, (&browser{w: w}).do("POST", "", body).Code)
	}
	require.Equal(t, 405, b.do("PUT", "", "").Code)
	(&browser{w: w}).signIn(`{"access_key": "temp", "secret_key": "secret of temp", "session_token": "token"}`)
	require.Equal(t, "root", (&browser{w: w}).signIn(`{"access_key": "root", "secret_key": "secret of root"}`).Principal.Kind)

	for _, e := range w.seen { // audit records have no secret
		require.NotContains(t, e.Path+e.Target+e.AccessKey, "secret")
	}
	require.Equal(t, "SignIn", w.seen[0].Operation)
	require.Equal(t, "alice", w.seen[0].AccessKey)
	require.True(t, w.seen[0].Changes())
	form := httptest.NewRequest("POST", Path, strings.NewReader(asAlice))
	form.Header.Set("Content-Type", "text/plain") // what a form of another page could send
	refused := httptest.NewRecorder()
	w.Handler.ServeHTTP(refused, form)
	require.Equal(t, 400, refused.Code)
}

// TestForeignRequests: the cookie alone is good for nothing but what the page shows itself.
func TestForeignRequests(t *testing.T) {
	w := newWorld(t)
	b := &browser{w: w}
	b.signIn(asAlice)
	second := b.second
	with := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	b.second = ""
	for _, ok := range []func(*http.Request){with("Sec-Fetch-Site", "same-origin"), with("Sec-Fetch-Site", "none"), with()} {
		_, err := b.get(ok)
		require.NoError(t, err)
	}
	for name, bad := range map[string]func(*http.Request){
		"same site":  with("Sec-Fetch-Site", "same-site"),
		"cross site": with("Sec-Fetch-Site", "cross-site"),
		"origin":     with("Origin", "http://localhost:9000"),
		"two":        func(r *http.Request) { r.Header["Sec-Fetch-Site"] = []string{"none", "none"} },
		"post":       func(r *http.Request) { r.Method = "POST" },
		"put":        func(r *http.Request) { r.Method = "PUT"; r.Header.Set("Sec-Fetch-Site", "same-origin") },
		"delete":     func(r *http.Request) { r.Method = "DELETE"; r.Header.Set("Sec-Fetch-Site", "same-origin") },
		"wrong":      with(Header, "wrong", "Sec-Fetch-Site", "same-origin"),
	} {
		_, err := b.get(bad)
		require.ErrorIs(t, err, ErrForeign, name)
		require.ErrorIs(t, err, auth.ErrDenied, name)
	}
	_, err := w.Sessions.Scripts().Authenticate(func() *http.Request {
		r := httptest.NewRequest("GET", "/-/admin/status", nil)
		b.dress(r)
		return r
	}())
	require.ErrorIs(t, err, ErrForeign, "the admin API has no pages")
	require.Equal(t, 403, b.do("DELETE", "", "").Code)

	b.second = second
	_, err = b.get(func(r *http.Request) { r.AddCookie(&http.Cookie{Name: b.cookie.Name, Value: "planted"}) })
	require.ErrorIs(t, err, ErrEnded, "two cookies: one of them is not ours")
	id, err := b.get(with("Authorization", "AWS4-HMAC-SHA256 ..."))
	require.NoError(t, err)
	require.True(t, id.Principal.IsAnonymous(), "a signature counts, not the cookie")
}

// TestPlantedCookie: a page of another port can replace the cookie by that of its own session, but not the second token.
func TestPlantedCookie(t *testing.T) {
	w := newWorld(t)
	victim, attacker := &browser{w: w}, &browser{w: w}
	victim.signIn(asAlice)
	attacker.signIn(`{"access_key": "root", "secret_key": "secret of root"}`)
	victim.cookie = attacker.cookie
	_, err := victim.get(nil)
	require.ErrorIs(t, err, ErrForeign)
	require.Equal(t, 403, victim.do("GET", "", "").Code)

	// A sign-in ends the session that the cookie had, and begins another one.
	before := *victim.cookie
	victim.second = ""
	victim.signIn(asAlice)
	require.NotEqual(t, before.Value, victim.cookie.Value)
	_, err = attacker.get(nil)
	require.ErrorIs(t, err, ErrEnded)
}

func TestEnds(t *testing.T) {
	signedIn := func(t *testing.T) (*world, *browser) {
		w := newWorld(t)
		b := &browser{w: w}
		b.signIn(asAlice)
		return w, b
	}
	ended := func(t *testing.T, b *browser) {
		_, err := b.get(nil)
		require.ErrorIs(t, err, ErrEnded)
		require.Equal(t, 401, b.do("GET", "", "").Code)
	}
	t.Run("idle", func(t *testing.T) {
		w, b := signedIn(t)
		w.now = w.now.Add(59 * time.Minute)
		_, err := b.get(nil)
		require.NoError(t, err)
		w.now = w.now.Add(time.Hour)
		ended(t, b)
	})
	t.Run("life", func(t *testing.T) {
		w, b := signedIn(t)
		for range 23 {
			w.now = w.now.Add(30 * time.Minute)
			_, err := b.get(nil)
			require.NoError(t, err)
		}
		w.now = w.now.Add(30 * time.Minute)
		ended(t, b)
	})
	for name, change := range map[string]func(w *world){
		"rotated": func(w *world) {
			c := w.keys["alice"]
			c.SecretKey = "another secret"
			w.keys["alice"] = c
		},
		"deleted": func(w *world) { delete(w.keys, "alice") },
		"passed on": func(w *world) {
			c := w.keys["alice"]
			c.Principal = &auth.Principal{Account: "111122223333", ID: "AIDBOB"}
			w.keys["alice"] = c
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := signedIn(t)
			id, err := b.get(nil)
			require.NoError(t, err)
			change(w)
			_, _, err = id.Again(t.Context())
			require.Error(t, err, "a request that is in progress ends, too")
			ended(t, b)
			w.keys["alice"] = newWorld(t).keys["alice"]
			ended(t, b)
		})
	}
	t.Run("sign out", func(t *testing.T) {
		_, b := signedIn(t)
		require.Equal(t, 200, b.do("DELETE", "", "").Code)
		ended(t, b)
	})
	t.Run("sign out everywhere", func(t *testing.T) {
		w, b := signedIn(t)
		other, root := &browser{w: w}, &browser{w: w}
		other.signIn(asAlice)
		root.signIn(`{"access_key": "root", "secret_key": "secret of root"}`)
		link, _, err := w.NewLink(t.Context(), "alice", "")
		require.NoError(t, err)
		require.Equal(t, 200, b.do("DELETE", "?all=true", "").Code)
		ended(t, b)
		ended(t, other)
		_, err = root.get(nil)
		require.NoError(t, err)
		_, err = w.SignInByLink(t.Context(), link)
		require.ErrorIs(t, err, ErrLink)
	})
}

func TestLinks(t *testing.T) {
	w := newWorld(t)
	link, ends, err := w.NewLink(t.Context(), "alice", "")
	require.NoError(t, err)
	require.Equal(t, w.now.Add(LinkLife), ends)
	b := &browser{w: w}
	b.signIn(`{"link": "` + link + `"}`)
	require.Equal(t, 403, (&browser{w: w}).do("POST", "", `{"link": "`+link+`"}`).Code, "it works once")

	late, _, err := w.NewLink(t.Context(), "alice", "")
	require.NoError(t, err)
	w.now = w.now.Add(LinkLife)
	_, err = w.SignInByLink(t.Context(), late)
	require.ErrorIs(t, err, ErrLink)

	rotated, _, err := w.NewLink(t.Context(), "alice", "")
	require.NoError(t, err)
	c := w.keys["alice"]
	c.SecretKey = "another"
	w.keys["alice"] = c
	_, err = w.SignInByLink(t.Context(), rotated)
	require.ErrorIs(t, err, ErrLink)
	_, _, err = w.NewLink(t.Context(), "nobody", "")
	require.ErrorIs(t, err, ErrCredentials)
	for range maxLinks + 10 {
		_, _, err = w.NewLink(t.Context(), "root", "")
		require.NoError(t, err)
	}
	require.Len(t, w.links, maxLinks)
}

func TestBounds(t *testing.T) {
	w := newWorld(t)
	first := &browser{w: w}
	first.signIn(asAlice)
	for range maxPerKey {
		w.now = w.now.Add(time.Second)
		(&browser{w: w}).signIn(asAlice)
	}
	require.Len(t, w.held, maxPerKey)
	_, err := first.get(nil)
	require.ErrorIs(t, err, ErrEnded, "the session that was not used for longest has ended")
}

// TestThrottle: failed attempts of an address are refused after a while, also those with the right secret and with links.
func TestThrottle(t *testing.T) {
	w := newWorld(t)
	throttle := gate.NewThrottle(3, time.Minute, func() time.Time { return w.now }, slog.New(slog.DiscardHandler))
	from := func(ip string) context.Context {
		return throttle.WithClient(context.Background(), &net.TCPAddr{IP: net.ParseIP(ip), Port: 1})
	}
	for range 3 {
		_, err := w.SignIn(from("192.0.2.1"), "nobody", "x", "")
		require.ErrorIs(t, err, ErrCredentials)
	}
	_, err := w.SignIn(from("192.0.2.1"), "alice", "secret of alice", "")
	require.ErrorIs(t, err, gate.ErrThrottled)
	_, err = w.SignInByLink(from("192.0.2.1"), "x")
	require.ErrorIs(t, err, gate.ErrThrottled)
	_, err = w.SignIn(from("192.0.2.2"), "alice", "secret of alice", "")
	require.NoError(t, err, "other addresses are not affected")
	w.now = w.now.Add(time.Minute)
	_, err = w.SignIn(from("192.0.2.1"), "alice", "secret of alice", "")
	require.NoError(t, err)
	r := httptest.NewRequest("POST", Path, strings.NewReader(`{"access_key": "nobody", "secret_key": "x"}`)).WithContext(from("192.0.2.3"))
	r.Header.Set("Content-Type", "application/json")
	for range 4 {
		out := httptest.NewRecorder()
		q := r.Clone(r.Context())
		q.Body = io.NopCloser(strings.NewReader(`{"access_key": "nobody", "secret_key": "x"}`))
		w.Handler.ServeHTTP(out, q)
		r.Pattern = http.StatusText(out.Code)
	}
	require.Equal(t, "Too Many Requests", r.Pattern)
}

// TestSecureCookie: over HTTPS, the cookie is bound to the host.
func TestSecureCookie(t *testing.T) {
	w := newWorld(t)
	w.Sessions.o.Secure = true
	b := &browser{w: w}
	b.signIn(asAlice)
	require.Equal(t, "__Host-orcas-session", b.cookie.Name)
	require.True(t, b.cookie.Secure)
}

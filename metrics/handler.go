package metrics

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Access decides who may read the metrics.
type Access struct {
	// Listen is the address of the listener. Without a Token, only requests of this machine to a loopback address are
	// answered, and only if they name it in the Host header: a web page whose name was changed to resolve to 127.0.0.1 names itself.
	Listen netip.Addr

	// Token, if not nil, returns the token that requests must present, in the header "Authorization: Bearer TOKEN". It is
	// called for each request, so that a token can be replaced while the server runs.
	Token func() (string, error)
}

// maxScrapes is the maximum number of concurrent scrapes; more get 503.
const maxScrapes = 4

// handler serves the metrics.
type handler struct {
	access Access
	scrape http.Handler
	log    *slog.Logger

	mu     sync.Mutex           // guards warned
	warned map[string]time.Time // by reason: when a refused request was last logged
}

// Handler returns a handler that serves the metrics to those whom access admits.
func (r *Registry) Handler(access Access, log *slog.Logger) http.Handler {
	return &handler{access: access, log: log, warned: map[string]time.Time{}, scrape: promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxRequestsInFlight: maxScrapes,
	})}
}

// refusal is the response to a request that is not admitted.
type refusal struct {
	status int
	text   string
	cause  error // for the log; nil if text says everything
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if refused := h.admit(r); refused != nil {
		if refused.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		h.warn(r, refused)
		http.Error(w, refused.text, refused.status)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	h.scrape.ServeHTTP(w, r)
}

// admit returns nil for a request that may read the metrics.
func (h *handler) admit(r *http.Request) *refusal {
	if h.access.Token != nil {
		return h.checkToken(r)
	}
	switch {
	case !h.access.Listen.IsLoopback():
		return &refusal{http.StatusForbidden, "metrics require a token, because other machines can reach the admin listener: " +
			"set ORCAS_METRICS_TOKEN_FILE", nil}
	case !isLoopback(r.RemoteAddr):
		return &refusal{http.StatusForbidden, "metrics are served without a token only to clients of this machine, and not through " +
			"a proxy: set ORCAS_METRICS_TOKEN_FILE", nil}
	case !isLocal(r.Host, h.access.Listen):
		return &refusal{http.StatusForbidden, "metrics are served without a token only if the Host header names localhost or " +
			"a loopback address: use such a URL, or set ORCAS_METRICS_TOKEN_FILE", nil}
	}
	return nil
}

// isLoopback reports whether an address with a port is that of this machine. The address of a client behind a trusted
// proxy is not.
func isLoopback(remote string) bool {
	a, err := netip.ParseAddrPort(remote)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// isLocal reports whether a Host header names this machine: localhost, a loopback address, or the address of the
// listener.
func isLocal(host string, listen netip.Addr) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && (a.Unmap().IsLoopback() || a.Unmap() == listen.Unmap())
}

// checkToken compares the token of a request with the expected one, in a time that depends on neither.
func (h *handler) checkToken(r *http.Request) *refusal {
	want, err := h.access.Token()
	if err == nil && want == "" {
		err = errors.New("the token is empty")
	}
	if err != nil {
		return &refusal{http.StatusInternalServerError, "the token for metrics cannot be read: the log of the server has the reason", err}
	}
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return &refusal{http.StatusUnauthorized, "metrics require a token: send the header Authorization: Bearer TOKEN, " +
			"with the content of the file that ORCAS_METRICS_TOKEN_FILE names", nil}
	}
	a, b := sha256.Sum256([]byte(strings.TrimSpace(got))), sha256.Sum256([]byte(want))
	if subtle.ConstantTimeCompare(a[:], b[:]) != 1 {
		return &refusal{http.StatusForbidden, "the token for metrics is wrong", nil}
	}
	return nil
}

// warnEvery is the minimum time between two lines in the log about requests that were refused for the same reason.
const warnEvery = time.Minute

// warn logs a refused request, but not each of many. Requests without a token do not hide that it cannot be read.
func (h *handler) warn(r *http.Request, refused *refusal) {
	reason, now := refused.text, time.Now()
	if refused.cause != nil {
		reason += refused.cause.Error()
	}
	h.mu.Lock()
	recent := now.Sub(h.warned[reason]) < warnEvery
	if !recent {
		maps.DeleteFunc(h.warned, func(_ string, last time.Time) bool { return now.Sub(last) >= warnEvery })
		h.warned[reason] = now
	}
	h.mu.Unlock()
	if !recent {
		attrs := []any{"remote", r.RemoteAddr, "status", refused.status, "reason", refused.text}
		if refused.cause != nil {
			attrs = append(attrs, "err", refused.cause)
		}
		h.log.Warn("a request for metrics was refused", attrs...)
	}
}

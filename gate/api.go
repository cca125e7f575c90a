package gate

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// API is one of the APIs that share listeners: the requests that it handles, and their handler. Empty fields match
// every request.
type API struct {
	Name   string
	Port   int      // the port that the request was received on
	Hosts  []string // the hosts of the request, in lower case and without ports
	Method string
	Path   string // the path; with "*" at the end, every path with that prefix

	// Accepts reports whether the API handles a request that has the above. If it is nil, the API handles all of them. It
	// must be fast, because a request that it does not accept goes on to the next API.
	Accepts func(r *http.Request) bool

	Handler http.Handler
}

// Find returns the first of apis that handles a request, or nil. If ofBucket is set, the host of the request contains
// a bucket name. All paths of such a host are keys, so an API without hosts does not match.
func Find(apis []API, r *http.Request, ofBucket bool) *API {
	for i := range apis {
		if a := &apis[i]; a.matches(r, ofBucket) {
			return a
		}
	}
	return nil
}

func (a *API) matches(r *http.Request, ofBucket bool) bool {
	if a.Method != "" && a.Method != r.Method || a.Port != 0 && a.Port != port(r) {
		return false
	}
	if len(a.Hosts) > 0 && !slices.Contains(a.Hosts, Host(r)) || len(a.Hosts) == 0 && ofBucket {
		return false
	}
	if prefix, ok := strings.CutSuffix(a.Path, "*"); ok && !strings.HasPrefix(r.URL.Path, prefix) {
		return false
	} else if !ok && a.Path != "" && a.Path != r.URL.Path {
		return false
	}
	return a.Accepts == nil || a.Accepts(r)
}

// Host returns the host that a request was sent to, in lower case and without a port.
func Host(r *http.Request) string {
	host := r.Host
	if strings.IndexByte(host, ':') >= 0 {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	return strings.ToLower(host)
}

// port returns the port on which net/http received a request, or 0 if it is unknown.
func port(r *http.Request) int {
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return a.Port
	}
	return 0
}

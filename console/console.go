// Package console serves the console: a web page with which people see what the server does, and administer it. It is
// on the admin listener:
//
//	GET  /                    redirects to the page
//	GET  /console/...         the files of the page, which are part of the program (directory web)
//	     /-/s3/BUCKET/KEY...  S3 for the session of the page (see mount)
//	POST /-/console/zip       objects as a ZIP archive
//	POST /-/console/presign   a link to share an object
//	POST /-/console/test-key  a test of an access key
//	POST /-/console/allowed   what the user could do with a bucket or its keys
//
// All other paths are those of the admin API.
//
// The page has no rights. It acts with the session of the user (package gate/session), and every request passes the gate
// of the API that it is for. All URLs in the page are relative, so that a proxy can put it below a base path.
//
// # Foreign content
//
// Objects belong to anybody, and names, metadata and policies may contain markup. The page never interprets a text as
// HTML, and its Content-Security-Policy allows only scripts and styles that are files of the program. Objects have their
// own, stricter policy: they are downloaded, or shown in a sandbox if they have one of a few types.
package console

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"orcas/auth"
	"orcas/gate"
	"orcas/gate/session"
)

// S3 serves S3, and knows what its users could do.
type S3 interface {
	http.Handler
	Could(r *http.Request, id *gate.Identity, on auth.Resource, actions []auth.Action) ([]error, error) // see s3.Server
}

// Options configure a Handler. All fields except Now are required.
type Options struct {
	Sessions  *session.Sessions
	SignIn    http.Handler           // serves session.Path
	S3        S3                     // serves S3, with sessions among its authentication schemes
	Admin     http.Handler           // serves all other paths
	Knows     func(host string) bool // reports whether the server has this name
	Lookup    gate.Lookup            // the credentials of access keys
	Region    string
	PublicURL string // the URL of S3 in links to share
	Endpoint  string // the URL of S3 on this machine
	Logger    *slog.Logger
	Now       func() time.Time // default time.Now
}

// Handler serves the console and the admin API.
type Handler struct {
	o     Options
	files map[string]*file
	paths map[string]http.HandlerFunc // the functions of the page, all of them POST
}

// New returns a Handler.
func New(o Options) (*Handler, error) {
	if o.Sessions == nil || o.SignIn == nil || o.S3 == nil || o.Admin == nil || o.Knows == nil || o.Lookup == nil || o.PublicURL == "" {
		return nil, errors.New("console.New: an option is missing")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	files, err := load()
	if err != nil {
		return nil, err
	}
	h := &Handler{o: o, files: files}
	h.paths = map[string]http.HandlerFunc{
		"/-/console/zip": h.zip, "/-/console/presign": document(h, h.presign), "/-/console/test-key": document(h, h.testKey),
		"/-/console/allowed": document(h, h.allowed),
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	page, isPage := strings.CutPrefix(path, "/console/")
	mounted := strings.HasPrefix(path, mountPrefix)
	function, isFunction := h.paths[path]
	if !isPage && !mounted && !isFunction && path != session.Path && path != "/" && path != "/console" && !h.o.Sessions.Has(r) {
		h.o.Admin.ServeHTTP(w, r)
		return
	}
	harden(w.Header())
	if !h.o.Knows(gate.Host(r)) {
		http.Error(w, "The console does not know the name "+printable(gate.Host(r))+". If it is one of this server, set ORCAS_CONSOLE_URL "+
			"to the address that browsers use.", http.StatusMisdirectedRequest)
		return
	}
	switch {
	case isPage:
		h.page(w, r, page)
	case path == "/" || path == "/console":
		redirect(w, r)
	case mounted:
		h.mount(w, r)
	case path == session.Path:
		h.o.SignIn.ServeHTTP(w, r)
	case isFunction:
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		function(w, r)
	default:
		h.o.Admin.ServeHTTP(w, r)
	}
}

// redirect sends the browser to the page. The location is relative, because a proxy may have removed a base path.
func redirect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Location", "console/")
	w.WriteHeader(http.StatusFound)
}

// harden sets the headers that all responses to browsers have.
func harden(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
}

// printable returns a host name without characters that could mean something elsewhere.
func printable(host string) string {
	return strings.Map(func(c rune) rune {
		if c > ' ' && c < 0x7f && c != '<' && c != '>' && c != '"' && c != '&' {
			return c
		}
		return '?'
	}, host[:min(len(host), 255)])
}

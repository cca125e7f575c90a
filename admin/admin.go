// Package admin serves the API for administering a running server, over HTTP on a separate listener.
//
// Requests pass the same gate as S3 requests (package gate) and are signed like those, but only in the Authorization
// header, with the SHA-256 of the body: a presigned URL would be valid for a week, with any body. The console has a
// session instead (package gate/session). Routes are rows of a table
// (routes.go), each with the action that the caller must be allowed to perform. The resource is the server, which
// belongs to the root account. Responses are JSON documents; an error is {"error": "..."}.
//
//	GET  /-/admin/reclaim             the status of reclaim
//	POST /-/admin/reclaim[?wait=true] frees all garbage; with wait, the response is a report
//	GET  /-/admin/scrub               the status and the findings of the scrub
//	POST /-/admin/scrub[?wait=true][&rate=N][&restart=true]  reads and verifies everything, at most N bytes per second
//	GET  /-/admin/lifecycle             the status of the lifecycle worker
//	POST /-/admin/lifecycle[?wait=true] deletes everything that has expired; with wait, the response is a report
//	GET  /-/admin/lost                objects with content in missing blocks, one document per line (see LostLine)
//	POST /-/admin/fsck[?content=true] recounts the metadata; the response is a report
//	GET  /-/admin/bucket?name=BUCKET  the settings of a bucket
//	POST /-/admin/bucket?name=BUCKET[&compression=LEVEL][&chunk-size=SIZE][&max-bytes=SIZE][&max-objects=N][&public=PUBLIC]
//	                                  changes settings of a bucket
//	GET  /-/admin/keys                the master keys in use, and the state of the last rotation
//	POST /-/admin/keys[?wait=true]    wraps every data key with the newest master key
//	GET  /-/admin/key                 the application keys, without their secrets
//	POST /-/admin/key?name=NAME&bucket=BUCKET&access=ACCESS[&prefix=PREFIX][&no-delete=true][&expires=DURATION]
//	                                  creates an application key; the response has its secret
//	POST /-/admin/key/state?name=NAME&enabled=BOOL         enables or disables an application key
//	POST /-/admin/key/rotate?name=NAME[&overlap=DURATION]  replaces its access key; the response has the new secret
//	DELETE /-/admin/key?name=NAME     deletes an application key
//	GET, POST, DELETE /-/admin/user[?name=NAME]            lists, creates and deletes users
//	POST /-/admin/user/key?name=NAME[&expires=DURATION]    creates an access key of a user; the response has its secret
//	DELETE /-/admin/user/key?name=NAME&key=KEY             deletes an access key of a user
//	POST /-/admin/user/key/state?name=NAME&key=KEY&enabled=BOOL  enables or disables an access key of a user
//	GET, POST, DELETE /-/admin/group[?name=NAME]           lists, creates and deletes groups
//	POST /-/admin/group/member?group=NAME&user=NAME&member=BOOL  adds a user to a group, or removes it
//	GET, POST /-/admin/account[?name=NAME]                 lists accounts, and creates one; the response has the secret of its root
//	POST /-/admin/account/rotate?name=NAME[&overlap=DURATION]  replaces the access key of its root
//	GET, DELETE /-/admin/role[?name=NAME]                  lists and deletes roles
//	POST /-/admin/role?name=NAME[&user=NAME]...[&max-session=DURATION][&description=TEXT]
//	                                  creates a role that these users may assume; otherwise, the body is its trust policy
//	POST /-/admin/role/settings?...   changes these settings of a role
//	GET /-/admin/policy               the policies with their documents
//	POST /-/admin/policy?name=NAME    writes a policy; the document is the body
//	DELETE /-/admin/policy?name=NAME  deletes a policy
//	POST /-/admin/policy/attach?policy=NAME&user=NAME&attached=BOOL
//	                                  attaches a policy to a user (or, with group=NAME, to a group, or, with role=NAME,
//	                                  to a role), or detaches it
//	GET  /-/admin/policy/simulate?key=KEY&action=ACTION[&resource=ARN][&context=NAME=VALUE]...
//	                                  decides about a request that is not made; instead of a key, user=NAME or anonymous=true
//	POST /-/admin/login-link          a link with which the caller can sign in to the console once; only for signed requests
//	GET  /-/admin/status              everything that a page about the health of the server needs
//	POST /-/admin/policy/simulate?...  the same with a draft of the policy of a bucket: the body is {"bucket_policy": DOCUMENT}
//	GET  /-/admin/usage[?bucket=NAME]  what a bucket, or the store, held over time
//	POST /-/admin/lifecycle/preview?bucket=NAME[&limit=N]  what the rules would delete now: those in the body, or those of the
//	                                  bucket
//	GET  /-/admin/log/stream[?level=LEVEL][&lines=N]  the last lines of the log, and then new ones (see LogLine)
//	GET  /-/admin/backup?dir=DIR      the backups in a directory on the server's machine
//	GET  /-/admin/history             the traffic of the last hour
//	GET  /-/admin/trace[?operation=NAME][&bucket=NAME][&key=PREFIX][&status=STATUS][&min-duration=DURATION][&errors=true]
//	                                  requests as they end, one document per line (see TraceLine)
//	GET  /-/admin/top[?interval=DURATION]  rates and latencies, one document per interval (see TopLine)
//	GET, POST /-/admin/log[?level=LEVEL]  shows and changes what is logged
//	POST /-/admin/cache/flush         drops the caches of the metadata
//	GET  /-/admin/profile?name=NAME[&seconds=N][&debug=N]  a profile of the server; also under /debug/pprof/NAME
//	POST /-/admin/apply               makes the store have what a file declares; the body is an ApplyRequest
//	POST /-/admin/backup?dir=DIR[&keep=N][&link=true]  writes a backup to a directory on the server's machine
package admin

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/core"
	"orcas/gate"
	"orcas/gate/session"
	"orcas/internal/mutant"
	"orcas/internal/sigv4"
)

// maxBody is the maximum size of a request body, in bytes.
const maxBody = 256 << 10

// Options configure a Handler. All fields without a default are required.
type Options struct {
	Schemes    []gate.Scheme   // authenticate callers; the last one is that of signatures
	Account    string          // the account that owns the server
	Authorizer auth.Authorizer // default auth.Owners
	APIs       []gate.API      // other APIs on the listener
	Observers  []gate.Observer // notified when a request has ended, after the access log
	Logger     *slog.Logger
	Now        func() time.Time // default time.Now

	Store Store
}

// Handler is the http.Handler of the admin API.
type Handler struct {
	o     Options
	paths map[string]map[string]endpoint // by path, then method
}

// endpoint is a route with its handler, whose result is rendered as JSON.
type endpoint struct {
	route  *gate.Route
	handle handler
}

type handler func(*http.Request) (any, error)

// New returns a Handler.
func New(o Options) (*Handler, error) { return newHandler(o, Routes()) }

func newHandler(o Options, rows []*gate.Route) (*Handler, error) {
	o.Authorizer = cmp.Or[auth.Authorizer](o.Authorizer, auth.Owners{})
	if o.Now == nil {
		o.Now = time.Now
	}
	h := &Handler{o: o, paths: map[string]map[string]endpoint{}}
	joined, err := gate.Join(rows, h.o.Store.handlers())
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	for i, r := range rows {
		if h.paths[r.Path] == nil {
			h.paths[r.Path] = map[string]endpoint{}
		}
		if _, taken := h.paths[r.Path][r.Method]; taken {
			return nil, fmt.Errorf("admin: two routes match %s %s", r.Method, r.Path)
		}
		h.paths[r.Path][r.Method] = endpoint{r, joined[i]}
	}
	return h, nil
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if api := gate.Find(h.o.APIs, r, false); api != nil {
		api.Handler.ServeHTTP(w, r)
		return
	}
	e := &gate.Event{ID: rand.Text(), Method: r.Method, Path: r.URL.Path, Remote: r.RemoteAddr, UserAgent: r.UserAgent(), Start: h.o.Now()}
	defer h.observe(r.Context(), e)
	w.Header().Set("X-Amz-Request-Id", e.ID)
	result, err := h.gate(w, r, e)
	if err != nil {
		e.Status, e.Code, e.Cause = statusOf(err), CodeOf(err), err
		result = errorBody{text(err)}
		if e.Status == http.StatusForbidden && e.Reason == "" {
			e.Reason = gate.Authorization
		}
		var unknown *gate.LookupError
		if errors.As(err, &unknown) {
			e.Cause = unknown.Cause
		}
	}
	respond(w, e.Status, result)
}

// observe logs a request when it ends, even in a panic.
func (h *Handler) observe(ctx context.Context, e *gate.Event) {
	p := recover()
	if p != nil {
		e.Status, e.Code, e.Cause = http.StatusInternalServerError, internalError, fmt.Errorf("panic: %v", p)
	}
	e.Took = h.o.Now().Sub(e.Start)
	accessLog{h.o.Logger}.Observe(ctx, e)
	for _, o := range h.o.Observers {
		o.Observe(ctx, e)
	}
	if p != nil {
		panic(p) // net/http logs the stack and closes the connection
	}
}

// gate checks a request and then calls its handler; there is no other way to a handler. It fills in e.
func (h *Handler) gate(w http.ResponseWriter, r *http.Request, e *gate.Event) (any, error) {
	id, err := h.authenticate(r, e)
	if err != nil {
		var unknown *gate.LookupError
		if errors.As(err, &unknown) {
			return nil, &refusal{http.StatusInternalServerError, err}
		}
		e.Reason = gate.Authentication
		if errors.Is(err, session.ErrEnded) {
			return nil, &refusal{http.StatusUnauthorized, err}
		}
		if errors.Is(err, gate.ErrThrottled) {
			w.Header().Set("Retry-After", "2")
			return nil, &refusal{http.StatusTooManyRequests, err}
		}
		if !errors.Is(err, session.ErrForeign) {
			err = fmt.Errorf("the request is not signed with valid credentials: %w", err)
		}
		return nil, &refusal{http.StatusForbidden, err}
	}
	methods, ok := h.paths[r.URL.Path]
	if !ok && strings.HasPrefix(r.URL.Path, profilePrefix) {
		methods, ok = h.paths[profilePrefix+"*"]
	}
	if !ok {
		return nil, &refusal{http.StatusNotFound, errors.New("unknown admin endpoint: " + r.URL.Path)}
	}
	found, ok := methods[r.Method]
	if !ok {
		allowed := make([]string, 0, len(methods))
		for m := range methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		return nil, &refusal{http.StatusMethodNotAllowed, errors.New("method not allowed")}
	}
	e.Operation, e.Effect, e.Status = found.route.Name, found.route.Effect, http.StatusOK
	e.Target = r.URL.RawQuery // without a signature, which must be in a header
	if found.route.Path == bucketPath {
		e.Bucket = r.URL.Query().Get("name")
	}
	if err := h.authorize(r, e, found.route); err != nil {
		return nil, err
	}
	again := h.recheck(r, &sender{id, e, found.route})
	c := &call{h.o.Authorizer, e.Principal, id, found.route, facts{r, e.Start}, again, e}
	return found.handle(r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// call is an authorized request, for its handler.
type call struct {
	authorizer auth.Authorizer
	caller     *auth.Principal
	sender     gate.Identity // of the caller
	route      *gate.Route
	facts      facts
	again      func(context.Context) error // authorizes the caller again
	event      *gate.Event
}

// callKey is the key of the *call in the context of an authorized request.
type callKey struct{}

// callerOf returns the principal that sent an authorized request.
func callerOf(r *http.Request) *auth.Principal {
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		return c.caller
	}
	return auth.Anonymous
}

// accessKeyOf returns the access key with which an authorized request is signed.
func accessKeyOf(r *http.Request) string {
	if c, ok := r.Context().Value(callKey{}).(*call); ok {
		return c.sender.AccessKey
	}
	return ""
}

// Allowed returns the names of the operations that a principal may perform, in a request like r. A page shows only these.
func (h *Handler) Allowed(r *http.Request, p *auth.Principal) []string {
	server, names := auth.Resource{Account: h.o.Account}, []string{}
	for _, methods := range h.paths {
		for _, e := range methods {
			if h.o.Authorizer.Authorize(r.Context(), p, e.route.Action, server, facts{r, h.o.Now()}) == nil {
				names = append(names, e.route.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// authorize checks that the sender of a request may perform a secondary action, which the route must declare.
func authorize(r *http.Request, a auth.Action, resource auth.Resource) error {
	c, ok := r.Context().Value(callKey{}).(*call)
	if !ok || !c.route.Declares(a) {
		return fmt.Errorf("%s %s does not declare the action %s", r.Method, r.URL.Path, a)
	}
	err := c.authorizer.Authorize(r.Context(), c.caller, a, resource, c.facts)
	if errors.Is(err, auth.ErrDenied) {
		return &refusal{http.StatusForbidden, fmt.Errorf("permission for %s is required: %w", a, err)}
	}
	return err
}

// errUnsigned is returned for a request whose signature could be used by others, or does not cover the body.
var errUnsigned = errors.New("the admin API accepts only requests with a signature of version 4 in the Authorization " +
	"header and the SHA-256 of the body in x-amz-content-sha256: no presigned URLs, and neither UNSIGNED-PAYLOAD nor " +
	"chunked bodies")

// authenticate identifies the sender of a request. It reads the whole body, because the signature covers it. While it
// does, the access key may be revoked, so it is looked up again.
func (h *Handler) authenticate(r *http.Request, e *gate.Event) (id gate.Identity, err error) {
	id, err = gate.Authenticate(h.o.Schemes, r)
	if err != nil {
		return id, err
	}
	if id.Principal.IsAnonymous() { // anonymous callers must not learn which endpoints exist
		return id, auth.ErrDenied
	}
	if !id.Session && (id.Presigned || id.Form || id.Mode != sigv4.PayloadSHA256) && !mutant.Is("admin-by-url") {
		return id, errUnsigned
	}
	body, err := id.Body(r)
	if err != nil {
		return id, err
	}
	content, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	e.In = int64(len(content))
	if err != nil {
		return id, err
	}
	if len(content) > maxBody {
		return id, fmt.Errorf("the request body is larger than %d bytes", maxBody)
	}
	r.Body = io.NopCloser(strings.NewReader(string(content)))
	e.AccessKey = id.AccessKey
	e.Principal, _, err = id.Again(r.Context())
	return id, err
}

// authorize checks that the sender of a request may perform the action of a route.
func (h *Handler) authorize(r *http.Request, e *gate.Event, route *gate.Route) error {
	server := auth.Resource{Account: h.o.Account}
	err := h.o.Authorizer.Authorize(r.Context(), e.Principal, route.Action, server, facts{r, e.Start})
	if errors.Is(err, auth.ErrDenied) {
		return &refusal{http.StatusForbidden, fmt.Errorf("permission for %s is required: %w", route.Action, err)}
	}
	return err
}

// facts provides the condition keys that requests of all APIs have.
type facts struct {
	r     *http.Request
	start time.Time
}

// Fact implements auth.Facts.
func (f facts) Fact(key string) (string, bool) { return gate.CommonFact(f.r, f.start, key) }

// refusal is an error with its HTTP status.
type refusal struct {
	status int
	err    error
}

func (f *refusal) Error() string { return f.err.Error() }
func (f *refusal) Unwrap() error { return f.err }

// text returns the text of an error without internal names.
func text(err error) string {
	var signature *sigv4.Error
	if errors.As(err, &signature) {
		return strings.TrimSuffix(err.Error(), signature.Error()) + signature.Message
	}
	return core.Text(err)
}

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	var f *refusal
	if errors.As(err, &f) {
		return f.status
	}
	var wrong *identity.Error
	if errors.As(err, &wrong) {
		return identityStatus(wrong.Code)
	}
	switch core.KindOf(err) {
	case core.InvalidArgument:
		return http.StatusBadRequest
	case core.NoSuchBucket:
		return http.StatusNotFound
	case core.NoSpace:
		return http.StatusInsufficientStorage
	case core.Canceled, core.Unavailable, core.ReadOnly, core.Overloaded, core.Busy:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// internalError is the error code of faults of the server.
const internalError = "InternalError"

// statusCodes are the error codes of errors that have no code of their own, by HTTP status.
var statusCodes = map[int]string{
	http.StatusBadRequest:          "InvalidArgument",
	http.StatusUnauthorized:        "AccessDenied",
	http.StatusForbidden:           "AccessDenied",
	http.StatusNotFound:            "NotFound",
	http.StatusMethodNotAllowed:    "MethodNotAllowed",
	http.StatusTooManyRequests:     "Throttling",
	http.StatusServiceUnavailable:  "ServiceUnavailable",
	http.StatusInsufficientStorage: "InsufficientStorage",
}

// CodeOf returns the error code of an error for audit records and traces, or "" if there is no error. S3 and IAM have the
// same codes.
func CodeOf(err error) string {
	var signature *sigv4.Error
	var wrong *identity.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &signature):
		return string(signature.Code)
	case errors.As(err, &wrong):
		return string(wrong.Code)
	case errors.Is(err, gate.ErrExpired):
		return "ExpiredToken"
	case errors.Is(err, gate.ErrToken):
		return "InvalidToken"
	case core.Is(err, core.NoSuchBucket):
		return "NoSuchBucket"
	}
	return cmp.Or(statusCodes[statusOf(err)], internalError)
}

// accessLog is the observer that logs completed and refused requests. It does not log requests to unknown paths.
type accessLog struct{ log *slog.Logger }

// Observe implements gate.Observer.
func (l accessLog) Observe(ctx context.Context, e *gate.Event) {
	attrs := []any{"method", e.Method, "path", e.Path, "remote", e.Remote}
	switch {
	case e.Status == http.StatusForbidden, e.Status == http.StatusTooManyRequests:
		l.log.InfoContext(ctx, "admin request refused", append(attrs, "reason", e.Cause.Error())...)
	case e.Operation != "":
		attrs = append(attrs, "seconds", e.Took.Seconds())
		if e.Cause != nil {
			attrs = append(attrs, "err", e.Cause)
		}
		l.log.InfoContext(ctx, "admin request", attrs...)
	}
}

// Busy responds to requests when all connections of the listener are in use.
func Busy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", "1")
	respond(w, http.StatusServiceUnavailable, errorBody{"all connections of the admin listener are in use: try again"})
}

// stream is a response of any number of JSON documents, one per line. It must report its own errors in one of them.
type stream func(emit func(document any) error)

type errorBody struct {
	Error string `json:"error"`
}

func respond(w http.ResponseWriter, status int, v any) {
	contentType := "application/json"
	switch v := v.(type) {
	case stream, live:
		contentType = "application/x-ndjson"
	case file:
		w.Header().Set("Content-Type", v.contentType)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(v.content) // an error here means that the client has disconnected
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	switch v := v.(type) {
	case stream:
		v(e.Encode)
		return
	case live:
		v(&lines{e, http.NewResponseController(w)})
		return
	}
	e.SetIndent("", "  ")
	_ = e.Encode(v) // an error here means that the client has disconnected
}

package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"orcas/auth"
	"orcas/gate"
)

// Path is the path of the API of sessions.
const Path = "/-/admin/session"

// The operations of the API, for metrics, traces and audit records.
const (
	opSignIn  = "SignIn"
	opGet     = "GetSession"
	opSignOut = "SignOut"
)

// Routes returns the operations of the API. Nobody needs a permission for them: a caller without a session can only begin one.
func Routes() []*gate.Route {
	return []*gate.Route{
		{Name: opSignIn, Method: http.MethodPost, Effect: gate.Settings, Path: Path},
		{Name: opGet, Method: http.MethodGet, Effect: gate.Read, Path: Path},
		{Name: opSignOut, Method: http.MethodDelete, Effect: gate.Settings, Path: Path},
	}
}

// maxBody is the maximum size of a request body, in bytes.
const maxBody = 16 << 10

// Handler serves the API of sessions:
//
//	POST   /-/admin/session           begins a session; the body is a SignInRequest
//	GET    /-/admin/session           the session of the request
//	DELETE /-/admin/session[?all=true]  ends it, or all sessions of its access key
//
// The response to POST and GET is a Document. An error is {"error": "..."}; the status is 401 without a session.
type Handler struct {
	Sessions *Sessions

	// About returns what pages need to know about the server, and what the caller may do. The request has the session.
	About     func(r *http.Request, p *auth.Principal) About
	Observers []gate.Observer
	Logger    *slog.Logger
}

// SignInRequest has either an access key with its secret or the token of a link.
type SignInRequest struct {
	AccessKey    string `json:"access_key"`
	SecretKey    string `json:"secret_key"`
	SessionToken string `json:"session_token"` // of temporary credentials
	Link         string `json:"link"`
}

// About describes the server to a page.
type About struct {
	Allowed   []string `json:"allowed"`    // the names of the admin operations that the caller may perform
	Endpoint  string   `json:"endpoint"`   // the URL of S3
	PublicURL string   `json:"public_url"` // the URL of S3 for people elsewhere
	Region    string   `json:"region"`
	Version   string   `json:"version"`
}

// Document describes a session to a page.
type Document struct {
	Token       string    `json:"token,omitempty"` // for Header, in the response to POST
	AccessKey   string    `json:"access_key"`
	Principal   Principal `json:"principal"`
	Account     string    `json:"account"`
	Ends        time.Time `json:"ends"`
	IdleSeconds int64     `json:"idle_seconds"`
	About
}

// Principal describes who has signed in.
type Principal struct {
	ID   string `json:"id"`
	ARN  string `json:"arn"`
	Name string `json:"name"`
	Kind string `json:"kind"` // root, user, role, or key
}

// describe returns the description of a principal.
func describe(p *auth.Principal) Principal {
	d := Principal{ID: p.ID, ARN: p.ARN, Kind: "key"}
	resource := p.ARN[strings.LastIndexByte(p.ARN, ':')+1:]
	kind, name, _ := strings.Cut(resource, "/")
	d.Name = name
	switch {
	case p.ID == p.Account:
		d.Kind, d.Name = "root", "root"
	case p.Role != "":
		d.Kind = "role"
	case kind == "user":
		d.Kind = "user"
	}
	return d
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &gate.Event{
		ID: rand.Text(), Method: r.Method, Path: r.URL.Path, Remote: r.RemoteAddr, UserAgent: r.UserAgent(), Start: h.Sessions.o.Now(),
		Status: http.StatusOK,
	}
	w.Header().Set("X-Amz-Request-Id", e.ID)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	result, err := h.handle(w, r, e)
	if err != nil {
		e.Status, e.Code, e.Cause = StatusOf(err), "AccessDenied", err
		if e.Status == http.StatusInternalServerError {
			e.Code, e.Fault = "InternalError", true
		}
		if e.Status == http.StatusForbidden || e.Status == http.StatusTooManyRequests || e.Status == http.StatusUnauthorized {
			e.Reason = gate.Authentication
		}
		if e.Status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "10")
		}
		result = errorBody{err.Error()}
	}
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(result) // an error here means that the client has disconnected
	h.observe(r.Context(), e)
}

// observe logs a request that has ended, and passes it to the observers.
func (h *Handler) observe(ctx context.Context, e *gate.Event) {
	e.Took = h.Sessions.o.Now().Sub(e.Start)
	var unknown *gate.LookupError
	if errors.As(e.Cause, &unknown) {
		e.Cause = unknown.Cause
	}
	switch {
	case e.Cause != nil && e.Operation == opSignIn:
		h.Logger.InfoContext(ctx, "console: sign-in refused", "remote", e.Remote, "reason", e.Cause.Error())
	case e.Cause == nil && e.Operation != opGet:
		h.Logger.InfoContext(ctx, "console: "+e.Operation, "remote", e.Remote, "access_key", e.AccessKey)
	}
	for _, o := range h.Observers {
		o.Observe(ctx, e)
	}
}

// errorBody is the response to a request that failed.
type errorBody struct {
	Error string `json:"error"`
}

// Refuse responds to a request that is refused because of an error of Authenticate.
func Refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(StatusOf(err))
	_ = json.NewEncoder(w).Encode(errorBody{err.Error()}) // an error here means that the client has disconnected
}

// badRequest is the error of a request that cannot be understood.
type badRequest struct{ error }

// errMethod is returned for other methods.
var errMethod = errors.New("method not allowed")

// StatusOf returns the HTTP status for an error of this package.
func StatusOf(err error) int {
	switch {
	case errors.Is(err, ErrEnded):
		return http.StatusUnauthorized
	case errors.Is(err, gate.ErrThrottled):
		return http.StatusTooManyRequests
	case errors.Is(err, ErrCredentials), errors.Is(err, ErrLink), errors.Is(err, auth.ErrDenied):
		return http.StatusForbidden
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed
	case errors.As(err, new(badRequest)):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// handle performs a request. It fills in e.
func (h *Handler) handle(w http.ResponseWriter, r *http.Request, e *gate.Event) (any, error) {
	switch r.Method {
	case http.MethodPost:
		e.Operation, e.Effect = opSignIn, gate.Settings
		return h.signIn(w, r, e)
	case http.MethodGet, http.MethodDelete:
	default:
		w.Header().Set("Allow", "DELETE, GET, POST")
		return nil, errMethod
	}
	e.Operation, e.Effect = opGet, gate.Read
	if r.Method == http.MethodDelete {
		e.Operation, e.Effect = opSignOut, gate.Settings
	}
	if r.Header.Get(Header) == "" { // only pages have a use for this API
		if !h.Sessions.Has(r) {
			return nil, ErrEnded
		}
		return nil, ErrForeign
	}
	id, err := h.Sessions.identify(r, r.Header.Get(Header))
	if err != nil {
		return nil, err
	}
	e.AccessKey, e.Principal = id.AccessKey, id.Principal
	if r.Method == http.MethodDelete {
		h.Sessions.End(r)
		if r.URL.Query().Get("all") == "true" {
			h.Sessions.EndAll(id.AccessKey)
		}
		h.Sessions.setCookie(w, "", -1)
		return struct{}{}, nil
	}
	return h.document(r, &Session{AccessKey: id.AccessKey, Principal: id.Principal, Ends: h.Sessions.ends(r)}), nil
}

// ends returns when the session of a request ends at the latest.
func (s *Sessions) ends(r *http.Request) time.Time {
	sum, _ := s.token(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.held[sum]; found != nil {
		return found.began.Add(s.o.Life)
	}
	return time.Time{}
}

// signIn begins a session. An older session of the browser ends.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request, e *gate.Event) (any, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, badRequest{errors.New("the Content-Type must be application/json")} // forms of other pages cannot have it
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	e.In = int64(len(body))
	if err != nil {
		return nil, badRequest{fmt.Errorf("the request body cannot be read: %w", err)}
	}
	var in SignInRequest
	if json.Unmarshal(body, &in) != nil { // its error could quote a secret
		return nil, badRequest{errors.New("the request body is not valid JSON")}
	}
	var began *Session
	switch {
	case in.Link != "":
		began, err = h.Sessions.SignInByLink(r.Context(), in.Link)
	case in.AccessKey == "" || in.SecretKey == "":
		return nil, badRequest{errors.New("enter an access key and its secret key")}
	default:
		began, err = h.Sessions.SignIn(r.Context(), in.AccessKey, in.SecretKey, in.SessionToken)
	}
	if err != nil {
		return nil, err
	}
	h.Sessions.End(r)
	h.Sessions.setCookie(w, began.cookie, 0)
	e.AccessKey, e.Principal = began.AccessKey, began.Principal
	return h.document(r, began), nil
}

// document returns the description of a session.
func (h *Handler) document(r *http.Request, s *Session) *Document {
	return &Document{
		Token: s.Second, AccessKey: s.AccessKey, Principal: describe(s.Principal), Account: s.Principal.Account, Ends: s.Ends.UTC(),
		IdleSeconds: int64(h.Sessions.o.Idle / time.Second), About: h.About(r, s.Principal),
	}
}

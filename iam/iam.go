package iam

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/gate"
	"orcas/gate/limit"
	"orcas/internal/sigv4"
)

// Limits.
const (
	// maxBody is the maximum size of a request body, in bytes. The largest policy takes 60 KiB in a form.
	maxBody = 128 << 10

	// maxInFlight is the maximum number of requests in flight: they need at most twice maxBody each.
	maxInFlight = 512

	// bodyTimeout is the time in which a client must send the body.
	bodyTimeout = 30 * time.Second
)

// Options configure a Handler. All fields without a default are required.
type Options struct {
	Identities *identity.Directory
	Lookup     gate.Lookup     // looks up access keys
	Authorizer auth.Authorizer // decides what a principal may do
	Observers  []gate.Observer // notified when a request has ended
	Limits     *limit.Limits   // of requests per second; nil for none

	Now         func() time.Time // default time.Now
	MaxInFlight int              // requests; more get 503; default 512
	BodyTimeout time.Duration    // default 30 s
}

// Handler is the http.Handler of the API. It must get only requests that Accepts accepts.
type Handler struct {
	o        Options
	schemes  map[string]gate.Scheme // by the name of the service
	actions  map[string]endpoint    // by name
	inFlight atomic.Int64
}

// endpoint is a row of the table with its handler.
type endpoint struct {
	*route
	handle handler
}

// New returns a Handler.
func New(o Options) (*Handler, error) { return newHandler(o, allRoutes(), handlers()) }

func newHandler(o Options, rows []route, handlers map[string]handler) (*Handler, error) {
	if o.Identities == nil || o.Lookup == nil || o.Authorizer == nil {
		return nil, errors.New("iam.New: Identities, Lookup and Authorizer are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxInFlight, o.BodyTimeout = cmp.Or(o.MaxInFlight, maxInFlight), cmp.Or(o.BodyTimeout, bodyTimeout)
	joined, err := gate.Join(rowsOf(rows), handlers)
	if err != nil {
		return nil, fmt.Errorf("iam: %w", err)
	}
	h := &Handler{o: o, schemes: map[string]gate.Scheme{}, actions: map[string]endpoint{}}
	for i := range rows {
		h.actions[rows[i].Name] = endpoint{&rows[i], joined[i]}
	}
	for name := range services {
		h.schemes[name] = gate.SigV4(&sigv4.Verifier{
			Service: name, Payload: sigv4.PayloadFromBody, AnyRegion: true, Now: o.Now,
		}, o.Lookup)
	}
	return h, nil
}

// service is one of the two services.
type service struct {
	name      string
	version   string // of the API, in requests
	namespace string // of documents
}

var services = map[string]*service{
	"iam": {"iam", "2010-05-08", "https://iam.amazonaws.com/doc/2010-05-08/"},
	"sts": {"sts", "2011-06-15", "https://sts.amazonaws.com/doc/2011-06-15/"},
}

// Accepts reports whether a request with the path "/" belongs to the API: if it claims to be signed for one of the
// services, or if it is a form without any signature, which no operation of S3 is.
func Accepts(r *http.Request) bool {
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		return false
	}
	switch claimed := sigv4.ClaimedService(r); {
	case claimed != "":
		return services[claimed] != nil
	case r.Method == http.MethodGet || r.Header.Get("Authorization") != "" || strings.Contains(r.URL.RawQuery, "Signature"):
		return false
	}
	return isForm(r)
}

// isForm reports whether the body of a request is a form.
func isForm(r *http.Request) bool {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && mediaType == "application/x-www-form-urlencoded"
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{h: h, w: w, r: r, service: services["iam"], caller: auth.Anonymous}
	c.event = gate.Event{
		ID: newRequestID(), Method: r.Method, Path: r.URL.Path, Remote: r.RemoteAddr, UserAgent: r.UserAgent(), Start: h.o.Now(),
	}
	defer c.observe()
	if err := h.admit(c); err != nil {
		c.fail(err)
		return
	}
	c.succeed()
}

// admit limits the number of requests in flight.
func (h *Handler) admit(c *call) error {
	defer h.inFlight.Add(-1)
	if h.inFlight.Add(1) > int64(h.o.MaxInFlight) {
		return errBusy
	}
	defer c.flow.End()
	var err error
	if c.flow, err = h.o.Limits.Begin(c.r.RemoteAddr); err != nil {
		return c.overLimit(err)
	}
	return h.gate(c)
}

// gate checks a request and then calls its handler. There is no other path to a handler.
func (h *Handler) gate(c *call) error {
	if s := services[sigv4.ClaimedService(c.r)]; s != nil {
		c.service = s
	}
	body, err := h.authenticate(c)
	if err != nil {
		return err
	}
	if err := c.parse(body); err != nil {
		return err
	}
	found, err := h.find(c)
	if err != nil {
		return err
	}
	c.route, c.event.Operation, c.event.Effect, c.event.Target = found.route, found.Name, found.Effect, c.about()
	if err := c.checkParameters(); err != nil {
		return err
	}
	if !found.free && !found.decides {
		if err := found.target.find(c); err != nil {
			return err
		}
		if err := c.authorize(found.Action); err != nil {
			return err
		}
	}
	return found.handle(c)
}

// authenticate identifies the sender of a request, and returns the body.
func (h *Handler) authenticate(c *call) ([]byte, error) {
	if c.r.ContentLength > maxBody {
		return nil, errTooLarge
	}
	if c.r.Body != nil && c.r.Body != http.NoBody {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(h.o.BodyTimeout)) // it fails only if c.w is not of net/http
		c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxBody)
	}
	id, err := h.schemes[c.service.name].Authenticate(c.r)
	if err != nil {
		return nil, authenticationError(err, h.o.Now())
	}
	// The body has been read. If its deadline passed from now on, it would look as if the client had disconnected.
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{})
	if id.Principal.IsAnonymous() {
		return nil, errNoToken
	}
	c.caller, c.event.Principal, c.event.AccessKey = id.Principal, id.Principal, id.AccessKey
	if err := c.flow.Identify(id.AccessKey, id.Principal); err != nil {
		return nil, c.overLimit(err)
	}
	body, err := id.Body(c.r)
	if err != nil {
		return nil, authenticationError(err, h.o.Now())
	}
	text, err := io.ReadAll(body)
	c.event.In = int64(len(text))
	if err != nil {
		return nil, authenticationError(err, h.o.Now())
	}
	return text, nil
}

// find returns the action that a request asks for.
func (h *Handler) find(c *call) (endpoint, error) {
	name, version := c.value("Action"), cmp.Or(c.value("Version"), "NO_VERSION_SPECIFIED")
	if name == "" {
		return endpoint{}, errNoAction
	}
	found, ok := h.actions[name]
	if !ok || found.service() != c.service || version != c.service.version {
		return endpoint{}, errInvalidAction.saying("Could not find operation %s for version %s", name, version)
	}
	return found, nil
}

// newRequestID returns a random ID in the form of a UUID, as in AWS.
func newRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// observe notifies the observers that a request has ended, even in a panic.
func (c *call) observe() {
	p := recover()
	if p != nil {
		c.event.Status, c.event.Fault, c.event.Cause = http.StatusInternalServerError, true, fmt.Errorf("panic: %v", p)
	}
	c.event.Took = c.h.o.Now().Sub(c.event.Start)
	for _, o := range c.h.o.Observers {
		o.Observe(context.WithoutCancel(c.r.Context()), &c.event)
	}
	if p != nil {
		panic(p) // net/http logs the stack and closes the connection
	}
}

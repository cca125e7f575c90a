// Package s3 speaks the S3 protocol over HTTP: it finds the operation that a request asks for, proves who asks, decides
// whether they may, makes a call or two to package vfs, and renders the outcome.
//
// There is one gate, Server.gate, and no way around it:
//
//	parse -> authenticate -> route -> find the bucket -> authorise -> handle
//
// Operations stand in one table (route.go). A row names the method, the level (service, bucket, object), the sub-resource
// of the query and, for copies, the header by which it is recognised, and the action that the caller must be allowed. A
// sub-resource, header or condition that S3 knows and ORCAS does not is answered 501 NotImplemented: it never falls through
// to the bucket or the object, and nothing that would change the meaning of a request is ignored.
//
// Bucket and key come from the path decoded once (sigv4.Path); "//", "." and ".." in a key are data, so no ServeMux is used.
//
// Errors become answers in one place (errors.go). The access log has one line per request.
package s3

import (
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orcas/core"
	"orcas/lifecycle"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// Credential is what an access key stands for.
type Credential struct {
	SecretKey string
	Account   string // the owner of what the key creates; stable when keys are rotated
}

// Options configure a Server. FS, Lookup and Region are required.
type Options struct {
	FS     *vfs.FS
	Lookup func(accessKey string) (Credential, bool) // called twice per request; must not block
	Region string

	AnyRegion   bool             // accept requests that are signed for any region
	Domains     []string         // base domains of virtual-host style, without ports: bucket.DOMAIN
	System      http.Handler     // serves the paths that begin with /-/ (no bucket can have that name); nil: nobody does
	Logger      *slog.Logger     // nil: slog.Default()
	AccessLog   io.Writer        // takes the line of each request, but for those that failed by the server's fault; nil: Logger takes all
	MaxInFlight int              // requests at the same time; more are answered 503 SlowDown; 0: 4096
	BodyTimeout time.Duration    // how long a client may send or take nothing in the middle of a body; 0: 30 s, below 0: for ever
	Now         func() time.Time // the clock; nil: time.Now
	Day         time.Duration    // how long a day of a lifecycle is; 0: 24 h
	RequestID   func() string    // nil: random numbers

	KeepAlive time.Duration // after how long a copy that is at work begins its answer, and how often it sends something then; 0: 10 s

	CustomerKeysOverHTTP bool // take the keys of customers (SSE-C) without TLS: where a proxy has it
}

// Server is an http.Handler that serves S3.
type Server struct {
	fs          *vfs.FS
	lookup      func(string) (Credential, bool)
	verifier    sigv4.Verifier
	region      string
	anyRegion   bool
	domains     []string // each with a leading dot
	system      http.Handler
	log         *slog.Logger
	accessLog   io.Writer
	maxInFlight int64
	bodyTimeout time.Duration
	alive       time.Duration // Options.KeepAlive
	now         func() time.Time
	requestID   func() string
	routes      map[routeKey]*route
	hostID      string // X-Amz-Id-2: names this server for as long as it runs
	inFlight    atomic.Int64
	documents   sync.Pool // of *xmlWriter
	lifecycles  lifecycle.Cache
	day         time.Duration // of a lifecycle

	customerKeysOverHTTP bool
}

// Defaults of Options.
const (
	defaultMaxInFlight = 4096
	defaultBodyTimeout = 30 * time.Second
	defaultKeepAlive   = 10 * time.Second
)

// New returns a server. The error says what is missing in o.
func New(o Options) (*Server, error) {
	if o.FS == nil || o.Lookup == nil || o.Region == "" {
		return nil, errors.New("s3.New: FS, Lookup and Region are required")
	}
	routes, err := routeTable(allRoutes())
	if err != nil {
		return nil, err
	}
	s := &Server{
		fs: o.FS, lookup: o.Lookup, region: o.Region, anyRegion: o.AnyRegion, system: o.System, log: o.Logger, accessLog: o.AccessLog,
		maxInFlight: int64(o.MaxInFlight), bodyTimeout: o.BodyTimeout, now: o.Now, requestID: o.RequestID, routes: routes, hostID: randomID() + randomID(),
		documents: sync.Pool{New: func() any { return new(xmlWriter) }}, customerKeysOverHTTP: o.CustomerKeysOverHTTP,
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.maxInFlight <= 0 {
		s.maxInFlight = defaultMaxInFlight
	}
	if s.bodyTimeout == 0 {
		s.bodyTimeout = defaultBodyTimeout
	}
	if s.alive = o.KeepAlive; s.alive <= 0 {
		s.alive = defaultKeepAlive
	}
	if s.day = o.Day; s.day <= 0 {
		s.day = lifecycle.Day
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.requestID == nil {
		s.requestID = randomID
	}
	for _, d := range o.Domains {
		if d = strings.ToLower(strings.Trim(d, ".")); d != "" {
			s.domains = append(s.domains, "."+d)
		}
	}
	s.verifier = sigv4.Verifier{
		Region: o.Region, AnyRegion: o.AnyRegion, Now: s.now,
		Lookup: func(key string) (string, bool) {
			c, ok := o.Lookup(key)
			return c.SecretKey, ok
		},
	}
	return s, nil
}

// randomID returns 16 digits that are unlikely to come twice.
func randomID() string {
	const digits = "0123456789ABCDEF"
	var b [16]byte
	n := rand.Uint64()
	for i := range b {
		b[i] = digits[n&15]
		n >>= 4
	}
	return string(b[:])
}

// hostBucket returns the bucket that the Host header names in virtual-host style, or "".
func (s *Server) hostBucket(host string) string {
	if len(s.domains) == 0 {
		return ""
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(host)
	for _, d := range s.domains {
		if strings.HasSuffix(host, d) {
			return host[:len(host)-len(d)]
		}
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket := s.hostBucket(r.Host)
	if s.system != nil && bucket == "" && strings.HasPrefix(r.URL.Path, "/-/") {
		s.system.ServeHTTP(w, r)
		return
	}
	if r.ContentLength == 0 && r.ProtoMajor == 1 && len(r.Header["Expect"]) > 0 {
		// net/http says 100 Continue only where there is a body to read. botocore asks for it before an empty one too, and would take
		// the next answer on the connection for it.
		w.WriteHeader(http.StatusContinue)
	}
	q := &request{s: s, w: w, r: r, ctx: r.Context(), header: w.Header(), start: s.now(), id: s.requestID(), bucketName: bucket}
	q.begin()
	defer q.finish()
	if err := s.admit(q); err != nil {
		q.fail(err)
	}
}

// admit bounds the requests in flight.
func (s *Server) admit(q *request) error {
	defer s.inFlight.Add(-1)
	if s.inFlight.Add(1) > s.maxInFlight {
		return errSlowDown
	}
	return s.gate(q)
}

// gate is the only way to a handler.
func (s *Server) gate(q *request) error {
	if err := q.parse(); err != nil {
		return err
	}
	if err := s.authenticate(q); err != nil {
		return s.denied(q, err)
	}
	if err := q.checkNames(); err != nil {
		return err
	}
	rt, err := s.route(q)
	if err != nil {
		return err
	}
	q.route = rt
	if !rt.withoutBucket {
		if q.bucket, err = s.fs.Bucket(q.ctx, q.bucketName); err != nil {
			return err
		}
	}
	if err := s.authorise(q.caller, rt.action, q.bucket); err != nil {
		return err
	}
	if err := q.checkExpectedOwner(); err != nil {
		return err
	}
	if err := q.checkHeaders(); err != nil {
		return err
	}
	return rt.handle(q)
}

// authenticate finds out who sent the request. Anonymous requests are denied: nothing grants them anything yet.
func (s *Server) authenticate(q *request) error {
	auth, err := s.verifier.Verify(q.r)
	if err != nil {
		return err
	}
	if auth.Anonymous() {
		return errAccessDenied
	}
	cred, ok := s.lookup(auth.AccessKey)
	if !ok {
		return errAccessDenied
	}
	if auth.SecurityToken != "" {
		return errInvalidToken // there are no temporary credentials that it could belong to
	}
	q.auth = auth
	q.caller = caller{accessKey: auth.AccessKey, account: cred.Account}
	if auth.Presigned {
		q.hoistQuery()
	}
	return nil
}

// denied returns the error of a request whose sender is not known. That a bucket does not exist is no secret: an anonymous request
// about one is told so, unless it would make it.
func (s *Server) denied(q *request, err error) error {
	makes := q.r.Method == http.MethodPut && q.level() == bucketLevel
	if !errors.Is(err, sigv4.ErrAnonymous) || makes || !ValidBucketName(q.bucketName) {
		return err
	}
	if _, missing := s.fs.Bucket(q.ctx, q.bucketName); core.Is(missing, core.NoSuchBucket) {
		return missing
	}
	return err
}

// caller is who a request comes from.
type caller struct {
	accessKey string
	account   string
}

// authorise decides whether c may do a on b (nil: on the service itself). An account may do everything with what it owns, and
// nothing else.
func (s *Server) authorise(c caller, a action, b *core.BucketInfo) error {
	switch {
	case a == "" || c.account == "":
		return errAccessDenied
	case b == nil:
		return nil
	case b.Owner == c.account:
		return nil
	default:
		return errAccessDenied
	}
}

// document lends a buffer for an XML document; give it back with release.
func (s *Server) document() *xmlWriter { return s.documents.Get().(*xmlWriter) }

func (s *Server) release(x *xmlWriter) {
	if cap(x.b) <= 1<<20 {
		s.documents.Put(x)
	}
}

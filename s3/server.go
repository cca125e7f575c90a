// Package s3 implements the S3 protocol over HTTP. It finds the operation that a request asks for, authenticates and
// authorizes the sender, calls package vfs, and renders the result.
//
// Every request passes through one gate, Server.gate:
//
//	find the API -> parse -> authenticate -> route -> find the bucket -> authorize -> handle -> observe
//
// Requests for other APIs that share the listener (Options.APIs) are dispatched first, before any bucket is looked up.
// Only a CORS preflight (OPTIONS), which browsers do not sign, leaves the gate before authentication, with an error or
// with the rules for its origin. A request without credentials has the principal auth.Anonymous and is authorized like any other.
//
// Operations are rows of one table (routes.go), which is data. A row has the method, the level (service, bucket,
// object), the query sub-resource and, for copies, the header that selects the operation, the action that the caller
// needs permission for, and any further actions that the handler may check. Handlers are registered by the names of the
// rows (handlers.go). If a request has a sub-resource, header or condition of S3 that ORCAS does not support, it fails
// with 501 NotImplemented. It never falls through to the bucket or the object, and nothing that would change the
// meaning of a request is ignored.
//
// Bucket and key come from the path, decoded once (sigv4.Path). "//", "." and ".." in a key are data, so no ServeMux
// is used.
//
// Errors become responses in one place (errors.go). Observers are notified when a request has ended (observe.go); the
// access log is one of them.
package s3

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/core/ids"
	"orcas/gate"
	"orcas/gate/limit"
	"orcas/internal/live"
	"orcas/internal/sigv4"
	"orcas/lifecycle"
	"orcas/s3/bucketaccess"
	"orcas/s3/cors"
	"orcas/s3/sigv2"
	"orcas/s3/xmldoc"
	"orcas/vfs"
)

// Options configure a Server. FS, Lookup and Region are required.
type Options struct {
	FS     *vfs.FS
	Lookup gate.Lookup // looks up access keys
	Region string

	AnyRegion   bool             // accept requests that are signed for any region
	Domains     []string         // base domains for virtual-host style (bucket.DOMAIN), without ports
	APIs        []gate.API       // other APIs on the same listener; their requests bypass this server
	Schemes     []gate.Scheme    // authentication schemes other than signatures, tried before them in this order
	CORSOrigins []string         // origins whose pages may use buckets that have no CORS configuration
	SignatureV2 sigv2.Mode       // where signatures of version 2 are accepted; nowhere if ""
	Authorizer  auth.Authorizer  // decides what a principal may do; if nil, access.New(nil): roots and bucket policies
	Observers   []gate.Observer  // notified when a request has ended, after the access log
	Logger      *slog.Logger     // slog.Default() if nil
	AccessLog   io.Writer        // lines of requests other than server failures; if nil, Logger receives all
	MaxInFlight int              // maximum concurrent requests; more get 503 SlowDown; 0 means 4096
	BodyTimeout time.Duration    // idle time allowed in the middle of a body; 0 means 30 s, negative no limit
	MinRate     int64            // minimum average read rate of clients over RateWindow, in bytes/s; 0 means no minimum
	RateWindow  time.Duration    // time over which MinRate is averaged; 0 means five minutes
	Live        *live.Value      // if not nil, overrides MaxInFlight, BodyTimeout and MinRate, and may change
	Now         func() time.Time // the clock; time.Now if nil
	RequestID   func() string    // generates request IDs; random if nil

	// KeepAlive is the time after which a running copy begins its response, and the interval at which it then sends
	// white space. 0 means 10 s.
	KeepAlive time.Duration

	// FormTime is the time within which the fields of an HTML form must arrive. 0 means 20 s.
	FormTime time.Duration

	// Principals are the principals that bucket policies can name. If it is nil, every well-formed one is accepted.
	Principals bucketaccess.Principals

	// IDs converts version IDs and upload IDs. If it is nil, they are sequences in hexadecimal.
	IDs *ids.Codec

	Switches
}

// Switches are options that permit more than the default, or less.
type Switches struct {
	OpenBuckets          bool // new buckets have no public access block
	CustomerKeysOverHTTP bool // accept customer keys (SSE-C) without TLS, for use behind a proxy that terminates TLS
	EscapingKeys         bool // accept writes to keys that climb above the root of their bucket, such as "../a"

	Limits *limit.Limits // of the requests and bytes per second of a client; nil for none
}

// load is the number of requests that are being processed.
type load struct {
	requests atomic.Int64
	forms    atomic.Int64 // HTML forms whose fields are being read
	unsent   atomic.Int64 // bytes of bodies that clients did not send, since the start: see upload.known
}

// times are the options of that name.
type times struct{ rateWindow, keepAlive, form time.Duration }

// Server is an http.Handler that serves S3.
type Server struct {
	fs         *vfs.FS
	schemes    []gate.Scheme
	authorizer auth.Authorizer
	observers  []gate.Observer
	apis       []gate.API
	region     string
	anyRegion  bool
	domains    []string // each with a leading dot
	log        *slog.Logger
	live       *live.Value
	times      times
	now        func() time.Time
	requestID  func() string
	routes     map[routeKey]*endpoint
	hostID     string // X-Amz-Id-2: identifies this server process
	inFlight   load
	documents  sync.Pool // of *xmldoc.Writer
	events     sync.Pool // of *gate.Event
	lifecycles lifecycle.Cache
	corsCache  cors.Cache
	ids        wireIDs
	cors       *cors.Config // of buckets without a configuration; nil if none

	principals bucketaccess.Principals // nil if they are not known
	allowed    Switches
}

// Defaults of Options.
const (
	defaultMaxInFlight = 4096
	defaultBodyTimeout = 30 * time.Second
	defaultRateWindow  = 5 * time.Minute
	defaultKeepAlive   = 10 * time.Second
	defaultFormTime    = 20 * time.Second
)

// New returns a server. It returns an error if o lacks a required option.
func New(o Options) (*Server, error) {
	if o.FS == nil || o.Lookup == nil || o.Region == "" {
		return nil, errors.New("s3.New: FS, Lookup and Region are required")
	}
	routes, err := routeTable(allRoutes(), handlers())
	if err != nil {
		return nil, err
	}
	s := &Server{
		fs: o.FS, apis: o.APIs, region: o.Region, anyRegion: o.AnyRegion, now: o.Now, requestID: o.RequestID, routes: routes,
		authorizer: cmp.Or[auth.Authorizer](o.Authorizer, access.New(nil)), log: cmp.Or(o.Logger, slog.Default()),
		times: times{
			cmp.Or(max(o.RateWindow, 0), defaultRateWindow), cmp.Or(max(o.KeepAlive, 0), defaultKeepAlive),
			cmp.Or(max(o.FormTime, 0), defaultFormTime),
		},
		cors: cors.Default(o.CORSOrigins), ids: wireIDs{o.IDs}, hostID: randomID() + randomID(),
		principals: o.Principals, allowed: o.Switches,
		documents: sync.Pool{New: func() any { return new(xmldoc.Writer) }},
		events:    sync.Pool{New: func() any { return new(gate.Event) }},
	}
	if s.live = o.Live; s.live == nil {
		s.live = live.New(live.Settings{
			MaxInFlight: int64(cmp.Or(max(o.MaxInFlight, 0), defaultMaxInFlight)),
			BodyTimeout: cmp.Or(o.BodyTimeout, defaultBodyTimeout), MinRate: o.MinRate,
		})
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
	v := &sigv4.Verifier{Region: o.Region, AnyRegion: o.AnyRegion, Now: s.now}
	old := &sigv2.Verifier{Mode: o.SignatureV2, Now: s.now, HostBucket: s.hostBucket, Subresource: isSubresource}
	s.schemes = append(slices.Clip(o.Schemes), gate.SigV2(old, o.Lookup), gate.SigV4(v, o.Lookup))
	s.observers = append([]gate.Observer{newAccessLog(s.log, o.AccessLog)}, o.Observers...)
	return s, nil
}

// randomID returns 16 random hexadecimal digits.
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

// hostBucket returns the bucket in a virtual-host style Host header, or "".
func (s *Server) hostBucket(r *http.Request) string {
	if len(s.domains) == 0 {
		return ""
	}
	host := gate.Host(r)
	for _, d := range s.domains {
		if strings.HasSuffix(host, d) {
			return host[:len(host)-len(d)]
		}
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bucket := s.hostBucket(r)
	if api := gate.Find(s.apis, r, bucket != ""); api != nil {
		api.Handler.ServeHTTP(w, r)
		return
	}
	if r.ContentLength == 0 && r.ProtoMajor == 1 && first(r.Header, "Expect") != "" {
		// net/http sends 100 Continue only if there is a body to read. botocore waits for it before an empty body, too,
		// and would mistake the next response on the connection for it.
		w.WriteHeader(http.StatusContinue)
	}
	q := &request{s: s, w: w, r: r, ctx: r.Context(), header: w.Header(), start: s.now(), id: s.requestID(), bucketName: bucket}
	q.begin()
	defer q.finish()
	if err := s.admit(q); err != nil {
		q.fail(err)
	}
}

// InFlight returns the number of requests that are being processed.
func (s *Server) InFlight() int64 { return s.inFlight.requests.Load() }

// Unsent returns the bytes of bodies that clients did not send since the start, because the bucket had the content.
func (s *Server) Unsent() int64 { return s.inFlight.unsent.Load() }

// admit limits the number of in-flight requests.
func (s *Server) admit(q *request) error {
	defer s.inFlight.requests.Add(-1)
	if s.inFlight.requests.Add(1) > s.live.Load().MaxInFlight {
		q.reason = gate.InFlight
		return errSlowDown
	}
	defer q.flow.End()
	if err := q.begun(); err != nil {
		return err
	}
	return s.gate(q)
}

// document returns a pooled buffer for an XML document. Call release when done with it.
func (s *Server) document() *xmldoc.Writer { return s.documents.Get().(*xmldoc.Writer) }

// release returns x to the pool, unless an unusual document has made its buffer too large to keep.
func (s *Server) release(x *xmldoc.Writer) {
	if cap(x.Buf) <= 1<<20 {
		s.documents.Put(x)
	}
}

package s3

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"orcas/core"
	"orcas/s3/sigv4"
)

// What is read of a body that nobody wants, so that a client which sends all of it first sees the answer.
const (
	drainBytes = 32 << 20
	drainTime  = 5 * time.Second
	// netHTTPDrains is what net/http reads away by itself before it answers.
	netHTTPDrains = 128 << 10
)

// request is one request on its way through the gate, and its answer.
type request struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	header http.Header // of the answer
	start  time.Time
	id     string

	route      *route
	auth       *sigv4.Auth
	caller     caller
	bucketName string
	key        string
	query      query
	bucket     *core.BucketInfo
	body       bodyReader
	optional   optional // headers that are there, of those that the route heeds
	partsCount int      // of the object, where a part of it is asked for

	encryptionSent bool       // there are headers of encryption
	encryption     encryption // of the content that is written or read

	values [20]string // header values of the answer, so that each costs no slice
	used   int

	late bool // the head of the answer was sent while the work went on (see keepAlive)

	// For the log.
	status int // 0: the answer has not begun
	out    int64
	code   string
	cause  error
	faulty bool // it is the server's fault
}

// begin prepares the answer: what every answer has.
func (q *request) begin() {
	q.set("X-Amz-Request-Id", q.id)
	q.set("X-Amz-Id-2", q.s.hostID)
	if q.r.Body != nil && q.r.Body != http.NoBody && q.body.rc == nil {
		q.body = bodyReader{rc: q.r.Body, patience: q.s.bodyTimeout}
		q.body.deadline, _ = q.w.(readDeadliner)
	}
}

// renew begins the answer anew: nothing is left of what was prepared.
func (q *request) renew() {
	clear(q.header)
	q.used = 0
	q.begin()
}

// open returns the content of the request, not yet read. net/http looks at the type of r.Body when the request ends (to know
// whether the client still waits for a 100), so the counting reader takes its place for a moment only.
func (q *request) open() (*sigv4.Body, error) {
	if q.body.rc == nil {
		return q.auth.Body(q.r)
	}
	q.r.Body = &q.body
	body, err := q.auth.Body(q.r)
	q.r.Body = q.body.rc
	return body, err
}

// parse takes bucket, key and query from the URL.
func (q *request) parse() error {
	if err := checkHeaderSize(q.r.Header); err != nil {
		return err
	}
	path, err := sigv4.Path(q.r)
	if err != nil {
		return err
	}
	if q.bucketName != "" {
		q.key = path[1:]
	} else {
		q.bucketName, q.key = sigv4.Split(path)
	}
	return q.query.parse(q.r.URL.RawQuery)
}

// level returns what the path names.
func (q *request) level() level {
	switch {
	case q.key != "":
		return objectLevel
	case q.bucketName != "":
		return bucketLevel
	default:
		return serviceLevel
	}
}

// checkNames holds bucket and key against the rules for names.
func (q *request) checkNames() error {
	if q.level() == serviceLevel {
		return nil
	}
	if !ValidBucketName(q.bucketName) {
		return errInvalidBucketName
	}
	if q.key != "" {
		return checkKey(q.key)
	}
	return nil
}

// checkExpectedOwner compares x-amz-expected-bucket-owner with the owner.
func (q *request) checkExpectedOwner() error {
	if v := q.r.Header["X-Amz-Expected-Bucket-Owner"]; len(v) > 0 && q.bucket != nil && v[0] != q.bucket.Owner {
		return errAccessDenied
	}
	return nil
}

// version returns the version that the query names.
func (q *request) version() (core.Version, error) {
	return parseVersion(q.query.get("versionId"))
}

func parseVersion(s string, present bool) (core.Version, error) {
	if !present {
		return core.Current, nil
	}
	if s == "" {
		return 0, argument("versionId", s, "Version id cannot be the empty string")
	}
	v, err := core.ParseVersion(s)
	if err != nil {
		return 0, argument("versionId", s, "Invalid version id specified")
	}
	return v, nil
}

// set sets a header of the answer. The name must be in its canonical form.
func (q *request) set(name, value string) {
	if q.used == len(q.values) {
		q.header[name] = []string{value}
		return
	}
	q.values[q.used] = value
	q.used++
	q.header[name] = q.values[q.used-1 : q.used : q.used]
}

// sendEmpty answers without a body.
func (q *request) sendEmpty(status int) {
	if status == http.StatusOK && q.r.Method != http.MethodHead {
		q.set("Content-Length", "0")
	}
	q.status = status
	q.w.WriteHeader(status)
}

// sendXML answers with a document. Of a late answer the head is gone already: an error, too, is the document of one that says 200.
func (q *request) sendXML(status int, x *xmlWriter) {
	if q.late {
		n, _ := q.w.Write(x.b[len(xmlHeader):])
		q.out += int64(n)
		return
	}
	q.set("Content-Type", "application/xml")
	q.set("Content-Length", itoa(int64(len(x.b))))
	q.status = status
	q.w.WriteHeader(status)
	if q.r.Method != http.MethodHead {
		w, done := q.patient(int64(len(x.b)))
		n, _ := w.Write(x.b) // an error means that the client is gone
		_ = done()
		q.out += int64(n)
	}
}

// fail answers with an error. Where the answer has begun, the connection is aborted: an error never looks like an answer that is
// complete.
func (q *request) fail(err error) {
	e := q.detail(toAPI(err))
	q.code, q.cause, q.faulty = e.code, e.cause, e.status >= 500 && e.cause != nil
	if q.status != 0 && !q.late {
		panic(http.ErrAbortHandler)
	}
	if q.late {
		x := q.s.document()
		defer q.s.release(x)
		q.sendXML(e.status, errorDocument(x, e, q))
		return
	}
	q.renew()
	for _, h := range e.headers {
		q.set(h.Name, h.Value)
	}
	if e.status == http.StatusServiceUnavailable {
		q.set("Retry-After", "1")
	}
	drain := q.settleBody()
	if q.r.Method == http.MethodHead {
		q.sendEmpty(e.status)
		return
	}
	x := q.s.document()
	defer q.s.release(x)
	q.sendXML(e.status, errorDocument(x, e, q))
	if drain != nil {
		drain()
	}
}

// plainText replaces what XML has no way to say, since an error quotes what the client sent, and must be readable.
func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r // nonsense comes as utf8.RuneError
	}, s)
}

// errorDocument renders an error. Unlike other documents, errors have no namespace.
func errorDocument(x *xmlWriter, e *apiError, q *request) *xmlWriter {
	x.b = append(x.b[:0], xmlHeader...)
	x.open("Error")
	x.text("Code", e.code)
	x.text("Message", e.message)
	for _, f := range e.fields {
		x.text(f.Name, plainText(f.Value))
	}
	x.text("Resource", plainText(q.r.URL.Path))
	x.text("RequestId", q.id)
	x.text("HostId", q.s.hostID)
	x.close("Error")
	return x
}

// settleBody decides what becomes of a body that was not read to its end. Of a small one net/http takes care. With a large one the
// connection is closed after the answer; a client that sends everything before it reads would then see a reset instead of the
// answer, so some more is read away behind it: what settleBody returns. That it said Expect: 100-continue tells nothing: there are clients
// that say so and do not wait. One that does closes the connection when it has the answer.
func (q *request) settleBody() func() {
	b := &q.body
	if b.rc == nil || b.ended || q.r.ProtoMajor != 1 {
		return nil
	}
	if b.broken {
		q.set("Connection", "close")
		return nil
	}
	if b.deadline != nil {
		_ = b.deadline.SetReadDeadline(time.Now().Add(drainTime))
	}
	if q.r.ContentLength >= 0 && q.r.ContentLength-b.count <= netHTTPDrains {
		return nil
	}
	q.set("Connection", "close")
	rc := http.NewResponseController(q.w)
	if rc.EnableFullDuplex() != nil {
		return nil
	}
	return func() {
		if rc.Flush() == nil {
			_, _ = io.CopyN(io.Discard, b.rc, drainBytes)
		}
	}
}

// finish ends the request: panics become answers, and the access log gets its line.
func (q *request) finish() {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		q.s.log.LogAttrs(q.ctx, slog.LevelError, "panic", slog.String("request", q.id),
			slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		if q.status == 0 {
			p = nil
			q.fail(errInternal)
		} else {
			p, q.code = http.ErrAbortHandler, errInternal.code
		}
	}
	q.logAccess()
	if p != nil {
		panic(p)
	}
}

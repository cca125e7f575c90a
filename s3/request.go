package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"orcas/auth"
	"orcas/content"
	"orcas/core"
	"orcas/gate"
	"orcas/gate/limit"
	"orcas/internal/sigv4"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

// Limits on discarding the rest of a body that is not needed. It is discarded so that a client that sends the whole
// body before it reads can see the response.
const (
	drainBytes = 32 << 20
	drainTime  = 5 * time.Second
	// netHTTPDrains is the number of bytes that net/http discards by itself before it responds.
	netHTTPDrains = 128 << 10
	// refusedDrains replaces netHTTPDrains if the body counts for a limit, since net/http reads as fast as the client sends.
	refusedDrains = 4 << 10
)

// request is a request on its way through the gate, and its response.
type request struct {
	s      *Server
	w      http.ResponseWriter
	r      *http.Request
	ctx    context.Context
	header http.Header // response headers
	start  time.Time
	id     string

	browser    browser
	route      *route
	sender     gate.Identity // who signed the request, and how to look it up again
	auth       *sigv4.Auth
	caller     *auth.Principal // the sender
	asked      question        // the current decision about the sender's permissions
	bucketName string
	key        string
	query      query
	bucket     *core.BucketInfo
	body       bodyReader
	optional   optional // the optional headers of its route that are present

	values headerValues

	flow      limit.Flow // the limits that the request counts for
	overLimit bool       // it was refused because of them

	late bool // the response head was sent while the work was in progress (see keepAlive)
	outcome
}

// outcome is what observers learn about a response.
type outcome struct {
	status    int           // 0 until the response has begun
	firstByte time.Duration // from start until the response head was sent
	out       int64
	code      string
	items     []gate.Item // of a request for several keys
	reason    gate.Reason // if it is "", it follows from code
	cause     error
	faulty    bool // the error was caused by the server, not by the client
}

// browser is the part of a request that only browsers need.
type browser struct {
	cross *crossOrigin // nil without an Origin header
	form  *formUpload  // nil if the request is not an HTML form
}

// headerValues is the memory of the values of response headers, to avoid an allocation for each.
type headerValues struct {
	room [20]string
	used int
}

// slice returns a slice that contains only value.
func (v *headerValues) slice(value string) []string {
	if v.used == len(v.room) {
		return []string{value}
	}
	v.room[v.used] = value
	v.used++
	return v.room[v.used-1 : v.used : v.used]
}

// begin sets the headers that every response has, and prepares the request body for counting.
func (q *request) begin() {
	q.set("X-Amz-Request-Id", q.id)
	q.set("X-Amz-Id-2", q.s.hostID)
	if q.browser.cross != nil {
		q.browser.cross.set(q)
	}
	if q.r.Body != nil && q.r.Body != http.NoBody && q.body.rc == nil {
		q.body = bodyReader{rc: q.r.Body, patience: q.s.live.Load().BodyTimeout}
		q.body.deadline, _ = q.w.(readDeadliner)
	}
}

// renew starts the response over, with only the headers that every response has.
func (q *request) renew() {
	clear(q.header)
	q.values.used = 0
	q.begin()
}

// open returns the content of the request, before any of it has been read. net/http checks the type of r.Body when the
// request ends (to find out whether the client is still waiting for 100 Continue), so the counting reader replaces
// r.Body only temporarily.
func (q *request) open() (*sigv4.Body, error) {
	if q.body.rc == nil {
		return q.auth.Body(q.r)
	}
	q.r.Body = &q.body
	body, err := q.auth.Body(q.r)
	q.r.Body = q.body.rc
	return body, err
}

// parse reads bucket, key and query from the URL.
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

// level returns the level of the resource in the path.
func (q *request) level() gate.Level {
	switch {
	case q.key != "":
		return gate.Object
	case q.bucketName != "":
		return gate.Bucket
	default:
		return gate.Service
	}
}

// checkNames validates the bucket name and the key.
func (q *request) checkNames() error {
	if q.level() == gate.Service {
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

// checkExpectedOwner compares x-amz-expected-bucket-owner with the owner of the bucket.
func (q *request) checkExpectedOwner() error {
	if v := q.r.Header["X-Amz-Expected-Bucket-Owner"]; len(v) > 0 && q.bucket != nil && v[0] != q.bucket.Owner {
		return errAccessDenied
	}
	return nil
}

// version returns the version that the query refers to.
func (q *request) version() (core.Version, error) {
	return q.s.ids.parseVersion(q.query.get("versionId"))
}

// set sets a response header. The name must be in canonical form.
func (q *request) set(name, value string) {
	q.header[name] = q.values.slice(value)
}

// sendEmpty sends a response without a body.
func (q *request) sendEmpty(status int) {
	if status == http.StatusOK && q.r.Method != http.MethodHead {
		q.set("Content-Length", "0")
	}
	q.writeHead(status)
}

// sendJSON sends a document in JSON as the response.
func (q *request) sendJSON(doc string) {
	q.set("Content-Type", "application/json")
	q.set("Content-Length", itoa(int64(len(doc))))
	q.writeHead(http.StatusOK)
	w, done := q.patient(int64(len(doc)))
	n, _ := io.WriteString(w, doc)
	q.out += int64(n)
	_ = done()
}

// sendXML sends a document as the response. The status and headers of a late response have already been sent, so even
// an error document follows a 200 then.
func (q *request) sendXML(status int, x *xmldoc.Writer) {
	if q.late {
		n, _ := q.w.Write(x.Buf[len(xmldoc.Header):])
		q.out += int64(n)
		return
	}
	q.set("Content-Type", "application/xml")
	q.set("Content-Length", itoa(int64(len(x.Buf))))
	q.writeHead(status)
	if q.r.Method != http.MethodHead {
		w, done := q.patient(int64(len(x.Buf)))
		n, _ := w.Write(x.Buf) // an error means that the client has disconnected
		_ = done()
		q.out += int64(n)
	}
}

// fail sends an error response. If the response has begun, it aborts the connection instead, so an error never looks
// like a complete response.
func (q *request) fail(err error) {
	e := q.detail(toAPI(err))
	q.code, q.cause, q.faulty = e.Code, e.Cause, e.Status >= 500 && e.Cause != nil
	if errors.Is(e.Cause, content.ErrNoMemory) {
		q.reason = gate.Memory
	}
	if q.status != 0 && !q.late {
		panic(http.ErrAbortHandler)
	}
	if q.late {
		x := q.s.document()
		defer q.s.release(x)
		q.sendXML(e.Status, errorDocument(x, e, q))
		return
	}
	q.renew()
	for _, h := range e.Headers {
		q.set(h.Name, h.Value)
	}
	if e.Status == http.StatusServiceUnavailable && q.header.Get("Retry-After") == "" {
		q.set("Retry-After", "1")
	}
	drain := q.settleBody()
	if q.r.Method == http.MethodHead {
		q.sendEmpty(e.Status)
		return
	}
	x := q.s.document()
	defer q.s.release(x)
	q.sendXML(e.Status, errorDocument(x, e, q))
	if drain != nil {
		drain()
	}
}

// errorDocument renders an error. Unlike other documents, errors have no namespace.
func errorDocument(x *xmldoc.Writer, e *apierr.Error, q *request) *xmldoc.Writer {
	x.BeginPlain("Error")
	x.Text("Code", e.Code)
	x.Text("Message", e.Message)
	for _, f := range e.Fields {
		x.Text(f.Name, xmldoc.Plain(f.Value))
	}
	x.Text("Resource", xmldoc.Plain(q.r.URL.Path))
	x.Text("RequestId", q.id)
	x.Text("HostId", q.s.hostID)
	x.Close("Error")
	return x
}

// settleBody prepares the response to a request whose body was not read to its end. net/http discards a small
// remainder. If the remainder is large, the connection is closed after the response. A client that sends the whole body
// before it reads would then see a reset instead of the response. To prevent this, the caller must call the returned
// function after the response, unless it is nil; it discards more of the body. Expect: 100-continue makes no
// difference: some clients send it but do not wait, and a client that waits closes the connection when it has the
// response.
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
	free := int64(netHTTPDrains)
	if q.closes() {
		free = refusedDrains
	}
	if q.r.ContentLength >= 0 && q.r.ContentLength-b.count <= free {
		return nil
	}
	q.set("Connection", "close")
	if q.closes() {
		return nil
	}
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

// finish ends the request. It turns a panic into a response and notifies the observers.
func (q *request) finish() {
	p := recover()
	if p != nil && p != http.ErrAbortHandler {
		q.s.log.LogAttrs(q.ctx, slog.LevelError, "panic", slog.String("request", q.id),
			slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		if q.status == 0 {
			p = nil
			q.fail(errInternal)
		} else {
			p, q.code = http.ErrAbortHandler, errInternal.Code
		}
	}
	q.observe(q.ctx)
	if p != nil {
		panic(p)
	}
}

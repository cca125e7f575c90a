package sdk

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"orcas/internal/sigv4"
)

// Maximum sizes of documents in responses, in bytes.
const (
	maxDocument      = 8 << 20
	maxErrorDocument = 1 << 20
)

// wire sends requests: it addresses and signs them, repeats them, and counts.
type wire struct {
	config    Config // with its defaults
	scheme    string
	host      string
	secure    bool // https
	virtual   bool // the bucket is in the host name
	transport http.RoundTripper
	closeIdle func()
	userAgent []string
	signer    atomic.Pointer[signerOf]
	budget    budget
	count     counters
	noInstant sync.Map  // buckets whose content it is useless to ask about
	buffers   sync.Pool // of the parts of transfers: *[partSizeDefault]byte
	steps     sync.Pool // of downloads: *[rangeStep]byte
}

// signerOf is the signer for some keys. It caches what requests of the same second and day have in common.
type signerOf struct {
	keys   Keys
	signer *sigv4.Signer
}

// call is an operation to be sent, possibly several times.
type call struct {
	op, method  string
	bucket, key string
	query       string // encoded
	header      http.Header
	body        content
	write       bool  // it changes something
	version     bool  // it names a version
	stream      bool  // the caller reads the body of a successful response
	limit       int64 // maximum size of the document; 0 is maxDocument
	into        []byte
}

// content is the body of a request.
type content struct {
	reader io.ReadSeeker // nil: no body
	start  int64         // where it begins in reader
	size   int64
	hash   string // x-amz-content-sha256; "" is the hash of no body
	known  bool   // checksums in the headers were given by the caller, so a mismatch is not an accident of this request
	md5    bool   // compute the MD5 of what is sent
}

// reply is a response.
type reply struct {
	status int
	header http.Header
	body   []byte        // the document
	stream io.ReadCloser // if call.stream
	length int64         // of stream; -1 if unknown
	md5    []byte        // of the body of the request, if content.md5
}

// do sends a call until it succeeds or must be given up. The error is an *Error.
func (w *wire) do(ctx context.Context, q *call) (*reply, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	w.count.requests.Add(1)
	uncertain, paid := false, 1
	for n := 1; ; n++ {
		r, f := w.attempt(ctx, q, n)
		if f == nil {
			w.budget.put(paid)
			return r, nil
		}
		uncertain = uncertain || f.uncertain && q.write
		f.err.Attempts, f.err.Uncertain = n, uncertain
		if !f.again || n >= w.config.Retry.Attempts || ctx.Err() != nil {
			return nil, f.err
		}
		cost := retryCost
		if f.network {
			cost = retryCostNetwork
		}
		if !w.budget.take(cost) {
			return nil, f.err
		}
		paid = cost
		if err := sleep(ctx, w.config.Retry.delay(n+1, f.after)); err != nil {
			f.err.Err = err // ended by the caller: that is the reason now
			return nil, f.err
		}
	}
}

// check returns an error for names that no server accepts, before they lead to a request for something else.
func (q *call) check() error {
	switch {
	case q.bucket == "" && q.key != "":
		return argument(q.op, q.bucket, q.key, "the name of the bucket is empty")
	case strings.ContainsAny(q.bucket, "/\x00?#% "):
		return argument(q.op, q.bucket, q.key, "%q is not the name of a bucket", q.bucket)
	case q.bucket == "." || q.bucket == "..":
		return argument(q.op, q.bucket, q.key, "%q is not the name of a bucket", q.bucket)
	case len(q.key) > 1024:
		return argument(q.op, q.bucket, q.key, "the key has %d bytes, and may have 1024", len(q.key))
	}
	for name, values := range q.header {
		for _, v := range values {
			if i := strings.IndexFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
				return argument(q.op, q.bucket, q.key, "the header %s contains a control character: %q", strings.ToLower(name), v)
			}
		}
	}
	return nil
}

// exchange is everything that one attempt needs, in one allocation.
type exchange struct {
	url   url.URL
	watch watch
	sent  sending
	body  receiving
	reply reply
}

// attempt sends a call once, for the nth time. The first attempt sends the headers of the call itself, which gain a
// signature. The transport may still be reading them when it returns, so later attempts send copies.
func (w *wire) attempt(ctx context.Context, q *call, n int) (*reply, *failure) {
	x := new(exchange)
	watch := &x.watch
	watch.init(ctx, w.config.IdleTimeout)
	if n > 1 || q.header == nil {
		q.header = copyHeader(q.header)
	}
	r := w.newRequest(watch.ctx, &x.url, q.method, w.address(q.bucket, q.key), q.query, q.header)
	body, err := w.attach(r, &x.sent, &q.body)
	if err == nil {
		err = w.sign(ctx, r, q.body.hash)
	}
	if err != nil {
		watch.end()
		return nil, &failure{err: q.localError(err)}
	}
	res, err := w.send(r, watch)
	if body != nil {
		defer body.detach() // the transport may still be reading it
	}
	if err != nil {
		cause := watch.end()
		return nil, w.broken(ctx, q, body, transportError(ctx, cause, err, w.config.IdleTimeout))
	}
	x.body = receiving{body: res.Body, watch: watch, wire: w, ctx: ctx, flow: flowOf(ctx)}
	if q.stream && res.StatusCode/100 == 2 {
		x.reply = reply{status: res.StatusCode, header: res.Header, length: res.ContentLength, stream: &x.body}
		return &x.reply, nil
	}
	doc, err := w.readDocument(q, res, &x.body)
	if err != nil {
		f := w.broken(ctx, q, body, err)
		f.uncertain = true // the response began, so the request had arrived
		return nil, f
	}
	x.reply = reply{status: res.StatusCode, header: res.Header, body: doc}
	if f := w.judge(q, &x.reply); f != nil {
		return nil, f
	}
	if body != nil && body.md5 != nil {
		x.reply.md5 = body.md5.Sum(nil)
	}
	return &x.reply, nil
}

// judge returns the failure that a response reports, or nil. A server that begins a response before its work is done can
// report an error with the status 200.
func (w *wire) judge(q *call, r *reply) *failure {
	late := r.status/100 == 2
	if late && !isErrorDocument(r.body) {
		return nil
	}
	now := w.config.Now()
	doc := parseErrorDocument(r.body)
	if late && doc == nil {
		err := failed(ErrProtocol, "the response has the status %d and an error document that is not complete", r.status)
		return &failure{err: q.localError(err), uncertain: true}
	}
	e := q.responseError(r.status, r.header, doc, now)
	f := &failure{err: e, after: retryAfter(r.header, now)}
	f.again = temporary(r.status, e.Code) || damagedOnTheWay(e.Code) && !q.body.known && q.body.size > 0
	f.uncertain = mayHaveHappened(r.status) || late && e.Code == "InternalError"
	return f
}

// broken returns the failure for an attempt without a complete response.
func (w *wire) broken(ctx context.Context, q *call, body *sending, err error) *failure {
	f := &failure{network: true, uncertain: !wasNotSent(err), again: ctx.Err() == nil && !permanent(err)}
	if body != nil {
		sent, source := body.detach()
		if source != nil { // not a failure of the connection
			return &failure{err: q.localError(fmt.Errorf("reading the body: %w", source))}
		}
		f.uncertain = f.uncertain && sent == q.body.size // a server cannot use a part of a body
	}
	f.err = q.localError(err)
	return f
}

// permanent reports whether an error of the transport would be the same again.
func permanent(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var protocol *kindError
	var dns *net.DNSError
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &protocol) ||
		errors.As(err, &dns) && dns.IsNotFound || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// address is where a request goes.
type address struct{ host, path string }

// address returns the host and the decoded path of a bucket or an object.
func (w *wire) address(bucket, key string) address {
	if bucket == "" {
		return address{w.host, "/"}
	}
	if w.virtual && isHostLabel(bucket, w.secure) {
		return address{bucket + "." + w.host, "/" + key}
	}
	if key == "" {
		return address{w.host, "/" + bucket}
	}
	return address{w.host, "/" + bucket + "/" + key}
}

// isHostLabel reports whether a bucket can be in the host name.
func isHostLabel(bucket string, secure bool) bool {
	for i := range len(bucket) {
		c := bucket[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c != '.' || secure) {
			return false
		}
	}
	return bucket != "" && bucket[0] != '-' && bucket[0] != '.'
}

// newRequest returns a request to u, which it sets, without a body. Signing it changes the headers.
func (w *wire) newRequest(ctx context.Context, u *url.URL, method string, a address, query string, header http.Header) *http.Request {
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = w.userAgent
	}
	*u = url.URL{Scheme: w.scheme, Host: a.host, Path: a.path, RawQuery: query}
	if escaped := sigv4.Escape(a.path); escaped != a.path {
		u.RawPath = escaped
	}
	r := &http.Request{Method: method, URL: u, Host: a.host, Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return r.WithContext(ctx)
}

// copyHeader returns a copy of h, with space for the headers of a signature. The values are shared: they never change.
func copyHeader(h http.Header) http.Header {
	c := make(http.Header, len(h)+5)
	maps.Copy(c, h)
	return c
}

// sign signs a request for the keys that the credentials return. hash is that of the body.
func (w *wire) sign(ctx context.Context, r *http.Request, hash string) error {
	delete(r.Header, "Authorization") // of an earlier attempt, if the keys are gone since
	if w.config.Credentials == nil {
		return nil
	}
	keys, err := w.config.Credentials.Get(ctx)
	if err != nil {
		return fmt.Errorf("credentials: %w", err)
	}
	if keys.AccessKey == "" {
		return nil
	}
	if hash == "" {
		hash = sigv4.EmptySHA256
	}
	w.signerFor(keys).Sign(r, hash, w.config.Now())
	return nil
}

// signerFor returns the signer for keys.
func (w *wire) signerFor(keys Keys) *sigv4.Signer {
	if s := w.signer.Load(); s != nil && s.keys == keys {
		return s.signer
	}
	s := &signerOf{keys: keys, signer: &sigv4.Signer{AccessKey: keys.AccessKey, SecretKey: keys.SecretKey,
		Region: w.config.Region, SecurityToken: keys.SessionToken}}
	w.signer.Store(s)
	return s.signer
}

// anonymous reports whether requests are not signed. Credentials that return no keys are noticed only by sign.
func (w *wire) anonymous() bool { return w.config.Credentials == nil }

// send sends a signed request and waits for the header of its response. The context of the request is that of the watch,
// which ends the request if there is no progress, and which the caller has to end in any case.
func (w *wire) send(r *http.Request, watch *watch) (*http.Response, error) {
	switch b := r.Body.(type) {
	case *sending:
		b.watch = watch
	case *counted:
		b.watch = watch
	}
	w.count.attempts.Add(1)
	watch.start()
	res, err := w.transport.RoundTrip(r)
	watch.pause()
	return res, err
}

// readDocument reads the body of a response. It returns an error if it is larger than allowed.
func (w *wire) readDocument(q *call, res *http.Response, body *receiving) ([]byte, error) {
	defer body.Close()
	limit := q.limit
	if limit == 0 {
		limit = maxDocument
	}
	if res.StatusCode/100 != 2 {
		limit = min(limit, maxErrorDocument)
	}
	if res.ContentLength > limit {
		return nil, failed(ErrProtocol, "the response has a document of %d bytes, more than %d", res.ContentLength, limit)
	}
	if res.ContentLength == 0 || q.method == http.MethodHead {
		return nil, nil
	}
	buf := q.into[:0]
	if n := max(res.ContentLength, 4095); int64(cap(buf)) <= n {
		buf = make([]byte, 0, n+1)
	}
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return nil, failed(ErrProtocol, "the response has a document of more than %d bytes", limit)
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}

// isErrorDocument reports whether the root of a document is an Error, after white space and an XML declaration.
func isErrorDocument(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	if bytes.HasPrefix(b, []byte("<?xml")) {
		_, b, _ = bytes.Cut(b, []byte("?>"))
		b = bytes.TrimLeft(b, " \t\r\n")
	}
	return bytes.HasPrefix(b, []byte("<Error>")) || bytes.HasPrefix(b, []byte("<Error "))
}

// query builds the query of a request.
type query struct{ b []byte }

// flag adds a parameter without a value.
func (q *query) flag(name string) *query {
	if len(q.b) > 0 {
		q.b = append(q.b, '&')
	}
	q.b = append(append(q.b, sigv4.EscapeQuery(name)...), '=')
	return q
}

// set adds a parameter, unless its value is empty.
func (q *query) set(name, value string) *query {
	if value != "" {
		q.flag(name)
		q.b = append(q.b, sigv4.EscapeQuery(value)...)
	}
	return q
}

// number adds a parameter, unless it is 0.
func (q *query) number(name string, n int) *query {
	if n != 0 {
		q.set(name, strconv.Itoa(n))
	}
	return q
}

func (q *query) String() string { return string(q.b) }

// watch ends a request that makes no progress.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer // nil without a limit
	idle   time.Duration
}

// init makes a context below ctx. The time begins with start.
func (w *watch) init(ctx context.Context, idle time.Duration) {
	w.idle = idle
	w.ctx, w.cancel = context.WithCancelCause(ctx)
}

// start begins the time.
func (w *watch) start() {
	if w.idle > 0 {
		w.timer = time.AfterFunc(w.idle, w.expire)
	}
}

func (w *watch) expire() { w.cancel(errIdle) }

// progress restarts the time.
func (w *watch) progress() {
	if w.timer != nil {
		w.timer.Reset(w.idle)
	}
}

// pause stops the time, while the next step is not up to the server.
func (w *watch) pause() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// end releases the watch, and returns why the request was ended before, or nil.
func (w *watch) end() error {
	w.pause()
	cause := context.Cause(w.ctx)
	w.cancel(nil)
	return cause
}

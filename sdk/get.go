package sdk

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"orcas/internal/checksum"
)

// Object is an object that is being read. It describes the whole object, and reads the requested range of it. It must
// be closed, and not be used concurrently.
type Object struct {
	Info
	io.ReadCloser        // returns ErrChecksum instead of io.EOF if the content is damaged
	Offset, Length int64 // the bytes of the object that it reads
}

// Get reads an object or a range of it. If the connection breaks, reading continues where it was, on condition that the
// object is still the same one; otherwise Read returns ErrPreconditionFailed. Whole content is compared with its
// checksum, or its ETag if that is an MD5, before Read returns io.EOF.
func (c *Client) Get(ctx context.Context, bucket, key string, o *GetOptions) (*Object, error) {
	q, err := c.w.reading("Get", http.MethodGet, bucket, key, o)
	if err != nil {
		return nil, err
	}
	q.stream = true
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	object := &Object{Info: infoOf(key, r.header, r.length), Length: r.length}
	if err := object.locate(q, r); err != nil {
		_ = r.stream.Close()
		return nil, q.localError(err)
	}
	d := &download{ctx: ctx, wire: c.w, q: q, stream: r.stream, next: object.Offset, end: object.Offset + object.Length, info: &object.Info}
	if o == nil || !o.Unverified {
		d.verify(o, r, object)
	}
	object.ReadCloser = d
	return object, nil
}

// reading returns the call for GetObject or HeadObject.
func (w *wire) reading(op, method, bucket, key string, o *GetOptions) (*call, error) {
	if o == nil {
		o = &GetOptions{}
	}
	q := &call{op: op, method: method, bucket: bucket, key: key, version: o.VersionID != "", header: make(http.Header, 8)}
	switch {
	case key == "":
		return nil, argument(op, bucket, key, "the key is empty")
	case o.Offset < 0 || o.Length < 0 || o.Suffix < 0 || o.Part < 0:
		return nil, argument(op, bucket, key, "a negative range: %d, %d, %d, part %d", o.Offset, o.Length, o.Suffix, o.Part)
	case o.Suffix > 0 && (o.Offset > 0 || o.Length > 0), o.Part > 0 && (o.Offset > 0 || o.Length > 0 || o.Suffix > 0):
		return nil, argument(op, bucket, key, "only one of Offset with Length, Suffix, and Part may be set")
	}
	set(q.header, "Range", o.rangeHeader())
	o.Conditions.write(q.header, "If-")
	if err := customerKey(q.header, customerPrefix, o.CustomerKey, w.secure); err != nil {
		return nil, q.localError(err)
	}
	if !o.Unverified && !w.config.ChecksumsWhenRequired {
		set(q.header, "X-Amz-Checksum-Mode", "ENABLED")
	}
	if o.VersionID != "" || o.Part != 0 || len(o.Response) > 0 {
		p := new(query).set("versionId", o.VersionID).number("partNumber", o.Part)
		for name, value := range o.Response {
			if !strings.HasPrefix(name, "response-") {
				return nil, argument(op, bucket, key, "the name %q in Response does not begin with response-", name)
			}
			p.set(name, value)
		}
		q.query = p.String()
	}
	return q, nil
}

// rangeHeader returns the value of the Range header, or "".
func (o *GetOptions) rangeHeader() string {
	switch {
	case o.Suffix > 0:
		return "bytes=-" + strconv.FormatInt(o.Suffix, 10)
	case o.Length > 0:
		return "bytes=" + strconv.FormatInt(o.Offset, 10) + "-" + strconv.FormatInt(o.Offset+o.Length-1, 10)
	case o.Offset > 0:
		return "bytes=" + strconv.FormatInt(o.Offset, 10) + "-"
	}
	return ""
}

// totalOf returns the size of the whole object in Content-Range.
func totalOf(h http.Header) (int64, bool) {
	_, _, total, err := parseRange(first(h, "Content-Range"))
	return total, err == nil
}

// parseRange parses the value of a Content-Range header.
func parseRange(v string) (from, to, total int64, err error) {
	bad := func() (int64, int64, int64, error) {
		return 0, 0, 0, failed(ErrProtocol, "the response has an invalid Content-Range: %q", v)
	}
	rest, ok := strings.CutPrefix(v, "bytes ")
	span, size, ok2 := strings.Cut(rest, "/")
	a, b, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return bad()
	}
	from, err1 := strconv.ParseInt(a, 10, 64)
	to, err2 := strconv.ParseInt(b, 10, 64)
	total, err3 := strconv.ParseInt(size, 10, 64)
	if errors.Join(err1, err2, err3) != nil || from < 0 || to < from || total <= to {
		return bad()
	}
	return from, to, total, nil
}

// locate sets the range that a response contains. It returns an error if that is not what was requested.
func (o *Object) locate(q *call, r *reply) error {
	if r.length < 0 {
		return failed(ErrProtocol, "the response does not have a Content-Length")
	}
	asked := first(q.header, "Range")
	if r.status != http.StatusPartialContent {
		if asked != "" {
			return failed(ErrProtocol, "the server ignored the range %s: the response has the status %d", asked, r.status)
		}
		return nil
	}
	from, to, total, err := parseRange(first(r.header, "Content-Range"))
	if err != nil {
		return err
	}
	o.Offset, o.Size = from, total
	if to-from+1 != r.length || asked != "" && !contains(asked, from, to, total) {
		return failed(ErrProtocol, "the response has %d bytes with the Content-Range %q, and %s was requested",
			r.length, first(r.header, "Content-Range"), asked)
	}
	return nil
}

// contains reports whether from-to is what a Range header asked for.
func contains(asked string, from, to, total int64) bool {
	a, b, _ := strings.Cut(strings.TrimPrefix(asked, "bytes="), "-")
	if a == "" {
		n, _ := strconv.ParseInt(b, 10, 64)
		return from == max(0, total-n) && to == total-1
	}
	first, _ := strconv.ParseInt(a, 10, 64)
	last := total - 1
	if b != "" {
		last, _ = strconv.ParseInt(b, 10, 64)
	}
	return from == first && to == min(last, total-1)
}

// download reads the body of an object, over several connections if they break.
type download struct {
	ctx    context.Context
	wire   *wire
	q      *call
	info   *Info
	stream io.ReadCloser
	next   int64 // position in the object
	end    int64 // position after the last byte to read
	failed int   // attempts since the last byte
	done   error // returned by further reads

	hash      hash.Hash // nil if the content is not verified
	algorithm Algorithm // of hash
	want      string    // in the form of the response
}

// verify chooses what the content is compared with.
func (d *download) verify(o *GetOptions, r *reply, object *Object) {
	whole := object.Length == object.Size && object.Offset == 0
	part := o != nil && o.Part > 0
	if object.ChecksumType != "COMPOSITE" && whole || part {
		for _, a := range [...]Algorithm{CRC64NVME, CRC32C, XXHASH3, XXHASH128, XXHASH64, CRC32, SHA256, SHA1, SHA512, MD5} {
			if d.use(a, object.Checksums[a]) {
				return
			}
		}
	}
	if whole && !part && isMD5(object.ETag, r.header) {
		d.hash, d.algorithm, d.want = checksum.New(MD5), None, object.ETag
	}
}

// use makes the download compare its content with a checksum, if there is one that can be compared.
func (d *download) use(a Algorithm, value string) bool {
	if _, err := checksum.Decode(a, value); value == "" || err != nil {
		return false // none, or composite
	}
	d.hash, d.algorithm, d.want = checksum.New(a), a, value
	return true
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for d.done == nil {
		if d.next == d.end {
			d.done = d.finish()
			break
		}
		if len(p) == 0 {
			return 0, nil
		}
		n, err := d.stream.Read(p[:min(int64(len(p)), d.end-d.next)])
		if n > 0 {
			d.failed = 0
			d.next += int64(n)
			if d.hash != nil {
				d.hash.Write(p[:n])
			}
			if d.next == d.end { // the last bytes of damaged content are not returned as if all was well
				d.done = d.finish()
				if d.done != io.EOF {
					return 0, d.done
				}
			}
			return n, nil
		}
		if err == io.EOF {
			err = &networkError{fmt.Errorf("%w at byte %d of %d", io.ErrUnexpectedEOF, d.next, d.end)}
		}
		if err != nil {
			d.done = d.resume(err)
		}
	}
	return 0, d.done
}

// finish verifies the content. It returns io.EOF if it is right.
func (d *download) finish() error {
	if d.hash == nil {
		return io.EOF
	}
	sum := d.hash.Sum(nil)
	name, got := "MD5", hex.EncodeToString(sum)
	if d.algorithm != None {
		name, got = d.algorithm.Name(), checksum.Encode(sum)
	}
	if got != d.want {
		return d.q.localError(failed(ErrChecksum, "the content has the %s %s, expected %s", name, got, d.want))
	}
	return io.EOF
}

// resume opens another connection after an error. It returns an error if reading cannot continue.
func (d *download) resume(cause error) error {
	_ = d.stream.Close()
	d.stream = http.NoBody
	d.failed++
	stop := func(err error) error {
		e := d.q.localError(err)
		e.Attempts = d.failed
		return e
	}
	if d.ctx.Err() != nil || permanent(cause) || d.failed >= d.wire.config.Retry.Attempts || !d.wire.budget.take(retryCostNetwork) {
		return stop(cause)
	}
	if d.info.ETag == "" {
		return stop(fmt.Errorf("%w; reading cannot continue, because the object has no ETag", cause))
	}
	if err := sleep(d.ctx, d.wire.config.Retry.delay(d.failed+1, 0)); err != nil {
		return stop(err)
	}
	again := *d.q
	again.header = d.q.header.Clone()
	for name := range again.header { // the conditions hold no more, or have been met
		if strings.HasPrefix(name, "If-") {
			delete(again.header, name)
		}
	}
	set(again.header, "If-Match", quote(d.info.ETag))
	asked := "bytes=" + strconv.FormatInt(d.next, 10) + "-" + strconv.FormatInt(d.end-1, 10)
	set(again.header, "Range", asked)
	again.query = withoutPart(d.q.query)
	r, err := d.wire.do(d.ctx, &again)
	if errors.Is(err, ErrPreconditionFailed) || errors.Is(err, ErrNoSuchKey) {
		return fmt.Errorf("%w (the object was changed while it was read, at byte %d)", err, d.next)
	}
	if err != nil {
		return err
	}
	o := &Object{Info: infoOf(d.info.Key, r.header, r.length)}
	if err := o.locate(&again, r); err != nil || o.ETag != d.info.ETag || o.Size != d.info.Size {
		_ = r.stream.Close()
		if err == nil {
			err = failed(ErrProtocol, "reading continued with another object: ETag %s and %d bytes, expected %s and %d", o.ETag, o.Size, d.info.ETag, d.info.Size)
		}
		return stop(err)
	}
	d.stream = r.stream
	return nil
}

// withoutPart returns a query without partNumber: a range within a part is a range of the object.
func withoutPart(q string) string {
	if !strings.Contains(q, "partNumber=") {
		return q
	}
	var kept []string
	for p := range strings.SplitSeq(q, "&") {
		if !strings.HasPrefix(p, "partNumber=") {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, "&")
}

// Close ends reading. It does not report whether the content was read to its end.
func (d *download) Close() error {
	if d.done == nil {
		d.done = http.ErrBodyReadAfterClose
	}
	return d.stream.Close()
}

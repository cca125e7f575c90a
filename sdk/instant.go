package sdk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// This file implements the client's side of docs/instant.md: asking a server which content it holds, and references to
// such content.

// ParseRefLevel returns the level with the given name (OFF, FULL or FAST, in any case) or number (0, 1 or 2).
func ParseRefLevel(s string) (RefLevel, error) {
	for l, name := range refLevels {
		if strings.EqualFold(s, name) || s == strconv.Itoa(l) {
			return RefLevel(l), nil
		}
	}
	return RefOff, fmt.Errorf("sdk: %q is not a level of instant upload: expected OFF, FULL or FAST", s)
}

// String returns the name of the level.
func (l RefLevel) String() string {
	if l < 0 || int(l) >= len(refLevels) {
		return "RefLevel(" + strconv.Itoa(int(l)) + ")"
	}
	return refLevels[l]
}

var refLevels = [...]string{"OFF", "FULL", "FAST"}

// HeadSize is the number of bytes at the beginning of content whose hash is ContentID.HeadSHA256.
const HeadSize = 64 << 10

// ContentID identifies content that a server may hold, by its size and one of the hashes.
type ContentID struct {
	Size       int64  // bytes
	SHA256     string // of the whole content, in hexadecimal
	HeadSHA256 string // of its first HeadSize bytes, or of all if it is shorter
}

// ContentState is what a server knows about content. No state is a promise.
type ContentState string

// The states.
const (
	ContentPresent ContentState = "present" // the bucket holds it
	ContentPerhaps ContentState = "perhaps" // the bucket holds content of this size with this beginning
	ContentAbsent  ContentState = "absent"
)

// findMax is the maximum number of pieces of content in one request, as defined by the protocol.
const findMax = 1000

// FindContent asks which content a bucket holds. It returns a state for each ID, in the same order; an unknown state is
// ContentAbsent. It sends one request for each 1,000 IDs. e is the encryption of the objects that are to be written. See
// Refer for content that is present. Servers without instant upload return an error, usually ErrNotImplemented.
func (c *Client) FindContent(ctx context.Context, bucket string, ids []ContentID, e Encryption) ([]ContentState, error) {
	states := make([]ContentState, 0, len(ids))
	for len(ids) > 0 {
		n := min(len(ids), findMax)
		page, err := c.findContent(ctx, bucket, ids[:n], e)
		if err != nil {
			return nil, err
		}
		states, ids = append(states, page...), ids[n:]
	}
	return states, nil
}

func (c *Client) findContent(ctx context.Context, bucket string, ids []ContentID, e Encryption) ([]ContentState, error) {
	q := &call{op: "FindContent", method: http.MethodPost, bucket: bucket, header: make(http.Header, 8), limit: 1 << 20}
	if bucket == "" {
		return nil, argument(q.op, bucket, "", "the name of the bucket is empty")
	}
	q.query = new(query).flag("instant").String()
	if err := e.write(q.header, c.w.secure); err != nil {
		return nil, q.localError(err)
	}
	var b bytes.Buffer
	b.WriteString("<FindContent>")
	for _, id := range ids {
		name, sum := "SHA256", id.SHA256
		if id.HeadSHA256 != "" {
			name, sum = "HeadSHA256", id.HeadSHA256
		}
		if id.Size < 0 || len(sum) != 2*sha256.Size || id.SHA256 != "" && id.HeadSHA256 != "" {
			return nil, argument(q.op, bucket, "", "content needs a size and one SHA-256 in hexadecimal: %+v", id)
		}
		fmt.Fprintf(&b, "<Content><Size>%d</Size><%s>", id.Size, name)
		_ = xml.EscapeText(&b, []byte(sum)) // a Buffer never fails
		fmt.Fprintf(&b, "</%s></Content>", name)
	}
	b.WriteString("</FindContent>")
	sum := sha256.Sum256(b.Bytes())
	q.body = content{reader: bytes.NewReader(b.Bytes()), size: int64(b.Len()), hash: hex.EncodeToString(sum[:])}
	set(q.header, "Content-Type", "application/xml")
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc struct {
		XMLName  xml.Name `xml:"FindContentResult"`
		Contents []struct {
			State ContentState
		} `xml:"Content"`
	}
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	if len(doc.Contents) != len(ids) {
		return nil, q.localError(failed(ErrProtocol, "the response has %d states, and %d were requested", len(doc.Contents), len(ids)))
	}
	states := make([]ContentState, len(ids))
	for i := range states {
		switch s := doc.Contents[i].State; s {
		case ContentPresent, ContentPerhaps:
			states[i] = s
		default:
			states[i] = ContentAbsent
		}
	}
	return states, nil
}

// Refer writes an object with content that the bucket holds, without sending it. size is that of the content, at least
// 1, and sha256 its SHA-256 in hexadecimal. If the bucket does not hold the content, the error is ErrNoSuchContent: send
// it with Put. Servers without instant upload return another error, and write nothing. In o, SHA256 is not used; a
// checksum is compared with that of the content.
func (c *Client) Refer(ctx context.Context, bucket, key string, size int64, sha256 string, o *PutOptions) (*Written, error) {
	if o == nil {
		o = &PutOptions{}
	}
	q, err := objectCall("Refer", http.MethodPut, bucket, key)
	if err != nil {
		return nil, err
	}
	if err := o.Properties.write(q.header, c.w.secure); err != nil {
		return nil, q.localError(err)
	}
	o.Conditions.write(q.header, "If-")
	if err := q.refer(size, sha256, o.Checksum, o.ChecksumValue); err != nil {
		return nil, err
	}
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	c.w.count.referred.Add(size)
	out := written(r)
	out.Size = size
	return out, c.w.verifyWritten(q, r, out, o.Checksum)
}

// ReferPart writes a part of an upload with content that the bucket holds, as Refer does for an object.
func (c *Client) ReferPart(ctx context.Context, bucket, key, id string, n int, size int64, sha256 string, o *PartOptions) (Part, error) {
	if o == nil {
		o = &PartOptions{}
	}
	if n == 0 {
		return Part{}, argument("ReferPart", bucket, key, "the part number is 0, expected 1 to %d", partsMax)
	}
	q, err := uploadCall("ReferPart", http.MethodPut, bucket, key, id, n)
	if err != nil {
		return Part{}, err
	}
	if err := customerKey(q.header, customerPrefix, o.CustomerKey, c.w.secure); err != nil {
		return Part{}, q.localError(err)
	}
	if err := q.refer(size, sha256, o.Checksum, o.ChecksumValue); err != nil {
		return Part{}, err
	}
	p, err := c.w.part(ctx, q, n, size, o.Checksum)
	if err == nil {
		c.w.count.referred.Add(size)
	}
	return p, err
}

// refer makes q a reference. It has no body, but the hash of the content is signed.
func (q *call) refer(size int64, sum string, a Algorithm, value string) error {
	if raw, err := hex.DecodeString(sum); size < 1 || err != nil || len(raw) != sha256.Size {
		return argument(q.op, q.bucket, q.key, "a reference needs the size of the content and its SHA-256 in hexadecimal: %d bytes, %q", size, sum)
	}
	if value != "" {
		if !a.Valid() {
			return argument(q.op, q.bucket, q.key, "there is a checksum, but no algorithm of it")
		}
		set(q.header, a.HeaderKey(), value)
	}
	set(q.header, "X-Amz-Instant-Length", strconv.FormatInt(size, 10))
	q.body.hash = strings.ToLower(sum)
	return nil
}

// refersNot reports what an error of FindContent or of a reference means for an upload: whether it can go on by sending
// the content, and whether to stop asking this server about the bucket. Errors that an ordinary PUT would get too, such
// as a wrong signature or a missing bucket, are those of the upload.
func refersNot(err error) (send, stop bool) {
	var e *Error
	switch {
	case err == nil, !errors.As(err, &e):
		return false, false
	case errors.Is(err, ErrNoSuchContent):
		return true, false
	case errors.Is(err, ErrProtocol): // a document of something else: the server does not know FindContent
		return true, true
	case e.Status == 0, errors.Is(err, ErrNoSuchBucket), errors.Is(err, ErrSignature), errors.Is(err, ErrInvalidAccessKey),
		errors.Is(err, ErrInvalidToken), errors.Is(err, ErrClockSkew), errors.Is(err, ErrRedirect), errors.Is(err, ErrQuotaExceeded),
		errors.Is(err, ErrNoSuchUpload), errors.Is(err, ErrPreconditionFailed) && e.Op != "FindContent":
		return false, false
	case e.Status >= http.StatusInternalServerError && e.Status != http.StatusNotImplemented: // overloaded: no reason to stop for good
		return true, false
	}
	return true, e.Status >= http.StatusBadRequest
}

// asks returns the level at which to ask about the content of a bucket.
func (w *wire) asks(bucket string, l RefLevel) RefLevel {
	if l == RefOff || w.anonymous() {
		return RefOff
	}
	if _, off := w.noInstant.Load(bucket); off {
		return RefOff
	}
	return l
}

// stopsAsking remembers that it is useless to ask about a bucket.
func (w *wire) stopsAsking(bucket string) { w.noInstant.Store(bucket, struct{}{}) }

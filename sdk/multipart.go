package sdk

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"orcas/internal/checksum"
	"orcas/internal/sigv4"
)

// CreateUpload begins a multipart upload and returns its ID. The properties are those of the object; the conditions
// belong to CompleteUpload. With a CRC as its checksum the object gets the CRC of the whole content, with any other
// algorithm a checksum of the checksums of its parts. See Upload, which does everything.
func (c *Client) CreateUpload(ctx context.Context, bucket, key string, o *PutOptions) (id string, err error) {
	if o == nil {
		o = &PutOptions{}
	}
	q, err := objectCall("CreateUpload", http.MethodPost, bucket, key)
	if err != nil {
		return "", err
	}
	q.query = new(query).flag("uploads").String()
	if err := o.Properties.write(q.header, c.w.secure); err != nil {
		return "", q.localError(err)
	}
	if a := c.w.algorithm(o.Checksum); a != None {
		set(q.header, "X-Amz-Checksum-Algorithm", a.Name())
		if a.CanCombine() {
			set(q.header, "X-Amz-Checksum-Type", fullObject)
		}
	}
	r, err := c.w.do(ctx, q)
	if err != nil {
		return "", err
	}
	var doc struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		UploadID string   `xml:"UploadId"`
	}
	if err := q.parse(r, &doc); err != nil {
		return "", err
	}
	if doc.UploadID == "" {
		return "", q.localError(failed(ErrProtocol, "the response has no upload ID"))
	}
	return doc.UploadID, nil
}

// Types of the checksum of a multipart object.
const (
	fullObject = "FULL_OBJECT"
	composite  = "COMPOSITE"
)

// objectCall returns a call for an object.
func objectCall(op, method, bucket, key string) (*call, error) {
	if key == "" {
		return nil, argument(op, bucket, key, "the key is empty")
	}
	return &call{op: op, method: method, bucket: bucket, key: key, write: method != http.MethodGet, header: make(http.Header, 16)}, nil
}

// parse parses the document of a response.
func (q *call) parse(r *reply, doc any) error {
	if err := xml.Unmarshal(r.body, doc); err != nil {
		return q.localError(failed(ErrProtocol, "the response is not the expected document: %v", err))
	}
	return nil
}

// uploadCall returns a call for an upload, or for part n of it if n is not 0.
func uploadCall(op, method, bucket, key, id string, n int) (*call, error) {
	q, err := objectCall(op, method, bucket, key)
	switch {
	case err != nil:
		return nil, err
	case id == "":
		return nil, argument(op, bucket, key, "the upload ID is empty")
	case n < 0 || n > partsMax:
		return nil, argument(op, bucket, key, "the part number is %d, expected 1 to %d", n, partsMax)
	}
	q.query = new(query).number("partNumber", n).set("uploadId", id).String()
	return q, nil
}

// UploadPart writes a part of up to 5 GiB, and replaces the part with that number if there is one. Every part but the
// last must have at least 5 MiB. body is read as by Put.
func (c *Client) UploadPart(ctx context.Context, bucket, key, id string, n int, body io.ReadSeeker, o *PartOptions) (Part, error) {
	if o == nil {
		o = &PartOptions{}
	}
	if n == 0 {
		return Part{}, argument("UploadPart", bucket, key, "the part number is 0, expected 1 to %d", partsMax)
	}
	q, err := uploadCall("UploadPart", http.MethodPut, bucket, key, id, n)
	if err != nil {
		return Part{}, err
	}
	if err := customerKey(q.header, customerPrefix, o.CustomerKey, c.w.secure); err != nil {
		return Part{}, q.localError(err)
	}
	if err := c.w.setContent(q, body, sums{o.Checksum, o.ChecksumValue, o.SHA256, true}); err != nil {
		return Part{}, err
	}
	return c.w.part(ctx, q, n, q.body.size, c.w.algorithm(o.Checksum))
}

// part sends a call that writes a part, and verifies the response.
func (w *wire) part(ctx context.Context, q *call, n int, size int64, a Algorithm) (Part, error) {
	r, err := w.do(ctx, q)
	if err != nil {
		return Part{}, err
	}
	out := written(r)
	p := Part{Number: n, Size: size, ETag: out.ETag, Checksums: out.Checksums}
	if sent := first(q.header, a.HeaderKey()); a != None && sent != "" && p.Checksums[a] == "" {
		if p.Checksums == nil {
			p.Checksums = make(Checksums, 1)
		}
		p.Checksums[a] = sent // the server verified it, even if it does not repeat it
	}
	if p.ETag == "" {
		return p, q.localError(failed(ErrProtocol, "the response has no ETag"))
	}
	return p, w.verifyWritten(q, r, out, a)
}

// UploadPartCopy writes a part with the content of an object, or of a range of it; see PartOptions.
func (c *Client) UploadPartCopy(ctx context.Context, from Source, bucket, key, id string, n int, o *PartOptions) (Part, error) {
	if o == nil {
		o = &PartOptions{}
	}
	const op = "UploadPartCopy"
	q, err := uploadCall(op, http.MethodPut, bucket, key, id, n)
	switch {
	case err != nil:
		return Part{}, err
	case n == 0:
		return Part{}, argument(op, bucket, key, "the part number is 0, expected 1 to %d", partsMax)
	case from.Bucket == "" || from.Key == "":
		return Part{}, argument(op, bucket, key, "the source has no bucket or no key")
	case o.Offset < 0 || o.Length < 0 || o.Offset > 0 && o.Length == 0:
		return Part{}, argument(op, bucket, key, "the range of the source is %d bytes from %d", o.Length, o.Offset)
	}
	from.write(q.header)
	if o.Length > 0 {
		set(q.header, "X-Amz-Copy-Source-Range", "bytes="+strconv.FormatInt(o.Offset, 10)+"-"+strconv.FormatInt(o.Offset+o.Length-1, 10))
	}
	o.Source.write(q.header, "X-Amz-Copy-Source-If-")
	if err := errors.Join(customerKey(q.header, customerPrefix, o.CustomerKey, c.w.secure),
		customerKey(q.header, sourceCustomerPrefix, o.SourceCustomerKey, c.w.secure)); err != nil {
		return Part{}, q.localError(err)
	}
	r, err := c.w.do(ctx, q)
	if err != nil {
		return Part{}, err
	}
	var doc struct {
		XMLName xml.Name `xml:"CopyPartResult"`
		partDocument
	}
	if err := q.parse(r, &doc); err != nil {
		return Part{}, err
	}
	p := doc.part()
	p.Number, p.Size = n, o.Length
	return p, nil
}

// CompleteUpload makes the parts, which must be in ascending order, an object. If the response was lost, a repeated
// request succeeds only on servers that remember the upload; the error is ErrNoSuchUpload, and Uncertain, elsewhere.
func (c *Client) CompleteUpload(ctx context.Context, bucket, key, id string, parts []Part, o *CompleteOptions) (*Written, error) {
	if o == nil {
		o = &CompleteOptions{}
	}
	q, err := uploadCall("CompleteUpload", http.MethodPost, bucket, key, id, 0)
	switch {
	case err != nil:
		return nil, err
	case len(parts) == 0 || len(parts) > partsMax:
		return nil, argument(q.op, bucket, key, "there are %d parts, expected 1 to %d", len(parts), partsMax)
	case o.ChecksumValue != "" && !o.Checksum.Valid():
		return nil, argument(q.op, bucket, key, "there is a checksum, but no algorithm of it")
	}
	o.Conditions.write(q.header, "If-")
	if err := customerKey(q.header, customerPrefix, o.CustomerKey, c.w.secure); err != nil {
		return nil, q.localError(err)
	}
	if o.Size > 0 {
		set(q.header, "X-Amz-Mp-Object-Size", strconv.FormatInt(o.Size, 10))
	}
	if o.ChecksumValue != "" {
		set(q.header, o.Checksum.HeaderKey(), o.ChecksumValue)
		kind := fullObject
		if !o.Checksum.CanCombine() || strings.Contains(o.ChecksumValue, "-") {
			kind = composite
		}
		set(q.header, "X-Amz-Checksum-Type", kind)
	}
	document := completeDocument(parts)
	sum := sha256.Sum256(document)
	q.body = content{reader: bytes.NewReader(document), size: int64(len(document)), hash: hex.EncodeToString(sum[:]), known: true}
	set(q.header, "Content-Type", "application/xml")
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		partDocument
	}
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	p := doc.part()
	if p.ETag == "" { // as Ceph 16 responds
		info, err := c.Head(ctx, bucket, key, &GetOptions{CustomerKey: o.CustomerKey})
		if err != nil {
			return nil, err
		}
		if want := multipartETag(parts); info.ETag == "" || want != "" && info.ETag != want {
			return nil, q.localError(failed(ErrProtocol, "the response has no ETag, and the object has %q, not %q", info.ETag, want))
		}
		p.ETag = info.ETag
	}
	out := &Written{ETag: p.ETag, VersionID: first(r.header, "X-Amz-Version-Id"), Checksums: p.Checksums, Size: o.Size}
	if got := p.Checksums[o.Checksum]; o.ChecksumValue != "" && got != "" && baseSum(got) != baseSum(o.ChecksumValue) {
		return out, c.w.damaged(q, r, "the object has the %s %s, expected %s", o.Checksum, got, o.ChecksumValue)
	}
	return out, nil
}

// baseSum returns a checksum without the number of parts.
func baseSum(s string) string {
	base, _, _ := strings.Cut(s, "-")
	return base
}

// completeDocument returns the document of CompleteMultipartUpload. Checksums are part of it, so that the server
// compares them too.
func completeDocument(parts []Part) []byte {
	b := make([]byte, 0, 64+180*len(parts))
	b = append(b, `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`...)
	for i := range parts {
		p := &parts[i]
		b = append(b, "<Part><PartNumber>"...)
		b = strconv.AppendInt(b, int64(p.Number), 10)
		b = append(b, "</PartNumber><ETag>"...)
		b = appendText(b, quote(p.ETag))
		b = append(b, "</ETag>"...)
		if a, value := p.checksum(); a != None {
			b = append(append(append(b, "<Checksum"...), a.Name()...), '>')
			b = appendText(b, value)
			b = append(append(append(b, "</Checksum"...), a.Name()...), '>')
		}
		b = append(b, "</Part>"...)
	}
	return append(b, "</CompleteMultipartUpload>"...)
}

// checksum returns the checksum of a part for the document of CompleteMultipartUpload, which may contain only one.
func (p *Part) checksum() (Algorithm, string) {
	for _, a := range checksum.All() {
		if value := p.Checksums[a]; value != "" {
			return a, value
		}
	}
	return None, ""
}

// appendText appends text to an XML document.
func appendText(b []byte, s string) []byte {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(s)) // a Buffer never fails
	return append(b, out.Bytes()...)
}

// AbortUpload removes an upload and its parts.
func (c *Client) AbortUpload(ctx context.Context, bucket, key, id string) error {
	q, err := uploadCall("AbortUpload", http.MethodDelete, bucket, key, id, 0)
	if err != nil {
		return err
	}
	_, err = c.w.do(ctx, q)
	return err
}

// partDocument is a part in a document of a response.
type partDocument struct {
	PartNumber   int
	ETag         string
	Size         int64
	LastModified string
	CRC32        string `xml:"ChecksumCRC32"`
	CRC32C       string `xml:"ChecksumCRC32C"`
	CRC64NVME    string `xml:"ChecksumCRC64NVME"`
	SHA1         string `xml:"ChecksumSHA1"`
	SHA256       string `xml:"ChecksumSHA256"`
	SHA512       string `xml:"ChecksumSHA512"`
	MD5          string `xml:"ChecksumMD5"`
	XXHASH64     string `xml:"ChecksumXXHASH64"`
	XXHASH3      string `xml:"ChecksumXXHASH3"`
	XXHASH128    string `xml:"ChecksumXXHASH128"`
}

func (d *partDocument) part() Part {
	p := Part{Number: d.PartNumber, Size: d.Size, ETag: unquote(d.ETag), LastModified: timeOf(d.LastModified)}
	for _, s := range [...]struct {
		a     Algorithm
		value string
	}{{CRC32, d.CRC32}, {CRC32C, d.CRC32C}, {CRC64NVME, d.CRC64NVME}, {SHA1, d.SHA1}, {SHA256, d.SHA256}, {SHA512, d.SHA512}, {MD5, d.MD5},
		{XXHASH64, d.XXHASH64}, {XXHASH3, d.XXHASH3}, {XXHASH128, d.XXHASH128}} {
		if s.value != "" {
			if p.Checksums == nil {
				p.Checksums = make(Checksums, 1)
			}
			p.Checksums[s.a] = s.value
		}
	}
	return p
}

// timeOf returns a time in a document, or the zero time.
func timeOf(s string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, s)
	return t.UTC()
}

// write adds the headers that name the source of a copy.
func (s *Source) write(h http.Header) {
	from := sigv4.Escape(s.Bucket + "/" + s.Key)
	if s.VersionID != "" {
		from += "?versionId=" + sigv4.EscapeQuery(s.VersionID)
	}
	set(h, "X-Amz-Copy-Source", from)
}

// multipartETag returns the ETag of the object with the given parts on servers where ETags are MD5s, or "" if the parts
// are on another server.
func multipartETag(parts []Part) string {
	all := md5.New()
	for i := range parts {
		sum, err := hex.DecodeString(parts[i].ETag)
		if err != nil || len(sum) != md5.Size {
			return ""
		}
		all.Write(sum)
	}
	return hex.EncodeToString(all.Sum(nil)) + "-" + strconv.Itoa(len(parts))
}

// partBody returns the body of a part whose checksum is known to be that of what is sent. A mismatch that the server
// reports is then an accident on the way, so the part is sent again.
func partBody(r io.ReadSeeker, start, size int64, sha256 string) content {
	if sha256 == "" {
		sha256 = sigv4.UnsignedPayload
	}
	return content{reader: r, start: start, size: size, hash: sha256}
}

package s3

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"net/http"
	"slices"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/s3/apierr"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
	"orcas/vfs"
)

// completeRequest is the body of CompleteMultipartUpload.
type completeRequest struct {
	XMLName xml.Name        `xml:"CompleteMultipartUpload"`
	Parts   []completedPart `xml:"Part"`
}

type completedPart struct {
	Number    *int    `xml:"PartNumber"`
	ETag      *string `xml:"ETag"`
	CRC32     string  `xml:"ChecksumCRC32"`
	CRC32C    string  `xml:"ChecksumCRC32C"`
	CRC64NVME string  `xml:"ChecksumCRC64NVME"`
	SHA1      string  `xml:"ChecksumSHA1"`
	SHA256    string  `xml:"ChecksumSHA256"`
	SHA512    string  `xml:"ChecksumSHA512"`
	MD5       string  `xml:"ChecksumMD5"`
	XXHASH64  string  `xml:"ChecksumXXHASH64"`
	XXHASH3   string  `xml:"ChecksumXXHASH3"`
	XXHASH128 string  `xml:"ChecksumXXHASH128"`
}

// claim returns the checksum that the document claims for the part, or nil. There can be at most one.
func (p *completedPart) claim() ([]core.Checksum, error) {
	var out []core.Checksum
	texts := "" // for the error
	valid := true
	for _, c := range [...]struct {
		alg  checksum.Algorithm
		text string
	}{
		{checksum.CRC32, p.CRC32}, {checksum.CRC32C, p.CRC32C}, {checksum.CRC64NVME, p.CRC64NVME}, {checksum.SHA1, p.SHA1},
		{checksum.SHA256, p.SHA256}, {checksum.SHA512, p.SHA512}, {checksum.MD5, p.MD5}, {checksum.XXHASH64, p.XXHASH64},
		{checksum.XXHASH3, p.XXHASH3}, {checksum.XXHASH128, p.XXHASH128},
	} {
		if c.text == "" {
			continue
		}
		texts += c.alg.Name() + ":" + c.text + ";"
		value, err := checksum.Decode(c.alg, c.text)
		valid = valid && err == nil
		out = append(out, core.Checksum{Algorithm: c.alg, Value: value})
	}
	if !valid || len(out) > 1 {
		return nil, apierr.Argument("Checksum", texts, "Invalid Base64 or multiple checksums present in request")
	}
	return out, nil
}

// completeOperation is CompleteMultipartUpload.
type completeOperation struct {
	q       *request
	id      core.UploadID
	body    completeRequest
	upload  *core.UploadInfo // reconstructed from the object if again is set
	again   bool             // the upload was already completed
	request vfs.CompleteRequest
}

func completeUpload(q *request, x *xmldoc.Writer) error {
	op := completeOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	o, err := op.run()
	if err != nil {
		return err
	}
	q.setNewVersion(o.Version())
	if v := core.AttrValue(o.Attrs, storeAttr); v != "" {
		q.set(storeAttr, v)
	}
	setExpiration(q, o)
	x.Begin("CompleteMultipartUploadResult")
	x.Text("Location", locationOf(q.r))
	x.Text("Bucket", q.bucket.Name)
	x.Text("Key", q.key)
	x.ETag(o.ETag)
	writeSums(x, o.Sums, true)
	x.Close("CompleteMultipartUploadResult")
	return nil
}

// run completes the upload. If the client retries because it missed the response, it gets the same response.
func (op *completeOperation) run() (*core.ObjectInfo, error) {
	o, err := op.q.s.fs.CompleteUpload(op.q.ctx, op.request)
	if core.Is(err, core.NoSuchUpload) {
		if o = op.completedBefore(); o != nil {
			return o, nil
		}
	}
	if err != nil {
		return nil, op.failed(err)
	}
	return o, nil
}

// failed returns the S3 error for an error of the store.
func (op *completeOperation) failed(err error) error {
	var part *vfs.PartError
	var size *vfs.SizeError
	var small *vfs.SmallPartError
	switch {
	case errors.As(err, &small):
		return errEntityTooSmall.Because(err).With("ProposedSize", itoa(small.Size)).With("MinSizeAllowed", itoa(vfs.MinPartSize)).
			With("PartNumber", itoa(int64(small.Number))).With("ETag", small.ETag)
	case errors.As(err, &part):
		return errInvalidPart.Because(err).With("UploadId", op.q.s.ids.Upload(op.id)).
			With("PartNumber", itoa(int64(part.Number))).With("ETag", part.ETag)
	case errors.As(err, &size):
		return errInvalidRequest.Say("The provided 'x-amz-mp-object-size' header value " + itoa(size.Claimed) + " does not match what was computed: " + itoa(size.Actual))
	case core.Is(err, core.BadDigest) && len(op.request.Sums) > 0:
		return badObjectSum(op.request.Sums[0].Algorithm)
	case core.Is(err, core.InvalidArgument):
		return errInvalidRequest.Say("The object does not have the size or the checksum specified in the request.").Because(err)
	}
	return err
}

// parse reads the parts of the new object and the claims of the request about it. A malformed document is reported
// first, then an upload that does not exist, then everything else. If the upload was already completed, the request is
// compared with the resulting object.
func (op *completeOperation) parse() (err error) {
	q := op.q
	if op.id, err = q.uploadID(); err != nil {
		return err
	}
	doc, err := readPlainBody(q)
	if err != nil {
		return err
	}
	if err := xmldoc.Parse(doc, &op.body); err != nil {
		return err
	}
	if !op.body.whole() {
		return errMalformedXML
	}
	op.request = vfs.CompleteRequest{Bucket: q.bucket, Key: q.key, Upload: op.id, Size: -1}
	op.upload, err = q.s.fs.Upload(q.ctx, q.bucket, q.key, op.id)
	if core.Is(err, core.NoSuchUpload) {
		op.upload, op.again = op.completedUpload(), true
	}
	if op.upload == nil {
		return err
	}
	if op.again {
		if op.parseClaims() != nil {
			return err // NoSuchUpload
		}
		return nil
	}
	op.request.Begun = op.upload
	return op.parseClaims()
}

// completedUpload reconstructs an upload that was already completed from the resulting object. It returns nil if that
// object is not the current version. The object of an upload without an algorithm has the default checksum.
func (op *completeOperation) completedUpload() *core.UploadInfo {
	o, err := op.q.s.fs.Stat(op.q.ctx, op.q.bucket, op.q.key, core.Current)
	if err != nil || o.List != op.id {
		return nil
	}
	u := &core.UploadInfo{Attrs: o.Attrs}
	if len(o.Sums) > 0 && o.Sums[0].Algorithm != defaultSum {
		u.Algorithm, u.Composite = o.Sums[0].Algorithm, o.Sums[0].Composite
	}
	return u
}

// whole reports whether the document has all required elements and a valid number of parts.
func (r *completeRequest) whole() bool {
	for i := range r.Parts {
		if r.Parts[i].Number == nil || r.Parts[i].ETag == nil {
			return false
		}
	}
	return len(r.Parts) > 0 && len(r.Parts) <= maxParts
}

// parseClaims adds the preconditions, parts and checksums of the headers and the document to the request. Preconditions
// are checked before the parts. If the upload was already completed, they are not checked, because they held at that
// time. If-Match fails for any object that was written after the upload began, even with a matching ETag.
func (op *completeOperation) parseClaims() error {
	q, req := op.q, &op.request
	var err error
	if req.If, err = conditions.Precondition(q.r.Header); err != nil {
		return err
	}
	if !op.again {
		switch current, err := matching(q, &req.If); {
		case err != nil:
			return err
		case len(req.If.Match) > 0 && current.Seq > core.Seq(op.id): // both are sequences, so they can be compared
			return errWrittenSince.With("Condition", "If-Match").With("Key", q.key)
		}
	}
	if v := first(q.r.Header, "X-Amz-Mp-Object-Size"); v != "" {
		n, ok := conditions.Digits(v)
		if !ok || n > maxObjectBytes {
			return errInvalidRequest.Say("Value for x-amz-mp-object-size header is invalid.")
		}
		req.Size = n
	}
	if err := op.parseParts(); err != nil {
		return err
	}
	if q.optional&headerEncryption != 0 {
		if _, err := uploadEncryption(q, op.upload); err != nil {
			return err
		}
	}
	return op.parseSums()
}

// parseParts adds the parts in the document, which must be in ascending order, to the request.
func (op *completeOperation) parseParts() error {
	parts := make([]vfs.CompletedPart, len(op.body.Parts))
	for i := range op.body.Parts {
		p := &op.body.Parts[i]
		if n := *p.Number; n < 1 || n > maxParts {
			return apierr.Argument("PartNumber", itoa(int64(n)), "PartNumber must be >= 1 and <= 10000")
		}
		if i > 0 && *p.Number <= *op.body.Parts[i-1].Number {
			return errInvalidPartOrder.With("UploadId", op.q.s.ids.Upload(op.id))
		}
		sums, err := p.claim()
		if err != nil {
			return err
		}
		etag, _ := conditions.NextETag(*p.ETag)
		parts[i] = vfs.CompletedPart{Number: *p.Number, ETag: etag, Sums: sums}
	}
	if op.upload.Composite && parts[len(parts)-1].Number != len(parts) { // as in S3, a composite has the parts 1 to n
		return errInvalidPartOrder.With("UploadId", op.q.s.ids.Upload(op.id))
	}
	op.request.Parts = parts
	return nil
}

// parseSums checks that the checksums of the request have the algorithm and type that the upload was created with, and
// reads the checksum that the request claims for the object.
func (op *completeOperation) parseSums() error {
	h, req, u := op.q.r.Header, &op.request, op.upload
	kind := strings.ToUpper(first(h, "X-Amz-Checksum-Type"))
	switch {
	case kind != "" && kind != typeOf(true) && kind != typeOf(false):
		return errInvalidRequest.Say("Value for x-amz-checksum-type header is invalid.")
	case kind != "" && kind != typeOf(u.Composite):
		return errInvalidRequest.Say("The upload was created using the " + typeOf(u.Composite) + " checksum mode. The complete request must use the same checksum mode.")
	}
	if u.Algorithm != checksum.None {
		if err := checkPartClaims(u, req.Parts); err != nil {
			return err
		}
	}
	composite := kind == typeOf(true) || u.Composite
	alg, value, err := objectClaim(h, composite, len(req.Parts))
	if err != nil || alg == checksum.None {
		return err
	}
	if u.Algorithm != checksum.None && alg != u.Algorithm {
		return sumMismatch(u.Algorithm, alg)
	}
	req.Sums = []core.Checksum{{Algorithm: alg, Composite: composite, Parts: len(req.Parts), Value: value}}
	return nil
}

// checkPartClaims compares the checksum algorithms of the parts with the algorithm of the upload. The parts of a
// composite must have checksums.
func checkPartClaims(u *core.UploadInfo, parts []vfs.CompletedPart) error {
	for i := range parts {
		number, name := itoa(int64(parts[i].Number)), strings.ToLower(u.Algorithm.Name())
		switch sums := parts[i].Sums; {
		case len(sums) == 0 && u.Composite:
			return errInvalidRequest.Say("The upload was created using a " + name + " checksum. The complete request must include the checksum for each part. It was missing for part " + number + " in the request.")
		case len(sums) > 0 && sums[0].Algorithm != u.Algorithm:
			return errBadDigest.Say("The " + strings.ToLower(sums[0].Algorithm.Name()) + " you specified for part " + number + " did not match what we received.")
		}
	}
	return nil
}

// objectClaim reads the checksum that a request claims for a multipart object. A composite checksum may be followed by
// the number of parts.
func objectClaim(h http.Header, composite bool, parts int) (checksum.Algorithm, []byte, error) {
	if !composite {
		return headerSum(h)
	}
	count := ""
	h = h.Clone()
	for _, a := range checksum.All() {
		v, n, counted := strings.Cut(first(h, a.HeaderKey()), "-")
		if _, valid := conditions.Digits(n); counted && !valid {
			return 0, nil, badSumValue(a)
		}
		if counted {
			h[a.HeaderKey()] = append([]string{v}, h[a.HeaderKey()][1:]...)
			count = n
		}
	}
	alg, value, err := headerSum(h)
	if err == nil && count != "" && count != itoa(int64(parts)) {
		err = badObjectSum(alg)
	}
	return alg, value, err
}

// badObjectSum returns the error for a multipart object whose checksum differs from the claimed one.
func badObjectSum(a checksum.Algorithm) error {
	return errBadDigest.Say("The " + strings.ToLower(a.Name()) + " you specified did not match the calculated checksum.")
}

// completedBefore returns the object that resulted from the upload if it is the current version, consists of exactly
// these parts, and has the claimed size and checksum. Otherwise it returns nil.
func (op *completeOperation) completedBefore() *core.ObjectInfo {
	q, req := op.q, &op.request
	o, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	if err != nil || o.List != req.Upload || req.Size >= 0 && req.Size != o.Size {
		return nil
	}
	for i := range req.Sums {
		if claimed := &req.Sums[i]; !slices.ContainsFunc(o.Sums, func(s core.Checksum) bool {
			return s.Algorithm == claimed.Algorithm && bytes.Equal(s.Value, claimed.Value)
		}) {
			return nil
		}
	}
	all := md5.New()
	for i := range req.Parts {
		raw, err := hex.DecodeString(req.Parts[i].ETag)
		if err != nil {
			return nil
		}
		_, _ = all.Write(raw) // a hash never fails
	}
	if hex.EncodeToString(all.Sum(nil))+"-"+itoa(int64(len(req.Parts))) != o.ETag {
		return nil
	}
	return o
}

// locationOf returns the URL of the object.
func locationOf(r *http.Request) string {
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	b := append([]byte(scheme), r.Host...)
	return string(xmldoc.AppendURL(b, r.URL.Path))
}

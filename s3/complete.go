package s3

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"net/http"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
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

// claim returns the checksum that the part is said to have; nil: none. There may be one.
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
		return nil, errInvalidArgument.say("Invalid Base64 or multiple checksums present in request").
			with("ArgumentName", "Checksum").with("ArgumentValue", texts)
	}
	return out, nil
}

func (q *request) completeUpload() error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	req, err := q.parseComplete(id)
	if err != nil {
		return err
	}
	o, err := q.s.fs.CompleteUpload(q.ctx, *req)
	if core.Is(err, core.NoSuchUpload) {
		// A client that did not see the answer asks again: it gets the answer that it missed.
		if o = q.completedBefore(req); o != nil {
			err = nil
		}
	}
	if err != nil {
		return completeError(req, err)
	}
	q.setNewVersion(o.Version())
	if v := attr(o.Attrs, storeAttr); v != "" {
		q.set(storeAttr, v)
	}
	q.setExpiration(o)
	x := q.s.document()
	defer q.s.release(x)
	x.begin("CompleteMultipartUploadResult")
	x.text("Location", q.locationOf())
	x.text("Bucket", q.bucket.Name)
	x.text("Key", q.key)
	x.etag(o.ETag)
	x.sums(o.Sums, true)
	x.close("CompleteMultipartUploadResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

// completeError says what is wrong with a Complete as S3 does.
func completeError(req *vfs.CompleteRequest, err error) error {
	var part *vfs.PartError
	var size *vfs.SizeError
	var small *vfs.SmallPartError
	switch {
	case errors.As(err, &small):
		return errEntityTooSmall.because(err).with("ProposedSize", itoa(small.Size)).with("MinSizeAllowed", itoa(vfs.MinPartSize)).
			with("PartNumber", itoa(int64(small.Number))).with("ETag", small.ETag)
	case errors.As(err, &part):
		return errInvalidPart.because(err).with("UploadId", uploadIDString(req.Upload)).
			with("PartNumber", itoa(int64(part.Number))).with("ETag", part.ETag)
	case errors.As(err, &size):
		return errInvalidRequest.say("The provided 'x-amz-mp-object-size' header value " + itoa(size.Claimed) + " does not match what was computed: " + itoa(size.Actual))
	case core.Is(err, core.BadDigest) && len(req.Sums) > 0:
		return badObjectSum(req.Sums[0].Algorithm)
	case core.Is(err, core.InvalidArgument):
		return errInvalidRequest.say("The object is not what the request claims.").because(err)
	}
	return err
}

// parseComplete reads what the object is to be made of, and what is claimed of it. That the document is none is said first, then that there is
// no such upload, then all else; one that was completed before is done with by the caller.
func (q *request) parseComplete(id core.UploadID) (*vfs.CompleteRequest, error) {
	doc, err := q.readPlainBody()
	if err != nil {
		return nil, err
	}
	if len(doc) == 0 {
		return nil, errInvalidRequest.say("You must specify at least one part")
	}
	var body completeRequest
	if err := parseXML(doc, &body); err != nil {
		return nil, err
	}
	if !body.whole() {
		return nil, errMalformedXML
	}
	u, missing := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
	if missing != nil && !core.Is(missing, core.NoSuchUpload) {
		return nil, missing
	}
	req := &vfs.CompleteRequest{Bucket: q.bucket, Key: q.key, Upload: id, Size: -1}
	if err := q.fillComplete(req, &body, u); err != nil {
		if missing != nil {
			err = missing
		}
		return nil, err
	}
	return req, nil
}

// whole says whether nothing is missing that has to be there.
func (r *completeRequest) whole() bool {
	for i := range r.Parts {
		if r.Parts[i].Number == nil || r.Parts[i].ETag == nil {
			return false
		}
	}
	return len(r.Parts) > 0 && len(r.Parts) <= maxParts
}

// fillComplete adds what the headers and the document say to a request to complete u; that is nil where the upload was completed before, as it
// seems. Conditions come before the parts; an object that was written since the upload began is not the one that If-Match was asked about, whatever its
// content.
func (q *request) fillComplete(req *vfs.CompleteRequest, body *completeRequest, u *core.UploadInfo) error {
	var err error
	if req.If, err = writeCondition(q.r.Header); err != nil {
		return err
	}
	if u != nil {
		switch current, err := q.demanded(&req.If); {
		case err != nil:
			return err
		case len(req.If.Match) > 0 && current.Seq > core.Seq(u.ID): // both come of the one order of changes
			return errWrittenSince.with("Condition", "If-Match").with("Key", q.key)
		}
	}
	if v := first(q.r.Header, "X-Amz-Mp-Object-Size"); v != "" {
		n, ok := parseDigits(v)
		if !ok || n > maxObjectBytes {
			return errInvalidRequest.say("Value for x-amz-mp-object-size header is invalid.")
		}
		req.Size = n
	}
	req.Parts = make([]vfs.CompletedPart, len(body.Parts))
	for i := range body.Parts {
		p := &body.Parts[i]
		if n := *p.Number; n < 1 || n > maxParts {
			return argument("PartNumber", itoa(int64(n)), "PartNumber must be >= 1 and <= 10000")
		}
		if i > 0 && *p.Number <= *body.Parts[i-1].Number {
			return errInvalidPartOrder.with("UploadId", uploadIDString(req.Upload))
		}
		sums, err := p.claim()
		if err != nil {
			return err
		}
		etag, _ := nextETag(*p.ETag)
		req.Parts[i] = vfs.CompletedPart{Number: *p.Number, ETag: etag, Sums: sums}
	}
	if u != nil && u.Composite && req.Parts[len(req.Parts)-1].Number != len(req.Parts) {
		return errInvalidPartOrder.with("UploadId", uploadIDString(req.Upload)) // with a checksum of each part S3 wants 1, 2, 3 and so on
	}
	if u != nil && q.encryptionSent {
		if err := q.uploadEncryption(u); err != nil {
			return err
		}
	}
	return q.holdSums(req, u)
}

// holdSums holds the checksums of the request against what the upload was begun with, and reads the one that the object is said to
// have.
func (q *request) holdSums(req *vfs.CompleteRequest, u *core.UploadInfo) error {
	begun := u != nil
	if !begun {
		u = &core.UploadInfo{}
	}
	kind := strings.ToUpper(first(q.r.Header, "X-Amz-Checksum-Type"))
	switch {
	case kind != "" && kind != typeOf(true) && kind != typeOf(false):
		return errInvalidRequest.say("Value for x-amz-checksum-type header is invalid.")
	case begun && kind != "" && kind != typeOf(u.Composite):
		return errInvalidRequest.say("The upload was created using the " + typeOf(u.Composite) + " checksum mode. The complete request must use the same checksum mode.")
	}
	if u.Algorithm != checksum.None {
		if err := holdPartClaims(u, req.Parts); err != nil {
			return err
		}
	}
	composite := kind == typeOf(true) || u.Composite
	alg, value, err := objectClaim(q.r.Header, composite, len(req.Parts))
	if err != nil || alg == checksum.None {
		return err
	}
	if u.Algorithm != checksum.None && alg != u.Algorithm {
		return sumMismatch(u.Algorithm, alg)
	}
	req.Sums = []core.Checksum{{Algorithm: alg, Composite: composite, Parts: len(req.Parts), Value: value}}
	return nil
}

// holdPartClaims holds the checksums of the parts against the algorithm of their upload. Those of a composite must be there.
func holdPartClaims(u *core.UploadInfo, parts []vfs.CompletedPart) error {
	for i := range parts {
		number, name := itoa(int64(parts[i].Number)), strings.ToLower(u.Algorithm.Name())
		switch sums := parts[i].Sums; {
		case len(sums) == 0 && u.Composite:
			return errInvalidRequest.say("The upload was created using a " + name + " checksum. The complete request must include the checksum for each part. It was missing for part " + number + " in the request.")
		case len(sums) > 0 && sums[0].Algorithm != u.Algorithm:
			return errBadDigest.say("The " + strings.ToLower(sums[0].Algorithm.Name()) + " you specified for part " + number + " did not match what we received.")
		}
	}
	return nil
}

// objectClaim reads the checksum that a multipart object is said to have. A composite comes with its number of parts or without.
func objectClaim(h http.Header, composite bool, parts int) (checksum.Algorithm, []byte, error) {
	if !composite {
		return headerSum(h)
	}
	count := ""
	h = h.Clone()
	for _, a := range checksum.All() {
		v, n, counted := strings.Cut(first(h, a.HeaderKey()), "-")
		if _, valid := parseDigits(n); counted && !valid {
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

// badObjectSum says that a multipart object has another checksum than was claimed.
func badObjectSum(a checksum.Algorithm) error {
	return errBadDigest.say("The " + strings.ToLower(a.Name()) + " you specified did not match the calculated checksum.")
}

// completedBefore returns the object that the upload became, where it is the current version and made of just these parts.
func (q *request) completedBefore(req *vfs.CompleteRequest) *core.ObjectInfo {
	o, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	if err != nil || o.List != req.Upload {
		return nil
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
func (q *request) locationOf() string {
	scheme := "http://"
	if q.r.TLS != nil {
		scheme = "https://"
	}
	b := append([]byte(scheme), q.r.Host...)
	return string(appendURL(b, q.r.URL.Path))
}

// readPlainBody reads a document whose x-amz-checksum-* headers speak of something else.
func (q *request) readPlainBody() ([]byte, error) {
	body, err := q.open()
	if err != nil {
		return nil, err
	}
	if body.DecodedLength() > maxXMLBytes {
		return nil, errMessageTooLong
	}
	in, err := parseMD5(q.r.Header)
	if err != nil {
		return nil, err
	}
	doc, err := readAll(body, maxXMLBytes)
	if err != nil {
		return nil, err
	}
	return doc, in.verify(func(a checksum.Algorithm) []byte { return checksum.Sum(a, doc) }, body)
}

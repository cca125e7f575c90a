package s3

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/vfs"
)

// Limits of multipart uploads.
const (
	maxParts       = 10_000
	maxObjectBytes = maxParts * maxPutBytes // 48.8 TiB
)

// uploadIDString returns an upload's id as clients see it.
func uploadIDString(id core.UploadID) string { return core.Version(id).String() }

// parseUploadID is the inverse of uploadIDString; nonsense is errNoSuchUpload.
func parseUploadID(s string) (core.UploadID, error) {
	v, err := core.ParseVersion(s)
	if err != nil || v == core.Current || v == core.Null {
		return 0, errNoSuchUpload.with("UploadId", s)
	}
	return core.UploadID(v), nil
}

func (q *request) uploadID() (core.UploadID, error) { return parseUploadID(q.query.value("uploadId")) }

// partNumber returns the number of the part that is to be written.
func (q *request) partNumber() (int, error) {
	v := q.query.value("partNumber")
	n, ok := parseDigits(v)
	if !ok || n < 1 || n > maxParts {
		return 0, errInvalidArgument.say("Part number must be an integer between 1 and 10000, inclusive").
			with("ArgumentName", "partNumber").with("ArgumentValue", v)
	}
	return int(n), nil
}

func (q *request) createUpload() error {
	attrs, err := objectAttrs(q.r.Header)
	if err != nil {
		return err
	}
	alg, composite, err := uploadSum(q.r.Header)
	if err != nil {
		return err
	}
	u, err := q.s.fs.CreateUpload(q.ctx, core.UploadInfo{
		Bucket: q.bucket.ID, Key: q.key, Owner: q.caller.account, Algorithm: alg, Composite: composite, Attrs: attrs,
	})
	if err != nil {
		return err
	}
	if alg != checksum.None {
		q.set("X-Amz-Checksum-Algorithm", alg.Name())
		q.set("X-Amz-Checksum-Type", typeOf(composite))
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("InitiateMultipartUploadResult")
	x.text("Bucket", q.bucket.Name)
	x.text("Key", q.key)
	x.text("UploadId", uploadIDString(u.ID))
	x.close("InitiateMultipartUploadResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

// uploadSum reads which checksum the object of an upload will have. CRCs can be combined, other checksums only be composed.
func uploadSum(h http.Header) (alg checksum.Algorithm, composite bool, err error) {
	if alg, err = namedAlgorithm(h); err != nil {
		return alg, false, err
	}
	kind := first(h, "X-Amz-Checksum-Type")
	if alg == checksum.None {
		if kind != "" {
			return alg, false, errInvalidRequest.say("The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
		}
		return alg, false, nil
	}
	full := alg == checksum.CRC32 || alg == checksum.CRC32C || alg == checksum.CRC64NVME
	switch kind {
	case "":
		return alg, alg != checksum.CRC64NVME, nil
	case "FULL_OBJECT":
		if full {
			return alg, false, nil
		}
	case "COMPOSITE":
		if alg != checksum.CRC64NVME {
			return alg, true, nil
		}
	default:
		return alg, false, errInvalidRequest.say("Value for x-amz-checksum-type header is invalid.")
	}
	return alg, false, errInvalidRequest.say("The " + kind + " checksum type cannot be used with the " + strings.ToLower(alg.Name()) + " checksum algorithm.")
}

// partSum returns the checksum that every part of an upload must have.
func partSum(u *core.UploadInfo) checksum.Algorithm {
	if u.Algorithm != checksum.None {
		return u.Algorithm
	}
	return defaultSum
}

func (q *request) uploadPart() error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	number, err := q.partNumber()
	if err != nil {
		return err
	}
	up, err := q.announced()
	if err != nil {
		return err
	}
	u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
	if err != nil {
		return err
	}
	if u.Algorithm != checksum.None && up.in.alg != checksum.None && up.in.alg != u.Algorithm {
		return errInvalidRequest.say("Checksum Type mismatch occurred, expected checksum Type: " + strings.ToLower(u.Algorithm.Name()) +
			", actual checksum Type: " + strings.ToLower(up.in.alg.Name()))
	}
	content, sums, err := q.receive(&up, partSum(u))
	if err != nil {
		return err
	}
	defer content.Discard()
	part, err := q.s.fs.PutPart(q.ctx, vfs.PartRequest{
		Bucket: q.bucket, Key: q.key, Upload: id, Number: number, Content: content, Sums: sums,
	})
	if err != nil {
		return err
	}
	q.set("ETag", quote(part.ETag))
	for i := range sums {
		q.set(sums[i].Algorithm.HeaderKey(), encodeSum(&sums[i]))
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) uploadPartCopy() error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	number, err := q.partNumber()
	if err != nil {
		return err
	}
	u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
	if err != nil {
		return err
	}
	var part *core.PartInfo
	for try := 1; ; try++ {
		b, from, _, err := q.copySource()
		if err != nil {
			return err
		}
		s, err := copyRange(first(q.r.Header, "X-Amz-Copy-Source-Range"), from.Size)
		if err != nil {
			return err
		}
		part, err = q.s.fs.CopyPart(q.ctx, vfs.CopyPartRequest{
			Source: from, From: s.offset, Length: s.length, Bucket: q.bucket, Key: q.key, Upload: id, Number: number,
			Algorithms: []checksum.Algorithm{partSum(u)},
		})
		if err == nil {
			q.setSourceVersion(b, from)
			break
		}
		if !core.Is(err, core.Conflict) || try == maxCopyTries {
			return err
		}
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("CopyPartResult")
	x.time("LastModified", part.Modified)
	x.etag(part.ETag)
	x.sums(part.Sums, false)
	x.close("CopyPartResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

// copyRange reads x-amz-copy-source-range, which must have both ends and lie within the source.
func copyRange(header string, size int64) (span, error) {
	if header == "" {
		if size > maxPutBytes {
			return span{}, errInvalidRequest.say("The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
		}
		return span{0, size}, nil
	}
	bad := errInvalidArgument.with("ArgumentName", "x-amz-copy-source-range").with("ArgumentValue", header)
	spec, found := strings.CutPrefix(header, "bytes=")
	from, to, both := strings.Cut(spec, "-")
	first, valid := parseDigits(from)
	last, valid2 := parseDigits(to)
	if !found || !both || !valid || !valid2 || last < first {
		return span{}, bad.say("The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
	}
	if last >= size {
		return span{}, bad.say("Range specified is not valid for source object of size: " + itoa(size))
	}
	if last-first+1 > maxPutBytes {
		return span{}, errEntityTooLarge
	}
	return span{first, last - first + 1}, nil
}

// completeRequest is the body of CompleteMultipartUpload.
type completeRequest struct {
	XMLName xml.Name        `xml:"CompleteMultipartUpload"`
	Parts   []completedPart `xml:"Part"`
}

type completedPart struct {
	Number    int    `xml:"PartNumber"`
	ETag      string `xml:"ETag"`
	CRC32     string `xml:"ChecksumCRC32"`
	CRC32C    string `xml:"ChecksumCRC32C"`
	CRC64NVME string `xml:"ChecksumCRC64NVME"`
	SHA1      string `xml:"ChecksumSHA1"`
	SHA256    string `xml:"ChecksumSHA256"`
	SHA512    string `xml:"ChecksumSHA512"`
	MD5       string `xml:"ChecksumMD5"`
	XXHASH64  string `xml:"ChecksumXXHASH64"`
	XXHASH3   string `xml:"ChecksumXXHASH3"`
	XXHASH128 string `xml:"ChecksumXXHASH128"`
}

// claims returns the checksums that the part is said to have.
func (p *completedPart) claims() ([]core.Checksum, error) {
	var out []core.Checksum
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
		value, err := checksum.Decode(c.alg, c.text)
		if err != nil {
			return nil, errInvalidPart.because(err)
		}
		out = append(out, core.Checksum{Algorithm: c.alg, Value: value})
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
	switch {
	case core.Is(err, core.NoSuchUpload):
		// A client that did not see the answer asks again: it gets the answer that it missed.
		if o = q.completedBefore(req); o == nil {
			return err
		}
	case core.Is(err, core.InvalidArgument):
		return errInvalidRequest.say("The object is not what the request claims.").because(err)
	case err != nil:
		return err
	}
	q.setVersion(o.Version())
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

// parseComplete reads what the object is to be made of, and what is claimed of it.
func (q *request) parseComplete(id core.UploadID) (*vfs.CompleteRequest, error) {
	req := &vfs.CompleteRequest{Bucket: q.bucket, Key: q.key, Upload: id, Size: -1}
	var err error
	if req.If, err = writeCondition(q.r.Header); err != nil {
		return nil, err
	}
	if v := first(q.r.Header, "X-Amz-Mp-Object-Size"); v != "" {
		n, ok := parseDigits(v)
		if !ok || n > maxObjectBytes {
			return nil, errInvalidRequest.say("Value for x-amz-mp-object-size header is invalid.")
		}
		req.Size = n
	}
	doc, err := q.readPlainBody()
	if err != nil {
		return nil, err
	}
	var body completeRequest
	if err := parseXML(doc, &body); err != nil {
		return nil, err
	}
	if n := len(body.Parts); n == 0 || n > maxParts {
		return nil, errMalformedXML
	}
	req.Parts = make([]vfs.CompletedPart, len(body.Parts))
	for i := range body.Parts {
		p := &body.Parts[i]
		if p.Number < 1 || p.Number > maxParts {
			return nil, errInvalidArgument.say("PartNumber must be >= 1 and <= 10000").with("ArgumentName", "PartNumber").
				with("ArgumentValue", itoa(int64(p.Number)))
		}
		if i > 0 && p.Number <= body.Parts[i-1].Number {
			return nil, errInvalidPartOrder.with("UploadId", uploadIDString(id))
		}
		sums, err := p.claims()
		if err != nil {
			return nil, err
		}
		etag, _ := nextETag(p.ETag)
		req.Parts[i] = vfs.CompletedPart{Number: p.Number, ETag: etag, Sums: sums}
	}
	return req, q.claimSums(req)
}

// claimSums reads the checksum that the object is said to have, and the type of checksum that the client believes in.
func (q *request) claimSums(req *vfs.CompleteRequest) error {
	kind := first(q.r.Header, "X-Amz-Checksum-Type")
	u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, req.Upload)
	if err != nil && !core.Is(err, core.NoSuchUpload) {
		return err
	}
	if err == nil && kind != "" && kind != typeOf(u.Composite) {
		return errInvalidRequest.say("The upload was created using the " + typeOf(u.Composite) + " checksum mode. The complete request must use the same checksum mode.")
	}
	composite := kind == "COMPOSITE" || kind == "" && err == nil && u.Composite
	h := q.r.Header
	if composite {
		// Some clients send the composite value with its number of parts, some without.
		h = h.Clone()
		for _, a := range checksum.All() {
			if v := first(h, a.HeaderKey()); v != "" {
				v, _, _ = strings.Cut(v, "-")
				h[a.HeaderKey()] = []string{v}
			}
		}
	}
	alg, value, sumErr := headerSum(h)
	if sumErr != nil || alg == checksum.None {
		return sumErr
	}
	req.Sums = []core.Checksum{{Algorithm: alg, Composite: composite, Parts: len(req.Parts), Value: value}}
	return nil
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

func (q *request) abortUpload() error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	if err := q.s.fs.AbortUpload(q.ctx, q.bucket, q.key, id); err != nil {
		return err
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

func (q *request) listParts() error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	limit, err := q.query.int("max-parts", maxPage)
	if err != nil {
		return err
	}
	limit = min(limit, maxPage)
	after, err := q.query.int("part-number-marker", 0)
	if err != nil {
		return err
	}
	u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
	if err != nil {
		return err
	}
	var parts []core.PartInfo
	more := false
	if limit > 0 {
		if parts, more, err = q.s.fs.Parts(q.ctx, q.bucket, q.key, id, after, limit); err != nil {
			return err
		}
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ListPartsResult")
	x.text("Bucket", q.bucket.Name)
	x.text("Key", q.key)
	x.text("UploadId", uploadIDString(id))
	x.owner("Initiator", u.Owner)
	x.owner("Owner", q.bucket.Owner)
	x.text("StorageClass", classOf(u.Attrs))
	x.int("PartNumberMarker", int64(after))
	if more {
		x.int("NextPartNumberMarker", int64(parts[len(parts)-1].Number))
	}
	x.int("MaxParts", int64(limit))
	x.bool("IsTruncated", more)
	if u.Algorithm != checksum.None {
		x.text("ChecksumAlgorithm", u.Algorithm.Name())
		x.text("ChecksumType", typeOf(u.Composite))
	}
	for i := range parts {
		p := &parts[i]
		x.open("Part")
		x.int("PartNumber", int64(p.Number))
		x.time("LastModified", p.Modified)
		x.etag(p.ETag)
		x.int("Size", p.Size)
		x.sums(p.Sums, false)
		x.close("Part")
	}
	x.close("ListPartsResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

package s3

import (
	"net/http"
	"strings"
	"time"

	"orcas/auth"
	"orcas/content"
	"orcas/core"
	"orcas/internal/checksum"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
	"orcas/vfs"
)

// Limits of multipart uploads.
const (
	maxParts       = 10_000
	maxObjectBytes = maxParts * maxPutBytes // 48.8 TiB
)

// uploadID returns the upload that the query refers to.
func (q *request) uploadID() (core.UploadID, error) {
	return q.s.ids.parseUpload(q.query.value("uploadId"))
}

// parsePartNumber parses a part number.
func parsePartNumber(v string) (int, error) {
	n, ok := conditions.Digits(v)
	if !ok || n < 1 || n > maxParts {
		return 0, errInvalidArgument.Say("Part number must be an integer between 1 and 10000, inclusive").
			With("ArgumentName", "partNumber").With("ArgumentValue", v)
	}
	return int(n), nil
}

// initiator returns the name by which an upload knows the principal that began it: the account of a root, otherwise the
// ARN and the ID, because another principal may have the same ARN later. Uploads that are older than users have the
// account.
func initiator(p *auth.Principal) string {
	if p.ARN == auth.RootARN(p.Account) {
		return p.Account
	}
	return p.ARN + " " + p.ID
}

// isInitiator reports whether a principal is the initiator of an upload. It may have another name than at that time.
func isInitiator(p *auth.Principal, owner string) bool {
	_, id, _ := strings.Cut(owner, " ")
	return owner == initiator(p) || id != "" && id == p.ID
}

// initiatorName returns what documents show of an initiator: the account or the ARN.
func initiatorName(initiator string) string {
	name, _, _ := strings.Cut(initiator, " ")
	return name
}

func createUpload(q *request, x *xmldoc.Writer) error {
	if q.caller.IsAnonymous() { // the upload would belong to nobody
		return errAccessDenied.Say("Anonymous users cannot initiate multipart uploads.  Please authenticate.")
	}
	var v newVersion
	if err := v.parse(q, versionAttrs, versionTags, versionLock); err != nil {
		return err
	}
	alg, composite, err := uploadSum(q.r.Header)
	if err != nil {
		return err
	}
	if err := v.parse(q, versionEncryption); err != nil {
		return err
	}
	u, err := q.s.fs.CreateUpload(q.ctx, q.bucket, core.UploadInfo{
		Bucket: q.bucket.ID, Key: q.key, Owner: initiator(q.caller), Algorithm: alg, Composite: composite,
		Attrs: v.attrs, Tags: v.tags, Lock: v.lock,
	})
	if err != nil {
		return err
	}
	if alg != checksum.None {
		q.set("X-Amz-Checksum-Algorithm", alg.Name())
		q.set("X-Amz-Checksum-Type", typeOf(composite))
	}
	v.encryption.setHeaders(q)
	setAbort(q, u.Initiated)
	x.Begin("InitiateMultipartUploadResult")
	x.Text("Bucket", q.bucket.Name)
	x.Text("Key", q.key)
	x.Text("UploadId", q.s.ids.Upload(u.ID))
	x.Close("InitiateMultipartUploadResult")
	return nil
}

// uploadSum reads the algorithm and type of the checksum that the object of an upload will have. CRCs of parts can be
// combined into the CRC of the whole object; other checksums can only form a composite.
func uploadSum(h http.Header) (alg checksum.Algorithm, composite bool, err error) {
	if alg, err = namedAlgorithm(h); err != nil {
		return alg, false, err
	}
	kind := strings.ToUpper(first(h, "X-Amz-Checksum-Type"))
	if alg == checksum.None {
		if kind != "" {
			return alg, false, errInvalidRequest.Say("The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.")
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
		return alg, false, errInvalidRequest.Say("Value for x-amz-checksum-type header is invalid.")
	}
	return alg, false, errInvalidRequest.Say("The " + kind + " checksum type cannot be used with the " + strings.ToLower(alg.Name()) + " checksum algorithm.")
}

// partSum returns the algorithm of the checksum that is stored for every part of an upload.
func partSum(u *core.UploadInfo) checksum.Algorithm {
	if u.Algorithm != checksum.None {
		return u.Algorithm
	}
	return defaultSum
}

// partOperation is UploadPart.
type partOperation struct {
	q       *request
	target  partTarget
	content upload
}

func uploadPart(q *request) error {
	op := partOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	part, sums, err := op.run()
	if err != nil {
		return err
	}
	q.set("ETag", quote(part.ETag))
	op.content.encryption.setHeaders(q)
	sent := op.content.in.alg
	for i := range sums {
		// If the upload has no algorithm, the default checksum is sent only if the client sent none.
		if a := sums[i].Algorithm; a == op.target.upload.Algorithm || a == sent || sent == checksum.None {
			q.set(a.HeaderKey(), encodeSum(&sums[i]))
		}
	}
	op.content.sendStored(q)
	return nil
}

// parse reads the request, and performs all checks that are possible before the content is read.
func (op *partOperation) parse() (err error) {
	q, t, u := op.q, &op.target, &op.content
	if err := t.parse(q); err != nil {
		return err
	}
	if *u, err = announced(q); err != nil {
		return err
	}
	if err := t.find(q); err != nil {
		return err
	}
	if err := checkPartSum(t.upload, u.in.alg); err != nil {
		return err
	}
	if u.in.none() && !t.upload.Lock.IsZero() {
		return errLockWithoutSum
	}
	u.attrs = t.upload.Attrs
	if u.encryption, err = uploadEncryption(q, t.upload); err != nil {
		return err
	}
	return q.s.fs.RoomForPart(q.ctx, q.bucket, t.id, t.number, u.length)
}

// run stores the content and writes the part. It returns the part and all of its checksums.
func (op *partOperation) run() (part *core.PartInfo, sums []core.Checksum, err error) {
	q, t := op.q, &op.target
	err = op.content.store(q, partSum(t.upload), func(c *content.Content, all []core.Checksum) error {
		sums = all
		part, err = q.s.fs.PutPart(q.ctx, vfs.PartRequest{
			Bucket: q.bucket, Key: q.key, Upload: t.id, Number: t.number, Content: c, Sums: sums,
		})
		return err
	})
	return part, sums, err
}

// partTarget is the part of an upload that a request writes.
type partTarget struct {
	number int
	id     core.UploadID
	upload *core.UploadInfo
}

// parse reads the part number and the upload ID.
func (t *partTarget) parse(q *request) (err error) {
	number, present := q.query.get("partNumber")
	if !present {
		return errMethodNotAllowed.With("Method", q.r.Method).With("ResourceType", "UPLOAD")
	}
	if t.number, err = parsePartNumber(number); err != nil {
		return err
	}
	t.id, err = q.uploadID()
	return err
}

// find looks up the upload.
func (t *partTarget) find(q *request) (err error) {
	t.upload, err = q.s.fs.Upload(q.ctx, q.bucket, q.key, t.id)
	return err
}

// checkPartSum compares the algorithm of a part's checksum with the algorithm of its upload. If the upload's checksum
// is a composite, the part must have a checksum. A CRC that will be combined may be computed by the server.
func checkPartSum(u *core.UploadInfo, sent checksum.Algorithm) error {
	if u.Algorithm == checksum.None || sent == u.Algorithm || sent == checksum.None && !u.Composite {
		return nil
	}
	return sumMismatch(u.Algorithm, sent)
}

// sumMismatch returns the error for a checksum with an unexpected algorithm.
func sumMismatch(expected, actual checksum.Algorithm) error {
	name := "null"
	if actual != checksum.None {
		name = strings.ToLower(actual.Name())
	}
	return errInvalidRequest.Say("Checksum Type mismatch occurred, expected checksum Type: " + strings.ToLower(expected.Name()) +
		", actual checksum Type: " + name)
}

// partCopyOperation is UploadPartCopy.
type partCopyOperation struct {
	q          *request
	target     partTarget
	encryption encryption
}

func uploadPartCopy(q *request, x *xmldoc.Writer) error {
	op := partCopyOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	part, err := retryConflicts(op.try)
	if err != nil {
		return err
	}
	x.Begin("CopyPartResult")
	x.Time("LastModified", part.Modified)
	x.ETag(part.ETag)
	if op.target.upload.Algorithm != checksum.None { // S3 does not send the default here
		writeSums(x, part.Sums, false)
	}
	x.Close("CopyPartResult")
	return nil
}

func (op *partCopyOperation) parse() (err error) {
	if err := op.target.parse(op.q); err != nil {
		return err
	}
	if err := op.target.find(op.q); err != nil {
		return err
	}
	op.encryption, err = uploadEncryption(op.q, op.target.upload)
	return err
}

// try copies a range of the source in its current state. It returns Conflict if the source changes during the copy.
func (op *partCopyOperation) try() (*core.PartInfo, error) {
	q, t := op.q, &op.target
	from, err := findCopySource(q)
	if err != nil {
		return nil, err
	}
	s, err := copyRange(first(q.r.Header, "X-Amz-Copy-Source-Range"), from.info.Size)
	if err != nil {
		return nil, err
	}
	old, err := sourceEncryption(q, from.info)
	if err != nil {
		return nil, err
	}
	to := op.encryption
	q.renew()
	setSourceVersion(q, from.bucket, from.info)
	op.encryption.setHeaders(q)
	defer q.keepAlive()()
	return q.s.fs.CopyPart(q.ctx, vfs.CopyPartRequest{
		Source: from.info, From: s.Offset, Length: s.Length, Bucket: q.bucket, Key: q.key, Upload: t.id, Number: t.number,
		Algorithms: []checksum.Algorithm{partSum(t.upload)}, Customer: old.Customer, Recode: recoding(from.info, old, &to),
	})
}

// copyRange reads x-amz-copy-source-range, which must have both ends and lie within the source.
func copyRange(header string, size int64) (conditions.Span, error) {
	if header == "" {
		if size > maxPutBytes {
			return conditions.Span{}, errLargeSource
		}
		return conditions.Span{Offset: 0, Length: size}, nil
	}
	bad := errInvalidArgument.With("ArgumentName", "x-amz-copy-source-range").With("ArgumentValue", header)
	spec, found := strings.CutPrefix(header, "bytes=")
	from, to, both := strings.Cut(spec, "-")
	first, valid := conditions.Digits(from)
	last, valid2 := conditions.Digits(to)
	if !found || !both || !valid || !valid2 || last < first {
		return conditions.Span{}, bad.Say("The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy")
	}
	if first >= size {
		return conditions.Span{}, errInvalidRequest.Say("The specified copy range is invalid for the source object size")
	}
	if last >= size {
		return conditions.Span{}, bad.Say("Range specified is not valid for source object of size: " + itoa(size))
	}
	if last-first+1 > maxPutBytes {
		return conditions.Span{}, tooLarge(last - first + 1)
	}
	return conditions.Span{Offset: first, Length: last - first + 1}, nil
}

func abortUpload(q *request) error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	conditional := q.optional&headerInitiated != 0
	if conditional {
		if err := checkInitiated(q, id); err != nil {
			return err
		}
	}
	err = q.s.fs.AbortUpload(q.ctx, q.bucket, q.key, id)
	if conditional && core.Is(err, core.NoSuchUpload) {
		return nil
	}
	return err
}

const initiatedName = "X-Amz-If-Match-Initiated-Time"

// checkInitiated checks that the upload, if it exists, began at the time that the client expects.
func checkInitiated(q *request, id core.UploadID) error {
	var p core.Precondition
	if err := sameAs(&p, first(q.r.Header, initiatedName), ""); err != nil {
		return err
	}
	u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
	switch {
	case core.Is(err, core.NoSuchUpload):
		return nil
	case err == nil && !u.Initiated.Truncate(time.Second).Equal(p.Modified):
		return errPrecondition
	}
	return err
}

// partList is one page of the parts of an upload.
type partList struct {
	id           core.UploadID
	upload       *core.UploadInfo
	after, limit int
	parts        []core.PartInfo
	more         bool
}

func listParts(q *request, x *xmldoc.Writer) error {
	l, err := readParts(q)
	if err != nil {
		return err
	}
	u := l.upload
	setAbort(q, u.Initiated)
	x.Begin("ListPartsResult")
	x.Text("Bucket", q.bucket.Name)
	x.Text("Key", q.key)
	x.Text("UploadId", q.s.ids.Upload(l.id))
	x.Owner("Initiator", initiatorName(u.Owner))
	x.Owner("Owner", q.bucket.Owner)
	x.Text("StorageClass", classOf(u.Attrs))
	x.Int("PartNumberMarker", int64(l.after))
	next := 0 // also sent if the page is empty, as in S3
	if len(l.parts) > 0 {
		next = l.parts[len(l.parts)-1].Number
	}
	x.Int("NextPartNumberMarker", int64(next))
	x.Int("MaxParts", int64(l.limit))
	x.Bool("IsTruncated", l.more)
	writeSumKind(x, u.Algorithm, u.Composite)
	for i := range l.parts {
		p := &l.parts[i]
		x.Open("Part")
		x.Int("PartNumber", int64(p.Number))
		x.Time("LastModified", p.Modified)
		x.ETag(p.ETag)
		x.Int("Size", p.Size)
		writeSums(x, p.Sums, false)
		x.Close("Part")
	}
	x.Close("ListPartsResult")
	return nil
}

// readParts reads the page that the query asks for.
func readParts(q *request) (l partList, err error) {
	if l.id, err = q.uploadID(); err != nil {
		return l, err
	}
	if l.limit, err = q.query.int("max-parts", maxPage); err != nil {
		return l, err
	}
	l.limit = min(l.limit, maxPage)
	if l.after, err = q.query.int("part-number-marker", 0); err != nil {
		return l, err
	}
	if l.upload, err = q.s.fs.Upload(q.ctx, q.bucket, q.key, l.id); err != nil {
		return l, err
	}
	if q.optional&headerEncryption != 0 {
		if _, err := uploadEncryption(q, l.upload); err != nil {
			return l, err
		}
	}
	if l.limit > 0 {
		l.parts, l.more, err = q.s.fs.Parts(q.ctx, q.bucket, q.key, l.id, l.after, l.limit)
	}
	return l, err
}

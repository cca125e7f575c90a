package s3

import (
	"net/http"
	"strings"
	"time"

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
		return 0, errNoSuchUpload
	}
	return core.UploadID(v), nil
}

func (q *request) uploadID() (core.UploadID, error) { return parseUploadID(q.query.value("uploadId")) }

// partNumber returns the number of the part that is to be written.
func (q *request) partNumber() (int, error) {
	v, there := q.query.get("partNumber")
	if !there {
		return 0, errMethodNotAllowed.with("Method", q.r.Method).with("ResourceType", "UPLOAD")
	}
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
	tags, err := q.headerTags()
	if err != nil {
		return err
	}
	lock, err := q.headerLock()
	if err != nil {
		return err
	}
	alg, composite, err := uploadSum(q.r.Header)
	if err != nil {
		return err
	}
	if q.encryption, err = q.askedEncryption(); err != nil {
		return err
	}
	attrs = q.encryption.attrs(attrs)
	u, err := q.s.fs.CreateUpload(q.ctx, q.bucket, core.UploadInfo{
		Bucket: q.bucket.ID, Key: q.key, Owner: q.caller.account, Algorithm: alg, Composite: composite, Attrs: attrs, Tags: tags, Lock: lock,
	})
	if err != nil {
		return err
	}
	if alg != checksum.None {
		q.set("X-Amz-Checksum-Algorithm", alg.Name())
		q.set("X-Amz-Checksum-Type", typeOf(composite))
	}
	q.setEncryption(&q.encryption)
	q.setAbort(u.Initiated)
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
	kind := strings.ToUpper(first(h, "X-Amz-Checksum-Type"))
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
	number, err := q.partNumber()
	if err != nil {
		return err
	}
	id, err := q.uploadID()
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
	if err := holdPartSum(u, up.in.alg); err != nil {
		return err
	}
	if up.in.none() && !u.Lock.IsZero() {
		return errLockWithoutSum
	}
	up.kept = u.Attrs
	if err := q.uploadEncryption(u); err != nil {
		return err
	}
	if err := q.s.fs.RoomForPart(q.ctx, q.bucket, id, number, up.length); err != nil {
		return err
	}
	return q.store(&up, partSum(u), func(content *vfs.Content, sums []core.Checksum) error {
		part, err := q.s.fs.PutPart(q.ctx, vfs.PartRequest{
			Bucket: q.bucket, Key: q.key, Upload: id, Number: number, Content: content, Sums: sums,
		})
		if err != nil {
			return err
		}
		q.set("ETag", quote(part.ETag))
		q.setEncryption(&q.encryption)
		for i := range sums {
			if a := sums[i].Algorithm; a == u.Algorithm || a == up.in.alg { // and not the one that nobody asked for
				q.set(a.HeaderKey(), encodeSum(&sums[i]))
			}
		}
		return nil
	})
}

// holdPartSum holds the checksum that comes with a part against what the upload was begun with. A part of a composite must have
// one; where CRCs are combined, the server may compute it.
func holdPartSum(u *core.UploadInfo, sent checksum.Algorithm) error {
	if u.Algorithm == checksum.None || sent == u.Algorithm || sent == checksum.None && !u.Composite {
		return nil
	}
	return sumMismatch(u.Algorithm, sent)
}

// sumMismatch says that a checksum is of another algorithm than the upload's.
func sumMismatch(expected, actual checksum.Algorithm) error {
	name := "null"
	if actual != checksum.None {
		name = strings.ToLower(actual.Name())
	}
	return errInvalidRequest.say("Checksum Type mismatch occurred, expected checksum Type: " + strings.ToLower(expected.Name()) +
		", actual checksum Type: " + name)
}

func (q *request) uploadPartCopy() error {
	number, err := q.partNumber()
	if err != nil {
		return err
	}
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
	if err != nil {
		return err
	}
	if err := q.uploadEncryption(u); err != nil {
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
		old, err := q.sourceEncryption(from)
		if err != nil {
			return err
		}
		to := q.encryption
		q.renew()
		q.setSourceVersion(b, from)
		q.setEncryption(&q.encryption)
		part, err = q.copyPart(vfs.CopyPartRequest{
			Source: from, From: s.offset, Length: s.length, Bucket: q.bucket, Key: q.key, Upload: id, Number: number,
			Algorithms: []checksum.Algorithm{partSum(u)}, Customer: old.Customer, Recode: recoding(from, old, &to),
		})
		if err == nil {
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

// copyPart copies while the client is kept waiting.
func (q *request) copyPart(r vfs.CopyPartRequest) (*core.PartInfo, error) {
	defer q.keepAlive()()
	return q.s.fs.CopyPart(q.ctx, r)
}

// copyRange reads x-amz-copy-source-range, which must have both ends and lie within the source.
func copyRange(header string, size int64) (span, error) {
	if header == "" {
		if size > maxPutBytes {
			return span{}, errLargeSource
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
	if first >= size {
		return span{}, errInvalidRequest.say("The specified copy range is invalid for the source object size")
	}
	if last >= size {
		return span{}, bad.say("Range specified is not valid for source object of size: " + itoa(size))
	}
	if last-first+1 > maxPutBytes {
		return span{}, tooLarge(last - first + 1)
	}
	return span{first, last - first + 1}, nil
}

func (q *request) abortUpload() error {
	id, err := q.uploadID()
	if err != nil {
		return err
	}
	conditional := q.optional&headerInitiated != 0
	if conditional {
		if err := q.checkInitiated(id); err != nil {
			return err
		}
	}
	if err := q.s.fs.AbortUpload(q.ctx, q.bucket, q.key, id); err != nil && !(conditional && core.Is(err, core.NoSuchUpload)) {
		return err
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

const initiatedName = "X-Amz-If-Match-Initiated-Time"

// checkInitiated holds the time at which an upload is said to have begun against the upload, where that is there.
func (q *request) checkInitiated(id core.UploadID) error {
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
	if q.encryptionSent {
		if err := q.uploadEncryption(u); err != nil {
			return err
		}
	}
	var parts []core.PartInfo
	more := false
	if limit > 0 {
		if parts, more, err = q.s.fs.Parts(q.ctx, q.bucket, q.key, id, after, limit); err != nil {
			return err
		}
	}
	q.setAbort(u.Initiated)
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
	next := 0 // also where nothing is left, as in S3
	if len(parts) > 0 {
		next = parts[len(parts)-1].Number
	}
	x.int("NextPartNumberMarker", int64(next))
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

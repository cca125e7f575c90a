package s3

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"orcas/content"
	"orcas/core"
	"orcas/s3/conditions"
	"orcas/vfs"
)

// getOperation is GetObject or HeadObject.
type getOperation struct {
	q          *request
	object     *vfs.Object
	info       *core.ObjectInfo // metadata of object
	encryption encryption
	selection
}

// selection is the part of an object that a GET or HEAD asks for.
type selection struct {
	span   conditions.Span
	status int             // HTTP status of the response
	sums   []core.Checksum // checksums of exactly these bytes
	parts  int             // number of parts of the object if the request asks for one of them, else 0
}

func getObject(q *request) error  { return readObject(q, true) }
func headObject(q *request) error { return readObject(q, false) }

// readObject sends an object, or only its headers.
func readObject(q *request, content bool) error {
	v, err := versionToRead(q)
	if err != nil {
		return err
	}
	if err := checkOverrides(q); err != nil {
		return err
	}
	object, err := q.s.fs.Open(q.ctx, q.bucket, q.key, v) // even for HEAD, which may read the list of parts
	if err != nil {
		return missing(q, err, v, nil)
	}
	defer object.Close()
	op := getOperation{q: q, object: object, info: object.Info}
	if err := q.confirm(q.action(), q.resource(), op.info); err != nil {
		return err
	}
	if op.encryption, err = unlock(q, op.info, object); err != nil {
		return err
	}
	asked := conditions.OfRequest(q.r.Header)
	switch asked.Judge(op.info.ETag, op.info.Modified, q.start) {
	case conditions.Failed:
		return asked.Refused(conditions.Failed)
	case conditions.NotModified:
		setObjectHeaders(q, op.info, &op.encryption)
		delete(q.header, "Content-Type")
		q.writeHead(http.StatusNotModified)
		return nil
	}
	if op.selection, err = op.choose(); err != nil {
		return err
	}
	return op.send(content)
}

// versionToRead returns the version that a GET or HEAD refers to. It refuses an invalid part number even if the key
// does not exist.
func versionToRead(q *request) (core.Version, error) {
	if number, ok := q.query.get("partNumber"); ok {
		if _, err := parsePartNumber(number); err != nil {
			return core.Current, err
		}
	}
	return q.version()
}

// missing adds the details and headers that S3 sends for a missing version or a delete marker to the error of a read.
// found is the marker if the read returned it. Otherwise missing looks it up; the marker may have been written or
// deleted since the read.
func missing(q *request, err error, v core.Version, found *core.ObjectInfo) error {
	if core.Is(err, core.NoSuchKey) && v != core.Current {
		return errNoSuchVersion.Because(err)
	}
	if !core.Is(err, core.NoSuchKey) && !core.Is(err, core.MethodNotAllowed) {
		return err
	}
	e := toAPI(err)
	if core.Is(err, core.MethodNotAllowed) && v == core.Current && q.route.Sub != "tagging" { // tagging refers to the marker itself
		e = toAPI(core.E("s3.missing", core.NoSuchKey, err))
	}
	marker := found
	if marker == nil {
		marker, _ = q.s.fs.Stat(q.ctx, q.bucket, q.key, v)
	}
	if marker == nil || !marker.Marker {
		return e
	}
	if q.route.Sub == "tagging" {
		e = errMethodNotAllowed.Because(err)
	}
	e = e.WithHeader("X-Amz-Delete-Marker", "true").WithHeader("X-Amz-Version-Id", q.s.ids.Version(marker.Version()))
	if e.Code == errMethodNotAllowed.Code {
		e = e.With("ResourceType", "DeleteMarker").WithHeader("Allow", http.MethodDelete).
			WithHeader("Last-Modified", marker.Modified.UTC().Format(http.TimeFormat))
	}
	return e
}

// send sends the selection, or only its headers.
func (op *getOperation) send(withBody bool) error {
	q, s := op.q, &op.selection
	var section *content.Section
	if withBody && s.span.Length > 0 {
		var err error
		if section, err = op.object.Range(q.ctx, s.span.Offset, s.span.Length); err != nil {
			return err
		}
		defer section.Close()
	}
	op.setHeaders()
	q.writeHead(s.status)
	if section == nil {
		return nil
	}
	return sendSection(q, section, s.span.Length)
}

// setHeaders sets the response headers.
func (op *getOperation) setHeaders() {
	q, s, info := op.q, &op.selection, op.info
	setObjectHeaders(q, info, &op.encryption)
	setOverrides(q)
	if s.parts > 0 {
		q.set("X-Amz-Mp-Parts-Count", itoa(int64(s.parts)))
	}
	if s.sums != nil && strings.EqualFold(first(q.r.Header, "X-Amz-Checksum-Mode"), "ENABLED") {
		setSums(q, s.sums)
		if s.parts > 0 && len(info.Sums) > 0 { // the type is the object's, even if the checksum is a part's
			q.set("X-Amz-Checksum-Type", typeOf(info.Sums[0].Composite))
		}
	}
	q.set("Content-Length", itoa(s.span.Length))
	if s.status == http.StatusPartialContent {
		q.set("Content-Range", "bytes "+itoa(s.span.Offset)+"-"+itoa(s.span.Offset+s.span.Length-1)+"/"+itoa(info.Size))
	}
}

// sendSection writes content. After an error the connection is aborted (see fail), so a short body never looks
// complete.
func sendSection(q *request, section *content.Section, length int64) error {
	w, done := q.patient(length)
	n, err := section.WriteTo(w)
	q.out += n
	if err == nil && n != length {
		err = core.E("s3.send", core.Damaged, io.ErrShortWrite)
	}
	if flushed := done(); err == nil {
		err = flushed
	}
	if err == nil {
		return nil
	}
	var stored *core.Error
	if !errors.As(err, &stored) {
		err = errClientGone.Because(err)
	}
	return err
}

// choose returns the part of the object that the request asks for.
func (op *getOperation) choose() (selection, error) {
	q, info := op.q, op.info
	whole := selection{span: conditions.Span{Length: info.Size}, status: http.StatusOK, sums: info.Sums}
	ranges := first(q.r.Header, "Range")
	if number, ok := q.query.get("partNumber"); ok {
		if ranges != "" {
			return whole, errInvalidRequest.Say("Cannot specify both Range header and partNumber query parameter")
		}
		return op.choosePart(number)
	}
	if ranges == "" || !rangeApplies(q.r.Header, info) {
		return whole, nil
	}
	span, ok, err := conditions.ParseRange(ranges, info.Size)
	if err != nil || !ok {
		return whole, err
	}
	s := selection{span: span, status: http.StatusPartialContent}
	if span == whole.span {
		s.sums = info.Sums
	}
	return s, nil
}

// rangeApplies reports whether If-Range permits a range response. If the object has changed since the client read it, a
// range is of no use to the client.
func rangeApplies(h http.Header, info *core.ObjectInfo) bool {
	v := first(h, "If-Range")
	if v == "" {
		return true
	}
	if t, ok := conditions.Time(v); ok {
		return info.Modified.UTC().Format(http.TimeFormat) == t.UTC().Format(http.TimeFormat)
	}
	return conditions.MatchesETag(v, info.ETag)
}

// choosePart selects a part of a multipart object by its position among the parts. Any other object has a single part.
func (op *getOperation) choosePart(number string) (s selection, err error) {
	info := op.info
	n, err := parsePartNumber(number)
	if err != nil {
		return s, err
	}
	switch {
	case info.Parts == 0 && n > 1:
		return s, errInvalidPartNumber.With("PartNumberRequested", number).With("ActualPartCount", "1")
	case info.Parts == 0:
		s.span.Length, s.sums = info.Size, info.Sums
	case n > info.Parts:
		return s, errInvalidPartNumber.With("PartNumberRequested", number).With("ActualPartCount", itoa(int64(info.Parts)))
	default:
		parts, offset, err := partsAt(op.q, info, n, 1)
		if err != nil {
			return s, err
		}
		s.span = conditions.Span{Offset: offset, Length: parts[0].Size}
		s.sums, s.parts = sumsOfPart(info, &parts[0]), info.Parts
	}
	if s.status = http.StatusPartialContent; s.span.Length == 0 {
		s.status = http.StatusOK
	}
	return s, nil
}

// sumsOfPart returns the checksum to send with a part of a multipart object. S3 sends the checksum of a part only if
// the checksum of the object is a composite. If it is FULL_OBJECT, a client would mistake the part's checksum for that
// of the object. A part that is the whole object has the checksum of the object.
func sumsOfPart(info *core.ObjectInfo, part *core.PartInfo) []core.Checksum {
	if info.Parts > 1 && len(info.Sums) > 0 && !info.Sums[0].Composite {
		return nil
	}
	return sumsAs(info, part.Sums)
}

// partsAt returns count parts of a multipart object, starting at position n (the first is 1), and the offset of the
// first returned part in bytes. The object must have that many parts.
func partsAt(q *request, info *core.ObjectInfo, n, count int) ([]core.PartInfo, int64, error) {
	// The object's index has the offset after every core.IndexStride parts, so the search starts near position n.
	var offset int64
	after, seen := 0, 0
	if i := min((n-1)/core.IndexStride, len(info.Index)) - 1; i >= 0 {
		after, offset, seen = info.Index[i].After, info.Index[i].Offset, (i+1)*core.IndexStride
	}
	before := n - 1 - seen
	parts, err := q.s.fs.ObjectParts(q.ctx, info, after, before+count)
	if err != nil {
		return nil, 0, err
	}
	if len(parts) != before+count {
		return nil, 0, errInternal.Say("The object has fewer parts than its metadata specifies.")
	}
	for i := range parts[:before] {
		offset += parts[i].Size
	}
	return parts[before:], offset, nil
}

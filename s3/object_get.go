package s3

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"orcas/core"
	"orcas/vfs"
)

func (q *request) getObject() error {
	v, err := q.version()
	if err != nil {
		return err
	}
	object, err := q.s.fs.Open(q.ctx, q.bucket, q.key, v)
	if err != nil {
		return q.missing(err, v, nil)
	}
	defer object.Close()
	return q.serve(object.Info, object)
}

func (q *request) headObject() error {
	v, err := q.version()
	if err != nil {
		return err
	}
	object, err := q.s.fs.Open(q.ctx, q.bucket, q.key, v) // and not Stat: parts may be read
	if err != nil {
		return q.missing(err, v, nil)
	}
	defer object.Close()
	return q.serve(object.Info, nil)
}

// missing adds to the error of a read what S3 tells of a version that is not there, or of a delete marker: found, where the read gave one; with
// nil it looks for one itself, which may have come or gone meanwhile.
func (q *request) missing(err error, v core.Version, found *core.ObjectInfo) error {
	if core.Is(err, core.NoSuchKey) && v != core.Current {
		return errNoSuchVersion.because(err)
	}
	if !core.Is(err, core.NoSuchKey) && !core.Is(err, core.MethodNotAllowed) {
		return err
	}
	e := toAPI(err)
	if core.Is(err, core.MethodNotAllowed) && v == core.Current && q.route.sub != "tagging" { // tags are asked of the marker, also where nobody names it
		e = toAPI(core.E("s3.missing", core.NoSuchKey, err))
	}
	marker := found
	if marker == nil {
		marker, _ = q.s.fs.Stat(q.ctx, q.bucket, q.key, v)
	}
	if marker == nil || !marker.Marker {
		return e
	}
	if q.route.sub == "tagging" {
		e = errMethodNotAllowed.because(err)
	}
	e = e.header("X-Amz-Delete-Marker", "true").header("X-Amz-Version-Id", marker.Version().String())
	if e.code == errMethodNotAllowed.code {
		e = e.with("ResourceType", "DeleteMarker").header("Allow", http.MethodDelete).header("Last-Modified", marker.Modified.UTC().Format(http.TimeFormat))
	}
	return e
}

// serve answers a GET, or with a nil object a HEAD.
func (q *request) serve(info *core.ObjectInfo, object *vfs.Object) error {
	if err := q.unlock(info, object); err != nil {
		return err
	}
	h := q.r.Header
	conditions := readConditionsOf(h)
	switch conditions.judge(info.ETag, info.Modified, q.s.now()) {
	case failed:
		return conditions.refused(failed)
	case notModified:
		q.setObjectHeaders(info)
		delete(q.header, "Content-Type")
		q.status = http.StatusNotModified
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	s, status, sums, err := q.selectSpan(info)
	if err != nil {
		return err
	}
	var section *vfs.Section
	if object != nil && s.length > 0 {
		if section, err = object.Range(q.ctx, s.offset, s.length); err != nil {
			return err
		}
		defer section.Close()
	}
	q.setObjectHeaders(info)
	q.setOverrides()
	if q.partsCount > 0 {
		q.set("X-Amz-Mp-Parts-Count", itoa(int64(q.partsCount)))
	}
	if sums != nil && strings.EqualFold(first(h, "X-Amz-Checksum-Mode"), "ENABLED") {
		q.setSums(sums)
		if q.partsCount > 0 && len(info.Sums) > 0 { // the type is the object's, also where the checksum is a part's
			q.set("X-Amz-Checksum-Type", typeOf(info.Sums[0].Composite))
		}
	}
	q.set("Content-Length", itoa(s.length))
	if status == http.StatusPartialContent {
		q.set("Content-Range", "bytes "+itoa(s.offset)+"-"+itoa(s.offset+s.length-1)+"/"+itoa(info.Size))
	}
	q.status = status
	q.w.WriteHeader(status)
	if section == nil {
		return nil
	}
	return q.send(section, s.length)
}

// send writes content. After an error the connection is aborted (see fail): a short body never looks complete.
func (q *request) send(section *vfs.Section, length int64) error {
	w, done := q.patient(length)
	n, err := section.WriteTo(w)
	q.out += n
	if err == nil && n != length {
		err = core.E("s3.send", core.Damaged, io.ErrShortWrite)
	}
	if flushed := done(); err == nil {
		err = flushed
	}
	var stored *core.Error
	if err != nil && !errors.As(err, &stored) {
		return errClientGone.because(err)
	}
	return err
}

// selectSpan decides which bytes are asked for, with which status, and the checksums that belong to exactly them.
func (q *request) selectSpan(info *core.ObjectInfo) (span, int, []core.Checksum, error) {
	whole := span{0, info.Size}
	ranges := first(q.r.Header, "Range")
	if number, ok := q.query.get("partNumber"); ok {
		if ranges != "" {
			return whole, 0, nil, errInvalidRequest.say("Cannot specify both Range header and partNumber query parameter")
		}
		return q.selectPart(info, number)
	}
	if ranges == "" || !q.rangeStands(info) {
		return whole, http.StatusOK, info.Sums, nil
	}
	s, ok, err := parseRange(ranges, info.Size)
	if err != nil || !ok {
		return whole, http.StatusOK, info.Sums, err
	}
	if s == whole {
		return s, http.StatusPartialContent, info.Sums, nil
	}
	return s, http.StatusPartialContent, nil, nil
}

// rangeStands evaluates If-Range: a range of something else than the client has is of no use to it.
func (q *request) rangeStands(info *core.ObjectInfo) bool {
	v := first(q.r.Header, "If-Range")
	if v == "" {
		return true
	}
	if t, ok := parseTime(v); ok {
		return info.Modified.UTC().Format(http.TimeFormat) == t.UTC().Format(http.TimeFormat)
	}
	return matchesETag(v, info.ETag)
}

// selectPart finds a part of a multipart object by its place among the parts; other objects count as one part.
func (q *request) selectPart(info *core.ObjectInfo, number string) (span, int, []core.Checksum, error) {
	n, ok := parseDigits(number)
	if !ok || n < 1 || n > maxParts {
		return span{}, 0, nil, errInvalidArgument.say("Part number must be an integer between 1 and 10000, inclusive").
			with("ArgumentName", "partNumber").with("ArgumentValue", number)
	}
	if info.Parts == 0 {
		if n > 1 {
			return span{}, 0, nil, errInvalidPartNumber.with("PartNumberRequested", number).with("ActualPartCount", "1")
		}
		if info.Size == 0 {
			return span{}, http.StatusOK, info.Sums, nil
		}
		return span{0, info.Size}, http.StatusPartialContent, info.Sums, nil
	}
	if n > int64(info.Parts) {
		return span{}, 0, nil, errInvalidPartNumber.with("PartNumberRequested", number).with("ActualPartCount", itoa(int64(info.Parts)))
	}
	parts, offset, err := q.partsAt(info, int(n), 1)
	if err != nil {
		return span{}, 0, nil, err
	}
	part := &parts[0]
	q.partsCount = info.Parts
	if part.Size == 0 {
		return span{offset, 0}, http.StatusOK, sumsAs(info, part.Sums), nil
	}
	return span{offset, part.Size}, http.StatusPartialContent, sumsAs(info, part.Sums), nil
}

// partsAt returns count parts of a multipart object from the place n on, which begins with 1, and where the first of them begins, in
// bytes. The object must have as many.
func (q *request) partsAt(info *core.ObjectInfo, n, count int) ([]core.PartInfo, int64, error) {
	// The object's index says where every so many parts begin.
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
		return nil, 0, errInternal.say("The list of parts is shorter than the object says.")
	}
	for i := range parts[:before] {
		offset += parts[i].Size
	}
	return parts[before:], offset, nil
}

package s3

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/vfs"
)

// maxDeleteKeys is how many keys one DeleteObjects may name.
const maxDeleteKeys = 1000

func (q *request) deleteObject() error {
	v, err := q.version()
	if err != nil {
		return err
	}
	demand, err := writeCondition(q.r.Header)
	if err != nil {
		return err
	}
	if q.optional&headerSame != 0 {
		if err := sameAs(&demand, first(q.r.Header, sameTimeName), first(q.r.Header, sameSizeName)); err != nil {
			return err
		}
	}
	bypass, err := q.bypass()
	if err != nil {
		return err
	}
	res := q.s.fs.Delete(q.ctx, q.bucket, q.caller.account, []vfs.DeleteRequest{{Key: q.key, Version: v, If: demand, Bypass: bypass}})[0]
	if res.Err != nil && !(v != core.Current && core.Is(res.Err, core.NoSuchVersion)) {
		return conditionError(res.Err)
	}
	version := res.Version
	if version == core.Current {
		version = v
	}
	q.setVersion(version)
	if res.Marker {
		q.set("X-Amz-Delete-Marker", "true")
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

const (
	sameTimeName = "X-Amz-If-Match-Last-Modified-Time"
	sameSizeName = "X-Amz-If-Match-Size"
)

// sameAs adds to p what a request to delete says of the object's time and size; "" is not said.
func sameAs(p *core.Precondition, modified, size string) error {
	if modified != "" {
		t, ok := parseTime(modified)
		if !ok {
			var err error
			if t, err = time.Parse(time.RFC3339, modified); err != nil {
				return errInvalidArgument.say("The time of modification cannot be read.").
					with("ArgumentName", "LastModifiedTime").with("ArgumentValue", modified)
			}
		}
		p.Modified = t.UTC().Truncate(time.Second)
	}
	if size != "" {
		n, ok := parseDigits(size)
		if !ok {
			return errInvalidArgument.say("The size is no number.").with("ArgumentName", "Size").with("ArgumentValue", size)
		}
		p.HasSize, p.Size = true, n
	}
	return nil
}

// optionalText returns the text of an element, "" where it is not there.
func optionalText(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}

// deleteRequest is the body of DeleteObjects.
type deleteRequest struct {
	XMLName xml.Name `xml:"Delete"`
	Quiet   *xmlBool `xml:"Quiet"`
	Objects []struct {
		Key              *string `xml:"Key"`
		VersionID        *string `xml:"VersionId"`
		ETag             *string `xml:"ETag"`
		LastModifiedTime *string `xml:"LastModifiedTime"`
		Size             *string `xml:"Size"`
	} `xml:"Object"`
}

// deleteOutcome is what becomes of one key of a DeleteObjects.
type deleteOutcome struct {
	key     string
	version core.Version // that was named
	named   string       // as it was named
	err     error
	index   int // in the requests to vfs, where err is nil
}

func (q *request) deleteObjects() error {
	bypass, err := q.bypass()
	if err != nil {
		return err
	}
	doc, in, err := q.readBody()
	if err != nil {
		return err
	}
	if in.none() {
		return errMissingMD5
	}
	var body deleteRequest
	if err := parseXML(doc, &body); err != nil {
		return err
	}
	if n := len(body.Objects); n == 0 || n > maxDeleteKeys {
		return errMalformedXML
	}
	outcomes := make([]deleteOutcome, len(body.Objects))
	requests := make([]vfs.DeleteRequest, 0, len(body.Objects))
	for i := range body.Objects {
		o := &body.Objects[i]
		out := &outcomes[i]
		if o.Key == nil {
			return errMalformedXML
		}
		out.key = *o.Key
		if out.err = checkKey(out.key); out.err != nil {
			continue
		}
		if o.VersionID != nil && *o.VersionID != "" {
			out.named = *o.VersionID
			if out.version, out.err = parseVersion(*o.VersionID, true); out.err != nil {
				out.err = errNoSuchVersion
				continue
			}
		}
		if out.err = q.s.authorise(q.caller, q.route.action, q.bucket); out.err != nil {
			continue
		}
		r := vfs.DeleteRequest{Key: out.key, Version: out.version, Bypass: bypass}
		if out.err = sameAs(&r.If, optionalText(o.LastModifiedTime), optionalText(o.Size)); out.err != nil {
			continue
		}
		if o.ETag != nil {
			tag, _ := nextETag(*o.ETag)
			r.If.Match = []string{tag}
		}
		out.index = len(requests)
		requests = append(requests, r)
	}
	results := q.s.fs.Delete(q.ctx, q.bucket, q.caller.account, requests)
	q.sendDeleted(outcomes, results, body.Quiet.is())
	return nil
}

func (q *request) sendDeleted(outcomes []deleteOutcome, results []vfs.DeleteResult, quiet bool) {
	x := q.s.document()
	defer q.s.release(x)
	x.begin("DeleteResult")
	for i := range outcomes {
		out := &outcomes[i]
		var res vfs.DeleteResult
		if out.err == nil {
			res = results[out.index]
			out.err = res.Err
		}
		if out.version != core.Current && core.Is(out.err, core.NoSuchVersion) {
			out.err = nil // it is gone, as was asked for
		}
		if out.err != nil {
			e := toAPI(out.err)
			if e.status >= http.StatusInternalServerError && q.cause == nil {
				q.code, q.cause, q.faulty = e.code, e.cause, true // one of them in the log, for all
			}
			x.open("Error")
			x.text("Key", out.key)
			x.optional("VersionId", out.named)
			x.text("Code", e.code)
			x.text("Message", e.message)
			x.close("Error")
			continue
		}
		if quiet {
			continue
		}
		x.open("Deleted")
		x.text("Key", out.key)
		x.optional("VersionId", out.named)
		if res.Marker {
			x.bool("DeleteMarker", true)
			x.text("DeleteMarkerVersionId", res.Version.String())
		}
		x.close("Deleted")
	}
	x.close("DeleteResult")
	q.sendXML(http.StatusOK, x)
}

// readBody reads a document and verifies all that was said of it.
func (q *request) readBody() ([]byte, integrity, error) {
	body, err := q.open()
	if err != nil {
		return nil, integrity{}, err
	}
	if body.DecodedLength() > maxXMLBytes {
		return nil, integrity{}, errMessageTooLong
	}
	in, err := parseIntegrity(q.r.Header, body.Announced())
	if err != nil {
		return nil, in, err
	}
	doc, err := readAll(body, maxXMLBytes)
	if err != nil {
		return nil, in, err
	}
	sum := func(a checksum.Algorithm) []byte { return checksum.Sum(a, doc) }
	return doc, in, in.verify(sum, body)
}

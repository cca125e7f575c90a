package s3

import (
	"cmp"
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
	"orcas/s3/apierr"
	"orcas/s3/bucketaccess"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
	"orcas/vfs"
)

// maxDeleteKeys is the maximum number of keys in one DeleteObjects.
const maxDeleteKeys = 1000

func deleteObject(q *request) error {
	v, err := q.version()
	if err != nil {
		return err
	}
	p, err := conditions.Precondition(q.r.Header)
	if err != nil {
		return err
	}
	if q.optional&headerSame != 0 {
		if err := sameAs(&p, first(q.r.Header, sameTimeName), first(q.r.Header, sameSizeName)); err != nil {
			return err
		}
	}
	bypass, err := bypassesRetention(q)
	if err != nil {
		return err
	}
	req := []vfs.DeleteRequest{{Key: q.key, Version: v, If: p, Bypass: bypass}}
	res := q.s.fs.Delete(q.ctx, q.bucket, q.caller.Account, req)[0]
	if res.Err != nil && !(v != core.Current && core.Is(res.Err, core.NoSuchVersion)) {
		return conditionError(res.Err)
	}
	q.setVersion(cmp.Or(res.Version, v))
	if res.Marker {
		q.set("X-Amz-Delete-Marker", "true")
	}
	return nil
}

const (
	sameTimeName = "X-Amz-If-Match-Last-Modified-Time"
	sameSizeName = "X-Amz-If-Match-Size"
)

// sameAs adds to p the time and the size that a deletion expects the object to have. "" means any.
func sameAs(p *core.Precondition, modified, size string) error {
	if modified != "" {
		t, ok := conditions.Time(modified)
		if !ok {
			var err error
			if t, err = time.Parse(time.RFC3339, modified); err != nil {
				return apierr.Argument("LastModifiedTime", modified, "The time must be an HTTP date or in ISO 8601 format.")
			}
		}
		p.Modified = t.UTC().Truncate(time.Second)
	}
	if size != "" {
		n, ok := conditions.Digits(size)
		if !ok {
			return apierr.Argument("Size", size, "The size must be a number of bytes.")
		}
		p.HasSize, p.Size = true, n
	}
	return nil
}

// optionalText returns the text of an element, or "" if there is none.
func optionalText(s *string) string {
	if s == nil {
		return ""
	}
	return strings.TrimSpace(*s)
}

// deleteRequest is the body of DeleteObjects.
type deleteRequest struct {
	XMLName xml.Name        `xml:"Delete"`
	Quiet   *xmldoc.Bool    `xml:"Quiet"`
	Objects []deletedObject `xml:"Object"`
}

type deletedObject struct {
	Key              *string `xml:"Key"`
	VersionID        *string `xml:"VersionId"`
	ETag             *string `xml:"ETag"`
	LastModifiedTime *string `xml:"LastModifiedTime"`
	Size             *string `xml:"Size"`
}

// deleteOperation is DeleteObjects.
type deleteOperation struct {
	q        *request
	bypass   bool // bypass retention in governance mode
	body     deleteRequest
	outcomes []deleteOutcome
	requests []vfs.DeleteRequest
}

// deleteOutcome is the outcome for one key.
type deleteOutcome struct {
	key     string
	version core.Version // the version to delete
	named   string       // its ID in the request
	err     error
	index   int // index in deleteOperation.requests, unless err is set
}

func deleteObjects(q *request, x *xmldoc.Writer) error {
	op := deleteOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	op.write(x, q.s.fs.Delete(q.ctx, q.bucket, q.caller.Account, op.requests))
	return nil
}

// parse reads the document. For a key that cannot be deleted, it records an error and does not add a request.
func (op *deleteOperation) parse() (err error) {
	q, body := op.q, &op.body
	if op.bypass, err = asksBypass(q); err != nil {
		return err
	}
	doc, in, err := readBody(q)
	if err != nil {
		return err
	}
	if in.none() {
		return errMissingMD5
	}
	if err := xmldoc.Parse(doc, body); err != nil {
		return err
	}
	if n := len(body.Objects); n == 0 || n > maxDeleteKeys {
		return errMalformedXML
	}
	op.outcomes = make([]deleteOutcome, len(body.Objects))
	op.requests = make([]vfs.DeleteRequest, 0, len(body.Objects))
	for i := range body.Objects {
		if body.Objects[i].Key == nil {
			return errMalformedXML
		}
		out := &op.outcomes[i]
		out.err = op.parseKey(&body.Objects[i], out)
	}
	return nil
}

// authorize checks that the caller may delete the object or version, bypass its retention if the request asks for that,
// and read the object if the deletion depends on its properties.
func (op *deleteOperation) authorize(o *deletedObject, out *deleteOutcome) error {
	q := op.q
	r := bucketaccess.Resource(q.bucket)
	r.Key, r.Version = out.key, q.s.ids.CanonicalVersion(out.named)
	a := q.route.Action
	if out.named != "" {
		a = q.route.VersionAction
	}
	q.asked.entry = o.ETag
	if err := q.authorize(a, r); err != nil && !mutant.Is("no-decision-per-key") {
		return err
	}
	if op.bypass {
		if err := q.authorize(bypassRetention, r); err != nil {
			return err
		}
	}
	if o.LastModifiedTime == nil && o.Size == nil && (o.ETag == nil || *o.ETag == "*") {
		return nil
	}
	r.Version = ""
	return q.authorize("s3:GetObject", r)
}

// parseKey reads one element of the document, and adds a request for it.
func (op *deleteOperation) parseKey(o *deletedObject, out *deleteOutcome) (err error) {
	out.key = *o.Key
	if err := checkKey(out.key); err != nil {
		return err
	}
	if o.VersionID != nil && *o.VersionID != "" {
		out.named = *o.VersionID
		if out.version, err = op.q.s.ids.parseVersion(*o.VersionID, true); err != nil {
			return errNoSuchVersion
		}
	}
	if err := op.authorize(o, out); err != nil {
		return err
	}
	r := vfs.DeleteRequest{Key: out.key, Version: out.version, Bypass: op.bypass}
	if err := sameAs(&r.If, optionalText(o.LastModifiedTime), optionalText(o.Size)); err != nil {
		return err
	}
	if o.ETag != nil {
		tag, _ := conditions.NextETag(*o.ETag)
		r.If.Match = []string{tag}
	}
	out.index = len(op.requests)
	op.requests = append(op.requests, r)
	return nil
}

// write writes the outcome for each key. In quiet mode only errors are written.
func (op *deleteOperation) write(x *xmldoc.Writer, results []vfs.DeleteResult) {
	quiet := op.body.Quiet.Is()
	op.q.items = make([]gate.Item, len(op.outcomes))
	x.Begin("DeleteResult")
	for i := range op.outcomes {
		out, item := &op.outcomes[i], &op.q.items[i]
		item.Key, item.Version = out.key, out.named
		var res vfs.DeleteResult
		if out.err == nil {
			res = results[out.index]
			out.err = res.Err
		}
		if out.version != core.Current && core.Is(out.err, core.NoSuchVersion) {
			out.err = nil // it no longer exists, as requested
		}
		if out.err != nil {
			item.Code = op.writeError(x, out)
			continue
		}
		if res.Marker {
			item.Version = op.q.s.ids.Version(res.Version)
		}
		if quiet {
			continue
		}
		x.Open("Deleted")
		x.Text("Key", out.key)
		x.Optional("VersionId", out.named)
		if res.Marker {
			x.Bool("DeleteMarker", true)
			x.Text("DeleteMarkerVersionId", item.Version)
		}
		x.Close("Deleted")
	}
	x.Close("DeleteResult")
}

// writeError writes the error for a key, and returns its code. Only the first error that is the server's fault is logged.
func (op *deleteOperation) writeError(x *xmldoc.Writer, out *deleteOutcome) (code string) {
	q := op.q
	if q.isAbsence(out.err) {
		out.err = q.conceal(out.err, q.bucket, out.key)
	}
	e := toAPI(out.err)
	if e.Status >= http.StatusInternalServerError && q.cause == nil {
		q.code, q.cause, q.faulty = e.Code, e.Cause, true
	}
	x.Open("Error")
	x.Text("Key", out.key)
	x.Optional("VersionId", out.named)
	x.Text("Code", e.Code)
	x.Text("Message", e.Message)
	x.Close("Error")
	return e.Code
}

package s3

import (
	"cmp"
	"io"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"time"

	"orcas/auth"
	"orcas/content"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
	"orcas/s3/apierr"
	"orcas/s3/postform"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

// formUpload is the HTML form of PostObject.
type formUpload struct {
	*postform.Form
	policy *postform.Policy // nil if the form is not signed
	count  int64            // bytes of the file that were read
	most   int64            // maximum size of the file, in bytes
}

// The fields of a form are read before its sender is known, so strangers must not be able to occupy the server with
// them: they have a time limit (Options.FormTime), however slowly they come, and a part of the requests in flight.
const formShare = 4 // of MaxInFlight, one in so many may be a form whose fields are being read

// isForm reports whether the request is an HTML form.
func (q *request) isForm() bool {
	if q.r.Method != http.MethodPost || q.level() != gate.Bucket || !postform.IsForm(first(q.r.Header, "Content-Type")) {
		return false
	}
	sub, err := q.query.subresource()
	return sub == "" && err == nil
}

// authenticateForm reads the fields of a form, and determines its sender by them. A signed form must conform to its
// policy. id is the sender according to the header and the query, which must be anonymous. Afterwards, the fields are
// the headers of the request: they pass the same checks as those of PutObject.
func (s *Server) authenticateForm(q *request, id gate.Identity) (gate.Identity, error) {
	if !id.Principal.IsAnonymous() {
		return id, apierr.Argument("Authorization", "", "Only one auth mechanism allowed; a form is signed in its fields.")
	}
	for name := range q.r.Header {
		if strings.HasPrefix(name, "X-Amz-") { // the policy does not cover it
			return id, errAccessDenied.Say("There were headers present in the request which were not signed").
				With("HeadersNotSigned", strings.ToLower(name))
		}
	}
	if q.r.ContentLength < 0 {
		return id, errMissingLength
	}
	var body io.Reader = &q.body
	if q.body.rc == nil {
		body = http.NoBody
	}
	defer s.inFlight.forms.Add(-1)
	if s.inFlight.forms.Add(1) > max(s.live.Load().MaxInFlight/formShare, 1) && !mutant.Is("any-number-of-forms") {
		return id, errSlowDown
	}
	if !mutant.Is("forms-take-their-time") {
		q.body.until = time.Now().Add(s.times.form)
	}
	f, err := postform.Read(body, first(q.r.Header, "Content-Type"))
	if err != nil {
		return id, err
	}
	q.body.until, q.body.renewed = time.Time{}, time.Time{} // the file may take longer
	f.Expand()
	if id, err = gate.AuthenticateForm(q.ctx, s.schemes, f.Value); err != nil {
		return id, err
	}
	form := &formUpload{Form: f}
	if form.policy, err = q.checkForm(f, id.Principal); err != nil {
		return id, err
	}
	h, err := formHeader(q.r.Header, f)
	if err != nil {
		return id, err
	}
	q.r.Header, q.browser.form = h, form
	return id, checkHeaderSize(h)
}

// checkForm checks that a form has the fields that it needs, and that its policy allows it. It returns the policy.
func (q *request) checkForm(f *postform.Form, sender *auth.Principal) (*postform.Policy, error) {
	missing := func(name string) error {
		return apierr.Argument(name, "", "Bucket POST must contain a field named '"+name+
			"'.  If it is specified, please check the order of the fields.")
	}
	if f.Value("key") == "" {
		return nil, missing("key")
	}
	if v := f.Value("bucket"); f.Has("bucket") && v != q.bucketName {
		return nil, apierr.Argument("bucket", v, "The field 'bucket' does not match the bucket of the URL.")
	}
	if sender.IsAnonymous() {
		if f.Has("policy") {
			return nil, missing("x-amz-signature")
		}
		return nil, nil
	}
	p, err := postform.ParsePolicy(f.Value("policy"))
	if err != nil {
		return nil, err
	}
	return p, p.Check(f, q.bucketName, q.start)
}

// formHeader returns the headers of a request that is equivalent to a form: those of the fields, and those of the
// request that do not describe the object.
func formHeader(h http.Header, f *postform.Form) (http.Header, error) {
	out := h.Clone()
	for _, name := range contentHeaders {
		delete(out, name)
	}
	delete(out, "Content-Md5")
	for _, field := range f.Fields {
		name, value := textproto.CanonicalMIMEHeaderKey(field.Name), field.Value
		switch field.Name {
		case "acl":
			name = aclName
		case "tagging":
			var err error
			if value, err = formTags(value); err != nil {
				return nil, err
			}
			name = "X-Amz-Tagging"
		case "cache-control", "content-disposition", "content-encoding", "content-language", "content-type", "expires", "content-md5":
		case "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature", "x-amz-security-token":
			continue
		default:
			if !strings.HasPrefix(name, "X-Amz-") {
				continue // it is read elsewhere, or ignored, as in S3
			}
			if !isFormHeader(name) {
				return nil, apierr.UnservedHeader(name)
			}
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, apierr.Argument(field.Name, "", "The field '"+field.Name+"' contains a control character.")
		}
		if len(out[name]) > 0 {
			return nil, apierr.Argument(field.Name, "", "The form has several fields for the header "+strings.ToLower(name)+".")
		}
		out[name] = []string{value}
	}
	return out, nil
}

// isFormHeader reports whether a form may have a field for an X-Amz-* header.
func isFormHeader(name string) bool {
	switch name {
	case storageClassName, redirectName, aclName, "X-Amz-Tagging", "X-Amz-Sdk-Checksum-Algorithm":
		return true
	}
	for _, p := range [...]string{metaPrefix, grantPrefix, sseHeader, "X-Amz-Checksum-", "X-Amz-Object-Lock-"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// formTags converts a document of tags to the form of the x-amz-tagging header.
func formTags(doc string) (string, error) {
	var body tagging.Document
	if err := xmldoc.Parse([]byte(doc), &body); err != nil {
		return "", err
	}
	if body.Set == nil {
		return "", errMalformedXML
	}
	tags, err := body.Set.OfObject()
	if err != nil {
		return "", err
	}
	pairs := make([]string, len(tags))
	for i, t := range tags {
		pairs[i] = url.QueryEscape(t.Name) + "=" + url.QueryEscape(t.Value)
	}
	return strings.Join(pairs, "&"), nil
}

// announced returns the content of the form. Its exact size is not known before it has been read, because fields may
// follow the file.
func (f *formUpload) announced(q *request) (u upload, err error) {
	least, most := int64(0), int64(math.MaxInt64)
	if f.policy != nil {
		least, most = f.policy.MinBytes, f.policy.MaxBytes
	}
	f.most = min(most, maxPutBytes)
	whole := q.r.ContentLength
	switch {
	case whole < least:
		return u, f.tooSmall(whole)
	case whole-postform.MaxHead-postform.MaxTail > f.most:
		return u, f.tooLarge(whole - postform.MaxHead - postform.MaxTail)
	}
	u = upload{form: f, length: min(whole, f.most)}
	u.slack = min(u.length, postform.MaxHead+postform.MaxTail)
	u.in, err = parseIntegrity(q.r.Header, nil)
	return u, err
}

func (f *formUpload) tooSmall(n int64) error {
	return errEntityTooSmall.With("ProposedSize", itoa(n)).With("MinSizeAllowed", itoa(f.policy.MinBytes))
}

func (f *formUpload) tooLarge(n int64) error {
	return errEntityTooLarge.With("ProposedSize", itoa(n)).With("MaxSizeAllowed", itoa(f.most))
}

// Read implements io.Reader, for the content of the file. It fails if the content exceeds the maximum.
func (f *formUpload) Read(p []byte) (int, error) {
	n, err := f.Form.Read(p)
	if f.count += int64(n); f.count > f.most {
		return 0, f.tooLarge(f.count)
	}
	return n, err
}

// receive reads the content of the file to its end.
func (f *formUpload) receive(c *content.Content) error {
	c.UpTo()
	if _, err := c.ReadFrom(f); err != nil {
		return err
	}
	if f.policy != nil && c.Size() < f.policy.MinBytes {
		return f.tooSmall(c.Size())
	}
	return nil
}

// postObject stores the file of a form.
func postObject(q *request) error {
	f := q.browser.form
	if f == nil {
		return errPrecondition.With("Condition", "Bucket POST must be of the enclosure-type multipart/form-data")
	}
	op := putOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	o, err := op.run()
	if err != nil {
		return err
	}
	q.set("ETag", quote(o.ETag))
	q.setNewVersion(o.Version())
	setExpiration(q, o)
	setSums(q, o.Sums)
	op.version.encryption.setHeaders(q)
	f.respond(q, o)
	return nil
}

// respond sends the response that the form asks for. As in S3, the default is 204, and an invalid redirect is ignored.
func (f *formUpload) respond(q *request, o *core.ObjectInfo) {
	scheme, path := "http://", "/"+(&url.URL{Path: q.key}).EscapedPath()
	if q.r.TLS != nil {
		scheme = "https://"
	}
	if q.s.hostBucket(q.r) == "" {
		path = "/" + q.bucketName + path
	}
	location := scheme + q.r.Host + path
	if to, err := url.Parse(cmp.Or(f.Value("success_action_redirect"), f.Value("redirect"))); err == nil && to.Host != "" &&
		(to.Scheme == "http" || to.Scheme == "https") {
		if to.RawQuery != "" {
			to.RawQuery += "&"
		}
		to.RawQuery += "bucket=" + url.QueryEscape(q.bucketName) + "&key=" + url.QueryEscape(q.key) + "&etag=" + url.QueryEscape(quote(o.ETag))
		q.set("Location", to.String())
		q.sendEmpty(http.StatusSeeOther)
		return
	}
	q.set("Location", location)
	switch f.Value("success_action_status") {
	case "200":
		q.sendEmpty(http.StatusOK)
	case "201":
		x := q.s.document()
		defer q.s.release(x)
		x.BeginPlain("PostResponse")
		x.Text("Location", location)
		x.Text("Bucket", q.bucketName)
		x.Text("Key", q.key)
		x.Text("ETag", quote(o.ETag))
		x.Close("PostResponse")
		q.sendXML(http.StatusCreated, x)
	default:
		q.sendEmpty(http.StatusNoContent)
	}
}

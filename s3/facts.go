package s3

import (
	"crypto/tls"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"orcas/auth"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
	"orcas/internal/sigv4"
	"orcas/s3/bucketaccess"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

// facts provides the values that the conditions of policies refer to. They are computed on demand, since few policies
// have conditions. A value comes from where the operation takes it: from the headers, the query, the document in the
// body, the source of a copy, or the upload that a part belongs to. A header or parameter that the operation ignores
// must not be able to satisfy a condition.
type facts struct{ q *request }

// question is the state of the current decision, and what the facts of earlier decisions have looked up.
type question struct {
	about auth.Resource // the resource of the decision

	// isProbe is set for the question whether a listing with the key as its prefix would be allowed (see conceal).
	isProbe bool
	// entry is the ETag that an entry of DeleteObjects requires, or nil.
	entry *string
	// The tags that the new version will have, if they come from the source of a copy or a move.
	hasTags bool
	tags    []core.Attr
	moved   *core.ObjectInfo // the object that a move found: its properties are those of the new version

	existing *existingTags    // nil unless they were looked up
	upload   *core.UploadInfo // the upload of the request, after it has been looked up
	looked   bool

	concealed bool      // it was decided whether the sender may know that an object does not exist
	granted   []granted // the decisions that the request depends on, until its body has been read
	arrived   bool      // the body has been read, and the decisions were taken again (see stillAllowed)
	timed     bool      // a decision depended on the present time

	document   *readDoc // the document in the body, after it has been read
	isExplicit bool     // a statement of a policy denied the action

	// failure is the error of a lookup. The decision is not valid then, because a value is missing.
	failure error
}

// granted is a decision that allowed something.
type granted struct {
	action auth.Action
	on     auth.Resource
}

// existingTags are the tags of an existing version.
type existingTags struct {
	of   auth.Resource
	tags []core.Attr
}

// Fact implements auth.Facts for the condition keys of the route table.
func (f facts) Fact(key string) (string, bool) {
	q := f.q
	name, ours := strings.CutPrefix(key, "s3:")
	if !ours {
		return gate.CommonFact(q.r, f.time(key), key)
	}
	if tag, ok := strings.CutPrefix(name, "ExistingObjectTag/"); ok {
		return tagValue(f.existing(), tag)
	}
	if tag, ok := strings.CutPrefix(name, "RequestObjectTag/"); ok {
		return tagValue(f.tags(), tag)
	}
	switch name {
	case "delimiter", "max-keys", "prefix":
		return f.listing(name)
	case "VersionId":
		return q.asked.about.Version, q.asked.about.Version != ""
	case "authType", "signatureAge", "signatureversion":
		return f.signature(name)
	case "TlsVersion":
		return f.tlsVersion()
	case "locationconstraint":
		return f.location()
	case "ObjectCreationOperation":
		return strconv.FormatBool(q.route.creates), true
	case "object-lock-remaining-retention-days":
		return f.remainingDays()
	case "x-amz-copy-source":
		return f.copySource()
	case "x-amz-content-sha256":
		if v, ok := gate.Header(q.r, "X-Amz-Content-Sha256"); ok {
			return v, true
		}
		return "UNSIGNED-PAYLOAD", q.auth.Presigned && q.auth.Mode == sigv4.PayloadUnsigned
	case "if-match":
		if q.route.Level == gate.Bucket {
			return optionalText(q.asked.entry), q.asked.entry != nil
		}
	}
	if strings.HasPrefix(name, "object-lock-") {
		return f.lock(name)
	}
	if !strings.HasPrefix(name, "x-amz-") && !strings.HasPrefix(name, "if-") {
		return "", false
	}
	return f.header(textproto.CanonicalMIMEHeaderKey(name))
}

// time returns the time of a decision, for a condition key that depends on it: the start of the request or, when its
// body has arrived, the present time.
func (f facts) time(key string) time.Time {
	q := f.q
	if key != "aws:CurrentTime" && key != "aws:EpochTime" {
		return q.start
	}
	q.asked.timed = true
	if q.asked.arrived {
		return q.s.now()
	}
	return q.start
}

// FactList returns the values of a key that may have several: the keys of the tags in the request.
func (f facts) FactList(key string) (list []string) {
	if key == "s3:RequestObjectTagKeys" {
		for _, t := range f.tags() {
			list = append(list, t.Name)
		}
	}
	return list
}

func tagValue(tags []core.Attr, key string) (string, bool) {
	for _, t := range tags {
		if t.Name == key {
			return t.Value, true
		}
	}
	return "", false
}

// listing returns a parameter of a listing. The question whether a caller may know that a key does not exist is the
// question for a listing of at most one key, with this key as the prefix.
func (f facts) listing(name string) (string, bool) {
	q := f.q
	switch {
	case !q.asked.isProbe && name == "max-keys" && q.route.Name == "ListMultipartUploads":
		return present(q.query.get("max-uploads"))
	case !q.asked.isProbe && name == "max-keys":
		return present(q.query.get(name))
	case !q.asked.isProbe:
		return q.query.get(name)
	case name == "prefix":
		return q.asked.about.Prefix, true
	case name == "max-keys":
		return "1", true
	}
	return "", false
}

// present returns the value of a header or a parameter, which counts as absent if it is empty, as it does for the
// operations.
func present(v string, ok bool) (string, bool) {
	return v, ok && (v != "" || mutant.Is("empty-is-present"))
}

// header returns a header. The properties of an object that is uploaded in parts are those of its upload, except for the
// customer's key, which each part has. All objects are under the full control of the bucket's owner.
func (f facts) header(name string) (string, bool) {
	if strings.HasPrefix(name, "If-") { // a write takes all ETags, even if the header is repeated
		return joined(f.q.r.Header, name), len(f.q.r.Header[name]) > 0
	}
	if f.q.route.Name == "MoveObject" || f.q.route.Name == "RenameObject" {
		return f.moved(name)
	}
	if f.q.route.Sub != "uploadId" || strings.HasPrefix(name, sseHeader+"-") {
		return present(gate.Header(f.q.r, name))
	}
	if name == aclName {
		return "bucket-owner-full-control", true
	}
	if u := f.upload(); u != nil {
		v := core.AttrValue(u.Attrs, name)
		return v, v != ""
	}
	return "", false
}

// upload returns the upload that the request is about, or nil.
func (f facts) upload() *core.UploadInfo {
	q := f.q
	if q.route.Sub != "uploadId" || q.asked.looked {
		return q.asked.upload
	}
	q.asked.looked = true
	if id, err := q.uploadID(); err == nil {
		u, err := q.s.fs.Upload(q.ctx, q.bucket, q.key, id)
		if err != nil && !core.Is(err, core.NoSuchUpload) {
			q.asked.failure = err
		}
		if err == nil {
			q.asked.upload = u
		}
	}
	return q.asked.upload
}

// existing returns the tags of the version that the decision is about.
func (f facts) existing() []core.Attr {
	a := &f.q.asked
	if a.existing != nil && a.existing.of == a.about {
		return a.existing.tags
	}
	a.existing = &existingTags{of: a.about}
	o, err := f.stat()
	switch {
	case err == nil && o != nil && !o.Marker:
		a.existing.tags = o.Tags
	case err == nil, core.Is(err, core.NoSuchKey), core.Is(err, core.NoSuchVersion), core.Is(err, core.MethodNotAllowed),
		core.Is(err, core.NoSuchBucket):
	default:
		a.failure = err
	}
	return a.existing.tags
}

// stat returns the version that the decision is about, or nil if its ID is not valid.
func (f facts) stat() (*core.ObjectInfo, error) {
	q, r := f.q, &f.q.asked.about
	b := q.bucket
	if b == nil || b.Name != r.Bucket {
		var err error
		if b, err = q.s.fs.Bucket(q.ctx, r.Bucket); err != nil {
			return nil, err
		}
	}
	v, err := q.s.ids.parseVersion(r.Version, r.Version != "")
	if err != nil {
		return nil, nil
	}
	return q.s.fs.Stat(q.ctx, b, r.Key, v)
}

// tags returns the tags that the request sets. The tags of a copy that keeps those of its source are known only when the
// source is.
func (f facts) tags() []core.Attr {
	q := f.q
	switch {
	case q.asked.hasTags:
		return q.asked.tags
	case q.route.Name == "PutObjectTagging":
		var body tagging.Document
		if !f.document(&body) || body.Set == nil {
			return nil
		}
		return orNone(body.Set.OfObject())
	case q.route.Sub == "uploadId":
		if u := f.upload(); u != nil {
			return u.Tags
		}
		return nil
	case q.route.optional&headerTagging == 0:
		return nil
	case q.route.Header == copySourceName:
		if replace, err := directive(q.r.Header, taggingDirective); err != nil || !replace {
			return nil
		}
	}
	return orNone(tagging.ParseHeader(joined(q.r.Header, "X-Amz-Tagging")))
}

// orNone returns no tags if they are not valid: the operation will refuse them.
func orNone(tags []core.Attr, err error) []core.Attr {
	if err != nil {
		return nil
	}
	return tags
}

// document decodes the document in the body, and reports whether it is valid. If it is not, the operation will refuse
// it.
func (f facts) document(into any) bool {
	d := f.q.document()
	return d.err == nil && len(d.content) > 0 && xmldoc.Parse(d.content, into) == nil
}

// lock returns a property of the lock that the request sets.
func (f facts) lock(name string) (v string, ok bool) {
	switch f.q.route.Name {
	case "PutObjectRetention":
		var body retentionRequest
		if !f.document(&body) {
			return "", false
		}
		v = map[string]string{"object-lock-mode": body.Mode, "object-lock-retain-until-date": body.Until}[name]
	case "PutObjectLegalHold":
		var body legalHoldRequest
		if name == "object-lock-legal-hold" && f.document(&body) {
			v = body.Status
		}
	default:
		if u := f.upload(); u != nil {
			v = map[string]string{
				"object-lock-mode": modeName(u.Lock.Mode), "object-lock-legal-hold": holdName(u.Lock.Hold),
			}[name]
			if name == "object-lock-retain-until-date" && u.Lock.Mode != core.LockNone {
				v = u.Lock.Until.UTC().Format(time.RFC3339)
			}
		} else if f.q.route.optional&headerLock != 0 {
			return present(gate.Header(f.q.r, textproto.CanonicalMIMEHeaderKey("x-amz-"+name)))
		}
	}
	return v, v != ""
}

// remainingDays returns the number of days until the end of the retention period that the request sets. A part of a day
// counts as a day.
func (f facts) remainingDays() (string, bool) {
	text, ok := f.lock("object-lock-retain-until-date")
	until, err := time.Parse(time.RFC3339, text)
	if !ok || err != nil {
		return "", false
	}
	f.q.asked.timed = true
	const day = 24 * time.Hour
	return itoa(int64((until.Sub(f.q.s.fs.Now()) + day - 1) / day)), true
}

// moved returns a property of the object that a move has found. Before that, there is none.
func (f facts) moved(name string) (string, bool) {
	o := f.q.asked.moved
	if o == nil || mutant.Is("moves-have-no-properties") {
		return "", false
	}
	v := core.AttrValue(o.Attrs, name)
	return v, v != ""
}

// copySource returns the bucket and the key of the source of a copy or a move, without a slash at the beginning and
// without percent-encoding, so that a condition cannot be evaded with another form of the header, or with a move.
func (f facts) copySource() (string, bool) {
	q := f.q
	name := q.route.Header
	if q.route.Name == "RenameObject" {
		name = renameSourceName
	}
	v, ok := gate.Header(q.r, name)
	var src source
	var err error
	switch name {
	case renameSourceName:
		src, err = parseRenameSource(v, q.bucketName)
	case copySourceName, moveSourceName:
		src, err = q.s.ids.parseSource(v, name)
	default:
		return "", false
	}
	if err != nil || !ok {
		return v, ok
	}
	return src.bucket + "/" + src.key, true
}

// location returns the location constraint in the document of CreateBucket.
func (f facts) location() (string, bool) {
	var doc createBucketRequest
	if f.q.route.Name != "CreateBucket" || !f.document(&doc) {
		return "", false
	}
	return doc.Location, doc.Location != ""
}

func (f facts) tlsVersion() (string, bool) {
	if f.q.r.TLS == nil {
		return "", false
	}
	switch f.q.r.TLS.Version {
	case tls.VersionTLS12:
		return "1.2", true
	case tls.VersionTLS13:
		return "1.3", true
	}
	return "", false
}

// signature returns a fact about the signature, if there is one.
func (f facts) signature(name string) (string, bool) {
	a := f.q.auth
	switch {
	case a.Anonymous():
		return "", false
	case name == "signatureAge":
		if a.Time.IsZero() {
			return "", false // a URL that is presigned with version 2 does not contain the time of signing
		}
		return itoa(f.q.start.Sub(a.Time).Milliseconds()), true
	case name == "signatureversion":
		return a.Algorithm, true
	case a.Form:
		return "POST", true
	case a.Presigned:
		return "REST-QUERY-STRING", true
	}
	return "REST-HEADER", true
}

// confirm decides again about a version that has been opened, if the decision before depended on the tags of the version
// that was current then, and this one has others. In a second attempt, the tags of another object may have been looked
// up since that decision.
func (q *request) confirm(a auth.Action, r auth.Resource, o *core.ObjectInfo) error {
	e := q.asked.existing
	if e == nil || e.of == r && sameTags(e.tags, o.Tags) || mutant.Is("no-confirm") {
		return nil
	}
	e.of, e.tags = r, o.Tags
	return q.authorize(a, r)
}

func sameTags(a, b []core.Attr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// keepsTags decides about a new version that has the tags of an existing one: the source of a copy or a move. The caller
// must be allowed to read them there, to write them here, and to write a version that has them.
func (q *request) keepsTags(read auth.Action, from auth.Resource, tags []core.Attr) error {
	q.asked.hasTags, q.asked.tags = false, nil // of an earlier attempt
	if len(tags) == 0 {
		return nil
	}
	if err := q.authorize(read, from); err != nil {
		return err
	}
	q.asked.hasTags, q.asked.tags = true, tags
	if err := q.authorize(q.route.Action, q.resource()); err != nil {
		return err
	}
	return q.authorize("s3:PutObjectTagging", q.resource())
}

// conceal returns err, which reports that an object or a version does not exist, if the caller could find that out with
// a listing. Other callers get AccessDenied, as for an object that exists but that they may not read.
func (q *request) conceal(err error, b *core.BucketInfo, key string) error {
	q.asked.concealed = true
	r := bucketaccess.Resource(b)
	r.Prefix = key
	q.asked.isProbe = true
	denied := q.decide(lists, r)
	q.asked.isProbe = false
	if denied != nil {
		return denied
	}
	return err
}

// isAbsence reports whether an error tells the client that an object or a version does not exist.
func (q *request) isAbsence(err error) bool {
	e := toAPI(err)
	switch e.Code {
	case errNoSuchKey.Code, errNoSuchVersion.Code:
		return true
	case errMethodNotAllowed.Code: // a delete marker that the request has not named
		_, named := q.query.get("versionId")
		return !named && len(e.Headers) > 0
	}
	return false
}

// comparesObject reports whether the result of a write or a deletion depends on properties of the current version that
// only its readers may know. Whether there is one at all is not among them. An append shows the size and, combined with
// that of the new content, the checksum of the object.
func (q *request) comparesObject() bool {
	if m := q.r.Method; m == http.MethodGet || m == http.MethodHead || q.route.Level != gate.Object {
		return false
	}
	h := q.r.Header
	if v := joined(h, "If-Match"); v != "" && v != "*" { // all of them have an effect, so all of them count
		return true
	}
	return len(h["If-Modified-Since"]) > 0 || len(h["If-Unmodified-Since"]) > 0 || q.optional&(headerSame|headerAppend) != 0
}

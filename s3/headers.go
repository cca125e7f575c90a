package s3

import (
	"cmp"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/sigv4"
	"orcas/s3/apierr"
	"orcas/s3/sigv2"
)

// maxHeaderBytes is the maximum total size of the header names and values of a request, as in S3. It does not include
// the request line, which is long for a presigned URL. The total size that is read is limited by the HTTP server.
const maxHeaderBytes = 8 << 10

// checkHeaderSize refuses a header section that is too large.
func checkHeaderSize(h http.Header) error {
	n := 0
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	if n > maxHeaderBytes {
		return errHeadersTooLarge.With("MaxSizeAllowed", itoa(maxHeaderBytes))
	}
	return nil
}

// Limits on the headers that are stored with an object, in bytes.
const (
	maxMetadataBytes = 2 << 10 // user metadata: names without their prefix, and values
	maxRedirectBytes = 2 << 10
	maxContentHeader = 8 << 10
)

const (
	metaPrefix       = "X-Amz-Meta-"         // as in net/http
	metaStored       = "x-amz-meta-"         // as stored and sent back
	storageClassName = "X-Amz-Storage-Class" // core.StorageClassAttr
	redirectName     = "X-Amz-Website-Redirect-Location"
	standardClass    = "STANDARD"
	defaultType      = "binary/octet-stream"
)

// contentHeaders are the HTTP headers that are stored with an object.
var contentHeaders = [...]string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Expires",
}

// first returns the first value of a header, or "". The name must be in canonical form.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// joined returns all values of a header, joined by commas.
func joined(h http.Header, name string) string {
	v := h[name]
	if len(v) <= 1 {
		return first(h, name)
	}
	return strings.Join(v, ",")
}

// objectAttrs returns the headers that are stored with an object: contentHeaders, the storage class, the redirect, and
// user metadata.
func objectAttrs(h http.Header) ([]core.Attr, error) {
	var attrs []core.Attr
	for _, name := range contentHeaders {
		v := joined(h, name)
		if name == "Content-Encoding" {
			v = sigv4.StripAWSChunked(v)
		}
		if len(v) > maxContentHeader {
			return nil, errMetadataTooLarge.With("Size", itoa(int64(len(v)))).With("MaxSizeAllowed", itoa(maxContentHeader))
		}
		if v != "" {
			attrs = append(attrs, core.Attr{Name: name, Value: v})
		}
	}
	class, err := storageClass(h)
	if err != nil {
		return nil, err
	}
	if class != standardClass {
		attrs = append(attrs, core.Attr{Name: storageClassName, Value: class})
	}
	if v := first(h, redirectName); v != "" {
		if !validRedirect(v) {
			return nil, errInvalidRedirect
		}
		attrs = append(attrs, core.Attr{Name: redirectName, Value: v})
	}
	return appendMetadata(attrs, h)
}

// appendMetadata appends the user metadata of a request, sorted by name.
func appendMetadata(attrs []core.Attr, h http.Header) ([]core.Attr, error) {
	from, size := len(attrs), 0
	for name := range h {
		if len(name) <= len(metaPrefix) || !strings.EqualFold(name[:len(metaPrefix)], metaPrefix) {
			continue
		}
		v := joined(h, name)
		attrs = append(attrs, core.Attr{Name: strings.ToLower(name), Value: v})
		size += len(name) - len(metaPrefix) + len(v)
	}
	if size > maxMetadataBytes {
		return nil, errMetadataTooLarge.With("Size", itoa(int64(size))).With("MaxSizeAllowed", itoa(maxMetadataBytes))
	}
	slices.SortFunc(attrs[from:], func(a, b core.Attr) int { return strings.Compare(a.Name, b.Name) })
	return attrs, nil
}

// storageClass returns the storage class that a request asks for, STANDARD by default.
func storageClass(h http.Header) (string, error) {
	v := first(h, storageClassName)
	switch v {
	case "":
		return standardClass, nil
	case standardClass, "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER", "DEEP_ARCHIVE",
		"OUTPOSTS", "GLACIER_IR", "SNOW", "EXPRESS_ONEZONE", "FSX_OPENZFS", "FSX_ONTAP":
		return v, nil
	}
	return "", errInvalidStorage.With("StorageClassRequested", v)
}

func validRedirect(v string) bool {
	return len(v) <= maxRedirectBytes &&
		(strings.HasPrefix(v, "/") || strings.HasPrefix(v, "http://") || strings.HasPrefix(v, "https://"))
}

// classOf returns the storage class of an object.
func classOf(attrs []core.Attr) string {
	return cmp.Or(core.AttrValue(attrs, storageClassName), standardClass)
}

// setObjectHeaders sets the response headers of GET and HEAD that describe an object.
func setObjectHeaders(q *request, o *core.ObjectInfo, e *encryption) {
	q.set("Accept-Ranges", "bytes")
	q.set("Last-Modified", o.Modified.UTC().Format(http.TimeFormat))
	q.set("ETag", quote(o.ETag))
	q.setVersion(o.Version())
	setExpiration(q, o)
	typed := false
	for i := range o.Attrs {
		a := &o.Attrs[i]
		if a.Name == customerAttr {
			continue
		}
		typed = typed || a.Name == "Content-Type"
		q.set(a.Name, a.Value)
	}
	if e.Customer != nil {
		e.setHeaders(q)
	}
	if !typed {
		q.set("Content-Type", defaultType)
	}
	if n := len(o.Tags); n > 0 && q.may(q.ofVersion("s3:GetObjectTagging", "s3:GetObjectVersionTagging")) {
		q.set("X-Amz-Tagging-Count", itoa(int64(n)))
	}
	setLock(q, &o.Lock)
}

// setVersion sets the version ID in the response if versioning is, or has been, enabled for the bucket.
func (q *request) setVersion(v core.Version) {
	if v != core.Current && (v != core.Null || q.bucket.Versioning != core.VersioningOff) {
		q.set("X-Amz-Version-Id", q.s.ids.Version(v))
	}
}

// setNewVersion sets the ID of a newly written version in the response. S3 does not send the ID of a new null version,
// even if versioning is suspended.
func (q *request) setNewVersion(v core.Version) {
	if v != core.Null {
		q.setVersion(v)
	}
}

// overrides are the query parameters of GET and HEAD that override response headers.
var overrides = [...]struct{ param, header string }{
	{"response-cache-control", "Cache-Control"},
	{"response-content-disposition", "Content-Disposition"},
	{"response-content-encoding", "Content-Encoding"},
	{"response-content-language", "Content-Language"},
	{"response-content-type", "Content-Type"},
	{"response-expires", "Expires"},
}

// checkOverrides refuses the response-* parameters in a request that is not signed: anybody could have added them to the
// URL of a public object.
func checkOverrides(q *request) error {
	if !q.caller.IsAnonymous() {
		return nil
	}
	for _, o := range overrides {
		if _, ok := q.query.get(o.param); ok {
			return errInvalidRequest.Say("Request specific response headers cannot be used for anonymous GET requests.")
		}
	}
	return nil
}

// setOverrides applies the response-* parameters.
func setOverrides(q *request) {
	if len(q.query.params) == 0 {
		return
	}
	for _, o := range overrides {
		if v := q.query.value(o.param); v != "" {
			q.set(o.header, v)
		}
	}
}

// quote returns an ETag in quotes, as in HTTP.
func quote(etag string) string { return `"` + etag + `"` }

// hoistQuery turns the x-amz-* parameters of a presigned request into headers; with a signature of version 2, which
// covers them like headers, also content-type and content-md5. Checksums of the content are excluded:
// SDKs compute them from the empty body that they have when they sign, so S3 ignores them.
func (q *request) hoistQuery() {
	for _, p := range q.query.params {
		name := textproto.CanonicalMIMEHeaderKey(p.name)
		standard := q.auth.Algorithm == sigv2.Algorithm && (name == "Content-Type" || name == "Content-Md5")
		if !standard && (len(p.name) < 6 || !strings.EqualFold(p.name[:6], "x-amz-")) {
			continue
		}
		switch name {
		case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Signedheaders", "X-Amz-Signature",
			"X-Amz-Security-Token", "X-Amz-Content-Sha256", "X-Amz-Sdk-Checksum-Algorithm", "X-Amz-Trailer":
			continue
		}
		if _, isSum := checksum.FromHeader(name); isSum {
			continue
		}
		if _, present := q.r.Header[name]; !present {
			q.r.Header[name] = []string{p.value}
		}
	}
}

// checkHeaders refuses unimplemented headers that would change the meaning of the request.
func (q *request) checkHeaders() error {
	for name, values := range q.r.Header {
		if len(name) < 6 || len(values) == 0 {
			continue
		}
		var err error
		switch {
		case q.route.optional != 0 && q.takes(name):
		case name == attributesHeader && q.route.Sub != "attributes":
			err = apierr.UnservedHeader(name)
		case name == aclName || strings.HasPrefix(name, grantPrefix):
			err = q.checkACLHeader(name, values[0])
		case isEncryptionHeader(name):
			err = q.checkEncryptionHeader(name, values[0])
		case strings.HasPrefix(name, "X-Amz-"):
			err = checkAmzHeader(name, values[0])
		case strings.HasPrefix(name, "If-"):
			err = q.route.checkCondition(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unsupported are the prefixes of S3 headers that are refused, except by operations that accept them.
var unsupported = [...]string{
	"X-Amz-Object-Lock-", "X-Amz-Rename-",
	"X-Amz-Move-", "X-Amz-If-", "X-Amz-Fwd-", "X-Amz-Instant-",
}

func checkAmzHeader(name, value string) error {
	switch name {
	case "X-Amz-Date", "X-Amz-Content-Sha256": // by far the most common
		return nil
	case "X-Amz-Bucket-Object-Lock-Enabled":
		if strings.EqualFold(value, "false") {
			return nil
		}
		return apierr.UnservedHeader(name)
	case "X-Amz-Tagging", "X-Amz-Bypass-Governance-Retention", "X-Amz-Mfa", "X-Amz-Write-Offset-Bytes", "X-Amz-Create-Session-Mode",
		"X-Amz-Client-Token", "X-Amz-Bucket-Namespace", "X-Amz-Bucket-Object-Lock-Token":
		return apierr.UnservedHeader(name)
	}
	for _, p := range unsupported {
		if strings.HasPrefix(name, p) {
			return apierr.UnservedHeader(name)
		}
	}
	return nil
}

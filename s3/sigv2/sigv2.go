// Package sigv2 verifies AWS Signature Version 2 as used by S3, which boto3 and aws-cli still use for presigned URLs
// unless they are told otherwise. It depends on net/http, but not on buckets or stores.
//
// The signature is the HMAC-SHA1, in base64, of the string to sign, with the secret key:
//
//		METHOD \n Content-MD5 \n Content-Type \n date \n "name:value\n" for each x-amz-* header, sorted \n resource
//
//	  - In a presigned URL, the date is the parameter Expires: the end of validity in seconds since 1970. In the
//	    Authorization header, it is the Date header, or empty if there is an x-amz-date header, which is signed as well.
//	  - The parameters x-amz-*, content-type and content-md5 of a presigned URL stand for the headers that they are named
//	    for, if the request does not have these headers.
//	  - The resource is "/", the bucket, and the path as it was sent, without decoding; then "?" and, sorted by name, the
//	    parameters that select an operation or a version, or that override response headers, with their decoded values.
//
// The signature covers neither the body nor other parameters (such as the prefix of a listing) nor other headers. The
// fields cannot be confused with each other, because Verify refuses line breaks in headers that come from parameters,
// and because each scheme accepts a different form of date.
package sigv2

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // defined by the protocol; HMAC-SHA1 is not affected by collisions
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/internal/sigv4"
)

// Algorithm is the value of sigv4.Auth.Algorithm for requests with this signature, and the scheme of the Authorization
// header.
const Algorithm = "AWS"

// Mode specifies where signatures of version 2 are accepted.
type Mode string

// The modes. The zero Mode is the same as Off.
const (
	Off       Mode = "off"
	Presigned Mode = "presigned" // in the query
	All       Mode = "all"       // in the query, in the Authorization header, and in HTML forms
)

// Verifier verifies signatures of version 2. It is safe for concurrent use. Its fields must not be changed after its
// first use.
type Verifier struct {
	Mode Mode
	Skew time.Duration    // maximum clock skew of a client; 0 means sigv4.DefaultSkew
	Now  func() time.Time // the clock; time.Now if nil

	// HostBucket returns the bucket in the Host header of a virtual-host style request, or "". If it is nil, there are
	// no such requests.
	HostBucket func(r *http.Request) string

	// Subresource reports whether a query parameter selects an operation. These parameters are part of the string to
	// sign, in addition to those that all clients sign. So no parameter that is not signed can change the operation.
	Subresource func(name string) bool

	// Lookup has the same duties as sigv4.Verifier.Lookup.
	Lookup func(ctx context.Context, accessKey, token string) (sigv4.Credential, error)

	bodies sigv4.Bodies
}

// The parameters of a presigned URL.
const (
	queryAccessKey = "AWSAccessKeyId"
	queryExpires   = "Expires"
	querySignature = "Signature"
)

// maxEcho is the longest string to sign that an error contains, in bytes.
const maxEcho = 8 << 10

// claim is the signature of a request before it is verified.
type claim struct {
	presigned            bool
	accessKey, signature string
	date                 string // the date as it is signed
	params               []param
	headers              []param // the signed x-amz-* headers, sorted by name
}

// param is a name and a value. If bare is set, there was no "=" between them.
type param struct {
	name, value string
	bare        bool
}

// Verify authenticates the sender of r if r has a signature of version 2 in a place that v.Mode allows. It does not
// read the body; Auth.Body returns the content.
//
// Any error means that the request is denied. It is a *sigv4.Error unless it comes from Lookup. For a request without
// such a signature, Verify returns sigv4.ErrAnonymous and no Auth.
func (v *Verifier) Verify(r *http.Request) (*sigv4.Auth, error) {
	inHeader, inQuery := v.finds(r)
	if !inHeader && !inQuery {
		return nil, sigv4.ErrAnonymous
	}
	path, err := sigv4.Path(r)
	if err != nil {
		return nil, err
	}
	c := claim{presigned: inQuery}
	if c.params, err = parseQuery(r.URL.RawQuery); err != nil {
		return nil, err
	}
	if inQuery {
		err = c.parsePresigned(r.Header)
	} else {
		err = c.parseHeader(r.Header)
	}
	if err != nil {
		return nil, err
	}
	if err := v.checkOverrides(c.params); err != nil {
		return nil, err
	}
	a, err := v.bodies.Auth(r.Header)
	if err != nil {
		return nil, err
	}
	a.AccessKey, a.Algorithm, a.Presigned = c.accessKey, Algorithm, c.presigned
	if err := v.checkTime(a, &c, r.Header); err != nil {
		return nil, err
	}
	if err := c.signedHeaders(r.Header); err != nil {
		return nil, err
	}
	if err := v.checkSignature(a, r, path, &c); err != nil {
		return nil, err
	}
	return a, nil
}

// VerifyForm authenticates the sender of an HTML form by its fields, if v.Mode is All. It has the same duties as
// sigv4.Verifier.VerifyForm. A form of version 2 does not contain the time of signing.
func (v *Verifier) VerifyForm(ctx context.Context, field func(string) string) (*sigv4.Auth, error) {
	c := claim{accessKey: field("awsaccesskeyid"), signature: field("signature")}
	policy := field("policy")
	switch {
	case v.Mode != All || c.accessKey == "" && c.signature == "":
		return nil, sigv4.ErrAnonymous
	case field("x-amz-algorithm") != "" || field("x-amz-credential") != "" || field("x-amz-signature") != "":
		return nil, errTwoMechanisms()
	}
	for _, f := range [...]param{{name: "AWSAccessKeyId", value: c.accessKey}, {name: "Signature", value: c.signature}, {name: "policy", value: policy}} {
		if f.value == "" {
			e := refuse(sigv4.InvalidArgument, "Bucket POST must contain a field named '"+f.name+
				"'.  If it is specified, please check the order of the fields.")
			e.Details = []sigv4.Detail{{Name: "ArgumentName", Value: f.name}}
			return nil, e
		}
	}
	token := field("x-amz-security-token")
	cred, err := v.Lookup(ctx, c.accessKey, token)
	if err != nil {
		return nil, err
	}
	right := matches(c.signature, cred.SecretKey, policy)
	switch {
	case cred.SecretKey == "":
		return nil, sigv4.UnknownAccessKey(c.accessKey)
	case !right:
		return nil, c.mismatch(policy)
	}
	a := &sigv4.Auth{
		AccessKey: c.accessKey, Algorithm: Algorithm, Form: true, Mode: sigv4.PayloadUnsigned, SecurityToken: token,
	}
	a.Accept(cred)
	return a, nil
}

// finds reports where r has credentials of version 2, among the places that are allowed. Credentials in other places
// are left to sigv4, which refuses them.
func (v *Verifier) finds(r *http.Request) (inHeader, inQuery bool) {
	if v.Mode != Presigned && v.Mode != All {
		return false, false
	}
	inQuery = strings.Contains(r.URL.RawQuery, queryAccessKey) && hasParameter(r.URL.RawQuery, queryAccessKey)
	header := r.Header["Authorization"]
	inHeader = v.Mode == All && len(header) == 1 && strings.HasPrefix(header[0], Algorithm+" ")
	return inHeader, inQuery
}

// hasParameter reports whether a raw query has a parameter whose name is not encoded.
func hasParameter(raw, name string) bool {
	for pair := range strings.SplitSeq(raw, "&") {
		if n, _, _ := strings.Cut(pair, "="); n == name {
			return true
		}
	}
	return false
}

// parseQuery decodes a query, in the same way as the handler of the request does.
func parseQuery(raw string) (params []param, err error) {
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, hasValue := strings.Cut(pair, "=")
		p := param{bare: !hasValue}
		if p.name, err = url.QueryUnescape(name); err == nil {
			p.value, err = url.QueryUnescape(value)
		}
		if err != nil {
			return nil, refuse(sigv4.InvalidURI, "Couldn't parse the specified URI.")
		}
		params = append(params, p)
	}
	return params, nil
}

// parsePresigned reads the claim from the query.
func (c *claim) parsePresigned(h http.Header) error {
	if v := h["Authorization"]; len(v) > 1 || len(v) == 1 && v[0] != "" {
		return errTwoMechanisms()
	}
	found := 0
	for _, p := range c.params {
		switch p.name {
		case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature":
			return errTwoMechanisms()
		case queryAccessKey:
			c.accessKey = p.value
		case querySignature:
			c.signature = p.value
		case queryExpires:
			c.date = p.value
		default:
			continue
		}
		found++
	}
	if found != 3 || c.accessKey == "" || c.signature == "" || c.date == "" {
		return refuse(sigv4.AccessDenied, "Query-string authentication requires the Signature, Expires and AWSAccessKeyId "+
			"parameters, each once.")
	}
	return nil
}

// parseHeader reads the claim from the Authorization header.
func (c *claim) parseHeader(h http.Header) error {
	for _, p := range c.params {
		switch p.name {
		case "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", queryAccessKey:
			return errTwoMechanisms()
		}
	}
	text := strings.TrimSpace(h["Authorization"][0][len(Algorithm)+1:])
	i := strings.LastIndexByte(text, ':')
	if i <= 0 || i == len(text)-1 {
		// There is no ArgumentValue, because it may be a secret.
		e := refuse(sigv4.InvalidArgument, "AWS authorization header is invalid.  Expected AwsAccessKeyId:signature")
		e.Details = []sigv4.Detail{{Name: "ArgumentName", Value: "Authorization"}}
		return e
	}
	c.accessKey, c.signature = text[:i], text[i+1:]
	return nil
}

// checkTime checks that a presigned URL is valid at this time, or that the date of another request is close to it.
func (v *Verifier) checkTime(a *sigv4.Auth, c *claim, h http.Header) error {
	now, skew := time.Now(), cmp.Or(v.Skew, sigv4.DefaultSkew)
	if v.Now != nil {
		now = v.Now()
	}
	if c.presigned {
		return checkExpiry(a, c.date, now, skew)
	}
	date, amz := h["Date"], h["X-Amz-Date"]
	if len(amz) > 0 {
		date = amz
	}
	var err error
	if len(date) != 1 {
		err = refuse(sigv4.AccessDenied, "")
	} else {
		a.Time, err = parseDate(date[0])
	}
	if err != nil {
		return refuse(sigv4.AccessDenied, "AWS authentication requires a valid Date or x-amz-date header")
	}
	if len(amz) == 0 {
		c.date = strings.TrimSpace(date[0])
	}
	if d := now.Sub(a.Time); d > skew || d < -skew {
		e := refuse(sigv4.RequestTimeTooSkewed, "The difference between the request time and the current time is too large.")
		e.Details = []sigv4.Detail{
			{Name: "RequestTime", Value: date[0]}, {Name: "ServerTime", Value: format(now)},
			{Name: "MaxAllowedSkewMilliseconds", Value: strconv.FormatInt(skew.Milliseconds(), 10)},
		}
		return e
	}
	return nil
}

// checkExpiry checks that a presigned URL has not expired, and that it expires within sigv4.MaxExpires. A URL of
// version 2 does not contain the time of signing.
func checkExpiry(a *sigv4.Auth, expires string, now time.Time, skew time.Duration) error {
	seconds, err := strconv.ParseUint(expires, 10, 40)
	if err != nil || expires != strconv.FormatUint(seconds, 10) {
		return refuse(sigv4.AccessDenied, "Invalid date (should be seconds since epoch): "+expires)
	}
	a.Expires = time.Unix(int64(seconds), 0).UTC()
	switch {
	case now.After(a.Expires):
		e := refuse(sigv4.AccessDenied, "Request has expired")
		e.Details = []sigv4.Detail{{Name: "Expires", Value: format(a.Expires)}, {Name: "ServerTime", Value: format(now)}}
		return e
	case a.Expires.Sub(now) > sigv4.MaxExpires+skew:
		e := refuse(sigv4.AuthorizationQueryParametersError, "Expires must be at most a week (604800 seconds) in the future.")
		e.Details = []sigv4.Detail{{Name: "Expires", Value: format(a.Expires)}, {Name: "ServerTime", Value: format(now)}}
		return e
	}
	return nil
}

// parseDate parses the date of a request in any of the forms that clients of version 2 send.
func parseDate(text string) (time.Time, error) {
	text = strings.TrimSpace(text)
	for _, layout := range [...]string{time.RFC1123Z, "20060102T150405Z"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	t, err := http.ParseTime(text)
	return t.UTC(), err
}

// format formats a time for the details of errors.
func format(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// signedHeaders determines the x-amz-* headers in the string to sign.
func (c *claim) signedHeaders(h http.Header) error {
	for key, values := range h {
		name := strings.ToLower(key)
		if !strings.HasPrefix(name, "x-amz-") {
			continue
		}
		trimmed := make([]string, len(values))
		for i, v := range values {
			trimmed[i] = strings.TrimSpace(v)
		}
		c.headers = append(c.headers, param{name: name, value: strings.Join(trimmed, ",")})
	}
	if c.presigned {
		sent := len(c.headers)
		for _, p := range c.params {
			name := strings.ToLower(p.name)
			standard := name == "content-type" || name == "content-md5"
			if !standard && !strings.HasPrefix(name, "x-amz-") {
				continue
			}
			if !isHeader(name, p.value) || c.repeats(name) {
				e := refuse(sigv4.InvalidArgument, "The parameter "+name+" cannot be used as a header, or is repeated.")
				e.Details = []sigv4.Detail{{Name: "ArgumentName", Value: name}}
				return e
			}
			replaced := slices.ContainsFunc(c.headers[:sent], func(h param) bool { return h.name == name })
			if !standard && !replaced {
				c.headers = append(c.headers, param{name: name, value: strings.TrimSpace(p.value)})
			}
		}
	}
	slices.SortFunc(c.headers, func(a, b param) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(c.headers); i++ {
		if c.headers[i].name == c.headers[i-1].name {
			return refuse(sigv4.InvalidArgument, "The header "+c.headers[i].name+" must not be repeated.")
		}
	}
	return nil
}

// repeats reports whether the query has several parameters of this lower-case name.
func (c *claim) repeats(name string) bool {
	n := 0
	for _, p := range c.params {
		if strings.EqualFold(p.name, name) {
			n++
		}
	}
	return n > 1
}

// isHeader reports whether HTTP allows a header with this lower-case name and this value.
func isHeader(name, value string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.!#$%&'*+^`|~") == "" &&
		!strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// header returns the value of Content-MD5 or Content-Type, whose name is in canonical form, as it is signed.
func (c *claim) header(h http.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return strings.TrimSpace(strings.Join(v, ","))
	}
	if c.presigned {
		for _, p := range c.params {
			if strings.EqualFold(p.name, key) {
				return strings.TrimSpace(p.value)
			}
		}
	}
	return ""
}

// checkSignature computes the signature of r and compares it with the claimed one. If there is an error, a stays
// without a holder.
func (v *Verifier) checkSignature(a *sigv4.Auth, r *http.Request, path string, c *claim) error {
	for _, h := range c.headers {
		if h.name == "x-amz-security-token" {
			a.SecurityToken = h.value
		}
	}
	cred, err := v.Lookup(r.Context(), c.accessKey, a.SecurityToken)
	if err != nil {
		return err
	}
	bucket := ""
	if v.HostBucket != nil {
		bucket = v.HostBucket(r)
	}
	resource := r.URL.EscapedPath()
	if bucket != "" {
		resource = "/" + bucket + resource
	}
	text := v.stringToSign(r, c, resource)
	right := matches(c.signature, cred.SecretKey, text)
	if _, key := sigv4.Split(path); !right && bucket == "" && key == "" && len(path) > 1 && !strings.HasSuffix(path, "/") {
		// Some clients, such as botocore, sign the path of a bucket with a slash at the end, but send it without one.
		right = matches(c.signature, cred.SecretKey, v.stringToSign(r, c, resource+"/"))
	}
	switch {
	case cred.SecretKey == "":
		return sigv4.UnknownAccessKey(c.accessKey)
	case !right:
		return c.mismatch(text)
	}
	a.Accept(cred)
	return nil
}

// matches reports whether signature is the signature of text, in a time that does not depend on the signature.
func matches(signature, secretKey, text string) bool {
	mac := hmac.New(sha1.New, []byte(secretKey))
	mac.Write([]byte(text))
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return subtle.ConstantTimeCompare([]byte(signature), []byte(want)) == 1
}

// stringToSign returns the string to sign of a request for a resource.
func (v *Verifier) stringToSign(r *http.Request, c *claim, resource string) string {
	var b strings.Builder
	for _, field := range [...]string{r.Method, c.header(r.Header, "Content-Md5"), c.header(r.Header, "Content-Type"), c.date} {
		b.WriteString(field + "\n")
	}
	for _, h := range c.headers {
		b.WriteString(h.name + ":" + h.value + "\n")
	}
	b.WriteString(resource)
	var signed []param
	for _, p := range c.params {
		if v.isSigned(p.name) {
			signed = append(signed, p)
		}
	}
	slices.SortStableFunc(signed, func(a, b param) int { return strings.Compare(a.name, b.name) })
	for i, p := range signed {
		b.WriteByte("?&"[min(i, 1)])
		b.WriteString(p.name)
		if !p.bare {
			b.WriteString("=" + p.value)
		}
	}
	return b.String()
}

// checkOverrides refuses parameters that override response headers, except in a request for an object or one of its
// versions. Values are signed after decoding, so the signature for the parameter response-content-disposition with the
// value "x&tagging" is also one for two parameters. Someone who chooses the file name in a URL that is signed for him
// must not be able to choose another operation.
func (v *Verifier) checkOverrides(params []param) error {
	overrides, selects := false, false
	for _, p := range params {
		switch {
		case strings.HasPrefix(p.name, "response-"):
			overrides = true
		case p.name != "versionId" && p.name != "partNumber" && v.isSigned(p.name):
			selects = true
		}
	}
	if overrides && selects {
		return refuse(sigv4.InvalidRequest, "A URL with a signature of version 2 can override response headers only of "+
			"GetObject and HeadObject.")
	}
	return nil
}

// isSigned reports whether a query parameter is part of the string to sign.
func (v *Verifier) isSigned(name string) bool {
	return isSigned(name) || v.Subresource != nil && v.Subresource(name) && name != "list-type"
}

// isSigned reports whether clients include a query parameter in the string to sign. list-type is not among them: it
// determines only the format of a listing.
func isSigned(name string) bool {
	switch name {
	case "accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory", "lifecycle", "location", "logging",
		"metrics", "notification", "object-lock", "partNumber", "policy", "replication", "requestPayment", "restore", "select",
		"select-type", "storageClass", "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning", "versions",
		"website",
		"response-cache-control", "response-content-disposition", "response-content-encoding", "response-content-language",
		"response-content-type", "response-expires":
		return true
	}
	return false
}

// mismatch returns the error for a wrong signature. It includes the string to sign, which is computed from the request
// alone, unless that contains a key or a token.
func (c *claim) mismatch(text string) error {
	e := refuse(sigv4.SignatureDoesNotMatch,
		"The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	e.Details = []sigv4.Detail{{Name: "AWSAccessKeyId", Value: c.accessKey}}
	secret := slices.ContainsFunc(c.headers, func(h param) bool {
		return strings.Contains(h.name, "customer-key") || strings.Contains(h.name, "security-token")
	})
	if secret || len(text) > maxEcho {
		return e
	}
	e.Details = append(e.Details, sigv4.Detail{Name: "StringToSign", Value: text},
		sigv4.Detail{Name: "SignatureProvided", Value: c.signature},
		sigv4.Detail{Name: "StringToSignBytes", Value: strings.TrimSpace(spaced(text))})
	return e
}

// spaced returns s in hexadecimal, with a space after each byte.
func spaced(s string) string {
	out := make([]byte, 0, 3*len(s))
	for i := range len(s) {
		out = append(hex.AppendEncode(out, []byte{s[i]}), ' ')
	}
	return string(out)
}

func errTwoMechanisms() error {
	e := refuse(sigv4.InvalidArgument, "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "+
		"Signature query string parameter or the Authorization header should be specified")
	e.Details = []sigv4.Detail{{Name: "ArgumentName", Value: "Authorization"}}
	return e
}

func refuse(code sigv4.Code, message string) *sigv4.Error {
	return &sigv4.Error{Code: code, Message: message}
}

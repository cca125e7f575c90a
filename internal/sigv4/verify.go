package sigv4

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verifier verifies the signatures of requests to one service. It is safe for concurrent use. Its fields must not be
// changed after its first use.
type Verifier struct {
	Service   string        // service that requests are signed for; "" means s3
	Payload   PayloadRule   // source of the signed hash of the payload
	Region    string        // region that requests are signed for
	AnyRegion bool          // accept any other region, too
	Skew      time.Duration // maximum clock skew of a client; 0 means DefaultSkew

	Now func() time.Time // the clock; time.Now if nil

	// Lookup returns the Credential of an access key, which the request presents with a session token, or with "". If the
	// key is unknown, it returns one without a secret. It is called once per request, or twice with PayloadFromBody, with
	// the context of the request, before the signature is verified. Verify returns its errors unchanged.
	Lookup func(ctx context.Context, accessKey, token string) (Credential, error)

	keys    keyCache
	scratch scratchPool
	bodies  Bodies
}

// Credential is the secret and the holder of an access key.
type Credential struct {
	SecretKey string // "" if the access key is unknown
	Holder    any    // holder of the access key, copied to Auth.Holder
}

// PayloadRule is the source of the hash of the payload in the canonical request.
type PayloadRule uint8

// The rules.
const (
	PayloadFromHeader PayloadRule = iota // x-amz-content-sha256, which S3 requires; it also selects the PayloadMode
	PayloadFromBody                      // the SHA-256 of the body, for services that do not require that header
)

// MaxSignedBody is the size in bytes of the largest body that Verify accepts under PayloadFromBody. Verify reads the
// whole body into memory.
const MaxSignedBody = 1 << 20

// The parameters of a presigned URL.
const (
	queryAlgorithm     = "X-Amz-Algorithm"
	queryCredential    = "X-Amz-Credential"
	queryDate          = "X-Amz-Date"
	queryExpires       = "X-Amz-Expires"
	querySignedHeaders = "X-Amz-SignedHeaders"
	querySignature     = "X-Amz-Signature"
	querySHA256        = "X-Amz-Content-Sha256"
	queryToken         = "X-Amz-Security-Token"
	queryV2            = "AWSAccessKeyId"
)

// claim holds the parameters of the signature of a request, before they are verified.
type claim struct {
	presigned                         bool
	accessKey, day, region, scope     string // parts of the credential; scope is all of it except the access key
	credential, signedHeaders         string
	signature, date, expires, payload string
	algorithm, token                  string
	repeated                          bool // a parameter of the signature is repeated
	v2                                bool // the query has a signature of version 2
}

// Verify authenticates the sender of r by its Authorization header or its query. Under PayloadFromHeader it does not
// read the body. Under PayloadFromBody it reads all of the body and replaces it by a copy. In either case, Auth.Body
// returns the content.
//
// Any error means that the request is denied. It is an *Error unless it comes from Lookup. For a request without
// credentials it is ErrAnonymous, which is the only error that is returned with an Auth that is not nil.
func (v *Verifier) Verify(r *http.Request) (*Auth, error) {
	path, err := Path(r)
	if err != nil {
		return nil, err
	}
	s := v.scratch.get()
	defer v.scratch.put(s)
	var c claim
	if !s.parseQuery(r.URL.RawQuery, &c) {
		return nil, newError(InvalidURI, "Couldn't parse the specified URI.")
	}
	header := r.Header["Authorization"]
	if len(header) == 1 && header[0] == "" {
		header = nil // S3 treats an empty header as absent
	}
	switch {
	case len(header) > 1 || len(header) == 1 && (c.presigned || c.v2):
		return nil, newError(InvalidArgument, "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "+
			"Signature query string parameter or the Authorization header should be specified").with("ArgumentName", "Authorization")
	case c.v2:
		return nil, errVersion2()
	case len(header) == 0 && !c.presigned:
		return v.anonymous(r)
	case len(header) == 1:
		err = c.parseHeader(r.Header, header[0], v.service())
	default:
		err = c.parsePresigned(v.service())
	}
	if err != nil {
		return nil, err
	}
	return v.verify(r, path, s, &c)
}

// ClaimedService returns the service in the scope that a request claims to be signed for, in its Authorization header or
// its query. It returns "" if there is none. The claim is not verified: it selects the Verifier that does so.
func ClaimedService(r *http.Request) string {
	credential := ""
	if h := r.Header["Authorization"]; len(h) > 0 && h[0] != "" {
		_, rest, _ := strings.Cut(h[0], "Credential=")
		credential, _, _ = strings.Cut(rest, ",")
	} else if strings.Contains(r.URL.RawQuery, queryCredential) {
		credential = r.URL.Query().Get(queryCredential)
	}
	rest, _, _ := cutLast(strings.TrimSpace(credential))
	rest, service, ok := cutLast(rest)
	if strings.Count(rest, "/") < 2 || !ok {
		return ""
	}
	return service
}

// service returns the service that requests are signed for.
func (v *Verifier) service() string {
	return cmp.Or(v.Service, serviceS3)
}

// anonymous returns the Auth of a request without credentials.
func (v *Verifier) anonymous(r *http.Request) (*Auth, error) {
	if v.Payload == PayloadFromBody {
		return &Auth{decoders: &v.bodies.decoders, Mode: PayloadUnsigned}, ErrAnonymous
	}
	a, err := v.bodies.Auth(r.Header)
	if err != nil {
		return nil, err
	}
	return a, ErrAnonymous
}

// Bodies decodes the bodies of requests that have no signature of version 4. It is safe for concurrent use.
type Bodies struct{ decoders decoderPool }

// Auth returns an anonymous Auth, with the mode of the body from the headers of a request. Packages that verify other
// signatures set the exported fields that describe the sender. Its errors are *Error: x-amz-content-sha256 is invalid,
// or announces signed chunks, which only a signature of version 4 can precede.
func (b *Bodies) Auth(h http.Header) (*Auth, error) {
	a := &Auth{decoders: &b.decoders}
	payload, err := single(h, "X-Amz-Content-Sha256")
	if err == nil {
		err = a.setPayload(payload, "UNSIGNED-PAYLOAD")
	}
	if err == nil && a.Mode.signed() {
		err = newError(AccessDenied, "A body with signed chunks requires a request with a signature of version 4.")
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// verify verifies the claim c of the request r. All parts of c must be present.
func (v *Verifier) verify(r *http.Request, path string, s *scratch, c *claim) (*Auth, error) {
	a := &Auth{
		AccessKey: c.accessKey, Algorithm: algorithm, Presigned: c.presigned, Region: c.region, scope: c.scope, date: c.date,
		decoders: &v.bodies.decoders,
	}
	if err := v.checkTime(a, c); err != nil {
		return nil, err
	}
	if c.region != v.Region && !v.AnyRegion {
		return nil, c.malformed("the region '"+c.region+"' is wrong; expecting '"+v.Region+"'").with("Region", v.Region)
	}
	var err error
	if v.Payload == PayloadFromHeader {
		err = a.checkPayload(r.Header, c)
	}
	if err == nil {
		err = checkSignedHeaders(c)
	}
	if err != nil {
		return nil, err
	}
	if a.SecurityToken, err = single(r.Header, queryToken); err != nil {
		return nil, err
	}
	if c.presigned && c.token != "" {
		if a.SecurityToken != "" && a.SecurityToken != c.token {
			return nil, newError(InvalidArgument, "x-amz-security-token differs between the header and the query.").
				with("ArgumentName", "x-amz-security-token")
		}
		a.SecurityToken = c.token
	}
	if v.Payload == PayloadFromBody {
		// Strangers must not be able to keep the server waiting for bodies.
		if cred, err := v.Lookup(r.Context(), c.accessKey, a.SecurityToken); err != nil {
			return nil, err
		} else if cred.SecretKey == "" {
			return nil, UnknownAccessKey(c.accessKey)
		}
		if err := a.readPayload(r, c); err != nil {
			return nil, err
		}
	}
	if err := v.checkSignature(a, r, path, s, c); err != nil {
		return nil, err
	}
	return a, nil
}

// checkSignature computes the signature of r and compares it with the claimed one.
func (v *Verifier) checkSignature(a *Auth, r *http.Request, path string, s *scratch, c *claim) error {
	cred, err := v.Lookup(r.Context(), c.accessKey, a.SecurityToken)
	if err != nil {
		return err
	}
	secret, known := cred.SecretKey, cred.SecretKey != ""
	scope := keyScope{c.accessKey, c.day, c.region}
	if !known {
		scope.accessKey = "" // continue with an invalid key, so an unknown access key takes as long as a wrong signature
	}
	var cached bool
	if a.key, cached = v.keys.get(scope, secret); !cached {
		a.key = signingKey(secret, c.day, c.region, v.service())
	}
	without := ""
	if c.presigned {
		without = querySignature
	}
	s.sortPairs()
	amz, complete := s.signature(&a.seed, r, path, without, c.signedHeaders, c.payload, a.date, c.scope, &a.key)
	var given [len(a.seed)]byte
	copy(given[:], c.signature)
	right := subtle.ConstantTimeCompare(given[:], a.seed[:]) == 1 && len(c.signature) == len(given) && complete
	if !cached && (right && known || !known && c.region == v.Region) {
		v.keys.put(scope, secret, a.key)
	}
	switch {
	case !known:
		return UnknownAccessKey(c.accessKey)
	case !right:
		return s.mismatch(r, path, without, a.date, c)
	case amz != countAmz(r.Header):
		return newError(AccessDenied, "There were headers present in the request which were not signed").
			with("HeadersNotSigned", notSigned(r.Header, c.signedHeaders))
	}
	a.Accept(cred)
	return nil
}

// parameter records a query parameter if it belongs to the signature.
func (c *claim) parameter(name []byte, raw string) {
	if len(name) == 0 || name[0] != 'X' && name[0] != 'A' {
		return
	}
	var field *string
	switch string(name) {
	case queryAlgorithm:
		field = &c.algorithm
	case queryCredential:
		field = &c.credential
	case queryDate:
		field = &c.date
	case queryExpires:
		field = &c.expires
	case querySignedHeaders:
		field = &c.signedHeaders
	case querySignature:
		field = &c.signature
	case querySHA256:
		field = &c.payload
	case queryToken:
		field = &c.token
	case queryV2:
		c.v2 = true
		return
	default:
		return
	}
	// A date, a payload or a token alone does not make a request presigned.
	if field != &c.date && field != &c.payload && field != &c.token {
		c.presigned = true
	}
	c.repeated = c.repeated || *field != ""
	*field, _ = url.QueryUnescape(raw) // parseQuery rejects invalid escapes
}

// parseHeader reads the claim from an Authorization header. It discards the parameters that were read from the query.
func (c *claim) parseHeader(h http.Header, text, service string) error {
	*c = claim{}
	kind, rest, _ := strings.Cut(strings.Trim(text, " "), " ")
	switch {
	case kind == algorithm:
	case kind == "AWS":
		return errVersion2()
	case strings.HasPrefix(kind, "AWS4-"):
		return newError(NotImplemented, "The only signing algorithm supported is AWS4-HMAC-SHA256.")
	default:
		// There is no ArgumentValue, because it may be a password.
		return newError(InvalidArgument, "Unsupported Authorization Type").with("ArgumentName", "Authorization")
	}
	for rest != "" {
		var field string
		field, rest, _ = strings.Cut(rest, ",")
		name, value, _ := strings.Cut(strings.Trim(field, " "), "=")
		var target *string
		switch name {
		case "Credential":
			target = &c.credential
		case "SignedHeaders":
			target = &c.signedHeaders
		case "Signature":
			target = &c.signature
		}
		if target == nil || *target != "" || value == "" {
			return c.malformed("it must have the form \"AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=...\"")
		}
		*target = value
	}
	if c.credential == "" || c.signedHeaders == "" || c.signature == "" {
		return c.malformed("Credential, SignedHeaders and Signature are all required")
	}
	if err := c.parseCredential(service); err != nil {
		return err
	}
	var err error
	c.date, err = single(h, "X-Amz-Date")
	if err == nil && c.date == "" {
		c.date, err = single(h, "Date")
	}
	return err
}

// parsePresigned completes the claim that was read from the query.
func (c *claim) parsePresigned(service string) error {
	if c.repeated || c.algorithm == "" || c.credential == "" || c.signature == "" || c.date == "" || c.signedHeaders == "" || c.expires == "" {
		return newError(AuthorizationQueryParametersError, "Query-string authentication version 4 requires the X-Amz-Algorithm, "+
			"X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters, each once.")
	}
	if c.algorithm != algorithm {
		return newError(AuthorizationQueryParametersError, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"")
	}
	return c.parseCredential(service)
}

// parseCredential splits the credential into its parts and checks its service. An access key may contain "/".
func (c *claim) parseCredential(service string) error {
	rest, last, ok1 := cutLast(c.credential)
	rest, serviceName, ok2 := cutLast(rest)
	rest, region, ok3 := cutLast(rest)
	accessKey, day, ok4 := cutLast(rest)
	switch {
	case !ok1 || !ok2 || !ok3 || !ok4 || accessKey == "" || region == "" || len(day) != 8:
		return c.malformed("the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")
	case serviceName != service:
		return c.malformed("incorrect service " + strconv.Quote(serviceName) +
			". This endpoint belongs to " + strconv.Quote(service) + ".")
	case last != terminator:
		return c.malformed("incorrect terminal " + strconv.Quote(last) + ". This endpoint uses \"aws4_request\".")
	}
	c.accessKey, c.day, c.region, c.scope = accessKey, day, region, c.credential[len(accessKey)+1:]
	return nil
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// malformed returns the error for an invalid credential, with S3's wording for the header or for the query.
func (c *claim) malformed(what string) *Error {
	if c.presigned {
		return newError(AuthorizationQueryParametersError, "Error parsing the X-Amz-Credential parameter; "+what)
	}
	return newError(AuthorizationHeaderMalformed, "The authorization header is malformed; "+what)
}

func errVersion2() *Error {
	return newError(InvalidRequest, "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
}

// checkTime parses the time of signing, and compares it with the scope and the clock.
func (v *Verifier) checkTime(a *Auth, c *claim) error {
	t, err := time.Parse(timeLayout, c.date)
	if err == nil && len(c.date) != len(timeLayout) {
		return newError(AccessDenied, "AWS authentication requires a date in whole seconds")
	}
	if err != nil && !c.presigned {
		// A Date header may be in HTTP format, but the string to sign contains the time in ISO 8601 format.
		if t, err = http.ParseTime(c.date); err == nil {
			a.date = t.UTC().Format(timeLayout)
		}
	}
	switch {
	case err == nil:
	case c.presigned:
		return newError(AuthorizationQueryParametersError, "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"")
	default:
		return newError(AccessDenied, "AWS authentication requires a valid Date or x-amz-date header")
	}
	a.Time = t.UTC()
	if c.day != a.date[:len(c.day)] {
		return c.malformed("Invalid credential date " + strconv.Quote(c.day) + ". This date is not the same as X-Amz-Date: " +
			strconv.Quote(a.date[:8]) + ".")
	}
	now, skew := time.Now(), cmp.Or(v.Skew, DefaultSkew)
	if v.Now != nil {
		now = v.Now()
	}
	if c.presigned {
		return a.checkExpiry(c.expires, now, skew)
	}
	if d := now.Sub(a.Time); d > skew || d < -skew {
		return newError(RequestTimeTooSkewed, "The difference between the request time and the current time is too large.").
			with("RequestTime", c.date).with("ServerTime", serverTime(now)).
			with("MaxAllowedSkewMilliseconds", strconv.FormatInt(skew.Milliseconds(), 10))
	}
	return nil
}

// checkExpiry checks that a presigned URL has not expired and is not from the future.
func (a *Auth) checkExpiry(expires string, now time.Time, skew time.Duration) error {
	seconds, err := strconv.ParseInt(expires, 10, 64)
	switch {
	case err != nil || expires[0] == '+': // ParseInt accepts a sign
		return newError(AuthorizationQueryParametersError, "X-Amz-Expires should be a number")
	case seconds < 1:
		return newError(AuthorizationQueryParametersError, "X-Amz-Expires must be at least 1 (in seconds)")
	case seconds > int64(MaxExpires/time.Second):
		return newError(AuthorizationQueryParametersError, "X-Amz-Expires must be less than a week (in seconds); "+
			"that is, the given X-Amz-Expires must be less than 604800 seconds")
	}
	a.Expires = a.Time.Add(time.Duration(seconds) * time.Second)
	switch {
	case now.After(a.Expires):
		return newError(AccessDenied, "Request has expired").with("X-Amz-Expires", expires).
			with("Expires", serverTime(a.Expires)).with("ServerTime", serverTime(now))
	case a.Time.Sub(now) > skew:
		return newError(AccessDenied, "Request is not valid yet").with("X-Amz-Expires", expires).
			with("Expires", serverTime(a.Expires)).with("ServerTime", serverTime(now))
	}
	return nil
}

// serverTime formats a time for the details of errors.
func serverTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// checkPayload determines the signed value of the payload. A presigned request may have it in the query instead of the
// header, or omit it.
func (a *Auth) checkPayload(h http.Header, c *claim) error {
	payload, err := single(h, "X-Amz-Content-Sha256")
	if err != nil {
		return err
	}
	missing := ""
	if c.presigned {
		if c.payload != "" && payload != "" && c.payload != payload {
			return newError(InvalidArgument, "x-amz-content-sha256 differs between the header and the query.")
		}
		payload, missing = cmp.Or(payload, c.payload), "UNSIGNED-PAYLOAD"
	}
	c.payload = cmp.Or(payload, missing)
	return a.setPayload(payload, missing)
}

// readPayload reads the body, makes its SHA-256 the payload of the claim, and replaces the body of r by a copy.
func (a *Auth) readPayload(r *http.Request, c *claim) error {
	var content []byte
	if r.Body != nil {
		var err error
		if content, err = io.ReadAll(io.LimitReader(r.Body, MaxSignedBody+1)); err != nil {
			return errIncomplete(err)
		}
	}
	if len(content) > MaxSignedBody {
		return newError(InvalidRequest, "The body of the request is larger than "+strconv.Itoa(MaxSignedBody)+" bytes.")
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(content)), int64(len(content))
	a.Mode, a.SHA256 = PayloadSHA256, sha256.Sum256(content)
	c.payload = hex.EncodeToString(a.SHA256[:])
	return nil
}

// setPayload sets Mode and SHA256 from the value of x-amz-content-sha256, or from missing if the value is "".
func (a *Auth) setPayload(value, missing string) error {
	if value = cmp.Or(value, missing); value == "" {
		return newError(InvalidRequest, "Missing required header for this request: x-amz-content-sha256")
	}
	if len(value) == 2*len(a.SHA256) {
		var digits [2 * len(a.SHA256)]byte
		copy(digits[:], value)
		if _, err := hex.Decode(a.SHA256[:], digits[:]); err == nil {
			return nil
		}
	}
	for m := PayloadUnsigned; m <= PayloadUnsignedTrailer; m++ {
		if value == modeNames[m] {
			a.Mode = m
			return nil
		}
	}
	if strings.HasPrefix(value, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD") {
		return newError(NotImplemented, "Chunks signed with ECDSA are not supported.")
	}
	return newError(InvalidArgument, "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, STREAMING-UNSIGNED-PAYLOAD-TRAILER, "+
		"STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER or a valid sha256 value.").
		with("ArgumentName", "x-amz-content-sha256").with("ArgumentValue", value)
}

// checkSignedHeaders checks that the list of signed headers is valid: names in lower case, in order, without
// duplicates, and including host.
func checkSignedHeaders(c *claim) error {
	last, hasHost := "", false
	for name := range strings.SplitSeq(c.signedHeaders, ";") {
		if name <= last || !isLower(name) {
			return c.malformed("the signed headers must be in lower case, sorted and unique.")
		}
		last, hasHost = name, hasHost || name == "host"
	}
	if !hasHost {
		return newError(AccessDenied, "The host header must be signed")
	}
	return nil
}

// isLower reports whether a header name is in lower case.
func isLower(name string) bool {
	for i := range len(name) {
		if c := name[i]; 'A' <= c && c <= 'Z' || c <= ' ' {
			return false
		}
	}
	return true
}

// notSigned returns the names of the x-amz-* headers that are not among the signed ones.
func notSigned(h http.Header, signed string) string {
	var names []string
	for key := range h {
		if name := strings.ToLower(key); isAmz(key) && !slices.Contains(strings.Split(signed, ";"), name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// countAmz counts the x-amz-* headers.
func countAmz(h http.Header) (n int) {
	for key := range h {
		if isAmz(key) {
			n++
		}
	}
	return n
}

// single returns the value of a header that must not be repeated, or "" if it is absent.
func single(h http.Header, key string) (string, error) {
	switch values := h[key]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", newError(InvalidArgument, "The header "+key+" must not be repeated.").with("ArgumentName", strings.ToLower(key))
}

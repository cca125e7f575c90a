package sigv4

import (
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Verifier verifies signatures of requests. Its fields are set before its first use; it may be used by many goroutines.
type Verifier struct {
	Region    string                                             // the region that requests are signed for
	AnyRegion bool                                               // accept any other region too
	Lookup    func(accessKey string) (secretKey string, ok bool) // called once per request; must not block for long
	Now       func() time.Time                                   // the clock; nil: time.Now
	Skew      time.Duration                                      // how far a client's clock may be off; 0: DefaultSkew

	keys     keyCache
	scratch  scratchPool
	decoders decoderPool
}

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

// claim is what a request says about its signature.
type claim struct {
	presigned                         bool
	accessKey, day, region, scope     string // the parts of the credential; scope is all of it but the access key
	credential, signedHeaders         string
	signature, date, expires, payload string
	algorithm, token                  string
	repeated                          bool // a parameter of the signature came twice
	v2                                bool // the query has a signature of version 2
}

// Verify says who signed r, by its Authorization header or its query. It reads no byte of the body: that is for Auth.Body.
// Every error is an *Error and means that the request is denied; for a request without credentials it is ErrAnonymous, and
// then (and only then) the Auth is not nil.
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
		header = nil // as S3 takes it
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
		err = c.parseHeader(r.Header, header[0])
	default:
		err = c.parsePresigned()
	}
	if err != nil {
		return nil, err
	}
	return v.verify(r, path, s, &c)
}

// anonymous returns the Auth of a request without credentials.
func (v *Verifier) anonymous(r *http.Request) (*Auth, error) {
	a := &Auth{decoders: &v.decoders}
	payload, err := single(r.Header, "X-Amz-Content-Sha256")
	if err == nil {
		err = a.setPayload(payload, "UNSIGNED-PAYLOAD")
	}
	if err == nil && a.Mode.signed() {
		err = newError(AccessDenied, "A body with signed chunks needs a signed request.")
	}
	if err != nil {
		return nil, err
	}
	return a, ErrAnonymous
}

// verify checks the claim c, whose parts are there, against r.
func (v *Verifier) verify(r *http.Request, path string, s *scratch, c *claim) (*Auth, error) {
	a := &Auth{AccessKey: c.accessKey, Presigned: c.presigned, Region: c.region, scope: c.scope, date: c.date, decoders: &v.decoders}
	if err := v.checkTime(a, r.Header, c); err != nil {
		return nil, err
	}
	if c.region != v.Region && !v.AnyRegion {
		return nil, c.malformed("the region '"+c.region+"' is wrong; expecting '"+v.Region+"'").with("Region", v.Region)
	}
	if err := a.checkPayload(r.Header, c); err != nil {
		return nil, err
	}
	if err := checkSignedHeaders(c); err != nil {
		return nil, err
	}
	var err error
	if a.SecurityToken, err = single(r.Header, queryToken); err != nil {
		return nil, err
	}
	if c.presigned && a.SecurityToken == "" {
		a.SecurityToken = c.token
	}
	if err := v.checkSignature(a, r, path, s, c); err != nil {
		return nil, err
	}
	return a, nil
}

// checkSignature computes the signature of r and compares.
func (v *Verifier) checkSignature(a *Auth, r *http.Request, path string, s *scratch, c *claim) error {
	secret, known := v.Lookup(c.accessKey)
	scope := keyScope{c.accessKey, c.day, c.region}
	if !known || secret == "" {
		// Go on with a key of nobody, so that an unknown access key takes as long as a wrong signature.
		scope.accessKey, secret, known = "", "", false
	}
	var cached bool
	if a.key, cached = v.keys.get(scope, secret); !cached {
		a.key = signingKey(secret, c.day, c.region)
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
		return errUnknown(c.accessKey)
	case !right:
		return s.mismatch(r, path, without, a.date, c)
	case amz != countAmz(r.Header):
		return newError(AccessDenied, "There were headers present in the request which were not signed").
			with("HeadersNotSigned", notSigned(r.Header, c.signedHeaders))
	}
	return nil
}

// parameter takes note of a parameter of the query.
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
	// A date, a payload or a token alone make no signature.
	if field != &c.date && field != &c.payload && field != &c.token {
		c.presigned = true
	}
	c.repeated = c.repeated || *field != ""
	*field, _ = url.QueryUnescape(raw) // what cannot be decoded was found by parseQuery
}

// parseHeader takes the claim from an Authorization header. What the query has is of no account then.
func (c *claim) parseHeader(h http.Header, text string) error {
	*c = claim{}
	kind, rest, _ := strings.Cut(strings.Trim(text, " "), " ")
	switch {
	case kind == algorithm:
	case kind == "AWS":
		return errVersion2()
	case strings.HasPrefix(kind, "AWS4-"):
		return newError(NotImplemented, "The only signing algorithm supported is AWS4-HMAC-SHA256.")
	default:
		return newError(InvalidArgument, "Unsupported Authorization Type").with("ArgumentName", "Authorization") // its value may be a password
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
	if err := c.parseCredential(); err != nil {
		return err
	}
	var err error
	c.date, err = single(h, "X-Amz-Date")
	if err == nil && c.date == "" {
		c.date, err = single(h, "Date")
	}
	return err
}

// parsePresigned completes the claim that the query makes.
func (c *claim) parsePresigned() error {
	if c.repeated || c.algorithm == "" || c.credential == "" || c.signature == "" || c.date == "" || c.signedHeaders == "" || c.expires == "" {
		return newError(AuthorizationQueryParametersError, "Query-string authentication version 4 requires the X-Amz-Algorithm, "+
			"X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters, each once.")
	}
	if c.algorithm != algorithm {
		return newError(AuthorizationQueryParametersError, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"")
	}
	return c.parseCredential()
}

// parseCredential cuts the credential into its parts. An access key may hold "/".
func (c *claim) parseCredential() error {
	rest, last, ok1 := cutLast(c.credential)
	rest, serviceName, ok2 := cutLast(rest)
	rest, region, ok3 := cutLast(rest)
	accessKey, day, ok4 := cutLast(rest)
	switch {
	case !ok1 || !ok2 || !ok3 || !ok4 || accessKey == "" || region == "" || len(day) != 8:
		return c.malformed("the Credential is mal-formed; expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".")
	case serviceName != service:
		return c.malformed("incorrect service " + strconv.Quote(serviceName) + ". This endpoint belongs to \"s3\".")
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

// malformed says what is wrong with the credential, as S3 says it of each of the two places where it may stand.
func (c *claim) malformed(what string) *Error {
	if c.presigned {
		return newError(AuthorizationQueryParametersError, "Error parsing the X-Amz-Credential parameter; "+what)
	}
	return newError(AuthorizationHeaderMalformed, "The authorization header is malformed; "+what)
}

func errVersion2() *Error {
	return newError(InvalidRequest, "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.")
}

// checkTime reads the time of signing, and compares it with the scope and the clock.
func (v *Verifier) checkTime(a *Auth, h http.Header, c *claim) error {
	t, err := time.Parse(timeLayout, c.date)
	if err == nil && len(c.date) != len(timeLayout) {
		return newError(AccessDenied, "AWS authentication requires a date in whole seconds")
	}
	if err != nil && !c.presigned {
		// The Date header may have the form of HTTP; what is signed is the other one.
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
	now, skew := time.Now(), v.Skew
	if v.Now != nil {
		now = v.Now()
	}
	if skew == 0 {
		skew = DefaultSkew
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

// checkExpiry says whether a presigned URL is still, and already, valid.
func (a *Auth) checkExpiry(expires string, now time.Time, skew time.Duration) error {
	seconds, err := strconv.ParseInt(expires, 10, 64)
	switch {
	case err != nil:
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

// serverTime returns a time as the details of errors have it.
func serverTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// checkPayload finds what the payload was signed as. In a presigned URL it may stand in the query, and need not be there.
func (a *Auth) checkPayload(h http.Header, c *claim) error {
	payload, err := single(h, "X-Amz-Content-Sha256")
	if err != nil {
		return err
	}
	missing := ""
	if c.presigned {
		if c.payload != "" && payload != "" && c.payload != payload {
			return newError(InvalidArgument, "x-amz-content-sha256 differs between header and query.")
		}
		if payload == "" {
			payload = c.payload
		}
		missing = "UNSIGNED-PAYLOAD"
	}
	c.payload = payload
	if c.payload == "" {
		c.payload = missing
	}
	return a.setPayload(payload, missing)
}

// setPayload sets Mode and SHA256 from the value of x-amz-content-sha256. missing is the value that its absence stands for.
func (a *Auth) setPayload(value, missing string) error {
	if value == "" {
		value = missing
	}
	if value == "" {
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

// checkSignedHeaders says whether the list of signed headers is one: names in lower case, in order, each once, with host.
func checkSignedHeaders(c *claim) error {
	last, hasHost := "", false
	for name := range strings.SplitSeq(c.signedHeaders, ";") {
		if name <= last || !isLower(name) {
			return c.malformed("the list of signed headers must be in lower case and in order.")
		}
		last, hasHost = name, hasHost || name == "host"
	}
	if !hasHost {
		return newError(AccessDenied, "The host header must be signed")
	}
	return nil
}

// isLower says whether a header name is in lower case.
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

// single returns the value of a header that must not come twice, "" where it is missing.
func single(h http.Header, key string) (string, error) {
	switch values := h[key]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", newError(InvalidArgument, "The header "+key+" must not be repeated.").with("ArgumentName", strings.ToLower(key))
}

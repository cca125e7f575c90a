package sigv4

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func exampleSigner() *Signer {
	return &Signer{AccessKey: exampleAccess, SecretKey: exampleSecret, Region: "us-east-1"}
}

// signedRequest returns a request with signed and unsigned headers and a query, signed in its Authorization header.
func signedRequest() *http.Request {
	r := httptest.NewRequest("PUT", "http://host.example:9000/bucket/a%20key/%C3%BC?partNumber=2&uploadId=x", nil)
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Content-Md5", "1B2M2Y8AsgTpgAmY7PhCfg==")
	r.Header.Set("X-Amz-Meta-Name", "value")
	r.Header.Set("User-Agent", "anything")
	exampleSigner().Sign(r, emptySHA256, exampleTime)
	return r
}

// sub replaces text in the Authorization header.
func sub(from, to string) func(*http.Request) {
	return func(r *http.Request) {
		text := r.Header.Get("Authorization")
		if !strings.Contains(text, from) {
			panic("nothing to replace: " + from)
		}
		r.Header.Set("Authorization", strings.Replace(text, from, to, 1))
	}
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func TestTamperedHeaderSignature(t *testing.T) {
	v := exampleVerifier()
	_, err := v.Verify(signedRequest())
	require.NoError(t, err)
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   Code
	}{
		"method":                    {func(r *http.Request) { r.Method = "POST" }, SignatureDoesNotMatch},
		"path":                      {func(r *http.Request) { r.URL.Path += "x" }, SignatureDoesNotMatch},
		"path, extra slash":         {func(r *http.Request) { r.URL.Path = "/" + r.URL.Path }, SignatureDoesNotMatch},
		"no path":                   {func(r *http.Request) { r.URL.Path = "*" }, InvalidURI},
		"query":                     {func(r *http.Request) { r.URL.RawQuery = "partNumber=3&uploadId=x" }, SignatureDoesNotMatch},
		"query, extra parameter":    {func(r *http.Request) { r.URL.RawQuery += "&acl" }, SignatureDoesNotMatch},
		"query, missing parameter":  {func(r *http.Request) { r.URL.RawQuery = "partNumber=2" }, SignatureDoesNotMatch},
		"query, encoded ampersand":  {func(r *http.Request) { r.URL.RawQuery = "partNumber=2%26uploadId=x" }, SignatureDoesNotMatch},
		"query, undecodable":        {func(r *http.Request) { r.URL.RawQuery += "&a=%zz" }, InvalidURI},
		"query, semicolon":          {func(r *http.Request) { r.URL.RawQuery += "&a;b" }, InvalidURI},
		"host":                      {func(r *http.Request) { r.Host = "host.example" }, SignatureDoesNotMatch},
		"Content-Type":              {set("Content-Type", "text/html"), SignatureDoesNotMatch},
		"Content-Type missing":      {func(r *http.Request) { r.Header.Del("Content-Type") }, SignatureDoesNotMatch},
		"Content-MD5":               {set("Content-Md5", "AAAAAAAAAAAAAAAAAAAAAA=="), SignatureDoesNotMatch},
		"x-amz-* changed":           {set("X-Amz-Meta-Name", "other"), SignatureDoesNotMatch},
		"x-amz-* missing":           {func(r *http.Request) { r.Header.Del("X-Amz-Meta-Name") }, SignatureDoesNotMatch},
		"x-amz-* twice":             {func(r *http.Request) { r.Header.Add("X-Amz-Meta-Name", "other") }, SignatureDoesNotMatch},
		"x-amz-* not signed":        {set("X-Amz-Acl", "public-read"), AccessDenied},
		"x-amz-* in lower case":     {func(r *http.Request) { r.Header["x-amz-acl"] = []string{"public-read"} }, AccessDenied},
		"not signed, not x-amz-*":   {set("User-Agent", "another"), ""},
		"payload":                   {set("X-Amz-Content-Sha256", strings.Repeat("0", 64)), SignatureDoesNotMatch},
		"payload unsigned":          {set("X-Amz-Content-Sha256", UnsignedPayload), SignatureDoesNotMatch},
		"payload missing":           {func(r *http.Request) { r.Header.Del("X-Amz-Content-Sha256") }, InvalidRequest},
		"payload twice":             {func(r *http.Request) { r.Header.Add("X-Amz-Content-Sha256", UnsignedPayload) }, InvalidArgument},
		"payload unknown":           {set("X-Amz-Content-Sha256", "STREAMING"), InvalidArgument},
		"payload too short":         {set("X-Amz-Content-Sha256", emptySHA256[1:]), InvalidArgument},
		"payload not hexadecimal":   {set("X-Amz-Content-Sha256", "x"+emptySHA256[1:]), InvalidArgument},
		"payload ECDSA":             {set("X-Amz-Content-Sha256", "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), NotImplemented},
		"time":                      {set("X-Amz-Date", "20130524T000001Z"), SignatureDoesNotMatch},
		"time, another day":         {set("X-Amz-Date", "20130523T235959Z"), AuthorizationHeaderMalformed},
		"time malformed":            {set("X-Amz-Date", "yesterday"), AccessDenied},
		"time with a fraction":      {set("X-Amz-Date", "20130524T000000.5Z"), AccessDenied},
		"time missing":              {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, AccessDenied},
		"time twice":                {func(r *http.Request) { r.Header.Add("X-Amz-Date", exampleDate) }, InvalidArgument},
		"access key":                {sub(exampleAccess, "AKIAUNKNOWN"), InvalidAccessKeyID},
		"access key empty":          {sub(exampleAccess, ""), AuthorizationHeaderMalformed},
		"day":                       {sub("/20130524/", "/20130525/"), AuthorizationHeaderMalformed},
		"region":                    {sub("/us-east-1/", "/eu-west-1/"), AuthorizationHeaderMalformed},
		"service":                   {sub("/s3/", "/iam/"), AuthorizationHeaderMalformed},
		"terminal":                  {sub("/aws4_request", "/aws5_request"), AuthorizationHeaderMalformed},
		"credential truncated":      {sub("/s3/aws4_request", ""), AuthorizationHeaderMalformed},
		"host not signed":           {sub(";host", ""), AccessDenied},
		"signed header removed":     {sub(";x-amz-meta-name", ""), SignatureDoesNotMatch},
		"signed header added":       {sub("x-amz-meta-name", "x-amz-meta-name;x-amz-more"), SignatureDoesNotMatch},
		"signed headers unsorted":   {sub("content-md5;content-type", "content-type;content-md5"), AuthorizationHeaderMalformed},
		"signed header twice":       {sub(";host", ";host;host"), AuthorizationHeaderMalformed},
		"signed header, upper case": {sub(";host", ";Host"), AuthorizationHeaderMalformed},
		"signed header, empty":      {sub(";host", ";;host"), AuthorizationHeaderMalformed},
		"no signature":              {sub(", Signature=", ", Nothing="), AuthorizationHeaderMalformed},
		"two signatures":            {sub(", Signature=", ", Signature=1, Signature="), AuthorizationHeaderMalformed},
		"signature empty":           {func(r *http.Request) { cutSignature(r, 0) }, AuthorizationHeaderMalformed},
		"signature short":           {func(r *http.Request) { cutSignature(r, 63) }, SignatureDoesNotMatch},
		"signature long":            {func(r *http.Request) { r.Header.Set("Authorization", r.Header.Get("Authorization")+"0") }, SignatureDoesNotMatch},
		"other algorithm":           {sub("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), NotImplemented},
		"version 2":                 {set("Authorization", "AWS AKIA:c2lnbmF0dXJl"), InvalidRequest},
		"version 2 in the query": {func(r *http.Request) {
			r.Header.Del("Authorization")
			r.URL.RawQuery = "AWSAccessKeyId=A&Signature=b&Expires=1"
		}, InvalidRequest},
		"no algorithm":         {set("Authorization", "Basic YTpi"), InvalidArgument},
		"two headers":          {func(r *http.Request) { r.Header.Add("Authorization", "AWS4-HMAC-SHA256 x") }, InvalidArgument},
		"header and query":     {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Algorithm=AWS4-HMAC-SHA256" }, InvalidArgument},
		"header and signature": {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Signature=" }, InvalidArgument},
		"token not signed":     {set("X-Amz-Security-Token", "t"), AccessDenied},
	} {
		r := signedRequest()
		c.change(r)
		a, err := v.Verify(r)
		require.Equal(t, c.want, codeOf(err), "%s: %v", name, err)
		if c.want != "" {
			require.Nil(t, a, name)
			requireNoSecrets(t, err)
		}
	}
}

func cutSignature(r *http.Request, digits int) {
	text := r.Header.Get("Authorization")
	r.Header.Set("Authorization", text[:len(text)-64+digits])
}

// requireNoSecrets checks that an error contains neither the secret nor a signature.
func requireNoSecrets(t *testing.T, err error) {
	var e *Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, e.Error()+e.Message, exampleSecret)
	require.NotRegexp(t, "[0-9a-f]{64}", e.Message)
}

// Changing any digit of the signature invalidates it.
func TestEveryDigitOfTheSignature(t *testing.T) {
	v := exampleVerifier()
	good := signedRequest().Header.Get("Authorization")
	for i := len(good) - 64; i < len(good); i++ {
		digit := byte('0')
		if good[i] == '0' {
			digit = '1'
		}
		r := signedRequest()
		r.Header.Set("Authorization", good[:i]+string(digit)+good[i+1:])
		_, err := v.Verify(r)
		require.Equal(t, SignatureDoesNotMatch, codeOf(err), i)
	}
}

func TestSkew(t *testing.T) {
	v := exampleVerifier()
	for offset, want := range map[time.Duration]Code{
		-DefaultSkew - time.Second: RequestTimeTooSkewed, -DefaultSkew: "", 0: "", DefaultSkew: "", DefaultSkew + time.Second: RequestTimeTooSkewed,
	} {
		v.Now = func() time.Time { return exampleTime.Add(offset) }
		_, err := v.Verify(signedRequest())
		require.Equal(t, want, codeOf(err), offset)
	}
	v.Skew = time.Hour
	v.Now = func() time.Time { return exampleTime.Add(time.Hour) }
	_, err := v.Verify(signedRequest())
	require.NoError(t, err)
}

func TestRegion(t *testing.T) {
	v := exampleVerifier()
	v.Region = "eu-west-1"
	_, err := v.Verify(signedRequest())
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, []Detail{{"Region", "eu-west-1"}}, e.Details)
	v.AnyRegion = true
	a, err := v.Verify(signedRequest())
	require.NoError(t, err)
	require.Equal(t, "us-east-1", a.Region)
}

// A changed secret or a deleted access key takes effect with the next request, although signing keys are cached.
func TestKeysAreRevoked(t *testing.T) {
	v := exampleVerifier()
	secret := exampleSecret
	v.Lookup = func(context.Context, string, string) (Credential, error) { return Credential{SecretKey: secret}, nil }
	_, err := v.Verify(signedRequest())
	require.NoError(t, err)
	secret = "another"
	_, err = v.Verify(signedRequest())
	require.Equal(t, SignatureDoesNotMatch, codeOf(err))
	secret = exampleSecret
	_, err = v.Verify(signedRequest())
	require.NoError(t, err)
	secret = ""
	_, err = v.Verify(signedRequest())
	require.Equal(t, InvalidAccessKeyID, codeOf(err))
	// An access key without a secret is unknown, so a signature with the empty secret must not be accepted.
	r := signedRequest()
	(&Signer{AccessKey: exampleAccess, Region: "us-east-1"}).Sign(r, emptySHA256, exampleTime)
	_, err = v.Verify(r)
	require.Equal(t, InvalidAccessKeyID, codeOf(err))
}

func TestKeyCacheIsBounded(t *testing.T) {
	v := exampleVerifier()
	v.AnyRegion = true
	for i := range 2 * keyCacheSize {
		r := signedRequest()
		s := exampleSigner()
		s.Region = fmt.Sprint("region-", i)
		s.Sign(r, emptySHA256, exampleTime)
		_, err := v.Verify(r)
		require.NoError(t, err)
		require.LessOrEqual(t, len(v.keys.keys), keyCacheSize)
	}
	before := len(v.keys.keys)
	for i := range 100 {
		r := signedRequest()
		sub("/us-east-1/", fmt.Sprintf("/nowhere-%d/", i))(r)
		_, err := v.Verify(r)
		require.Equal(t, SignatureDoesNotMatch, codeOf(err))
	}
	require.Len(t, v.keys.keys, before, "requests with a wrong signature must not fill the cache")
}

func presignedRequest(headers ...string) *http.Request {
	r := httptest.NewRequest("PUT", "http://host.example/bucket/key?x-id=PutObject", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	exampleSigner().Presign(r, time.Hour, exampleTime)
	return r
}

// param sets a parameter of the query; the value "" removes it.
func param(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		q := r.URL.Query()
		if q.Del(name); value != "" {
			q.Set(name, value)
		}
		r.URL.RawQuery = q.Encode()
	}
}

func TestTamperedPresignedURL(t *testing.T) {
	v := exampleVerifier()
	const malformed = AuthorizationQueryParametersError
	for name, c := range map[string]struct {
		change func(*http.Request)
		want   Code
	}{
		"unchanged":              {func(*http.Request) {}, ""},
		"raw semicolon":          {func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "%3B", ";", -1) }, ""},
		"lower-case escapes":     {func(r *http.Request) { r.URL.RawQuery = strings.Replace(r.URL.RawQuery, "%2F", "%2f", -1) }, ""},
		"method":                 {func(r *http.Request) { r.Method = "DELETE" }, SignatureDoesNotMatch},
		"path":                   {func(r *http.Request) { r.URL.Path = "/bucket/other" }, SignatureDoesNotMatch},
		"host":                   {func(r *http.Request) { r.Host = "other.example" }, SignatureDoesNotMatch},
		"extra parameter":        {param("versionId", "null"), SignatureDoesNotMatch},
		"missing parameter":      {param("x-id", ""), SignatureDoesNotMatch},
		"signed header":          {set("X-Amz-Meta-A", "other"), SignatureDoesNotMatch},
		"header not signed":      {set("X-Amz-Acl", "public-read"), AccessDenied},
		"longer lifetime":        {param(queryExpires, "3601"), SignatureDoesNotMatch},
		"lifetime too long":      {param(queryExpires, "604801"), malformed},
		"zero lifetime":          {param(queryExpires, "0"), malformed},
		"negative lifetime":      {param(queryExpires, "-1"), malformed},
		"lifetime with a plus":   {param(queryExpires, "+60"), malformed},
		"lifetime not a number":  {param(queryExpires, "1h"), malformed},
		"lifetime missing":       {param(queryExpires, ""), malformed},
		"date":                   {param(queryDate, "20130524T000001Z"), SignatureDoesNotMatch},
		"date of another day":    {param(queryDate, "20130525T000000Z"), malformed},
		"date malformed":         {param(queryDate, "Fri, 24 May 2013 00:00:00 GMT"), malformed},
		"date missing":           {param(queryDate, ""), malformed},
		"algorithm":              {param(queryAlgorithm, "AWS4-HMAC-SHA1"), malformed},
		"algorithm missing":      {param(queryAlgorithm, ""), malformed},
		"signature":              {param(querySignature, strings.Repeat("0", 64)), SignatureDoesNotMatch},
		"signature missing":      {param(querySignature, ""), malformed},
		"signature twice":        {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Signature=0" }, malformed},
		"region":                 {param(queryCredential, strings.Replace(exampleScope, "us-east-1", "eu-west-1", 1)), malformed},
		"access key":             {param(queryCredential, strings.Replace(exampleScope, "AKIA", "BKIA", 1)), InvalidAccessKeyID},
		"credential malformed":   {param(queryCredential, "x"), malformed},
		"credential twice":       {func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Credential=" + url.QueryEscape(exampleScope) }, malformed},
		"signed headers":         {param(querySignedHeaders, "host"), SignatureDoesNotMatch},
		"host not signed":        {param(querySignedHeaders, "x-amz-meta-a"), AccessDenied},
		"signed headers missing": {param(querySignedHeaders, ""), malformed},
		"payload differs": {func(r *http.Request) {
			set("X-Amz-Content-Sha256", emptySHA256)(r)
			param(querySHA256, UnsignedPayload)(r)
		}, InvalidArgument},
	} {
		r := presignedRequest("X-Amz-Meta-A", "b")
		c.change(r)
		_, err := v.Verify(r)
		require.Equal(t, c.want, codeOf(err), "%s: %v", name, err)
		if c.want != "" {
			requireNoSecrets(t, err)
		}
	}
}

// In a presigned URL the payload may be signed by the header, by the query, or not at all.
func TestPresignedPayload(t *testing.T) {
	v := exampleVerifier()
	a, err := v.Verify(presignedRequest())
	require.NoError(t, err)
	require.Equal(t, PayloadUnsigned, a.Mode)

	a, err = v.Verify(presignedRequest("X-Amz-Content-Sha256", emptySHA256))
	require.NoError(t, err)
	require.Equal(t, PayloadSHA256, a.Mode)
	require.Equal(t, emptySHA256, hex.EncodeToString(a.SHA256[:]))

	r := httptest.NewRequest("PUT", "http://host.example/bucket/key?X-Amz-Content-Sha256=UNSIGNED-PAYLOAD", nil)
	s := exampleSigner()
	s.SecurityToken = "a/token+"
	s.Presign(r, MaxExpires, exampleTime)
	a, err = v.Verify(r)
	require.NoError(t, err)
	require.Equal(t, PayloadUnsigned, a.Mode)
	require.Equal(t, "a/token+", a.SecurityToken)
}

func TestAnonymous(t *testing.T) {
	v := exampleVerifier()
	r := httptest.NewRequest("PUT", "http://host.example/bucket/key?X-Amz-Date=x", strings.NewReader("content"))
	a, err := v.Verify(r)
	require.ErrorIs(t, err, ErrAnonymous)
	require.Equal(t, AccessDenied, codeOf(err))
	require.True(t, a.Anonymous())
	require.Equal(t, PayloadUnsigned, a.Mode)
	b, err := a.Body(r)
	require.NoError(t, err)
	require.EqualValues(t, 7, b.DecodedLength())

	r.Header.Set("Authorization", "") // same as an absent header
	_, err = v.Verify(r)
	require.ErrorIs(t, err, ErrAnonymous)

	r.Header.Set("X-Amz-Content-Sha256", PayloadUnsignedTrailer.String())
	a, err = v.Verify(r)
	require.True(t, errors.Is(err, ErrAnonymous))
	require.Equal(t, PayloadUnsignedTrailer, a.Mode)

	for value, want := range map[string]Code{PayloadSigned.String(): AccessDenied, PayloadSignedTrailer.String(): AccessDenied, "x": InvalidArgument} {
		r.Header.Set("X-Amz-Content-Sha256", value)
		a, err = v.Verify(r)
		require.Nil(t, a)
		require.False(t, errors.Is(err, ErrAnonymous))
		require.Equal(t, want, codeOf(err))
	}
}

// A canonical query is sorted by encoded name, then by encoded value. A name alone has an empty value.
func TestCanonicalQuery(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "acl": "acl=", "b=2&a=1": "a=1&b=2", "a=2&a=10&a=": "a=&a=10&a=2", "a-b=1&a=2": "a=2&a-b=1",
		"a=b+c%20d%2be": "a=b%20c%20d%2Be", "a=%c3%bc%7E~": "a=%C3%BC~~", "&&a==b&": "a=%3Db", "a=/": "a=%2F", "a=ü": "a=%C3%BC",
	} {
		var s scratch
		require.True(t, s.parseQuery(in, nil))
		s.sortPairs()
		require.Equal(t, want, string(s.appendQuery(nil, "")), in)
	}
}

func TestStripAWSChunked(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "gzip": "gzip", "aws-chunked": "", "aws-chunked,gzip": "gzip", "gzip, aws-chunked": "gzip", "AWS-Chunked , br,  gzip": "br,  gzip",
		"gzip,  br": "gzip,  br", "aws-chunked,": "", "deflate, gzip,aws-chunked": "deflate, gzip",
		"gzip, aws-chunked, br": "gzip, br",
	} {
		require.Equal(t, want, StripAWSChunked(in), in)
	}
}

func TestHMAC(t *testing.T) {
	// RFC 4231, cases 2 and 6 (a key longer than a block).
	sum, buf := hmacSHA256(nil, []byte("Jefe"), []byte("what do ya want for nothing?"))
	require.Equal(t, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", hex.EncodeToString(sum[:]))
	sum, _ = hmacSHA256(buf, []byte(strings.Repeat("\xaa", 131)), []byte("Test Using Larger Than Block-Size Key - Hash Key First"))
	require.Equal(t, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54", hex.EncodeToString(sum[:]))
}

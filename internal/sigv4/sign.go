package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// UnsignedPayload is the payload hash for a body that is not covered by the signature.
const UnsignedPayload = "UNSIGNED-PAYLOAD"

// EmptySHA256 is the payload hash of a request without a body.
const EmptySHA256 = emptySHA256

// Signer signs requests. It is safe for concurrent use. Its fields must not be changed after its first use.
type Signer struct {
	AccessKey, SecretKey string
	Region               string
	SecurityToken        string // token of temporary credentials, or ""

	now     atomic.Pointer[stamp]
	scratch scratchPool
}

// stamp holds the values that all requests signed in the same second share.
type stamp struct {
	second     int64 // Unix time
	date       []string
	day        string
	scope      string
	credential string
	key        [32]byte
}

// stamp returns the stamp for the second of t.
func (s *Signer) stamp(t time.Time) *stamp {
	last := s.now.Load()
	if last != nil && last.second == t.Unix() {
		return last
	}
	date := t.UTC().Format(timeLayout)
	next := &stamp{second: t.Unix(), date: []string{date}, day: date[:8]}
	if last != nil && last.day == next.day {
		next.scope, next.credential, next.key = last.scope, last.credential, last.key
	} else {
		next.scope = next.day + "/" + s.Region + "/" + serviceS3 + "/" + terminator
		next.credential = s.AccessKey + "/" + next.scope
		next.key = signingKey(s.SecretKey, next.day, s.Region, serviceS3)
	}
	s.now.Store(next)
	return next
}

// Sign signs r at the time t, and sets its Authorization, X-Amz-Date and X-Amz-Content-Sha256 headers. payloadHash is
// the SHA-256 of the body in hexadecimal, or UnsignedPayload. The signature covers host, Content-Type, Content-MD5 and
// every X-Amz-* header of r.
func (s *Signer) Sign(r *http.Request, payloadHash string, t time.Time) {
	s.sign(r, payloadHash, t)
}

// sign implements Sign. It returns the stamp and the seed signature that are needed to sign the chunks of a body.
func (s *Signer) sign(r *http.Request, payloadHash string, t time.Time) (now *stamp, seed [64]byte) {
	now = s.stamp(t)
	r.Header["X-Amz-Date"] = now.date
	r.Header["X-Amz-Content-Sha256"] = []string{payloadHash}
	if s.SecurityToken != "" {
		r.Header[queryToken] = []string{s.SecurityToken}
	}
	c := s.scratch.get()
	defer s.scratch.put(c)
	signed := c.signedHeaders(r, true)
	c.parseQuery(r.URL.RawQuery, nil)
	c.sortPairs()
	c.signature(&seed, r, r.URL.Path, "", signed, payloadHash, now.date[0], now.scope, &now.key)

	b := append(append(c.buf[:0], algorithm+" Credential="...), now.credential...)
	b = append(append(b, ", SignedHeaders="...), signed...)
	b = append(append(b, ", Signature="...), seed[:]...)
	c.buf = b
	r.Header["Authorization"] = []string{string(b)}
	return now, seed
}

// signedHeaders returns the names of the headers of r to sign, joined by ";": host, X-Amz-* and, if content is set,
// Content-Type and Content-MD5.
func (s *scratch) signedHeaders(r *http.Request, content bool) string {
	s.text, s.pairs = append(s.text[:0], "host"...), append(s.pairs[:0], pair{0, 4, 4})
	for key := range r.Header {
		if isAmz(key) || content && (key == "Content-Type" || key == "Content-Md5") {
			s.lowerKey(key)
		}
	}
	s.sortPairs()
	b := s.buf[:0]
	for i, p := range s.pairs {
		if i > 0 {
			b = append(b, ';')
		}
		b = append(b, s.name(p)...)
	}
	s.buf = b
	if s.names != string(b) {
		s.names = string(b)
	}
	return s.names
}

// Presign signs r in its query and returns the presigned URL, which also becomes the URL of r. The URL is valid from
// the time t for expires, in whole seconds and at most MaxExpires. Its user must send exactly the X-Amz-* headers that
// r has now.
func (s *Signer) Presign(r *http.Request, expires time.Duration, t time.Time) string {
	now := s.stamp(t)
	c := s.scratch.get()
	defer s.scratch.put(c)
	signed := c.signedHeaders(r, false)
	query := r.URL.RawQuery
	if query != "" {
		query += "&"
	}
	query += queryAlgorithm + "=" + algorithm +
		"&" + queryCredential + "=" + url.QueryEscape(now.credential) +
		"&" + queryDate + "=" + now.date[0] +
		"&" + queryExpires + "=" + strconv.FormatInt(int64(expires/time.Second), 10) +
		"&" + querySignedHeaders + "=" + url.QueryEscape(signed)
	if s.SecurityToken != "" {
		query += "&" + queryToken + "=" + url.QueryEscape(s.SecurityToken)
	}
	payload := UnsignedPayload
	if v := r.Header["X-Amz-Content-Sha256"]; len(v) == 1 {
		payload = v[0]
	}
	c.parseQuery(query, nil)
	c.sortPairs()
	var seed [64]byte
	c.signature(&seed, r, r.URL.Path, "", signed, payload, now.date[0], now.scope, &now.key)
	var b strings.Builder
	b.Write(c.appendQuery(c.buf[:0], ""))
	b.WriteString("&" + querySignature + "=")
	b.Write(seed[:])
	r.URL.RawQuery = b.String()
	return r.URL.String()
}

// PostFields returns the fields x-amz-* with which an HTML form is signed at the time t, in lower case. policy is the
// document in Base64. It must have a condition for each field but x-amz-signature, so a caller first calls PostFields with
// an empty policy, and again with the policy that has these conditions.
func (s *Signer) PostFields(policy string, t time.Time) map[string]string {
	now := s.stamp(t)
	fields := map[string]string{"x-amz-algorithm": algorithm, "x-amz-credential": now.credential, "x-amz-date": now.date[0]}
	if s.SecurityToken != "" {
		fields["x-amz-security-token"] = s.SecurityToken
	}
	if policy != "" {
		fields["policy"] = policy
		mac := hmac.New(sha256.New, now.key[:])
		mac.Write([]byte(policy))
		fields["x-amz-signature"] = hex.EncodeToString(mac.Sum(nil))
	}
	return fields
}

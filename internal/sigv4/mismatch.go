package sigv4

import (
	"encoding/hex"
	"net/http"
	"strings"
)

// maxEcho is the longest canonical request that an error contains, in bytes.
const maxEcho = 8 << 10

// mismatch returns the error for a wrong signature. It includes the string to sign, so that the author of the client
// can find the difference. The string is computed from the request alone and does not depend on the secret key, so it
// does not help anyone who lacks the key.
//
// A request may list any header as signed, including one that a proxy has added and that its sender must not see. It
// may also contain keys (SSE-C) and tokens, which do not belong in a logged response. So the canonical request is
// included only if everything in it is known to be harmless.
func (s *scratch) mismatch(r *http.Request, path, without, date string, c *claim) *Error {
	e := errMismatch().with("AWSAccessKeyId", c.accessKey)
	s.canonical(r, path, without, c.signedHeaders, c.payload)
	canonical := string(s.buf)
	s.stringToSign(date, c.scope)
	e.with("StringToSign", string(s.buf)).with("SignatureProvided", c.signature).with("StringToSignBytes", spaced(s.buf))
	if len(canonical) > maxEcho || !s.harmless(c.signedHeaders) {
		return e
	}
	return e.with("CanonicalRequest", canonical).with("CanonicalRequestBytes", spaced([]byte(canonical)))
}

// harmless reports whether the query and the signed headers may be revealed to the sender of the request.
func (s *scratch) harmless(signed string) bool {
	for _, p := range s.pairs {
		if isSecret(strings.ToLower(string(s.name(p)))) {
			return false
		}
	}
	for name := range strings.SplitSeq(signed, ";") {
		if isSecret(name) || !isFromClient(name) {
			return false
		}
	}
	return true
}

// isSecret reports whether the value of the header or parameter with this lower-case name may be a secret.
func isSecret(name string) bool {
	return strings.Contains(name, "customer-key") || strings.Contains(name, "security-token")
}

// isFromClient reports whether a header is set by clients and not by proxies.
func isFromClient(name string) bool {
	switch name {
	case "host", "date", "range", "expires", "expect", "user-agent", "cache-control", "transfer-encoding":
		return true
	}
	for _, p := range [...]string{"x-amz-", "amz-sdk-", "content-", "if-", "accept"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// spaced returns b in hexadecimal, with spaces between the bytes.
func spaced(b []byte) string {
	out := make([]byte, 0, 3*len(b))
	for i := range b {
		if i > 0 {
			out = append(out, ' ')
		}
		out = hex.AppendEncode(out, b[i:i+1])
	}
	return string(out)
}

package sigv4

import (
	"encoding/hex"
	"net/http"
	"strings"
)

// maxEcho is the longest canonical request that an error tells, in bytes.
const maxEcho = 8 << 10

// mismatch says of a request whose signature is wrong what was to be signed, so that who wrote the client sees where it differs. All of it is
// made of the request itself: nothing depends on the secret key, and who has not got it learns nothing that would help.
//
// A request may name any header as signed, also one that a proxy before the server has added and that its sender must not see, and it may hold
// keys (SSE-C) and tokens, which do not belong into an answer that is logged. So the canonical request is told only where all that it
// holds is known to be harmless.
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

// harmless says whether the query and the signed headers may be told to the sender of a request.
func (s *scratch) harmless(signed string) bool {
	for _, p := range s.pairs {
		if isSecret(strings.ToLower(string(s.name(p)))) {
			return false
		}
	}
	for name := range strings.SplitSeq(signed, ";") {
		if isSecret(name) || !isClients(name) {
			return false
		}
	}
	return true
}

// isSecret says whether the value of a header or parameter, by its name in lower case, may be a secret.
func isSecret(name string) bool {
	return strings.Contains(name, "customer-key") || strings.Contains(name, "security-token")
}

// isClients says whether clients, and not proxies, set a header.
func isClients(name string) bool {
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

// spaced returns bytes in hexadecimal, with spaces between them.
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

package s3

import (
	"net/textproto"
	"strings"

	"orcas/gate"
)

// facts provides the values of a request that policies may refer to. They are computed on demand.
type facts struct{ q *request }

// Fact implements auth.Facts for the condition keys of the route table.
func (f facts) Fact(key string) (string, bool) {
	q := f.q
	name, ours := strings.CutPrefix(key, "s3:")
	if !ours {
		return gate.CommonFact(q.r, q.start, key)
	}
	switch name {
	case "delimiter", "max-keys", "prefix":
		return q.query.get(name)
	case "VersionId":
		v, ok := q.query.get("versionId")
		return canonicalVersionID(v), ok
	case "authType", "signatureAge", "signatureversion":
		return f.signature(name)
	}
	if strings.HasPrefix(name, "object-lock-") {
		name = "x-amz-" + name
	}
	if !strings.HasPrefix(name, "x-amz-") && !strings.HasPrefix(name, "if-") {
		return "", false
	}
	return gate.Header(q.r, textproto.CanonicalMIMEHeaderKey(name))
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
	case a.Presigned:
		return "REST-QUERY-STRING", true
	}
	return "REST-HEADER", true
}

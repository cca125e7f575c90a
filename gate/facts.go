package gate

import (
	"net"
	"net/http"
	"strconv"
	"time"
)

// CommonFact returns the value of a condition key that all APIs have in common. It returns false for other keys, and
// if the request has no value for the key. Now is the time that the decision is about.
func CommonFact(r *http.Request, now time.Time, key string) (string, bool) {
	switch key {
	case "aws:CurrentTime":
		return now.UTC().Format(time.RFC3339), true
	case "aws:EpochTime":
		return strconv.FormatInt(now.Unix(), 10), true
	case "aws:Referer":
		return Header(r, "Referer")
	case "aws:SecureTransport":
		return strconv.FormatBool(r.TLS != nil), true
	case "aws:SourceIp":
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return host, err == nil
	case "aws:UserAgent":
		return Header(r, "User-Agent")
	}
	return "", false
}

// Header returns the first value of a header, whose name must be in canonical form, and reports whether there is one.
func Header(r *http.Request, name string) (string, bool) {
	v := r.Header[name]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

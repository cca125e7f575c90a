package gate

import (
	"net"
	"net/http"
	"strconv"
	"time"
)

// CommonFact returns the value of a condition key that all APIs have in common. It returns false for other keys, and
// if the request has no value for the key. Start is the time when the request was received.
func CommonFact(r *http.Request, start time.Time, key string) (string, bool) {
	switch key {
	case "aws:CurrentTime":
		return start.UTC().Format(time.RFC3339), true
	case "aws:EpochTime":
		return strconv.FormatInt(start.Unix(), 10), true
	case "aws:Referer":
		return header(r, "Referer")
	case "aws:SecureTransport":
		return strconv.FormatBool(r.TLS != nil), true
	case "aws:SourceIp":
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return host, err == nil
	case "aws:UserAgent":
		return header(r, "User-Agent")
	}
	return "", false
}

func header(r *http.Request, name string) (string, bool) {
	v := r.Header[name]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

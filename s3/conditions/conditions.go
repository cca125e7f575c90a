// Package conditions parses and evaluates the headers of conditional and range requests: HTTP conditions on objects
// that are read, copied or written, and byte ranges. It depends on neither requests nor objects, only on the values of
// headers and attributes.
package conditions

import (
	"net/http"
	"strings"
	"time"

	"orcas/core"
	"orcas/s3/apierr"
)

// Verdict is the result of evaluating the conditions of a read request.
type Verdict uint8

const (
	Proceed     Verdict = iota
	NotModified         // If-None-Match or If-Modified-Since does not hold
	Failed              // If-Match or If-Unmodified-Since does not hold
)

// Set holds the four conditions on an object to be read or copied; "" means absent.
type Set struct {
	Match, NoneMatch, ModifiedSince, UnmodifiedSince string

	prefix string // prefix of the header names
}

// OfRequest returns the conditions on the requested object.
func OfRequest(h http.Header) Set {
	return Set{
		Match: joined(h["If-Match"]), NoneMatch: joined(h["If-None-Match"]),
		ModifiedSince: first(h["If-Modified-Since"]), UnmodifiedSince: first(h["If-Unmodified-Since"]),
	}
}

// OfSource returns the conditions on the source of a copy. Their header names begin with name.
func OfSource(h http.Header, name string) Set {
	return Set{
		Match: joined(h[name+"-If-Match"]), NoneMatch: joined(h[name+"-If-None-Match"]),
		ModifiedSince: first(h[name+"-If-Modified-Since"]), UnmodifiedSince: first(h[name+"-If-Unmodified-Since"]),
		prefix: strings.ToLower(name) + "-",
	}
}

// Judge evaluates the conditions. If-Match overrides If-Unmodified-Since, and If-None-Match overrides
// If-Modified-Since. Times are compared in whole seconds, as in Last-Modified. Like S3, it ignores an If-Modified-Since
// in the future, because no response can have contained such a date.
func (c *Set) Judge(etag string, modified, now time.Time) Verdict {
	modified = modified.Truncate(time.Second)
	if c.Match != "" {
		if !MatchesETag(c.Match, etag) {
			return Failed
		}
	} else if t, ok := Time(c.UnmodifiedSince); ok && modified.After(t) {
		return Failed
	}
	if c.NoneMatch != "" {
		if MatchesETag(c.NoneMatch, etag) {
			return NotModified
		}
	} else if t, ok := Time(c.ModifiedSince); ok && !modified.After(t) && !t.After(now) {
		return NotModified
	}
	return Proceed
}

// Refused returns the error for a Verdict other than Proceed. The error contains the name of the failed condition.
func (c *Set) Refused(v Verdict) error {
	name := "If-Modified-Since"
	switch {
	case v == Failed && c.Match != "":
		name = "If-Match"
	case v == Failed:
		name = "If-Unmodified-Since"
	case c.NoneMatch != "":
		name = "If-None-Match"
	}
	return apierr.PreconditionFailed.With("Condition", c.prefix+name)
}

// MatchesETag reports whether a list of ETags, as in If-Match, contains etag.
func MatchesETag(list, etag string) bool {
	for rest := list; rest != ""; {
		var tag string
		if tag, rest = NextETag(rest); tag == "*" || tag == etag {
			return true
		}
	}
	return false
}

// NextETag splits off the first ETag of a list and removes its quotes, which clients may omit, as in S3. S3 has only
// strong ETags, so the prefix W/ is ignored.
func NextETag(list string) (tag, rest string) {
	list = strings.TrimLeft(list, " \t,")
	list = strings.TrimPrefix(list, "W/")
	if strings.HasPrefix(list, `"`) {
		if end := strings.IndexByte(list[1:], '"'); end >= 0 {
			tag, rest = list[1:1+end], list[end+2:]
			_, rest, _ = strings.Cut(rest, ",")
			return tag, rest
		}
	}
	tag, rest, _ = strings.Cut(list, ",")
	return strings.Trim(tag, " \t\""), rest
}

// Precondition returns the precondition that a write request sets on the current version. S3 accepts only one of
// If-Match and If-None-Match, and only "*" in If-None-Match.
func Precondition(h http.Header) (core.Precondition, error) {
	var p core.Precondition
	if len(h["If-Match"]) > 0 && len(h["If-None-Match"]) > 0 {
		return p, apierr.UnservedHeader("If-Match,If-None-Match")
	}
	if len(h["If-Match"]) > 0 {
		for rest := joined(h["If-Match"]); rest != ""; {
			var tag string
			if tag, rest = NextETag(rest); tag != "" {
				p.Match = append(p.Match, tag)
			}
		}
		if len(p.Match) == 0 {
			return p, apierr.Argument("If-Match", joined(h["If-Match"]), "The If-Match header contains no ETag.")
		}
	}
	if len(h["If-None-Match"]) > 0 {
		if tag, rest := NextETag(joined(h["If-None-Match"])); tag != "*" || strings.TrimSpace(rest) != "" {
			return p, apierr.UnservedHeader("If-None-Match")
		}
		p.NoneMatch = []string{"*"}
	}
	return p, nil
}

// first returns the first value of a header, or "".
func first(values []string) string {
	if len(values) > 0 {
		return values[0]
	}
	return ""
}

// joined returns all values of a header, joined by commas.
func joined(values []string) string { return strings.Join(values, ",") }

// Time parses an HTTP date. An invalid date counts as absent.
func Time(s string) (time.Time, bool) {
	if s == "" {
		return time.Time{}, false
	}
	t, err := http.ParseTime(s)
	return t, err == nil
}

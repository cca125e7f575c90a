package s3

import (
	"net/http"
	"strings"
	"time"

	"orcas/core"
)

// checkCondition refuses a conditional header that the operation would not heed.
func (r *route) checkCondition(name string) error {
	var c condition
	switch name {
	case "If-Match":
		c = ifMatch
	case "If-None-Match":
		c = ifNoneMatch
	case "If-Modified-Since":
		c = ifModifiedSince
	case "If-Unmodified-Since":
		c = ifUnmodifiedSince
	default:
		return nil // If-Range is heeded where ranges are
	}
	if r.conditions&c == 0 {
		return notImplementedHeader(name)
	}
	return nil
}

// verdict is what conditions make of a request to read.
type verdict uint8

const (
	proceed verdict = iota
	notModified
	failed
)

// readConditionSet is the four conditions under which content is read or copied; "" means absent.
type readConditionSet struct {
	match, noneMatch, modifiedSince, unmodifiedSince string

	prefix string // of the names of their headers
}

func readConditionsOf(h http.Header) readConditionSet {
	return readConditionSet{
		match: joined(h, "If-Match"), noneMatch: joined(h, "If-None-Match"),
		modifiedSince: first(h, "If-Modified-Since"), unmodifiedSince: first(h, "If-Unmodified-Since"),
	}
}

// conditionsOf returns the four conditions on a source, whose headers begin with a name.
func conditionsOf(h http.Header, name string) readConditionSet {
	return readConditionSet{
		match: joined(h, name+"-If-Match"), noneMatch: joined(h, name+"-If-None-Match"),
		modifiedSince: first(h, name+"-If-Modified-Since"), unmodifiedSince: first(h, name+"-If-Unmodified-Since"),
		prefix: strings.ToLower(name) + "-",
	}
}

// judge decides. If-Match beats If-Unmodified-Since, If-None-Match beats If-Modified-Since. Times count in whole seconds, as in
// Last-Modified. S3 passes over an If-Modified-Since that is later than now: nobody can have such a date from an answer.
func (c *readConditionSet) judge(etag string, modified, now time.Time) verdict {
	modified = modified.Truncate(time.Second)
	if c.match != "" {
		if !matchesETag(c.match, etag) {
			return failed
		}
	} else if t, ok := parseTime(c.unmodifiedSince); ok && modified.After(t) {
		return failed
	}
	if c.noneMatch != "" {
		if matchesETag(c.noneMatch, etag) {
			return notModified
		}
	} else if t, ok := parseTime(c.modifiedSince); ok && !modified.After(t) && !t.After(now) {
		return notModified
	}
	return proceed
}

// refused returns the error for a verdict other than proceed; it names the condition that is to blame.
func (c *readConditionSet) refused(v verdict) error {
	name := "If-Modified-Since"
	switch {
	case v == failed && c.match != "":
		name = "If-Match"
	case v == failed:
		name = "If-Unmodified-Since"
	case c.noneMatch != "":
		name = "If-None-Match"
	}
	return errPrecondition.with("Condition", c.prefix+name)
}

// matchesETag says whether a list of ETags, as in If-Match, names etag.
func matchesETag(list, etag string) bool {
	for rest := list; rest != ""; {
		var tag string
		if tag, rest = nextETag(rest); tag == "*" || tag == etag {
			return true
		}
	}
	return false
}

// nextETag cuts the first ETag off a list and takes its quotes away. Clients leave them out, and S3 lets them; ETags of
// S3 are strong, so W/ makes no difference.
func nextETag(list string) (tag, rest string) {
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

// writeCondition returns what a request that writes demands of the current version. If-None-Match knows only "*", and S3 takes one of the two.
func writeCondition(h http.Header) (core.Precondition, error) {
	var p core.Precondition
	if len(h["If-Match"]) > 0 && len(h["If-None-Match"]) > 0 {
		return p, notImplementedHeader("If-Match,If-None-Match")
	}
	if len(h["If-Match"]) > 0 {
		for rest := joined(h, "If-Match"); rest != ""; {
			var tag string
			if tag, rest = nextETag(rest); tag != "" {
				p.Match = append(p.Match, tag)
			}
		}
		if len(p.Match) == 0 {
			return p, argument("If-Match", joined(h, "If-Match"), "The If-Match header names no ETag.")
		}
	}
	if len(h["If-None-Match"]) > 0 {
		if tag, rest := nextETag(joined(h, "If-None-Match")); tag != "*" || strings.TrimSpace(rest) != "" {
			return p, notImplementedHeader("If-None-Match")
		}
		p.NoneMatch = []string{"*"}
	}
	return p, nil
}

// precheck holds p against the current version before the content is sent. It saves work; what counts is decided when the
// version is written.
func (q *request) precheck(p *core.Precondition) error {
	_, err := q.demanded(p)
	return err
}

// demanded returns the current version, of which p is true; nil: none, or nothing is demanded.
func (q *request) demanded(p *core.Precondition) (*core.ObjectInfo, error) {
	if p.IsZero() {
		return nil, nil
	}
	current, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	if err != nil && !core.Is(err, core.NoSuchKey) {
		return nil, err
	}
	return current, conditionError(p.Check(current))
}

// conditionError names the condition that failed, as S3 does.
func conditionError(err error) error {
	if core.Is(err, core.PreconditionFailed) {
		return errPrecondition.because(err)
	}
	return err
}

// span is a run of bytes of an object.
type span struct{ offset, length int64 }

// parseRange reads a Range header for content of size bytes. ok is false where there is nothing to heed: no range, several, another
// unit, or nonsense; then the whole content is the answer. A range that is well-formed and lies outside is errInvalidRange.
func parseRange(header string, size int64) (s span, ok bool, err error) {
	spec, found := strings.CutPrefix(header, "bytes=")
	if !found || strings.IndexByte(spec, ',') >= 0 {
		return span{}, false, nil
	}
	from, to, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return span{}, false, nil
	}
	unsatisfiable := func() (span, bool, error) {
		return span{}, false, errInvalidRange.with("RangeRequested", header).with("ActualObjectSize", itoa(size)).
			header("Content-Range", "bytes */"+itoa(size))
	}
	if from == "" {
		n, valid := parseDigits(to)
		switch {
		case !valid:
			return span{}, false, nil
		case n == 0 || size == 0:
			return unsatisfiable()
		}
		n = min(n, size)
		return span{size - n, n}, true, nil
	}
	first, valid := parseDigits(from)
	if !valid {
		return span{}, false, nil
	}
	last := size - 1
	if to != "" {
		if last, valid = parseDigits(to); !valid || last < first {
			return span{}, false, nil
		}
	}
	if first >= size {
		return unsatisfiable()
	}
	return span{first, min(last, size-1) - first + 1}, true, nil
}

// parseDigits reads a number of digits only; one that does not fit counts as the largest.
func parseDigits(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	const most = 1<<63 - 1
	var n int64
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		if n > (most-int64(d))/10 {
			n = most
			continue
		}
		n = n*10 + int64(d)
	}
	return n, true
}

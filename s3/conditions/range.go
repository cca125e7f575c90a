package conditions

import (
	"strconv"
	"strings"

	"orcas/s3/apierr"
)

// Span is a range of bytes in an object.
type Span struct{ Offset, Length int64 }

// ParseRange parses a Range header for content of size bytes. If the header is absent or malformed, has more than one
// range, or has a unit other than bytes, ok is false: the header must be ignored and the whole content sent. For a
// well-formed range outside the content, ParseRange returns apierr.InvalidRange.
func ParseRange(header string, size int64) (s Span, ok bool, err error) {
	spec, found := strings.CutPrefix(header, "bytes=")
	if !found || strings.IndexByte(spec, ',') >= 0 {
		return Span{}, false, nil
	}
	from, to, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return Span{}, false, nil
	}
	unsatisfiable := func() (Span, bool, error) {
		return Span{}, false, apierr.InvalidRange.With("RangeRequested", header).With("ActualObjectSize", strconv.FormatInt(size, 10)).
			WithHeader("Content-Range", "bytes */"+strconv.FormatInt(size, 10))
	}
	if from == "" {
		n, valid := Digits(to)
		switch {
		case !valid:
			return Span{}, false, nil
		case n == 0 || size == 0:
			return unsatisfiable()
		}
		n = min(n, size)
		return Span{size - n, n}, true, nil
	}
	first, valid := Digits(from)
	if !valid {
		return Span{}, false, nil
	}
	last := size - 1
	if to != "" {
		if last, valid = Digits(to); !valid || last < first {
			return Span{}, false, nil
		}
	}
	if first >= size {
		return unsatisfiable()
	}
	return Span{first, min(last, size-1) - first + 1}, true, nil
}

// Digits parses a number that consists of decimal digits only. It returns the largest int64 for a larger number.
func Digits(s string) (int64, bool) {
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

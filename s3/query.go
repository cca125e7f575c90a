package s3

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"orcas/s3/apierr"
)

// query is the query of a request, decoded once.
type query struct {
	params []param
	room   [8]param // initial backing array of params, so most requests need no allocation
}

type param struct{ name, value string }

// parse decodes a raw query.
func (q *query) parse(raw string) error {
	q.params = q.room[:0]
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := unescape(name)
		if err != nil {
			return errInvalidURI
		}
		if value, err = unescape(value); err != nil {
			return errInvalidURI
		}
		// Values for response headers may be Latin-1. All others are echoed in XML.
		if !utf8.ValidString(name) || !utf8.ValidString(value) && !strings.HasPrefix(name, "response-") {
			return errInvalidURI
		}
		q.params = append(q.params, param{name, value})
	}
	return nil
}

func unescape(s string) (string, error) {
	if !strings.ContainsAny(s, "%+") {
		return s, nil
	}
	return url.QueryUnescape(s)
}

// get returns the first value of a parameter, and whether the parameter is present.
func (q *query) get(name string) (string, bool) {
	for i := range q.params {
		if q.params[i].name == name {
			return q.params[i].value, true
		}
	}
	return "", false
}

// value returns the first value of a parameter, or "".
func (q *query) value(name string) string {
	v, _ := q.get(name)
	return v
}

// subresource returns the parameter that selects the operation, or "". It returns an error if there are two.
func (q *query) subresource() (string, error) {
	sub := ""
	for i := range q.params {
		name := q.params[i].name
		if !isSubresource(name) || name == sub {
			continue
		}
		if sub != "" {
			return "", errInvalidArgument.Say("Conflicting query string parameters: "+sub+", "+name).
				With("ResourceType", name)
		}
		sub = name
	}
	return sub, nil
}

// int returns a parameter that must be a non-negative number, or def if it is absent or empty.
func (q *query) int(name string, def int) (int, error) {
	v := q.value(name)
	if v == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil || n < 0 {
		return 0, apierr.Argument(name, v, "Provided "+name+" not an integer or within integer range")
	}
	return int(n), nil
}

// urlEncoded reports whether the client wants keys URL-encoded.
func (q *query) urlEncoded() (bool, error) {
	switch v := q.value("encoding-type"); v {
	case "":
		return false, nil
	case "url":
		return true, nil
	default:
		return false, apierr.Argument("encoding-type", v, "Invalid Encoding Method specified in Request")
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

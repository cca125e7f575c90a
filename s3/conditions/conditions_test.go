package conditions

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/s3/apierr"
)

// codeOf returns the code of an error of the S3 API.
func codeOf(t *testing.T, err error) string {
	var e *apierr.Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

func TestParseRange(t *testing.T) {
	type result struct {
		s    Span
		ok   bool
		code string
	}
	for header, want := range map[string]result{
		"bytes=0-0":                    {Span{0, 1}, true, ""},
		"bytes=0-9":                    {Span{0, 10}, true, ""},
		"bytes=0-99":                   {Span{0, 10}, true, ""},
		"bytes=3-":                     {Span{3, 7}, true, ""},
		"bytes=-3":                     {Span{7, 3}, true, ""},
		"bytes=-99":                    {Span{0, 10}, true, ""},
		"bytes=9-":                     {Span{9, 1}, true, ""},
		"bytes=2-99999999999999999999": {Span{2, 8}, true, ""},
		"bytes=10-":                    {code: "InvalidRange"},
		"bytes=10-20":                  {code: "InvalidRange"},
		"bytes=99999999999999999999-":  {code: "InvalidRange"},
		"bytes=-0":                     {code: "InvalidRange"},
		"bytes=5-2":                    {},
		"bytes=0-1,3-4":                {},
		"bytes=":                       {},
		"bytes=-":                      {},
		"bytes=a-b":                    {},
		"bytes=1-b":                    {},
		"bytes=+1-2":                   {},
		"items=0-1":                    {},
		"0-1":                          {},
	} {
		s, ok, err := ParseRange(header, 10)
		got := result{s: s, ok: ok}
		if err != nil {
			got.code = codeOf(t, err)
		}
		require.Equal(t, want, got, header)
	}
	for _, header := range []string{"bytes=0-", "bytes=-1", "bytes=0-0"} {
		_, _, err := ParseRange(header, 0)
		require.Error(t, err, header)
	}
}

func TestReadConditions(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)
	same, before, after := at.Format(http.TimeFormat), at.Add(-time.Hour).Format(http.TimeFormat), at.Add(time.Hour).Format(http.TimeFormat)
	for _, c := range []struct {
		name string
		set  Set
		want Verdict
	}{
		{"none", Set{}, Proceed},
		{"match", Set{Match: `"e"`}, Proceed},
		{"match without quotes", Set{Match: `e`}, Proceed},
		{"match in a list", Set{Match: `"x", "e"`}, Proceed},
		{"match any", Set{Match: `*`}, Proceed},
		{"match another ETag", Set{Match: `"x"`}, Failed},
		{"none match", Set{NoneMatch: `"e"`}, NotModified},
		{"none match, weak", Set{NoneMatch: `W/"e"`}, NotModified},
		{"none match any", Set{NoneMatch: `*`}, NotModified},
		{"none match other ETags", Set{NoneMatch: `"x", "y"`}, Proceed},
		{"modified since before", Set{ModifiedSince: before}, Proceed},
		{"modified since the same second", Set{ModifiedSince: same}, NotModified},
		{"modified since after", Set{ModifiedSince: after}, NotModified},
		{"modified since a date in the future", Set{ModifiedSince: at.Add(3 * time.Hour).Format(http.TimeFormat)}, Proceed},
		{"modified since a malformed date", Set{ModifiedSince: "yesterday"}, Proceed},
		{"unmodified since before", Set{UnmodifiedSince: before}, Failed},
		{"unmodified since the same second", Set{UnmodifiedSince: same}, Proceed},
		{"unmodified since after", Set{UnmodifiedSince: after}, Proceed},
		{"match overrides unmodified since", Set{Match: `"e"`, UnmodifiedSince: before}, Proceed},
		{"match fails, unmodified since holds", Set{Match: `"x"`, UnmodifiedSince: after}, Failed},
		{"none match overrides modified since", Set{NoneMatch: `"x"`, ModifiedSince: after}, Proceed},
		{"none match fails, modified since holds", Set{NoneMatch: `"e"`, ModifiedSince: before}, NotModified},
		{"match and none match", Set{Match: `"e"`, NoneMatch: `"e"`}, NotModified},
		{"unmodified since and none match", Set{UnmodifiedSince: before, NoneMatch: `"e"`}, Failed},
	} {
		require.Equal(t, c.want, c.set.Judge("e", at, at.Add(2*time.Hour)), c.name)
	}
}

func TestWriteConditions(t *testing.T) {
	p, err := Precondition(http.Header{"If-Match": {`"a", b`}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, p.Match)
	p, err = Precondition(http.Header{"If-None-Match": {"*"}})
	require.NoError(t, err)
	require.Equal(t, []string{"*"}, p.NoneMatch)
	for _, h := range []http.Header{{"If-None-Match": {`"a"`}}, {"If-None-Match": {`*, "a"`}}, {"If-None-Match": {""}}} {
		_, err = Precondition(h)
		require.Equal(t, "NotImplemented", codeOf(t, err), h)
	}
	_, err = Precondition(http.Header{"If-Match": {" "}})
	require.Equal(t, "InvalidArgument", codeOf(t, err))
}

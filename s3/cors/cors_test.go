package cors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/s3/apierr"
)

func rule(inside string) string { return "<CORSRule>" + inside + "</CORSRule>" }

func document(rules ...string) []byte {
	return []byte("<CORSConfiguration>" + strings.Join(rules, "") + "</CORSConfiguration>")
}

const everyone = "<AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>"

func TestParse(t *testing.T) {
	full := rule("<ID>one</ID><AllowedHeader>x-*</AllowedHeader><AllowedHeader>b</AllowedHeader><AllowedMethod>GET</AllowedMethod>" +
		"<AllowedMethod>PUT</AllowedMethod><AllowedOrigin>https://*.example.com</AllowedOrigin><AllowedOrigin>a&amp;b</AllowedOrigin>" +
		"<ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>0</MaxAgeSeconds>")
	c, err := Parse(document(full, rule(everyone)))
	require.NoError(t, err)
	require.Len(t, c.Rules, 2)
	require.Equal(t, full+rule(everyone), c.Text())
	again, err := Parse([]byte("<CORSConfiguration>" + c.Text() + "</CORSConfiguration>"))
	require.NoError(t, err)
	require.Equal(t, c.Text(), again.Text())
	_, err = Parse(document(strings.Repeat(rule(everyone), 100)))
	require.NoError(t, err)

	also := func(inside string) string { return string(document(rule(everyone + inside))) }
	for doc, want := range map[string]string{
		"<not": "MalformedXML", "<CORSConfiguration/>": "MalformedXML",
		string(document(rule("<AllowedMethod>GET</AllowedMethod>"))):               "MalformedXML",
		string(document(rule("<AllowedOrigin>*</AllowedOrigin>"))):                 "MalformedXML",
		also("<AllowedOrigin></AllowedOrigin>"):                                    "MalformedXML",
		also("<MaxAgeSeconds>-1</MaxAgeSeconds>"):                                  "MalformedXML",
		also("<MaxAgeSeconds>x</MaxAgeSeconds>"):                                   "MalformedXML",
		also("<Other>x</Other>"):                                                   "MalformedXML",
		also("<ID>a</ID><ID>b</ID>"):                                               "MalformedXML",
		also("<ID>" + strings.Repeat("x", 256) + "</ID>"):                          "InvalidArgument",
		also("<AllowedMethod>PATCH</AllowedMethod>"):                               "Unsupported method is PATCH",
		also("<AllowedMethod>get</AllowedMethod>"):                                 "Unsupported method is get",
		also("<AllowedOrigin>http://*.*</AllowedOrigin>"):                          `AllowedOrigin "http://*.*" can not have more than one wildcard.`,
		also("<AllowedHeader>a*b*</AllowedHeader>"):                                `AllowedHeader "a*b*" can not have more than one wildcard.`,
		also("<ExposeHeader>x-*</ExposeHeader>"):                                   `ExposeHeader "x-*" contains wildcard.`,
		also("<ExposeHeader>a: b</ExposeHeader>"):                                  "is not the name of a header",
		also("<ExposeHeader>a\nb</ExposeHeader>"):                                  "is not the name of a header",
		string(document(strings.Repeat(rule(everyone), 101))):                      "limit of 100 rules",
		also("<AllowedOrigin>" + strings.Repeat("x", 64<<10) + "</AllowedOrigin>"): "MaxMessageLengthExceeded",
	} {
		_, err := Parse([]byte(doc))
		var e *apierr.Error
		require.ErrorAs(t, err, &e, doc)
		require.Contains(t, e.Error(), want)
	}
}

func TestMatch(t *testing.T) {
	c, err := Parse(document(
		rule("<ID>sub</ID><AllowedOrigin>https://*.example.com</AllowedOrigin><AllowedOrigin>null</AllowedOrigin>"+
			"<AllowedMethod>GET</AllowedMethod><AllowedMethod>PUT</AllowedMethod><AllowedHeader>X-Amz-*</AllowedHeader>"),
		rule("<ID>one</ID><AllowedOrigin>https://www.example.com</AllowedOrigin><AllowedMethod>GET</AllowedMethod>"+
			"<AllowedHeader>*</AllowedHeader>"),
		rule("<ID>all</ID><AllowedOrigin>*</AllowedOrigin><AllowedMethod>HEAD</AllowedMethod>"),
	))
	require.NoError(t, err)
	for _, q := range []struct{ origin, method, headers, rule, allow string }{
		{"https://www.example.com", "GET", "", "sub", "https://www.example.com"},
		{"https://a.b.example.com", "PUT", "", "sub", "https://a.b.example.com"},
		{"https://www.example.com", "GET", "x-amz-date X-AMZ-META-A", "sub", "https://www.example.com"},
		{"https://www.example.com", "GET", "x-amz-date authorization", "one", "https://www.example.com"},
		{"https://www.example.com", "PUT", "authorization", "", ""},
		{"https://www.example.com", "DELETE", "", "", ""},
		{"https://example.com", "GET", "", "", ""},
		{"http://www.example.com", "GET", "", "", ""},
		{"https://www.example.com.evil.org", "GET", "", "", ""},
		{"https://WWW.EXAMPLE.COM", "GET", "", "", ""},
		{"null", "GET", "", "sub", "null"},
		{"https://anyone.org", "HEAD", "", "all", "*"},
		{"https://anyone.org", "HEAD", "range", "", ""},
		{"https://anyone.org", "head", "", "", ""},
		{"https://.com", "GET", "", "", ""},
		{"", "GET", "", "", ""},
	} {
		r, allow := c.Match(q.origin, q.method, strings.Fields(q.headers))
		id := ""
		if r != nil {
			id = r.ID
		}
		require.Equal(t, q.rule, id, "%+v", q)
		require.Equal(t, q.allow, allow, "%+v", q)
	}
	require.True(t, matches("a*a", "aa") && !matches("a*a", "a") && matches("*", ""))
	r, allow := Default([]string{"https://example.com"}).Match("https://example.com", "DELETE", []string{"anything"})
	require.NotNil(t, r)
	require.Equal(t, "https://example.com", allow)
	require.Nil(t, Default(nil))
}

// The parsed configuration of a bucket is replaced when its document changes, and never used for another bucket.
func TestCache(t *testing.T) {
	var cache Cache
	of := func(id int, text string) *Config {
		c, err := cache.Of(&core.BucketInfo{ID: core.BucketID(id), Attrs: core.SetAttr(nil, Attr, text)})
		require.NoError(t, err)
		return c
	}
	one := rule("<AllowedMethod>GET</AllowedMethod><AllowedOrigin>a</AllowedOrigin>")
	require.Nil(t, of(1, ""))
	first := of(1, one)
	require.Equal(t, one, first.Text())
	require.Same(t, first, of(1, one))
	require.Equal(t, "*", of(1, rule(everyone)).Rules[0].Origins[0])
	require.Equal(t, "a", of(2, one).Rules[0].Origins[0])
	require.Nil(t, of(1, ""))
	for i := range 2 * maxCached {
		of(i, one)
		require.LessOrEqual(t, len(cache.all), maxCached)
	}
	_, err := cache.Of(&core.BucketInfo{ID: 9, Attrs: core.SetAttr(nil, Attr, "<damaged")})
	require.Error(t, err)
}

// FuzzParse parses arbitrary documents. What is accepted can be stored and read again, and the origin that is allowed is
// the one that was asked for.
func FuzzParse(f *testing.F) {
	f.Add(document(rule(everyone)), "https://example.com")
	f.Add(document(rule("<AllowedOrigin>a*</AllowedOrigin><AllowedMethod>PUT</AllowedMethod><MaxAgeSeconds>7</MaxAgeSeconds>")), "ab")
	f.Fuzz(func(t *testing.T, doc []byte, origin string) {
		c, err := Parse(doc)
		if err != nil {
			return
		}
		again, err := Parse([]byte("<CORSConfiguration>" + c.Text() + "</CORSConfiguration>"))
		if err == nil && again.Text() != c.Text() {
			t.Fatalf("%q became %q", c.Text(), again.Text())
		}
		if err != nil && len(c.Text()) <= maxBytes-100 {
			t.Fatal(err)
		}
		if r, allow := c.Match(origin, "GET", nil); r != nil && allow != "*" && allow != origin {
			t.Fatalf("%q allows %q", origin, allow)
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	var rules []string
	for i := range maxRules {
		rules = append(rules, rule(fmt.Sprintf("<AllowedOrigin>https://%d.example.com</AllowedOrigin><AllowedMethod>GET</AllowedMethod>", i)))
	}
	c, err := Parse(document(rules...))
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if r, _ := c.Match("https://99.example.com", "GET", nil); r == nil {
			b.Fatal("no rule")
		}
	}
}

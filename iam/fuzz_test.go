package iam

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orcas/gate"
)

// FuzzParameters: no form makes the parser fail in another way than with an error, and what it accepts has each
// parameter once.
func FuzzParameters(f *testing.F) {
	for _, seed := range []string{
		"", "Action=GetUser&Version=2010-05-08", "Action=a&Action=b", "Tags.member.1.Key=a&Tags.member.1.Value=b", "TagKeys.member.1=a",
		"a=%zz", "a=b;c=d", "=&=", "MaxItems=1&Marker=YQ", "UserName=%C3%BC&GroupName=a/b&PolicyArn=arn:aws:iam::1:policy/",
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, query, body string) {
		r := httptest.NewRequest("POST", "/", http.NoBody)
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		rows := allRoutes()
		c := &call{r: r, route: &rows[0], event: gate.Event{Path: "/"}}
		if c.parse([]byte(body)) != nil {
			return
		}
		for name, value := range c.parameters {
			require.True(t, utf8.ValidString(name+value))
			require.NotContains(t, value, "\x00")
			require.LessOrEqual(t, strings.Count("&"+body, "&"+name+"="), 1, "the name of a parameter is not encoded")
		}
		_ = c.checkParameters()
		tags, err := c.requestTags()
		if err == nil && len(c.parameters) == 0 {
			require.Empty(t, tags)
		}
		_, _ = c.requestTagKeys()
		items, _, err := page(c, []string{"b", "a", "c"}, func(s string) string { return s })
		if err == nil && c.value("Marker") == "" {
			require.Equal(t, "a", items[0])
		}
	})
}

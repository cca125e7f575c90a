package xmldoc

import (
	"encoding/xml"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/s3/apierr"
)

// codeOf returns the code of an error of the S3 API.
func codeOf(t *testing.T, err error) string {
	var e *apierr.Error
	require.ErrorAs(t, err, &e)
	return e.Code
}

func TestXMLLimits(t *testing.T) {
	deep := func(n int) string {
		return "<Delete>" + strings.Repeat("<a>", n-1) + strings.Repeat("</a>", n-1) + "</Delete>"
	}
	var into struct {
		XMLName xml.Name `xml:"Delete"`
		Quiet   *Bool    `xml:"Quiet"`
		Objects []struct {
			Key string `xml:"Key"`
		} `xml:"Object"`
		Deep struct{} `xml:"a"` // anything
	}
	for _, good := range []string{
		"<Delete/>", `<?xml version="1.0"?><Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Object><Key>a&amp;b</Key></Object></Delete>`,
		deep(32), "<Delete></Delete>\n<!-- comment -->\n", "\ufeff<Delete/>", "<!-- --> <Delete> <Quiet> true </Quiet> </Delete>", `<a:Delete xmlns:a="http://s3.amazonaws.com/doc/2006-03-01/"><a:Quiet>1</a:Quiet></a:Delete>`,
		`<Delete xml:lang="en" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="x"/>`, "<Delete><Object/><Quiet>false</Quiet><Object/></Delete>",
	} {
		require.NoError(t, Parse([]byte(good), &into), good)
	}
	require.Equal(t, "a&b", into.Objects[0].Key)
	for _, bad := range []string{
		"", "x", "<Delete>", "<Delete></delete>", "<Other/>", "<Delete/><Delete/>", "<Delete/>x", deep(33), "<Delete>\xff</Delete>",
		`<!DOCTYPE Delete><Delete/>`, `<!DOCTYPE x [<!ENTITY e "v">]><Delete>&e;</Delete>`, "<Delete>&e;</Delete>", "<Delete><Quiet>maybe</Quiet></Delete>",
		`<?xml version="1.0" encoding="UTF-7"?><Delete/>`, "x<Delete/>", "<Delete>x</Delete>", "<Delete><Object>x</Object></Delete>", "<Delete><Quiet>true</Quiet><Quiet>true</Quiet></Delete>",
		"<Delete><Object><Key>a</Key><Key>a</Key></Object></Delete>", "<Delete><Object><Key>a<b/></Key></Object></Delete>", "<Delete><Other/></Delete>", "<Delete><object/></Delete>",
		`<Delete a="b"/>`, `<Delete><Object a="b"/></Delete>`, `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01"/>`, `<Delete xmlns="urn:x"/>`, `<Delete><Object xmlns="urn:x"/></Delete>`,
		"<x:Delete/>", `<Delete xmlns:x="urn:x"><x:Object/></Delete>`, `<Delete x:a="b"/>`,
	} {
		require.Equal(t, "MalformedXML", codeOf(t, Parse([]byte(bad), &into)), bad)
	}
	_, err := Read(strings.NewReader("12345"), 4)
	require.Equal(t, "MaxMessageLengthExceeded", codeOf(t, err))
	doc, err := Read(strings.NewReader("1234"), 4)
	require.NoError(t, err)
	require.Equal(t, "1234", string(doc))
}

// TestTime compares times with those of package time, for documents whose times are from one day and from several.
func TestTime(t *testing.T) {
	var x Writer
	random := rand.New(rand.NewPCG(1, 2))
	first := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	for n := range 20_000 {
		at := time.Date(2026, 2, 28, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * 17_389 * time.Millisecond)
		if n%3 == 0 {
			at = time.UnixMilli(first + random.Int64N(400_000_000_000_000)).In(time.FixedZone("", n%86400)) // years 0 to 12675
		}
		x.Buf = x.Buf[:0]
		x.Time("T", at)
		require.Equal(t, "<T>"+at.UTC().Format(TimeFormat)+"</T>", string(x.Buf))
	}
	x.Buf = x.Buf[:0]
	x.Time("T", time.Time{})
	require.Equal(t, "<T>0001-01-01T00:00:00.000Z</T>", string(x.Buf))
}

func TestXMLText(t *testing.T) {
	require.Equal(t, "a&amp;&lt;b&gt;&quot;'\u00e9 &#xa;&#x1;&#xd;&#xfffe;\U0001f600", string(AppendText(nil, "a&<b>\"'\u00e9 \n\x01\r\ufffe\U0001f600")))
	require.Equal(t, "a/b%20%2B%25%C3%A9", string(AppendURL(nil, "a/b +%é")))
}

// FuzzXMLText checks that a parser decodes the output of AppendText to the original string.
func FuzzXMLText(f *testing.F) {
	f.Add("a&b<c>\"'\n\r\t\x01\ufffe")
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || Plain(s) != s {
			t.Skip() // XML cannot represent it
		}
		doc := append(AppendText([]byte("<a>"), s), "</a>"...)
		var got string
		if err := xml.Unmarshal(doc, &got); err != nil || got != s {
			t.Fatalf("%q was decoded as %q, error %v", s, got, err)
		}
	})
}

func TestOwner(t *testing.T) {
	var x Writer
	key := "arn:aws:iam::111122223333:key/app"
	for _, who := range []string{"111122223333", "444455556666", "444455556666", key, "111122223333"} {
		x.Owner("Owner", who)
	}
	want := ""
	for _, who := range []string{"111122223333", "444455556666", "444455556666", key, "111122223333"} {
		id, name := auth.CanonicalID(who), who
		if who == key {
			id, name = key, "app"
		}
		want += "<Owner><ID>" + id + "</ID><DisplayName>" + name + "</DisplayName></Owner>"
	}
	require.Equal(t, want, string(x.Buf))
}

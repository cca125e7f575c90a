package sdk

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// reference types for encoding/xml, with the elements that the scanner reads.
type xmlObject struct {
	XMLName      xml.Name
	Key          string
	VersionID    string `xml:"VersionId"`
	ETag         string
	StorageClass string
	ChecksumType string
	IsLatest     string
	Size         string
	LastModified string
	Owner        string `xml:"Owner>ID"`
}

type xmlPage struct {
	XMLName xml.Name    `xml:"ListBucketResult"`
	Objects []xmlObject `xml:",any"`
	Token   string      `xml:"NextContinuationToken"`
	Key     string      `xml:"NextKeyMarker"`
	Version string      `xml:"NextVersionIdMarker"`
	Common  []struct {
		Prefix []string
	} `xml:"CommonPrefixes"`
	IsTruncated  string
	EncodingType string
}

// compare checks that encoding/xml reads what the scanner has read from the same document.
func compare(t *testing.T, doc []byte, p *page) {
	t.Helper()
	var want xmlPage
	require.NoError(t, xml.Unmarshal(doc, &want), "the scanner accepts a document that encoding/xml refuses")
	if p.encoded || strings.Count(string(doc), "<") > 400 {
		return // the keys are decoded already; or too slow
	}
	n := 0
	for _, o := range want.Objects {
		switch o.XMLName.Local {
		case "Contents", "Version", "DeleteMarker":
		default:
			continue
		}
		require.Less(t, n, len(p.objects))
		got := p.objects[n]
		n++
		for _, pair := range [][2]string{{o.Key, string(got.key)}, {o.VersionID, string(got.version)}, {o.ETag, string(got.etag)},
			{o.StorageClass, string(got.class)}, {o.ChecksumType, string(got.sum)}} {
			require.Equal(t, pair[0], pair[1])
		}
		require.Equal(t, o.XMLName.Local == "DeleteMarker", got.marker)
		if o.Size != "" {
			require.Equal(t, strings.TrimLeft(o.Size, "0"), strings.TrimLeft(fmt.Sprint(got.size), "0"))
		}
		if o.LastModified != "" {
			when, err := time.Parse(time.RFC3339Nano, o.LastModified)
			require.NoError(t, err)
			require.True(t, when.Equal(got.modified), "%s %s", when, got.modified)
		}
	}
	require.Len(t, p.objects, n)
	var prefixes []string
	for _, c := range want.Common {
		prefixes = append(prefixes, c.Prefix...)
	}
	require.Len(t, p.prefixes, len(prefixes))
	for i := range prefixes {
		require.Equal(t, prefixes[i], string(p.prefixes[i]))
	}
	require.Equal(t, want.Token, p.next.token)
	require.Equal(t, want.Key, p.next.key)
	require.Equal(t, want.Version, p.next.version)
}

// documents are listings that the scanner accepts.
var documents = []string{
	`<ListBucketResult/>`,
	`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix></Prefix><MaxKeys>1000</MaxKeys>
  <IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;b</NextContinuationToken>
  <Contents><Key>a&lt;b&#x1F600;&#10;&quot;&apos;&gt;ü</Key><LastModified>2026-11-24T12:34:56.789Z</LastModified><ETag>&quot;9dd4&quot;</ETag><Size>12</Size>
  <Owner><ID>o</ID><DisplayName>d</DisplayName></Owner><StorageClass>STANDARD</StorageClass><ChecksumType>FULL_OBJECT</ChecksumType></Contents>
  <CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes><!-- comment --></ListBucketResult>` + "\n",
	`<ListBucketResult><Version><Key>k</Key><VersionId>v</VersionId><IsLatest>true</IsLatest><Size>0</Size><LastModified>2026-11-24T12:34:56Z</LastModified></Version>` +
		`<DeleteMarker><Key>k</Key><VersionId>w</VersionId><IsLatest>false</IsLatest></DeleteMarker><NextKeyMarker>k</NextKeyMarker><NextVersionIdMarker>w</NextVersionIdMarker></ListBucketResult>`,
	`<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>a+b%2Bc%00</Key></Contents></ListBucketResult>`,
	`<ListBucketResult><Contents><Key>a` + "\r\nb\rc" + `</Key><Other a='1' xsi:type="x"><Deep><Deeper/>text</Deep></Other></Contents></ListBucketResult>`,
}

func TestScanner(t *testing.T) {
	for i, doc := range documents {
		var p page
		require.NoError(t, p.parse([]byte(doc), "ListBucketResult"), "%d", i)
		compare(t, []byte(doc), &p)
	}
	var p page
	require.NoError(t, p.parse([]byte(documents[1]), "ListBucketResult"))
	e := p.objects[0].entry()
	require.Equal(t, "a<b😀\n\"'>ü", e.Key)
	require.Equal(t, "9dd4", e.ETag)
	require.Equal(t, "o", e.Owner)
	require.Equal(t, time.Date(2026, 11, 24, 12, 34, 56, 789e6, time.UTC), e.LastModified)
	require.Equal(t, cursor{token: "a&b"}, p.next)
	require.NoError(t, p.parse([]byte(documents[3]), "ListBucketResult"))
	require.Equal(t, "a b+c\x00", p.objects[0].entry().Key)
}

// TestScannerRefuses: what is not a well-formed listing is an error, and never a panic.
func TestScannerRefuses(t *testing.T) {
	for name, doc := range map[string]string{
		"nothing":             "",
		"text":                "hello",
		"HTML":                "<html><body>Bad gateway</body></html>",
		"another root":        "<Error><Code>a</Code></Error>",
		"document type":       `<!DOCTYPE a [<!ENTITY x "y">]><ListBucketResult/>`,
		"another encoding":    `<?xml version="1.0" encoding="ISO-8859-1"?><ListBucketResult/>`,
		"no end":              `<ListBucketResult><Contents><Key>a</Key>`,
		"wrong end":           `<ListBucketResult><Contents></Key></Contents></ListBucketResult>`,
		"text after":          `<ListBucketResult/>x`,
		"second root":         `<ListBucketResult/><ListBucketResult/>`,
		"text between":        `<ListBucketResult>x</ListBucketResult>`,
		"element in a key":    `<ListBucketResult><Contents><Key>a<b/></Key></Contents></ListBucketResult>`,
		"unknown entity":      `<ListBucketResult><Contents><Key>&bomb;</Key></Contents></ListBucketResult>`,
		"bad character":       `<ListBucketResult><Contents><Key>&#0;</Key></Contents></ListBucketResult>`,
		"raw character":       "<ListBucketResult><Contents><Key>\x01</Key></Contents></ListBucketResult>",
		"not UTF-8":           "<ListBucketResult><Contents><Key>\xff</Key></Contents></ListBucketResult>",
		"negative size":       `<ListBucketResult><Contents><Size>-1</Size></Contents></ListBucketResult>`,
		"no size":             `<ListBucketResult><Contents><Size/></Contents></ListBucketResult>`,
		"huge size":           `<ListBucketResult><Contents><Size>9999999999999999999999</Size></Contents></ListBucketResult>`,
		"bad time":            `<ListBucketResult><Contents><LastModified>2026-02-30T00:00:00.000Z</LastModified></Contents></ListBucketResult>`,
		"bad flag":            `<ListBucketResult><IsTruncated>yes</IsTruncated></ListBucketResult>`,
		"bad percent":         `<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%4</Key></Contents></ListBucketResult>`,
		"too deep":            "<ListBucketResult>" + strings.Repeat("<a>", 20) + strings.Repeat("</a>", 20) + "</ListBucketResult>",
		"< in an attribute":   `<ListBucketResult a="<"/>`,
		"comment without end": `<ListBucketResult><!-- </ListBucketResult>`,
		"end of CDATA":        `<ListBucketResult><Contents><Key>]]></Key></Contents></ListBucketResult>`,
	} {
		var p page
		require.ErrorIs(t, p.parse([]byte(doc), "ListBucketResult"), ErrProtocol, name)
	}
	for n := range len(documents[1]) - 1 { // the last byte is white space
		var p page
		require.Error(t, p.parse([]byte(documents[1])[:n], "ListBucketResult"), "cut at byte %d", n)
	}
}

// FuzzScanner: encoding/xml reads every document that the scanner accepts, and reads the same from it.
func FuzzScanner(f *testing.F) {
	for _, doc := range documents {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		var p page
		if p.parse(bytes.Clone(doc), "ListBucketResult") != nil {
			return
		}
		for _, name := range []string{"Key", "VersionId", "ETag", "StorageClass", "ChecksumType", "Size", "LastModified", "NextContinuationToken", "NextKeyMarker",
			"NextVersionIdMarker"} {
			if strings.Count(string(doc), "<"+name) > strings.Count(string(doc), "<Contents")+strings.Count(string(doc), "<Version")+1 {
				return // an element that is there twice: encoding/xml keeps parts of both
			}
		}
		compare(t, doc, &p)
	})
}

// TestScannerAcceptsMarshaled: a document that encoding/xml has written is read back, with every key that it can contain.
func TestScannerAcceptsMarshaled(t *testing.T) {
	type object struct {
		Key  string
		ETag string
		Size int64
	}
	type result struct {
		XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
		Contents []object
	}
	want := result{}
	for c := rune(1); c < 0x3000; c++ {
		key := fmt.Sprintf("%c %[1]c", c)
		if isXMLText(key) {
			want.Contents = append(want.Contents, object{key, `"` + url.PathEscape(key) + `"`, int64(c)})
		}
	}
	doc, err := xml.Marshal(want)
	require.NoError(t, err)
	var p page
	require.NoError(t, p.parse(doc, "ListBucketResult"))
	require.Len(t, p.objects, len(want.Contents))
	for i := range p.objects {
		e := p.objects[i].entry()
		require.Equal(t, want.Contents[i], object{e.Key, `"` + e.ETag + `"`, e.Size})
	}
}

// TestListingsAllocateLittle: a page needs an allocation for each entry, and few others.
func TestListingsAllocateLittle(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`<ListBucketResult>`)
	for i := range 1000 {
		fmt.Fprintf(&b, `<Contents><Key>dir/%06d</Key><LastModified>2026-11-24T12:34:56.789Z</LastModified><ETag>&quot;9dd4e461268c8034f5c8564e155c67a6&quot;</ETag>`+
			`<Size>%d</Size><StorageClass>STANDARD</StorageClass></Contents>`, i, i)
	}
	b.WriteString(`</ListBucketResult>`)
	doc := make([]byte, b.Len())
	var p page
	size := int64(0)
	n := testing.AllocsPerRun(10, func() {
		copy(doc, b.Bytes())
		require.NoError(t, p.parse(doc, "ListBucketResult"))
		for e := range p.entries() {
			size += e.Size
		}
	})
	require.NotZero(t, size)
	require.Less(t, n, 1000*1.2)
}

func TestLoopCheck(t *testing.T) {
	for _, period := range []int{1, 2, 3, 7, 100} {
		for _, lead := range []int{0, 1, 5, 50} { // positions before the circle
			var l loopCheck
			steps, err := 0, error(nil)
			for ; err == nil; steps++ {
				at := steps
				if at >= lead {
					at = lead + (at-lead)%period
				}
				err = l.check(cursor{token: fmt.Sprint(at)}, 0)
				require.Less(t, steps, 10*(period+lead+1), "a circle of %d after %d", period, lead)
			}
			require.ErrorIs(t, err, ErrProtocol)
			require.Greater(t, steps, period, "not before the first repetition")
		}
	}
	var l loopCheck
	for i := range 100_000 {
		require.NoError(t, l.check(cursor{token: fmt.Sprint(i)}, 0))
	}
	require.Error(t, l.check(cursor{}, 0))
	require.Error(t, l.check(cursor{token: "new"}, emptyPagesMax))
}

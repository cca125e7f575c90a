package s3

import (
	"encoding/xml"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/internal/checksum"
)

func TestBucketNames(t *testing.T) {
	for _, good := range []string{"abc", "a.b", "1.2.3", "my-bucket", "192.168.5.4a", strings.Repeat("a", 63), "xn-a", "s3x"} {
		require.True(t, ValidBucketName(good), good)
	}
	for _, bad := range []string{
		"", "a", "ab", strings.Repeat("a", 64), "Abc", "a_b", "a..b", "a-.b", "a.-b", ".abc", "abc.", "-abc", "abc-", "192.168.5.4", "a b", "a/b", "äbc",
		"xn--abc", "sthree-abc", "amzn-s3-demo-abc", "abc-s3alias", "abc--ol-s3", "abc.mrap", "abc--x-s3", "abc--table-s3", "abc\x00",
	} {
		require.False(t, ValidBucketName(bad), bad)
	}
}

func TestKeys(t *testing.T) {
	for _, good := range []string{"a", "//", "..", strings.Repeat("k", 1024), strings.Repeat("é", 512), "\x01\n", "a b+c%d"} {
		require.NoError(t, checkKey(good), good)
	}
	for bad, code := range map[string]string{
		"": "InvalidArgument", strings.Repeat("k", 1025): "KeyTooLongError", "\xff": "InvalidURI", "a\xc0\x80": "InvalidURI", "a\x00b": "InvalidArgument",
	} {
		require.Equal(t, code, toAPI(checkKey(bad)).code, "%q", bad)
	}
}

func TestParseRange(t *testing.T) {
	type result struct {
		s    span
		ok   bool
		code string
	}
	for header, want := range map[string]result{
		"bytes=0-0":                    {span{0, 1}, true, ""},
		"bytes=0-9":                    {span{0, 10}, true, ""},
		"bytes=0-99":                   {span{0, 10}, true, ""},
		"bytes=3-":                     {span{3, 7}, true, ""},
		"bytes=-3":                     {span{7, 3}, true, ""},
		"bytes=-99":                    {span{0, 10}, true, ""},
		"bytes=9-":                     {span{9, 1}, true, ""},
		"bytes=2-99999999999999999999": {span{2, 8}, true, ""},
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
		s, ok, err := parseRange(header, 10)
		got := result{s: s, ok: ok}
		if err != nil {
			got.code = toAPI(err).code
		}
		require.Equal(t, want, got, header)
	}
	for _, header := range []string{"bytes=0-", "bytes=-1", "bytes=0-0"} {
		_, _, err := parseRange(header, 0)
		require.Error(t, err, header)
	}
}

func TestReadConditions(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)
	same, before, after := at.Format(http.TimeFormat), at.Add(-time.Hour).Format(http.TimeFormat), at.Add(time.Hour).Format(http.TimeFormat)
	for _, c := range []struct {
		name string
		set  readConditionSet
		want verdict
	}{
		{"none", readConditionSet{}, proceed},
		{"match", readConditionSet{match: `"e"`}, proceed},
		{"match without quotes", readConditionSet{match: `e`}, proceed},
		{"match in a list", readConditionSet{match: `"x", "e"`}, proceed},
		{"match any", readConditionSet{match: `*`}, proceed},
		{"match another", readConditionSet{match: `"x"`}, failed},
		{"none match", readConditionSet{noneMatch: `"e"`}, notModified},
		{"none match, weak", readConditionSet{noneMatch: `W/"e"`}, notModified},
		{"none match any", readConditionSet{noneMatch: `*`}, notModified},
		{"none match another", readConditionSet{noneMatch: `"x", "y"`}, proceed},
		{"modified since before", readConditionSet{modifiedSince: before}, proceed},
		{"modified since the same second", readConditionSet{modifiedSince: same}, notModified},
		{"modified since after", readConditionSet{modifiedSince: after}, notModified},
		{"modified since later than now", readConditionSet{modifiedSince: at.Add(3 * time.Hour).Format(http.TimeFormat)}, proceed},
		{"modified since nonsense", readConditionSet{modifiedSince: "yesterday"}, proceed},
		{"unmodified since before", readConditionSet{unmodifiedSince: before}, failed},
		{"unmodified since the same second", readConditionSet{unmodifiedSince: same}, proceed},
		{"unmodified since after", readConditionSet{unmodifiedSince: after}, proceed},
		{"match beats unmodified since", readConditionSet{match: `"e"`, unmodifiedSince: before}, proceed},
		{"match fails whatever unmodified since says", readConditionSet{match: `"x"`, unmodifiedSince: after}, failed},
		{"none match beats modified since", readConditionSet{noneMatch: `"x"`, modifiedSince: after}, proceed},
		{"none match hits whatever modified since says", readConditionSet{noneMatch: `"e"`, modifiedSince: before}, notModified},
		{"match and none match", readConditionSet{match: `"e"`, noneMatch: `"e"`}, notModified},
		{"unmodified since and none match", readConditionSet{unmodifiedSince: before, noneMatch: `"e"`}, failed},
	} {
		require.Equal(t, c.want, c.set.judge("e", at, at.Add(2*time.Hour)), c.name)
	}
}

func TestWriteConditions(t *testing.T) {
	p, err := writeCondition(http.Header{"If-Match": {`"a", b`}})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, p.Match)
	p, err = writeCondition(http.Header{"If-None-Match": {"*"}})
	require.NoError(t, err)
	require.Equal(t, []string{"*"}, p.NoneMatch)
	for _, h := range []http.Header{{"If-None-Match": {`"a"`}}, {"If-None-Match": {`*, "a"`}}, {"If-None-Match": {""}}} {
		_, err = writeCondition(h)
		require.Equal(t, "NotImplemented", toAPI(err).code, h)
	}
	_, err = writeCondition(http.Header{"If-Match": {" "}})
	require.Equal(t, "InvalidArgument", toAPI(err).code)
}

func TestXMLLimits(t *testing.T) {
	deep := func(n int) string {
		return "<Delete>" + strings.Repeat("<a>", n-1) + strings.Repeat("</a>", n-1) + "</Delete>"
	}
	var into struct {
		XMLName xml.Name `xml:"Delete"`
		Quiet   *xmlBool `xml:"Quiet"`
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
		require.NoError(t, parseXML([]byte(good), &into), good)
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
		require.Equal(t, "MalformedXML", toAPI(parseXML([]byte(bad), &into)).code, bad)
	}
	_, err := readAll(strings.NewReader("12345"), 4)
	require.Equal(t, "MaxMessageLengthExceeded", toAPI(err).code)
	doc, err := readAll(strings.NewReader("1234"), 4)
	require.NoError(t, err)
	require.Equal(t, "1234", string(doc))
}

func TestXMLText(t *testing.T) {
	require.Equal(t, "a&amp;&lt;b&gt;&quot;'\u00e9 &#xa;&#x1;&#xd;&#xfffe;\U0001f600", string(appendXML(nil, "a&<b>\"'\u00e9 \n\x01\r\ufffe\U0001f600")))
	require.Equal(t, "a/b%20%2B%25%C3%A9", string(appendURL(nil, "a/b +%é")))
}

func TestEveryRouteHasAnAction(t *testing.T) {
	table, err := routeTable(allRoutes())
	require.NoError(t, err)
	require.Len(t, table, len(allRoutes()))
	for _, r := range table {
		require.Regexp(t, `^s3:[A-Z][A-Za-z]+$`, string(r.action), r.name)
	}
}

func TestRouteTableRefusesHoles(t *testing.T) {
	handle := func(*request) error { return nil }
	good := route{name: "A", method: "GET", level: bucketLevel, action: "s3:A", handle: handle}
	_, err := routeTable([]route{good})
	require.NoError(t, err)
	noAction, noHandler, noName, unknown := good, good, good, good
	noAction.action, noHandler.handle, noName.name, unknown.sub = "", nil, "", "no-such-subresource"
	for _, bad := range [][]route{{noAction}, {noHandler}, {noName}, {unknown}, {good, good}} {
		_, err := routeTable(bad)
		require.Error(t, err)
	}
}

func TestQuery(t *testing.T) {
	var q query
	require.NoError(t, q.parse("a=1&b=x%20y&&c&d=%2B+&a=2&e=a=b"))
	for name, want := range map[string]string{"a": "1", "b": "x y", "c": "", "d": "+ ", "e": "a=b"} {
		v, ok := q.get(name)
		require.True(t, ok, name)
		require.Equal(t, want, v, name)
	}
	_, ok := q.get("z")
	require.False(t, ok)
	for _, bad := range []string{"a=%", "%zz=1", "a=%ff"} {
		require.Error(t, q.parse(bad), bad)
	}
	require.NoError(t, q.parse("acl&tagging"))
	_, err := q.subresource()
	require.Equal(t, "InvalidArgument", toAPI(err).code)
	require.NoError(t, q.parse("x-id=GetObject&acl&prefix=p"))
	sub, err := q.subresource()
	require.NoError(t, err)
	require.Equal(t, "acl", sub)
}

func TestCopySource(t *testing.T) {
	for v, want := range map[string]source{
		"/bucket/key":                              {"bucket", "key", core.Current},
		"bucket/a%2Fb//..%20c+d":                   {"bucket", "a/b//.. c+d", core.Current},
		"bucket/key?versionId=null":                {"bucket", "key", core.Null},
		"bucket/key?versionId=00000000000000ff":    {"bucket", "key", 255},
		"bucket/what%3FversionId=x?versionId=null": {"bucket", "what?versionId=x", core.Null},
	} {
		got, err := parseSource(v, copySourceName)
		require.NoError(t, err, v)
		require.Equal(t, want, got, v)
	}
	for _, bad := range []string{"", "bucket", "bucket/", "/", "Bad_Name/key", "bucket/%zz", "bucket/key?versionId=x", "bucket/key?versionId=", "arn:aws:s3:::a/b"} {
		_, err := parseSource(bad, copySourceName)
		require.Error(t, err, bad)
	}
}

func TestCopyRange(t *testing.T) {
	s, err := copyRange("bytes=2-5", 10)
	require.NoError(t, err)
	require.Equal(t, span{2, 4}, s)
	for _, bad := range []string{"bytes=2-10", "bytes=2-", "bytes=-2", "2-5", "bytes=5-2", "bytes=a-b", "bytes=0-1,3-4"} {
		_, err := copyRange(bad, 10)
		require.Equal(t, "InvalidArgument", toAPI(err).code, bad)
	}
}

func TestUploadSum(t *testing.T) {
	for _, c := range []struct {
		alg, kind string
		want      checksum.Algorithm
		composite bool
		code      string
	}{
		{"", "", checksum.None, false, ""},
		{"CRC32", "", checksum.CRC32, true, ""},
		{"CRC32", "FULL_OBJECT", checksum.CRC32, false, ""},
		{"CRC64NVME", "", checksum.CRC64NVME, false, ""},
		{"SHA256", "", checksum.SHA256, true, ""},
		{"SHA256", "COMPOSITE", checksum.SHA256, true, ""},
		{"SHA256", "FULL_OBJECT", 0, false, "InvalidRequest"},
		{"CRC64NVME", "COMPOSITE", 0, false, "InvalidRequest"},
		{"CRC31", "", 0, false, "InvalidRequest"},
		{"CRC32", "BOTH", 0, false, "InvalidRequest"},
		{"", "COMPOSITE", 0, false, "InvalidRequest"},
	} {
		h := http.Header{}
		if c.alg != "" {
			h.Set("X-Amz-Checksum-Algorithm", c.alg)
		}
		if c.kind != "" {
			h.Set("X-Amz-Checksum-Type", c.kind)
		}
		alg, composite, err := uploadSum(h)
		if c.code != "" {
			require.Equal(t, c.code, toAPI(err).code, c)
			continue
		}
		require.NoError(t, err, c)
		require.Equal(t, c.want, alg, c)
		require.Equal(t, c.composite, composite, c)
	}
}

func TestIntegrityHeaders(t *testing.T) {
	const crc = "AAAAAA=="
	for _, c := range []struct {
		header    http.Header
		announced []string
		code      string
	}{
		{http.Header{}, nil, ""},
		{http.Header{"Content-Md5": {"1B2M2Y8AsgTpgAmY7PhCfg=="}}, nil, ""},
		{http.Header{"Content-Md5": {"1B2M2Y8AsgTpgAmY7PhC"}}, nil, "InvalidDigest"},
		{http.Header{"Content-Md5": {"?"}}, nil, "InvalidDigest"},
		{http.Header{"X-Amz-Checksum-Crc32": {crc}}, nil, ""},
		{http.Header{"X-Amz-Checksum-Crc32": {crc}, "X-Amz-Checksum-Mode": {"ENABLED"}}, nil, ""},
		{http.Header{"X-Amz-Checksum-Crc32": {crc}, "X-Amz-Sdk-Checksum-Algorithm": {"crc32"}}, nil, ""},
		{http.Header{"X-Amz-Checksum-Crc32": {"AAAA"}}, nil, "InvalidRequest"},
		{http.Header{"X-Amz-Checksum-Crc31": {crc}}, nil, "InvalidRequest"},
		{http.Header{"X-Amz-Checksum-Crc32": {crc}, "X-Amz-Checksum-Crc32c": {crc}}, nil, "InvalidRequest"},
		{http.Header{"X-Amz-Checksum-Crc32": {crc}}, []string{"x-amz-checksum-crc32"}, "InvalidRequest"},
		{http.Header{}, []string{"x-amz-checksum-crc64nvme"}, ""},
		{http.Header{}, []string{"x-amz-meta-late"}, "InvalidRequest"},
		{http.Header{"X-Amz-Sdk-Checksum-Algorithm": {"CRC32"}}, nil, "InvalidRequest"},
		{http.Header{"X-Amz-Sdk-Checksum-Algorithm": {"CRC31"}, "X-Amz-Checksum-Crc32": {crc}}, nil, "InvalidRequest"},
		{http.Header{"X-Amz-Sdk-Checksum-Algorithm": {"SHA1"}, "X-Amz-Checksum-Crc32": {crc}}, nil, "InvalidRequest"},
	} {
		_, err := parseIntegrity(c.header, c.announced)
		if c.code == "" {
			require.NoError(t, err, c)
			continue
		}
		require.Error(t, err, c)
		require.Equal(t, c.code, toAPI(err).code, c)
	}
}

func TestObjectAttrs(t *testing.T) {
	attrs, err := objectAttrs(http.Header{
		"Content-Encoding": {"aws-chunked,gzip"}, "Content-Type": {"text/plain"}, "X-Amz-Meta-B": {"2"}, "X-Amz-Meta-A": {"1", "1a"},
		"X-Amz-Storage-Class": {"STANDARD_IA"}, "X-Amz-Website-Redirect-Location": {"/there"}, "X-Other": {"no"}, "Cache-Control": {""},
	})
	require.NoError(t, err)
	require.Equal(t, []core.Attr{
		{Name: "Content-Encoding", Value: "gzip"}, {Name: "Content-Type", Value: "text/plain"}, {Name: "X-Amz-Storage-Class", Value: "STANDARD_IA"},
		{Name: "X-Amz-Website-Redirect-Location", Value: "/there"}, {Name: "x-amz-meta-a", Value: "1,1a"}, {Name: "x-amz-meta-b", Value: "2"},
	}, attrs)
	_, err = objectAttrs(http.Header{"X-Amz-Meta-K": {strings.Repeat("v", 2047)}})
	require.NoError(t, err)
	for _, c := range []struct {
		header http.Header
		code   string
	}{
		{http.Header{"X-Amz-Meta-K": {strings.Repeat("v", 2048)}}, "MetadataTooLarge"},
		{http.Header{"X-Amz-Storage-Class": {"BEST"}}, "InvalidStorageClass"},
		{http.Header{"X-Amz-Website-Redirect-Location": {"there"}}, "InvalidRedirectLocation"},
	} {
		_, err := objectAttrs(c.header)
		require.Equal(t, c.code, toAPI(err).code)
	}
}

func TestTokens(t *testing.T) {
	for _, place := range []string{"a", "dir/", "\xff\x00", strings.Repeat("k", 1024)} {
		got, err := parseToken(makeToken(place))
		require.NoError(t, err)
		require.Equal(t, place, got)
	}
	for _, bad := range []string{"1", "x", "2YQ", "1?", "1YQ=="} {
		_, err := parseToken(bad)
		require.Error(t, err, bad)
	}
}

func TestEveryKindHasAStatus(t *testing.T) {
	for k := core.Internal; k <= core.BadDigest; k++ {
		e := toAPI(core.E("test", k, nil))
		require.NotEmpty(t, e.code, k)
		if e.status == 500 {
			switch k {
			case core.Internal, core.NoSuchData, core.Damaged, core.Unsupported, core.Busy:
			default:
				t.Errorf("kind %v is an internal error", k)
			}
		}
	}
}

package s3

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/checksum"
	"orcas/s3/conditions"
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
		require.Equal(t, code, toAPI(checkKey(bad)).Code, "%q", bad)
	}
}

func TestRouteTableErrors(t *testing.T) {
	one := map[string]handler{"A": func(*request) error { return nil }}
	two := map[string]handler{"A": one["A"], "B": one["A"]}
	row := func(change func(*route)) route {
		r := route{Route: gate.Route{Name: "A", Method: "GET", Level: gate.Bucket, Effect: gate.Read, Action: "s3:A"}}
		change(&r)
		return r
	}
	good := row(func(*route) {})
	_, err := routeTable([]route{good}, one)
	require.NoError(t, err)
	twin := row(func(r *route) { r.Name = "B" })
	for wrong, table := range map[string][]route{
		"has no action":              {row(func(r *route) { r.Action = "" })},
		"the route C has no handler": {row(func(r *route) { r.Name = "C" })},
		"expected a name":            {row(func(r *route) { r.Name = "" })},
		"cannot be selected":         {row(func(r *route) { r.Sub = "no-such-subresource" })},
		"or header \"X-Other\"":      {row(func(r *route) { r.Header = "X-Other" })},
		"two routes have the name":   {good, row(func(r *route) { r.Sub = "acl" })},
		"match the same requests":    {good, twin},
		"the handler B has no route": {good},
		"only objects have versions": {row(func(r *route) { r.VersionAction = "s3:B" })},
		"either a level or a path":   {row(func(r *route) { r.Level = 0 })},
		"and path \"/somewhere\"":    {row(func(r *route) { r.Path = "/somewhere" })},
	} {
		handlers := one
		if wrong == "match the same requests" || wrong == "the handler B has no route" {
			handlers = two
		}
		_, err := routeTable(table, handlers)
		require.ErrorContains(t, err, wrong)
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
	require.Equal(t, "InvalidArgument", toAPI(err).Code)
	require.NoError(t, q.parse("x-id=GetObject&acl&prefix=p"))
	sub, err := q.subresource()
	require.NoError(t, err)
	require.Equal(t, "acl", sub)
}

func TestCopySource(t *testing.T) {
	for v, want := range map[string]source{
		"/bucket/key":                              {"bucket", "key", core.Current, ""},
		"bucket/a%2Fb//..%20c+d":                   {"bucket", "a/b//.. c+d", core.Current, ""},
		"bucket/key?versionId=null":                {"bucket", "key", core.Null, "null"},
		"bucket/key?versionId=00000000000000ff":    {"bucket", "key", 255, "00000000000000ff"},
		"bucket/what%3FversionId=x?versionId=null": {"bucket", "what?versionId=x", core.Null, "null"},
	} {
		got, err := wireIDs{}.parseSource(v, copySourceName)
		require.NoError(t, err, v)
		require.Equal(t, want, got, v)
	}
	for _, bad := range []string{"", "bucket", "bucket/", "/", "Bad_Name/key", "bucket/%zz", "bucket/key?versionId=x", "bucket/key?versionId=", "arn:aws:s3:::a/b"} {
		_, err := wireIDs{}.parseSource(bad, copySourceName)
		require.Error(t, err, bad)
	}
}

func TestCopyRange(t *testing.T) {
	s, err := copyRange("bytes=2-5", 10)
	require.NoError(t, err)
	require.Equal(t, conditions.Span{Offset: 2, Length: 4}, s)
	for _, bad := range []string{"bytes=2-10", "bytes=2-", "bytes=-2", "2-5", "bytes=5-2", "bytes=a-b", "bytes=0-1,3-4"} {
		_, err := copyRange(bad, 10)
		require.Equal(t, "InvalidArgument", toAPI(err).Code, bad)
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
			require.Equal(t, c.code, toAPI(err).Code, c)
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
		require.Equal(t, c.code, toAPI(err).Code, c)
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
		require.Equal(t, c.code, toAPI(err).Code)
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
		require.NotEmpty(t, e.Code, k)
		if e.Status == 500 {
			switch k {
			case core.Internal, core.NoSuchData, core.Damaged, core.Unsupported, core.Busy:
			default:
				t.Errorf("kind %v is an internal error", k)
			}
		}
	}
}

func TestLengthless(t *testing.T) {
	for _, c := range []struct {
		r    http.Request
		want bool
	}{
		{http.Request{ProtoMajor: 1}, true},
		{http.Request{ProtoMajor: 1, Header: http.Header{"Content-Length": {"0"}}}, false},
		{http.Request{ProtoMajor: 1, Header: http.Header{"Content-Length": {"7"}}, ContentLength: 7}, false},
		{http.Request{ProtoMajor: 1, TransferEncoding: []string{"chunked"}, ContentLength: -1}, false},
		{http.Request{ProtoMajor: 2}, false}, // the end of the stream determines the length
	} {
		require.Equal(t, c.want, lengthless(&c.r), "%+v", c.r)
	}
}

func TestClimbs(t *testing.T) {
	for _, key := range []string{"..", "../a", "a/../..", "a/../../b", "/..", "a//../../b", "./..", "../..", "a/b/../../.."} {
		require.True(t, climbs(key), key)
	}
	for _, key := range []string{"", "a", "a/..", "a/../b", "...", "..a", "a..", "a/..b/..", "a/b/../..", ".", "./.", "//", `..\a`, "a/./.."} {
		require.False(t, climbs(key), key)
	}
}

// Whoever began an upload is its initiator, also under another name. Nobody else is, also under the same name.
func TestIsInitiator(t *testing.T) {
	const account = "111122223333"
	p := &auth.Principal{Account: account, ARN: "arn:aws:iam::" + account + ":user/a", ID: "AIDA1"}
	renamed, successor := *p, *p
	renamed.ARN, successor.ID = "arn:aws:iam::"+account+":user/b", "AIDA2"
	root := &auth.Principal{Account: account, ARN: auth.RootARN(account), ID: account}
	for _, c := range []struct {
		who, began *auth.Principal
		want       bool
	}{{p, p, true}, {&renamed, p, true}, {&successor, p, false}, {root, p, false}, {p, root, false}, {root, root, true}} {
		require.Equal(t, c.want, isInitiator(c.who, initiator(c.began)))
	}
	require.False(t, isInitiator(&auth.Principal{Account: account}, account), "a principal without an ID is nobody")
}

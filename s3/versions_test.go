package s3_test

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// versioning sets the versioning state of a bucket.
func (w *world) versioning(bucket, status string) {
	w.t.Helper()
	w.do("PUT", "/"+bucket+"?versioning", []byte("<VersioningConfiguration><Status>"+status+"</Status></VersioningConfiguration>")).is(200, "")
}

func TestVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "zero")
	w.versioning("bucket", "Enabled")
	require.Contains(t, string(w.do("GET", "/bucket?versioning", nil).is(200, "").body), "<Status>Enabled</Status>")
	put := func(body string) string {
		return w.do("PUT", "/bucket/key", []byte(body)).is(200, "").header.Get("X-Amz-Version-Id")
	}
	one, two := put("one"), put("two")
	require.NotEqual(t, one, two)
	for version, body := range map[string]string{"null": "zero", one: "one", two: "two"} {
		a := w.do("GET", "/bucket/key?versionId="+version, nil).is(200, "")
		require.Equal(t, body, string(a.body))
		require.Equal(t, version, a.header.Get("X-Amz-Version-Id"))
	}
	a := w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/key?versionId="+one).is(200, "")
	require.Equal(t, one, a.header.Get("X-Amz-Copy-Source-Version-Id"))
	require.NotEmpty(t, a.header.Get("X-Amz-Version-Id"))
	require.Equal(t, "one", w.content("/bucket/copy"))

	// Copying an old version onto its own key makes it the current version.
	w.do("PUT", "/bucket/key", nil, "X-Amz-Copy-Source", "/bucket/key?versionId="+one).is(200, "")
	require.Equal(t, "one", w.content("/bucket/key"))

	a = w.do("DELETE", "/bucket/key", nil).is(204, "")
	marker := a.header.Get("X-Amz-Version-Id")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	require.NotEmpty(t, marker)
	a = w.do("GET", "/bucket/key", nil).is(404, "NoSuchKey")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	require.Equal(t, marker, a.header.Get("X-Amz-Version-Id"))
	a = w.do("HEAD", "/bucket/key", nil).is(404, "")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"))
	a = w.do("GET", "/bucket/key?versionId="+marker, nil).is(405, "MethodNotAllowed")
	require.Equal(t, http.MethodDelete, a.header.Get("Allow"))
	require.NotEmpty(t, a.header.Get("Last-Modified"))
	w.do("PUT", "/bucket/x", nil, "X-Amz-Copy-Source", "/bucket/key?versionId="+marker).is(400, "InvalidRequest")
	w.do("PUT", "/bucket/x", nil, "X-Amz-Copy-Source", "/bucket/key").is(404, "NoSuchKey")
	w.do("PUT", "/bucket/key", []byte("x"), "If-Match", "*").is(404, "NoSuchKey")
	require.NotContains(t, listAll(w, "bucket", ""), "key")
	require.Contains(t, string(w.do("DELETE", "/bucket", nil).is(409, "BucketNotEmpty").body), "all versions")

	body := []byte("<Delete><Object><Key>key</Key><VersionId>" + marker + "</VersionId></Object><Object><Key>copy</Key></Object></Delete>")
	a = w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(200, "")
	require.Contains(t, string(a.body), "<Key>key</Key><VersionId>"+marker+"</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>"+marker)
	require.Contains(t, string(a.body), "<Key>copy</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>")
	require.Equal(t, "one", w.content("/bucket/key"))

	w.versioning("bucket", "Suspended")
	require.Empty(t, put("suspended")) // the ID of a new null version is not sent
	require.Equal(t, "null", w.do("HEAD", "/bucket/key", nil).is(200, "").header.Get("X-Amz-Version-Id"))
	require.Equal(t, "suspended", string(w.do("GET", "/bucket/key?versionId=null", nil).is(200, "").body))
	require.Equal(t, "one", string(w.do("GET", "/bucket/key?versionId="+one, nil).is(200, "").body))
	w.do("PUT", "/bucket/key", []byte("x"), "If-None-Match", "*").is(412, "PreconditionFailed")
	up := w.begin("/bucket/key")
	e := up.part(1, []byte("part")).etag()
	require.Empty(t, up.finish(1, e).is(200, "").header.Get("X-Amz-Version-Id"))
	require.Empty(t, w.do("PUT", "/bucket/null", nil, "X-Amz-Copy-Source", "/bucket/key").is(200, "").header.Get("X-Amz-Version-Id"))
}

func TestPutBucketVersioning(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	set := func(inside string) *response {
		return w.do("PUT", "/bucket?versioning", []byte(`<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`+inside+"</VersioningConfiguration>"))
	}
	state := func() string {
		return inside(t, w.do("GET", "/bucket?versioning", nil).is(200, ""), "VersioningConfiguration")
	}
	require.Empty(t, state())
	set("<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>").is(403, "AccessDenied")
	require.Equal(t, 501, w.do("PUT", "/bucket?versioning", nil, "X-Amz-Mfa", "serial 123").status)
	require.Empty(t, state())
	set("<MfaDelete>Disabled</MfaDelete><Status>Enabled</Status>").is(200, "")
	require.Equal(t, "<Status>Enabled</Status>", state())
	require.Len(t, w.do("PUT", "/bucket/key", nil).header.Get("X-Amz-Version-Id"), 22)
	set("<Status>Suspended</Status>").is(200, "")
	require.Equal(t, "<Status>Suspended</Status>", state())
	w.do("PUT", "/absent?versioning", []byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")).is(404, "NoSuchBucket")
	require.Equal(t, "<Status>Suspended</Status>", state())
	w.do("DELETE", "/bucket?versioning", nil).is(405, "MethodNotAllowed")

	// A bucket with object lock keeps its versions.
	_, err := w.fs.CreateBucket(t.Context(), core.BucketInfo{Name: "locked", Owner: account, Versioning: core.VersioningEnabled, ObjectLock: true})
	require.NoError(t, err)
	w.do("PUT", "/locked?versioning", []byte("<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")).is(409, "InvalidBucketState")
	w.do("PUT", "/locked?versioning", []byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")).is(200, "")
}

// Null versions are written while versioning is off, enabled and suspended. The listing shows the result.
func TestNullVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	put := func(body string) string {
		return w.do("PUT", "/bucket/key", []byte(body)).is(200, "").header.Get("X-Amz-Version-Id")
	}
	remove := func(query string) (version, marker string) {
		a := w.do("DELETE", "/bucket/key"+query, nil).is(204, "")
		return a.header.Get("X-Amz-Version-Id"), a.header.Get("X-Amz-Delete-Marker")
	}
	all := func() string { return listVersions(w, "bucket", "").String() }
	get := func(version string) string {
		return string(w.do("GET", "/bucket/key?versionId="+version, nil).is(200, "").body)
	}
	require.Empty(t, put("a"))
	require.Equal(t, "key=null*", all())
	version, marker := remove("")
	require.Empty(t, version+marker)
	require.Empty(t, all())
	put("b")
	w.versioning("bucket", "Enabled")
	one := put("c")
	require.Equal(t, "key="+one+"* key=null", all())
	w.versioning("bucket", "Suspended")
	require.Empty(t, put("d")) // replaces b
	require.Equal(t, "key=null* key="+one, all())
	require.Equal(t, "d", get("null"))

	version, marker = remove("") // a null delete marker replaces the null version
	require.Equal(t, "null true", version+" "+marker)
	require.Equal(t, "key=null!* key="+one, all())
	a := w.do("GET", "/bucket/key?versionId=null", nil).is(405, "MethodNotAllowed")
	require.Equal(t, "DELETE null true", a.header.Get("Allow")+" "+a.header.Get("X-Amz-Version-Id")+" "+a.header.Get("X-Amz-Delete-Marker"))
	w.do("HEAD", "/bucket/key?versionId=null", nil).is(405, "")
	a = w.do("HEAD", "/bucket/key", nil).is(404, "")
	require.Equal(t, "null true", a.header.Get("X-Amz-Version-Id")+" "+a.header.Get("X-Amz-Delete-Marker"))

	version, marker = remove("?versionId=null") // without the marker, the next version is the current one
	require.Equal(t, "null true", version+" "+marker)
	require.Equal(t, "key="+one+"*", all())
	require.Equal(t, "c", w.content("/bucket/key"))

	w.versioning("bucket", "Enabled")
	two, _ := remove("")
	require.Equal(t, "key="+two+"!* key="+one, all())
	three, _ := remove("") // a second marker
	require.Equal(t, "key="+three+"!* key="+two+"! key="+one, all())
	version, marker = remove("?versionId=" + one)
	require.Equal(t, one+" ", version+" "+marker)
	version, marker = remove("?versionId=" + one) // deleting it again succeeds, too
	require.Equal(t, one+" ", version+" "+marker)
	w.do("DELETE", "/bucket/key?versionId=nonsense", nil).is(400, "InvalidArgument")
	w.do("GET", "/bucket/key?versionId=nonsense", nil).is(400, "InvalidArgument")
	w.do("GET", "/bucket/key?versionId=", nil).is(400, "InvalidArgument")
	a = w.do("GET", "/bucket/key?versionId="+one, nil).is(404, "NoSuchVersion")
	require.Contains(t, string(a.body), "<Key>key</Key><VersionId>"+one+"</VersionId>")
	remove("?versionId=" + three)
	remove("?versionId=" + two)
	require.Empty(t, all())
	w.do("DELETE", "/bucket", nil).is(204, "")
}

// DeleteObjects deletes versions in buckets of each versioning state.
func TestDeleteObjectsOfVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	remove := func(objects string) string {
		body := []byte("<Delete>" + objects + "</Delete>")
		return inside(t, w.do("POST", "/bucket?delete", body, "Content-Md5", md5Of(body)).is(200, ""), "DeleteResult")
	}
	w.put("/bucket/key", "null")
	require.Equal(t, "<Deleted><Key>key</Key><VersionId>null</VersionId></Deleted>", remove("<Object><Key>key</Key><VersionId>null</VersionId></Object>"))
	w.versioning("bucket", "Enabled")
	one := w.do("PUT", "/bucket/key", nil).header.Get("X-Amz-Version-Id")
	require.Equal(t, "<Deleted><Key>key</Key><VersionId>"+one+"</VersionId></Deleted>"+
		"<Error><Key>key</Key><VersionId>nonsense</VersionId><Code>NoSuchVersion</Code><Message>The specified version does not exist.</Message></Error>",
		remove("<Object><Key>key</Key><VersionId>"+one+"</VersionId></Object><Object><Key>key</Key><VersionId>nonsense</VersionId></Object>"))
	require.Empty(t, listVersions(w, "bucket", ""))
	out := remove("<Object><Key>key</Key></Object>")
	markers := listVersions(w, "bucket", "")
	require.Len(t, markers, 1)
	require.Equal(t, "<Deleted><Key>key</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>"+markers[0].id+"</DeleteMarkerVersionId></Deleted>", out)
	w.versioning("bucket", "Suspended")
	out = remove("<Object><Key>key</Key></Object><Object><Key>key</Key><VersionId>" + markers[0].id + "</VersionId></Object>")
	require.Equal(t, "<Deleted><Key>key</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>null</DeleteMarkerVersionId></Deleted>"+
		"<Deleted><Key>key</Key><VersionId>"+markers[0].id+"</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>"+markers[0].id+"</DeleteMarkerVersionId></Deleted>", out)
	require.Equal(t, "key=null!*", listVersions(w, "bucket", "").String())
}

// Parts can be copied from versions. Conditions on the source apply to the specified version.
func TestPartsAreCopiedFromVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.versioning("bucket", "Enabled")
	a := w.do("PUT", "/bucket/source", []byte("old content"))
	old, etag := a.header.Get("X-Amz-Version-Id"), a.header.Get("ETag")
	w.put("/bucket/source", "new")
	marker := w.do("DELETE", "/bucket/source", nil).header.Get("X-Amz-Version-Id")
	up := w.begin("/bucket/target")
	from := func(version string, headers ...string) *response {
		return w.do("PUT", "/bucket/target?partNumber=1&uploadId="+up.id, nil, append(headers, "X-Amz-Copy-Source", "bucket/source"+version)...)
	}
	from("").is(404, "NoSuchKey")
	from("?versionId="+marker).is(400, "InvalidRequest")
	from("?versionId=nonsense").is(400, "InvalidArgument")
	from("?versionId="+absentVersion).is(404, "NoSuchVersion")
	from("?versionId="+old, "X-Amz-Copy-Source-If-None-Match", etag).is(412, "PreconditionFailed")
	a = from("?versionId="+old, "X-Amz-Copy-Source-If-Match", etag, "X-Amz-Copy-Source-Range", "bytes=4-10").is(200, "")
	require.Equal(t, old, a.header.Get("X-Amz-Copy-Source-Version-Id"))
	var part struct{ ETag string }
	a.parse(&part)
	created := up.finish(1, strings.Trim(part.ETag, `"`)).is(200, "").header.Get("X-Amz-Version-Id")
	require.Len(t, created, 22)
	require.Equal(t, "content", w.content("/bucket/target?versionId="+created))
}

// row is an entry of a listing of versions.
type row struct {
	key, id string
	marker  bool
	latest  bool
	prefix  bool
}

type rows []row

// String returns key=id for each version, with "!" for a delete marker and "*" for the newest version of its key, and
// common prefixes unchanged.
func (r rows) String() string {
	var out []string
	for _, v := range r {
		s := v.key
		if !v.prefix {
			s += "=" + v.id
		}
		if v.marker {
			s += "!"
		}
		if v.latest {
			s += "*"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

type versionPage struct {
	XMLName                         xml.Name `xml:"ListVersionsResult"`
	KeyMarker                       string
	NextKeyMarker                   string
	NextVersionIDMarker             *string `xml:"NextVersionIdMarker"`
	IsTruncated                     bool
	MaxKeys                         int
	Prefix, Delimiter, EncodingType string
	Items                           []struct {
		XMLName      xml.Name
		Key          string
		VersionID    string `xml:"VersionId"`
		IsLatest     bool
		LastModified string
		ETag         string
		Size         *int64
		StorageClass string
		Owner        struct{ ID string }
		Prefix       string
		Checksum     string `xml:"ChecksumAlgorithm"`
	} `xml:",any"`
}

func (p *versionPage) rows(t *testing.T) (out rows) {
	t.Helper()
	for _, i := range p.Items {
		switch i.XMLName.Local {
		case "Version":
			require.NotNil(t, i.Size)
			require.NotEmpty(t, i.ETag)
			require.Equal(t, "STANDARD", i.StorageClass)
			require.Equal(t, "CRC64NVME", i.Checksum)
			out = append(out, row{key: i.Key, id: i.VersionID, latest: i.IsLatest})
		case "DeleteMarker":
			require.Nil(t, i.Size)
			require.Empty(t, i.ETag+i.StorageClass)
			out = append(out, row{key: i.Key, id: i.VersionID, latest: i.IsLatest, marker: true})
		case "CommonPrefixes":
			out = append(out, row{key: i.Prefix, prefix: true})
			continue
		default:
			continue
		}
		require.Equal(t, canonical, i.Owner.ID)
		require.NotEmpty(t, i.LastModified)
	}
	return out
}

// listVersions lists everything, page by page.
func listVersions(w *world, bucket, query string) (out rows) {
	w.t.Helper()
	next := ""
	for {
		var p versionPage
		w.do("GET", "/"+bucket+"?versions"+query+next, nil).is(200, "").parse(&p)
		out = append(out, p.rows(w.t)...)
		if !p.IsTruncated {
			require.Empty(w.t, p.NextKeyMarker)
			require.Nil(w.t, p.NextVersionIDMarker)
			return out
		}
		next = "&key-marker=" + url.QueryEscape(p.NextKeyMarker)
		if p.NextVersionIDMarker != nil {
			next += "&version-id-marker=" + *p.NextVersionIDMarker
		}
	}
}

func TestListObjectVersions(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	var model rows // the versions of each key from newest to oldest
	write := func(key string, remove bool) {
		method := "PUT"
		if remove {
			method = "DELETE"
		}
		a := w.do(method, path("bucket", key), nil)
		id := a.header.Get("X-Amz-Version-Id")
		if id == "" {
			id = "null"
		}
		for i := range model {
			if model[i].key == key {
				model[i].latest = false
			}
		}
		if id == "null" {
			model = slices.DeleteFunc(model, func(r row) bool { return r.key == key && r.id == "null" })
		}
		model = append(rows{{key: key, id: id, marker: remove, latest: true}}, model...)
	}
	keys := []string{"a", "a/1", "a/2", "b c", "b/", "b/ä+x", "d"}
	for _, k := range keys {
		write(k, false)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, state := range []string{"Enabled", "Suspended", "Enabled"} {
		w.versioning("bucket", state)
		for range 12 {
			write(keys[r.IntN(len(keys))], r.IntN(3) == 0)
		}
	}
	slices.SortStableFunc(model, func(a, b row) int { return strings.Compare(a.key, b.key) })
	for _, prefix := range []string{"", "a", "a/", "b", "x"} {
		for _, delimiter := range []string{"", "/", " c"} {
			want := rows{}
			for _, m := range model {
				if !strings.HasPrefix(m.key, prefix) {
					continue
				}
				if p, rolled := core.CommonPrefix(m.key, prefix, delimiter); rolled {
					m = row{key: p, prefix: true}
					if slices.Contains(want, m) {
						continue
					}
				}
				want = append(want, m)
			}
			for _, limit := range []int{1, 2, 3, 5, 1000} {
				query := fmt.Sprintf("&max-keys=%d&prefix=%s&delimiter=%s", limit, url.QueryEscape(prefix), url.QueryEscape(delimiter))
				got := listVersions(w, "bucket", query)
				if limit == 1 { // a longer page has the common prefixes after the versions
					require.Equal(t, want.String(), got.String(), query)
				}
				sortRows(got)
				sortRows(want)
				require.Equal(t, want.String(), got.String(), query)
			}
		}
	}
}

func sortRows(r rows) {
	slices.SortStableFunc(r, func(a, b row) int { return strings.Compare(a.key, b.key) })
}

func TestListObjectVersionsParameters(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	get := func(query string) *versionPage {
		var p versionPage
		w.do("GET", "/bucket?versions"+query, nil).is(200, "").parse(&p)
		return &p
	}
	bad := func(query, message string) {
		a := w.do("GET", "/bucket?versions"+query, nil).is(400, "InvalidArgument")
		require.Contains(t, string(a.body), "<Message>"+message)
	}
	bad("&version-id-marker=null", "A version-id marker cannot be specified without a key marker.")
	bad("&key-marker=&version-id-marker=null", "A version-id marker cannot be specified without a key marker.")
	bad("&key-marker=a&version-id-marker=", "A version-id marker cannot be empty.")
	bad("&key-marker=a&version-id-marker=nonsense", "Invalid version id specified")
	bad("&key-marker=a&version-id-marker=8000000000000000", "Invalid version id specified")
	bad("&max-keys=x", "Provided max-keys not an integer")
	bad("&max-keys=-1", "Provided max-keys not an integer")
	bad("&encoding-type=xml", "Invalid Encoding Method")
	w.do("GET", "/absent?versions", nil).is(404, "NoSuchBucket")

	w.versioning("bucket", "Enabled")
	w.do("PUT", path("bucket", "a b&é"), nil)
	p := get("&encoding-type=url&prefix=" + url.QueryEscape("a b") + "&delimiter=%26&key-marker=A%20")
	require.Equal(t, "a%20b url %26 A%20", p.Prefix+" "+p.EncodingType+" "+p.Delimiter+" "+p.KeyMarker)
	require.Equal(t, "a%20b%26", p.rows(t).String())
	require.Equal(t, "a%20b%26%C3%A9", get("&encoding-type=url").rows(t)[0].key)
	p = get("&max-keys=0")
	require.False(t, p.IsTruncated)
	require.Empty(t, p.rows(t))
	require.Equal(t, 1000, get("&max-keys=5000").MaxKeys)

	// The marker of a null version remains valid if the null version is replaced during the listing.
	w.bucket("other")
	w.put("/other/k", "old null")
	w.versioning("other", "Enabled")
	one := w.do("PUT", "/other/k", nil).header.Get("X-Amz-Version-Id")
	w.put("/other/z", "")
	w.versioning("other", "Suspended")
	w.put("/other/k", "null")
	w.versioning("other", "Enabled")
	var page versionPage
	w.do("GET", "/other?versions&max-keys=1", nil).is(200, "").parse(&page)
	require.Equal(t, "k=null*", page.rows(t).String())
	w.versioning("other", "Suspended")
	w.put("/other/k", "null again")
	rest := listVersions(w, "other", "&key-marker=k&version-id-marker="+*page.NextVersionIDMarker)
	require.Equal(t, "k="+one, rest[:1].String())
	require.Equal(t, "z", rest[1].key)
	// The marker "null" refers to the current null version. If there is none, all versions of the key are listed.
	require.Equal(t, rest.String(), listVersions(w, "other", "&key-marker=k&version-id-marker=null").String())
	w.do("DELETE", "/other/k?versionId=null", nil).is(204, "")
	require.Equal(t, "k="+one+"*", listVersions(w, "other", "&key-marker=k&version-id-marker=null")[:1].String())
	require.Equal(t, "z", listVersions(w, "other", "&key-marker=none&version-id-marker=null")[0].key)
}

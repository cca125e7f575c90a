package s3_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	lockMode  = "X-Amz-Object-Lock-Mode"
	lockUntil = "X-Amz-Object-Lock-Retain-Until-Date"
	lockHold  = "X-Amz-Object-Lock-Legal-Hold"
	bypass    = "X-Amz-Bypass-Governance-Retention"
)

// lockBucket creates a bucket with object lock.
func (w *world) lockBucket(name string) {
	w.t.Helper()
	w.do("PUT", "/"+name, nil, "X-Amz-Bucket-Object-Lock-Enabled", "true").is(200, "")
}

// summed sends a body with its MD5.
func (w *world) summed(method, path, body string, headers ...string) *response {
	w.t.Helper()
	return w.do(method, path, []byte(body), append(headers, "Content-Md5", md5Of([]byte(body)))...)
}

// version writes a version and returns its ID.
func (w *world) version(path, body string, headers ...string) string {
	w.t.Helper()
	v := w.summed("PUT", path, body, headers...).is(200, "").header.Get("X-Amz-Version-Id")
	require.NotEmpty(w.t, v)
	return v
}

// in returns the time of the store's clock plus d, in the format of S3.
func (w *world) in(d time.Duration) string {
	return w.fs.Now().Add(d).UTC().Format("2006-01-02T15:04:05.000Z")
}

// later advances the store's clock.
func (w *world) later(d time.Duration) { w.late.Add(int64(d)) }

func retention(mode, until string) string {
	return "<Retention><Mode>" + mode + "</Mode><RetainUntilDate>" + until + "</RetainUntilDate></Retention>"
}

func hold(status string) string { return "<LegalHold><Status>" + status + "</Status></LegalHold>" }

// locked returns the mode, the date and the legal hold in the response to HEAD.
func (w *world) locked(path string) [3]string {
	w.t.Helper()
	h := w.do("HEAD", path, nil).is(200, "").header
	return [3]string{h.Get(lockMode), h.Get(lockUntil), h.Get(lockHold)}
}

func TestLockConfiguration(t *testing.T) {
	w := newWorld(t)
	const empty = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"
	rule := func(s string) string {
		return "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule>" + s + "</Rule></ObjectLockConfiguration>"
	}
	get := func() string { return string(w.do("GET", "/bucket?object-lock", nil).is(200, "").body) }
	w.bucket("bucket")
	w.do("GET", "/bucket?object-lock", nil).is(404, "ObjectLockConfigurationNotFoundError")
	w.summed("PUT", "/bucket?object-lock", empty).is(409, "InvalidBucketState")
	w.bucket("versioned")
	w.versioning("versioned", "Enabled")
	w.summed("PUT", "/versioned?object-lock", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Years>2</Years></DefaultRetention>")).is(200, "")
	require.Contains(t, string(w.do("GET", "/versioned?object-lock", nil).is(200, "").body), "<Mode>GOVERNANCE</Mode><Years>2</Years>")

	w.do("DELETE", "/bucket", nil).is(204, "")
	w.lockBucket("bucket")
	require.Contains(t, string(w.do("GET", "/bucket?versioning", nil).body), "<Status>Enabled</Status>")
	require.Contains(t, get(), "<ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>")
	days := rule("<DefaultRetention><Mode>COMPLIANCE</Mode><Days>36500</Days></DefaultRetention>")
	w.summed("PUT", "/bucket?object-lock", days).is(200, "")
	require.Contains(t, get(), "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>36500</Days></DefaultRetention></Rule>")
	for _, c := range [][2]string{
		{"MissingRequestBodyError", ""},
		{"MalformedXML", "<ObjectLockConfiguration/>"},
		{"MalformedXML", "<ObjectLockConfiguration><ObjectLockEnabled>Disabled</ObjectLockEnabled></ObjectLockConfiguration>"},
		{"MalformedXML", rule("")},
		{"MalformedXML", rule("<Something/>")},
		{"MalformedXML", rule("<DefaultRetention/>")},
		{"MalformedXML", rule("<DefaultRetention><Mode>COMPLIANCE</Mode></DefaultRetention>")},
		{"MalformedXML", rule("<DefaultRetention><Days>1</Days></DefaultRetention>")},
		{"MalformedXML", rule("<DefaultRetention><Mode>governance</Mode><Days>1</Days></DefaultRetention>")},
		{"MalformedXML", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years></DefaultRetention>")},
		{"MalformedXML", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Days>many</Days></DefaultRetention>")},
		{"InvalidArgument", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Days>0</Days></DefaultRetention>")},
		{"InvalidArgument", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Years>-1</Years></DefaultRetention>")},
		{"InvalidArgument", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Days>36501</Days></DefaultRetention>")},
		{"InvalidArgument", rule("<DefaultRetention><Mode>GOVERNANCE</Mode><Years>101</Years></DefaultRetention>")},
	} {
		w.summed("PUT", "/bucket?object-lock", c[1]).is(400, c[0])
	}
	w.summed("PUT", "/bucket?object-lock", rule("<DefaultRetention><DefaultEventHold><Days>1</Days></DefaultEventHold></DefaultRetention>")).is(501, "NotImplemented")
	w.do("PUT", "/bucket?object-lock", []byte(empty)).is(400, "InvalidRequest") // without a checksum
	require.Contains(t, get(), "<Days>36500</Days>", "refused requests must not change the configuration")
	w.summed("PUT", "/bucket?object-lock", empty).is(200, "")
	require.NotContains(t, get(), "Rule")
	w.summed("PUT", "/nowhere?object-lock", empty).is(404, "NoSuchBucket")

	w.do("PUT", "/bucket?versioning", []byte("<VersioningConfiguration><Status>Suspended</Status></VersioningConfiguration>")).is(409, "InvalidBucketState")
	w.versioning("bucket", "Enabled")
	require.Contains(t, string(w.do("GET", "/bucket?versioning", nil).body), "<Status>Enabled</Status>")
}

func TestLockHeaders(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	w.bucket("plain")
	until := w.in(time.Hour)
	w.version("/bucket/key", "x", lockMode, "GOVERNANCE", lockUntil, until, lockHold, "ON")
	require.Equal(t, [3]string{"GOVERNANCE", until, "ON"}, w.locked("/bucket/key"))
	get := w.do("GET", "/bucket/key", nil).is(200, "").header
	require.Equal(t, [3]string{"GOVERNANCE", until, "ON"}, [3]string{get.Get(lockMode), get.Get(lockUntil), get.Get(lockHold)})
	w.version("/bucket/key", "x")
	require.Equal(t, [3]string{}, w.locked("/bucket/key"))

	requests := map[string]func(headers ...string) *response{
		"put":    func(headers ...string) *response { return w.summed("PUT", "/bucket/key", "x", headers...) },
		"upload": func(headers ...string) *response { return w.do("POST", "/bucket/key?uploads", nil, headers...) },
		"copy": func(headers ...string) *response {
			return w.do("PUT", "/bucket/copy", nil, append(headers, "X-Amz-Copy-Source", "/bucket/key")...)
		},
		"plain": func(headers ...string) *response { return w.summed("PUT", "/plain/key", "x", headers...) },
	}
	for name, request := range requests {
		t.Run(name, func(t *testing.T) {
			missing := request(lockMode, "COMPLIANCE").is(400, "InvalidArgument")
			require.Contains(t, string(missing.body), "<ArgumentName>x-amz-object-lock-retain-until-date</ArgumentName>")
			missing = request(lockUntil, until).is(400, "InvalidArgument")
			require.Contains(t, string(missing.body), "<ArgumentName>x-amz-object-lock-mode</ArgumentName>")
			request(lockMode, "governance", lockUntil, until).is(400, "InvalidArgument")
			request(lockMode, "GOVERNANCE", lockUntil, "tomorrow").is(400, "InvalidArgument")
			request(lockMode, "GOVERNANCE", lockUntil, w.in(0)).is(400, "InvalidArgument")
			request(lockMode, "GOVERNANCE", lockUntil, w.in(-time.Hour)).is(400, "InvalidArgument")
			request(lockHold, "yes").is(400, "InvalidArgument")
			if name != "plain" {
				request(lockHold, "OFF").is(200, "")
				request(lockMode, "GOVERNANCE", lockUntil, time.Now().Add(time.Hour).Format(time.RFC3339)).is(200, "")
				return
			}
			request(lockMode, "GOVERNANCE", lockUntil, until).is(400, "InvalidRequest")
			request(lockHold, "ON").is(400, "InvalidRequest")
		})
	}
	require.Equal(t, "(none)", w.content("/plain/key"))
	require.Equal(t, [3]string{"GOVERNANCE", w.locked("/bucket/key")[1], ""}, w.locked("/bucket/key"))
	w.version("/bucket/key", "x", lockHold, "OFF")
	require.Equal(t, [3]string{"", "", "OFF"}, w.locked("/bucket/key"))
}

// Content that will be locked requires a checksum. The hash in the signature does not count.
func TestLockRequiresChecksum(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	put := func(headers ...string) *response { return w.do("PUT", "/bucket/key", []byte("x"), headers...) }
	put().is(200, "")
	put(lockHold, "ON").is(400, "InvalidRequest")
	put(lockMode, "GOVERNANCE", lockUntil, w.in(time.Hour)).is(400, "InvalidRequest")
	put(lockHold, "ON", "X-Amz-Checksum-Sha256", base64SHA256([]byte("x"))).is(200, "")

	var begun struct{ UploadId string }
	w.do("POST", "/bucket/key?uploads", nil, lockHold, "ON").is(200, "").parse(&begun)
	w.do("PUT", "/bucket/key?partNumber=1&uploadId="+begun.UploadId, []byte("x")).is(400, "InvalidRequest")
	w.summed("PUT", "/bucket/key?partNumber=1&uploadId="+begun.UploadId, "x").is(200, "")

	w.summed("PUT", "/bucket?object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"+
		"<Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule></ObjectLockConfiguration>").is(200, "")
	put().is(400, "InvalidRequest")
	put("Content-Md5", md5Of([]byte("x"))).is(200, "")
}

func TestDefaultRetention(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	w.version("/bucket/before", "x")
	w.summed("PUT", "/bucket?object-lock", "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention>"+
		"<Mode>GOVERNANCE</Mode><Days>2</Days></DefaultRetention></Rule></ObjectLockConfiguration>").is(200, "")
	about := func(path string, d time.Duration) {
		t.Helper()
		l := w.locked(path)
		require.Equal(t, "GOVERNANCE", l[0])
		until, err := time.Parse(time.RFC3339, l[1])
		require.NoError(t, err)
		require.WithinDuration(t, w.fs.Now().Add(d), until, time.Minute)
	}
	require.Equal(t, [3]string{}, w.locked("/bucket/before"), "default retention must apply to new versions only")
	w.version("/bucket/key", "x")
	about("/bucket/key", 48*time.Hour)
	w.version("/bucket/key", "x", lockHold, "ON")
	about("/bucket/key", 48*time.Hour)
	require.Equal(t, "ON", w.locked("/bucket/key")[2])
	w.version("/bucket/own", "x", lockMode, "GOVERNANCE", lockUntil, w.in(time.Hour))
	about("/bucket/own", time.Hour)
	w.do("PUT", "/bucket/copy", nil, "X-Amz-Copy-Source", "/bucket/own").is(200, "")
	about("/bucket/copy", 48*time.Hour)

	var begun struct{ UploadId string }
	w.do("POST", "/bucket/parts?uploads", nil).is(200, "").parse(&begun)
	etag := w.summed("PUT", "/bucket/parts?partNumber=1&uploadId="+begun.UploadId, "x").is(200, "").etag()
	w.do("POST", "/bucket/parts?uploadId="+begun.UploadId, fmt.Appendf(nil, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>", etag)).is(200, "")
	about("/bucket/parts", 48*time.Hour)

	w.summed("PUT", "/bucket/key?retention", retention("GOVERNANCE", w.in(96*time.Hour))).is(200, "")
	about("/bucket/key", 96*time.Hour)
	w.later(49 * time.Hour)
	v := w.do("HEAD", "/bucket/copy", nil).header.Get("X-Amz-Version-Id")
	w.do("DELETE", "/bucket/copy?versionId="+v, nil).is(204, "")
}

func TestObjectRetention(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	v := w.version("/bucket/key", "x")
	at := "/bucket/key?retention&versionId=" + v
	put := func(mode string, d time.Duration, headers ...string) *response {
		return w.summed("PUT", at, retention(mode, w.in(d)), headers...)
	}
	w.do("GET", at, nil).is(404, "NoSuchObjectLockConfiguration")
	require.Empty(t, put("GOVERNANCE", time.Hour).is(200, "").body)
	var got struct {
		Mode            string
		RetainUntilDate time.Time
	}
	w.do("GET", at, nil).is(200, "").parse(&got)
	require.Equal(t, "GOVERNANCE", got.Mode)
	require.WithinDuration(t, w.fs.Now().Add(time.Hour), got.RetainUntilDate, time.Minute)

	put("GOVERNANCE", 2*time.Hour).is(200, "")
	put("GOVERNANCE", time.Hour).is(403, "AccessDenied")
	put("COMPLIANCE", 3*time.Hour).is(403, "AccessDenied")
	w.summed("PUT", at, "<Retention/>").is(403, "AccessDenied")
	put("GOVERNANCE", time.Hour, bypass, "false").is(403, "AccessDenied")
	put("GOVERNANCE", time.Hour, bypass, "maybe").is(400, "InvalidArgument")
	put("GOVERNANCE", time.Hour, bypass, "true").is(200, "")
	w.summed("PUT", at, "<Retention/>", bypass, "true").is(200, "")
	w.do("GET", at, nil).is(404, "NoSuchObjectLockConfiguration")
	require.Equal(t, [3]string{}, w.locked("/bucket/key"))

	put("COMPLIANCE", 2*time.Hour).is(200, "")
	put("COMPLIANCE", time.Hour, bypass, "true").is(403, "AccessDenied")
	put("GOVERNANCE", 3*time.Hour, bypass, "true").is(403, "AccessDenied")
	w.summed("PUT", at, "<Retention/>", bypass, "true").is(403, "AccessDenied")
	put("COMPLIANCE", 3*time.Hour).is(200, "")
	w.later(3 * time.Hour)
	put("GOVERNANCE", time.Minute).is(200, "")

	for _, c := range [][2]string{
		{"MissingRequestBodyError", ""},
		{"MalformedXML", "<Other/>"},
		{"MalformedXML", "<Retention><Something/></Retention>"},
		{"MalformedXML", "<Retention><Mode>GOVERNANCE</Mode></Retention>"},
		{"MalformedXML", "<Retention><RetainUntilDate>" + w.in(time.Hour) + "</RetainUntilDate></Retention>"},
		{"MalformedXML", retention("governance", w.in(time.Hour))},
		{"MalformedXML", retention("GOVERNANCE", "tomorrow")},
		{"InvalidArgument", retention("GOVERNANCE", w.in(-time.Second))},
	} {
		w.summed("PUT", at, c[1]).is(400, c[0])
	}
	w.summed("PUT", at, "<Retention><EventHold>ON</EventHold></Retention>").is(501, "NotImplemented")
	w.do("PUT", at, []byte(retention("GOVERNANCE", w.in(time.Hour)))).is(400, "InvalidRequest") // without a checksum
	w.refusals("retention", retention("GOVERNANCE", w.in(time.Hour)))
}

// refusals reads and sets a lock of versions that cannot have one.
func (w *world) refusals(sub, body string) {
	w.t.Helper()
	w.bucket("plain")
	w.put("/plain/key", "x")
	for _, method := range []string{"GET", "PUT"} {
		w.summed(method, "/plain/key?"+sub, body).is(400, "InvalidRequest")
		w.summed(method, "/bucket/none?"+sub, body).is(404, "NoSuchKey")
		w.summed(method, "/bucket/key?versionId="+absentVersion+"&"+sub, body).is(404, "NoSuchVersion")
		w.version("/bucket/marked", "x")
		marker := w.do("DELETE", "/bucket/marked", nil).is(204, "").header.Get("X-Amz-Version-Id")
		w.summed(method, "/bucket/marked?"+sub, body).is(404, "NoSuchKey")
		w.summed(method, "/bucket/marked?versionId="+marker+"&"+sub, body).is(405, "MethodNotAllowed")
	}
	w.summed("PUT", "/plain/key?"+sub, "").is(400, "MissingRequestBodyError")
}

func TestLegalHold(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	v := w.version("/bucket/key", "x")
	at := "/bucket/key?legal-hold&versionId=" + v
	w.do("GET", at, nil).is(404, "NoSuchObjectLockConfiguration")
	for _, status := range []string{"ON", "OFF", "ON"} {
		w.summed("PUT", at, hold(status)).is(200, "")
		var got struct{ Status string }
		w.do("GET", at, nil).is(200, "").parse(&got)
		require.Equal(t, status, got.Status)
		require.Equal(t, [3]string{"", "", status}, w.locked("/bucket/key?versionId="+v))
	}
	w.do("GET", "/bucket/key?retention", nil).is(404, "NoSuchObjectLockConfiguration")
	w.summed("PUT", at, "").is(400, "MissingRequestBodyError")
	for _, body := range []string{"<LegalHold/>", hold("on"), hold("abc")} {
		w.summed("PUT", at, body).is(400, "MalformedXML")
	}
	w.do("PUT", at, []byte(hold("OFF"))).is(400, "InvalidRequest") // without a checksum
	w.refusals("legal-hold", hold("ON"))
	w.do("DELETE", "/bucket/key?versionId="+v, nil, bypass, "true").is(403, "AccessDenied")
	w.summed("PUT", at, hold("OFF")).is(200, "")
	w.do("DELETE", "/bucket/key?versionId="+v, nil).is(204, "")
}

func TestDeleteLocked(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	until := w.in(time.Hour)
	governed := w.version("/bucket/governed", "x", lockMode, "GOVERNANCE", lockUntil, until)
	complied := w.version("/bucket/complied", "x", lockMode, "COMPLIANCE", lockUntil, until)
	held := w.version("/bucket/held", "x", lockHold, "ON")
	denied := func(a *response) {
		t.Helper()
		a.is(403, "AccessDenied")
		require.Contains(t, string(a.body), "<Message>Access Denied because object protected by object lock.</Message>")
	}
	denied(w.do("DELETE", "/bucket/governed?versionId="+governed, nil))
	denied(w.do("DELETE", "/bucket/governed?versionId="+governed, nil, bypass, "false"))
	denied(w.do("DELETE", "/bucket/complied?versionId="+complied, nil, bypass, "true"))
	denied(w.do("DELETE", "/bucket/held?versionId="+held, nil, bypass, "true"))
	a := w.do("DELETE", "/bucket/complied", nil).is(204, "")
	require.Equal(t, "true", a.header.Get("X-Amz-Delete-Marker"), "a DELETE without a version must be allowed, because it only adds a delete marker")
	require.Equal(t, "x", w.content("/bucket/complied?versionId="+complied))
	w.do("DELETE", "/bucket/complied?versionId="+a.header.Get("X-Amz-Version-Id"), nil).is(204, "")
	require.Equal(t, "x", w.content("/bucket/complied"))
	w.do("DELETE", "/bucket", nil).is(409, "BucketNotEmpty")

	var body bytes.Buffer
	body.WriteString("<Delete>")
	for key, version := range map[string]string{"governed": governed, "complied": complied, "held": held} {
		fmt.Fprintf(&body, "<Object><Key>%s</Key><VersionId>%s</VersionId></Object>", key, version)
	}
	body.WriteString("</Delete>")
	var result struct {
		Deleted []struct{ Key string }
		Error   []struct{ Key, VersionID, Code, Message string }
	}
	w.summed("POST", "/bucket?delete", body.String()).is(200, "").parse(&result)
	require.Empty(t, result.Deleted)
	require.Len(t, result.Error, 3)
	for _, e := range result.Error {
		require.Equal(t, "AccessDenied", e.Code)
		require.Equal(t, "Access Denied because object protected by object lock.", e.Message)
	}
	w.summed("POST", "/bucket?delete", body.String(), bypass, "true").is(200, "").parse(&result)
	require.Len(t, result.Deleted, 1)
	require.Equal(t, "governed", result.Deleted[0].Key)
	require.Equal(t, "(none)", w.content("/bucket/governed"))

	w.later(time.Hour + time.Second)
	w.do("DELETE", "/bucket/complied?versionId="+complied, nil).is(204, "")
	denied(w.do("DELETE", "/bucket/held?versionId="+held, nil))

	w.do("DELETE", "/bucket/key", nil, bypass, "perhaps").is(400, "InvalidArgument")
	w.bucket("plain") // without object lock, there is no retention to bypass
	for _, v := range []string{"true", "false", "perhaps"} {
		w.put("/plain/key", "content")
		w.do("DELETE", "/plain/key", nil, bypass, v).is(204, "")
		w.put("/plain/key", "content")
		w.summed("POST", "/plain?delete", "<Delete><Object><Key>key</Key></Object></Delete>", bypass, v).is(200, "")
		require.Equal(t, "(none)", w.content("/plain/key"))
	}
}

// If a version is deleted and put under a legal hold concurrently, exactly one request succeeds. A held version exists.
func TestLockRace(t *testing.T) {
	w := newWorld(t)
	w.lockBucket("bucket")
	for range 50 {
		v := w.version("/bucket/key", "x")
		deleted, held := make(chan int, 1), make(chan int, 1)
		send := func(to chan int, method, path, body string) {
			r := w.request(method, path, []byte(body), "Content-Md5", md5Of([]byte(body)))
			w.signer.Sign(r, hash([]byte(body)), w.now())
			res, err := w.client.Do(r)
			if err != nil {
				to <- 0
				return
			}
			res.Body.Close()
			to <- res.StatusCode
		}
		go send(deleted, "DELETE", "/bucket/key?versionId="+v, "")
		go send(held, "PUT", "/bucket/key?legal-hold&versionId="+v, hold("ON"))
		d, h := <-deleted, <-held
		switch exists := w.do("HEAD", "/bucket/key?versionId="+v, nil).status; h {
		case http.StatusOK:
			require.Equal(t, [2]int{http.StatusForbidden, http.StatusOK}, [2]int{d, exists})
			w.summed("PUT", "/bucket/key?legal-hold&versionId="+v, hold("OFF")).is(200, "")
			w.do("DELETE", "/bucket/key?versionId="+v, nil).is(204, "")
		default:
			require.Equal(t, [3]int{http.StatusNoContent, http.StatusNotFound, http.StatusNotFound}, [3]int{d, h, exists})
		}
	}
}

package gate

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/internal/sigv4"
	"orcas/s3/sigv2"
)

func TestFind(t *testing.T) {
	apis := []API{
		{Name: "console", Hosts: []string{"console.example.org"}},
		{Name: "metrics", Port: 9100, Path: "/metrics"},
		{Name: "health", Path: "/-/*"},
		{Name: "iam", Method: "POST", Path: "/", Accepts: func(r *http.Request) bool { return r.Header["X-S3"] == nil }},
	}
	for _, c := range []struct {
		method, host, path string
		port               int
		ofBucket           bool
		want               string
	}{
		{"GET", "s3.example.org", "/-/health/live", 9000, false, "health"},
		{"GET", "s3.example.org", "/-/", 9000, false, "health"},
		{"GET", "s3.example.org", "/-", 9000, false, ""},
		{"GET", "bucket.s3.example.org", "/-/health/live", 9000, true, ""},
		{"POST", "s3.example.org", "/", 9000, false, "iam"},
		{"POST", "not.accepted", "/", 9000, false, ""},
		{"GET", "s3.example.org", "/", 9000, false, ""},
		{"POST", "s3.example.org", "/bucket", 9000, false, ""},
		{"POST", "bucket.s3.example.org", "/", 9000, true, ""},
		{"GET", "s3.example.org", "/metrics", 9100, false, "metrics"},
		{"GET", "s3.example.org", "/metrics", 9000, false, ""},
		{"GET", "s3.example.org", "/metrics", 0, false, ""},
		{"GET", "s3.example.org", "/metrics/x", 9100, false, ""},
		{"PUT", "Console.Example.org:9000", "/anything", 9000, false, "console"},
		{"PUT", "console.example.org", "/-/health/live", 9000, true, "console"}, // before buckets
	} {
		r := httptest.NewRequest(c.method, "http://x"+c.path, nil)
		r.Host = c.host
		if c.host == "not.accepted" {
			r.Header["X-S3"] = []string{"yes"}
		}
		if c.port != 0 {
			addr := &net.TCPAddr{Port: c.port}
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr))
		}
		found := ""
		if api := Find(apis, r, c.ofBucket); api != nil {
			found = api.Name
		}
		require.Equal(t, c.want, found, "%+v", c)
	}
	require.Zero(t, testing.AllocsPerRun(10, func() { Find(apis, httptestRequest, false) }))
}

var httptestRequest = httptest.NewRequest("GET", "/bucket/key", nil)

// cookie is a test scheme that authenticates the root account by a cookie.
type cookie struct{ asked int }

func (c *cookie) Authenticate(r *http.Request) (Identity, error) {
	c.asked++
	switch r.Header.Get("Cookie") {
	case "":
		return Identity{Principal: auth.Anonymous}, nil
	case "root":
		return Identity{Auth: &sigv4.Auth{AccessKey: "session", Mode: sigv4.PayloadUnsigned}, Principal: root}, nil
	}
	return Identity{}, errors.New("the session has expired")
}

var root = &auth.Principal{Account: "111122223333"}

const accessKey, secretKey = "AKIAEXAMPLE", "the secret key"

func TestAuthenticate(t *testing.T) {
	asked := 0
	broken := errors.New("the keys cannot be read")
	v4 := SigV4(&sigv4.Verifier{Region: "us-east-1"}, func(_ context.Context, key, _ string) (Credential, error) {
		asked++
		switch key {
		case accessKey:
			return Credential{SecretKey: secretKey, Principal: root}, nil
		case "AKIANOACCOUNT":
			return Credential{SecretKey: secretKey}, nil
		case "AKIAANONYMOUS":
			return Credential{SecretKey: secretKey, Principal: auth.Anonymous}, nil
		case "AKIABROKEN":
			return Credential{}, broken
		}
		return Credential{}, nil
	})
	session := &cookie{}
	schemes := []Scheme{session, v4}
	signed := func(key, token string) *http.Request {
		r := httptest.NewRequest("GET", "http://s3.example.org/bucket/key", nil)
		s := &sigv4.Signer{AccessKey: key, SecretKey: secretKey, Region: "us-east-1", SecurityToken: token}
		s.Sign(r, sigv4.EmptySHA256, time.Now())
		return r
	}
	id, err := Authenticate(schemes, signed(accessKey, ""))
	require.NoError(t, err)
	require.Same(t, root, id.Principal)
	require.Equal(t, accessKey, id.AccessKey)
	require.Equal(t, 1, asked, "one lookup")
	require.Equal(t, 1, session.asked)

	plain := httptest.NewRequest("GET", "/", nil)
	id, err = Authenticate(schemes, plain)
	require.NoError(t, err)
	require.True(t, id.Principal.IsAnonymous())
	_, err = id.Body(plain)
	require.NoError(t, err, "the body of an anonymous request must be readable")

	withCookie := signed(accessKey, "")
	withCookie.Header.Set("Cookie", "root")
	id, err = Authenticate(schemes, withCookie)
	require.NoError(t, err)
	require.Equal(t, "session", id.AccessKey, "the first scheme that finds credentials decides")
	require.Equal(t, 1, asked)
	withCookie.Header.Set("Cookie", "old")
	_, err = Authenticate(schemes, withCookie)
	require.ErrorContains(t, err, "the session has expired", "invalid credentials must not be skipped")
	require.Equal(t, 1, asked)

	_, err = Authenticate(schemes, signed(accessKey, "a token"))
	require.ErrorIs(t, err, ErrToken)
	for _, key := range []string{"AKIANOACCOUNT", "AKIAANONYMOUS"} {
		_, err = Authenticate(schemes, signed(key, ""))
		require.ErrorIs(t, err, auth.ErrDenied, key)
	}
	_, err = Authenticate(schemes, signed("AKIABROKEN", ""))
	var unknown *LookupError
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, unknown.Cause, broken)
	require.NotErrorIs(t, err, broken, "the response must not depend on the cause")
	var refused *sigv4.Error
	_, err = Authenticate(schemes, signed("AKIAUNKNOWN", ""))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, sigv4.InvalidAccessKeyID, refused.Code)
}

// A form is authenticated by its fields, with the same keys as other requests. Schemes without forms are skipped.
func TestAuthenticateForm(t *testing.T) {
	broken := errors.New("the keys cannot be read")
	v4 := SigV4(&sigv4.Verifier{Region: "us-east-1"}, func(_ context.Context, key, _ string) (Credential, error) {
		if key == "AKIABROKEN" {
			return Credential{}, broken
		}
		return Credential{}, nil
	})
	session := &cookie{}
	now := time.Now().UTC().Format("20060102T150405Z")
	signed := func(key string) func(string) string {
		fields := map[string]string{
			"x-amz-algorithm": "AWS4-HMAC-SHA256", "x-amz-date": now, "policy": "e30=", "x-amz-signature": "0",
			"x-amz-credential": key + "/" + now[:8] + "/us-east-1/s3/aws4_request",
		}
		return func(name string) string { return fields[name] }
	}
	id, err := AuthenticateForm(context.Background(), []Scheme{session, v4}, func(string) string { return "" })
	require.NoError(t, err)
	require.True(t, id.Principal.IsAnonymous())
	require.Zero(t, session.asked)
	_, err = AuthenticateForm(context.Background(), []Scheme{session, v4}, signed("AKIABROKEN"))
	var unknown *LookupError
	require.ErrorAs(t, err, &unknown)
	require.ErrorIs(t, unknown.Cause, broken)
	_, err = AuthenticateForm(context.Background(), []Scheme{session, v4}, signed("AKIAUNKNOWN"))
	var refused *sigv4.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, sigv4.InvalidAccessKeyID, refused.Code)
	id, err = AuthenticateForm(context.Background(), []Scheme{session}, signed("AKIAUNKNOWN"))
	require.NoError(t, err)
	require.True(t, id.Principal.IsAnonymous())
}

func TestJoin(t *testing.T) {
	row := Route{Name: "A", Method: "GET", Path: "/a", Effect: Read, Action: "x:A", Secondary: []auth.Action{"x:B"}}
	handlers := map[string]int{"A": 7}
	joined, err := Join([]*Route{&row}, handlers)
	require.NoError(t, err)
	require.Equal(t, []int{7}, joined)
	for wrong, change := range map[string]func(r *Route){
		"has no handler":         func(r *Route) { r.Name = "B" },
		"has no action":          func(r *Route) { r.Action = "" },
		"has no effect":          func(r *Route) { r.Effect = 0 },
		"expected a name":        func(r *Route) { r.Method = "" },
		"either a level or":      func(r *Route) { r.Level = Bucket },
		"only objects have vers": func(r *Route) { r.VersionAction = "x:V" },
	} {
		bad := row
		change(&bad)
		_, err := Join([]*Route{&bad}, handlers)
		require.ErrorContains(t, err, wrong)
	}
	_, err = Join([]*Route{&row, &row}, handlers)
	require.ErrorContains(t, err, "two routes")
	_, err = Join(nil, handlers)
	require.ErrorContains(t, err, "has no route")

	for a, declared := range map[auth.Action]bool{"x:A": true, "x:B": true, "x:C": false, "": false, "x:a": false} {
		require.Equal(t, declared, row.Declares(a), a)
	}
	require.Equal(t, Object, (&Route{Level: Bucket, Resource: Object}).Target())
	require.Equal(t, Bucket, (&Route{Level: Bucket}).Target())
}

func TestCommonFacts(t *testing.T) {
	start := time.Date(2026, 11, 22, 18, 0, 0, 0, time.FixedZone("", 3600))
	r := httptest.NewRequest("GET", "https://s3.example.org/", nil)
	r.RemoteAddr = "192.0.2.7:1234"
	r.Header.Set("User-Agent", "test")
	for key, want := range map[string]string{
		"aws:CurrentTime": "2026-11-22T17:00:00Z", "aws:EpochTime": "1795366800", "aws:SecureTransport": "true",
		"aws:SourceIp": "192.0.2.7", "aws:UserAgent": "test",
	} {
		got, ok := CommonFact(r, start, key)
		require.True(t, ok, key)
		require.Equal(t, want, got, key)
	}
	for _, key := range []string{"aws:Referer", "aws:userid", "s3:prefix", ""} {
		_, ok := CommonFact(r, start, key)
		require.False(t, ok, key)
	}
}

// When the body of a request has arrived, its access key must still have the secret that verified the request, whatever
// the version and the place of the signature.
func TestAgain(t *testing.T) {
	secret := secretKey
	lookup := func(context.Context, string, string) (Credential, error) {
		return Credential{SecretKey: secret, Principal: root}, nil
	}
	schemes := []Scheme{
		SigV2(&sigv2.Verifier{Mode: sigv2.All}, lookup), SigV4(&sigv4.Verifier{Region: "us-east-1"}, lookup),
	}
	now := time.Now().UTC()
	signer := &sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}
	version2 := func(text string) string {
		mac := hmac.New(sha1.New, []byte(secretKey))
		mac.Write([]byte(text))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	request := func(sign func(r *http.Request)) func() (Identity, error) {
		return func() (Identity, error) {
			r := httptest.NewRequest("GET", "http://s3.example.org/bucket/key", nil)
			sign(r)
			return Authenticate(schemes, r)
		}
	}
	for name, authenticate := range map[string]func() (Identity, error){
		"header": request(func(r *http.Request) { signer.Sign(r, sigv4.EmptySHA256, now) }),
		"query":  request(func(r *http.Request) { signer.Presign(r, time.Minute, now) }),
		"header, version 2": request(func(r *http.Request) {
			date := now.Format(http.TimeFormat)
			r.Header.Set("Date", date)
			r.Header.Set("Authorization", "AWS "+accessKey+":"+version2("GET\n\n\n"+date+"\n/bucket/key"))
		}),
		"form, version 2": func() (Identity, error) {
			fields := map[string]string{"awsaccesskeyid": accessKey, "policy": "e30=", "signature": version2("e30=")}
			return AuthenticateForm(t.Context(), schemes, func(name string) string { return fields[name] })
		},
	} {
		secret = secretKey
		id, err := authenticate()
		require.NoError(t, err, name)
		p, changed, err := id.Again(t.Context())
		require.NoError(t, err, name)
		require.Equal(t, root, p)
		require.False(t, changed)
		for _, secret = range []string{"another secret key", secretKey + "x", "x"} {
			_, _, err = id.Again(t.Context())
			var refused *sigv4.Error
			require.ErrorAs(t, err, &refused, name)
			require.Equal(t, sigv4.InvalidAccessKeyID, refused.Code)
		}
	}
}

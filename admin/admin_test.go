package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/sigv4"
)

const (
	account, secretKey      = "111122223333", "the secret key"
	accessKey, strangersKey = "AKIAEXAMPLE", "AKIASTRANGER"
)

// judge is an authorizer that records the action and the resource of the last call, and returns a fixed decision.
type judge struct {
	action   auth.Action
	resource auth.Resource
	decision error
}

func (j *judge) Authorize(_ context.Context, _ *auth.Principal, a auth.Action, r auth.Resource, f auth.Facts) error {
	j.action, j.resource = a, r
	if v, ok := f.Fact("aws:SourceIp"); !ok || v != "192.0.2.1" {
		return errors.New("the facts do not contain the address of the client")
	}
	return j.decision
}

// testHandler returns a handler without a store, so requests must be refused before they reach it.
func testHandler(t *testing.T, a auth.Authorizer) *Handler {
	keys := map[string]gate.Credential{
		accessKey:    {SecretKey: secretKey, Principal: &auth.Principal{Account: account}},
		strangersKey: {SecretKey: secretKey, Principal: &auth.Principal{Account: "444455556666"}},
	}
	lookup := func(_ context.Context, key, _ string) (gate.Credential, error) { return keys[key], nil }
	h, err := New(Options{
		Schemes: []gate.Scheme{gate.SigV4(&sigv4.Verifier{Region: "us-east-1"}, lookup)}, Account: account, Authorizer: a,
		Logger: slog.New(slog.DiscardHandler),
		APIs:   []gate.API{{Name: "health", Path: "/-/health/*", Handler: http.NotFoundHandler()}},
	})
	require.NoError(t, err)
	return h
}

// send sends a request that is signed with key; if key is "", the request is not signed.
func send(h http.Handler, key, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, nil)
	if key != "" {
		s := &sigv4.Signer{AccessKey: key, SecretKey: secretKey, Region: "us-east-1"}
		s.Sign(r, sigv4.EmptySHA256, time.Now())
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestEveryRouteIsAuthorized(t *testing.T) {
	j := &judge{decision: auth.ErrDenied}
	judged, owners := testHandler(t, j), testHandler(t, nil)
	for _, r := range Routes() {
		require.True(t, strings.HasPrefix(string(r.Action), "orcas:"), r.Name)
		j.action = ""
		require.Equal(t, 403, send(judged, "", r.Method, r.Path).Code, r.Name)
		require.Empty(t, j.action, "an anonymous request must be refused before it is authorized")
		w := send(judged, accessKey, r.Method, r.Path)
		require.Equal(t, 403, w.Code, r.Name)
		require.Contains(t, w.Body.String(), string(r.Action))
		require.Equal(t, r.Action, j.action)
		require.Equal(t, auth.Resource{Account: account}, j.resource)
		require.Equal(t, 403, send(owners, strangersKey, r.Method, r.Path).Code, r.Name)
	}
	j.decision = errors.New("the policies cannot be read")
	require.Equal(t, 500, send(judged, accessKey, "GET", "/-/admin/reclaim").Code)
	require.Equal(t, 404, send(judged, "", "GET", "/-/health/live").Code, "the other API must receive the request")
}

// Only a signature in the Authorization header that covers the body is accepted, since others could use any other one.
func TestSignaturesThatOthersCouldUse(t *testing.T) {
	j := &judge{}
	h := testHandler(t, j)
	const body = `{"Version": "2012-10-17"}`
	signer := func() *sigv4.Signer {
		return &sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}
	}
	hashed := hex.EncodeToString(sha256.New().Sum(nil))
	sum := sha256.Sum256([]byte(body))
	for name, sign := range map[string]func(r *http.Request){
		"presigned":                func(r *http.Request) { signer().Presign(r, 7*24*time.Hour, time.Now()) },
		"presigned for one second": func(r *http.Request) { signer().Presign(r, time.Second, time.Now()) },
		"presigned with the hash of the body": func(r *http.Request) {
			r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(sum[:]))
			signer().Presign(r, time.Minute, time.Now())
		},
		"unsigned body":     func(r *http.Request) { signer().Sign(r, sigv4.UnsignedPayload, time.Now()) },
		"chunks":            func(r *http.Request) { signer().Sign(r, sigv4.PayloadSigned.String(), time.Now()) },
		"chunks, trailer":   func(r *http.Request) { signer().Sign(r, sigv4.PayloadSignedTrailer.String(), time.Now()) },
		"chunks, unsigned":  func(r *http.Request) { signer().Sign(r, sigv4.PayloadUnsignedTrailer.String(), time.Now()) },
		"hash of something": func(r *http.Request) { signer().Sign(r, hashed, time.Now()) },
	} {
		for _, route := range Routes() {
			j.action = ""
			r := httptest.NewRequest(route.Method, "http://localhost"+route.Path+"?name=x", strings.NewReader(body))
			r.Header.Set("X-Amz-Decoded-Content-Length", "0")
			sign(r)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, 403, w.Code, "%s: %s", name, w.Body)
			require.Empty(t, j.action, "%s: the request must be refused before it is authorized", name)
			if name != "hash of something" {
				require.Contains(t, w.Body.String(), "only requests with a signature of version 4 in the Authorization header", name)
			}
		}
	}
}

// readFunc is a reader.
type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// An access key that is deleted while the body arrives has no rights any more.
func TestRevocationWhileABodyArrives(t *testing.T) {
	j := &judge{decision: errors.New("the request was authorized")}
	h := testHandler(t, j)
	credential := gate.Credential{SecretKey: secretKey, Principal: &auth.Principal{Account: account}}
	lookup := func(context.Context, string, string) (gate.Credential, error) { return credential, nil }
	h.o.Schemes = []gate.Scheme{gate.SigV4(&sigv4.Verifier{Region: "us-east-1"}, lookup)}
	revoke := readFunc(func([]byte) (int, error) {
		credential = gate.Credential{}
		return 0, io.EOF
	})
	body := io.MultiReader(strings.NewReader("{"), revoke, strings.NewReader("}"))
	r := httptest.NewRequest("POST", "http://localhost/-/admin/policy?name=x", body)
	sum := sha256.Sum256([]byte("{}"))
	(&sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}).Sign(r, hex.EncodeToString(sum[:]), time.Now())
	r.ContentLength = 2
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, 403, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "does not exist")
	require.Empty(t, j.action)
}

func TestRoutesAndHandlersAgree(t *testing.T) {
	other := &gate.Route{Name: "Other", Method: "GET", Path: "/other", Effect: gate.Read, Action: "orcas:Other"}
	twin := *Routes()[0]
	twin.Path = Routes()[2].Path
	for wrong, rows := range map[string][]*gate.Route{
		"has no route":     Routes()[1:],
		"has no handler":   append(Routes(), other),
		"two routes have":  append(Routes(), Routes()[0]),
		"two routes match": append(Routes()[1:], &twin),
	} {
		_, err := newHandler(Options{}, rows)
		require.ErrorContains(t, err, wrong)
	}
}

// observed is an observer that keeps the last event.
type observed struct{ gate.Event }

func (o *observed) Observe(_ context.Context, e *gate.Event) { o.Event = *e }

// sendBody sends a request with a body that is signed with accessKey.
func sendBody(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	sum := sha256.Sum256([]byte(body))
	(&sigv4.Signer{AccessKey: accessKey, SecretKey: secretKey, Region: "us-east-1"}).Sign(r, hex.EncodeToString(sum[:]), time.Now())
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestCodes: the event of a request that failed has an error code, and that of a request about a bucket has its name.
func TestCodes(t *testing.T) {
	j := &judge{}
	h := testHandler(t, j)
	last := &observed{}
	h.o.Observers = []gate.Observer{last}
	for _, c := range []struct {
		key, method, path string
		decision          error
		code              string
	}{
		{"", "POST", "/-/admin/policy?name=x", nil, "AccessDenied"},
		{"AKIAUNKNOWN", "POST", "/-/admin/policy?name=x", nil, "InvalidAccessKeyId"},
		{accessKey, "POST", "/-/admin/policy?name=x", auth.ErrDenied, "AccessDenied"},
		{accessKey, "POST", "/-/admin/policy?name=x", errors.New("the policies cannot be read"), "InternalError"},
		{accessKey, "POST", "/-/admin/nothing", nil, "NotFound"},
		{accessKey, "PUT", "/-/admin/policy", nil, "MethodNotAllowed"},
		{accessKey, "POST", "/-/admin/bucket?name=b", nil, "InvalidArgument"},
		{accessKey, "GET", "/-/admin/profile?name=heap", nil, ""},
	} {
		j.decision = c.decision
		send(h, c.key, c.method, c.path)
		require.Equal(t, c.code, last.Code, "%+v", c)
		require.Equal(t, strings.Contains(c.path, "name=b"), last.Bucket == "b", "%+v", c)
	}
	for code, err := range map[string]error{
		"":                    nil,
		"NoSuchEntity":        &identity.Error{Code: identity.NoSuchEntity},
		"NoSuchBucket":        core.E("op", core.NoSuchBucket, nil),
		"InsufficientStorage": core.E("op", core.NoSpace, nil),
		"ServiceUnavailable":  core.E("op", core.ReadOnly, nil),
		"Throttling":          &refusal{http.StatusTooManyRequests, gate.ErrThrottled},
		"ExpiredToken":        &refusal{http.StatusForbidden, gate.ErrExpired},
		"InvalidToken":        &refusal{http.StatusForbidden, gate.ErrToken},
	} {
		require.Equal(t, code, CodeOf(err))
	}
}

// TestApplyEvent: the event of a file that is applied has an item for each change, with the code of the one that failed.
// A dry run has none.
func TestApplyEvent(t *testing.T) {
	h := testHandler(t, &judge{})
	last := &observed{}
	h.o.Observers = []gate.Observer{last}
	created := AppliedChange{Action: "create", Kind: "user", Name: "a&b"}
	failed := AppliedChange{Action: "change", Kind: "bucket", Name: "web", Detail: "public"}
	done := Applied{Changes: []AppliedChange{created}, Refused: &failed, Err: core.E("op", core.NoSuchBucket, nil), Failed: "bucket web: gone"}
	h.o.Store.Apply = func(_ context.Context, _ *auth.Principal, q *ApplyRequest) (*Applied, error) {
		done := done
		done.DryRun = q.DryRun
		return &done, nil
	}
	apply := func(body string) {
		w := sendBody(h, "POST", "/-/admin/apply", body)
		require.Equal(t, 200, w.Code, w.Body)
		require.EqualValues(t, len(body), last.In)
	}
	apply(`{"file": "users: []"}`)
	require.Equal(t, []gate.Item{
		{Target: "action=create&kind=user&name=a%26b"},
		{Bucket: "web", Target: "action=change&detail=public&kind=bucket&name=web", Code: "NoSuchBucket"},
	}, last.Items)
	require.Equal(t, []string{"ApplyFile", "", "NoSuchBucket"}, []string{last.Operation, last.Target, last.Code})
	require.ErrorIs(t, last.Cause, done.Err, "for the log")
	apply(`{"file": "users: []", "dry_run": true}`)
	require.Empty(t, last.Items)
	require.Equal(t, "dry_run=true", last.Target)
}

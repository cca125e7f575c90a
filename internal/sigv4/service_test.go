package sigv4

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

// iamVerifier returns a verifier of requests to IAM that knows the credentials of the published examples.
func iamVerifier() *Verifier {
	v := exampleVerifier()
	v.Service, v.Payload = "iam", PayloadFromBody
	return v
}

// forService returns a POST request that the SDK has signed for a service, without x-amz-content-sha256.
func forService(t *testing.T, service, body string) *http.Request {
	r := httptest.NewRequest("POST", "https://iam.example.org/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	cred := aws.Credentials{AccessKeyID: exampleAccess, SecretAccessKey: exampleSecret}
	require.NoError(t, v4.NewSigner().SignHTTP(context.Background(), cred, r, hexSHA256(body), service, "us-east-1", exampleTime))
	require.Empty(t, r.Header["X-Amz-Content-Sha256"])
	return r
}

func hexSHA256(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

const form = "Action=CreateUser&UserName=somebody&Version=2010-05-08"

func TestOtherServices(t *testing.T) {
	r := forService(t, "iam", form)
	a, err := iamVerifier().Verify(r)
	require.NoError(t, err)
	require.Equal(t, exampleAccess, a.AccessKey)
	require.Equal(t, PayloadSHA256, a.Mode)
	body, err := a.Body(r)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, form, string(got))

	// A body of unknown length, a header that is not signed, and credentials in the query.
	r = forService(t, "iam", form)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(form)), -1
	_, err = iamVerifier().Verify(r)
	require.NoError(t, err)
	r = forService(t, "iam", form)
	r.Header.Set("X-Amz-Content-Sha256", "nonsense")
	_, err = iamVerifier().Verify(r)
	require.Equal(t, AccessDenied, codeOf(err))
	for _, query := range []string{"Action=GetCallerIdentity&Version=2011-06-15", ""} {
		r = httptest.NewRequest("GET", "https://sts.example.org/?X-Amz-Expires=60&"+query, nil)
		cred := aws.Credentials{AccessKeyID: exampleAccess, SecretAccessKey: exampleSecret}
		url, _, err := v4.NewSigner().PresignHTTP(context.Background(), cred, r, emptySHA256, "sts", "us-east-1", exampleTime)
		require.NoError(t, err)
		v := iamVerifier()
		v.Service = "sts"
		a, err = v.Verify(httptest.NewRequest("GET", url, nil))
		require.NoError(t, err)
		require.True(t, a.Presigned)
		_, err = v.Verify(httptest.NewRequest("GET", url, strings.NewReader("a body that was not signed")))
		require.Equal(t, SignatureDoesNotMatch, codeOf(err))
	}
}

// TestPublishedIAMRequest is the example of the reference ("Signature Version 4 signing process"), a GET without a
// body.
func TestPublishedIAMRequest(t *testing.T) {
	r := httptest.NewRequest("GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", nil)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	r.Header.Set("X-Amz-Date", "20150830T123600Z")
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "+
		"SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7")
	v := iamVerifier()
	v.Now = func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }
	v.Lookup = func(context.Context, string, string) (Credential, error) {
		return Credential{SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, nil
	}
	_, err := v.Verify(r)
	require.NoError(t, err)
}

func TestServicesAreSeparate(t *testing.T) {
	// A request that is signed for one service is invalid for any other, under either payload rule.
	_, err := iamVerifier().Verify(signedRequest())
	require.Equal(t, AuthorizationHeaderMalformed, codeOf(err))
	require.ErrorContains(t, err, `incorrect service "s3". This endpoint belongs to "iam".`)
	_, err = iamVerifier().Verify(forService(t, "sts", form))
	require.Equal(t, AuthorizationHeaderMalformed, codeOf(err))
	_, err = exampleVerifier().Verify(forService(t, "iam", form))
	require.ErrorContains(t, err, `incorrect service "iam". This endpoint belongs to "s3".`)
	// S3 requires x-amz-content-sha256 even if everything else is valid.
	_, err = exampleVerifier().Verify(forService(t, "s3", form))
	require.Equal(t, InvalidRequest, codeOf(err))
	// The signing key depends on the scope, so a changed scope invalidates the signature.
	r := forService(t, "sts", form)
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/sts/", "/iam/", 1))
	_, err = iamVerifier().Verify(r)
	require.Equal(t, SignatureDoesNotMatch, codeOf(err))
}

func TestSignedBodies(t *testing.T) {
	change := func(body io.Reader, n int64) error {
		r := forService(t, "iam", form)
		r.Body, r.ContentLength = io.NopCloser(body), n
		_, err := iamVerifier().Verify(r)
		return err
	}
	require.NoError(t, change(strings.NewReader(form), int64(len(form))))
	require.Equal(t, SignatureDoesNotMatch, codeOf(change(strings.NewReader(strings.ToUpper(form)), int64(len(form)))))
	require.Equal(t, SignatureDoesNotMatch, codeOf(change(strings.NewReader(""), int64(len(form)))))
	require.Equal(t, InvalidRequest, codeOf(change(bytes.NewReader(make([]byte, MaxSignedBody+1)), MaxSignedBody+1)))
	broken := errors.New("connection reset")
	err := change(io.MultiReader(strings.NewReader(form), brokenReader{broken}), int64(len(form)))
	require.Equal(t, IncompleteBody, codeOf(err))
	require.ErrorIs(t, err, broken)

	large := strings.Repeat("a", MaxSignedBody)
	_, err = iamVerifier().Verify(forService(t, "iam", large))
	require.NoError(t, err)

	// Without credentials the body is not read.
	r := httptest.NewRequest("POST", "/", brokenReader{broken})
	a, err := iamVerifier().Verify(r)
	require.ErrorIs(t, err, ErrAnonymous)
	require.True(t, a.Anonymous())
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

func TestLookup(t *testing.T) {
	v := exampleVerifier()
	a, err := v.Verify(signedRequest())
	require.NoError(t, err)
	require.Equal(t, exampleHolder, a.Holder)

	// Lookup is called once per request, with its context. Its error is returned unchanged, and the request is denied.
	calls, failure := 0, error(nil)
	v.Lookup = func(ctx context.Context, accessKey, _ string) (Credential, error) {
		require.Equal(t, "of the request", ctx.Value(contextKey{}))
		calls++
		return Credential{SecretKey: exampleSecret}, failure
	}
	r := signedRequest()
	r = r.WithContext(context.WithValue(r.Context(), contextKey{}, "of the request"))
	_, err = v.Verify(r)
	require.NoError(t, err)
	failure = errors.New("the key store is unavailable")
	a, err = v.Verify(r)
	require.ErrorIs(t, err, failure)
	require.Nil(t, a)
	require.Equal(t, 2, calls)
}

type contextKey struct{}

// The service that a request claims is not verified: it only has to be the one that the Verifier of that service accepts.
func TestClaimedService(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "AWS4-HMAC-SHA256 Credential=AKIA/20261123/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0": "iam",
		"AWS4-HMAC-SHA256 SignedHeaders=host, Signature=0, Credential=a/b/20261123/us-east-1/sts/aws4_request": "sts",
		"AWS AKIA:c2lnbmF0dXJl": "", "Basic Zm9v": "", "AWS4-HMAC-SHA256 Credential=": "", "AWS4-HMAC-SHA256 Credential=/iam/": "",
		"AWS4-HMAC-SHA256 Credential=AKIA/us-east-1/iam/aws4_request": "", "AWS4-HMAC-SHA256 Credential=AKIA/d/r//aws4_request": "",
	} {
		r := httptest.NewRequest("POST", "/", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		require.Equal(t, want, ClaimedService(r), header)
	}
	r := httptest.NewRequest("GET", "/?X-Amz-Credential=AKIA%2F20261123%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-Signature=0", nil)
	require.Equal(t, "sts", ClaimedService(r))
	r.Header.Set("Authorization", "")
	require.Equal(t, "sts", ClaimedService(r))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIA/20261123/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0")
	require.Equal(t, "s3", ClaimedService(r))
	require.Zero(t, testing.AllocsPerRun(10, func() { ClaimedService(r) }))
}

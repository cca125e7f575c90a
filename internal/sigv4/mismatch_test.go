package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// details returns the details of an error by their names.
func details(t *testing.T, err error) map[string]string {
	t.Helper()
	var e *Error
	require.ErrorAs(t, err, &e)
	out := map[string]string{}
	for _, d := range e.Details {
		require.NotContains(t, out, d.Name)
		out[d.Name] = d.Value
	}
	return out
}

// bytesOf is the inverse of spaced.
func bytesOf(t *testing.T, s string) string {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return string(raw)
}

// The details of a mismatch are the canonical request and the string to sign that a signer of this request computes.
func TestMismatchDetails(t *testing.T) {
	v := exampleVerifier()
	r := signedRequest()
	r.Method = "DELETE"
	_, err := v.Verify(r)
	got := details(t, err)
	require.Equal(t, exampleAccess, got["AWSAccessKeyId"])
	given, _, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature=")
	require.Equal(t, strings.TrimPrefix(r.Header.Get("Authorization"), given+", Signature="), got["SignatureProvided"])
	canonical := got["CanonicalRequest"]
	require.True(t, strings.HasPrefix(canonical, "DELETE\n/bucket/a%20key/%C3%BC\npartNumber=2&uploadId=x\n"), canonical)
	require.Contains(t, canonical, "\nx-amz-meta-name:value\n")
	require.Equal(t, canonical, bytesOf(t, got["CanonicalRequestBytes"]))
	sum := sha256.Sum256([]byte(canonical))
	require.Equal(t, "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/aws4_request\n"+hex.EncodeToString(sum[:]), got["StringToSign"])
	require.Equal(t, got["StringToSign"], bytesOf(t, got["StringToSignBytes"]))

	// No detail contains the valid signature or the secret.
	again := signedRequest()
	again.Method = "DELETE"
	exampleSigner().Sign(again, emptySHA256, exampleTime)
	_, right, _ := strings.Cut(again.Header.Get("Authorization"), "Signature=")
	for name, value := range got {
		require.NotContains(t, value, right, name)
		require.NotContains(t, value, exampleSecret, name)
	}
}

// The error does not include the canonical request if it may contain a secret or is large.
func TestMismatchKeepsSecrets(t *testing.T) {
	v := exampleVerifier()
	for name, change := range map[string]func(*http.Request){
		"customer key":        set("X-Amz-Server-Side-Encryption-Customer-Key", "c2VjcmV0"),
		"source customer key": set("X-Amz-Copy-Source-Server-Side-Encryption-Customer-Key", "c2VjcmV0"),
		"token":               set("X-Amz-Security-Token", "c2VjcmV0"),
		"proxy header":        set("X-Proxy-Password", "c2VjcmV0"),
		"cookie":              set("Cookie", "c2VjcmV0"),
		"large":               set("X-Amz-Meta-Large", strings.Repeat("c2VjcmV0", maxEcho/8)),
		"key in the query":    func(r *http.Request) { r.URL.RawQuery += "&x-amz-server-side-encryption-customer-key=c2VjcmV0" },
		"key, encoded":        func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Server-Side-Encryption-%43ustomer-Key=c2VjcmV0" },
		"token in the query":  func(r *http.Request) { r.URL.RawQuery += "&X-Amz-Security-Token=c2VjcmV0" },
		"large query":         func(r *http.Request) { r.URL.RawQuery += "&prefix=" + strings.Repeat("c2VjcmV0", maxEcho/8) },
		"proxy authorization": set("Proxy-Authorization", "Basic c2VjcmV0"),
	} {
		r := signedRequest()
		change(r)
		signed, _, _ := strings.Cut(r.Header.Get("Authorization"), ", Signature=")
		_, names, _ := strings.Cut(signed, "SignedHeaders=")
		for key := range r.Header { // sign all headers
			if lower := strings.ToLower(key); !strings.Contains(names, lower) && lower != "authorization" && lower != "user-agent" {
				names += ";" + lower
			}
		}
		list := strings.Split(names, ";")
		slices.Sort(list)
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), signed[strings.Index(signed, "SignedHeaders="):], "SignedHeaders="+strings.Join(list, ";"), 1))
		_, err := v.Verify(r)
		require.Equal(t, SignatureDoesNotMatch, codeOf(err), name)
		got := details(t, err)
		require.NotEmpty(t, got["StringToSign"], name)
		require.NotContains(t, got, "CanonicalRequest", name)
		for _, value := range got {
			require.NotContains(t, value, "c2VjcmV0", name)
			require.NotContains(t, value, spaced([]byte("c2VjcmV0")), name)
		}
	}
}

func TestDetailsOfDenials(t *testing.T) {
	v := exampleVerifier()
	r := signedRequest()
	sub(exampleAccess, "AKIDUNKNOWN")(r)
	_, err := v.Verify(r)
	require.Equal(t, map[string]string{"AWSAccessKeyId": "AKIDUNKNOWN"}, details(t, err))

	r = signedRequest()
	r.Header.Set("X-Amz-Meta-B", "1")
	r.Header.Set("X-Amz-Acl", "private")
	_, err = v.Verify(r)
	require.Equal(t, map[string]string{"HeadersNotSigned": "x-amz-acl, x-amz-meta-b"}, details(t, err))

	r = signedRequest()
	r.Header.Set("Authorization", "Basic "+hex.EncodeToString([]byte("user:password")))
	_, err = v.Verify(r)
	require.Equal(t, map[string]string{"ArgumentName": "Authorization"}, details(t, err))
}

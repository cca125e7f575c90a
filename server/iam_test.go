package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

// query sends a request of the Query API as the root, signed for a service, and returns the status and the document.
func (s *keyed) query(service, form string) (int, string) {
	s.t.Helper()
	k := s.Credentials()
	return s.queryAs(k.AccessKey, k.SecretKey, service, form)
}

func (s *keyed) queryAs(access, secret, service, form string) (int, string) {
	t := s.t
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "POST", s.Endpoint()+"/", strings.NewReader(form))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	if service != "" {
		sum := sha256.Sum256([]byte(form))
		hash := hex.EncodeToString(sum[:])
		if service == "s3" {
			r.Header.Set("X-Amz-Content-Sha256", hash)
		}
		cred := aws.Credentials{AccessKeyID: access, SecretAccessKey: secret}
		require.NoError(t, v4.NewSigner().SignHTTP(context.Background(), cred, r, hash, service, "us-east-1", time.Now()))
	}
	got, err := s.http.Do(r)
	require.NoError(t, err)
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(text)
}

const whoami = "Action=GetCallerIdentity&Version=2011-06-15"

// TestIAM: requests for IAM and STS reach their API, also with the key of a user, and all others S3.
func TestIAM(t *testing.T) {
	config := testConfig(t)
	var log lockedBuffer
	config.Log, config.Settings.Log, config.Settings.Buckets = &log, LogRequests, []string{"bucket"}
	s, stop := newKeyed(t, config)
	k := s.Credentials()
	status, text := s.query("sts", whoami)
	require.Equal(t, 200, status, text)
	require.Contains(t, text, ":root</Arn>")
	app := s.admin(200, "POST", "/-/admin/key?name=app&bucket=bucket&access=read")
	status, text = s.queryAs(app.AccessKey, app.SecretKey, "sts", whoami)
	require.Equal(t, 200, status, text)
	require.Contains(t, text, ":key/app</Arn>")
	status, text = s.query("", whoami)
	require.Equal(t, 403, status)
	require.Contains(t, text, "MissingAuthenticationToken")

	// S3, as without the API.
	status, text = s.query("s3", whoami)
	require.Equal(t, 405, status)
	require.Contains(t, text, "<Error><Code>MethodNotAllowed</Code>")
	status, text = s.query("ec2", whoami)
	require.Equal(t, 400, status)
	require.Contains(t, text, "<Error><Code>AuthorizationHeaderMalformed</Code>")
	require.NoError(t, stop())
	require.Contains(t, log.String(), `"operation":"GetCallerIdentity"`)
	require.Contains(t, log.String(), `"access_key":"`+k.AccessKey+`"`)

	config.Settings.NoIAM = true
	s, stop = newKeyed(t, config)
	for service, want := range map[string]string{
		"sts": "AuthorizationHeaderMalformed", "iam": "AuthorizationHeaderMalformed", "s3": "MethodNotAllowed", "": "AccessDenied",
	} {
		_, text = s.query(service, whoami)
		require.Contains(t, text, "<Error><Code>"+want+"</Code>", service)
	}
	require.NoError(t, stop())
}

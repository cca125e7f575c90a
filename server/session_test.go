package server

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/auth/identity"
	"orcas/internal/sigv4"
)

// TestSessions uses temporary credentials with a running server, with signing keys in its cache, and after a restart, a
// rebuild of the database, and a start without the file of the key.
func TestSessions(t *testing.T) {
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket"}
	var log bytes.Buffer
	config.Log = &log
	s, stop := newKeyed(t, config)
	account := s.identities.Root().Account
	ok := func(path, body string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+s.AdminAddress()+path, strings.NewReader(body))
		require.NoError(t, err)
		signer := sigv4.Signer{AccessKey: s.Credentials().AccessKey, SecretKey: s.Credentials().SecretKey, Region: "us-east-1"}
		signer.Sign(r, fmt.Sprintf("%x", sha256.Sum256([]byte(body))), time.Now())
		response, err := s.http.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode, path)
	}
	begin := func(role string) *identity.Session {
		t.Helper()
		alice, err := s.identities.Get(identity.User, account, "alice")
		require.NoError(t, err)
		c, err := s.identities.Lookup(t.Context(), alice.Keys[0].ID, "")
		require.NoError(t, err)
		in := identity.AssumeRole{Role: "arn:aws:iam::" + account + ":role/" + role, Session: "today"}
		session, err := s.identities.AssumeRole(t.Context(), c.Principal, in)
		require.NoError(t, err)
		return session
	}
	client := func(i *identity.Session, token string) *s3.Client {
		o := s.client(i.AccessKey, i.SecretKey).Options()
		o.Credentials = credentials.NewStaticCredentialsProvider(i.AccessKey, i.SecretKey, token)
		return s3.New(o)
	}
	get := func(c *s3.Client) string {
		_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
		return codeOf(err)
	}

	ok("/-/admin/user?name=alice", "")
	ok("/-/admin/user/key?name=alice", "")
	ok("/-/admin/role?name=writer&user=alice", "")
	ok("/-/admin/policy/attach?policy=readwrite&role=writer&attached=true", "")
	session := begin("writer")
	works := func() {
		t.Helper()
		c := client(session, session.Token)
		require.Empty(t, put(c, "key"))
		require.Empty(t, get(c))
		_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("mine")})
		require.Equal(t, "AccessDenied", codeOf(err))
		require.Equal(t, "InvalidAccessKeyId", put(client(session, ""), "key"))
		require.Equal(t, "InvalidToken", put(client(session, "x"), "key"))
		require.Equal(t, "InvalidToken", put(client(session, begin("writer").Token), "key"))
		presigned, err := s3.NewPresignClient(c).PresignGetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("key")})
		require.NoError(t, err)
		response, err := s.http.Get(presigned.URL)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, 200, response.StatusCode)
	}
	works()

	// The admin API accepts a session whose role may use it.
	status := func() int {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.AdminAddress()+"/-/admin/user", nil)
		require.NoError(t, err)
		signer := sigv4.Signer{AccessKey: session.AccessKey, SecretKey: session.SecretKey, SecurityToken: session.Token, Region: "us-east-1"}
		signer.Sign(r, sigv4.EmptySHA256, time.Now())
		response, err := s.http.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, 403, status())
	ok("/-/admin/policy/attach?policy=admin&role=writer&attached=true", "")
	require.Equal(t, 200, status())
	ok("/-/admin/policy/attach?policy=admin&role=writer&attached=false", "")
	require.Equal(t, 403, status())

	for _, lost := range []string{"", databaseFile} {
		require.NoError(t, stop())
		if lost != "" {
			require.NoError(t, os.Remove(filepath.Join(config.Data, lost)))
		}
		s, stop = newKeyed(t, config)
		works()
	}

	// Changes apply to the next request, although the server has the signing key in its cache.
	c := client(session, session.Token)
	ok("/-/admin/policy/attach?policy=readwrite&role=writer&attached=false", "")
	require.Equal(t, "AccessDenied", put(c, "key"))
	ok("/-/admin/policy/attach?policy=readonly&role=writer&attached=true", "")
	require.Equal(t, "AccessDenied", put(c, "key"))
	require.Empty(t, get(c))
	require.NoError(t, s.identities.DeleteRole(t.Context(), account, "writer"))
	require.Equal(t, "InvalidAccessKeyId", get(c))
	ok("/-/admin/role?name=writer&user=alice", "")
	require.Equal(t, "InvalidAccessKeyId", get(c))

	ok("/-/admin/policy/attach?policy=readwrite&role=writer&attached=true", "")
	session = begin("writer")
	works()
	require.NoError(t, stop())
	require.NoError(t, os.Remove(filepath.Join(config.Data, IdentityKeyFile)))
	s, stop = newKeyed(t, config)
	require.Equal(t, "InvalidToken", put(client(session, session.Token), "key"))
	require.NoError(t, stop())
	require.NotContains(t, log.String(), session.Token)
	require.NotContains(t, log.String(), session.SecretKey)
}

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/core"
	"orcas/core/codec"
)

// keyed is a server with an admin API, for tests of application keys.
type keyed struct {
	*Server
	t    *testing.T
	http *http.Client
}

func newKeyed(t *testing.T, config Config) (*keyed, func() error) {
	config.Admin = "127.0.0.1:0"
	s, stop := running(t, config)
	return &keyed{s, t, httpClient(t, s)}, stop
}

// admin sends a request to the admin API as the root, and returns the key in the response.
func (s *keyed) admin(status int, method, path string) admin.KeyInfo {
	s.t.Helper()
	got, text, _ := ask(s.t, s.Server, s.Credentials().SecretKey, method, path, "")
	require.Equal(s.t, status, got, "%s", text)
	var k admin.KeyInfo
	require.NoError(s.t, json.Unmarshal(text, &k))
	return k
}

func (s *keyed) client(access, secret string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.Endpoint()), Region: "us-east-1", UsePathStyle: true, HTTPClient: s.http, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
	})
}

// put writes an object and returns the code of the error, or "".
func put(c *s3.Client, key string) string {
	_, err := c.PutObject(context.Background(), &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(key), Body: strings.NewReader("x")})
	return codeOf(err)
}

func list(c *s3.Client, prefix string) string {
	_, err := c.ListObjectsV2(context.Background(), &s3.ListObjectsV2Input{Bucket: aws.String("bucket"), Prefix: aws.String(prefix)})
	return codeOf(err)
}

func codeOf(err error) string {
	var e smithy.APIError
	if err == nil {
		return ""
	}
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return err.Error()
}

// TestApplicationKeys uses application keys with a running server, and after a restart, a rebuild of the database, and
// a start without the file of the key.
func TestApplicationKeys(t *testing.T) {
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket", "other"}
	var log bytes.Buffer
	config.Log = &log
	s, stop := newKeyed(t, config)
	k := s.admin(200, "POST", "/-/admin/key?name=app&bucket=bucket&prefix=a/&access=readwrite&expires=90d")
	require.Equal(t, s.Endpoint(), k.Endpoint)
	require.Equal(t, "a/", k.Prefix)
	require.NotNil(t, k.Expires)
	client := s.client(k.AccessKey, k.SecretKey)
	works := func(c *s3.Client) {
		t.Helper()
		require.Empty(t, put(c, "a/key"))
		require.Empty(t, list(c, "a/"))
		require.Equal(t, "AccessDenied", put(c, "b/key"))
		require.Equal(t, "AccessDenied", list(c, ""))
		require.Equal(t, "AccessDenied", list(c, "b/"))
		_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("mine")})
		require.Equal(t, "AccessDenied", codeOf(err))
		_, err = c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("other")})
		require.Equal(t, "AccessDenied", codeOf(err), "the key has no right in the bucket, so it must not learn that it exists")
		_, err = c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("bucket")})
		require.Equal(t, "BucketAlreadyOwnedByYou", codeOf(err))
		_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("other"), Key: aws.String("a/key")})
		require.Equal(t, "AccessDenied", codeOf(err))
	}
	works(client)

	for path, want := range map[string]int{
		"POST /-/admin/key?name=app&bucket=bucket&access=read":              409,
		"POST /-/admin/key?name=a/b&bucket=bucket&access=read":              400,
		"POST /-/admin/key?name=k&bucket=none&access=read":                  404,
		"POST /-/admin/key?name=k&bucket=bucket&access=all":                 400,
		"POST /-/admin/key?name=k&bucket=bucket":                            400,
		"POST /-/admin/key?name=k&bucket=bucket&access=read&no-delete=true": 400,
		"POST /-/admin/key?name=k&bucket=bucket&access=read&expires=1":      400,
		"POST /-/admin/key?name=k&bucket=bucket&access=read&expires=-1d":    400,
		"POST /-/admin/key?name=k&bucket=bucket&access=read&expires=99999d": 400,
		"POST /-/admin/key/state?name=app&enabled=perhaps":                  400,
		"POST /-/admin/key/state?name=none&enabled=true":                    404,
		"POST /-/admin/key/rotate?name=none":                                404,
		"POST /-/admin/key/rotate?name=app&overlap=":                        400,
		"DELETE /-/admin/key?name=none":                                     404,
	} {
		method, path, _ := strings.Cut(path, " ")
		s.admin(want, method, path)
	}
	for _, secret := range []string{"", "wrong"} {
		status, _, _ := ask(t, s.Server, secret, "GET", "/-/admin/key", "")
		require.Equal(t, 403, status)
	}
	for _, r := range admin.Routes() { // the key is for S3 only
		status, text, _ := askWith(t, s.Server, k.AccessKey, k.SecretKey, r.Method, r.Path, "")
		require.Equal(t, 403, status, "%s: %s", r.Name, text)
		require.Contains(t, string(text), string(r.Action))
	}

	// The same connections are used throughout.
	require.False(t, s.admin(200, "POST", "/-/admin/key/state?name=app&enabled=false").Enabled)
	require.Equal(t, "InvalidAccessKeyId", put(client, "a/key"))
	require.True(t, s.admin(200, "POST", "/-/admin/key/state?name=app&enabled=true").Works)
	works(client)
	second := s.admin(200, "POST", "/-/admin/key/rotate?name=app&overlap=1h")
	require.Equal(t, k.AccessKey, second.Previous.AccessKey)
	works(client)
	third := s.admin(200, "POST", "/-/admin/key/rotate?name=app")
	require.Nil(t, third.Previous)
	require.Equal(t, "InvalidAccessKeyId", put(client, "a/key"))
	require.Equal(t, "InvalidAccessKeyId", put(s.client(second.AccessKey, second.SecretKey), "a/key"))
	require.Equal(t, "SignatureDoesNotMatch", put(s.client(third.AccessKey, second.SecretKey), "a/key"))
	works(s.client(third.AccessKey, third.SecretKey))

	account := s.identities.Root().Account
	for _, lost := range []string{"", databaseFile, IdentityKeyFile} {
		require.NoError(t, stop())
		for _, secret := range []string{k.SecretKey, second.SecretKey, third.SecretKey} {
			require.NotContains(t, log.String(), secret)
		}
		if lost != "" {
			require.NoError(t, os.Remove(filepath.Join(config.Data, lost)))
		}
		s, stop = newKeyed(t, config)
		require.Equal(t, account, s.identities.Root().Account)
		if lost != IdentityKeyFile {
			works(s.client(third.AccessKey, third.SecretKey))
			continue
		}
		require.Equal(t, "InvalidAccessKeyId", put(s.client(third.AccessKey, third.SecretKey), "a/key"))
		s.admin(500, "POST", "/-/admin/key/rotate?name=app")
		s.admin(200, "DELETE", "/-/admin/key?name=app")
		again := s.admin(200, "POST", "/-/admin/key?name=app&bucket=bucket&prefix=a/&access=readwrite")
		works(s.client(again.AccessKey, again.SecretKey))
	}
	require.NoError(t, stop())
	require.Contains(t, log.String(), "access keys are refused")
	require.Contains(t, log.String(), ":key/app")
}

// TestFormerRoot: buckets that were created before accounts had IDs belong to the root of the default account.
func TestFormerRoot(t *testing.T) {
	s, _ := newKeyed(t, testConfig(t))
	_, err := s.fs.CreateBucket(t.Context(), core.BucketInfo{Name: "bucket", Owner: "root", Region: "us-east-1"})
	require.NoError(t, err)
	root := s.client(s.Credentials().AccessKey, s.Credentials().SecretKey)
	require.Empty(t, put(root, "key"))
	require.Empty(t, list(root, ""))
	all, err := root.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	require.NoError(t, err)
	require.Len(t, all.Buckets, 1)
	_, err = root.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
		Bucket: aws.String("bucket"), VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
	})
	require.NoError(t, err)
	stored, err := s.meta.Bucket(t.Context(), "bucket")
	require.NoError(t, err)
	require.Equal(t, s.identities.Root().Account, stored.Owner, "the next change of the bucket records the account")
}

func TestIdentityKeyFile(t *testing.T) {
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket"}
	path := filepath.Join(config.Data, IdentityKeyFile)
	start := func(keys string) (*keyed, func() error) {
		config.Settings.MasterKeys = nil
		if keys != "" {
			var err error
			config.Settings.MasterKeys, err = codec.ParseKeys(keys)
			require.NoError(t, err)
		}
		return newKeyed(t, config)
	}
	fails := func(keys, with string) {
		t.Helper()
		config.Settings.MasterKeys = nil
		if keys != "" {
			var err error
			config.Settings.MasterKeys, err = codec.ParseKeys(keys)
			require.NoError(t, err)
		}
		s, err := Open(t.Context(), config)
		require.ErrorContains(t, err, with)
		require.Nil(t, s)
	}
	stored := func() (k identityKey) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &k))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		return k
	}
	one, two := "1:"+strings.Repeat("11", 32), "2:"+strings.Repeat("22", 32)

	// Without a secret, the file can be replaced.
	_, stop := start(one)
	require.Equal(t, uint32(1), stored().MasterKey)
	require.NoError(t, stop())
	s, stop := start("")
	require.Zero(t, stored().MasterKey)
	plain := stored().Key
	require.Len(t, plain, 32)
	k := s.admin(200, "POST", "/-/admin/key?name=app&bucket=bucket&access=readwrite")
	require.NoError(t, stop())

	for _, keys := range []string{"", one, two + "," + one, two} {
		s, stop = start(keys)
		require.Empty(t, put(s.client(k.AccessKey, k.SecretKey), "key"))
		newest, _ := config.Settings.MasterKeys.Newest()
		require.Equal(t, newest, stored().MasterKey)
		if newest != 0 {
			require.False(t, bytes.Contains(stored().Key, plain))
		}
		require.NoError(t, stop())
	}
	fails("", "is encrypted with master key 2, which is not configured: set ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY")
	fails(one, "is encrypted with master key 2")
	fails("2:"+strings.Repeat("33", 32), "master key 2 has the wrong value")
	require.NoError(t, os.Chmod(path, 0o640))
	fails(two, "run chmod 600")
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.WriteFile(path, []byte(`{"key": "AAAA"}`), 0o600))
	fails(two, "does not contain a key")
}

package server

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
)

// TestPermissionsOfKeys: an application key for a prefix, and bucket policies that name it, before and after a restart.
func TestPermissionsOfKeys(t *testing.T) {
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket", "other"}
	s, stop := newKeyed(t, config)
	k := s.admin(200, "POST", "/-/admin/key?name=app&bucket=bucket&prefix=a/&access=readwrite")
	root := s.client(s.Credentials().AccessKey, s.Credentials().SecretKey)
	app := s.client(k.AccessKey, k.SecretKey)
	get := func(c *s3.Client, key string) string {
		_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String(key)})
		return codeOf(err)
	}
	setPolicy := func(statements string) string {
		_, err := root.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{
			Bucket: aws.String("bucket"), Policy: aws.String(`{"Version": "2012-10-17", "Statement": [` + statements + `]}`),
		})
		return codeOf(err)
	}
	named := func(effect, principal, action, keys string) string {
		return fmt.Sprintf(`{"Effect": %q, "Principal": {"AWS": "arn:aws:iam::%s:%s"}, "Action": %q, "Resource": "arn:aws:s3:::bucket/%s"}`,
			effect, s.identities.Root().Account, principal, action, keys)
	}
	for _, key := range []string{"a/key", "a/secret", "b/key"} {
		require.Empty(t, put(root, key))
	}

	_, err := app.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("bucket")})
	require.NoError(t, err)
	_, err = app.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("other")})
	require.Error(t, err)
	require.Empty(t, get(app, "a/key"))
	require.Equal(t, "NoSuchKey", get(app, "a/none"))
	require.Equal(t, "AccessDenied", get(app, "b/key"))
	require.Equal(t, "AccessDenied", get(app, "b/none"))
	require.Equal(t, "NoSuchKey", get(root, "b/none"))
	deleted, err := app.DeleteObjects(t.Context(), &s3.DeleteObjectsInput{Bucket: aws.String("bucket"), Delete: &types.Delete{
		Objects: []types.ObjectIdentifier{{Key: aws.String("a/none")}, {Key: aws.String("b/key")}},
	}})
	require.NoError(t, err)
	require.Len(t, deleted.Deleted, 1)
	require.Equal(t, "AccessDenied", *deleted.Errors[0].Code)

	require.Equal(t, "MalformedPolicy", setPolicy(named("Allow", "user/nobody", "s3:GetObject", "*")))
	require.Equal(t, "MalformedPolicy", setPolicy(named("Allow", "key/nobody", "s3:GetObject", "*")))
	require.Empty(t, setPolicy(named("Deny", "key/app", "s3:GetObject", "a/secret")+","+named("Allow", "key/app", "s3:GetObject", "b/*")))
	holds := func() {
		t.Helper()
		require.Equal(t, "AccessDenied", get(app, "a/secret"))
		require.Empty(t, get(root, "a/secret"))
		require.Empty(t, get(app, "b/key"))
		require.Equal(t, "AccessDenied", put(app, "b/key"))
		_, err := app.GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: aws.String("bucket")})
		require.Equal(t, "AccessDenied", codeOf(err))
	}
	holds()
	require.NoError(t, stop())
	s, _ = newKeyed(t, config)
	root = s.client(s.Credentials().AccessKey, s.Credentials().SecretKey)
	app = s.client(k.AccessKey, k.SecretKey)
	holds()
}

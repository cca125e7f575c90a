package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/auth/identity"
)

// TestAccounts: a tenant sees and uses only its own buckets, unless a bucket policy and its own policies allow more, also
// after a restart and a rebuild of the database.
func TestAccounts(t *testing.T) {
	config := testConfig(t)
	config.Settings.Buckets = []string{"bucket"}
	s, stop := newKeyed(t, config)
	created := s.admin(200, "POST", "/-/admin/account?name=tenant")
	s.admin(409, "POST", "/-/admin/account?name=Tenant")
	s.admin(400, "POST", "/-/admin/account?name=a/b")
	id := strings.Split(created.ARN, ":")[4]
	_, err := s.identities.Create(t.Context(), identity.User, id, "bob")
	require.NoError(t, err)
	_, err = s.identities.Attach(t.Context(), identity.User, id, "bob", "readwrite", true)
	require.NoError(t, err)
	_, secret, err := s.identities.CreateAccessKey(t.Context(), id, "bob", 0)
	require.NoError(t, err)

	root := func() *s3.Client { return s.client(s.Credentials().AccessKey, s.Credentials().SecretKey) }
	tenant := func() *s3.Client { return s.client(created.AccessKey, created.SecretKey) }
	bob := func() *s3.Client { return s.client(secret.AccessKey, secret.SecretKey) }
	get := func(c *s3.Client, bucket string) string {
		_, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String(bucket), Key: aws.String("key")})
		return codeOf(err)
	}
	copied := func(c *s3.Client, from, to string) string {
		_, err := c.CopyObject(t.Context(), &s3.CopyObjectInput{Bucket: aws.String(to), Key: aws.String("key"), CopySource: aws.String(from + "/key")})
		return codeOf(err)
	}
	make := func(c *s3.Client, bucket string) string {
		_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)})
		return codeOf(err)
	}
	buckets := func(c *s3.Client) (names []string) {
		for token := (*string)(nil); ; {
			page, err := c.ListBuckets(t.Context(), &s3.ListBucketsInput{MaxBuckets: aws.Int32(1), ContinuationToken: token})
			require.NoError(t, err)
			for _, b := range page.Buckets {
				names = append(names, *b.Name)
			}
			if token = page.ContinuationToken; token == nil {
				return names
			}
		}
	}
	require.Empty(t, put(root(), "key"))
	require.Equal(t, "BucketAlreadyExists", make(tenant(), "bucket"), "names are global")
	for _, name := range []string{"a-tenants", "z-tenants"} {
		require.Empty(t, make(tenant(), name))
		require.Equal(t, "BucketAlreadyExists", make(root(), name))
	}
	require.Empty(t, make(root(), "mine"))
	_, err = tenant().PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("a-tenants"), Key: aws.String("key"), Body: strings.NewReader("x")})
	require.NoError(t, err)

	separate := func() {
		t.Helper()
		require.Equal(t, []string{"bucket", "mine"}, buckets(root()))
		require.Equal(t, []string{"a-tenants", "z-tenants"}, buckets(tenant()))
		require.Equal(t, []string{"a-tenants", "z-tenants"}, buckets(bob()))
		for _, c := range []*s3.Client{tenant(), bob()} {
			require.Empty(t, get(c, "a-tenants"))
			require.Equal(t, "AccessDenied", get(c, "bucket"))
			require.Equal(t, "AccessDenied", put(c, "key"))
			require.Equal(t, "AccessDenied", list(c, ""))
			require.Equal(t, "AccessDenied", copied(c, "bucket", "a-tenants"))
			require.Equal(t, "AccessDenied", copied(c, "a-tenants", "bucket"))
			_, err := c.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("bucket")})
			require.Error(t, err)
		}
		require.Equal(t, "AccessDenied", get(root(), "a-tenants"), "the operator of the server is no exception")
		require.Equal(t, "AccessDenied", copied(root(), "a-tenants", "bucket"))
		owner, err := tenant().GetBucketAcl(t.Context(), &s3.GetBucketAclInput{Bucket: aws.String("a-tenants")})
		require.NoError(t, err)
		require.Regexp(t, "^[0-9a-f]{64}$", *owner.Owner.ID)
		for _, r := range admin.Routes() { // the server belongs to the default account
			status, text, _ := askWith(t, s.Server, created.AccessKey, created.SecretKey, r.Method, r.Path, "")
			require.Equal(t, 403, status, "%s: %s", r.Name, text)
		}
	}
	separate()
	for _, lost := range []string{"", databaseFile} {
		require.NoError(t, stop())
		if lost != "" {
			require.NoError(t, os.Remove(filepath.Join(config.Data, lost)))
		}
		s, stop = newKeyed(t, config)
		separate()
	}

	// Both the bucket policy and the policies of the user must allow it.
	allow := func(principal string) {
		t.Helper()
		document := fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": %q}, "Action": "s3:GetObject",
			"Resource": "arn:aws:s3:::bucket/*"}}`, principal)
		_, err := root().PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String("bucket"), Policy: aws.String(document)})
		require.NoError(t, err)
	}
	allow(id)
	require.Empty(t, get(tenant(), "bucket"))
	require.Empty(t, get(bob(), "bucket"))
	require.Empty(t, copied(bob(), "bucket", "a-tenants"))
	_, err = s.identities.Attach(t.Context(), identity.User, id, "bob", "readwrite", false)
	require.NoError(t, err)
	require.Equal(t, "AccessDenied", get(bob(), "bucket"))
	allow("arn:aws:iam::" + id + ":user/bob")
	require.Equal(t, "AccessDenied", get(bob(), "bucket"))
	require.Equal(t, "AccessDenied", get(tenant(), "bucket"))
	_, err = s.identities.Attach(t.Context(), identity.User, id, "bob", "readonly", true)
	require.NoError(t, err)
	require.Empty(t, get(bob(), "bucket"))
	_, err = tenant().GetBucketPolicy(t.Context(), &s3.GetBucketPolicyInput{Bucket: aws.String("bucket")})
	require.Error(t, err)

	// The root of the account manages its users, and nobody else's.
	const version = "&Version=2010-05-08"
	iam := func(action string) string {
		t.Helper()
		status, text := s.queryAs(created.AccessKey, created.SecretKey, "iam", "Action="+action+version)
		require.Equal(t, 200, status, text)
		return text
	}
	require.Contains(t, iam("CreateUser&UserName=carol"), "arn:aws:iam::"+id+":user/carol")
	status, text := s.query("iam", "Action=CreateUser&UserName=dave"+version)
	require.Equal(t, 200, status, text)
	require.Contains(t, iam("ListUsers"), "carol")
	require.NotContains(t, iam("ListUsers"), "dave")
	_, text = s.query("iam", "Action=ListUsers"+version)
	require.NotContains(t, text, "carol")

	rotated := s.admin(200, "POST", "/-/admin/account/rotate?name=tenant&overlap=1h")
	require.Empty(t, get(tenant(), "a-tenants"))
	created.AccessKey, created.SecretKey = rotated.AccessKey, rotated.SecretKey
	require.Empty(t, get(tenant(), "a-tenants"))
	former := tenant()
	s.admin(200, "POST", "/-/admin/account/rotate?name=tenant")
	require.Equal(t, "InvalidAccessKeyId", get(former, "a-tenants"))
	s.admin(404, "POST", "/-/admin/account/rotate?name=none")
}

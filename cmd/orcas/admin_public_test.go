package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"orcas/admin"
)

// TestPublicBucket opens and closes a bucket, and checks what everybody can do, and that other statements are kept.
func TestPublicBucket(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	data, file := filepath.Join(base, "data"), filepath.Join(base, "policy.json")
	serve(t, data, func(c *s3.Client, address string) {
		orcas := func(status int, line string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin"}, strings.Fields(line)...), "--data", data, "--admin-address", address)...)
		}
		bucket := aws.String("bucket")
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
		require.NoError(t, err)
		for _, key := range []string{"1", "old/1"} {
			_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: &key, Body: strings.NewReader("x")})
			require.NoError(t, err)
		}
		anyone := func(want int, path string) {
			t.Helper()
			r, err := http.Get(*c.Options().BaseEndpoint + path)
			require.NoError(t, err)
			require.NoError(t, r.Body.Close())
			require.Equal(t, want, r.StatusCode, path)
		}
		public := func(args, want string) {
			t.Helper()
			stdout, _ := orcas(exitOK, "bucket bucket "+args)
			require.Contains(t, stdout, "public access: "+want+"\n")
			stdout, _ = orcas(exitOK, "bucket bucket --json")
			var b admin.BucketSettings
			require.NoError(t, json.Unmarshal([]byte(stdout), &b))
			require.Equal(t, want, string(b.Public))
		}
		put := func(document string) error {
			_, err := c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: bucket, Policy: aws.String(document)})
			return err
		}
		const deletes = `{"Sid":"Old","Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/old/*"}`
		require.NoError(t, put(`{"Version": "2012-10-17", "Statement": `+deletes+`}`))
		public("", "none")
		anyone(403, "/bucket/1")
		public("--public read --compression fast", "read")
		anyone(200, "/bucket/1")
		anyone(403, "/bucket/old/1")
		anyone(403, "/bucket")
		anyone(403, "/bucket?versions")
		status, err := c.GetBucketPolicyStatus(ctx, &s3.GetBucketPolicyStatusInput{Bucket: bucket})
		require.NoError(t, err)
		require.True(t, *status.PolicyStatus.IsPublic)
		public("--public none", "none")
		anyone(403, "/bucket/1")
		got, err := c.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: bucket})
		require.NoError(t, err)
		require.JSONEq(t, `{"Version": "2012-10-17", "Statement": [`+deletes+`]}`, *got.Policy)
		block, err := c.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: bucket})
		require.NoError(t, err)
		require.True(t, *block.PublicAccessBlockConfiguration.BlockPublicPolicy)
		require.True(t, *block.PublicAccessBlockConfiguration.RestrictPublicBuckets)

		// A public policy of other statements, which only the block keeps from having an effect.
		_, err = c.DeletePublicAccessBlock(ctx, &s3.DeletePublicAccessBlockInput{Bucket: bucket})
		require.NoError(t, err)
		require.NoError(t, put(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::bucket"}}`))
		public("", "custom")
		anyone(200, "/bucket")
		public("--public none", "none")
		anyone(403, "/bucket")
		_, stderr := orcas(exitFailed, "bucket bucket --public read")
		require.Contains(t, stderr, "has other statements that are public")
		anyone(403, "/bucket")
		_, err = c.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{Bucket: bucket, PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{}})
		require.NoError(t, err)
		public("--public read", "custom")
		anyone(200, "/bucket/1")
		_, stderr = orcas(exitUsage, "bucket bucket --public custom")
		require.Contains(t, stderr, "must be one of")
		public("--public none", "none")
		require.NoError(t, put(`{"Version": "2012-10-17", "Statement": `+deletes+`}`))

		// The right to change settings does not include the right to open the bucket.
		orcas(exitOK, "user create alice")
		stdout, _ := orcas(exitOK, "user add-key alice --json")
		var k admin.UserKey
		require.NoError(t, json.Unmarshal([]byte(stdout), &k))
		environ := []string{"AWS_ACCESS_KEY_ID=" + k.AccessKey, "AWS_SECRET_ACCESS_KEY=" + k.SecretKey}
		for _, actions := range []string{
			`"orcas:PutBucketSettings"`,
			`"orcas:PutBucketSettings", "s3:PutBucketPolicy"`,
			`"orcas:PutBucketSettings", "s3:PutBucketPublicAccessBlock"`,
			`"orcas:PutBucketSettings", "s3:PutBucketPolicy", "s3:PutBucketPublicAccessBlock"`,
		} {
			document := `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": [` + actions + `], "Resource": "*"}}`
			require.NoError(t, os.WriteFile(file, []byte(document), 0o600))
			orcas(exitOK, "policy put settings "+file)
			orcas(exitOK, "policy attach settings --user alice")
			var out, errs bytes.Buffer
			require.Equal(t, exitOK, run(strings.Fields("admin bucket bucket --compression fast --admin-address "+address), environ, &out, &errs), &errs)
			status := run(strings.Fields("admin bucket bucket --public read --admin-address "+address), environ, &out, &errs)
			if strings.Count(actions, "s3:") == 2 {
				require.Equal(t, exitOK, status, &errs)
				anyone(200, "/bucket/1")
				break
			}
			require.Equal(t, exitFailed, status)
			require.Contains(t, errs.String(), "permission for s3:PutBucketP")
			anyone(403, "/bucket/1")
		}
	})
}

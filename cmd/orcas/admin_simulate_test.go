package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/admin"
)

// TestSimulate compares simulated decisions with the responses to the same requests, and checks the statements that
// decide, for each kind of sender, policy and decision.
func TestSimulate(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	data, file := filepath.Join(base, "data"), filepath.Join(base, "policy.json")
	serve(t, data, func(c *s3.Client, address string) {
		orcas := func(status int, args ...string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin"}, args...), "--data", data, "--admin-address", address)...)
		}
		ok := func(line string) string {
			stdout, _ := orcas(exitOK, strings.Fields(line)...)
			return stdout
		}
		simulate := func(args string) (s admin.Simulation) {
			t.Helper()
			stdout := ok("policy simulate --json " + args)
			require.NoError(t, json.Unmarshal([]byte(stdout), &s), stdout)
			return s
		}
		bucket := aws.String("bucket")
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
		require.NoError(t, err)
		_, err = c.DeletePublicAccessBlock(ctx, &s3.DeletePublicAccessBlockInput{Bucket: bucket})
		require.NoError(t, err)
		_, err = c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: bucket, Policy: aws.String(`{"Version": "2012-10-17", "Statement": [
			{"Sid": "Open", "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/open/*"},
			{"Sid": "OnlyTLS", "Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::bucket/tls/*",
			 "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]}`)})
		require.NoError(t, err)
		_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("open/1"), Body: strings.NewReader("x")})
		require.NoError(t, err)

		var key admin.KeyInfo
		require.NoError(t, json.Unmarshal([]byte(ok("key create app --bucket bucket --prefix a/ --access readwrite --json")), &key))
		ok("user create alice")
		var userKey admin.UserKey
		require.NoError(t, json.Unmarshal([]byte(ok("user add-key alice --json")), &userKey))
		require.NoError(t, os.WriteFile(file, []byte(`{"Version": "2012-10-17", "Statement": [
			{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}},
			{"Sid": "NoTags", "Effect": "Deny", "Action": "s3:PutObject", "Resource": "*",
			 "Condition": {"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": "secret"}}},
			{"Effect": "Allow", "Action": ["s3:PutObject", "iam:GetUser", "orcas:CreateKey"], "Resource": "*"}]}`), 0o600))
		ok("policy put some " + file)
		ok("policy attach some --user alice")

		for _, c := range []struct {
			args, decision, statement string // policy, source, index, Sid, effect
		}{
			{"--key app --action s3:PutObject --resource arn:aws:s3:::bucket/a/1", "allow", "app identity 1 Objects Allow"},
			{"--key " + key.AccessKey + " --action S3:PUTOBJECT --resource arn:aws:s3:::bucket/a/1", "allow", "app identity 1 Objects Allow"},
			{"--key app --action s3:PutObject --resource arn:aws:s3:::bucket/b/1", "implicitDeny", ""},
			{"--key app --action s3:GetObject --resource arn:aws:s3:::bucket/open/1", "allow", "bucket bucket 1 Open Allow"},
			{"--key app --action s3:ListBucket --resource arn:aws:s3:::bucket", "implicitDeny", ""},
			{"--key app --action s3:ListBucket --resource arn:aws:s3:::bucket --context s3:prefix=a/b", "allow", "app identity 2 List Allow"},
			{"--key app --action orcas:CreateKey", "implicitDeny", ""},
			{"--anonymous --action s3:GetObject --resource arn:aws:s3:::bucket/open/1", "allow", "bucket bucket 1 Open Allow"},
			{"--anonymous --action s3:GetObject --resource arn:aws:s3:::bucket/1", "implicitDeny", ""},
			{"--anonymous --action s3:GetObject --resource arn:aws:s3:::bucket/tls/1", "explicitDeny", "bucket bucket 2 OnlyTLS Deny"},
			{"--anonymous --action s3:GetObject --resource arn:aws:s3:::bucket/tls/1 --context aws:SecureTransport=true", "implicitDeny", ""},
			{"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1", "implicitDeny", ""},
			{"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1 --context AWS:sourceip=127.0.0.1", "allow", "some identity 1  Allow"},
			{"--key " + userKey.AccessKey + " --action s3:PutObject --resource arn:aws:s3:::bucket/1", "allow", "some identity 3  Allow"},
			{"--user alice --action s3:PutObject --resource arn:aws:s3:::bucket/1 --context s3:RequestObjectTagKeys=a --context s3:RequestObjectTagKeys=secret",
				"explicitDeny", "some identity 2 NoTags Deny"},
			{"--user alice --action orcas:CreateKey --resource *", "allow", "some identity 3  Allow"},
			{"--user alice --action s3:ListAllMyBuckets", "implicitDeny", ""},
			{"--user alice --action s3:CreateBucket --resource arn:aws:s3:::new-bucket", "implicitDeny", ""},
		} {
			s := simulate(c.args)
			require.Equal(t, c.decision, s.Decision, c.args)
			var got []string
			for _, m := range s.Statements {
				got = append(got, strings.Join([]string{m.Policy, m.Source, string(rune('0' + m.Index)), m.Sid, m.Effect}, " "))
			}
			require.Equal(t, c.statement, strings.Join(got, "; "), c.args)
		}
		rootKeys, err := c.Options().Credentials.Retrieve(ctx)
		require.NoError(t, err)
		root := simulate("--key " + rootKeys.AccessKeyID + " --action s3:DeleteBucket --resource arn:aws:s3:::bucket")
		require.Equal(t, "allow", root.Decision)
		require.Empty(t, root.Statements)
		require.Contains(t, root.Principal, ":root")
		require.Equal(t, []string{"false"}, root.Context["aws:SecureTransport"])
		arn := strings.TrimSuffix(root.Principal, "root") + "user/alice"
		require.Equal(t, "allow", simulate("--user alice --action iam:GetUser --resource "+arn).Decision)

		// What the server does is what the simulation says.
		app := with(c, key.AccessKey, key.SecretKey)
		_, err = app.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("open/1")})
		require.NoError(t, err)
		_, err = app.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: aws.String("b/1"), Body: strings.NewReader("x")})
		require.ErrorContains(t, err, "AccessDenied")
		_, err = c.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: aws.String("tls/1")})
		require.ErrorContains(t, err, "AccessDenied")

		require.Equal(t, "allow: s3:PutObject by "+key.ARN+"\n  Allow: statement 1 (Objects), line 1, of the policy app (identity policy of "+key.ARN+")\n",
			ok("policy simulate --key app --action s3:PutObject --resource arn:aws:s3:::bucket/a/1"))
		require.Contains(t, ok("policy simulate --key app --action s3:PutObject --resource arn:aws:s3:::bucket/b"), "  no statement allows it\n")

		ok("key disable app")
		for args, says := range map[string]string{
			"--key app --action s3:GetObject --resource arn:aws:s3:::bucket/1":                                                    "is disabled",
			"--key " + key.AccessKey + " --action s3:GetObject --resource arn:aws:s3:::bucket/1":                                  "there is no key " + key.AccessKey,
			"--user bob --action s3:GetObject --resource arn:aws:s3:::bucket/1":                                                   "there is no user bob",
			"--user alice --action s3:GetObjects --resource arn:aws:s3:::bucket/1":                                                `unknown action "s3:GetObjects"`,
			"--user alice --action s3:* --resource arn:aws:s3:::bucket/1":                                                         `unknown action "s3:*"`,
			"--user alice --action s3:GetObject --resource arn:aws:s3:::none/1":                                                   `bucket "none" does not exist`,
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket":                                                   "is an action on objects",
			"--user alice --action s3:ListBucket --resource arn:aws:s3:::bucket/1":                                                "is an action on buckets",
			"--user alice --action s3:GetObject --resource bucket/1":                                                              "expected the ARN",
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/":                                                  "expected the ARN",
			"--user alice --action s3:GetObject":                                                                                  "expected the ARN",
			"--user alice --action orcas:CreateKey --resource arn:aws:s3:::bucket":                                                "has no resource",
			"--user alice --action iam:GetUser --resource arn:aws:iam::1:user/bob":                                                "needs the ARN of a user",
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1 --context aws:Source=1":                          `unknown condition key "aws:Source"`,
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1 --context s3:prefix=1":                           "does not apply to s3:GetObject",
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1 --context aws:username=bob":                      "cannot be given",
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1 --context aws:SourceIp":                          "expected NAME=VALUE",
			"--user alice --action s3:GetObject --resource arn:aws:s3:::bucket/1 --context aws:Referer=a --context aws:Referer=b": "only one value",
		} {
			_, stderr := orcas(exitFailed, strings.Fields("policy simulate "+args)...)
			require.Contains(t, stderr, says, args)
		}
		_, stderr := orcas(exitUsage, strings.Fields("policy simulate --action s3:GetObject")...)
		require.Contains(t, stderr, "--key")
		_, stderr = orcas(exitUsage, strings.Fields("policy simulate --key app --anonymous --action s3:GetObject")...)
		require.Contains(t, stderr, "can't be used together")
	})
}

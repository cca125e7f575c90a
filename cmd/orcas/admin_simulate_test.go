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

// TestSimulateRoles compares simulated decisions about sessions of roles, and about who may assume a role, with the
// responses to the same requests.
func TestSimulateRoles(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	data := filepath.Join(base, "data")
	serve(t, data, func(c *s3.Client, address string) {
		orcas := func(status int, line string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin"}, strings.Fields(line)...), "--data", data, "--admin-address", address)...)
		}
		ok := func(line string) string {
			t.Helper()
			stdout, _ := orcas(exitOK, line)
			return stdout
		}
		file := func(name, text string) string {
			path := filepath.Join(base, name)
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			return path
		}
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		ok("user create alice")
		ok("user create bob")
		account := strings.Split(ok("user list --json"), ":")[7]
		arn := func(of string) string { return "arn:aws:iam::" + account + ":" + of }
		ok("role create reader --user alice")
		ok("policy attach readonly --role reader")
		trust := file("trust.json", `{"Version": "2012-10-17", "Statement": [
			{"Sid": "Account", "Effect": "Allow", "Principal": {"AWS": "`+account+`"}, "Action": "sts:AssumeRole",
			 "Condition": {"StringEquals": {"sts:ExternalId": "secret-id"}}},
			{"Sid": "Reader", "Effect": "Allow", "Principal": {"AWS": "`+arn("role/reader")+`"}, "Action": "sts:AssumeRole"},
			{"Sid": "NotBob", "Effect": "Deny", "Principal": {"AWS": "`+arn("user/bob")+`"}, "Action": "sts:AssumeRole"}]}`)
		ok("role create writer --trust " + trust)
		ok("policy attach writeonly --role writer")
		may := file("may.json", `{"Version": "2012-10-17", "Statement": [{"Sid": "Roles", "Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}]}`)
		ok("policy put may " + may)
		ok("policy attach may --user bob")
		only := file("only.json", `{"Version": "2012-10-17", "Statement": [{"Sid": "Only", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/a/*"}]}`)
		no := file("no.json", `{"Version": "2012-10-17", "Statement": [{"Sid": "No", "Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}`)

		get := " --action s3:GetObject --resource arn:aws:s3:::bucket/"
		assume := " --action sts:AssumeRole --resource "
		for _, c := range []struct{ args, decision, statements string }{
			{"--role reader" + get + "b/1", "allow", "readonly identity"},
			{"--role READER --session-policy " + only + get + "a/1", "allow", "readonly identity; of the session session"},
			{"--role reader --session-policy " + only + get + "b/1", "implicitDeny", ""},
			{"--role reader --session-policy " + no + get + "a/1", "explicitDeny", "of the session session"},
			{"--role reader --session-policy-arn arn:aws:iam::aws:policy/writeonly" + get + "a/1", "implicitDeny", ""},
			{"--role reader --session-policy-arn arn:aws:iam::aws:policy/readonly" + get + "a/1", "allow", "readonly identity; readonly session"},
			{"--role writer" + get + "a/1", "implicitDeny", ""},
			{"--user alice" + assume + arn("role/reader"), "allow", "reader trust"},
			{"--user bob" + assume + arn("role/reader"), "implicitDeny", ""},
			{"--user alice" + assume + arn("role/writer"), "implicitDeny", ""},
			{"--user alice --context sts:ExternalId=secret-id" + assume + arn("role/writer"), "implicitDeny", ""},
			{"--user bob --context sts:ExternalId=secret-id" + assume + arn("role/writer"), "explicitDeny", "writer trust"},
			{"--role reader" + assume + arn("role/writer"), "allow", "writer trust"},
			{"--anonymous" + assume + arn("role/writer"), "implicitDeny", ""},
		} {
			var s admin.Simulation
			require.NoError(t, json.Unmarshal([]byte(ok("policy simulate --json "+c.args)), &s))
			require.Equal(t, c.decision, s.Decision, c.args)
			var got []string
			for _, m := range s.Statements {
				got = append(got, m.Policy+" "+m.Source)
				require.Equal(t, m.Source == "trust", strings.Contains(m.Of, ":role/") && m.Of == s.Resource, c.args)
			}
			if s.Decision != "implicitDeny" {
				require.Equal(t, c.statements, strings.Join(got, "; "), c.args)
			}
		}
		ok("policy attach may --user alice")
		require.Contains(t, ok("policy simulate --user alice --context sts:ExternalId=secret-id"+assume+arn("role/writer")), "allow: sts:AssumeRole by "+arn("user/alice"))
		require.Contains(t, ok("policy simulate --user alice"+assume+arn("role/writer")), "keys of programs cannot assume roles")
		require.Contains(t, ok("policy simulate --role reader --session-name nightly"+get+"a/1"), "by arn:aws:sts::"+account+":assumed-role/reader/nightly\n")

		for args, says := range map[string]string{
			"--role none" + get + "a/1":                                                "there is no role none",
			"--role reader --session-name a/b" + get + "a/1":                           "the name of the session",
			"--role reader --session-policy " + trust + get + "a/1":                    "policy of the session: statement 1",
			"--role reader --session-policy-arn " + arn("policy/none") + get + "a/1":   "does not exist",
			"--role reader --session-policy missing.json" + get + "a/1":                "no such file",
			"--user alice --session-name a" + get + "a/1":                              "only a role has sessions",
			"--user alice" + assume + arn("role/none"):                                 "there is no role with the ARN",
			"--user alice" + assume + "role/reader":                                    "needs the ARN of a role",
			"--user alice --context iam:ResourceTag/a=b" + assume + arn("role/reader"): "follows from the tags of the role",
		} {
			_, stderr := orcas(exitFailed, "policy simulate "+args)
			require.Contains(t, stderr, says, args)
		}
		_, stderr := orcas(exitUsage, "policy simulate --role reader --user alice"+get+"a/1")
		require.Contains(t, stderr, "can't be used together")
	})
}

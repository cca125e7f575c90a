package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/admin"
)

// with returns a client with other credentials.
func with(c *s3.Client, access, secret string) *s3.Client {
	o := c.Options()
	o.Credentials, o.RetryMaxAttempts = credentials.NewStaticCredentialsProvider(access, secret, ""), 1
	return s3.New(o)
}

// TestKeyCommands creates, changes and deletes keys from the command line, and checks that a rebuild, a backup and a
// restore keep them.
func TestKeyCommands(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	data, dir, again := filepath.Join(base, "data"), filepath.Join(base, "backups"), filepath.Join(base, "again")
	put := func(c *s3.Client, key string) error {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(key), Body: strings.NewReader("x")})
		return err
	}
	var k admin.KeyInfo
	serve(t, data, func(c *s3.Client, address string) {
		key := func(status int, args ...string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin", "key"}, args...), "--data", data, "--admin-address", address)...)
		}
		_, stderr := key(exitFailed, "create", "app", "--bucket", "bucket", "--access", "read")
		require.Contains(t, stderr, `bucket "bucket" does not exist`)
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		stdout, _ := key(exitOK, "list")
		require.Contains(t, stdout, "no keys")
		for _, c := range []struct {
			args   string
			status int
			says   string
		}{
			{"create app --bucket bucket", exitUsage, "--access"},
			{"create app --access read", exitUsage, "--bucket"},
			{"create app --bucket bucket --access all", exitUsage, "must be one of"},
			{"create app --everything", exitUsage, "unknown flag --everything"},
			{"delete", exitUsage, "<name>"},
			{"rotate none", exitFailed, "there is no key none"},
			{"rotate none --overlap 1", exitFailed, "overlap must be a duration"},
			{"create app --bucket bucket --access read --expires never", exitFailed, "expires must be a duration"},
			{"create app --bucket bucket --access read --no-delete", exitFailed, "does not include the right to delete"},
			{"create app --bucket bucket --access read --prefix /a", exitFailed, "begins with a slash"},
			{"create a/b --bucket bucket --access read", exitFailed, `the name "a/b" is not valid`},
		} {
			_, stderr := key(c.status, strings.Fields(c.args)...)
			require.Contains(t, stderr, c.says)
		}

		stdout, _ = key(exitOK, "create", "app", "--bucket", "bucket", "--prefix", "a/", "--access", "readwrite", "--no-delete", "--expires", "90d", "--json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &k))
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(stdout), &fields))
		for _, name := range []string{"name", "access_key", "secret_key", "bucket", "prefix", "access", "expires", "endpoint"} {
			require.NotEmpty(t, fields[name], name)
		}
		require.WithinDuration(t, time.Now().Add(90*24*time.Hour), *k.Expires, time.Hour)
		app := with(c, k.AccessKey, k.SecretKey)
		require.NoError(t, put(app, "a/key"))
		require.ErrorContains(t, put(app, "key"), "AccessDenied")
		_, err = app.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String("bucket"), Key: aws.String("a/key")})
		require.ErrorContains(t, err, "AccessDenied")

		stdout, _ = key(exitOK, "create", "reader", "--bucket", "bucket", "--access", "read")
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		require.Len(t, lines, 4)
		require.Equal(t, `# key reader: read in "bucket/". The secret is not shown again.`, lines[0])
		require.Regexp(t, `^export AWS_ACCESS_KEY_ID=AKIA[A-Z2-7]{16}$`, lines[1])
		require.Regexp(t, `^export AWS_SECRET_ACCESS_KEY=[A-Z2-7]{40}$`, lines[2])
		require.Regexp(t, `^export AWS_ENDPOINT_URL=http://127.0.0.1:[0-9]+$`, lines[3])
		stdout, _ = key(exitOK, "list")
		require.Regexp(t, `(?m)^app +AKIA\w+ +enabled +20\S+Z +readwrite without deleting in "bucket/a/", until 20`, stdout)
		require.Regexp(t, `(?m)^reader +AKIA\w+ +enabled +never +read in "bucket/"$`, stdout)
		require.NotContains(t, stdout, k.SecretKey)

		stdout, _ = key(exitOK, "disable", "app")
		require.Equal(t, "key app: disabled\n", stdout)
		require.ErrorContains(t, put(app, "a/key"), "InvalidAccessKeyId")
		stdout, _ = key(exitOK, "enable", "app")
		require.Equal(t, "key app: enabled\n", stdout)
		old := k.AccessKey
		stdout, _ = key(exitOK, "rotate", "app", "--overlap", "1d", "--json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &k))
		require.Equal(t, old, k.Previous.AccessKey)
		require.NoError(t, put(app, "a/key"))
		app = with(c, k.AccessKey, k.SecretKey)
		require.NoError(t, put(app, "a/key"))
		stdout, _ = key(exitOK, "delete", "reader")
		require.Equal(t, "key reader was deleted\n", stdout)
		_, stderr = key(exitFailed, "delete", "reader")
		require.Contains(t, stderr, "there is no key reader")

		var out, errs bytes.Buffer
		environ := []string{"AWS_ACCESS_KEY_ID=" + k.AccessKey, "AWS_SECRET_ACCESS_KEY=" + k.SecretKey}
		require.Equal(t, exitFailed, run([]string{"admin", "key", "list", "--admin-address", address}, environ, &out, &errs))
		require.Contains(t, errs.String(), "permission for orcas:ListKeys is required")

		orcasExits(t, exitOK, "backup", dir, "--data", data, "--admin-address", address)
	})
	check := func(c *s3.Client, _ string) {
		app := with(c, k.AccessKey, k.SecretKey)
		require.NoError(t, put(app, "a/key"))
		require.ErrorContains(t, put(app, "key"), "AccessDenied")
	}
	orcasExits(t, exitOK, "rebuild", "--data", data)
	serve(t, data, check)
	orcasExits(t, exitOK, "restore", dir, "--data", again)
	serve(t, again, check)
}

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/server"
)

// daemon is a server process.
type daemon struct {
	t       *testing.T
	process *exec.Cmd
	data    string
	client  *s3.Client // of the root
	address string     // of the admin API
}

// startDaemon starts a server process with an admin API. Everything that it prints except the generated secret of the
// root goes to log.
func startDaemon(t *testing.T, data string, log io.Writer) *daemon {
	t.Helper()
	p := exec.Command(os.Args[0], "server", "--data", data, "--address", "127.0.0.1:0", "--admin-address", "127.0.0.1:0")
	p.Env = append(os.Environ(), "ORCAS_TEST_COMMAND=1", "ORCAS_MIN_FREE=0")
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.Stderr = log
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	var banner strings.Builder
	for at := regexp.MustCompile(`(?s)endpoint\s+(\S+)\n.*admin\s+http://(\S+)\n`); ; {
		buffer := make([]byte, 1024)
		n, err := out.Read(buffer)
		banner.Write(buffer[:n])
		if m := at.FindStringSubmatch(banner.String()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			var root server.Credentials
			text, err := os.ReadFile(filepath.Join(data, server.CredentialsFile))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(text, &root))
			return &daemon{t, p, data, s3.New(s3.Options{
				BaseEndpoint: &m[1], Region: "us-east-1", UsePathStyle: true, RetryMaxAttempts: 1,
				Credentials: credentials.NewStaticCredentialsProvider(root.AccessKey, root.SecretKey, ""),
			}), m[2]}
		}
		require.NoError(t, err, banner.String())
	}
}

// end ends the process with a signal.
func (d *daemon) end(how syscall.Signal) {
	require.NoError(d.t, d.process.Process.Signal(how))
	err := d.process.Wait()
	require.Equal(d.t, how == syscall.SIGKILL, err != nil, "%v", err)
}

// admin runs orcas admin and returns its standard output.
func (d *daemon) admin(line string, more ...string) string {
	d.t.Helper()
	args := append(append([]string{"admin"}, strings.Fields(line)...), more...)
	stdout, _ := orcasExits(d.t, exitOK, append(args, "--data", d.data, "--admin-address", d.address)...)
	return stdout
}

// newKey runs a command that creates an access key, and returns a client with it.
func (d *daemon) newKey(line string) admin.KeyInfo {
	d.t.Helper()
	var k admin.KeyInfo
	require.NoError(d.t, json.Unmarshal([]byte(d.admin(line+" --json")), &k))
	require.NotEmpty(d.t, k.SecretKey)
	return k
}

// as returns a client with an access key.
func (d *daemon) as(k admin.KeyInfo) *s3.Client { return with(d.client, k.AccessKey, k.SecretKey) }

// iam sends a request to the IAM API as the root, and returns the response without the ID of the request.
func (d *daemon) iam(form url.Values) string {
	form.Set("Version", "2010-05-08")
	body := form.Encode()
	r, err := http.NewRequest("POST", *d.client.Options().BaseEndpoint+"/", strings.NewReader(body))
	require.NoError(d.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	root, err := d.client.Options().Credentials.Retrieve(ctx)
	require.NoError(d.t, err)
	sum := sha256.Sum256([]byte(body))
	require.NoError(d.t, v4.NewSigner().SignHTTP(ctx, root, r, hex.EncodeToString(sum[:]), "iam", "us-east-1", time.Now()))
	response, err := http.DefaultClient.Do(r)
	require.NoError(d.t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(d.t, err)
	require.NoError(d.t, response.Body.Close())
	require.Equal(d.t, 200, response.StatusCode, "%s", text)
	before, _, _ := strings.Cut(string(text), "<ResponseMetadata>")
	return before
}

// lister returns the ARN of the policy lister.
func (d *daemon) lister() string { return d.arn("policy/lister") }

// arn returns the ARN of an identity or a policy.
func (d *daemon) arn(of string) string {
	return regexp.MustCompile(`arn:aws:iam::[0-9]{12}:`).FindString(d.admin("user list --json")) + of
}

// naming returns a policy of the bucket "locked" for a user.
func (d *daemon) naming(user string) string {
	return `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": "` + d.arn("user/"+user) + `"},
		"Action": "s3:GetObject", "Resource": "arn:aws:s3:::locked/*"}}`
}

// code returns the code of an error, or "".
func code(err error) string {
	var e smithy.APIError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.ErrorCode()
	}
	return err.Error()
}

func putCode(c *s3.Client, bucket, key string) string {
	_, err := c.PutObject(context.Background(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader("x")})
	return code(err)
}

func listCode(c *s3.Client, bucket string) string {
	_, err := c.ListObjectsV2(context.Background(), &s3.ListObjectsV2Input{Bucket: &bucket})
	return code(err)
}

// plainly sends a request without a signature and returns the status.
func (d *daemon) plainly(method, path string, headers ...string) int {
	r, err := http.NewRequest(method, *d.client.Options().BaseEndpoint+path, nil)
	require.NoError(d.t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	require.NoError(d.t, err)
	require.NoError(d.t, response.Body.Close())
	return response.StatusCode
}

const (
	listerPolicy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}]}`
	publicPolicy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/public/*"}]}`
)

// access is what a test has granted and revoked.
type access struct {
	app, alice, bob, revoked admin.KeyInfo
	tenant                   admin.KeyInfo // of the root of an account that is disabled
	lists                    string        // what orcas admin prints about users, groups and policies
}

// lastUse is when a key was last used. A crash may lose the last minute of it.
var lastUse = regexp.MustCompile(` used \S+`)

// describe returns what orcas admin prints about users, groups and policies.
func (d *daemon) describe() string {
	users := lastUse.ReplaceAllString(d.admin("user list")+d.admin("account list"), "")
	versions := d.iam(url.Values{"Action": {"ListPolicyVersions"}, "PolicyArn": {d.lister()}})
	return versions + users + d.admin("group list") + d.admin("policy list") + d.admin("policy show lister")
}

// grant creates identities of every kind and documents of buckets that grant or refuse access.
func (d *daemon) grant() (a access) {
	t, c := d.t, d.client
	bucket := aws.String("bucket")
	for _, name := range []string{"bucket", "locked"} {
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
		require.NoError(t, err)
		for _, key := range []string{"public/key", "private/key"} {
			require.Empty(t, putCode(c, name, key))
		}
	}
	_, err := c.PutPublicAccessBlock(ctx, &s3.PutPublicAccessBlockInput{Bucket: bucket, PublicAccessBlockConfiguration: &types.PublicAccessBlockConfiguration{
		BlockPublicAcls: aws.Bool(true), IgnorePublicAcls: aws.Bool(true), BlockPublicPolicy: aws.Bool(false), RestrictPublicBuckets: aws.Bool(false),
	}})
	require.NoError(t, err)
	_, err = c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: bucket, Policy: aws.String(publicPolicy)})
	require.NoError(t, err)
	_, err = c.PutBucketCors(ctx, &s3.PutBucketCorsInput{Bucket: bucket, CORSConfiguration: &types.CORSConfiguration{CORSRules: []types.CORSRule{
		{AllowedOrigins: []string{"https://example.org"}, AllowedMethods: []string{"GET"}, MaxAgeSeconds: aws.Int32(60)},
	}}})
	require.NoError(t, err)

	file := filepath.Join(t.TempDir(), "policy.json")
	require.NoError(t, os.WriteFile(file, []byte(listerPolicy), 0o600))
	d.admin("policy put lister", file)
	d.admin("user create robert")
	for _, isDefault := range []string{"true", "false", "false"} {
		d.iam(url.Values{"Action": {"CreatePolicyVersion"}, "PolicyArn": {d.lister()}, "PolicyDocument": {listerPolicy}, "SetAsDefault": {isDefault}})
	}
	d.iam(url.Values{"Action": {"SetDefaultPolicyVersion"}, "PolicyArn": {d.lister()}, "VersionId": {"v3"}})
	d.iam(url.Values{"Action": {"DeletePolicyVersion"}, "PolicyArn": {d.lister()}, "VersionId": {"v4"}})
	d.admin("user delete robert")
	d.admin("group create team")
	d.admin("policy attach lister --group team")
	for _, name := range []string{"alice", "bob"} {
		d.admin("user create " + name)
		d.admin("group add team " + name)
	}
	a.alice, a.bob = d.newKey("user add-key alice"), d.newKey("user add-key bob")
	_, err = c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: aws.String("locked"), Policy: aws.String(d.naming("bob"))})
	require.NoError(t, err)
	d.admin("user rename bob robert")
	d.admin("user create bob")
	d.admin("group rename team crew")
	a.app = d.newKey("key create app --bucket bucket --prefix a/ --access readwrite --expires 90d")
	a.revoked = d.newKey("key create revoked --bucket bucket --access readwrite")
	d.admin("user disable-key robert " + a.bob.AccessKey)
	d.admin("account create gone")
	d.admin("account delete gone")
	a.tenant = d.newKey("account create tenant")
	require.Equal(t, "NoSuchBucket", listCode(d.as(a.tenant), "none"))
	d.admin("account disable tenant")
	a.lists = d.describe()
	return a
}

// check checks that exactly what was granted is allowed.
func (d *daemon) check(a access) {
	t, c := d.t, d.client
	t.Helper()
	require.Equal(t, a.lists, d.describe())
	require.Empty(t, putCode(d.as(a.app), "bucket", "a/key"))
	require.Equal(t, "AccessDenied", putCode(d.as(a.app), "bucket", "b/key"))
	require.Equal(t, "AccessDenied", listCode(d.as(a.app), "bucket"))
	require.Empty(t, listCode(d.as(a.alice), "bucket"))
	require.Equal(t, "AccessDenied", putCode(d.as(a.alice), "bucket", "a/key"))
	require.Equal(t, "InvalidAccessKeyId", listCode(d.as(a.bob), "bucket"))
	require.Equal(t, "InvalidAccessKeyId", putCode(d.as(a.revoked), "bucket", "key"))
	require.Equal(t, "InvalidAccessKeyId", listCode(d.as(a.tenant), "none"))

	require.Equal(t, 200, d.plainly("GET", "/bucket/public/key"))
	require.Equal(t, 403, d.plainly("GET", "/bucket/private/key"))
	require.Equal(t, 403, d.plainly("GET", "/locked/public/key"))
	p, err := c.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: aws.String("bucket")})
	require.NoError(t, err)
	require.Equal(t, publicPolicy, *p.Policy)
	p, err = c.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: aws.String("locked")})
	require.NoError(t, err)
	require.Equal(t, d.naming("robert"), *p.Policy, "the policy is about the user that was renamed, not about the new one")
	_, err = c.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: aws.String("locked"), Policy: aws.String(strings.Replace(publicPolicy, ":::bucket", ":::locked", 1))})
	require.Equal(t, "AccessDenied", code(err), "the public access block of a new bucket")
	for bucket, open := range map[string]bool{"bucket": true, "locked": false} {
		b, err := c.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &bucket})
		require.NoError(t, err)
		require.True(t, *b.PublicAccessBlockConfiguration.BlockPublicAcls)
		require.Equal(t, open, !*b.PublicAccessBlockConfiguration.BlockPublicPolicy)
		require.Equal(t, open, !*b.PublicAccessBlockConfiguration.RestrictPublicBuckets)
	}
	const method = "Access-Control-Request-Method"
	require.Equal(t, 200, d.plainly("OPTIONS", "/bucket/key", "Origin", "https://example.org", method, "GET"))
	require.Equal(t, 403, d.plainly("OPTIONS", "/bucket/key", "Origin", "https://example.com", method, "GET"))
	require.Equal(t, 403, d.plainly("OPTIONS", "/bucket/key", "Origin", "https://example.org", method, "PUT"))
}

// pausingBody is the body of a request. Its first read, which happens after the server has authenticated the request and
// sent 100 Continue, waits.
type pausingBody struct {
	io.Reader
	reached, resume chan struct{}
	read            bool
}

func (b *pausingBody) Read(p []byte) (int, error) {
	if !b.read {
		b.read = true
		close(b.reached)
		<-b.resume
	}
	return b.Reader.Read(p)
}

// revoke revokes a key while a request with it sends its body: that request fails, and so does the next one, although its
// connection is open and its signing key is cached.
func (d *daemon) revoke(k admin.KeyInfo) {
	t, c := d.t, d.as(k)
	require.Empty(t, putCode(c, "bucket", "before"))
	signed, err := s3.NewPresignClient(c).PresignPutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String("during")})
	require.NoError(t, err)
	content := bytes.Repeat([]byte("content "), 1<<18)
	body := &pausingBody{Reader: bytes.NewReader(content), reached: make(chan struct{}), resume: make(chan struct{})}
	r, err := http.NewRequest("PUT", signed.URL, body)
	require.NoError(t, err)
	r.ContentLength = int64(len(content))
	r.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: time.Hour} // waits for 100 Continue
	defer transport.CloseIdleConnections()
	type answer struct {
		status int
		body   []byte
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		response, err := transport.RoundTrip(r)
		if err != nil {
			done <- answer{err: err}
			return
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		done <- answer{response.StatusCode, text, err}
	}()
	<-body.reached
	d.admin("key delete " + k.Name)
	require.Equal(t, "InvalidAccessKeyId", putCode(c, "bucket", "after"))
	close(body.resume)
	got := <-done
	require.NoError(t, got.err)
	require.Equal(t, http.StatusForbidden, got.status, "%s", got.body)
	require.Contains(t, string(got.body), "InvalidAccessKeyId")
	_, err = d.client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("during")})
	require.Equal(t, "NoSuchKey", code(err))
}

// contains reports whether a file below dir contains 8 successive bytes of text. Blocks have compressed records, in which
// the first and the last bytes may be part of a repetition.
func contains(t *testing.T, dir, text string) (found bool) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		for i := range len(text) - 7 {
			found = found || bytes.Contains(b, []byte(text[i:i+8]))
		}
		return err
	}))
	return found
}

// TestIdentitiesSurvive: a restart, SIGKILL, a rebuild of a lost database, and a backup and its restoration keep users,
// groups, keys, policies and public access, and what was revoked stays revoked. Secrets are neither in the log nor in
// plain text in a file.
func TestIdentitiesSurvive(t *testing.T) {
	base := t.TempDir()
	data, dir, again := filepath.Join(base, "data"), filepath.Join(base, "backups"), filepath.Join(base, "again")
	var log bytes.Buffer
	d := startDaemon(t, data, &log)
	a := d.grant()
	d.revoke(a.revoked)
	d.end(syscall.SIGKILL)
	restart := func(data string) {
		t.Helper()
		d = startDaemon(t, data, &log)
		d.check(a)
	}
	restart(data)
	d.end(syscall.SIGTERM)
	restart(data)
	d.end(syscall.SIGKILL)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(t, os.Remove(filepath.Join(data, "metadata.db"+suffix)))
	}
	orcasExits(t, exitOK, "rebuild", "--data", data)
	restart(data)
	orcasExits(t, exitOK, "backup", dir, "--data", data, "--admin-address", d.address)
	d.end(syscall.SIGTERM)
	orcasExits(t, exitOK, "restore", dir, "--data", again)
	restart(again)
	d.end(syscall.SIGTERM)

	for _, k := range []admin.KeyInfo{a.app, a.alice, a.bob, a.revoked} {
		require.NotContains(t, log.String(), k.SecretKey)
		for _, dir := range []string{data, dir, again} {
			require.False(t, contains(t, dir, k.SecretKey), "%s contains a secret", dir)
			require.True(t, contains(t, dir, k.AccessKey[8:]), "the search finds access keys in %s", dir)
		}
	}
}

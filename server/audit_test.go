package server

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/audit"
)

// sign sends a request for a service to the address of S3, and returns the status.
func sign(t *testing.T, s *Server, secret, service, method, path, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.Endpoint()+path, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sum := sha256.Sum256([]byte(body))
	hash := hex.EncodeToString(sum[:])
	if service == "s3" {
		r.Header.Set("X-Amz-Content-Sha256", hash)
		md := md5.Sum([]byte(body))
		r.Header.Set("Content-Md5", base64.StdEncoding.EncodeToString(md[:]))
	}
	cred := aws.Credentials{AccessKeyID: s.Credentials().AccessKey, SecretAccessKey: secret}
	require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), cred, r, hash, service, "us-east-1", time.Now()))
	response, err := httpClient(t, s).Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// audited returns the records in the audit file of a server that has stopped.
func audited(t *testing.T, config *Config) (list []audit.Record) {
	t.Helper()
	text, err := os.ReadFile(config.Settings.AuditFile)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var r audit.Record
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.NotEmpty(t, r.ID)
		list = append(list, r)
	}
	return list
}

// TestAudit: every change by any API is in the audit log, and every attempt; reads are not. No record is lost at the
// end.
func TestAudit(t *testing.T) {
	config := testConfig(t)
	config.Admin = "127.0.0.1:0"
	config.Settings.Buckets = []string{"bucket"}
	config.Settings.AuditFile = filepath.Join(t.TempDir(), "audit.log")
	s, stop := running(t, config)
	root := s.Credentials().SecretKey
	require.Equal(t, 200, sign(t, s, root, "s3", "PUT", "/bucket/key", "content"))
	require.Equal(t, 200, sign(t, s, root, "s3", "GET", "/bucket/key", ""))
	require.Equal(t, 403, sign(t, s, "a wrong secret", "s3", "DELETE", "/bucket/key", ""))
	require.Equal(t, 404, sign(t, s, root, "s3", "PUT", "/no-such-bucket/key", "content"))
	keys := "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>none</VersionId></Object></Delete>"
	require.Equal(t, 200, sign(t, s, root, "s3", "POST", "/bucket?delete", keys))
	require.Equal(t, 200, sign(t, s, root, "iam", "POST", "/", "Action=CreateUser&Version=2010-05-08&UserName=alice"))
	require.Equal(t, 200, sign(t, s, root, "iam", "POST", "/", "Action=ListUsers&Version=2010-05-08"))
	status, _, header := ask(t, s, root, "POST", "/-/admin/scrub?rate=1GiB", "")
	require.Equal(t, 200, status)
	status, _, _ = ask(t, s, root, "GET", "/-/admin/scrub", "")
	require.Equal(t, 200, status)
	status, _, _ = ask(t, s, "a wrong secret", "POST", "/-/admin/key?name=a", "")
	require.Equal(t, 403, status)
	status, _, _ = ask(t, s, root, "POST", "/-/admin/bucket?name=none&max-objects=1", "")
	require.Equal(t, 404, status)
	require.NoError(t, stop())

	text, err := os.ReadFile(config.Settings.AuditFile)
	require.NoError(t, err)
	require.NotContains(t, string(text), root)
	got := audited(t, &config)[1:] // the first record is that of the bucket
	require.Len(t, got, 10)
	type brief struct{ api, operation, effect, bucket, key, target, code, reason string }
	for i, want := range []brief{
		{"s3", "PutObject", "write", "bucket", "key", "", "", ""},
		{"s3", "", "unknown", "bucket", "key", "", "SignatureDoesNotMatch", "authentication"},
		{"s3", "PutObject", "write", "no-such-bucket", "key", "", "NoSuchBucket", ""},
		{"s3", "DeleteObjects", "write", "bucket", "", "", "", ""},
		{"s3", "DeleteObjects", "write", "bucket", "a", "", "", ""},
		{"s3", "DeleteObjects", "write", "bucket", "b", "", "NoSuchVersion", ""},
		{"iam", "CreateUser", "settings", "", "", "UserName=alice", "", ""},
		{"admin", "StartScrub", "work", "", "", "rate=1GiB", "", ""},
		{"admin", "", "unknown", "", "", "", "SignatureDoesNotMatch", "authentication"},
		{"admin", "PutBucketSettings", "settings", "none", "", "name=none&max-objects=1", "NoSuchBucket", ""},
	} {
		r := got[i]
		require.NotEmpty(t, r.Address)
		require.Equal(t, want, brief{r.API, r.Operation, r.Effect, r.Bucket, r.Key, r.Target, r.Code, r.Reason}, "%+v", r)
	}
	require.Equal(t, s.identities.Root().Account, got[0].Account)
	require.Equal(t, got[3].ID, got[4].ID)
	require.Equal(t, s.Credentials().AccessKey, got[6].AccessKey)
	require.Empty(t, got[1].Account)
	require.Equal(t, got[7].ID, header.Get("X-Amz-Request-Id"))
	var statuses []int
	for _, r := range got {
		statuses = append(statuses, r.Status)
	}
	require.Equal(t, []int{200, 403, 404, 200, 200, 200, 200, 200, 403, 404}, statuses)
}

// TestAuditOfApply: each change of a file that is applied has a record, with the one that failed, and without secrets. A
// dry run has none.
func TestAuditOfApply(t *testing.T) {
	config := liveConfig(t)
	config.Settings.AuditFile = filepath.Join(t.TempDir(), "audit.log")
	s, stop := running(t, config)
	apply := func(q *admin.ApplyRequest) *admin.Applied {
		body, err := json.Marshal(q)
		require.NoError(t, err)
		status, text := askBody(t, s, s.Credentials().SecretKey, "POST", "/-/admin/apply", string(body))
		require.Equal(t, 200, status, "%s", text)
		var done admin.Applied
		require.NoError(t, json.Unmarshal(text, &done))
		return &done
	}
	const file = "users: [{name: mallory, policies: [admin], generate_key: true}]\nbuckets: [{name: bucket, versioning: enabled}]"
	require.Len(t, apply(&admin.ApplyRequest{File: file, DryRun: true}).Changes, 4)
	done := apply(&admin.ApplyRequest{File: file})
	require.Len(t, done.Changes, 4)
	require.NoError(t, stop())
	text, err := os.ReadFile(config.Settings.AuditFile)
	require.NoError(t, err)
	require.NotContains(t, string(text), done.Keys[0].SecretKey)
	got := audited(t, &config)[1:]
	require.Len(t, got, 6)
	for i, want := range []struct{ bucket, target string }{
		{"", "dry_run=true"}, {"", ""},
		{"", "action=create&kind=user&name=mallory"},
		{"", "action=change&detail=attach+the+policy+admin&kind=user&name=mallory"},
		{"", "action=change&detail=new+access+key&kind=user&name=mallory"},
		{"bucket", "action=change&detail=versioning&kind=bucket&name=bucket"},
	} {
		r := got[i]
		require.Equal(t, want.target, r.Target)
		require.Equal(t, want.bucket, r.Bucket)
		require.Equal(t, []string{"admin", "ApplyFile", s.Credentials().AccessKey, ""}, []string{r.API, r.Operation, r.AccessKey, r.Code})
		require.Equal(t, i > 1, r.ID == got[1].ID && i != 1, "the records of an apply have its ID")
		require.Positive(t, r.In)
	}
}

// TestAuditOfStartup: what a server creates when it starts has records, in the name of the root. A later start has none.
func TestAuditOfStartup(t *testing.T) {
	config := liveConfig(t)
	dir := t.TempDir()
	config.Settings.AuditFile = filepath.Join(dir, "audit.log")
	path := filepath.Join(dir, "bootstrap.yaml")
	require.NoError(t, os.WriteFile(path, []byte("users: [{name: alice, generate_key: true}]\nbuckets: [{name: web}, {name: bucket}]"), 0o600))
	require.NoError(t, setBootstrap(&config.Settings, path))
	// The keys cannot be kept, so the first start fails after it has created a key.
	keys := filepath.Join(config.Data, BootstrapKeysFile)
	require.NoError(t, os.MkdirAll(keys, 0o700))
	_, err := Open(t.Context(), config)
	require.ErrorContains(t, err, "the secret cannot be kept")
	require.NoError(t, os.Remove(keys))
	var account string
	for range 2 {
		s, stop := running(t, config)
		account = s.identities.Root().Account
		require.NoError(t, stop())
	}
	got := audited(t, &config)
	type brief struct{ operation, bucket, target, code string }
	var briefs []brief
	for _, r := range got {
		briefs = append(briefs, brief{r.Operation, r.Bucket, r.Target, r.Code})
		require.Equal(t, []string{"startup", "settings", account, "arn:aws:iam::" + account + ":root"},
			[]string{r.API, r.Effect, r.Account, r.Principal})
		require.Empty(t, r.Address+r.AccessKey+r.Method)
	}
	require.Equal(t, []brief{
		{"CreateBucket", "bucket", "ORCAS_BUCKETS", ""},
		{"Bootstrap", "", "ORCAS_BOOTSTRAP", "InternalError"},
		{"Bootstrap", "", "action=create&kind=user&name=alice", ""},
		{"Bootstrap", "", "action=change&detail=new+access+key&kind=user&name=alice", ""},
		{"Bootstrap", "", "ORCAS_BOOTSTRAP", ""},
		{"Bootstrap", "web", "action=create&kind=bucket&name=web", ""},
	}, briefs)
	text, err := os.ReadFile(config.Settings.AuditFile)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"status"`)
}

// TestAuditFileCannotBeOpened: a server without its audit log does not start, and creates nothing.
func TestAuditFileCannotBeOpened(t *testing.T) {
	for _, file := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none", "audit.log")} {
		config := testConfig(t)
		config.Settings.AuditFile = file
		_, err := Open(t.Context(), config)
		require.ErrorAs(t, err, new(ConfigError))
		require.ErrorContains(t, err, "ORCAS_AUDIT_FILE: ")
		require.NoDirExists(t, config.Data)
	}
}

// TestAuditFileInTheDataDirectory: the audit file may be in the data directory, or in a directory above it that the
// first start creates too.
func TestAuditFileInTheDataDirectory(t *testing.T) {
	for _, file := range []string{"above/data/audit.log", "above/audit.log"} {
		config := testConfig(t)
		dir := filepath.Dir(config.Data)
		config.Data, config.Settings.AuditFile = filepath.Join(dir, "above", "data"), filepath.Join(dir, file)
		s, err := Open(t.Context(), config)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.FileExists(t, config.Settings.AuditFile)
	}
}

func TestAuditSettings(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("t\n"), 0o600))
	s, err := ReadSettings([]string{"ORCAS_AUDIT_FILE=/a", "ORCAS_AUDIT_FILE_SIZE=1MiB", "ORCAS_AUDIT_KEEP=3",
		"ORCAS_AUDIT_WEBHOOK=https://host/secret", "ORCAS_AUDIT_WEBHOOK_TOKEN_FILE=" + token})
	require.NoError(t, err)
	require.Equal(t, AuditSettings{"/a", 1 << 20, 3, "https://host/secret", token}, s.AuditSettings)
	require.Empty(t, s.Warnings)
	for _, entry := range []string{
		"ORCAS_AUDIT_FILE_SIZE=1KiB", "ORCAS_AUDIT_KEEP=0", "ORCAS_AUDIT_WEBHOOK=http://host/secret", "ORCAS_AUDIT_WEBHOOK_TOKEN_FILE=" + token,
	} {
		_, err := ReadSettings([]string{entry})
		name, _, _ := strings.Cut(entry, "=")
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "secret")
	}
}

// TestAuditToken: a token that others can read, or that is not a word, is refused at the start and for each batch.
func TestAuditToken(t *testing.T) {
	got := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	defer receiver.Close()
	path := filepath.Join(t.TempDir(), "token")
	environ := []string{"ORCAS_AUDIT_WEBHOOK=" + receiver.URL, "ORCAS_AUDIT_WEBHOOK_TOKEN_FILE=" + path}
	for _, c := range []struct {
		text string
		mode os.FileMode
		want string
	}{
		{"secret", 0o644, "run chmod 640 " + path}, {"secret", 0o620, "run chmod 640 " + path}, {"sec ret", 0o600, "expected a token"},
		{"\n", 0o600, "expected a token of at least 1 visible ASCII character"}, {"secret\n", 0o640, ""}, {"secret\n", 0o600, ""},
	} {
		require.NoError(t, os.WriteFile(path, []byte(c.text), 0o600))
		require.NoError(t, os.Chmod(path, c.mode))
		_, err := ReadSettings(environ)
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "ORCAS_AUDIT_WEBHOOK_TOKEN_FILE: "+path)
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), c.text)
	}
	config := liveConfig(t)
	config.Settings.AuditWebhook, config.Settings.AuditToken = receiver.URL, path
	s, _ := running(t, config)
	require.Equal(t, "Bearer secret", <-got, "with the record of the bucket")
	require.NoError(t, os.Chmod(path, 0o644))
	require.Equal(t, 200, sign(t, s, s.Credentials().SecretKey, "s3", "PUT", "/bucket/key", "content"))
	require.Eventually(t, func() bool {
		failures := s.view.audit.Failures()
		return len(failures) == 1 && strings.Contains(failures[0].Problem, "run chmod 640 "+path)
	}, time.Minute, time.Millisecond)
	require.Empty(t, got)
}

// TestBusyRequestsAreAwaited: a shutdown waits for requests of other APIs than S3 on connections beyond the limit too, so
// their audit records are not lost.
func TestBusyRequestsAreAwaited(t *testing.T) {
	s := limitedServer(t, 1, false)
	send := func(method, path, service string, body []byte) (finish func() int) {
		conn, err := net.Dial("tcp", s.listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		r, err := http.NewRequestWithContext(t.Context(), method, s.Endpoint()+path, bytes.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		sum := sha256.Sum256(body)
		hash := hex.EncodeToString(sum[:])
		r.Header.Set("X-Amz-Content-Sha256", hash)
		cred := aws.Credentials{AccessKeyID: s.Credentials().AccessKey, SecretAccessKey: s.Credentials().SecretKey}
		require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), cred, r, hash, service, "us-east-1", time.Now()))
		var text bytes.Buffer
		require.NoError(t, r.Write(&text))
		_, err = conn.Write(text.Bytes()[:text.Len()-1])
		require.NoError(t, err)
		return func() int {
			_, err := conn.Write(text.Bytes()[text.Len()-1:])
			require.NoError(t, err)
			response, err := http.ReadResponse(bufio.NewReader(conn), r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return response.StatusCode
		}
	}
	upload := send("PUT", "/bucket/key", "s3", []byte("body"))
	until(t, s, 1, 0)
	call := send("POST", "/", "sts", []byte(whoami))
	until(t, s, 2, 0)
	require.Eventually(t, func() bool { return s.listener.refused.Load() == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 200, upload())
	ended := make(chan struct{})
	go func() {
		s.handlers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		t.Fatal("a shutdown would not wait for the call")
	case <-time.After(100 * time.Millisecond):
	}
	require.Equal(t, 200, call())
	<-ended
}

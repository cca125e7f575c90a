package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"orcas/sdk"
	"orcas/sdk/profile"
	"orcas/sdk/tree"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"s3://bucket":             {Bucket: "bucket"},
		"s3://bucket/":            {Bucket: "bucket"},
		"s3://":                   {},
		"home://":                 {Profile: "home"},
		"s3://bucket/a/b c":       {Bucket: "bucket", Key: "a/b c"},
		"s3://bucket//a/":         {Bucket: "bucket", Key: "/a/"},
		"s3://bucket/a%20b?x=1#y": {Bucket: "bucket", Key: "a%20b?x=1#y"},
		"s3://bucket/new\nline":   {Bucket: "bucket", Key: "new\nline"},
		"my-home.2://bucket/é":    {Profile: "my-home.2", Bucket: "bucket", Key: "é"},
		"file.txt":                {Local: true, Path: "file.txt"},
		"./s3://bucket/key":       {Local: true, Path: "./s3://bucket/key"},
		"C://x":                   {Local: true, Path: "C://x"},
		`C:\x`:                    {Local: true, Path: `C:\x`},
		"a:b":                     {Local: true, Path: "a:b"},
		"-":                       {Local: true, Path: "-"},
	} {
		a, err := parseAddress(text)
		require.NoError(t, err, text)
		require.Equal(t, want, a, text)
		if !a.Local {
			require.Equal(t, strings.TrimSuffix(text, "/"), strings.TrimSuffix(a.String(), "/"))
		}
	}
	for text, says := range map[string]string{
		"":                   "must not be empty",
		"http://host/bucket": "expected s3://BUCKET/KEY or NAME://BUCKET/KEY",
		"file:///etc/passwd": "expected s3://BUCKET/KEY",
		"s3:///key":          "has no bucket",
		"s3://a b/key":       "is not the name of a bucket",
		"s3://bucket?x":      "is not the name of a bucket",
		"s3://bucket/a\x00b": "NUL",
	} {
		_, err := parseAddress(text)
		require.ErrorContains(t, err, says, text)
		require.Equal(t, StatusUsage, Status(err))
	}
	for _, c := range []struct{ text, want, says string }{
		{"file", "s3://BUCKET/KEY", `expected s3://BUCKET/KEY, not the local path "file"`},
		{"s3://", "s3://BUCKET", `expected s3://BUCKET, not "s3://"`},
		{"s3://bucket", "s3://BUCKET/KEY", `expected s3://BUCKET/KEY, not "s3://bucket"`},
		{"s3://bucket/key", "s3://BUCKET", `without a key`},
		{"s3://bucket/key", "s3://BUCKET/KEY", ""},
		{"s3://bucket", "s3://BUCKET[/PREFIX]", ""},
		{"s3://bucket/key", "s3://BUCKET[/PREFIX]", ""},
		{"s3://bucket/key", "s3://BUCKET[/KEY]", ""},
		{"s3://bucket/key", "s3://[BUCKET[/PREFIX]]", ""},
		{"s3://", "s3://[BUCKET[/PREFIX]]", ""},
	} {
		_, err := parseRemote(c.text, c.want)
		if c.says == "" {
			require.NoError(t, err, c.text)
		} else {
			require.ErrorContains(t, err, c.says)
		}
	}
}

// TestStatus: each exit status has errors that lead to it.
func TestStatus(t *testing.T) {
	code := func(code string) error { return fmt.Errorf("x: %w", &sdk.Error{Op: "Get", Code: code, Status: 400}) }
	disk := &fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}
	seen := map[int]bool{}
	for _, c := range []struct {
		status int
		err    error
	}{
		{StatusOK, nil},
		{StatusFailed, errors.New("x")},
		{StatusFailed, context.Canceled},
		{StatusFailed, code("InternalError")},
		{StatusFailed, code("BadDigest")},
		{StatusFailed, code("QuotaExceeded")},
		{StatusFailed, code("InsufficientStorage")},
		{StatusUsage, usagef("x")},
		{StatusUsage, &profile.UnknownError{}},
		{StatusUsage, profile.ErrNoCredentials},
		{StatusUsage, configuration(errors.New("x"))},
		{StatusNotFound, code("NoSuchKey")},
		{StatusNotFound, code("NoSuchBucket")},
		{StatusNotFound, code("NoSuchVersion")},
		{StatusNotFound, notFound("x")},
		{StatusNotFound, &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}},
		{StatusDenied, code("AccessDenied")},
		{StatusDenied, code("SignatureDoesNotMatch")},
		{StatusDenied, code("InvalidAccessKeyId")},
		{StatusDenied, code("ExpiredToken")},
		{StatusDenied, code("RequestTimeTooSkewed")},
		{StatusPrecondition, code("PreconditionFailed")},
		{StatusPrecondition, code("BucketAlreadyOwnedByYou")},
		{StatusPrecondition, code("BucketNotEmpty")},
		{StatusPrecondition, tree.ErrConflict},
		{StatusNetwork, code("SlowDown")},
		{StatusNetwork, fmt.Errorf("x: %w", sdk.ErrNetwork)},
		{StatusNetwork, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}},
		{StatusNetwork, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
		{StatusNetwork, &url.Error{Op: "Get", Err: os.NewSyscallError("read", syscall.ECONNRESET)}},
		{StatusDisk, disk},
		{StatusDisk, &os.LinkError{Op: "rename", Err: syscall.EROFS}},
		{StatusDisk, &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}},
		{StatusSomeFailed, tree.ErrPartial},
	} {
		require.Equal(t, c.status, Status(c.err), "%v", c.err)
		seen[c.status] = true
	}
	for status, meaning := range Statuses() {
		require.NotEmpty(t, meaning)
		require.True(t, seen[status], "%d", status)
	}
}

// TestExplain: errors say what to do, with the names of the profile in use.
func TestExplain(t *testing.T) {
	client, err := sdk.New(sdk.Config{Endpoint: "http://host:9000"})
	require.NoError(t, err)
	s := &session{ctx: context.Background(), remotes: map[string]*remote{}}
	r := &remote{Client: client, session: s, profile: &profile.Profile{Name: "home", Source: "profile home in /c"}, at: Address{Profile: "home"}}
	s.remotes["home"] = r
	e := func(code string) *sdk.Error {
		return &sdk.Error{Op: "Put", Bucket: "b1", Key: "k", Code: code, Status: 400, Message: "said"}
	}
	lost := &sdk.Error{Op: "Put", Bucket: "b1", Attempts: 5, Err: errors.Join(sdk.ErrNetwork, syscall.ECONNREFUSED)}
	deleted := e("NoSuchKey")
	deleted.DeleteMarker = true
	for _, c := range []struct {
		err  error
		says string
	}{
		{e("NoSuchBucket"), "there is no bucket b1 at http://host:9000: create it with orcas mb home://b1"},
		{e("NoSuchKey"), "there is no object home://b1/k"},
		{deleted, "home://b1/k is deleted: orcas undelete home://b1/k restores it"},
		{e("NoSuchVersion"), "orcas ls --versions home://b1/k"},
		{e("AccessDenied"), "access to home://b1/k is denied: said (Put): the credentials are those of profile home in /c"},
		{e("InvalidAccessKeyId"), "http://host:9000 does not accept the access key of profile home in /c"},
		{e("SignatureDoesNotMatch"), "the secret key of profile home in /c is wrong"},
		{e("RequestTimeTooSkewed"), "refuses the request because of the time: said"},
		{e("BucketAlreadyExists"), "the bucket b1 exists already"},
		{e("BucketNotEmpty"), "orcas rb --force home://b1 deletes it"},
		{e("PermanentRedirect"), "home://b1/k is not at http://host:9000: said"},
		{e("PreconditionFailed"), "home://b1/k: a condition is false, so nothing was changed"},
		{e("SlowDown"), "lower --parallel"},
		{e("QuotaExceeded"), "Put home://b1/k: QuotaExceeded (HTTP status 400): said"},
		{lost, "no response from http://host:9000 after 5 attempts: no server is listening there: start it, or correct the endpoint of profile home in /c"},
		{&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, "the file system is full: free space"},
	} {
		require.ErrorContains(t, r.explain(c.err), c.says)
		require.Equal(t, Status(c.err), Status(r.explain(c.err)))
	}
	require.NoError(t, r.explain(nil))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.ctx = ctx
	require.ErrorContains(t, r.explain(fmt.Errorf("x: %w", ctx.Err())), "interrupted")
}

// TestPatternsKeepTheirOrder: --include and --exclude are two flags, and the last pattern that matches decides.
func TestPatternsKeepTheirOrder(t *testing.T) {
	var line struct {
		filters
		Rest []string `arg:"" optional:""`
	}
	parser, err := kong.New(&line)
	require.NoError(t, err)
	_, err = parser.Parse([]string{"--exclude", "*", "--include=*.jpg", "x", "--exclude=a,b.jpg", "--include", "a*"})
	require.NoError(t, err)
	list, err := line.list()
	require.NoError(t, err)
	var texts []string
	for _, p := range list {
		texts = append(texts, p.String())
	}
	require.Equal(t, []string{"*", "*.jpg", "a,b.jpg", "a*"}, texts)
	line.Include = patterns{{text: "[a", left: 1}}
	_, err = line.list()
	require.ErrorContains(t, err, "--include: ")
	require.Equal(t, StatusUsage, Status(err))
}

func TestRateAndAge(t *testing.T) {
	var r rate
	for text, want := range map[string]rate{"10MiB/s": 10 << 20, "5MB": 5e6, "1": 1, "64 KiB/s": 64 << 10} {
		require.NoError(t, r.UnmarshalText([]byte(text)), text)
		require.Equal(t, want, r, text)
	}
	for _, text := range []string{"", "0", "10M/s", "fast", "-1"} {
		require.Error(t, r.UnmarshalText([]byte(text)), text)
	}
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "36h": now.Add(-36 * time.Hour), "30d": now.AddDate(0, 0, -30), "2w": now.AddDate(0, 0, -14),
		"0s": now, "2026-01-31T12:00:00Z": time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), "2026-01-31": time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
	} {
		var a age
		require.NoError(t, a.UnmarshalText([]byte(text)), text)
		require.True(t, want.Equal(a.before(now)), "%s: %s", text, a.before(now))
	}
	for _, text := range []string{"", "3", "-3h", "1.5d", "2026-13-01", "yesterday", "5d3h", "70000d"} {
		var a age
		require.Error(t, a.UnmarshalText([]byte(text)), text)
	}
}

func TestProgressText(t *testing.T) {
	for want, s := range map[string]progressState{
		"1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6s left":               {done: 1 << 20, total: 4 << 20, final: true},
		"3 of 5+ files, 1.0 MiB of 4.0 MiB, 512.0 KiB/s":         {done: 1 << 20, total: 4 << 20, files: 3, of: 5},
		"3 of 5 files, 1.0 MiB of 4.0 MiB, 512.0 KiB/s, 6s left": {done: 1 << 20, total: 4 << 20, files: 3, of: 5, final: true},
		"0 of 5 files, 0 B of 4.0 MiB":                           {total: 4 << 20, of: 5, final: true},
	} {
		require.Equal(t, want, strings.TrimSpace(s.text(2*time.Second)))
	}
}

// TestShown: a key cannot send control sequences to the terminal.
func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"a b/é世": "a b/é世", "a\x1b[31m": `"a\x1b[31m"`, "a\nb": `"a\nb"`, "a\xff": `"a\xff"`, "a\u202eb": `"a\u202eb"`, "a\u009bb": `"a\u009bb"`,
	} {
		require.Equal(t, want, shown(text))
	}
}

func TestChooseVersionToRestore(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	v := func(id string, minutes int) sdk.Info {
		return sdk.Info{VersionID: id, LastModified: now.Add(-time.Duration(minutes) * time.Minute)}
	}
	m := func(id string, minutes int) sdk.Info { i := v(id, minutes); i.DeleteMarker = true; return i }
	for _, c := range []struct {
		name     string
		versions []sdk.Info
		at       string
		version  string
		markers  []string
	}{
		{"not deleted", []sdk.Info{v("2", 5), v("1", 10)}, "", "", nil},
		{"deleted", []sdk.Info{m("3", 1), v("2", 5)}, "", "2", []string{"3"}},
		{"deleted twice", []sdk.Info{m("4", 1), m("3", 2), v("2", 5)}, "", "2", []string{"4", "3"}},
		{"only markers", []sdk.Info{m("4", 1), m("3", 2)}, "", "", nil},
		{"deleted since", []sdk.Info{m("3", 1), v("2", 5)}, "3m", "2", []string{"3"}},
		{"deleted then", []sdk.Info{m("3", 1), v("2", 5)}, "30s", "", nil},
		{"older version", []sdk.Info{m("3", 1), v("2", 5), v("1", 10)}, "6m", "1", nil},
		{"overwritten since", []sdk.Info{v("2", 5), v("1", 10)}, "6m", "1", nil},
		{"same as now", []sdk.Info{v("2", 5), v("1", 10)}, "3m", "", nil},
		{"not yet there", []sdk.Info{v("2", 5), v("1", 10)}, "20m", "", nil},
	} {
		var command undeleteCommand
		if c.at != "" {
			require.NoError(t, command.At.UnmarshalText([]byte(c.at)))
		}
		version, markers := command.choose(c.versions, now)
		require.Equal(t, c.version, version, c.name)
		require.Equal(t, c.markers, markers, c.name)
	}
}

// TestOutputIsJSONLines: an object per line, and nothing for people beside it.
func TestOutputIsJSONLines(t *testing.T) {
	var b bytes.Buffer
	o := newOutput(&b, true, false)
	o.line("for people")
	o.object(map[string]string{"a": "b\nc"})
	require.Empty(t, b.String(), "lines are buffered")
	require.NoError(t, o.flush())
	require.Equal(t, "{\"a\":\"b\\nc\"}\n", b.String())
	o = newOutput(&b, false, true)
	b.Reset()
	o.object(1)
	o.line("x %d", 1)
	require.Equal(t, "x 1\n", b.String(), "a terminal gets each line at once")
	o = newOutput(broken{}, false, true)
	o.line("x")
	require.ErrorIs(t, o.broken(), syscall.EPIPE)
	require.ErrorIs(t, o.flush(), syscall.EPIPE)
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestHelpTexts: each command and flag has a help that is a sentence and begins with a verb's capital letter.
func TestHelpTexts(t *testing.T) {
	parser, err := kong.New(&Commands{})
	require.NoError(t, err)
	sentence := regexp.MustCompile(`^[A-Z].*\.\)?$`)
	var check func(n *kong.Node)
	check = func(n *kong.Node) {
		if n.Type == kong.CommandNode {
			require.Regexp(t, sentence, n.Help, n.Path())
		}
		for _, f := range n.Flags {
			require.Regexp(t, sentence, f.Help, n.Path()+" --"+f.Name)
		}
		for _, p := range n.Positional {
			require.Regexp(t, sentence, p.Help, n.Path()+" "+p.Name)
		}
		for _, child := range n.Children {
			check(child)
		}
	}
	parser.Model.Help = "x"
	for _, child := range parser.Model.Children {
		check(child)
	}
}

package profile

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/sdk"
)

// home is a home directory for a test. Files are written into it by their paths.
type home struct {
	t   *testing.T
	dir string
}

func newHome(t *testing.T, files map[string]string) *home {
	h := &home{t, t.TempDir()}
	for name, text := range files {
		h.write(name, text)
	}
	return h
}

func (h *home) path(name string) string { return filepath.Join(h.dir, name) }

func (h *home) write(name, text string) {
	require.NoError(h.t, os.MkdirAll(filepath.Dir(h.path(name)), 0o700))
	require.NoError(h.t, os.WriteFile(h.path(name), []byte(text), 0o600))
}

// load reads the profiles with an environment.
func (h *home) load(o Options, environ ...string) (*Profiles, error) {
	o.Environ = append([]string{"HOME=" + h.dir, "ORCAS_CONFIG=" + h.path("orcas"), "PATH=" + os.Getenv("PATH")}, environ...)
	return Load(o)
}

// get returns a profile, which must exist, and its keys.
func (h *home) get(name string, o Options, environ ...string) (*Profile, sdk.Keys) {
	h.t.Helper()
	all, err := h.load(o, environ...)
	require.NoError(h.t, err)
	p, err := all.Get(name)
	require.NoError(h.t, err)
	var keys sdk.Keys
	if p.Credentials != nil {
		keys, err = p.Credentials.Get(context.Background())
		require.NoError(h.t, err)
	}
	return p, keys
}

const (
	ownFile = `{
  "ref_level": "FULL",
  "profiles": {
    "home": {"endpoint": "http://home:9000/", "region": "here", "access_key": "own-key", "secret_key": "own-secret", "ref_level": "OFF",
      "addressing_style": "virtual", "checksums": "when_required"},
    "open": {"endpoint": "https://open", "anonymous": true},
    "default": {"endpoint": "http://standard:1", "access_key": "default-key", "secret_key": "default-secret"}
  }
}`
	awsConfig = `# A comment = not a setting.
[default]
region = eu-central-1
s3 =
  addressing_style = virtual
  max_concurrent_requests = 20
endpoint_url = https://fromconfig

[profile "two words"]
aws_access_key_id = two
aws_secret_access_key = words
[profile work]
services = local
region=us-west-2
request_checksum_calculation = WHEN_REQUIRED
[services local]
s3 =
    endpoint_url = http://services:9000
ec2 =
    endpoint_url = http://wrong
[profile both]
aws_access_key_id = from-config
aws_secret_access_key = x
[profile sso]
sso_session = corporate
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
[sso-session corporate]
sso_region = x
[profile empty]
region = x
`
	awsCredentials = `[default]
aws_access_key_id = shared-key
AWS_SECRET_ACCESS_KEY = shared/secret=+#x
aws_session_token = shared-token
[work]
aws_access_key_id = work-key
aws_secret_access_key = work-secret
[both]
aws_access_key_id = from-credentials
aws_secret_access_key = y
`
)

// TestPrecedence: each source of a setting comes before the ones that aws-cli puts after it.
func TestPrecedence(t *testing.T) {
	aws := newHome(t, map[string]string{".aws/config": awsConfig, ".aws/credentials": awsCredentials})
	both := newHome(t, map[string]string{".aws/config": awsConfig, ".aws/credentials": awsCredentials, "orcas": ownFile})
	none := newHome(t, nil)
	env := []string{"AWS_ACCESS_KEY_ID=env-key", "AWS_SECRET_ACCESS_KEY=env-secret", "AWS_SESSION_TOKEN=env-token"}
	for name, c := range map[string]struct {
		home                   *home
		profile                string
		options                Options
		environ                []string
		key, token             string
		endpoint, region       string
		virtual, required      bool
		level, sourceHas, name string
	}{
		"aws files": {home: aws, key: "shared-key", token: "shared-token", endpoint: "https://fromconfig", region: "eu-central-1", virtual: true,
			sourceHas: "profile default in ", name: "default"},
		"environment over files": {home: aws, environ: env, key: "env-key", token: "env-token", endpoint: "https://fromconfig",
			region: "eu-central-1", virtual: true, sourceHas: "AWS_ACCESS_KEY_ID", name: "default"},
		"endpoint for S3 over endpoint": {home: aws, environ: append(env, "AWS_ENDPOINT_URL=http://all", "AWS_ENDPOINT_URL_S3=http://s3"),
			key: "env-key", token: "env-token", endpoint: "http://s3", region: "eu-central-1", virtual: true, name: "default"},
		"endpoint in the environment": {home: aws, environ: []string{"AWS_ENDPOINT_URL=http://all"}, key: "shared-key", token: "shared-token",
			endpoint: "http://all", region: "eu-central-1", virtual: true, name: "default"},
		"endpoints ignored": {home: aws, environ: []string{"AWS_ENDPOINT_URL=http://all", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true"},
			key: "shared-key", token: "shared-token", region: "eu-central-1", virtual: true, name: "default"},
		"AWS_REGION over AWS_DEFAULT_REGION": {home: aws, environ: []string{"AWS_DEFAULT_REGION=b", "AWS_REGION=a"}, key: "shared-key",
			token: "shared-token", endpoint: "https://fromconfig", region: "a", virtual: true, name: "default"},
		"options over everything": {home: aws, options: Options{Endpoint: "http://flag", Region: "flag"},
			environ: append(env, "AWS_ENDPOINT_URL_S3=http://s3", "AWS_REGION=a"), key: "env-key", token: "env-token", endpoint: "http://flag",
			region: "flag", virtual: true, name: "default"},
		"AWS_PROFILE": {home: aws, environ: []string{"AWS_PROFILE=work", "AWS_DEFAULT_PROFILE=both"}, key: "work-key",
			endpoint: "http://services:9000", region: "us-west-2", required: true, name: "work"},
		"AWS_PROFILE and keys":     {home: aws, environ: append(env, "AWS_PROFILE=sso"), key: "env-key", token: "env-token", name: "sso"},
		"AWS_PROFILE with a space": {home: aws, environ: []string{"AWS_PROFILE=two words"}, key: "two", name: "two words"},
		"credentials over config":  {home: aws, profile: "both", key: "from-credentials", name: "both"},
		"named: no keys from the environment": {home: aws, profile: "work", environ: append(env, "AWS_REGION=a", "AWS_ENDPOINT_URL=http://all"),
			key: "work-key", endpoint: "http://services:9000", region: "us-west-2", required: true, name: "work"},
		"named: the endpoint of the environment if it has none": {home: aws, profile: "both", environ: []string{"AWS_ENDPOINT_URL=http://all"},
			key: "from-credentials", endpoint: "http://all", name: "both"},
		"own default over AWS's": {home: both, key: "default-key", endpoint: "http://standard:1", level: "FULL", name: "default"},
		"own default below the environment": {home: both, environ: append(env, "AWS_ENDPOINT_URL=http://all"), key: "env-key", token: "env-token",
			endpoint: "http://all", level: "FULL", name: "default"},
		"own profile": {home: both, profile: "home", environ: append(env, "AWS_REGION=a", "AWS_ENDPOINT_URL=http://all", "ORCAS_REF_LEVEL=FAST"),
			key: "own-key", endpoint: "http://home:9000/", region: "here", virtual: true, required: true, level: "OFF", name: "home"},
		"anonymous profile": {home: both, profile: "open", environ: env, endpoint: "https://open", level: "FULL", name: "open"},
		"own profile as the default": {home: both, environ: []string{"AWS_PROFILE=home", "ORCAS_REF_LEVEL=FAST"}, key: "own-key",
			endpoint: "http://home:9000/", region: "here", virtual: true, required: true, level: "OFF", name: "home"},
		"profile of AWS beside own ones": {home: both, profile: "work", environ: []string{"ORCAS_REF_LEVEL=FAST"}, key: "work-key",
			endpoint: "http://services:9000", region: "us-west-2", required: true, level: "FULL", name: "work"},
		"the level of the environment": {home: aws, environ: []string{"ORCAS_REF_LEVEL=FAST"}, key: "shared-key", token: "shared-token",
			endpoint: "https://fromconfig", region: "eu-central-1", virtual: true, level: "FAST", name: "default"},
		"anonymous": {home: aws, options: Options{Anonymous: true}, environ: env, endpoint: "https://fromconfig", region: "eu-central-1",
			virtual: true, name: "default"},
		"root credentials": {home: none, environ: []string{"ORCAS_ROOT_ACCESS_KEY=root", "ORCAS_ROOT_SECRET_KEY=secret"}, key: "root",
			endpoint: "http://127.0.0.1:9000", sourceHas: "ORCAS_ROOT_ACCESS_KEY"},
		"root credentials come last": {home: aws, environ: []string{"ORCAS_ROOT_ACCESS_KEY=root", "ORCAS_ROOT_SECRET_KEY=secret"}, key: "shared-key",
			token: "shared-token", endpoint: "https://fromconfig", region: "eu-central-1", virtual: true, name: "default"},
		"empty variables count as unset": {home: aws, environ: []string{"AWS_ACCESS_KEY_ID=", "AWS_PROFILE=", "AWS_REGION="}, key: "shared-key",
			token: "shared-token", endpoint: "https://fromconfig", region: "eu-central-1", virtual: true, name: "default"},
	} {
		t.Run(name, func(t *testing.T) {
			c.home.t = t
			p, keys := c.home.get(c.profile, c.options, c.environ...)
			require.Equal(t, c.key, keys.AccessKey)
			require.Equal(t, c.key != "", keys.SecretKey != "")
			require.Equal(t, c.token, keys.SessionToken)
			require.Equal(t, c.endpoint, p.Endpoint)
			require.Equal(t, c.region, p.Region)
			require.Equal(t, c.virtual, p.VirtualHost)
			require.Equal(t, c.required, p.ChecksumsWhenRequired)
			require.Equal(t, c.level, p.RefLevel)
			require.Equal(t, c.name, p.Name)
			require.Contains(t, p.Source, c.sourceHas)
		})
	}
	_, keys := aws.get("", Options{})
	require.Equal(t, "shared/secret=+#x", keys.SecretKey, "a value is the rest of the line, as for aws-cli")
}

// TestMistakes: errors name the file, the line or the variable, and contain no secret.
func TestMistakes(t *testing.T) {
	const secret = "S3CRET"
	for name, c := range map[string]struct {
		files   map[string]string
		profile string
		options Options
		environ []string
		says    string
	}{
		"no credentials": {says: "no credentials for s3:// addresses: run orcas alias set default URL"},
		"unknown profile": {files: map[string]string{"orcas": ownFile, ".aws/credentials": awsCredentials}, profile: "hme",
			says: "there is no profile hme (the profiles are both, default, home, open, work): add it with orcas alias set hme URL"},
		"unknown AWS_PROFILE": {environ: []string{"AWS_PROFILE=x1", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=" + secret},
			says: "AWS_PROFILE: there is no profile x1 (there are no profiles)"},
		"half a pair": {environ: []string{"AWS_ACCESS_KEY_ID=a"}, says: "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be set together"},
		"half a pair in a file": {files: map[string]string{".aws/credentials": "[default]\naws_secret_access_key = " + secret},
			says: "/.aws/credentials: aws_access_key_id and aws_secret_access_key must be set together"},
		"role": {files: map[string]string{".aws/config": awsConfig}, profile: "role",
			says: "/.aws/config: profile role: role_arn is not supported: use aws-cli to get the credentials, with credential_process = aws configure export-credentials --profile role --format process"},
		"sso":     {files: map[string]string{".aws/config": awsConfig}, environ: []string{"AWS_PROFILE=sso"}, says: "profile sso: sso_session is not supported"},
		"no keys": {files: map[string]string{".aws/config": awsConfig}, profile: "empty", says: "profile empty in "},
		"no section": {files: map[string]string{".aws/config": "aws_secret_access_key = " + secret},
			says: "/.aws/config, line 1: expected KEY = VALUE in a section"},
		"no value": {files: map[string]string{".aws/credentials": "[default]\nregion = x\n" + secret + "\n"},
			says: "/.aws/credentials, line 3: expected KEY = VALUE"},
		"open bracket":        {files: map[string]string{".aws/config": "[default\nregion = x\n"}, says: "/.aws/config, line 1: expected the name of a section"},
		"no services":         {files: map[string]string{".aws/config": "[default]\nservices = x\n"}, says: "there is no section [services x]"},
		"wrong url":           {environ: []string{"AWS_ENDPOINT_URL=localhost:9000", "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}, says: `http://HOST:PORT or https://HOST:PORT, not "localhost:9000"`},
		"user in a url":       {options: Options{Endpoint: "http://me:" + secret + "@host", Anonymous: true}, says: "must not contain a user name"},
		"bad url with a user": {options: Options{Endpoint: "htp://me:" + secret + "@host", Anonymous: true}, says: "a URL with a user name"},
		"path in a url":       {options: Options{Endpoint: "http://host/bucket", Anonymous: true}, says: "without a path, such as http://host"},
		"not json":            {files: map[string]string{"orcas": "{\n\"profiles\": {\n\"x\" " + secret + "}}"}, says: "/orcas, line 3: not valid JSON"},
		"half json":           {files: map[string]string{"orcas": "{\n\"profiles\": {"}, says: "/orcas: not valid JSON: the document is incomplete"},
		"more json":           {files: map[string]string{"orcas": "{}\n{}"}, says: "/orcas, line 2: expected nothing after the JSON document"},
		"unknown field":       {files: map[string]string{"orcas": "{\"profiles\": {\n\"x1\": {\"acess_key\": \"" + secret + "\"}}}"}, says: `/orcas, line 2: there is no setting "acess_key"`},
		"wrong type":          {files: map[string]string{"orcas": "{\"profiles\": {\n\"x1\": {\"anonymous\": \"" + secret + "\"}}}"}, says: "/orcas, line 2: profiles.anonymous: expected a bool, not a string"},
		"wrong level": {files: map[string]string{"orcas": `{"profiles": {"x1": {"ref_level": "fast"}}}`}, profile: "x1",
			says: `/orcas: profile x1: ref_level: expected OFF or FULL or FAST, not "fast"`},
		"wrong level for all":   {files: map[string]string{"orcas": `{"ref_level": "x"}`}, says: "/orcas: ref_level: expected OFF"},
		"wrong ORCAS_REF_LEVEL": {environ: []string{"ORCAS_REF_LEVEL=2"}, says: `ORCAS_REF_LEVEL: expected OFF or FULL or FAST, not "2"`},
		"keys and anonymous": {files: map[string]string{"orcas": `{"profiles": {"x1": {"anonymous": true, "access_key": "a", "secret_key": "` + secret + `"}}}`}, profile: "x1",
			says: "anonymous cannot be combined with keys"},
		"half a pair in a profile": {files: map[string]string{"orcas": `{"profiles": {"x1": {"secret_key": "` + secret + `"}}}`}, profile: "x1",
			says: "access_key and secret_key must be set together"},
		"profile without keys": {files: map[string]string{"orcas": `{"profiles": {"x1": {"endpoint": "http://h"}}}`}, profile: "x1",
			says: "has no keys: run orcas alias set x1 URL, with --anonymous if it needs none"},
		"data directory": {options: Options{Data: "/nowhere"}, says: "--data: cannot read the root credentials: open /nowhere/root-credentials.json"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t, c.files)
			all, err := h.load(c.options, c.environ...)
			if err == nil {
				_, err = all.Get(c.profile)
			}
			require.ErrorContains(t, err, c.says)
			require.NotContains(t, err.Error(), secret)
		})
	}
}

// TestOthersCannotRead: a file of profiles that others can read is refused, and one that orcas writes is private.
func TestOthersCannotRead(t *testing.T) {
	h := newHome(t, map[string]string{"orcas": ownFile})
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o610} {
		require.NoError(t, os.Chmod(h.path("orcas"), mode))
		_, err := h.load(Options{})
		require.ErrorContains(t, err, "run chmod 600 "+h.path("orcas"))
	}
	path := h.path("new/dir/config")
	f, err := Open(path)
	require.NoError(t, err)
	f.Profiles["x1"] = Settings{Endpoint: "http://x", AccessKey: "a", SecretKey: "b"}
	require.NoError(t, f.Save())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	info, err = os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	again, err := Open(path)
	require.NoError(t, err)
	require.Equal(t, f, again)
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file remains")
	link := h.path("link")
	require.NoError(t, os.Symlink(path, link))
	linked, err := Open(link)
	require.NoError(t, err)
	delete(linked.Profiles, "x1")
	require.NoError(t, linked.Save())
	info, err = os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "a symbolic link stays one")
	again, err = Open(path)
	require.NoError(t, err)
	require.Empty(t, again.Profiles)
}

// TestLocalServer: with the data directory of a server, its root credentials and its certificate are used.
func TestLocalServer(t *testing.T) {
	h := newHome(t, map[string]string{"data/root-credentials.json": `{"accessKey":"root","secretKey":"secret"}`, "data/self-signed.crt": "x"})
	p, keys := h.get("", Options{Data: h.path("data")}, "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b")
	require.Equal(t, "root", keys.AccessKey)
	require.Equal(t, localEndpoint, p.Endpoint)
	require.Equal(t, h.path("data/self-signed.crt"), p.CABundle)
	_, err := p.Config()
	require.ErrorContains(t, err, "self-signed.crt does not contain a certificate")
	h.write("data/root-credentials.json", `{"accessKey": SECRET}`)
	all, err := h.load(Options{Data: h.path("data")})
	require.NoError(t, err)
	_, err = all.Get("")
	require.ErrorContains(t, err, "does not contain an access key and a secret key")
	require.NotContains(t, err.Error(), "SECRET")
}

// TestPathOfTheFile: the file is where programs of the system keep settings, unless ORCAS_CONFIG names another.
func TestPathOfTheFile(t *testing.T) {
	path := func(environ ...string) string {
		p, err := Load(Options{Environ: environ})
		require.NoError(t, err)
		return p.File().Path
	}
	dir := t.TempDir()
	require.Equal(t, dir+"/.config/orcas/config", path("HOME="+dir))
	require.Equal(t, dir+"/x/orcas/config", path("HOME="+dir, "XDG_CONFIG_HOME="+dir+"/x"))
	require.Equal(t, dir+"/y", path("HOME="+dir, "ORCAS_CONFIG="+dir+"/y"))
	require.Empty(t, path())
	_, err := Load(Options{Environ: []string{"XDG_CONFIG_HOME=x"}})
	require.ErrorContains(t, err, "XDG_CONFIG_HOME: expected an absolute path")
	p, err := Load(Options{})
	require.NoError(t, err)
	require.ErrorContains(t, p.File().Save(), "set ORCAS_CONFIG")
}

func TestCheckName(t *testing.T) {
	for _, name := range []string{"home", "a1", "my.server-2_x", "DEFAULT"} {
		require.NoError(t, CheckName(name))
	}
	for _, name := range []string{"", "c", "s3", "S3", "http", "https", "file", "a b", "a/b", "a:b", "-a", "é1"} {
		require.Error(t, CheckName(name), name)
	}
	require.ErrorContains(t, CheckName("s3"), "s3:// addresses use the profile default")
}

// TestCredentialProcess runs a program for credentials, once until they expire soon.
func TestCredentialProcess(t *testing.T) {
	h := newHome(t, nil)
	script := h.path("get keys")
	write := func(body string) {
		h.write("get keys", "#!/bin/sh\necho run >> "+h.path("runs")+"\n"+body)
		require.NoError(t, os.Chmod(script, 0o700))
	}
	runs := func() int {
		text, err := os.ReadFile(h.path("runs"))
		require.NoError(t, err)
		return strings.Count(string(text), "run")
	}
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	h.write(".aws/config", "[profile p1]\ncredential_process = '"+script+"' one \"two three\"\n")
	all, err := h.load(Options{})
	require.NoError(t, err)
	all.now = func() time.Time { return now }
	get := func() (sdk.Keys, error) {
		p, err := all.Get("p1")
		require.NoError(t, err)
		_, err = p.Credentials.Get(context.Background())
		if err != nil {
			return sdk.Keys{}, err
		}
		return p.Credentials.Get(context.Background())
	}
	write(`echo '{"Version": 1, "AccessKeyId": "'"$1-$2"'", "SecretAccessKey": "s", "SessionToken": "t"}'`)
	keys, err := get()
	require.NoError(t, err)
	require.Equal(t, sdk.Keys{AccessKey: "one-two three", SecretKey: "s", SessionToken: "t"}, keys)
	require.Equal(t, 1, runs(), "keys without an expiration are kept")

	p, err := all.Get("p1")
	require.NoError(t, err)
	write(`echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s", "Expiration": "2026-01-02T03:30:00Z"}'`)
	for _, at := range []struct {
		minute, runs int
	}{{0, 2}, {10, 2}, {24, 2}, {26, 3}} {
		now = time.Date(2026, 1, 2, 3, at.minute, 0, 0, time.UTC)
		_, err = p.Credentials.Get(context.Background())
		require.NoError(t, err)
		require.Equal(t, at.runs, runs(), "minute %d", at.minute)
	}
	now = time.Date(2026, 1, 2, 3, 31, 0, 0, time.UTC)
	for body, says := range map[string]string{
		`echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "TOPS3CRET", "Expiration": "2026-01-02T03:30:00Z"}'`: "its credentials expired at 2026-01-02T03:30:00Z",
		`echo '{"Version": 2, "AccessKeyId": "a", "SecretAccessKey": "TOPS3CRET"}'`:                                       "expected Version 1 in its JSON document, not 2",
		`echo '{"Version": 1, "SecretAccessKey": "TOPS3CRET"}'`:                                                           "expected a JSON document with AccessKeyId and SecretAccessKey",
		`echo TOPS3CRET`: "expected a JSON document",
		`echo TOPS3CRET; echo sign in first >&2; exit 3`:                                                      "exit status 3: sign in first",
		`echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "TOPS3CRET", "Expiration": "tomorrow"}'`: `expected a time such as 2006-01-02T15:04:05Z, not "tomorrow"`,
	} {
		write(body)
		_, err := get()
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "credential_process of profile p1 in "+h.path(".aws/config")+": "+script)
		require.NotContains(t, err.Error(), "TOPS3CRET")
	}
	h.write(".aws/config", "[profile p1]\ncredential_process = 'open\n")
	_, err = get()
	require.ErrorContains(t, err, "a quotation mark is not closed")
}

func TestSplitWords(t *testing.T) {
	for line, want := range map[string][]string{
		"":                         nil,
		"  a  b ":                  {"a", "b"},
		`a\ b "c d" 'e"f' g"h"'i'`: {"a b", "c d", `e"f`, "ghi"},
		`"a\"b\\" '\' ""`:          {`a"b\`, `\`, ""},
	} {
		words, err := splitWords(line)
		require.NoError(t, err, line)
		require.Equal(t, want, words, line)
	}
}

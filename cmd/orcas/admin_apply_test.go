package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/core"
	"orcas/core/sqlite"
	"orcas/s3/bucketaccess"
	"orcas/server"
)

// declaration has everything that a file can declare. ACCOUNT is replaced by the ID of the account.
const declaration = `
policies:
  - name: reports
    document:
      Version: 2012-10-17
      Statement:
        - {Effect: Allow, Action: s3:GetObject, Resource: "arn:aws:s3:::web/reports/*"}
groups:
  - name: readers
    policies: [readonly]
users:
  - name: alice
    groups: [readers]
    policies: [reports]
buckets:
  - name: web
    public: read
    versioning: enabled
    compression: fast
    chunk_size: 1MiB
    max_bytes: 1GiB
    max_objects: 1000
    policy:
      Statement:
        - {Effect: Deny, Principal: "*", Action: s3:GetObject, Resource: "arn:aws:s3:::web/private/*", Condition: {StringNotEquals: {aws:username: alice}}}
        - {Effect: Allow, Principal: {AWS: "arn:aws:iam::ACCOUNT:key/camera"}, Action: s3:ListBucket, Resource: "arn:aws:s3:::web"}
    cors:
      - {allowed_origins: ["https://a.example"], allowed_methods: [GET, PUT], allowed_headers: ["*"], max_age_seconds: 60}
    lifecycle:
      - {id: tmp, prefix: tmp/, expire_days: 7, abort_uploads_days: 2}
      - {id: old, noncurrent_days: 30, keep_noncurrent: 3}
  - name: photos
keys:
  - {name: camera, bucket: photos, prefix: camera/, access: readwrite, no_delete: true, expires: 90d}
  - {name: backup, bucket: photos, access: read, access_key: BACKUP, secret_file: backup.secret}
`

// theSecret is the content of backup.secret.
const theSecret = "the-secret-of-the-backup"

// writeDeclaration writes a file and its secret, and returns its path.
func writeDeclaration(t *testing.T, dir, text, account string) string {
	path := filepath.Join(dir, "store.yaml")
	require.NoError(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "ACCOUNT", account)), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "backup.secret"), []byte(theSecret+"\n"), 0o600))
	return path
}

// requireDeclared checks that a store has what declaration declares. camera is its generated key.
func requireDeclared(t *testing.T, c *s3.Client, camera *admin.AppliedKey) {
	t.Helper()
	ctx, web, photos := t.Context(), aws.String("web"), aws.String("photos")
	for _, key := range []string{"1", "private/1"} {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: web, Key: &key, Body: strings.NewReader("x")})
		require.NoError(t, err)
	}
	for path, want := range map[string]int{"/web/1": 200, "/web/private/1": 403, "/web": 403, "/photos/1": 403} {
		r, err := http.Get(*c.Options().BaseEndpoint + path)
		require.NoError(t, err)
		require.NoError(t, r.Body.Close())
		require.Equal(t, want, r.StatusCode, path)
	}
	versioning, err := c.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: web})
	require.NoError(t, err)
	require.EqualValues(t, "Enabled", versioning.Status)
	cors, err := c.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: web})
	require.NoError(t, err)
	require.Equal(t, []string{"GET", "PUT"}, cors.CORSRules[0].AllowedMethods)
	rules, err := c.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: web})
	require.NoError(t, err)
	require.Len(t, rules.Rules, 2)
	require.EqualValues(t, 7, *rules.Rules[0].Expiration.Days)
	require.EqualValues(t, 3, *rules.Rules[1].NoncurrentVersionExpiration.NewerNoncurrentVersions)

	app := with(c, camera.AccessKey, camera.SecretKey)
	_, err = app.PutObject(ctx, &s3.PutObjectInput{Bucket: photos, Key: aws.String("camera/1"), Body: strings.NewReader("x")})
	require.NoError(t, err)
	_, err = app.PutObject(ctx, &s3.PutObjectInput{Bucket: photos, Key: aws.String("1"), Body: strings.NewReader("x")})
	require.ErrorContains(t, err, "AccessDenied")
	_, err = app.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: web})
	require.NoError(t, err)
	reader := with(c, "BACKUP", theSecret)
	_, err = reader.GetObject(ctx, &s3.GetObjectInput{Bucket: photos, Key: aws.String("camera/1")})
	require.NoError(t, err)
}

// TestApply applies a file: first as a dry run, then for real, and then again. What the file does not name stays.
func TestApply(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	data := filepath.Join(base, "data")
	serve(t, data, func(c *s3.Client, address string) {
		orcas := func(status int, args ...string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin"}, args...), "--data", data, "--admin-address", address)...)
		}
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("other")})
		require.NoError(t, err)
		orcas(exitOK, "user", "create", "bob")
		orcas(exitOK, "user", "create", "carol")
		orcas(exitOK, "group", "create", "readers")
		orcas(exitOK, "group", "add", "readers", "bob")
		stdout, _ := orcas(exitOK, "user", "list", "--json")
		account := strings.Split(stdout[strings.Index(stdout, "arn:aws:iam::"):], ":")[4]
		path := writeDeclaration(t, base, declaration, account)
		parse := func(stdout string) (done admin.Applied) {
			require.NoError(t, json.Unmarshal([]byte(stdout), &done), stdout)
			return done
		}

		stdout, _ = orcas(exitOK, "apply", path, "--dry-run", "--json")
		planned := parse(stdout)
		require.True(t, planned.DryRun)
		require.Empty(t, planned.Keys)
		stdout, _ = orcas(exitOK, "apply", path, "--dry-run")
		require.Contains(t, stdout, "# would create the bucket web\n")
		require.Contains(t, stdout, "# would change the group readers: attach the policy readonly\n")
		_, err = c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("web")})
		require.Error(t, err, "a dry run changes nothing")

		stdout, _ = orcas(exitOK, "apply", path, "--json")
		done := parse(stdout)
		require.Equal(t, planned.Changes, done.Changes)
		require.Empty(t, done.Failed)
		require.Len(t, done.Keys, 1)
		require.NotContains(t, stdout, theSecret)
		requireDeclared(t, c, &done.Keys[0])
		for range 2 {
			stdout, _ = orcas(exitOK, "apply", path)
			require.Equal(t, "# nothing to change\n", stdout)
		}
		stdout, _ = orcas(exitOK, "group", "list", "--json")
		require.Contains(t, stdout, "bob")
		_, err = c.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("other")})
		require.NoError(t, err)

		// A setting is changed, and others stay.
		second := filepath.Join(base, "second.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(second, []byte(text), 0o600)) }
		write("buckets:\n  - name: web\n    max_objects: none\n    public: none\n  - name: other\n    versioning: enabled\n")
		stdout, _ = orcas(exitOK, "apply", second)
		require.Equal(t, "# change the bucket web: max_objects, public\n# change the bucket other: versioning\n", stdout)
		stdout, _ = orcas(exitOK, "bucket", "web", "--json")
		require.Contains(t, stdout, `"max_bytes": 1073741824`)
		require.Contains(t, stdout, `"max_objects": 0`)
		require.Contains(t, stdout, `"public": "none"`)
		stdout, _ = orcas(exitOK, "apply", path)
		require.Equal(t, "# change the bucket web: max_objects, public\n", stdout)

		// Each mistake is found before the first change.
		for text, says := range map[string]string{
			"users: [{name: new, polices: []}]":          `line 1: unknown name "polices"`,
			"users: [{name: a/b}]":                       `line 2: the name "a/b" is not valid`,
			"users: [{name: carol}, {name: Carol}]":      `line 2: the name "Carol" is used twice in users`,
			"users: [{name: carol, groups: [none]}]":     `line 2: there is no group "none"`,
			"users: [{name: carol, policies: [none]}]":   `line 2: there is no policy "none"`,
			"policies: [{name: p}]":                      "line 2: ",
			"policies: [{name: readonly, document: {}}]": "is built in",
			"policies: [{name: p, document: {Statement: {Effect: Allow, Action: s3:Get, Resource: '*'}}}]": `statement 1, element Action: unknown action "s3:Get"`,
			"policies:\n  - name: p\n    document: {Statement: {}}":                                        "line 4: policy p: statement 1",
			"buckets: [{name: UPPER}]":                                                          `"UPPER" is not a bucket name`,
			"buckets: [{name: web, public: all}]":                                               "public must be none, read or custom",
			"buckets: [{name: web, versioning: on}]":                                            "versioning must be enabled or suspended",
			"buckets: [{name: web, max_bytes: lots}]":                                           "max-bytes: expected a positive size",
			"buckets: [{name: web, chunk_size: 1}]":                                             "chunk-size",
			"buckets: [{name: web, compression: best}]":                                         "compression",
			"buckets: [{name: web, cors: []}]":                                                  "cors",
			"buckets: [{name: web, cors: [{allowed_origins: ['*'], allowed_methods: [LOOK]}]}]": "cors",
			"buckets: [{name: web, lifecycle: [{expire_days: 1}]}]":                             "has no id",
			"buckets: [{name: web, lifecycle: [{id: a, expire_days: 0}]}]":                      "lifecycle",
			"buckets: [{name: web, lifecycle: [{id: a, keep_noncurrent: 1}]}]":                  "lifecycle",
			"buckets: [{name: web, policy: {Statement: {Effect: Allow, Principal: {AWS: 'arn:aws:iam::" + account + ":user/nobody'}, Action: s3:GetObject, Resource: 'arn:aws:s3:::web/*'}}}]":                           "bucket web: policy: statement 1, element Principal",
			"users: [{name: Carol}]\nbuckets: [{name: third, policy: {Statement: {Effect: Deny, Principal: {AWS: 'arn:aws:iam::" + account + ":user/Carol'}, Action: s3:GetObject, Resource: 'arn:aws:s3:::third/*'}}}]": "bucket third: policy: statement 1, element Principal",
			"buckets: [{name: third, policy: {Statement: {Effect: Allow, Principal: '*', Action: s3:GetObject, Resource: 'arn:aws:s3:::third/*'}}}]":                                                                     "use public: custom",
			"buckets: [{name: web, policy: {Statement: {Sid: OrcasPublicRead, Effect: Deny, Principal: '*', Action: s3:GetObject, Resource: 'arn:aws:s3:::web/*'}}}]":                                                    "is reserved",
			"keys: [{name: k, bucket: none, access: read}]":                                                   `there is no bucket "none"`,
			"keys: [{name: k, bucket: web, access: all}]":                                                     "the access must be read, write or readwrite",
			"keys: [{name: k, bucket: web, access: read, expires: soon}]":                                     "expires must be a duration",
			"keys: [{name: k, bucket: web, access: read, access_key: ABC}]":                                   "must be used together",
			"keys: [{name: k, bucket: web, access: read, access_key: BACKUP, secret_file: backup.secret}]":    "belongs to another identity",
			"keys: [{name: k, bucket: web, access: read, access_key: 'A/B', secret_file: backup.secret}]":     `the access key "A/B" is not valid`,
			"keys: [{name: k, bucket: web, access: read, access_key: ABCD, secret_file: store.yaml}]":         "the secret of the access key ABCD is not valid",
			"keys: [{name: k, bucket: web, access: read, access_key: ABCD, secret_file: missing}]":            "no such file",
			"keys: [{name: camera, bucket: web, access: read}]":                                               "the key camera exists with other rights",
			"keys: [{name: backup, bucket: photos, access: read, access_key: C, secret_file: backup.secret}]": "the key backup exists with another access key",
		} {
			write("groups: [{name: not-created}]\n" + text + "\n")
			if strings.HasPrefix(says, "line 1") {
				write(text)
			}
			_, stderr := orcas(exitFailed, "apply", second)
			require.Contains(t, stderr, says, text)
			require.Equal(t, 1, strings.Count(stderr, "\n"))
			require.NotContains(t, stderr, theSecret)
		}
		stdout, _ = orcas(exitOK, "group", "list")
		require.NotContains(t, stdout, "not-created")
		write("roles: [{name: r, users: [Carol]}]\n")
		orcas(exitOK, "apply", second)
		stdout, _ = orcas(exitOK, "apply", second)
		require.Equal(t, "# nothing to change\n", stdout)
		stdout, _ = orcas(exitOK, "apply", path)
		require.Equal(t, "# nothing to change\n", stdout)
	})

	// Each user, role and application key that a stored policy names has an ID: others would match nobody, also in a Deny.
	meta, err := sqlite.Open(filepath.Join(data, "metadata.db"), sqlite.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, meta.Close()) }()
	buckets, err := meta.Buckets(ctx, "", "", 1000)
	require.NoError(t, err)
	named := 0
	for i := range buckets {
		if bucketaccess.Document(&buckets[i]) == "" {
			continue
		}
		p, err := bucketaccess.Parse(buckets[i].Name, bucketaccess.Document(&buckets[i]))
		require.NoError(t, err)
		var ids map[string]string
		if text := core.AttrValue(buckets[i].Attrs, bucketaccess.PrincipalsAttr); text != "" {
			require.NoError(t, json.Unmarshal([]byte(text), &ids))
		}
		for _, arn := range p.Principals() {
			require.NotEmpty(t, ids[arn], arn)
			named++
		}
	}
	require.Equal(t, 1, named)
}

// TestBootstrap applies a file at the first start of a server. Later starts change nothing, and a wrong file prevents
// the start.
func TestBootstrap(t *testing.T) {
	base := t.TempDir()
	data := filepath.Join(base, "data")
	text := strings.ReplaceAll(declaration, `        - {Effect: Allow, Principal: {AWS: "arn:aws:iam::ACCOUNT:key/camera"}, Action: s3:ListBucket, Resource: "arn:aws:s3:::web"}`+"\n",
		`        - {Effect: Allow, Principal: "*", Action: s3:ListBucket, Resource: "arn:aws:s3:::web", Condition: {StringLike: {aws:PrincipalArn: "*:key/camera"}}}`+"\n")
	text = strings.Replace(text, "public: read", "public: custom", 1)
	text = strings.Replace(text, "        - {Effect: Deny,", `        - {Effect: Allow, Principal: "*", Action: s3:GetObject, Resource: "arn:aws:s3:::web/*"}`+"\n        - {Effect: Deny,", 1)
	path := writeDeclaration(t, base, text, "")
	start := func(environ ...string) (*server.Server, string, error) {
		settings, err := server.ReadSettings(append([]string{"ORCAS_MIN_FREE=0", "ORCAS_BOOTSTRAP=" + path, "ORCAS_LOG=requests"}, environ...))
		if err != nil {
			return nil, "", err
		}
		var log bytes.Buffer
		s, err := server.Open(t.Context(), server.Config{Data: data, Address: "127.0.0.1:0", Settings: settings, Log: &log, Banner: &log})
		if err != nil {
			return nil, "", err
		}
		return s, log.String(), nil
	}
	keysFile := filepath.Join(data, server.BootstrapKeysFile)
	var keys struct{ Keys []admin.AppliedKey }
	for round := range 2 {
		s, banner, err := start()
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		if round == 0 {
			require.Contains(t, banner, "bootstrap    created 1 keys; their secrets are in "+keysFile)
		} else {
			require.NotContains(t, banner, "bootstrap ")
		}
		info, err := os.Stat(keysFile)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		text, err := os.ReadFile(keysFile)
		require.NoError(t, err)
		keys.Keys = nil
		require.NoError(t, json.Unmarshal(text, &keys))
		require.Len(t, keys.Keys, 1)
		require.NotContains(t, string(text), theSecret)
		root := s.Credentials()
		c := s3.New(s3.Options{
			BaseEndpoint: aws.String(s.Endpoint()), Region: "us-east-1", UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(root.AccessKey, root.SecretKey, ""),
		})
		requireDeclared(t, c, &keys.Keys[0])
		stop()
		require.NoError(t, <-done)
		require.NoError(t, s.Close())
		require.NotContains(t, banner, keys.Keys[0].SecretKey)
		require.NotContains(t, banner, theSecret)
	}

	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	for text, says := range map[string]string{
		"bucket: []":                               path + `: line 1: unknown name "bucket"`,
		"buckets: [{name: web, public: all}]":      "ORCAS_BOOTSTRAP: line 1: bucket web: public must be",
		"keys: [{name: k, secret_file: missing}]":  "missing: no such file",
		"keys: [{name: k, secret_file: readable}]": "so users other than its owner can read",
		"keys: [{name: k, bucket: none, access: read, access_key: A1, secret_file: backup.secret}]": `there is no bucket "none"`,
	} {
		write(text)
		require.NoError(t, os.WriteFile(filepath.Join(base, "readable"), []byte(theSecret), 0o644))
		_, _, err := start()
		require.ErrorContains(t, err, says, text)
		require.NotContains(t, err.Error(), theSecret)
	}
	_, _, err := start("ORCAS_BOOTSTRAP=" + path + ".none")
	require.ErrorContains(t, err, "no such file")
	write("buckets: [{name: web, public: all}]")
	_, _, err = start()
	require.ErrorAs(t, err, new(server.ConfigError), "only the open store finds it")
	write("buckets: [{name: web, max_bytes: 2GiB}]")
	s, _, err := start()
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

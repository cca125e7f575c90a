package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/admin"
	"orcas/server"
)

// identitiesFile declares accounts, users with access keys, and roles. ACCOUNT is replaced by the ID of the account.
const identitiesFile = `
accounts:
  - {name: tenant}
  - {name: closed, enabled: false}
groups:
  - name: readers
    inline_policies:
      - name: read
        document: {Version: 2012-10-17, Statement: [{Effect: Allow, Action: "s3:Get*", Resource: "*"}]}
users:
  - {name: alice, groups: [readers], tags: {team: red, Site: north}, generate_key: true}
  - name: builder
    generate_key: true                # it has a key already
    access_keys:
      - {access_key: BUILDER, secret_file: backup.secret}
roles:
  - name: deployer
    users: [alice, builder]
    description: deploys the site
    max_session: 4h
    policies: [readwrite]
    tags: {team: red}
    inline_policies:
      - name: no-deletions
        document: {Statement: [{Effect: Deny, Action: "s3:DeleteObject", Resource: "*"}]}
  - name: auditor
    trust:
      Statement:
        - {Effect: Allow, Principal: {AWS: "arn:aws:iam::ACCOUNT:role/deployer"}, Action: "sts:AssumeRole"}
`

// TestApplyIdentities applies a file with accounts, access keys and roles. The second time changes nothing, and what was
// deleted since comes back.
func TestApplyIdentities(t *testing.T) {
	base := t.TempDir()
	data := filepath.Join(base, "data")
	serve(t, data, func(c *s3.Client, address string) {
		orcas := func(status int, line string, more ...string) (stdout, stderr string) {
			args := append(append([]string{"admin"}, strings.Fields(line)...), more...)
			return orcasExits(t, status, append(args, "--data", data, "--admin-address", address)...)
		}
		shows := func(line string, says ...string) {
			t.Helper()
			stdout, _ := orcas(exitOK, line)
			for _, text := range says {
				require.Contains(t, stdout, text)
			}
		}
		orcas(exitOK, "user create bob")
		stdout, _ := orcas(exitOK, "user list --json")
		account := strings.Split(stdout[strings.Index(stdout, "arn:aws:iam::"):], ":")[4]
		path := writeDeclaration(t, base, identitiesFile, account)
		parse := func(stdout string) (done admin.Applied) {
			require.NoError(t, json.Unmarshal([]byte(stdout), &done), stdout)
			return done
		}
		stdout, _ = orcas(exitOK, "apply", path, "--dry-run", "--json")
		planned := parse(stdout)
		require.Empty(t, planned.Keys)
		stdout, _ = orcas(exitOK, "account list")
		require.NotContains(t, stdout, "tenant", "a dry run changes nothing")
		stdout, _ = orcas(exitOK, "apply", path, "--json")
		done := parse(stdout)
		require.Empty(t, done.Failed)
		require.Equal(t, planned.Changes, done.Changes)
		require.NotContains(t, stdout, theSecret)
		keys := map[string]admin.AppliedKey{}
		for _, k := range done.Keys {
			keys[k.Kind+" "+k.Name] = k
		}
		require.Len(t, keys, 3)
		for range 2 {
			stdout, _ = orcas(exitOK, "apply", path)
			require.Equal(t, "# nothing to change\n", stdout)
		}

		// Everything works as declared.
		lists := func(k admin.AppliedKey) string {
			_, err := with(c, k.AccessKey, k.SecretKey).ListBuckets(t.Context(), &s3.ListBucketsInput{})
			return code(err)
		}
		require.Empty(t, lists(keys["account tenant"]))
		require.Equal(t, "InvalidAccessKeyId", lists(keys["account closed"]))
		require.Equal(t, "AccessDenied", lists(keys["user alice"]))
		require.Equal(t, "AccessDenied", lists(admin.AppliedKey{AccessKey: "BUILDER", SecretKey: theSecret}))
		var roles admin.RoleList
		stdout, _ = orcas(exitOK, "role list --json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &roles))
		require.Len(t, roles.Roles, 2)
		deployer := roles.Roles[1]
		require.Equal(t, []any{"deployer", "deploys the site", 4 * 3600, []string{"readwrite"}, "no-deletions"},
			[]any{deployer.Name, deployer.Description, deployer.MaxSession, deployer.Policies, deployer.Inline[0].Name})
		require.Contains(t, string(deployer.Trust), account+":user/builder")
		shows("user list", "bob", "alice    readers")

		// What was deleted or changed since comes back: also that a role trusts a user whose name belongs to another one now.
		orcas(exitOK, "user delete builder")
		stdout, _ = orcas(exitOK, "apply", path)
		require.Equal(t, "# create the user builder\n# change the user builder: access key BUILDER\n# change the role deployer: trust\n", stdout)
		orcas(exitOK, "role update deployer --max-session 1h")
		orcas(exitOK, "account enable closed")
		orcas(exitOK, "policy detach readwrite --role deployer")
		stdout, _ = orcas(exitOK, "apply", path)
		require.Equal(t, "# change the account closed: disable\n# change the role deployer: max_session\n"+
			"# change the role deployer: attach the policy readwrite\n", stdout)

		second := filepath.Join(base, "second.yaml")
		write := func(text string) { require.NoError(t, os.WriteFile(second, []byte(text), 0o600)) }
		write("users: [{name: alice, tags: {team: blue}}]\nroles: [{name: deployer, tags: {cost: \"7\"}}]\n")
		stdout, _ = orcas(exitOK, "apply", second)
		require.Equal(t, "# change the user alice: tags\n# change the role deployer: tags\n", stdout)
		stdout, _ = orcas(exitOK, "apply", second)
		require.Equal(t, "# nothing to change\n", stdout)
		stdout, _ = orcas(exitOK, "apply", path)
		require.Equal(t, "# change the user alice: tags\n", stdout, "other tags stay")

		for text, says := range map[string]string{
			"accounts: [{name: a/b}]":                                                                  "is not valid",
			"accounts: [{name: '" + account + "'}]":                                                    "the default account cannot be disabled or deleted",
			"accounts: [{name: a, enabled: perhaps}]":                                                  "expected true or false",
			"users: [{name: carol, tags: [a]}]":                                                        "expected names with values, found a list",
			"users: [{name: carol, tags: {a: x, A: y}}]":                                               "keys are compared without case",
			"users: [{name: carol, access_keys: [{access_key: CAROL}]}]":                               "needs access_key and secret_file",
			"users: [{name: carol, access_keys: [{access_key: BUILDER, secret_file: backup.secret}]}]": "belongs to another identity",
			"users: [{name: carol, access_keys: [{access_key: CAROL, secret_file: store.yaml}]}]":      "the secret of the access key CAROL is not valid",
			"users: [{name: carol, access_keys: [{access_key: CAROL, secret_file: backup.secret}, {access_key: CAROL, secret_file: backup.secret}]}]": "belongs to another identity",
			"users: [{name: carol, inline_policies: [{name: p}]}]":                            "the document is too large, or is not made of",
			"users: [{name: carol, inline_policies: [{name: p/q, document: {}}]}]":            `the name "p/q" is not valid`,
			"groups: [{name: g, tags: {a: b}}]":                                               `unknown name "tags"`,
			"roles: [{name: r}]":                                                              "the role r needs users",
			"roles: [{name: r, users: [nobody]}]":                                             "unknown principal",
			"roles: [{name: r, users: [bob], trust: {Statement: []}}]":                        "found both",
			"roles: [{name: r, users: [bob], max_session: 13h}]":                              "from 1 to 12 hours",
			"roles: [{name: r, users: [bob], max_session: long}]":                             "max_session must be a duration",
			"roles: [{name: r, users: [bob], policies: [none]}]":                              `there is no policy "none"`,
			"roles: [{name: r, trust: {Statement: {Effect: Allow, Action: sts:AssumeRole}}}]": "role r: trust policy: statement 1",
			"roles: [{name: r, trust: {Statement: {Effect: Allow, Principal: {AWS: 'arn:aws:iam::" + account + ":role/later'}, Action: sts:AssumeRole}}}, {name: later, users: [bob]}]": "unknown principal",
		} {
			write(text)
			_, stderr := orcas(exitFailed, "apply", second)
			require.Contains(t, stderr, says, text)
			require.Equal(t, 1, strings.Count(stderr, "\n"))
			require.NotContains(t, stderr, theSecret)
		}
		stdout, _ = orcas(exitOK, "apply", path)
		require.Equal(t, "# nothing to change\n", stdout)
		require.NoFileExists(t, filepath.Join(data, server.BootstrapKeysFile))
	})
}

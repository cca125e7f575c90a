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
)

// TestRoleCommands creates, changes and deletes a role from the command line.
func TestRoleCommands(t *testing.T) {
	base := t.TempDir()
	data, file := filepath.Join(base, "data"), filepath.Join(base, "trust.json")
	write := func(principal, action string) {
		document := `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "` + principal + `"}, "Action": "` + action + `"}]}`
		require.NoError(t, os.WriteFile(file, []byte(document), 0o600))
	}
	serve(t, data, func(_ *s3.Client, address string) {
		orcas := func(status int, line string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin"}, strings.Fields(line)...), "--data", data, "--admin-address", address)...)
		}
		ok := func(line, says string) {
			t.Helper()
			stdout, _ := orcas(exitOK, line)
			require.Contains(t, stdout, says, line)
		}
		fails := func(status int, line, says string) {
			t.Helper()
			_, stderr := orcas(status, line)
			require.Contains(t, stderr, says, line)
		}
		show := func() (r admin.RoleInfo) {
			stdout, _ := orcas(exitOK, "role show Reader")
			require.NoError(t, json.Unmarshal([]byte(stdout), &r))
			return r
		}
		ok("user create alice", "was created")
		ok("user create bob", "was created")
		fails(exitFailed, "role create reader", "needs a trust policy")
		fails(exitFailed, "role create reader --user carol", "there is no user carol")
		fails(exitUsage, "role create reader --user alice --trust "+file, "--user")
		fails(exitFailed, "role create reader --trust "+file, "no such file")
		fails(exitFailed, "role create reader --user alice --max-session 13h", "from 1 to 12 hours")
		fails(exitFailed, "role create reader --user alice --max-session x", "max-session must be a duration")
		ok("role create reader --user alice --user Bob --description reads", "role reader was created: arn:aws:iam::")
		fails(exitFailed, "role create Reader --user alice", "there is already a role reader")
		first := show()
		require.Equal(t, 3600, first.MaxSession)
		require.Contains(t, string(first.Trust), ":user/alice")
		require.Contains(t, string(first.Trust), ":user/bob")

		ok("policy attach readonly --role reader", "policies of reader: readonly")
		fails(exitUsage, "policy attach readonly --role reader --user alice", "--user")
		fails(exitFailed, "policy attach readonly --role none", "there is no role none")
		ok("role list", "reader  readonly  1h0m0s          reads")
		ok("policy detach readonly --role reader", "policies of reader: -")

		write(strings.TrimSuffix(first.ARN, "role/reader")+"user/carol", "sts:AssumeRole")
		fails(exitFailed, "role update reader --trust "+file, "unknown principal")
		write("*", "s3:GetObject")
		fails(exitFailed, "role update reader --trust "+file, "statement 1, element Action, line 1")
		write("*", "sts:AssumeRole")
		ok("role update reader --trust "+file+" --max-session 12h", "role reader was changed")
		require.Contains(t, string(show().Trust), `"AWS": "*"`)
		require.Equal(t, 12*3600, show().MaxSession)
		require.Equal(t, "reads", show().Description)
		require.Equal(t, first.ID, show().ID)
		ok("role update reader --user bob --json", `"max_session_seconds": 43200`)
		fails(exitFailed, "role update none --user bob", "there is no role none")

		ok("role delete Reader", "role Reader was deleted")
		fails(exitFailed, "role delete reader", "there is no role reader")
		fails(exitFailed, "role show reader", "there is no role reader")
		ok("role list --json", `"roles": []`)
	})
}

package main

import (
	"bytes"
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

// TestUserCommands gives a user rights from the command line, by a policy and by a group, and takes them away.
func TestUserCommands(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	data, file := filepath.Join(base, "data"), filepath.Join(base, "policy.json")
	write := func(document string) { require.NoError(t, os.WriteFile(file, []byte(document), 0o600)) }
	serve(t, data, func(c *s3.Client, address string) {
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
		_, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("bucket")})
		require.NoError(t, err)
		ok("user create alice", "user alice was created: arn:aws:iam::")
		fails(exitFailed, "user create Alice", "there is already a user alice")
		fails(exitFailed, "user add-key bob", "there is no user bob")
		stdout, _ := orcas(exitOK, "user add-key alice --expires 90d --json")
		var k admin.UserKey
		require.NoError(t, json.Unmarshal([]byte(stdout), &k))
		alice := with(c, k.AccessKey, k.SecretKey)
		lists := func(want string) {
			t.Helper()
			_, err := alice.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: aws.String("bucket")})
			if want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, want)
			}
		}
		lists("AccessDenied")

		write(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListBucke", "Resource": "*"}]}`)
		fails(exitFailed, "policy put lister "+file, "statement 1, element Action, line 1")
		fails(exitFailed, "policy put lister "+file+".none", "no such file")
		write(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}]}`)
		ok("policy put lister "+file, "policy lister was written")
		fails(exitFailed, "policy put readonly "+file, "is built in")
		fails(exitUsage, "policy attach lister", "--user")
		fails(exitUsage, "policy attach lister --user alice --group team", "--user")
		fails(exitFailed, "policy attach none --user alice", "there is no policy none")
		ok("policy attach lister --user alice", "policies of alice: lister")
		lists("")
		fails(exitFailed, "policy delete lister", "attached, for example to the user alice")
		ok("policy list", "admin (built in)\nreadonly (built in)\nreadwrite (built in)\nwriteonly (built in)\nlister\n")
		ok("policy show lister", `"Action": "s3:ListBucket"`)
		ok("policy show readonly", `"s3:Get*"`)
		fails(exitFailed, "policy show none", "there is no policy none")
		ok("policy detach lister --user alice", "policies of alice: -")
		lists("AccessDenied")

		ok("group create team", "group team was created: arn:aws:iam::")
		ok("policy attach readonly --group team", "policies of team: readonly")
		ok("group add team alice", "groups of user alice: team")
		lists("")
		ok("user rename alice carol", "user alice was renamed to carol: arn:aws:iam::")
		ok("group rename team crew", "group team was renamed to crew: arn:aws:iam::")
		lists("")
		ok("user list", "carol  crew    -         "+k.AccessKey+" (enabled)")
		fails(exitFailed, "user rename alice bob", "there is no user alice")
		fails(exitFailed, "user rename carol a/b", "is not valid")
		ok("user create alice", "user alice was created")
		fails(exitFailed, "user rename carol Alice", "there is already a user alice")
		ok("user delete alice", "user alice was deleted")
		ok("user rename carol alice", "user carol was renamed to alice")
		ok("group rename crew team", "group crew was renamed to team")
		ok("group list", "team   readonly  alice")
		ok("user list", "alice  team    -         "+k.AccessKey+" (enabled)")
		fails(exitFailed, "group delete team", "has members")
		ok("group remove team alice", "groups of user alice: -")
		lists("AccessDenied")
		ok("group delete team", "group team was deleted")

		// A user with the policy admin administers the server, other users do not.
		as := func(args string) (status int, output string) {
			var out bytes.Buffer
			environ := []string{"AWS_ACCESS_KEY_ID=" + k.AccessKey, "AWS_SECRET_ACCESS_KEY=" + k.SecretKey}
			status = run(append(strings.Fields("admin "+args), "--admin-address", address), environ, &out, &out)
			return status, out.String()
		}
		for _, line := range []string{"user list", "user add-key alice", "policy attach admin --user alice", "key list", "reclaim"} {
			status, output := as(line)
			require.Equal(t, exitFailed, status)
			require.Contains(t, output, "permission for orcas:")
		}
		ok("policy attach admin --user alice", "policies of alice: admin")
		status, output := as("user list")
		require.Equal(t, exitOK, status, output)
		lists("")

		ok("user disable-key alice "+k.AccessKey, "(disabled)")
		lists("InvalidAccessKeyId")
		ok("user enable-key alice "+k.AccessKey, "(enabled)")
		lists("")
		ok("user delete-key alice "+k.AccessKey, "was deleted")
		lists("InvalidAccessKeyId")
		fails(exitFailed, "user delete-key alice "+k.AccessKey, "has no access key")
		ok("user delete alice", "user alice was deleted")
		ok("policy delete lister", "policy lister was deleted")
	})
}

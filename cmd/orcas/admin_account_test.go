package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"orcas/admin"
)

// TestAccountCommands creates an account from the command line, and uses its root.
func TestAccountCommands(t *testing.T) {
	data, ctx := filepath.Join(t.TempDir(), "data"), t.Context()
	serve(t, data, func(c *s3.Client, address string) {
		orcas := func(status int, line string) (stdout, stderr string) {
			return orcasExits(t, status, append(append([]string{"admin"}, strings.Fields(line)...), "--data", data, "--admin-address", address)...)
		}
		fails := func(status int, line, says string) {
			t.Helper()
			_, stderr := orcas(status, line)
			require.Contains(t, stderr, says, line)
		}
		made := func(line string) (a admin.AccountInfo) {
			t.Helper()
			stdout, _ := orcas(exitOK, line+" --json")
			require.NoError(t, json.Unmarshal([]byte(stdout), &a))
			return a
		}
		buckets := func(a admin.AccountInfo) error {
			_, err := with(c, a.AccessKey, a.SecretKey).ListBuckets(ctx, &s3.ListBucketsInput{})
			return err
		}
		fails(exitFailed, "account create a/b", "is not valid")
		first := made("account create tenant")
		require.NoError(t, buckets(first))
		_, err := with(c, first.AccessKey, first.SecretKey).CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("tenants")})
		require.NoError(t, err)
		fails(exitFailed, "account create Tenant", "there is already an account tenant")
		stdout, _ := orcas(exitOK, "account list")
		require.Contains(t, stdout, "(default)")
		require.Contains(t, stdout, "tenant")
		require.Contains(t, stdout, first.ID)
		require.Contains(t, stdout, first.AccessKey+" (enabled) used ")
		require.NotContains(t, stdout, first.SecretKey)
		for _, name := range []string{"TENANT", first.ID} {
			stdout, _ = orcas(exitOK, "account show "+name)
			require.Contains(t, stdout, `"canonical_id": "`+first.Canonical+`"`)
			require.NotContains(t, stdout, first.SecretKey)
		}
		fails(exitFailed, "account show none", "there is no account none")
		fails(exitFailed, "account rotate none", "there is no account none")
		fails(exitFailed, "account rotate tenant --overlap x", "overlap must be a duration")
		second := made("account rotate tenant --overlap 1d")
		require.NoError(t, buckets(first))
		require.NoError(t, buckets(second))
		stdout, _ = orcas(exitOK, "account rotate tenant")
		require.Contains(t, stdout, "# account tenant ("+first.ID+")")
		require.Contains(t, stdout, "export AWS_SECRET_ACCESS_KEY=")
		require.ErrorContains(t, buckets(first), "InvalidAccessKeyId")
		require.ErrorContains(t, buckets(second), "InvalidAccessKeyId")

		third := made("account rotate tenant")
		tenant := with(c, third.AccessKey, third.SecretKey)
		stdout, _ = orcas(exitOK, "account disable TENANT")
		require.Contains(t, stdout, "account tenant ("+first.ID+") is disabled")
		require.ErrorContains(t, buckets(third), "InvalidAccessKeyId")
		stdout, _ = orcas(exitOK, "account list")
		require.Regexp(t, "tenant +"+first.ID+" +disabled", stdout)
		stdout, _ = orcas(exitOK, "account enable tenant")
		require.Contains(t, stdout, "is enabled")
		require.NoError(t, buckets(third))
		fails(exitFailed, "account delete tenant", "the account tenant has 1 bucket (tenants): delete them first")
		require.NoError(t, buckets(third), "the account is enabled again")
		_, err = tenant.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: aws.String("tenants")})
		require.NoError(t, err)
		stdout, _ = orcas(exitOK, "account delete tenant")
		require.Equal(t, "account tenant was deleted\n", stdout)
		require.ErrorContains(t, buckets(third), "InvalidAccessKeyId")
		var all admin.AccountList
		stdout, _ = orcas(exitOK, "account list --json")
		require.NoError(t, json.Unmarshal([]byte(stdout), &all))
		require.Len(t, all.Accounts, 1)
		for _, line := range []string{"disable ", "enable ", "delete "} {
			fails(exitFailed, "account "+line+"tenant", "there is no account tenant")
			fails(exitFailed, "account "+line+all.Accounts[0].ID, "the default account cannot be disabled or deleted")
		}
		require.NotEqual(t, first.ID, made("account create tenant").ID)
	})
}

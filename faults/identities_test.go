package faults

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/faults/result"
	"orcas/internal/environ"
)

// identityMix returns a mixture in which some workers mostly change identities, and the others write small objects.
func identityMix() Mix {
	m := StandardMix()
	m.Versions, m.Ops = false, []Op{{"identity", 20, false, changeIdentity}, {"put-small", 1, false, putSmall}}
	return m
}

// TestIdentities changes users, groups, roles, policies, tags, application keys and accounts under load. Every
// acknowledged change must survive SIGKILL, a rebuild from the blocks, and a backup and its restoration, and what was
// deleted or revoked must not come back.
func TestIdentities(t *testing.T) {
	kills := count(t, "ORCAS_FAULTS_IDENTITIES", 3)
	row := result.Of(t, result.Row{Fault: "sigkill", Name: "SIGKILL while identities change, then a rebuild, a backup and a restore", Unit: "kills"})
	dir := workDir(t)
	b := newBench(t, buildServer(t, ""), dir, filepath.Join(dir, "data"), loadMax)
	b.Mix = identityMix()
	judge(t, b, b.Run(t.Context(), kills, Kill), kills, row)

	p := b.Server.(*Process)
	same := func(what string) {
		t.Helper()
		s := b.Run(t.Context(), 0, Kill) // starts the server and compares
		require.Empty(t, s.Violations, what)
		require.Zero(t, s.Uncertain, what)
		require.Greater(t, s.Identities, len(identityChanges), what)
	}
	same("a start")
	require.NoError(t, removeDatabase(p.Data))
	same("a rebuild")

	backups, restored := filepath.Join(dir, "backups"), filepath.Join(dir, "restored")
	_, err := p.Start(t.Context())
	require.NoError(t, err)
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), p.Binary, args...)
		cmd.Env = append(environ.Without("ORCAS_"), append(p.Always,
			"ORCAS_ROOT_ACCESS_KEY="+p.Credentials().AccessKey, "ORCAS_ROOT_SECRET_KEY="+p.Credentials().SecretKey)...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", args, out)
	}
	run("backup", backups, "--data", p.Data, "--admin-address", p.admin)
	require.NoError(t, p.Kill())
	run("restore", backups, "--data", restored)
	p.Data = restored
	same("a restore")
}

package perf

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// another returns a peer that runs this test binary as a server under another name.
func another(name, path, ready string) peer {
	return peer{name: name, flag: "--another", path: path, version: []string{"-test.list=^$"}, ready: ready,
		command: func(address, dir string, _ loadgen.Keys) (args, env []string, err error) {
			return []string{"server", "--data", filepath.Join(dir, "data"), "--address", address}, nil, nil
		}}
}

// TestPeers compares ORCAS with another server. Of the other peers, one cannot be started, and the known ones have no
// program. The run leaves no files behind.
func TestPeers(t *testing.T) {
	o := tiny(t, "peers")
	o.Peers.more = []peer{another("Another", o.Program, "/-/health/ready"), another("Absent", filepath.Join(o.Dir, "missing"), "/")}
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	empty(t, o.Dir)
	s := doc.Scenarios[0]
	servers := map[string]result.Server{}
	for _, server := range s.Servers {
		servers[server.Name] = server
	}
	require.Len(t, servers, 7)
	require.Equal(t, "no program was given (--minio)", servers["MinIO"].Missing)
	require.Equal(t, "no program was given (--versitygw)", servers["Versity S3 Gateway"].Missing)
	require.Equal(t, "no program was given (--weed)", servers["SeaweedFS"].Missing)
	require.Contains(t, servers["Absent"].Missing, "no such file")
	require.Equal(t, "stores nothing", servers["null server"].Durability)
	for _, name := range []string{"ORCAS", "Another"} {
		server := servers[name]
		require.Empty(t, server.Missing, name)
		require.Greater(t, *server.BytesPerObject, 4096.0)
		require.Positive(t, *server.FilesPerObject)
		require.Positive(t, *server.PeakRSS)
		require.Positive(t, *server.StartAfterCrash)
		if server.SyncsPerPut == nil {
			require.Contains(t, server.Durability, "strace")
		} else {
			require.InDelta(t, 1, *server.SyncsPerPut, 0.5)
			require.Contains(t, server.Durability, "synced: 1 sync")
		}
	}
	// Every server was given the same loads as the null server.
	var loads []string
	for _, row := range s.Results {
		sensible(t, "peers", &row)
		if row.Null() {
			loads = append(loads, row.Operation+sizeText(row.SizeBytes))
		}
	}
	require.Equal(t, []string{"put4 KiB", "put4 KiB", "get4 KiB", "put10 MiB", "get10 MiB", "list0 B"}, loads)
	for _, name := range []string{"ORCAS", "Another"} {
		var own []string
		for _, row := range s.Results {
			if row.Variant == name {
				own = append(own, row.Operation+sizeText(row.SizeBytes))
			}
		}
		require.Equal(t, loads, own, name)
	}
}

// TestPeerCommands: each peer gets an address on the loopback interface, its directory and the credentials, and never
// uses a default port.
func TestPeerCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, p := range (Peers{MinIO: "a", VersityGW: "b", SeaweedFS: "c"}).list() {
		args, env, err := p.command("127.0.0.1:12345", dir, loadgen.Keys{Access: "access-key", Secret: "secret-key"})
		require.NoError(t, err)
		line := strings.Join(args, " ")
		require.Contains(t, line, "12345", p.name)
		require.Contains(t, line, dir, p.name)
		all := line + strings.Join(env, " ")
		if p.name == "SeaweedFS" {
			config, err := os.ReadFile(dir + ".s3.json")
			require.NoError(t, err)
			all += string(config)
		}
		require.Contains(t, all, "access-key", p.name)
		require.Contains(t, all, "secret-key", p.name)
		require.NotContains(t, line, "secret-key", "%s: other users can see the arguments of a process", p.name)
		for _, arg := range args {
			if host, port, err := net.SplitHostPort(arg); err == nil {
				require.Equal(t, "127.0.0.1", host)
				require.False(t, slices.Contains([]string{"9000", "9001", "7070", "8333"}, port))
			}
		}
	}
}

// TestSyncsIn: a call that strace splits into two lines counts once, and so does opening a file for synchronous writes
// (O_DSYNC).
func TestSyncsIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join([]string{
		`12 fdatasync(7) = 0`, `13 fsync(8 <unfinished ...>`, `13 <... fsync resumed>) = 0`, `12 openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_DSYNC|O_CLOEXEC, 0644) = 9`,
		`12 openat(AT_FDCWD, "b", O_RDONLY|O_CLOEXEC) = 9`, `+++ exited with 0 +++`, ``,
	}, "\n")), 0o600))
	n, err := syncsIn(file)
	require.NoError(t, err)
	require.Equal(t, 3, n)
	for syncs, want := range map[float64]string{0: "not synced", 0.02: "not synced", 0.5: "not always synced (0.5 syncs", 1: "synced: 1 sync ", 2: "synced: 2 syncs ", 2.5: "synced: 2.5 syncs "} {
		require.True(t, strings.HasPrefix(durabilityOf(syncs), want), durabilityOf(syncs))
	}
}

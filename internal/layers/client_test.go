package layers

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// storeSide are the packages that a client cannot have: the store with its drivers, and what measures and breaks
// servers. A name that ends with "/" covers the packages below it.
var storeSide = []string{
	"orcas/server", "orcas/core/sqlite", "orcas/core/cached", "orcas/core/observed", "orcas/core/disk", "orcas/core/mem", "orcas/internal/durable",
	"orcas/internal/memlimit", "orcas/backup", "orcas/audit", "orcas/console", "orcas/iam", "orcas/metrics", "orcas/perf", "orcas/perf/", "orcas/faults",
	"orcas/faults/", "orcas/storetest", "database/sql", "github.com/mattn/go-sqlite3", "github.com/hanwen/go-fuse/", "github.com/prometheus/",
}

// unwantedInClient returns the packages of orcas for a system that a client must not have, and whether the build
// contains C.
func unwantedInClient(t *testing.T, system, cgo string) (unwanted []string, c bool) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{len .CgoFiles}}", "orcas/cmd/orcas")
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo, "GOOS="+system, "GOARCH=arm64")
	out, err := cmd.Output()
	require.NoError(t, err)
	for line := range strings.Lines(string(out)) {
		name, files, _ := strings.Cut(strings.TrimSpace(line), " ")
		c = c || files != "0" || name == "runtime/cgo"
		covers := func(pattern string) bool {
			return name == pattern || strings.HasSuffix(pattern, "/") && strings.HasPrefix(name, pattern)
		}
		if slices.ContainsFunc(storeSide, covers) || system == "windows" && name == "golang.org/x/sys/unix" {
			unwanted = append(unwanted, name)
		}
	}
	return unwanted, c
}

// TestClientHasNoStore: without cgo, or on Windows, orcas has the commands of the client only. It needs no C compiler,
// and it contains neither the store nor system calls that Windows does not have.
func TestClientHasNoStore(t *testing.T) {
	for _, system := range []string{"linux", "darwin", "windows"} {
		unwanted, c := unwantedInClient(t, system, "0")
		require.Empty(t, unwanted, system)
		require.False(t, c, system)
	}
	unwanted, _ := unwantedInClient(t, "windows", "1")
	require.Empty(t, unwanted)
	for _, system := range []string{"linux", "darwin"} {
		unwanted, c := unwantedInClient(t, system, "1")
		require.Contains(t, unwanted, "orcas/server", "a build with cgo has the server, and the check must find it")
		require.True(t, c, system)
	}
}

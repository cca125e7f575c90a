package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForeignDirectoryIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"a file":            func(dir string) error { return os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600) },
		"a directory":       func(dir string) error { return os.Mkdir(filepath.Join(dir, ".ssh"), 0o700) },
		"an old lock file":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "LOCK.old"), nil, 0o600) },
		"a copied database": func(dir string) error { return os.WriteFile(filepath.Join(dir, "metadata.db.bak"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t)
			require.NoError(t, os.Mkdir(config.Data, 0o700))
			require.NoError(t, prepare(config.Data))
			before := names(t, config.Data)
			_, err := Open(context.Background(), config)
			require.ErrorContains(t, err, config.Data+" is not empty and is not an ORCAS data directory (it contains "+before[0])
			require.Equal(t, before, names(t, config.Data), "the directory must not change")
		})
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// TestUsableDirectoryIsAccepted: an empty directory, a fresh file system, the files of a killed first start, and a
// store with other files beside it.
func TestUsableDirectoryIsAccepted(t *testing.T) {
	write := func(dir string, files ...string) error {
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				return err
			}
		}
		return nil
	}
	for name, prepare := range map[string]func(dir string) error{
		"empty":             func(string) error { return nil },
		"fresh file system": func(dir string) error { return os.Mkdir(filepath.Join(dir, "lost+found"), 0o700) },
		"killed start":      func(dir string) error { return write(dir, "LOCK", "STORE.new", "self-signed.key.new") },
		"a store": func(dir string) error {
			config := testConfig(t)
			config.Data = dir
			s, err := Open(context.Background(), config)
			if err == nil {
				err = s.Close()
			}
			if err == nil {
				err = write(dir, "notes.txt")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(t)
			require.NoError(t, os.Mkdir(config.Data, 0o700))
			require.NoError(t, prepare(config.Data))
			s, err := Open(context.Background(), config)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		})
	}
}

// TestUnwritableDirectory runs as another user, since root can write everywhere.
func TestUnwritableDirectory(t *testing.T) {
	if os.Getenv("ORCAS_TEST_UNWRITABLE") != "" {
		_, err := checkDataDirectory(os.Getenv("ORCAS_TEST_UNWRITABLE"))
		fmt.Println(err)
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	if os.Geteuid() != 0 {
		_, err := checkDataDirectory(dir)
		require.ErrorContains(t, err, "permission denied")
		return
	}
	const nobody = 65534
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	program := filepath.Join(dir, "test")
	text, err := os.ReadFile(os.Args[0])
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o755))
	cmd := exec.Command(program, "-test.run", "^TestUnwritableDirectory$")
	cmd.Dir, cmd.Env = "/", append(os.Environ(), "ORCAS_TEST_UNWRITABLE="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("permission denied: it belongs to user 0 (mode 0555), but the server runs as user %d: run chown -R %[1]d %s", nobody, dir))
}

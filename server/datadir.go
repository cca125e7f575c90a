package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"orcas/core"
)

// storeFile is the file of the disk driver that identifies a data directory.
const storeFile = "STORE"

// ownNames are the names of the files and directories that ORCAS creates in a data directory. If the first start is
// killed, some of them may exist without storeFile.
var ownNames = []string{
	"LOCK", storeFile, "spare", "blocks", databaseFile, databaseFile + logSuffix, databaseFile + indexSuffix,
	CredentialsFile, IdentityKeyFile, selfSignedCert, selfSignedKey, AdminCertificateFile, adminSignedKey, BootstrapKeysFile, MetricsFile,
}

// checkDataDirectory reports whether dir contains a store. It returns an error if a store cannot be opened or created
// there, because dir is not a directory, is not accessible, or is used for something else. It changes nothing.
func checkDataDirectory(dir string) (exists bool, err error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("--data: %w", err)
	}
	if !info.IsDir() {
		return false, fmt.Errorf("--data: %s is a file: expected a directory", dir)
	}
	if err := unix.Access(dir, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return false, fmt.Errorf("--data: %s: %w%s", dir, err, accessHint(dir, info, err))
	}
	if _, err := os.Lstat(filepath.Join(dir, storeFile)); err == nil {
		return true, nil
	}
	return false, checkEmpty(dir)
}

// checkEmpty returns an error if a directory contains files that ORCAS did not create.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	var foreign []string
	for _, e := range entries {
		if name := e.Name(); name != "lost+found" && !slices.Contains(ownNames, strings.TrimSuffix(name, ".new")) {
			foreign = append(foreign, name)
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	some := strings.Join(foreign[:min(3, len(foreign))], ", ")
	if more := len(foreign) - 3; more > 0 {
		some += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Errorf("--data: %s is not empty and is not an ORCAS data directory (it contains %s): use an empty or a new directory, such as %s",
		dir, some, filepath.Join(dir, "orcas"))
}

// accessHint returns advice on a data directory that this process cannot access.
func accessHint(dir string, info fs.FileInfo, err error) string {
	owner, known := ownerOf(info)
	switch {
	case errors.Is(err, unix.EROFS):
		return ": remount it read-write, or use another directory"
	case errors.Is(err, fs.ErrPermission) && known:
		return fmt.Sprintf(": it belongs to user %d (mode %04o), but the server runs as user %d: run chown -R %d %s, or use another directory",
			owner, info.Mode().Perm(), os.Geteuid(), os.Geteuid(), shellQuote(dir))
	}
	return ""
}

// ownerOf returns the user ID of the owner of a file, and whether the operating system reports it.
func ownerOf(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// describeOpen adds the path that could not be opened to an error, and what to do about it. If the directory is locked,
// the error already contains both.
func describeOpen(path string, err error) error {
	switch {
	case core.Is(err, core.Busy):
		return err
	case errors.Is(err, fs.ErrPermission):
		dir := filepath.Dir(path)
		if info, statErr := os.Stat(path); statErr == nil && info.IsDir() {
			dir = path
		}
		return fmt.Errorf("%s: %w: the process runs as user %d, but everything in the data directory must belong to that user: "+
			"run chown -R %[3]d %[4]s", path, err, os.Geteuid(), shellQuote(dir))
	}
	return fmt.Errorf("%s: %w", path, err)
}

// needStore returns an error if a directory does not contain a store.
func needStore(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("--data: %s is a file: expected a data directory", dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("--data: there is no directory %s", dir)
	case err != nil:
		return fmt.Errorf("--data: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, storeFile)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--data: %s is not an ORCAS data directory: it has no file %s", dir, storeFile)
	} else if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	return nil
}

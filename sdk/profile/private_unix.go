//go:build unix

package profile

import (
	"fmt"
	"io/fs"
)

// checkPrivate returns an error if others than its owner can read or change a file.
func checkPrivate(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has mode %04o, but it contains secret keys: run chmod 600 %[1]s, so that only its owner can read it", path, info.Mode().Perm())
	}
	return nil
}

//go:build !unix

package sdk

import (
	"io/fs"
	"os"
)

// noFollow is nothing: a symbolic link in the place of a temporary file needs the privileges of an administrator.
const noFollow = 0

// fileNumber returns "": the path, the size and the time of modification have to be enough.
func fileNumber(fs.FileInfo) string { return "" }

// syncDir does nothing: the system writes a renamed file's directory entry by itself.
func syncDir(string) error { return nil }

func syncOpenDir(*os.File) error { return nil }

//go:build !unix

package profile

import "io/fs"

// checkPrivate does nothing: the directory of a user's settings is private, and there are no modes.
func checkPrivate(string, fs.FileInfo) error { return nil }

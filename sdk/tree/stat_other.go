//go:build !unix

package tree

import "os"

// stat reads the attributes of an entry. A symbolic link is followed only inside the directory.
func (l *local) stat(e *entry, follow bool) error {
	info, err := l.root.Lstat(e.name())
	if err != nil {
		return err
	}
	if follow && info.Mode()&os.ModeSymlink != 0 {
		return l.statLink(e)
	}
	setInfo(e, info)
	return nil
}

// setOwner does nothing: files have no numbers of owners on this system.
func setOwner(*entry, os.FileInfo) {}

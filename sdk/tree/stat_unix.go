//go:build unix

package tree

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stat reads the attributes of an entry. A symbolic link is followed only inside the directory.
func (l *local) stat(e *entry, follow bool) error {
	var st unix.Stat_t
	name := e.name()
	for {
		err := unix.Fstatat(int(l.fd.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "lstat", Path: l.path(name), Err: err}
		}
		break
	}
	if follow && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return l.statLink(e)
	}
	e.size, e.modified = st.Size, st.Mtim.Nano()
	e.mode = fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		e.mode |= fs.ModeDir
	case unix.S_IFLNK:
		e.mode |= fs.ModeSymlink
	case unix.S_IFREG:
	default:
		e.mode |= fs.ModeIrregular
	}
	e.owner, e.group, e.owned = st.Uid, st.Gid, true
	return nil
}

// setOwner copies the owner of a file to the entry.
func setOwner(e *entry, info os.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		e.owner, e.group, e.owned = st.Uid, st.Gid, true
	}
}

package tree

import "os"

// statLink reads the attributes of the file that a symbolic link leads to. It fails if that is not below the directory.
func (l *local) statLink(e *entry) error {
	info, err := l.root.Stat(e.name())
	if err != nil {
		return err
	}
	setInfo(e, info)
	return nil
}

// setInfo copies the attributes of a file to the entry.
func setInfo(e *entry, info os.FileInfo) {
	e.size, e.modified = info.Size(), info.ModTime().UnixNano()
	e.mode = info.Mode() & (os.ModeType | os.ModePerm)
	setOwner(e, info)
}

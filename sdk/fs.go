package sdk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// FS returns the objects of a bucket below a prefix as a read-only file system. The prefix is that of the keys; a "/"
// is added to it unless it is empty or ends with one. The requests of the file system use ctx.
//
// The result implements fs.ReadDirFS, fs.ReadFileFS, fs.StatFS and fs.SubFS. Files implement io.Seeker and io.ReaderAt.
// A file that was opened reads one version: if the object is replaced, reads fail with ErrPreconditionFailed. A file
// that is read from its beginning to its end is verified; Info.Sys returns the *Info of the object.
//
// Keys and paths are not the same, so some objects are not in the file system:
//   - If there are keys "a" and "a/b", then "a" is a directory, and the object "a" is left out.
//   - Keys with an element that is empty, "." or "..", such as "a//b" and "../a", and those with a backslash or invalid
//     UTF-8, are left out, because they are not valid names of files. A key "a/" makes "a" a directory.
//
// A directory exists as long as it contains a key. The root always exists, also if the bucket does not; reading it then
// fails with fs.ErrNotExist.
func (c *Client) FS(ctx context.Context, bucket, prefix string) fs.FS {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return &objectFS{ctx: ctx, client: c, bucket: bucket, prefix: prefix}
}

type objectFS struct {
	ctx    context.Context
	client *Client
	bucket string
	prefix string // "" or with a "/" at the end
}

var (
	_ fs.ReadDirFS  = (*objectFS)(nil)
	_ fs.ReadFileFS = (*objectFS)(nil)
	_ fs.StatFS     = (*objectFS)(nil)
	_ fs.SubFS      = (*objectFS)(nil)
)

// Open implements fs.FS.
func (f *objectFS) Open(name string) (fs.File, error) {
	info, err := f.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return &dirFile{fs: f, name: name, info: info}, nil
	}
	return &objectFile{fs: f, name: name, info: info}, nil
}

// Stat implements fs.StatFS.
func (f *objectFS) Stat(name string) (fs.FileInfo, error) {
	info, err := f.stat("stat", name)
	if err != nil {
		return nil, err
	}
	return info, nil
}

// readFileMax is the size of the largest file for which ReadFile allocates a buffer before it has content, in bytes.
const readFileMax = 16 << 20

// ReadFile implements fs.ReadFileFS. The content is verified.
func (f *objectFS) ReadFile(name string) ([]byte, error) {
	info, err := f.stat("readfile", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, pathError("readfile", name, errIsDir)
	}
	file := objectFile{fs: f, name: name, info: info}
	defer file.Close()
	buf := make([]byte, 0, min(info.size, readFileMax)+1) // no more than that because of what a server claims
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := file.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}

// Sub implements fs.SubFS. The directory need not exist.
func (f *objectFS) Sub(dir string) (fs.FS, error) {
	if !fs.ValidPath(dir) {
		return nil, pathError("sub", dir, fs.ErrInvalid)
	}
	if dir == "." {
		return f, nil
	}
	sub := *f
	sub.prefix += dir + "/"
	return &sub, nil
}

// ReadDir implements fs.ReadDirFS. All names of the directory are held in memory.
func (f *objectFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !validName(name) {
		return nil, pathError("readdir", name, fs.ErrInvalid)
	}
	prefix := f.dirPrefix(name)
	entries, files, any := []fs.DirEntry{}, map[string]int{}, false
	for e, err := range f.client.List(f.ctx, f.bucket, &ListOptions{Prefix: prefix, Delimiter: "/"}) {
		if err != nil {
			return nil, pathError("readdir", name, err)
		}
		any = true
		full := e.Prefix
		if full == "" {
			full = e.Key
		}
		base := strings.TrimPrefix(full, prefix)
		isDir := e.Prefix != ""
		base = strings.TrimSuffix(base, "/")
		if !isDir && strings.HasSuffix(full, "/") || base == "." || !validName(base) {
			continue // the key of the directory itself, or a name that files cannot have
		}
		if i, exists := files[base]; exists { // "a" is listed before "a/"
			entries[i] = fs.FileInfoToDirEntry(&fileInfo{name: base, dir: true})
			continue
		}
		info := &fileInfo{name: base, dir: isDir}
		if !isDir {
			info = newFileInfo(base, &e.Info)
			files[base] = len(entries)
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	if !any && name != "." {
		if _, err := f.stat("readdir", name); err != nil {
			return nil, err
		}
		return nil, pathError("readdir", name, errNotDir)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// dirPrefix returns the prefix of the keys in a directory.
func (f *objectFS) dirPrefix(name string) string {
	if name == "." {
		return f.prefix
	}
	return f.prefix + name + "/"
}

// validName reports whether a path can be in the file system.
func validName(name string) bool { return fs.ValidPath(name) && !strings.Contains(name, `\`) }

// stat looks for a directory and for an object at the same time. The directory has precedence.
func (f *objectFS) stat(op, name string) (*fileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, pathError(op, name, fs.ErrInvalid)
	}
	if name == "." {
		return &fileInfo{name: ".", dir: true}, nil
	}
	if !validName(name) {
		return nil, pathError(op, name, fs.ErrNotExist)
	}
	var wg sync.WaitGroup
	var info *Info
	var headErr error
	wg.Go(func() { info, headErr = f.client.Head(f.ctx, f.bucket, f.prefix+name, nil) })
	isDir, listErr := f.isDir(name)
	wg.Wait()
	switch {
	case listErr != nil:
		return nil, pathError(op, name, listErr)
	case isDir:
		return &fileInfo{name: path.Base(name), dir: true}, nil
	case headErr != nil:
		return nil, pathError(op, name, headErr)
	}
	return newFileInfo(path.Base(name), info), nil
}

// isDir reports whether there is a key below a path.
func (f *objectFS) isDir(name string) (bool, error) {
	for _, err := range f.client.List(f.ctx, f.bucket, &ListOptions{Prefix: f.dirPrefix(name), PageSize: 1}) {
		return err == nil, err
	}
	return false, nil
}

var (
	errIsDir  = errors.New("is a directory")
	errNotDir = errors.New("not a directory")
)

// pathError returns the error of an operation on a path. It is one of those of io/fs if there is one for the cause.
func pathError(op, name string, err error) error {
	switch {
	case errors.Is(err, ErrNoSuchKey), errors.Is(err, ErrNoSuchVersion), errors.Is(err, ErrNoSuchBucket):
		err = &fsError{fs.ErrNotExist, err}
	case errors.Is(err, ErrAccessDenied):
		err = &fsError{fs.ErrPermission, err}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// fsError is an error of the server that is also one of io/fs.
type fsError struct{ kind, err error }

func (e *fsError) Error() string   { return e.err.Error() }
func (e *fsError) Unwrap() []error { return []error{e.kind, e.err} }

// fileInfo describes a file or a directory.
type fileInfo struct {
	name     string
	dir      bool
	size     int64
	modified time.Time
	object   *Info
}

// newFileInfo describes an object. Listings have times in milliseconds and responses to HEAD in seconds, so it uses
// seconds.
func newFileInfo(name string, o *Info) *fileInfo {
	return &fileInfo{name: name, size: o.Size, modified: o.LastModified.Truncate(time.Second), object: o}
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.size }
func (i *fileInfo) ModTime() time.Time { return i.modified }
func (i *fileInfo) IsDir() bool        { return i.dir }

// Mode returns read permissions, because the file system cannot be written.
func (i *fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// Sys returns the *Info of an object, and nil for a directory.
func (i *fileInfo) Sys() any {
	if i.object == nil {
		return nil
	}
	return i.object
}

// dirFile is an open directory.
type dirFile struct {
	fs     *objectFS
	name   string
	info   *fileInfo
	loaded bool
	rest   []fs.DirEntry // what ReadDir has not returned yet
	closed bool
}

func (d *dirFile) Stat() (fs.FileInfo, error) {
	if d.closed {
		return nil, pathError("stat", d.name, fs.ErrClosed)
	}
	return d.info, nil
}

func (d *dirFile) Read([]byte) (int, error) { return 0, pathError("read", d.name, errIsDir) }

func (d *dirFile) Close() error {
	if d.closed {
		return pathError("close", d.name, fs.ErrClosed)
	}
	d.closed, d.rest = true, nil
	return nil
}

// ReadDir implements fs.ReadDirFile.
func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	if d.closed {
		return nil, pathError("readdir", d.name, fs.ErrClosed)
	}
	if !d.loaded {
		entries, err := d.fs.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.loaded, d.rest = true, entries
	}
	if n <= 0 {
		out := d.rest
		d.rest = nil
		return out, nil
	}
	if len(d.rest) == 0 {
		return nil, io.EOF
	}
	out := d.rest[:min(n, len(d.rest))]
	d.rest = d.rest[len(out):]
	return out, nil
}

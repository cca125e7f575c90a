package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"orcas/sdk"
)

// linkMax is the length of the longest path that a symbolic link can have, in bytes.
const linkMax = 4096

// downloadParallel is the size in bytes from which an object is downloaded in several ranges at the same time.
const downloadParallel = 2 * partUsual

// download downloads an object to a file or a link, or creates a directory.
func (w *worker) download(ctx context.Context, t *task) {
	received, err := w.receive(ctx, t)
	if received > 0 {
		w.reporter.count(received, 0)
	}
	w.finish(ctx, t, 0, err)
}

func (w *worker) receive(ctx context.Context, t *task) (int64, error) {
	if t.mkdir {
		return 0, w.makeDirectory(ctx, t)
	}
	dir, name, err := w.parent(t.targetName(w.engine))
	if err != nil {
		return 0, err
	}
	if t.from.size > downloadParallel {
		return w.receiveLarge(ctx, t, dir, name)
	}
	object, err := w.from.client.Get(ctx, w.from.bucket, w.from.prefix+t.from.path, &sdk.GetOptions{CustomerKey: w.customerKey(&w.from)})
	if err != nil {
		return 0, err
	}
	defer object.Close()
	attributes := readAttributes(object.Metadata)
	if w.options.Symlinks == StoreSymlinks && (strings.HasSuffix(t.from.path, linkSuffix) || attributes.isLink()) {
		return w.receiveLink(object, dir, name)
	}
	temp := tempName()
	f, err := dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return 0, err
	}
	buf := copyBuffers.Get().(*[copyBufferSize]byte)
	n, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{object}, buf[:])
	copyBuffers.Put(buf)
	return n, w.complete(t, dir, f, temp, name, attributes, err)
}

// complete gives a file that was written its attributes and its name. After an error it removes the file. err is that of
// writing it.
func (w *worker) complete(t *task, dir *os.Root, f *os.File, temp, name string, a attributes, err error) error {
	if err == nil {
		err = w.setMode(t, f, a)
	}
	if err == nil && w.options.Durable {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		modified := w.modified(t, a)
		err = dir.Chtimes(temp, modified, modified)
	}
	if err == nil {
		err = dir.Rename(temp, name)
	}
	if err != nil {
		_ = dir.Remove(temp) // the first error counts
		return err
	}
	if w.options.Durable {
		return syncDir(dir)
	}
	return nil
}

// setMode sets the permissions and the owner of a file: the recorded ones, or those of the file that it replaces.
func (w *worker) setMode(t *task, f *os.File, a attributes) error {
	if !w.options.Preserve {
		if t.exists && t.to.mode.IsRegular() && t.path == t.from.path {
			return f.Chmod(t.to.mode.Perm())
		}
		return nil
	}
	if a.owner >= 0 && a.group >= 0 && os.Geteuid() == 0 {
		if err := f.Chown(a.owner, a.group); err != nil {
			return err
		}
	}
	if a.mode&unixType == unixRegular || a.mode != 0 && a.mode&unixType == 0 {
		return f.Chmod(fs.FileMode(a.mode & 0o777))
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// receiveLink creates a symbolic link whose path is the content of an object. Where it leads to does not matter:
// nothing is ever written through it.
func (w *worker) receiveLink(object *sdk.Object, dir *os.Root, name string) (int64, error) {
	target, err := io.ReadAll(io.LimitReader(object, linkMax+1))
	switch {
	case err != nil:
		return int64(len(target)), err
	case len(target) > linkMax || len(target) == 0 || strings.IndexByte(string(target), 0) >= 0:
		return int64(len(target)), fmt.Errorf("the object is not a symbolic link: its content is not a path")
	}
	temp := tempName()
	if err := dir.Symlink(string(target), temp); err != nil {
		return int64(len(target)), err
	}
	if err := dir.Rename(temp, name); err != nil {
		_ = dir.Remove(temp) // the first error counts
		return int64(len(target)), err
	}
	return int64(len(target)), nil
}

// makeDirectory creates a directory that a bucket has an object for.
func (w *worker) makeDirectory(ctx context.Context, t *task) error {
	dir := strings.TrimSuffix(t.path, "/")
	var a attributes
	if w.options.Preserve {
		info, err := w.from.client.Head(ctx, w.from.bucket, w.from.prefix+t.from.path, &sdk.GetOptions{CustomerKey: w.customerKey(&w.from)})
		if err != nil {
			return err
		}
		a = readAttributes(info.Metadata)
	}
	root, err := w.toLocal.openDir(dir)
	if err != nil {
		return err
	}
	if w.options.Preserve && a.mode&unixType == unixDirectory {
		w.directories.add(dir, a)
	}
	return root.Close()
}

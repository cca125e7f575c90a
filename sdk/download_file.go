package sdk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// DownloadFile is Download for a file. The content is written to a temporary file beside path, verified, and made
// durable; only then does the file at path appear, or is replaced. If path is a symbolic link, the link is replaced, not
// what it points to. After an error the temporary file is removed, unless a StateFile keeps the download for later.
func (c *Client) DownloadFile(ctx context.Context, bucket, key, path string, o *DownloadOptions) (*Transferred, error) {
	if o == nil {
		o = &DownloadOptions{}
	}
	d := c.newDownload(bucket, key, o)
	t := &Transferred{}
	to := &target{root: o.Root, path: path}
	err := to.check()
	if err == nil {
		err = d.look(ctx)
	}
	if err == nil {
		err = d.file(ctx, to)
	}
	return d.result(t), err
}

// target is the file that a download writes.
type target struct {
	root *os.Root // nil: path is one of the system
	path string
}

// check returns an error if no file can be at the path, before anything is transferred.
func (t *target) check() error {
	lstat := os.Lstat
	if t.root != nil {
		lstat = t.root.Lstat
	}
	info, err := lstat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return &fs.PathError{Op: "download", Path: t.path, Err: errIsDir}
	}
	return nil
}

// beside returns the path of a file in the same directory.
func (t *target) beside(name string) string { return filepath.Join(filepath.Dir(t.path), name) }

func (t *target) open(path string, flag int) (*os.File, error) {
	if t.root != nil {
		return t.root.OpenFile(path, flag, 0o666)
	}
	return os.OpenFile(path, flag, 0o666)
}

func (t *target) remove(path string) error {
	if t.root != nil {
		return t.root.Remove(path)
	}
	return os.Remove(path)
}

func (t *target) rename(from string) error {
	if t.root != nil {
		return t.root.Rename(from, t.path)
	}
	return os.Rename(from, t.path)
}

// syncDir makes the name of the file durable.
func (t *target) syncDir() error {
	if t.root == nil {
		return syncDir(filepath.Dir(t.path))
	}
	d, err := t.root.Open(filepath.Dir(t.path))
	if err != nil {
		return err
	}
	return errors.Join(syncOpenDir(d), d.Close())
}

// file reads the object into the temporary file, and gives that its name.
func (d *downloader) file(ctx context.Context, to *target) error {
	f, temp, err := d.openTemp(to)
	if err != nil {
		return err
	}
	err = d.fill(ctx, f)
	if err == nil && !d.o.NoSync {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close()) // before the renaming, which Windows refuses for open files
	if err == nil {
		err = to.rename(temp)
	}
	if err != nil {
		return errors.Join(err, d.giveUp(to, temp, err))
	}
	if d.o.StateFile != "" {
		if err := os.Remove(d.o.StateFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if d.o.NoSync {
		return nil
	}
	return to.syncDir()
}

// fill writes the content to the temporary file.
func (d *downloader) fill(ctx context.Context, f *os.File) error {
	if d.info != nil {
		if err := d.setSize(f); err != nil {
			return err
		}
	}
	return d.run(ctx, f)
}

// setSize gives the temporary file the size of the object. A file of an earlier download may be longer or shorter.
func (d *downloader) setSize(f *os.File) error {
	if d.o.Preallocate && d.info.Size > 0 {
		if err := allocate(f, d.info.Size); err != nil {
			return &fs.PathError{Op: "allocate", Path: f.Name(), Err: err}
		}
	}
	return f.Truncate(d.info.Size)
}

// openTemp opens the temporary file: that of an earlier download if it can be continued, otherwise a new one.
func (d *downloader) openTemp(to *target) (*os.File, string, error) {
	if d.o.StateFile != "" {
		f, temp, err := d.resume(to)
		if f != nil || err != nil {
			return f, temp, err
		}
	}
	name := tempName()
	temp := to.beside(name)
	f, err := to.open(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, "", err
	}
	d.temp = f
	if d.o.StateFile == "" || !d.parted {
		return f, temp, nil
	}
	s := d.newState()
	s.Temp = name
	if err := s.save(d.o.StateFile); err != nil {
		return nil, "", errors.Join(err, f.Close(), to.remove(temp))
	}
	d.state = newStateKeeper(d.o.StateFile, s)
	return f, temp, nil
}

func (d *downloader) newState() *transferState {
	s := &transferState{Version: stateVersion, Kind: stateDownload, Endpoint: d.c.Endpoint(), Bucket: d.bucket, Key: d.key, Parts: []statePart{}}
	if d.parted {
		s.PartSize, s.Algorithm = d.plan.partSize, d.verifier.sum().Name()
		s.ETag, s.VersionID, s.Size = d.info.ETag, d.info.VersionID, d.info.Size
	}
	return s
}

// resume opens the temporary file of an earlier download. If that was of another object, or of another state of it, it
// removes the file and returns none.
func (d *downloader) resume(to *target) (*os.File, string, error) {
	want := d.newState()
	s, err := loadState(d.o.StateFile, want)
	if err != nil || s == nil {
		return nil, "", err
	}
	temp := to.beside(s.Temp)
	if s.ETag == want.ETag && s.VersionID == want.VersionID && s.Size == want.Size && s.PartSize == want.PartSize && s.Algorithm == want.Algorithm {
		if f, err := to.open(temp, os.O_RDWR|noFollow); err == nil {
			known := *s
			known.Parts = slices.Clone(s.Parts)
			d.temp, d.known = f, &known
			d.state = newStateKeeper(d.o.StateFile, s)
			return f, temp, nil
		}
	}
	if err := to.remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("sdk: cannot remove the file of an earlier download: %w", err)
	}
	return nil, "", os.Remove(d.o.StateFile)
}

// giveUp handles a download that has failed with err: it writes the state, or removes the file if there is none or the
// content is not that of the object.
func (d *downloader) giveUp(to *target, temp string, err error) error {
	hopeless := errors.Is(err, ErrSourceChanged) || errors.Is(err, ErrChecksum) || errors.Is(err, ErrNoSuchKey)
	if d.state != nil && !hopeless {
		return d.state.save()
	}
	removed := to.remove(temp)
	if d.state != nil {
		removed = errors.Join(removed, os.Remove(d.o.StateFile))
	}
	return removed
}

package iofault

import (
	"os"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The operations of fuse.RawFileSystem that reach the drive. All others are passed through and not counted: locks,
// close, extended attributes, and operations that the server does not use.

// Flags of FUSE requests.
const (
	writeFromCache = 1 // WriteIn.WriteFlags: FUSE_WRITE_CACHE
	onlyData       = 1 // FsyncIn.FsyncFlags: FUSE_FSYNC_FDATASYNC
)

func (d *Drive) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if s := d.meet("stat", true, 0, name); !s.Ok() {
		return s
	}
	return d.remember(d.RawFileSystem.Lookup(cancel, h, name, out), out, h.NodeId, name)
}

func (d *Drive) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if s := d.meet("stat", true, in.NodeId, ""); !s.Ok() {
		return s
	}
	return d.RawFileSystem.GetAttr(cancel, in, out)
}

func (d *Drive) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	name := "setattr"
	if in.Valid&fuse.FATTR_SIZE != 0 {
		name = "truncate"
	}
	if s := d.meet(name, false, in.NodeId, ""); !s.Ok() {
		return s
	}
	return d.RawFileSystem.SetAttr(cancel, in, out)
}

func (d *Drive) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := d.meet("mkdir", false, 0, name); !s.Ok() {
		return s
	}
	return d.remember(d.RawFileSystem.Mkdir(cancel, in, name, out), out, in.NodeId, name)
}

func (d *Drive) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if s := d.meet("unlink", false, 0, name); !s.Ok() {
		return s
	}
	return d.moved(d.RawFileSystem.Unlink(cancel, h, name), h.NodeId, name, 0, "")
}

func (d *Drive) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	if s := d.meet("rmdir", false, 0, name); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Rmdir(cancel, h, name)
}

func (d *Drive) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	if s := d.meet("rename", false, 0, newName); !s.Ok() {
		return s
	}
	return d.moved(d.RawFileSystem.Rename(cancel, in, oldName, newName), in.NodeId, oldName, in.Newdir, newName)
}

func (d *Drive) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	if s := d.meet("link", false, 0, name); !s.Ok() {
		return s
	}
	return d.remember(d.RawFileSystem.Link(cancel, in, name, out), out, in.NodeId, name)
}

func (d *Drive) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	if s := d.meet("create", false, 0, name); !s.Ok() {
		return s
	}
	s := d.remember(d.RawFileSystem.Create(cancel, in, name, out), &out.EntryOut, in.NodeId, name)
	if s.Ok() && !isShared(name) {
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO
	}
	return s
}

func (d *Drive) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	read := in.Flags&syscall.O_ACCMODE == uint32(os.O_RDONLY)
	if s := d.meet("open", read, in.NodeId, ""); !s.Ok() {
		return s
	}
	s := d.RawFileSystem.Open(cancel, in, out)
	if s.Ok() && !d.isShared(in.NodeId) {
		out.OpenFlags |= fuse.FOPEN_DIRECT_IO
	}
	return s
}

func (d *Drive) Read(cancel <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	if !d.isShared(in.NodeId) { // an unreadable page of mapped memory is a SIGBUS, which the server need not survive
		if s := d.meet("read", true, in.NodeId, ""); !s.Ok() {
			return nil, s
		}
	}
	return d.RawFileSystem.Read(cancel, in, buf)
}

func (d *Drive) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	if in.WriteFlags&writeFromCache != 0 {
		return d.RawFileSystem.Write(cancel, in, data)
	}
	if s := d.meet("write", false, in.NodeId, ""); !s.Ok() {
		if half := data[:len(data)/2]; len(half) > 0 {
			in.Size = uint32(len(half))
			d.writes(in.NodeId, in.Offset, half)
			_, _ = d.RawFileSystem.Write(cancel, in, half) // the result does not matter: the write fails anyway
		}
		return 0, s
	}
	d.writes(in.NodeId, in.Offset, data)
	return d.RawFileSystem.Write(cancel, in, data)
}

// Writev is not supported, so that every write uses Write.
func (d *Drive) Writev(<-chan struct{}, *fuse.WriteIn, [][]byte) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

// CopyFileRange is not supported, so that copies use Read and Write.
func (d *Drive) CopyFileRange(<-chan struct{}, *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	return 0, fuse.ENOSYS
}

// writes records a write that is about to be performed.
func (d *Drive) writes(node, offset uint64, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.losses.unsynced != nil {
		d.losses.write(d.names[node], int64(offset), len(data))
	}
}

// Fsync does not sync the file below, and neither does FsyncDir, because the machine keeps running. Lose simulates
// failed syncs.
func (d *Drive) Fsync(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	name := "fsync"
	if in.FsyncFlags&onlyData != 0 {
		name = "fdatasync"
	}
	s := d.meet(name, false, in.NodeId, "")
	d.mu.Lock()
	defer d.mu.Unlock()
	d.losses.sync(d.names[in.NodeId], s.Ok())
	return s
}

func (d *Drive) FsyncDir(_ <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	return d.meet("fsyncdir", false, in.NodeId, "")
}

func (d *Drive) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	if s := d.meet("fallocate", false, in.NodeId, ""); !s.Ok() {
		return s
	}
	return d.RawFileSystem.Fallocate(cancel, in)
}

func (d *Drive) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if s := d.meet("opendir", true, in.NodeId, ""); !s.Ok() {
		return s
	}
	return d.RawFileSystem.OpenDir(cancel, in, out)
}

func (d *Drive) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if s := d.meet("readdir", true, in.NodeId, ""); !s.Ok() {
		return s
	}
	return d.RawFileSystem.ReadDir(cancel, in, out)
}

func (d *Drive) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	if s := d.meet("statfs", true, h.NodeId, ""); !s.Ok() {
		return s
	}
	return d.RawFileSystem.StatFs(cancel, h, out)
}

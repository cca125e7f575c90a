package iofault

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Action is the effect of a Fault on an operation.
type Action string

// The actions.
const (
	EIO    Action = "EIO"
	ENOSPC Action = "ENOSPC"
	KILL   Action = "KILL" // SIGKILL for the server, before the operation is done
)

// Op is an operation that reached the drive. Name is that of the system call, File the last element of the path.
type Op struct{ Name, File string }

// String returns the name and the file.
func (o Op) String() string { return o.Name + " " + o.File }

// needSpace are the operations that can fail because the drive is full. Some file systems report that only in a sync.
var needSpace = map[string]bool{
	"create": true, "write": true, "fallocate": true, "truncate": true, "mkdir": true, "rename": true, "link": true,
	"fsync": true, "fdatasync": true, "fsyncdir": true,
}

// Fault describes when and how operations of the drive fail.
type Fault struct {
	Action  Action
	At      int           // the number of the operation at which it happens, from 1, among the counted ones
	ForEver bool          // it happens at every later operation too
	Reads   bool          // count read operations instead of all others
	Only    func(Op) bool // if set, count only these
}

// counts reports whether an operation is counted. read means that it is a read operation.
func (f *Fault) counts(op Op, read bool) bool {
	if read != f.Reads || f.Action == ENOSPC && !needSpace[op.Name] {
		return false
	}
	return f.Only == nil || f.Only(op)
}

// Drive is a mounted file system that passes all operations through to a directory, except for faults.
type Drive struct {
	fuse.RawFileSystem // the real one
	back, dir          string
	server             *fuse.Server

	mu     sync.Mutex        // guards the rest
	names  map[uint64]string // the path of each node, relative to back
	losses losses
	fault  *Fault
	seen   int    // operations counted since the fault was set
	struck int    // operations that the fault hit
	first  Op     // the first of these
	dead   bool   // the server was killed: its remaining operations are not performed
	victim func() // kills the server
}

// Mount mounts the directory back at the directory dir; both exist.
func Mount(back, dir string) (*Drive, error) {
	root, err := fs.NewLoopbackRoot(back)
	if err != nil {
		return nil, err
	}
	var zero time.Duration // the kernel must cache neither names nor attributes
	options := &fs.Options{EntryTimeout: &zero, AttrTimeout: &zero, NegativeTimeout: &zero}
	options.MountOptions = fuse.MountOptions{
		DirectMountStrict: true, FsName: back, Name: "iofault", MaxWrite: 1 << 20, DisableXAttrs: true, DisableReadDirPlus: true,
		DisableSplice:        true,                 // it logs an error for each read of 1 MiB
		DisabledCapabilities: fuse.CAP_PASSTHROUGH, // with it, reads and writes would bypass this process
	}
	d := &Drive{RawFileSystem: fs.NewNodeFS(root, options), back: back, dir: dir, names: map[uint64]string{}}
	// No child process may inherit the device: it would keep the mount alive after the death of the bench, and wait for
	// it forever.
	syscall.ForkLock.RLock()
	d.server, err = fuse.NewServer(d, dir, &options.MountOptions)
	if err == nil {
		err = keepDevice()
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, err
	}
	go d.server.Serve()
	return d, d.server.WaitMount()
}

// keepDevice sets close-on-exec on every descriptor of /dev/fuse in this process.
func keepDevice() error {
	const own = "/proc/self/fd"
	fds, err := os.ReadDir(own)
	for _, fd := range fds {
		if target, _ := os.Readlink(filepath.Join(own, fd.Name())); target == "/dev/fuse" {
			n, _ := strconv.Atoi(fd.Name())
			syscall.CloseOnExec(n)
		}
	}
	return err
}

// Unmount unmounts the file system, which must no longer be in use.
func (d *Drive) Unmount() error { return d.server.Unmount() }

// Dir returns the mount point.
func (d *Drive) Dir() string { return d.dir }

// Set sets the fault and restarts the count. The function kill must kill the server without waiting for its end.
func (d *Drive) Set(f Fault, kill func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.victim = &f, kill
	d.seen, d.struck, d.first, d.dead = 0, 0, Op{}, false
	d.losses = losses{back: d.back, unsynced: map[string][]piece{}}
}

// Struck is the effect of a fault so far.
type Struck struct {
	Seen  int // counted operations
	Times int // operations that the fault hit
	First Op  // the first of these
}

// Struck returns the effect of the fault so far.
func (d *Drive) Struck() Struck {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Struck{d.seen, d.struck, d.first}
}

// Lift removes the fault and returns its effect.
func (d *Drive) Lift() Struck {
	s := d.Struck()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault, d.dead = nil, false
	return s
}

// Lose removes the data of failed syncs, as a crash of the machine would. The server must have ended.
func (d *Drive) Lose() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.losses.happen()
}

// meet counts an operation and returns its status: OK means that it is to be performed.
func (d *Drive) meet(name string, read bool, node uint64, file string) fuse.Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return fuse.EIO
	}
	f := d.fault
	if f == nil {
		return fuse.OK
	}
	if file == "" {
		file = path.Base(d.names[node])
	}
	op := Op{name, file}
	if !f.counts(op, read) {
		return fuse.OK
	}
	d.seen++
	if d.seen < f.At || d.seen > f.At && !f.ForEver {
		return fuse.OK
	}
	d.struck++
	if d.struck == 1 {
		d.first = op
	}
	switch f.Action {
	case KILL:
		d.dead = true
		d.victim()
		return fuse.EIO
	case ENOSPC:
		return fuse.Status(syscall.ENOSPC)
	}
	return fuse.EIO
}

// remember records the path of a node.
func (d *Drive) remember(status fuse.Status, out *fuse.EntryOut, parent uint64, name string) fuse.Status {
	if status.Ok() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.names[out.NodeId] = path.Join(d.names[parent], name)
	}
	return status
}

// moved records that a name was removed or, if to is not "", renamed.
func (d *Drive) moved(status fuse.Status, parent uint64, name string, toParent uint64, to string) fuse.Status {
	if !status.Ok() {
		return status
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	from := path.Join(d.names[parent], name)
	d.losses.forget(from)
	if to != "" {
		to = path.Join(d.names[toParent], to)
		for node, name := range d.names {
			if name == from {
				d.names[node] = to
			}
		}
	}
	return status
}

// isShared reports whether a file is shared memory, which the kernel must cache since it is mapped.
func isShared(file string) bool { return strings.HasSuffix(file, "-shm") }

func (d *Drive) isShared(node uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return isShared(d.names[node])
}

// String implements fuse.RawFileSystem.
func (d *Drive) String() string { return fmt.Sprintf("iofault on %s", filepath.Base(d.dir)) }

// Package tree transfers directories and prefixes: from a local directory to a bucket, back, and between buckets.
//
//	from, to := tree.Local("photos"), tree.Remote(client, "bucket", "photos")
//	result, err := tree.Sync(ctx, from, to, tree.Options{Delete: true})
//
// # How it works
//
// Both trees are read as streams of entries in the byte order of S3 keys, and merged. So a tree is compared with another
// one in one pass and in little memory, also if they have millions of files. Differences become tasks for a number of
// goroutines that is bounded, as is the memory for content.
//
// # What is equal
//
// A file is transferred if the target does not have it, if the sizes differ, or if it is newer:
//
//   - Upload: the modification time of the file is later than that of the object (Last-Modified), and is not the time
//     that the object's metadata records.
//   - Download: the object is newer than the file. With Options.Preserve, files get the recorded time instead of the
//     object's; then an object that is newer than the file is equal if it records the file's time.
//   - Between buckets: the ETags differ and the source is newer.
//
// Options.SizeOnly and Options.Checksum replace this rule. So a second run transfers only what has changed since, or what
// an interrupted first run had not finished.
//
// # Attributes of files
//
// Every upload records the modification time of the file in the metadata of the object (x-amz-meta-mtime), as rclone
// and s3fs do. With Options.Preserve, the permissions and the owner are recorded as s3fs does (x-amz-meta-mode, -uid and
// -gid, in decimal), and downloads restore all of them; modes that rclone wrote, in octal, are understood too. Only root
// can restore owners. Set-user-ID, set-group-ID and sticky bits are not recorded.
//
// Symbolic links are skipped unless Options.Symlinks says otherwise. A stored link is an object whose content is the
// path that the link contains, and whose key ends with ".rclonelink", as in rclone. Links that s3fs stored (a mode with
// the type of links) are understood in downloads.
//
// # Names
//
// An object whose key cannot be a path below the target is reported and not downloaded: "a" beside "a/b", empty names
// ("a//b"), "..", names that are too long or that Windows does not allow, and keys that differ only in case on file
// systems that do not distinguish it. Whatever keys a server lists, nothing outside the target is read or written,
// because all files are opened through os.Root.
//
// # Durability
//
// Downloaded files appear under their names when they are complete: they are written to temporary files,
// .orcas-*.tmp, and renamed. They are not synced to the drive one by one, as rclone and the AWS command line do not
// either, unless Options.Durable is set.
package tree

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orcas/sdk"
)

// Place is a tree: a local directory, or the objects of a bucket below a prefix.
type Place struct {
	dir string // a local directory or file, if client is nil

	client *sdk.Client
	bucket string
	prefix string // "" or ends with "/"; of a single object its key
}

// Local returns a local directory. As a target it is created if it does not exist.
func Local(dir string) Place { return Place{dir: dir} }

// Remote returns the objects of a bucket below a prefix, which stands for a directory: a "/" at its end is added if it
// is missing. The prefix "" is the whole bucket.
func Remote(client *sdk.Client, bucket, prefix string) Place {
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	return Place{client: client, bucket: bucket, prefix: prefix}
}

// String returns the path of a local directory, or s3://BUCKET/PREFIX.
func (p Place) String() string {
	if p.remote() {
		return "s3://" + p.bucket + "/" + p.prefix
	}
	return p.dir
}

func (p *Place) remote() bool { return p.client != nil }

// overlaps reports whether two places have objects in common. A copy of a tree into itself would not end.
func (p *Place) overlaps(q *Place) bool {
	return p.remote() && q.remote() && p.client.Endpoint() == q.client.Endpoint() && p.bucket == q.bucket &&
		(p.prefix == q.prefix || p.isTree() && strings.HasPrefix(q.prefix, p.prefix) || q.isTree() && strings.HasPrefix(p.prefix, q.prefix))
}

// isTree reports whether a remote place is not a single object.
func (p *Place) isTree() bool { return p.prefix == "" || strings.HasSuffix(p.prefix, "/") }

// address returns the address of something in the tree, for reports.
func (p *Place) address(path string) string {
	if p.remote() {
		return p.String() + path
	}
	return filepath.Join(p.dir, filepath.FromSlash(path))
}

// Conflict is what happens to a file that the target has in another state.
type Conflict int

// The policies.
const (
	Overwrite Conflict = iota // replace what the target has
	Skip                      // keep what the target has
	Rename                    // keep it, and write the file beside it, as "name (1).ext"
	Newer                     // replace it only if the source is newer, also if the sizes or checksums differ
	Fail                      // end with ErrConflict
)

// conflicts are the names of the policies.
var conflicts = [...]string{Overwrite: "overwrite", Skip: "skip", Rename: "rename", Newer: "newer", Fail: "fail"}

// String returns the name of the policy, which ParseConflict understands.
func (c Conflict) String() string {
	if c < 0 || int(c) >= len(conflicts) {
		return fmt.Sprintf("Conflict(%d)", int(c))
	}
	return conflicts[c]
}

// ParseConflict parses the name of a policy: overwrite, skip, rename, newer or fail.
func ParseConflict(name string) (Conflict, error) {
	for c, n := range conflicts {
		if n == name {
			return Conflict(c), nil
		}
	}
	return 0, fmt.Errorf("tree: %q is not a conflict policy: expected one of %s", name, strings.Join(conflicts[:], ", "))
}

// Symlinks is what happens to symbolic links.
type Symlinks int

// What happens to symbolic links. They are never followed out of a tree.
const (
	SkipSymlinks   Symlinks = iota // they are ignored
	FollowSymlinks                 // the file or directory is transferred that they lead to, if it is inside the tree
	StoreSymlinks                  // they are stored and restored as links
)

// ErrConflict is returned if a file differs and the policy is Fail.
var ErrConflict = errors.New("the target has another file of this name")

// ErrPartial is returned if some files failed and all others were processed. Result.Errors has the reasons.
var ErrPartial = errors.New("some files failed")

// Options are the options of Sync, Copy, Move and Diff. The zero value copies what differs.
type Options struct {
	Patterns []Pattern // which paths are included; see Pattern
	Conflict Conflict
	DryRun   bool // report what would be done, and do nothing
	Delete   bool // Sync only: delete what only the target has, after everything else, and only if nothing failed
	Always   bool // copy files that are equal, too

	SizeOnly bool // files of the same size are equal
	Checksum bool // files of the same content are equal: compare checksums, or the ETag if it is an MD5

	Preserve    bool // keep permissions, owners and times
	Symlinks    Symlinks
	Directories bool // uploads create an empty object "DIR/" for each directory, so that empty ones are kept
	Versions    bool // between buckets: copy all versions and delete markers; see Sync
	Durable     bool // downloads are synced to the drive before they get their names

	// Put is what all objects get: storage class, ACL, tags, metadata, a content type, encryption. Its customer's key is
	// also used to read the objects of a download.
	Put      sdk.PutOptions
	RefLevel *sdk.RefLevel // instant upload; nil is the RefLevel of the client

	Parallel int    // small files transferred at the same time; 0 is 64. At most 4 large ones beside them
	PartSize int64  // of multipart uploads, in bytes; 0 is chosen by size
	StateDir string // for the state of interrupted large transfers; "" is orcas/transfers in os.UserCacheDir

	Report   func(Action)   // called for each action that was done, or failed; not concurrently
	Progress func(Progress) // called about ten times a second, and at the end; not concurrently
}

// Op is what is done to a file.
type Op string

// The operations.
const (
	OpCopy   Op = "copy"
	OpDelete Op = "delete" // at the target, or with Move at the source
	OpSkip   Op = "skip"   // equal, or excluded by the options; see Action.Reason
	OpMkdir  Op = "mkdir"  // a directory, or an object that stands for one
	OpError  Op = "error"  // see Action.Err
)

// Action is something that was done, or with Options.DryRun would have been.
type Action struct {
	Op        Op
	Path      string // relative, with slashes; of a directory with a slash at the end
	From, To  string // paths, or s3://BUCKET/KEY; "" if there is none
	Size      int64  // bytes
	BytesSent int64  // bytes of content that were sent; less than Size if the server already had a part of it
	Reason    string // "new", "size", "newer" and so on
	Err       error  // why it failed; only with OpError
}

// Result counts what was done.
type Result struct {
	Files   int64 // files that were compared
	Copied  int64
	Skipped int64
	Deleted int64
	Failed  int64

	BytesCopied   int64 // bytes of the copied files
	BytesSent     int64 // bytes of content that were sent
	BytesReceived int64 // bytes of content that were received
	BytesReferred int64 // bytes of content that the server already had

	Errors []Action // the first 100 failures
}

// errorsMax is the number of actions in Result.Errors.
const errorsMax = 100

// Progress is how far a transfer is.
type Progress struct {
	Files     int64 // files that were compared so far
	Copies    int64 // files to copy, found so far
	Copied    int64
	Bytes     int64 // bytes of the files to copy, found so far
	BytesDone int64
	Complete  bool // all files have been compared: Copies and Bytes are final
	Elapsed   time.Duration
}

// check returns an error if options contradict each other.
func (o *Options) check(from, to *Place) error {
	switch {
	case !from.remote() && !to.remote():
		return errors.New("tree: one of the places must be remote")
	case o.SizeOnly && o.Checksum:
		return errors.New("tree: Options.SizeOnly and Options.Checksum exclude each other")
	case o.Conflict < 0 || int(o.Conflict) >= len(conflicts):
		return fmt.Errorf("tree: Options.Conflict is %d, which is not a policy", o.Conflict)
	case o.Symlinks < SkipSymlinks || o.Symlinks > StoreSymlinks:
		return fmt.Errorf("tree: Options.Symlinks is %d, expected SkipSymlinks, FollowSymlinks or StoreSymlinks", o.Symlinks)
	case o.Parallel < 0:
		return fmt.Errorf("tree: Options.Parallel is %d, expected 0 or more", o.Parallel)
	case o.Versions && (!from.remote() || !to.remote()):
		return errors.New("tree: Options.Versions needs two buckets, because local files have no versions")
	case o.Versions && o.Conflict != Overwrite:
		return fmt.Errorf("tree: Options.Versions does not work with the conflict policy %s", o.Conflict)
	}
	if from.overlaps(to) {
		return fmt.Errorf("tree: %s and %s overlap", *from, *to)
	}
	o.Parallel = cmp.Or(o.Parallel, 64)
	return nil
}

// stateDir returns the directory for the state of large transfers, and creates it.
func (o *Options) stateDir() (string, error) {
	dir := o.StateDir
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("tree: no directory for the state of transfers: %w; set Options.StateDir", err)
		}
		dir = filepath.Join(cache, "orcas", "transfers")
	}
	return dir, os.MkdirAll(dir, 0o700)
}

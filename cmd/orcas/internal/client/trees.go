package client

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"orcas/sdk"
	"orcas/sdk/tree"
)

// treeFlags are the flags of commands that transfer trees.
type treeFlags struct {
	filters
	Conflict    string `enum:"overwrite,skip,rename,newer,fail" default:"overwrite" placeholder:"POLICY" help:"If the target has another file of the name: overwrite it, skip the file, rename it (\"name (1).ext\"), replace it only if the source is newer, or fail (default ${default})."`
	DryRun      bool   `short:"n" help:"Print what would be done, and do nothing."`
	Preserve    bool   `help:"Keep permissions and owners in metadata as s3fs does, and restore them and the times in downloads. Times are always recorded, as rclone does."`
	Symlinks    string `enum:"skip,follow,store," default:"" placeholder:"HOW" help:"Skip symbolic links, follow those that stay inside the tree, or store them as rclone does (default skip, with --preserve store)."`
	Directories bool   `help:"Store an empty object for each directory, so that empty directories are kept."`
	Versions    bool   `help:"Between buckets: copy all versions and delete markers in their order."`
	Durable     bool   `help:"Sync each downloaded file to the drive before it gets its name."`
}

// options returns the options of a transfer.
func (f *treeFlags) options(s *session, p *properties) (o tree.Options, err error) {
	if o.Patterns, err = f.list(); err != nil {
		return o, err
	}
	if o.Conflict, err = tree.ParseConflict(f.Conflict); err != nil {
		return o, err
	}
	o.DryRun, o.Preserve, o.Directories, o.Versions, o.Durable = f.DryRun, f.Preserve, f.Directories, f.Versions, f.Durable
	switch {
	case f.Symlinks == "follow":
		o.Symlinks = tree.FollowSymlinks
	case f.Symlinks == "store", f.Symlinks == "" && f.Preserve:
		o.Symlinks = tree.StoreSymlinks
	}
	if s.transfer != nil {
		o.Parallel, o.PartSize = s.transfer.Parallel, int64(s.transfer.PartSize)
	}
	if p != nil {
		o.Put = p.put()
	}
	o.StateDir = s.stateDir()
	return o, nil
}

// put returns the properties as options of a write.
func (p *properties) put() sdk.PutOptions {
	return sdk.PutOptions{Properties: sdk.Properties{
		ContentType: p.ContentType, CacheControl: p.CacheControl, StorageClass: p.StorageClass, Metadata: p.Metadata, Tags: p.Tags,
		ACL: p.ACL, Encryption: sdk.Encryption{Algorithm: p.SSE},
	}}
}

// stateDir returns the directory for the state of interrupted transfers: ORCAS_STATE, or "" for the default.
func (s *session) stateDir() string {
	for _, entry := range s.Environ {
		if dir, ok := strings.CutPrefix(entry, "ORCAS_STATE="); ok {
			return dir
		}
	}
	return ""
}

// place is an address as a tree.
type place struct {
	Address
	remote *remote // nil if it is local
	tree   tree.Place
}

// place opens an address as a tree. It ends with a slash, if it is a prefix.
func (s *session) place(a Address) (place, error) {
	if a.Local {
		return place{Address: a, tree: tree.Local(a.Path)}, nil
	}
	if a.Bucket == "" {
		return place{}, usagef("%s has no bucket: expected %sBUCKET[/PREFIX]", a, a.root())
	}
	r, err := s.open(a)
	if err != nil {
		return place{}, err
	}
	if a.Key != "" && !strings.HasSuffix(a.Key, "/") {
		a.Key += "/"
	}
	return place{a, r, tree.Remote(r.Client, a.Bucket, a.Key)}, nil
}

// check returns an error if the place does not exist, before anything is changed. A source must have something; a target
// must have its bucket.
func (p *place) check(s *session, source bool) error {
	if p.remote == nil {
		info, err := os.Stat(p.Path)
		switch {
		case source && err != nil:
			return s.explain(p.Address, err)
		case err == nil && !info.IsDir():
			return usagef("%s is a file: expected a directory", p.Path)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return s.explain(p.Address, err)
		}
		return nil
	}
	if !source || p.Key == "" {
		_, err := p.remote.HeadBucket(s.ctx, p.Bucket)
		if err != nil && !isAny(err, sdk.ErrAccessDenied, sdk.ErrNotImplemented) {
			return p.remote.explain(err)
		}
		return nil
	}
	for _, err := range p.remote.List(s.ctx, p.Bucket, &sdk.ListOptions{Prefix: p.Key, PageSize: 1}) {
		return p.remote.explain(err)
	}
	return notFound("there is nothing below %s", shown(p.String()))
}

// pair opens the places of a transfer and checks them.
func (s *session) pair(source, target Address) (from, to place, err error) {
	if source.Local && target.Local {
		return from, to, usagef("both %s and %s are local: one of them must be s3://BUCKET/KEY or NAME://BUCKET/KEY", source, target)
	}
	if from, err = s.place(source); err != nil {
		return from, to, err
	}
	if to, err = s.place(target); err != nil {
		return from, to, err
	}
	if from.remote != nil && from.remote == to.remote && from.Bucket == to.Bucket &&
		(strings.HasPrefix(to.Key, from.Key) || strings.HasPrefix(from.Key, to.Key)) {
		return from, to, usagef("%s and %s overlap: expected two places of which none contains the other", source, target)
	}
	if err := from.check(s, true); err != nil {
		return from, to, err
	}
	return from, to, to.check(s, false)
}

// actionJSON is an action as JSON.
type actionJSON struct {
	Op        string `json:"op"` // copy, delete, mkdir, skip or error
	Path      string `json:"path"`
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	Size      int64  `json:"size"`
	BytesSent int64  `json:"bytes_sent"`
	Reason    string `json:"reason,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"`
	Error     string `json:"error,omitempty"`
	Status    int    `json:"status,omitempty"`
}

// resultJSON is the sum of a transfer as JSON.
type resultJSON struct {
	Op            string  `json:"op"` // summary
	Files         int64   `json:"files"`
	Copied        int64   `json:"copied"`
	Skipped       int64   `json:"skipped"`
	Deleted       int64   `json:"deleted"`
	Failed        int64   `json:"failed"`
	Bytes         int64   `json:"bytes"`
	BytesSent     int64   `json:"bytes_sent"`
	BytesReceived int64   `json:"bytes_received"`
	BytesReferred int64   `json:"bytes_referred"`
	Seconds       float64 `json:"seconds"`
	DryRun        bool    `json:"dry_run,omitempty"`
}

// report returns the function that prints actions. If failed is not nil, it gets the error of a single file, which is not
// printed.
func (s *session) report(from, to *place, dry bool, failed *error) func(tree.Action) {
	return func(a tree.Action) {
		if a.Op == tree.OpSkip && a.Reason == "equal" { // there can be millions; the summary counts them
			return
		}
		j := actionJSON{
			Op: string(a.Op), Path: a.Path, From: s.located(from, a.From), To: s.located(to, a.To), Size: a.Size, BytesSent: a.BytesSent,
			Reason: a.Reason, DryRun: dry,
		}
		would := ""
		if dry {
			would = "would "
		}
		switch a.Op {
		case tree.OpCopy:
			s.tell("%scopy %s to %s", would, shown(j.From), shown(j.To))
		case tree.OpDelete:
			if j.To == "" || strings.HasPrefix(a.From, "s3://") && a.To == "" {
				j.To = s.located(from, a.From)
			}
			s.tell("%sdelete %s", would, shown(j.To))
		case tree.OpMkdir:
			s.tell("%screate directory %s", would, shown(j.To))
		case tree.OpSkip:
			s.tell("skip %s: %s", shown(a.Path), a.Reason)
		case tree.OpError:
			err := s.explainTransfer(from, to, a.Err)
			if failed != nil {
				*failed = err
				return
			}
			j.Error, j.Status = err.Error(), Status(err)
			s.complain(errors.New(shown(a.Path) + ": " + err.Error()))
		}
		s.out.object(j)
	}
}

// located returns the path or address that the SDK reports, with the name of the profile.
func (s *session) located(p *place, reported string) string {
	if rest, ok := strings.CutPrefix(reported, "s3://"); ok && p.remote != nil {
		return p.root() + rest
	}
	return reported
}

// run runs a transfer of trees, and prints its result. verb is what is done to the files: copied or moved.
func (s *session) run(from, to *place, o *tree.Options, verb string, transfer func() (*tree.Result, error)) error {
	begun := s.now()
	o.Report = s.report(from, to, o.DryRun, nil)
	o.Progress = s.treeProgress()
	result, err := transfer()
	if result != nil {
		s.result(result, verb, s.now().Sub(begun), o.DryRun)
	}
	if errors.Is(err, tree.ErrPartial) {
		return &statusError{StatusSomeFailed, partial(result), err}
	}
	return s.explainTransfer(from, to, err)
}

// treeProgress returns the function that shows the progress of a transfer, or nil.
func (s *session) treeProgress() func(tree.Progress) {
	if s.bar == nil {
		return nil
	}
	return func(p tree.Progress) {
		s.bar.set(progressState{done: p.BytesDone, total: p.Bytes, files: p.Copied, of: max(1, p.Copies), final: p.Complete})
	}
}

// explainTransfer explains an error of a transfer between two places: that of the bucket which it names.
func (s *session) explainTransfer(from, to *place, err error) error {
	at := to.Address
	var e *sdk.Error
	if to.remote == nil || from.remote != nil && errors.As(err, &e) && e.Bucket == from.Bucket && e.Bucket != to.Bucket {
		at = from.Address
	}
	return s.explain(at, err)
}

// partial says how many files failed.
func partial(r *tree.Result) string {
	text := plural(r.Failed, "file") + " failed; the errors are above, and the same command tries them again"
	return text
}

// result prints what a transfer has done.
func (s *session) result(r *tree.Result, verb string, elapsed time.Duration, dry bool) {
	s.out.object(resultJSON{
		Op: "summary", Files: r.Files, Copied: r.Copied, Skipped: r.Skipped, Deleted: r.Deleted, Failed: r.Failed, Bytes: r.BytesCopied,
		BytesSent: r.BytesSent, BytesReceived: r.BytesReceived, BytesReferred: r.BytesReferred, Seconds: elapsed.Seconds(), DryRun: dry,
	})
	if dry {
		verb = "would be " + verb
	}
	text := plural(r.Copied, "file") + " " + verb + " (" + bytesText(r.BytesCopied, true)
	if r.BytesReferred > 0 {
		text += ", of which the server already had " + bytesText(r.BytesReferred, true)
	}
	text += ")"
	if r.Deleted > 0 {
		text += ", " + plural(r.Deleted, "file") + " deleted"
	}
	if same := r.Files - r.Copied - r.Failed; same > 0 {
		text += ", " + plural(same, "file") + " unchanged or skipped"
	}
	if r.Failed > 0 {
		text += ", " + plural(r.Failed, "file") + " failed"
	}
	s.tell("%s in %.1f s", text, elapsed.Seconds())
}

// plural returns a number with a noun.
func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "x") {
		noun += "e"
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

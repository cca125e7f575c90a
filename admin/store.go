package admin

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"orcas/auth"
	"orcas/auth/access"
	"orcas/auth/identity"
	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/fsck"
	"orcas/gate"
	"orcas/internal/bytesize"
	"orcas/lifecycle"
	"orcas/reclaim"
	"orcas/scrub"
	"orcas/vfs"
)

// Store is the store to administer. All fields are required except Now.
type Store struct {
	Meta      reclaim.Meta
	Blocks    core.Blocks
	Writer    *batch.Writer
	FS        *vfs.FS
	Reclaimer *reclaim.Reclaimer
	Scrubber  *scrub.Scrubber
	Lifecycle *lifecycle.Worker
	Rotator   *content.Rotator
	Keys      *identity.Directory
	Lookup    gate.Lookup        // the credentials of all access keys
	Access    *access.Authorizer // decides about the requests of all APIs

	// Apply makes the store have what a file declares, on behalf of a principal.
	Apply func(context.Context, *auth.Principal, *ApplyRequest) (*Applied, error)

	Endpoint string                                          // the URL of S3, which goes with new keys
	Compare  func(context.Context) (*fsck.Comparison, error) // compares the blocks with the metadata
	Go       func(work func(context.Context))                // runs work in the background until the server stops
	Logger   *slog.Logger
	Now      func() time.Time // default time.Now

	// Backup writes a backup to a directory on this machine, after which it removes all but the newest keep backups (0:
	// none). Link allows hard links. It returns a report. Backups returns the backups in a directory.
	Backup  func(ctx context.Context, dir string, keep int, link bool) (any, error)
	Backups func(dir string) (any, error)

	Tools Tools // show and change what the server does
}

// flag parses a parameter that is true or false.
func flag(r *http.Request, name string) (bool, error) {
	switch v := r.URL.Query().Get(name); v {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, invalid("admin", "%s must be true or false, not %q", name, v)
	}
}

// invalid returns the error for an invalid parameter.
func invalid(op, format string, args ...any) error {
	return core.E(op, core.InvalidArgument, fmt.Errorf(format, args...))
}

// job is background work with a result.
type job func(context.Context) (any, error)

// run starts work in the background, which a command has requested. With the parameter wait it returns the result of the
// work, which continues even if the client disconnects. Without it, run returns the status. An error that the client
// does not get is logged.
func (s *Store) run(r *http.Request, command string, work job, status handler) (any, error) {
	wait, err := flag(r, "wait")
	if err != nil {
		return nil, err
	}
	report := func(ctx context.Context, err error) {
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("the work that "+command+" started has failed: correct the cause, and run the command again", "err", err)
		}
	}
	if !wait {
		s.Go(func(ctx context.Context) {
			_, err := work(ctx)
			report(ctx, err)
		})
		return status(r)
	}
	done := make(chan struct{})
	var result any
	s.Go(func(ctx context.Context) {
		defer close(done)
		result, err = work(ctx)
		if r.Context().Err() != nil {
			report(ctx, err)
		}
	})
	select {
	case <-done:
		return result, err
	case <-r.Context().Done():
		return nil, core.E("admin", core.Canceled, r.Context().Err())
	}
}

func (s *Store) reclaimStatus(*http.Request) (any, error) { return s.Reclaimer.Status(), nil }

// startReclaim frees all garbage.
func (s *Store) startReclaim(r *http.Request) (any, error) {
	round := func(ctx context.Context) (any, error) { return s.Reclaimer.Round(ctx, true) }
	return s.run(r, "orcas admin reclaim", round, s.reclaimStatus)
}

func (s *Store) scrubStatus(*http.Request) (any, error) { return s.Scrubber.Status(), nil }

// startScrub reads and verifies everything.
func (s *Store) startScrub(r *http.Request) (any, error) {
	var o scrub.PassOptions
	var err error
	if o.Restart, err = flag(r, "restart"); err != nil {
		return nil, err
	}
	if v := r.URL.Query().Get("rate"); v != "" {
		if o.BytesPerSecond, err = bytesize.ParseRange(v, 1, math.MaxInt64); err != nil {
			return nil, invalid("admin.scrub", "rate: %w", err)
		}
	}
	return s.run(r, "orcas admin scrub", func(ctx context.Context) (any, error) {
		err := s.Scrubber.Now(ctx, o)
		return s.Scrubber.Status(), err
	}, s.scrubStatus)
}

func (s *Store) lifecycleStatus(*http.Request) (any, error) { return s.Lifecycle.Status(), nil }

// startLifecycle deletes everything that has expired.
func (s *Store) startLifecycle(r *http.Request) (any, error) {
	pass := func(ctx context.Context) (any, error) { return s.Lifecycle.Pass(ctx) }
	return s.run(r, "orcas admin lifecycle run", pass, s.lifecycleStatus)
}

func (s *Store) keysStatus(r *http.Request) (any, error) { return s.Rotator.Status(r.Context()) }

// rotateKeys wraps every data key with the newest master key.
func (s *Store) rotateKeys(r *http.Request) (any, error) {
	if _, err := flag(r, "wait"); err != nil {
		return nil, err
	}
	if !s.FS.HasKey() {
		return nil, invalid("admin.keys", "there is no master key: set ORCAS_MASTER_KEY_FILE or ORCAS_MASTER_KEY")
	}
	return s.run(r, "orcas admin keys rotate", func(ctx context.Context) (any, error) { return s.Rotator.Run(ctx) }, s.keysStatus)
}

// check recounts the metadata. With the parameter content it also reads all content.
func (s *Store) check(r *http.Request) (any, error) {
	content, err := flag(r, "content")
	if err != nil {
		return nil, err
	}
	return fsck.Check(r.Context(), s.Meta, s.Blocks, fsck.Options{Content: content})
}

// backup writes a backup to a directory on this machine.
func (s *Store) backup(r *http.Request) (any, error) {
	q := r.URL.Query()
	dir := q.Get("dir")
	if !filepath.IsAbs(dir) {
		return nil, invalid("admin.backup", "dir must be an absolute path, not %q", dir)
	}
	var keep int
	if v := q.Get("keep"); v != "" {
		var err error
		if keep, err = strconv.Atoi(v); err != nil || keep < 0 || keep > 1_000_000 {
			return nil, invalid("admin.backup", "keep must be a number from 0 to 1000000, not %q", v)
		}
	}
	link, err := flag(r, "link")
	if err != nil {
		return nil, err
	}
	return s.Backup(r.Context(), dir, keep, link)
}

// LostLine is a line of the response to GET /-/admin/lost: a lost object or, in the last line, the total and any error.
type LostLine struct {
	*fsck.LostObject
	*LostSum
	Error string `json:"error,omitempty"`
}

// LostSum is the total of all lost objects.
type LostSum struct {
	Objects       int   `json:"lost_objects"`
	Bytes         int64 `json:"lost_bytes"`
	MissingBlocks int   `json:"missing_blocks"`
}

// lost compares the blocks with the metadata and lists the objects whose content is missing.
func (s *Store) lost(r *http.Request) (any, error) {
	ctx := r.Context()
	found, err := s.Compare(ctx)
	if err != nil {
		return nil, err
	}
	return stream(func(emit func(any) error) {
		sum := LostSum{MissingBlocks: len(found.Missing)}
		err := fsck.EachLost(ctx, s.Meta, found, func(o fsck.LostObject) error {
			sum.Objects++
			sum.Bytes += o.Size
			return emit(LostLine{LostObject: &o})
		})
		last := LostLine{LostSum: &sum}
		if err != nil {
			last.Error = err.Error()
		}
		_ = emit(last) // an error here means that the client has disconnected
	}), nil
}

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orcas/core"
	"orcas/core/backup"
	"orcas/core/reclaim"
	"orcas/s3/sigv4"
)

// maxAdminBody bounds what an administrative request may carry, in bytes.
const maxAdminBody = 64 << 10

// admin answers on the admin listener: the health to everybody, everything else to the root, whose requests are signed as those for S3 are
// (AWS Signature Version 4, service s3). Answers are JSON documents; an error is {"error": "..."}.
//
//	GET  /-/admin/reclaim             what reclaim does
//	POST /-/admin/reclaim[?wait=true] frees everything that can be freed; with wait, the answer is what came of it
//	GET  /-/admin/scrub               what the scrub does, and what it found
//	POST /-/admin/scrub[?wait=true]   reads and verifies everything now
//	GET  /-/admin/lifecycle             what the lifecycles of buckets do
//	POST /-/admin/lifecycle[?wait=true] deletes what is due now; with wait, the answer is what came of it
//	POST /-/admin/fsck[?content=true] recounts the metadata; the answer is a report
//	GET  /-/admin/bucket?name=BUCKET  what is set for a bucket
//	POST /-/admin/bucket?name=BUCKET&compression=LEVEL  sets it
//	GET  /-/admin/keys                where the master keys stand
//	POST /-/admin/keys[?wait=true]    wraps every data key by the newest master key
//	POST /-/admin/backup?dir=DIR[&keep=N][&link=true]  writes a backup into a directory of the server's machine
type admin struct {
	health   http.Handler
	verifier *sigv4.Verifier
	root     string // its access key
	routes   map[string]adminRoute
	log      func(msg string, args ...any)
}

// adminRoute is what a method of a path does; the answer is rendered as JSON.
type adminRoute map[string]func(r *http.Request) (any, error)

// ServeHTTP implements http.Handler.
func (a *admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/-/health/") {
		a.health.ServeHTTP(w, r)
		return
	}
	if err := a.authenticate(r); err != nil {
		a.log("administration refused", "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr, "why", err.Error())
		a.answer(w, http.StatusForbidden, errorAnswer{"the request is not signed by the root: " + err.Error()})
		return
	}
	route, ok := a.routes[r.URL.Path]
	if !ok {
		a.answer(w, http.StatusNotFound, errorAnswer{"no such thing to administrate: " + r.URL.Path})
		return
	}
	do, ok := route[r.Method]
	if !ok {
		methods := make([]string, 0, len(route))
		for m := range route {
			methods = append(methods, m)
		}
		slices.Sort(methods)
		w.Header().Set("Allow", strings.Join(methods, ", "))
		a.answer(w, http.StatusMethodNotAllowed, errorAnswer{"method not allowed"})
		return
	}
	began := time.Now()
	result, err := do(r)
	a.log("administration", "method", r.Method, "path", r.URL.Path, "remote", r.RemoteAddr, "seconds", time.Since(began).Seconds(), "err", err)
	if err != nil {
		a.answer(w, adminStatus(err), errorAnswer{err.Error()})
		return
	}
	a.answer(w, http.StatusOK, result)
}

type errorAnswer struct {
	Error string `json:"error"`
}

// authenticate says who may not.
func (a *admin) authenticate(r *http.Request) error {
	auth, err := a.verifier.Verify(r)
	if err != nil {
		return err
	}
	if auth.Anonymous() || auth.AccessKey != a.root {
		return errors.New("access denied")
	}
	body, err := auth.Body(r)
	if err != nil {
		return err
	}
	// To its end, so that what was signed is what came.
	content, err := io.ReadAll(io.LimitReader(body, maxAdminBody+1))
	if err != nil {
		return err
	}
	if len(content) > maxAdminBody {
		return errors.New("the body is too large")
	}
	r.Body = io.NopCloser(strings.NewReader(string(content)))
	return nil
}

func adminStatus(err error) int {
	switch core.KindOf(err) {
	case core.InvalidArgument:
		return http.StatusBadRequest
	case core.NoSuchBucket:
		return http.StatusNotFound
	case core.NoSpace:
		return http.StatusInsufficientStorage
	case core.Canceled, core.Unavailable, core.Overloaded, core.Busy:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func (a *admin) answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // an error here is a client that went away
}

// adminRoutes are the things to administrate.
func (s *Server) adminRoutes() map[string]adminRoute {
	return map[string]adminRoute{
		"/-/admin/reclaim":   {http.MethodGet: s.reclaimStatus, http.MethodPost: s.startReclaim},
		"/-/admin/lifecycle": {http.MethodGet: s.lifecycleStatus, http.MethodPost: s.startLifecycle},
		"/-/admin/scrub":     {http.MethodGet: s.scrubStatus, http.MethodPost: s.startScrub},
		"/-/admin/fsck":      {http.MethodPost: s.fsck},
		"/-/admin/bucket":    {http.MethodGet: s.bucket, http.MethodPost: s.setBucket},
		"/-/admin/backup":    {http.MethodPost: s.backup},
		"/-/admin/keys":      {http.MethodGet: s.keysStatus, http.MethodPost: s.rotateKeys},
	}
}

// flag reads a parameter that is true or false.
func flag(r *http.Request, name string) (bool, error) {
	switch v := r.URL.Query().Get(name); v {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, core.E("admin", core.InvalidArgument, fmt.Errorf("%s is true or false, not %q", name, v))
	}
}

// wait does something in the background and waits for it. Whoever goes away does not end it.
func (s *Server) wait(r *http.Request, do func(ctx context.Context) (any, error)) (any, error) {
	done := make(chan struct{})
	var result any
	var err error
	s.background.Go(func() {
		defer close(done)
		result, err = do(s.life)
	})
	select {
	case <-done:
		return result, err
	case <-r.Context().Done():
		return nil, core.E("admin", core.Canceled, r.Context().Err())
	}
}

// start does something in the background, and answers at once with what status says.
func (s *Server) start(what string, do func(ctx context.Context) error, status func(*http.Request) (any, error)) (any, error) {
	s.background.Go(func() {
		if err := do(s.life); err != nil && s.life.Err() == nil {
			s.log.Warn(what+" failed", "err", err)
		}
	})
	return status(nil)
}

func (s *Server) reclaimStatus(*http.Request) (any, error) { return s.reclaimer.Status(), nil }

// startReclaim frees everything that can be freed.
func (s *Server) startReclaim(r *http.Request) (any, error) {
	wait, err := flag(r, "wait")
	if err != nil {
		return nil, err
	}
	if wait {
		return s.wait(r, func(ctx context.Context) (any, error) { return s.reclaimer.Round(ctx, true) })
	}
	return s.start("reclaim", func(ctx context.Context) error {
		_, err := s.reclaimer.Round(ctx, true)
		return err
	}, s.reclaimStatus)
}

func (s *Server) scrubStatus(*http.Request) (any, error) { return s.scrubber.Status(), nil }

// startScrub reads and verifies everything.
func (s *Server) startScrub(r *http.Request) (any, error) {
	wait, err := flag(r, "wait")
	if err != nil {
		return nil, err
	}
	if wait {
		return s.wait(r, func(ctx context.Context) (any, error) {
			err := s.scrubber.Pass(ctx)
			return s.scrubber.Status(), err
		})
	}
	return s.start("scrub", s.scrubber.Pass, s.scrubStatus)
}

func (s *Server) lifecycleStatus(*http.Request) (any, error) { return s.lifecycle.Status(), nil }

// startLifecycle deletes what is due now.
func (s *Server) startLifecycle(r *http.Request) (any, error) {
	wait, err := flag(r, "wait")
	if err != nil {
		return nil, err
	}
	if wait {
		return s.wait(r, func(ctx context.Context) (any, error) { return s.lifecycle.Pass(ctx) })
	}
	return s.start("lifecycle", func(ctx context.Context) error {
		_, err := s.lifecycle.Pass(ctx)
		return err
	}, s.lifecycleStatus)
}

// fsck recounts the metadata, and reads all content too where it is asked to.
func (s *Server) fsck(r *http.Request) (any, error) {
	content, err := flag(r, "content")
	if err != nil {
		return nil, err
	}
	return reclaim.Check(r.Context(), s.meta, s.blocks, reclaim.CheckOptions{Content: content})
}

// backup writes a backup into a directory of this machine.
func (s *Server) backup(r *http.Request) (any, error) {
	q := r.URL.Query()
	dir := q.Get("dir")
	if !filepath.IsAbs(dir) {
		return nil, core.E("admin.backup", core.InvalidArgument, fmt.Errorf("dir has to be an absolute path, not %q", dir))
	}
	var keep int
	if v := q.Get("keep"); v != "" {
		if err := parseInt(&keep, v, 0, 1_000_000); err != nil {
			return nil, core.E("admin.backup", core.InvalidArgument, fmt.Errorf("keep: %w", err))
		}
	}
	link, err := flag(r, "link")
	if err != nil {
		return nil, err
	}
	return backup.Backup(r.Context(), backup.Options{
		Meta: s.meta, Blocks: s.blocks, DataDir: s.config.Data, Dir: dir, Keep: keep, Link: link, Now: s.config.Now,
		Hold: func(ctx context.Context, fn func() error) error {
			return s.reclaimer.Hold(ctx, func() error {
				if err := s.writer.Settle(ctx); err != nil { // what is backed up must not be ahead of the drive
					return err
				}
				return fn()
			})
		},
	})
}

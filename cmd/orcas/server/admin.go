package server

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"orcas/core"
	"orcas/s3/sigv4"
)

// maxAdminBody bounds what an administrative request may carry, in bytes.
const maxAdminBody = 64 << 10

// admin answers on the admin listener: the health to everybody, everything else to the root, whose requests are signed as those for S3 are
// (AWS Signature Version 4, service s3). Answers are JSON documents; an error is {"error": "..."}.
//
//	GET  /-/admin/reclaim             what reclaim does
//	POST /-/admin/reclaim[?wait=true] frees everything that can be freed; with wait, the answer is what came of it
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
		"/-/admin/reclaim": {http.MethodGet: s.reclaimStatus, http.MethodPost: s.startReclaim},
	}
}

func (s *Server) reclaimStatus(*http.Request) (any, error) { return s.reclaimer.Status(), nil }

// startReclaim frees everything that can be freed. Whoever waits and goes away does not end it.
func (s *Server) startReclaim(r *http.Request) (any, error) {
	switch wait := r.URL.Query().Get("wait"); wait {
	case "true":
		done := make(chan struct{})
		var result any
		var err error
		s.background.Go(func() {
			defer close(done)
			result, err = s.reclaimer.Round(s.life, true)
		})
		select {
		case <-done:
			return result, err
		case <-r.Context().Done():
			return nil, core.E("admin.reclaim", core.Canceled, r.Context().Err())
		}
	case "", "false":
		s.background.Go(func() {
			if _, err := s.reclaimer.Round(s.life, true); err != nil && !errors.Is(err, context.Canceled) {
				s.log.Warn("reclaim failed", "err", err)
			}
		})
		return s.reclaimer.Status(), nil
	default:
		return nil, core.E("admin.reclaim", core.InvalidArgument, errors.New("wait is true or false, not "+wait))
	}
}

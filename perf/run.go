// Package perf loads an S3 server over HTTP and says how fast it is, beside the most that the machine allows: a null server (the
// same HTTP front, storing nothing), the disk and the memory. A run is a list of scenarios (scenarios.go has the table) against
// an endpoint, or against servers that it starts itself, and leaves one document behind (package result).
//
// Its rules: real SigV4, connections kept alive, bodies that differ from each other, every answer's status expected and every
// body that comes back compared by XXH3-64. An open loop counts latency from the time at which a request was meant to be sent; a
// closed loop says that it is one. What is compared runs in turns (A B B A) or at the same time, in one run, and the median counts. A
// load in which more went wrong than was allowed, or nothing was completed, fails. Keys carry the run's id, and what a run made is gone
// when it ends. Where client and server share the machine, figures are ratios first.
package perf

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"orcas/perf/result"
)

// Profile says how much of each scenario is run.
type Profile string

// The profiles.
const (
	Smoke      Profile = "smoke"      // everything in about a minute
	Baseline   Profile = "baseline"   // what reports are made of: about 20 minutes
	Saturation Profile = "saturation" // the full times and counts: some hours
)

// profiles returns the profiles in the order of the figures of a scenario; saturation is the place of the last.
func profiles() []Profile { return []Profile{Smoke, Baseline, Saturation} }

const saturation = 2

// Options say what is run, against what.
type Options struct {
	Profile   Profile
	Scenarios []string // ids; none: all that can be run
	Target    *Target  // nil: servers of its own, which Program starts with their data in Dir
	Bucket    string   // of the target; "": one is made, and removed at the end
	ServerPID int      // of the target, for its CPU time and memory; 0: not measured
	Program   string   // the path of this program
	Dir       string   // on the file system to be measured
	TLS, H2   bool     // of servers of its own

	Signing      Signing
	Compressible float64 // share of zeros in bodies, 0 to 1
	MaxErrorRate float64 // of a load, 0 to 1: above it the run fails

	// What replaces the profile's figures, where it is not 0.
	Duration time.Duration
	Workers  int
	Rate     float64 // requests a second
	Keys     int
	Turns    int
	Mode     string // closed, open, or "" for what the scenario does by itself

	Version  string // of this program
	Commit   string // of which it was made; "": what the program knows
	Progress Progress
}

// Progress is told how a run goes on. It is called by one goroutine at a time.
type Progress interface {
	Scenario(id string, number, of int) // begins
	Step(what string)                   // within the scenario: what is measured now
	Row(text string)                    // was measured
}

// ErrUnsupported is the error of a scenario that the server does not serve, or that needs servers of the run's own.
const ErrUnsupported = unsupported("this server does not serve it")

type unsupported string

func (u unsupported) Error() string { return string(u) }

// Is makes every unsupported error ErrUnsupported.
func (u unsupported) Is(target error) bool {
	_, ok := target.(unsupported)
	return ok
}

const needsOwn = unsupported("it needs servers of the run's own (leave out --endpoint)")

// run is a run under way.
type run struct {
	ctx    context.Context
	o      Options
	id     string
	dir    string // of its own servers
	keys   Keys
	doc    *result.Run
	bucket string // of the target
}

// Run runs scenarios and returns what they measured, also when it fails: then as far as it came. What it made on the server or the disk
// is gone when it returns.
func Run(ctx context.Context, o Options) (*result.Run, error) {
	var id [6]byte
	_, _ = rand.Read(id[:]) // never fails
	r := &run{ctx: ctx, o: o, id: hex.EncodeToString(id[:]), keys: NewKeys()}
	r.doc = &result.Run{Version: result.Version, ID: r.id, Profile: string(o.Profile), StartedAt: time.Now().UTC().Truncate(time.Second)}
	chosen, err := choose(o)
	if err != nil {
		return r.doc, err
	}
	start := time.Now()
	defer func() { r.doc.DurationSec = time.Since(start).Seconds() }()
	end, err := r.begin(chosen)
	if err != nil {
		return r.doc, err
	}
	errs := r.scenarios(chosen)
	return r.doc, errors.Join(append(errs, end())...)
}

// choose returns the scenarios that were asked for.
func choose(o Options) ([]*scenario, error) {
	if !slices.Contains(profiles(), o.Profile) {
		return nil, fmt.Errorf("profile %q is not smoke, baseline or saturation", o.Profile)
	}
	var chosen []*scenario
	all := allScenarios()
	for i := range all {
		if len(o.Scenarios) == 0 || slices.Contains(o.Scenarios, all[i].id) {
			chosen = append(chosen, &all[i])
		}
	}
	for _, id := range o.Scenarios {
		if !slices.ContainsFunc(all, func(s scenario) bool { return s.id == id }) {
			return nil, fmt.Errorf("scenario %q is not known: `orcas perf list` names them", id)
		}
	}
	return chosen, nil
}

// scenarios runs them one after the other. One that fails does not stop the others, but an interrupt does.
func (r *run) scenarios(chosen []*scenario) (errs []error) {
	for i, sc := range chosen {
		if r.ctx.Err() != nil {
			return append(errs, fmt.Errorf("interrupted before %s: %w", sc.id, r.ctx.Err()))
		}
		r.o.Progress.Scenario(sc.id, i+1, len(chosen))
		err := r.scenario(sc)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrUnsupported) && len(r.o.Scenarios) == 0:
			r.doc.Notes = append(r.doc.Notes, fmt.Sprintf("%s: %v", sc.id, err))
			r.o.Progress.Row(fmt.Sprintf("left out: %v", err))
			continue
		}
		r.doc.Failures = append(r.doc.Failures, result.Failure{Scenario: sc.id, Error: err.Error()})
		r.o.Progress.Row(fmt.Sprintf("FAILED: %v", err))
		errs = append(errs, fmt.Errorf("%s: %w", sc.id, err))
	}
	return errs
}

// begin prepares the place of the run and returns what takes it away again.
func (r *run) begin(chosen []*scenario) (end func() error, err error) {
	r.doc.Environment = environment(r.o.Version)
	e := &r.doc.Environment
	e.Commit = cmp.Or(r.o.Commit, e.Commit)
	e.SigningMode, e.CompressibleBy = string(r.o.Signing), r.o.Compressible
	if r.o.Target != nil {
		return r.beginTarget(e)
	}
	for _, sc := range chosen {
		if err := r.fits(sc); err != nil {
			return nil, err
		}
	}
	if r.dir, err = os.MkdirTemp(r.o.Dir, "orcas-perf-"); err != nil {
		return nil, err
	}
	end = func() error { return os.RemoveAll(r.dir) }
	if err := r.beginOwn(e); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

// fits says whether there is room for what a scenario stores.
func (r *run) fits(sc *scenario) error {
	if sc.bytes == nil {
		return nil
	}
	free, err := freeBytes(r.o.Dir)
	if err != nil {
		return err
	}
	// The server keeps 1 % or 256 MiB free, and a store has metadata and what was replaced.
	if need := sc.bytes(r.params(sc)); need+need/4+(512<<20) > float64(free) {
		return fmt.Errorf("%s: its data of %.1f GB does not fit in %s: %.1f GB are free there", sc.id, need/1e9, r.o.Dir, float64(free)/1e9)
	}
	return nil
}

// beginOwn measures what belongs to the machine alone.
func (r *run) beginOwn(e *result.Environment) error {
	r.bucket = "perf-" + r.id
	e.FileSystem, e.SameMachine, e.Durability, e.Server = fileSystem(r.dir), true, "strict", "orcas "+r.o.Version
	own := Target{H2: r.o.H2}
	if r.o.TLS || r.o.H2 {
		own.TLS = &tls.Config{}
	}
	e.Protocol = own.Protocol()
	disk, err := MeasureDisk(r.ctx, r.dir, 4<<10, 500)
	if err != nil {
		return err
	}
	e.FdatasyncP50us, e.FdatasyncP99us = disk.P50us, disk.P99us
	if len(r.o.Scenarios) == 0 || slices.Contains(r.o.Scenarios, idCeilings) { // who wants one scenario only does not want to wait
		r.o.Progress.Step("ceilings")
		r.doc.Ceilings, err = r.ceilings()
	}
	return err
}

// beginTarget sees whether the target lets us in, and makes a bucket unless one was named.
func (r *run) beginTarget(e *result.Environment) (end func() error, err error) {
	t := r.o.Target
	t.Signing = r.o.Signing
	host, _, _ := net.SplitHostPort(t.Address) // ParseTarget has made it
	ip := net.ParseIP(host)
	e.SameMachine, e.Protocol = host == "localhost" || ip != nil && ip.IsLoopback(), t.Protocol()
	r.bucket = r.o.Bucket
	method, made := http.MethodHead, false
	if r.bucket == "" {
		r.bucket, method, made = "perf-"+r.id, http.MethodPut, true
	}
	a, err := once(r.ctx, t, Call{Method: method, Path: "/" + r.bucket, Keep: true})
	if err != nil {
		return nil, fmt.Errorf("%s cannot be reached: %w", t.Endpoint(), err)
	}
	switch {
	case a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s refuses these credentials: %s", t.Endpoint(), describe(a))
	case a.Status == http.StatusNotFound:
		return nil, fmt.Errorf("%s has no bucket %s", t.Endpoint(), r.bucket)
	case a.Status != http.StatusOK:
		return nil, fmt.Errorf("%s: bucket %s: %s", t.Endpoint(), r.bucket, describe(a))
	}
	e.Server = a.Server
	r.askHealth(e)
	return func() error {
		if !made {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), cleanTimeout)
		defer cancel()
		a, err := once(ctx, t, Call{Method: http.MethodDelete, Path: "/" + r.bucket, Keep: true})
		if err == nil && a.Status != http.StatusNoContent && a.Status != http.StatusOK {
			err = errors.New(describe(a))
		}
		if err != nil {
			return fmt.Errorf("bucket %s could not be removed: %w", r.bucket, err)
		}
		return nil
	}, nil
}

// askHealth asks the target for what ORCAS tells about itself.
func (r *run) askHealth(e *result.Environment) {
	a, err := once(r.ctx, r.o.Target, Call{Method: http.MethodGet, Path: "/-/health/ready", Anonymous: true, Keep: true})
	var health struct{ Status, Durability, Version string }
	if err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &health) != nil || health.Durability == "" {
		return // it is another server
	}
	e.Server, e.Durability = "orcas "+health.Version, health.Durability
}

// describe gives status and S3 code of an answer that was kept.
func describe(a Answer) string {
	_, code, _ := strings.Cut(string(a.Body), "<Code>")
	code, _, _ = strings.Cut(code, "<")
	return strings.TrimSpace(fmt.Sprintf("status %d %s", a.Status, code))
}

// once sends one request over a connection of its own.
func once(ctx context.Context, t *Target, call Call) (Answer, error) {
	c := NewClient(ctx, t)
	defer c.Close()
	return c.Do(&call)
}

// server starts a server of the run's own with its data in a directory of its own.
func (r *run) server(name string, env ...string) (*Process, error) {
	p := Program{Path: r.o.Program, Name: name, Dir: r.dir, Keys: r.keys, Ready: "/-/health/ready", Env: env, TLS: r.o.TLS || r.o.H2,
		Args: []string{"server", "--admin-address", "none", "--data", filepath.Join(r.dir, name)}}
	if p.TLS {
		p.Args = append(p.Args, "--tls-self-signed")
	}
	s, err := p.Start(r.ctx)
	if err != nil {
		return nil, err
	}
	r.adapt(s)
	a, err := once(r.ctx, s.Target, Call{Method: http.MethodPut, Path: "/" + r.bucket, Keep: true})
	if err == nil && a.Status != http.StatusOK {
		err = errors.New(describe(a))
	}
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("make a bucket: %w", err)
	}
	return s, nil
}

// adapt makes a server's target send as the options say.
func (r *run) adapt(s *Process) { s.Target.Signing, s.Target.H2 = r.o.Signing, r.o.H2 }

// nullServer starts the null server.
func (r *run) nullServer() (*Process, error) {
	s, err := Program{Path: r.o.Program, Name: "null", Dir: r.dir, Keys: r.keys, Ready: "/-/health/live", Args: []string{"perf", "null-server"}}.Start(r.ctx)
	if err == nil {
		s.Target.Signing = r.o.Signing
	}
	return s, err
}

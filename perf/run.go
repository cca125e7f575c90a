// Package perf loads an S3 server over HTTP and measures how fast it is, compared with the limits of the machine: a
// null server (the same HTTP server, storing nothing), the disk and memory. A run is a list of scenarios
// (scenarios.go has the table) against an endpoint, or against servers that it starts itself. Its result is one
// document (package result).
//
// Rules of a run:
//
//   - Requests have real SigV4 signatures and use persistent connections. Bodies differ from each other.
//   - Every request has an expected status, and every body that is read is compared by its XXH3-64.
//   - An open loop measures latency from the time at which a request should have been sent; a closed loop is marked.
//   - Loads that are compared run alternately (A B B A) or at the same time, in one run, and the median counts.
//   - A load fails if more requests fail than are allowed, or if none succeeds.
//   - Keys contain the ID of the run, and a run deletes everything that it created.
//
// If client and server share the machine, ratios are more reliable than absolute figures.
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

	"orcas/internal/loadgen"
	"orcas/perf/result"
)

// Profile selects the durations and counts of the scenarios.
type Profile string

// The profiles.
const (
	Smoke      Profile = "smoke"      // everything, in two or three minutes
	Baseline   Profile = "baseline"   // for reports: about 22 minutes
	Saturation Profile = "saturation" // the full durations and counts; takes some hours
)

// profiles returns the profiles in the order of scenario.profiles; saturation is the index of the last.
func profiles() []Profile { return []Profile{Smoke, Baseline, Saturation} }

const saturation = 2

// Options define a run.
type Options struct {
	Profile   Profile
	Scenarios []string        // IDs of the scenarios; if empty, all that can be run
	Target    *loadgen.Target // the server to load; if nil, the run starts its own, with Program and their data in Dir
	Bucket    string          // a bucket of the target; if empty, one is created, and deleted at the end
	ServerPID int             // process ID of the target, to measure its CPU time and memory; 0 if they are not measured
	Program   string          // the path of this program
	Peers     Peers           // other servers to compare with
	Before    string          // the path of another build of ORCAS; scenario builds only
	Dir       string          // a directory on the file system to measure
	TLS, H2   bool            // settings of the servers that the run starts

	Signing      loadgen.Signing
	Compressible float64 // share of zeros in bodies, 0 to 1
	MaxErrorRate float64 // maximum error rate of a load, 0 to 1; above it the run fails

	// Parameters that override those of the profile if they are not 0.
	Duration time.Duration
	Workers  int
	Rate     float64 // requests per second
	Keys     int
	Turns    int
	Mode     string // closed, open, or "" for the default of the scenario
	Size     int    // size of an object in bytes; scenario growth only
	Order    Order  // order of the keys; "" means Sequential; scenario growth only

	Version  string // version of this program
	Commit   string // commit from which it was built; if empty, the one in its build information
	Progress Progress
}

// Progress shows the progress of a run. It is called by one goroutine at a time.
type Progress interface {
	Scenario(id string, number, of int) // a scenario begins
	Step(what string)                   // a step of the scenario begins
	Row(text string)                    // a row was measured
}

// ErrUnsupported is the error of a scenario that the server does not support, or that needs servers that the run starts
// itself.
const ErrUnsupported = unsupported("this server does not support it")

type unsupported string

func (u unsupported) Error() string { return string(u) }

// Is reports that every unsupported error matches ErrUnsupported.
func (u unsupported) Is(target error) bool {
	_, ok := target.(unsupported)
	return ok
}

const needsOwn = unsupported("it needs servers that the run starts itself (omit --endpoint)")

// run is a run in progress.
type run struct {
	ctx    context.Context
	o      Options
	id     string
	dir    string // directory for the servers that it starts
	keys   loadgen.Keys
	doc    *result.Run
	bucket string // bucket of the target
}

// Run runs scenarios and returns their results; after an error, the results so far. When it returns, everything that it
// created on the server or the disk has been deleted.
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

// choose returns the selected scenarios.
func choose(o Options) ([]*scenario, error) {
	if !slices.Contains(profiles(), o.Profile) {
		return nil, fmt.Errorf("profile %q: expected smoke, baseline or saturation", o.Profile)
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
			return nil, fmt.Errorf("unknown scenario %q: `orcas perf list` lists them", id)
		}
	}
	return chosen, nil
}

// scenarios runs scenarios one after the other. A failure does not stop the others, but an interrupt does.
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
			r.o.Progress.Row(fmt.Sprintf("skipped: %v", err))
			continue
		}
		r.doc.Failures = append(r.doc.Failures, result.Failure{Scenario: sc.id, Error: err.Error()})
		r.o.Progress.Row(fmt.Sprintf("FAILED: %v", err))
		errs = append(errs, fmt.Errorf("%s: %w", sc.id, err))
	}
	return errs
}

// begin prepares a run and returns the function that cleans up after it.
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

// fits returns an error if there is not enough space for the data of a scenario.
func (r *run) fits(sc *scenario) error {
	if sc.bytes == nil {
		return nil
	}
	free, err := freeBytes(r.o.Dir)
	if err != nil {
		return err
	}
	// The server keeps 1 % or 256 MiB free, and a store also has metadata and replaced content.
	if need := sc.bytes(r.params(sc)); need+need/4+(512<<20) > float64(free) {
		return fmt.Errorf("%s: its data of %.1f GB does not fit in %s, which has %.1f GB of free space", sc.id, need/1e9, r.o.Dir, float64(free)/1e9)
	}
	return nil
}

// beginOwn measures the machine.
func (r *run) beginOwn(e *result.Environment) error {
	r.bucket = "perf-" + r.id
	e.FileSystem, e.SameMachine, e.Durability, e.Server = fileSystem(r.dir), true, "strict", "orcas "+r.o.Version
	own := loadgen.Target{H2: r.o.H2}
	if r.o.TLS || r.o.H2 {
		own.TLS = &tls.Config{}
	}
	e.Protocol = own.Protocol()
	disk, err := MeasureDisk(r.ctx, r.dir, 4<<10, 500)
	if err != nil {
		return err
	}
	e.FdatasyncP50us, e.FdatasyncP99us = disk.P50us, disk.P99us
	if len(r.o.Scenarios) == 0 || slices.Contains(r.o.Scenarios, idCeilings) { // for a single scenario the wait would be too long
		r.o.Progress.Step("ceilings")
		r.doc.Ceilings, err = r.ceilings()
	}
	return err
}

// beginTarget checks the target and the credentials, and creates a bucket unless one was named.
func (r *run) beginTarget(e *result.Environment) (end func() error, err error) {
	t := r.o.Target
	t.Signing = r.o.Signing
	host, _, _ := net.SplitHostPort(t.Address) // cannot fail, because ParseTarget has checked it
	ip := net.ParseIP(host)
	e.SameMachine, e.Protocol = host == "localhost" || ip != nil && ip.IsLoopback(), t.Protocol()
	r.bucket = r.o.Bucket
	method, made := http.MethodHead, false
	if r.bucket == "" {
		r.bucket, method, made = "perf-"+r.id, http.MethodPut, true
	}
	a, err := once(r.ctx, t, loadgen.Request{Method: method, Path: "/" + r.bucket, Keep: true})
	if err != nil {
		return nil, fmt.Errorf("cannot reach %s: %w", t.Endpoint(), err)
	}
	switch {
	case a.Status == http.StatusForbidden || a.Status == http.StatusUnauthorized:
		return nil, fmt.Errorf("%s rejects these credentials: %s", t.Endpoint(), describe(a))
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
		a, err := once(ctx, t, loadgen.Request{Method: http.MethodDelete, Path: "/" + r.bucket, Keep: true})
		if err == nil && a.Status != http.StatusNoContent && a.Status != http.StatusOK {
			err = errors.New(describe(a))
		}
		if err != nil {
			return fmt.Errorf("cannot delete bucket %s: %w", r.bucket, err)
		}
		return nil
	}, nil
}

// askHealth reads the version and the durability from the health API, if the server is ORCAS.
func (r *run) askHealth(e *result.Environment) {
	a, err := once(r.ctx, r.o.Target, loadgen.Request{Method: http.MethodGet, Path: "/-/health/ready", Anonymous: true, Keep: true})
	var health struct{ Status, Durability, Version string }
	if err != nil || a.Status != http.StatusOK || json.Unmarshal(a.Body, &health) != nil || health.Durability == "" {
		return // it is another server
	}
	e.Server, e.Durability = "orcas "+health.Version, health.Durability
}

// describe returns the status and the S3 error code of a response whose body was kept.
func describe(a loadgen.Reply) string {
	_, code, _ := strings.Cut(string(a.Body), "<Code>")
	code, _, _ = strings.Cut(code, "<")
	return strings.TrimSpace(fmt.Sprintf("status %d %s", a.Status, code))
}

// once sends one request over a new connection.
func once(ctx context.Context, t *loadgen.Target, call loadgen.Request) (loadgen.Reply, error) {
	c := loadgen.NewConn(ctx, t)
	defer c.Close()
	return c.Do(&call)
}

// ownProgram returns the Program of a server that the run starts.
func (r *run) ownProgram(name string, env ...string) Program {
	p := Program{Path: r.o.Program, Name: name, Dir: r.dir, Keys: r.keys, Ready: "/-/health/ready", Env: env, TLS: r.o.TLS || r.o.H2,
		Args: []string{"server", "--admin-address", "none", "--data", filepath.Join(r.dir, name)}}
	if p.TLS {
		p.Args = append(p.Args, "--tls-self-signed")
	}
	return p
}

// server starts a server of the run, with a separate data directory.
func (r *run) server(name string, env ...string) (*Process, error) {
	return r.startServer(r.ownProgram(name, env...))
}

// startServer starts a server, and creates its bucket.
func (r *run) startServer(p Program) (*Process, error) {
	s, err := p.Start(r.ctx)
	if err != nil {
		return nil, err
	}
	r.adapt(s)
	a, err := once(r.ctx, s.Target, loadgen.Request{Method: http.MethodPut, Path: "/" + r.bucket, Keep: true})
	if err == nil && a.Status != http.StatusOK {
		err = errors.New(describe(a))
	}
	if err != nil {
		s.Kill()
		return nil, fmt.Errorf("create a bucket: %w", err)
	}
	return s, nil
}

// adapt sets the options of the run for the target of a server.
func (r *run) adapt(s *Process) { s.Target.Signing, s.Target.H2 = r.o.Signing, r.o.H2 }

func (r *run) nullProgram(name string) Program {
	return Program{Path: r.o.Program, Name: name, Dir: r.dir, Keys: r.keys, Ready: "/-/health/live", Args: []string{"perf", "null-server"}}
}

// nullServer starts the null server.
func (r *run) nullServer() (*Process, error) {
	s, err := r.nullProgram("null").Start(r.ctx)
	if err == nil {
		s.Target.Signing = r.o.Signing
	}
	return s, err
}

package perf

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/internal/loadgen"
	"orcas/perf/result"
	"orcas/server"
)

// TestMain lets the test binary act as the program that a run starts: `server` and `perf null-server`.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && (os.Args[1] == "server" || os.Args[1] == "perf") {
		if err := program(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func program(args []string) error {
	value := func(name string) string {
		for i := range args {
			if args[i] == name {
				return args[i+1]
			}
		}
		return ""
	}
	if args[0] == "perf" {
		null := NewNullServer(os.Getenv("ORCAS_ROOT_ACCESS_KEY"), os.Getenv("ORCAS_ROOT_SECRET_KEY"), ownRegion)
		return http.ListenAndServe(value("--address"), null)
	}
	settings, err := server.ReadSettings(os.Environ())
	if err != nil {
		return err
	}
	settings.MinFree = server.Reserve{Percent: 0, Bytes: 1 << 20}
	s, err := server.Open(context.Background(), server.Config{
		Data: value("--data"), Address: value("--address"), Settings: settings, Banner: io.Discard, Log: os.Stderr,
		SelfSigned: strings.Contains(strings.Join(args, " "), "--tls-self-signed"),
	})
	if err != nil {
		return err
	}
	return s.Run(context.Background())
}

// quiet is a Progress that only logs rows.
type quiet struct{ t *testing.T }

func (quiet) Scenario(string, int, int) {}
func (quiet) Step(string)               {}
func (q quiet) Row(text string)         { q.t.Log(text) }

// tiny returns options for a short run.
func tiny(t *testing.T, scenarios ...string) Options {
	program, err := os.Executable()
	require.NoError(t, err)
	return Options{Profile: Smoke, Scenarios: scenarios, Program: program, Before: program, Dir: t.TempDir(), Signing: loadgen.Signed, Progress: quiet{t},
		Duration: 60 * time.Millisecond, Keys: 110, Rate: 600, Workers: 10, Turns: 1}
}

func empty(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "the run left files behind")
}

// start starts a server and returns a target for it.
func start(t *testing.T) (*loadgen.Target, string) {
	t.Helper()
	o := tiny(t)
	dir := t.TempDir()
	p, err := Program{Path: o.Program, Name: "server", Dir: dir, Keys: NewKeys(), Ready: "/-/health/ready", Args: []string{"server", "--data", filepath.Join(dir, "data")}}.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	return p.Target, dir
}

// unsupportedYet are the scenarios that the server does not support yet.
var unsupportedYet []string

// TestEveryScenario runs all scenarios (with -short: one of each kind) against servers that the run starts, and checks
// the figures.
func TestEveryScenario(t *testing.T) {
	o := tiny(t)
	if testing.Short() {
		o.Scenarios = []string{"batch-compare", "concurrent-1m", "multipart", "mixed-ramp", "file-sweep", "web-conformance", "list", "footprint", idCeilings}
	}
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	empty(t, o.Dir)
	require.Empty(t, doc.Failures)
	ran := map[string]*result.Scenario{}
	for i := range doc.Scenarios {
		s := &doc.Scenarios[i]
		ran[s.Scenario] = s
		require.NotEmpty(t, s.Results, s.Scenario)
		for _, row := range s.Results {
			sensible(t, s.Scenario, &row)
		}
	}
	for _, s := range List() {
		left := slices.Contains(unsupportedYet, s.ID) || len(o.Scenarios) > 0 && !slices.Contains(o.Scenarios, s.ID)
		require.Equal(t, !left, ran[s.ID] != nil, s.ID)
	}
	require.Len(t, doc.Notes, len(unsupportedYet))
	environmentIsFull(t, doc)

	values := func(id string) map[string]float64 { return ran[id].Values }
	require.Equal(t, 110.0, values("footprint")["keys"])
	require.Greater(t, values("footprint")["disk_bytes_per_object"], 4096.0)
	require.Positive(t, values("footprint")["start_after_rebuild_sec"])
	require.Len(t, ran["footprint"].Goals, 3)
	if !testing.Short() {
		require.Len(t, ran["core"].Goals, 13)
		require.GreaterOrEqual(t, len(ran["builds"].Goals), 3) // short loads have no CPU time
		require.Positive(t, values("churn")["disk_bytes_before_reclaim"])
	}
	for _, row := range ran["file-sweep"].Results {
		require.Len(t, row.MD5, 32)
	}
	statuses := map[string]int64{}
	for _, row := range ran["web-conformance"].Results {
		for status, n := range row.StatusCodes {
			statuses[status] += n
		}
	}
	require.Equal(t, map[string]int64{"200": 5, "206": 1, "403": 1, "404": 1}, statuses)
	for i, row := range ran["batch-compare"].Results {
		require.Equal(t, []string{"packing-off", "packing-on", "null"}[i%3], row.Variant)
		require.Equal(t, i%3 == 1, row.Values["gain"] > 0)
	}
	nullIsBeside(t, ran)
}

// nullIsBeside checks that each point of a plot was measured with the null server too.
func nullIsBeside(t *testing.T, ran map[string]*result.Scenario) {
	for id, operations := range map[string][]string{"batch-compare": {"put"}, "concurrent-1m": {"put", "get"}, "workers-sweep": {"put", "get"}, "multipart": {"part"},
		"list": {"list"}, "mixed-ramp": {"mixed"}} {
		if ran[id] == nil {
			continue // skipped with -short
		}
		rows := ran[id].Results
		for _, row := range rows {
			if row.Null() || row.Variant == "walk" || !slices.Contains(operations, row.Operation) {
				continue
			}
			require.True(t, slices.ContainsFunc(rows, func(n result.Row) bool {
				return n.Null() && n.Operation == row.Operation && n.SizeBytes == row.SizeBytes && (n.OpenLoop || n.Workers == row.Workers) &&
					(n.Variant == "null" || n.Variant == result.NullVariant(row.Variant)) && n.RequestedRPS == row.RequestedRPS && n.Values["keys"] == row.Values["keys"]
			}), "%s: %+v", id, row)
		}
	}
}

func TestListWalksOverPages(t *testing.T) {
	o := tiny(t, "list")
	o.Keys = 2500
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	rows := doc.Scenarios[0].Results
	require.Len(t, rows, 7)
	for _, row := range rows {
		require.Equal(t, 2500.0, row.Values["keys"])
	}
	require.EqualValues(t, 3, rows[6].Requests)
	require.InDelta(t, 2500, rows[6].Values["keys_per_sec"]*rows[6].Values["walk_sec"], 1e-6)
}

// TestUploadsAreFinished: an upload that is in progress when the time is over is finished, so the rate of uploads
// counts only complete ones.
func TestUploadsAreFinished(t *testing.T) {
	o := tiny(t, "multipart")
	o.Duration = time.Millisecond
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	requests := map[string]int64{}
	for _, row := range doc.Scenarios[0].Results {
		if !row.Null() {
			requests[row.Operation] = row.Requests
		}
	}
	require.Positive(t, requests["create"])
	require.LessOrEqual(t, requests["create"], int64(o.Workers), "a worker must not begin an upload after the end of the load")
	require.Equal(t, requests["create"], requests["complete"])
	require.Equal(t, 2*requests["create"], requests["part"])
}

// sensible checks that the figures of a row are plausible.
func sensible(t *testing.T, id string, r *result.Row) {
	what := fmt.Sprintf("%s: %+v", id, *r)
	require.Positive(t, r.Requests, what)
	if r.OpenLoop { // the waits of requests that were not sent in time count too
		require.GreaterOrEqual(t, r.Samples, r.Requests, what)
	} else {
		require.Equal(t, r.Requests, r.Samples, what)
	}
	require.Zero(t, r.ErrorRate, what)
	require.Positive(t, r.ThroughputRPS, what)
	require.InDelta(t, r.ThroughputRPS, r.CompletedRPS, 1e-6, what)
	require.Positive(t, r.P50Ms, what)
	require.GreaterOrEqual(t, r.MaxMs*1.001, r.P50Ms, what)
	require.Equal(t, r.Samples >= 20, r.P95Ms > 0, what)
	require.Equal(t, r.Samples >= 100, r.P99Ms > 0, what)
	require.Equal(t, r.OpenLoop, r.RequestedRPS > 0, what)
	require.NotEmpty(t, r.Operation, what)
	require.Positive(t, r.Workers, what)
	var counted int64
	for _, n := range r.StatusCodes {
		counted += n
	}
	require.Equal(t, r.Requests, counted, what)
}

func environmentIsFull(t *testing.T, doc *result.Run) {
	e := doc.Environment
	for name, value := range map[string]string{"os": e.OS, "arch": e.Arch, "cpu": e.CPU, "kernel": e.Kernel, "file system": e.FileSystem, "go": e.GoVersion,
		"server": e.Server, "durability": e.Durability, "signing": e.SigningMode, "protocol": e.Protocol} {
		require.NotEmpty(t, value, name)
	}
	require.Positive(t, e.MemoryBytes)
	require.Positive(t, e.FdatasyncP50us)
	require.GreaterOrEqual(t, e.FdatasyncP99us, e.FdatasyncP50us)
	require.Len(t, doc.Ceilings.Null, 15)
	require.Len(t, doc.Ceilings.Disk, 5)
	require.Len(t, doc.Ceilings.Memory, 5)
}

// TestEndpointIsLeftAsItWas runs against an existing server, which must have the same objects afterwards.
func TestEndpointIsLeftAsItWas(t *testing.T) {
	target, _ := start(t)
	o := tiny(t, "put-sweep", "multipart", "delete-batch", "list", "web-conformance", "mixed-ramp")
	o.Target = target
	doc, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Len(t, doc.Scenarios, 6)
	require.Equal(t, "strict", doc.Environment.Durability)
	require.True(t, doc.Environment.SameMachine)
	require.Empty(t, bucketsOf(t, target))

	// An existing bucket keeps its objects, and gets no others.
	_, err = once(t.Context(), target, loadgen.Request{Method: "PUT", Path: "/mine"})
	require.NoError(t, err)
	_, err = once(t.Context(), target, loadgen.Request{Method: "PUT", Path: "/mine/kept"})
	require.NoError(t, err)
	o.Bucket = "mine"
	_, err = Run(t.Context(), o)
	require.NoError(t, err)
	l, err := page(t.Context(), target, "mine", "list-type=2")
	require.NoError(t, err)
	require.Len(t, l.Contents, 1)
	require.Equal(t, "kept", l.Contents[0].Key)
	l, err = page(t.Context(), target, "mine", "uploads=")
	require.NoError(t, err)
	require.Empty(t, l.Uploads)
}

func bucketsOf(t *testing.T, target *loadgen.Target) []string {
	a, err := once(context.Background(), target, loadgen.Request{Method: "GET", Path: "/", Keep: true})
	require.NoError(t, err)
	require.Equal(t, 200, a.Status)
	if name := element(a.Body, "Name"); name != "" {
		return []string{name}
	}
	return nil
}

// TestInterruptCleansUp interrupts a run in the middle of a load.
func TestInterruptCleansUp(t *testing.T) {
	target, _ := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := tiny(t, "multipart", "list")
	o.Target, o.Duration, o.Progress = target, time.Hour, &onStep{do: func(what string) {
		if strings.Contains(what, "concurrent uploads") {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}}
	doc, err := Run(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, doc.Failures, 1)
	require.Empty(t, bucketsOf(t, target))
}

// onStep calls do at each step.
type onStep struct {
	quiet
	do func(what string)
}

func (o *onStep) Step(what string) { o.do(what) }
func (*onStep) Row(string)         {}

// TestWaysOfSending runs scenarios with every way of signing, over TLS and over HTTP/2.
func TestWaysOfSending(t *testing.T) {
	for _, signing := range []loadgen.Signing{loadgen.Signed, loadgen.Unsigned, loadgen.Chunked, loadgen.Trailer} {
		o := tiny(t, "file-sweep", "web-conformance")
		o.Signing, o.TLS, o.H2, o.Compressible = signing, signing != loadgen.Signed, signing == loadgen.Trailer, 0.5
		doc, err := Run(t.Context(), o)
		require.NoError(t, err, signing)
		require.Len(t, doc.Scenarios, 2)
		require.Equal(t, map[loadgen.Signing]string{
			loadgen.Signed: "http/1.1", loadgen.Unsigned: "http/1.1+tls", loadgen.Chunked: "http/1.1+tls", loadgen.Trailer: "h2+tls",
		}[signing], doc.Environment.Protocol)
		for _, row := range append(doc.Scenarios[0].Results, doc.Scenarios[1].Results...) {
			sensible(t, string(signing), &row)
		}
	}
}

// lying starts a server that passes requests for objects to a handler, and handles requests for buckets correctly.
func lying(t *testing.T, object http.HandlerFunc) *loadgen.Target {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch {
		case strings.Count(r.URL.Path, "/") > 1:
			object(w, r)
		case r.Method == "DELETE":
			w.WriteHeader(http.StatusNoContent)
		case r.Method == "GET":
			fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
		}
	})}
	wg.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Close(); wg.Wait() })
	target, err := loadgen.ParseTarget("http://"+l.Addr().String(), loadgen.Keys{Access: "access", Secret: "secret-key"}, ownRegion, "", false, false)
	require.NoError(t, err)
	return target
}

//go:build cgo && linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"orcas/internal/loadgen"
	"orcas/perf"
	"orcas/perf/result"
	"orcas/server"
)

// perfCommand contains the commands that put load on servers and measure them.
type perfCommand struct {
	Run        perfRunCommand      `cmd:"" help:"Run scenarios against an endpoint, or against servers that the command starts."`
	List       perfListCommand     `cmd:"" help:"List the scenarios."`
	Core       perfCoreCommand     `cmd:"" help:"Measure ORCAS against its performance goals, alternating with a server that stores nothing and with the raw disk."`
	Peers      perfPeersCommand    `cmd:"" help:"Compare ORCAS with other S3 servers on this machine, alternating between them."`
	Ceilings   perfCeilingsCommand `cmd:"" help:"Measure the limits of the machine: a server that stores nothing, the disk, and memory."`
	Report     perfReportCommand   `cmd:"" passthrough:"" help:"Write a report on a run: Markdown, plots and an HTML page (requires the program orcas-report)."`
	Compare    perfCompareCommand  `cmd:"" help:"Compare two runs."`
	NullServer nullServerCommand   `cmd:"" help:"Serve S3 without storing anything, to show the upper limit of an HTTP server."`
}

type nullServerCommand struct {
	Address string `default:"127.0.0.1:9009" placeholder:"HOST:PORT" help:"Listen on this address (default ${default})."`
}

// Run serves until it is killed. The keys come from ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY.
func (c *nullServerCommand) Run(to *console) error {
	access, secret := to.getenv("ORCAS_ROOT_ACCESS_KEY"), to.getenv("ORCAS_ROOT_SECRET_KEY")
	if access == "" || secret == "" {
		return fmt.Errorf("ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY must be set")
	}
	boundGarbage() // the same as in a real server
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	fmt.Fprintf(to.stdout, "null server at http://%s: it stores nothing\n", l.Addr())
	s := &http.Server{Handler: perf.NewNullServer(access, secret, "us-east-1"), ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}

type perfListCommand struct{}

// Run prints the scenarios.
func (perfListCommand) Run(to *console) error {
	for _, s := range perf.List() {
		if _, err := fmt.Fprintf(to.stdout, "%-16s %s\n", s.ID, s.Text); err != nil {
			return err
		}
	}
	return nil
}

// perfCommon contains the flags of every command that measures.
type perfCommon struct {
	Profile  string        `default:"baseline" enum:"smoke,baseline,saturation" help:"Choose how much to measure: smoke (2 minutes), baseline (22 minutes) or saturation (hours)."`
	Dir      string        `default:"." placeholder:"DIR" help:"Store the data of the servers that the command starts below this directory, on the file system to measure (default: the current directory)."`
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the results of the run to this file, as JSON."`
	Duration time.Duration `help:"Set the duration of each load phase (overrides the profile)."`
	Turns    int           `help:"Repeat each measurement of a comparison this many times, and report the median."`
	Commit   string        `help:"Record this commit in the report if the program was built without version information."`
	Keys     int           `help:"Set the number of keys (overrides the profile)."`
}

func (c *perfCommon) options(to *console) perf.Options {
	return perf.Options{
		Profile: perf.Profile(c.Profile), Dir: c.Dir, Duration: c.Duration, Turns: c.Turns, Keys: c.Keys, Signing: loadgen.Signed, Version: server.Version(), Commit: c.Commit,
		Progress: newProgress(to.stdout),
	}
}

// run runs the measurements, and writes the results even if something failed.
func (c *perfCommon) run(ctx context.Context, o perf.Options) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent) // the load generator should use little CPU time
	}
	// A closed pipe must not kill the process before the run has cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	doc, err := perf.Run(ctx, o)
	if end, ok := o.Progress.(interface{ end() }); ok {
		end.end()
	}
	if e := c.write(doc); err == nil {
		err = e
	}
	return err
}

func (c *perfCommon) write(doc *result.Run) error {
	if c.JSON == "" || len(doc.Scenarios) == 0 {
		return nil
	}
	f, err := os.Create(c.JSON)
	if err != nil {
		return err
	}
	if err := doc.Write(f); err != nil {
		_ = f.Close() // the file is incomplete anyway
		return err
	}
	return f.Close()
}

type perfRunCommand struct {
	perfCommon
	perf.Peers
	Before string `placeholder:"PATH" help:"Compare with this other build of ORCAS (scenario builds only)."`
	growthFlags
	Scenario     []string `placeholder:"NAME" help:"Run only these scenarios (default: all that the server supports)."`
	Endpoint     string   `placeholder:"URL" help:"Measure this server (default: servers that the command starts, with their data in --dir)."`
	AccessKey    string   `env:"ORCAS_PERF_ACCESS_KEY" help:"Sign requests to --endpoint with this access key."`
	SecretKey    string   `env:"ORCAS_PERF_SECRET_KEY" help:"Sign requests to --endpoint with this secret key."`
	Region       string   `default:"us-east-1" help:"Sign requests for this region (default ${default})."`
	Bucket       string   `help:"Use this existing bucket (default: create one, and delete it at the end)."`
	ServerPID    int      `name:"server-pid" help:"Measure CPU time and memory of this process: the server at --endpoint, on this machine."`
	CA           string   `name:"ca" placeholder:"FILE" help:"Trust the certificates in this file (PEM)."`
	Insecure     bool     `help:"Trust any certificate."`
	TLS          bool     `name:"tls" help:"Use HTTPS with the servers that the command starts."`
	H2           bool     `name:"h2" help:"Use HTTP/2 over TLS."`
	Signing      string   `default:"signed" enum:"signed,unsigned,chunked,trailer" help:"Sign request bodies this way: signed, unsigned, chunked or trailer (default ${default})."`
	Compressible float64  `placeholder:"R" help:"Fill this share of each body with zeros, from 0 to 1."`
	MaxErrorRate float64  `placeholder:"R" help:"Fail if more than this share of the requests of any load fails, from 0 to 1 (default 0)."`
	Workers      int      `help:"Set the number of workers of closed loops (overrides the profile)."`
	Rate         float64  `placeholder:"N" help:"Set the requests per second of open loops (overrides the profile)."`
	Mode         string   `default:"" enum:",open,closed" placeholder:"MODE" help:"Run every load as an open or a closed loop (default: as the scenario defines)."`
}

// Validate is called by kong.
func (c *perfRunCommand) Validate() error {
	switch {
	case c.Endpoint != "" && (c.AccessKey == "" || c.SecretKey == ""):
		return fmt.Errorf("--endpoint needs --access-key and --secret-key (or ORCAS_PERF_ACCESS_KEY and ORCAS_PERF_SECRET_KEY)")
	case c.Mode == "open" && c.Rate == 0:
		return fmt.Errorf("--mode open needs --rate")
	case c.Compressible < 0 || c.Compressible > 1:
		return fmt.Errorf("--compressible: %v is not between 0 and 1", c.Compressible)
	case c.MaxErrorRate < 0 || c.MaxErrorRate > 1:
		return fmt.Errorf("--max-error-rate: %v is not between 0 and 1", c.MaxErrorRate)
	case c.Duration < 0 || c.Workers < 0 || c.Rate < 0 || c.Keys < 0 || c.Turns < 0:
		return fmt.Errorf("--duration, --workers, --rate, --keys and --turns must not be negative")
	}
	if c.Before != "" && !slices.Contains(c.Scenario, "builds") {
		return fmt.Errorf("--before can only be used with --scenario builds")
	}
	return c.growthFlags.check(c.Scenario, c.Keys)
}

// Run measures and prints.
func (c *perfRunCommand) Run(ctx context.Context, to *console) error {
	o := c.options(to)
	o.Scenarios, o.Bucket, o.ServerPID, o.TLS, o.H2 = c.Scenario, c.Bucket, c.ServerPID, c.TLS, c.H2
	o.Signing, o.Compressible, o.MaxErrorRate = loadgen.Signing(c.Signing), c.Compressible, c.MaxErrorRate
	o.Workers, o.Rate, o.Mode, o.Peers = c.Workers, c.Rate, c.Mode, c.Peers
	o.Size, o.Order, o.Before = int(c.Size), perf.Order(c.Order), c.Before
	if c.Endpoint != "" {
		var err error
		if o.Target, err = loadgen.ParseTarget(c.Endpoint, loadgen.Keys{Access: c.AccessKey, Secret: c.SecretKey}, c.Region, c.CA, c.Insecure, c.H2); err != nil {
			return err
		}
	}
	return c.run(ctx, o)
}

type perfCoreCommand struct{ perfCommon }

// Run measures and prints.
func (c *perfCoreCommand) Run(ctx context.Context, to *console) error {
	o := c.options(to)
	o.Scenarios = []string{"core"}
	return c.run(ctx, o)
}

type perfPeersCommand struct {
	perfCommon
	perf.Peers
}

// Run measures and prints.
func (c *perfPeersCommand) Run(ctx context.Context, to *console) error {
	o := c.options(to)
	o.Scenarios, o.Peers = []string{"peers"}, c.Peers
	return c.run(ctx, o)
}

type perfCeilingsCommand struct{ perfCommon }

// Run measures and prints.
func (c *perfCeilingsCommand) Run(ctx context.Context, to *console) error {
	o := c.options(to)
	o.Scenarios = []string{"ceilings"}
	return c.run(ctx, o)
}

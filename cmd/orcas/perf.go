package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"orcas/cmd/orcas/server"
	"orcas/perf"
	"orcas/perf/result"
)

// perfCommand loads servers and measures them.
type perfCommand struct {
	Run        perfRunCommand      `cmd:"" help:"Run scenarios against an endpoint, or against servers of its own."`
	List       perfListCommand     `cmd:"" help:"Name the scenarios."`
	Core       perfCoreCommand     `cmd:"" help:"Measure the goals of the core beside the null server and the disk, in turns."`
	Ceilings   perfCeilingsCommand `cmd:"" help:"Measure the null server, the disk and the memory: the most that the machine allows."`
	Report     perfReportCommand   `cmd:"" help:"Make Markdown, plots and an HTML page of a run."`
	Compare    perfCompareCommand  `cmd:"" help:"Put two runs side by side."`
	NullServer nullServerCommand   `cmd:"" help:"Serve S3 that stores nothing: the ceiling of an HTTP front."`
}

type nullServerCommand struct {
	Address string `default:"127.0.0.1:9009" placeholder:"HOST:PORT" help:"Where to listen (default ${default})."`
}

// Run serves until it is killed. The keys come from ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY.
func (c *nullServerCommand) Run(to *console) error {
	access, secret := to.getenv("ORCAS_ROOT_ACCESS_KEY"), to.getenv("ORCAS_ROOT_SECRET_KEY")
	if access == "" || secret == "" {
		return fmt.Errorf("ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY must be set")
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent) // as the real one
	}
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

// perfCommon is what every command that measures can be told.
type perfCommon struct {
	Profile  string        `default:"baseline" enum:"smoke,baseline,saturation" help:"How much: smoke (a minute), baseline (20 minutes), saturation (hours)."`
	Dir      string        `default:"." placeholder:"DIR" help:"Where servers of its own put their data: on the file system to be measured."`
	JSON     string        `name:"json" placeholder:"FILE" help:"Write the run as JSON."`
	Duration time.Duration `help:"Of one load, instead of the profile's."`
	Turns    int           `help:"How many times each side has its turn; the median counts."`
	Commit   string        `help:"Of the program, for the report, where it does not know by itself."`
	Keys     int           `help:"Keys to work on, instead of the profile's."`
}

func (c *perfCommon) options(to *console) perf.Options {
	return perf.Options{
		Profile: perf.Profile(c.Profile), Dir: c.Dir, Duration: c.Duration, Turns: c.Turns, Keys: c.Keys, Signing: perf.Signed, Version: server.Version(), Commit: c.Commit,
		Progress: newProgress(to.stdout),
	}
}

// run runs, and writes what was measured even when something failed.
func (c *perfCommon) run(o perf.Options) (err error) {
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent) // the load is to cost little
	}
	// A pipe that nobody reads any more must not end the run before it has cleaned up.
	signal.Ignore(syscall.SIGPIPE)
	hangup, stop := signal.NotifyContext(context.Background(), syscall.SIGHUP)
	defer stop()
	ctx, stop := withSignals(hangup)
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
		_ = f.Close() // it is incomplete anyway
		return err
	}
	return f.Close()
}

type perfRunCommand struct {
	perfCommon
	Scenario     []string `placeholder:"NAME" help:"Only these (default: all that the server serves)."`
	Endpoint     string   `placeholder:"URL" help:"The server to load (default: servers of its own, in --dir)."`
	AccessKey    string   `env:"ORCAS_PERF_ACCESS_KEY" help:"Credentials for --endpoint."`
	SecretKey    string   `env:"ORCAS_PERF_SECRET_KEY" help:"Credentials for --endpoint."`
	Region       string   `default:"us-east-1" help:"Of the signatures (default ${default})."`
	Bucket       string   `help:"A bucket that exists (default: one is made, and removed)."`
	ServerPID    int      `name:"server-pid" help:"Process of --endpoint, on this machine: its CPU time and memory are measured."`
	CA           string   `name:"ca" placeholder:"FILE" help:"Trust the certificates of this file (PEM)."`
	Insecure     bool     `help:"Trust any certificate."`
	TLS          bool     `name:"tls" help:"HTTPS to servers of its own."`
	H2           bool     `name:"h2" help:"HTTP/2, over TLS."`
	Signing      string   `default:"signed" enum:"signed,unsigned,chunked,trailer" help:"How bodies are signed: signed, unsigned, chunked, trailer (default ${default})."`
	Compressible float64  `placeholder:"R" help:"Share of zeros in bodies, 0 to 1."`
	MaxErrorRate float64  `placeholder:"R" help:"Fail where more of a load goes wrong, 0 to 1 (default 0)."`
	Workers      int      `help:"Of closed loops, instead of the profile's."`
	Rate         float64  `help:"Requests a second of open loops, instead of the profile's."`
	Mode         string   `default:"" enum:",open,closed" help:"Make every load a closed or an open loop (default: as the scenario says)."`
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
	return nil
}

// Run measures and prints.
func (c *perfRunCommand) Run(to *console) error {
	o := c.options(to)
	o.Scenarios, o.Bucket, o.ServerPID, o.TLS, o.H2 = c.Scenario, c.Bucket, c.ServerPID, c.TLS, c.H2
	o.Signing, o.Compressible, o.MaxErrorRate = perf.Signing(c.Signing), c.Compressible, c.MaxErrorRate
	o.Workers, o.Rate, o.Mode = c.Workers, c.Rate, c.Mode
	if c.Endpoint != "" {
		var err error
		if o.Target, err = perf.ParseTarget(c.Endpoint, perf.Keys{Access: c.AccessKey, Secret: c.SecretKey}, c.Region, c.CA, c.Insecure, c.H2); err != nil {
			return err
		}
	}
	return c.run(o)
}

type perfCoreCommand struct{ perfCommon }

// Run measures and prints.
func (c *perfCoreCommand) Run(to *console) error {
	o := c.options(to)
	o.Scenarios = []string{"core"}
	return c.run(o)
}

type perfCeilingsCommand struct{ perfCommon }

// Run measures and prints.
func (c *perfCeilingsCommand) Run(to *console) error {
	o := c.options(to)
	o.Scenarios = []string{"ceilings"}
	return c.run(o)
}

// getenv returns a variable of the environment that the command was given.
func (c *console) getenv(name string) string {
	for _, v := range c.environ {
		if k, value, _ := strings.Cut(v, "="); k == name {
			return value
		}
	}
	return ""
}

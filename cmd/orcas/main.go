// Command orcas is ORCAS: an object store that speaks S3. See README.md; `orcas server --help` lists the flags.
//
// It exits with status 0 after a stop that was asked for, 1 when something failed, and 2 when the command line makes no sense.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"orcas/cmd/orcas/server"
	"orcas/internal/aesgcm"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// commands is the command line.
type commands struct {
	Server  serverCommand  `cmd:"" help:"Serve S3 from a data directory."`
	Admin   adminCommand   `cmd:"" help:"Administrate a running server."`
	Fsck    fsckCommand    `cmd:"" help:"Check a data directory that no server uses, and mend it."`
	Rebuild rebuildCommand `cmd:"" help:"Make the metadata again from the blocks."`
	Backup  backupCommand  `cmd:"" help:"Back a data directory up, or check a backup."`
	Restore restoreCommand `cmd:"" help:"Make a data directory of a backup."`
	Perf    perfCommand    `cmd:"" help:"Load a server and measure it."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

type serverCommand struct {
	Data          string `required:"" placeholder:"DIR" help:"The data directory; made where it is missing."`
	Address       string `default:"127.0.0.1:9000" placeholder:"HOST:PORT" help:"Where to listen (default ${default})."`
	AdminAddress  string `default:"127.0.0.1:9001" placeholder:"HOST:PORT" help:"Where orcas admin finds the server (default ${default}; none: nowhere)."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"Serve HTTPS with this certificate (PEM, with its chain); reloaded when it changes."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"The key of --tls-cert (PEM)."`
	TLSSelfSigned bool   `name:"tls-self-signed" help:"Serve HTTPS with a certificate that is made in the data directory."`
}

// Validate is called by kong.
func (c *serverCommand) Validate() error {
	switch {
	case c.Data == "":
		return fmt.Errorf("--data: must not be empty")
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return fmt.Errorf("--tls-cert and --tls-key go together")
	case c.TLSCert != "" && c.TLSSelfSigned:
		return fmt.Errorf("--tls-self-signed and --tls-cert exclude each other")
	}
	if _, _, err := net.SplitHostPort(c.Address); err != nil {
		return fmt.Errorf("--address: %q is not HOST:PORT", c.Address)
	}
	if c.AdminAddress == "none" {
		c.AdminAddress = ""
	}
	if _, _, err := net.SplitHostPort(c.AdminAddress); c.AdminAddress != "" && err != nil {
		return fmt.Errorf("--admin-address: %q is neither HOST:PORT nor none", c.AdminAddress)
	}
	return nil
}

// console is what a command may talk to.
type console struct {
	environ        []string
	stdout, stderr io.Writer
}

// gcPercent is the garbage collector's GOGC where the environment sets none. The server's live heap is small (buffers and a bounded
// cache), so collecting at four times of it costs tens of MB; it saves a tenth of the processor time of a GET of 4 KiB against 100.
const gcPercent = 300

// Run serves until a signal says stop.
func (c *serverCommand) Run(to *console) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	settings, err := server.ReadSettings(to.environ)
	if err != nil {
		return err
	}
	ctx, stop := withSignals(context.Background())
	defer stop()
	s, err := server.Open(ctx, server.Config{
		Data: c.Data, Address: c.Address, Admin: c.AdminAddress, TLSCert: c.TLSCert, TLSKey: c.TLSKey, SelfSigned: c.TLSSelfSigned,
		Settings: settings, Banner: to.stdout, Log: to.stderr,
	})
	if err != nil {
		return err
	}
	runErr := s.Run(ctx)
	if err := s.Close(); runErr == nil {
		runErr = err
	}
	return runErr
}

// withSignals returns a context that the first SIGTERM or SIGINT ends; a second one ends the process at once.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
			return
		}
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}

type versionCommand struct{}

// Run prints the version, and what differs from one build of it to another.
func (versionCommand) Run(to *console) error {
	_, err := fmt.Fprintf(to.stdout, "orcas %s\nencryption by %s, %s, %s/%s\n", server.Version(), aesgcm.Means(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// run is main without the process around it; it returns the exit status.
func run(args, environ []string, stdout, stderr io.Writer) int {
	var line commands
	helped := false
	parser, err := kong.New(&line,
		kong.Name("orcas"),
		kong.Description("ORCAS stores objects and speaks S3. Settings beyond these flags are environment variables: see docs/configuration.md."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
	)
	if err != nil {
		fmt.Fprintln(stderr, "orcas:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if helped {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "orcas: %v (orcas --help tells more)\n", err)
		return exitUsage
	}
	if err := parsed.Run(&console{environ, stdout, stderr}); err != nil {
		fmt.Fprintln(stderr, "orcas:", err)
		return exitFailed
	}
	return exitOK
}

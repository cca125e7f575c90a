// Command orcas is ORCAS, an object store that speaks S3. See README.md; `orcas server --help` lists the flags.
//
// It exits with status 0 after a requested shutdown, 1 when something failed, and 2 when the command line, an
// environment variable or a file that they name is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/internal/aesgcm"
	"orcas/internal/build"
	"orcas/internal/procs"
	"orcas/server"
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
	Admin   adminCommand   `cmd:"" help:"Administer a running server."`
	Health  healthCommand  `cmd:"" help:"Check whether a server is healthy, and report it with the exit status."`
	Fsck    fsckCommand    `cmd:"" help:"Check a data directory that no server is using, and repair it with --repair."`
	Rebuild rebuildCommand `cmd:"" help:"Rebuild the metadata database from the stored blocks."`
	Backup  backupCommand  `cmd:"" help:"Back up a data directory, or verify a backup."`
	Restore restoreCommand `cmd:"" help:"Restore a data directory from a backup."`
	Perf    perfCommand    `cmd:"" help:"Measure the performance of a server."`

	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Man        manCommand        `cmd:"" hidden:"" help:"Write the man pages into a directory."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
	Help       helpCommand       `cmd:"" help:"Print help for orcas or one of its commands."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

type serverCommand struct {
	Data          string `required:"" placeholder:"DIR" help:"Use this data directory; it is created if it does not exist."`
	Address       string `default:"127.0.0.1:9000" placeholder:"HOST:PORT" help:"Serve S3 on this address (default ${default})."`
	AdminAddress  string `default:"127.0.0.1:9001" placeholder:"HOST:PORT" help:"Serve the admin API on this address (default ${default}); \"none\" disables it. An address that other machines can reach needs TLS."`
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"Serve HTTPS with the certificate in this file (PEM, with its chain). It is reloaded when it changes."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"Read the private key of --tls-cert from this file (PEM)."`
	TLSSelfSigned bool   `name:"tls-self-signed" help:"Serve HTTPS with a self-signed certificate, which is generated in the data directory."`
	adminTLSFlags
	AllowMissing bool `name:"allow-missing-blocks" help:"Start and accept writes even if stored blocks are missing. ORCAS_ALLOW_MISSING_BLOCKS=true does the same."`
}

// adminTLSFlags configure TLS of the admin listener.
type adminTLSFlags struct {
	AdminTLSCert       string `name:"admin-tls-cert" placeholder:"FILE" help:"Serve the admin API over HTTPS with the certificate in this file (PEM, with its chain). It is reloaded when it changes."`
	AdminTLSKey        string `name:"admin-tls-key" placeholder:"FILE" help:"Read the private key of --admin-tls-cert from this file (PEM)."`
	AdminTLSSelfSigned bool   `name:"admin-tls-self-signed" help:"Serve the admin API over HTTPS with a self-signed certificate of its own, which is generated in the data directory."`
	AdminInsecure      bool   `help:"Serve the admin API without TLS even on an address that other machines can reach. Whoever reads the traffic sees the secrets of new keys."`
}

// check returns an error if flags contradict each other, or if there is no admin listener for them.
func (f *adminTLSFlags) check(address string) error {
	switch {
	case (f.AdminTLSCert == "") != (f.AdminTLSKey == ""):
		return fmt.Errorf("--admin-tls-cert and --admin-tls-key must be used together")
	case f.AdminTLSCert != "" && f.AdminTLSSelfSigned:
		return fmt.Errorf("--admin-tls-self-signed cannot be combined with --admin-tls-cert")
	case f.AdminInsecure && (f.AdminTLSCert != "" || f.AdminTLSSelfSigned):
		return fmt.Errorf("--admin-insecure cannot be combined with TLS of the admin address")
	case address == "" && *f != adminTLSFlags{}:
		return fmt.Errorf("--admin-tls-... and --admin-insecure cannot be combined with --admin-address none")
	}
	return nil
}

// Validate is called by kong.
func (c *serverCommand) Validate() error {
	switch {
	case c.Data == "":
		return needData(c.Data)
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return fmt.Errorf("--tls-cert and --tls-key must be used together")
	case c.TLSCert != "" && c.TLSSelfSigned:
		return fmt.Errorf("--tls-self-signed cannot be combined with --tls-cert")
	}
	if !isAddress(c.Address) {
		return fmt.Errorf("--address: expected HOST:PORT with a port up to 65535, not %q", c.Address)
	}
	if c.AdminAddress == "none" {
		c.AdminAddress = ""
	}
	if c.AdminAddress != "" && !isAddress(c.AdminAddress) {
		return fmt.Errorf("--admin-address: expected HOST:PORT with a port up to 65535, or none, not %q", c.AdminAddress)
	}
	return c.check(c.AdminAddress)
}

// isAddress reports whether address has the form HOST:PORT, with a number from 0 to 65535 or the name of a port.
func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// console is the environment and the output of a command.
type console struct {
	environ        []string
	stdout, stderr io.Writer
}

// Run serves until a signal stops it.
func (c *serverCommand) Run(ctx context.Context, to *console) error {
	signal.Ignore(syscall.SIGPIPE) // otherwise the server would end with the program that reads its log
	boundGarbage()
	procs.AddSpare()
	settings, err := server.ReadSettings(to.environ)
	if err != nil {
		return usageError{err, "orcas server --help"}
	}
	settings.AllowMissing = settings.AllowMissing || c.AllowMissing
	s, err := server.Open(ctx, server.Config{
		Data: c.Data, Address: c.Address, Admin: c.AdminAddress, TLSCert: c.TLSCert, TLSKey: c.TLSKey, SelfSigned: c.TLSSelfSigned,
		AdminTLSCert: c.AdminTLSCert, AdminTLSKey: c.AdminTLSKey, AdminSelfSigned: c.AdminTLSSelfSigned, AdminInsecure: c.AdminInsecure,
		Settings: settings, Banner: to.stdout, Secrets: isTerminal(to.stdout), Log: to.stderr, Terminal: isTerminal(to.stderr),
	})
	if errors.As(err, new(server.ConfigError)) {
		return usageError{err, "orcas server --help"}
	} else if err != nil {
		return err
	}
	runErr := s.Run(ctx)
	if err := s.Close(); runErr == nil {
		runErr = err
	}
	return runErr
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// withSignals returns a context that the first SIGTERM or SIGINT cancels. A second one ends the process immediately.
func withSignals() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
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

// Run prints the version and the properties of this build.
func (versionCommand) Run(to *console) error {
	_, err := fmt.Fprintln(to.stdout, versionText())
	return err
}

// versionText describes this build: where it comes from, what it writes, and how it encrypts. What is unknown is left out.
func versionText() string {
	var b strings.Builder
	from := build.Read()
	fmt.Fprintf(&b, "orcas %s\n", from.Version)
	if from.Commit != "" {
		fmt.Fprintf(&b, "commit %s", from.Commit)
		if from.Date != "" {
			fmt.Fprintf(&b, ", %s", from.Date)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "on-disk format %s\n", server.Formats())
	fmt.Fprintf(&b, "encryption by %s, %s, %s/%s", aesgcm.Means(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return b.String()
}

// helpCommand is orcas help COMMAND, which run converts to orcas COMMAND --help.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Print help for this command."`
}

// usageError is an error in the command line or the environment, and the command that prints the appropriate help.
type usageError struct {
	error
	see string
}

// run does the work of main, and returns the exit status.
func run(args, environ []string, stdout, stderr io.Writer) int {
	var line commands
	helped := false
	stop := func() {}
	defer func() { stop() }()
	parser, err := kong.New(&line,
		kong.Name("orcas"),
		kong.Description("ORCAS is an S3-compatible object store for many small objects."),
		kong.ConfigureHelp(kong.HelpOptions{NoExpandSubcommands: true, Compact: true}),
		kong.Help(printHelp),
		kong.Vars{"version": versionText()},
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.BindToProvider(func() (ctx context.Context) { // for the commands whose Run takes a context
			ctx, stop = withSignals()
			return ctx
		}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "orcas:", err)
		return exitFailed
	}
	if len(args) == 0 {
		parser.Stdout = stderr
		_, _ = parser.Parse([]string{"--help"})
		return exitUsage
	}
	if args[0] == "help" && !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(args)
	if helped {
		return exitOK
	}
	if err == nil {
		err = parsed.Run(&console{environ, stdout, stderr})
	} else {
		err = usageError{err, helpOf(err)}
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "orcas: %s (see %s)\n", core.Text(usage.error), usage.see)
		return exitUsage
	case err != nil:
		fmt.Fprintln(stderr, "orcas:", core.Text(err))
		return exitFailed
	}
	return exitOK
}

// helpOf returns the command that prints help for the command in a parse error.
func helpOf(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			return strings.TrimSpace("orcas "+node.Path()) + " --help"
		}
	}
	return "orcas --help"
}

// printHelp prints help. The help of orcas server includes the environment variables, which are the other half of its
// configuration.
func printHelp(o kong.HelpOptions, ctx *kong.Context) error {
	var b strings.Builder
	stdout := ctx.Stdout
	ctx.Stdout = &b
	err := kong.DefaultHelpPrinter(o, ctx)
	ctx.Stdout = stdout
	if err != nil {
		return err
	}
	if node := ctx.Selected(); node == nil || node.Name != "server" {
		_, err = io.WriteString(stdout, showAlternatives(b.String(), node))
		return err
	}
	b.WriteString("\nEnvironment variables (an empty value counts as unset; sizes can have units: 64KiB is 65536, 64KB is 64000):\n")
	for _, v := range server.Variables() {
		fmt.Fprintf(&b, "  %s\n      %s\n      %s (default: %s)\n", v.Name, v.Help, v.Values, v.Default)
	}
	_, err = io.WriteString(stdout, b.String())
	return err
}

// showAlternatives changes the usage of a command that requires exactly one of several flags: kong lists them as if all
// were required.
func showAlternatives(help string, node *kong.Node) string {
	var flags []string
	if node != nil {
		for _, f := range node.Flags {
			if f.Required && len(f.Xor) > 0 {
				flags = append(flags, f.Summary())
			}
		}
	}
	if len(flags) == 0 {
		return help
	}
	return strings.Replace(help, strings.Join(flags, " "), "("+strings.Join(flags, " | ")+")", 1)
}

// Command orcas is ORCAS, an object store that speaks S3. See README.md; `orcas server --help` lists the flags.
//
// It exits with status 0 after a requested shutdown, 1 when something failed, and 2 when the command line, an
// environment variable or a file that they name is wrong. The commands of package client tell more with their status.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"orcas/cmd/orcas/internal/client"
	"orcas/internal/build"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// commands is the command line: the commands of the client, which every build has, and those that need the store, which
// a build without cgo or for Windows replaces by ones that say so (see absent.go).
type commands struct {
	serverHalf
	perfHalf
	clientCommands

	Completion completionCommand `cmd:"" help:"Print a completion script for a shell."`
	Man        manCommand        `cmd:"" hidden:"" help:"Write the man pages into a directory."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
	Help       helpCommand       `cmd:"" help:"Print help for orcas or one of its commands."`

	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// console is the environment and the output of a command.
type console struct {
	environ        []string
	stdout, stderr io.Writer
}

// getenv returns a variable of the command's environment.
func (c *console) getenv(name string) string {
	for _, v := range c.environ {
		if k, value, _ := strings.Cut(v, "="); k == name {
			return value
		}
	}
	return ""
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
	b.WriteString(storeText())
	fmt.Fprintf(&b, "%s, %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
		err = parsed.Run(&console{environ, stdout, stderr}, &client.Console{Environ: environ, Stdin: os.Stdin, Stdout: stdout, Stderr: stderr})
	} else {
		err = usageError{err, helpOf(err)}
	}
	var usage usageError
	var status interface{ ExitStatus() int } // of package client
	if wrong := new(client.UsageError); errors.As(err, &wrong) && !errors.As(err, &usage) {
		err = usageError{err, "orcas " + parsed.Selected().Path() + " --help"}
	}
	switch {
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "orcas: %s (see %s)\n", textOf(usage.error), usage.see)
		return exitUsage
	case err != nil:
		fmt.Fprintln(stderr, "orcas:", textOf(err))
		if errors.As(err, &status) {
			return status.ExitStatus()
		}
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
	node := ctx.Selected()
	text := showAlternatives(b.String(), node)
	if node != nil && node.Name == "server" {
		text += variablesText()
	}
	_, err = io.WriteString(stdout, text)
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

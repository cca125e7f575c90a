package main

import (
	"fmt"
	"runtime"

	"github.com/alecthomas/kong"
)

// absentServer has the commands of serverCommands in a build without the store. A test compares the names and the help.
type absentServer struct {
	Server  absentCommand `cmd:"" help:"Serve S3 from a data directory."`
	Fsck    absentCommand `cmd:"" help:"Check a data directory that no server is using, and repair it with --repair."`
	Rebuild absentCommand `cmd:"" help:"Rebuild the metadata database from the stored blocks."`
	Backup  absentCommand `cmd:"" help:"Back up a data directory, or verify a backup."`
	Restore absentCommand `cmd:"" help:"Restore a data directory from a backup."`
}

// absentPerf has the command of perfCommands in a build without the load generator.
type absentPerf struct {
	Perf absentCommand `cmd:"" help:"Measure the performance of a server."`
}

// absentCommand accepts all arguments, and says that this build does not have the command.
type absentCommand struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"This build accepts any arguments, and ignores them."`
}

// Help is called by kong.
func (absentCommand) Help() string {
	return "This command is not included in this build: " + remedy(runtime.GOOS) + "."
}

// Run says that the command is not included.
func (absentCommand) Run(ctx *kong.Context) error {
	command := "orcas " + ctx.Selected().Name
	return usageError{fmt.Errorf("%s is not included in this build: %s", command, remedy(runtime.GOOS)), command + " --help"}
}

// remedy says where there is a build that has all commands for an operating system.
func remedy(system string) string {
	switch system {
	case "linux":
		return "install the package for Linux, or build orcas with CGO_ENABLED=1 and a C compiler"
	case "darwin":
		return "build orcas on this Mac with CGO_ENABLED=1 and a C compiler (orcas perf: on Linux), or use a Linux machine"
	}
	return "use it on Linux, for example on the machine of the server"
}

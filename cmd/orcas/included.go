//go:build cgo && (linux || darwin)

package main

import (
	"fmt"
	"strings"

	"orcas/core"
	"orcas/internal/aesgcm"
	"orcas/server"
)

type serverHalf = serverCommands

// serverCommands are the commands that need the store: they read and write data directories.
type serverCommands struct {
	Server  serverCommand  `cmd:"" help:"Serve S3 from a data directory."`
	Fsck    fsckCommand    `cmd:"" help:"Check a data directory that no server is using, and repair it with --repair."`
	Rebuild rebuildCommand `cmd:"" help:"Rebuild the metadata database from the stored blocks."`
	Backup  backupCommand  `cmd:"" help:"Back up a data directory, or verify a backup."`
	Restore restoreCommand `cmd:"" help:"Restore a data directory from a backup."`
}

// storeText describes what this build writes, and how it encrypts.
func storeText() string {
	return fmt.Sprintf("on-disk format %s\nencryption by %s, ", server.Formats(), aesgcm.Means())
}

// textOf returns an error as one line of text for people.
func textOf(err error) string { return core.Text(err) }

// variablesText lists the settings of the server for orcas server --help.
func variablesText() string {
	var b strings.Builder
	b.WriteString("\nEnvironment variables (an empty value counts as unset; sizes can have units: 64KiB is 65536, 64KB is 64000):\n")
	for _, v := range server.Variables() {
		fmt.Fprintf(&b, "  %s\n      %s\n      %s (default: %s)\n", v.Name, v.Help, v.Values, v.Default)
	}
	return b.String()
}

// manVariables writes the settings of the server.
func manVariables(b *strings.Builder) {
	b.WriteString(".SH ENVIRONMENT\nAn empty value counts as unset. Sizes can have units: 64KiB is 65536, 64KB is 64000.\n")
	for _, v := range server.Variables() {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\nValues: %s. Default: %s.\n", roff(v.Name), roff(v.Help), roff(v.Values), roff(v.Default))
	}
}

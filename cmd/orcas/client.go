package main

import "orcas/cmd/orcas/internal/client"

// clientCommands are the commands that talk to a server. Every build has them, on every system.
type clientCommands struct {
	Admin  adminCommand  `cmd:"" help:"Administer a running server."`
	Health healthCommand `cmd:"" help:"Check whether a server is healthy, and report it with the exit status."`

	client.Commands
}

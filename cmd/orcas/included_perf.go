//go:build cgo && linux

package main

type perfHalf = perfCommands

// perfCommands contains the command that starts servers and reads what Linux says about them.
type perfCommands struct {
	Perf perfCommand `cmd:"" help:"Measure the performance of a server."`
}

package main

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// TestAbsentCommandsAreTheSame: a build without the store has the same commands, with the same help.
func TestAbsentCommandsAreTheSame(t *testing.T) {
	commandsOf := func(half any) (list []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(half)) {
			list = append(list, f.Name+" "+string(f.Tag))
		}
		return list
	}
	require.Len(t, commandsOf(serverCommands{}), 5)
	require.Equal(t, commandsOf(serverCommands{}), commandsOf(absentServer{}))
	require.Equal(t, commandsOf(perfCommands{}), commandsOf(absentPerf{}))
}

// TestAbsentCommandsSaySo: whatever its arguments are, such a command says that the build does not have it, and what to
// do.
func TestAbsentCommandsSaySo(t *testing.T) {
	var line struct {
		absentServer
		absentPerf
	}
	var help bytes.Buffer
	parser, err := kong.New(&line, kong.Name("orcas"), kong.Writers(&help, &help), kong.Exit(func(int) {}))
	require.NoError(t, err)
	for _, args := range [][]string{
		{"server"}, {"server", "--data", "DIR", "--tls-self-signed"}, {"perf", "run", "--scenario", "put"}, {"restore", "DIR", "--data=x", "-q", "--", "x"},
	} {
		parsed, err := parser.Parse(args)
		require.NoError(t, err, "%q", args)
		var usage usageError
		require.ErrorAs(t, parsed.Run(), &usage, "%q", args)
		require.ErrorContains(t, usage, "orcas "+args[0]+" is not included in this build: ")
		require.Equal(t, "orcas "+args[0]+" --help", usage.see)
	}
	_, _ = parser.Parse([]string{"fsck", "--help"}) // Parse continues after it has printed the help
	require.Contains(t, help.String(), "Check a data directory that no server is using")
	require.Contains(t, help.String(), "not included in this build")
	require.NotEqual(t, remedy("linux"), remedy("windows"))
	require.Contains(t, remedy("darwin"), "C compiler")
}

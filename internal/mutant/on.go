//go:build mutant

package mutant

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// active is set by the linker, or else by the environment.
var active string

func init() {
	if active == "" {
		active = os.Getenv("MUTANT")
	}
}

// Is reports whether this build is the mutant with the given name.
func Is(name string) bool { return name == active }

// passed counts how often the process has reached the place at which it is to be killed.
var passed atomic.Int64

// Stop kills the process if ORCAS_STOP is "PLACE:N" and PLACE is reached for the Nth time.
func Stop(place string) {
	at, n, _ := strings.Cut(os.Getenv("ORCAS_STOP"), ":")
	if at != place {
		return
	}
	if nth, err := strconv.ParseInt(n, 10, 64); err == nil && passed.Add(1) == nth {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

//go:build mutant

package mutant

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// active is set by the linker.
var active string

// Is says whether this build is the mutant of that name.
func Is(name string) bool { return name == active }

// passed counts how often the place was passed at which the process is to end.
var passed atomic.Int64

// Stop kills the process where ORCAS_STOP is "PLACE:N" and it comes to PLACE for the Nth time.
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

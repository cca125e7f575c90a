package sqlite

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime is what this process has used of the processors, all its threads together: on a busy machine it says more
// than the clock.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

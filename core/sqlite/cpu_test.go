package sqlite

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuTime returns the CPU time of this process, over all its threads. On a busy machine it is more meaningful than
// elapsed time.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

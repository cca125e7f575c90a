// Package procs keeps requests for small objects from waiting for a processor while large content is hashed.
//
// Go runs goroutines on GOMAXPROCS processors, by default as many as the machine has cores. A goroutine that hashes an
// upload keeps its processor until it has to wait: as long as the client sends faster than the server hashes, that is
// until it is preempted, after 10 ms. And Go looks for new requests only when a processor has nothing else to run, or
// every 10 ms. So with a few uploads per processor, each step of a small request waits for several times 10 ms.
//
// Two measures solve this together: uploads take turns (see Turns), so that only one goroutine more than there are cores
// hashes, and the program has more processors than that (see AddSpare). The others are free for everything else, and
// the operating system divides the cores among the threads, with priority for those that run only briefly.
//
// PUT of 4 KiB over 8 connections beside 6 streams of 10 MiB; the rate of the streams relative to their rate alone; and
// the rate of PUT of 10 MiB over 10 connections, relative to the null server (2 cores, ext4; medians of 2 to 5 runs):
//
//	median   p99    streams   10 MiB
//	6.0 ms   36 ms  0.89      0.77    4 processors, no turns
//	1.7      13     0.82      0.70    4 processors, 2 turns: a core is idle when a goroutine whose turn it is has to wait
//	3.0      19     0.87      0.77    4 processors, 3 turns
//	3.5      20     0.88      0.79    5 processors, 3 turns
//
// Without either measure (2 processors) the median was 18 ms on tmpfs, where no drive is involved, and 10 ms with 4
// processors and no turns.
package procs

import (
	"os"
	"runtime"
	"sync/atomic"
)

// spare is the number of processors beyond the cores.
const spare = 3

// added is the number of processors that AddSpare has added to this process.
var added atomic.Int32

// AddSpare increases GOMAXPROCS by the number of spare processors, unless the environment sets GOMAXPROCS. A server
// calls it once, before it creates Turns.
func AddSpare() {
	if os.Getenv("GOMAXPROCS") == "" && added.CompareAndSwap(0, spare) {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spare)
	}
}

// Turns bounds how many goroutines do long computations at the same time.
type Turns chan struct{}

// NewTurns returns Turns with one turn more than there are processors that are not spare.
func NewTurns() Turns {
	return make(Turns, runtime.GOMAXPROCS(0)-int(added.Load())+1)
}

// Begin waits for a turn. The caller must not wait for anything else until it calls End.
func (t Turns) Begin() { t <- struct{}{} }

// End ends a turn.
func (t Turns) End() { <-t }

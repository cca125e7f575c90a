// Package procs keeps requests for small objects from waiting for a processor while large content is hashed.
//
// Go runs goroutines on GOMAXPROCS processors, by default as many as the machine has cores. A goroutine that hashes an
// upload keeps its processor until it has to wait: as long as the client sends faster than the server hashes, that is
// until it is preempted, after 10 ms. And Go looks for new requests only when a processor has nothing else to run, or
// every 10 ms. So with a few uploads per processor, each step of a small request waits for several times 10 ms.
//
// Two measures solve this together: uploads take turns (see Turns), so that as many goroutines hash as there are cores,
// and the program has more processors than that (see AddSpare). The spare ones are free for everything else, and the
// operating system divides the cores among the threads, with priority for those that run only briefly.
//
// PUT of 4 KiB over 8 connections beside 6 streams of 10 MiB, on tmpfs, so that no drive is involved (2 cores, loaded
// with other work; medians of 5 alternating runs):
//
//	18 ms    2 processors
//	38       2 processors, 2 turns: nothing is free for small requests
//	10       4 processors: the streams occupy all of them
//	 1.9     4 processors, 2 turns
//
// The CPU time of the streams and of the small requests did not change.
package procs

import (
	"os"
	"runtime"
	"sync/atomic"
)

// spare is the number of processors beyond the cores.
const spare = 2

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

// NewTurns returns Turns with as many turns as there are processors that are not spare.
func NewTurns() Turns {
	return make(Turns, max(1, runtime.GOMAXPROCS(0)-int(added.Load())))
}

// Begin waits for a turn. The caller must not wait for anything else until it calls End.
func (t Turns) Begin() { t <- struct{}{} }

// End ends a turn.
func (t Turns) End() { <-t }

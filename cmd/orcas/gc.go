//go:build cgo && (linux || darwin)

package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The Go runtime collects garbage when the heap has grown by GOGC percent of what was live after the last collection.
// The server's live heap is small at first, so gcPercent lets it grow to four times its size: that costs tens of MB, and
// compared with 100 percent saves up to a tenth of the CPU time of a 4 KiB GET. With full caches the live heap is larger,
// and the same percentage would cost hundreds of MB and save nothing, because collections are rare anyway. So the server
// uses the percentage that allows garbageMax bytes of garbage, but at least gcPercentMin.
const (
	gcPercent    = 300
	gcPercentMin = 30
	garbageMax   = 48 << 20
)

// boundGarbage sets the percentage, and again after each collection, unless the environment sets it.
func boundGarbage() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
		afterCollection(gcPercent)
	}
}

// percentFor returns the percentage for a live heap of a number of bytes.
func percentFor(live uint64) int {
	return int(max(gcPercentMin, min(gcPercent, 100*garbageMax/max(live, 1))))
}

// afterCollection adjusts the percentage after the next collection, and then after each one. Setting it stops the
// program for a moment, so small differences are ignored.
func afterCollection(percent int) {
	runtime.AddCleanup(new(*int), func(percent int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		if p := percentFor(live[0].Value.Uint64()); p < percent*9/10 || p > percent*11/10 {
			percent = p
			debug.SetGCPercent(p)
		}
		afterCollection(percent)
	}, percent)
}

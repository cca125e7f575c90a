package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"orcas/core"
)

// A server that is idle releases memory that it uses only for speed: the caches of the metadata, pooled buffers, and
// free memory that the Go runtime retains for the next peak. The Go runtime by itself would return memory only down to
// its goal for the next collection, which is set by the load before.
const (
	idleTick     = 5 * time.Second
	idleTicks    = 2                                  // the server is idle after this many quiet ticks
	longTicks    = 60                                 // it releases more memory after this many
	idleRequests = uint64(2 * idleTick / time.Second) // the maximum number of requests in a quiet tick; health checks are requests too
	idleFree     = 8 << 20                            // free memory, in bytes, above which an idle server returns it again
)

// idleness decides when the server is idle.
type idleness struct {
	seen  uint64 // the number of requests at the last tick
	quiet int    // the number of quiet ticks since the last busy one
}

// tick is called every idleTick with the number of requests so far. It reports whether the server is idle, and whether
// memory is to be released because it has become so, or has been so for a long time.
func (i *idleness) tick(requests uint64) (idle, release bool) {
	if requests-i.seen > idleRequests {
		i.quiet = 0
	} else {
		i.quiet++
	}
	i.seen = requests
	return i.quiet >= idleTicks, i.quiet == idleTicks || i.quiet == longTicks
}

// releaseMemory releases memory when the server is idle, until ctx ends.
func (s *Server) releaseMemory(ctx context.Context) {
	tick := time.NewTicker(idleTick)
	defer tick.Stop()
	var i idleness
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		switch idle, release := i.tick(s.requests.Load()); {
		case release:
			if r, ok := core.As[core.MemoryReleaser](s.meta); ok {
				r.ReleaseMemory(time.Duration(i.quiet) * idleTick)
			}
			debug.FreeOSMemory() // the first collection keeps the contents of pools
			debug.FreeOSMemory()
		case idle && freeMemory() > idleFree: // background work has left garbage
			debug.FreeOSMemory()
		}
	}
}

// freeMemory returns the memory, in bytes, that the heap of the Go runtime does not use and has not returned.
func freeMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

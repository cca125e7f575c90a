package server

import (
	"fmt"
	"os"
	"runtime/debug"

	"orcas/internal/bytesize"
	"orcas/internal/memlimit"
)

// memoryVariable is the name of the variable with the memory that the server may use.
const memoryVariable = "ORCAS_MEMORY"

// Memory is the memory that the server may use, in bytes: 0 for the limit of the control group of the process, or
// MemoryUnlimited.
type Memory int64

// MemoryUnlimited ignores the limit of the control group.
const MemoryUnlimited Memory = -1

// The limits of ORCAS_MEMORY. With less than the minimum, the server would collect garbage all the time.
const (
	minMemory = 64 << 20
	maxMemory = 16 << 40
)

func setMemory(s *Settings, v string) error {
	switch v {
	case "auto":
		s.Memory = 0
	case "off":
		s.Memory = MemoryUnlimited
	default:
		var n int64
		if err := parseSize(&n, v, minMemory, maxMemory); err != nil {
			return fmt.Errorf("%w, or auto, or off", err)
		}
		s.Memory = Memory(n)
	}
	return nil
}

// limit returns the limit in bytes and where it is from, or 0 if there is none.
func (m Memory) limit() (int64, string) {
	switch {
	case m == MemoryUnlimited:
		return 0, ""
	case m > 0:
		return int64(m), memoryVariable
	}
	return max(memlimit.Read(), 0), "control group"
}

// memoryPlan has the sizes of everything that takes much memory, in bytes. Zero values are the defaults.
//
// The Go runtime gets a soft limit: as it comes near to it, it collects garbage more often instead of growing. So what
// is in use at the same time must stay well below that: the rest is shared by the caches, and by the bodies of
// requests, each of which may be of any size and as slow as its client. Go does not know of the memory of SQLite, of the
// kernel's buffers for connections, and of the page cache for blocks, of which the kernel needs some to write them.
type memoryPlan struct {
	limit     int64 // of the process; 0 for none
	soft      int64 // of the Go runtime
	pageCache int64 // of each connection to SQLite
	bulkCache int64 // for filling a new database
	filter    int64 // of the hash index
	objects   int   // the number of cached objects
	receiving int64 // bodies of uploads
	reading   int64 // bodies of downloads
	batch     int64 // a batch of writes

	connections int
	unsent      int // what the kernel keeps for a connection (see unsentMax)
}

// The share of memory for connections: a request takes about 30 KiB besides its body.
const memoryPerConnection = 128 << 10

// sqliteConnections is the number of SQLite connections with a page cache of full size.
const sqliteConnections = 5

// planMemory divides the memory of a process.
func planMemory(limit int64) memoryPlan {
	if limit <= 0 {
		return memoryPlan{}
	}
	within := func(share, from, upTo int64) int64 { return min(max(limit/share, from), upTo) }
	p := memoryPlan{
		limit:     limit,
		pageCache: within(128, 1<<20, 8<<20),
		bulkCache: within(8, 4<<20, 256<<20),
		filter:    within(32, 1<<20, 63<<20),
		objects:   int(within(16<<10, 1000, 65_536)), // they take at most a sixteenth of the memory
		receiving: max(limit/8, 4<<20),
		reading:   max(limit/8, 4<<20),
		batch:     max(limit/32, 1<<20),

		connections: int(within(memoryPerConnection, 64, maxConnections)),
		unsent:      int(within(4096, 16<<10, unsentMax)),
	}
	p.soft = max(limit*3/4-sqliteConnections*p.pageCache-16<<20, limit/4)
	return p
}

// batchBytes returns the size at which a batch is written, which is at least that of a packed object.
func (p *memoryPlan) batchBytes(set *Settings) int64 {
	if p.batch == 0 {
		return set.MaxBatchBytes
	}
	return min(set.MaxBatchBytes, max(p.batch, set.MaxPackedSize))
}

// limitMemory plans the memory of the server, and sets the soft limit of the Go runtime, unless the environment does.
func (s *Server) limitMemory() {
	limit, from := s.config.Settings.Memory.limit()
	if s.memory = planMemory(limit); limit == 0 {
		return
	}
	p := &s.memory
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(p.soft)
	}
	s.log.Info("memory is limited", "from", from, "limit", bytesize.Format(limit), "go_heap", bytesize.Format(debug.SetMemoryLimit(-1)),
		"uploads", bytesize.Format(p.receiving), "downloads", bytesize.Format(p.reading),
		"cached_objects", p.objects, "page_caches", bytesize.Format(sqliteConnections*p.pageCache), "connections", p.connections)
	if limit < minMemory {
		s.log.Warn("the memory limit is below the minimum, so the server may be slow or killed: raise the limit", "from", from,
			"limit", bytesize.Format(limit), "minimum", bytesize.Format(minMemory))
	}
}

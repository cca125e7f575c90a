package sqlite

import (
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

var _ core.MemoryReleaser = (*Meta)(nil)

// ReleaseMemory implements core.MemoryReleaser: it closes the reading connections that are not in use, frees the page
// caches of the others, and returns freed memory of the C heap to the operating system. After filterIdle it also drops
// the filter of the hash index.
func (m *Meta) ReleaseMemory(idle time.Duration) {
	m.freeCaches(idle >= filterIdle)
	trimHeap()
}

// filterIdle is the idle time after which the filter is dropped. With ten million objects, filling it again takes about
// six seconds of CPU time: three for the lookups that show that it is needed, and three for the filling.
const filterIdle = 5 * time.Minute

func (m *Meta) freeCaches(filter bool) {
	m.check.running.Lock()
	defer m.check.running.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return // Close may have closed the connections
	}
	if filter {
		m.w.index.filter.drop()
	}
	m.idleMu.Lock()
	unused := m.idle
	m.idle = nil
	m.idleMu.Unlock()
	for _, c := range unused {
		_ = c.close() // ignore the error: the connection has only read
	}
	for _, c := range []*conn{m.check.c, m.w.c} {
		_ = c.run("PRAGMA shrink_memory") // ignore the error: memory that is not freed is not a failure
	}
}

// refillFilter fills the filter of the hash index again, if it was dropped and enough hashes were looked up since. It is
// called right after a commit, while no transaction is open: the pairs of committed content are in memory, where they
// are added here, or in pages, which fillFilter reads. Later changes add their hashes themselves.
func (m *Meta) refillFilter() {
	x := &m.w.index
	pairs := uint64(0)
	for _, r := range x.runs.list {
		pairs += r.pairs
	}
	if !x.filter.refill(pairs) {
		return
	}
	if !mutant.Is("refill-without-memory") {
		x.recent.each(x.filter.add)
		x.full.each(x.filter.add)
	}
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	if !m.closed { // Close waits for it
		m.filling.Go(m.fillFilter)
	}
}

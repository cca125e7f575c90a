package sqlite

import "orcas/core"

var _ core.MemoryReleaser = (*Meta)(nil)

// ReleaseMemory implements core.MemoryReleaser: it closes the reading connections that are not in use, frees the page
// caches of the others, and returns the freed memory to the operating system.
func (m *Meta) ReleaseMemory() {
	m.freeCaches()
	trimHeap()
}

func (m *Meta) freeCaches() {
	m.check.running.Lock()
	defer m.check.running.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return // Close may have closed the connections
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

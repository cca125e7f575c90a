package cached

import (
	"sync/atomic"

	"github.com/orca-zhang/ecache"

	"orcas/core"
)

// use counts the lookups in a cache.
type use struct{ hits, misses atomic.Uint64 }

// Usage describes one of the caches.
type Usage struct {
	Name         string // objects or buckets
	Hits, Misses uint64 // lookups since New
	Bytes        int64  // approximate size of the entries
}

// The memory that an entry takes in addition to its key and its value: the node of ecache, and an entry of its map.
const entryOverhead = 100

// Caches returns the state of each cache. It visits every entry, and holds the lock of one of the 64 shards meanwhile.
func (m *Meta) Caches() []Usage {
	return []Usage{
		{"objects", m.objectUse.hits.Load(), m.objectUse.misses.Load(), sizeOf(m.objects.Load())},
		{"buckets", m.bucketUse.hits.Load(), m.bucketUse.misses.Load(), sizeOf(m.buckets)},
	}
}

// sizeOf returns the approximate size of the entries of a cache.
func sizeOf(c *ecache.Cache) (bytes int64) {
	c.Walk(func(key string, value *any, encoded []byte, _ int64) bool {
		bytes += int64(len(key) + len(encoded) + entryOverhead)
		if value != nil {
			if b, ok := (*value).(*core.BucketInfo); ok {
				bytes += int64(bucketBytes(b))
			}
		}
		return true
	})
	return bytes
}

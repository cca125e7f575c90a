package access

import (
	"sync"

	"orcas/auth/policy"
	"orcas/internal/mutant"
)

// maxCached is the total size of the documents whose compiled policies are cached, in bytes. A compiled policy takes
// several times the size of its document.
const maxCached = 8 << 20

// cache holds the compiled policies of buckets.
type cache struct {
	mu       sync.RWMutex
	compiled map[string]compiled // by the name of the bucket
	size     int                 // of the documents, in bytes
	most     int                 // the largest size
}

// compiled is a policy, or the reason why the document is not one.
type compiled struct {
	document string
	policy   *policy.Policy
	err      error
}

// policy returns the compiled form of the document that is the policy of a bucket.
func (c *cache) policy(bucket, document string) (*policy.Policy, error) {
	c.mu.RLock()
	found, ok := c.compiled[bucket]
	c.mu.RUnlock()
	if ok && (found.document == document || mutant.Is("stale-policy")) {
		return found.policy, found.err
	}
	found = compiled{document: document}
	found.policy, found.err = policy.Parse([]byte(document), policy.Source{Name: bucket, Bucket: bucket})
	c.put(bucket, found)
	return found.policy, found.err
}

// put replaces the policy of a bucket. Any others are dropped if the documents become too large.
func (c *cache) put(bucket string, v compiled) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.compiled == nil {
		c.compiled = map[string]compiled{}
	}
	c.drop(bucket)
	for other := range c.compiled {
		if c.size+len(v.document) <= c.most {
			break
		}
		c.drop(other)
	}
	if c.size+len(v.document) <= c.most {
		c.compiled[bucket] = v
		c.size += len(v.document)
	}
}

// drop removes the policy of a bucket. The caller holds the lock.
func (c *cache) drop(bucket string) {
	c.size -= len(c.compiled[bucket].document)
	delete(c.compiled, bucket)
}

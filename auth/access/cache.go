package access

import (
	"encoding/json"
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
	document, principals string
	policy               *policy.Policy
	err                  error
}

// size returns the size of a policy in the cache, in bytes.
func (v *compiled) size() int { return len(v.document) + len(v.principals) }

// policy returns the compiled form of the document that is the policy of a bucket. principals are the unique IDs of its
// principals, by ARNs, as a JSON object, or "".
func (c *cache) policy(bucket, document, principals string) (*policy.Policy, error) {
	c.mu.RLock()
	found, ok := c.compiled[bucket]
	c.mu.RUnlock()
	if ok && (found.document == document && found.principals == principals || mutant.Is("stale-policy")) {
		return found.policy, found.err
	}
	found = compiled{document: document, principals: principals}
	from := policy.Source{Name: bucket, Bucket: bucket}
	if principals != "" {
		found.err = json.Unmarshal([]byte(principals), &from.IDs)
	}
	if found.err == nil {
		found.policy, found.err = policy.Parse([]byte(document), from)
	}
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
		if c.size+v.size() <= c.most {
			break
		}
		c.drop(other)
	}
	if c.size+v.size() <= c.most {
		c.compiled[bucket] = v
		c.size += v.size()
	}
}

// drop removes the policy of a bucket. The caller holds the lock.
func (c *cache) drop(bucket string) {
	v := c.compiled[bucket]
	c.size -= v.size()
	delete(c.compiled, bucket)
}

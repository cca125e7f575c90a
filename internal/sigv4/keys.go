package sigv4

import (
	"strings"
	"sync"
)

// keyCacheSize is the maximum number of cached signing keys.
const keyCacheSize = 1024

// keyCache caches signing keys, which cost four HMACs to derive. A key is added only after it has verified a signature,
// so only holders of a secret can fill the cache. The exception is one key per day for all unknown access keys (see
// checkSignature).
type keyCache struct {
	mu   sync.RWMutex
	keys map[keyScope]cachedKey // guarded by mu
}

type keyScope struct{ accessKey, day, region string }

type cachedKey struct {
	secret string // source of the key; compared by get, so a key whose secret has changed is not used
	key    [32]byte
}

func (c *keyCache) get(scope keyScope, secret string) (key [32]byte, ok bool) {
	c.mu.RLock()
	k, ok := c.keys[scope]
	c.mu.RUnlock()
	return k.key, ok && k.secret == secret
}

func (c *keyCache) put(scope keyScope, secret string, key [32]byte) {
	// The strings are substrings of a request's headers. Clone them so that the cache does not keep the headers alive.
	scope = keyScope{strings.Clone(scope.accessKey), strings.Clone(scope.day), strings.Clone(scope.region)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil {
		c.keys = make(map[keyScope]cachedKey)
	}
	if len(c.keys) >= keyCacheSize {
		clear(c.keys)
	}
	c.keys[scope] = cachedKey{secret, key}
}

package sigv4

import (
	"strings"
	"sync"
)

// keyCacheSize bounds the signing keys that are kept.
const keyCacheSize = 1024

// keyCache keeps signing keys, which cost four HMACs to derive. Only the key of a signature that proved right is put in, so
// nobody without a secret can fill it.
type keyCache struct {
	mu   sync.RWMutex
	keys map[keyScope]cachedKey // guarded by mu
}

type keyScope struct{ accessKey, day, region string }

type cachedKey struct {
	secret string // that it was derived from: a key whose secret was changed must not be found
	key    [32]byte
}

func (c *keyCache) get(scope keyScope, secret string) (key [32]byte, ok bool) {
	c.mu.RLock()
	k, ok := c.keys[scope]
	c.mu.RUnlock()
	return k.key, ok && k.secret == secret
}

func (c *keyCache) put(scope keyScope, secret string, key [32]byte) {
	// The strings are parts of a request's headers, which must not live as long as the cache.
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

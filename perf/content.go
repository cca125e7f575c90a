package perf

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"

	"github.com/zeebo/xxh3"
)

// Contents makes random bodies of one size, each of which differs from all others in its first 8 bytes.
type Contents struct {
	size  int
	base  []byte
	pool  sync.Pool
	salt  uint64
	known sync.Map // number -> XXH3, of large ones
}

// NewContents makes bodies of size bytes, at least 8.
func NewContents(size int) *Contents {
	c := &Contents{size: size, base: make([]byte, size)}
	_, _ = rand.Read(c.base) // never fails
	c.salt = binary.LittleEndian.Uint64(c.base)
	return c
}

// Body returns the body of a number and its SHA-256 in hexadecimal. The body is the caller's until it calls Body with it again.
func (c *Contents) Body(number uint64, reuse []byte) (body []byte, hash string) {
	if len(reuse) != c.size {
		reuse = append([]byte(nil), c.base...)
	}
	binary.LittleEndian.PutUint64(reuse, c.salt+number)
	sum := sha256.Sum256(reuse)
	return reuse, hex.EncodeToString(sum[:])
}

// XXH3 returns the hash by which the body of a number is recognised.
func (c *Contents) XXH3(number uint64) uint64 {
	if v, ok := c.known.Load(number); ok {
		return v.(uint64)
	}
	b, ok := c.pool.Get().(*[]byte)
	if !ok {
		fresh := append([]byte(nil), c.base...)
		b = &fresh
	}
	defer c.pool.Put(b)
	binary.LittleEndian.PutUint64(*b, c.salt+number)
	h := xxh3.Hash(*b)
	if c.size > 64<<10 {
		c.known.Store(number, h)
	}
	return h
}

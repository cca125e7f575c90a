package perf

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/zeebo/xxh3"
)

// tailBytes is the number of bytes at the end of each body that are unique to it.
const tailBytes = 8

// Contents generates random bodies of one size that differ only in their last 8 bytes. So the hash of the common part
// is computed only once, and a load spends its CPU time on sending. (A store that deduplicates parts of objects would
// have an advantage.)
type Contents struct {
	size   int
	base   []byte
	salt   uint64
	sha    hash.Cloner // SHA-256 of everything before the tail
	common xxh3.Hasher // XXH3 of everything before the tail
}

// NewContents returns a generator of bodies of size bytes, at least 8. In each KiB, the share compressible (0 to 1) is
// zeros.
func NewContents(size int, compressible float64) *Contents {
	size = max(size, tailBytes)
	c := &Contents{size: size, base: make([]byte, size), sha: sha256.New().(hash.Cloner)}
	_, _ = rand.Read(c.base) // never fails
	c.salt = binary.LittleEndian.Uint64(c.base)
	for at := 0; at < size-tailBytes && compressible > 0; at += 1 << 10 {
		piece := c.base[at:min(at+1<<10, size-tailBytes)]
		clear(piece[:int(float64(len(piece))*min(compressible, 1))])
	}
	_, _ = c.sha.Write(c.base[:size-tailBytes]) // never fails, as below
	_, _ = c.common.Write(c.base[:size-tailBytes])
	return c
}

// Body returns the body with the given number, and its SHA-256 in hexadecimal. If reuse is a body that Body returned
// before, its memory is reused.
func (c *Contents) Body(number uint64, reuse []byte) (body []byte, sha string) {
	if len(reuse) != c.size {
		reuse = append(make([]byte, 0, c.size), c.base...)
	}
	tail := c.tail(reuse[:c.size-tailBytes], number)
	h, err := c.sha.Clone()
	if err != nil { // the standard library's clones never fail
		sum := sha256.Sum256(reuse)
		return reuse, hex.EncodeToString(sum[:])
	}
	_, _ = h.Write(tail)
	var sum [sha256.Size]byte
	return reuse, hex.EncodeToString(h.Sum(sum[:0]))
}

// tail appends the tail of the body with the given number to b, and returns the tail.
func (c *Contents) tail(b []byte, number uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, c.salt+number)[len(b):]
}

// XXH3 returns the hash that identifies the body with the given number.
func (c *Contents) XXH3(number uint64) uint64 {
	h := c.common
	var tail [tailBytes]byte
	_, _ = h.Write(c.tail(tail[:0], number))
	return h.Sum64()
}

// Expect returns the expected response to a GET of the body with the given number.
func (c *Contents) Expect(number uint64) Expect {
	return Expect{Status: 200, Body: true, Size: int64(c.size), XXH3: c.XXH3(number)}
}

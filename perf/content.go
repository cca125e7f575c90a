package perf

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/zeebo/xxh3"
)

// tailBytes is how much of a body's end is its own.
const tailBytes = 8

// Contents makes random bodies of one size, each of which differs from all others, in its last 8 bytes. So the hashes of what they
// share are computed once, and a load spends its processor time on sending. (A store that shares equal pieces of different objects
// would have it easy with them.)
type Contents struct {
	size   int
	base   []byte
	salt   uint64
	sha    hash.Cloner // of all but the tail
	common xxh3.Hasher // of all but the tail
}

// NewContents makes bodies of size bytes, at least 8, of which the share compressible (0 to 1) is zeros, in each KiB.
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

// Body returns the body of a number and its SHA-256 in hexadecimal, in reuse, where that is what Body returned before.
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

// tail appends the tail of a number.
func (c *Contents) tail(b []byte, number uint64) []byte {
	return binary.LittleEndian.AppendUint64(b, c.salt+number)[len(b):]
}

// XXH3 returns the hash by which the body of a number is recognised.
func (c *Contents) XXH3(number uint64) uint64 {
	h := c.common
	var tail [tailBytes]byte
	_, _ = h.Write(c.tail(tail[:0], number))
	return h.Sum64()
}

// Expect returns what a GET of the body of a number must answer.
func (c *Contents) Expect(number uint64) Expect {
	return Expect{Status: 200, Body: true, Size: int64(c.size), XXH3: c.XXH3(number)}
}

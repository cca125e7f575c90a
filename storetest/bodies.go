package storetest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"

	"orcas/core"
)

// Random returns n random bytes, which do not repeat and cannot be compressed.
func Random(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// Filler returns n random bytes. If the tests run with compression, they can be compressed.
func Filler(seed uint64, n int) []byte {
	b := Random(seed, n)
	if Compression() > core.CompressionOff {
		for i := range b {
			b[i] = 'a' + b[i]%5
		}
	}
	return b
}

// Text returns n bytes that compress well.
func Text(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 5))
	b := make([]byte, 0, n+100)
	for len(b) < n {
		b = fmt.Appendf(b, `{"id":%d,"name":"user-%d","tags":["alpha","beta","gamma"],"score":%.3f}`+"\n", r.IntN(1e6), r.IntN(1e4), r.Float64())
	}
	return b[:n]
}

// Sizes are the sizes of content in one frame of a packed block, in a large block, and in several extents of a large
// block.
var Sizes = []int{3000, 70_000, 9 << 20}

var bodies = map[int]func() []byte{
	Sizes[0]: sync.OnceValue(func() []byte { return Text(1, Sizes[0]) }),
	Sizes[1]: sync.OnceValue(func() []byte { return Text(2, Sizes[1]) }),
	Sizes[2]: sync.OnceValue(func() []byte { return Text(3, Sizes[2]) }),
}

// Body returns content of one of Sizes. It always returns the same content for a size.
func Body(size int) []byte { return bodies[size]() }

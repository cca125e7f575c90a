package batch

import (
	"sync"

	"orcas/core/frame"
)

// Buffer is memory for content on its way in or out: space for a frame's header, followed by space for content. Get one
// with NewBuffer, and return it with Release exactly once, when no part of it is in use.
type Buffer struct {
	B    []byte // B[:frame.HeaderSize] is for a header
	pool *sync.Pool
}

// bufferSizes are the sizes, in bytes, of the pooled buffers.
var bufferSizes = [...]int{4 << 10, 16 << 10, 64 << 10, frame.MaxPlain, frame.MaxStored}

var bufferPools [len(bufferSizes)]sync.Pool

// NewBuffer returns a buffer for size bytes of content. Its bytes are arbitrary.
func NewBuffer(size int) *Buffer {
	for i, n := range bufferSizes {
		if size <= n {
			b, ok := bufferPools[i].Get().(*Buffer)
			if !ok {
				b = &Buffer{B: make([]byte, frame.HeaderSize+n), pool: &bufferPools[i]}
			}
			return b
		}
	}
	return &Buffer{B: make([]byte, frame.HeaderSize+size)}
}

// Content returns the space after the header.
func (b *Buffer) Content() []byte { return b.B[frame.HeaderSize:] }

// Release returns the buffer to its pool. In builds with the race detector it is first filled with a pattern, so that
// code that still uses it reads wrong bytes.
func (b *Buffer) Release() {
	if poison {
		for i := range b.B {
			b.B[i] = 0xdb
		}
	}
	if b.pool != nil {
		b.pool.Put(b)
	}
}

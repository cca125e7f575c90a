package batch

import (
	"sync"

	"orcas/core/frame"
)

// Buffer is memory for content on its way in or out: room for a frame's header, and behind it room for content. Get one with NewBuffer
// and give it back with Release, exactly once, when nobody holds a part of it any more.
type Buffer struct {
	B    []byte // B[:frame.HeaderSize] is room for a header
	pool *sync.Pool
}

// bufferSizes are the sizes of content that buffers are made for, in bytes.
var bufferSizes = [...]int{4 << 10, 16 << 10, 64 << 10, frame.MaxPlain, frame.MaxStored}

var bufferPools [len(bufferSizes)]sync.Pool

// NewBuffer returns a buffer with room for size bytes of content. Its content is arbitrary.
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

// Content returns the room behind the header.
func (b *Buffer) Content() []byte { return b.B[frame.HeaderSize:] }

// Release gives the buffer back. In builds with the race detector it is filled with a pattern first, so that whoever still
// holds it is found by wrong bytes as well.
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

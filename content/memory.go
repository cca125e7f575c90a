package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/core/frame"
)

// A budget bounds the memory of the bodies that are in progress at the same time. A nil *budget has no bound.
//
// Content that is being received waits for its share (acquire), so that many uploads at once take longer instead of
// more memory. Nothing that holds a share waits for another one, or two of them could wait for each other. Small content
// has a budget of its own (see splitReceiving), so that it does not wait for large uploads from slow clients.
//
// Readers never wait (try), because clients that read slowly would keep out the others. A reader that gets no share
// reads its content in small pieces instead (see Section.whole).
type budget struct {
	size int64 // in bytes

	mu      sync.Mutex // guards the fields below
	used    int64
	waiting []*waiter // first come, first served
}

// share is n bytes of a budget.
type share struct {
	budget *budget
	n      int64
}

// waiter waits for n bytes of a budget.
type waiter struct {
	n    int64
	done chan struct{} // closed when it has them
}

// acquireTime is the longest time that content waits for memory. Then the client may try again.
const acquireTime = 30 * time.Second

// ErrNoMemory is the cause of Overloaded if content has waited for memory for too long.
var ErrNoMemory = errors.New("no memory for the content")

// smallSize is the maximum size, in bytes, of content that never waits for larger content.
const smallSize = 64 << 10

// splitReceiving divides the memory for content that is being received: a quarter is reserved for small content.
func splitReceiving(size int64) (large, small *budget) {
	return newBudget(size - size/4), newBudget(size / 4)
}

func newBudget(size int64) *budget {
	if size <= 0 {
		return nil
	}
	return &budget{size: size}
}

// acquire waits until n bytes are free, takes them, and returns their number: of more than the whole budget, it takes
// the whole budget. It returns Overloaded after acquireTime.
func (b *budget) acquire(ctx context.Context, n int64) (int64, error) {
	if b == nil || n <= 0 {
		return 0, nil
	}
	n = min(n, b.size)
	b.mu.Lock()
	if len(b.waiting) == 0 && b.used+n <= b.size {
		b.used += n
		b.mu.Unlock()
		return n, nil
	}
	w := &waiter{n, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	patience := time.NewTimer(acquireTime)
	defer patience.Stop()
	select {
	case <-w.done:
		return n, nil
	case <-ctx.Done():
		b.leave(w)
		return 0, core.E("content.ReadFrom", core.Canceled, ctx.Err())
	case <-patience.C:
		b.leave(w)
		return 0, core.E("content.ReadFrom", core.Overloaded, fmt.Errorf("%w within %v: other uploads use all %d bytes", ErrNoMemory, acquireTime, b.size))
	}
}

// try takes n bytes if they are free and nobody waits for them, and reports whether it has.
func (b *budget) try(n int64) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := len(b.waiting) == 0 && b.used+n <= b.size
	if ok {
		b.used += n
	}
	return ok
}

// take takes n bytes without waiting, even if that exceeds the budget.
func (b *budget) take(n int64) int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	return n
}

// release returns n bytes.
func (b *budget) release(n int64) {
	if b == nil || n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.admit()
}

// queue returns the number of those who wait.
func (b *budget) queue() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// leave removes a waiter, and returns its bytes if it has got them in the meantime.
func (b *budget) leave(w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.admit()
			return
		}
	}
	b.used -= w.n
	b.admit()
}

// admit gives free bytes to those who wait, in their order. The caller holds b.mu.
func (b *budget) admit() {
	for len(b.waiting) > 0 && b.used+b.waiting[0].n <= b.size {
		w := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.used += w.n
		close(w.done)
	}
}

// memory returns the memory, in bytes, that receiving the content takes.
func (c *Content) memory() int64 {
	n := c.size
	if c.large != nil {
		n = frame.MaxPlain
	}
	if !c.codec.Plain() {
		n *= 2
	}
	return n
}

// Beside lets the content take memory without waiting, for a caller that already has other content in memory. It must
// be called before ReadFrom.
func (c *Content) Beside() { c.beside = true }

// reserve takes the memory for receiving the content from r, which release returns. Small content uses the memory of
// large content too, if that is free, but waits only for its own.
func (c *Content) reserve(r io.Reader) error {
	b, n := c.engine.receiving, c.memory()
	if b == nil {
		return nil
	}
	if c.beside {
		c.reserved = share{b, b.take(n)}
		return nil
	}
	if c.size <= smallSize {
		if b.try(n) {
			c.reserved = share{b, n}
			return nil
		}
		b = c.engine.receivingSmall
	}
	if s, ok := r.(*Section); ok {
		s.rest()
	}
	n, err := b.acquire(c.ctx, n)
	c.reserved = share{b, n}
	return err
}

// Waiting returns how many contents wait for memory.
func (e *Engine) Waiting() int { return e.receiving.queue() + e.receivingSmall.queue() }

// pieceSize is the number of bytes that a Section returns at a time if there is no memory for whole frames.
const pieceSize = 16 << 10

// whole reports whether the section may keep a whole frame in memory while the client reads it. Otherwise it reads and
// verifies the frame, keeps only a piece of it, and reads the frame again for the next piece. That takes more time, but
// only while very many clients are reading.
func (s *Section) whole() bool {
	b := s.engine.reading
	n := min(s.left, frame.MaxPlain)
	switch {
	case b == nil || s.exempt || s.reserved > 0:
		return true
	case n <= pieceSize: // the frame may be much larger
		return s.buffer == nil || len(s.buffer.B) <= 2*pieceSize
	}
	if b.try(n) {
		s.reserved = n
		return true
	}
	return false
}

// unreserve returns the memory that whole has taken.
func (s *Section) unreserve() {
	s.engine.reading.release(s.reserved)
	s.reserved = 0
}

// shrink moves a piece of a frame to a small buffer, and releases the buffers of the frame.
func (s *Section) shrink() *batch.Buffer {
	small := batch.NewBuffer(pieceSize)
	s.ready = small.Content()[:copy(small.Content(), s.ready)]
	s.releaseBuffers()
	return small
}

// rest keeps only a piece of the frame that was read ahead, unless its memory is reserved: whoever reads the section
// waits for memory first, and there may be many of them.
func (s *Section) rest() {
	if s.reserved == 0 && s.piece {
		s.buffer = s.shrink()
	}
}

// releaseBuffers releases the buffers of the current frame.
func (s *Section) releaseBuffers() {
	if s.buffer != nil {
		s.buffer.Release()
		s.buffer = nil
	}
	s.decoding.close()
}

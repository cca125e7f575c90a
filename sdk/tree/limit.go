package tree

import (
	"context"
	"sync"
)

// budget is a limited number of bytes of memory. Requests are served in their order.
type budget struct {
	mu      sync.Mutex
	free    int64
	waiting []*waiter
}

// waiter waits for bytes. ready is closed when it has them.
type waiter struct {
	bytes int64
	ready chan struct{}
}

func newBudget(bytes int64) *budget { return &budget{free: bytes} }

// take waits for bytes, which must not be more than the whole budget.
func (b *budget) take(ctx context.Context, bytes int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= bytes {
		b.free -= bytes
		b.mu.Unlock()
		return nil
	}
	w := &waiter{bytes, make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.serve()
			return ctx.Err()
		}
	}
	b.free += bytes // it was served in the meantime
	b.serve()
	return ctx.Err()
}

// give returns bytes.
func (b *budget) give(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += bytes
	b.serve()
}

// serve gives bytes to those who wait. The caller holds the mutex.
func (b *budget) serve() {
	for len(b.waiting) > 0 && b.waiting[0].bytes <= b.free {
		b.free -= b.waiting[0].bytes
		close(b.waiting[0].ready)
		b.waiting = b.waiting[1:]
	}
}

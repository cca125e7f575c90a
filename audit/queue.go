package audit

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// queue holds records, each a line, until a sink has written them. Its size includes the records that the sink has
// taken and not yet written.
type queue struct {
	max     int
	filled  chan struct{} // has a value if there may be records
	dropped atomic.Int64

	mu    sync.Mutex // guards the fields below
	lines []byte
	held  int // bytes that were taken and not yet released
}

func newQueue(size int) *queue { return &queue{max: size, filled: make(chan struct{}, 1)} }

// push adds a record, or drops it if there is no space.
func (q *queue) push(line []byte) {
	q.mu.Lock()
	full := len(q.lines)+q.held+len(line) > q.max
	if !full {
		q.lines = append(q.lines, line...)
	}
	q.mu.Unlock()
	if full {
		q.dropped.Add(1)
		return
	}
	select {
	case q.filled <- struct{}{}:
	default:
	}
}

// spareMax is the size of the largest buffer that is used again.
const spareMax = 1 << 20

// take returns all records, which the caller releases when they are written. spare is an empty slice that the queue may
// use.
func (q *queue) take(spare []byte) []byte {
	if cap(spare) > spareMax {
		spare = nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	lines := q.lines
	q.lines, q.held = spare[:0], q.held+len(lines)
	return lines
}

// release makes space for n bytes that were taken.
func (q *queue) release(n int) {
	q.mu.Lock()
	q.held -= n
	q.mu.Unlock()
}

// drop counts records that were taken as dropped.
func (q *queue) drop(records []byte) {
	q.release(len(records))
	q.dropped.Add(int64(bytes.Count(records, []byte("\n"))))
}

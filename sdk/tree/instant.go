package tree

import (
	"context"
	"sync"

	"orcas/sdk"
)

const (
	askMax   = 1000            // pieces of content in one question
	askBytes = smallMemory / 2 // bytes of content after which a question is asked in any case
)

// asker asks the server which small files it already has, for many files in one request, and passes them to senders,
// which send the files or refer to the content.
//
// Workers read files and add them. A question is asked when a sender would soon have nothing to do, or when it is full. So
// there is no timer: while the senders are busy, files gather; and a few files do not wait for more.
type asker struct {
	engine  *engine
	senders int
	ready   chan *smallContent

	mu      sync.Mutex // guards what follows
	changed *sync.Cond
	queue   []*smallContent
	bytes   int64 // of the content in queue
	sending int   // files that were asked about and are not yet sent
	closed  bool
	off     bool // the server does not answer such questions
}

// newAsker returns an asker for a number of senders.
func newAsker(e *engine, senders int) *asker {
	a := &asker{engine: e, senders: senders, ready: make(chan *smallContent, askMax)}
	a.changed = sync.NewCond(&a.mu)
	return a
}

// add adds a file.
func (a *asker) add(c *smallContent) {
	c.hash()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, c)
	a.bytes += int64(len(c.content))
	a.changed.Signal()
}

// close says that no more files will be added.
func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.changed.Signal()
}

// take waits for files to ask about. It returns nil at the end.
func (a *asker) take() []*smallContent {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if a.enough() {
			n := min(len(a.queue), askMax)
			list := a.queue[:n:n]
			a.queue = a.queue[n:]
			for _, c := range list {
				a.bytes -= int64(len(c.content))
			}
			a.sending += n
			return list
		}
		if a.closed {
			return nil
		}
		a.changed.Wait()
	}
}

// enough reports whether it is time for a question. The caller holds the mutex.
func (a *asker) enough() bool {
	n := len(a.queue)
	return n > 0 && (a.closed || a.off || n >= askMax || a.bytes >= askBytes || a.sending < a.senders)
}

// ask asks about files until there are no more, and passes them on.
func (a *asker) ask(ctx context.Context) {
	defer close(a.ready)
	for {
		list := a.take()
		if list == nil {
			return
		}
		if ctx.Err() == nil && !a.off {
			a.question(ctx, list)
		}
		for _, c := range list {
			a.ready <- c // the senders take all of them, also when everything has ended
		}
	}
}

// question asks about some files, and marks those whose content the server has.
func (a *asker) question(ctx context.Context, list []*smallContent) {
	e := a.engine
	ids := make([]sdk.ContentID, len(list))
	for i, c := range list {
		ids[i] = sdk.ContentID{Size: int64(len(c.content)), SHA256: c.sha256}
	}
	states, err := e.to.client.FindContent(ctx, e.to.bucket, ids, e.options.Put.Encryption)
	if err != nil {
		// Another make of server, or no permission to ask. If it is something worse, the uploads will fail, too.
		a.mu.Lock()
		a.off = true
		a.mu.Unlock()
		return
	}
	for i, c := range list {
		c.refer = states[i] == sdk.ContentPresent
	}
}

// send sends files until there are no more.
func (a *asker) send(ctx context.Context) {
	for c := range a.ready {
		if ctx.Err() != nil {
			c.release()
		} else {
			a.engine.putSmall(ctx, c)
		}
		a.mu.Lock()
		a.sending--
		a.changed.Signal()
		a.mu.Unlock()
	}
}

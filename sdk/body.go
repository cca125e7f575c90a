package sdk

import (
	"context"
	"crypto/md5"
	"fmt"
	"hash"
	"io"
	"net/http"
	"sync"
)

// sending is the body of one attempt. The transport reads it, possibly also after the attempt has ended, until detach.
type sending struct {
	wire  *wire
	ctx   context.Context
	watch *watch    // set by wire.send
	md5   hash.Hash // nil if nobody needs it
	flow  *flow     // counts what is sent; nil if nobody does

	mu       sync.Mutex
	reader   io.Reader // guarded by mu, as all below
	left     int64
	sent     int64
	detached bool
	err      error // of reader
}

// attach makes s the body of a request. It returns nil if there is none.
func (w *wire) attach(r *http.Request, s *sending, c *content) (*sending, error) {
	if c.reader == nil || c.size == 0 {
		r.Body = http.NoBody
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			r.Body = nil
		}
		return nil, nil
	}
	if _, err := c.reader.Seek(c.start, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	s.wire, s.ctx, s.reader, s.left, s.flow = w, r.Context(), c.reader, c.size, flowOf(r.Context())
	s.flow.restart()
	if c.md5 {
		s.md5 = md5.New()
	}
	r.Body, r.ContentLength = s, c.size
	return s, nil
}

// Read implements io.Reader. It sends exactly the announced size: not what a file has grown by since.
func (s *sending) Read(p []byte) (int, error) {
	p = p[:s.wire.pace(len(p))]
	s.mu.Lock()
	n, err := s.read(p)
	s.mu.Unlock()
	if n > 0 {
		s.wire.count.sent.Add(int64(n))
		s.flow.sent(n)
		s.watch.pause() // waiting for the limit is not up to the server
		if werr := s.wire.config.Bandwidth.wait(s.ctx, n); werr != nil {
			return n, werr
		}
	}
	s.watch.progress()
	return n, err
}

func (s *sending) read(p []byte) (int, error) {
	switch {
	case s.detached:
		return 0, errNotSent
	case s.err != nil:
		return 0, s.err
	case s.left == 0:
		return 0, io.EOF
	}
	n, err := s.reader.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.sent += int64(n)
	if s.md5 != nil {
		s.md5.Write(p[:n])
	}
	switch {
	case err == io.EOF && s.left > 0:
		s.err = fmt.Errorf("%w: the body has become %d bytes shorter since it was measured", io.ErrUnexpectedEOF, s.left)
		return n, s.err
	case err != nil && err != io.EOF:
		s.err = err
		return n, err
	}
	return n, nil
}

// Close implements io.Closer. The reader belongs to the caller and stays open.
func (s *sending) Close() error {
	s.detach()
	return nil
}

// detach makes sure that the reader is not used any more. It returns the bytes that were read, and an error of the
// reader.
func (s *sending) detach() (sent int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detached = true
	return s.sent, s.err
}

// pace returns how many of n bytes to transfer at once, so that a slow limit of the bandwidth is no standstill.
func (w *wire) pace(n int) int {
	if w.config.Bandwidth == nil {
		return n
	}
	if limit := w.config.Bandwidth.Limit(); limit > 0 {
		return int(min(int64(n), max(limit/4, 1)))
	}
	return n
}

// receiving is the body of a response.
type receiving struct {
	body  io.ReadCloser
	watch *watch
	wire  *wire
	ctx   context.Context // of the caller
	flow  *flow           // counts what is received; nil if nobody does
	done  error           // returned by all further reads
}

// Read implements io.Reader. The errors are of this package, except io.EOF. Time counts only while it waits for the
// server, not while the caller does something else.
func (r *receiving) Read(p []byte) (int, error) {
	if r.done != nil {
		return 0, r.done
	}
	r.watch.progress()
	n, err := r.body.Read(p[:r.wire.pace(len(p))])
	r.watch.pause()
	if n > 0 {
		r.wire.count.received.Add(int64(n))
		r.flow.received(n)
		if werr := r.wire.config.Bandwidth.wait(r.ctx, n); werr != nil && err == nil {
			err = werr
		}
	}
	if err != nil {
		if err != io.EOF {
			err = transportError(r.ctx, context.Cause(r.watch.ctx), err, r.wire.config.IdleTimeout)
		}
		r.done = err
	}
	return n, err
}

// Close ends the request. If the body was read to its end, the connection is kept.
func (r *receiving) Close() error {
	err := r.body.Close()
	r.watch.end()
	if r.done == nil {
		r.done = http.ErrBodyReadAfterClose
	}
	return err
}

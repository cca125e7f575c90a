package server

import (
	"net/http"
	"sync"
)

// netHTTPBuffer is the size of the buffer through which net/http writes a response. The head goes there first, so the
// head and a body of 4 KiB leave it in two writes: the full buffer, and the rest.
const netHTTPBuffer = 4 << 10

// joinMost is the size of the longest second write that is joined. Copying more bytes costs as much as a write.
const joinMost = 16 << 10

// joiner joins these two writes, since a second system call and a second packet cost more than copying the bytes. It
// holds the first write of a response if that is a full buffer, until the next write. There is a next write, because
// net/http writes a full buffer only when it has more bytes. (The exception is a Flush at that very position, so the
// held bytes are sent at the latest at the end of the response.)
//
// A joiner has no lock: net/http writes a response with one goroutine at a time. That is not so over HTTP/2, where a
// joiner stays as it is.
type joiner struct {
	begins bool    // the next write begins a response that may be joined
	held   *[]byte // from joinBuffers; nil if nothing is held
}

// joinBuffers has buffers for the two writes.
var joinBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, netHTTPBuffer+joinMost)
	return &b
}}

// expect prepares j for the response to r. A connection with TLS writes records, and HTTP/2 has several responses at a
// time, so their writes are not joined.
func (j *joiner) expect(r *http.Request) {
	if r.ProtoMajor == 1 && r.TLS == nil {
		j.begins = true
	}
}

// end records that the handler has returned: what net/http writes from then on is not joined.
func (j *joiner) end() {
	if j.begins {
		j.begins = false
	}
}

// hold holds p and returns true, or returns false if p must be written, after any held bytes.
func (j *joiner) hold(p []byte) bool {
	if !j.begins {
		return false
	}
	j.begins = false
	if len(p) != netHTTPBuffer {
		return false
	}
	j.held = joinBuffers.Get().(*[]byte)
	*j.held = append((*j.held)[:0], p...)
	return true
}

// flush writes p after the held bytes, and returns the number of bytes of p that were written.
func (j *joiner) flush(p []byte, write func([]byte) (int, error)) (int, error) {
	held := j.held
	j.held = nil
	defer joinBuffers.Put(held)
	before := len(*held)
	if len(p) > joinMost {
		if _, err := write(*held); err != nil {
			return 0, err
		}
		return write(p)
	}
	*held = append(*held, p...)
	n, err := write(*held)
	return max(n-before, 0), err
}

// Package loadgen is one connection of a load generator: it sends signed requests and returns the responses unchanged,
// without retries. All other programs use package sdk. A Conn writes and reads HTTP/1.1 itself and reuses its memory,
// because its CPU time is part of every measurement if the server runs on the same machine.
package loadgen

import (
	"context"
	"time"
)

// Request is a request before it is signed.
type Request struct {
	Op          string // the name under which the caller counts the request; it is not sent
	Method      string
	Path, Query string // Path is decoded, Query is encoded
	Header      []Header
	Body        []byte
	Hash        string // payload hash: hexadecimal SHA-256 of Body, which the mode Signed needs
	Keep        bool   // keep the body, ETag and type of the Reply of a Conn
	Anonymous   bool   // do not sign it
}

// Header is one header of a Request, with its name in canonical form.
type Header struct{ Name, Value string }

// Reply is the response that a Conn returns.
type Reply struct {
	Status int
	Size   int64
	XXH3   uint64 // the hash of the body
	// The fields below are set if Request.Keep is set. Body is valid until the next request.
	Body       []byte
	ETag, Type string
	Server     string // the Server header
}

// Conn sends requests over one connection, one at a time, for one goroutine.
type Conn interface {
	Connect() error // connects now; without it, the first request connects
	Do(q *Request) (Reply, error)
	Close() error
}

// requestTimeout is the maximum duration of a request over a Conn; after it, the connection is closed. The actual
// limit is between half of it and all of it, since a deadline that is still far away is not extended.
const requestTimeout = 60 * time.Second

// NewConn returns a Conn to t. When ctx is canceled, its requests fail.
func NewConn(ctx context.Context, t *Target) Conn {
	if t.H2 {
		return newHTTP2(ctx, t)
	}
	return newHTTP1(ctx, t)
}

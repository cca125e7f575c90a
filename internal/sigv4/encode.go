package sigv4

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultChunkSize is the default size of a chunk of SignChunked, in bytes of content.
const DefaultChunkSize = 64 << 10

// Trailer is a trailer to send.
type Trailer struct {
	Name  string        // in lower case
	Size  int           // length of the value in bytes
	Value func() string // returns the value; called after the content has been read to its end
}

// Chunked holds the parameters of an aws-chunked body.
type Chunked struct {
	Mode      PayloadMode // one of the chunked modes
	Length    int64       // bytes of content
	ChunkSize int         // bytes of content in a chunk; 0 means DefaultChunkSize
	Trailers  []Trailer   // for the trailer modes
}

// SignChunked signs r, at the time t, to be sent with content as an aws-chunked body. It sets r.Body, r.ContentLength
// and the headers, and prepends aws-chunked to the Content-Encoding of r. Reading the body fails if the content or the
// value of a trailer does not have the length in c.
func (s *Signer) SignChunked(r *http.Request, content io.Reader, c Chunked, t time.Time) {
	c.ChunkSize = cmp.Or(c.ChunkSize, DefaultChunkSize)
	coding := "aws-chunked"
	if other := r.Header.Get("Content-Encoding"); other != "" {
		coding += "," + other
	}
	r.Header["Content-Encoding"] = []string{coding}
	r.Header["X-Amz-Decoded-Content-Length"] = []string{strconv.FormatInt(c.Length, 10)}
	delete(r.Header, "X-Amz-Trailer")
	if len(c.Trailers) > 0 {
		names := make([]string, len(c.Trailers))
		for i := range c.Trailers {
			names[i] = c.Trailers[i].Name
		}
		r.Header["X-Amz-Trailer"] = []string{strings.Join(names, ",")}
	}
	now, seed := s.sign(r, c.Mode.String(), t)
	e := &encoder{Chunked: c, content: content, left: c.Length, hash: sha256.New()}
	e.chain = chain{key: now.key, date: now.date[0], scope: now.scope, last: seed}
	r.Body = e
	r.GetBody = nil
	r.ContentLength = c.encodedLength()
}

// encodedLength returns the size of the whole body in bytes.
func (c *Chunked) encodedLength() int64 {
	size := int64(c.ChunkSize)
	n := c.Length/size*c.chunkLength(size) + c.chunkLength(0)
	if rest := c.Length % size; rest > 0 {
		n += c.chunkLength(rest)
	}
	if !c.Mode.Trailer() {
		return n
	}
	for _, t := range c.Trailers {
		n += int64(len(t.Name) + len(":") + t.Size + len("\r\n"))
	}
	if c.Mode.signed() {
		n += int64(len(trailerSignature) + len(":") + 64 + len("\r\n"))
	}
	return n
}

// chunkLength returns the encoded size of a chunk, including its header and the line terminator that follows it. (The
// last chunk has no content, so that line terminator is the end of the body.)
func (c *Chunked) chunkLength(size int64) int64 {
	n := int64(len(strconv.FormatInt(size, 16))+len("\r\n")) + size + int64(len("\r\n"))
	if c.Mode.signed() {
		n += int64(len(";"+chunkSignature) + 64)
	}
	return n
}

// encoder is an aws-chunked body to be sent.
type encoder struct {
	Chunked
	chain
	content io.Reader
	left    int64 // remaining bytes of content
	hash    hash.Hash
	chunk   []byte // content of a chunk
	out     []byte // encoded data, the end of which is pending
	pending []byte
	err     error // returned once nothing is pending
}

// Read implements io.Reader. It returns the encoded body.
func (e *encoder) Read(p []byte) (int, error) {
	for len(e.pending) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.err = e.next()
		e.pending = e.out
	}
	n := copy(p, e.pending)
	e.pending = e.pending[n:]
	return n, nil
}

// next encodes the next chunk into out. It returns io.EOF with the last one.
func (e *encoder) next() error {
	e.out = e.out[:0]
	if e.chunk == nil {
		e.chunk = make([]byte, min(e.left, int64(e.ChunkSize)))
	}
	content := e.chunk[:min(e.left, int64(e.ChunkSize))]
	if _, err := io.ReadFull(e.content, content); err != nil {
		return noEOF(err)
	}
	e.left -= int64(len(content))
	var signature []byte
	if e.Mode.signed() {
		e.hash.Reset()
		e.hash.Write(content)
		e.chain.chunk(e.hash.Sum(nil))
		signature = e.last[:]
	}
	e.out = appendChunkHeader(e.out, len(content), signature)
	if len(content) > 0 {
		e.out = append(append(e.out, content...), "\r\n"...)
		return nil
	}
	return e.end()
}

// end encodes the trailer and the end of the body.
func (e *encoder) end() error {
	if n, err := io.ReadFull(e.content, make([]byte, 1)); n > 0 {
		return errors.New("sigv4: the content is longer than " + strconv.FormatInt(e.Length, 10) + " bytes")
	} else if err != io.EOF {
		return err
	}
	if e.Mode.Trailer() {
		canonical := e.text[:0]
		for _, t := range e.Trailers {
			value := t.Value()
			if len(value) != t.Size {
				return errors.New("sigv4: the trailer " + t.Name + " has " + strconv.Itoa(len(value)) +
					" bytes, expected " + strconv.Itoa(t.Size))
			}
			e.out = append(append(append(append(e.out, t.Name...), ':'), value...), "\r\n"...)
			canonical = append(append(append(append(canonical, t.Name...), ':'), value...), '\n')
		}
		e.text = canonical
		if e.Mode.signed() {
			e.trailer(canonical)
			e.out = append(append(append(e.out, trailerSignature+":"...), e.last[:]...), "\r\n"...)
		}
	}
	e.out = append(e.out, "\r\n"...)
	return io.EOF
}

// Close closes the content if it is an io.Closer.
func (e *encoder) Close() error {
	if c, ok := e.content.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

package sdk

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"
	"sync"

	"orcas/internal/checksum"
	"orcas/internal/sigv4"
)

// signedMax is the size in bytes of the largest body whose SHA-256 is signed, if the connection is not encrypted.
// Larger bodies are protected by a checksum that takes less time.
const signedMax = 1 << 20

// sums is what a caller knows about a body.
type sums struct {
	algorithm Algorithm
	value     string // Base64
	sha256    string // hexadecimal
	needed    bool   // S3 demands a checksum for this operation
}

// setContent sets the body of a call. It reads body once to compute what has to be sent ahead of it, unless the caller
// knows that: the checksum, and the SHA-256 that is signed.
func (w *wire) setContent(q *call, body io.ReadSeeker, known sums) error {
	c := &q.body
	if body == nil {
		body = bytes.NewReader(nil)
	}
	var err error
	if c.start, c.size, err = measure(body); err != nil {
		return q.localError(fmt.Errorf("measuring the body: %w", err))
	}
	c.reader = body
	c.known = known.value != "" || known.sha256 != ""
	algorithm := known.algorithm
	if algorithm == None && known.value != "" {
		return argument(q.op, q.bucket, q.key, "there is a checksum, but no algorithm of it")
	}
	requireMD5 := false
	if algorithm == None && w.config.ChecksumsWhenRequired {
		requireMD5 = known.needed
		c.md5 = true
	} else if algorithm == None {
		algorithm = w.config.Checksum
	} else if !algorithm.Valid() {
		return argument(q.op, q.bucket, q.key, "the checksum algorithm %d does not exist", algorithm)
	}
	p := pass{}
	if algorithm != None && known.value == "" {
		p.algorithm = algorithm
	}
	p.md5 = requireMD5
	c.hash = known.sha256
	if c.hash == "" && (w.secure || c.size > signedMax) {
		c.hash = sigv4.UnsignedPayload
	}
	p.sha256 = c.hash == "" && !w.anonymous()
	if err := p.run(body, c.start, c.size); err != nil {
		return q.localError(fmt.Errorf("reading the body: %w", err))
	}
	if p.sha256 {
		c.hash = p.hex
	}
	if algorithm != None {
		value := known.value
		if value == "" {
			value = p.sum
		}
		set(q.header, algorithm.HeaderKey(), value)
	}
	if requireMD5 {
		set(q.header, "Content-Md5", p.md5sum)
	}
	return nil
}

// measure returns the position of a reader, and the bytes from there to its end.
func measure(r io.ReadSeeker) (start, size int64, err error) {
	if start, err = r.Seek(0, io.SeekCurrent); err != nil {
		return 0, 0, err
	}
	switch b := r.(type) {
	case *bytes.Reader:
		return start, int64(b.Len()), nil
	case *strings.Reader:
		return start, int64(b.Len()), nil
	}
	end, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, 0, err
	}
	if _, err = r.Seek(start, io.SeekStart); err != nil {
		return 0, 0, err
	}
	return start, max(0, end-start), nil
}

// pass is one reading of a body, for everything that is to be computed from it.
type pass struct {
	algorithm   Algorithm // None: no checksum
	sha256, md5 bool

	sum, hex, md5sum string // the results: Base64, hexadecimal, Base64
}

// pieces are buffers for reading bodies.
var pieces = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// run reads size bytes from start.
func (p *pass) run(r io.ReadSeeker, start, size int64) error {
	if p.algorithm == None && !p.sha256 && !p.md5 {
		return nil
	}
	buf := pieces.Get().(*[64 << 10]byte)
	defer pieces.Put(buf)
	if size <= int64(len(buf)) {
		if _, err := io.ReadFull(r, buf[:size]); err != nil {
			return err
		}
		p.small(buf[:size])
		return nil
	}
	var sum, sha, m hash.Hash
	var all []io.Writer
	if p.algorithm != None {
		sum = checksum.New(p.algorithm)
		all = append(all, sum)
	}
	if p.sha256 {
		sha = sha256.New()
		all = append(all, sha)
	}
	if p.md5 {
		m = md5.New()
		all = append(all, m)
	}
	for left := size; left > 0; {
		n, err := r.Read(buf[:min(left, int64(len(buf)))])
		for _, w := range all {
			_, _ = w.Write(buf[:n]) // hashes never fail
		}
		left -= int64(n)
		if err == io.EOF && left > 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil && err != io.EOF {
			return err
		}
	}
	if sum != nil {
		p.sum = checksum.Encode(sum.Sum(nil))
	}
	if sha != nil {
		p.hex = hex.EncodeToString(sha.Sum(nil))
	}
	if m != nil {
		p.md5sum = base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	return nil
}

// small computes everything from a body in memory.
func (p *pass) small(b []byte) {
	if p.algorithm != None {
		p.sum = checksum.Encode(checksum.Sum(p.algorithm, b))
	}
	if p.sha256 {
		sum := sha256.Sum256(b)
		var text [2 * sha256.Size]byte
		hex.Encode(text[:], sum[:])
		p.hex = string(text[:])
	}
	if p.md5 {
		sum := md5.Sum(b)
		p.md5sum = base64.StdEncoding.EncodeToString(sum[:])
	}
}

// verifyWritten compares the response to a write with what was sent.
func (w *wire) verifyWritten(q *call, r *reply, out *Written, algorithm Algorithm) error {
	if algorithm != None {
		sent, got := first(q.header, algorithm.HeaderKey()), out.Checksums[algorithm]
		if got != "" && sent != "" && got != sent {
			return w.damaged(q, r, "the server stored content with the %s %s, and %s was sent", algorithm, got, sent)
		}
	}
	if r.md5 != nil && isMD5(out.ETag, r.header) {
		if sent := hex.EncodeToString(r.md5); sent != out.ETag {
			return w.damaged(q, r, "the server stored content with the MD5 %s, and %s was sent", out.ETag, sent)
		}
	}
	return nil
}

// damaged returns the error for a write whose response shows that the content was damaged on the way.
func (w *wire) damaged(q *call, r *reply, format string, args ...any) error {
	e := q.localError(failed(ErrChecksum, format, args...))
	e.RequestID, e.Attempts, e.Uncertain = first(r.header, "X-Amz-Request-Id"), 1, true
	return e
}

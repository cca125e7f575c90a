package sigv4

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"hash"
	"io"
	"strconv"
	"sync"
)

const (
	chunkSignature   = "chunk-signature="
	trailerSignature = "x-amz-trailer-signature"

	// maxLine is the maximum length of a line in a chunked body (a chunk header or a trailer), in bytes.
	maxLine = 4096

	// defaultMinChunk is the minimum size in bytes of the content of a chunk, except the last one with content.
	defaultMinChunk = 8 << 10
)

// chain computes the signatures of the chunks of one body. Each signature covers the preceding one.
type chain struct {
	scratch
	key         [32]byte
	date, scope string
	last        [64]byte // the latest signature, in hexadecimal
}

// chunk sets last to the signature of a chunk. sum is the SHA-256 of its content.
func (c *chain) chunk(sum []byte) {
	b := c.begin(algorithm + "-PAYLOAD\n")
	b = append(b, emptySHA256+"\n"...)
	c.buf = hex.AppendEncode(b, sum)
	c.hexMAC(&c.last, &c.key, c.buf)
}

// trailer sets last to the signature of the trailer. canonical has a line "name:value\n" for each trailer.
func (c *chain) trailer(canonical []byte) {
	sum := sha256.Sum256(canonical)
	c.buf = hex.AppendEncode(c.begin(algorithm+"-TRAILER\n"), sum[:])
	c.hexMAC(&c.last, &c.key, c.buf)
}

func (c *chain) begin(kind string) []byte {
	b := append(append(c.buf[:0], kind...), c.date...)
	b = append(append(append(b, '\n'), c.scope...), '\n')
	return append(append(b, c.last[:]...), '\n')
}

// decoder is the state for reading a chunked body. It is reused for the next body.
type decoder struct {
	chain
	in     *bufio.Reader
	hash   hash.Hash // hash of the chunk's content
	signed bool
	left   int64    // unread bytes of the chunk's content
	size   int64    // size of the chunk's content; 0 before the first chunk
	number int64    // number of the chunk, from 1
	least  int64    // minimum size of the content of a chunk, except the last one with content
	given  [64]byte // the signature in the chunk's header
}

type decoderPool struct {
	pool  sync.Pool
	least int64 // decoder.least; 0 means defaultMinChunk
}

func (p *decoderPool) get(source io.Reader, a *Auth) *decoder {
	d, ok := p.pool.Get().(*decoder)
	if !ok {
		d = &decoder{in: bufio.NewReaderSize(nil, maxLine), hash: sha256.New()}
	}
	d.in.Reset(source)
	d.hash.Reset()
	d.signed, d.left, d.size, d.number = a.Mode.signed(), 0, 0, 0
	d.least = cmp.Or(p.least, defaultMinChunk)
	d.key, d.last, d.date, d.scope = a.key, a.seed, a.date, a.scope
	return d
}

func (p *decoderPool) put(d *decoder) {
	d.in.Reset(nil)
	d.key = [32]byte{}
	p.pool.Put(d)
}

// readLine returns the next line without its terminator, \r\n or \n. It is valid until the next read.
func (d *decoder) readLine() ([]byte, error) {
	line, err := d.in.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, errMalformed("a line is too long")
	}
	if err != nil {
		return nil, noEOF(err)
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// readHeader reads a chunk header into left, size, number and given. Every chunk except the last one with content must
// have at least d.least bytes.
func (d *decoder) readHeader() error {
	line, err := d.readLine()
	if err != nil {
		return err
	}
	size, extension, _ := bytes.Cut(line, []byte(";"))
	// 15 digits are more than enough for the size of any object, and cannot overflow.
	if len(size) == 0 || len(size) > 15 {
		return errMalformed("a chunk has an invalid size")
	}
	d.left = 0
	for _, c := range size {
		if !isHex(c) {
			return errMalformed("a chunk has an invalid size")
		}
		d.left = d.left<<4 | int64(unhex(c))
	}
	d.number++
	if d.left > 0 && d.size > 0 && d.size < d.least {
		return errChunkSize(d.number, d.size)
	}
	d.size = d.left
	if !d.signed {
		return nil
	}
	signature, found := bytes.CutPrefix(extension, []byte(chunkSignature))
	if !found || len(signature) != len(d.given) {
		return errMalformed("the signature of a chunk is missing or malformed")
	}
	copy(d.given[:], signature)
	return nil
}

// verifyChunk verifies the signature of the chunk that has just been read.
func (d *decoder) verifyChunk() error {
	if !d.signed {
		return nil
	}
	var sum [sha256.Size]byte
	d.chunk(d.hash.Sum(sum[:0]))
	d.hash.Reset()
	if subtle.ConstantTimeCompare(d.given[:], d.last[:]) != 1 {
		return errMismatch()
	}
	return nil
}

// verifyTrailer verifies the signature of the trailer.
func (d *decoder) verifyTrailer(canonical []byte, given string) error {
	d.trailer(canonical)
	if subtle.ConstantTimeCompare([]byte(given), d.last[:]) != 1 {
		return errMismatch()
	}
	return nil
}

// readNothing reads the rest of the body, which must be empty except for the empty line that some clients add.
func (d *decoder) readNothing() error {
	for extra := 0; ; extra++ {
		c, err := d.in.ReadByte()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if extra == 2 || c != "\r\n"[extra] {
			return errMalformed("there is data after the end")
		}
	}
}

// appendChunkHeader appends the header of a chunk; signature may be nil.
func appendChunkHeader(dst []byte, size int, signature []byte) []byte {
	dst = strconv.AppendInt(dst, int64(size), 16)
	if signature != nil {
		dst = append(append(dst, ";"+chunkSignature...), signature...)
	}
	return append(dst, "\r\n"...)
}

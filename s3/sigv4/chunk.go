package sigv4

import (
	"bufio"
	"bytes"
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

	// maxLine bounds a line of a chunked body: a chunk's header or a trailer.
	maxLine = 4096
)

// chain computes the signatures of the chunks of one body, each of which covers the one before.
type chain struct {
	scratch
	key         [32]byte
	date, scope string
	last        [64]byte // the signature before, in hexadecimal
}

// chunk moves on to the signature of a chunk whose content has the SHA-256 sum.
func (c *chain) chunk(sum []byte) {
	b := c.begin(algorithm + "-PAYLOAD\n")
	b = append(b, emptySHA256+"\n"...)
	c.buf = hex.AppendEncode(b, sum)
	c.hexMAC(&c.last, &c.key, c.buf)
}

// trailer moves on to the signature of the trailer, which is given in canonical form: "name:value\n" each.
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

// decoder is what reading a chunked body needs. It is kept from one body to the next.
type decoder struct {
	chain
	in     *bufio.Reader
	hash   hash.Hash // of the chunk
	signed bool
	left   int64    // of the chunk's content, not yet read
	given  [64]byte // the chunk's signature as its header has it
}

type decoderPool struct{ pool sync.Pool }

func (p *decoderPool) get(source io.Reader, a *Auth) *decoder {
	d, ok := p.pool.Get().(*decoder)
	if !ok {
		d = &decoder{in: bufio.NewReaderSize(nil, maxLine), hash: sha256.New()}
	}
	d.in.Reset(source)
	d.hash.Reset()
	d.signed, d.left = a.Mode.signed(), 0
	d.key, d.last, d.date, d.scope = a.key, a.seed, a.date, a.scope
	return d
}

func (p *decoderPool) put(d *decoder) {
	d.in.Reset(nil)
	d.key = [32]byte{}
	p.pool.Put(d)
}

// readLine returns the next line without its end, \r\n or \n. It is valid until the next read.
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

// readHeader reads the header of a chunk into left and given.
func (d *decoder) readHeader() error {
	line, err := d.readLine()
	if err != nil {
		return err
	}
	size, extension, _ := bytes.Cut(line, []byte(";"))
	// 15 digits: far more than any object has, and no overflow.
	if len(size) == 0 || len(size) > 15 {
		return errMalformed("no size of a chunk")
	}
	d.left = 0
	for _, c := range size {
		if !isHex(c) {
			return errMalformed("no size of a chunk")
		}
		d.left = d.left<<4 | int64(unhex(c))
	}
	if !d.signed {
		return nil
	}
	signature, found := bytes.CutPrefix(extension, []byte(chunkSignature))
	if !found || len(signature) != len(d.given) {
		return errMalformed("no signature of a chunk")
	}
	copy(d.given[:], signature)
	return nil
}

// verifyChunk compares the signature of the chunk that was read.
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

// verifyTrailer compares the signature of the trailer.
func (d *decoder) verifyTrailer(canonical []byte, given string) error {
	d.trailer(canonical)
	if subtle.ConstantTimeCompare([]byte(given), d.last[:]) != 1 {
		return errMismatch()
	}
	return nil
}

// readNothing reads to the end of the body, where at most the empty line may come that some clients add.
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
			return errMalformed("something follows its end")
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

package sigv4

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Body is the content of a request, decoded. It is an io.Reader for one goroutine.
//
// Bytes are handed out as they come, so that memory is bounded whatever the size of a chunk, but the last piece of the
// content and io.EOF come only after everything has been verified: chunk signatures, lengths, the trailer and its
// signature, the SHA-256. So content counts only once it has been read to its end without an error, and nobody gets the
// whole of a content that is not what was signed.
type Body struct {
	auth      *Auth
	source    io.Reader
	length    int64       // of the content
	left      int64       // of the content, not yet handed out
	whole     hash.Hash   // of the content; nil: not to be computed
	chunks    *decoder    // nil: the body is sent as it is
	announced []string    // names of trailers
	trailers  [][2]string // names and values that came
	err       error       // of every later Read
}

// Body returns the content of r as a says it was sent. It reads nothing yet. The errors are *Error: MissingContentLength,
// InvalidRequest.
func (a *Auth) Body(r *http.Request) (*Body, error) {
	b := &Body{auth: a, source: r.Body, length: r.ContentLength}
	if b.source == nil {
		b.source = http.NoBody
	}
	if a.Mode.Chunked() {
		text, err := single(r.Header, "X-Amz-Decoded-Content-Length")
		if err != nil {
			return nil, err
		}
		b.length = -1
		if text != "" {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				return nil, newError(MissingContentLength, "x-amz-decoded-content-length is not a number of bytes.")
			}
			b.length = int64(n)
		}
	}
	if b.length < 0 {
		return nil, newError(MissingContentLength, "You must provide the Content-Length HTTP header.")
	}
	b.left = b.length
	var err error
	if b.announced, err = announced(r.Header, a.Mode); err != nil {
		return nil, err
	}
	switch {
	case a.Mode.Chunked():
		b.chunks = a.decoders.get(b.source, a)
	case a.Mode == PayloadSHA256:
		b.whole = sha256.New()
	}
	return b, nil
}

// announced returns the names that x-amz-trailer gives, in lower case.
func announced(h http.Header, mode PayloadMode) (names []string, err error) {
	for _, list := range h["X-Amz-Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if name == "" || name == trailerSignature {
				return nil, newError(InvalidRequest, "The value specified in the x-amz-trailer header is not supported")
			}
			names = append(names, name)
		}
	}
	if len(names) > 0 && !mode.Trailer() {
		return nil, newError(InvalidRequest, "x-amz-trailer is announced, but x-amz-content-sha256 says that no trailer comes.")
	}
	return names, nil
}

// DecodedLength returns the size of the content in bytes, as announced; Read returns neither more nor less without an error.
func (b *Body) DecodedLength() int64 { return b.length }

// Announced returns the names of the trailers that will come, in lower case.
func (b *Body) Announced() []string { return b.announced }

// Trailer returns the value of a trailer by its lower-case name, once Read has returned io.EOF; else "".
func (b *Body) Trailer(name string) string {
	if b.err == io.EOF {
		for _, t := range b.trailers {
			if t[0] == name {
				return t[1]
			}
		}
	}
	return ""
}

// HashElsewhere says that the caller computes the SHA-256 of the content itself, so Read does not. It is called before the
// first Read, and the caller must pass the sum to CheckSHA256 before the content counts. Without this call Read computes
// and compares it.
func (b *Body) HashElsewhere() { b.whole = nil }

// CheckSHA256 compares the SHA-256 of the content with the one that was signed, if any. The error is an
// XAmzContentSHA256Mismatch.
func (b *Body) CheckSHA256(sum []byte) error {
	if b.auth.Mode == PayloadSHA256 && subtle.ConstantTimeCompare(sum, b.auth.SHA256[:]) != 1 {
		return errSHA256(b.auth.SHA256[:], sum)
	}
	return nil
}

// Read hands out content. Besides errors of the connection, which come unchanged, it returns *Error: IncompleteBody,
// SignatureDoesNotMatch, InvalidRequest, MalformedTrailerError, XAmzContentSHA256Mismatch. An error is final.
func (b *Body) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	p = p[:min(int64(len(p)), b.left)]
	if b.chunks != nil {
		n, err = b.readChunk(p)
	} else if b.left > 0 {
		n, err = b.source.Read(p)
		if b.whole != nil {
			b.whole.Write(p[:n])
		}
	}
	b.left -= int64(n)
	switch {
	case err == io.EOF && b.left == 0:
		err = nil
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		err = errIncomplete(err)
	}
	if err == nil && b.left == 0 {
		err = b.finish()
	}
	if err != nil {
		b.end(err)
		if err != io.EOF {
			return 0, err
		}
	}
	return n, err
}

// end makes err the end of b.
func (b *Body) end(err error) {
	b.err = err
	if b.chunks != nil {
		b.auth.decoders.put(b.chunks)
		b.chunks = nil
	}
}

// finish verifies what is left to verify once the content is there. It returns io.EOF if all is right.
func (b *Body) finish() error {
	if b.chunks != nil {
		if err := b.readEnd(); err != nil {
			if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errIncomplete(err)
			}
			return err
		}
	}
	if b.whole != nil {
		var sum [sha256.Size]byte
		if err := b.CheckSHA256(b.whole.Sum(sum[:0])); err != nil {
			return err
		}
	}
	return io.EOF
}

// readChunk reads content into p, of one chunk, and verifies the chunk when it is at its end.
func (b *Body) readChunk(p []byte) (n int, err error) {
	d := b.chunks
	if b.left == 0 {
		return 0, nil
	}
	if d.left == 0 {
		if err := d.readHeader(); err != nil {
			return 0, err
		}
		if d.left == 0 || d.left > b.left {
			return 0, errOtherLength(b.length, b.length-b.left+d.left)
		}
	}
	n, err = d.in.Read(p[:min(int64(len(p)), d.left)])
	d.left -= int64(n)
	if d.signed {
		d.hash.Write(p[:n])
	}
	if d.left > 0 || err != nil && err != io.EOF {
		return n, err
	}
	if err := d.verifyChunk(); err != nil {
		return 0, err
	}
	line, err := d.readLine()
	if err == nil && len(line) > 0 {
		err = errMalformed("a chunk is longer than its size says")
	}
	return n, noEOF(err)
}

// noEOF makes an end where more must come an unexpected one.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readEnd reads and verifies the chunk of size 0 and the trailer, after which nothing may come.
func (b *Body) readEnd() error {
	d := b.chunks
	if err := d.readHeader(); err != nil {
		return err
	}
	if d.left != 0 {
		return errOtherLength(b.length, b.length+d.left)
	}
	if err := d.verifyChunk(); err != nil {
		return err
	}
	var err error
	if b.auth.Mode.Trailer() {
		err = b.readTrailers()
	} else {
		var line []byte
		if line, err = d.readLine(); err == nil && len(line) > 0 {
			err = errMalformed("something follows the last chunk")
		}
	}
	if err != nil {
		return err
	}
	return d.readNothing()
}

// readTrailers reads the lines of the trailer and the empty line at its end. The lines of a signed one may end with an empty
// line of their own, before that of the signature: some clients do as the reference is also read.
func (b *Body) readTrailers() error {
	d := b.chunks
	canonical := d.text[:0]
	gap, verified := false, false
	for {
		line, err := d.readLine()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			if !d.signed || verified {
				break
			}
			if gap {
				return errTrailer()
			}
			gap = true
			continue
		}
		before, after, found := bytes.Cut(line, []byte(":"))
		name, value := strings.ToLower(string(before)), string(bytes.Trim(after, " \t"))
		if !found || verified {
			return errTrailer()
		}
		if name == trailerSignature && d.signed {
			d.text = canonical
			if err := d.verifyTrailer(canonical, value); err != nil {
				return err
			}
			verified = true
			continue
		}
		if gap || !b.expects(name) {
			return errTrailer()
		}
		b.trailers = append(b.trailers, [2]string{name, value})
		canonical = append(append(append(append(canonical, name...), ':'), value...), '\n')
	}
	d.text = canonical
	if len(b.trailers) != len(b.announced) {
		return errTrailer()
	}
	return nil
}

// expects says whether a trailer was announced and has not come yet.
func (b *Body) expects(name string) bool {
	for _, t := range b.trailers {
		if t[0] == name {
			return false
		}
	}
	for _, a := range b.announced {
		if a == name {
			return true
		}
	}
	return false
}

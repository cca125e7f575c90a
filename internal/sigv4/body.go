package sigv4

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"hash"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Body is an io.Reader of the decoded content of a request. It must not be used concurrently.
//
// Read returns bytes as they arrive, so memory use is bounded regardless of the chunk size. But it returns the last
// piece of the content and io.EOF only after everything has been verified: chunk signatures, lengths, the trailer and
// its signature, and the SHA-256. So content is valid only once it has been read to its end without an error, and a
// caller never receives all of the content if it differs from the signed content.
type Body struct {
	auth      *Auth
	source    io.Reader
	length    int64       // size of the content in bytes
	left      int64       // bytes of content not yet returned
	hashes    bool        // Read computes the SHA-256 of the content
	whole     hash.Hash   // this SHA-256; nil until the first Read
	chunks    *decoder    // nil if the body is not aws-chunked, or after the end
	announced []string    // names of announced trailers
	trailers  [][2]string // names and values of received trailers
	err       error       // returned by every later Read
}

// Body returns the content of r, which was sent in the mode of a. It does not read the body yet. Its errors are *Error,
// with the codes MissingContentLength and InvalidRequest, and InvalidArgument for a repeated header.
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
				return nil, newError(MissingContentLength, "The x-amz-decoded-content-length header must be a number of bytes.")
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
		b.hashes = true
	}
	return b, nil
}

// announced returns the names in the x-amz-trailer header, in lower case.
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
		return nil, newError(InvalidRequest, "The request has an x-amz-trailer header, but the value of "+
			"x-amz-content-sha256 does not allow a trailer.")
	}
	return names, nil
}

// DecodedLength returns the announced size of the content in bytes. Read fails if the content is shorter or longer.
func (b *Body) DecodedLength() int64 { return b.length }

// Announced returns the names of the announced trailers, in lower case.
func (b *Body) Announced() []string { return b.announced }

// Trailer returns the value of a trailer by its lower-case name. It returns "" until Read has returned io.EOF.
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

// HashElsewhere makes Read skip the SHA-256 of the content because the caller computes it. It must be called before the
// first Read, and the caller must pass the sum to CheckSHA256 before it uses the content. Otherwise Read computes and
// compares the SHA-256.
func (b *Body) HashElsewhere() { b.hashes = false }

// CheckSHA256 compares the SHA-256 of the content with the signed one, if any. It returns an XAmzContentSHA256Mismatch
// if they differ.
func (b *Body) CheckSHA256(sum []byte) error {
	if b.auth.Mode == PayloadSHA256 && subtle.ConstantTimeCompare(sum, b.auth.SHA256[:]) != 1 {
		return errSHA256(b.auth.SHA256[:], sum)
	}
	return nil
}

// Read implements io.Reader. It returns errors of the connection unchanged. All other errors are *Error, with the codes
// IncompleteBody, InvalidChunkSizeError, SignatureDoesNotMatch, InvalidRequest, MalformedTrailerError and
// XAmzContentSHA256Mismatch. After an error, every Read returns the same error.
func (b *Body) Read(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.hashes && b.whole == nil {
		b.whole = sha256.New()
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

// end makes err the result of every later Read, and releases the decoder.
func (b *Body) end(err error) {
	b.err = err
	if b.chunks != nil {
		b.auth.decoders.put(b.chunks)
		b.chunks = nil
	}
}

// finish performs the remaining checks when all content has been read. It returns io.EOF if they succeed.
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

// readChunk reads content of a single chunk into p, and verifies the chunk at its end.
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
		err = errMalformed("a chunk is longer than its announced size")
	}
	return n, noEOF(err)
}

// noEOF converts io.EOF to io.ErrUnexpectedEOF.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readEnd reads and verifies the chunk of size 0 and the trailer. The body must end after them.
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
			err = errMalformed("there is data after the last chunk")
		}
	}
	if err != nil {
		return err
	}
	return d.readNothing()
}

// readTrailers reads the lines of the trailer and the empty line at its end. A signed trailer may have another empty
// line before the line of the signature: some clients interpret the S3 documentation that way.
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

// expects reports whether a trailer has been announced but not yet received.
func (b *Body) expects(name string) bool {
	received := slices.ContainsFunc(b.trailers, func(t [2]string) bool { return t[0] == name })
	return !received && slices.Contains(b.announced, name)
}

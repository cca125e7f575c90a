package loadgen

import (
	"bytes"
	"net/http"
	"net/url"
	"time"

	"orcas/internal/checksum"
	"orcas/internal/sigv4"
)

// signing signs requests, and reuses its memory. It is not safe for concurrent use.
type signing struct {
	target  *Target
	r       http.Request
	encoded bytes.Buffer
}

func (s *signing) init(t *Target) {
	s.target = t
	s.r = http.Request{URL: &url.URL{}, Header: make(http.Header, 8), Host: t.Host}
}

// sign returns a signed request without a body, and the body to send. Both are valid until the next request.
func (s *signing) sign(q *Request, now time.Time) (*http.Request, []byte, error) {
	r := &s.r
	clear(r.Header)
	r.Method, r.URL.Path, r.URL.RawQuery = q.Method, q.Path, q.Query
	for _, h := range q.Header {
		r.Header[h.Name] = []string{h.Value}
	}
	mode := s.target.Signing
	switch {
	case q.Anonymous:
		return r, q.Body, nil
	case len(q.Body) > 0 && (mode == Chunked || mode == Trailer):
		return s.chunked(q, mode, now)
	case len(q.Body) > 0 && mode == Unsigned:
		s.target.Signer.Sign(r, sigv4.UnsignedPayload, now)
	case len(q.Body) == 0:
		s.target.Signer.Sign(r, sigv4.EmptySHA256, now)
	default:
		s.target.Signer.Sign(r, q.Hash, now)
	}
	return r, q.Body, nil
}

func (s *signing) chunked(q *Request, mode Signing, now time.Time) (*http.Request, []byte, error) {
	c := sigv4.Chunked{Mode: sigv4.PayloadSigned, Length: int64(len(q.Body)), ChunkSize: 256 << 10}
	if mode == Trailer {
		crc := checksum.New(checksum.CRC64NVME)
		_, _ = crc.Write(q.Body) // never fails
		value := checksum.Encode(crc.Sum(nil))
		c.Mode = sigv4.PayloadUnsignedTrailer
		c.Trailers = []sigv4.Trailer{{Name: "x-amz-checksum-crc64nvme", Size: len(value), Value: func() string { return value }}}
	}
	s.target.Signer.SignChunked(&s.r, bytes.NewReader(q.Body), c, now)
	s.encoded.Reset()
	_, err := s.encoded.ReadFrom(s.r.Body)
	s.r.Body = nil
	return &s.r, s.encoded.Bytes(), err
}

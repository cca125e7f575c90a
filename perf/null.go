package perf

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"orcas/internal/checksum"
	"orcas/internal/sigv4"
)

// NullServer shows the upper limit for an HTTP front end like ours on a machine. It verifies SigV4, reads the body,
// computes MD5, SHA-256 and CRC64NVME, and stores nothing. GET and HEAD return the same headers as our server and a
// body from one buffer, whose length is the number after the last "-" of the key.
type NullServer struct {
	Verifier *sigv4.Verifier
	body     []byte
	buffers  sync.Pool
}

// NullBody is the longest body of a NullServer, in bytes.
const NullBody = 16 << 20

// NewNullServer returns a NullServer that accepts one pair of keys.
func NewNullServer(accessKey, secretKey, region string) *NullServer {
	body := nullBody(NullBody)
	return &NullServer{
		Verifier: &sigv4.Verifier{Region: region, Lookup: func(_ context.Context, k, _ string) (sigv4.Credential, error) {
			if k != accessKey {
				return sigv4.Credential{}, nil
			}
			return sigv4.Credential{SecretKey: secretKey}, nil
		}},
		body:    body,
		buffers: sync.Pool{New: func() any { return new([]byte) }},
	}
}

// nullBody returns the body of a NullServer's response to a GET of n bytes.
func nullBody(n int) []byte {
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(i * 7)
	}
	return body
}

// ServeHTTP implements http.Handler.
func (s *NullServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/-/health/live" {
		return
	}
	auth, err := s.Verifier.Verify(r)
	if err != nil || auth.Anonymous() {
		http.Error(w, "denied", http.StatusForbidden)
		return
	}
	h := w.Header()
	h["X-Amz-Request-Id"] = []string{"0000000000000000"}
	switch r.Method {
	case http.MethodPut:
		s.put(w, r, auth)
	case http.MethodGet, http.MethodHead:
		_, size, _ := cutLast(r.URL.Path)
		n, err := strconv.Atoi(size)
		if err != nil || n > len(s.body) {
			http.Error(w, "no size", http.StatusNotFound)
			return
		}
		h["Content-Length"] = []string{strconv.Itoa(n)}
		h["Content-Type"] = []string{"binary/octet-stream"}
		h["Etag"] = []string{`"00000000000000000000000000000000"`}
		h["Last-Modified"] = []string{"Thu, 01 Jan 1970 00:00:00 GMT"}
		h["Accept-Ranges"] = []string{"bytes"}
		if r.Method == http.MethodGet {
			_, _ = w.Write(s.body[:n]) // the client notices an error
		}
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '-')
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func (s *NullServer) put(w http.ResponseWriter, r *http.Request, auth *sigv4.Auth) {
	body, err := auth.Body(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body.HashElsewhere()
	hash, sum, crc := md5.New(), sha256.New(), checksum.New(checksum.CRC64NVME)
	buf := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buf)
	if want := int(min(max(body.DecodedLength(), 512), 256<<10)); cap(*buf) < want {
		*buf = make([]byte, want)
	}
	for {
		n, err := body.Read((*buf)[:cap(*buf)])
		b := (*buf)[:n]
		_, _ = hash.Write(b) // hashes never fail
		_, _ = sum.Write(b)
		_, _ = crc.Write(b)
		if err == io.EOF {
			break
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if err := body.CheckSHA256(sum.Sum(nil)); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h := w.Header()
	h["Etag"] = []string{`"` + hex.EncodeToString(hash.Sum(nil)) + `"`}
	h["X-Amz-Checksum-Crc64nvme"] = []string{checksum.Encode(crc.Sum(nil))}
	h["Content-Length"] = []string{"0"}
}

package sigv4

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	algorithm   = "AWS4-HMAC-SHA256"
	terminator  = "aws4_request"
	serviceS3   = "s3"
	timeLayout  = "20060102T150405Z"
	emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// unreserved reports whether c is not encoded in a canonical path or query.
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// scratch holds the buffers for the canonical form of a request. It is reused for other requests.
type scratch struct {
	buf   []byte // the canonical request, then the string to sign
	text  []byte // names and values that pairs points into
	pairs []pair
	key   []byte // a header name in the form of http.Header
	mac   []byte
	names string // the last result of signedHeaders: most requests have the same names
}

// pair is a name, text[start:mid], and a value, text[mid:end].
type pair struct{ start, mid, end int }

type scratchPool struct{ pool sync.Pool }

func (p *scratchPool) get() *scratch {
	if s, ok := p.pool.Get().(*scratch); ok {
		return s
	}
	return &scratch{buf: make([]byte, 0, 2048), text: make([]byte, 0, 512), mac: make([]byte, 0, 512)}
}

// put returns s to the pool, unless an unusual request has made its buffers too large.
func (p *scratchPool) put(s *scratch) {
	if cap(s.buf)+cap(s.text) <= 64<<10 {
		p.pool.Put(s)
	}
}

func (s *scratch) name(p pair) []byte  { return s.text[p.start:p.mid] }
func (s *scratch) value(p pair) []byte { return s.text[p.mid:p.end] }

// lowerKey appends the header key in lower case to s.text, as a pair without a value.
func (s *scratch) lowerKey(key string) {
	start := len(s.text)
	for i := range len(key) {
		c := key[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		s.text = append(s.text, c)
	}
	s.pairs = append(s.pairs, pair{start, len(s.text), len(s.text)})
}

const upperHex = "0123456789ABCDEF"

// appendEncoded appends the byte c in the encoding of a canonical query.
func appendEncoded(dst []byte, c byte) []byte {
	if unreserved(c) {
		return append(dst, c)
	}
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// appendPath appends a decoded path in canonical form.
func appendPath(dst []byte, path string) []byte {
	for i := range len(path) {
		if path[i] == '/' {
			dst = append(dst, '/')
		} else {
			dst = appendEncoded(dst, path[i])
		}
	}
	return dst
}

// Escape percent-encodes every byte of a path that signatures encode, so that every server decodes it in the same way.
func Escape(path string) string { return escape(path, true) }

// EscapeQuery encodes a name or a value of a query like Escape, and slashes too.
func EscapeQuery(s string) string { return escape(s, false) }

// escape returns s itself if there is nothing to encode, which is the most frequent case.
func escape(s string, slash bool) string {
	plain := func(c byte) bool { return unreserved(c) || slash && c == '/' }
	n := 0
	for i := range len(s) {
		if !plain(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; plain(c) {
			b = append(b, c)
		} else {
			b = appendEncoded(b, c)
		}
	}
	return string(b)
}

// appendQueryText decodes raw, a name or value of a query, and appends it in canonical form. ok is false if a "%" is
// not followed by two hexadecimal digits; such a "%" is treated as a literal.
func appendQueryText(dst []byte, raw string) (_ []byte, ok bool) {
	ok = true
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch c {
		case '+':
			c = ' '
		case '%':
			if i+2 < len(raw) && isHex(raw[i+1]) && isHex(raw[i+2]) {
				c = unhex(raw[i+1])<<4 | unhex(raw[i+2])
				i += 2
			} else {
				ok = false
			}
		}
		dst = appendEncoded(dst, c)
	}
	return dst, ok
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

// parseQuery puts every parameter of a raw query into s.pairs, in canonical form but unsorted, and passes each to c if
// c is not nil. It rejects every query that net/url rejects, because the handler of the request must not see a query
// that differs from the signed one. The only exception is ";" between signed headers, which some clients do not encode.
func (s *scratch) parseQuery(raw string, c *claim) bool {
	s.text, s.pairs = s.text[:0], s.pairs[:0]
	valid := true
	for raw != "" {
		var param string
		param, raw, _ = strings.Cut(raw, "&")
		if param == "" {
			continue
		}
		name, value, _ := strings.Cut(param, "=")
		var p pair
		var nameOK, valueOK bool
		p.start = len(s.text)
		s.text, nameOK = appendQueryText(s.text, name)
		p.mid = len(s.text)
		s.text, valueOK = appendQueryText(s.text, value)
		p.end = len(s.text)
		s.pairs = append(s.pairs, p)
		if !nameOK || !valueOK || strings.Contains(param, ";") && string(s.name(p)) != querySignedHeaders {
			valid = false
		}
		if c != nil {
			c.parameter(s.name(p), value)
		}
	}
	return valid
}

// sortPairs sorts the pairs by name, then value.
func (s *scratch) sortPairs() {
	if len(s.pairs) < 2 {
		return
	}
	slices.SortFunc(s.pairs, func(a, b pair) int {
		if c := bytes.Compare(s.name(a), s.name(b)); c != 0 {
			return c
		}
		return bytes.Compare(s.value(a), s.value(b))
	})
}

// appendQuery appends the sorted pairs, except for the parameter named without.
func (s *scratch) appendQuery(dst []byte, without string) []byte {
	first := true
	for _, p := range s.pairs {
		if without != "" && string(s.name(p)) == without {
			continue
		}
		if !first {
			dst = append(dst, '&')
		}
		first = false
		dst = append(append(append(dst, s.name(p)...), '='), s.value(p)...)
	}
	return dst
}

// appendHeaderValue appends a value without surrounding white space, and with runs of spaces inside reduced to one.
func appendHeaderValue(dst []byte, v string) []byte {
	v = strings.Trim(v, " \t")
	for {
		i := strings.Index(v, "  ")
		if i < 0 {
			return append(dst, v...)
		}
		dst = append(dst, v[:i+1]...)
		v = strings.TrimLeft(v[i:], " ")
	}
}

// headerKey converts a lower-case header name to the form of http.Header.
func headerKey(dst []byte, name string) []byte {
	upper := true
	for i := range len(name) {
		c := name[i]
		if upper && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper = c == '-'
		dst = append(dst, c)
	}
	return dst
}

// isAmz reports whether a header key begins with x-amz-, ignoring case.
func isAmz(key string) bool {
	return len(key) > 6 && key[1] == '-' && key[5] == '-' && strings.EqualFold(key[:6], "x-amz-")
}

// appendHeaders appends the canonical form of the headers whose names are listed in signed. It returns the number of
// x-amz-* headers among them. ok is false if a header is missing.
func (s *scratch) appendHeaders(dst []byte, r *http.Request, signed string) (_ []byte, amz int, ok bool) {
	for signed != "" {
		var name string
		name, signed, _ = strings.Cut(signed, ";")
		dst = append(append(dst, name...), ':')
		s.key = headerKey(s.key[:0], name)
		values := r.Header[string(s.key)]
		switch {
		case name == "host":
			dst = appendHeaderValue(dst, host(r))
		case len(values) > 0:
			for i, v := range values {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendHeaderValue(dst, v)
			}
			if isAmz(name) {
				amz++
			}
		// net/http removes these three headers from r.Header.
		case name == "content-length" && r.ContentLength >= 0:
			dst = strconv.AppendInt(dst, r.ContentLength, 10)
		case name == "transfer-encoding" && len(r.TransferEncoding) > 0:
			dst = append(dst, strings.Join(r.TransferEncoding, ",")...)
		case name == "expect":
			dst = append(dst, "100-continue"...)
		default:
			return dst, amz, false
		}
		dst = append(dst, '\n')
	}
	return dst, amz, true
}

// host returns the host of r, which is either a received request or one to be sent.
func host(r *http.Request) string {
	if r.Host != "" || r.URL == nil {
		return r.Host
	}
	return r.URL.Host
}

// signature computes the signature of r in hexadecimal. s.pairs must contain the sorted query; without is the name of
// the parameter that is not signed. It also returns the number of signed x-amz-* headers, and whether all signed
// headers are present.
func (s *scratch) signature(dst *[64]byte, r *http.Request, path, without, signed, payload, date, scope string, key *[32]byte) (amz int, ok bool) {
	amz, ok = s.canonical(r, path, without, signed, payload)
	s.stringToSign(date, scope)
	s.hexMAC(dst, key, s.buf)
	return amz, ok
}

// canonical stores the canonical form of r in s.buf.
func (s *scratch) canonical(r *http.Request, path, without, signed, payload string) (amz int, ok bool) {
	b := append(append(s.buf[:0], r.Method...), '\n')
	b = append(appendPath(b, path), '\n')
	b = append(s.appendQuery(b, without), '\n')
	b, amz, ok = s.appendHeaders(b, r, signed)
	b = append(append(append(b, '\n'), signed...), '\n')
	s.buf = append(b, payload...)
	return amz, ok
}

// stringToSign replaces the canonical request in s.buf with the string to sign.
func (s *scratch) stringToSign(date, scope string) {
	sum := sha256.Sum256(s.buf)
	b := append(append(s.buf[:0], algorithm+"\n"...), date...)
	b = append(append(append(b, '\n'), scope...), '\n')
	s.buf = hex.AppendEncode(b, sum[:])
}

// hexMAC computes an HMAC-SHA256 in hexadecimal.
func (s *scratch) hexMAC(dst *[64]byte, key *[32]byte, message []byte) {
	var sum [32]byte
	sum, s.mac = hmacSHA256(s.mac, key[:], message)
	hex.Encode(dst[:], sum[:])
}

// hmacSHA256 computes an HMAC-SHA256. It uses buf as memory and returns it, possibly grown. Unlike crypto/hmac, it does
// not allocate.
func hmacSHA256(buf, key, message []byte) ([32]byte, []byte) {
	var pad [sha256.BlockSize]byte
	if len(key) > len(pad) {
		sum := sha256.Sum256(key)
		copy(pad[:], sum[:])
	} else {
		copy(pad[:], key)
	}
	for i := range pad {
		pad[i] ^= 0x36
	}
	buf = append(append(buf[:0], pad[:]...), message...)
	inner := sha256.Sum256(buf)
	for i := range pad {
		pad[i] ^= 0x36 ^ 0x5c
	}
	buf = append(append(buf[:0], pad[:]...), inner[:]...)
	return sha256.Sum256(buf), buf
}

// signingKey derives the signing key for a scope. day has the form 20060102.
func signingKey(secretKey, day, region, service string) [32]byte {
	key, buf := hmacSHA256(nil, []byte("AWS4"+secretKey), []byte(day))
	for _, step := range [...]string{region, service, terminator} {
		key, buf = hmacSHA256(buf, key[:], []byte(step))
	}
	return key
}

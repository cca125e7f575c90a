// Package checksum implements the checksum algorithms of S3: their names, and how to compute and combine checksums.
//
// A checksum is stored as raw bytes, the most significant first; clients see it in Base64.
package checksum

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"hash"
	"hash/crc32"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/minio/crc64nvme"
	"github.com/zeebo/xxh3"
)

// Algorithm is a checksum algorithm of S3. The numbers are part of the stored formats and never change.
type Algorithm uint8

// The algorithms.
const (
	None      Algorithm = 0
	MD5       Algorithm = 1
	CRC32     Algorithm = 2
	CRC32C    Algorithm = 3
	CRC64NVME Algorithm = 4
	SHA1      Algorithm = 5
	SHA256    Algorithm = 6
	SHA512    Algorithm = 7
	XXHASH64  Algorithm = 8
	XXHASH3   Algorithm = 9 // the 64-bit variant
	XXHASH128 Algorithm = 10
)

// MaxSize is the size of the longest checksum, in bytes.
const MaxSize = sha512.Size

// algorithms has for each algorithm its name, its header in lower case, as clients and trailers write it, the same
// header as a key of an http.Header, and the size of a checksum in bytes.
var algorithms = [...]struct {
	name, header, key string
	size              int
}{
	None:      {},
	MD5:       {"MD5", "x-amz-checksum-md5", "X-Amz-Checksum-Md5", md5.Size},
	CRC32:     {"CRC32", "x-amz-checksum-crc32", "X-Amz-Checksum-Crc32", crc32.Size},
	CRC32C:    {"CRC32C", "x-amz-checksum-crc32c", "X-Amz-Checksum-Crc32c", crc32.Size},
	CRC64NVME: {"CRC64NVME", "x-amz-checksum-crc64nvme", "X-Amz-Checksum-Crc64nvme", crc64nvme.Size},
	SHA1:      {"SHA1", "x-amz-checksum-sha1", "X-Amz-Checksum-Sha1", sha1.Size},
	SHA256:    {"SHA256", "x-amz-checksum-sha256", "X-Amz-Checksum-Sha256", sha256.Size},
	SHA512:    {"SHA512", "x-amz-checksum-sha512", "X-Amz-Checksum-Sha512", sha512.Size},
	XXHASH64:  {"XXHASH64", "x-amz-checksum-xxhash64", "X-Amz-Checksum-Xxhash64", 8},
	XXHASH3:   {"XXHASH3", "x-amz-checksum-xxhash3", "X-Amz-Checksum-Xxhash3", 8},
	XXHASH128: {"XXHASH128", "x-amz-checksum-xxhash128", "X-Amz-Checksum-Xxhash128", 16},
}

// All returns every algorithm but None, in the order of their numbers.
func All() []Algorithm {
	all := make([]Algorithm, 0, len(algorithms)-1)
	for a := range algorithms[1:] {
		all = append(all, Algorithm(a+1))
	}
	return all
}

// Valid reports whether a is one of the algorithms; None is not.
func (a Algorithm) Valid() bool { return a != None && int(a) < len(algorithms) }

// known returns a, or None if its number is unknown.
func (a Algorithm) known() Algorithm {
	if !a.Valid() {
		return None
	}
	return a
}

// Name returns the name of a in S3, such as "CRC64NVME", or "" for None and unknown numbers.
func (a Algorithm) Name() string { return algorithms[a.known()].name }

// String returns the name, or "none".
func (a Algorithm) String() string { return cmp.Or(a.Name(), "none") }

// Header returns the name of the header, or trailer, for a checksum of a, in lower case.
func (a Algorithm) Header() string { return algorithms[a.known()].header }

// HeaderKey returns Header as the key of an http.Header, so that lookups need no conversion.
func (a Algorithm) HeaderKey() string { return algorithms[a.known()].key }

// Size returns the size of a checksum in bytes, or 0 for None and unknown numbers.
func (a Algorithm) Size() int { return algorithms[a.known()].size }

// Parse returns the algorithm with the given name, in any case.
func Parse(name string) (Algorithm, bool) {
	for i := range algorithms[1:] {
		if strings.EqualFold(algorithms[i+1].name, name) {
			return Algorithm(i + 1), true
		}
	}
	return None, false
}

// FromHeader returns the algorithm of the header or trailer with the given name, in any case.
func FromHeader(name string) (Algorithm, bool) {
	const prefix = "x-amz-checksum-"
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return None, false
	}
	return Parse(name[len(prefix):])
}

// New returns a hash for a, which must be Valid.
func New(a Algorithm) hash.Hash {
	switch a {
	case MD5:
		return md5.New()
	case CRC32:
		return crc32.NewIEEE()
	case CRC32C:
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case CRC64NVME:
		return crc64nvme.New()
	case SHA1:
		return sha1.New()
	case SHA256:
		return sha256.New()
	case SHA512:
		return sha512.New()
	case XXHASH64:
		return xxhash.New()
	case XXHASH3:
		return xxh3.New()
	case XXHASH128:
		return xxh3.New128()
	}
	panic("checksum: invalid algorithm")
}

// Sum returns the checksum of b.
func Sum(a Algorithm, b []byte) []byte {
	h := New(a)
	h.Write(b)
	return h.Sum(nil)
}

// ErrMalformed reports that a text is not a checksum of its algorithm.
var ErrMalformed = errors.New("checksum: malformed value")

// Encode returns a checksum in the form that clients see.
func Encode(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// Decode is the inverse of Encode. It returns ErrMalformed if the text is not Base64, or does not have the length of a
// checksum of a.
func Decode(a Algorithm, text string) ([]byte, error) {
	size := a.Size()
	if size == 0 || len(text) != base64.StdEncoding.EncodedLen(size) {
		return nil, ErrMalformed
	}
	// The decoder skips line breaks, so the length of the result is checked as well.
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(sum) != size {
		return nil, ErrMalformed
	}
	return sum, nil
}

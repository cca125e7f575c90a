package s3test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// sumOf computes a checksum by the name of its algorithm in S3.
func sumOf(alg, content string) []byte {
	var h hash.Hash
	switch alg {
	case "XXHASH64":
		return binary.BigEndian.AppendUint64(nil, xxhash.Sum64String(content))
	case "XXHASH3":
		return binary.BigEndian.AppendUint64(nil, xxh3.HashString(content))
	case "XXHASH128":
		sum := xxh3.HashString128(content).Bytes()
		return sum[:]
	case "CRC32":
		h = crc32.NewIEEE()
	case "CRC32C":
		h = crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case "CRC64NVME":
		h = crc64.New(crc64.MakeTable(0x9a6c9329ac4bc9b5)) // 0xad93d23594c93659, reflected
	case "SHA1":
		h = sha1.New()
	case "SHA256":
		h = sha256.New()
	case "SHA512":
		h = sha512.New()
	case "MD5":
		h = md5.New()
	}
	h.Write([]byte(content))
	return h.Sum(nil)
}

// sum returns a checksum in Base64, as clients send it.
func sum(alg, content string) string { return base64.StdEncoding.EncodeToString(sumOf(alg, content)) }

// sumHeader returns the header with a checksum.
func sumHeader(alg, content string) string {
	return "x-amz-checksum-" + strings.ToLower(alg) + ": " + sum(alg, content)
}

// composite returns the composite checksum of parts, without the number of parts.
func composite(alg string, parts ...string) string {
	var all strings.Builder
	for _, p := range parts {
		all.Write(sumOf(alg, p))
	}
	return sum(alg, all.String())
}

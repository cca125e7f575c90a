// Package checksum knows the checksum algorithms of S3: their names, how to compute them, and how to combine them.
package checksum

// Algorithm is a checksum algorithm of S3. Numbers are part of the stored formats and never change.
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
	XXHASH3   Algorithm = 9
	XXHASH128 Algorithm = 10
)

package sqlite

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/internal/mutant"
)

// SQLite does not notice if a page differs from the page that it has written. So each column that holds an encoding
// ends with a row checksum: the low 32 bits of the XXH3-64 of the encoding, seeded with the columns that identify the
// row. So reading a damaged row, or a wrong row that a damaged index refers to, results in an error.
const rowSumSize = 4

// rowKey is the seed of a row checksum: a hash of the columns that identify the row.
type rowKey uint64

// The functions below return the keys of the rows that have a checksum. Each hashes a table number and the given
// columns.
func stateKey(seq, nextData int64) rowKey    { return hashRowKey(1, nil, seq, nextData, 0) }
func bucketKey(id int64, name string) rowKey { return hashRowKey(2, blob(name), id, 0, 0) }
func dataKey(id int64, sha256 []byte) rowKey { return hashRowKey(3, sha256, id, 0, 0) }
func partKey(list, number, seq int64) rowKey { return hashRowKey(5, nil, list, number, seq) }
func uploadKey(bucket int64, key string, id int64) rowKey {
	return hashRowKey(6, blob(key), bucket, id, 0)
}
func garbageKey(id, list int64) rowKey { return hashRowKey(7, nil, id, list, 0) }
func recordKey(kind, key string) rowKey {
	return hashRowKey(8, blob(key), int64(xxh3.HashString(kind)), 0, 0)
}
func tallyKey(bucket int64) rowKey { return hashRowKey(14, nil, bucket, 0, 0) }
func blockKey(id core.BlockID, of core.BlockContent) rowKey {
	return hashRowKey(12, id[:], of.Contents, of.Bytes, 0)
}
func runKey(id int64) rowKey  { return hashRowKey(10, nil, id, 0, 0) }
func pageKey(id int64) rowKey { return hashRowKey(11, nil, id, 0, 0) }

// versionKey identifies the info of a version, which is in the row of the content that was written with it, or in infos
// if data is 0.
func versionKey(bucket int64, key string, seq, data int64) rowKey {
	return hashRowKey(4, blob(key), bucket, seq, data)
}

// briefKey identifies the column brief of a row of objects.
func briefKey(bucket int64, key string, seq, data int64, null bool) rowKey {
	return hashRowKey(13, blob(key), bucket, seq, data<<1|boolean(null))
}

func hashRowKey(table uint64, s []byte, a, b, c int64) rowKey {
	const prime = 0x9e3779b97f4a7c15
	h := xxh3.HashSeed(s, table)
	for _, n := range [...]int64{a, b, c} {
		h = bits.RotateLeft64(h^uint64(n), 29) * prime
	}
	return rowKey(h)
}

func (k rowKey) sum(b []byte) uint32 { return uint32(xxh3.HashSeed(b, uint64(k))) }

// appendSum appends the checksum of b.
func (k rowKey) appendSum(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, k.sum(b)) }

// checkSum returns a column without its checksum, or an error if the checksum does not match.
func (k rowKey) checkSum(column []byte) ([]byte, error) {
	n := len(column) - rowSumSize
	if mutant.Is("no-row-check") && n >= 0 {
		return column[:n:n], nil
	}
	if n < 0 || binary.LittleEndian.Uint32(column[n:]) != k.sum(column[:n]) {
		return nil, errRowSum
	}
	return column[:n:n], nil
}

var errRowSum = errors.New("row checksum mismatch")

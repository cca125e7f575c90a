package sqlite

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/internal/mutant"
)

// SQLite does not know when a page comes back other than it was written. So each column that holds an encoding ends with a seal: the low
// 32 bits of the XXH3-64 of the encoding, seeded with the columns that say whose it is. A row that was damaged, or that an
// index leads to by mistake, is an error and never an answer.
const sealSize = 4

// place is where a sealed column stands: a seed for its hash.
type place uint64

// The places of the sealed columns. A table is told apart by its number, a row by the columns that are given.
func placeOfState(seq, nextData int64) place    { return placeOf(1, nil, seq, nextData, 0) }
func placeOfBucket(id int64, name string) place { return placeOf(2, blob(name), id, 0, 0) }
func placeOfData(id int64, sha256 []byte) place { return placeOf(3, sha256, id, 0, 0) }
func placeOfPart(list, number, seq int64) place { return placeOf(5, nil, list, number, seq) }
func placeOfUpload(bucket int64, key string, id int64) place {
	return placeOf(6, blob(key), bucket, id, 0)
}
func placeOfGarbage(id, list int64) place { return placeOf(7, nil, id, list, 0) }
func placeOfRecord(kind, key string) place {
	return placeOf(8, blob(key), int64(xxh3.HashString(kind)), 0, 0)
}
func placeOfTally(bucket int64, u core.Usage) place {
	return placeOf(9, nil, bucket, u.Bytes, u.Objects)
}

// placeOfVersion is that of the info of a version, beside the content that it was born with or (data 0) in infos.
func placeOfVersion(bucket int64, key string, seq, data int64) place {
	return placeOf(4, blob(key), bucket, seq, data)
}

func placeOf(table uint64, s []byte, a, b, c int64) place {
	const prime = 0x9e3779b97f4a7c15
	h := xxh3.HashSeed(s, table)
	for _, n := range [...]int64{a, b, c} {
		h = bits.RotateLeft64(h^uint64(n), 29) * prime
	}
	return place(h)
}

func (p place) sum(b []byte) uint32 { return uint32(xxh3.HashSeed(b, uint64(p))) }

// seal appends the seal of b.
func (p place) seal(b []byte) []byte { return binary.LittleEndian.AppendUint32(b, p.sum(b)) }

// open returns what was sealed, or an error where the seal does not fit.
func (p place) open(sealed []byte) ([]byte, error) {
	n := len(sealed) - sealSize
	if mutant.Is("no-row-check") && n >= 0 {
		return sealed[:n:n], nil
	}
	if n < 0 || binary.LittleEndian.Uint32(sealed[n:]) != p.sum(sealed[:n]) {
		return nil, errSeal
	}
	return sealed[:n:n], nil
}

var errSeal = errors.New("the checksum of the row does not fit")

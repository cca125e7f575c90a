package core

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/zeebo/xxh3"

	"orcas/core/codec"
)

// DictionaryKind is the kind of the records that hold the dictionaries of codecs. Content whose DataInfo names one cannot be read without it.
const DictionaryKind = "dictionary"

// dictionaryVersion is the first byte of such a record; the bucket that it was made for (Uvarint), the XXH3-64 of the dictionary (little endian) and the
// dictionary follow.
const dictionaryVersion = 1

// DictionaryKey returns the key of a dictionary's record: its number in eight hexadecimal digits.
func DictionaryKey(id uint32) string { return fmt.Sprintf("%08x", id) }

// DictionaryRecord returns the record of a dictionary that was made for a bucket.
func DictionaryRecord(bucket BucketID, d *codec.Dictionary) Record {
	value := binary.AppendUvarint([]byte{dictionaryVersion}, uint64(bucket))
	value = binary.LittleEndian.AppendUint64(value, xxh3.Hash(d.Raw()))
	return Record{Kind: DictionaryKind, Key: DictionaryKey(d.ID()), Value: append(value, d.Raw()...)}
}

// DecodeDictionary is the inverse of DictionaryRecord. Damaged: it holds no dictionary; Unsupported: it is of a newer version.
func DecodeDictionary(r Record) (BucketID, *codec.Dictionary, error) {
	const op = "core.DecodeDictionary"
	dec := decoder{b: r.Value}
	version, bucket := dec.byte(), BucketID(dec.uint())
	if dec.err == nil && version != dictionaryVersion {
		return 0, nil, E(op, Unsupported, fmt.Errorf("version %d of the record of a dictionary", version))
	}
	sum := dec.raw(8)
	if dec.err == nil && binary.LittleEndian.Uint64(sum) != xxh3.Hash(dec.b) {
		dec.fail()
	}
	if dec.err != nil {
		return 0, nil, E(op, Damaged, dec.err)
	}
	id, err := strconv.ParseUint(r.Key, 16, 32)
	if err != nil || r.Key != DictionaryKey(uint32(id)) {
		return 0, nil, E(op, Damaged, fmt.Errorf("a dictionary under %q", r.Key))
	}
	d, err := codec.NewDictionary(uint32(id), dec.b)
	if err != nil {
		return 0, nil, E(op, Damaged, err)
	}
	return bucket, d, nil
}

package core

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"orcas/core/codec"
)

// DictionaryKind is the kind of the records that hold the dictionaries of codecs. Content whose DataInfo names one cannot be read without it.
const DictionaryKind = "dictionary"

// dictionaryVersion is the first byte of such a record; the bucket that it was made for (Uvarint) and the dictionary follow.
const dictionaryVersion = 1

// DictionaryKey returns the key of a dictionary's record: its number in eight hexadecimal digits.
func DictionaryKey(id uint32) string { return fmt.Sprintf("%08x", id) }

// DictionaryRecord returns the record of a dictionary that was made for a bucket.
func DictionaryRecord(bucket BucketID, d *codec.Dictionary) Record {
	value := binary.AppendUvarint([]byte{dictionaryVersion}, uint64(bucket))
	return Record{Kind: DictionaryKind, Key: DictionaryKey(d.ID()), Value: append(value, d.Raw()...)}
}

// DecodeDictionary is the inverse of DictionaryRecord. Damaged: it holds no dictionary, or one of another number; Unsupported: it is of a newer version.
func DecodeDictionary(r Record) (BucketID, *codec.Dictionary, error) {
	const op = "core.DecodeDictionary"
	dec := decoder{b: r.Value}
	version, bucket := dec.byte(), BucketID(dec.uint())
	if dec.err == nil && version != dictionaryVersion {
		return 0, nil, E(op, Unsupported, fmt.Errorf("version %d of the record of a dictionary", version))
	}
	if dec.err != nil {
		return 0, nil, E(op, Damaged, dec.err)
	}
	d, err := codec.NewDictionary(dec.b)
	if err != nil {
		return 0, nil, E(op, Damaged, err)
	}
	if id, err := strconv.ParseUint(r.Key, 16, 32); err != nil || uint32(id) != d.ID() {
		return 0, nil, E(op, Damaged, fmt.Errorf("a dictionary of number %08x under %q", d.ID(), r.Key))
	}
	return bucket, d, nil
}

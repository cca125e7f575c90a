package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/zeebo/xxh3"

	"orcas/core/codec"
	"orcas/core/frame"
)

// DictionaryKind is the kind of the records that hold the dictionaries of codecs. Content whose DataInfo names one cannot be read without it.
const DictionaryKind = "dictionary"

// The first byte of such a record. Of both, the bucket that it was made for follows (Uvarint); of a sealed one then the id of the master key (Uvarint) and the wrapped
// data key (its length as Uvarint, its bytes); of both the XXH3-64 of the rest (little endian), and the rest: the dictionary, or what the data key makes of it.
const (
	plainDictionary  = 1
	sealedDictionary = 2
)

// DictionaryRecord is a dictionary as it is kept. It is made of pieces of contents, so it is encrypted where those were.
type DictionaryRecord struct {
	ID      uint32
	Bucket  BucketID // for whose content it was made
	KeyID   uint32   // the master key that wraps DataKey; 0: it is not encrypted
	DataKey []byte   // wrapped
	Stored  []byte   // the dictionary, or what the data key makes of it
}

// DictionaryKey returns the key of a dictionary's record: its number in eight hexadecimal digits.
func DictionaryKey(id uint32) string { return fmt.Sprintf("%08x", id) }

// KeepDictionary returns the record of a dictionary that was made for a bucket, under a master key and its id; nil and 0: not encrypted.
func KeepDictionary(bucket BucketID, d *codec.Dictionary, keyID uint32, key *codec.Key) *DictionaryRecord {
	r := &DictionaryRecord{ID: d.ID(), Bucket: bucket, KeyID: keyID, Stored: d.Raw()}
	if key != nil {
		var data *codec.DataKey
		data, r.DataKey = key.NewDataKey(keyID, r.place())
		r.Stored = data.Seal(nil, d.Raw(), r.header(len(d.Raw())))
	}
	return r
}

// place is the number under which the data key is wrapped. No content has it.
func (r *DictionaryRecord) place() uint64 { return 1<<63 | uint64(r.ID) }

// header is that of the one frame that a sealed dictionary would be.
func (r *DictionaryRecord) header(size int) *frame.Header {
	return &frame.Header{Type: frame.Data, ID: r.place(), KeyID: r.KeyID, Plain: uint32(size), Last: true}
}

// Record returns the record.
func (r *DictionaryRecord) Record() Record {
	value := make([]byte, 0, len(r.Stored)+128)
	if r.KeyID == 0 {
		value = binary.AppendUvarint(append(value, plainDictionary), uint64(r.Bucket))
	} else {
		value = binary.AppendUvarint(append(value, sealedDictionary), uint64(r.Bucket))
		value = binary.AppendUvarint(value, uint64(r.KeyID))
		value = append(binary.AppendUvarint(value, uint64(len(r.DataKey))), r.DataKey...)
	}
	value = binary.LittleEndian.AppendUint64(value, xxh3.Hash(r.Stored))
	return Record{Kind: DictionaryKind, Key: DictionaryKey(r.ID), Value: append(value, r.Stored...)}
}

// DecodeDictionary is the inverse of DictionaryRecord.Record. Damaged: it holds no dictionary; Unsupported: it is of a newer version.
func DecodeDictionary(record Record) (*DictionaryRecord, error) {
	const op = "core.DecodeDictionary"
	dec := decoder{b: record.Value}
	version := dec.byte()
	if dec.err == nil && version != plainDictionary && version != sealedDictionary {
		return nil, E(op, Unsupported, fmt.Errorf("version %d of the record of a dictionary", version))
	}
	r := &DictionaryRecord{Bucket: BucketID(dec.uint())}
	if version == sealedDictionary {
		id := dec.uint()
		r.KeyID, r.DataKey = uint32(id), dec.bytes()
		if id == 0 || id >= codec.CustomerKeyID {
			dec.fail()
		}
	}
	sum := dec.raw(8)
	if dec.err == nil && binary.LittleEndian.Uint64(sum) != xxh3.Hash(dec.b) {
		dec.fail()
	}
	if dec.err != nil {
		return nil, E(op, Damaged, dec.err)
	}
	id, err := strconv.ParseUint(record.Key, 16, 32)
	if err != nil || record.Key != DictionaryKey(uint32(id)) {
		return nil, E(op, Damaged, fmt.Errorf("a dictionary under %q", record.Key))
	}
	r.ID, r.Stored = uint32(id), dec.b
	if r.KeyID == 0 {
		_, err = r.Open(nil)
	} else if len(r.Stored) <= codec.SealedMore {
		err = E(op, Damaged, errors.New("a sealed dictionary without content"))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Open returns the dictionary. Key is the master key that wraps its data key; nil where it has none.
func (r *DictionaryRecord) Open(key *codec.Key) (*codec.Dictionary, error) {
	const op = "core.DictionaryRecord"
	raw := r.Stored
	if r.KeyID != 0 {
		data, err := key.DataKey(r.KeyID, r.place(), r.DataKey)
		if err == nil {
			raw, err = data.Open(nil, r.Stored, r.header(len(r.Stored)-codec.SealedMore))
		}
		if err != nil {
			return nil, E(op, Damaged, fmt.Errorf("the dictionary %s: %w", DictionaryKey(r.ID), err))
		}
	}
	d, err := codec.NewDictionary(r.ID, raw)
	if err != nil {
		return nil, E(op, Damaged, err)
	}
	return d, nil
}

// Rewrap returns the record with its data key, which the master key from wraps, wrapped by another.
func (r *DictionaryRecord) Rewrap(from, to *codec.Key, toID uint32) (*DictionaryRecord, error) {
	wrapped, err := from.Rewrap(r.KeyID, r.place(), r.DataKey, to, toID)
	if err != nil {
		return nil, E("core.DictionaryRecord", Damaged, fmt.Errorf("the dictionary %s: %w", DictionaryKey(r.ID), err))
	}
	again := *r
	again.KeyID, again.DataKey = toID, wrapped
	return &again, nil
}

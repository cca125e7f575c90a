// Package dictionary stores the compression dictionaries of package codec in the metadata, as records of the kind Kind.
// Content whose DataInfo refers to a dictionary cannot be read without it.
//
// The first byte of a record is its version: plain or sealed. It is followed by the bucket that the dictionary was
// created for (Uvarint). A sealed record then has the ID of the master key (Uvarint) and the wrapped data key (length
// as Uvarint, bytes). Both versions end with the XXH3-64 of the stored dictionary (little endian), and the dictionary
// itself, encrypted with the data key if the record is sealed.
package dictionary

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
)

// Kind is the kind of the records that contain dictionaries.
const Kind = "dictionary"

// The versions of a record.
const (
	plain  = 1
	sealed = 2
)

// Record is a dictionary in its stored form. A dictionary consists of pieces of content, so it is encrypted if that
// content was.
type Record struct {
	ID      uint32
	Bucket  core.BucketID // the bucket whose content it was created from
	KeyID   uint32        // the master key that wraps DataKey; 0: not encrypted
	DataKey []byte        // wrapped data key
	Stored  []byte        // the dictionary, encrypted with the data key if KeyID is set
}

// Key returns the key of a dictionary's record: its number in eight hexadecimal digits.
func Key(id uint32) string { return fmt.Sprintf("%08x", id) }

// New returns the record of a dictionary for a bucket. The dictionary is encrypted with a new data key that is wrapped
// with key, whose ID is keyID; it is not encrypted if they are nil and 0.
func New(bucket core.BucketID, d *codec.Dictionary, keyID uint32, key *codec.Key) *Record {
	r := &Record{ID: d.ID(), Bucket: bucket, KeyID: keyID, Stored: d.Raw()}
	if key != nil {
		var data *codec.DataKey
		data, r.DataKey = key.NewDataKey(keyID, r.number())
		r.Stored = data.Seal(nil, d.Raw(), r.header(len(d.Raw())))
	}
	return r
}

// number returns the DataID for wrapping the data key. No content has this DataID.
func (r *Record) number() uint64 { return 1<<63 | uint64(r.ID) }

// header returns the header of the only frame of a sealed dictionary.
func (r *Record) header(size int) *frame.Header {
	return &frame.Header{Type: frame.Data, ID: r.number(), KeyID: r.KeyID, Plain: uint32(size), Last: true}
}

// Encode returns r as a record of the metadata.
func (r *Record) Encode() core.Record {
	value := make([]byte, 0, len(r.Stored)+128)
	if r.KeyID == 0 {
		value = binary.AppendUvarint(append(value, plain), uint64(r.Bucket))
	} else {
		value = binary.AppendUvarint(append(value, sealed), uint64(r.Bucket))
		value = binary.AppendUvarint(value, uint64(r.KeyID))
		value = append(binary.AppendUvarint(value, uint64(len(r.DataKey))), r.DataKey...)
	}
	value = binary.LittleEndian.AppendUint64(value, xxh3.Hash(r.Stored))
	return core.Record{Kind: Kind, Key: Key(r.ID), Value: append(value, r.Stored...)}
}

// Decode is the inverse of Encode. It returns Damaged if the record is not a valid dictionary, and Unsupported if a
// newer version wrote it.
func Decode(record core.Record) (*Record, error) {
	const op = "dictionary.Decode"
	if len(record.Value) > 0 && record.Value[0] != plain && record.Value[0] != sealed {
		return nil, core.E(op, core.Unsupported, fmt.Errorf(
			"dictionary %q: the record has version %d, but this version of ORCAS supports only versions up to %d", record.Key, record.Value[0], sealed))
	}
	r, err := decode(record.Value)
	if err != nil {
		return nil, core.E(op, core.Damaged, fmt.Errorf("dictionary %q: %w", record.Key, err))
	}
	id, err := strconv.ParseUint(record.Key, 16, 32)
	if err != nil || record.Key != Key(uint32(id)) {
		return nil, core.E(op, core.Damaged, fmt.Errorf("dictionary %q: the key of the record must be 8 hexadecimal digits", record.Key))
	}
	r.ID = uint32(id)
	if r.KeyID == 0 {
		_, err = r.Open(nil)
	} else if len(r.Stored) <= codec.SealedMore {
		err = core.E(op, core.Damaged, fmt.Errorf("dictionary %q: its encrypted form of %d bytes has no content", record.Key, len(r.Stored)))
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

var errMalformed = errors.New("the record is malformed")

// decode decodes all fields of a record except its ID, which is not part of the value.
func decode(b []byte) (*Record, error) {
	if len(b) == 0 {
		return nil, errMalformed
	}
	r, isSealed := &Record{}, b[0] == sealed
	bucket, b, err := uvarint(b[1:])
	r.Bucket = core.BucketID(bucket)
	if isSealed && err == nil {
		var id, length uint64
		if id, b, err = uvarint(b); err == nil {
			length, b, err = uvarint(b)
		}
		if err != nil || id == 0 || id >= codec.CustomerKeyID || length > uint64(len(b)) {
			return nil, errMalformed
		}
		r.KeyID, r.DataKey, b = uint32(id), append([]byte(nil), b[:length]...), b[length:]
	}
	if err != nil || len(b) < 8 {
		return nil, errMalformed
	}
	if r.Stored = b[8:]; binary.LittleEndian.Uint64(b) != xxh3.Hash(r.Stored) {
		return nil, fmt.Errorf("%w: the checksum does not match", errMalformed)
	}
	return r, nil
}

func uvarint(b []byte) (v uint64, rest []byte, err error) {
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, errMalformed
	}
	return v, b[n:], nil
}

// Open returns the dictionary. Key is the master key that wraps its data key, or nil if it is not encrypted.
func (r *Record) Open(key *codec.Key) (*codec.Dictionary, error) {
	const op = "dictionary.Open"
	raw := r.Stored
	if r.KeyID != 0 {
		data, err := key.DataKey(r.KeyID, r.number(), r.DataKey)
		if err == nil {
			raw, err = data.Open(nil, r.Stored, r.header(len(r.Stored)-codec.SealedMore))
		}
		if err != nil {
			return nil, core.E(op, core.Damaged, fmt.Errorf("dictionary %q under master key %d: %w", Key(r.ID), r.KeyID, err))
		}
	}
	d, err := codec.NewDictionary(r.ID, raw)
	if err != nil {
		return nil, core.E(op, core.Damaged, fmt.Errorf("dictionary %q: %w", Key(r.ID), err))
	}
	return d, nil
}

// Rewrap returns a copy of the record whose data key is wrapped with the master key to instead of from.
func (r *Record) Rewrap(from, to *codec.Key, toID uint32) (*Record, error) {
	wrapped, err := from.Rewrap(r.KeyID, r.number(), r.DataKey, to, toID)
	if err != nil {
		return nil, core.E("dictionary.Rewrap", core.Damaged, fmt.Errorf("dictionary %q under master key %d: %w", Key(r.ID), r.KeyID, err))
	}
	again := *r
	again.KeyID, again.DataKey = toID, wrapped
	return &again, nil
}

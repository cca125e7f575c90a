package core

import (
	"encoding/binary"
	"math/bits"
)

// HeadSize is the number of bytes at the beginning of larger content that are hashed separately (DataInfo.Head). That
// hash can show early that no equal content is stored.
const HeadSize = 64 << 10

// ContentKey is the key for deduplication: the size and the hash of content, and the bucket and the master key within
// which it is shared. Compression makes no difference. Deduplication never crosses bucket boundaries, so that it does
// not reveal what other buckets contain.
//
// With Head, SHA256 is the hash of the first HeadSize bytes, or of all bytes if there are fewer. Content that matches
// such a key is not necessarily equal, so a change cannot use it to refer to content.
type ContentKey struct {
	Scope  BucketID
	KeyID  uint32
	SHA256 [32]byte
	Size   int64 // of the whole content, in bytes
	Head   bool
}

// Fits reports whether k is a key of d.
func (k *ContentKey) Fits(d *DataInfo) bool {
	sum := &d.SHA256
	if k.Head && k.Size > HeadSize {
		if !d.HasHead() {
			return false
		}
		sum = &d.Head
	}
	return k.Scope != 0 && k.Scope == d.Scope && k.KeyID == d.KeyID && k.Size == d.Size && k.SHA256 == *sum
}

// Hash returns a hash for indexes, which is the same for all equal content of a scope. KeyID is not part of it, since
// it can change.
func (k *ContentKey) Hash() uint64 {
	if k.Head && k.Size > HeadSize {
		return hashHead(k.Scope, k.Size, &k.SHA256)
	}
	return hashContent(k.Scope, &k.SHA256)
}

// ContentKey returns the key of d.
func (d *DataInfo) ContentKey() ContentKey {
	return ContentKey{Scope: d.Scope, KeyID: d.KeyID, SHA256: d.SHA256, Size: d.Size}
}

// HeadKey returns the key of the beginning of d, which must have one (see HasHead).
func (d *DataInfo) HeadKey() ContentKey {
	return ContentKey{Scope: d.Scope, KeyID: d.KeyID, SHA256: d.Head, Size: d.Size, Head: true}
}

// Hash returns the hash of the ContentKey of d.
func (d *DataInfo) Hash() uint64 { return hashContent(d.Scope, &d.SHA256) }

// HasHead reports whether d can also be found by the hash of its beginning.
func (d *DataInfo) HasHead() bool { return d.Size > HeadSize && d.Head != [32]byte{} }

// HeadHash returns the hash of the HeadKey of d.
func (d *DataInfo) HeadHash() uint64 { return hashHead(d.Scope, d.Size, &d.Head) }

func hashContent(scope BucketID, sha256 *[32]byte) uint64 {
	return binary.LittleEndian.Uint64(sha256[:]) ^ bits.RotateLeft64(uint64(scope)*0x9e3779b97f4a7c15, 32)
}

// hashHead uses other bytes of the hash than hashContent. The size is part of it because the same beginning may occur
// in much content, and a lookup would have to check all of it.
func hashHead(scope BucketID, size int64, sha256 *[32]byte) uint64 {
	return binary.LittleEndian.Uint64(sha256[8:]) ^ bits.RotateLeft64(uint64(scope)*0x9e3779b97f4a7c15, 32) ^ uint64(size)*0xbf58476d1ce4e5b9
}

package core

import (
	"encoding/binary"
	"math/bits"
)

// HeadSize is how many bytes at the beginning of larger content are hashed apart (DataInfo.Head), so that content which nothing is equal to is
// told by little of it.
const HeadSize = 64 << 10

// ContentKey says what equal contents have in common: the bytes, by their hash and number, and the scope within which content is
// shared: a bucket, and the master key (how frames are compressed is nobody's concern but theirs). What lies outside of a scope is never looked at for it, so that nobody learns what other buckets hold.
//
// With Head, SHA256 is that of the first HeadSize bytes only, or of all where there are no more: what fits may be equal, and no change can refer
// to it so.
type ContentKey struct {
	Scope  BucketID
	KeyID  uint32
	SHA256 [32]byte
	Size   int64 // of all, in bytes
	Head   bool
}

// Fits says whether d is content that k names.
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

// Hash returns where an engine may file what k names: equal contents of a scope have the same hash. KeyID has no part in it, since
// it may change.
func (k *ContentKey) Hash() uint64 {
	if k.Head && k.Size > HeadSize {
		return hashHead(k.Scope, k.Size, &k.SHA256)
	}
	return hashContent(k.Scope, &k.SHA256)
}

// ContentKey returns the key that d fits.
func (d *DataInfo) ContentKey() ContentKey {
	return ContentKey{Scope: d.Scope, KeyID: d.KeyID, SHA256: d.SHA256, Size: d.Size}
}

// HeadKey returns the key of its beginning that d fits, where HasHead.
func (d *DataInfo) HeadKey() ContentKey {
	return ContentKey{Scope: d.Scope, KeyID: d.KeyID, SHA256: d.Head, Size: d.Size, Head: true}
}

// Hash returns that of every ContentKey without Head that d fits.
func (d *DataInfo) Hash() uint64 { return hashContent(d.Scope, &d.SHA256) }

// HasHead says whether the beginning of d leads to it, besides all of it.
func (d *DataInfo) HasHead() bool { return d.Size > HeadSize && d.Head != [32]byte{} }

// HeadHash returns that of every ContentKey with Head that d fits, where HasHead.
func (d *DataInfo) HeadHash() uint64 { return hashHead(d.Scope, d.Size, &d.Head) }

func hashContent(scope BucketID, sha256 *[32]byte) uint64 {
	return binary.LittleEndian.Uint64(sha256[:]) ^ bits.RotateLeft64(uint64(scope)*0x9e3779b97f4a7c15, 32)
}

// hashHead takes other bytes of the hash than hashContent. The size is part of it: many contents may begin alike, and each of them would have to
// be looked at.
func hashHead(scope BucketID, size int64, sha256 *[32]byte) uint64 {
	return binary.LittleEndian.Uint64(sha256[8:]) ^ bits.RotateLeft64(uint64(scope)*0x9e3779b97f4a7c15, 32) ^ uint64(size)*0xbf58476d1ce4e5b9
}

package core

import (
	"encoding/binary"
	"math/bits"
)

// ContentKey says what equal contents have in common: the bytes, by their hash and number, and the scope within which content is
// shared: a bucket, and the master key (how frames are compressed is nobody's concern but theirs). What lies outside of a scope is never looked at for it, so that nobody learns what other buckets hold.
type ContentKey struct {
	Scope  BucketID
	KeyID  uint32
	SHA256 [32]byte
	Size   int64 // bytes
}

// Fits says whether d is the content that k names.
func (k *ContentKey) Fits(d *DataInfo) bool {
	return k.Scope != 0 && k.Scope == d.Scope && k.KeyID == d.KeyID && k.Size == d.Size && k.SHA256 == d.SHA256
}

// Hash returns where an engine may file what k names: equal contents of a scope have the same hash. KeyID has no part in it, since
// it may change.
func (k *ContentKey) Hash() uint64 { return hashContent(k.Scope, &k.SHA256) }

// ContentKey returns the key that d fits.
func (d *DataInfo) ContentKey() ContentKey {
	return ContentKey{Scope: d.Scope, KeyID: d.KeyID, SHA256: d.SHA256, Size: d.Size}
}

// Hash returns that of every ContentKey that d fits.
func (d *DataInfo) Hash() uint64 { return hashContent(d.Scope, &d.SHA256) }

func hashContent(scope BucketID, sha256 *[32]byte) uint64 {
	return binary.LittleEndian.Uint64(sha256[:]) ^ bits.RotateLeft64(uint64(scope)*0x9e3779b97f4a7c15, 32)
}

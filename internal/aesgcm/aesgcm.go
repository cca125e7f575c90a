// Package aesgcm implements AES-256-GCM (NIST SP 800-38D) with the fastest implementation available.
//
// The standard library encrypts 16 bytes at a time. On a processor with vector AES, a program built with the tag
// ipsecmb (make VECTOR_AES=1, which needs Debian's libipsec-mb-dev) uses Intel's Multi-Buffer Crypto for IPsec library
// instead. That library encrypts 64 bytes at a time and is two to three times as fast for 4 KiB and more. Both write
// and read the same bytes.
package aesgcm

import (
	"crypto/aes"
	"crypto/cipher"
)

// Sizes in bytes.
const (
	KeySize   = 32
	NonceSize = 12
	TagSize   = 16
)

// New returns an AEAD for AES-256-GCM with a key of KeySize bytes. It panics if the key has another length.
func New(key []byte) cipher.AEAD {
	if len(key) != KeySize {
		panic("aesgcm: the key does not have KeySize bytes")
	}
	if native() {
		return newNative(key)
	}
	return newPortable(key)
}

// Means returns the implementation that New uses: "vector AES" or "AES".
func Means() string {
	if native() {
		return "vector AES"
	}
	return "AES"
}

func newPortable(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // only the length can be wrong
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only the size of the block can be wrong
	}
	return aead
}

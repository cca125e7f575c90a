// Package aesgcm is AES-256-GCM (NIST SP 800-38D) by the fastest means at hand.
//
// That is the standard library's, which does 16 bytes at a time, unless the program was built with the tag ipsecmb, for which Intel's
// library of that name has to be there (Debian: libipsec-mb-dev), and runs on a processor with vector AES. Then it is that library's, which does
// 64 bytes at a time: three times as fast on contents of 4 KiB and more. Both write and read the same bytes.
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

// New returns AES-256-GCM with a key of KeySize bytes; another length is the caller's mistake and panics.
func New(key []byte) cipher.AEAD {
	if len(key) != KeySize {
		panic("aesgcm: a key of the wrong length")
	}
	if native() {
		return newNative(key)
	}
	return newPortable(key)
}

// Means names the means that New uses: "vector AES" or "AES".
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

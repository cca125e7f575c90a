//go:build !(ipsecmb && amd64)

package aesgcm

import "crypto/cipher"

func native() bool { return false }

func newNative([]byte) cipher.AEAD { panic("aesgcm: built without vector AES") }

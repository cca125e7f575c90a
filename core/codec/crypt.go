package codec

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"

	"orcas/core/frame"
	"orcas/internal/aesgcm"
)

// # Encryption
//
// Each encrypted DataInfo has a separate data key of 256 random bits, which encrypts the frames of its content with
// AES-256-GCM. The nonce of a frame is its number within the content. No nonce is used twice with a key, because
// content is written once, and a retried write gets a new DataID and with it a new data key. DataID, frame number,
// last-frame flag, codec and plain size are authenticated, so swapped frames, missing frames and frames of other
// content are detected. The position in the block is not authenticated, so frames can be moved unchanged.
//
// The wrapped data key is stored with the content's metadata:
//
//	 0   1  version (1)
//	 1  16  salt, random
//	17  32  the data key, encrypted with AES-256-GCM, nonce 0
//	49  16  its tag
//
// It is encrypted with the key HMAC-SHA256(wrapping key, label, key id, DataID, salt), which is used once. So a wrapped
// key can be unwrapped only for its own content and key id. Random nonces of 96 bits, which could collide after some
// billion data keys, are not needed.

// The errors of keys.
var (
	ErrWrongKey = errors.New("the data key was wrapped with another key, or is damaged")
	errFrame    = errors.New("it cannot be decrypted: it was changed, belongs to other content, or is encrypted with another key")
)

const (
	keySize  = KeySize
	saltSize = 16
	tagSize  = SealedMore

	wrappedVersion = 1
	wrappedSize    = 1 + saltSize + keySize + tagSize

	checkVersion = 1
	checkSize    = 1 + saltSize + sha256.Size

	wrapLabel  = "ORCAS wrap 1"
	checkLabel = "ORCAS check 1"
)

// KeySize is the size of every key, in bytes.
const KeySize = 32

// SealedMore is the number of bytes that encryption adds to a frame.
const SealedMore = 16

// CustomerKeyID is the key id of content whose data key is wrapped with a key that the client sends with each request.
const CustomerKeyID = 1<<32 - 1

// Key wraps data keys. It is a master key of the store or a customer key. It is never printed.
type Key struct{ secret [keySize]byte }

// NewKey returns the Key with these KeySize bytes. It returns an error, which does not quote the key, if the length is
// wrong or all bytes are zero.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != keySize {
		return nil, fmt.Errorf("a key must have %d bytes, not %d", keySize, len(secret))
	}
	k := &Key{}
	if subtle.ConstantTimeCompare(secret, k.secret[:]) == 1 {
		return nil, errors.New("a key must not be all zeros")
	}
	copy(k.secret[:], secret)
	return k, nil
}

// String returns no part of the key.
func (k *Key) String() string { return "(a key)" }

// GoString returns no part of the key.
func (k *Key) GoString() string { return "(a key)" }

// Check returns a salted value for Is. It differs on each call and reveals nothing about the key.
func (k *Key) Check() []byte {
	b := make([]byte, 1+saltSize, checkSize)
	b[0] = checkVersion
	_, _ = rand.Read(b[1:]) // never fails
	return k.appendCheck(b)
}

func (k *Key) appendCheck(b []byte) []byte {
	m := hmac.New(sha256.New, k.secret[:])
	m.Write([]byte(checkLabel))
	m.Write(b[1 : 1+saltSize])
	return m.Sum(b)
}

// Is reports whether check was returned by Check of the same key.
func (k *Key) Is(check []byte) bool {
	if len(check) != checkSize || check[0] != checkVersion {
		return false
	}
	var room [checkSize]byte
	return subtle.ConstantTimeCompare(k.appendCheck(append(room[:0], check[:1+saltSize]...)), check) == 1
}

// Derive returns a key of KeySize bytes for another purpose than wrapping data keys. Each label names one purpose.
func (k *Key) Derive(label string) []byte {
	m := hmac.New(sha256.New, k.secret[:])
	m.Write([]byte("ORCAS derive 1\x00" + label))
	return m.Sum(nil)
}

// wrapper returns the cipher that wraps the data key of content.
func (k *Key) wrapper(keyID uint32, id uint64, salt []byte) cipher.AEAD {
	var b [len(wrapLabel) + 12]byte
	at := copy(b[:], wrapLabel)
	binary.BigEndian.PutUint32(b[at:], keyID)
	binary.BigEndian.PutUint64(b[at+4:], id)
	m := hmac.New(sha256.New, k.secret[:])
	m.Write(b[:])
	m.Write(salt)
	var derived [sha256.Size]byte
	return aesgcm.New(m.Sum(derived[:0]))
}

// zeroNonce is the nonce for keys that are used once. It must not be modified.
var zeroNonce [12]byte

// wrap wraps a data key.
func (k *Key) wrap(keyID uint32, id uint64, secret []byte) []byte {
	b := make([]byte, 1+saltSize, wrappedSize)
	b[0] = wrappedVersion
	_, _ = rand.Read(b[1:]) // never fails
	return k.wrapper(keyID, id, b[1:]).Seal(b, zeroNonce[:], secret, nil)
}

// unwrap appends the data key to dst.
func (k *Key) unwrap(dst []byte, keyID uint32, id uint64, wrapped []byte) ([]byte, error) {
	if len(wrapped) != wrappedSize {
		return nil, fmt.Errorf("%w: a wrapped data key of %d bytes instead of %d", ErrDamaged, len(wrapped), wrappedSize)
	}
	if wrapped[0] != wrappedVersion {
		return nil, fmt.Errorf("%w: version %d of a wrapped data key", ErrCodec, wrapped[0])
	}
	salt, sealed := wrapped[1:1+saltSize], wrapped[1+saltSize:]
	secret, err := k.wrapper(keyID, id, salt).Open(dst, zeroNonce[:], sealed, nil)
	if err != nil {
		return nil, ErrWrongKey
	}
	return secret, nil
}

// NewDataKey generates the data key of the content with the DataID id. It returns the data key and its wrapped form.
// KeyID is the key id of k.
func (k *Key) NewDataKey(keyID uint32, id uint64) (*DataKey, []byte) {
	var secret [keySize]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &DataKey{aesgcm.New(secret[:])}, k.wrap(keyID, id, secret[:])
}

// DataKey unwraps the data key of content. It returns ErrWrongKey if the data key was wrapped with another key or for
// other content, or is damaged.
func (k *Key) DataKey(keyID uint32, id uint64, wrapped []byte) (*DataKey, error) {
	var room [keySize]byte
	secret, err := k.unwrap(room[:0], keyID, id, wrapped)
	if err != nil {
		return nil, err
	}
	return &DataKey{aesgcm.New(secret)}, nil
}

// Rewrap unwraps a data key with k and returns it wrapped with the key to, whose key id is toID.
func (k *Key) Rewrap(keyID uint32, id uint64, wrapped []byte, to *Key, toID uint32) ([]byte, error) {
	var room [keySize]byte
	secret, err := k.unwrap(room[:0], keyID, id, wrapped)
	if err != nil {
		return nil, err
	}
	return to.wrap(toID, id, secret), nil
}

// DataKey encrypts the frames of one piece of content. It is a Sealer.
type DataKey struct{ aead cipher.AEAD }

// bound consists of the nonce and the additional authenticated data of a frame, which bind it to its position in its
// content.
//
//	0  8  zero              12  8  DataID
//	8  4  number            20  4  number
//	                        24  4  plain bytes
//	                        28  1  codec
//	                        29  1  1: the last frame
type bound [30]byte

func bind(h *frame.Header) *bound {
	b := &bound{}
	binary.BigEndian.PutUint32(b[8:], h.Index)
	binary.BigEndian.PutUint64(b[12:], h.ID)
	binary.BigEndian.PutUint32(b[20:], h.Index)
	binary.BigEndian.PutUint32(b[24:], h.Plain)
	b[28] = h.Codec
	if h.Last {
		b[29] = 1
	}
	return b
}

// Seal implements Sealer.
func (k *DataKey) Seal(dst, plain []byte, h *frame.Header) []byte {
	b := bind(h)
	return k.aead.Seal(dst, b[:12], plain, b[12:])
}

// Open implements Sealer. If it fails, it returns no part of the content.
func (k *DataKey) Open(dst, stored []byte, h *frame.Header) ([]byte, error) {
	b := bind(h)
	plain, err := k.aead.Open(dst, b[:12], stored, b[12:])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, errFrame)
	}
	return plain, nil
}

//go:build ipsecmb && amd64

package aesgcm

// #cgo LDFLAGS: -l:libIPSec_MB.a
// #cgo noescape aesgcm_expand
// #cgo nocallback aesgcm_expand
// #cgo noescape aesgcm_seal
// #cgo nocallback aesgcm_seal
// #cgo noescape aesgcm_open
// #cgo nocallback aesgcm_open
// #include <intel-ipsec-mb.h>
//
// static IMB_MGR *manager; // read-only after aesgcm_start
//
// static int aesgcm_start(void)
// {
// 	const uint64_t wanted = IMB_FEATURE_VAES | IMB_FEATURE_VPCLMULQDQ | IMB_FEATURE_AVX512_SKX;
//
// 	manager = alloc_mb_mgr(0);
// 	if (manager == NULL)
// 		return 0;
// 	init_mb_mgr_auto(manager, NULL);
// 	return imb_get_errno(manager) == 0 && (manager->features & wanted) == wanted;
// }
//
// static void aesgcm_expand(const void *key, void *expanded)
// {
// 	IMB_AES256_GCM_PRE(manager, key, expanded);
// }
//
// static void aesgcm_seal(const void *key, uint8_t *dst, const uint8_t *src, uint64_t n,
//                         const uint8_t *nonce, const uint8_t *more, uint64_t moreSize, uint8_t *tag)
// {
// 	struct gcm_context_data state;
//
// 	IMB_AES256_GCM_ENC(manager, key, &state, dst, src, n, nonce, more, moreSize, tag, 16);
// }
//
// static void aesgcm_open(const void *key, uint8_t *dst, const uint8_t *src, uint64_t n,
//                         const uint8_t *nonce, const uint8_t *more, uint64_t moreSize, uint8_t *tag)
// {
// 	struct gcm_context_data state;
//
// 	IMB_AES256_GCM_DEC(manager, key, &state, dst, src, n, nonce, more, moreSize, tag, 16);
// }
import "C"

import (
	"crypto/cipher"
	"crypto/subtle"
	"errors"
	"slices"
	"sync"
	"unsafe"
)

var native = sync.OnceValue(func() bool { return C.aesgcm_start() != 0 })

// expandedSize is the size of an expanded key of the library, which must be aligned to expandedAlign bytes.
const (
	expandedSize  = C.sizeof_struct_gcm_key_data
	expandedAlign = 64
)

var errOpen = errors.New("aesgcm: message authentication failed")

type vector struct{ expanded []byte }

func newNative(key []byte) cipher.AEAD {
	room := make([]byte, expandedSize+expandedAlign-1)
	at := -uintptr(unsafe.Pointer(&room[0])) % expandedAlign
	v := &vector{room[at : at+expandedSize]}
	C.aesgcm_expand(unsafe.Pointer(&key[0]), unsafe.Pointer(&v.expanded[0]))
	return v
}

func (v *vector) NonceSize() int { return NonceSize }

func (v *vector) Overhead() int { return TagSize }

func (v *vector) Seal(dst, nonce, plain, more []byte) []byte {
	check(nonce)
	at := len(dst)
	dst = slices.Grow(dst, len(plain)+TagSize)[:at+len(plain)+TagSize]
	tag := dst[at+len(plain):]
	C.aesgcm_seal(unsafe.Pointer(&v.expanded[0]), pointer(dst[at:]), pointer(plain), C.uint64_t(len(plain)),
		pointer(nonce), pointer(more), C.uint64_t(len(more)), pointer(tag))
	return dst
}

func (v *vector) Open(dst, nonce, sealed, more []byte) ([]byte, error) {
	check(nonce)
	size := len(sealed) - TagSize
	if size < 0 {
		return nil, errOpen
	}
	at := len(dst)
	dst = slices.Grow(dst, size)[:at+size]
	var expected [TagSize]byte
	C.aesgcm_open(unsafe.Pointer(&v.expanded[0]), pointer(dst[at:]), pointer(sealed), C.uint64_t(size),
		pointer(nonce), pointer(more), C.uint64_t(len(more)), pointer(expected[:]))
	if subtle.ConstantTimeCompare(expected[:], sealed[size:]) != 1 {
		clear(dst[at:])
		return nil, errOpen
	}
	return dst, nil
}

func check(nonce []byte) {
	if len(nonce) != NonceSize {
		panic("aesgcm: the nonce does not have NonceSize bytes")
	}
}

// pointer returns a pointer to the first byte of b. If b is empty, it may be nil.
func pointer(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

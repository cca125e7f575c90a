package identity

import (
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"orcas/internal/aesgcm"
	"orcas/internal/mutant"
)

// KeySize is the size of the key that encrypts secrets, in bytes.
const KeySize = aesgcm.KeySize

// vault encrypts the secrets of access keys. The zero vault has no key.
type vault struct{ aead cipher.AEAD }

func newVault(key []byte) vault {
	if key == nil {
		return vault{}
	}
	return vault{aesgcm.New(key)}
}

// tokenLabel names the key that is derived for session tokens.
const tokenLabel = "ORCAS session tokens 1"

// newTokenCipher returns the cipher of session tokens. Its key is derived from that of the vault.
func newTokenCipher(key []byte) cipher.AEAD {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(tokenLabel))
	return aesgcm.New(m.Sum(nil))
}

// bound returns the data that is authenticated with a secret, so that it belongs to one access key of one identity.
func bound(accessKey, identity string) []byte {
	if mutant.Is("secret-of-any-key") {
		return nil
	}
	return []byte("ORCAS access key 1\x00" + accessKey + "\x00" + identity)
}

// encrypt returns the stored form of a secret. The vault must have a key.
func (v vault) encrypt(secret, accessKey, identity string) []byte {
	nonce := make([]byte, v.aead.NonceSize(), v.aead.NonceSize()+len(secret)+v.aead.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return v.aead.Seal(nonce, nonce, []byte(secret), bound(accessKey, identity))
}

var errSecret = errors.New("the secret cannot be decrypted")

// decrypt returns a secret.
func (v vault) decrypt(stored []byte, accessKey, identity string) (string, error) {
	if v.aead == nil || len(stored) < v.aead.NonceSize() {
		return "", errSecret
	}
	n := v.aead.NonceSize()
	secret, err := v.aead.Open(nil, stored[:n], stored[n:], bound(accessKey, identity))
	if err != nil || len(secret) == 0 {
		return "", errSecret
	}
	return string(secret), nil
}

// Prefixes of unique IDs, as in IAM, except that of application keys, which IAM does not have.
const (
	accessKeyPrefix = "AKIA"
	temporaryPrefix = "ASIA"
	userPrefix      = "AIDA"
	groupPrefix     = "AGPA"
	policyPrefix    = "ANPA"
	rolePrefix      = "AROA"
	keyPrefix       = "KEYA"
)

func (k Kind) idPrefix() string {
	switch k {
	case User:
		return userPrefix
	case Group:
		return groupPrefix
	case Role:
		return rolePrefix
	}
	return keyPrefix
}

// newID returns a random ID of n characters with a prefix.
func newID(prefix string, n int) string { return prefix + rand.Text()[:n-len(prefix)] }

// The lengths of IDs, in characters, as in IAM.
const (
	accessKeyLength = 20
	uniqueIDLength  = 21
)

// newSecret returns a secret of 40 characters, letters and digits, with 200 random bits.
func newSecret() string { return rand.Text() + rand.Text()[:14] }

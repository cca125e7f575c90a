package codec

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Keys are the master keys of a store, newest first. They are immutable. A nil *Keys has no keys.
type Keys struct {
	ids  []uint32
	keys map[uint32]*Key
}

// ParseKeys parses master keys, newest first, one per line or separated by commas. Each has the form id:key, with an id
// from 1 to 4294967294 and a key of 32 bytes in hexadecimal or Base64. If there is only one key, its id may be omitted
// and is then 1. Blank lines and lines that begin with # are ignored. Errors contain the number of the key, and never
// quote a key.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{keys: map[uint32]*Key{}}
	bare := false
	for i, line := range strings.FieldsFunc(withoutComments(text), func(r rune) bool { return r == '\n' || r == ',' }) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		number, secret, named := strings.Cut(line, ":")
		if !named {
			number, secret, bare = "1", number, true
		}
		id, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32)
		if err != nil || id == 0 || id == CustomerKeyID {
			return nil, fmt.Errorf("key %d: the id must be a number from 1 to %d", i+1, uint32(CustomerKeyID-1))
		}
		key, err := parseKey(strings.TrimSpace(secret))
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if err := k.add(uint32(id), key); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	switch {
	case len(k.ids) == 0:
		return nil, errors.New("there are no keys: expected id:key, one per line")
	case bare && len(k.ids) > 1:
		return nil, errors.New("if there are several keys, each must have an id: id:key")
	}
	return k, nil
}

func withoutComments(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func parseKey(s string) (*Key, error) {
	secret, err := hex.DecodeString(s)
	if err != nil || len(secret) != keySize {
		// 32 bytes in Base64 are 43 digits and one padding character.
		secret, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	}
	if err != nil {
		return nil, fmt.Errorf("a key must be %d bytes in hexadecimal (%d digits) or Base64", keySize, 2*keySize)
	}
	return NewKey(secret)
}

func (k *Keys) add(id uint32, key *Key) error {
	for have, other := range k.keys {
		if have == id {
			return fmt.Errorf("the id %d is used twice", id)
		}
		if other.secret == key.secret {
			return fmt.Errorf("the key is the same as that with the id %d", have)
		}
	}
	k.ids = append(k.ids, id)
	k.keys[id] = key
	return nil
}

// IDs returns the key ids, newest first. The result must not be modified.
func (k *Keys) IDs() []uint32 {
	if k == nil {
		return nil
	}
	return k.ids
}

// Newest returns the id of the key that wraps the data keys of new content, and the key. It returns 0 and nil if there
// are no keys.
func (k *Keys) Newest() (uint32, *Key) {
	if k == nil {
		return 0, nil
	}
	return k.ids[0], k.keys[k.ids[0]]
}

// Get returns the key with the given id, or nil.
func (k *Keys) Get(id uint32) *Key {
	if k == nil {
		return nil
	}
	return k.keys[id]
}

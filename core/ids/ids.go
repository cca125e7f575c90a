// Package ids has the form in which clients see the IDs of versions and uploads.
//
// Both are sequences. A client that knew the form could compute the IDs of others from its own, and would see how many
// changes happened between two of them. So a Codec encrypts them:
//
//	block   the sequence (8 bytes, big endian), then "version\0" or "upload\0\0"
//	ID      AES-128 of the block, in Base64 with the alphabet A-Z a-z 0-9 . _ and without padding: 22 characters
//
// Each ID is a block of its own, so no mode of operation is needed, and equal sequences have equal IDs. The constant
// half makes 64 bits of the block redundant: a guess, an ID of another store, and the ID of an upload in the place of
// one of a version decrypt to a valid block with a probability of 2^-64, and are refused as malformed.
//
// Sequences up to a boundary have the plain form of earlier versions of ORCAS instead: 16 hexadecimal digits. So the IDs
// that clients stored before the upgrade remain valid, and each version has one ID, which never changes. Later sequences
// in plain form are refused, and so are encrypted sequences up to the boundary. The null version has the ID "null".
//
// # The record
//
// The key and the boundary are one record of the metadata store, of the kind Kind. It is part of the blocks, of
// snapshots and of backups, and of what a rebuild restores, so clients never lose their IDs. The value has 25 bytes: the
// version of the format (1), the boundary (8, big endian), and the key (16). The key is not encrypted: whoever can read
// the record can read the sequences beside it.
package ids

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"orcas/core"
	"orcas/internal/mutant"
)

// Kind is the kind of the record, and recordKey its key.
const (
	Kind      = "ids"
	recordKey = "1"
)

// Sizes of a record, in bytes.
const (
	keySize    = 16
	recordSize = 1 + 8 + keySize
)

// recordVersion is the version of the format of the record.
const recordVersion = 1

// The form of IDs.
const (
	null       = "null"
	plainSize  = 16
	textSize   = 22
	versionTag = uint64('v')<<56 | 'e'<<48 | 'r'<<40 | 's'<<32 | 'i'<<24 | 'o'<<16 | 'n'<<8
	uploadTag  = uint64('u')<<56 | 'p'<<48 | 'l'<<40 | 'o'<<32 | 'a'<<24 | 'd'<<16
)

// alphabet is that of S3's own IDs. No ID begins with "-", which programs would take for the beginning of a flag.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._"

var encoding = base64.NewEncoding(alphabet).WithPadding(base64.NoPadding).Strict()

// Codec converts IDs. A nil *Codec has no key, and uses the plain form for all of them. Its methods are safe for
// concurrent use.
type Codec struct {
	block   cipher.Block
	plain   core.Seq  // the last sequence whose ID is plain
	scratch sync.Pool // of *scratch
}

// scratch is memory for a conversion. It is not on the stack because arguments of an interface's methods escape.
type scratch struct {
	block [aes.BlockSize]byte
	text  [textSize]byte
}

// New returns a codec with a key of 16 bytes. The IDs of sequences up to plain have the plain form.
func New(key [keySize]byte, plain core.Seq) *Codec {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the size of the key is valid
	}
	return &Codec{block: block, plain: plain, scratch: sync.Pool{New: func() any { return new(scratch) }}}
}

// NewRecord returns a record with a new key for a store whose last sequence is last. The IDs of sequences up to last keep
// the plain form.
func NewRecord(last core.Seq) core.Record {
	value := make([]byte, recordSize)
	value[0] = recordVersion
	binary.BigEndian.PutUint64(value[1:], uint64(last))
	_, _ = rand.Read(value[recordSize-keySize:]) // never fails
	return core.Record{Kind: Kind, Key: recordKey, Value: value}
}

// Load returns the codec of a store, or nil if the store has no record.
func Load(ctx context.Context, meta core.Meta) (*Codec, error) {
	const op = "ids.Load"
	records, err := meta.Records(ctx, Kind, "", 1)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	value := records[0].Value
	switch {
	case len(value) == 0:
		return nil, core.E(op, core.Damaged, errors.New("the record with the key of version IDs is empty"))
	case value[0] > recordVersion:
		return nil, core.E(op, core.Unsupported, fmt.Errorf("a newer version of ORCAS wrote the record with the key of version IDs: "+
			"its format is %d, but this version supports only %d", value[0], recordVersion))
	case len(value) != recordSize:
		return nil, core.E(op, core.Damaged, fmt.Errorf("the record with the key of version IDs has %d bytes instead of %d", len(value), recordSize))
	}
	return New([keySize]byte(value[recordSize-keySize:]), core.Seq(binary.BigEndian.Uint64(value[1:]))), nil
}

// Version returns the ID of a version, or "" for core.Current, which does not identify a specific version.
func (c *Codec) Version(v core.Version) string {
	switch v {
	case core.Current:
		return ""
	case core.Null:
		return null
	}
	return c.format(uint64(v), versionTag)
}

// ParseVersion is the inverse of Version for nonempty IDs. It reports whether s is a valid ID.
func (c *Codec) ParseVersion(s string) (core.Version, bool) {
	if s == null {
		return core.Null, true
	}
	n, ok := c.parse(s, versionTag)
	return core.Version(n), ok
}

// CanonicalVersion returns the ID of a version in the form that Version returns. Hexadecimal digits are accepted in
// either case, but a permission must not depend on the case. If s is not a valid ID, it is returned unchanged.
func (c *Codec) CanonicalVersion(s string) string {
	if len(s) != plainSize { // other IDs have one form
		return s
	}
	if v, ok := c.ParseVersion(s); ok {
		return c.Version(v)
	}
	return s
}

// Upload returns the ID of an upload, or "" for 0, which is not an upload.
func (c *Codec) Upload(id core.UploadID) string {
	if id == 0 {
		return ""
	}
	return c.format(uint64(id), uploadTag)
}

// ParseUpload is the inverse of Upload. It reports whether s is a valid ID.
func (c *Codec) ParseUpload(s string) (core.UploadID, bool) {
	n, ok := c.parse(s, uploadTag)
	return core.UploadID(n), ok
}

// isPlain reports whether the ID of a sequence has the plain form.
func (c *Codec) isPlain(n uint64) bool { return c == nil || n <= uint64(c.plain) }

// format returns the ID of a sequence.
func (c *Codec) format(n, tag uint64) string {
	if c.isPlain(n) {
		return formatPlain(n)
	}
	s := c.scratch.Get().(*scratch)
	binary.BigEndian.PutUint64(s.block[:8], n)
	binary.BigEndian.PutUint64(s.block[8:], tag)
	c.block.Encrypt(s.block[:], s.block[:])
	encoding.Encode(s.text[:], s.block[:])
	id := string(s.text[:])
	c.scratch.Put(s)
	return id
}

// parse returns the sequence of an ID, and reports whether the ID is valid.
func (c *Codec) parse(id string, tag uint64) (uint64, bool) {
	switch {
	case len(id) == plainSize:
		n, ok := parsePlain(id)
		return n, ok && (c.isPlain(n) || mutant.Is("guessed-ids"))
	case len(id) != textSize || c == nil:
		return 0, false
	}
	s := c.scratch.Get().(*scratch)
	defer c.scratch.Put(s)
	copy(s.text[:], id)
	// The decoder skips line breaks, so it may return less than a block.
	if size, err := encoding.Decode(s.block[:], s.text[:]); err != nil || size != len(s.block) {
		return 0, false
	}
	c.block.Decrypt(s.block[:], s.block[:])
	n := binary.BigEndian.Uint64(s.block[:8])
	forged := binary.BigEndian.Uint64(s.block[8:]) != tag && !mutant.Is("forged-ids")
	if forged || c.isPlain(n) || !isSequence(n) {
		return 0, false
	}
	return n, true
}

// isSequence reports whether n is neither core.Current nor core.Null.
func isSequence(n uint64) bool {
	return core.Version(n) != core.Current && core.Version(n) != core.Null
}

// formatPlain returns a sequence in 16 hexadecimal digits.
func formatPlain(n uint64) string {
	var text [plainSize]byte
	const digits = "0123456789abcdef"
	for i := range text {
		text[i] = digits[n>>(60-4*i)&15]
	}
	return string(text[:])
}

// parsePlain is the inverse of formatPlain. It also accepts digits in upper case.
func parsePlain(s string) (uint64, bool) {
	n, err := strconv.ParseUint(s, 16, 64)
	return n, err == nil && isSequence(n)
}

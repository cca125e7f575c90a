package codec

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Dictionary is what small contents of a bucket have in common, in the format of RFC 8878. It may be used from many goroutines. What was compressed with it
// cannot be read without it. Both levels code alike with one: the better one takes four times as long (the tables of a dictionary have to be copied each time) for
// content that is 3 % smaller.
type Dictionary struct {
	id      uint32
	raw     []byte
	encoder func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

// The numbers that dictionaries of a store have: those that RFC 8878 leaves to private use.
const (
	MinDictionaryID = 1 << 15
	MaxDictionaryID = 1<<31 - 1
)

// maxDictionary is the size of the largest dictionary, in bytes.
const maxDictionary = 128 << 10

// NewDictionary reads a dictionary. ErrDamaged says that it is none, or one that this package does not make. raw must not change any more.
func NewDictionary(raw []byte) (*Dictionary, error) {
	if len(raw) > maxDictionary {
		return nil, fmt.Errorf("%w: a dictionary of %d bytes", ErrDamaged, len(raw))
	}
	info, err := zstd.InspectDictionary(raw)
	if err == nil && (info.ID() < MinDictionaryID || info.ID() > MaxDictionaryID) {
		err = errors.New("a number that is none of ours")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: dictionary: %w", ErrDamaged, err)
	}
	return &Dictionary{
		id: info.ID(), raw: raw,
		encoder: sync.OnceValue(func() *zstd.Encoder { return must(coder(Fast, raw)) }),
		decoder: sync.OnceValue(func() *zstd.Decoder { return must(decoder(raw)) }),
	}, nil
}

// ID returns the dictionary's number, which every frame compressed with it carries.
func (d *Dictionary) ID() uint32 { return d.id }

// Raw returns the dictionary as it is stored. It must not be changed.
func (d *Dictionary) Raw() []byte { return d.raw }

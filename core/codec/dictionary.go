package codec

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Dictionary is what small contents of a bucket have in common, in the format of RFC 8878. It may be used from many goroutines. What was compressed with it
// cannot be read without it.
type Dictionary struct {
	id      uint32
	raw     []byte
	fast    func() *zstd.Encoder
	better  func() *zstd.Encoder
	decoder func() *zstd.Decoder
}

// The numbers that dictionaries of a store have: those that RFC 8878 leaves to private use.
const (
	MinDictionaryID = 1 << 15
	MaxDictionaryID = 1<<31 - 1
)

// MaxDictionary is the size of the largest dictionary, in bytes.
const MaxDictionary = 64 << 10

// NewDictionary reads a dictionary. ErrDamaged says that it is none, or one that this package does not make. raw must not change any more.
func NewDictionary(raw []byte) (*Dictionary, error) {
	if len(raw) > 2*MaxDictionary {
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
		fast:    sync.OnceValue(func() *zstd.Encoder { return must(coder(Fast, raw)) }),
		better:  sync.OnceValue(func() *zstd.Encoder { return must(coder(Better, raw)) }),
		decoder: sync.OnceValue(func() *zstd.Decoder { return must(decoder(raw)) }),
	}, nil
}

// ID returns the dictionary's number, which every frame compressed with it carries.
func (d *Dictionary) ID() uint32 { return d.id }

// Raw returns the dictionary as it is stored. It must not be changed.
func (d *Dictionary) Raw() []byte { return d.raw }

func (d *Dictionary) encoder(l Level) *zstd.Encoder {
	if l == Better {
		return d.better()
	}
	return d.fast()
}

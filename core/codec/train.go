package codec

import (
	"fmt"

	"github.com/klauspost/compress/dict"

	"orcas/core"
)

const (
	dictionaryHash = 6 // minimum length of a repetition, in bytes
	minSamples     = 16
	trainedSize    = 16 << 10 // size of a dictionary, in bytes; twice as much saves 1% more, but slows down reads
)

// Train builds a dictionary with the given number (MinDictionaryID to MaxDictionaryID) from samples of small content.
// It fails if there are too few samples, or if they have too little in common.
func Train(id uint32, samples [][]byte) (d *Dictionary, err error) {
	if len(samples) < minSamples {
		return nil, fmt.Errorf("cannot build a dictionary from %d samples: at least %d are needed", len(samples), minSamples)
	}
	defer func() {
		if r := recover(); r != nil { // the builder panics on some input; the dictionary is optional
			d, err = nil, fmt.Errorf("cannot build a dictionary from these samples: %v", r)
		}
	}()
	raw, err := dict.BuildRawDict(samples, dict.Options{MaxDictSize: trainedSize, HashBytes: dictionaryHash})
	if err != nil {
		return nil, fmt.Errorf("cannot build a dictionary from these samples: %w", err)
	}
	return NewDictionary(id, raw)
}

// Stored returns the total stored size of samples in bytes, each of them compressed separately with the given level and
// dictionary (nil: none).
func Stored(d *Dictionary, level core.Compression, samples [][]byte) (stored int) {
	var buf []byte
	for _, s := range samples {
		e := Encoder{Level: level, Dictionary: d}
		if len(s) < minSize {
			stored += len(s)
			continue
		}
		buf = e.compress(buf[:0], s)
		stored += min(len(buf), len(s))
	}
	return stored
}

package codec

import (
	"fmt"

	"github.com/klauspost/compress/dict"
)

const (
	dictionaryHash = 6 // how many bytes a repetition has at least
	minSamples     = 16
	trainedSize    = 16 << 10 // of dictionaries, in bytes: twice as much saves 1 % more, and takes longer to read with
)

// Train makes a dictionary of that number (MinDictionaryID to MaxDictionaryID) from samples of small contents. An error says that they have too little in
// common, or are too few.
func Train(id uint32, samples [][]byte) (d *Dictionary, err error) {
	if len(samples) < minSamples {
		return nil, fmt.Errorf("codec: %d samples are too few for a dictionary", len(samples))
	}
	defer func() {
		if r := recover(); r != nil { // the builder is not made for every input, and nothing depends on it
			d, err = nil, fmt.Errorf("codec: no dictionary can be made of these samples: %v", r)
		}
	}()
	raw, err := dict.BuildRawDict(samples, dict.Options{MaxDictSize: trainedSize, HashBytes: dictionaryHash})
	if err != nil {
		return nil, fmt.Errorf("codec: no dictionary can be made of these samples: %w", err)
	}
	return NewDictionary(id, raw)
}

// Stored returns how many bytes samples take at a level with a dictionary, or without one (nil), each by itself.
func Stored(d *Dictionary, level Level, samples [][]byte) (stored int) {
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

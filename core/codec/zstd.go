package codec

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"orcas/core/frame"
)

const (
	minGain    = 16  // what does not shrink by at least a sixteenth is stored as it is: reading it again then costs nothing
	minSize    = 64  // shorter content is not tried, in bytes
	samples    = 4   // so many pieces of a frame are looked at before all of it is compressed,
	sampleSize = 128 // ... of so many bytes each
	maxSkip    = 32  // the most frames that are stored unlooked at, in a row

	// Random bytes are equal in 1 of 256 pairs, and 512 of them come within 20 % of that. Base64 has 4 times as many equal pairs, text 15 times.
	evenness = 130 // %, beyond which compression is tried
)

// sampler decides which frames are worth trying: a look at a part of the frame comes first, and after frames that did not shrink so many are left alone, twice
// as many each time.
type sampler struct {
	skip, next int // frames to be left alone now, and the next time
}

// worthwhile says whether a frame may shrink.
func (s *sampler) worthwhile(plain []byte) bool {
	if len(plain) < minSize {
		return false
	}
	if s.skip > 0 {
		s.skip--
		return false
	}
	if Compressible(plain) {
		return true
	}
	s.learn(false)
	return false
}

func (s *sampler) learn(shrunk bool) {
	if shrunk {
		s.skip, s.next = 0, 0
		return
	}
	s.next = min(max(1, 2*s.next), maxSkip)
	s.skip = s.next
}

// Compressible says whether content may shrink: whether bytes taken from all over it are spread less evenly than random ones. What is even and repeats itself all
// the same, such as a random piece sent twice, is not seen.
func Compressible(plain []byte) bool {
	var count [256]int32
	n := min(len(plain), samples*sampleSize)
	if len(plain) <= n {
		for _, c := range plain {
			count[c]++
		}
	} else {
		stride := (len(plain) - sampleSize) / (samples - 1)
		for i := range samples {
			for _, c := range plain[i*stride : i*stride+sampleSize] {
				count[c]++
			}
		}
	}
	pairs := -n // of equal bytes
	for i := range count {
		pairs += int(count[i]) * int(count[i])
	}
	return 256*pairs > evenness*n*(n-1)/100
}

// Coders are made of tables: so many of them work at the same time, and others wait. Those without a dictionary take up to 5 MiB each, those
// with one 1.
const (
	maxCoders           = 8
	maxDictionaryCoders = 2
)

// coder returns an encoder for frames. Its tables are made when it is first used.
func coder(level Level, dictionary *Dictionary) (*zstd.Encoder, error) {
	speed, together := zstd.SpeedFastest, maxCoders
	if level == Better {
		speed = zstd.SpeedBetterCompression
	}
	if dictionary != nil {
		together = maxDictionaryCoders
	}
	options := []zstd.EOption{
		zstd.WithEncoderLevel(speed), zstd.WithEncoderConcurrency(min(together, runtime.GOMAXPROCS(0))), zstd.WithWindowSize(frame.MaxPlain),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true),
	}
	if dictionary != nil {
		options = append(options, zstd.WithEncoderDictRaw(dictionary.id, dictionary.raw))
	}
	return zstd.NewWriter(nil, options...)
}

// maxDecoders is how many frames are decoded at the same time; others wait.
const maxDecoders = 16

// decoder returns a decoder that never makes more than fits where it decodes to, nor more than size bytes.
func decoder(size uint64, together int) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(together), zstd.WithDecoderMaxMemory(size), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
}

// The coders of content without a dictionary, made once. The options are constants, so nothing can fail.
var (
	fastCoder    = sync.OnceValue(func() *zstd.Encoder { return must(coder(Fast, nil)) })
	betterCoder  = sync.OnceValue(func() *zstd.Encoder { return must(coder(Better, nil)) })
	plainDecoder = sync.OnceValue(func() *zstd.Decoder { return must(decoder(frame.MaxPlain, min(maxDecoders, runtime.GOMAXPROCS(0)))) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (e *Encoder) compress(dst, plain []byte) []byte {
	switch {
	case e.Dictionary != nil:
		return e.Dictionary.encoder().EncodeAll(plain, dst)
	case e.Level == Better:
		return betterCoder().EncodeAll(plain, dst)
	}
	return fastCoder().EncodeAll(plain, dst)
}

// slack is how much longer than its content the room for it is, in bytes: then the decoder copies without looking at each step how much is left.
const slack = 16

// decompress makes size bytes of plain content in dst.
func decompress(dictionary *Dictionary, dst, stored []byte, size int) ([]byte, error) {
	if cap(dst) < size+slack {
		dst = make([]byte, 0, size+slack)
	}
	if dictionary != nil {
		var h zstd.Header
		if err := h.Decode(stored); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if h.DictionaryID != 0 {
			return dictionary.decompress(dst, stored, &h, size)
		}
	}
	plain, err := plainDecoder().DecodeAll(stored, dst[:0:size+slack])
	switch {
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return nil, ErrNoDictionary
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return plain, nil
}

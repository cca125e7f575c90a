package codec

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"orcas/core"
	"orcas/core/frame"
)

const (
	minGain    = 16  // frames that shrink by less than 1/16 are stored unchanged, so that reads are cheap
	minSize    = 64  // in bytes; shorter content is not compressed
	samples    = 4   // number of pieces of a frame to sample before compressing it
	sampleSize = 128 // size of each piece, in bytes
	maxSkip    = 32  // maximum number of consecutive frames to store without sampling

	// In random data, the bytes of 1 of 256 pairs are equal; samples of 512 bytes are within 20% of that. Base64 has 4
	// times as many equal pairs, and text 15 times as many.
	evenness = 130 // the threshold for trying compression, as a percentage of the equal pairs in random data
)

// sampler selects the frames that are worth compressing. It samples a part of each frame. After a frame that does not
// shrink, it skips some frames, twice as many each time.
type sampler struct {
	skip, next int // number of frames to skip now, and after the next frame that does not shrink
}

// worthwhile reports whether compression may shrink a frame.
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

// Compressible reports whether compression may shrink content: whether a sample of its bytes is distributed less evenly
// than random data. It does not detect content that is evenly distributed but repetitive, such as the same random data
// twice.
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
	pairs := -n // number of ordered pairs of equal bytes
	for i := range count {
		pairs += int(count[i]) * int(count[i])
	}
	return 256*pairs > evenness*n*(n-1)/100
}

// Encoders have large tables, so this is the maximum number that run concurrently; further calls wait. An encoder takes
// up to 5 MiB without a dictionary, and 1 MiB with one.
const (
	maxCoders           = 8
	maxDictionaryCoders = 2
)

// coder returns an encoder for frames. Its tables are allocated when it is first used.
func coder(level core.Compression, dictionary *Dictionary) (*zstd.Encoder, error) {
	speed, together := zstd.SpeedFastest, maxCoders
	if level == core.CompressionBetter {
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

// maxDecoders is the maximum number of frames that are decoded concurrently; further calls wait.
const maxDecoders = 16

// decoder returns a decoder that writes at most as many bytes as fit in its destination, and at most size bytes.
func decoder(size uint64, together int) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(together), zstd.WithDecoderMaxMemory(size), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
}

// The encoders and the decoder of content without a dictionary, created on first use. The options are constants, so
// creating them cannot fail.
var (
	fastCoder    = sync.OnceValue(func() *zstd.Encoder { return must(coder(core.CompressionFast, nil)) })
	betterCoder  = sync.OnceValue(func() *zstd.Encoder { return must(coder(core.CompressionBetter, nil)) })
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
	case e.Level == core.CompressionBetter:
		return betterCoder().EncodeAll(plain, dst)
	}
	return fastCoder().EncodeAll(plain, dst)
}

// slack is the number of bytes by which a buffer is larger than needed, so that the decoder can copy without checking
// the available space at each step.
const slack = 16

// decompress decodes stored to size bytes of plain content in dst.
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

package codec

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/klauspost/compress"
	"github.com/klauspost/compress/zstd"

	"orcas/core/frame"
)

const (
	minGain    = 16       // what does not shrink by at least a sixteenth is stored as it is: reading it again then costs nothing
	minSize    = 64       // shorter content is not tried, in bytes
	sampleSize = 16 << 10 // how much of a frame is looked at before all of it is compressed, in bytes
	maxSkip    = 32       // the most frames that are stored unlooked at, in a row

	minEstimate = 0.08 // of compress.Estimate: random bytes have up to 0.06, Base64 of them 0.2, text 0.35
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

// Compressible says whether content may shrink, from a piece of its middle: headers stand at its beginning, and are no sample.
func Compressible(plain []byte) bool {
	if len(plain) > sampleSize {
		from := (len(plain) - sampleSize) / 2
		plain = plain[from : from+sampleSize]
	}
	return compress.Estimate(plain) > minEstimate
}

// Coders are made of tables: so many of them work at the same time, and others wait. Those without a dictionary take up to 5 MiB each, those
// with one 1.
const (
	maxCoders           = 8
	maxDictionaryCoders = 2
)

// coder returns an encoder for frames. Its tables are made when it is first used.
func coder(level Level, dictionary []byte) (*zstd.Encoder, error) {
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
		options = append(options, zstd.WithEncoderDict(dictionary))
	}
	return zstd.NewWriter(nil, options...)
}

// maxDecoders is how many frames are decoded at the same time; others wait.
const maxDecoders = 16

// decoder returns a decoder that never makes more than fits where it decodes to.
func decoder(dictionary []byte) (*zstd.Decoder, error) {
	options := []zstd.DOption{
		zstd.WithDecoderConcurrency(min(maxDecoders, runtime.GOMAXPROCS(0))), zstd.WithDecoderMaxMemory(frame.MaxPlain), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderLowmem(true),
	}
	if dictionary != nil {
		options = append(options, zstd.WithDecoderDicts(dictionary))
	}
	return zstd.NewReader(nil, options...)
}

// The coders of content without a dictionary, made once. The options are constants, so nothing can fail.
var (
	fastCoder    = sync.OnceValue(func() *zstd.Encoder { return must(coder(Fast, nil)) })
	betterCoder  = sync.OnceValue(func() *zstd.Encoder { return must(coder(Better, nil)) })
	plainDecoder = sync.OnceValue(func() *zstd.Decoder { return must(decoder(nil)) })
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

// decompress makes size bytes of plain content in dst.
func decompress(dictionary *Dictionary, dst, stored []byte, size int) ([]byte, error) {
	if cap(dst) < size {
		dst = make([]byte, 0, size)
	}
	d := plainDecoder()
	if dictionary != nil {
		d = dictionary.decoder()
	}
	plain, err := d.DecodeAll(stored, dst[:0:size])
	switch {
	case errors.Is(err, zstd.ErrUnknownDictionary):
		return nil, ErrNoDictionary
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return plain, nil
}

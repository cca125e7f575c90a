package checksum

import (
	"encoding/binary"
	"sync"
)

// A CRC of width w is the remainder of a polynomial over GF(2). Both widths are computed in 64 bits, reflected: bit 63
// is the coefficient of x^0, and a CRC of 32 bits is in the upper half. low is the bit of the highest coefficient.
type field struct {
	poly uint64
	low  uint64
	// powers returns x^(2^i) for i = 0..66: enough for the number of bits in any content.
	powers func() *[67]uint64
}

func makeField(poly, low uint64) *field {
	f := &field{poly: poly, low: low}
	f.powers = sync.OnceValue(func() *[67]uint64 {
		var t [67]uint64
		t[0] = 1 << 62
		for i := 1; i < len(t); i++ {
			t[i] = f.multiply(t[i-1], t[i-1])
		}
		return &t
	})
	return f
}

var (
	fieldCRC32     = makeField(0xedb88320<<32, 1<<32)
	fieldCRC32C    = makeField(0x82f63b78<<32, 1<<32)
	fieldCRC64NVME = makeField(0x9a6c9329ac4bc9b5, 1)
)

// multiply returns a*b modulo the polynomial.
func (f *field) multiply(a, b uint64) uint64 {
	var product uint64
	for ; a != 0; a <<= 1 {
		if a>>63 == 1 {
			product ^= b
		}
		if b&f.low != 0 {
			b = (b^f.low)>>1 ^ f.poly
		} else {
			b >>= 1
		}
	}
	return product
}

// shift returns crc*x^(8*n): the CRC after n more zero bytes.
func (f *field) shift(crc uint64, n int64) uint64 {
	powers := f.powers()
	for i := 3; n != 0; i, n = i+1, n>>1 {
		if n&1 == 1 {
			crc = f.multiply(powers[i], crc)
		}
	}
	return crc
}

// CanCombine reports whether the checksum of content can be computed from the checksums of its parts.
func (a Algorithm) CanCombine() bool { return a == CRC32 || a == CRC32C || a == CRC64NVME }

// Combine returns the checksum of content that consists of two parts, from the checksum of each and the size of the
// second in bytes. It returns ErrMalformed if checksums of a cannot be combined, a checksum has the wrong size, or
// size2 is negative.
//
// The initial and final inversions of a CRC cancel out: crc(AB) = crc(A)*x^(8*|B|) + crc(B), as in zlib.
func Combine(a Algorithm, sum1, sum2 []byte, size2 int64) ([]byte, error) {
	if !a.CanCombine() || len(sum1) != a.Size() || len(sum2) != a.Size() || size2 < 0 {
		return nil, ErrMalformed
	}
	if a == CRC64NVME {
		crc := fieldCRC64NVME.shift(binary.BigEndian.Uint64(sum1), size2) ^ binary.BigEndian.Uint64(sum2)
		return binary.BigEndian.AppendUint64(nil, crc), nil
	}
	f := fieldCRC32
	if a == CRC32C {
		f = fieldCRC32C
	}
	crc := f.shift(uint64(binary.BigEndian.Uint32(sum1))<<32, size2) >> 32
	return binary.BigEndian.AppendUint32(nil, uint32(crc)^binary.BigEndian.Uint32(sum2)), nil
}

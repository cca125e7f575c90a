package sdk

import "fmt"

// Sizes of multipart uploads, in bytes. The limits are those of S3.
const (
	partSizeMin = 5 << 20 // of every part but the last
	partSizeMax = 5 << 30
	partsMax    = 10_000

	// partSizeDefault is the part size of objects of up to 78 GiB. Parts of this size are read once, into a buffer.
	partSizeDefault = 8 << 20

	// putMax is the size of the largest object that Upload sends in one PUT.
	putMax = 16 << 20

	// streamParts is the number of parts after which the part size of a stream of unknown size doubles.
	streamParts = 1000
)

// partPlan is the division of content into parts. It depends on the size of the content only, unless the caller asks for
// a part size: an upload of the same content always has the same parts, so instant upload finds them.
type partPlan struct {
	size     int64 // of the content; -1 if unknown
	partSize int64
}

// planParts divides content of the given size; -1 means unknown. A wish of 0 means the default part size. It returns an
// error if the wish is not a possible part size.
func planParts(size, wish int64) (partPlan, error) {
	p := partPlan{size: size, partSize: partSizeDefault}
	switch {
	case wish != 0 && (wish < partSizeMin || wish > partSizeMax):
		return p, fmt.Errorf("sdk: a part size of %d bytes is not between %d (5 MiB) and %d (5 GiB)", wish, int64(partSizeMin), int64(partSizeMax))
	case size > partSizeMax*partsMax:
		return p, fmt.Errorf("sdk: %d bytes are more than an object can have (%d)", size, int64(partSizeMax*partsMax))
	case wish != 0 && size > wish*partsMax:
		return p, fmt.Errorf("sdk: %d bytes in parts of %d bytes are more than %d parts", size, wish, partsMax)
	case wish != 0:
		p.partSize = wish
		return p, nil
	}
	for p.partSize < partSizeMax && p.partSize*partsMax < size {
		p.partSize *= 2
	}
	p.partSize = min(p.partSize, partSizeMax)
	return p, nil
}

// single reports whether the content is sent in one PUT. The size must be known.
func (p partPlan) single() bool {
	if p.partSize < putMax && p.partSize != partSizeDefault {
		return p.size <= p.partSize
	}
	return p.size <= putMax
}

// count returns the number of parts. The size must be known.
func (p partPlan) count() int { return int(max((p.size+p.partSize-1)/p.partSize, 1)) }

// part returns the offset and the length of part n, from 1. The size must be known.
func (p partPlan) part(n int) (offset, length int64) {
	offset = int64(n-1) * p.partSize
	return offset, min(p.partSize, p.size-offset)
}

// streamPart returns the length of part n, from 1, of a stream of unknown size whose first parts have the given size.
// The first parts are those of an object of known size. Later ones are larger, so that 10,000 parts are enough.
func streamPart(n int, partSize int64) int64 {
	return min(partSize<<((n-1)/streamParts), partSizeMax)
}

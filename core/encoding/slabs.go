package encoding

import (
	"encoding/hex"
	"unsafe"

	"orcas/core"
)

// ObjectDecoder decodes the objects of a page with fewer allocations than DecodeObject: their small slices and their
// ETags share larger pieces of memory, which are freed when the last object that uses them is. The zero value is ready
// to use. It is for one goroutine.
type ObjectDecoder struct {
	sums     []core.Checksum
	attrs    []core.Attr
	segments []core.Segment
	text     []byte
}

// Decode is like DecodeObject. A nil decoder allocates each slice by itself.
func (d *ObjectDecoder) Decode(b []byte, o *core.ObjectInfo, born core.DataID) error {
	c := coder{b: b, decoding: true, share: true, slabs: d}
	c.object(o, false, born)
	return c.done()
}

// The maximum lengths of slabs. The first one has a sixteenth of it.
const (
	slabElements = 128
	slabText     = 4 << 10
)

// take returns a slice of n elements with their zero value. It has no room for more, so an append copies it. If the slab
// is used up, take allocates the next one, which has at most most elements, unless n is larger.
func take[T any](slab *[]T, n, most int) []T {
	if n > cap(*slab)-len(*slab) {
		*slab = make([]T, 0, max(n, min(most, max(most/16, 4*cap(*slab)))))
	}
	from := len(*slab)
	*slab = (*slab)[:from+n]
	return (*slab)[from : from+n : from+n]
}

// newSlice sets v to a slice of n elements with their zero value.
func newSlice[T any](c *coder, v *[]T, n int) {
	if c.slabs != nil {
		switch v := any(v).(type) {
		case *[]core.Checksum:
			*v = take(&c.slabs.sums, n, slabElements)
			return
		case *[]core.Attr:
			*v = take(&c.slabs.attrs, n, slabElements)
			return
		case *[]core.Segment:
			*v = take(&c.slabs.segments, n, slabElements)
			return
		}
	}
	*v = make([]T, n)
}

// hex returns bytes as a string of hexadecimal digits.
func (c *coder) hex(b []byte) string {
	if c.slabs == nil {
		return hex.EncodeToString(b)
	}
	// The string stays as it is, since take returns each byte only once.
	text := take(&c.slabs.text, hex.EncodedLen(len(b)), slabText)
	hex.Encode(text, b)
	return unsafe.String(unsafe.SliceData(text), len(text))
}

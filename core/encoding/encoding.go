// Package encoding defines the binary form of core's nouns and changes, which is used in the records in blocks, the
// rows of snapshots, and the columns of databases. SizeBound bounds the size of a change before it is encoded.
//
// Numbers are unsigned LEB128 (encoding/binary's Uvarint). Strings and byte strings begin with their length. Times are
// milliseconds since 1970, signed as in Varint, plus 1; 0 is the zero time. Most structs begin with a bit set (two
// bytes, little endian) of the optional fields that are present, lowest bit first. The required fields follow, and then
// those optional fields in order; one with its zero value is omitted, and a flag is only a bit. A new field takes the
// next bit, so old data remains readable; an unknown bit is an error (Unsupported). A list of changes begins with
// encodingVersion and the number of changes. Each change consists of its kind, the difference between its stamp and the
// previous one, the length of its struct, and its struct. In a list of version 2, structs leave out what the changes
// before have already said (see listState), and all structs of changes leave out what follows from other fields.
//
// docs/format.md specifies the format in tables.
package encoding

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"orcas/core"
	"orcas/internal/checksum"
)

// encodingVersion is the first byte of a list of changes. DecodeChanges also decodes version 1, which had no listState,
// and lengths of four bytes, little endian.
const encodingVersion = 2

// Version is the version of lists of changes that this program writes.
const Version = encodingVersion

// attrNames are the attribute names that are encoded as a number (index + 1) instead of in full. Only append to it.
var attrNames = [...]string{
	"Content-Type", "Content-Encoding", "Content-Disposition", "Content-Language", "Cache-Control", "Expires",
	"X-Amz-Storage-Class", "X-Amz-Website-Redirect-Location",
}

var errMalformed = errors.New("malformed encoding")

// coder encodes values, or decodes them if decoding is set. The methods and functions that take a pointer to a value
// work in both directions, so each struct has one description of its form: an encoder appends the value to b, without
// changing it, and a decoder sets it to the next value in b. After its first error a decoder sets zero values.
type coder struct {
	b        []byte // what was encoded, or what is still to be decoded
	decoding bool
	share    bool // whether decoded strings and byte strings share the memory of b
	keyed    bool // whether an encoder encodes a row of a database, which is identified by other columns
	lean     bool // whether an encoder leaves out what can be derived; a decoder always understands both forms
	list     *listState
	slabs    *ObjectDecoder // memory for small slices; nil: each is allocated by itself
	err      error
}

// listState has values of the last change in a list, from which those of the next one differ little.
type listState struct {
	ms         int64       // the last time
	next       core.Extent // begins where the last extent ended
	data       core.DataID // the last content in a DataInfo
	key, owner string
}

func (c *coder) fail() {
	if c.err == nil {
		c.err = errMalformed
	}
	c.b = nil
}

// done returns the first error of a decoder, which must have decoded everything.
func (c *coder) done() error {
	if c.err == nil && len(c.b) != 0 {
		c.err = fmt.Errorf("%w: %d bytes after its end", errMalformed, len(c.b))
	}
	return c.err
}

// uint decodes a number.
func (c *coder) uint() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 { // a fast path for the most common case
		v := c.b[0]
		c.b = c.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

// int decodes a number that must fit in an int64.
func (c *coder) int() int64 {
	v := c.uint()
	if v > math.MaxInt64 {
		c.fail()
		return 0
	}
	return int64(v)
}

// count decodes the length of a list whose elements have at least min bytes each. It fails if the rest of the input is
// too short for such a list.
func (c *coder) count(min int) int {
	v := c.uint()
	if v > uint64(len(c.b)/min) {
		c.fail()
		return 0
	}
	return int(v)
}

// raw decodes n bytes, which share the memory of b.
func (c *coder) raw(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.fail()
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

// byte decodes a byte.
func (c *coder) byte() byte {
	if v := c.raw(1); v != nil {
		return v[0]
	}
	return 0
}

// number handles a number, which must not be negative.
func number[T ~int | ~int64 | ~uint32 | ~uint64](c *coder, v *T) {
	var zero T
	switch {
	case !c.decoding && uint64(*v) < 0x80:
		c.b = append(c.b, byte(*v))
	case !c.decoding:
		c.b = binary.AppendUvarint(c.b, uint64(*v))
	case zero-1 < zero: // the type is signed
		*v = T(c.int())
	default:
		*v = T(c.uint())
	}
}

// octet handles a number of one byte.
func octet[T ~uint8](c *coder, v *T) {
	if c.decoding {
		*v = T(c.byte())
	} else {
		c.b = append(c.b, byte(*v))
	}
}

// bool handles a byte that is 1 or 0, and returns the value.
func (c *coder) bool(v *bool) bool {
	if c.decoding {
		*v = c.byte() == 1
	} else if *v {
		c.b = append(c.b, 1)
	} else {
		c.b = append(c.b, 0)
	}
	return *v
}

// fixed handles bytes whose number is known.
func (c *coder) fixed(v []byte) {
	if c.decoding {
		copy(v, c.raw(len(v)))
	} else {
		c.b = append(c.b, v...)
	}
}

func (c *coder) string(v *string) {
	if !c.decoding {
		c.b = append(binary.AppendUvarint(c.b, uint64(len(*v))), *v...)
		return
	}
	raw := c.raw(c.count(1))
	if c.share {
		*v = unsafe.String(unsafe.SliceData(raw), len(raw))
	} else {
		*v = string(raw)
	}
}

func (c *coder) bytes(v *[]byte) {
	if !c.decoding {
		c.b = append(binary.AppendUvarint(c.b, uint64(len(*v))), *v...)
		return
	}
	*v = c.raw(c.count(1))
	if !c.share {
		*v = append([]byte(nil), *v...)
	}
}

// maxShared is the maximum number of bytes that a string shares with the previous one, which bounds the memory that a
// short encoding can take.
const maxShared = 1024

// shared handles a string in a list as the length of the prefix that it shares with the previous one, and the rest.
func (c *coder) shared(v, previous *string) {
	n := 0
	if !c.decoding {
		for limit := min(len(*v), len(*previous), maxShared); n < limit && (*v)[n] == (*previous)[n]; n++ {
		}
	}
	number(c, &n)
	if !c.decoding {
		rest := (*v)[n:]
		c.string(&rest)
	} else if n > min(len(*previous), maxShared) {
		c.fail()
	} else if c.string(v); n > 0 {
		*v = (*previous)[:n] + *v
	}
	*previous = *v
}

// zigzag maps signed numbers to unsigned ones, as encoding/binary's Varint does.
func zigzag(n int64) uint64 { return uint64(n<<1 ^ n>>63) }

func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

// time handles a time as milliseconds since 1970 or, in a list, since the last time.
func (c *coder) time(v *time.Time) {
	var last int64
	if c.list != nil {
		last = c.list.ms
	}
	n := uint64(0)
	if !c.decoding && !v.IsZero() {
		n = zigzag(v.UnixMilli()-last) + 1
	}
	if number(c, &n); c.decoding {
		if *v = (time.Time{}); n != 0 {
			*v = time.UnixMilli(last + unzigzag(n-1)).UTC()
		}
	}
	if c.list != nil && n != 0 {
		c.list.ms = v.UnixMilli()
	}
}

// dataID handles the number of the content of a DataInfo.
func (c *coder) dataID(v *core.DataID) {
	if c.list == nil {
		number(c, v)
		return
	}
	n := zigzag(int64(*v - c.list.data))
	if number(c, &n); c.decoding {
		*v = c.list.data + core.DataID(unzigzag(n))
	}
	c.list.data = *v
}

// list handles the length of a list whose elements have at least min bytes each. A decoder creates the list. The caller
// handles the elements.
func list[T any](c *coder, v *[]T, min int) {
	if !c.decoding {
		c.b = binary.AppendUvarint(c.b, uint64(len(*v)))
		return
	}
	*v = nil
	if n := c.count(min); n > 0 {
		newSlice(c, v, n)
	}
}

// pointee returns the value that v points to; a decoder allocates it.
func pointee[T any](c *coder, v **T) *T {
	if c.decoding {
		*v = new(T)
	}
	return *v
}

// fields is the bit set of a struct. Its methods, and the functions that take fields, handle the optional fields in
// their order; a field with its zero value is not present.
type fields struct {
	c   *coder
	at  int    // offset of the bit set in an encoder's b
	bit uint16 // the next field
	set uint16
}

// fields begins a struct that has n optional fields. The caller handles its required fields and then the optional ones,
// and calls end.
func (c *coder) fields(n int) fields {
	f := fields{c: c, at: len(c.b), bit: 1}
	if !c.decoding {
		c.b = append(c.b, 0, 0)
		return f
	}
	if v := c.raw(2); v != nil {
		f.set = binary.LittleEndian.Uint16(v)
	}
	if f.set>>n != 0 && c.err == nil {
		c.err = core.E("encoding.decode", core.Unsupported, fmt.Errorf(
			"a struct has the fields %#x, but this version of ORCAS supports only the first %d: a newer version wrote it", f.set, n))
		c.b, f.set = nil, 0
	}
	return f
}

// has reports whether the next field is present, so the caller must handle it. An encoder records that in the bit set;
// a decoder ignores the argument.
func (f *fields) has(present bool) bool {
	if f.c.decoding {
		present = f.set&f.bit != 0
	} else if present {
		f.set |= f.bit
	}
	f.bit <<= 1
	return present
}

func (f *fields) end() {
	if !f.c.decoding {
		binary.LittleEndian.PutUint16(f.c.b[f.at:], f.set)
	}
}

// flag handles a field that is only a bit, and returns it.
func (f *fields) flag(v *bool) bool {
	present := f.has(*v)
	if f.c.decoding {
		*v = present
	}
	return present
}

func optionalNumber[T ~int | ~int64 | ~uint32 | ~uint64](f *fields, v *T) {
	if f.has(*v != 0) {
		number(f.c, v)
	}
}

func optionalOctet[T ~uint8](f *fields, v *T) {
	if f.has(*v != 0) {
		octet(f.c, v)
	}
}

func (f *fields) string(v *string) {
	if f.has(*v != "") {
		f.c.string(v)
	}
}

func (f *fields) bytes(v *[]byte) {
	if f.has(len(*v) > 0) {
		f.c.bytes(v)
	}
}

func (f *fields) time(v *time.Time) {
	if f.has(!v.IsZero()) {
		f.c.time(v)
	}
}

func (f *fields) sums(v *[]core.Checksum) {
	if f.has(len(*v) > 0) {
		f.c.sums(v)
	}
}

func (f *fields) attrs(v *[]core.Attr) {
	if f.has(len(*v) > 0) {
		f.c.attrs(v)
	}
}

func (f *fields) lock(v *core.Lock) {
	if f.has(*v != core.Lock{}) {
		f.c.lock(v)
	}
}

// etag handles an ETag. An MD5, with or without a part count, is encoded as the count + 1 and 16 bytes; any other ETag as
// 0 and a string.
func (c *coder) etag(v *string) {
	var md5 [16]byte
	n := uint64(0)
	if !c.decoding {
		n = parseETag(*v, &md5)
	}
	if number(c, &n); n == 0 {
		c.string(v)
		return
	}
	if c.fixed(md5[:]); !c.decoding {
		return
	}
	if *v = c.hex(md5[:]); n > 1 {
		*v += "-" + strconv.FormatUint(n-1, 10)
	}
}

// parseETag decodes an ETag that is an MD5, and returns its part count + 1. It returns 0 for any other ETag.
func parseETag(etag string, md5 *[16]byte) uint64 {
	hash, count, dash := strings.Cut(etag, "-")
	n, err := 0, error(nil)
	if dash {
		n, err = strconv.Atoi(count)
	}
	if len(hash) != 2*len(md5) || err != nil || n < 0 || dash && (n == 0 || strconv.Itoa(n) != count) {
		return 0
	}
	if _, err := hex.Decode(md5[:], []byte(hash)); err != nil || strings.ContainsAny(hash, "ABCDEF") {
		return 0
	}
	return uint64(n) + 1
}

// usualSum marks the algorithm of a checksum that is not composite and has the size of its algorithm.
const usualSum = 0x80

// sums handles the number of checksums and, for each of them, the algorithm, the number of parts + 1 (0 unless it is
// composite), and the value. In the lean form, only the algorithm with usualSum and the bytes of the value are encoded.
func (c *coder) sums(v *[]core.Checksum) {
	list(c, v, 3)
	for i := range *v {
		s := &(*v)[i]
		if c.usualSum(s) {
			continue
		}
		parts := uint64(0)
		if s.Composite {
			parts = uint64(s.Parts) + 1
		}
		if number(c, &parts); c.decoding && parts > 0 {
			s.Composite, s.Parts = true, int(parts-1)
		}
		c.bytes(&s.Value)
	}
}

// usualSum handles the algorithm of a checksum, and reports whether the checksum has the lean form. If so, it handles the
// value, too.
func (c *coder) usualSum(s *core.Checksum) bool {
	if !c.decoding {
		usual := c.lean && !s.Composite && s.Algorithm.Valid() && len(s.Value) == s.Algorithm.Size()
		if usual {
			c.b = append(append(c.b, byte(s.Algorithm|usualSum)), s.Value...)
		} else {
			c.b = append(c.b, byte(s.Algorithm))
		}
		return usual
	}
	s.Algorithm = checksum.Algorithm(c.byte())
	if s.Algorithm&usualSum == 0 {
		return false
	}
	if s.Algorithm &^= usualSum; !s.Algorithm.Valid() {
		c.fail()
	} else if s.Value = c.raw(s.Algorithm.Size()); !c.share {
		s.Value = append([]byte(nil), s.Value...)
	}
	return true
}

func (c *coder) attrs(v *[]core.Attr) {
	list(c, v, 2)
	for i := range *v {
		a := &(*v)[i]
		known := slices.Index(attrNames[:], a.Name) + 1 // a decoder has no name yet, so it is 0
		number(c, &known)
		switch {
		case known == 0:
			c.string(&a.Name)
		case known > len(attrNames):
			c.fail()
		case c.decoding:
			a.Name = attrNames[known-1]
		}
		c.string(&a.Value)
	}
}

// segments handles the number of segments, and Data, From and Length of each. With infos, each segment is followed by 1
// and its Info, or by 0 if it has none.
func (c *coder) segments(v *[]core.Segment, infos bool) {
	list(c, v, 3)
	for i := range *v {
		s := &(*v)[i]
		number(c, &s.Data)
		number(c, &s.From)
		number(c, &s.Length)
		if there := s.Info != nil; infos && c.bool(&there) {
			c.data(pointee(c, &s.Info))
		}
	}
}

func (c *coder) lock(l *core.Lock) {
	octet(c, &l.Mode)
	octet(c, &l.Hold)
	c.time(&l.Until)
}

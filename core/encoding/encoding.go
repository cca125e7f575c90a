// Package encoding defines the binary form of core's nouns and changes, which is used in the records in blocks, the
// rows of snapshots, and the columns of databases. SizeBound bounds the size of a change before it is encoded.
//
// Numbers are unsigned LEB128 (encoding/binary's Uvarint). Strings and byte strings begin with their length. Times are
// milliseconds since 1970, signed as in Varint, plus 1; 0 is the zero time. Most structs begin with a bit set (two
// bytes, little endian) of the optional fields that are present, lowest bit first. The required fields follow, and then
// those optional fields in order; one with its zero value is omitted, and a flag is only a bit. A new field takes the
// next bit, so old data remains readable; an unknown bit is an error (Unsupported). A list of changes begins with
// encodingVersion and the number of changes. Each change consists of its kind, the difference between its stamp and the
// previous one, the length of its struct (four bytes, little endian), and its struct.
//
// docs/format.md specifies the format in tables.
package encoding

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"orcas/core"
	"orcas/internal/checksum"
)

// encodingVersion is the first byte of a list of changes.
const encodingVersion = 1

// attrNames are the attribute names that are encoded as a number (index + 1) instead of in full. Only append to it.
var attrNames = [...]string{
	"Content-Type", "Content-Encoding", "Content-Disposition", "Content-Language", "Cache-Control", "Expires",
	"X-Amz-Storage-Class", "X-Amz-Website-Redirect-Location",
}

var errMalformed = errors.New("malformed encoding")

func appendString[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendUvarint(b, 0)
	}
	ms := t.UnixMilli()
	return binary.AppendUvarint(b, uint64(ms<<1^ms>>63)+1) // same as encoding/binary's Varint, plus 1
}

// fields builds the bit set of a struct while its fields are appended.
type fields struct {
	at  int // offset of the bit set
	bit uint16
	set uint16
}

// beginFields reserves two bytes for the bit set, which is little endian.
func beginFields(b []byte) ([]byte, fields) {
	return append(b, 0, 0), fields{at: len(b), bit: 1}
}

// next reports whether the next field is present, so the caller must append it, and records that in the bit set.
func (f *fields) next(present bool) bool {
	if present {
		f.set |= f.bit
	}
	f.bit <<= 1
	return present
}

func (f *fields) end(b []byte) []byte {
	binary.LittleEndian.PutUint16(b[f.at:], f.set)
	return b
}

// decoder decodes values. After the first error, which it keeps in err, it returns zero values.
type decoder struct {
	b     []byte
	err   error
	share bool // whether decoded strings and byte strings share the memory of b
}

func (d *decoder) fail() {
	if d.err == nil {
		d.err = errMalformed
	}
	d.b = nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// int reads a number that must fit in an int64.
func (d *decoder) int() int64 {
	v := d.uint()
	if v > 1<<63-1 {
		d.fail()
		return 0
	}
	return int64(v)
}

// count reads the length of a list whose elements have at least min bytes each. It fails if the rest of the input is
// too short for such a list.
func (d *decoder) count(min int) int {
	v := d.uint()
	if v > uint64(len(d.b)/min) {
		d.fail()
		return 0
	}
	return int(v)
}

func (d *decoder) raw(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail()
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if v := d.raw(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *decoder) string() string {
	v := d.raw(d.count(1))
	if d.share {
		return unsafe.String(unsafe.SliceData(v), len(v))
	}
	return string(v)
}

func (d *decoder) bytes() []byte {
	v := d.raw(d.count(1))
	if d.share {
		return v
	}
	return append([]byte(nil), v...)
}

func (d *decoder) time() time.Time {
	v := d.uint()
	if v == 0 {
		return time.Time{}
	}
	v--
	return time.UnixMilli(int64(v>>1) ^ -int64(v&1)).UTC()
}

// fields reads the bit set of a struct that has n fields.
func (d *decoder) fields(n int) fieldSet {
	v := d.raw(2)
	if v == nil {
		return 0
	}
	set := binary.LittleEndian.Uint16(v)
	if set>>n != 0 && d.err == nil {
		d.err = core.E("encoding.decode", core.Unsupported, fmt.Errorf(
			"a struct has the fields %#x, but this version of ORCAS supports only the first %d: a newer version wrote it", set, n))
		d.b = nil
		return 0
	}
	return fieldSet(set)
}

type fieldSet uint16

// next reports whether the next field is present.
func (f *fieldSet) next() bool {
	v := *f&1 != 0
	*f >>= 1
	return v
}

func (d *decoder) done() error {
	if d.err == nil && len(d.b) != 0 {
		d.err = fmt.Errorf("%w: %d bytes after its end", errMalformed, len(d.b))
	}
	return d.err
}

// appendETag appends an ETag. An MD5, with or without a part count, is encoded as the count + 1 and 16 bytes; any other
// ETag as 0 and a string.
func appendETag(b []byte, etag string) []byte {
	hash, count, dash := strings.Cut(etag, "-")
	n, err := 0, error(nil)
	if dash {
		n, err = strconv.Atoi(count)
	}
	if len(hash) == 32 && err == nil && n >= 0 && (!dash || n > 0 && strconv.Itoa(n) == count) {
		var md5 [16]byte
		if _, err := hex.Decode(md5[:], []byte(hash)); err == nil && strings.ToLower(hash) == hash {
			return append(binary.AppendUvarint(b, uint64(n)+1), md5[:]...)
		}
	}
	return appendString(append(b, 0), etag)
}

func (d *decoder) etag() string {
	n := d.uint()
	if n == 0 {
		return d.string()
	}
	var text [32]byte
	raw := d.raw(16)
	if raw == nil {
		return ""
	}
	hex.Encode(text[:], raw)
	if n == 1 {
		return string(text[:])
	}
	return string(text[:]) + "-" + strconv.FormatUint(n-1, 10)
}

// appendSums appends the number of checksums and, for each of them, the algorithm, the number of parts + 1 (0 unless it
// is composite), and the value.
func appendSums(b []byte, sums []core.Checksum) []byte {
	b = binary.AppendUvarint(b, uint64(len(sums)))
	for _, s := range sums {
		b = append(b, byte(s.Algorithm))
		parts := uint64(0)
		if s.Composite {
			parts = uint64(s.Parts) + 1
		}
		b = appendString(binary.AppendUvarint(b, parts), s.Value)
	}
	return b
}

func (d *decoder) sums() []core.Checksum {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	sums := make([]core.Checksum, n)
	for i := range sums {
		sums[i].Algorithm = checksum.Algorithm(d.byte())
		if parts := d.uint(); parts > 0 {
			sums[i].Composite, sums[i].Parts = true, int(parts-1)
		}
		sums[i].Value = d.bytes()
	}
	return sums
}

func appendAttrs(b []byte, attrs []core.Attr) []byte {
	b = binary.AppendUvarint(b, uint64(len(attrs)))
next:
	for _, a := range attrs {
		for i, name := range attrNames {
			if a.Name == name {
				b = appendString(binary.AppendUvarint(b, uint64(i)+1), a.Value)
				continue next
			}
		}
		b = appendString(appendString(append(b, 0), a.Name), a.Value)
	}
	return b
}

func (d *decoder) attrs() []core.Attr {
	n := d.count(2)
	if n == 0 {
		return nil
	}
	attrs := make([]core.Attr, n)
	for i := range attrs {
		switch k := d.uint(); {
		case k == 0:
			attrs[i].Name = d.string()
		case k <= uint64(len(attrNames)):
			attrs[i].Name = attrNames[k-1]
		default:
			d.fail()
		}
		attrs[i].Value = d.string()
	}
	return attrs
}

// AppendExtents appends extents as runs of adjacent extents of equal length. It appends the number of runs and, for
// each of them, 1 if its block is that of the previous run (else 0 and the block), the offset, the length of an extent,
// and the number of extents.
func AppendExtents(b []byte, extents []core.Extent) []byte {
	runs := 0
	for i := range extents {
		if i == 0 || !continues(extents, i) {
			runs++
		}
	}
	b = binary.AppendUvarint(b, uint64(runs))
	for i := 0; i < len(extents); {
		j := i + 1
		for j < len(extents) && continues(extents, j) {
			j++
		}
		e := &extents[i]
		if i > 0 && extents[i-1].Block == e.Block {
			b = append(b, 1)
		} else {
			b = append(append(b, 0), e.Block[:]...)
		}
		b = binary.AppendUvarint(b, uint64(e.Offset))
		b = binary.AppendUvarint(b, uint64(e.Length))
		b = binary.AppendUvarint(b, uint64(j-i))
		i = j
	}
	return b
}

// continues reports whether extent i follows extent i-1 in the same run.
func continues(extents []core.Extent, i int) bool {
	p, e := &extents[i-1], &extents[i]
	return p.Block == e.Block && p.Length == e.Length && p.Offset+p.Length == e.Offset
}

// maxExtents is the maximum number of extents in a run: content has at most 5 GiB, in chunks of at least 8 KiB.
const maxExtents = 1 << 20

func (d *decoder) extents() []core.Extent {
	runs := d.count(4)
	if runs == 0 {
		return nil
	}
	extents := make([]core.Extent, 0, runs)
	var block core.BlockID
	for range runs {
		switch d.byte() {
		case 0:
			copy(block[:], d.raw(len(block)))
		case 1:
		default:
			d.fail()
		}
		offset, length, n := d.int(), d.int(), d.uint()
		if n == 0 || n > maxExtents || length < 0 || offset < 0 || uint64(length) > (1<<62)/n {
			d.fail()
			return nil
		}
		for i := range int64(n) {
			extents = append(extents, core.Extent{Block: block, Offset: offset + i*length, Length: length})
		}
	}
	return extents
}

// DecodeExtents is the inverse of AppendExtents.
func DecodeExtents(b []byte) ([]core.Extent, error) {
	d := decoder{b: b}
	extents := d.extents()
	return extents, d.done()
}

func appendData(b []byte, i *core.DataInfo) []byte {
	b, f := beginFields(b)
	b = binary.AppendUvarint(b, uint64(i.ID))
	b = binary.AppendUvarint(b, uint64(i.Size))
	if f.next(i.SHA256 != [32]byte{}) {
		b = append(b, i.SHA256[:]...)
	}
	if f.next(len(i.Sums) > 0) {
		b = appendSums(b, i.Sums)
	}
	if f.next(i.Codec != 0) {
		b = append(b, i.Codec)
	}
	if f.next(i.KeyID != 0) {
		b = binary.AppendUvarint(b, uint64(i.KeyID))
	}
	if f.next(len(i.DataKey) > 0) {
		b = appendString(b, i.DataKey)
	}
	if f.next(i.ChunkSize != 0) {
		b = binary.AppendUvarint(b, uint64(i.ChunkSize))
	}
	if f.next(len(i.Extents) > 0) {
		b = AppendExtents(b, i.Extents)
	}
	if f.next(i.Dictionary != 0) {
		b = binary.AppendUvarint(b, uint64(i.Dictionary))
	}
	if f.next(i.Scope != 0) {
		b = binary.AppendUvarint(b, uint64(i.Scope))
	}
	if f.next(i.HasHead()) {
		b = append(b, i.Head[:]...)
	}
	f.next(i.Damaged)
	if f.next(!i.Written.IsZero()) {
		b = appendTime(b, i.Written)
	}
	return f.end(b)
}

// dataFields is the number of fields in the bit set of a DataInfo.
const dataFields = 12

func (d *decoder) data() *core.DataInfo {
	f := d.fields(dataFields)
	i := &core.DataInfo{ID: core.DataID(d.uint()), Size: d.int()}
	if f.next() {
		copy(i.SHA256[:], d.raw(32))
	}
	if f.next() {
		i.Sums = d.sums()
	}
	if f.next() {
		i.Codec = d.byte()
	}
	if f.next() {
		i.KeyID = uint32(d.uint())
	}
	if f.next() {
		i.DataKey = d.bytes()
	}
	if f.next() {
		i.ChunkSize = d.int()
	}
	if f.next() {
		i.Extents = d.extents()
	}
	if f.next() {
		i.Dictionary = uint32(d.uint())
	}
	if f.next() {
		i.Scope = core.BucketID(d.uint())
	}
	if f.next() {
		copy(i.Head[:], d.raw(32))
	}
	i.Damaged = f.next()
	if f.next() {
		i.Written = d.time()
	}
	return i
}

// EachBlock calls emit with the block and the length of each run of extents in a DataInfo encoded by AppendData. It
// decodes no other fields and does not allocate.
func EachBlock(data []byte, emit func(block core.BlockID, length int64)) error {
	d := decoder{b: data, share: true}
	f := d.fields(dataFields)
	d.uint()
	d.uint()
	if f.next() {
		d.raw(32)
	}
	if f.next() {
		for range d.count(3) {
			d.byte()
			d.uint()
			d.bytes()
		}
	}
	if f.next() {
		d.byte()
	}
	if f.next() {
		d.uint()
	}
	if f.next() {
		d.bytes()
	}
	if f.next() {
		d.uint()
	}
	if !f.next() {
		return d.err
	}
	var block core.BlockID
	for range d.count(4) {
		if d.byte() == 0 {
			copy(block[:], d.raw(len(block)))
		}
		d.int()
		length, n := d.int(), d.int()
		if d.err != nil || n > maxExtents || length > (1<<62)/max(n, 1) {
			d.fail()
			break
		}
		emit(block, length*n)
	}
	return d.err
}

// AppendData appends all fields of i except Refs.
func AppendData(b []byte, i *core.DataInfo) []byte { return appendData(b, i) }

// DecodeData is the inverse of AppendData. The result shares the memory of b, which must not be modified afterwards.
func DecodeData(b []byte) (*core.DataInfo, error) {
	d := decoder{b: b, share: true}
	i := d.data()
	return i, d.done()
}

// appendSegments appends the number of segments, and Data, From and Length of each. With infos, each segment is
// followed by 1 and its Info, or by 0 if it has none.
func appendSegments(b []byte, segments []core.Segment, infos bool) []byte {
	b = binary.AppendUvarint(b, uint64(len(segments)))
	for i := range segments {
		s := &segments[i]
		b = binary.AppendUvarint(b, uint64(s.Data))
		b = binary.AppendUvarint(b, uint64(s.From))
		b = binary.AppendUvarint(b, uint64(s.Length))
		if !infos {
			continue
		}
		if s.Info == nil {
			b = append(b, 0)
		} else {
			b = appendData(append(b, 1), s.Info)
		}
	}
	return b
}

func (d *decoder) segments(infos bool) []core.Segment {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	segments := make([]core.Segment, n)
	for i := range segments {
		s := &segments[i]
		s.Data, s.From, s.Length = core.DataID(d.uint()), d.int(), d.int()
		if infos && d.byte() == 1 {
			s.Info = d.data()
		}
	}
	return segments
}

func appendLock(b []byte, l core.Lock) []byte {
	return appendTime(append(b, byte(l.Mode), byte(l.Hold)), l.Until)
}

func (d *decoder) lock() core.Lock {
	return core.Lock{Mode: core.LockMode(d.byte()), Hold: core.LegalHold(d.byte()), Until: d.time()}
}

package core

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"orcas/internal/checksum"
)

// The binary form of nouns and changes, used for the records in blocks and for the columns of databases.
//
// Numbers are unsigned LEB128 (encoding/binary's Uvarint), strings and byte strings carry their length before them, times
// are milliseconds since 1970, signed as Varint has it, plus 1 (0: the zero time). A struct is a bit set of the fields that are there, lowest bit first, then
// those fields in order; a field that has its zero value is left out. A bit that a reader does not know is an error
// (Unsupported), so a field is added by giving it the next bit, and old data stays readable. A list of changes begins with
// encodingVersion; each change is its kind, its length, and its struct.
//
// docs/format.md gives the same in tables.

// encodingVersion is the first byte of a list of changes.
const encodingVersion = 1

// attrNames are the names that an Attr may give by number (index + 1) instead of in full. Only ever append.
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
	return binary.AppendUvarint(b, uint64(ms<<1^ms>>63)+1) // as encoding/binary's Varint, plus 1
}

// fields collects the bit set of a struct while its fields are appended.
type fields struct {
	at  int // where the bit set stands
	bit uint16
	set uint16
}

// beginFields leaves room for the bit set: two bytes, little endian.
func beginFields(b []byte) ([]byte, fields) {
	return append(b, 0, 0), fields{at: len(b), bit: 1}
}

// next says whether the next field is to be written.
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

// decoder reads the encoding; the first error stays.
type decoder struct {
	b     []byte
	err   error
	share bool // strings and byte strings share b's memory
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

// int reads a number that has to fit an int64.
func (d *decoder) int() int64 {
	v := d.uint()
	if v > 1<<63-1 {
		d.fail()
		return 0
	}
	return int64(v)
}

// count reads the length of a list whose elements take at least min bytes each.
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
		d.err = E("core.decode", Unsupported, errors.New("a field of a newer version"))
		d.b = nil
		return 0
	}
	return fieldSet(set)
}

type fieldSet uint16

// next says whether the next field is there.
func (f *fieldSet) next() bool {
	v := *f&1 != 0
	*f >>= 1
	return v
}

func (d *decoder) done() error {
	if d.err == nil && len(d.b) != 0 {
		d.err = fmt.Errorf("%w: %d bytes left over", errMalformed, len(d.b))
	}
	return d.err
}

// An ETag that is an MD5 with or without a part count takes 16 bytes and the count + 1; any other stands as a string after 0.
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

// AppendSums appends checksums: their number, then algorithm, parts + 1 where composite (else 0), and value of each.
func AppendSums(b []byte, sums []Checksum) []byte {
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

func (d *decoder) sums() []Checksum {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	sums := make([]Checksum, n)
	for i := range sums {
		sums[i].Algorithm = checksum.Algorithm(d.byte())
		if parts := d.uint(); parts > 0 {
			sums[i].Composite, sums[i].Parts = true, int(parts-1)
		}
		sums[i].Value = d.bytes()
	}
	return sums
}

// DecodeSums is the inverse of AppendSums.
func DecodeSums(b []byte) ([]Checksum, error) {
	d := decoder{b: b}
	sums := d.sums()
	return sums, d.done()
}

func appendAttrs(b []byte, attrs []Attr) []byte {
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

func (d *decoder) attrs() []Attr {
	n := d.count(2)
	if n == 0 {
		return nil
	}
	attrs := make([]Attr, n)
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

// AppendExtents appends extents as runs: their number; then, for each run, 1 where its block is that of the run before (else
// 0 and the block), the offset, the length of one extent, and how many extents of that length follow each other.
func AppendExtents(b []byte, extents []Extent) []byte {
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

// continues says whether extent i follows extent i-1 in the same run.
func continues(extents []Extent, i int) bool {
	p, e := &extents[i-1], &extents[i]
	return p.Block == e.Block && p.Length == e.Length && p.Offset+p.Length == e.Offset
}

// maxExtents bounds what a run may unfold to: one content is at most 5 GiB, in chunks of at least 8 KiB.
const maxExtents = 1 << 20

func (d *decoder) extents() []Extent {
	runs := d.count(4)
	if runs == 0 {
		return nil
	}
	extents := make([]Extent, 0, runs)
	var block BlockID
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
			extents = append(extents, Extent{block, offset + i*length, length})
		}
	}
	return extents
}

// DecodeExtents is the inverse of AppendExtents.
func DecodeExtents(b []byte) ([]Extent, error) {
	d := decoder{b: b}
	extents := d.extents()
	return extents, d.done()
}

func appendData(b []byte, i *DataInfo) []byte {
	b, f := beginFields(b)
	b = binary.AppendUvarint(b, uint64(i.ID))
	b = binary.AppendUvarint(b, uint64(i.Size))
	if f.next(i.SHA256 != [32]byte{}) {
		b = append(b, i.SHA256[:]...)
	}
	if f.next(len(i.Sums) > 0) {
		b = AppendSums(b, i.Sums)
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
	return f.end(b)
}

func (d *decoder) data() *DataInfo {
	f := d.fields(10)
	i := &DataInfo{ID: DataID(d.uint()), Size: d.int()}
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
		i.Scope = BucketID(d.uint())
	}
	if f.next() {
		copy(i.Head[:], d.raw(32))
	}
	return i
}

// AppendData appends everything of i but Refs.
func AppendData(b []byte, i *DataInfo) []byte { return appendData(b, i) }

// DecodeData is the inverse of AppendData. What it returns shares b's memory, which must not change any more.
func DecodeData(b []byte) (*DataInfo, error) {
	d := decoder{b: b, share: true}
	i := d.data()
	return i, d.done()
}

// appendSegments appends segments: their number, then data, from and length of each; with infos, each is followed by 1 and its
// Info, or 0 where it has none.
func appendSegments(b []byte, segments []Segment, infos bool) []byte {
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

func (d *decoder) segments(infos bool) []Segment {
	n := d.count(3)
	if n == 0 {
		return nil
	}
	segments := make([]Segment, n)
	for i := range segments {
		s := &segments[i]
		s.Data, s.From, s.Length = DataID(d.uint()), d.int(), d.int()
		if infos && d.byte() == 1 {
			s.Info = d.data()
		}
	}
	return segments
}

func appendLock(b []byte, l Lock) []byte {
	return appendTime(append(b, byte(l.Mode), byte(l.Hold)), l.Until)
}

func (d *decoder) lock() Lock {
	return Lock{Mode: LockMode(d.byte()), Hold: LegalHold(d.byte()), Until: d.time()}
}

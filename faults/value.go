package faults

import (
	"bytes"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Piece is a range of the stream of bytes that ID determines: Size bytes, beginning at From. ID is less than 1<<32, and
// From+Size is less than 32 GiB.
type Piece struct {
	ID   uint64 `json:"id"`
	From int64  `json:"from,omitempty"`
	Size int64  `json:"size"`
}

// Value is the value of an object or a part: its content as a sequence of pieces, its ETag, and the value of its only
// tag. An upload in progress has a Value without pieces. A nil Value means that the item does not exist.
type Value struct {
	Pieces []Piece `json:"pieces,omitempty"`
	Size   int64   `json:"size"`
	ETag   string  `json:"etag,omitempty"`   // without quotes
	Label  string  `json:"label,omitempty"`  // the value of the tag, or ""; for a bucket, its versioning status; for an identity, what it contains
	Secret string  `json:"secret,omitempty"` // of an access key, whose ID is the Label; "" if the client never learned it
	// Due is, for an upload, the earliest time at which the lifecycle aborts it, in nanoseconds since 1970; 0 for never.
	Due int64 `json:"due,omitempty"`
}

// NewValue returns the value that a single request with these pieces as its body writes, and the body.
func NewValue(pieces ...Piece) (*Value, []byte) {
	v := &Value{Pieces: pieces}
	for _, p := range pieces {
		v.Size += p.Size
	}
	body := v.Bytes()
	sum := md5.Sum(body)
	v.ETag = hex.EncodeToString(sum[:])
	return v, body
}

// Join returns the value of the multipart object with the given parts.
func Join(parts ...*Value) *Value {
	v := &Value{}
	hash := md5.New()
	for _, p := range parts {
		v.Pieces = append(v.Pieces, p.Pieces...)
		v.Size += p.Size
		sum, _ := hex.DecodeString(p.ETag)
		hash.Write(sum)
	}
	v.ETag = fmt.Sprintf("%x-%d", hash.Sum(nil), len(parts))
	return v
}

// Append returns the value of v after the content of more is appended.
func (v *Value) Append(more *Value) *Value {
	before, count, _ := strings.Cut(v.ETag, "-")
	n, _ := strconv.Atoi(count) // without a count, it has one part
	sums, _ := hex.DecodeString(before + more.ETag)
	return &Value{
		Pieces: append(slices.Clip(v.Pieces), more.Pieces...), Size: v.Size + more.Size, Label: v.Label,
		ETag: fmt.Sprintf("%x-%d", md5.Sum(sums), max(n, 1)+1),
	}
}

// Copied returns the value of a copy, which is never a multipart object.
func (v *Value) Copied() *Value {
	if !strings.Contains(v.ETag, "-") {
		return v
	}
	c, _ := NewValue(v.Pieces...)
	return c.Labeled(v.Label)
}

// status returns the label of a bucket, or "" if the bucket does not exist.
func (v *Value) status() string {
	if v == nil {
		return ""
	}
	return v.Label
}

// Labeled returns v with another tag.
func (v *Value) Labeled(label string) *Value {
	c := *v
	c.Label = label
	return &c
}

// Range returns the value of a part with length bytes of v, beginning at first. v must contain these bytes.
func (v *Value) Range(first, length int64) *Value {
	var pieces []Piece
	for _, p := range v.Pieces {
		from, to := max(first, 0), min(first+length, p.Size)
		if from < to {
			pieces = append(pieces, Piece{ID: p.ID, From: p.From + from, Size: to - from})
		}
		length -= max(to-from, 0)
		first = max(first-p.Size, 0)
	}
	part, _ := NewValue(pieces...)
	return part
}

// Bytes returns the content.
func (v *Value) Bytes() []byte {
	b := make([]byte, 0, v.Size+16)
	for _, p := range v.Pieces {
		b = p.appendTo(b)
	}
	return b
}

// String names the value in reports; nil is "nothing".
func (v *Value) String() string {
	if v == nil {
		return "nothing"
	}
	if len(v.Pieces) == 0 && v.ETag == "" {
		if v.Label != "" {
			return "an item with the label " + v.Label
		}
		return "an item without content"
	}
	s := fmt.Sprintf("%d bytes, ETag %s, of", v.Size, v.ETag)
	for _, p := range v.Pieces {
		s += fmt.Sprintf(" #%d", p.ID)
		if p.From > 0 {
			s += fmt.Sprintf("+%d", p.From)
		}
	}
	if v.Label != "" {
		s += ", tagged " + v.Label
	}
	return s
}

// same reports whether two values, each of which may be nil, have the same size, ETag and tag.
func same(a, b *Value) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Size == b.Size && a.ETag == b.ETag && a.Label == b.Label
}

// is reports whether v has this content and this tag.
func (v *Value) is(body []byte, label string) bool {
	return v != nil && v.Label == label && v.Size == int64(len(body)) && bytes.Equal(v.Bytes(), body)
}

// appendTo appends the bytes of p to b.
func (p Piece) appendTo(b []byte) []byte {
	end := p.From + p.Size
	word := p.From / 8
	skip := int(p.From % 8)
	for at := word * 8; at < end; at += 8 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], mix(p.ID<<32|p.number(at/8)))
		b = append(b, w[skip:min(8, end-at)]...)
		skip = 0
	}
	return b
}

// number returns the number of a word of the stream. In every third stream, six of eight words repeat the words before
// them, so that a server can compress the content. With two of four, its sample of the content would look random.
func (p Piece) number(word int64) uint64 {
	if p.ID%3 == 0 {
		word = word&^7 | word&1
	}
	return uint64(word)
}

// mix spreads the bits of a stream ID and a position over all 64 bits. It loses no information: unmix inverts it.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unmix is the inverse of mix.
func unmix(x uint64) uint64 {
	x = (x ^ x>>31 ^ x>>62) * 0x319642b2d24d8ec3
	x = (x ^ x>>27 ^ x>>54) * 0x96de1b173f119089
	return x ^ x>>30 ^ x>>60
}

// differ describes, for a report, where got differs from the content of v, and what it contains instead. It returns ""
// if they are equal.
func (v *Value) differ(got []byte) string {
	want := v.Bytes()
	if len(got) != len(want) {
		return fmt.Sprintf("%d bytes instead of %d", len(got), len(want))
	}
	for i := range want {
		if got[i] == want[i] {
			continue
		}
		last := i
		for j := len(want) - 1; j > i; j-- {
			if got[j] != want[j] {
				last = j
				break
			}
		}
		return fmt.Sprintf("bytes %d..%d of %d differ: found %s", i, last, len(want), whose(got, i))
	}
	return ""
}

// whose describes the origin of the content of b around an offset. The words of a stream are numbered, so two adjacent
// words identify the stream.
func whose(b []byte, at int) string {
	end := min(at+16, len(b))
	for i := max(0, at-7); i <= at && i+16 <= len(b); i++ {
		x := unmix(binary.LittleEndian.Uint64(b[i:]))
		if unmix(binary.LittleEndian.Uint64(b[i+8:])) == x+1 {
			return fmt.Sprintf("content #%d at %d", x>>32, (x&0xffffffff)*8)
		}
	}
	if len(bytes.Trim(b[at:end], "\x00")) == 0 {
		return "zeros"
	}
	return fmt.Sprintf("%x", b[at:end])
}

package core

import (
	"encoding/binary"
	"errors"
	"time"
)

// MoveObject gives the current version of a key, which must be the one of From.Seq (else Conflict), another name: it becomes the current
// version of Key in Bucket, as PutObject would write it, and is taken away where it was, as DeleteObject would: a bucket without versions
// forgets it, another gets a delete marker. Metadata, tags, checksums and Modified go with it; content is referred to, never copied.
//
// It takes two places in the order of all changes (see Places): the source goes at the one before Seq, the version is written at Seq.
type MoveObject struct {
	Stamp
	From   Source
	Bucket BucketID
	Key    string // in the same bucket another one than From.Key, else InvalidArgument
	If     Precondition
	Lock   Lock      // of the version written; that of the source stays behind
	Token  string    // kept with the version (see MoveToken); "": none
	Time   time.Time // of the delete marker; milliseconds, UTC
	Owner  string    // of the delete marker
}

func (*MoveObject) kind() changeKind { return kindMoveObject }

// TokenAttr is the attribute that keeps MoveObject.Token. It is for whoever asks again because an answer was lost, and is never shown.
const TokenAttr = "orcas-move-token"

// MoveToken returns the token of the move that wrote a version, "" where there is none.
func MoveToken(o *ObjectInfo) string {
	for i := range o.Attrs {
		if o.Attrs[i].Name == TokenAttr {
			return o.Attrs[i].Value
		}
	}
	return ""
}

// WithoutToken returns attributes without that of a move.
func WithoutToken(attrs []Attr) []Attr {
	for i := range attrs {
		if attrs[i].Name == TokenAttr {
			return append(append([]Attr(nil), attrs[:i]...), attrs[i+1:]...)
		}
	}
	return attrs
}

// Places returns how many sequences a change takes: its own, and those right before it.
func Places(c Change) Seq {
	if _, two := c.(*MoveObject); two {
		return 2
	}
	return 1
}

// FirstPlace returns the first of the sequences that a change takes.
func FirstPlace(c Change) Seq { return c.Place().Seq + 1 - Places(c) }

// CheckSource holds c against the current version of the source's key, nil where there is none; one that a lock keeps is Locked.
func (c *MoveObject) CheckSource(cur *ObjectInfo) error {
	const op = "core.MoveObject"
	if c.From.Bucket == c.Bucket && c.From.Key == c.Key {
		return E(op, InvalidArgument, errors.New("source and target are one"))
	}
	if cur == nil || cur.Marker || cur.Seq != c.From.Seq {
		return E(op, Conflict, errors.New("the source was changed"))
	}
	return cur.Lock.CheckDelete(c.Time, false)
}

// Moved returns the version that takes the name of the target, its Seq and Null not set; it shares what it can with the source.
func (c *MoveObject) Moved(source *ObjectInfo) ObjectInfo {
	o := *source
	o.Bucket, o.Key, o.Lock, o.Latest = c.Bucket, c.Key, c.Lock, false
	if o.Placed = c.Time; !c.Time.After(o.Modified) {
		o.Placed = time.Time{}
	}
	o.Attrs = WithoutToken(o.Attrs)
	if c.Token != "" {
		o.Attrs = append(o.Attrs[:len(o.Attrs):len(o.Attrs)], Attr{TokenAttr, c.Token})
	}
	o.Segments = make([]Segment, len(source.Segments))
	for i, s := range source.Segments {
		o.Segments[i] = Segment{Data: s.Data, From: s.From, Length: s.Length}
	}
	return o
}

// Removal returns the change that takes the source away, at the place before c's.
func (c *MoveObject) Removal() *DeleteObject {
	return &DeleteObject{
		Stamp: Stamp{c.Seq - 1}, Bucket: c.From.Bucket, Key: c.From.Key, Version: Current, Modified: c.Time, Owner: c.Owner,
	}
}

func appendMove(b []byte, c *MoveObject) []byte {
	b, f := beginFields(b)
	b = binary.AppendUvarint(appendTarget(b, c.From.Bucket, c.From.Key), uint64(c.From.Seq))
	b = appendIf(appendTarget(b, c.Bucket, c.Key), &c.If)
	b = appendString(appendTime(b, c.Time), c.Owner)
	if f.next(c.Lock != Lock{}) {
		b = appendLock(b, c.Lock)
	}
	if f.next(c.Token != "") {
		b = appendString(b, c.Token)
	}
	return f.end(b)
}

func (d *decoder) move() *MoveObject {
	f := d.fields(2)
	c := &MoveObject{}
	c.From.Bucket, c.From.Key = d.target()
	c.From.Seq = Seq(d.uint())
	c.Bucket, c.Key = d.target()
	c.If, c.Time, c.Owner = d.precondition(), d.time(), d.string()
	if f.next() {
		c.Lock = d.lock()
	}
	if f.next() {
		c.Token = d.string()
	}
	return c
}

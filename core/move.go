package core

import (
	"fmt"
	"time"
)

// MoveObject renames the current version of a key. It fails with Conflict unless the sequence of that version is
// From.Seq. The version becomes the current version of Key in Bucket, as if written by PutObject, and is deleted from
// the source, as if by DeleteObject: with versioning, a delete marker remains. Metadata, tags, checksums and Modified
// are kept; content is referenced, never copied.
//
// It takes two sequences (see SeqCount): the source is deleted at the one before Seq, and the version is written at
// Seq.
type MoveObject struct {
	Stamped
	From   Source
	Bucket BucketID
	Key    string // within one bucket, it must differ from From.Key, else the error is InvalidArgument
	If     Precondition
	Lock   Lock      // lock of the version written, which does not inherit the lock of the source
	Token  string    // stored with the version (see MoveToken); "": none
	Time   time.Time // time of the delete marker; milliseconds, UTC
	Owner  string    // owner of the delete marker
}

func (*MoveObject) Kind() ChangeKind { return ChangeMoveObject }

// TokenAttr is the name of the attribute that stores MoveObject.Token. The token allows a client to retry a move if the
// response was lost. It is never returned to clients.
const TokenAttr = "orcas-move-token"

// MoveToken returns the token of the move that wrote a version, or "" if there is none.
func MoveToken(o *ObjectInfo) string { return AttrValue(o.Attrs, TokenAttr) }

// WithoutToken returns attrs without TokenAttr.
func WithoutToken(attrs []Attr) []Attr {
	for i := range attrs {
		if attrs[i].Name == TokenAttr {
			return append(append([]Attr(nil), attrs[:i]...), attrs[i+1:]...)
		}
	}
	return attrs
}

// SeqCount returns the number of sequences that a change takes. Its stamp is the last of them.
func SeqCount(c Change) Seq {
	if _, two := c.(*MoveObject); two {
		return 2
	}
	return 1
}

// FirstSeq returns the first of the sequences that a change takes.
func FirstSeq(c Change) Seq { return c.Stamp() + 1 - SeqCount(c) }

// CheckSource returns an error unless cur can be moved. Cur is the current version of the source's key, or nil. It
// returns Locked if a lock protects the version.
func (c *MoveObject) CheckSource(cur *ObjectInfo) error {
	const op = "core.MoveObject"
	if c.From.Bucket == c.Bucket && c.From.Key == c.Key {
		return E(op, InvalidArgument, fmt.Errorf("%q is both the source and the target of the move", c.Key))
	}
	if cur == nil || cur.Marker || cur.Seq != c.From.Seq {
		return E(op, Conflict, fmt.Errorf("%q has changed since it was read at sequence %d", c.From.Key, c.From.Seq))
	}
	return cur.Lock.CheckDelete(c.Time, false)
}

// Moved returns the version to write, without Seq and Null. It shares memory with the source.
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

// Removal returns the change that deletes the source, at the sequence before c.Seq.
func (c *MoveObject) Removal() *DeleteObject {
	return &DeleteObject{
		Stamped: Stamped{c.Seq - 1}, Bucket: c.From.Bucket, Key: c.From.Key, Version: Current, Modified: c.Time, Owner: c.Owner,
	}
}

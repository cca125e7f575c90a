package encoding

// The functions below decode only the size, for callers that count many rows.

// ObjectSize returns the size of an object that AppendObject encoded.
func ObjectSize(b []byte) (size int64, err error) {
	c := coder{b: b, decoding: true, share: true}
	f := c.fields(objectFields)
	c.uint() // the time
	f.has(false)
	f.has(false)
	optionalNumber(&f, &size)
	return size, c.err
}

// BriefSize returns the size of an object that AppendBrief encoded.
func BriefSize(b []byte) (size int64, err error) {
	c := coder{b: b, decoding: true, share: true}
	f := c.fields(briefFields)
	c.uint() // the time
	optionalNumber(&f, &size)
	return size, c.err
}

// PartSize returns the size of a part that AppendPart encoded.
func PartSize(b []byte) (size int64, err error) {
	c := coder{b: b, decoding: true, share: true}
	f := c.fields(partFields)
	c.uint() // the time
	if c.uint() != 0 {
		c.raw(16) // the ETag
	} else {
		c.raw(c.count(1))
	}
	optionalNumber(&f, &size)
	return size, c.err
}

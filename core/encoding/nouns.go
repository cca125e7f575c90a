package encoding

import (
	"bytes"
	"encoding/hex"

	"orcas/core"
	"orcas/internal/checksum"
)

// The number of fields of an ObjectInfo and a PartInfo.
const (
	objectFields = 15
	partFields   = 3
)

// object handles an ObjectInfo. With infos, the content of its segments follows them. Born is the content that was
// written with the version whose row the object is in, or 0.
func (c *coder) object(o *core.ObjectInfo, infos bool, born core.DataID) {
	f := c.fields(objectFields)
	derived := byte(0)
	if c.lean && !c.decoding {
		derived = derivable(o, infos, born)
	}
	c.time(&o.Modified)
	f.flag(&o.Null)
	f.flag(&o.Marker)
	optionalNumber(&f, &o.Size)
	if f.has(o.ETag != "" && derived&etagOfContent == 0) {
		c.etag(&o.ETag)
	}
	if f.has(len(o.Sums) > 0 && derived&sumsOfContent == 0) {
		c.sums(&o.Sums)
	}
	f.attrs(&o.Attrs)
	f.attrs(&o.Tags)
	if f.has(o.Owner != "") {
		if c.list != nil {
			c.shared(&o.Owner, &c.list.owner)
		} else {
			c.string(&o.Owner)
		}
	}
	f.lock(&o.Lock)
	if f.has(len(o.Segments) > 0 && derived == 0) {
		c.segments(&o.Segments, infos)
	}
	optionalNumber(&f, &o.List)
	optionalNumber(&f, &o.Parts)
	if f.has(len(o.Index) > 0) {
		list(c, &o.Index, 2)
		for i := range o.Index {
			number(c, &o.Index[i].After)
			number(c, &o.Index[i].Offset)
		}
	}
	f.time(&o.Placed)
	if f.has(derived != 0) {
		c.derive(o, derived, infos, born)
	}
	f.end()
}

// What an object has in common with its content, as bits of the last field of an ObjectInfo.
const (
	wholeContent  = 1 << iota // its only segment is all of its content
	etagOfContent             // the ETag is the MD5 of its content
	sumsOfContent             // its checksums are also those of its content; only their algorithms are encoded
)

// derivable returns what can be left out of an object.
func derivable(o *core.ObjectInfo, infos bool, born core.DataID) byte {
	if len(o.Segments) != 1 || o.Segments[0].From != 0 || o.Segments[0].Length != o.Size || o.Size == 0 {
		return 0
	}
	s := &o.Segments[0]
	if !infos {
		if s.Data != born || born == 0 {
			return 0
		}
		return wholeContent
	}
	if s.Info == nil || s.Info.ID != s.Data || s.Info.Size != o.Size {
		return 0
	}
	derived := byte(wholeContent)
	var md5 [16]byte
	if sum := sumOf(s.Info, checksum.MD5); sum != nil && parseETag(o.ETag, &md5) == 1 && bytes.Equal(sum, md5[:]) {
		derived |= etagOfContent
	}
	for i := range o.Sums {
		if x := &o.Sums[i]; x.Composite || len(x.Value) == 0 || !bytes.Equal(sumOf(s.Info, x.Algorithm), x.Value) {
			return derived
		}
	}
	if len(o.Sums) > 0 {
		derived |= sumsOfContent
	}
	return derived
}

// sumOf returns a checksum of content, or nil.
func sumOf(d *core.DataInfo, a checksum.Algorithm) []byte {
	for i := range d.Sums {
		if d.Sums[i].Algorithm == a && !d.Sums[i].Composite {
			return d.Sums[i].Value
		}
	}
	return nil
}

// derive handles the last field of an object, and sets what was left out of it.
func (c *coder) derive(o *core.ObjectInfo, derived byte, infos bool, born core.DataID) {
	octet(c, &derived)
	if derived&wholeContent == 0 || derived >= sumsOfContent<<1 || !infos && (born == 0 || derived != wholeContent) {
		c.fail()
		return
	}
	if c.decoding {
		newSlice(c, &o.Segments, 1)
		o.Segments[0] = core.Segment{Data: born, Length: o.Size}
	}
	if !infos {
		return
	}
	s := &o.Segments[0]
	if c.data(pointee(c, &s.Info)); c.decoding {
		if s.Data = s.Info.ID; s.Info.Size != o.Size {
			c.fail()
		}
	}
	if c.decoding && derived&etagOfContent != 0 {
		if o.ETag = hex.EncodeToString(sumOf(s.Info, checksum.MD5)); o.ETag == "" {
			c.fail()
		}
	}
	if derived&sumsOfContent == 0 {
		return
	}
	list(c, &o.Sums, 1)
	for i := range o.Sums {
		x := &o.Sums[i]
		if octet(c, &x.Algorithm); c.decoding {
			if x.Value = bytes.Clone(sumOf(s.Info, x.Algorithm)); x.Value == nil {
				c.fail()
			}
		}
	}
}

// AppendObject appends all fields of o except Bucket, Key, Seq, Latest and its segments' Info. If born is not 0, the
// encoding is for the row of that content, which was written with o; DecodeObject needs the same number then.
func AppendObject(b []byte, o *core.ObjectInfo, born core.DataID) []byte {
	c := coder{b: b, lean: true}
	c.object(o, false, born)
	return c.b
}

// DecodeObject sets the fields that AppendObject encoded, and leaves the others unchanged. o shares the memory of b,
// which must not be modified afterwards.
func DecodeObject(b []byte, o *core.ObjectInfo, born core.DataID) error {
	c := coder{b: b, decoding: true, share: true}
	c.object(o, false, born)
	return c.done()
}

func (c *coder) resolvedObject(o *core.ObjectInfo) {
	number(c, &o.Seq)
	c.object(o, true, 0)
	for i := range o.Segments {
		if d := o.Segments[i].Info; d != nil {
			number(c, &d.Refs)
		}
	}
}

// AppendResolvedObject appends all fields of o except Bucket, Key and Latest, with its segments' Info.
func AppendResolvedObject(b []byte, o *core.ObjectInfo) []byte {
	c := coder{b: b}
	c.resolvedObject(o)
	return c.b
}

// DecodeResolvedObject sets the fields that AppendResolvedObject encoded. o shares the memory of b, which must not be
// modified afterwards.
func DecodeResolvedObject(b []byte, o *core.ObjectInfo) error {
	c := coder{b: b, decoding: true, share: true}
	c.resolvedObject(o)
	return c.done()
}

func (c *coder) part(p *core.PartInfo, infos bool) {
	f := c.fields(partFields)
	c.time(&p.Modified)
	c.etag(&p.ETag)
	optionalNumber(&f, &p.Size)
	f.sums(&p.Sums)
	if f.has(len(p.Segments) > 0) {
		c.segments(&p.Segments, infos)
	}
	f.end()
}

// AppendPart appends all fields of p except Number, Seq and its segments' Info.
func AppendPart(b []byte, p *core.PartInfo) []byte {
	c := coder{b: b}
	c.part(p, false)
	return c.b
}

// DecodePart sets the fields that AppendPart encoded, and leaves the others unchanged.
func DecodePart(b []byte, p *core.PartInfo) error {
	c := coder{b: b, decoding: true}
	c.part(p, false)
	return c.done()
}

func (c *coder) upload(u *core.UploadInfo) {
	f := c.fields(6)
	c.time(&u.Initiated)
	f.string(&u.Owner)
	optionalOctet(&f, &u.Algorithm)
	f.flag(&u.Composite)
	f.attrs(&u.Attrs)
	f.attrs(&u.Tags)
	f.lock(&u.Lock)
	f.end()
}

// AppendUpload appends all fields of u except ID, Bucket and Key.
func AppendUpload(b []byte, u *core.UploadInfo) []byte {
	c := coder{b: b}
	c.upload(u)
	return c.b
}

// DecodeUpload sets the fields that AppendUpload encoded, and leaves the others unchanged.
func DecodeUpload(b []byte, u *core.UploadInfo) error {
	c := coder{b: b, decoding: true}
	c.upload(u)
	return c.done()
}

func (c *coder) bucket(i *core.BucketInfo) {
	f := c.fields(10)
	c.time(&i.Created)
	f.string(&i.Owner)
	f.string(&i.Region)
	optionalOctet(&f, &i.Versioning)
	f.flag(&i.ObjectLock)
	optionalNumber(&f, &i.ChunkSize)
	optionalOctet(&f, &i.Compression)
	f.flag(&i.Encrypted)
	f.attrs(&i.Attrs)
	if f.has(i.Retention != core.DefaultRetention{}) {
		octet(c, &i.Retention.Mode)
		number(c, &i.Retention.Days)
		number(c, &i.Retention.Years)
	}
	if f.has(!i.Quota.IsZero()) {
		number(c, &i.Quota.Bytes)
		number(c, &i.Quota.Objects)
	}
	f.end()
}

// AppendBucket appends all fields of i except ID and Name.
func AppendBucket(b []byte, i *core.BucketInfo) []byte {
	c := coder{b: b}
	c.bucket(i)
	return c.b
}

// DecodeBucket sets the fields that AppendBucket encoded, and leaves the others unchanged.
func DecodeBucket(b []byte, i *core.BucketInfo) error {
	c := coder{b: b, decoding: true}
	c.bucket(i)
	return c.done()
}

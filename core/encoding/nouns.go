package encoding

import "orcas/core"

func (c *coder) object(o *core.ObjectInfo, infos bool) {
	f := c.fields(14)
	c.time(&o.Modified)
	f.flag(&o.Null)
	f.flag(&o.Marker)
	optionalNumber(&f, &o.Size)
	if f.has(o.ETag != "") {
		c.etag(&o.ETag)
	}
	f.sums(&o.Sums)
	f.attrs(&o.Attrs)
	f.attrs(&o.Tags)
	f.string(&o.Owner)
	f.lock(&o.Lock)
	if f.has(len(o.Segments) > 0) {
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
	f.end()
}

// AppendObject appends all fields of o except Bucket, Key, Seq, Latest and its segments' Info.
func AppendObject(b []byte, o *core.ObjectInfo) []byte {
	c := coder{b: b}
	c.object(o, false)
	return c.b
}

// DecodeObject sets the fields that AppendObject encoded, and leaves the others unchanged. o shares the memory of b,
// which must not be modified afterwards.
func DecodeObject(b []byte, o *core.ObjectInfo) error {
	c := coder{b: b, decoding: true, share: true}
	c.object(o, false)
	return c.done()
}

func (c *coder) resolvedObject(o *core.ObjectInfo) {
	number(c, &o.Seq)
	c.object(o, true)
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
	f := c.fields(3)
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

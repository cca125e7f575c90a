package encoding

import (
	"encoding/binary"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/internal/checksum"
)

func appendObject(b []byte, o *core.ObjectInfo, infos bool) []byte {
	b, f := beginFields(b)
	b = appendTime(b, o.Modified)
	f.next(o.Null)
	f.next(o.Marker)
	if f.next(o.Size != 0) {
		b = binary.AppendUvarint(b, uint64(o.Size))
	}
	if f.next(o.ETag != "") {
		b = appendETag(b, o.ETag)
	}
	if f.next(len(o.Sums) > 0) {
		b = appendSums(b, o.Sums)
	}
	if f.next(len(o.Attrs) > 0) {
		b = appendAttrs(b, o.Attrs)
	}
	if f.next(len(o.Tags) > 0) {
		b = appendAttrs(b, o.Tags)
	}
	if f.next(o.Owner != "") {
		b = appendString(b, o.Owner)
	}
	if f.next(o.Lock != core.Lock{}) {
		b = appendLock(b, o.Lock)
	}
	if f.next(len(o.Segments) > 0) {
		b = appendSegments(b, o.Segments, infos)
	}
	if f.next(o.List != 0) {
		b = binary.AppendUvarint(b, uint64(o.List))
	}
	if f.next(o.Parts != 0) {
		b = binary.AppendUvarint(b, uint64(o.Parts))
	}
	if f.next(len(o.Index) > 0) {
		b = binary.AppendUvarint(b, uint64(len(o.Index)))
		for _, x := range o.Index {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(x.After)), uint64(x.Offset))
		}
	}
	if f.next(!o.Placed.IsZero()) {
		b = appendTime(b, o.Placed)
	}
	return f.end(b)
}

func (d *decoder) object(o *core.ObjectInfo, infos bool) {
	f := d.fields(14)
	o.Modified = d.time()
	o.Null = f.next()
	o.Marker = f.next()
	if f.next() {
		o.Size = d.int()
	}
	if f.next() {
		o.ETag = d.etag()
	}
	if f.next() {
		o.Sums = d.sums()
	}
	if f.next() {
		o.Attrs = d.attrs()
	}
	if f.next() {
		o.Tags = d.attrs()
	}
	if f.next() {
		o.Owner = d.string()
	}
	if f.next() {
		o.Lock = d.lock()
	}
	if f.next() {
		o.Segments = d.segments(infos)
	}
	if f.next() {
		o.List = core.UploadID(d.uint())
	}
	if f.next() {
		o.Parts = int(d.int())
	}
	if f.next() {
		o.Index = make([]core.PartIndex, d.count(2))
		for i := range o.Index {
			o.Index[i] = core.PartIndex{After: int(d.int()), Offset: d.int()}
		}
	}
	if f.next() {
		o.Placed = d.time()
	}
}

// AppendObject appends all fields of o except Bucket, Key, Seq, Latest and its segments' Info.
func AppendObject(b []byte, o *core.ObjectInfo) []byte { return appendObject(b, o, false) }

// DecodeObject sets the fields that AppendObject encoded, and leaves the others unchanged. o shares the memory of b,
// which must not be modified afterwards.
func DecodeObject(b []byte, o *core.ObjectInfo) error {
	d := decoder{b: b, share: true}
	d.object(o, false)
	return d.done()
}

// AppendResolvedObject appends all fields of o except Bucket, Key and Latest, with its segments' Info.
func AppendResolvedObject(b []byte, o *core.ObjectInfo) []byte {
	b = appendObject(binary.AppendUvarint(b, uint64(o.Seq)), o, true)
	for i := range o.Segments {
		if d := o.Segments[i].Info; d != nil {
			b = binary.AppendUvarint(b, uint64(d.Refs))
		}
	}
	return b
}

// DecodeResolvedObject sets the fields that AppendResolvedObject encoded. o shares the memory of b, which must not be
// modified afterwards.
func DecodeResolvedObject(b []byte, o *core.ObjectInfo) error {
	d := decoder{b: b, share: true}
	d.resolvedObject(o)
	return d.done()
}

func (d *decoder) resolvedObject(o *core.ObjectInfo) {
	o.Seq = core.Seq(d.uint())
	d.object(o, true)
	for i := range o.Segments {
		if s := o.Segments[i].Info; s != nil {
			s.Refs = d.int()
		}
	}
}

func appendPart(b []byte, p *core.PartInfo, infos bool) []byte {
	b, f := beginFields(b)
	b = appendETag(appendTime(b, p.Modified), p.ETag)
	if f.next(p.Size != 0) {
		b = binary.AppendUvarint(b, uint64(p.Size))
	}
	if f.next(len(p.Sums) > 0) {
		b = appendSums(b, p.Sums)
	}
	if f.next(len(p.Segments) > 0) {
		b = appendSegments(b, p.Segments, infos)
	}
	return f.end(b)
}

func (d *decoder) part(p *core.PartInfo, infos bool) {
	f := d.fields(3)
	p.Modified, p.ETag = d.time(), d.etag()
	if f.next() {
		p.Size = d.int()
	}
	if f.next() {
		p.Sums = d.sums()
	}
	if f.next() {
		p.Segments = d.segments(infos)
	}
}

// AppendPart appends all fields of p except Number, Seq and its segments' Info.
func AppendPart(b []byte, p *core.PartInfo) []byte { return appendPart(b, p, false) }

// DecodePart sets the fields that AppendPart encoded, and leaves the others unchanged.
func DecodePart(b []byte, p *core.PartInfo) error {
	d := decoder{b: b}
	d.part(p, false)
	return d.done()
}

// AppendUpload appends all fields of u except ID, Bucket and Key.
func AppendUpload(b []byte, u *core.UploadInfo) []byte {
	b, f := beginFields(b)
	b = appendTime(b, u.Initiated)
	if f.next(u.Owner != "") {
		b = appendString(b, u.Owner)
	}
	if f.next(u.Algorithm != checksum.None) {
		b = append(b, byte(u.Algorithm))
	}
	f.next(u.Composite)
	if f.next(len(u.Attrs) > 0) {
		b = appendAttrs(b, u.Attrs)
	}
	if f.next(len(u.Tags) > 0) {
		b = appendAttrs(b, u.Tags)
	}
	if f.next(u.Lock != core.Lock{}) {
		b = appendLock(b, u.Lock)
	}
	return f.end(b)
}

func (d *decoder) upload(u *core.UploadInfo) {
	f := d.fields(6)
	u.Initiated = d.time()
	if f.next() {
		u.Owner = d.string()
	}
	if f.next() {
		u.Algorithm = checksum.Algorithm(d.byte())
	}
	u.Composite = f.next()
	if f.next() {
		u.Attrs = d.attrs()
	}
	if f.next() {
		u.Tags = d.attrs()
	}
	if f.next() {
		u.Lock = d.lock()
	}
}

// DecodeUpload sets the fields that AppendUpload encoded, and leaves the others unchanged.
func DecodeUpload(b []byte, u *core.UploadInfo) error {
	d := decoder{b: b}
	d.upload(u)
	return d.done()
}

// AppendBucket appends all fields of i except ID and Name.
func AppendBucket(b []byte, i *core.BucketInfo) []byte {
	b, f := beginFields(b)
	b = appendTime(b, i.Created)
	if f.next(i.Owner != "") {
		b = appendString(b, i.Owner)
	}
	if f.next(i.Region != "") {
		b = appendString(b, i.Region)
	}
	if f.next(i.Versioning != core.VersioningOff) {
		b = append(b, byte(i.Versioning))
	}
	f.next(i.ObjectLock)
	if f.next(i.ChunkSize != 0) {
		b = binary.AppendUvarint(b, uint64(i.ChunkSize))
	}
	if f.next(i.Compression != core.CompressionDefault) {
		b = append(b, byte(i.Compression))
	}
	f.next(i.Encrypted)
	if f.next(len(i.Attrs) > 0) {
		b = appendAttrs(b, i.Attrs)
	}
	if f.next(i.Retention != core.DefaultRetention{}) {
		b = append(b, byte(i.Retention.Mode))
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i.Retention.Days)), uint64(i.Retention.Years))
	}
	if f.next(!i.Quota.IsZero()) {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(i.Quota.Bytes)), uint64(i.Quota.Objects))
	}
	return f.end(b)
}

func (d *decoder) bucket(i *core.BucketInfo) {
	f := d.fields(10)
	i.Created = d.time()
	if f.next() {
		i.Owner = d.string()
	}
	if f.next() {
		i.Region = d.string()
	}
	if f.next() {
		i.Versioning = core.Versioning(d.byte())
	}
	i.ObjectLock = f.next()
	if f.next() {
		i.ChunkSize = d.int()
	}
	if f.next() {
		i.Compression = core.Compression(d.byte())
	}
	i.Encrypted = f.next()
	if f.next() {
		i.Attrs = d.attrs()
	}
	if f.next() {
		i.Retention = core.DefaultRetention{Mode: core.LockMode(d.byte()), Days: int(d.int()), Years: int(d.int())}
	}
	if f.next() {
		i.Quota = core.Quota{Bytes: d.int(), Objects: d.int()}
	}
}

// DecodeBucket sets the fields that AppendBucket encoded, and leaves the others unchanged.
func DecodeBucket(b []byte, i *core.BucketInfo) error {
	d := decoder{b: b}
	d.bucket(i)
	return d.done()
}

// AppendChanges appends a list of changes with their stamps, which is the payload of a record.
func AppendChanges(b []byte, changes []core.Change) []byte {
	b = append(b, encodingVersion)
	b = binary.AppendUvarint(b, uint64(len(changes)))
	var last core.Seq
	for _, c := range changes {
		b = append(b, byte(c.Kind()))
		b = binary.AppendUvarint(b, uint64(c.Stamp()-last))
		last = c.Stamp()
		// The length is not yet known: reserve four bytes for it.
		at := len(b)
		b = appendChange(append(b, 0, 0, 0, 0), c)
		binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	return b
}

// DecodeChanges is the inverse of AppendChanges. It returns Unsupported for a newer version of the encoding or an
// unknown kind of change.
func DecodeChanges(b []byte) ([]core.Change, error) {
	d := decoder{b: b}
	if v := d.byte(); d.err == nil && v != encodingVersion {
		return nil, core.E("encoding.DecodeChanges", core.Unsupported, fmt.Errorf("the record has version %d, but this version of ORCAS supports only version %d", v, encodingVersion))
	}
	changes := make([]core.Change, 0, d.count(6)) // a change has at least one byte for its kind, one for its stamp, and four for its length
	var last core.Seq
	for range cap(changes) {
		kind := core.ChangeKind(d.byte())
		last += core.Seq(d.uint())
		length := d.raw(4)
		if length == nil {
			break
		}
		body := decoder{b: d.raw(int(binary.LittleEndian.Uint32(length)))}
		if d.err != nil {
			break
		}
		c := body.change(kind)
		if err := body.done(); err != nil {
			return nil, err
		}
		c.SetStamp(last)
		changes = append(changes, c)
	}
	return changes, d.done()
}

var errNewerKind = errors.New("the change was written by a newer version of ORCAS")

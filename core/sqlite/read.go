package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// version is a stored version of a key.
type version struct {
	core.ObjectInfo
	born    core.DataID    // the content that was written with this version, and whose row has its info; 0: the info is in infos
	content *core.DataInfo // the DataInfo of born, or nil if born is 0
	old     bool           // the row is in history, not in objects
}

// depth determines how much of a version is read.
type depth int

const (
	bare     depth = iota // Seq, Null, Marker, List, Segments, and Size
	full                  // everything but the Info of segments
	resolved              // everything
)

// load reads the version that st selects. It returns nil if there is no such version.
func (c *conn) load(st statement, d depth, bucket core.BucketID, key string, seq core.Version) (*version, error) {
	var r cursor
	var err error
	if st == selectVersion {
		r, err = c.query(st, int64(bucket), blob(key), int64(seq))
	} else {
		r, err = c.query(st, int64(bucket), blob(key))
	}
	if err != nil {
		return nil, err
	}
	defer r.close() // after decodeVersion, so that everything is read from the same snapshot
	if ok, err := r.next(); !ok {
		return nil, err
	}
	v, err := c.decodeVersion(bucket, key, r.cols, d)
	if err == nil {
		v.old = st != selectObject
	}
	return v, err
}

// decodeVersion decodes the versionColumns of a version.
func (c *conn) decodeVersion(bucket core.BucketID, key string, cols []driver.Value, d depth) (*version, error) {
	v := &version{
		ObjectInfo: core.ObjectInfo{Bucket: bucket, Key: key, Seq: core.Seq(integer(cols[0]))},
		born:       core.DataID(integer(cols[2])),
	}
	null := integer(cols[1]) != 0
	v.Null = null
	if v.born != 0 {
		var err error
		if v.content, err = decodeData(int64(v.born), cols[3:6]); err != nil {
			return nil, err
		}
	}
	if v.born != 0 && d == bare {
		v.Segments = []core.Segment{{Data: v.born}}
		v.Size = v.bornSize(bytes(cols[6]))
		return v, nil
	}
	if err := c.decodeObject(&v.ObjectInfo, int64(v.born), bytes(cols[6]), nil); err != nil {
		return nil, err
	}
	if v.Null != null {
		return nil, damaged("version", errRowSum)
	}
	if d < resolved {
		return v, nil
	}
	return v, c.resolve(v.Segments, v.content)
}

// bornSize returns the size in the info of a version whose content was written with it. If the info is damaged, it is
// the size of the content.
func (v *version) bornSize(info []byte) int64 {
	info, err := versionKey(int64(v.Bucket), v.Key, int64(v.Seq), int64(v.born)).checkSum(info)
	if err == nil {
		var size int64
		if size, err = encoding.ObjectSize(info); err == nil {
			return size
		}
	}
	return v.content.Size
}

// decodeObject decodes the info of a version. If data is 0, it reads the info from infos; otherwise info is the column
// of the row of the content data. With a decoder, objects share memory (see encoding.ObjectDecoder).
func (c *conn) decodeObject(o *core.ObjectInfo, data int64, info []byte, d *encoding.ObjectDecoder) error {
	if data == 0 {
		row, err := c.row(selectInfo, int64(o.Seq))
		if err != nil {
			return err
		}
		if row == nil {
			return damaged("version", errors.New("the row with its info is missing"))
		}
		info = bytes(row[0])
	}
	info, err := versionKey(int64(o.Bucket), o.Key, int64(o.Seq), data).checkSum(info)
	if err == nil {
		err = d.Decode(info, o, core.DataID(data))
	}
	return damaged("version", err)
}

// decodeBucket decodes the column info of a bucket.
func decodeBucket(id int64, name string, info []byte, b *core.BucketInfo) error {
	info, err := bucketKey(id, name).checkSum(info)
	if err == nil {
		err = encoding.DecodeBucket(info, b)
	}
	return damaged("bucket", err)
}

// decodeUpload decodes the column info of an upload, whose other columns are in u.
func decodeUpload(info []byte, u *core.UploadInfo) error {
	info, err := uploadKey(int64(u.Bucket), u.Key, int64(u.ID)).checkSum(info)
	if err == nil {
		err = encoding.DecodeUpload(info, u)
	}
	return damaged("upload", err)
}

// decodePart decodes the columns seq and info of a part.
func decodePart(list core.UploadID, number int64, cols []driver.Value) (*core.PartInfo, error) {
	p := &core.PartInfo{Number: int(number), Seq: core.Seq(integer(cols[0]))}
	info, err := partKey(int64(list), number, integer(cols[0])).checkSum(bytes(cols[1]))
	if err == nil {
		err = encoding.DecodePart(info, p)
	}
	return p, damaged("part", err)
}

// decodeData decodes the columns refs, sha256, and info.
func decodeData(id int64, cols []driver.Value) (*core.DataInfo, error) {
	info, err := dataKey(id, bytes(cols[1])).checkSum(bytes(cols[2]))
	if err != nil {
		return nil, damaged("content", err)
	}
	d, err := encoding.DecodeDataRow(info, core.DataID(id))
	if err != nil {
		return nil, damaged("content", err)
	}
	d.Refs = integer(cols[0])
	copy(d.SHA256[:], bytes(cols[1]))
	return d, nil
}

// content reads a DataInfo, or returns nil if there is none with that ID.
func (c *conn) content(id core.DataID) (*core.DataInfo, error) {
	row, err := c.row(selectData, int64(id))
	if row == nil {
		return nil, err
	}
	return decodeData(int64(id), row)
}

// resolve sets the Info of segments. Known is an Info that has been read already, or nil.
func (c *conn) resolve(segments []core.Segment, known *core.DataInfo) error {
	for i := range segments {
		s := &segments[i]
		if known != nil && known.ID == s.Data {
			s.Info = known
			continue
		}
		info, err := c.content(s.Data)
		if err != nil {
			return err
		}
		if info == nil {
			return damaged("segment", fmt.Errorf("content %d is missing", s.Data))
		}
		s.Info = info
	}
	return nil
}

// find reads a version of a key, or returns nil if there is none. The connection must be in a transaction. The null
// version is found only as Null, not by its sequence.
func (c *conn) find(bucket core.BucketID, key string, v core.Version, d depth) (*version, error) {
	found, err := c.load(selectObject, d, bucket, key, 0)
	if err != nil || found != nil && isVersion(found, v) {
		return found, err
	}
	switch v {
	case core.Current:
		return c.load(selectNewest, d, bucket, key, 0)
	case core.Null:
		return c.load(selectNull, d, bucket, key, 0)
	}
	found, err = c.load(selectVersion, d, bucket, key, v)
	if found != nil && found.Null {
		found = nil
	}
	return found, err
}

// isVersion reports whether found, the version in objects, is the requested version v.
func isVersion(found *version, v core.Version) bool {
	return v == core.Current || found.Version() == v
}

// Object implements core.Meta.
func (m *Meta) Object(ctx context.Context, bucket core.BucketID, key string, v core.Version) (*core.ObjectInfo, error) {
	const op = "sqlite.Object"
	if m.w.tx.touched.has(placeOfKey(bucket, key)) {
		var found *version
		err := m.readTouched(ctx, op, func(c *conn) (err error) {
			found, err = c.readVersion(bucket, key, v)
			return err
		})
		if err != nil {
			return nil, err
		}
		return &found.ObjectInfo, nil
	}
	c, err := m.acquire(ctx, op)
	if err != nil {
		return nil, err
	}
	defer m.release(c)
	found, err := c.load(selectObject, resolved, bucket, key, 0)
	if err == nil && found != nil && isVersion(found, v) {
		found.Latest = true
		return &found.ObjectInfo, nil
	}
	if err == nil {
		err = c.snapshot(func() (err error) {
			found, err = c.readVersion(bucket, key, v)
			return err
		})
	}
	if err != nil {
		return nil, wrap(op, err)
	}
	return &found.ObjectInfo, nil
}

// readVersion finds a version and sets Latest. It returns NoSuchKey if the key has no versions, and NoSuchVersion if
// only this version is missing.
func (c *conn) readVersion(bucket core.BucketID, key string, v core.Version) (*version, error) {
	d := bare
	if v == core.Current {
		d = resolved
	}
	newest, err := c.find(bucket, key, core.Current, d)
	if err != nil {
		return nil, err
	}
	if newest == nil {
		return nil, core.E("sqlite.find", core.NoSuchKey, nil)
	}
	found := newest
	if v != core.Current {
		if found, err = c.find(bucket, key, v, resolved); err != nil {
			return nil, err
		}
		if found == nil {
			return nil, core.E("sqlite.find", core.NoSuchVersion, nil)
		}
	}
	found.Latest = found.Seq == newest.Seq
	return found, nil
}

// State implements core.Meta.
func (m *Meta) State(ctx context.Context) (core.State, error) {
	m.stateMu.Lock()
	defer m.stateMu.Unlock()
	if m.closed {
		return core.State{}, core.E("sqlite.State", core.Unavailable, errClosed)
	}
	return m.state, nil
}

// Bucket implements core.Meta.
func (m *Meta) Bucket(ctx context.Context, name string) (*core.BucketInfo, error) {
	var info *core.BucketInfo
	err := m.read(ctx, "sqlite.Bucket", func(c *conn) error {
		row, err := c.row(selectBucket, blob(name))
		if err != nil {
			return err
		}
		if row == nil {
			return core.E("sqlite.Bucket", core.NoSuchBucket, fmt.Errorf("bucket %q does not exist", name))
		}
		info = &core.BucketInfo{ID: core.BucketID(integer(row[0])), Name: name}
		return decodeBucket(integer(row[0]), name, bytes(row[1]), info)
	})
	return info, err
}

// Buckets implements core.Meta.
func (m *Meta) Buckets(ctx context.Context, prefix, after string, limit int) ([]core.BucketInfo, error) {
	var list []core.BucketInfo
	err := m.read(ctx, "sqlite.Buckets", func(c *conn) error {
		r, err := c.query(selectBuckets, blob(max(prefix, following(after))))
		if err != nil {
			return err
		}
		defer r.close()
		for len(list) < limit {
			ok, err := r.next()
			name := text(r.cols[1])
			if err != nil || !ok || !strings.HasPrefix(name, prefix) {
				return err
			}
			info := core.BucketInfo{ID: core.BucketID(integer(r.cols[0])), Name: name}
			if err := decodeBucket(integer(r.cols[0]), name, bytes(r.cols[2]), &info); err != nil {
				return err
			}
			list = append(list, info)
		}
		return nil
	})
	return list, err
}

// following returns the smallest key that is greater than key. It returns "" for "", since no key is empty.
func following(key string) string {
	if key == "" {
		return ""
	}
	return key + "\x00"
}

// Upload implements core.Meta.
func (m *Meta) Upload(ctx context.Context, bucket core.BucketID, key string, id core.UploadID) (*core.UploadInfo, error) {
	var info *core.UploadInfo
	err := m.read(ctx, "sqlite.Upload", func(c *conn) (err error) {
		info, err = c.upload(bucket, key, id)
		if err == nil && info == nil {
			return core.E("sqlite.Upload", core.NoSuchUpload, nil)
		}
		return err
	})
	return info, err
}

// upload reads an upload in progress, or returns nil if there is none.
func (c *conn) upload(bucket core.BucketID, key string, id core.UploadID) (*core.UploadInfo, error) {
	row, err := c.row(selectUpload, int64(bucket), blob(key), int64(id))
	if row == nil {
		return nil, err
	}
	info := &core.UploadInfo{ID: id, Bucket: bucket, Key: key}
	return info, decodeUpload(bytes(row[0]), info)
}

// Parts implements core.Meta.
func (m *Meta) Parts(ctx context.Context, id core.UploadID, after, limit int, content core.PartContent) ([]core.PartInfo, error) {
	var list []core.PartInfo
	err := m.read(ctx, "sqlite.Parts", func(c *conn) (err error) {
		list, err = c.parts(id, after, limit, content)
		return err
	})
	return list, err
}

// parts implements Parts.
func (c *conn) parts(id core.UploadID, after, limit int, content core.PartContent) (list []core.PartInfo, err error) {
	err = c.each(func(cols []driver.Value) error {
		p, err := decodePart(id, integer(cols[0]), cols[1:])
		if err == nil && (content == core.WithContent || mutant.Is("parts-resolved")) {
			err = c.resolve(p.Segments, nil)
		}
		if err == nil {
			list = append(list, *p)
		}
		return err
	}, selectParts, int64(id), int64(after), int64(limit))
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Data implements core.Meta.
func (m *Meta) Data(ctx context.Context, ids []core.DataID) ([]core.DataInfo, error) {
	const op = "sqlite.Data"
	var list []core.DataInfo
	read := func(c *conn) error {
		readAll := func() error {
			for _, id := range ids {
				d, err := c.content(id)
				if err != nil {
					return err
				}
				if d != nil {
					list = append(list, *d)
				}
			}
			return nil
		}
		if len(ids) == 1 { // a single statement needs no transaction
			return readAll()
		}
		return c.snapshot(readAll)
	}
	isTouched := func() bool {
		return slices.ContainsFunc(ids, func(id core.DataID) bool { return m.w.tx.touched.has(placeOfData(id)) })
	}
	var err error
	if len(ids) == 1 && isTouched() {
		err = m.readTouched(ctx, op, read)
	} else {
		err = m.readCommitted(ctx, op, isTouched, read)
	}
	return list, err
}

// Garbage implements core.Meta.
func (m *Meta) Garbage(ctx context.Context, after uint64, limit int) ([]core.Garbage, error) {
	var list []core.Garbage
	always := func() bool { return true }
	err := m.readCommitted(ctx, "sqlite.Garbage", always, func(c *conn) error {
		return c.each(func(cols []driver.Value) error {
			g, err := decodeGarbage(cols)
			if err == nil {
				list = append(list, *g)
			}
			return err
		}, selectGarbage, int64(min(after, math.MaxInt64)), int64(limit))
	})
	return list, err
}

// decodeGarbage decodes the columns id, list, and extents.
func decodeGarbage(cols []driver.Value) (*core.Garbage, error) {
	g := &core.Garbage{ID: uint64(integer(cols[0])), List: core.UploadID(integer(cols[1]))}
	extents, err := garbageKey(integer(cols[0]), integer(cols[1])).checkSum(bytes(cols[2]))
	if err == nil {
		g.Extents, err = encoding.DecodeExtents(extents)
	}
	return g, damaged("garbage", err)
}

// Records implements core.Meta.
func (m *Meta) Records(ctx context.Context, kind, after string, limit int) ([]core.Record, error) {
	var list []core.Record
	err := m.read(ctx, "sqlite.Records", func(c *conn) error {
		return c.each(func(cols []driver.Value) error {
			value, err := recordKey(kind, text(cols[0])).checkSum(bytes(cols[1]))
			if err != nil {
				return damaged("record", err)
			}
			list = append(list, core.Record{Kind: kind, Key: text(cols[0]), Value: value})
			return nil
		}, selectRecords, blob(kind), blob(after), int64(limit))
	})
	return list, err
}

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	"orcas/core"
)

// Snapshot implements core.Snapshotter: one reading transaction. While it lasts the log grows, since nothing behind its beginning can
// begin anew, and the writer does not wait for that.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	const op = "sqlite.Snapshot"
	m.check.snapshots.Add(1)
	defer m.check.snapshots.Add(-1)
	return m.read(ctx, op, func(c *conn) error {
		d := &dump{c: c, emit: func(r *core.Row) error {
			if err := ctx.Err(); err != nil {
				return core.E(op, core.Canceled, err)
			}
			return emit(r)
		}}
		return c.snapshot(d.all)
	})
}

// dump says everything that the database holds, in a transaction.
type dump struct {
	c    *conn
	emit func(*core.Row) error
}

func (d *dump) all() error {
	state, err := d.c.state()
	if err == nil {
		err = d.emit(&core.Row{State: &state})
	}
	for _, table := range []struct {
		sql string
		row func(cols []driver.Value) (*core.Row, error)
	}{
		{"SELECT id, name, info FROM buckets", d.bucket},
		{"SELECT id, refs, sha256, info FROM data WHERE object IS NULL", d.data},
		{dumpVersions + "objects" + dumpJoin, d.current},
		{dumpVersions + "history" + dumpJoin, d.older},
		{"SELECT bucket, key, id, info FROM uploads", d.upload},
		{"SELECT list, number, seq, info FROM parts", d.part},
		{"SELECT id, list, extents FROM garbage", d.garbage},
		{"SELECT kind, key, value FROM records", d.record},
	} {
		if err == nil {
			err = d.c.scan(table.sql, func(cols []driver.Value) error {
				row, err := table.row(cols)
				if err != nil {
					return err
				}
				return d.emit(row)
			})
		}
	}
	return err
}

const (
	dumpVersions = "SELECT v.bucket, v.key, " + versionColumns + " FROM "
	dumpJoin     = " v LEFT JOIN data d ON d.id = v.data"
)

// scan calls fn with each row of a query that is not kept prepared.
func (c *conn) scan(sql string, fn func(cols []driver.Value) error) error {
	rows, err := c.c.Query(sql, nil)
	if err != nil {
		return err
	}
	defer rows.Close() // gives the error of the last step again
	cols := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(cols); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := fn(cols); err != nil {
			return err
		}
	}
}

func (d *dump) bucket(cols []driver.Value) (*core.Row, error) {
	b := &core.BucketInfo{ID: core.BucketID(integer(cols[0])), Name: text(cols[1])}
	return &core.Row{Bucket: b}, decodeBucket(integer(cols[0]), b.Name, bytes(cols[2]), b)
}

func (d *dump) data(cols []driver.Value) (*core.Row, error) {
	data, err := decodeData(integer(cols[0]), cols[1:])
	return &core.Row{Data: data}, err
}

func (d *dump) current(cols []driver.Value) (*core.Row, error) {
	row, err := d.older(cols)
	if err == nil {
		row.Object.Latest = true
	}
	return row, err
}

func (d *dump) older(cols []driver.Value) (*core.Row, error) {
	v, err := d.c.decodeVersion(core.BucketID(integer(cols[0])), text(cols[1]), cols[2:], full)
	if err != nil {
		return nil, err
	}
	if v.born != 0 {
		if len(v.Segments) != 1 || v.Segments[0].Data != v.born {
			return nil, damaged("version", errors.New("it was not born with its content"))
		}
		v.Segments[0].Info = v.content
	}
	return &core.Row{Object: &v.ObjectInfo}, nil
}

func (d *dump) upload(cols []driver.Value) (*core.Row, error) {
	u := &core.UploadInfo{Bucket: core.BucketID(integer(cols[0])), Key: text(cols[1]), ID: core.UploadID(integer(cols[2]))}
	return &core.Row{Upload: u}, decodeUpload(bytes(cols[3]), u)
}

func (d *dump) part(cols []driver.Value) (*core.Row, error) {
	list := core.UploadID(integer(cols[0]))
	p, err := decodePart(list, integer(cols[1]), cols[2:])
	if err != nil {
		return nil, err
	}
	return &core.Row{Part: &core.ListPart{List: list, PartInfo: *p}}, nil
}

func (d *dump) garbage(cols []driver.Value) (*core.Row, error) {
	g, err := decodeGarbage(cols)
	return &core.Row{Garbage: g}, err
}

func (d *dump) record(cols []driver.Value) (*core.Row, error) {
	r := &core.Record{Kind: text(cols[0]), Key: text(cols[1])}
	value, err := placeOfRecord(r.Kind, r.Key).open(bytes(cols[2]))
	r.Value = value
	return &core.Row{Record: r}, damaged("record", err)
}

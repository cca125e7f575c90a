package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"orcas/core"
)

// Snapshot implements core.Snapshotter: one reading transaction. While it lasts the log grows, since nothing behind its beginning can
// begin anew, and the writer does not wait for that.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	return m.dump(ctx, "sqlite.Snapshot", emit, nil)
}

// Salvage implements core.Salvager.
func (m *Meta) Salvage(ctx context.Context, emit func(*core.Row) error, lost func(what string, err error)) error {
	return m.dump(ctx, "sqlite.Salvage", emit, lost)
}

func (m *Meta) dump(ctx context.Context, op string, emit func(*core.Row) error, lost func(what string, err error)) error {
	m.check.snapshots.Add(1)
	defer m.check.snapshots.Add(-1)
	return m.read(ctx, op, func(c *conn) error {
		d := &dump{c: c, lost: lost, emit: func(r *core.Row) error {
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
	lost func(what string, err error) // nil: what cannot be read ends it
}

func (d *dump) all() error {
	state, err := d.c.state()
	if err == nil {
		err = d.emit(&core.Row{State: &state})
	}
	for _, table := range []struct {
		sql  string
		row  func(cols []driver.Value) (*core.Row, error)
		what string // how a row is named by its first columns
	}{
		{"SELECT id, name, info FROM buckets", d.bucket, "bucket %d, %q"},
		{"SELECT id, refs, sha256, info FROM data WHERE object IS NULL", d.data, "content %d"},
		{dumpVersions + "objects" + dumpJoin, d.current, "a version in bucket number %d of key %q, sequence %d"},
		{dumpVersions + "history" + dumpJoin, d.older, "a version in bucket number %d of key %q, sequence %d"},
		{"SELECT bucket, key, id, info FROM uploads", d.upload, "an upload in bucket number %d of key %q, number %d"},
		{"SELECT list, number, seq, info FROM parts", d.part, "part of list %d, number %d"},
		{"SELECT id, list, extents FROM garbage", d.garbage, "garbage %d"},
		{"SELECT kind, key, value FROM records", d.record, "record of kind %q, key %q"},
	} {
		if err == nil {
			err = d.c.scan(table.sql, func(cols []driver.Value) error {
				row, err := table.row(cols)
				if err != nil && d.lost != nil && kindOf(err) == core.Damaged {
					d.lost(nameRow(table.what, cols), err)
					return nil
				}
				if err != nil {
					return err
				}
				return d.emit(row)
			})
		}
	}
	return err
}

// nameRow names a row by as many columns as what asks for.
func nameRow(what string, cols []driver.Value) string {
	args := make([]any, strings.Count(what, "%"))
	for i := range args {
		args[i] = cols[i]
	}
	return fmt.Sprintf(what, args...)
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

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

// Snapshot implements core.Snapshotter with one read transaction. The log grows until the snapshot ends. The comment in
// brake.go explains how that slows down writes, and when the snapshot returns Busy in favor of writes.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	return m.dump(ctx, "sqlite.Snapshot", emit, nil)
}

// Salvage implements core.Salvager.
func (m *Meta) Salvage(ctx context.Context, emit func(*core.Row) error, lost func(what string, err error)) error {
	return m.dump(ctx, "sqlite.Salvage", emit, lost)
}

func (m *Meta) dump(ctx context.Context, op string, emit func(*core.Row) error, lost func(what string, err error)) error {
	return m.readLong(ctx, op, func(ctx context.Context, c *conn, r *longRead) error {
		d := &dump{ctx: ctx, c: c, read: r, lost: lost, emit: func(r *core.Row) error {
			if err := ctx.Err(); err != nil {
				return core.E(op, core.Canceled, err)
			}
			return emit(r)
		}}
		return c.snapshot(d.run)
	})
}

// dump emits all rows of the database, in one transaction.
type dump struct {
	ctx  context.Context
	c    *conn
	read *longRead
	all  int64 // the number of rows of the large tables
	done int64 // the number of rows read, of all tables
	emit func(*core.Row) error
	lost func(what string, err error) // called for each damaged row; if it is nil, a damaged row ends the dump
}

// progressEvery is the number of rows between two updates of the progress.
const progressEvery = 1 << 10

func (d *dump) run() error {
	state, err := d.c.state()
	if err == nil {
		err = d.c.scan(d.ctx, "SELECT (SELECT count(*) FROM objects) + (SELECT count(*) FROM history) + (SELECT count(*) FROM parts)",
			func(cols []driver.Value) error {
				d.all = integer(cols[0])
				return nil
			})
	}
	if err == nil {
		err = d.emit(&core.Row{State: &state})
	}
	for _, table := range []struct {
		sql  string
		row  func(cols []driver.Value) (*core.Row, error)
		what string // the format of the description of a row; its arguments are the first columns
	}{
		{"SELECT id, name, info FROM buckets", d.bucket, "bucket %d, %q"},
		{"SELECT id, refs, sha256, info FROM data WHERE object IS NULL", d.data, "content %d"},
		{dumpVersions + "objects" + dumpJoin, d.current, "version %[3]d of key %[2]q in the bucket with ID %[1]d"},
		{dumpVersions + "history" + dumpJoin, d.older, "version %[3]d of key %[2]q in the bucket with ID %[1]d"},
		{"SELECT bucket, key, id, info FROM uploads", d.upload, "upload %[3]d of key %[2]q in the bucket with ID %[1]d"},
		{"SELECT list, number, seq, info FROM parts", d.part, "part %[2]d of list %[1]d"},
		{"SELECT id, list, extents FROM garbage", d.garbage, "garbage %d"},
		{"SELECT kind, key, value FROM records", d.record, "record %[2]q of kind %[1]q"},
	} {
		if err == nil {
			err = d.c.scan(d.ctx, table.sql, func(cols []driver.Value) error {
				if d.done++; d.done%progressEvery == 0 {
					d.read.did(d.done, d.all)
				}
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

// nameRow describes a row. What is a format, and its arguments are the first columns of the row.
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

// scan calls fn with each row of a query that is not prepared, until ctx ends.
func (c *conn) scan(ctx context.Context, sql string, fn func(cols []driver.Value) error) error {
	rows, err := c.c.QueryContext(ctx, sql, nil)
	if err != nil {
		return err
	}
	defer rows.Close() // its error is that of the last step
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
			return nil, damaged("version", errors.New("its row refers to content that its segments do not refer to"))
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
	value, err := recordKey(r.Kind, r.Key).checkSum(bytes(cols[2]))
	r.Value = value
	return &core.Row{Record: r}, damaged("record", err)
}

package sqlite

import (
	stdbytes "bytes"
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

const (
	dumpRows   = 4096    // the maximum number of rows in a range; Options.dumpRows replaces it
	dumpBytes  = 4 << 20 // a range ends when its rows have this many bytes
	imageBatch = 1000    // the number of images that are read while Meta.mu is held
)

// Snapshot implements core.Snapshotter. It reads ranges of rows, each in a short transaction: see images.go. A second
// snapshot waits for the end of the first.
func (m *Meta) Snapshot(ctx context.Context, emit func(*core.Row) error) error {
	const op = "sqlite.Snapshot"
	unlock, err := m.lockRows(ctx, op)
	if err != nil {
		return err
	}
	defer unlock()
	d := &dump{m: m, ctx: ctx, op: op, emit: emit, rows: cmp.Or(m.options.dumpRows, dumpRows)}
	defer d.endImages()
	if err := d.startImages(); err != nil {
		return wrap(op, err)
	}
	return wrap(op, d.run())
}

// Salvage implements core.Salvager. It reads each table from its beginning to its end in one long read, because the rows
// of a damaged table may not be in order, or may not be found by their keys.
func (m *Meta) Salvage(ctx context.Context, emit func(*core.Row) error, lost func(what string, err error)) error {
	const op = "sqlite.Salvage"
	return m.readLong(ctx, op, func(ctx context.Context, c *conn) error {
		return c.snapshot(func() error {
			d := &dump{m: m, ctx: ctx, op: op, emit: emit, lost: lost}
			var err error
			if d.state, err = c.state(); err == nil {
				err = d.emit(&core.Row{State: &d.state})
			}
			for _, t := range d.tables() {
				if err == nil {
					err = c.scan(ctx, fmt.Sprintf("SELECT %s FROM %s v %s", t.columns, t.name, t.join), func(cols []driver.Value) error {
						return d.emitRow(&t, cols)
					})
				}
			}
			return err
		})
	})
}

// lockRows waits until no snapshot or restore is in progress. The caller then calls unlock.
func (m *Meta) lockRows(ctx context.Context, op string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, core.E(op, core.Canceled, err)
	}
	select {
	case m.rows <- struct{}{}:
		return func() { <-m.rows }, nil
	case <-m.done:
		return nil, core.E(op, core.Unavailable, errClosed)
	case <-ctx.Done():
		return nil, core.E(op, core.Canceled, ctx.Err())
	}
}

// dump emits all rows of the database as of one state.
type dump struct {
	m     *Meta
	ctx   context.Context
	op    string
	state core.State
	rows  int // the maximum number of rows in a range
	emit  func(*core.Row) error
	lost  func(what string, err error) // called for each damaged row; if it is nil, a damaged row ends the dump

	images int64 // the size of the before-images, in bytes

	refs  uint64 // the sum of mix(ID) over the counted references to content, minus that over the references
	infos uint64 // the sum of mix(sequence) over the rows of infos, minus that over the versions with such a row
}

// dumpTable describes how the rows of a table are read.
type dumpTable struct {
	imagedTable
	columns string // what to select from the table (v). The key comes first
	join    string // other tables that are read with the table
	images  string // as columns, for the images
	joined  string // as join, for the images
	row     func(cols []driver.Value) (*core.Row, error)
	what    string // the format of the description of a row; its arguments are the first columns
}

// The columns of a version, and what is joined with them: the content that was written with the version, and its info.
// Content that has an image is read from there.
const (
	dumpVersion = "v.bucket, v.key, v.seq, v.nullver, v.data, "
	dumpContent = dumpVersion + "d.refs, d.sha256, d.info, CASE WHEN v.data IS NULL THEN (SELECT info FROM infos WHERE seq = v.seq) ELSE d.object END"
	dumpJoin    = "LEFT JOIN data d ON d.id = v.data"

	dumpWasContent = dumpVersion + "iif(w.id IS NULL, d.refs, w.refs), iif(w.id IS NULL, d.sha256, w.sha256), iif(w.id IS NULL, d.info, w.info), " +
		"CASE WHEN v.data IS NULL THEN coalesce((SELECT info FROM was_infos WHERE seq = v.seq), (SELECT info FROM infos WHERE seq = v.seq)) " +
		"WHEN w.id IS NULL THEN d.object ELSE w.object END"
	dumpWasJoin = "LEFT JOIN was_data w ON w.id = v.data LEFT JOIN main.data d ON d.id = v.data"

	// All rows of data are read for their references, but the content of a version is read with the version.
	dumpData = "v.id, v.refs, v.object IS NULL, iif(v.object IS NULL, v.sha256, NULL), iif(v.object IS NULL, v.info, NULL)"

	// The columns of a version in dumpContent.
	versionKeys = 3
	versionData = 4
	versionRefs = 5
	versionInfo = 8
)

// tables returns the tables in the order in which they are read.
func (d *dump) tables() []dumpTable {
	plain := func(t imagedTable, row func([]driver.Value) (*core.Row, error), what string) dumpTable {
		columns := "v." + strings.Join(t.columns, ", v.")
		return dumpTable{imagedTable: t, columns: columns, images: columns, row: row, what: what}
	}
	versions := func(t imagedTable, row func([]driver.Value) (*core.Row, error)) dumpTable {
		return dumpTable{t, dumpContent, dumpJoin, dumpWasContent, dumpWasJoin, row, "version %[3]d of key %[2]q in the bucket with ID %[1]d"}
	}
	return []dumpTable{
		plain(imagedBuckets, d.bucket, "bucket %d, %q"),
		{imagedData, dumpData, "", dumpData, "", d.data, "content %d"},
		versions(imagedObjects, d.current),
		versions(imagedHistory, d.older),
		{imagedInfos, "v.seq", "", "v.seq", "", d.info, "the info of version %d"},
		plain(imagedUploads, d.upload, "upload %[3]d of key %[2]q in the bucket with ID %[1]d"),
		plain(imagedParts, d.part, "part %[2]d of list %[1]d"),
		plain(imagedGarbage, d.garbage, "garbage %d"),
		plain(imagedRecords, d.record, "record %[2]q of kind %[1]q"),
	}
}

func (d *dump) run() error {
	if err := d.emit(&core.Row{State: &d.state}); err != nil {
		return err
	}
	ranges := 0
	for _, t := range d.tables() {
		if err := d.check(&t); err != nil {
			return err
		}
		lo := t.least()
		for lo != nil {
			began, worked := time.Now(), d.m.worked.Load()
			var err error
			if lo, err = d.next(&t, lo); err != nil {
				return err
			}
			pause := rest(time.Since(began), d.m.worked.Load()-worked-1, d.images) // one read was for the range
			if ranges++; ranges <= earlyRanges {
				pause = 0
			}
			d.rest(pause)
		}
	}
	if (d.refs != 0 || d.infos != 0) && !mutant.Is("no-count-of-rows") {
		return damaged("snapshot", errors.New("the versions and parts in the database do not have the references that its content counts, "+
			"so a damaged page may hide rows: check the metadata"))
	}
	return nil
}

// check verifies the pages of a small table. The comment in images.go explains why.
func (d *dump) check(t *dumpTable) error {
	switch t.name {
	case "buckets", "uploads", "garbage", "records":
	default:
		return nil
	}
	if mutant.Is("no-count-of-rows") {
		return nil
	}
	return d.m.read(d.ctx, d.op, func(c *conn) error {
		return c.scan(d.ctx, "PRAGMA integrity_check("+t.name+")", func(cols []driver.Value) error {
			if text, _ := cols[0].(string); text != "ok" {
				return damaged("table "+t.name, errors.New(text))
			}
			return nil
		})
	})
}

// least returns a key that is less than all others: SQLite sorts integers before blobs.
func (t *dumpTable) least() []driver.Value {
	lo := []driver.Value{int64(math.MinInt64), int64(math.MinInt64), int64(math.MaxInt64)}
	return lo[:t.keys]
}

// within returns the condition that the key of row v is between the parameters ?1... and, if there are two keys, at most
// ?(keys+1)....
func (t *dumpTable) within(both bool) string {
	if t.name == "history" { // the order of its rows is no order of SQL row values
		s := "(v.bucket, v.key) >= (?1, ?2) AND NOT (v.bucket = ?1 AND v.key = ?2 AND v.seq >= ?3)"
		if both {
			s += " AND (v.bucket, v.key) <= (?4, ?5) AND NOT (v.bucket = ?4 AND v.key = ?5 AND v.seq < ?6)"
		}
		return s
	}
	key := t.key()
	params := func(from int) string {
		s := make([]string, t.keys)
		for i := range s {
			s[i] = "?" + strconv.Itoa(from+i)
		}
		return "(" + strings.Join(s, ", ") + ")"
	}
	s := "(" + key + ") > " + params(1)
	if both {
		s += " AND (" + key + ") <= " + params(t.keys+1)
	}
	return s
}

func (t *dumpTable) key() string { return "v." + strings.Join(t.imagedTable.columns[:t.keys], ", v.") }

// compare compares two keys in the order of the table.
func (t *dumpTable) compare(a, b []driver.Value) int {
	for i := range t.keys {
		x, isInt := a[i].(int64)
		y, areInt := b[i].(int64)
		c := stdbytes.Compare(bytes(a[i]), bytes(b[i]))
		if isInt || areInt {
			c = cmp.Or(-cmp.Compare(btoi(isInt), btoi(areInt)), cmp.Compare(x, y))
		}
		if c != 0 && t.name == "history" && i == 2 {
			return -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// next emits the rows of the range after lo, and returns its last key, or nil if it was the last range.
func (d *dump) next(t *dumpTable, lo []driver.Value) (hi []driver.Value, err error) {
	if err := d.ctx.Err(); err != nil {
		return nil, core.E(d.op, core.Canceled, err)
	}
	var rows [][]driver.Value
	err = d.m.read(d.ctx, d.op, func(c *conn) error {
		return c.snapshot(func() (err error) {
			rows, hi, err = d.read(c, t, lo)
			return err
		})
	})
	if err == nil && hi != nil && t.compare(lo, hi) >= 0 {
		err = damaged("table "+t.name, errors.New("its rows are not in order"))
	}
	if err == nil {
		err = d.undo(t, lo, hi, rows)
	}
	for _, cols := range rows {
		if err == nil && cols != nil {
			err = d.emitRow(t, cols)
		}
	}
	return hi, err
}

// read reads the rows of the range after lo, without those that were inserted after the snapshot began.
func (d *dump) read(c *conn, t *dumpTable, lo []driver.Value) (rows [][]driver.Value, hi []driver.Value, err error) {
	sql := fmt.Sprintf("SELECT %s FROM %s v WHERE %s ORDER BY %s LIMIT 1 OFFSET %d", t.key(), t.name, t.within(false), t.order, d.rows-1)
	if err := c.scan(background, sql, func(cols []driver.Value) error {
		hi = append(hi, cols...)
		return nil
	}, lo...); err != nil {
		return nil, nil, err
	}
	sql = fmt.Sprintf("SELECT %s FROM %s v %s WHERE %s AND NOT (%s) ORDER BY %s", t.columns, t.name, t.join, t.within(hi != nil),
		t.isFresh("v", d.state), "v."+strings.ReplaceAll(t.order, ", ", ", v."))
	size := 0
	enough := errors.New("the range has enough bytes")
	err = c.scan(background, sql, func(cols []driver.Value) error {
		rows = append(rows, append([]driver.Value(nil), cols...))
		for _, col := range cols {
			size += len(bytes(col))
		}
		if size >= dumpBytes {
			return enough
		}
		return nil
	}, append(lo[:t.keys:t.keys], hi...)...)
	if err == enough {
		return rows, rows[len(rows)-1][:t.keys:t.keys], nil
	}
	return rows, hi, err
}

// undo reads the images of a range. It emits those of rows that existed, sets the rows that they replace to nil, and
// replaces content and infos of the other rows by their images.
func (d *dump) undo(t *dumpTable, lo, hi []driver.Value, rows [][]driver.Value) error {
	var byKey map[string]int // made when there is an image
	sql := fmt.Sprintf("SELECT %s, v.present FROM %s v %s WHERE %s ORDER BY %s LIMIT %d", t.images, t.imagedTable.images(), t.joined, t.within(hi != nil),
		"v."+strings.ReplaceAll(t.order, ", ", ", v."), imageBatch)
	for {
		var images [][]driver.Value
		if err := d.withWriter(func(c *conn) (err error) {
			if d.images, err = c.imageBytes(); err != nil {
				return err
			}
			return c.scan(background, sql, func(cols []driver.Value) error {
				images = append(images, append([]driver.Value(nil), cols...))
				return nil
			}, append(lo[:t.keys:t.keys], hi...)...)
		}); err != nil {
			return err
		}
		if byKey == nil && len(images) > 0 {
			byKey = make(map[string]int, len(rows))
			for i, cols := range rows {
				byKey[t.keyOf(cols)] = i
			}
		}
		for _, image := range images {
			if i, found := byKey[t.keyOf(image)]; found {
				rows[i] = nil
			}
			if n := len(image) - 1; integer(image[n]) != 0 {
				if err := d.emitRow(t, image[:n]); err != nil {
					return err
				}
			}
		}
		if len(images) < imageBatch {
			break
		}
		lo = images[len(images)-1][:t.keys]
	}
	if t.join == "" {
		return nil
	}
	for len(rows) > 0 {
		n := min(imageBatch, len(rows))
		if err := d.withWriter(func(c *conn) error { return d.undoJoined(c, rows[:n]) }); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// undoJoined replaces the content and the infos of versions by their images.
func (d *dump) undoJoined(c *conn, rows [][]driver.Value) error {
	for _, of := range []struct {
		images, columns string
		isIn            func(cols []driver.Value) bool
		id              int // the column of a version that has the ID
		from            int // the first column of a version that the image replaces
	}{
		{"was_data", "w.id, w.refs, w.sha256, w.info, w.object", func(cols []driver.Value) bool { return cols[versionData] != nil }, versionData, versionRefs},
		{"was_infos", "w.seq, w.info", func(cols []driver.Value) bool { return cols[versionData] == nil }, 2, versionInfo},
	} {
		any := false
		if err := c.scan(background, "SELECT 1 FROM "+of.images+" LIMIT 1", func([]driver.Value) error { any = true; return nil }); err != nil {
			return err
		}
		if !any {
			continue
		}
		byID, list := map[int64][]driver.Value{}, []byte("[")
		for _, cols := range rows {
			if cols != nil && of.isIn(cols) {
				id := integer(cols[of.id])
				byID[id] = cols
				list = append(strconv.AppendInt(list, id, 10), ',')
			}
		}
		if len(byID) == 0 {
			continue
		}
		list[len(list)-1] = ']'
		key, _, _ := strings.Cut(of.columns, ",")
		sql := fmt.Sprintf("SELECT %s FROM json_each(?1) j CROSS JOIN %s w ON %s = j.value WHERE w.present", of.columns, of.images, key)
		if err := c.scan(background, sql, func(cols []driver.Value) error {
			copy(byID[integer(cols[0])][of.from:], cols[1:])
			return nil
		}, string(list)); err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns the key of a row as a string.
func (t *dumpTable) keyOf(cols []driver.Value) string {
	var key []byte
	for _, col := range cols[:t.keys] {
		key = binary.AppendVarint(key, integer(col))
		key = binary.AppendUvarint(key, uint64(len(bytes(col))))
		key = append(key, bytes(col)...)
	}
	return string(key)
}

func (d *dump) emitRow(t *dumpTable, cols []driver.Value) error {
	if err := d.ctx.Err(); err != nil {
		return core.E(d.op, core.Canceled, err)
	}
	row, err := t.row(cols)
	if err != nil && d.lost != nil && kindOf(err) == core.Damaged {
		d.lost(nameRow(t.what, cols), err)
		return nil
	}
	if err != nil || row == nil {
		return err
	}
	return d.emit(row)
}

// nameRow describes a row. What is a format, and its arguments are the first columns of the row.
func nameRow(what string, cols []driver.Value) string {
	args := make([]any, strings.Count(what, "%"))
	for i := range args {
		args[i] = cols[i]
	}
	return fmt.Sprintf(what, args...)
}

// scan calls fn with each row of a query that is not prepared, until ctx ends. A query of the writer's connection must
// not have a context that ends, because the driver might interrupt the next statement instead.
func (c *conn) scan(ctx context.Context, sql string, fn func(cols []driver.Value) error, args ...driver.Value) error {
	named := make([]driver.NamedValue, len(args))
	for i, v := range args {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	rows, err := c.c.QueryContext(ctx, sql, named)
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

// mix hashes an ID.
func mix(id int64) uint64 {
	h := uint64(id) * 0x9e3779b97f4a7c15
	h ^= h >> 32
	return h * 0xd6e8feb86659fd93
}

func (d *dump) data(cols []driver.Value) (*core.Row, error) {
	id, refs := integer(cols[0]), integer(cols[1])
	d.refs += mix(id) * uint64(refs)
	if integer(cols[2]) == 0 {
		return nil, nil
	}
	data, err := decodeData(id, []driver.Value{refs, cols[3], cols[4]})
	return &core.Row{Data: data}, err
}

func (d *dump) info(cols []driver.Value) (*core.Row, error) {
	d.infos += mix(integer(cols[0]))
	return nil, nil
}

func (d *dump) count(segments []core.Segment) {
	for i := range segments {
		d.refs -= mix(int64(segments[i].Data))
	}
}

func (d *dump) current(cols []driver.Value) (*core.Row, error) {
	row, err := d.older(cols)
	if err == nil {
		row.Object.Latest = true
	}
	return row, err
}

func (d *dump) older(cols []driver.Value) (*core.Row, error) {
	o := &core.ObjectInfo{Bucket: core.BucketID(integer(cols[0])), Key: text(cols[1]), Seq: core.Seq(integer(cols[2]))}
	null, born := integer(cols[3]) != 0, integer(cols[versionData])
	var content *core.DataInfo
	if born != 0 {
		var err error
		if content, err = decodeData(born, cols[versionRefs:versionInfo]); err != nil {
			return nil, err
		}
	} else if cols[versionInfo] == nil {
		return nil, damaged("version", errors.New("the row with its info is missing"))
	}
	info, err := versionKey(int64(o.Bucket), o.Key, int64(o.Seq), born).checkSum(bytes(cols[versionInfo]))
	if err == nil {
		err = encoding.DecodeObject(info, o, core.DataID(born))
	}
	if err == nil && o.Null != null {
		err = errRowSum
	}
	if err == nil && born != 0 && (len(o.Segments) != 1 || int64(o.Segments[0].Data) != born) {
		err = errors.New("its row refers to content that its segments do not refer to")
	}
	if err != nil {
		return nil, damaged("version", err)
	}
	d.count(o.Segments)
	if born != 0 {
		o.Segments[0].Info = content
	} else {
		d.infos -= mix(int64(o.Seq))
	}
	return &core.Row{Object: o}, nil
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
	d.count(p.Segments)
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

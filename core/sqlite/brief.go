package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
	"orcas/internal/mutant"
)

// A row of objects repeats what a listing shows, in its column brief. So a page of keys needs no row of data, which may
// be at a random position for each key. The column is NULL if its value would be longer than maxBrief. The info of the
// version remains the truth: a listing reads it if the column is NULL or damaged, and Verify compares them.
//
// UpdateObject changes nothing that is in the column.

// maxBrief is the maximum length of the column brief, in bytes, with its checksum. Usual values have 30 to 40.
const maxBrief = 64

// encodeBrief returns the column brief of a version whose column data is born, in the memory of buf. It returns nil for
// NULL.
func encodeBrief(buf []byte, o *core.ObjectInfo, born int64) []byte {
	b := encoding.AppendBrief(buf[:0], o)
	if len(b) > maxBrief-rowSumSize {
		return nil
	}
	return briefKey(int64(o.Bucket), o.Key, int64(o.Seq), born, o.Null).appendSum(b)
}

// brief returns the value of the column brief. It is valid until the next call.
func (w *writer) brief(o *core.ObjectInfo, born core.DataID) driver.Value {
	b := encodeBrief(w.briefBuf, o, int64(born))
	if b == nil {
		return nil
	}
	w.briefBuf = b
	return b
}

// briefAgain returns the value of the column brief for a version that becomes the current one again, because of the
// deletion of another one. If the version was not read in full, it is NULL.
func (w *writer) briefAgain(v, deleted *version, isWhole bool) driver.Value {
	switch {
	case mutant.Is("old-brief"):
		o := deleted.ObjectInfo
		o.Seq, o.Null = v.Seq, v.Null
		return w.brief(&o, v.born)
	case isWhole:
		return w.brief(&v.ObjectInfo, v.born)
	}
	return nil
}

// addBrief adds the object in the current row of r, which has the columns of listBriefs, to the page.
func (l *listing) addBrief(r *cursor, key string) error {
	o := l.grow()
	*o = core.ObjectInfo{Bucket: l.q.Bucket, Key: key, Seq: core.Seq(integer(r.cols[1])), Null: integer(r.cols[2]) != 0, Latest: true}
	info, err := briefKey(int64(o.Bucket), key, int64(o.Seq), integer(r.cols[3]), o.Null).checkSum(bytes(r.cols[4]))
	if err == nil {
		err = l.objectDecoder.DecodeBrief(info, o)
	}
	if err == nil {
		return nil
	}
	v, err := l.c.load(selectObject, full, o.Bucket, key, 0)
	if err == nil && (v == nil || v.Seq != o.Seq) {
		err = damaged("object", errRowSum) // the key is damaged, so that a search finds no row, or another one
	}
	if err != nil {
		return err
	}
	v.Latest = true
	*o = v.Brief()
	return nil
}

// verifyBriefs compares the column brief of each row with the info of its version, and counts the versions.
func (c *conn) verifyBriefs(ctx context.Context, n *bucketCount, say func(line string)) error {
	found := 0
	return c.eachBrief(ctx, "", nil, func(o *core.ObjectInfo, brief, want []byte, err error) {
		if err != nil {
			n.damaged = true
			return
		}
		n.add(o.Bucket, core.TallyOf(o, true))
		if string(brief) != string(want) || (brief == nil) != (want == nil) {
			if found++; found <= verifyMax {
				say(fmt.Sprintf("the row of key %q in the bucket with ID %d does not have the size, the time, and the ETag of its version", o.Key, o.Bucket))
			}
		}
	})
}

// eachBrief calls fn with each row of objects that matches a condition, its column brief, and what that column should
// be. Err is the error of a version that cannot be read. Snapshot and Salvage report it.
func (c *conn) eachBrief(ctx context.Context, where string, args []driver.Value,
	fn func(o *core.ObjectInfo, brief, want []byte, err error)) error {
	var buf []byte
	return c.scan(ctx, "SELECT v.bucket, v.key, v.seq, v.data, v.brief, "+
		"CASE WHEN v.data IS NULL THEN (SELECT info FROM infos WHERE seq = v.seq) ELSE d.object END "+
		"FROM objects v LEFT JOIN data d ON d.id = v.data "+where, func(cols []driver.Value) error {
		o := &core.ObjectInfo{Bucket: core.BucketID(integer(cols[0])), Key: text(cols[1]), Seq: core.Seq(integer(cols[2]))}
		born := integer(cols[3])
		info, err := versionKey(int64(o.Bucket), o.Key, int64(o.Seq), born).checkSum(bytes(cols[5]))
		if err == nil {
			err = encoding.DecodeObject(info, o, core.DataID(born))
		}
		var want []byte
		if err == nil {
			want = encodeBrief(buf, o, born)
			buf = want
		}
		fn(o, bytes(cols[4]), want, err)
		return nil
	}, args...)
}

// addBriefs migrates to schema version 4: it adds the column brief.
func addBriefs(c *conn) error { return c.run("ALTER TABLE objects ADD COLUMN brief BLOB") }

// fillTogether is the number of rows that the migration fills in one transaction.
const fillTogether = 20_000

// fillBriefs migrates to schema version 5: it fills the column brief, with some rows in each transaction. If it is
// interrupted, the next start continues with the rows whose column is NULL.
func fillBriefs(together int) step {
	bucket, key := int64(-1), []byte{} // the last row of the last transaction
	return func(c *conn) (more bool, err error) {
		type row struct {
			bucket int64
			key    string
			brief  []byte
		}
		rows := make([]row, 0, together)
		err = c.eachBrief(background, fmt.Sprint("WHERE (v.bucket, v.key) > (?1, ?2) AND v.brief IS NULL ORDER BY v.bucket, v.key LIMIT ", together),
			[]driver.Value{bucket, key}, func(o *core.ObjectInfo, _, want []byte, _ error) {
				rows = append(rows, row{int64(o.Bucket), o.Key, append([]byte(nil), want...)})
			})
		for _, r := range rows {
			if err == nil && len(r.brief) > 0 {
				_, err = c.exec(updateBrief, r.bucket, blob(r.key), r.brief)
			}
			bucket, key = r.bucket, blob(r.key)
		}
		return len(rows) > 0, err
	}
}

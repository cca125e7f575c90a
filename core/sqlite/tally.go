package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"orcas/core"
	"orcas/core/encoding"
)

// # Tallies
//
// The row of objects or history in which a version is decides what it adds to the tally of its bucket, so the functions
// that write these rows keep the tallies. The writer reads the tally of a bucket once, adds to it in memory with each
// change, and writes it at the end of a transaction that changed it. So a tally is as durable as the rows that it
// counts, and a rollback, which clears the cached buckets, clears it as well.
//
// A tally only saves reading the rows of a bucket. If its row is damaged, the rows are counted again. The size of a
// version or a part that is damaged itself is then unknown: it counts as 0, until a repair writes everything again.

// tally is the tally of a bucket, with its quota.
type tally struct {
	quota   core.Quota
	held    core.Tally
	changed bool // it is in tallies.changed
}

// admit returns QuotaExceeded if the quota does not allow more. It is the last check of a change.
func (t *tally) admit(more core.Usage) error {
	if t.quota.IsZero() {
		return nil
	}
	return t.quota.Admit(t.held.Usage(), more)
}

// tallies reads and writes the tallies, and keeps the uncommitted changes of the writer.
type tallies struct {
	c       *conn
	changed map[core.BucketID]*tally // tallies that the next commit writes
	buf     []byte                   // a buffer for a row
}

// of returns the tally of a bucket that exists, without its quota.
func (t *tallies) of(id core.BucketID) (*tally, error) {
	if changed := t.changed[id]; changed != nil {
		return changed, nil
	}
	row, err := t.c.row(selectTally, int64(id))
	if err != nil {
		return nil, err
	}
	if row != nil {
		if held, err := decodeTally(int64(id), bytes(row[0])); err == nil {
			return &tally{held: held}, nil
		}
	}
	n, err := t.c.countTallies(background, id)
	if err != nil {
		return nil, err
	}
	counted := &tally{}
	t.add(id, counted, n.held[id])
	return counted, nil
}

// add adds to the tally of a bucket. Minus what is deleted is added, too.
func (t *tallies) add(id core.BucketID, of *tally, more core.Tally) {
	of.held = of.held.Plus(more)
	if !of.changed {
		of.changed = true
		t.changed[id] = of
	}
}

// move counts a version as current or noncurrent that was the opposite before.
func (t *tallies) move(of *tally, v *version, current bool) {
	more := core.TallyOf(&v.ObjectInfo, current).Minus(core.TallyOf(&v.ObjectInfo, !current))
	t.add(v.Bucket, of, more)
}

// remove deletes the tally of a bucket.
func (t *tallies) remove(id core.BucketID) error {
	delete(t.changed, id)
	_, err := t.c.exec(deleteTally, int64(id))
	return err
}

// write writes the tallies that have changed.
func (t *tallies) write() error {
	for id, changed := range t.changed {
		if err := t.writeOne(id, changed.held); err != nil {
			return err
		}
		changed.changed = false
	}
	clear(t.changed)
	return nil
}

func (t *tallies) writeOne(id core.BucketID, held core.Tally) error {
	t.buf = t.buf[:0]
	for _, n := range numbersOf(&held) {
		t.buf = binary.AppendVarint(t.buf, *n)
	}
	t.buf = tallyKey(int64(id)).appendSum(t.buf)
	_, err := t.c.exec(upsertTally, int64(id), t.buf)
	return err
}

// numbersOf returns the numbers of a tally in the order of the column info.
func numbersOf(t *core.Tally) [7]*int64 {
	return [7]*int64{&t.Versions, &t.Bytes, &t.NoncurrentVersions, &t.NoncurrentBytes, &t.DeleteMarkers, &t.Uploads, &t.UploadBytes}
}

// decodeTally decodes the column info of the table tallies.
func decodeTally(id int64, info []byte) (t core.Tally, err error) {
	info, err = tallyKey(id).checkSum(info)
	for _, number := range numbersOf(&t) {
		n := 0
		if *number, n = binary.Varint(info); n <= 0 && err == nil {
			err = errors.New("a number is missing")
		}
		info = info[max(n, 0):]
	}
	if err == nil && len(info) > 0 {
		err = errors.New("the row is too long")
	}
	return t, damaged("tally", err)
}

// replaced returns the usage that a new version or delete marker of a key replaces, in a bucket with a quota. Cur is
// the current version of the key.
func (w *writer) replaced(b bucketState, bucket core.BucketID, key string, cur *version) (core.Usage, error) {
	if b.tally.quota.IsZero() || cur == nil || b.versioning == core.VersioningEnabled {
		return core.Usage{}, nil
	}
	if cur.Null || b.versioning == core.VersioningOff {
		return core.UsageOf(&cur.ObjectInfo), nil
	}
	null, err := w.c.load(selectNull, bare, bucket, key, 0)
	return core.UsageOf(infoOf(null)), err
}

// partsHeld returns the size of the parts of an upload in progress.
func (w *writer) partsHeld(id core.UploadID) (held int64, err error) {
	err = w.c.each(func(cols []driver.Value) error {
		held += partSize(id, cols)
		return nil
	}, selectPartSizes, int64(id))
	return held, err
}

// partSize returns the size of the part with the columns number, seq, and info, or 0 if its row is damaged.
func partSize(list core.UploadID, cols []driver.Value) int64 {
	info, err := partKey(int64(list), integer(cols[0]), integer(cols[1])).checkSum(bytes(cols[2]))
	if err != nil {
		return 0
	}
	size, err := encoding.PartSize(info)
	if err != nil {
		return 0
	}
	return size
}

// bucketCount has tallies that were computed by reading all versions and uploads.
type bucketCount struct {
	held    map[core.BucketID]core.Tally
	damaged bool // there were rows that could not be read, so the tallies are incomplete
}

func newBucketCount() *bucketCount { return &bucketCount{held: map[core.BucketID]core.Tally{}} }

func (n *bucketCount) add(id core.BucketID, more core.Tally) { n.held[id] = n.held[id].Plus(more) }

// rows counts rows with fn. It skips damaged ones.
func (n *bucketCount) rows(ctx context.Context, c *conn, sql string, fn func(id core.BucketID, cols []driver.Value) error) error {
	err := c.scan(ctx, sql, func(cols []driver.Value) error {
		err := fn(core.BucketID(integer(cols[0])), cols[1:])
		if isDamage(err) {
			n.damaged = true
			return nil
		}
		return err
	})
	if isDamage(err) {
		n.damaged = true
		return nil
	}
	return err
}

// where returns a condition for the rows of one bucket, or of all buckets if only is 0.
func where(only core.BucketID) string {
	if only == 0 {
		return ""
	}
	return fmt.Sprint(" WHERE bucket = ", int64(only))
}

// countTallies computes the tally of a bucket, or of all buckets if only is 0. The column brief has the size of most
// current versions, so their content need not be looked up.
func (c *conn) countTallies(ctx context.Context, only core.BucketID) (*bucketCount, error) {
	n := newBucketCount()
	err := n.rows(ctx, c, "SELECT bucket, key, seq, nullver, data, brief FROM objects"+where(only), func(id core.BucketID, cols []driver.Value) error {
		size, err := c.currentSize(id, cols)
		if err == nil {
			n.add(id, core.Tally{Versions: 1, Bytes: size})
		}
		return err
	})
	if err == nil {
		err = c.countHistory(ctx, n, only)
	}
	if err == nil {
		err = c.countUploads(ctx, n, only)
	}
	return n, err
}

// countHistory counts the versions in history.
func (c *conn) countHistory(ctx context.Context, n *bucketCount, only core.BucketID) error {
	sql := "SELECT bucket, key, " + versionColumns + " FROM history v LEFT JOIN data d ON d.id = v.data" + where(only)
	return n.rows(ctx, c, sql, func(id core.BucketID, cols []driver.Value) error {
		v, err := c.decodeVersion(id, text(cols[0]), cols[1:], bare)
		if err == nil {
			n.add(id, core.TallyOf(&v.ObjectInfo, false))
		}
		return err
	})
}

// currentSize returns the size of the version with the columns key, seq, nullver, data, and brief of objects.
func (c *conn) currentSize(id core.BucketID, cols []driver.Value) (int64, error) {
	brief, err := briefKey(int64(id), text(cols[0]), integer(cols[1]), integer(cols[3]), integer(cols[2]) != 0).checkSum(bytes(cols[4]))
	if err == nil {
		if size, err := encoding.BriefSize(brief); err == nil {
			return size, nil
		}
	}
	v, err := c.load(selectObject, bare, id, text(cols[0]), 0)
	if err == nil && v == nil {
		err = damaged("object", errRowSum) // the key is damaged
	}
	if err != nil {
		return 0, err
	}
	return v.Size, nil
}

// countUploads counts uploads in progress, and their parts.
func (c *conn) countUploads(ctx context.Context, n *bucketCount, only core.BucketID) error {
	return n.rows(ctx, c, "SELECT bucket, id FROM uploads"+where(only), func(id core.BucketID, cols []driver.Value) error {
		more := core.Tally{Uploads: 1}
		list := integer(cols[0])
		err := c.each(func(cols []driver.Value) error {
			more.UploadBytes += partSize(core.UploadID(list), cols)
			return nil
		}, selectPartSizes, list)
		n.add(id, more)
		return err
	})
}

// tallyAll migrates to schema version 6: it counts what every bucket holds.
func tallyAll(c *conn) error {
	if err := c.run("DROP TABLE tallies; CREATE TABLE tallies (bucket INTEGER PRIMARY KEY, info BLOB NOT NULL) STRICT"); err != nil {
		return err
	}
	n, err := c.countTallies(background, 0)
	if err != nil {
		return err
	}
	t := tallies{c: c}
	return c.scan(background, "SELECT id FROM buckets", func(cols []driver.Value) error {
		id := core.BucketID(integer(cols[0]))
		return t.writeOne(id, n.held[id])
	})
}

// Tallies implements core.Tallier. It reads with the connection of the writer, so that nothing has to be committed.
func (m *Meta) Tallies(ctx context.Context, after core.BucketID, limit int) ([]core.BucketTally, error) {
	var list []core.BucketTally
	err := m.readTouched(ctx, "sqlite.Tallies", func(c *conn) error {
		var lost []int // the indexes in list of tallies whose rows are damaged
		err := c.each(func(cols []driver.Value) error {
			b := core.BucketTally{Bucket: core.BucketID(integer(cols[0]))}
			if changed := m.w.tallies.changed[b.Bucket]; changed != nil {
				b.Tally = changed.held
			} else {
				var err error
				if b.Tally, err = decodeTally(integer(cols[0]), bytes(cols[1])); err != nil {
					lost = append(lost, len(list))
				}
			}
			list = append(list, b)
			return nil
		}, selectTallies, int64(min(after, math.MaxInt64)), int64(limit))
		for _, i := range lost {
			if err != nil {
				break
			}
			var counted *tally
			if counted, err = m.w.tallies.of(list[i].Bucket); err == nil {
				list[i].Tally = counted.held
			}
		}
		return err
	})
	return list, err
}

// Usage implements core.Meta.
func (m *Meta) Usage(ctx context.Context, bucket core.BucketID) (u core.Usage, err error) {
	const op = "sqlite.Usage"
	err = m.readTouched(ctx, op, func(c *conn) error {
		b, exists, err := m.w.bucket(bucket)
		switch {
		case err != nil:
			return err
		case !exists:
			return core.E(op, core.NoSuchBucket, nil)
		case b.tally.quota.IsZero():
			return core.E(op, core.BucketState, errors.New("the bucket has no quota"))
		}
		u = b.tally.held.Usage()
		return nil
	})
	return u, err
}

// verifyTallies compares the tallies of all buckets with what the buckets hold. The rows of objects are in n already.
func (c *conn) verifyTallies(ctx context.Context, n *bucketCount, say func(line string)) error {
	if err := c.countHistory(ctx, n, 0); err != nil {
		return err
	}
	if err := c.countUploads(ctx, n, 0); err != nil {
		return err
	}
	return c.scan(ctx, "SELECT b.id, b.name, t.info FROM buckets b LEFT JOIN tallies t ON t.bucket = b.id UNION ALL "+
		"SELECT bucket, NULL, NULL FROM tallies WHERE bucket NOT IN (SELECT id FROM buckets)", func(cols []driver.Value) error {
		id, name := core.BucketID(integer(cols[0])), text(cols[1])
		switch {
		case cols[1] == nil:
			say(fmt.Sprintf("there is a tally of the bucket with ID %d, which does not exist", id))
			return nil
		case cols[2] == nil:
			say(fmt.Sprintf("bucket %q has no tally", name))
			return nil
		}
		switch held, err := decodeTally(int64(id), bytes(cols[2])); {
		case err != nil:
			say(fmt.Sprintf("the tally of bucket %q cannot be read: %s", name, core.Text(err)))
		case held != n.held[id] && !n.damaged: // with damage, which Snapshot or Salvage reports, n is incomplete
			say(fmt.Sprintf("the tally of bucket %q is %v, but the bucket has %v", name, held, n.held[id]))
		}
		return nil
	})
}

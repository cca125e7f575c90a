package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"orcas/core"
)

// tally is what a bucket with a quota holds, as the writer knows it: read once, kept up by each change, and written once at the end of a
// transaction that touched it. A transaction that is rolled back takes the writer's buckets with it, and so what it knew of their tallies.
type tally struct {
	quota core.Quota
	held  core.Usage
}

// admits says whether a bucket may come to hold more; nil is the tally of one without a quota.
func (t *tally) admits(more core.Usage) bool { return t == nil || t.quota.Admit(t.held, more) == nil }

// tallyOf returns the tally of a bucket that has a quota.
func (w *writer) tallyOf(id core.BucketID, quota core.Quota) (*tally, error) {
	if t := w.tallies[id]; t != nil {
		return t, nil
	}
	held, exists, err := w.c.usage(id)
	if err == nil && !exists {
		err = damaged("tally", errors.New("it is not there"))
	}
	return &tally{quota, held}, err
}

// usage reads the row of a tally, and says whether there is one.
func (c *conn) usage(id core.BucketID) (u core.Usage, exists bool, err error) {
	row, err := c.row(selectTally, int64(id))
	if err != nil || row == nil {
		return u, false, err
	}
	u = core.Usage{Bytes: integer(row[0]), Objects: integer(row[1])}
	_, err = placeOfTally(int64(id), u).open(bytes(row[2]))
	return u, true, damaged("tally", err)
}

// setQuota returns the tally of a bucket that is given a quota, or none: where there was none, what is in the bucket is counted.
func (w *writer) setQuota(id core.BucketID, was *tally, quota core.Quota) (*tally, error) {
	switch {
	case quota.IsZero() && was == nil:
		return nil, nil
	case quota.IsZero():
		delete(w.tallies, id)
		_, err := w.c.exec(deleteTally, int64(id))
		return nil, err
	case was != nil:
		was.quota = quota
		return was, nil
	}
	held, err := w.c.count(id)
	t := &tally{quota, held}
	w.tallies[id] = t
	return t, err
}

// charge adds to what a bucket holds. It is the last check of a change: QuotaExceeded.
func (w *writer) charge(id core.BucketID, b bucketState, more core.Usage) error {
	if b.tally == nil {
		return nil
	}
	if err := b.tally.quota.Admit(b.tally.held, more); err != nil {
		return err
	}
	w.add(id, b, more)
	return nil
}

// add is charge for what was admitted.
func (w *writer) add(id core.BucketID, b bucketState, more core.Usage) {
	if b.tally != nil {
		b.tally.held = b.tally.held.Plus(more)
		w.tallies[id] = b.tally
	}
}

// writeTallies writes those that the transaction changed.
func (w *writer) writeTallies() error {
	for id, t := range w.tallies {
		if err := w.writeTally(id, t.held); err != nil {
			return err
		}
	}
	clear(w.tallies)
	return nil
}

func (w *writer) writeTally(id core.BucketID, u core.Usage) error {
	w.dataBuf = placeOfTally(int64(id), u).seal(w.dataBuf[:0])
	_, err := w.c.exec(upsertTally, int64(id), u.Bytes, u.Objects, w.dataBuf)
	return err
}

// replaced is what goes when a version of a key is written, or a delete marker, in a bucket that is counted. Cur is the key's current version, in full.
func (w *writer) replaced(b bucketState, bucket core.BucketID, key string, cur *version) (core.Usage, error) {
	if b.tally == nil || cur == nil || b.versioning == core.VersioningEnabled {
		return core.Usage{}, nil
	}
	if cur.Null || b.versioning == core.VersioningOff {
		return core.UsageOf(&cur.ObjectInfo), nil
	}
	null, err := w.c.load(selectNull, full, bucket, key, 0)
	return core.UsageOf(infoOf(null)), err
}

// partsHeld is what the parts of an upload in progress count as, in a bucket that is counted.
func (w *writer) partsHeld(b bucketState, id core.UploadID) (u core.Usage, err error) {
	if b.tally == nil {
		return u, nil
	}
	err = w.c.each(func(cols []driver.Value) error {
		p, err := decodePart(id, integer(cols[0]), cols[1:])
		if err == nil {
			u.Bytes += p.Size
		}
		return err
	}, selectParts, int64(id), int64(0), int64(maxPart))
	return u, err
}

// count counts what a bucket holds. It reads all of the bucket.
func (c *conn) count(id core.BucketID) (u core.Usage, err error) {
	version := func(cols []driver.Value) error {
		o := core.ObjectInfo{Bucket: id, Key: text(cols[0]), Seq: core.Seq(integer(cols[1]))}
		err := c.decodeObject(&o, integer(cols[2]), bytes(cols[3]))
		u = u.Plus(core.UsageOf(&o))
		return err
	}
	part := func(cols []driver.Value) error {
		p, err := decodePart(core.UploadID(integer(cols[0])), integer(cols[1]), cols[2:])
		u.Bytes += p.Size
		return err
	}
	for _, q := range []struct {
		sql string
		row func([]driver.Value) error
	}{
		{"SELECT " + listColumns + " FROM objects v LEFT JOIN data d ON d.id = v.data WHERE v.bucket = %d", version},
		{"SELECT " + listColumns + " FROM history v LEFT JOIN data d ON d.id = v.data WHERE v.bucket = %d", version},
		{"SELECT p.list, p.number, p.seq, p.info FROM uploads u JOIN parts p ON p.list = u.id WHERE u.bucket = %d", part},
	} {
		if err == nil {
			err = c.scan(fmt.Sprintf(q.sql, id), q.row)
		}
	}
	return u, err
}

// Usage implements core.Meta.
func (m *Meta) Usage(ctx context.Context, bucket core.BucketID) (u core.Usage, err error) {
	const op = "sqlite.Usage"
	err = m.read(ctx, op, func(c *conn) error {
		var exists bool
		if u, exists, err = c.usage(bucket); err != nil || exists {
			return err
		}
		row, err := c.row(selectBucketByID, int64(bucket))
		switch {
		case err != nil:
			return err
		case row == nil:
			return core.E(op, core.NoSuchBucket, nil)
		}
		return core.E(op, core.BucketState, errors.New("the bucket has no quota, so nobody counts"))
	})
	return u, err
}

// verifyTallies holds the tallies of all buckets against what is in them.
func (c *conn) verifyTallies(say func(line string)) error {
	return c.scan("SELECT b.id, b.name, b.info, t.bucket FROM buckets b LEFT JOIN tallies t ON t.bucket = b.id UNION ALL "+
		"SELECT t.bucket, NULL, NULL, t.bucket FROM tallies t WHERE t.bucket NOT IN (SELECT id FROM buckets)", func(cols []driver.Value) error {
		id := core.BucketID(integer(cols[0]))
		var info core.BucketInfo
		if cols[1] != nil {
			if err := decodeBucket(int64(id), text(cols[1]), bytes(cols[2]), &info); err != nil {
				return nil // whoever reads the rows says so
			}
		}
		switch tallied := cols[3] != nil; {
		case info.Quota.IsZero() && tallied:
			say(fmt.Sprintf("bucket number %d has a tally and no quota", id))
		case info.Quota.IsZero():
		case !tallied:
			say(fmt.Sprintf("bucket %q has a quota and no tally", text(cols[1])))
		default:
			return c.verifyTally(id, text(cols[1]), say)
		}
		return nil
	})
}

func (c *conn) verifyTally(id core.BucketID, name string, say func(line string)) error {
	held, _, err := c.usage(id)
	if err == nil {
		var counted core.Usage
		if counted, err = c.count(id); err == nil && counted != held {
			say(fmt.Sprintf("the tally of bucket %q says %d bytes in %d objects, there are %d bytes in %d objects",
				name, held.Bytes, held.Objects, counted.Bytes, counted.Objects))
		}
	}
	if kindOf(err) == core.Damaged {
		say(fmt.Sprintf("the tally of bucket %q cannot be verified: %v", name, err))
		return nil
	}
	return err
}

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/encoding"
)

// tally is the usage of a bucket with a quota. The writer reads it once, updates it with each change, and writes it
// once at the end of a transaction that changed it. A rollback clears the writer's cached buckets, and with them their
// tallies.
type tally struct {
	quota core.Quota
	held  core.Usage
}

// admits reports whether the quota allows more; a nil tally has no quota.
func (t *tally) admits(more core.Usage) bool { return t == nil || t.quota.Admit(t.held, more) == nil }

// tallies reads and writes the tallies of buckets with a quota, and keeps the uncommitted changes of the writer.
type tallies struct {
	c       *conn
	changed map[core.BucketID]*tally // tallies changed by the transaction in progress
	buf     []byte                   // a buffer for a row checksum
}

// of returns the tally of a bucket that has a quota.
func (t *tallies) of(id core.BucketID, quota core.Quota) (*tally, error) {
	if changed := t.changed[id]; changed != nil {
		return changed, nil
	}
	held, exists, err := t.c.usage(id)
	if err == nil && !exists {
		err = damaged("tally", errors.New("the row is missing"))
	}
	return &tally{quota, held}, err
}

// setQuota sets or deletes the quota of a bucket and returns its tally, or nil if it has no quota. If the bucket had no
// quota before, its usage is counted.
func (t *tallies) setQuota(id core.BucketID, was *tally, quota core.Quota) (*tally, error) {
	switch {
	case quota.IsZero() && was == nil:
		return nil, nil
	case quota.IsZero():
		delete(t.changed, id)
		_, err := t.c.exec(deleteTally, int64(id))
		return nil, err
	case was != nil:
		was.quota = quota
		return was, nil
	}
	held, err := t.c.count(id)
	counted := &tally{quota, held}
	t.changed[id] = counted
	return counted, err
}

// charge adds to the usage of a bucket, or returns QuotaExceeded. It is the last check of a change. Of is nil if the
// bucket has no quota.
func (t *tallies) charge(id core.BucketID, of *tally, more core.Usage) error {
	if of == nil {
		return nil
	}
	if err := of.quota.Admit(of.held, more); err != nil {
		return err
	}
	t.add(id, of, more)
	return nil
}

// add is like charge, but does not check the quota.
func (t *tallies) add(id core.BucketID, of *tally, more core.Usage) {
	if of != nil {
		of.held = of.held.Plus(more)
		t.changed[id] = of
	}
}

// write writes the tallies that the transaction changed.
func (t *tallies) write() error {
	for id, changed := range t.changed {
		if err := t.writeOne(id, changed.held); err != nil {
			return err
		}
	}
	clear(t.changed)
	return nil
}

func (t *tallies) writeOne(id core.BucketID, u core.Usage) error {
	t.buf = tallyKey(int64(id), u).appendSum(t.buf[:0])
	_, err := t.c.exec(upsertTally, int64(id), u.Bytes, u.Objects, t.buf)
	return err
}

// usage reads the row of a tally, and reports whether it exists.
func (c *conn) usage(id core.BucketID) (u core.Usage, exists bool, err error) {
	row, err := c.row(selectTally, int64(id))
	if err != nil || row == nil {
		return u, false, err
	}
	u = core.Usage{Bytes: integer(row[0]), Objects: integer(row[1])}
	_, err = tallyKey(int64(id), u).checkSum(bytes(row[2]))
	return u, true, damaged("tally", err)
}

// replaced returns the usage that a new version or delete marker of a key replaces, in a bucket with a quota. Cur is
// the current version of the key, read in full.
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

// partsHeld returns the usage of the parts of an upload in progress, in a bucket with a quota.
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

// count computes the usage of a bucket by reading all of its metadata.
func (c *conn) count(id core.BucketID) (u core.Usage, err error) {
	var decoder encoding.ObjectDecoder
	version := func(cols []driver.Value) error {
		o := core.ObjectInfo{Bucket: id, Key: text(cols[0]), Seq: core.Seq(integer(cols[1]))}
		err := c.decodeObject(&o, integer(cols[2]), bytes(cols[3]), &decoder)
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
			err = c.scan(background, fmt.Sprintf(q.sql, id), q.row)
		}
	}
	return u, err
}

// Usage implements core.Meta.
func (m *Meta) Usage(ctx context.Context, bucket core.BucketID) (u core.Usage, err error) {
	const op = "sqlite.Usage"
	isTouched := func() bool { return m.w.tx.touched.has(placeOfBucket(bucket)) }
	err = m.readCommitted(ctx, op, isTouched, func(c *conn) error {
		if c.open { // the writer's connection: the tallies are written before the commit
			if err := m.w.tallies.write(); err != nil {
				return err
			}
		}
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
		return core.E(op, core.BucketState, errors.New("the bucket has no quota, so its usage is not counted"))
	})
	return u, err
}

// verifyTallies compares the tallies of all buckets with their actual usage.
func (c *conn) verifyTallies(ctx context.Context, say func(line string)) error {
	return c.scan(ctx, "SELECT b.id, b.name, b.info, t.bucket FROM buckets b LEFT JOIN tallies t ON t.bucket = b.id UNION ALL "+
		"SELECT t.bucket, NULL, NULL, t.bucket FROM tallies t WHERE t.bucket NOT IN (SELECT id FROM buckets)", func(cols []driver.Value) error {
		id := core.BucketID(integer(cols[0]))
		var info core.BucketInfo
		if cols[1] != nil {
			if err := decodeBucket(int64(id), text(cols[1]), bytes(cols[2]), &info); err != nil {
				return nil // Snapshot or Salvage reports the damage
			}
		}
		switch tallied := cols[3] != nil; {
		case info.Quota.IsZero() && tallied:
			say(fmt.Sprintf("the bucket with ID %d has a tally but no quota", id))
		case info.Quota.IsZero():
		case !tallied:
			say(fmt.Sprintf("bucket %q has a quota but no tally", text(cols[1])))
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
			say(fmt.Sprintf("the tally of bucket %q is %d bytes and %d objects, but the bucket has %d bytes and %d objects",
				name, held.Bytes, held.Objects, counted.Bytes, counted.Objects))
		}
	}
	if kindOf(err) == core.Damaged {
		say(fmt.Sprintf("the tally of bucket %q cannot be verified: %v", name, err))
		return nil
	}
	return err
}

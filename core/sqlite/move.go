package sqlite

import (
	"fmt"

	"orcas/core"
)

// moveObject adds the references of the target before it deletes the source, so that the content is kept. The deletion
// and the new version have different sequences, as if they were two changes.
func (w *writer) moveObject(c *core.MoveObject) (core.Version, error) {
	from, to, target, err := w.moveEnds(c)
	if err != nil {
		return 0, err
	}
	if err := w.admitMove(c, from, to, target); err != nil {
		return 0, err
	}
	moved := c.Moved(&from.ObjectInfo)
	moved.Seq, moved.Null = c.Seq, target.versioning != core.VersioningEnabled
	if err := w.contents.incRef(moved.Segments, nil); err != nil {
		return 0, err
	}
	if moved.List != 0 {
		if _, err := w.c.exec(incListRef, int64(moved.List)); err != nil {
			return 0, err
		}
	}
	w.state.Seq = c.Seq - 1
	if _, _, err = w.deleteObject(c.Removal()); err == nil {
		err = w.contents.writeFreed(w.state.Seq)
	}
	w.state.Seq, w.contents.freed = c.Seq, w.contents.freed[:0]
	if err != nil {
		return 0, fmt.Errorf("delete the source of a move: %w", err) // not a failed check, because references were already added
	}
	w.encode(&moved)
	return moved.Version(), w.putVersion(target, &moved, to)
}

// admitMove checks the quota of the target's bucket. For a move within a bucket, it also subtracts the usage of the
// deleted source.
func (w *writer) admitMove(c *core.MoveObject, from, to *version, target bucketState) error {
	replaced, err := w.replaced(target, c.Bucket, c.Key, to)
	if err != nil {
		return err
	}
	more := core.UsageOf(&from.ObjectInfo).Minus(replaced)
	var freed core.Usage
	if c.From.Bucket == c.Bucket {
		if freed, err = w.replaced(target, c.Bucket, c.From.Key, from); err != nil {
			return err
		}
	}
	return target.tally.admit(more.Minus(freed))
}

// moveEnds performs the checks of a move. It returns the version to move, the current version of the target's key (nil
// if it has none), and the bucket of the target.
func (w *writer) moveEnds(c *core.MoveObject) (from, to *version, target bucketState, err error) {
	for _, id := range []core.BucketID{c.From.Bucket, c.Bucket} {
		var exists bool
		if target, exists, err = w.bucket(id); err != nil || !exists {
			if err == nil {
				err = noBucket(id)
			}
			return nil, nil, target, err
		}
	}
	if !target.locks && !c.Lock.IsZero() {
		return nil, nil, target, fail(core.BucketState, "object lock is not enabled for the bucket")
	}
	if from, err = w.c.find(c.From.Bucket, c.From.Key, core.Current, full); err != nil {
		return nil, nil, target, err
	}
	if err := c.CheckSource(infoOf(from)); err != nil {
		return nil, nil, target, err
	}
	if to, err = w.c.find(c.Bucket, c.Key, core.Current, depthFor(&c.If)); err != nil {
		return nil, nil, target, err
	}
	return from, to, target, c.If.Check(infoOf(to))
}

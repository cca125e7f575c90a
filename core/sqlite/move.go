package sqlite

import (
	"fmt"

	"orcas/core"
)

// moveObject holds the content for the target before it takes the source away, so that it stays. Each of the two is written at a place of
// its own, as a change by itself would be.
func (w *writer) moveObject(c *core.MoveObject) (core.Version, error) {
	from, to, target, err := w.moveEnds(c)
	if err != nil {
		return 0, err
	}
	more, err := w.admitMove(c, from, to, target)
	if err != nil {
		return 0, err
	}
	versioning := target.versioning
	moved := c.Moved(&from.ObjectInfo)
	moved.Seq, moved.Null = c.Seq, versioning != core.VersioningEnabled
	if err := w.hold(moved.Segments, nil); err != nil {
		return 0, err
	}
	if moved.List != 0 {
		if _, err := w.c.exec(holdList, int64(moved.List)); err != nil {
			return 0, err
		}
	}
	w.state.Seq = c.Seq - 1
	if _, _, err = w.deleteObject(c.Removal()); err == nil {
		err = w.writeFreed()
	}
	w.state.Seq, w.freed = c.Seq, w.freed[:0]
	if err != nil {
		return 0, fmt.Errorf("the source goes: %w", err) // not as a check that failed: the content is held
	}
	w.add(c.Bucket, target, more)
	w.encode(&moved)
	return moved.Version(), w.putVersion(versioning, &moved, to)
}

// admitMove returns what the target's bucket holds more with the version, after the check that it may. Within one bucket what goes at the source
// makes room for it.
func (w *writer) admitMove(c *core.MoveObject, from, to *version, target bucketState) (more core.Usage, err error) {
	if target.tally == nil {
		return more, nil
	}
	replaced, err := w.replaced(target, c.Bucket, c.Key, to)
	if err != nil {
		return more, err
	}
	more = core.UsageOf(&from.ObjectInfo).Minus(replaced)
	var goes core.Usage
	if c.From.Bucket == c.Bucket {
		if goes, err = w.replaced(target, c.Bucket, c.From.Key, from); err != nil {
			return more, err
		}
	}
	return more, target.tally.quota.Admit(target.tally.held, more.Minus(goes))
}

// moveEnds returns the version that is to be moved, the current one of the target's key (nil where it has none) and the target's bucket, and
// makes every check.
func (w *writer) moveEnds(c *core.MoveObject) (from, to *version, target bucketState, err error) {
	for _, id := range []core.BucketID{c.From.Bucket, c.Bucket} {
		var exists bool
		if target, exists, err = w.bucket(id); err != nil || !exists {
			if err == nil {
				err = fail(core.NoSuchBucket, "by number")
			}
			return nil, nil, target, err
		}
	}
	if !target.locks && !c.Lock.IsZero() {
		return nil, nil, target, fail(core.BucketState, "the bucket has no object lock")
	}
	if from, err = w.c.find(c.From.Bucket, c.From.Key, core.Current, full); err != nil {
		return nil, nil, target, err
	}
	if err := c.CheckSource(infoOf(from)); err != nil {
		return nil, nil, target, err
	}
	if to, err = w.c.find(c.Bucket, c.Key, core.Current, target.depthFor(&c.If)); err != nil {
		return nil, nil, target, err
	}
	return from, to, target, c.If.Check(infoOf(to))
}

package mem

import "orcas/core"

// moveObject adds the references of the target before it deletes the source, so that the content is kept.
func (m *Meta) moveObject(c *core.MoveObject) (core.Version, error) {
	from, to := m.buckets[c.From.Bucket], m.buckets[c.Bucket]
	if from == nil {
		return 0, noBucket(c.From.Bucket)
	}
	if to == nil {
		return 0, noBucket(c.Bucket)
	}
	if !to.info.ObjectLock && !c.Lock.IsZero() {
		return 0, fail(core.BucketState, "object lock is not enabled for the bucket")
	}
	source := from.current(c.From.Key)
	if err := c.CheckSource(source); err != nil {
		return 0, err
	}
	if err := c.If.Check(to.current(c.Key)); err != nil {
		return 0, err
	}
	moved := c.Moved(source)
	more := core.UsageOf(&moved).Minus(to.replaced(c.Key))
	if from == to {
		more = more.Minus(from.replaced(c.From.Key))
	}
	if err := m.admit(to, more); err != nil {
		return 0, err
	}
	o := cloneObject(&moved)
	m.contents.incRef(o.Segments)
	if o.List != 0 {
		m.lists[o.List].objects++
	}
	m.state.Seq = c.Seq - 1
	_, _, err := m.deleteObject(c.Removal())
	m.contents.addGarbage(m.state.Seq)
	m.state.Seq = c.Seq
	if err != nil {
		return 0, err
	}
	return m.putVersion(to, &o, c.Seq), nil
}

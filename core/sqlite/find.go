package sqlite

import (
	"context"
	"database/sql/driver"
	"math"

	"orcas/core"
)

// FindData implements core.Meta.
func (m *Meta) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	const op = "sqlite.FindData"
	hash := k.Hash()
	x := &m.w.index
	if k.Scope == 0 || !x.filter.mayHave(hash) {
		return nil, errNoData
	}
	buffered := x.buffered(hash)
	var found *core.DataInfo
	err := m.read(ctx, op, func(c *conn) error {
		for _, id := range buffered {
			if id != 0 && !isWhole(found) {
				if err := c.fitting(id, &k, &found); err != nil {
					return err
				}
			}
		}
		if isWhole(found) {
			return nil
		}
		r, err := c.query(selectFinds, column(hash))
		if err != nil {
			return err
		}
		defer r.close()
		for !isWhole(found) {
			ok, err := r.next()
			if err != nil || !ok {
				return err
			}
			if err := c.fitting(core.DataID(integer(r.cols[0])), &k, &found); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err == nil && found == nil:
		err = errNoData
	case err == nil && !k.Head && !found.Damaged:
		x.guesses.set(hash, found.ID, found.KeyID)
	}
	return found, err
}

// errNoData is the result of nearly every FindData. It is a package variable, to avoid an allocation.
var errNoData error = &core.Error{Op: "sqlite.FindData", Kind: core.NoSuchData}

// isWhole reports whether content was found and is not marked as damaged.
func isWhole(found *core.DataInfo) bool { return found != nil && !found.Damaged }

// fitting sets found if content with that ID exists and matches k. Damaged content does not replace content that was
// found before.
func (c *conn) fitting(id core.DataID, k *core.ContentKey, found **core.DataInfo) error {
	d, err := c.content(id)
	if err == nil && d != nil && k.Fits(d) && (*found == nil || !d.Damaged) {
		*found = d
	}
	return err
}

// fillFilter reads the table finds into the filter and the guesses. It reads it in pages, because a long transaction
// would keep the log from restarting.
func (m *Meta) fillFilter() {
	const page = 10_000
	for from, more := int64(math.MinInt64), true; more; {
		n := 0
		err := m.read(background, "sqlite.fillFilter", func(c *conn) error {
			return c.each(func(cols []driver.Value) error {
				n++
				from = integer(cols[0])
				m.w.index.filter.add(uint64(from))
				m.w.index.guesses.fill(uint64(from), core.DataID(integer(cols[1])))
				return nil
			}, selectHashes, from, int64(page))
		})
		more = n == page
		if err != nil {
			return // the database is closed or damaged: FindData continues to query the table
		}
		if from == math.MaxInt64 {
			break
		}
		from++ // this may skip further pairs with the same hash, which the filter already has
	}
	m.w.index.filter.full.Store(true)
}

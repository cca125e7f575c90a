package sqlite

import (
	"context"
	"database/sql/driver"

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
	var room [4]core.DataID
	buffered := x.buffered(hash, room[:0])
	var found *core.DataInfo
	t := m.w.tx.touched
	isTouched := false // the open transaction has changed a candidate
	search := func(c *conn) error {
		found = nil
		for _, id := range buffered {
			isTouched = isTouched || t.has(placeOfData(id))
			if err := c.fitting(id, &k, &found); err != nil || isWhole(found) {
				return err
			}
		}
		return c.eachHashed(hash, room[:0], func(id core.DataID) (goOn bool, err error) {
			isTouched = isTouched || t.has(placeOfData(id))
			err = c.fitting(id, &k, &found)
			return !isWhole(found), err
		})
	}
	number := t.number.Load()
	err := m.read(ctx, op, search)
	if isTouched || t.number.Load() != number { // after a commit, the marks that it removed are missing
		err = m.readTouched(ctx, op, search)
	}
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

// eachHashed calls fn with the content that the runs have for a hash, until fn returns false or an error. It needs room
// for a few IDs. The open cursor keeps the snapshot, so no pair is missed when it moves from one run to another.
func (c *conn) eachHashed(hash uint64, room []core.DataID, fn func(id core.DataID) (goOn bool, err error)) error {
	r, err := c.query(selectHash, hashPrefix(hash), int64(maxPage), int64(pageBits))
	if err != nil {
		return err
	}
	defer r.close()
	for {
		ok, err := r.next()
		if err != nil || !ok {
			return err
		}
		for page, column := integer(r.cols[0]), bytes(r.cols[1]); column != nil; {
			p, err := openPage(page, column)
			if err != nil {
				break // Verify reports it
			}
			ids, more := p.find(hash, room[:0])
			for _, id := range ids {
				if goOn, err := fn(id); err != nil || !goOn {
					return err
				}
			}
			if !more {
				break
			}
			row, err := c.row(selectNextPage, page, runOf(page).lastPage())
			if err != nil {
				return err
			}
			if column = nil; row != nil {
				page, column = integer(row[0]), bytes(row[1])
			}
		}
	}
}

// fillFilter reads the pages of the hash index into the filter and the guesses. It reads a few at a time, because a
// long transaction would keep the log from restarting. While it runs, merges add the pairs that they move.
func (m *Meta) fillFilter() {
	const pages = 32
	x := &m.w.index
	for from, more := int64(0), true; more; {
		n := 0
		err := m.read(background, "sqlite.fillFilter", func(c *conn) error {
			return c.each(func(cols []driver.Value) error {
				n++
				from = integer(cols[0])
				p, err := openPage(from, bytes(cols[1]))
				if err != nil {
					return err
				}
				for pair, ok := p.next(); ok; pair, ok = p.next() {
					x.filter.add(pair.hash)
					if !pair.gone {
						x.guesses.fill(pair.hash, pair.data)
					}
				}
				return nil
			}, selectPages, from, int64(pages))
		})
		more = n == pages
		if err != nil {
			return // closed or damaged: FindData keeps searching the runs
		}
	}
	x.filter.full.Store(true)
}

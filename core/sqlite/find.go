package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"math"
	"slices"
	"sync"

	"orcas/core"
)

// finder leads from the hash of content (core.ContentKey.Hash) to its number, for FindData; with larger content, from the hash of its
// beginning as well.
//
// The table finds has the pairs in the order of hashes, so each new one would change a page at a random place: as much work as all else
// that a PUT of 4 KiB costs the database. So pairs wait in memory (recent) until there are many. Then they are sorted (run), and go into the
// table a few with each transaction, where neighbours share a page. Pairs to be taken away go the same way, and those that come and go
// while they wait never get there.
//
// What waits is found again after a start: finds_upto holds a number of content below which everything that is to be found is in
// the table, and what is above is read from the table data. Content below it that comes later (numbers are given before content is
// written) goes into the table at once.
//
// A pair proves nothing: FindData looks at the row of data. A pair too many (a start forgets those that were to be taken away) costs a look.
//
// Nearly all content is new, so a filter in memory says of most hashes that nothing has them. It is filled in the background after a
// start; until then the table is asked.
type finder struct {
	mu     sync.RWMutex        // guards recent and run: Apply writes, FindData reads
	recent map[uint64]findable // by hash: pairs that wait; one of a hash
	run    []findable          // by hash: pairs on their way into the table

	// Of the writer alone:
	merged int  // how many of run are in the table
	began  int  // merged when the transaction began
	credit int  // how many of run may go into the table
	seen   int  // contents that came and went since the last run, also those that nobody may share: a start has to read them
	behind bool // finds_upto has to move to upto, when run is in the table
	moved  bool // that has been written in this transaction
	upto   core.DataID
	undo   []undo // what the transaction did to recent
	direct bool   // nothing waits: a restore
	length int    // how many contents, of one or two pairs, make a run
	slice  int    // how many pairs of it go into the table at once

	filter  filter
	guesses guesses
}

// findable is a pair of the table finds, to be put there or (gone) taken away.
type findable struct {
	hash uint64
	data core.DataID
	gone bool
}

// undo is what recent had of a hash before the transaction; the zero value: nothing.
type undo struct {
	hash uint64
	was  findable
}

// How many contents make a run, and how many parts it goes into the table in, at most.
const (
	runLength = 32 << 10
	runSlices = 256
)

// The numbers of columns have a sign.
func column(hash uint64) int64 { return int64(hash) }

// load reads what waited when the database was closed. What is damaged is not found; whoever reads it says so.
func (f *finder) load(c *conn, length int) error {
	if err := f.loadAll(c, length); err != nil && kindOf(err) != core.Damaged {
		return err
	}
	return nil
}

func (f *finder) loadAll(c *conn, length int) error {
	if length <= 0 {
		length = runLength
	}
	f.length, f.slice = length, max(1, length/runSlices)
	f.recent, f.guesses = map[uint64]findable{}, newGuesses()
	row, err := c.row(selectUpto)
	if err != nil {
		return err
	}
	if row == nil {
		return damaged("finds_upto", errors.New("it is not there"))
	}
	f.upto = core.DataID(integer(row[0]))
	return c.each(func(cols []driver.Value) error {
		f.seen++
		d, err := decodeData(integer(cols[0]), cols[1:])
		if err != nil || d.Scope == 0 {
			return nil // a damaged row is found by who reads the content
		}
		f.waits(findable{hash: d.Hash(), data: d.ID})
		f.guesses.set(d.Hash(), d.ID, d.KeyID)
		if d.HasHead() {
			f.waits(findable{hash: d.HeadHash(), data: d.ID})
		}
		return nil
	}, selectDataFrom, int64(f.upto))
}

// waits notes a pair that waited. One of the same hash that came before it is in the table.
func (f *finder) waits(p findable) {
	f.recent[p.hash] = p
	f.filter.add(p.hash)
}

// findable notes content that was written.
func (w *writer) findable(d *core.DataInfo) error {
	f := &w.find
	f.count()
	if d.Scope == 0 {
		return nil
	}
	f.guesses.set(d.Hash(), d.ID, d.KeyID)
	err := w.enter(findable{hash: d.Hash(), data: d.ID})
	if err == nil && d.HasHead() {
		f.credit += 2
		err = w.enter(findable{hash: d.HeadHash(), data: d.ID})
	}
	return err
}

// enter gives a pair its place.
func (w *writer) enter(p findable) error {
	f := &w.find
	f.filter.add(p.hash)
	if f.direct || p.data < f.upto {
		return w.toTable(p)
	}
	return w.wait(p)
}

// unfindable notes content that is gone.
func (w *writer) unfindable(d *core.DataInfo) error {
	if d.Scope == 0 {
		return nil
	}
	w.find.count()
	w.find.guesses.forget(d.Hash(), d.ID)
	err := w.leave(findable{hash: d.Hash(), data: d.ID, gone: true})
	if err == nil && d.HasHead() {
		w.find.credit += 2
		err = w.leave(findable{hash: d.HeadHash(), data: d.ID, gone: true})
	}
	return err
}

// leave takes a pair away.
func (w *writer) leave(p findable) error {
	if was, ok := w.find.recent[p.hash]; ok && was.data == p.data {
		w.find.change(p.hash, findable{})
		return nil
	}
	return w.wait(p)
}

// wait keeps a pair until it goes into the table with others. What waited of its hash goes at once.
func (w *writer) wait(p findable) error {
	if was, ok := w.find.recent[p.hash]; ok {
		if err := w.toTable(was); err != nil {
			return err
		}
	}
	w.find.change(p.hash, p)
	return nil
}

// count notes a content that came or went. For each pair of it, two pairs may go into the table, so that a run is there before the next one comes.
func (f *finder) count() {
	f.seen++
	f.credit += 2
}

// change sets what waits of a hash; the zero value: nothing.
func (f *finder) change(hash uint64, p findable) {
	f.undo = append(f.undo, undo{hash, f.recent[hash]})
	f.set(hash, p)
}

func (f *finder) set(hash uint64, p findable) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.data == 0 {
		delete(f.recent, hash)
	} else {
		f.recent[hash] = p
	}
}

func (w *writer) toTable(p findable) error {
	st := insertFind
	if p.gone {
		st = deleteFind
	}
	_, err := w.c.exec(st, column(p.hash), int64(p.data))
	return err
}

// merge puts some of the run into the table; with the last of them, finds_upto moves.
func (w *writer) merge() error {
	f := &w.find
	if !f.behind || f.credit < f.slice {
		return nil
	}
	slice := f.run[f.merged:min(f.merged+f.credit, len(f.run))]
	f.credit = 0
	for _, p := range slice {
		if err := w.toTable(p); err != nil {
			return err
		}
	}
	f.merged += len(slice)
	if f.merged < len(f.run) {
		return nil
	}
	f.moved = true
	_, err := w.c.exec(updateUpto, int64(f.upto))
	return err
}

// committed notes that the transaction is written. When enough pairs wait, they become the next run.
func (f *finder) committed(next core.DataID) {
	f.undo = f.undo[:0]
	f.began = f.merged
	if f.behind && !f.moved || !f.behind && f.seen < f.length {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run, f.merged, f.began, f.behind, f.moved = nil, 0, 0, false, false
	if f.seen < f.length {
		return
	}
	f.run = make([]findable, 0, len(f.recent))
	for _, p := range f.recent {
		f.run = append(f.run, p)
	}
	slices.SortFunc(f.run, func(a, b findable) int { return cmp.Compare(column(a.hash), column(b.hash)) })
	f.recent = make(map[uint64]findable, f.length)
	f.credit, f.seen, f.behind, f.upto = 0, 0, true, next
}

// rolledBack takes back what the transaction did.
func (f *finder) rolledBack() {
	for _, u := range slices.Backward(f.undo) {
		f.set(u.hash, u.was)
	}
	f.undo = f.undo[:0]
	f.merged, f.moved = f.began, false
}

// empty forgets everything; the filter has too much then, which it may.
func (f *finder) empty() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent, f.run = map[uint64]findable{}, nil
	f.merged, f.began, f.credit, f.seen, f.behind, f.moved, f.upto, f.undo = 0, 0, 0, 0, false, false, 1, f.undo[:0]
}

// waiting returns the numbers of contents that wait and may have a hash.
func (f *finder) waiting(hash uint64) (ids [2]core.DataID) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if p, ok := f.recent[hash]; ok && !p.gone {
		ids[0] = p.data
	}
	i, ok := slices.BinarySearchFunc(f.run, column(hash), func(p findable, at int64) int { return cmp.Compare(column(p.hash), at) })
	if ok && !f.run[i].gone {
		ids[1] = f.run[i].data
	}
	return ids
}

// FindData implements core.Meta.
func (m *Meta) FindData(ctx context.Context, k core.ContentKey) (*core.DataInfo, error) {
	const op = "sqlite.FindData"
	hash := k.Hash()
	f := &m.w.find
	if k.Scope == 0 || !f.filter.mayHave(hash) {
		return nil, errNoData
	}
	waiting := f.waiting(hash)
	var found *core.DataInfo
	err := m.read(ctx, op, func(c *conn) error {
		for _, id := range waiting {
			if id != 0 && found == nil {
				if err := c.fitting(id, &k, &found); err != nil {
					return err
				}
			}
		}
		if found != nil {
			return nil
		}
		r, err := c.query(selectFinds, column(hash))
		if err != nil {
			return err
		}
		defer r.close()
		for found == nil {
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
	case err == nil && !k.Head:
		f.guesses.set(hash, found.ID, found.KeyID)
	}
	return found, err
}

// errNoData is what nearly every FindData says.
var errNoData error = &core.Error{Op: "sqlite.FindData", Kind: core.NoSuchData}

// fitting sets found where content of that number is there and fits.
func (c *conn) fitting(id core.DataID, k *core.ContentKey, found **core.DataInfo) error {
	d, err := c.content(id)
	if err == nil && d != nil && k.Fits(d) {
		*found = d
	}
	return err
}

// fillFilter reads the table finds into the filter, and into the guesses, in slices, so that no long transaction keeps the log from beginning anew.
func (m *Meta) fillFilter() {
	const page = 10_000
	for from, more := int64(math.MinInt64), true; more; {
		n := 0
		err := m.read(background, "sqlite.fillFilter", func(c *conn) error {
			return c.each(func(cols []driver.Value) error {
				n++
				from = integer(cols[0])
				m.w.find.filter.add(uint64(from))
				m.w.find.guesses.fill(uint64(from), core.DataID(integer(cols[1])))
				return nil
			}, selectHashes, from, int64(page))
		})
		more = n == page
		if err != nil {
			return // closed, or damaged: the table is asked
		}
		if from == math.MaxInt64 {
			break
		}
		from++ // pairs of one hash may be left out: the filter has it
	}
	m.w.find.filter.full.Store(true)
}

package sqlite

import (
	"cmp"
	"database/sql/driver"
	"errors"
	"slices"
	"sync"

	"orcas/core"
)

// hashIndex maps the hash of content (core.ContentKey.Hash) to its DataID, for FindData. For larger content it also
// maps the hash of the beginning.
//
// The table finds has these pairs in hash order, so each new pair would change a page at a random position. That would
// double the database work of a 4 KiB PUT. So pairs are buffered in memory (recent) until there are many. Then they are
// sorted (run) and flushed to the table, a few with each transaction, so that neighbors share a page. Deletions are
// buffered too, and pairs that are added and deleted while they are buffered never reach the table.
//
// A start recovers the buffered pairs: finds_upto has a DataID below which the table has every pair, and the other
// pairs are computed from the table data. The pairs of content with a lower ID that is written later (IDs are assigned
// before content is written) are added to the table immediately.
//
// A pair proves nothing, since FindData reads the row of data. An extra pair (a start loses buffered deletions) costs
// one lookup.
//
// Nearly all content is new, so a filter in memory rules out most hashes. It is filled in the background after a start;
// until then the table is queried.
type hashIndex struct {
	c *conn // the writer's connection

	mu     sync.RWMutex        // guards recent and run: Apply writes, FindData reads
	recent map[uint64]hashPair // buffered pairs by hash, one per hash
	run    []hashPair          // pairs that are being flushed to the table, sorted by hash

	// The fields below are used only by the writer.
	flushed  int  // the number of pairs of run that are in the table
	began    int  // the value of flushed at the beginning of the transaction
	credit   int  // the number of pairs of run that may be flushed
	seen     int  // content added and deleted since the last run, including new content without a scope: a start reads it
	flushing bool // a run is being flushed; after that, finds_upto becomes upto
	moved    bool // finds_upto was updated in this transaction
	upto     core.DataID
	undo     []undo // the changes of the transaction to recent
	direct   bool   // pairs are not buffered, during a restore
	length   int    // the amount of content, with one or two pairs each, that makes a run
	slice    int    // the minimum number of pairs of run that are flushed together

	filter  filter
	guesses guesses
}

// hashPair is a row of the table finds, to be added or, if gone is set, deleted.
type hashPair struct {
	hash uint64
	data core.DataID
	gone bool
}

// undo is the buffered pair of a hash before a change, or the zero hashPair if there was none.
type undo struct {
	hash uint64
	was  hashPair
}

// The defaults: how much content makes a run, and the maximum number of parts in which a run is flushed.
const (
	runLength = 32 << 10
	runSlices = 256
)

// column converts a hash to the type of its column, which is signed.
func column(hash uint64) int64 { return int64(hash) }

// load reads the pairs that were buffered when the database was closed. It skips damaged rows, which reads of the
// content report.
func (x *hashIndex) load(length int) error {
	if err := x.loadAll(length); err != nil && kindOf(err) != core.Damaged {
		return err
	}
	return nil
}

func (x *hashIndex) loadAll(length int) error {
	if length <= 0 {
		length = runLength
	}
	x.length, x.slice = length, max(1, length/runSlices)
	x.recent, x.guesses = map[uint64]hashPair{}, newGuesses()
	row, err := x.c.row(selectUpto)
	if err != nil {
		return err
	}
	if row == nil {
		return damaged("finds_upto", errors.New("the row is missing"))
	}
	x.upto = core.DataID(integer(row[0]))
	return x.c.each(func(cols []driver.Value) error {
		x.seen++
		d, err := decodeData(integer(cols[0]), cols[1:])
		if err != nil || d.Scope == 0 {
			return nil // a read of the content reports the damaged row
		}
		x.loadPair(hashPair{hash: d.Hash(), data: d.ID})
		if !d.Damaged {
			x.guesses.set(d.Hash(), d.ID, d.KeyID)
		}
		if d.HasHead() {
			x.loadPair(hashPair{hash: d.HeadHash(), data: d.ID})
		}
		return nil
	}, selectDataFrom, int64(x.upto))
}

// loadPair buffers a pair again. It replaces an earlier pair with the same hash, which is in the table.
func (x *hashIndex) loadPair(p hashPair) {
	x.recent[p.hash] = p
	x.filter.add(p.hash)
}

// add adds the pairs of new content.
func (x *hashIndex) add(d *core.DataInfo) error {
	x.noteContent()
	if d.Scope == 0 {
		return nil
	}
	if !d.Damaged {
		x.guesses.set(d.Hash(), d.ID, d.KeyID)
	}
	err := x.addPair(hashPair{hash: d.Hash(), data: d.ID})
	if err == nil && d.HasHead() {
		x.credit += 2
		err = x.addPair(hashPair{hash: d.HeadHash(), data: d.ID})
	}
	return err
}

func (x *hashIndex) addPair(p hashPair) error {
	x.filter.add(p.hash)
	if x.direct || p.data < x.upto {
		return x.write(p)
	}
	return x.buffer(p)
}

// remove deletes the pairs of content that no longer exists.
func (x *hashIndex) remove(d *core.DataInfo) error {
	if d.Scope == 0 {
		return nil
	}
	x.noteContent()
	x.guesses.forget(d.Hash(), d.ID)
	err := x.removePair(hashPair{hash: d.Hash(), data: d.ID, gone: true})
	if err == nil && d.HasHead() {
		x.credit += 2
		err = x.removePair(hashPair{hash: d.HeadHash(), data: d.ID, gone: true})
	}
	return err
}

func (x *hashIndex) removePair(p hashPair) error {
	if was, ok := x.recent[p.hash]; ok && was.data == p.data {
		x.change(p.hash, hashPair{})
		return nil
	}
	return x.buffer(p)
}

// buffer buffers a pair until it is flushed with others. If another pair with the same hash is buffered, that pair is
// written to the table immediately.
func (x *hashIndex) buffer(p hashPair) error {
	if was, ok := x.recent[p.hash]; ok {
		if err := x.write(was); err != nil {
			return err
		}
	}
	x.change(p.hash, p)
	return nil
}

// noteContent counts content that was added or deleted. For each pair of the content, two pairs of the run may be
// flushed, so that the whole run is in the table before the next one is full.
func (x *hashIndex) noteContent() {
	x.seen++
	x.credit += 2
}

// change replaces the buffered pair of a hash, or deletes it if p is the zero value.
func (x *hashIndex) change(hash uint64, p hashPair) {
	x.undo = append(x.undo, undo{hash, x.recent[hash]})
	x.set(hash, p)
}

func (x *hashIndex) set(hash uint64, p hashPair) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if p.data == 0 {
		delete(x.recent, hash)
	} else {
		x.recent[hash] = p
	}
}

// write adds a pair to the table, or deletes it from the table.
func (x *hashIndex) write(p hashPair) error {
	st := insertFind
	if p.gone {
		st = deleteFind
	}
	_, err := x.c.exec(st, column(p.hash), int64(p.data))
	return err
}

// flushRun writes the next pairs of the run to the table, at most as many as the credit allows. With the last pair it
// updates finds_upto.
func (x *hashIndex) flushRun() error {
	if !x.flushing || x.credit < x.slice {
		return nil
	}
	slice := x.run[x.flushed:min(x.flushed+x.credit, len(x.run))]
	x.credit = 0
	for _, p := range slice {
		if err := x.write(p); err != nil {
			return err
		}
	}
	x.flushed += len(slice)
	if x.flushed < len(x.run) {
		return nil
	}
	x.moved = true
	_, err := x.c.exec(updateUpto, int64(x.upto))
	return err
}

// committed is called after the transaction is committed. If enough pairs are buffered, they become the next run.
func (x *hashIndex) committed(next core.DataID) {
	x.undo = x.undo[:0]
	x.began = x.flushed
	if x.flushing && !x.moved || !x.flushing && x.seen < x.length {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.run, x.flushed, x.began, x.flushing, x.moved = nil, 0, 0, false, false
	if x.seen < x.length {
		return
	}
	x.run = make([]hashPair, 0, len(x.recent))
	for _, p := range x.recent {
		x.run = append(x.run, p)
	}
	slices.SortFunc(x.run, func(a, b hashPair) int { return cmp.Compare(column(a.hash), column(b.hash)) })
	x.recent = make(map[uint64]hashPair, x.length)
	x.credit, x.seen, x.flushing, x.upto = 0, 0, true, next
}

// rolledBack undoes the changes of the transaction.
func (x *hashIndex) rolledBack() {
	for _, u := range slices.Backward(x.undo) {
		x.set(u.hash, u.was)
	}
	x.undo = x.undo[:0]
	x.flushed, x.moved = x.began, false
}

// empty deletes all pairs from memory. The filter keeps its hashes, since extra hashes do no harm.
func (x *hashIndex) empty() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent, x.run = map[uint64]hashPair{}, nil
	x.flushed, x.began, x.credit, x.seen, x.flushing, x.moved, x.upto, x.undo = 0, 0, 0, 0, false, false, 1, x.undo[:0]
}

// buffered returns the IDs of content with the given hash whose pairs are in memory; an ID of 0 means none.
func (x *hashIndex) buffered(hash uint64) (ids [2]core.DataID) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if p, ok := x.recent[hash]; ok && !p.gone {
		ids[0] = p.data
	}
	i, ok := slices.BinarySearchFunc(x.run, column(hash), func(p hashPair, at int64) int { return cmp.Compare(column(p.hash), at) })
	if ok && !x.run[i].gone {
		ids[1] = x.run[i].data
	}
	return ids
}

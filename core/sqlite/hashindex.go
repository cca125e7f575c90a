package sqlite

import (
	"database/sql/driver"
	"errors"
	"slices"
	"sync"

	"orcas/core"
	"orcas/internal/mutant"
)

// hashIndex maps the hash of content (core.ContentKey.Hash) to its DataID, for FindData. For larger content it also
// maps the hash of the beginning. Each of these mappings is a pair. Hashes are random, so in a B-tree of millions of
// pairs each new pair would change a page of its own. So the pairs are in sorted runs, as in a log-structured merge
// tree:
//
//  1. New pairs are buffered in memory (recent). A deletion removes the pair there, or else is buffered as a tombstone.
//  2. When runLength pieces of content have been added or deleted, the buffered pairs become a run (full). They are
//     sorted concurrently, and written to the database a page at a time, with the changes that follow.
//  3. Runs are merged, also a page at a time, so that their number grows with the logarithm of the number of pairs.
//  4. A lookup searches the memory, then in each run the page that may have the hash. Nearly all content is new, so a
//     filter in memory rules out most hashes. It is filled in the background after a start, and again after an idle
//     server has dropped it (see filter); until then the runs are searched.
//
// # Invariants
//
//   - A pair proves nothing, since FindData reads the row of data. So an extra pair only costs a lookup, and the order
//     in which runs are searched does not matter: the largest come first, since they most likely have the hash.
//   - Every pair of existing content is in memory or in a page of a run, in each committed state of the database. A
//     lookup searches the memory first, because pairs move from there to the runs: the memory drops them after the
//     commit that completes their run.
//   - One transaction writes a page of a merge's output, records the last pair that was merged (hashRun.at), and
//     deletes the pages of the inputs that end before it. So a crash or a rollback at any point leaves runs that have
//     all pairs, and the merge continues where it was. Lookups search inputs and outputs alike.
//
// A start recovers the buffered pairs: the table hash_upto has a DataID below which the runs have every pair, and the
// other pairs are computed from the table data. IDs are assigned before content is written, so content with a lower ID
// may come later; its ID is added to the table hash_late until its pairs are in a run. A start loses buffered
// tombstones, so some extra pairs remain. If a run was being written, its pages are kept as a run, and the next run has
// the same pairs once more.
//
// # Merges
//
// Two rules pick the runs to merge (hashRuns.pick). Runs that are being written or merged are left out.
//
//   - When the runs after the oldest have as many pairs as the oldest one, all of them are merged. This drops
//     tombstones, together with the pairs that they delete. So the index has a few times as many pairs as it
//     needs, however often content is replaced. On average, this rule writes a pair twice.
//   - Eight runs of one rank that follow each other in age are merged into a run of the next rank.
//
// For each pair that is added or deleted, each merge in progress moves two pairs. So a merge of eight runs is complete
// when half as many pairs have been added as it has. The writer never waits for it. A page of about 400 pairs is one
// step, of four or five statements. In transactions of 30 rows, most have no step, and some have two or three.
//
// # Cost
//
// A pair is written three to five times, at 10 bytes each. BenchmarkHashIndex adds 100,000 pairs in transactions of 30.
// In parentheses is the same with the table that version 1 of the schema had:
//
//	pairs present           100,000         1 million        5 million
//	CPU of a pair, us       0.8  (1.2)      1.0  (2.1)       1.1  (4.6)
//	pages in the log        0.02 (0.03)     0.02 (0.10)      0.02 (0.37)
//
// Beside a million pairs, a million and a half were added for 1.1 us each (4.3). To search a run costs about 8 us, of
// which a third is for decoding the page. Old content is usually in the first or the second run. A miss searches all of
// them (13 with a million pairs), so the filter lets only one hash in 200 pass.
//
// # Damage
//
// Each page has a checksum. A lookup ignores a damaged page: content that it would find is stored again. A merge stops
// at a damaged page, and its runs are searched as they are from then on, so that nothing more is lost and Verify can
// report the page. A restore of the metadata from a snapshot (see Meta.Restore) builds the index again.
//
// # Tried and dropped
//
// A table (hash, DataID), into which sorted runs of 32,768 pairs were written row by row. While the table is small,
// neighbors of a run share a page. With millions of pairs, each has a page to itself.
//
// # Considered, and not built
//
//   - Pages found by their first hash. If one hash has more pairs than fit in a page, several pages have that key, and
//     a lookup must step back from the page that it finds. With the last hash it only goes forward.
//   - A table WITHOUT ROWID, keyed by run and hash: SQLite stores whole rows in its inner pages, so the tree is deep.
//   - A directory of the pages in memory: a lookup would save a search in the upper pages of the table, which are
//     cached, and a start would have to read all pages.
type hashIndex struct {
	c *conn // the writer's connection

	mu     sync.RWMutex // guards recent and full, and the pairs of recent: Apply writes, FindData reads
	recent *hashBuffer  // the newest pairs
	full   *hashBuffer  // the pairs of the run that is being written; they do not change

	// The fields below are used only by the writer.
	runs   hashRuns
	flush  flush
	late   late
	before struct { // at the beginning of the transaction
		flush flush
		late  late
	}
	moved    bool // this transaction has completed the run
	credit   int  // the number of pairs of run that may be written
	pace     int  // the number of pairs by which merges may continue in this transaction
	seen     int  // content added and deleted since the last run, including new content without a scope: a start reads it
	upto     core.DataID
	undo     []hashUndo      // the changes of the transaction to recent
	sorting  chan []hashPair // receives the sorted pairs of full, once
	run      []hashPair      // the sorted pairs of full, after they have been received
	bulk     []hashPair      // pairs that are not in a run yet, during a restore
	isDirect bool            // pairs are not buffered but written as large runs, during a restore
	length   int             // the amount of content, with one or two pairs each, that makes a run

	filter  filter
	guesses guesses
}

// flush is the progress of the run that is being written.
type flush struct {
	active bool  // there is a run; when it is complete, hash_upto becomes hashIndex.upto
	pairs  int   // the number of its pairs
	done   int   // the number of pairs in its pages
	run    runID // 0: it has no page yet
}

// late has positions in the table hash_late. Rows below gone are deleted, and rows below old will be, because their
// pairs are in a run. The pairs of rows below run are being written. The next row is next.
type late struct{ gone, old, run, next int64 }

// hashUndo is a pair before a change: it was buffered like that, or was not buffered.
type hashUndo struct {
	pair     hashPair
	buffered bool
}

// runLength is the default: how much content makes a run. A start reads the rows of up to three times as many.
const runLength = 8 << 10

// lateDeletions is the maximum number of rows of hash_late that a transaction deletes.
const lateDeletions = 256

// A restore writes runs of bulkRuns*runLength pairs, with a rank for that size.
const (
	bulkRuns = 64
	bulkRank = maxRank - 2
)

// load reads the pairs that were buffered when the database was closed, and the runs. It skips damaged rows; reading
// the content reports them.
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
	x.length = length
	x.runs = hashRuns{c: x.c, filter: &x.filter, pageLength: min(pageLength, length), stale: true}
	x.recent, x.full, x.guesses = newHashBuffer(0), newHashBuffer(0), newGuesses()
	row, err := x.c.row(selectUpto)
	if err != nil {
		return err
	}
	if row == nil {
		return damaged("hash_upto", errors.New("the row is missing"))
	}
	x.upto = core.DataID(integer(row[0]))
	if err := x.loadLate(); err != nil {
		return err
	}
	return x.c.each(func(cols []driver.Value) error {
		d, err := decodeData(integer(cols[0]), cols[1:])
		if err != nil {
			d = nil // reading the content reports a damaged row
		}
		x.loadContent(d)
		return nil
	}, selectDataFrom, int64(x.upto))
}

// loadLate reads the table hash_late.
func (x *hashIndex) loadLate() error {
	var ids []core.DataID
	err := x.c.each(func(cols []driver.Value) error {
		id := integer(cols[0])
		if len(ids) == 0 {
			x.late = late{id, id, id, id}
		}
		x.late.next = id + 1
		ids = append(ids, core.DataID(integer(cols[1])))
		return nil
	}, selectLate)
	x.before.late = x.late
	for _, id := range ids {
		if err == nil {
			var d *core.DataInfo
			if d, err = x.c.content(id); kindOf(err) == core.Damaged {
				d, err = nil, nil
			}
			x.loadContent(d)
		}
	}
	return err
}

// loadContent buffers the pairs of content again. D is nil if the content no longer exists or its row is damaged.
func (x *hashIndex) loadContent(d *core.DataInfo) {
	x.seen++
	if d == nil || d.Scope == 0 {
		return
	}
	x.loadPair(hashPair{hash: d.Hash(), data: d.ID})
	if !d.Damaged {
		x.guesses.set(d.Hash(), d.ID, d.KeyID)
	}
	if d.HasHead() {
		x.loadPair(hashPair{hash: d.HeadHash(), data: d.ID})
	}
}

func (x *hashIndex) loadPair(p hashPair) {
	x.put(p)
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
	if d.ID < x.upto && !x.isDirect && !mutant.Is("no-late-hashes") {
		if _, err := x.c.exec(insertLate, x.late.next, int64(d.ID)); err != nil {
			return err
		}
		x.late.next++
	}
	err := x.addPair(hashPair{hash: d.Hash(), data: d.ID})
	if err == nil && d.HasHead() {
		x.notePair()
		err = x.addPair(hashPair{hash: d.HeadHash(), data: d.ID})
	}
	return err
}

func (x *hashIndex) addPair(p hashPair) error {
	x.filter.add(p.hash)
	if !x.isDirect {
		x.change(p, true)
		return nil
	}
	x.bulk = append(x.bulk, p)
	if len(x.bulk) < bulkRuns*x.length {
		return nil
	}
	return x.writeBulk()
}

// remove deletes the pairs of content that no longer exists.
func (x *hashIndex) remove(d *core.DataInfo) {
	if d.Scope == 0 {
		return
	}
	x.noteContent()
	x.guesses.forget(d.Hash(), d.ID)
	x.removePair(hashPair{hash: d.Hash(), data: d.ID, gone: true})
	if d.HasHead() {
		x.notePair()
		x.removePair(hashPair{hash: d.HeadHash(), data: d.ID, gone: true})
	}
}

// removePair removes the pair from memory, or buffers a tombstone if it is in a run.
func (x *hashIndex) removePair(p hashPair) {
	was, buffered := x.recent.get(p)
	x.change(p, !buffered || was.gone)
}

// noteContent counts content that was added or deleted.
func (x *hashIndex) noteContent() {
	x.seen++
	x.notePair()
}

// notePair lets two pairs of the run be written, so that it is complete before the next one is full, and lets each
// merge continue by two pairs.
func (x *hashIndex) notePair() {
	x.credit += 2
	x.pace += 2
}

// change buffers a pair, or removes the buffered pair with its hash and DataID.
func (x *hashIndex) change(p hashPair, buffered bool) {
	was, wasBuffered := x.recent.get(p)
	if !wasBuffered {
		was = p
	}
	x.undo = append(x.undo, hashUndo{was, wasBuffered})
	if buffered {
		x.put(p)
	} else {
		x.drop(p)
	}
}

func (x *hashIndex) put(p hashPair) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent.put(p)
}

func (x *hashIndex) drop(p hashPair) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent.drop(p)
}

// work is called at the end of each transaction: it writes the next pages of the run and continues the merges, as far
// as the changes of the transaction allow.
func (x *hashIndex) work() error {
	if err := x.runs.refresh(); err != nil {
		return err
	}
	if err := x.flushRun(); err != nil {
		return err
	}
	if x.late.gone < x.late.old {
		x.late.gone = min(x.late.gone+lateDeletions, x.late.old)
		if _, err := x.c.exec(deleteLate, x.late.gone); err != nil {
			return err
		}
	}
	pace := x.pace
	x.pace = 0
	return x.runs.work(pace, x.flush.run)
}

// flushRun writes the next pages of the run, at most as many as the credit allows. With the last one it updates
// hash_upto.
func (x *hashIndex) flushRun() error {
	if !x.flush.active {
		return nil
	}
	for x.flush.done < x.flush.pairs {
		if x.credit < min(x.runs.stepPairs(), x.flush.pairs-x.flush.done) {
			return nil
		}
		if x.run == nil {
			x.run = <-x.sorting
		}
		r := x.runs.find(x.flush.run)
		if r == nil {
			if r = x.runs.newRun(maxRank, x.runs.nextAge(), uint64(x.flush.pairs)); r == nil {
				return nil // too many runs: the pairs stay in memory
			}
			x.flush.run = r.id
			if err := x.runs.writeRow(r); err != nil {
				return err
			}
		}
		n, err := x.runs.addPage(r, x.run[x.flush.done:])
		if err != nil {
			return err
		}
		x.flush.done += n
		x.credit -= n
	}
	x.moved = true
	_, err := x.c.exec(updateUpto, int64(x.upto))
	return err
}

// committed is called after the transaction is committed. If enough pairs are buffered, they become the next run.
func (x *hashIndex) committed(next core.DataID) {
	x.undo = x.undo[:0]
	x.runs.committed()
	if x.moved {
		x.mu.Lock()
		x.full = newHashBuffer(0)
		x.mu.Unlock()
		x.run, x.flush, x.moved = nil, flush{}, false
		x.late.old = x.late.run
	}
	if !x.flush.active && x.seen >= x.length {
		x.beginRun(next)
	}
	x.before.flush, x.before.late = x.flush, x.late
}

// beginRun makes the buffered pairs the next run. They are sorted concurrently, which takes a millisecond.
func (x *hashIndex) beginRun(next core.DataID) {
	full, sorting := x.recent, make(chan []hashPair, 1)
	go func() { sorting <- full.sorted() }()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent, x.full, x.sorting = newHashBuffer(x.length), full, sorting
	x.flush, x.upto, x.late.run = flush{active: true, pairs: full.size()}, next, x.late.next
	x.credit, x.seen = 0, 0
}

// rolledBack undoes the changes of the transaction.
func (x *hashIndex) rolledBack() {
	for _, u := range slices.Backward(x.undo) {
		if u.buffered {
			x.put(u.pair)
		} else {
			x.drop(u.pair)
		}
	}
	x.undo = x.undo[:0]
	x.flush, x.late, x.moved = x.before.flush, x.before.late, false
	x.runs.rolledBack()
}

// empty deletes all pairs from memory. The filter keeps its hashes, since extra hashes do no harm.
func (x *hashIndex) empty() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.recent, x.full, x.run = newHashBuffer(0), newHashBuffer(0), nil
	x.runs.stale = true
	x.flush, x.late, x.moved, x.credit, x.pace, x.seen, x.upto = flush{}, late{}, false, 0, 0, 0, 1
	x.before.flush, x.before.late = x.flush, x.late
	x.undo, x.bulk = x.undo[:0], x.bulk[:0]
}

// writeBulk writes the pairs of a restore as a run.
func (x *hashIndex) writeBulk() error {
	if len(x.bulk) == 0 {
		return nil
	}
	if err := x.runs.refresh(); err != nil {
		return err
	}
	slices.SortFunc(x.bulk, comparePairs)
	r := x.runs.newRun(bulkRank, x.runs.nextAge(), uint64(len(x.bulk)))
	if r == nil {
		return damaged("hash index", errors.New("it has too many runs"))
	}
	err := x.runs.writeRow(r)
	for rest := x.bulk; err == nil && len(rest) > 0; {
		var n int
		n, err = x.runs.addPage(r, rest)
		rest = rest[n:]
	}
	x.bulk = x.bulk[:0]
	return err
}

// restored is called at the end of a restore. All content with an ID below next is in the runs.
func (x *hashIndex) restored(next core.DataID) error {
	if err := x.work(); err != nil {
		return err
	}
	err := x.writeBulk()
	x.bulk = nil
	x.upto, x.seen, x.credit = next, 0, 0
	if err == nil {
		_, err = x.c.exec(updateUpto, int64(next))
	}
	return err
}

// buffered appends the IDs of the content in memory that may have a hash to ids.
func (x *hashIndex) buffered(hash uint64, ids []core.DataID) []core.DataID {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.full.find(hash, x.recent.find(hash, ids))
}

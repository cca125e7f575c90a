package sqlite

import (
	"cmp"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"orcas/core"
	"orcas/internal/mutant"
)

// hashRuns are the runs of the hash index that are in the database. Only the writer uses them.
type hashRuns struct {
	c          *conn
	filter     *filter
	pageLength int // the maximum length of a page, in bytes; pageLength, except in tests

	list    []*hashRun // from the oldest to the newest
	merges  []*merge
	changed bool // the transaction has changed the runs
	stale   bool // the runs must be read again, because such a transaction was rolled back

	page pageWriter // the page being written
	buf  []byte
}

// hashRun is a sorted list of pairs: a row of the table hash_runs, and its pages.
type hashRun struct {
	id     runID
	age    uint64   // the position among the runs: a run with a higher number is newer
	pairs  uint64   // the number of pairs
	inputs []runID  // the runs that are being merged into this one, from the newest to the oldest
	at     hashPair // if there are inputs: their pairs up to this one have been merged

	last    int64  // the ID of the last page; 0: not known
	merge   *merge // the merge that reads or writes the run, or nil
	damaged bool   // its row cannot be decoded: it is read, but not merged
}

// merge merges runs into one.
type merge struct {
	out     *hashRun
	inputs  []*hashCursor // from the newest to the oldest
	credit  int           // the number of pairs that it may merge now
	started bool          // the cursors are at their first pairs
	stopped bool          // an input is damaged; Verify reports it
	done    bool          // all pairs are in the output
}

// hashCursor reads the pairs of a run.
type hashCursor struct {
	run    *hashRun
	page   int64 // the ID of the page being read
	reader pageReader
	pair   hashPair // the current pair
	ok     bool     // there is a current pair
	spent  int64    // the pairs of all pages up to this one have been read
	kept   int64    // the lowest ID of a page that is not deleted yet
}

// mergeRuns is the number of runs of one rank that are merged.
const mergeRuns = 8

// stepPairs returns about the number of pairs in a page. It is the number of pairs for which a merge waits before it
// writes one.
func (s *hashRuns) stepPairs() int { return max(1, s.pageLength/typicalLength) }

// refresh reads the table hash_runs, unless the list is up to date. Merges that were in progress continue.
func (s *hashRuns) refresh() error {
	if !s.stale {
		return nil
	}
	s.list, s.merges = nil, nil
	if err := s.c.each(func(cols []driver.Value) error {
		r, err := decodeRun(runID(integer(cols[0])), bytes(cols[1]))
		r.damaged = err != nil
		s.list = append(s.list, r)
		return nil
	}, selectRuns, int64(0)); err != nil {
		return err
	}
	slices.SortFunc(s.list, func(a, b *hashRun) int { // an output comes after its newest input, which has the same age
		return cmp.Or(cmp.Compare(a.age, b.age), cmp.Compare(len(a.inputs), len(b.inputs)))
	})
	for _, r := range s.list {
		if len(r.inputs) == 0 {
			continue
		}
		inputs := make([]*hashRun, len(r.inputs))
		for i, id := range r.inputs {
			inputs[i] = s.find(id)
		}
		s.addMerge(r, inputs)
	}
	s.stale = false
	return nil
}

// find returns the run with that ID, or nil.
func (s *hashRuns) find(id runID) *hashRun {
	for _, r := range s.list {
		if r.id == id {
			return r
		}
	}
	return nil
}

// addMerge begins or continues the merge into out. An input that is nil or damaged stops it.
func (s *hashRuns) addMerge(out *hashRun, inputs []*hashRun) {
	m := &merge{out: out}
	out.merge = m
	for _, r := range inputs {
		if r == nil || r.damaged || r.merge != nil {
			m.stopped = true
			continue
		}
		r.merge = m
		from := r.id.firstPage()
		if out.at.data != 0 {
			from = r.id.pageOf(out.at.hash)
		}
		m.inputs = append(m.inputs, &hashCursor{run: r, page: from - 1, kept: from})
	}
	s.merges = append(s.merges, m)
}

// newRun adds an empty run of a rank to the list, or returns nil if there are too many. The caller writes its row.
func (s *hashRuns) newRun(rank int, age, pairs uint64) *hashRun {
	for n := 1; n < 1<<numberBits; n++ {
		if id := runID(rank<<numberBits | n); s.find(id) == nil {
			r := &hashRun{id: id, age: age, pairs: pairs, last: id.firstPage() - 1}
			at, _ := slices.BinarySearchFunc(s.list, age+1, func(r *hashRun, age uint64) int { return cmp.Compare(r.age, age) })
			s.list = slices.Insert(s.list, at, r)
			return r
		}
	}
	return nil
}

// nextAge returns the age of the next run.
func (s *hashRuns) nextAge() uint64 {
	if n := len(s.list); n > 0 {
		return s.list[n-1].age + 1
	}
	return 1
}

// writeRow writes the row of a run.
func (s *hashRuns) writeRow(r *hashRun) error {
	s.changed = true
	s.buf = r.appendTo(s.buf[:0])
	_, err := s.c.exec(upsertRun, int64(r.id), s.buf)
	return err
}

// appendTo appends the column info of a run to b.
func (r *hashRun) appendTo(b []byte) []byte {
	for _, n := range []uint64{r.age, r.pairs, r.at.hash, uint64(r.at.data)} {
		b = binary.AppendUvarint(b, n)
	}
	for _, id := range r.inputs {
		b = binary.AppendUvarint(b, uint64(id))
	}
	return runKey(int64(r.id)).appendSum(b)
}

// decodeRun decodes a row of hash_runs. Even with an error it returns a run, with the ID alone.
func decodeRun(id runID, info []byte) (*hashRun, error) {
	b, err := runKey(int64(id)).checkSum(info)
	var numbers []uint64
	for err == nil && len(b) > 0 {
		n, length := binary.Uvarint(b)
		if length <= 0 {
			err = errors.New("a number is incomplete")
			break
		}
		numbers, b = append(numbers, n), b[length:]
	}
	if err == nil && len(numbers) < 4 {
		err = errors.New("it is too short")
	}
	if err != nil {
		return &hashRun{id: id}, damaged(fmt.Sprintf("run %d of the hash index", id), err)
	}
	r := &hashRun{id: id, age: numbers[0], pairs: numbers[1], at: hashPair{hash: numbers[2], data: core.DataID(numbers[3])}}
	for _, n := range numbers[4:] {
		r.inputs = append(r.inputs, runID(n))
	}
	return r, nil
}

// remove deletes the row of a run.
func (s *hashRuns) remove(r *hashRun) error {
	s.changed = true
	s.list = slices.DeleteFunc(s.list, func(other *hashRun) bool { return other == r })
	_, err := s.c.exec(deleteRun, int64(r.id))
	return err
}

// addPage writes a page with the first of the pairs to a run, and returns their number.
func (s *hashRuns) addPage(r *hashRun, pairs []hashPair) (n int, err error) {
	s.page.reset()
	for n < len(pairs) && !s.page.isFull(s.pageLength) {
		s.page.add(pairs[n])
		n++
	}
	return n, s.writePage(r)
}

// writePage writes the page to a run, unless it is empty, and begins the next page.
func (s *hashRuns) writePage(r *hashRun) error {
	defer s.page.reset()
	if s.page.count == 0 {
		return nil
	}
	if r.last == 0 {
		row, err := s.c.row(selectLastPage, r.id.firstPage(), r.id.lastPage())
		if err != nil {
			return err
		}
		r.last = r.id.firstPage() - 1
		if row != nil {
			r.last = integer(row[0])
		}
	}
	s.changed = true
	id := max(r.last+1, r.id.pageOf(s.page.last.hash))
	r.last = id
	s.page.buf = pageKey(id).appendSum(s.page.buf)
	_, err := s.c.exec(insertPage, id, s.page.buf)
	return err
}

// work continues the merges, each by credit pairs and those that it had left, and begins the next one. It does not
// merge the run with the ID growing.
func (s *hashRuns) work(credit int, growing runID) error {
	for _, m := range s.merges {
		m.credit += credit
		for !m.done && !m.stopped && m.credit >= s.stepPairs() {
			if err := s.step(m); err != nil {
				return err
			}
		}
	}
	s.merges = slices.DeleteFunc(s.merges, func(m *merge) bool { return m.done })
	if inputs := s.pick(growing); len(inputs) > 0 {
		return s.begin(inputs)
	}
	return nil
}

// pick returns the runs that should be merged next, from the oldest to the newest, or none. The comment of hashIndex
// has the rules.
func (s *hashRuns) pick(growing runID) []*hashRun {
	isIdle := func(r *hashRun) bool { return r.merge == nil && !r.damaged && r.id != growing }
	var newer uint64 // the number of pairs in the idle runs from the second on
	idle := 0
	for ; idle < len(s.list) && isIdle(s.list[idle]); idle++ {
		if idle > 0 {
			newer += s.list[idle].pairs
		}
	}
	if idle > 1 && newer >= s.list[0].pairs {
		return s.list[:idle]
	}
	same := 0 // the number of idle runs of one rank up to this one
	for i := 1; i < len(s.list); i++ {
		r := s.list[i]
		switch {
		case !isIdle(r):
			same = 0
		case same > 0 && r.id.rank() == s.list[i-1].id.rank():
			same++
		default:
			same = 1
		}
		if same == mergeRuns {
			return s.list[i+1-mergeRuns : i+1]
		}
	}
	return nil
}

// begin begins to merge runs, which are given from the oldest to the newest.
func (s *hashRuns) begin(runs []*hashRun) error {
	rank := 0
	if runs[0] != s.list[0] {
		rank = max(1, runs[0].id.rank()-1)
	}
	runs = slices.Clone(runs)
	slices.Reverse(runs)
	out := s.newRun(rank, runs[0].age, 0)
	if out == nil {
		return nil
	}
	for _, r := range runs {
		out.inputs = append(out.inputs, r.id)
	}
	s.addMerge(out, runs)
	return s.writeRow(out)
}

// step merges pairs until a page of the output is full, writes it, and deletes the pages of the inputs that it has
// finished.
func (s *hashRuns) step(m *merge) error {
	s.page.reset()
	merged := 0
	if err := s.fill(m, &merged); err != nil {
		s.page.reset()
		var damage damagedError
		if errors.As(err, &damage) { // a page of an input; nothing was written
			m.stopped = true
			return nil
		}
		return err
	}
	m.credit -= max(merged, 1)
	m.out.pairs += uint64(s.page.count)
	if err := s.writePage(m.out); err != nil {
		return err
	}
	m.done = true
	for _, u := range m.inputs {
		m.done = m.done && !u.ok
		if u.spent >= u.kept {
			if _, err := s.c.exec(deletePages, u.kept, u.spent); err != nil {
				return err
			}
			u.kept = u.spent + 1
		}
	}
	if !m.done {
		return s.writeRow(m.out)
	}
	for _, u := range m.inputs {
		if err := s.remove(u.run); err != nil {
			return err
		}
	}
	m.out.merge, m.out.inputs, m.out.at = nil, nil, hashPair{}
	if m.out.pairs == 0 {
		return s.remove(m.out)
	}
	return s.writeRow(m.out)
}

// fill adds the next pairs of a merge to the page until it is full. If most pairs are dropped, it stops earlier, so
// that a step has a bounded length. It counts the pairs in merged.
func (s *hashRuns) fill(m *merge, merged *int) error {
	if !m.started {
		for _, u := range m.inputs {
			for more := true; more; more = u.ok && comparePairs(u.pair, m.out.at) <= 0 {
				if err := u.next(s.c); err != nil {
					return err
				}
			}
		}
		m.started = true
	}
	oldest := m.out.id.rank() == 0 || mutant.Is("early-tombstone-drop")
	fillFilter := !s.filter.full.Load()
	for limit := 4 * s.stepPairs(); *merged < limit && !s.page.isFull(s.pageLength); *merged++ {
		p, ok, err := m.next(s.c)
		if err != nil || !ok {
			return err
		}
		m.out.at = p
		if p.gone && oldest {
			continue
		}
		s.page.add(p)
		if fillFilter && !mutant.Is("merge-hides-hashes") { // Meta.fillFilter may have passed the output's pages before it reaches those of the input
			s.filter.add(p.hash)
		}
	}
	return nil
}

// next returns the next pair of all inputs, or false at the end. Of equal pairs it returns the newest.
func (m *merge) next(c *conn) (p hashPair, ok bool, err error) {
	var first *hashCursor
	for _, u := range m.inputs {
		if u.ok && (first == nil || comparePairs(u.pair, first.pair) < 0) {
			first = u
		}
	}
	if first == nil {
		return p, false, nil
	}
	p = first.pair
	for _, u := range m.inputs {
		if u.ok && u.pair.hash == p.hash && u.pair.data == p.data {
			if err := u.next(c); err != nil {
				return p, false, err
			}
		}
	}
	return p, true, nil
}

// next moves to the next pair.
func (u *hashCursor) next(c *conn) error {
	for {
		if u.pair, u.ok = u.reader.next(); u.ok {
			return nil
		}
		u.spent = u.page
		row, err := c.row(selectNextPage, u.page, u.run.id.lastPage())
		if err != nil || row == nil {
			return err
		}
		u.page = integer(row[0])
		if u.reader, err = openPage(u.page, bytes(row[1])); err != nil {
			return err
		}
	}
}

// committed is called after a transaction is committed.
func (s *hashRuns) committed() { s.changed = false }

// rolledBack is called when a transaction is rolled back.
func (s *hashRuns) rolledBack() {
	s.stale = s.stale || s.changed
	s.changed = false
}

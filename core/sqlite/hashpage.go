package sqlite

import (
	"encoding/binary"
	"fmt"

	"orcas/core"
)

// hashPair is an entry of the hash index: it maps a hash to content. If gone is set, it is a tombstone, which deletes
// that entry from older runs.
type hashPair struct {
	hash uint64
	data core.DataID
	gone bool
}

// comparePairs compares two pairs in the order of a run: by hash, then by DataID.
func comparePairs(a, b hashPair) int {
	switch {
	case a.hash < b.hash:
		return -1
	case a.hash > b.hash:
		return 1
	case a.data < b.data:
		return -1
	case a.data > b.data:
		return 1
	}
	return 0
}

// runID is the ID of a run: in the bits above numberBits its rank, from 0 to maxRank, below them a number from 1 on
// that tells runs of one rank apart. A new run has the highest rank, a merge of runs of one rank has a lower one, and
// rank 0 is for runs that are the oldest when they are written. So the order of IDs begins with the largest runs.
type runID int64

const (
	numberBits = 7
	maxRank    = 15
)

func (r runID) rank() int { return int(r >> numberBits) }

// The ID of a page has the ID of its run in the bits above pageBits. Below them it has the first hashPrefixBits bits of
// the hash of its last pair, or, if another page of the run has that ID, the next free number. That can only happen if
// a page has a single hash, or if the hashes agree in so many bits, so the IDs are in the order of the pairs.
const (
	pageBits       = 52
	maxPage        = 1<<pageBits - 1 // the highest number of a page within its run
	hashPrefixBits = pageBits - 1
)

// hashPrefix returns the bits of a hash that are part of the ID of a page.
func hashPrefix(hash uint64) int64 { return int64(hash >> (64 - hashPrefixBits)) }

// firstPage and lastPage return the lowest and the highest ID that a page of the run can have.
func (r runID) firstPage() int64 { return int64(r) << pageBits }
func (r runID) lastPage() int64  { return int64(r)<<pageBits | maxPage }

// pageOf returns the lowest ID that a page with a pair of this hash can have.
func (r runID) pageOf(hash uint64) int64 { return r.firstPage() + hashPrefix(hash) }

// runOf returns the run of a page.
func runOf(page int64) runID { return runID(page >> pageBits) }

// pageLength is the maximum length of the column pairs of a page, in bytes. SQLite stores up to 489 bytes of such a row
// in a leaf and exactly one page of 4096 bytes beside it, which no other row shares. So writing a row changes two
// database pages. A row that fills a leaf would change the leaf's neighbors as well.
const pageLength = 4572

// pairLength is the maximum length of an encoded pair, and typicalLength is about its usual length, in bytes.
const (
	pairLength    = 2 * binary.MaxVarintLen64
	typicalLength = 11
)

// pageWriter encodes pairs, which are added in order. A pair is two varints: the difference to the hash before, and
// twice the DataID, plus one for a tombstone.
type pageWriter struct {
	buf   []byte
	last  hashPair
	count int
}

func (w *pageWriter) reset() { w.buf, w.last, w.count = w.buf[:0], hashPair{}, 0 }

func (w *pageWriter) add(p hashPair) {
	w.buf = binary.AppendUvarint(w.buf, p.hash-w.last.hash)
	w.buf = binary.AppendUvarint(w.buf, uint64(p.data)<<1|uint64(boolean(p.gone)))
	w.last = p
	w.count++
}

// isFull reports whether the next pair may not fit in a page of that length.
func (w *pageWriter) isFull(length int) bool {
	return len(w.buf)+pairLength+rowSumSize > length && w.count > 0
}

// pageReader decodes the pairs of a page.
type pageReader struct {
	rest []byte
	hash uint64
}

// openPage checks the checksum of a page.
func openPage(id int64, column []byte) (pageReader, error) {
	b, err := pageKey(id).checkSum(column)
	if err != nil {
		return pageReader{}, damaged(fmt.Sprintf("page %d of the hash index", id), err)
	}
	return pageReader{rest: b}, nil
}

// next returns the next pair, or false at the end of the page.
func (r *pageReader) next() (hashPair, bool) {
	delta, n := binary.Uvarint(r.rest)
	if n <= 0 {
		return hashPair{}, false
	}
	data, m := binary.Uvarint(r.rest[n:])
	if m <= 0 {
		return hashPair{}, false
	}
	r.rest = r.rest[n+m:]
	r.hash += delta
	return hashPair{hash: r.hash, data: core.DataID(data >> 1), gone: data&1 != 0}, true
}

// find appends the IDs of content with a hash to ids, and reports whether the next page may have more of them.
func (r *pageReader) find(hash uint64, ids []core.DataID) (found []core.DataID, more bool) {
	for {
		p, ok := r.next()
		if !ok {
			return ids, true
		}
		if p.hash > hash {
			return ids, false
		}
		if p.hash == hash && !p.gone {
			ids = append(ids, p.data)
		}
	}
}

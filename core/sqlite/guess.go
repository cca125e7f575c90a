package sqlite

import (
	"sync/atomic"

	"orcas/core"
)

// guesses leads from the hash of content (core.ContentKey.Hash) to its number, for GuessData. It is a table of 4 MiB in memory, a cell for each
// content that came or was found last, one at each place; so of half a million contents it knows two thirds, of a hundred thousand nine tenths. A cell may be out
// of date, since a transaction may be rolled back, a key be replaced, and hashes look alike in it. What it says is a guess.
type guesses []atomic.Uint64

// A cell is, from its high bits to its low ones: some bits of the hash, beside those that say where the cell is; the KeyID of the content, where that was known;
// its number. 0: nothing.
const (
	guessPlaceBits = 19
	guessTagBits   = 16
	guessKeyBits   = 8
	guessDataBits  = 64 - guessTagBits - guessKeyBits

	anyKey = 1<<guessKeyBits - 1 // the KeyID was not known
)

func newGuesses() guesses { return make(guesses, 1<<guessPlaceBits) }

// cell returns the cell of a hash, and what of the hash is in it.
func (g guesses) cell(hash uint64) (*atomic.Uint64, uint64) {
	hash *= 0x9e3779b97f4a7c15
	return &g[hash>>(64-guessPlaceBits)], hash << guessPlaceBits >> (64 - guessTagBits)
}

func makeCell(tag uint64, id core.DataID, keyID uint32) uint64 {
	if id >= 1<<guessDataBits {
		return 0
	}
	return tag<<(64-guessTagBits) | uint64(min(keyID, anyKey))<<guessDataBits | uint64(id)
}

// set notes content that came, or was found.
func (g guesses) set(hash uint64, id core.DataID, keyID uint32) {
	c, tag := g.cell(hash)
	c.Store(makeCell(tag, id, keyID))
}

// fill notes content of which no more is known than that it is there, where that is not in the way of newer content.
func (g guesses) fill(hash uint64, id core.DataID) {
	c, tag := g.cell(hash)
	if was := c.Load(); dataOfCell(was) < id {
		c.CompareAndSwap(was, makeCell(tag, id, anyKey)) // if not, newer content came just now
	}
}

// forget notes that content is gone.
func (g guesses) forget(hash uint64, id core.DataID) {
	c, _ := g.cell(hash)
	if was := c.Load(); dataOfCell(was) == id {
		c.CompareAndSwap(was, 0)
	}
}

// get returns the number of a content that probably has a hash, and a key of that number; 0: none is known.
func (g guesses) get(hash uint64, keyID uint32) core.DataID {
	c, tag := g.cell(hash)
	was := c.Load()
	key := uint32(was >> guessDataBits & anyKey)
	if was>>(64-guessTagBits) != tag || key != anyKey && key != keyID {
		return 0
	}
	return dataOfCell(was)
}

func dataOfCell(cell uint64) core.DataID { return core.DataID(cell & (1<<guessDataBits - 1)) }

// GuessData implements core.Meta.
func (m *Meta) GuessData(k core.ContentKey) core.DataID {
	if k.Scope == 0 || k.Head {
		return 0
	}
	return m.w.find.guesses.get(k.Hash(), k.KeyID)
}

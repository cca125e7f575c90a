package sqlite

import (
	"sync/atomic"

	"orcas/core"
)

// guesses maps the hash of content (core.ContentKey.Hash) to its DataID, for GuessData. It is a table of 4 MiB in
// memory. A cell has the DataID of the content that was added or found last among all content that shares the cell. So
// if there are half a million DataIDs, the table has about two thirds of them; of a hundred thousand it has nine
// tenths. A cell may be wrong: its transaction may have been rolled back, the key may have been replaced, and hashes
// can collide. So its DataID is only a guess.
type guesses []atomic.Uint64

// A cell has, from its high bits to its low bits: a tag, made of hash bits other than those that select the cell; the
// KeyID of the content, or anyKey; and the DataID. An empty cell is 0.
const (
	guessPlaceBits = 19
	guessTagBits   = 16
	guessKeyBits   = 8
	guessDataBits  = 64 - guessTagBits - guessKeyBits

	anyKey = 1<<guessKeyBits - 1 // the KeyID is unknown
)

func newGuesses() guesses { return make(guesses, 1<<guessPlaceBits) }

// cell returns the cell of a hash and the tag that it must have.
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

// set stores the DataID of content that was added or found.
func (g guesses) set(hash uint64, id core.DataID, keyID uint32) {
	c, tag := g.cell(hash)
	c.Store(makeCell(tag, id, keyID))
}

// fill stores the DataID of content with an unknown KeyID, unless the cell has newer content.
func (g guesses) fill(hash uint64, id core.DataID) {
	c, tag := g.cell(hash)
	if was := c.Load(); dataOfCell(was) < id {
		c.CompareAndSwap(was, makeCell(tag, id, anyKey)) // if this fails, newer content has just been added
	}
}

// forget deletes the cell of content that no longer exists or is damaged.
func (g guesses) forget(hash uint64, id core.DataID) {
	c, _ := g.cell(hash)
	if was := c.Load(); dataOfCell(was) == id {
		c.CompareAndSwap(was, 0)
	}
}

// get returns the DataID of content that probably has this hash and this key, or 0 if the table has none.
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

// GuessData implements core.Guesser.
func (m *Meta) GuessData(k core.ContentKey) core.DataID {
	if k.Scope == 0 || k.Head {
		return 0
	}
	return m.w.index.guesses.get(k.Hash(), k.KeyID)
}

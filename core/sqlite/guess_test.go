package sqlite

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// GuessData returns matching content after it was added and after a start, but not after it was deleted.
func TestGuessData(t *testing.T) {
	dir, o := t.TempDir(), Options{runLength: 50}
	f := feed(t, openAt(t, dir, o), core.VersioningOff)
	first, k := f.sharedPut("first", 1)
	f.apply(first)
	id := first.Object.Segments[0].Data
	require.Equal(t, id, f.m.GuessData(k))
	others := func() (found []core.DataID) {
		for _, change := range []func(*core.ContentKey){
			func(k *core.ContentKey) { k.Scope = 0 }, func(k *core.ContentKey) { k.Scope++ }, func(k *core.ContentKey) { k.SHA256[0]++ },
			func(k *core.ContentKey) { k.Head, k.Size = true, core.HeadSize+1 }, func(k *core.ContentKey) { k.KeyID++ },
		} {
			other := k
			change(&other)
			found = append(found, f.m.GuessData(other))
		}
		return found
	}
	require.Equal(t, make([]core.DataID, 5), others())
	again := func() {
		require.NoError(t, f.m.Close())
		f.m = openAt(t, dir, o)
		f.m.filling.Wait()
	}
	again()
	require.Equal(t, id, f.m.GuessData(k), "it was buffered when the database was closed")
	require.Equal(t, make([]core.DataID, 5), others())

	for n := range uint64(500) {
		c, _ := f.sharedPut(fmt.Sprint("other", n), 100+n)
		f.apply(c)
	}
	again()
	require.Equal(t, id, f.m.GuessData(k), "it was in the table")
	require.Equal(t, []core.DataID{0, 0, 0, 0, id}, others(), "the table does not have the KeyID")
	require.True(t, finds(t, f.m, k))
	require.Equal(t, make([]core.DataID, 5), others(), "but FindData adds the KeyID")

	f.apply(&core.DeleteObject{Bucket: f.bucket, Key: "first"})
	require.Zero(t, f.m.GuessData(k))
	second, _ := f.sharedPut("second", 1)
	f.apply(second)
	require.Equal(t, second.Object.Segments[0].Data, f.m.GuessData(k))
}

// Content in the same cell replaces the previous content, unless fill adds it and it is older.
func TestGuessesInOneCell(t *testing.T) {
	g := newGuesses()
	cell, tag := g.cell(1)
	other := uint64(2)
	for {
		if c, at := g.cell(other); c == cell && at != tag {
			break
		}
		other++
	}
	for _, c := range []struct {
		name       string
		do         func()
		one, other core.DataID
	}{
		{"one is added", func() { g.set(1, 5, 0) }, 5, 0},
		{"the other is added", func() { g.set(other, 6, 0) }, 0, 6},
		{"one is found", func() { g.set(1, 5, 0) }, 5, 0},
		{"the other was deleted", func() { g.forget(other, 6) }, 5, 0},
		{"an older one is filled in", func() { g.fill(other, 4) }, 5, 0},
		{"a newer one is filled in", func() { g.fill(other, 7) }, 0, 7},
		{"it was deleted", func() { g.forget(other, 7) }, 0, 0},
		{"the DataID is too large", func() { g.set(1, 1<<guessDataBits, 0) }, 0, 0},
		{"the largest DataID", func() { g.set(1, 1<<guessDataBits-1, 0) }, 1<<guessDataBits - 1, 0},
	} {
		c.do()
		require.Equal(t, c.one, g.get(1, 0), c.name)
		require.Equal(t, c.other, g.get(other, 0), c.name)
	}
	for _, key := range []uint32{1, anyKey - 1, anyKey, anyKey + 1, 1 << 30} {
		g.set(1, 5, key)
		require.EqualValues(t, 5, g.get(1, key))
		require.Equal(t, key >= anyKey, g.get(1, 0) != 0, "only small KeyIDs are distinguished")
	}
}

// Of a hundred thousand DataIDs, nearly all are guessed, except those that share a cell, and no guess returns the wrong
// one.
func TestGuessesOfMany(t *testing.T) {
	const many = 100_000
	g := newGuesses()
	for n := range uint64(many) {
		g.set(n*0xd1342543de82ef95, core.DataID(n+1), 0)
	}
	right := 0
	for n := range uint64(many) {
		switch g.get(n*0xd1342543de82ef95, 0) {
		case core.DataID(n + 1):
			right++
		case 0:
		default:
			t.Fatalf("the guess for number %d is wrong", n)
		}
	}
	require.Greater(t, right, many*9/10)
}

package vfs_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/cached"
	"orcas/core/codec"
	"orcas/core/disk"
	"orcas/core/mem"
	"orcas/core/reclaim"
	"orcas/core/sqlite"
	"orcas/vfs"
)

// racer is a yard in which few contents come and go under many keys.
type racer struct {
	*yard
	meta   *finding
	bodies [][]byte
	known  map[int]*vfs.Content // answers that were given before a body, by the content, and are not used yet
	hits   map[string]int       // what came of them
}

func newRacer(t *testing.T, blocks core.Blocks, meta reclaim.Meta, seed uint64, o vfs.Options) *racer {
	x := &racer{meta: &finding{Meta: meta}, known: map[int]*vfs.Content{}, hits: map[string]int{}}
	x.yard = newYard(t, blocks, x.meta, reclaim.Options{DeadShare: 0.2})
	x.rand = rand.New(rand.NewPCG(seed, 43))
	o.Meta, o.Blocks, o.Writer, o.Instant = x.meta, x.blocks, x.writer, true
	var err error
	x.fs, err = vfs.New(o)
	require.NoError(t, err)
	for i, size := range []int{300, 5_000, 20_000, 40_000, 70_000, 300_000} {
		x.bodies = append(x.bodies, filler(seed*100+uint64(i), size))
	}
	return x
}

// inMemory returns a store, what a power cut would leave of its blocks, and what closes it.
func inMemory() (core.Blocks, reclaim.Meta, func() core.Blocks, func()) {
	blocks := mem.NewBlocks()
	return blocks, mem.NewMeta(), func() core.Blocks { return blocks.Crash() }, func() {}
}

// onDisk does so with real drivers; the blocks are those that there are.
func onDisk(t *testing.T) (core.Blocks, reclaim.Meta, func() core.Blocks, func()) {
	blocks, meta, done := openDisk(t, t.TempDir())
	return blocks, meta, func() core.Blocks { return blocks }, done
}

// openDisk opens the drivers of the store in dir; what it returns closes them.
func openDisk(t *testing.T, dir string) (core.Blocks, reclaim.Meta, func()) {
	blocks, err := disk.Open(dir, disk.Options{PackedSize: 1 << 20})
	require.NoError(t, err)
	database, err := sqlite.Open(filepath.Join(dir, "metadata.db"), sqlite.Options{})
	require.NoError(t, err)
	meta, err := cached.New(database, cached.Options{})
	require.NoError(t, err)
	return blocks, meta, func() {
		require.NoError(t, meta.Close())
		require.NoError(t, blocks.Close())
	}
}

// drop takes a content from every key that has it.
func (x *racer) drop(body []byte) {
	for _, key := range slices.Sorted(maps.Keys(x.want)) {
		if &x.want[key][0] != &body[0] {
			continue
		}
		if x.rand.IntN(2) == 0 {
			x.set(key, filler(x.rand.Uint64(), 100))
		} else {
			x.fs.Delete(ctx, x.b, "", []vfs.DeleteRequest{{Key: key}})
			delete(x.want, key)
		}
	}
}

// act does something with one of the contents.
func (x *racer) act() {
	i := x.rand.IntN(len(x.bodies))
	body, key := x.bodies[i], fmt.Sprint("race-", x.rand.IntN(8))
	switch x.rand.IntN(7) {
	case 0:
		x.drop(body)
	case 1: // it goes between the look-up and the reference, and is back before it, or not
		x.meta.found = func() {
			x.hits["found"]++
			x.drop(body)
			if x.rand.IntN(2) == 0 {
				x.set("back", body)
			}
		}
		x.set(key, body)
		x.meta.found = nil
	case 2: // the client is told that nothing need be sent; see below
		known, err := x.fs.KnownContent(ctx, x.b, sha256.Sum256(body), int64(len(body)), vfs.Encryption{})
		require.NoError(x.t, err)
		if known != nil {
			x.known[i] = known
		}
	case 3, 4: // perhaps rounds later
		known := x.known[i]
		if known == nil {
			break
		}
		delete(x.known, i)
		_, err := x.fs.Put(ctx, vfs.PutRequest{Bucket: x.b, Key: key, Content: known})
		if core.Is(err, core.NoSuchData) {
			x.hits["gone"]++
			break
		}
		require.NoError(x.t, err)
		x.hits["unsent"]++
		x.want[key] = body
	default:
		x.set(key, body)
	}
}

// TestHitsAgainstReclaim has the content that reclaim is freeing or moving sent again, referred to unsent, and deleted, at every place of a round. Nothing may be
// lost, references are exact, and the blocks say the same as the metadata, right there and in the end.
func TestHitsAgainstReclaim(t *testing.T) {
	sealed := vfs.Options{Compression: codec.Better, Keys: parseKeys(t, firstKey), EncryptAll: true}
	for _, c := range []struct {
		name    string
		options vfs.Options
		onDisk  bool
		seeds   uint64
	}{{"plain", vfs.Options{}, false, 8}, {"compressed and encrypted", sealed, false, 8}, {"on disk", sealed, true, 3}} {
		t.Run(c.name, func(t *testing.T) {
			passed, hits := map[string]int{}, map[string]int{}
			for seed := range c.seeds {
				blocks, meta, crashed, done := inMemory()
				if c.onDisk {
					blocks, meta, crashed, done = onDisk(t)
				}
				x := newRacer(t, blocks, meta, seed, c.options)
				x.hook = func(place string) {
					if passed[place]++; passed[place]%3 == 0 {
						return // other rounds, and other races, begin with what is left now
					}
					for range 1 + x.rand.IntN(4) {
						x.act()
					}
					if passed[place]%4 == 0 {
						x.rebuilds(crashed())
					}
				}
				for range 5 {
					x.churn(15)
					for range 10 {
						x.act()
					}
					_, err := x.r.Round(ctx, true)
					require.NoError(t, err)
					x.check()
					x.requireSound()
					x.rebuilds(crashed())
				}
				x.hook = nil
				for _, body := range x.bodies {
					x.drop(body)
				}
				x.full()
				x.full()
				x.check()
				for what, n := range x.hits {
					hits[what] += n
				}
				require.NoError(t, x.writer.Close())
				done()
			}
			t.Log(passed, hits)
			for _, place := range []string{reclaim.HookMarked, reclaim.HookCopied, reclaim.HookSnapshot, reclaim.HookSwitched, reclaim.HookUnlinked} {
				require.NotZero(t, passed[place], place)
			}
			for _, what := range []string{"found", "gone", "unsent"} {
				require.NotZero(t, hits[what], what)
			}
		})
	}
}

package content_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/reclaim"
	"orcas/storetest"
	"orcas/vfs"
)

// racer is a store in which a few bodies are written and deleted under many keys.
type racer struct {
	*storetest.Store
	meta   *finding
	bodies [][]byte
	known  map[int]*content.Content // results of KnownContent that are not used yet, by index in bodies
	hits   map[string]int           // how often each kind of race happened
}

func newRacer(t *testing.T, dir string, seed uint64, o content.Options) *racer {
	blocks, meta := storetest.Drivers(t, dir)
	x := &racer{meta: &finding{Meta: meta}, known: map[int]*content.Content{}, hits: map[string]int{}}
	o.Instant = true
	x.Store = storetest.Open(t, storetest.Options{Blocks: blocks, Meta: x.meta, FS: &o, Reclaim: reclaim.Options{DeadShare: 0.2}})
	x.Rand = rand.New(rand.NewPCG(seed, 43))
	for i, size := range []int{300, 5_000, 20_000, 40_000, 70_000, 300_000} {
		x.bodies = append(x.bodies, storetest.Filler(seed*100+uint64(i), size))
	}
	return x
}

// drop overwrites or deletes every key with a body.
func (x *racer) drop(body []byte) {
	for _, key := range slices.Sorted(maps.Keys(x.Want)) {
		if &x.Want[key][0] != &body[0] {
			continue
		}
		if x.Rand.IntN(2) == 0 {
			x.Set(key, storetest.Filler(x.Rand.Uint64(), 100))
		} else {
			x.FS.Delete(ctx, x.Bucket, "", []vfs.DeleteRequest{{Key: key}})
			delete(x.Want, key)
		}
	}
}

// act does one random operation with one of the bodies.
func (x *racer) act() {
	i := x.Rand.IntN(len(x.bodies))
	body, key := x.bodies[i], fmt.Sprint("race-", x.Rand.IntN(8))
	switch x.Rand.IntN(7) {
	case 0:
		x.drop(body)
	case 1: // the content is deleted between the lookup and the reference, and maybe stored again
		x.meta.found = func() {
			x.hits["found"]++
			x.drop(body)
			if x.Rand.IntN(2) == 0 {
				x.Set("back", body)
			}
		}
		x.Set(key, body)
		x.meta.found = nil
	case 2: // the client learns that it need not send the body; the next case uses this result
		known, err := x.FS.KnownContent(ctx, x.Bucket, sha256.Sum256(body), int64(len(body)), content.Encryption{})
		require.NoError(x.T, err)
		if known != nil {
			x.known[i] = known
		}
	case 3, 4: // refer to the content, maybe several rounds later
		known := x.known[i]
		if known == nil {
			break
		}
		delete(x.known, i)
		_, err := x.FS.Put(ctx, vfs.PutRequest{Bucket: x.Bucket, Key: key, Content: known})
		if core.Is(err, core.NoSuchData) {
			x.hits["gone"]++
			break
		}
		require.NoError(x.T, err)
		x.hits["unsent"]++
		x.Want[key] = body
	default:
		x.Set(key, body)
	}
}

// TestSharingDuringReclaim uploads, refers to, and deletes content that reclaim is freeing or moving, at every step of
// a round. No content may be lost, reference counts must be exact, and a rebuild from the blocks must yield the same
// metadata, both at that step and at the end.
func TestSharingDuringReclaim(t *testing.T) {
	encrypted := content.Options{Compression: core.CompressionBetter, Keys: parseKeys(t, firstKey), EncryptAll: true}
	for _, c := range []struct {
		name    string
		options content.Options
		onDisk  bool
		seeds   uint64
	}{{"plain", content.Options{}, false, 8}, {"compressed and encrypted", encrypted, false, 8}, {"on disk", encrypted, true, 3}} {
		t.Run(c.name, func(t *testing.T) {
			passed, hits := map[string]int{}, map[string]int{}
			for seed := range c.seeds {
				dir := ""
				if c.onDisk {
					dir = t.TempDir()
				}
				x := newRacer(t, dir, seed, c.options)
				crashed := func() core.Blocks {
					if c.onDisk {
						return x.Blocks
					}
					return x.Crashed()
				}
				x.Hook = func(place string) {
					if passed[place]++; passed[place]%3 == 0 {
						return // let some rounds proceed without a race
					}
					for range 1 + x.Rand.IntN(4) {
						x.act()
					}
					if passed[place]%4 == 0 {
						x.Rebuilds(crashed())
					}
				}
				for range 5 {
					x.Churn(15)
					for range 10 {
						x.act()
					}
					_, err := x.Reclaimer.Round(ctx, true)
					require.NoError(t, err)
					x.Check()
					x.RequireSound()
					x.Rebuilds(crashed())
				}
				x.Hook = nil
				for _, body := range x.bodies {
					x.drop(body)
				}
				x.Full()
				x.Full()
				x.Check()
				for race, n := range x.hits {
					hits[race] += n
				}
				x.Close()
			}
			t.Log(passed, hits)
			for _, place := range []string{reclaim.HookMarked, reclaim.HookCopied, reclaim.HookSnapshot, reclaim.HookSwitched, reclaim.HookUnlinked} {
				require.NotZero(t, passed[place], place)
			}
			for _, race := range []string{"found", "gone", "unsent"} {
				require.NotZero(t, hits[race], race)
			}
		})
	}
}

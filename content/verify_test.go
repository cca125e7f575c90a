package content_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/mem"
	"orcas/storetest"
	"orcas/vfs"
)

// ward is a store on disk whose blocks are damaged, while it is open or between two starts.
type ward struct{ *storetest.Store }

func newWard(t *testing.T, relaxed bool, o content.Options) *ward {
	return &ward{storetest.Open(t, storetest.Options{
		Dir: t.TempDir(), Batch: batch.Options{Relaxed: relaxed, Window: time.Hour}, FS: &o, Scrub: true,
	})}
}

// damages are functions that damage the stored copy of content.
var damages = map[string]func(w *ward, d core.DataInfo){
	"removed": func(w *ward, d core.DataInfo) { w.RemoveBlocks(d) },
	"flipped": func(w *ward, d core.DataInfo) {
		last := d.Extents[len(d.Extents)-1]
		w.Touch(last.Block, last.Offset+last.Length-3)
	},
	"short": func(w *ward, d core.DataInfo) {
		last := d.Extents[len(d.Extents)-1]
		path, exists := w.BlockFile(last.Block)
		require.True(w.T, exists)
		require.NoError(w.T, os.Truncate(path, last.Offset+last.Length-1))
	},
	"all blocks removed": func(w *ward, _ core.DataInfo) { w.RemoveAllBlocks() },
}

// isKnown reports whether the store has a body, as a client asks before it uploads it.
func (w *ward) isKnown(body []byte) bool {
	key := core.ContentKey{SHA256: sha256.Sum256(body), Size: int64(len(body))}
	there, err := w.FS.Known(ctx, w.Bucket, content.Encryption{}, []core.ContentKey{key})
	require.NoError(w.T, err)
	known, err := w.FS.KnownContent(ctx, w.Bucket, key.SHA256, key.Size, content.Encryption{})
	require.NoError(w.T, err)
	require.Equal(w.T, there[0], known != nil, "Known and KnownContent disagree")
	return there[0]
}

// TestDamagedContentIsStoredAgain tests what a 200 guarantees: whatever happened to the stored copy, and whether or not
// a reader has noticed it, uploaded content is readable afterwards, under the new key and under every older key.
func TestDamagedContentIsStoredAgain(t *testing.T) {
	for damage, do := range damages {
		for form, options := range storetest.Forms {
			for i := range 8 {
				restarted, seen, relaxed := i&1 != 0, i&2 != 0, i&4 != 0
				if relaxed && (damage != "removed" || seen) || testing.Short() && (form == "plain") == (damage == "removed") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, restarted %v, seen %v, relaxed %v", damage, form, restarted, seen, relaxed), func(t *testing.T) {
					w := newWard(t, relaxed, options())
					w.storeDamaged(do, restarted, seen)
					for _, size := range storetest.Sizes {
						body := storetest.Body(size)
						require.False(t, w.isKnown(body), "%d bytes", size)
						w.Set(fmt.Sprint("again-", size), body)
						w.RequireWant()
						require.True(t, w.isKnown(body), "%d bytes", size)
						w.Set(fmt.Sprint("and-again-", size), body)
						w.requireOneCopy(size)
					}
					w.Restart()
					w.RequireWant()
					w.Full()
					w.RequireWant()
					w.RequireSound()
				})
			}
		}
	}
}

// storeDamaged puts content of each size under two keys each, and then damages it.
func (w *ward) storeDamaged(do func(*ward, core.DataInfo), restarted, seen bool) {
	var list []core.DataInfo
	for _, size := range storetest.Sizes {
		key := fmt.Sprint("key-", size)
		w.Set(key, storetest.Body(size))
		w.Copy(key, fmt.Sprint("copy-", size))
		list = append(list, w.Data(key))
	}
	w.RequireWant() // after this, readers have the files open
	if restarted {
		w.Close()
	}
	for _, d := range list {
		do(w, d)
	}
	if restarted {
		w.Open()
	}
	w.Want = map[string][]byte{}
	for _, size := range storetest.Sizes {
		if seen {
			_, _ = w.Read(fmt.Sprint("key-", size), 0, -1) // an error, unless the file is still open
		}
	}
}

// requireOneCopy checks that all keys of the body of a size share one copy, and that it is intact.
func (w *ward) requireOneCopy(size int) {
	first := w.Data(fmt.Sprint("key-", size))
	for _, key := range []string{"copy-", "again-", "and-again-"} {
		require.Equal(w.T, first.ID, w.Data(key+fmt.Sprint(size)).ID, "%s%d", key, size)
	}
	now, err := w.Meta.Data(ctx, []core.DataID{first.ID}) // a cached object has an old reference count
	require.NoError(w.T, err)
	require.EqualValues(w.T, 4, now[0].Refs)
	require.False(w.T, first.Damaged)
	for _, key := range []string{"key-", "copy-"} {
		w.Want[key+fmt.Sprint(size)] = storetest.Body(size)
	}
	w.RequireWant()
}

// TestLargeContentIsSharedIfVerifiedRecently checks that content above 64 KiB, which is not read before it is shared,
// is considered intact for some days after it was written or scrubbed. After that it must be stored again, and must not
// be found before its body is sent.
func TestLargeContentIsSharedIfVerifiedRecently(t *testing.T) {
	later := time.Duration(0)
	w := newWard(t, false, content.Options{Now: func() time.Time { return time.Now().Add(later) }, VerifiedFor: 10 * 24 * time.Hour})
	small, large := storetest.Text(1, 3000), storetest.Text(2, 300_000)
	w.Set("small", small)
	w.Set("large", large)
	first := w.Data("large")
	shares := func(body []byte) bool {
		known := w.isKnown(body)
		w.Put("again", body)
		same := w.Data("again").ID == w.Data(map[int]string{len(small): "small", len(large): "large"}[len(body)]).ID
		require.Equal(t, known, same)
		w.Put("again", []byte("something else"))
		return same
	}
	later += 10*24*time.Hour - time.Hour
	require.True(t, shares(large))
	later += 2 * time.Hour
	require.False(t, shares(large), "the content was written too long ago")
	require.True(t, shares(small), "small content is read instead")
	w.Pass()
	later += 9 * 24 * time.Hour
	require.True(t, shares(large), "the content was scrubbed since")
	later += 2 * 24 * time.Hour
	require.False(t, shares(large))
	w.Put("newer", large)
	require.NotEqual(t, first.ID, w.Data("newer").ID)
	w.Put("newest", large)
	require.Equal(t, w.Data("newer").ID, w.Data("newest").ID, "the newest copy must be found")
	w.RequireWant()
	later -= 100 * 24 * time.Hour // the clock was wrong, and is set back
	require.False(t, shares(large), "the time of verification is in the future")
}

// TestTouchedBlocks checks that large content whose block was modified after it was verified is shared only if the
// client sends the body, and only after the copy has been read.
func TestTouchedBlocks(t *testing.T) {
	w := newWard(t, false, content.Options{})
	body := storetest.Text(2, 300_000)
	w.Set("k", body)
	d := w.Data("k")
	w.Touch(d.Extents[0].Block, d.Extents[0].Offset+1000)
	w.Touch(d.Extents[0].Block, d.Extents[0].Offset+1000) // undo the change
	require.False(t, w.isKnown(body))
	w.Set("again", body)
	require.Equal(t, d.ID, w.Data("again").ID)
	w.RequireWant()
}

// TestSharingCostsLittle counts the calls that examine a stored copy: a stat and a read for small content, a stat for
// large content.
func TestSharingCostsLittle(t *testing.T) {
	d := newDesk(t)
	for _, size := range instantSizes {
		body := storetest.Random(uint64(size), size)
		d.Put("first", body)
		d.counts.Reset()
		d.Put("second", body)
		got := d.counts.Counts()
		require.Equal(t, 1, got.Stats, "%d bytes", size)
		opens := 0
		if size <= 64<<10 {
			opens = 1
		}
		require.Equal(t, opens, got.Opens, "%d bytes", size)
		require.LessOrEqual(t, got.Reads, opens, "%d bytes", size)
		d.counts.Reset()
		d.Put("third", storetest.Random(uint64(size)+1000, size))
		require.Zero(t, d.counts.Counts().Stats, "new content")
		require.Zero(t, d.counts.Counts().Opens, "new content")
		require.Equal(t, d.dataOf("first").ID, d.dataOf("second").ID)
	}
}

// TestUnreadableIsNotDamaged checks that a copy that cannot be examined is neither shared nor repaired: the content
// must be stored again.
func TestUnreadableIsNotDamaged(t *testing.T) {
	for _, call := range []string{"Stat", "Open", "ReadAt"} {
		for _, size := range []int{3000, 70_000} {
			if size > 64<<10 && call != "Stat" {
				continue // large content is not read
			}
			t.Run(fmt.Sprintf("%s, %d bytes", call, size), func(t *testing.T) {
				blocks := coretest.NewFaultyBlocks(mem.NewBlocks())
				y := storetest.Open(t, storetest.Options{Blocks: blocks, Meta: mem.NewMeta()})
				body := storetest.Random(1, size)
				y.Set("k", body)
				first := y.Data("k")
				blocks.Fail(coretest.Fault{Call: call, Nth: 1, Kind: core.Internal})
				y.Set("l", body)
				require.NotEqual(t, first.ID, y.Data("l").ID)
				require.False(t, y.Data("k").Damaged)
				require.Equal(t, first.Extents, y.Data("k").Extents)
				y.Check()
			})
		}
	}
}

// TestRepairFails injects errors into the repair of a damaged copy: the upload itself must still be stored.
func TestRepairFails(t *testing.T) {
	for _, size := range []int{3000, 70_000} {
		for _, call := range []string{"Create", "Commit", "Write"} {
			for nth := 1; ; nth++ {
				inner := mem.NewBlocks()
				blocks := coretest.NewFaultyBlocks(inner)
				y := storetest.Open(t, storetest.Options{Blocks: blocks, Meta: mem.NewMeta()})
				body := storetest.Random(1, size)
				y.Put("k", body)
				require.NoError(t, inner.Delete(ctx, y.Data("k").Extents[0].Block))
				blocks.Fail(coretest.Fault{Call: call, Nth: nth, Kind: core.Internal})
				content, err := y.FS.NewContent(ctx, y.Bucket, int64(size))
				if err == nil {
					_, err = content.ReadFrom(bytes.NewReader(body))
				}
				if err == nil {
					_, err = y.FS.Put(ctx, vfs.PutRequest{Bucket: y.Bucket, Key: "l", Content: content})
				}
				if content != nil {
					content.Discard()
				}
				failed := blocks.Calls() >= nth
				blocks.Fail(coretest.Fault{})
				if err == nil {
					y.RequireContent("l", body)
				}
				if !failed {
					require.NoError(t, err)
					y.RequireContent("k", body)
				}
				y.Put("m", body)
				y.RequireContent("m", body)
				y.Close()
				if !failed {
					require.Greater(t, nth, 1)
					break
				}
			}
		}
	}
}

// TestRepairRaces repairs the same content by many simultaneous uploads, while it is deleted and reclaimed.
func TestRepairRaces(t *testing.T) {
	for _, size := range []int{3000, 70_000} {
		inner := mem.NewBlocks()
		y := storetest.Open(t, storetest.Options{Blocks: inner, Meta: mem.NewMeta()})
		for round := range uint64(20) {
			body := storetest.Random(round, size)
			y.Put("k", body)
			require.NoError(t, inner.Delete(ctx, y.Data("k").Extents[0].Block))
			done := make(chan error)
			for n := range 8 {
				go func() {
					_, err := y.TryPut(fmt.Sprint("k", n), body)
					done <- err
				}()
			}
			if round%2 == 0 {
				y.Delete("k")
			}
			_, err := y.Reclaimer.Round(ctx, true)
			require.NoError(t, err)
			for range 8 {
				require.NoError(t, <-done)
			}
			for n := range 8 {
				y.RequireContent(fmt.Sprint("k", n), body)
			}
			if round%2 != 0 {
				y.RequireContent("k", body)
			}
		}
		y.Close()
	}
}

// TestRepairLeavesOneCopy checks that a repair of large content does not keep the block of the upload in addition to
// the repaired copy.
func TestRepairLeavesOneCopy(t *testing.T) {
	inner := mem.NewBlocks()
	y := storetest.Open(t, storetest.Options{Blocks: inner, Meta: mem.NewMeta()})
	body := storetest.Random(1, 300_000)
	y.Put("k", body)
	require.NoError(t, inner.Delete(ctx, y.Data("k").Extents[0].Block))
	y.Put("l", body)
	var large []core.BlockID
	require.NoError(t, inner.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if b.Kind == core.Large {
			large = append(large, b.ID)
		}
		return nil
	}))
	require.Equal(t, []core.BlockID{y.Data("k").Extents[0].Block}, slices.Compact(large))
}

// TestRepairIsInTheRecords rebuilds a lost database from the blocks: the result must include the repairs.
func TestRepairIsInTheRecords(t *testing.T) {
	for form, options := range storetest.Forms {
		t.Run(form, func(t *testing.T) {
			w := newWard(t, false, options())
			for _, size := range storetest.Sizes {
				key := fmt.Sprint("key-", size)
				w.Set(key, storetest.Body(size))
				d := w.Data(key)
				w.Touch(d.Extents[0].Block, d.Extents[0].Offset+500)
				_, err := w.Read(key, 0, -1)
				require.Equal(t, core.Damaged, core.KindOf(err), "%v", err)
				require.True(t, w.Data(key).Damaged)
				w.Set(fmt.Sprint("again-", size), storetest.Body(size))
			}
			was := map[string]core.DataInfo{}
			for key := range w.Want {
				was[key] = w.Data(key)
				require.False(t, was[key].Damaged)
			}
			w.Close()
			found, err := filepath.Glob(filepath.Join(w.Dir, storetest.Database+"*"))
			require.NoError(t, err)
			for _, path := range found {
				require.NoError(t, os.Remove(path))
			}
			w.Open()
			for key, d := range was {
				now := w.Data(key)
				now.Refs, d.Refs = 0, 0 // cached counts may be old
				require.Equal(t, d, now, key)
			}
			w.RequireWant()
			w.RequireSound()
		})
	}
}

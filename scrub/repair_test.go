package scrub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/storetest"
)

// repairing is a store on disk with a Scrubber that repairs from equal content.
func repairing(t *testing.T, o content.Options) *storetest.Store {
	return storetest.Open(t, storetest.Options{Dir: t.TempDir(), FS: &o, Scrub: true})
}

// TestNothingIsRepairedFromAnotherKey repairs content whose block was missing, which gives it a new data key. Then the
// block reappears, and the repaired copy is damaged. The old frames are intact and have the right DataID, but they
// cannot be decrypted with the new data key.
func TestNothingIsRepairedFromAnotherKey(t *testing.T) {
	for _, equal := range []bool{false, true} {
		t.Run(fmt.Sprintf("equal content %v", equal), func(t *testing.T) {
			keys := storetest.Keys("1:" + strings.Repeat("a1", 32))
			store := repairing(t, content.Options{EncryptAll: true, Keys: keys})
			body := storetest.Random(1, 600_000)
			store.Set("key", body)
			if equal {
				own := store.FS
				store.Mount(content.Options{EncryptAll: true, Keys: keys, Compression: core.CompressionFast})
				store.Set("equal", body) // not shared
				store.FS = own
				require.NotEqual(t, store.Data("key").ID, store.Data("equal").ID)
			}
			was := store.Data("key")
			path, exists := store.BlockFile(was.Extents[0].Block)
			require.True(t, exists)
			aside := filepath.Join(t.TempDir(), "aside")
			require.NoError(t, os.Rename(path, aside))
			if equal { // repair from equal content
				_, err := store.Read("key", 0, -1)
				require.Error(t, err)
				require.NoError(t, store.FS.Repair(ctx, &was, new(store.Data("equal"))))
			} else {
				store.Set("again", body)
			}
			now := store.Data("key")
			require.Equal(t, was.ID, now.ID)
			require.NotEqual(t, was.DataKey, now.DataKey)
			store.RequireWant()

			require.NoError(t, os.Rename(aside, path))
			last := now.Extents[len(now.Extents)-1]
			store.Flip(last.Block, last.Offset+last.Length-3)
			st := store.Pass()
			if equal {
				require.Empty(t, st.Damaged)
				require.Equal(t, 1, st.Repaired)
				store.RequireWant()
				store.RequireSound()
				return
			}
			require.Len(t, st.Damaged, 1, "%+v", st)
			require.True(t, store.Data("key").Damaged)
			store.Set("once more", body)
			store.RequireWant()
		})
	}
}

// TestRepairsFromEqualContent checks that damaged content is repaired from equal content, for every size and every
// stored form of both.
func TestRepairsFromEqualContent(t *testing.T) {
	for form, options := range storetest.Forms {
		t.Run(form, func(t *testing.T) {
			store := repairing(t, options())
			for _, size := range storetest.Sizes {
				body := storetest.Body(size)
				store.Set(fmt.Sprint("key-", size), body)
				own := store.FS
				o := options() // another form
				o.Compression = core.CompressionFast
				store.Mount(o)
				store.Set(fmt.Sprint("other-", size), body)
				store.FS = own
				first, second := store.Data(fmt.Sprint("key-", size)), store.Data(fmt.Sprint("other-", size))
				require.NotEqual(t, first.ID, second.ID)
				last := first.Extents[len(first.Extents)-1]
				store.Flip(last.Block, last.Offset+last.Length-3)
			}
			st := store.Pass()
			require.Equal(t, len(storetest.Sizes), st.Repaired, "%+v", st)
			require.Empty(t, st.Damaged)
			store.RequireWant()
			store.Full()
			store.RequireWant()
			store.RequireSound()
		})
	}
}

// TestRepairsMissingBlocks checks that the content of a missing block is repaired from equal content, unless so many
// blocks are missing that a file system is probably not mounted.
func TestRepairsMissingBlocks(t *testing.T) {
	for form, options := range storetest.Forms {
		t.Run(form, func(t *testing.T) {
			store := repairing(t, options())
			for _, size := range storetest.Sizes[1:] {
				body := storetest.Body(size)
				store.Set(fmt.Sprint("key-", size), body)
				store.Unshared()
				store.Set(fmt.Sprint("other-", size), body)
				store.Restart()
				store.RemoveBlocks(store.Data(fmt.Sprint("key-", size)))
				store.Restart()
				_, err := store.Read(fmt.Sprint("key-", size), 0, -1)
				require.Equal(t, core.Damaged, core.KindOf(err), "%v", err)
				st := store.Pass()
				require.Equal(t, 1, st.Repaired, "%+v", st)
				store.RequireWant()
				st = store.Pass()
				require.Zero(t, st.Missing)
				require.Equal(t, 1, st.Repaired)
			}
			store.Full()
			store.RequireWant()
			store.RequireSound()
			store.RemoveAllBlocks()
			store.Restart()
			st := store.Pass()
			require.Zero(t, st.Repaired, "%+v", st)
			require.Greater(t, st.Missing, 1)
		})
	}
}

// TestSuspectBlocksAreNotVerified checks that a damaged block does not count as verified until the damage was
// inspected.
func TestSuspectBlocksAreNotVerified(t *testing.T) {
	store := repairing(t, content.Options{})
	body := storetest.Text(1, 70_000)
	store.Set("whole", storetest.Text(2, 70_000))
	store.Set("damaged", body)
	d, other := store.Data("damaged"), store.Data("whole")
	store.Flip(d.Extents[0].Block, d.Extents[0].Offset+5000)
	verified := func(d core.DataInfo) bool {
		at, err := store.Scrubber.Verified(ctx, d.Extents[0].Block)
		require.NoError(t, err)
		return !at.IsZero()
	}
	require.False(t, verified(other))
	store.Refuse = func(c core.Change) bool {
		_, ok := c.(*core.Unshare)
		return ok
	}
	require.Error(t, store.Scrubber.Pass(ctx), "the content could not be marked as damaged")
	require.True(t, verified(other))
	require.False(t, verified(d))
	store.Refuse = nil
	require.NoError(t, store.Scrubber.Pass(ctx))
	require.True(t, verified(d))
	require.True(t, store.Data("damaged").Damaged)
}

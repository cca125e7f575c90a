package fsck_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/fsck"
	"orcas/storetest"
)

// compared returns the comparison of the blocks with the metadata.
func compared(store *storetest.Store) *fsck.Comparison {
	store.T.Helper()
	found, err := fsck.Compare(ctx, store.Meta, store.Blocks)
	require.NoError(store.T, err)
	return found
}

// lostIn returns the lost objects, by name.
func lostIn(store *storetest.Store, found *fsck.Comparison) map[string]fsck.LostObject {
	store.T.Helper()
	lost := map[string]fsck.LostObject{}
	require.NoError(store.T, fsck.EachLost(ctx, store.Meta, found, func(o fsck.LostObject) error {
		lost[o.String()] = o
		return nil
	}))
	return lost
}

// liveBlocks returns the blocks with live content, and their kinds.
func liveBlocks(store *storetest.Store) map[core.BlockID]core.BlockKind {
	store.T.Helper()
	named, live := map[core.BlockID]bool{}, map[core.BlockID]core.BlockKind{}
	store.EachContent(func(d *core.DataInfo) {
		for _, e := range d.Extents {
			named[e.Block] = true
		}
	})
	require.NoError(store.T, store.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		if named[b.ID] {
			live[b.ID] = b.Kind
		}
		return nil
	}))
	return live
}

// unlisted is a block store that cannot be walked.
type unlisted struct{ core.Blocks }

var errUnlisted = errors.New("cannot list the blocks")

func (unlisted) Walk(context.Context, core.BlockID, func(core.BlockInfo) error) error {
	return errUnlisted
}

// ofBothDrivers runs a test with blocks in memory and with files.
func ofBothDrivers(t *testing.T, test func(store *storetest.Store)) {
	t.Run("memory", func(t *testing.T) { test(storetest.Open(t, storetest.Options{})) })
	t.Run("disk", func(t *testing.T) { test(storetest.Open(t, storetest.Options{Dir: t.TempDir()})) })
}

// TestCompare deletes blocks one after the other. Compare must find each one, and EachLost must list exactly the
// objects that cannot be read any more.
func TestCompare(t *testing.T) { ofBothDrivers(t, testCompare) }

func testCompare(store *storetest.Store) {
	store.Versioned("versioned")
	store.Churn(150)
	store.Multipart("multipart")
	store.Extend("multipart", storetest.Random(6, 3000))
	id := store.Upload("unfinished", core.UploadInfo{})
	store.Part("unfinished", id, 1, storetest.Filler(5, 6<<20))
	store.Part("unfinished", id, 2, storetest.Filler(6, 100))
	whole := compared(store)
	require.Empty(store.T, whole.Missing)
	require.Empty(store.T, whole.Needed)
	require.Empty(store.T, whole.Severe())
	require.Empty(store.T, lostIn(store, whole))
	require.NotZero(store.T, whole.Blocks)

	st, err := store.Meta.State(ctx)
	require.NoError(store.T, err)
	for n, kind := range []core.BlockKind{core.Large, core.Packed} {
		var victim core.BlockID
		for id, of := range liveBlocks(store) {
			if of == kind && id != st.ReplayFrom {
				victim = id
			}
		}
		if victim.IsZero() {
			continue // all packed content is in one block
		}
		require.NoError(store.T, store.Blocks.Delete(ctx, victim))
		found := compared(store)
		require.Len(store.T, found.Missing, n+1)
		require.Equal(store.T, whole.Blocks, found.Blocks)
		require.True(store.T, found.Missing[0].Block == victim || found.Missing[n].Block == victim)
	}
	found := compared(store)
	lost := lostIn(store, found)
	require.NotEmpty(store.T, lost)
	blocks := map[string]bool{}
	for _, m := range found.Missing {
		blocks[m.Block.String()] = true
		require.Positive(store.T, m.Contents)
		require.Positive(store.T, m.Bytes)
	}
	for key := range store.Want {
		o, err := store.FS.Stat(ctx, store.Bucket, key, core.Current)
		require.NoError(store.T, err)
		name := fsck.ObjectName{Bucket: store.Bucket.Name, Key: key, Version: o.Version().String()}.String()
		l, isLost := lost[name]
		_, err = store.Read(key, 0, -1)
		require.Equal(store.T, isLost, err != nil, name)
		if isLost {
			require.Equal(store.T, o.Size, l.Size)
			require.True(store.T, blocks[l.Block])
		}
	}
	for name, l := range lost {
		if l.Key == "unfinished" {
			require.NotEmpty(store.T, l.Upload, name)
			require.NotZero(store.T, l.Part, name)
		}
	}

	// Objects that are deleted or overwritten are not lost any more.
	for _, l := range lost {
		if l.Upload != "" {
			require.NoError(store.T, store.FS.AbortUpload(ctx, store.Bucket, l.Key, id))
			continue
		}
		b, err := store.FS.Bucket(ctx, l.Bucket)
		require.NoError(store.T, err)
		v, err := versionOf(l.Version)
		require.NoError(store.T, err)
		require.NoError(store.T, store.In(b).DeleteVersion(l.Key, v))
	}
	_, err = store.Reclaimer.Round(ctx, false) // deletes the lists of parts
	require.NoError(store.T, err)
	found = compared(store)
	require.Empty(store.T, found.Missing)
	require.Empty(store.T, lostIn(store, found))
}

// TestCompareFindsMissingRecords checks that a start needs the block with the newest records, unless a snapshot covers
// them all.
func TestCompareFindsMissingRecords(t *testing.T) { ofBothDrivers(t, testCompareFindsMissingRecords) }

func testCompareFindsMissingRecords(store *storetest.Store) {
	store.Put("key", storetest.Filler(1, 70_000))
	st, err := store.Meta.State(ctx)
	require.NoError(store.T, err)
	require.NoError(store.T, store.Blocks.Delete(ctx, st.ReplayFrom))
	found := compared(store)
	require.Contains(store.T, found.Needed, st.ReplayFrom.String())
	require.Equal(store.T, found.Needed, found.Severe())
	require.NoError(store.T, store.Reclaimer.Snapshot(ctx))
	require.Empty(store.T, compared(store).Needed)
}

// TestCompareWhileInUse checks that no blocks are reported as missing while content is moved, deleted and freed.
func TestCompareWhileInUse(t *testing.T) {
	store := storetest.Open(t, storetest.Options{Dir: t.TempDir()})
	require.NotZero(t, store.WhileInUse(25, func() {
		found := compared(store)
		require.Empty(t, found.Missing)
		require.Empty(t, found.Needed)
	}))
}

func TestSevere(t *testing.T) {
	some := func(n int) []fsck.MissingBlock { return make([]fsck.MissingBlock, n) }
	for _, c := range []struct {
		missing, of int
		severe      bool
	}{{0, 0, false}, {1, 1, false}, {1, 5, false}, {2, 5, true}, {2, 199, true}, {2, 200, false}, {3, 250, true}, {1000, 100_000, false}, {1001, 100_000, true}} {
		found := fsck.Comparison{Blocks: c.of, Missing: some(c.missing)}
		require.Equal(t, c.severe, found.Severe() != "", "%d of %d", c.missing, c.of)
	}
}

// TestCompareFails checks that Compare and EachLost return errors of the drivers and of emit.
func TestCompareFails(t *testing.T) {
	store := storetest.Open(t, storetest.Options{})
	store.Put("key", storetest.Filler(1, 100))
	_, err := fsck.Compare(ctx, store.Meta, unlisted{store.Blocks})
	require.ErrorIs(t, err, errUnlisted)
	_, err = fsck.Compare(ctx, struct{ core.Meta }{store.Meta}, store.Blocks)
	require.True(t, core.Is(err, core.Unsupported), "%v", err)
	stop := errors.New("enough")
	store.Put("large", storetest.Filler(2, 200_000))
	for id, kind := range liveBlocks(store) {
		if kind == core.Large {
			require.NoError(t, store.Blocks.Delete(ctx, id))
		}
	}
	err = fsck.EachLost(ctx, store.Meta, compared(store), func(fsck.LostObject) error { return stop })
	require.ErrorIs(t, err, stop, "the error of emit")
}

// versionOf parses a version in a report.
func versionOf(s string) (core.Version, error) {
	if s == core.Null.String() {
		return core.Null, nil
	}
	n, err := strconv.ParseUint(s, 16, 64)
	return core.Version(n), err
}

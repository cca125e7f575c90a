package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
)

// placed returns the result of Places, which must agree with the extents of all content, and with Verify.
func (f *feeder) placed() core.BlockContents {
	f.t.Helper()
	ctx := context.Background()
	want, got := core.BlockContents{}, core.BlockContents{}
	require.NoError(f.t, f.m.Snapshot(ctx, func(r *core.Row) error {
		r.EachData(func(d *core.DataInfo) { want.Add(d.Extents) })
		return nil
	}))
	var total core.BlockContent
	require.NoError(f.t, f.m.Snapshot(ctx, func(r *core.Row) error {
		r.EachData(func(d *core.DataInfo) {
			total.Contents++
			total.Bytes += d.Size
		})
		return nil
	}))
	all, err := f.m.Places(ctx, func(block core.BlockID, of core.BlockContent) error {
		got[block] = of
		return nil
	})
	require.NoError(f.t, err)
	require.Equal(f.t, want, got)
	require.Equal(f.t, total, all)
	lines, err := f.m.Verify(ctx)
	require.NoError(f.t, err)
	require.Empty(f.t, lines)
	return got
}

func blockNumber(n int) core.BlockID { return core.MakeBlockID(1<<62, 1, uint32(n)) }

// in sets the extents of the content of a put: one in each block, in this order.
func in(c *core.PutObject, blocks ...int) *core.PutObject {
	d := c.Object.Segments[0].Info
	d.Extents = nil
	for i, n := range blocks {
		d.Extents = append(d.Extents, core.Extent{Block: blockNumber(n), Offset: int64(d.ID)*1000 + int64(i), Length: 100 + int64(i)})
	}
	return c
}

// The amount of content in each block follows every change of content.
func TestContentOfBlocks(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
	require.Empty(t, f.placed())
	f.apply(in(f.put("a"), 1), in(f.put("b"), 1), in(f.put("c"), 2, 3, 2))
	require.Equal(t, core.BlockContents{
		blockNumber(1): {Contents: 2, Bytes: 200}, blockNumber(2): {Contents: 1, Bytes: 202}, blockNumber(3): {Contents: 1, Bytes: 101},
	}, f.placed())

	of := in(f.put("d"), 4)
	id := of.Object.Segments[0].Data
	f.apply(of, &core.MoveData{Data: id, From: of.Object.Segments[0].Info.Extents, To: []core.Extent{{Block: blockNumber(5), Length: 100}}})
	require.Equal(t, core.BlockContent{Contents: 1, Bytes: 100}, f.placed()[blockNumber(5)])
	require.NotContains(t, f.placed(), blockNumber(4), "the row of an empty block is deleted")

	repaired := *of.Object.Segments[0].Info
	repaired.Extents = []core.Extent{{Block: blockNumber(6), Length: 50}, {Block: blockNumber(6), Offset: 50, Length: 60}}
	f.apply(&core.Unshare{Data: id}, &core.RepairData{Info: &repaired, From: []core.Extent{{Block: blockNumber(5), Length: 100}}})
	require.Equal(t, core.BlockContent{Contents: 1, Bytes: 110}, f.placed()[blockNumber(6)])
	require.NotContains(t, f.placed(), blockNumber(5))

	f.apply(in(f.put("a"), 7), &core.DeleteObject{Bucket: f.bucket, Key: "b"}, &core.DeleteObject{Bucket: f.bucket, Key: "c"},
		&core.DeleteObject{Bucket: f.bucket, Key: "d"})
	require.Equal(t, core.BlockContents{blockNumber(7): {Contents: 1, Bytes: 100}}, f.placed())
}

// Random puts, replacements and deletions, with transactions that are rolled back, and a second start in between.
func TestContentOfBlocksModel(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningSuspended)
	random := rand.New(rand.NewPCG(3, 4))
	for round := range 40 {
		var changes []core.Change
		for range 1 + random.IntN(60) {
			key := fmt.Sprint(random.IntN(100))
			if random.IntN(3) == 0 {
				changes = append(changes, &core.DeleteObject{Bucket: f.bucket, Key: key})
			} else {
				changes = append(changes, in(f.put(key), round, random.IntN(20)))
			}
		}
		if round%5 == 4 {
			before := f.placed()
			require.NoError(t, f.m.runSQL("CREATE TRIGGER fail BEFORE UPDATE ON state BEGIN SELECT RAISE(ABORT, 'no'); END"))
			for i, c := range changes {
				c.SetStamp(f.seq + core.Seq(i) + 1)
			}
			_, err := f.m.Apply(context.Background(), changes)
			require.ErrorContains(t, err, "no")
			require.NoError(t, f.m.runSQL("DROP TRIGGER fail"))
			require.Equal(t, before, f.placed())
		}
		f.apply(changes...)
		require.NotEmpty(t, f.placed())
		if round == 20 {
			require.NoError(t, f.m.Close())
			f.m = openAt(t, dir, Options{})
		}
	}
}

// A damaged row of the table blocks stops neither writes nor Places. Verify reports it and every other difference, and
// restoring a snapshot corrects them.
func TestDamagedContentOfBlocks(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		sql   string
		line  string
		right bool // Places notices the damage
	}{
		{"UPDATE blocks SET bytes = bytes + 1", "cannot be read: block: row checksum mismatch", true},
		{"UPDATE blocks SET seal = x''", "cannot be read: block: row checksum mismatch", true},
		{"UPDATE blocks SET id = x'0102' WHERE id > zeroblob(16)", "the ID 0102 has not 16 bytes", true},
		{"DELETE FROM blocks", "has 2 pieces of content, but no row", false},
		{"", "has 9 pieces of content with 7 bytes, but the block has 2 with 200 bytes", false},
	} {
		f := feed(t, openAt(t, t.TempDir(), Options{}), core.VersioningOff)
		f.apply(in(f.put("a"), 1), in(f.put("b"), 1))
		want := f.placed()
		if c.sql == "" {
			require.NoError(t, f.m.w.contents.places.writeOne(blockNumber(1), core.BlockContent{Contents: 9, Bytes: 7}))
		} else {
			require.NoError(t, f.m.runSQL(c.sql))
		}
		lines, err := f.m.Verify(ctx)
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(lines, func(line string) bool { return len(line) > len(c.line) && line[len(line)-len(c.line):] == c.line }), lines)
		got := core.BlockContents{}
		_, err = f.m.Places(ctx, func(block core.BlockID, of core.BlockContent) error {
			got[block] = of
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, c.right, core.BlockContent{Contents: 2, Bytes: 200} == got[blockNumber(1)], c.line)
		if c.right {
			require.Equal(t, want, got)
			f.apply(in(f.put("c"), 1), in(f.put("d"), 2))
			f.apply(&core.DeleteObject{Bucket: f.bucket, Key: "c"}, &core.DeleteObject{Bucket: f.bucket, Key: "d"})
		}

		unused := &core.DataInfo{ID: f.data + 1, Size: 1, Extents: []core.Extent{{Block: blockNumber(8), Length: 1}}}
		f.m = restored(t, f.m, &core.Row{Data: unused}) // a restore leaves out content without references
		require.Equal(t, want, f.placed())
		require.NoError(t, f.m.Reset(ctx))
		require.Empty(t, f.placed())
	}
}

// A database of schema version 2 has no table blocks. It is created from the content, except content with a damaged row.
func TestMigrationOfBlocks(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	for n := range 3000 {
		f.apply(in(f.put(fmt.Sprint(n)), n/100, n%7))
	}
	want := f.placed()
	for range 2 {
		require.NoError(t, f.m.runSQL("ALTER TABLE objects DROP COLUMN brief; DROP TABLE blocks; PRAGMA user_version = 2"))
		require.NoError(t, f.m.Close())
		f.m = openAt(t, dir, Options{})
		row, err := f.m.w.c.pragma("user_version")
		require.NoError(t, err)
		require.EqualValues(t, len(steps()), integer(row[0]))
		require.Equal(t, want, f.placed())
	}
	require.NoError(t, f.m.runSQL("ALTER TABLE objects DROP COLUMN brief; DROP TABLE blocks; PRAGMA user_version = 2; UPDATE data SET info = x'00' WHERE id = 2"))
	require.NoError(t, f.m.Close())
	f.m = openAt(t, dir, Options{})
	got := core.BlockContents{}
	all, err := f.m.Places(context.Background(), func(block core.BlockID, of core.BlockContent) error {
		got[block] = of
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, core.BlockContent{Contents: 2999, Bytes: 2999 * 4096}, all)
	of := want[blockNumber(0)]
	want[blockNumber(0)] = core.BlockContent{Contents: of.Contents - 1, Bytes: of.Bytes - 201}
	require.Equal(t, want, got)
}

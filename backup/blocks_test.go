package backup_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orcas/backup"
	"orcas/content"
	"orcas/core"
	"orcas/core/disk"
	"orcas/core/mem"
	"orcas/storetest"
)

// TestBackupOfBlocksInMemory checks that a backup needs only the contract core.Blocks, not files, and that the copies
// have the same names as the files of the disk driver.
func TestBackupOfBlocksInMemory(t *testing.T) {
	blocks, meta := mem.NewBlocks(), mem.NewMeta()
	s := storetest.Open(t, storetest.Options{Blocks: blocks, Meta: meta, FS: &content.Options{}})
	for i, n := range []int{10, 5000, 300_000, 6 << 20} {
		s.Put(fmt.Sprint(i), bytes.Repeat([]byte{byte(i + 1)}, n))
	}
	data, dir := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.WriteFile(filepath.Join(data, "STORE"), []byte("written by a driver"), 0o600))
	report, err := backup.Backup(ctx, backup.Options{Meta: meta, Blocks: blocks, DataDir: data, Dir: dir, Now: time.Now, Link: true})
	require.NoError(t, err)
	require.Empty(t, report.Problems)
	require.Zero(t, report.SharedBytes)
	number, _ := blocks.Identity()
	require.Equal(t, fmt.Sprintf("%016x", number), report.Store)
	checked, err := backup.Check(ctx, dir, "", nil)
	require.NoError(t, err)
	require.Empty(t, checked.Problems)

	named, err := disk.Open(t.TempDir(), disk.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, named.Close()) }()
	root := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(named.BlockFile(core.BlockInfo{Kind: core.Packed})))))
	count := 0
	require.NoError(t, blocks.Walk(ctx, core.BlockID{}, func(i core.BlockInfo) error {
		count++
		name, err := filepath.Rel(root, named.BlockFile(i))
		require.NoError(t, err)
		got, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		r, err := blocks.Open(ctx, core.Extent{Block: i.ID, Length: i.Size})
		require.NoError(t, err)
		want := make([]byte, len(got))
		_, err = r.ReadAt(want, 0)
		require.NoError(t, err)
		require.Equal(t, want, got)
		return r.Close()
	}))
	require.Equal(t, report.Blocks, count)
}

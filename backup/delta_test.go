package backup_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/backup"
	"orcas/batch"
	"orcas/core"
)

// TestBackupsOfAChain makes backups between the deltas of a chain, and keeps only the last ones: each contains the chain
// up to its cut, and restores from it.
func TestBackupsOfAChain(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	o := s.options(t.TempDir())
	o.Keep = 2
	s.Churn(100)
	for i := range 5 {
		s.Churn(60)
		require.Len(t, s.Delta().Deltas, i)
		s.Churn(20)
		state, report := s.State(), s.backupWith(o)
		requireRestores(t, o.Dir, report.Backup, state, s.Want)
		requireWhole(t, o.Dir, report.Backup)
	}
	require.NoError(t, s.Reclaimer.Snapshot(ctx)) // it deletes the chain
	s.Churn(20)
	s.backupWith(o)
	requireRestores(t, o.Dir, "", s.State(), s.Want)
}

// TestBackupOfADamagedChain checks that damage to a part of a chain is reported if that part covers records that no
// longer exist, and not if the records replace it.
func TestBackupOfADamagedChain(t *testing.T) {
	for part := range 3 {
		for _, lost := range []bool{true, false} {
			s := openWith(t, t.TempDir(), batch.Options{Alone: true}) // a block for each change
			s.Set("base", []byte("1"))
			s.Delta()
			st, err := s.Meta.State(ctx)
			require.NoError(t, err)
			s.Set("gone", []byte("2"))
			s.Remove("gone")
			s.Delta()
			s.Set("more", []byte("3"))
			info := s.Delta()
			s.Set("later", []byte("4"))
			if lost { // as reclaim does
				var covered []core.BlockID
				require.NoError(t, s.Blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
					if b.Kind == core.Packed && b.ID.Before(info.ReplayFrom) && (part < 2 || !b.ID.Before(st.ReplayFrom)) {
						covered = append(covered, b.ID)
					}
					return nil
				}))
				for _, id := range covered {
					require.NoError(t, s.Blocks.Delete(ctx, id))
				}
			}
			path, exists := s.BlockFile(info.Blocks()[part])
			require.True(t, exists)
			flip(t, path, 100)
			report, err := backup.Backup(ctx, s.options(t.TempDir()))
			require.NoError(t, err)
			reported := false
			for _, p := range report.Problems {
				reported = reported || strings.Contains(p, info.Blocks()[part].String())
			}
			require.Equal(t, lost, reported, "part %d, lost %v: %q", part, lost, report.Problems)
			s.Close()
		}
	}
}

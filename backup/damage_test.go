package backup_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/backup"
	"orcas/core"
	"orcas/core/disk"
	"orcas/core/snapshot"
	"orcas/internal/durable"
	"orcas/storetest"
)

// TestDamageInTheStore checks that damaged blocks are copied unchanged, and reported for every backup that contains
// them.
func TestDamageInTheStore(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Set("large", storetest.Random(1, 1_000_000))
	s.Churn(100)
	var large, packed string
	for _, path := range blocksIn(t, s.Dir) {
		switch {
		case strings.HasSuffix(path, ".large") && large == "": // the first one is not garbage
			large = path
		case strings.HasSuffix(path, "00001.packed"):
			packed = path
		}
	}
	for _, path := range []string{large, packed} {
		flip(t, path, 5000)
	}
	dir := t.TempDir()
	for range 2 {
		report, err := backup.Backup(ctx, s.options(dir))
		require.NoError(t, err)
		require.Len(t, report.Problems, 2)
		for _, path := range []string{large, packed} {
			require.Contains(t, strings.Join(report.Problems, "\n"), filepath.Base(path))
		}
		check, err := backup.Check(ctx, dir, report.Backup, nil)
		require.NoError(t, err)
		require.Equal(t, report.Problems, check.Problems)
	}
	data := filepath.Join(t.TempDir(), "data")
	report, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: data, Fork: disk.Fork, Marker: disk.Marker})
	require.NoError(t, err)
	require.Len(t, report.Problems, 2)
	requireSame(t, s.State(), rebuilt(t, data))
}

// TestAReplacedBlock replaces a damaged block with an intact copy while the store is open. The backup must contain the
// intact block, even though a reader still has the damaged file open.
func TestAReplacedBlock(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Set("large", storetest.Random(1, 1_000_000))
	path, exists := s.BlockFile(s.Data("large").Extents[0].Block)
	require.True(t, exists)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	flip(t, path, 5000)
	_, err = s.Read("large", 0, 1_000_000)
	require.Error(t, err, "the damage was not found") // the file remains open
	require.NoError(t, os.WriteFile(path+".good", good, 0o600))
	require.NoError(t, os.Rename(path+".good", path))
	dir := t.TempDir()
	requireWhole(t, dir, s.backup(dir).Backup)
}

// flip changes a byte of a file.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestCheckFindsDamage flips bits in copies and in a manifest, and truncates, deletes and replaces copies.
func TestCheckFindsDamage(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Churn(150)
	dir := t.TempDir()
	report := s.backup(dir)
	for i, path := range blocksIn(t, dir) {
		st, err := os.Stat(path)
		require.NoError(t, err)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for name, harm := range map[string]func() error{
			"damaged": func() error { flip(t, path, (int64(i)*7919)%st.Size()); return nil },
			"ends":    func() error { return os.Truncate(path, st.Size()-1) },
			"missing": func() error { return os.Remove(path) },
			"be read": func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		} {
			require.NoError(t, harm())
			check, err := backup.Check(ctx, dir, "", nil)
			require.NoError(t, err)
			require.Len(t, check.Problems, 1)
			require.Contains(t, check.Problems[0], path)
			require.Contains(t, check.Problems[0], name)
			data := filepath.Join(t.TempDir(), "data")
			restore, err := backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: data, Fork: disk.Fork, Marker: disk.Marker})
			require.NoError(t, err)
			require.Equal(t, check.Problems, restore.Problems)
			require.NoError(t, os.RemoveAll(path))
			require.NoError(t, os.WriteFile(path, whole, 0o600))
		}
		if i > 10 {
			break
		}
	}
	requireWhole(t, dir, "")
	manifest := filepath.Join(dir, "backups", report.Backup+".json")
	text, err := os.ReadFile(manifest)
	require.NoError(t, err)
	for i := 0; i < len(text); i += 1 + len(text)/200 {
		flip(t, manifest, int64(i))
		_, err := backup.Check(ctx, dir, "", nil)
		require.True(t, core.Is(err, core.Damaged), "byte %d: %v", i, err)
		flip(t, manifest, int64(i))
	}
	requireWhole(t, dir, "")
}

// TestTheNextBackupRepairs checks that missing and truncated copies are made again.
func TestTheNextBackupRepairs(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Churn(150)
	dir := t.TempDir()
	first := s.backup(dir)
	paths := blocksIn(t, dir)
	require.NoError(t, os.Remove(paths[0]))
	require.NoError(t, os.Truncate(paths[1], 100))
	report, err := backup.Backup(ctx, s.options(dir))
	require.NoError(t, err)
	require.Len(t, report.Problems, 2)
	requireWhole(t, dir, "")
	requireWhole(t, dir, first.Backup)
	// The bytes that a backup compares show that the copy differs from the block.
	flip(t, paths[0], 20)
	_, err = backup.Backup(ctx, s.options(dir))
	require.True(t, core.Is(err, core.Conflict), "%v", err)
}

// TestLeftoversAreVerified checks that copies left by an interrupted backup are used only if they are intact.
func TestLeftoversAreVerified(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Churn(150)
	o := s.options(t.TempDir())
	o.Hook = func(step durable.Step, do func() error) error {
		if strings.Contains(step.Path, ".json") {
			return errors.New("boom")
		}
		return do()
	}
	_, err := backup.Backup(ctx, o)
	require.Error(t, err)
	paths := blocksIn(t, o.Dir)
	sizes := files(t, filepath.Join(o.Dir, "blocks"))
	flip(t, paths[1], sizes[paths[1]]/2)
	require.NoError(t, os.Truncate(paths[2], sizes[paths[2]]-1))
	report := s.backup(o.Dir)
	require.Equal(t, 2, report.CopiedBlocks)
	requireRestores(t, o.Dir, "", s.State(), s.Want)
}

// TestAFullDrive checks that the error for a full drive contains the directory, and that the earlier backups remain
// intact.
func TestAFullDrive(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Churn(100)
	dir := t.TempDir()
	s.backup(dir)
	state, want := s.State(), maps.Clone(s.Want)
	s.Churn(100)
	o := s.options(dir)
	room := 300_000
	o.Hook = func(step durable.Step, do func() error) error {
		if step.Op == durable.Write {
			if room -= len(step.Data); room < 0 {
				return unix.ENOSPC
			}
		}
		if step.Op == durable.Clone {
			return unix.EOPNOTSUPP
		}
		return do()
	}
	_, err := backup.Backup(ctx, o)
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	require.Contains(t, err.Error(), dir)
	require.Contains(t, err.Error(), "full")
	requireRestores(t, dir, "", state, want)
	s.backup(dir)
	requireRestores(t, dir, "", s.State(), s.Want)

	data := filepath.Join(t.TempDir(), "data")
	room = 300_000
	_, err = backup.Restore(ctx, backup.RestoreOptions{Dir: dir, DataDir: data, Fork: disk.Fork, Marker: disk.Marker, Hook: o.Hook})
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	require.Contains(t, err.Error(), data)
	_, err = disk.Open(data, disk.Options{})
	require.True(t, core.Is(err, core.Damaged), "an incomplete data directory was opened: %v", err)
}

// TestCrashes interrupts backups at each step, with that step done or not done. The earlier backups and the next backup
// must be intact.
func TestCrashes(t *testing.T) {
	boom := errors.New("boom")
	for _, link := range []bool{false, true} {
		for _, done := range []bool{false, true} {
			base := t.TempDir()
			s := open(t, filepath.Join(base, "data"))
			s.Churn(60)
			dir := filepath.Join(base, "backups")
			earlier := s.backup(dir)
			state, want := s.State(), maps.Clone(s.Want)
			points := 1 << 20
			for n := 0; n <= points; n += 1 + n/5 {
				s.Churn(25)
				if n%3 == 1 {
					_, err := s.Reclaimer.Round(ctx, true)
					require.NoError(t, err)
				}
				steps := 0
				o := s.options(dir)
				o.Link, o.Keep = link, 3
				if n == 0 {
					o.Dir = filepath.Join(base, "first")
				}
				o.Hook = func(_ durable.Step, do func() error) error {
					if steps++; n == 0 || steps < n {
						return do()
					}
					if steps == n && done {
						_ = do()
					}
					return boom
				}
				_, err := backup.Backup(ctx, o)
				if n == 0 {
					require.NoError(t, err)
					points = steps
					continue
				}
				if err == nil {
					break // this backup needed fewer steps
				}
				require.ErrorIs(t, err, boom)
				for _, name := range names(t, dir) {
					requireWhole(t, dir, name)
				}
				if n%5 == 1 {
					requireRestores(t, dir, earlier.Backup, state, want)
				}
				o.Hook = nil
				earlier = s.backupWith(o)
				state, want = s.State(), maps.Clone(s.Want)
				requireWhole(t, dir, "")
			}
			requireRestores(t, dir, earlier.Backup, state, want)
			require.Greater(t, points, 20)
			t.Logf("link %v, done %v: %d steps", link, done, points)
			s.Close()
		}
	}
}

func names(t *testing.T, dir string) (names []string) {
	list, err := os.ReadDir(filepath.Join(dir, "backups"))
	require.NoError(t, err)
	for _, f := range list {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok {
			names = append(names, name)
		}
	}
	return names
}

// TestALostRecord checks a closed block whose last bytes are not a frame: a backup must report them as damage only if
// they were a record that a restore needs.
func TestALostRecord(t *testing.T) {
	for _, lost := range []bool{true, false} {
		s := open(t, t.TempDir())
		s.Churn(150) // several blocks
		first := blocksIn(t, s.Dir)[0]
		st, err := os.Stat(first)
		require.NoError(t, err)
		if lost {
			flip(t, first, st.Size()-10)
		} else { // an incomplete batch
			f, err := os.OpenFile(first, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			_, err = f.Write(storetest.Random(1, 5000))
			require.NoError(t, err)
			require.NoError(t, f.Close())
		}
		dir := t.TempDir()
		for range 2 {
			report, err := backup.Backup(ctx, s.options(dir))
			require.NoError(t, err)
			if !lost {
				require.Empty(t, report.Problems)
				continue
			}
			require.Len(t, report.Problems, 1)
			require.Contains(t, report.Problems[0], filepath.Base(first))
			require.Contains(t, report.Problems[0], "no block has this record")
		}
		if !lost {
			requireRestores(t, dir, "", s.State(), s.Want)
		}
		s.Close()
	}
}

// TestTornContent damages the last content of a closed block and the record after it. The content must be reported,
// because the metadata refers to it, but not the record, because a snapshot covers it.
func TestTornContent(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	s.Set("k", storetest.Random(1, 50_000))
	_, err := s.Reclaimer.Round(ctx, true)
	require.NoError(t, err)
	_, err = snapshot.Write(ctx, s.Meta, s.Blocks, snapshot.WriteOptions{})
	require.NoError(t, err)
	o, err := s.FS.Stat(ctx, s.Bucket, "k", core.Current)
	require.NoError(t, err)
	e := o.Segments[0].Info.Extents[0]
	path := s.Blocks.(*disk.Store).BlockFile(core.BlockInfo{ID: e.Block, Kind: core.Packed})
	flip(t, path, e.Offset+100)
	flip(t, path, e.Offset+e.Length+10) // the header of the record
	report, err := backup.Backup(ctx, s.options(t.TempDir()))
	require.NoError(t, err)
	require.Len(t, report.Problems, 1, "%+v", report)
	require.Contains(t, report.Problems[0], e.Block.String())
	require.NotContains(t, report.Problems[0], "no block has this record")
}

// TestABlockOfZeros checks that a file of zeros, which a power failure may leave if it follows the creation of a block,
// is not reported as damage.
func TestABlockOfZeros(t *testing.T) {
	base := t.TempDir()
	data, dir := filepath.Join(base, "data"), filepath.Join(base, "backups")
	s := open(t, data)
	s.Put("k", storetest.Random(1, 1000))
	s.Close()
	require.NoError(t, os.WriteFile(filepath.Join(data, "blocks", "00000001", "00000", "000000ff.packed"), make([]byte, 5000), 0o600))
	s = open(t, data)
	defer s.Close()
	require.Empty(t, s.backup(dir).Problems)
}

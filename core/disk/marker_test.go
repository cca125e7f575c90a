package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/disk"
)

// used creates a data directory with a block, and returns its path and the paths of its blocks and its marker.
func used(t *testing.T) (dir, blocks, marker string) {
	dir = filepath.Join(t.TempDir(), "data")
	s, err := disk.Open(dir, disk.Options{})
	require.NoError(t, err)
	mustWrite(t, s, large, "bytes")
	require.NoError(t, s.Close())
	blocks = filepath.Join(dir, "blocks")
	marker = filepath.Join(blocks, "STORE")
	require.FileExists(t, marker)
	return dir, blocks, marker
}

// asked records the calls of NoBlocks, and returns the error that there must be blocks.
type asked struct{ times, starts int }

var errMustBe = errors.New("there must be blocks")

func (a *asked) ask(starts int) error {
	a.times++
	a.starts = starts
	return errMustBe
}

// TestMarkerIsCreated checks that every new store has a marker, and that a store of an older version gets one if it has
// blocks.
func TestMarkerIsCreated(t *testing.T) {
	dir, blocks, marker := used(t)
	text, err := os.ReadFile(marker)
	require.NoError(t, err)
	store, err := os.ReadFile(filepath.Join(dir, "STORE"))
	require.NoError(t, err)
	created, err := disk.Marker(store)
	require.NoError(t, err)
	require.Equal(t, string(text), string(created), "a restore writes the same marker")
	forked, err := disk.Fork(store)
	require.NoError(t, err)
	created, err = disk.Marker(forked)
	require.NoError(t, err)
	require.Equal(t, string(text), string(created), "a copy has the same number")

	a := &asked{}
	require.NoError(t, os.Remove(marker))
	require.NoError(t, os.Mkdir(filepath.Join(blocks, "lost+found"), 0o700))
	s, err := disk.Open(dir, disk.Options{NoBlocks: a.ask})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Zero(t, a.times, "a block of the store is sufficient")
	again, err := os.ReadFile(marker)
	require.NoError(t, err)
	require.Equal(t, string(text), string(again))

	s, err = disk.Open(dir, disk.Options{NoBlocks: a.ask})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.Zero(t, a.times)
}

// TestUnmounted checks that a start without a marker and without blocks is refused if NoBlocks returns an error, and
// that a refused start writes nothing.
func TestUnmounted(t *testing.T) {
	for name, empty := range map[string]func(t *testing.T, blocks string){
		"empty": func(t *testing.T, blocks string) {
			require.NoError(t, os.RemoveAll(blocks))
			require.NoError(t, os.Mkdir(blocks, 0o700))
		},
		"missing": func(t *testing.T, blocks string) { require.NoError(t, os.RemoveAll(blocks)) },
		"a new file system": func(t *testing.T, blocks string) {
			require.NoError(t, os.RemoveAll(blocks))
			require.NoError(t, os.MkdirAll(filepath.Join(blocks, "lost+found"), 0o700))
		},
		"only an incomplete block": func(t *testing.T, blocks string) {
			require.NoError(t, os.RemoveAll(blocks))
			require.NoError(t, os.MkdirAll(filepath.Join(blocks, "00000001/00000"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(blocks, "00000001/00000/00000001.packed"), nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, blocks, marker := used(t)
			empty(t, blocks)
			before, err := os.ReadFile(filepath.Join(dir, "STORE"))
			require.NoError(t, err)
			a := &asked{}
			for range 2 {
				_, err = disk.Open(dir, disk.Options{NoBlocks: a.ask})
				require.ErrorIs(t, err, errMustBe)
			}
			require.Equal(t, asked{times: 2, starts: 1}, *a)
			require.NoFileExists(t, marker)
			after, err := os.ReadFile(filepath.Join(dir, "STORE"))
			require.NoError(t, err)
			require.Equal(t, string(before), string(after))
			s, err := disk.Open(dir, disk.Options{NoBlocks: func(int) error { return nil }})
			require.NoError(t, err, "NoBlocks permits it")
			require.NoError(t, s.Close())
			require.FileExists(t, marker)
		})
	}
}

// TestForeignBlocks checks that the blocks of another store are refused, even if blocks are not required. They are
// recognized by their marker, or by the header of a block.
func TestForeignBlocks(t *testing.T) {
	optional := disk.Options{NoBlocks: func(int) error { return nil }}
	dir, blocks, marker := used(t)
	_, others, _ := used(t)
	require.NoError(t, os.Rename(blocks, blocks+".away"))
	require.NoError(t, os.Rename(others, blocks))
	for range 2 {
		_, err := disk.Open(dir, optional)
		require.True(t, core.Is(err, core.InvalidArgument), "%v", err)
		require.ErrorContains(t, err, "mount the file system with the blocks of this store at "+blocks)
		_ = os.Remove(marker) // as in stores of older versions
	}
	require.NoFileExists(t, marker)

	require.NoError(t, os.RemoveAll(blocks))
	require.NoError(t, os.Rename(blocks+".away", blocks))
	require.NoError(t, os.WriteFile(marker, []byte("orcas-blocks 1\nstore 0\n"), 0o600))
	_, err := disk.Open(dir, optional)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
	require.ErrorContains(t, err, "remove the file")
	require.NoError(t, os.Remove(marker))
	s, err := disk.Open(dir, disk.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Close())

	require.NoError(t, os.Remove(filepath.Join(dir, "STORE")))
	_, err = disk.Open(dir, optional)
	require.True(t, core.Is(err, core.Damaged), "%v", err)
}

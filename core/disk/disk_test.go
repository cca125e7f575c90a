package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/internal/durable"
)

func open(t *testing.T, dir string, o disk.Options) *disk.Store {
	t.Helper()
	s, err := disk.Open(dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestBlocks(t *testing.T) {
	for name, o := range map[string]disk.Options{"Default": {}, "SmallBlocksFewFiles": {PackedSize: 64 << 10, MaxOpenFiles: 2}} {
		t.Run(name, func(t *testing.T) {
			openNew := func(t *testing.T) core.Blocks { return open(t, t.TempDir(), o) }
			coretest.Blocks(t, openNew)
			coretest.BlocksShared(t, openNew)
		})
	}
}

func TestBlocksReopen(t *testing.T) {
	coretest.BlocksReopen(t, func(t *testing.T) func() core.Blocks {
		dir := t.TempDir()
		return func() core.Blocks { return open(t, dir, disk.Options{}) }
	})
}

// counter counts the steps of an operation, and can make one of them fail.
type counter struct {
	mu    sync.Mutex
	steps map[durable.Op]int
	fail  func(durable.Step, func() error) error // if it is nil, the steps are executed
}

func (c *counter) hook(s durable.Step, do func() error) error {
	c.mu.Lock()
	if c.steps == nil {
		c.steps = map[durable.Op]int{}
	}
	c.steps[s.Op]++
	fail := c.fail
	c.mu.Unlock()
	if fail != nil {
		return fail(s, do)
	}
	return do()
}

func (c *counter) take() map[durable.Op]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	steps := c.steps
	c.steps = nil
	return steps
}

func (c *counter) set(fail func(durable.Step, func() error) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = fail
}

var (
	packed = core.BlockOptions{Kind: core.Packed, SizeHint: 4 << 10}
	alone  = core.BlockOptions{Kind: core.Packed, Alone: true}
	large  = core.BlockOptions{Kind: core.Large}
)

func write(t testing.TB, b core.Blocks, o core.BlockOptions, data string) (core.Extent, error) {
	w, err := b.Create(t.Context(), o)
	if err != nil {
		return core.Extent{}, err
	}
	defer func() { require.NoError(t, w.Abort()) }()
	e := core.Extent{Block: w.Block(), Offset: w.Offset(), Length: int64(len(data))}
	if _, err := w.Write([]byte(data)); err != nil {
		return e, err
	}
	return e, w.Commit(t.Context())
}

func mustWrite(t testing.TB, b core.Blocks, o core.BlockOptions, data string) core.Extent {
	t.Helper()
	e, err := write(t, b, o, data)
	require.NoError(t, err)
	return e
}

func read(t testing.TB, b core.Blocks, e core.Extent) (string, error) {
	r, err := b.Open(t.Context(), e)
	if err != nil {
		return "", err
	}
	defer func() { require.NoError(t, r.Close()) }()
	p := make([]byte, e.Length)
	_, err = r.ReadAt(p, 0)
	return string(p), err
}

func requireRead(t testing.TB, b core.Blocks, e core.Extent, want string) {
	t.Helper()
	got, err := read(t, b, e)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// TestSteps checks the steps of each operation, so that an additional step makes the test fail.
func TestSteps(t *testing.T) {
	type steps = map[durable.Op]int
	c := &counter{}
	dir := filepath.Join(t.TempDir(), "data")
	s, err := disk.Open(dir, disk.Options{PackedSize: 64 << 10, Hook: c.hook})
	require.NoError(t, err)
	require.Equal(t, steps{
		durable.Mkdir: 3, durable.Create: 2, durable.Write: 2, durable.Sync: 2, durable.Rename: 2, // STORE and blocks/STORE
		durable.DirSync: 9, // syncs of the parent of the data directory, of the data directory (for blocks and STORE), and of blocks (for STORE and a directory)
	}, c.take(), "the first start")

	mustWrite(t, s, packed, "first")
	require.Equal(t, steps{
		durable.Mkdir: 1, durable.Create: 1, durable.Allocate: 1, durable.Write: 2, durable.DirSync: 2, durable.DataSync: 1,
	}, c.take(), "the first commit in a packed block")
	for range 5 {
		mustWrite(t, s, packed, "next")
		require.Equal(t, steps{durable.Write: 1, durable.DataSync: 1}, c.take(), "a commit in a packed block")
	}
	mustWrite(t, s, alone, "alone")
	require.Equal(t, steps{durable.Create: 1, durable.Write: 2, durable.DataSync: 1, durable.DirSync: 1}, c.take(), "alone")
	e := mustWrite(t, s, large, "large")
	require.Equal(t, steps{durable.Create: 1, durable.Write: 2, durable.DataSync: 1, durable.DirSync: 1}, c.take(), "large")
	requireRead(t, s, e, "large")
	require.Empty(t, c.take(), "reads")
	long := mustWrite(t, s, large, strings.Repeat("x", 5<<19))
	require.Equal(t, steps{durable.Create: 1, durable.Write: 2, durable.WriteOut: 3, durable.DataSync: 1, durable.DirSync: 1}, c.take(), "2.5 MiB")
	require.NoError(t, s.Delete(t.Context(), long.Block))
	c.take()
	require.NoError(t, s.Delete(t.Context(), e.Block))
	require.Equal(t, steps{durable.Remove: 2}, c.take(), "delete: it tries the name of a packed block first")

	w, err := s.Create(t.Context(), packed)
	require.NoError(t, err)
	require.NoError(t, w.Commit(t.Context()))
	require.Empty(t, c.take(), "nothing to commit")
	roll := packed
	roll.SizeHint = 60 << 10
	mustWrite(t, s, roll, strings.Repeat("x", 60<<10))
	c.take()
	mustWrite(t, s, packed, strings.Repeat("y", 4<<10))
	require.Equal(t, steps{
		durable.Truncate: 1, durable.Create: 1, durable.Allocate: 1, durable.Write: 2, durable.DirSync: 1, durable.DataSync: 1,
	}, c.take(), "the next packed block")
	require.NoError(t, s.Close())
	require.Equal(t, steps{
		durable.Truncate: 1,
		durable.Mkdir:    1, durable.Create: 8, durable.Allocate: 8, // space for the next start
	}, c.take(), "close")

	s, err = disk.Open(dir, disk.Options{Hook: c.hook})
	require.NoError(t, err)
	require.Equal(t, steps{
		durable.Mkdir: 1, durable.Create: 1, durable.Write: 1, durable.Sync: 1, durable.Rename: 1, durable.DirSync: 6,
	}, c.take(), "a later start")
	require.NoError(t, s.Close())
}

// TestSyncOrder checks that a commit returns only after its bytes, and the names of the file and of all its parent
// directories, were synced.
func TestSyncOrder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	unsynced := map[string]bool{} // names and bytes of files
	s, err := disk.Open(dir, disk.Options{Hook: func(step durable.Step, do func() error) error {
		err := do()
		switch step.Op {
		case durable.Create, durable.Mkdir, durable.Rename:
			unsynced["name of "+step.Path] = true
			delete(unsynced, "name of "+step.Path+".new")
		case durable.Write:
			unsynced["bytes of "+step.Path] = true
		case durable.DataSync, durable.Sync:
			delete(unsynced, "bytes of "+step.Path)
		case durable.DirSync:
			for name := range unsynced {
				if path, ok := strings.CutPrefix(name, "name of "); ok && filepath.Dir(path) == step.Path {
					delete(unsynced, name)
				}
			}
		}
		return err
	}})
	require.NoError(t, err)
	require.Empty(t, unsynced)
	for _, o := range []core.BlockOptions{packed, packed, alone, large, packed} {
		mustWrite(t, s, o, "bytes")
		require.Empty(t, unsynced)
	}
	require.NoError(t, s.Close())
}

// TestFailedSteps makes each step of each operation fail, before and after it takes effect. Then it checks that
// everything that was committed before and after the failure can be read, in this process and after a restart.
func TestFailedSteps(t *testing.T) {
	for _, k := range []struct {
		core.BlockOptions
		text string
	}{{packed, "during"}, {alone, "during"}, {large, "during"}, {large, strings.Repeat("during", 400_000)}} {
		for _, begun := range []bool{false, true} {
			for _, done := range []bool{false, true} {
				for n := 1; ; n++ {
					name := fmt.Sprintf("kind %d alone %v length %d begun %v done %v step %d", k.Kind, k.Alone, len(k.text), begun, done, n)
					if !failStep(t, name, k.BlockOptions, k.text, begun, done, n) {
						break
					}
				}
			}
		}
	}
}

func failStep(t *testing.T, name string, o core.BlockOptions, text string, begun, done bool, n int) (reached bool) {
	dir := t.TempDir()
	c := &counter{}
	s, err := disk.Open(dir, disk.Options{Hook: c.hook})
	require.NoError(t, err)
	kept := map[core.Extent]string{}
	if begun {
		kept[mustWrite(t, s, o, "before")] = "before"
	}
	var failed durable.Step
	var mu sync.Mutex // guards n and failed
	c.set(func(step durable.Step, do func() error) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n != 0 {
			return do()
		}
		failed = step
		if done {
			require.NoError(t, do(), name)
		}
		return unix.EIO
	})
	e, err := write(t, s, o, text)
	c.set(nil)
	switch {
	case failed.Op == "":
		require.NoError(t, err, name)
	case failed.Op == durable.Allocate:
		require.NoError(t, err, "it affects only the speed")
		kept[e] = text
	default:
		require.ErrorIs(t, err, unix.EIO, "%s %v", name, failed)
		require.True(t, core.Is(err, core.Internal))
	}
	for i := range 3 {
		text := fmt.Sprint("after ", i)
		after := mustWrite(t, s, o, text)
		kept[after] = text
		if err != nil && !e.Block.IsZero() {
			require.NotEqual(t, e.Block, after.Block, "%s %v: the block must not be appended to", name, failed)
		}
	}
	for e, text := range kept {
		requireRead(t, s, e, text)
	}
	require.NoError(t, s.Close())
	s, err = disk.Open(dir, disk.Options{})
	require.NoError(t, err)
	for e, text := range kept {
		requireRead(t, s, e, text)
	}
	require.NoError(t, s.Close())
	return failed.Op != ""
}

// TestShortWrite lets the drive become full in the middle of a write.
func TestShortWrite(t *testing.T) {
	c := &counter{}
	s := open(t, t.TempDir(), disk.Options{Hook: c.hook})
	first := mustWrite(t, s, packed, "first")
	c.set(func(step durable.Step, do func() error) error {
		if step.Op != durable.Write {
			return do()
		}
		f, err := os.OpenFile(step.Path, os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(step.Data[:len(step.Data)/2], step.Offset)
		require.NoError(t, errors.Join(err, f.Close()))
		return unix.ENOSPC
	})
	e, err := write(t, s, packed, "second")
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	c.set(nil)
	third := mustWrite(t, s, packed, "third")
	require.NotEqual(t, e.Block, third.Block)
	requireRead(t, s, first, "first")
	requireRead(t, s, third, "third")

	w, err := s.Create(t.Context(), packed)
	require.NoError(t, err)
	c.set(func(durable.Step, func() error) error { return unix.EDQUOT })
	_, err = w.Write([]byte("fourth"))
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	c.set(nil)
	require.True(t, core.Is(w.Commit(t.Context()), core.NoSpace), "a commit after a failed write returns the error of the write")
	require.Error(t, w.Commit(t.Context()))
	requireRead(t, s, third, "third")
}

// TestFailedDirSyncIsNotForgotten creates two blocks in one directory. When the sync for one of them fails, the next
// sync of the directory does not prove that the name of the other is durable.
func TestFailedDirSyncIsNotForgotten(t *testing.T) {
	c := &counter{}
	s := open(t, t.TempDir(), disk.Options{Hook: c.hook})
	mustWrite(t, s, alone, "create the directory")
	a, err := s.Create(t.Context(), large)
	require.NoError(t, err)
	b, err := s.Create(t.Context(), large)
	require.NoError(t, err)
	c.set(func(step durable.Step, do func() error) error {
		if step.Op == durable.DirSync {
			return unix.EIO
		}
		return do()
	})
	require.ErrorIs(t, a.Commit(t.Context()), unix.EIO)
	c.set(nil)
	require.Error(t, b.Commit(t.Context()))
	requireRead(t, s, mustWrite(t, s, large, "later"), "later")
}

func TestFullDrive(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("orcas", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount a tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	s := open(t, dir, disk.Options{})
	first := mustWrite(t, s, packed, "first")
	free, total, err := s.Space(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, total)
	require.Less(t, free, total)
	var list []core.Extent
	for err == nil {
		var e core.Extent
		if e, err = write(t, s, large, strings.Repeat("x", 100_000)); err == nil {
			list = append(list, e)
		}
	}
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	require.NotEmpty(t, list)
	for err = nil; err == nil; {
		_, err = write(t, s, packed, strings.Repeat("y", 10_000))
	}
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	requireRead(t, s, first, "first")
	require.NoError(t, s.Delete(t.Context(), list[0].Block))
	requireRead(t, s, mustWrite(t, s, packed, "there is space again"), "there is space again")
}

// TestStartOnAFullDrive starts repeatedly while other programs use every byte and inode that is released.
func TestStartOnAFullDrive(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("orcas", dir, "tmpfs", 0, "size=4m,nr_inodes=64"); err != nil {
		t.Skip("cannot mount a tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	data, files := filepath.Join(dir, "data"), 0
	fill := func() {
		var err error
		for range 100 { // files without space are empty
			files++
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("other-%d", files)), bytes.Repeat([]byte("x"), 100_000), 0o600)
		}
		require.ErrorIs(t, err, unix.ENOSPC)
	}
	s := open(t, data, disk.Options{PackedSize: 64 << 10})
	first := mustWrite(t, s, packed, "first")
	s.KeepSpare()
	for range 5 {
		fill()
		requireRead(t, s, first, "first")
		require.NoError(t, s.Close())
		fill()
		s = open(t, data, disk.Options{PackedSize: 64 << 10})
		for _, name := range []string{"metadata.db-wal", "metadata.db-shm"} { // other files that a server needs
			name = filepath.Join(data, name)
			require.NoError(t, os.WriteFile(name, bytes.Repeat([]byte("x"), 100_000), 0o600))
			require.NoError(t, os.Remove(name))
		}
		s.KeepSpare()
	}
	require.NoError(t, s.Close())
}

func TestOnlyOneOwner(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, disk.Options{})
	_, err := disk.Open(dir, disk.Options{})
	require.True(t, core.Is(err, core.Busy), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf("process %d already uses the data directory %s", os.Getpid(), dir))
	mustWrite(t, s, packed, "the store still works")
	require.NoError(t, s.Close())
	open(t, dir, disk.Options{})
}

func TestStoreFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, disk.Options{})
	e := mustWrite(t, s, packed, "kept")
	require.NoError(t, s.Close())
	path := filepath.Join(dir, "STORE")
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	for text, want := range map[string]core.Kind{
		strings.Replace(string(good), "orcas-store 2", "orcas-store 3", 1): core.Unsupported,
		"orcas-store 17\nsomething else":                                   core.Unsupported,
		"":                                                                 core.Damaged,
		string(good[:len(good)-1]):                                         core.Damaged,
		string(good) + "\n":                                                core.Damaged,
		strings.Replace(string(good), "generation 0000000", "generation 0000001", 1): core.Damaged,
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := disk.Open(dir, disk.Options{})
		require.Equal(t, want, core.KindOf(err), "%q: %v", text, err)
	}
	require.NoError(t, os.Remove(path))
	_, err = disk.Open(dir, disk.Options{})
	require.True(t, core.Is(err, core.Damaged), "blocks without STORE: %v", err)

	body := strings.Replace(string(good[:strings.Index(string(good), "sum")]), "orcas-store 2", "orcas-store 1", 1)
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%ssum %016x\n", body, xxh3.HashString(body)), 0o600), "written by an older version")
	s = open(t, dir, disk.Options{})
	requireRead(t, s, e, "kept")
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(now), "orcas-store 2\n", "an older version must refuse what this one writes")
	require.NoError(t, s.Close())

	require.NoError(t, os.WriteFile(path, good, 0o600))
	s = open(t, dir, disk.Options{})
	requireRead(t, s, e, "kept")
	second := mustWrite(t, s, packed, "second")
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(path, good, 0o600), "an old copy of STORE is restored")
	s = open(t, dir, disk.Options{})
	third := mustWrite(t, s, packed, "third")
	require.Greater(t, third.Block.Generation(), second.Block.Generation(), "no block ID is used twice")
	requireRead(t, s, second, "second")
}

// TestFailedOpens makes each step of a start fail, before and after it takes effect, and starts again.
func TestFailedOpens(t *testing.T) {
	for _, done := range []bool{false, true} {
		for n, reached := 1, true; reached; n++ {
			dir := filepath.Join(t.TempDir(), "data")
			reached = false
			left := n
			s, err := disk.Open(dir, disk.Options{Hook: func(step durable.Step, do func() error) error {
				if left--; left != 0 {
					return do()
				}
				reached = true
				if done {
					_ = do()
				}
				return unix.EIO
			}})
			require.Equal(t, reached, err != nil)
			if err == nil {
				require.NoError(t, s.Close())
			}
			s = open(t, dir, disk.Options{})
			requireRead(t, s, mustWrite(t, s, packed, "bytes"), "bytes")
		}
	}
}

func TestWalkSkipsOtherFiles(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s := open(t, dir, disk.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var want []core.BlockInfo
	for _, o := range []core.BlockOptions{packed, large, alone} {
		e := mustWrite(t, s, o, "bytes")
		want = append(want, core.BlockInfo{ID: e.Block, Kind: o.Kind, Size: 69})
	}
	sub := filepath.Join(dir, "blocks", "00000001", "00000")
	for _, name := range []string{
		"blocks/notes.txt", "blocks/lost+found", "blocks/00000001/notes.txt", "blocks/00000001/0000g/00000001.large",
		"blocks/00000001/00000/00000004.tmp", "blocks/00000001/00000/0000000a", "blocks/00000001/00000/0000000A.large", "blocks/00000001/00000/4.large",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(sub, "00000009.large"), nil, 0o600), "a crash immediately after the file was created")
	want = append(want, core.BlockInfo{ID: core.MakeBlockID(want[0].ID.Store(), 1, 9), Kind: core.Large})
	var got []core.BlockInfo
	require.NoError(t, s.Walk(t.Context(), core.BlockID{}, func(i core.BlockInfo) error {
		got = append(got, i)
		return nil
	}))
	require.Equal(t, want, got)
	require.Equal(t, 7, strings.Count(log.String(), "a file in the directory of the blocks is not a block"), log.String())

	last := core.BlockID(bytes.Repeat([]byte{0xff}, 16))
	require.NoError(t, s.Walk(t.Context(), last, func(core.BlockInfo) error { return errors.New("not reached") }))
	require.NoError(t, os.Rename(filepath.Join(dir, "blocks"), filepath.Join(dir, "gone")))
	require.Error(t, s.Walk(t.Context(), core.BlockID{}, func(core.BlockInfo) error { return nil }), "a missing directory does not count as empty")
	require.NoError(t, os.Rename(filepath.Join(dir, "gone"), filepath.Join(dir, "blocks")))
}

// TestPreallocationIsFreed checks how much space a store uses after Close, and after a start that follows a kill.
func TestPreallocationIsFreed(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, disk.Options{PackedSize: 8 << 20})
	path := func(e core.Extent) string {
		return filepath.Join(dir, "blocks", fmt.Sprintf("%08x", e.Block.Generation()), "00000", fmt.Sprintf("%08x.packed", e.Block.Number()))
	}
	used := func(path string) int64 {
		var st unix.Stat_t
		require.NoError(t, unix.Stat(path, &st))
		require.Less(t, st.Size, int64(1<<10), "the size does not include preallocated space")
		return st.Blocks * 512
	}
	e := mustWrite(t, s, packed, "x")
	if used(path(e)) < 8<<20 {
		t.Skip("this file system does not support preallocation")
	}
	require.NoError(t, s.Close())
	require.Less(t, used(path(e)), int64(1<<20))

	// A killed process leaves the preallocated space.
	require.NoError(t, unixFallocate(path(e), 8<<20))
	require.GreaterOrEqual(t, used(path(e)), int64(8<<20))
	s = open(t, dir, disk.Options{})
	require.Less(t, used(path(e)), int64(1<<20))
	requireRead(t, s, e, "x")
}

func unixFallocate(path string, n int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, n), f.Close())
}

func TestEmptyDirectoriesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	var list []core.Extent
	for range 3 {
		s := open(t, dir, disk.Options{})
		list = append(list, mustWrite(t, s, packed, "x"))
		require.NoError(t, s.Close())
		require.NoError(t, open(t, dir, disk.Options{}).Close())
	}
	count := func() int {
		names, err := os.ReadDir(filepath.Join(dir, "blocks"))
		require.NoError(t, err)
		return len(names) - 1 // STORE
	}
	require.Equal(t, 3, count())
	s := open(t, dir, disk.Options{})
	require.NoError(t, s.Delete(t.Context(), list[1].Block))
	require.Equal(t, 3, count(), "the two that still have blocks, and that of this start")
	requireRead(t, s, list[0], "x")
	requireRead(t, s, list[2], "x")
}

func TestManyBlocksInManyDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 4200 files")
	}
	dir := t.TempDir()
	s := open(t, dir, disk.Options{Hook: func(step durable.Step, do func() error) error {
		if step.Op == durable.DataSync || step.Op == durable.DirSync {
			return nil // for speed: there are no crashes in this test
		}
		return do()
	}})
	var list []core.Extent
	for i := range 4200 {
		list = append(list, mustWrite(t, s, large, fmt.Sprint(i)))
	}
	i := 0
	require.NoError(t, s.Walk(t.Context(), core.BlockID{}, func(b core.BlockInfo) error {
		require.Equal(t, list[i].Block, b.ID)
		i++
		return nil
	}))
	require.Equal(t, 4200, i)
	i = 4100
	require.NoError(t, s.Walk(t.Context(), list[i].Block, func(b core.BlockInfo) error {
		require.Equal(t, list[i].Block, b.ID)
		i++
		return nil
	}))
	require.Equal(t, 4200, i)
	for i, e := range list {
		requireRead(t, s, e, fmt.Sprint(i))
	}
	subs, err := os.ReadDir(filepath.Join(dir, "blocks", "00000001"))
	require.NoError(t, err)
	require.Len(t, subs, 2)
}

func TestTooManyOpenFilesIsOverloaded(t *testing.T) {
	s := open(t, t.TempDir(), disk.Options{Hook: func(step durable.Step, do func() error) error {
		if step.Op == durable.Create && strings.HasSuffix(step.Path, ".large") {
			return unix.EMFILE
		}
		return do()
	}})
	_, err := s.Create(t.Context(), large)
	require.True(t, core.Is(err, core.Overloaded), "%v", err)
}

// TestSyncedReportsEverySync: the observer is called once for each fdatasync of a block.
func TestSyncedReportsEverySync(t *testing.T) {
	syncs, reported := 0, 0
	s := open(t, t.TempDir(), disk.Options{
		Hook: func(step durable.Step, do func() error) error {
			if step.Op == durable.DataSync {
				syncs++
			}
			return do()
		},
		Synced: func(took time.Duration, err error) {
			require.NoError(t, err)
			require.Positive(t, took)
			reported++
		},
	})
	for range 3 {
		w, err := s.Create(t.Context(), packed)
		require.NoError(t, err)
		_, err = w.Write([]byte("content"))
		require.NoError(t, err)
		require.NoError(t, w.Commit(t.Context()))
	}
	require.Positive(t, syncs)
	require.Equal(t, syncs, reported)
}

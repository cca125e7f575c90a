package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/content"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/fsck"
	"orcas/reclaim"
	"orcas/storetest"
)

var ctx = context.Background()

// store is a data directory that is opened without a server.
type store struct{ *storetest.Store }

func openStore(t *testing.T, dir string) *store { return openWith(t, dir, batch.Options{}) }

func openWith(t *testing.T, dir string, o batch.Options) *store {
	s := storetest.Open(t, storetest.Options{Dir: dir, Uncached: true, Bare: true, Batch: o, FS: &content.Options{}})
	s.Rand = rand.New(rand.NewPCG(1, 1))
	return &store{s}
}

// body returns n random bytes.
func (s *store) body(n int) []byte { return storetest.Random(s.Rand.Uint64(), n) }

// putAll writes n small objects concurrently, so that they share batches.
func (s *store) putAll(b *core.BucketInfo, n int) {
	bodies := make([][]byte, n)
	for i := range bodies {
		bodies[i] = s.body(1 + s.Rand.IntN(300))
	}
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < n; i += 16 {
				s.In(b).Put(fmt.Sprintf("many/%06d", i), bodies[i])
			}
		})
	}
	wg.Wait()
}

// fill writes objects of every kind: small, large, empty, versioned, copied, deleted and multipart ones.
func (s *store) fill() {
	s.fillQuota()
	plain, versioned := s.OpenBucket("plain", core.VersioningOff), s.OpenBucket("versioned", core.VersioningEnabled)
	for i := range 30 {
		s.In(plain).Put(fmt.Sprint("small-", i), s.body(1+s.Rand.IntN(5000)))
		s.In(versioned).Put(fmt.Sprint("v-", i%10), s.body(1+s.Rand.IntN(5000)))
	}
	s.In(plain).Put("large", s.body(300_000))
	s.In(plain).Put("empty", nil)
	for i := range 5 {
		s.In(plain).Delete(fmt.Sprint("small-", i))
		s.In(versioned).Delete(fmt.Sprint("v-", i))
		s.In(plain).Copy("large", fmt.Sprint("copy-", i))
	}
	s.In(versioned).Put("v-1", s.body(100))
	s.In(plain).MultipartOf("multipart", s.body(5<<20), s.body(3000))
	s.In(plain).Copy("multipart", "multipart-copy")
	id := s.In(plain).Upload("unfinished", core.UploadInfo{})
	s.In(plain).Part("unfinished", id, 1, s.body(5<<20))
	s.In(plain).Part("unfinished", id, 2, s.body(3000))
}

// fillQuota fills a bucket up to its quota.
func (s *store) fillQuota() {
	b := s.OpenBucket("bounded", core.VersioningEnabled)
	if b.Quota.IsZero() {
		s.In(b).Put("before", s.body(1000))
	}
	b, err := s.FS.UpdateBucket(ctx, b.Name, func(b *core.BucketInfo) error {
		b.Quota = core.Quota{Bytes: 5000, Objects: 4}
		return nil
	})
	require.NoError(s.T, err)
	for s.FS.Room(ctx, b, "key", 1000) == nil {
		s.In(b).Put("key", s.body(1000))
	}
	s.In(b).Delete("key")
	held, err := s.FS.Usage(ctx, b)
	require.NoError(s.T, err)
	require.Equal(s.T, core.Usage{Bytes: 4000, Objects: 4}, held)
}

// reclaims runs a round of reclaim.
func (s *store) reclaims(full bool, deadShare float64) {
	r, err := reclaim.New(ctx, reclaim.Options{
		Meta: s.Meta, Blocks: s.Blocks, Writer: s, Readers: s.FS, DeadShare: deadShare,
	})
	require.NoError(s.T, err)
	_, err = r.Round(ctx, full)
	require.NoError(s.T, err)
}

// contents returns all metadata, and the SHA-256 of the content of every version, read from the store.
func (s *store) contents() (*coretest.MetaState, map[string][32]byte) {
	state, sums := s.State(), map[string][32]byte{}
	for i := range state.Buckets {
		b := &state.Buckets[i]
		for _, v := range b.Versions {
			if v.Marker {
				continue
			}
			body, err := s.In(&b.Info).ReadVersion(v.Key, v.Version(), 0, -1)
			require.NoError(s.T, err)
			sums[fmt.Sprint(b.Info.Name, "/", v.Key, "/", v.Version())] = sha256.Sum256(body)
		}
	}
	return state.Comparable(), sums
}

// filled creates a data directory with the objects of fill.
func filled(t *testing.T) string {
	dir := t.TempDir()
	s := openStore(t, dir)
	s.fill()
	s.Close()
	return dir
}

// orcas runs a command line.
func orcas(args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(args, nil, &out, &err)
	return status, out.String(), err.String()
}

// change runs SQL on the database of a data directory.
func change(t *testing.T, dir string, statements ...string) {
	db, err := sql.Open("sqlite3", filepath.Join(dir, storetest.Database))
	require.NoError(t, err)
	for _, s := range statements {
		res, err := db.Exec(s)
		require.NoError(t, err, s)
		n, err := res.RowsAffected()
		require.NoError(t, err)
		require.True(t, n > 0 || strings.HasPrefix(s, "CREATE") || strings.HasPrefix(s, "DROP"), s)
	}
	require.NoError(t, db.Close())
}

// blockFiles returns the block files with an extension, in order.
func blockFiles(t *testing.T, dir, ext string) []string {
	var files []string
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, "blocks"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ext) {
			files = append(files, path)
		}
		return err
	}))
	require.NotEmpty(t, files)
	return files
}

func TestFsckOfIntactStore(t *testing.T) {
	dir := filled(t)
	before, err := os.ReadFile(filepath.Join(dir, storetest.Database))
	require.NoError(t, err)
	status, stdout, stderr := orcas("fsck", "--data", dir, "--content")
	require.Equal(t, exitOK, status, stdout+stderr)
	require.Contains(t, stdout, "no difference")
	require.Empty(t, stderr)
	status, stdout, _ = orcas("fsck", "--data", dir, "--json", "--repair")
	require.Equal(t, exitOK, status)
	var report fsckReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.NotZero(t, report.Check.Versions)
	require.Nil(t, report.Repair)
	after, err := os.ReadFile(filepath.Join(dir, storetest.Database))
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after), "the database has changed")
}

// TestFsckOfUnfinishedBlock: a block whose creation was interrupted, before or within its header, is not damage.
func TestFsckOfUnfinishedBlock(t *testing.T) {
	dir := filled(t)
	for k, ext := range []string{".packed", ".large"} {
		path := blockFiles(t, dir, ext)[0]
		header, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, n := range []int{0, 1, 32, 63} {
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), fmt.Sprintf("%08x%s", 0xf0+4*k+i, ext)), header[:n], 0o600))
		}
	}
	status, stdout, stderr := orcas("fsck", "--data", dir, "--content")
	require.Equal(t, exitOK, status, stdout+stderr)
	require.Contains(t, stdout, "no difference")
	require.NoError(t, os.Truncate(blockFiles(t, dir, ".large")[0], 32))
	status, stdout, _ = orcas("fsck", "--data", dir)
	require.Equal(t, exitFailed, status, "this block contains data")
	require.Contains(t, stdout, "header")
}

func TestFsckRefuses(t *testing.T) {
	status, _, stderr := orcas("fsck")
	require.Equal(t, exitUsage, status, stderr)
	missing := filepath.Join(t.TempDir(), "none")
	status, _, stderr = orcas("fsck", "--data", missing)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "there is no directory "+missing)
	require.NoDirExists(t, missing)
	s := openStore(t, t.TempDir())
	defer s.Close()
	for _, command := range []string{"fsck", "rebuild"} {
		status, _, stderr = orcas(command, "--data", s.Dir)
		require.Equal(t, exitFailed, status)
		require.Contains(t, stderr, "orcas admin fsck")
		require.Contains(t, stderr, fmt.Sprint("process ", os.Getpid()))
	}
}

// TestFsckFindsAndRepairs damages a store in every way that the check can detect, and compares the differences found
// offline, those found by a running server, and those left after a repair. If rows are lost, the repair restores them
// from the blocks; if the records in the blocks are damaged too, it keeps the remaining rows.
func TestFsckFindsAndRepairs(t *testing.T) {
	for name, c := range damages() {
		t.Run(name, func(t *testing.T) { c.findAndRepair(t, true) })
		if c.losesRows() {
			t.Run(name+", without records", func(t *testing.T) { c.findAndRepair(t, false) })
		}
	}
}

// losesRows reports whether the differences show that rows are lost.
func (c damage) losesRows() bool {
	r := fsck.Report{ByKind: map[string]int{}}
	for _, kind := range c.kinds {
		r.ByKind[kind]++
	}
	return r.RowsLost()
}

// findAndRepair damages a store, checks it and repairs it. Without records, a rebuild from the blocks is impossible.
func (c damage) findAndRepair(t *testing.T, records bool) {
	lost := c.losesRows()
	if records && lost {
		c.left, c.gone, c.other = nil, 0, false
	}
	dir := filled(t)
	s := openStore(t, dir)
	_, before := s.contents()
	s.Close()
	c.damage(t, dir)
	if !records {
		spoilRecords(t, dir)
	}
	r, text := fsckJSON(t, dir)
	require.ElementsMatch(t, c.kinds, slices.Collect(maps.Keys(r.Check.ByKind)), text)
	if c.where != "" {
		require.True(t, slices.ContainsFunc(r.Check.Differences, func(d fsck.Difference) bool { return strings.Contains(d.Where, c.where) }), text)
	}
	again, _ := fsckJSON(t, dir)
	require.Equal(t, r.Check.ByKind, again.Check.ByKind, "the first check changed something")
	if records {
		c.compareOnline(t, dir, r.Check)
	}

	r, text = fsckJSON(t, dir, "--repair")
	require.NotNil(t, r.After)
	require.ElementsMatch(t, c.left, slices.Collect(maps.Keys(r.After.ByKind)), text)
	require.FileExists(t, filepath.Join(dir, r.Kept))
	require.FileExists(t, filepath.Join(dir, r.Log))
	require.Equal(t, lost && records, r.Rebuilt != nil, text)
	require.Equal(t, lost && !records, r.NotRebuilt != "", text)
	require.Equal(t, r.Rebuilt == nil, r.Repair != nil, text)
	s = openStore(t, dir)
	defer s.Close()
	if len(c.left) > 0 {
		return
	}
	_, after := s.contents()
	if c.other {
		return
	}
	require.Len(t, after, len(before)-c.gone)
	for name, sum := range after {
		require.Equal(t, before[name], sum, name)
	}
}

// compareOnline compares the differences that a running server finds with those found offline.
func (c damage) compareOnline(t *testing.T, dir string, offline *fsck.Report) {
	online, text := checkOnline(t, dir)
	if c.healed {
		require.Zero(t, online.Found, text)
	} else {
		require.Equal(t, offline.ByKind, online.ByKind, "differences found by a running server: %s", text)
	}
}

// spoilRecords damages the first record of a data directory, so that the database cannot be rebuilt from the blocks.
func spoilRecords(t *testing.T, dir string) {
	storetest.FlipFile(t, blockFiles(t, dir, ".packed")[0], frame.BlockHeaderSize+frame.ShortSize+10)
}

// fsckJSON runs orcas fsck --content on a data directory, and compares the exit status with the report.
func fsckJSON(t *testing.T, dir string, args ...string) (r fsckReport, stdout string) {
	status, stdout, stderr := orcas(append([]string{"fsck", "--data", dir, "--content", "--json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(stdout), &r), stderr)
	last := r.Check
	if r.After != nil {
		last = r.After
	}
	require.Equal(t, last.Found > 0, status == exitFailed, stderr)
	return r, stdout
}

// TestFsckBeforeReplay: changes that wait in the blocks are only counted without --repair, and replayed with it.
func TestFsckBeforeReplay(t *testing.T) {
	dir := filled(t)
	database := filepath.Join(dir, storetest.Database)
	old, err := os.ReadFile(database)
	require.NoError(t, err)
	s := openStore(t, dir)
	plain := s.OpenBucket("plain", 0)
	for i := range 20 {
		s.In(plain).Put(fmt.Sprint("late-", i), s.body(2000))
	}
	s.In(plain).Put("late-large", s.body(200_000))
	s.In(plain).Delete("multipart")
	s.In(plain).Delete("multipart-copy")
	for i := range 5 {
		s.In(plain).Delete(fmt.Sprint("copy-", i))
	}
	s.In(plain).Put("large", nil)
	s.reclaims(false, 1) // deletes only large blocks, as reclaim may before a power cut drops the newest transactions
	want, sums := s.contents()
	s.Close()
	require.NoError(t, os.WriteFile(database, old, 0o600))

	status, stdout, stderr := orcas("fsck", "--data", dir)
	require.Equal(t, exitOK, status, stdout+stderr)
	require.Regexp(t, `\d\d changes wait in the blocks`, stdout)
	require.Contains(t, stdout, "waiting changes may have released it")
	now, err := os.ReadFile(database)
	require.NoError(t, err)
	require.True(t, bytes.Equal(old, now))

	status, stdout, stderr = orcas("fsck", "--data", dir, "--repair", "--content")
	require.Equal(t, exitOK, status, stdout+stderr)
	require.NotContains(t, stdout, "wait")
	s = openStore(t, dir)
	defer s.Close()
	got, gotSums := s.contents()
	require.Equal(t, want, got)
	require.Equal(t, sums, gotSums)
}

// TestFsckOfRelaxedStore: after a power cut the database of a relaxed writer may be ahead of the blocks. A repair
// rebuilds it from the blocks; without a repair, fsck reports only that.
func TestFsckOfRelaxedStore(t *testing.T) {
	s := openWith(t, t.TempDir(), batch.Options{Relaxed: true, Window: time.Hour})
	b := s.OpenBucket("b", core.VersioningOff)
	s.In(b).Put("kept", s.body(1000))
	require.NoError(t, s.Writer.Flush(ctx))
	s.In(b).Put("lost", s.body(1000))
	o, err := s.FS.Stat(ctx, b, "lost", core.Current)
	require.NoError(t, err)
	at := o.Segments[0].Info.Extents[0].Offset
	_, err = s.Meta.Sync(ctx) // the database is ahead of the blocks
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "cut") // the content of the drive after a power cut
	require.NoError(t, os.CopyFS(dir, os.DirFS(s.Dir)))
	s.Close()
	files := blockFiles(t, dir, ".packed")
	require.NoError(t, os.Truncate(files[len(files)-1], at))

	status, stdout, stderr := orcas("fsck", "--data", dir)
	require.Equal(t, exitFailed, status, stdout)
	require.Contains(t, stderr, "ahead of the blocks")
	status, stdout, stderr = orcas("fsck", "--data", dir, "--content", "--repair")
	require.Equal(t, exitOK, status, stdout+stderr)
	s = openStore(t, dir)
	defer s.Close()
	_, sums := s.contents()
	require.Len(t, sums, 1)
	status, _, _ = orcas("fsck", "--data", s.Dir)
	require.Equal(t, exitFailed, status, "in use")
}

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
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/disk"
	"orcas/core/reclaim"
	"orcas/core/sqlite"
	"orcas/vfs"
)

var ctx = context.Background()

// reclaimWriter gives reclaim the write buffer.
type reclaimWriter struct{ *batch.Writer }

func (w reclaimWriter) DoAll(ctx context.Context, writes []reclaim.Write) ([]core.Result, []error) {
	list := make([]batch.Write, len(writes))
	for i, x := range writes {
		list[i] = batch.Write{Change: x.Change, Moved: x.Moved, Fresh: x.Fresh}
	}
	return w.Writer.DoAll(ctx, list)
}

// store is a data directory in use.
type store struct {
	t      *testing.T
	dir    string
	blocks *disk.Store
	meta   *sqlite.Meta
	writer *batch.Writer
	fs     *vfs.FS
	rand   *rand.Rand
}

func openStore(t *testing.T, dir string) *store {
	s := &store{t: t, dir: dir, rand: rand.New(rand.NewPCG(1, 1))}
	var err error
	s.blocks, err = disk.Open(dir, disk.Options{PackedSize: 1 << 20})
	require.NoError(t, err)
	s.meta, err = sqlite.Open(filepath.Join(dir, "metadata.db"), sqlite.Options{})
	require.NoError(t, err)
	s.writer, err = batch.Open(ctx, batch.Options{Meta: s.meta, Blocks: s.blocks})
	require.NoError(t, err)
	s.fs, err = vfs.New(vfs.Options{Meta: s.meta, Blocks: s.blocks, Writer: s.writer})
	require.NoError(t, err)
	return s
}

func (s *store) close() {
	require.NoError(s.t, s.writer.Close())
	require.NoError(s.t, s.meta.Close())
	require.NoError(s.t, s.blocks.Close())
}

func (s *store) bucket(name string, v core.Versioning) *core.BucketInfo {
	b, err := s.fs.Bucket(ctx, name)
	if core.Is(err, core.NoSuchBucket) {
		b, err = s.fs.CreateBucket(ctx, core.BucketInfo{Name: name, Versioning: v})
	}
	require.NoError(s.t, err)
	return b
}

func (s *store) body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rand.Uint32())
	}
	return b
}

func (s *store) put(b *core.BucketInfo, key string, body []byte) {
	c, err := s.fs.NewContent(ctx, b, int64(len(body)))
	require.NoError(s.t, err)
	defer c.Discard()
	_, err = c.ReadFrom(bytes.NewReader(body))
	require.NoError(s.t, err)
	_, err = s.fs.Put(ctx, vfs.PutRequest{Bucket: b, Key: key, Content: c})
	require.NoError(s.t, err)
}

func (s *store) copy(b *core.BucketInfo, from, to string) {
	o, err := s.fs.Stat(ctx, b, from, core.Current)
	require.NoError(s.t, err)
	_, err = s.fs.Copy(ctx, vfs.CopyRequest{SourceBucket: b, Source: o, Bucket: b, Key: to})
	require.NoError(s.t, err)
}

func (s *store) delete(b *core.BucketInfo, key string) {
	s.fs.Delete(ctx, b, "", []vfs.DeleteRequest{{Key: key}})
}

// multipart writes an object of two parts.
func (s *store) multipart(b *core.BucketInfo, key string, complete bool) {
	u, err := s.fs.CreateUpload(ctx, b, core.UploadInfo{Key: key})
	require.NoError(s.t, err)
	var parts []vfs.CompletedPart
	for n, size := range []int{5 << 20, 3000} {
		body := s.body(size)
		c, err := s.fs.NewContent(ctx, b, int64(size))
		require.NoError(s.t, err)
		_, err = c.ReadFrom(bytes.NewReader(body))
		require.NoError(s.t, err)
		p, err := s.fs.PutPart(ctx, vfs.PartRequest{Bucket: b, Key: key, Upload: u.ID, Number: n + 1, Content: c})
		require.NoError(s.t, err)
		c.Discard()
		parts = append(parts, vfs.CompletedPart{Number: n + 1, ETag: p.ETag})
	}
	if complete {
		_, err = s.fs.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: b, Key: key, Upload: u.ID, Parts: parts, Size: -1})
		require.NoError(s.t, err)
	}
}

// fill writes some of everything.
func (s *store) fill() {
	s.fillQuota()
	plain, versioned := s.bucket("plain", core.VersioningOff), s.bucket("versioned", core.VersioningEnabled)
	for i := range 30 {
		s.put(plain, fmt.Sprint("small-", i), s.body(1+s.rand.IntN(5000)))
		s.put(versioned, fmt.Sprint("v-", i%10), s.body(1+s.rand.IntN(5000)))
	}
	s.put(plain, "large", s.body(300_000))
	s.put(plain, "empty", nil)
	for i := range 5 {
		s.delete(plain, fmt.Sprint("small-", i))
		s.delete(versioned, fmt.Sprint("v-", i))
		s.copy(plain, "large", fmt.Sprint("copy-", i))
	}
	s.put(versioned, "v-1", s.body(100))
	s.multipart(plain, "multipart", true)
	s.copy(plain, "multipart", "multipart-copy")
	s.multipart(plain, "unfinished", false)
}

// fillQuota fills a bucket up to its quota.
func (s *store) fillQuota() {
	b := s.bucket("bounded", core.VersioningEnabled)
	if b.Quota.IsZero() {
		s.put(b, "before", s.body(1000))
	}
	b, err := s.fs.UpdateBucket(ctx, b.Name, func(b *core.BucketInfo) error {
		b.Quota = core.Quota{Bytes: 5000, Objects: 4}
		return nil
	})
	require.NoError(s.t, err)
	for s.fs.Room(ctx, b, "key", 1000) == nil {
		s.put(b, "key", s.body(1000))
	}
	s.delete(b, "key")
	held, err := s.fs.Usage(ctx, b)
	require.NoError(s.t, err)
	require.Equal(s.t, core.Usage{Bytes: 4000, Objects: 4}, held)
}

// reclaims makes a round.
func (s *store) reclaims(full bool, deadShare float64) {
	r, err := reclaim.New(ctx, reclaim.Options{
		Meta: s.meta, Blocks: s.blocks, Writer: reclaimWriter{s.writer}, Quiet: s.fs.Quiet, DeadShare: deadShare,
	})
	require.NoError(s.t, err)
	_, err = r.Round(ctx, full)
	require.NoError(s.t, err)
}

// contents reads everything: metadata, and the bytes of every version by their hash.
func (s *store) contents() (*coretest.MetaState, map[string][32]byte) {
	state, err := coretest.ReadMeta(ctx, s.meta)
	require.NoError(s.t, err)
	state.Check(s.t)
	sums := map[string][32]byte{}
	for i := range state.Buckets {
		b := &state.Buckets[i]
		for _, v := range b.Versions {
			if v.Marker {
				continue
			}
			o, err := s.fs.Open(ctx, &b.Info, v.Key, v.Version())
			require.NoError(s.t, err)
			section, err := o.Range(ctx, 0, o.Info.Size)
			require.NoError(s.t, err)
			h := sha256.New()
			_, err = section.WriteTo(h)
			require.NoError(s.t, err)
			section.Close()
			o.Close()
			sums[fmt.Sprint(b.Info.Name, "/", v.Key, "/", v.Version())] = [32]byte(h.Sum(nil))
		}
	}
	return state.Comparable(), sums
}

// filled makes a data directory.
func filled(t *testing.T) string {
	dir := t.TempDir()
	s := openStore(t, dir)
	s.fill()
	s.close()
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
	db, err := sql.Open("sqlite3", filepath.Join(dir, "metadata.db"))
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

// blockFiles returns the files of blocks of a kind, in order.
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

// flip turns a bit of a file.
func flip(t *testing.T, path string, at int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, err)
}

func TestFsckOfSoundStore(t *testing.T) {
	dir := filled(t)
	before, err := os.ReadFile(filepath.Join(dir, "metadata.db"))
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
	after, err := os.ReadFile(filepath.Join(dir, "metadata.db"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(before, after), "the database is as it was")
}

// TestFsckOfBlockThatWasBegun: a block whose creation was cut off, in its header or before, is no damage.
func TestFsckOfBlockThatWasBegun(t *testing.T) {
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
	require.Equal(t, exitFailed, status, "that one was in use")
	require.Contains(t, stdout, "header")
}

func TestFsckRefuses(t *testing.T) {
	status, _, stderr := orcas("fsck")
	require.Equal(t, exitUsage, status, stderr)
	missing := filepath.Join(t.TempDir(), "none")
	status, _, stderr = orcas("fsck", "--data", missing)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "no data directory")
	require.NoDirExists(t, missing)
	s := openStore(t, t.TempDir())
	defer s.close()
	for _, command := range []string{"fsck", "rebuild"} {
		status, _, stderr = orcas(command, "--data", s.dir)
		require.Equal(t, exitFailed, status)
		require.Contains(t, stderr, "orcas admin fsck")
		require.Contains(t, stderr, fmt.Sprint("process ", os.Getpid()))
	}
}

// TestFsckFindsAndRepairs damages a store in every way that the check knows, and holds it to what it says and to what is left after a repair.
func TestFsckFindsAndRepairs(t *testing.T) {
	cases := map[string]struct {
		damage func(t *testing.T, dir string)
		kinds  []string // found
		left   []string // after the repair
		gone   int      // versions that cannot be kept
		where  string   // named
	}{
		"references": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "UPDATE data SET refs = refs + 1 WHERE id = (SELECT max(data) FROM objects)")
			},
			kinds: []string{reclaim.KindReferences}, where: "versioned/",
		},
		"references to a list": {
			damage: func(t *testing.T, dir string) { change(t, dir, "DELETE FROM parts WHERE number = 2") },
			kinds:  []string{reclaim.KindUnused, reclaim.KindSize}, left: []string{reclaim.KindSize},
		},
		"content that several share is gone": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM data WHERE object IS NOT NULL AND refs = 6")
			},
			kinds: []string{reclaim.KindRow, reclaim.KindNoContent}, gone: 6, where: "copy-4",
		},
		"content of a part is gone": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM data WHERE object IS NULL AND id = (SELECT min(id) FROM data WHERE object IS NULL)")
			},
			kinds: []string{reclaim.KindNoContent}, gone: 2, where: "multipart-copy",
		},
		"a damaged row": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "UPDATE data SET info = x'0102030405' WHERE id = (SELECT max(data) FROM objects)")
			},
			kinds: []string{reclaim.KindRow}, gone: 1, where: "v-1",
		},
		"not listed": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "INSERT INTO history SELECT bucket, key, seq, nullver, data FROM objects WHERE key = x'76' || '-7' OR key = CAST('v-7' AS BLOB)",
					"DELETE FROM objects WHERE key = CAST('v-7' AS BLOB)")
			},
			kinds: []string{reclaim.KindLatest}, where: "v-7",
		},
		"an old version listed": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "CREATE TABLE t AS SELECT * FROM objects WHERE key = CAST('v-8' AS BLOB)",
					"UPDATE objects SET (seq, nullver, data) = (SELECT seq, nullver, data FROM history h WHERE h.key = objects.key ORDER BY seq LIMIT 1) WHERE key = CAST('v-8' AS BLOB)",
					"DELETE FROM history WHERE (bucket, key, seq) IN (SELECT bucket, key, seq FROM objects)",
					"INSERT INTO history SELECT * FROM t", "DROP TABLE t")
			},
			kinds: []string{reclaim.KindLatest, reclaim.KindEngine}, where: "v-8",
		},
		"no bucket": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM buckets WHERE name = CAST('versioned' AS BLOB)")
			},
			kinds: []string{reclaim.KindBucket},
		},
		"a list that nobody has": {
			damage: func(t *testing.T, dir string) { change(t, dir, "DELETE FROM uploads") },
			kinds:  []string{reclaim.KindList},
		},
		"a tally": {
			damage: func(t *testing.T, dir string) { change(t, dir, "UPDATE tallies SET objects = 3") },
			kinds:  []string{reclaim.KindEngine},
		},
		"no tally": {
			damage: func(t *testing.T, dir string) { change(t, dir, "DELETE FROM tallies") },
			kinds:  []string{reclaim.KindEngine},
		},
		"born with nothing": {
			damage: func(t *testing.T, dir string) {
				change(t, dir, "DELETE FROM objects WHERE key = CAST('small-9' AS BLOB)")
			},
			kinds: []string{reclaim.KindEngine},
		},
		"a block is gone": {
			damage: func(t *testing.T, dir string) { require.NoError(t, os.Remove(blockFiles(t, dir, ".large")[0])) },
			kinds:  []string{reclaim.KindNoBlock}, left: []string{reclaim.KindNoBlock}, where: "plain/\"copy-0\"",
		},
		"a block is cut": {
			damage: func(t *testing.T, dir string) {
				require.NoError(t, os.Truncate(blockFiles(t, dir, ".large")[0], 100_000))
			},
			kinds: []string{reclaim.KindExtent, reclaim.KindContent}, left: []string{reclaim.KindExtent, reclaim.KindContent},
		},
		"the header of a block": {
			damage: func(t *testing.T, dir string) { flip(t, blockFiles(t, dir, ".packed")[0], 20) },
			kinds:  []string{reclaim.KindHeader}, left: []string{reclaim.KindHeader},
		},
		"content": {
			damage: func(t *testing.T, dir string) { flip(t, blockFiles(t, dir, ".large")[1], 1_000_000) },
			kinds:  []string{reclaim.KindContent}, left: []string{reclaim.KindContent}, where: "part 1",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filled(t)
			s := openStore(t, dir)
			_, before := s.contents()
			s.close()
			c.damage(t, dir)
			check := func(args ...string) (fsckReport, string) {
				status, stdout, stderr := orcas(append([]string{"fsck", "--data", dir, "--content", "--json"}, args...)...)
				var r fsckReport
				require.NoError(t, json.Unmarshal([]byte(stdout), &r), stderr)
				last := r.Check
				if r.After != nil {
					last = r.After
				}
				require.Equal(t, last.Found > 0, status == exitFailed, stderr)
				return r, stdout
			}
			r, text := check()
			require.ElementsMatch(t, c.kinds, slices.Collect(maps.Keys(r.Check.ByKind)), text)
			if c.where != "" {
				require.True(t, slices.ContainsFunc(r.Check.Differences, func(d reclaim.Difference) bool { return strings.Contains(d.Where, c.where) }), text)
			}
			again, _ := check()
			require.Equal(t, r.Check.ByKind, again.Check.ByKind, "a check changes nothing")

			r, text = check("--repair")
			require.NotNil(t, r.After)
			require.ElementsMatch(t, c.left, slices.Collect(maps.Keys(r.After.ByKind)), text)
			require.FileExists(t, filepath.Join(dir, r.Kept))
			require.FileExists(t, filepath.Join(dir, r.Log))
			s = openStore(t, dir)
			defer s.close()
			if len(c.left) > 0 {
				return
			}
			_, after := s.contents()
			if name == "no bucket" || name == "born with nothing" {
				return // under another name; and what nothing says the key of
			}
			require.Len(t, after, len(before)-c.gone)
			for name, sum := range after {
				require.Equal(t, before[name], sum, name)
			}
		})
	}
}

// TestFsckBeforeReplay: what waits in the blocks is counted and left alone without --repair, and comes back with it.
func TestFsckBeforeReplay(t *testing.T) {
	dir := filled(t)
	database := filepath.Join(dir, "metadata.db")
	old, err := os.ReadFile(database)
	require.NoError(t, err)
	s := openStore(t, dir)
	plain := s.bucket("plain", 0)
	for i := range 20 {
		s.put(plain, fmt.Sprint("late-", i), s.body(2000))
	}
	s.put(plain, "late-large", s.body(200_000))
	s.delete(plain, "multipart")
	s.delete(plain, "multipart-copy")
	for i := range 5 {
		s.delete(plain, fmt.Sprint("copy-", i))
	}
	s.put(plain, "large", nil)
	s.reclaims(false, 1) // only large blocks go, as they may before a power cut takes the newest of the database
	want, sums := s.contents()
	s.close()
	require.NoError(t, os.WriteFile(database, old, 0o600))

	status, stdout, stderr := orcas("fsck", "--data", dir)
	require.Equal(t, exitOK, status, stdout+stderr)
	require.Regexp(t, `\d\d changes wait in the blocks`, stdout)
	require.Contains(t, stdout, "changes that wait may have let go of it")
	now, err := os.ReadFile(database)
	require.NoError(t, err)
	require.True(t, bytes.Equal(old, now))

	status, stdout, stderr = orcas("fsck", "--data", dir, "--repair", "--content")
	require.Equal(t, exitOK, status, stdout+stderr)
	require.NotContains(t, stdout, "wait")
	s = openStore(t, dir)
	defer s.close()
	got, gotSums := s.contents()
	require.Equal(t, want, got)
	require.Equal(t, sums, gotSums)
}

// TestFsckOfOldDatabase: a database that somebody put back from long ago lacks changes whose records reclaim has freed since.
func TestFsckOfOldDatabase(t *testing.T) {
	dir := filled(t)
	database := filepath.Join(dir, "metadata.db")
	old, err := os.ReadFile(database)
	require.NoError(t, err)
	s := openStore(t, dir)
	for i := range 30 {
		s.put(s.bucket("plain", 0), fmt.Sprint("late-", i), s.body(2000))
		s.delete(s.bucket("plain", 0), fmt.Sprint("late-", i))
	}
	s.reclaims(true, 0)
	s.close()
	require.NoError(t, os.WriteFile(database, old, 0o600))
	status, stdout, _ := orcas("fsck", "--data", dir)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stdout, "gap: changes ")
}

// TestFsckOfRelaxedStore: after a power cut the database of a relaxed writer may be ahead of the blocks. It is made again from them by a repair, and nothing
// else is said about it before.
func TestFsckOfRelaxedStore(t *testing.T) {
	s := openStore(t, t.TempDir())
	require.NoError(t, s.writer.Close())
	var err error
	s.writer, err = batch.Open(ctx, batch.Options{Meta: s.meta, Blocks: s.blocks, Relaxed: true, Window: time.Hour})
	require.NoError(t, err)
	s.fs, err = vfs.New(vfs.Options{Meta: s.meta, Blocks: s.blocks, Writer: s.writer})
	require.NoError(t, err)
	b := s.bucket("b", core.VersioningOff)
	s.put(b, "kept", s.body(1000))
	require.NoError(t, s.writer.Flush(ctx))
	s.put(b, "lost", s.body(1000))
	o, err := s.fs.Stat(ctx, b, "lost", core.Current)
	require.NoError(t, err)
	at := o.Segments[0].Info.Extents[0].Offset
	dir := filepath.Join(t.TempDir(), "cut") // what is on the drive when the power goes
	require.NoError(t, os.CopyFS(dir, os.DirFS(s.dir)))
	s.close()
	files := blockFiles(t, dir, ".packed")
	require.NoError(t, os.Truncate(files[len(files)-1], at))

	status, stdout, stderr := orcas("fsck", "--data", dir)
	require.Equal(t, exitFailed, status, stdout)
	require.Contains(t, stderr, "ahead of what a power cut left")
	status, stdout, stderr = orcas("fsck", "--data", dir, "--content", "--repair")
	require.Equal(t, exitOK, status, stdout+stderr)
	s = openStore(t, dir)
	defer s.close()
	_, sums := s.contents()
	require.Len(t, sums, 1)
	status, _, _ = orcas("fsck", "--data", s.dir)
	require.Equal(t, exitFailed, status, "in use")
}

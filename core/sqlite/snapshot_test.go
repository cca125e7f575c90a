package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/encoding"
	"orcas/core/mem"
	"orcas/core/snapshot"
)

// TestHiddenRows flips bits of pages. A snapshot either fails or has the same rows as before: a page from which rows have
// disappeared is always noticed.
func TestHiddenRows(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningEnabled)
	at := time.UnixMilli(1_790_000_000_000).UTC()
	f.fill(0, 600)
	f.fill(0, 300) // in history
	for i := range 200 {
		name := fmt.Sprintf("%04d", i)
		f.apply(
			&core.PutBucket{Info: core.BucketInfo{Name: "bucket-" + name, Created: at}},
			&core.DeleteObject{Bucket: f.bucket, Key: benchKey(300 + i), Modified: at}, // in infos
			&core.CreateUpload{Upload: core.UploadInfo{Bucket: f.bucket, Key: "upload-" + name, Initiated: at}},
			&core.PutRecord{Record: core.Record{Kind: "kind", Key: name, Value: []byte(strings.Repeat(name, 20))}},
		)
		part := f.put("")
		f.apply(&core.PutPart{Bucket: f.bucket, Key: "upload-" + name, Upload: core.UploadID(f.seq - 1),
			Part: core.PartInfo{Number: 1, Modified: at, Size: 100, ETag: "e", Segments: part.Object.Segments}})
		o, err := f.m.Object(context.Background(), f.bucket, benchKey(i), core.Current)
		require.NoError(t, err)
		f.apply(&core.DeleteObject{Bucket: f.bucket, Key: benchKey(i), Version: o.Version(), Modified: at}) // garbage
	}
	want, err := coretest.Rows(context.Background(), f.m)
	require.NoError(t, err)
	require.NoError(t, f.m.Close())
	path := filepath.Join(dir, "meta.db")
	pristine, err := os.ReadFile(path)
	require.NoError(t, err)

	flips := 400
	if testing.Short() {
		flips = 150
	}
	random := rand.New(rand.NewPCG(1, 2))
	opened, failed := 0, 0
	for range flips {
		page := 1 + random.IntN(len(pristine)/pageSize-1)
		// Most flips are in the header of the page (its type, the number of its cells, its rightmost child) and in the
		// first cell pointers.
		offset := []int{random.IntN(12), 3 + random.IntN(2), 12 + random.IntN(12), random.IntN(pageSize)}[random.IntN(4)]
		broken := append([]byte(nil), pristine...)
		broken[page*pageSize+offset] ^= 1 << random.IntN(8)
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		m, err := Open(path, Options{dumpRows: 64})
		if err != nil {
			continue
		}
		opened++
		got, err := coretest.Rows(context.Background(), m)
		if err != nil {
			failed++
			require.True(t, core.Is(err, core.Damaged), "%v", err)
		} else {
			coretest.SameRows(t, want, got, fmt.Sprintf("after a flip at offset %d of page %d", offset, page))
		}
		_ = m.Close()
	}
	require.Greater(t, opened, flips/2)
	require.Greater(t, failed, flips/10)
}

// TestImagesCannotBeSaved: a snapshot that cannot create the file for images fails, and later ones are not affected.
func TestImagesCannotBeSaved(t *testing.T) {
	dir := t.TempDir()
	f := feed(t, openAt(t, dir, Options{}), core.VersioningOff)
	f.fill(0, 10)
	want, err := coretest.Rows(context.Background(), f.m)
	require.NoError(t, err)
	blocked := filepath.Join(dir, "meta.db-images")
	require.NoError(t, os.Mkdir(blocked, 0o700))
	_, err = coretest.Rows(context.Background(), f.m)
	require.Error(t, err)
	require.NoError(t, os.Remove(blocked))
	got, err := coretest.Rows(context.Background(), f.m)
	require.NoError(t, err)
	coretest.SameRows(t, want, got, "after a failed snapshot")
}

// TestImagesAreRolledBack: if the transaction that saved images is rolled back, its changes are undone with them, and
// both come back when its changes are applied again.
func TestImagesAreRolledBack(t *testing.T) {
	f := feed(t, openAt(t, t.TempDir(), Options{changes: 100, dumpRows: 1}), core.VersioningEnabled)
	f.fill(0, 20)
	want, err := coretest.Rows(context.Background(), f.m)
	require.NoError(t, err)
	var got [][]byte
	require.NoError(t, f.m.Snapshot(context.Background(), func(r *core.Row) error {
		got = append(got, encoding.AppendRow(nil, r))
		f.apply(f.put(benchKey(len(got)%20)), &core.DeleteObject{Bucket: f.bucket, Key: benchKey((7 * len(got)) % 20)})
		if len(got)%3 == 0 {
			f.m.mu.Lock()
			defer f.m.mu.Unlock()
			f.m.rollBack(errors.New("a failed statement"), false)
			require.NoError(t, f.m.stopped)
		}
		return nil
	}))
	coretest.SameRows(t, want, got, "beside rollbacks")
}

// TestImagesOnAFullDrive: if the drive is full at the end of a snapshot, its triggers are deleted when there is space
// again, at the latest by the next snapshot, which is exact.
func TestImagesOnAFullDrive(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Skip("cannot mount a tmpfs: ", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	ballast := filepath.Join(dir, "ballast")
	f := feed(t, openAt(t, dir, Options{changes: transactionChanges}), core.VersioningOff)
	f.fill(0, 100)
	filled := false
	require.NoError(t, f.m.Snapshot(context.Background(), func(*core.Row) error {
		if filled {
			return nil
		}
		filled = true
		for i := range 500 {
			f.apply(f.put(fmt.Sprint(i, strings.Repeat("k", 900))))
		}
		err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600)
		require.ErrorIs(t, err, unix.ENOSPC)
		return nil
	}))
	imaged := func() bool {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		return f.m.imaged != nil
	}
	require.True(t, imaged(), "the commit before the triggers are deleted has failed")
	_, err := coretest.Rows(context.Background(), f.m)
	require.True(t, core.Is(err, core.NoSpace), "%v", err)
	require.NoError(t, os.Remove(ballast))
	rows, err := coretest.Rows(context.Background(), f.m)
	require.NoError(t, err)
	require.Len(t, rows, 2+600)
	require.False(t, imaged())
	require.NoError(t, f.m.Close())
}

// A snapshot rests after each range if there was other work meanwhile.
func TestSnapshotRests(t *testing.T) {
	var rests []time.Duration
	m := openAt(t, t.TempDir(), Options{dumpRows: 10, rested: func(d time.Duration) { rests = append(rests, d) }})
	f := feed(t, m, core.VersioningOff)
	f.fill(0, 100)
	for _, others := range []int64{0, 1_000_000} {
		rests = nil
		require.NoError(t, m.Snapshot(context.Background(), func(*core.Row) error {
			m.worked.Add(others)
			time.Sleep(100 * time.Microsecond) // a range takes more than a millisecond
			return nil
		}))
		require.Greater(t, len(rests), 20, "two tables have eleven ranges")
		require.Equal(t, others > 0, slices.Max(rests) > 0)
		require.Zero(t, slices.Max(rests[:earlyRanges]), "a small store")
	}

	const took = 20 * time.Millisecond
	require.Zero(t, rest(took, 20, 0), "little other work")
	require.Zero(t, rest(999*time.Microsecond, 20, 0), "a short range")
	require.Equal(t, 4*took, rest(took, 21, 0))
	require.Equal(t, 2*took, rest(took, 21, maxImageBytes/8))
	require.Zero(t, rest(took, 1000, maxImageBytes/4), "the images grow")
	require.Zero(t, rest(took, 1000, maxImageBytes))
}

// BenchmarkSnapshot reads all rows of a database. With random keys, the content of neighboring versions is spread over
// the table data.
func BenchmarkSnapshot(b *testing.B) {
	const keys = 300_000
	for _, order := range []string{"sequential", "random"} {
		b.Run(order, func(b *testing.B) {
			f := feed(b, openAt(b, b.TempDir(), Options{changes: transactionChanges}), core.VersioningOff)
			for i := 0; i < keys; i += 100 {
				var changes []core.Change
				for key := i; key < i+100; key++ {
					if order == "random" {
						changes = append(changes, f.put(benchKey(key*7919%keys)))
					} else {
						changes = append(changes, f.put(benchKey(key)))
					}
				}
				f.apply(changes...)
			}
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				rows := 0
				require.NoError(b, f.m.Snapshot(context.Background(), func(*core.Row) error { rows++; return nil }))
				require.Equal(b, keys+2, rows)
			}
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N)/keys, "cpu-ns/row")
		})
	}
}

// BenchmarkSnapshotStored writes a snapshot to a block and reads it back, as reclaim does. The checksums are random, as
// those of real content. Beside that it measures the records of the same number of changes.
func BenchmarkSnapshotStored(b *testing.B) {
	const keys = 100_000
	for _, order := range []string{"sequential", "random"} {
		b.Run(order, func(b *testing.B) {
			ctx := context.Background()
			f := feed(b, openAt(b, b.TempDir(), Options{changes: transactionChanges}), core.VersioningOff)
			recordBytes := 0
			n := scale(b, keys)
			for i := 0; i < n; i += 20 {
				var changes []core.Change
				for key := i; key < i+20; key++ {
					if order == "random" {
						changes = append(changes, f.putRandomSums(benchKey(key*7919%n)))
					} else {
						changes = append(changes, f.putRandomSums(benchKey(key)))
					}
				}
				f.apply(changes...)
				recordBytes += len(s2.Encode(nil, encoding.AppendChanges(nil, changes)))
			}
			var wrote, read time.Duration
			var info *snapshot.Info
			b.ReportAllocs()
			for b.Loop() {
				blocks := mem.NewBlocks()
				began := cpuTime()
				var err error
				info, err = snapshot.Write(ctx, f.m, blocks, snapshot.WriteOptions{})
				require.NoError(b, err)
				written := cpuTime()
				require.NoError(b, snapshot.Read(ctx, blocks, info, nil))
				wrote, read = wrote+written-began, read+cpuTime()-written
				require.NoError(b, blocks.Close())
			}
			rows := float64(b.N) * float64(info.Rows)
			b.ReportMetric(float64(wrote)/rows, "write-cpu-ns/row")
			b.ReportMetric(float64(read)/rows, "read-cpu-ns/row")
			b.ReportMetric(float64(info.Size)/float64(info.Rows), "B/row")
			b.ReportMetric(float64(recordBytes)/float64(n), "record-B/change")
		})
	}
}

// putRandomSums is like put, but the content has random checksums.
func (f *feeder) putRandomSums(key string) *core.PutObject {
	c := f.put(key)
	d := c.Object.Segments[0].Info
	d.SHA256 = sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(d.ID)))
	more := sha256.Sum256(d.SHA256[:])
	copy(d.Sums[0].Value, more[:])
	copy(d.Sums[1].Value, more[16:]) // the object has the same slice
	c.Object.ETag = hex.EncodeToString(d.Sums[0].Value)
	return c
}

package content_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/reclaim"
	"orcas/storetest"
	"orcas/vfs"
)

// begin opens a key, which reads only its first frame.
func begin(y *storetest.Store, key string) *content.Section {
	y.T.Helper()
	o, err := y.FS.Open(ctx, y.Bucket, key, core.Current)
	require.NoError(y.T, err)
	defer o.Close()
	s, err := o.Range(ctx, 0, o.Info.Size)
	require.NoError(y.T, err)
	return s
}

// TestPinnedContentStays checks that reclaim keeps the content that a slow reader has not read yet, frees all other
// garbage, and does not wait. Once the last byte has been read, reclaim frees the pinned content too, even if the
// Section is still open.
func TestPinnedContentStays(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(y *storetest.Store)
	}{
		{"large", func(y *storetest.Store) { y.Set("key", storetest.Filler(1, 900_000)) }},
		{"packed", func(y *storetest.Store) {
			y.Packing(1 << 20) // the content is incompressible, so that later content is written to another block
			y.Set("key", storetest.Random(1, 900_000))
			y.Set("neighbor", storetest.Random(2, 700_000))
		}},
		{"appended", func(y *storetest.Store) {
			y.Set("key", storetest.Filler(1, 300_000))
			for i := range 5 {
				y.Extend("key", storetest.Filler(uint64(2+i), 300_000))
			}
		}},
		{"parts", func(y *storetest.Store) { y.Multipart("key") }},
		{"parts and more", func(y *storetest.Store) {
			y.Multipart("key")
			y.Extend("key", storetest.Filler(9, 300_000))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			y := storetest.Open(t, storetest.Options{})
			c.write(y)
			body := y.Want["key"]
			s := begin(y, "key")
			defer s.Close()
			y.Remove("key")
			for range 3 {
				y.Set("other", storetest.Random(y.Rand.Uint64(), 400_000))
				y.Remove("other")
				report := y.Full()
				require.GreaterOrEqual(t, report.BytesFreed, int64(400_000), "other garbage was not freed")
				require.GreaterOrEqual(t, report.PinnedBytes, int64(len(body)/10), "pinned content was freed")
				require.Positive(t, report.OldestReader)
				status := y.Reclaimer.Status()
				require.Equal(t, report.PinnedBytes, status.PinnedBytes)
				require.Equal(t, 1, status.Readers)
				require.Positive(t, status.OldestReader)
				y.Check()
			}
			got := make([]byte, len(body))
			_, err := io.ReadFull(s, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, got))
			report := y.Full() // s is not closed yet
			require.Zero(t, report.PinnedBytes)
			require.Zero(t, y.Reclaimer.Status().Readers)
			y.Full() // deleting a segment list creates garbage
			all, live := y.Used()
			require.Less(t, all, live+live/7+256<<10)
			y.Check()
			y.Rebuilds(y.Blocks)
		})
	}
}

// TestSmallReadsPinNothing checks that content of a single frame is not pinned: it is read completely before Range
// returns.
func TestSmallReadsPinNothing(t *testing.T) {
	y := storetest.Open(t, storetest.Options{})
	body := storetest.Filler(1, 256<<10)
	y.Set("key", body)
	s := begin(y, "key")
	defer s.Close()
	require.Zero(t, y.Reclaimer.Status().Readers)
	y.Remove("key")
	report := y.Full()
	require.GreaterOrEqual(t, report.BytesFreed, int64(len(body)/5))
	require.Zero(t, report.PinnedBytes)
	got, err := io.ReadAll(s)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
}

// TestOnlyWhatIsNeededIsPinned checks that a reader does not pin content after the end of its range, and that it unpins
// content once it has read it.
func TestOnlyWhatIsNeededIsPinned(t *testing.T) {
	y := storetest.Open(t, storetest.Options{})
	const piece = 600_000
	y.Set("key", storetest.Random(1, piece))
	for i := range 4 {
		y.Extend("key", storetest.Random(uint64(2+i), piece))
	}
	body := y.Want["key"]
	o, err := y.FS.Open(ctx, y.Bucket, "key", core.Current)
	require.NoError(t, err)
	s, err := o.Range(ctx, piece+1, 2*piece) // in the second, third and fourth pieces
	require.NoError(t, err)
	defer s.Close()
	y.Remove("key")
	pieces := func() int64 { return (y.Full().PinnedBytes + piece/2) / piece }
	require.EqualValues(t, 3, pieces())
	got := make([]byte, 2*piece)
	_, err = io.ReadFull(s, got[:piece])
	require.NoError(t, err)
	require.EqualValues(t, 2, pieces())
	_, err = io.ReadFull(s, got[piece:])
	require.NoError(t, err)
	require.Zero(t, pieces())
	require.True(t, bytes.Equal(body[piece+1:][:2*piece], got))
}

// TestAnotherRange checks that further ranges of an open object can be read until it is overwritten.
func TestAnotherRange(t *testing.T) {
	y := storetest.Open(t, storetest.Options{})
	body := storetest.Filler(1, 1000)
	y.Set("key", body)
	o, err := y.FS.Open(ctx, y.Bucket, "key", core.Current)
	require.NoError(t, err)
	defer o.Close()
	for off := range int64(2) {
		s, err := o.Range(ctx, off, 500)
		require.NoError(t, err)
		got, err := io.ReadAll(s)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.True(t, bytes.Equal(body[off:][:500], got))
	}
	y.Set("key", storetest.Filler(2, 1000))
	_, err = o.Range(ctx, 0, 500)
	require.Equal(t, core.Conflict, core.KindOf(err), "the object was overwritten: %v", err)
}

// TestListsArePinnedAsAWhole reads an object with a long segment list, in several pages, after the object was deleted.
// Between the pages, all its content is moved.
func TestListsArePinnedAsAWhole(t *testing.T) {
	y := storetest.Open(t, storetest.Options{})
	y.Packing(1 << 20)
	const sources, parts, size, pieces = 3, 262, vfs.MinPartSize, 8
	id := y.Upload("key", core.UploadInfo{})
	var bodies [sources][]byte
	for i := range bodies {
		appended := fmt.Sprint("appended-", i)
		for n := range pieces {
			junk := fmt.Sprint("junk-", i, "-", n)
			y.Set(junk, storetest.Random(uint64(100+n), 200_000)) // garbage between the pieces
			if n == 0 {
				y.Set(appended, storetest.Random(uint64(i), size/pieces))
			} else {
				y.Extend(appended, storetest.Random(uint64(8*n+i), size/pieces))
			}
		}
		bodies[i] = y.Want[appended]
		o, err := y.FS.Stat(ctx, y.Bucket, appended, core.Current)
		require.NoError(t, err)
		_, err = y.FS.Copy(ctx, vfs.CopyRequest{SourceBucket: y.Bucket, Source: o, Bucket: y.Bucket, Key: fmt.Sprint("source-", i)}) // this computes its MD5
		require.NoError(t, err)
		y.Remove(appended)
	}
	var chosen []vfs.CompletedPart
	for n := 1; n <= parts; n++ {
		source, err := y.FS.Stat(ctx, y.Bucket, fmt.Sprint("source-", n%sources), core.Current)
		require.NoError(t, err)
		p, err := y.FS.CopyPart(ctx, vfs.CopyPartRequest{Source: source, Length: size, Bucket: y.Bucket, Key: "key", Upload: id, Number: n})
		require.NoError(t, err)
		chosen = append(chosen, vfs.CompletedPart{Number: n, ETag: p.ETag})
	}
	_, err := y.FS.CompleteUpload(ctx, vfs.CompleteRequest{Bucket: y.Bucket, Key: "key", Upload: id, Parts: chosen, Size: -1})
	require.NoError(t, err)

	// Both runs begin in one page and end in the next.
	var runs [2]*content.Section
	first := [2]int{126, 254}
	for i := range runs {
		o, err := y.FS.Open(ctx, y.Bucket, "key", core.Current)
		require.NoError(t, err)
		runs[i], err = o.Range(ctx, int64(first[i])*size, 5*size)
		require.NoError(t, err)
		defer runs[i].Close()
	}
	y.Remove("key")
	for i := range sources {
		y.Remove(fmt.Sprint("source-", i))
	}
	for _, key := range slices.Sorted(maps.Keys(y.Want)) { // only junk remains
		y.Remove(key)
	}
	got, moved := make([]byte, size), int64(0)
	for n := range 5 {
		report := y.Full()
		moved += report.BytesMoved
		if n <= 2 {
			require.GreaterOrEqual(t, report.PinnedBytes, int64(parts*size))
		} else { // both runs have read their last page
			require.Positive(t, report.PinnedBytes)
			require.Less(t, report.PinnedBytes, int64(parts*size))
		}
		for i, s := range runs {
			_, err := io.ReadFull(s, got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(bodies[(first[i]+n+1)%sources], got), "part %d", first[i]+n+1)
		}
	}
	require.GreaterOrEqual(t, moved, int64(size), "the content of the second pages was not moved")
	require.Zero(t, y.Reclaimer.Status().Readers)
	y.Full()
	y.Full()
	all, _ := y.Used()
	require.Less(t, all, int64(1<<20))
}

// piece returns content that can be verified by itself: a seed, a length, and bytes derived from them.
func piece(seed uint64, n int) []byte {
	b := storetest.Random(seed, n)
	binary.BigEndian.PutUint64(b, seed)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	return b
}

// checkPieces checks that b consists of intact pieces.
func checkPieces(b []byte) error {
	for at := 0; at < len(b); {
		if len(b)-at < 16 {
			return fmt.Errorf("the piece at offset %d is truncated", at)
		}
		seed, n := binary.BigEndian.Uint64(b[at:]), binary.BigEndian.Uint64(b[at+8:])
		if n > uint64(len(b)-at) || !bytes.Equal(b[at:at+int(n)], piece(seed, int(n))) {
			return fmt.Errorf("the piece at offset %d of %d is damaged", at, len(b))
		}
		at += int(n)
	}
	return nil
}

// TestSlowReaders has readers pause at random while the keys are overwritten, appended to, moved and deleted, and while
// reclaim runs. Each reader must read one version to its end.
func TestSlowReaders(t *testing.T) {
	y := storetest.Open(t, storetest.Options{Dir: t.TempDir(), Reclaim: reclaim.Options{DeadShare: 0.05}})
	y.Packing(400_000)
	background, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	var reads, pins atomic.Int64
	for i := range 6 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for background.Err() == nil {
				got, err := slowly(y, r, fmt.Sprint(r.IntN(12)), &pins)
				if core.Is(err, core.NoSuchKey) {
					continue
				}
				if err == nil {
					err = checkPieces(got)
				}
				if err != nil {
					t.Errorf("reader %d: %v", i, err)
					return
				}
				reads.Add(1)
			}
		})
	}
	r := rand.New(rand.NewPCG(6, 6))
	freed, moved := 0, int64(0)
	for round := range 24 {
		for range 12 {
			key := fmt.Sprint(r.IntN(12))
			body := piece(r.Uint64()&0xffff, 16+r.IntN(900_000))
			switch r.IntN(8) {
			case 0:
				y.Remove(key)
			case 1:
				y.Extend(key, body)
			case 2:
				y.Move(key, fmt.Sprint(r.IntN(12)))
			default:
				y.Set(key, body)
			}
		}
		if round%10 == 0 {
			y.MultipartOf(fmt.Sprint(r.IntN(12)), piece(r.Uint64()&0xffff, 5<<20), piece(r.Uint64()&0xffff, 500_000))
		}
		report, err := y.Reclaimer.Round(ctx, round%3 == 0)
		require.NoError(t, err)
		freed += report.BlocksFreed
		moved += report.BytesMoved
	}
	stop()
	all.Wait()
	y.Check()
	t.Logf("%d reads, %d of them with pins; %d blocks freed, %d bytes moved", reads.Load(), pins.Load(), freed, moved)
	require.NotZero(t, reads.Load())
	require.NotZero(t, pins.Load())
	require.NotZero(t, freed)
	require.NotZero(t, moved)
	require.Zero(t, y.Reclaimer.Status().Readers)
}

// slowly reads a key in small steps, and yields to other goroutines between them.
func slowly(y *storetest.Store, r *rand.Rand, key string, pins *atomic.Int64) ([]byte, error) {
	o, err := y.FS.Open(ctx, y.Bucket, key, core.Current)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	s, err := o.Range(ctx, 0, o.Info.Size)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if o.Info.Size > 256<<10 {
		pins.Add(1)
	}
	got := make([]byte, o.Info.Size)
	for at := 0; at < len(got); {
		for range r.IntN(50) {
			runtime.Gosched()
		}
		n, err := s.Read(got[at:min(len(got), at+1+r.IntN(200_000))])
		if err != nil {
			return nil, err
		}
		at += n
	}
	return got, nil
}

package vfs_test

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/core"
	"orcas/core/codec"
	"orcas/core/frame"
	"orcas/core/mem"
	"orcas/vfs"
)

// stepped are blocks of which the reads of frames can be watched, and held up.
type stepped struct {
	core.Blocks
	mu   sync.Mutex
	turn func(off int64) // called before each read; nil: nothing is watched
}

func (b *stepped) watch(turn func(off int64)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn = turn
}

func (b *stepped) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := b.Blocks.Open(ctx, e)
	return &steppedReader{r, b}, err
}

type steppedReader struct {
	core.BlockReader
	b *stepped
}

func (r *steppedReader) ReadAt(p []byte, off int64) (int, error) {
	r.b.mu.Lock()
	turn := r.b.turn
	r.b.mu.Unlock()
	if turn != nil {
		turn(off)
	}
	return r.BlockReader.ReadAt(p, off)
}

// writerFunc is an io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// aheadWorld has an encrypted object of six frames.
func aheadWorld(t *testing.T, under core.Blocks) (*world, *stepped, []byte) {
	before := runtime.GOMAXPROCS(2) // one frame at a time may be decrypted ahead
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	blocks := &stepped{Blocks: under}
	w := worldWith(t, blocks, func(o *vfs.Options) { o.Keys, o.Compression = parseKeys(t, firstKey), codec.Off })
	body := filler(1, 5*frame.MaxPlain+100)
	w.encrypt("key", body, vfs.Encryption{Store: true})
	return w, blocks, body
}

// section begins to read the whole of an object.
func (w *world) section(key string) *vfs.Section {
	w.t.Helper()
	o, err := w.fs.Open(ctx, w.b, key, core.Current)
	require.NoError(w.t, err)
	s, err := o.Range(ctx, 0, o.Info.Size)
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		require.NoError(w.t, s.Close())
		o.Close()
	})
	return s
}

// TestFramesAreReadWhileOthersAreSent: a reader that is alone sends each frame while the next one is read: the client does not take the one before the
// other is being read.
func TestFramesAreReadWhileOthersAreSent(t *testing.T) {
	w, blocks, body := aheadWorld(t, mem.NewBlocks())
	s := w.section("key")
	reads := make(chan int64, 10)
	blocks.watch(func(off int64) { reads <- off })
	var got bytes.Buffer
	_, err := s.WriteTo(writerFunc(func(p []byte) (int, error) {
		if n := got.Len(); n > 0 && n+len(p) < len(body) { // the first frame was read by Range, and behind the last one there is none
			if n == frame.MaxPlain {
				<-reads // this frame itself
			}
			<-reads // the next one
		}
		return got.Write(p)
	}))
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got.Bytes()))
}

// TestNoFramesAreReadAheadForACrowd: while the processors are busy with frames of one reader, another one reads a frame when it has sent the one before.
func TestNoFramesAreReadAheadForACrowd(t *testing.T) {
	w, blocks, body := aheadWorld(t, mem.NewBlocks())
	first, second := w.section("key"), w.section("key")
	stands, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	blocks.watch(func(int64) { once.Do(func() { close(stands); <-goOn }) })
	ended := make(chan error, 1)
	go func() {
		_, err := first.WriteTo(io.Discard)
		ended <- err
	}()
	<-stands // in the midst of a frame

	reads := 1 // Range read the first frame
	blocks.watch(func(int64) { reads++ })
	sent := 0
	var got bytes.Buffer
	_, err := second.WriteTo(writerFunc(func(p []byte) (int, error) {
		sent++
		require.Equal(t, sent, reads)
		return got.Write(p)
	}))
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got.Bytes()))
	require.Equal(t, 6, sent)
	blocks.watch(nil)
	close(goOn)
	require.NoError(t, <-ended)
}

// TestDamageIsFoundInACrowd: a frame that is read while other readers are busy, and so by the one who sends it, is verified as any other.
func TestDamageIsFoundInACrowd(t *testing.T) {
	under := &tampered{Blocks: mem.NewBlocks()}
	w, blocks, body := aheadWorld(t, under)
	d := w.dataOf("key")
	frames, headers := raw(t, under, d)
	under.id = d.Extents[0].Block
	first, second := w.section("key"), w.section("key")
	stands, goOn := make(chan bool), make(chan bool)
	var once sync.Once
	blocks.watch(func(int64) { once.Do(func() { close(stands); <-goOn }) })
	ended := make(chan error, 1)
	go func() {
		_, err := first.WriteTo(io.Discard)
		ended <- err
	}()
	<-stands
	blocks.watch(nil)

	const at = frame.HeaderSize + 4711
	under.mu.Lock()
	under.with = map[int64][]byte{headers[3].Offset + at: {frames[3][at] ^ 16}}
	under.mu.Unlock()
	var got bytes.Buffer
	_, err := second.WriteTo(&got)
	require.Equal(t, core.Damaged, core.KindOf(err), "%v", err)
	require.True(t, bytes.Equal(body[:3*frame.MaxPlain], got.Bytes()), "%d bytes", got.Len())
	close(goOn)
	require.Equal(t, core.Damaged, core.KindOf(<-ended))
}

package content_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/content"
	"orcas/core"
	"orcas/core/frame"
	"orcas/core/mem"
)

// slowClient is a writer that remembers how much it was given at most at once, and calls during before it returns.
type slowClient struct {
	bytes.Buffer
	most   int
	during func()
}

func (c *slowClient) Write(p []byte) (int, error) {
	c.most = max(c.most, len(p))
	if c.during != nil {
		c.during()
	}
	return c.Buffer.Write(p)
}

// TestReadersBeyondMemory: readers for which there is no memory get correct bytes, in small pieces, in every form of
// stored content; the memory is free again when the others end.
func TestReadersBeyondMemory(t *testing.T) {
	for name, level := range map[string]core.Compression{"plain": core.CompressionOff, "compressed": core.CompressionFast} {
		t.Run(name, func(t *testing.T) {
			w := worldWith(t, mem.NewBlocks(), func(o *content.Options) { o.Reading, o.Compression = frame.MaxPlain, level })
			body := make([]byte, 5<<20+12_345)
			_, _ = rand.NewChaCha8([32]byte{1}).Read(body[:1<<20])
			_, err := w.TryPut("key", body)
			require.NoError(t, err)
			open := func(off, n int64) *content.Section {
				o, err := w.FS.Open(ctx, w.Bucket, "key", core.Current)
				require.NoError(t, err)
				defer o.Close()
				section, err := o.Range(ctx, off, n)
				require.NoError(t, err)
				return section
			}
			first := open(0, int64(len(body)))
			for _, r := range [][2]int64{{0, int64(len(body))}, {frame.MaxPlain - 1, 50_000}, {5 << 20, 12_345}, {100, 20_000}} {
				second := open(r[0], r[1])
				client := &slowClient{}
				n, err := second.WriteTo(client)
				require.NoError(t, err)
				require.Equal(t, r[1], n)
				require.True(t, bytes.Equal(body[r[0]:r[0]+r[1]], client.Bytes()), "%d bytes from %d", r[1], r[0])
				require.LessOrEqual(t, client.most, 16<<10)
				require.NoError(t, second.Close())
			}
			require.NoError(t, first.Close())
			alone, client := open(0, int64(len(body))), &slowClient{}
			_, err = alone.WriteTo(client)
			require.NoError(t, err)
			require.Equal(t, frame.MaxPlain, client.most, "there is memory for one reader")
			require.NoError(t, alone.Close())

			stored := open(0, int64(len(body))) // a copy, beside a reader that has the memory
			defer stored.Close()
			other := open(0, int64(len(body)))
			got, err := io.ReadAll(other)
			require.NoError(t, err)
			require.True(t, bytes.Equal(body, got))
			require.NoError(t, other.Close())
		})
	}
}

// TestUploadsWaitForMemory: an upload begins when the one before it has ended, and small and empty content does not wait.
func TestUploadsWaitForMemory(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *content.Options) { o.Receiving = frame.MaxPlain })
	body := make([]byte, 1<<20)
	slow, send := io.Pipe()
	ended := make(chan error, 2)
	receive := func(key string, r io.Reader, size int64) error {
		c, err := w.FS.NewContent(ctx, w.Bucket, size)
		if err != nil {
			return err
		}
		defer c.Discard()
		_, err = c.ReadFrom(r)
		return err
	}
	go func() { ended <- receive("slow", slow, int64(len(body))) }()
	_, err := send.Write(body[:1]) // it has its memory
	require.NoError(t, err)
	next := &notedReader{r: bytes.NewReader(body), read: make(chan struct{})}
	go func() { ended <- receive("next", next, int64(len(body))) }()
	require.NoError(t, receive("empty", bytes.NewReader(nil), 0))
	require.NoError(t, receive("small", bytes.NewReader(body[:900]), 900))
	select {
	case <-next.read:
		t.Fatal("the second upload was read while the first one had all the memory")
	default:
	}
	_, err = send.Write(body[1:])
	require.NoError(t, err)
	require.NoError(t, send.Close())
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	<-next.read
}

// TestCopiesWaitForMemory: a copy that waits for memory does not keep the first frame of its source, if there is no
// memory for that either.
func TestCopiesWaitForMemory(t *testing.T) {
	w := worldWith(t, mem.NewBlocks(), func(o *content.Options) { o.Receiving, o.Reading = frame.MaxPlain, frame.MaxPlain })
	body := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(body)
	_, err := w.TryPut("key", body)
	require.NoError(t, err)
	open := func() *content.Section {
		o, err := w.FS.Open(ctx, w.Bucket, "key", core.Current)
		require.NoError(t, err)
		defer o.Close()
		section, err := o.Range(ctx, 0, int64(len(body)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, section.Close()) })
		return section
	}
	reader := open() // it has the memory of readers
	require.GreaterOrEqual(t, reader.Held(), frame.MaxPlain)
	upload, err := w.FS.NewContent(ctx, w.Bucket, int64(len(body)))
	require.NoError(t, err)
	defer upload.Discard()
	_, err = upload.ReadFrom(bytes.NewReader(body)) // it has the memory of uploads until it is discarded
	require.NoError(t, err)

	source := open()
	waiting, leave := context.WithCancel(ctx)
	target, err := w.FS.NewContent(waiting, w.Bucket, int64(len(body)))
	require.NoError(t, err)
	defer target.Discard()
	leave()
	_, err = target.ReadFrom(source)
	require.True(t, core.Is(err, core.Canceled), "%v", err)
	require.Less(t, source.Held(), frame.MaxPlain/2)
	got, err := io.ReadAll(source)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, got))
}

// notedReader closes read when it is read for the first time.
type notedReader struct {
	r    io.Reader
	read chan struct{}
	once bool
}

func (n *notedReader) Read(p []byte) (int, error) {
	if !n.once {
		n.once = true
		close(n.read)
	}
	return n.r.Read(p)
}

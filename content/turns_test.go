package content_test

import (
	"bytes"
	"io"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"orcas/core/frame"
	"orcas/storetest"
)

// countingReader counts the bytes that were read.
type countingReader struct {
	io.Reader
	n int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}

// TestLargeContentIsHashedInTurns: while there is no turn, large content waits after its first frame, and small content
// is stored.
func TestLargeContentIsHashedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		release := make(chan struct{})
		for range runtime.GOMAXPROCS(0) + 1 { // as many as there are turns
			go w.Writer.Compute(func() { <-release })
		}
		synctest.Wait()
		body := storetest.Filler(1, 3*frame.MaxPlain)
		c, err := w.FS.NewContent(ctx, w.Bucket, int64(len(body)))
		require.NoError(t, err)
		defer c.Discard()
		r, read := &countingReader{Reader: bytes.NewReader(body)}, make(chan error)
		go func() {
			_, err := c.ReadFrom(r)
			read <- err
		}()
		synctest.Wait()
		require.Equal(t, frame.MaxPlain, r.n)
		w.Put("small", []byte("small"))
		require.Equal(t, frame.MaxPlain, r.n)
		close(release)
		require.NoError(t, <-read)
		require.Equal(t, len(body), r.n)
	})
}

package content_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/batch"
	"orcas/core"
	"orcas/core/coretest"
	"orcas/core/frame"
	"orcas/internal/checksum"
	"orcas/storetest"
	"orcas/vfs"
)

func TestSums(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{0, 100, 300_000} {
		body := storetest.Filler(1, size)
		c := w.Content(body, checksum.CRC32, checksum.CRC64NVME, checksum.SHA256)
		for _, a := range []checksum.Algorithm{checksum.MD5, checksum.SHA256, checksum.CRC32, checksum.CRC64NVME} {
			require.Equal(t, checksum.Sum(a, body), c.Sum(a), a)
		}
		require.Nil(t, c.Sum(checksum.SHA1))
	}
}

func TestBodiesOfTheWrongLength(t *testing.T) {
	w := newWorld(t)
	w.Put("k", []byte("before"))
	for _, size := range []int{10, 100_000, 600_000} {
		body := storetest.Filler(1, size)
		for _, n := range []int{0, 1, size / 2, size - 1} {
			c, err := w.FS.NewContent(ctx, w.Bucket, int64(size))
			require.NoError(t, err)
			_, err = c.ReadFrom(bytes.NewReader(body[:n]))
			require.Equal(t, core.Incomplete, core.KindOf(err))
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			c.Discard()
		}
		c, err := w.FS.NewContent(ctx, w.Bucket, int64(size-1))
		require.NoError(t, err)
		_, err = c.ReadFrom(bytes.NewReader(body))
		require.Equal(t, core.TooLarge, core.KindOf(err))
		c.Discard()
		c, err = w.FS.NewContent(ctx, w.Bucket, int64(size))
		require.NoError(t, err)
		mine := errors.New("mine")
		_, err = c.ReadFrom(io.MultiReader(bytes.NewReader(body), &failing{mine})) // a body that fails at its end
		require.Equal(t, mine, err)
		c.Discard()
	}
	w.RequireContent("k", []byte("before"))
	require.Equal(t, 1, w.blockCount())
}

// A body that may be shorter than announced has the size at which it ends, also at the bounds of frames, and it can be
// read back. A body that fails or is longer is refused.
func TestBodiesOfUnknownLength(t *testing.T) {
	w := newWorld(t)
	for _, most := range []int{10, 100_000, 3 * frame.MaxPlain} {
		sizes := []int{0, 1, most / 2, most - 1, most}
		for _, n := range []int{frame.MaxPlain - 1, frame.MaxPlain, frame.MaxPlain + 1, 2 * frame.MaxPlain} {
			if n < most {
				sizes = append(sizes, n)
			}
		}
		for _, size := range sizes {
			body := storetest.Filler(uint64(size), size)
			c, err := w.FS.NewContent(ctx, w.Bucket, int64(most))
			require.NoError(t, err)
			c.UpTo()
			n, err := c.ReadFrom(bytes.NewReader(body))
			require.NoError(t, err)
			require.Equal(t, []int64{int64(size), int64(size)}, []int64{n, c.Size()})
			require.Equal(t, checksum.Sum(checksum.SHA256, body), c.Sum(checksum.SHA256))
			require.Equal(t, checksum.Sum(checksum.MD5, body), c.Sum(checksum.MD5))
			_, err = w.FS.Put(ctx, vfs.PutRequest{Bucket: w.Bucket, Key: "k", Content: c})
			require.NoError(t, err)
			c.Discard()
			w.RequireContent("k", body)

			c, err = w.FS.NewContent(ctx, w.Bucket, int64(most))
			require.NoError(t, err)
			c.UpTo()
			mine := errors.New("mine")
			_, err = c.ReadFrom(io.MultiReader(bytes.NewReader(body), &failing{mine}))
			require.Equal(t, mine, err, "%d of %d", size, most)
			c.Discard()
		}
		c, err := w.FS.NewContent(ctx, w.Bucket, int64(most))
		require.NoError(t, err)
		c.UpTo()
		_, err = c.ReadFrom(bytes.NewReader(storetest.Filler(1, most+1)))
		require.Equal(t, core.TooLarge, core.KindOf(err))
		c.Discard()
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// TestEveryBitOfAPackedBlock flips each bit of a packed block in turn. At most one object may become unreadable, and no
// object may be read with wrong content.
func TestEveryBitOfAPackedBlock(t *testing.T) {
	storetest.NeedsPlain(t)
	w := newWorld(t)
	contents := map[string][]byte{}
	for i := range 6 {
		key := fmt.Sprint(i)
		contents[key] = storetest.Random(uint64(i), 50+i*40)
		w.Put(key, contents[key])
	}
	flipped := newFlipping(w.Blocks)
	writer, err := batch.Open(ctx, batch.Options{Meta: w.Meta, Blocks: flipped})
	require.NoError(t, err)
	defer writer.Close()
	options := storetest.Defaults()
	options.Meta, options.Blocks, options.Writer = w.Meta, flipped, writer
	w.FS, err = storetest.NewFS(options)
	require.NoError(t, err)
	o, err := w.Meta.Object(ctx, w.Bucket.ID, "0", core.Current)
	require.NoError(t, err)
	flipped.block = o.Segments[0].Info.Extents[0].Block
	var size int64
	require.NoError(t, w.Blocks.Walk(ctx, flipped.block, func(i core.BlockInfo) error {
		if i.ID == flipped.block {
			size = i.Size
		}
		return nil
	}))
	found := 0
	for bit := range size * 8 {
		flipped.at, flipped.flip = bit/8, 1<<(bit%8)
		bad := 0
		for key, want := range contents {
			got, err := w.Read(key, 0, -1)
			if err != nil {
				require.Equal(t, core.Damaged, core.KindOf(err))
				bad++
				continue
			}
			require.Equal(t, want, got, "bit %d", bit)
		}
		require.LessOrEqual(t, bad, 1, "bit %d", bit)
		found += bad
	}
	stored := 0
	for _, c := range contents {
		stored += len(c) + frame.ShortSize
	}
	require.Equal(t, stored*8, found, "a flipped bit of a frame was not detected")
}

// flipping is a block store that changes one byte of one block.
type flipping struct {
	coretest.HookedBlocks
	block core.BlockID
	at    int64
	flip  byte
}

func newFlipping(b core.Blocks) *flipping {
	f := &flipping{}
	f.Blocks, f.Read = b, f.read
	return f
}

func (f *flipping) read(r core.BlockReader, e core.Extent, p []byte, off int64) (int, error) {
	n, err := r.ReadAt(p, off)
	if i := f.at - e.Offset - off; e.Block == f.block && i >= 0 && i < int64(n) {
		p[i] ^= f.flip
	}
	return n, err
}

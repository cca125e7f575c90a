package backup

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"orcas/core"
	"orcas/core/frame"
)

// failing is a file with some pages that cannot be read.
type failing struct {
	b   []byte
	bad map[int64]bool
}

func (f failing) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		at := off + int64(n)
		if at >= int64(len(f.b)) {
			return n, io.EOF
		}
		if f.bad[at/pageSize] {
			return n, unix.EIO
		}
		end := min(int64(len(f.b)), (at/pageSize+1)*pageSize)
		n += copy(p[n:], f.b[at:end])
	}
	return n, nil
}

// TestPagesThatCannotBeRead checks that the frames in unreadable pages are reported as damaged, and that all others are
// copied.
func TestPagesThatCannotBeRead(t *testing.T) {
	id := core.MakeBlockID(1, 2, 3)
	raw := make([]byte, frame.BlockHeaderSize)
	frame.EncodeBlockHeader(raw, id, uint8(core.Packed))
	for i := range 20 {
		h := frame.Header{Type: frame.Data, Block: id, Offset: int64(len(raw)), ID: uint64(i), Plain: 1000, Last: true}
		content := bytes.Repeat([]byte{byte(i + 1)}, 1000)
		raw = append(raw, make([]byte, frame.HeaderSize)...)
		frame.Encode(raw[len(raw)-frame.HeaderSize:], &h, content)
		raw = append(raw, content...)
	}
	s := &source{info: core.BlockInfo{ID: id, Kind: core.Packed, Size: int64(len(raw))}, length: int64(len(raw))}
	for _, bad := range []map[int64]bool{nil, {1: true}, {2: true, 3: true}} {
		r := &patient{r: failing{raw, bad}}
		var out bytes.Buffer
		p := newPass(t.Context(), s, r, &out)
		require.NoError(t, p.run(0))
		want := bytes.Clone(raw)
		for page := range bad {
			clear(want[page*pageSize : (page+1)*pageSize])
		}
		require.True(t, bytes.Equal(want, out.Bytes()))
		require.Equal(t, len(bad) > 0, r.bad)
		require.Equal(t, len(bad) > 0, len(p.damaged) > 0)
		require.Equal(t, int64(-1), p.tail)
	}
	for at := range int64(len(raw)) {
		b := make([]byte, 5000)
		n, err := (&patient{r: failing{raw, map[int64]bool{1: true}}}).ReadAt(b, at)
		require.Equal(t, min(len(b), len(raw)-int(at)), n)
		require.Equal(t, n < len(b), err == io.EOF)
	}
}

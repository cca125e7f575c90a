package coretest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"orcas/core"
	"orcas/core/frame"
	"orcas/core/mem"
)

// Injure changes the state of a piece of a block to missing or damaged.
type Injure func(id core.BlockID, piece int, state core.PieceState)

// BlocksHeal runs the suite for drivers that implement core.Healer. Open returns an empty store and a function that
// damages its pieces.
func BlocksHeal(t *testing.T, open func(t *testing.T) (core.Blocks, Injure)) {
	b, injure := open(t)
	defer func() { require.NoError(t, b.Close()) }()
	h, ok := core.As[core.Healer](b)
	require.True(t, ok)
	states := func(pieces []core.Piece, err error) (list []core.PieceState) {
		require.NoError(t, err)
		for _, p := range pieces {
			require.NotEmpty(t, p.Target)
			list = append(list, p.State)
		}
		return list
	}
	for i, o := range []core.BlockOptions{packed, alone, large} {
		p := commit(t, b, o, random(uint64(i), 9000))
		id := p.extent.Block
		whole := states(h.Pieces(t.Context(), id))
		require.NotEmpty(t, whole)
		require.Equal(t, make([]core.PieceState, len(whole)), whole)
		require.Equal(t, whole, states(h.VerifyPieces(t.Context(), id)))
		for _, state := range []core.PieceState{core.PieceMissing, core.PieceDamaged} {
			for piece := range whole {
				injured := slices.Clone(whole)
				injured[piece] = state
				injure(id, piece, state)
				p.require(t, b)
				if state == core.PieceMissing {
					require.Equal(t, injured, states(h.Pieces(t.Context(), id)))
				}
				require.Equal(t, injured, states(h.VerifyPieces(t.Context(), id)))
				require.Equal(t, injured, states(h.VerifyPieces(t.Context(), id)), "verification must not repair pieces")
				healed, err := h.Heal(t.Context(), id)
				require.NoError(t, err)
				require.Equal(t, 1, healed)
				require.Equal(t, whole, states(h.VerifyPieces(t.Context(), id)))
				p.require(t, b)
				healed, err = h.Heal(t.Context(), id)
				require.NoError(t, err)
				require.Zero(t, healed)
			}
		}
		for piece := range whole {
			injure(id, piece, core.PieceDamaged)
		}
		_, err := h.Heal(t.Context(), id)
		require.True(t, core.Is(err, core.Damaged), "%v", err)
		require.NotContains(t, states(h.VerifyPieces(t.Context(), id)), core.PieceWhole)
	}
	w := create(t, b, large)
	_, err := h.Heal(t.Context(), w.Block())
	require.True(t, core.Is(err, core.Busy), "%v", err)
	require.NoError(t, w.Abort())
	_, err = h.Heal(t.Context(), w.Block())
	require.True(t, core.Is(err, core.NoSuchData), "%v", err)
	_, err = h.Pieces(t.Context(), w.Block())
	require.True(t, core.Is(err, core.NoSuchData), "%v", err)
	_, err = h.VerifyPieces(t.Context(), w.Block())
	require.True(t, core.Is(err, core.NoSuchData), "%v", err)
}

// Mirror is a core.Blocks in memory that keeps two copies of each block. A damaged copy can be healed from the other.
// It is the model of a core.Healer.
type Mirror struct {
	core.Blocks // determines the IDs and the order of blocks, and holds uncommitted bytes

	mu      sync.Mutex // guards the fields below
	copies  map[core.BlockID]*copies
	writing map[core.BlockID]int
}

// copies are the two copies of the committed bytes of a block. Bytes are never changed in place, since readers refer to
// them.
type copies struct {
	sum  *xxh3.Hasher // the hash of all committed bytes
	data [2][]byte    // nil if the copy is missing
}

// NewMirror returns an empty store.
func NewMirror() *Mirror {
	return &Mirror{Blocks: mem.NewBlocks(), copies: map[core.BlockID]*copies{}, writing: map[core.BlockID]int{}}
}

// Unwrap returns the wrapped Blocks, for core.As.
func (m *Mirror) Unwrap() core.Blocks { return m.Blocks }

// Injure has the type of the function Injure, for BlocksHeal.
func (m *Mirror) Injure(id core.BlockID, piece int, state core.PieceState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.copies[id]
	if state == core.PieceMissing {
		c.data[piece] = nil
		return
	}
	c.data[piece] = bytes.Clone(c.data[piece])
	c.data[piece][len(c.data[piece])/2] ^= 1
}

// Create implements core.Blocks.
func (m *Mirror) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	w, err := m.Blocks.Create(ctx, o)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writing[w.Block()]++
	return &mirrorWriter{BlockWriter: w, mirror: m}, nil
}

// Open implements core.Blocks. It reads an intact copy if there is one.
func (m *Mirror) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := m.Blocks.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.copies[e.Block]
	if c == nil {
		return r, nil // the block has no committed bytes yet
	}
	for _, data := range c.data {
		if c.state(data) == core.PieceWhole {
			return &copyReader{data, e}, nil
		}
	}
	for _, data := range c.data {
		if data != nil {
			return &copyReader{data, e}, nil
		}
	}
	return nil, core.E("coretest.Mirror", core.NoSuchData, fmt.Errorf("both copies of block %v are missing", e.Block))
}

// Delete implements core.Blocks.
func (m *Mirror) Delete(ctx context.Context, id core.BlockID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.copies, id)
	return m.Blocks.Delete(ctx, id)
}

// Pieces implements core.Healer.
func (m *Mirror) Pieces(_ context.Context, id core.BlockID) ([]core.Piece, error) {
	return m.pieces(id, func(_ *copies, data []byte) core.PieceState {
		if data == nil {
			return core.PieceMissing
		}
		return core.PieceWhole
	})
}

// VerifyPieces implements core.Healer.
func (m *Mirror) VerifyPieces(_ context.Context, id core.BlockID) ([]core.Piece, error) {
	return m.pieces(id, (*copies).state)
}

func (m *Mirror) pieces(id core.BlockID, state func(c *copies, data []byte) core.PieceState) (list []core.Piece, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.copies[id]
	if c == nil {
		return nil, core.E("coretest.Mirror", core.NoSuchData, fmt.Errorf("block %v does not exist", id))
	}
	for i, data := range c.data {
		list = append(list, core.Piece{Target: fmt.Sprint("copy ", i), State: state(c, data)})
	}
	return list, nil
}

// Heal implements core.Healer.
func (m *Mirror) Heal(_ context.Context, id core.BlockID) (healed int, err error) {
	const op = "coretest.Heal"
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.copies[id]
	switch {
	case m.writing[id] > 0:
		return 0, core.E(op, core.Busy, fmt.Errorf("block %v is being written", id))
	case c == nil:
		return 0, core.E(op, core.NoSuchData, fmt.Errorf("block %v does not exist", id))
	}
	for i, data := range c.data {
		if c.state(data) != core.PieceWhole {
			continue
		}
		if other := &c.data[1-i]; c.state(*other) != core.PieceWhole {
			*other, healed = bytes.Clone(data), 1
		}
		return healed, nil
	}
	return 0, core.E(op, core.Damaged, fmt.Errorf("both copies of block %v are missing or damaged", id))
}

// state verifies a copy and returns its state.
func (c *copies) state(data []byte) core.PieceState {
	switch {
	case data == nil:
		return core.PieceMissing
	case xxh3.Hash(data) != c.sum.Sum64():
		return core.PieceDamaged
	}
	return core.PieceWhole
}

type mirrorWriter struct {
	core.BlockWriter
	mirror  *Mirror
	written []byte
	ended   bool
}

func (w *mirrorWriter) Unwrap() core.BlockWriter { return w.BlockWriter }

func (w *mirrorWriter) Write(p []byte) (int, error) {
	n, err := w.BlockWriter.Write(p)
	w.written = append(w.written, p[:n]...)
	return n, err
}

func (w *mirrorWriter) Commit(ctx context.Context) error {
	m, id := w.mirror, w.Block()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := w.BlockWriter.Commit(ctx); err != nil {
		return err
	}
	w.end()
	c := m.copies[id]
	if c == nil {
		head := make([]byte, frame.BlockHeaderSize)
		r, err := m.Blocks.Open(ctx, core.Extent{Block: id, Length: frame.BlockHeaderSize})
		if core.Is(err, core.NoSuchData) {
			return nil // the block was deleted in the meantime
		}
		if err == nil {
			_, err = r.ReadAt(head, 0)
			err = errors.Join(err, r.Close())
		}
		if err != nil {
			return err
		}
		c = &copies{sum: xxh3.New()}
		m.copies[id] = c
		_, _ = c.sum.Write(head)
		c.data = [2][]byte{head, bytes.Clone(head)}
	}
	_, _ = c.sum.Write(w.written)
	for i := range c.data {
		if c.data[i] != nil {
			c.data[i] = append(c.data[i], w.written...)
		}
	}
	return nil
}

func (w *mirrorWriter) Abort() error {
	w.mirror.mu.Lock()
	defer w.mirror.mu.Unlock()
	w.end()
	return w.BlockWriter.Abort()
}

// end records that the writer has ended. The caller holds mirror.mu.
func (w *mirrorWriter) end() {
	if !w.ended {
		w.ended = true
		w.mirror.writing[w.Block()]--
	}
}

// copyReader reads a copy.
type copyReader struct {
	data   []byte
	extent core.Extent
}

func (r *copyReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, core.E("coretest.ReadAt", core.InvalidArgument, fmt.Errorf("offset %d is negative", off))
	}
	want := min(int64(len(p)), max(0, r.extent.Length-off))
	n := 0
	if at := r.extent.Offset + off; at < int64(len(r.data)) {
		n = copy(p[:want], r.data[at:])
	}
	switch {
	case n == len(p):
		return n, nil
	case int64(n) < want:
		return n, core.E("coretest.ReadAt", core.Damaged, io.ErrUnexpectedEOF)
	}
	return n, io.EOF
}

func (r *copyReader) Close() error { return nil }

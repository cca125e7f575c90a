package mem

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"orcas/core"
	"orcas/core/frame"
)

// packedSize is how many bytes a shared packed block takes before the next one begins.
const packedSize = 1 << 20

// Blocks is core.Blocks in memory. A crash of the store it stands for is Crash.
type Blocks struct {
	mu     sync.Mutex // guards all below, and the bytes of the blocks
	store  uint64
	gen    uint32
	number uint32
	blocks map[core.BlockID]*block
	open   *block // the shared packed block that the next small writer appends to
	closed bool
}

type block struct {
	id        core.BlockID
	kind      core.BlockKind
	data      []byte
	committed int  // bytes that a crash leaves
	writing   bool // a writer has not ended yet
	relaxed   int  // bytes that Sync makes a crash leave
}

// NewBlocks returns an empty store.
func NewBlocks() *Blocks {
	var store [8]byte
	_, _ = rand.Read(store[:]) // never fails
	return &Blocks{store: binary.BigEndian.Uint64(store[:]), gen: 1, blocks: map[core.BlockID]*block{}}
}

// Crash returns what a start after a power cut finds at this moment: what was committed, and nothing else.
func (b *Blocks) Crash() *Blocks {
	b.mu.Lock()
	defer b.mu.Unlock()
	after := &Blocks{store: b.store, gen: b.gen + 1, blocks: map[core.BlockID]*block{}}
	for id, old := range b.blocks {
		if old.committed > 0 {
			after.blocks[id] = &block{id: id, kind: old.kind, data: bytes.Clone(old.data[:old.committed]), committed: old.committed}
		}
	}
	return after
}

// Create implements core.Blocks.
func (b *Blocks) Create(ctx context.Context, o core.BlockOptions) (core.BlockWriter, error) {
	const op = "mem.Create"
	if err := ctx.Err(); err != nil {
		return nil, core.E(op, core.Canceled, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, core.E(op, core.Unavailable, errClosed)
	}
	shared := o.Kind == core.Packed && !o.Alone
	if shared && b.open != nil && b.open.writing {
		return nil, core.E(op, core.Internal, errors.New("a packed writer is in progress"))
	}
	if shared && b.open != nil && int64(len(b.open.data))+o.SizeHint <= packedSize {
		b.open.writing = true
		return &writer{store: b, block: b.open, start: len(b.open.data), relaxed: o.Relaxed}, nil
	}
	b.number++
	n := &block{id: core.MakeBlockID(b.store, b.gen, b.number), kind: o.Kind, writing: true}
	n.data = make([]byte, frame.BlockHeaderSize)
	frame.EncodeBlockHeader(n.data, n.id, uint8(n.kind))
	b.blocks[n.id] = n
	if shared {
		b.open = n
	}
	return &writer{store: b, block: n, start: len(n.data), relaxed: o.Relaxed}, nil
}

// Sync implements core.Flusher.
func (b *Blocks) Sync(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, block := range b.blocks {
		block.committed = max(block.committed, block.relaxed)
	}
	return nil
}

// PowerCut returns what a start after a power cut may find: what was committed or synced, and of everything else what keep decides. It is
// asked for each block with the bytes behind those that are safe, and changes them in place; it returns how many of them are there.
func (b *Blocks) PowerCut(keep func(id core.BlockID, doubtful []byte) int) *Blocks {
	after := b.Crash()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(b.blocks), func(x, y core.BlockID) int { return bytes.Compare(x[:], y[:]) }) {
		old := b.blocks[id]
		doubtful := bytes.Clone(old.data[old.committed:])
		n := keep(id, doubtful)
		if n == 0 {
			continue
		}
		data := append(bytes.Clone(old.data[:old.committed]), doubtful[:n]...)
		after.blocks[id] = &block{id: id, kind: old.kind, data: data, committed: len(data)}
	}
	return after
}

// Open implements core.Blocks.
func (b *Blocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length < 0 {
		return nil, core.E("mem.Open", core.InvalidArgument, fmt.Errorf("no extent: %d bytes at %d", e.Length, e.Offset))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.blocks[e.Block]
	if found == nil {
		return nil, core.E("mem.Open", core.NoSuchData, errors.New("no block "+e.Block.String()))
	}
	return &reader{store: b, block: found, extent: e}, nil
}

// Delete implements core.Blocks.
func (b *Blocks) Delete(ctx context.Context, id core.BlockID) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != nil && b.open.id == id {
		b.open = nil
	}
	delete(b.blocks, id)
	return nil
}

// Walk implements core.Blocks.
func (b *Blocks) Walk(ctx context.Context, from core.BlockID, fn func(core.BlockInfo) error) error {
	b.mu.Lock()
	var found []core.BlockInfo
	for id, block := range b.blocks {
		if bytes.Compare(id[:], from[:]) >= 0 {
			found = append(found, core.BlockInfo{ID: id, Kind: block.kind, Size: int64(len(block.data))})
		}
	}
	b.mu.Unlock()
	slices.SortFunc(found, func(x, y core.BlockInfo) int { return bytes.Compare(x.ID[:], y.ID[:]) })
	for _, info := range found {
		if err := ctx.Err(); err != nil {
			return core.E("mem.Walk", core.Canceled, err)
		}
		if err := fn(info); err != nil {
			return err
		}
	}
	return nil
}

// Close implements core.Blocks.
func (b *Blocks) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

var (
	errClosed = errors.New("the store is closed")
	errEnded  = errors.New("the writer has ended")
)

type writer struct {
	store   *Blocks
	block   *block
	start   int // where the writer began
	relaxed bool
	ended   bool
}

func (w *writer) Block() core.BlockID { return w.block.id }

func (w *writer) Offset() int64 {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return int64(len(w.block.data))
}

func (w *writer) Write(p []byte) (int, error) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if err := w.usable("mem.Write"); err != nil {
		return 0, err
	}
	w.block.data = append(w.block.data, p...)
	return len(p), nil
}

func (w *writer) Commit(ctx context.Context) error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if err := w.usable("mem.Commit"); err != nil {
		return err
	}
	w.ended, w.block.writing = true, false
	w.block.relaxed = len(w.block.data)
	if !w.relaxed {
		w.block.committed = len(w.block.data)
	}
	return nil
}

func (w *writer) Abort() error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.ended {
		return nil
	}
	w.ended, w.block.writing = true, false
	shared := w.block == w.store.open
	switch {
	case !shared:
		delete(w.store.blocks, w.block.id)
	case len(w.block.data) > w.start:
		w.store.open = nil // sealed
	}
	return nil
}

func (w *writer) usable(op string) error {
	if w.ended {
		return core.E(op, core.Internal, errEnded)
	}
	if w.store.closed {
		return core.E(op, core.Unavailable, errClosed)
	}
	return nil
}

type reader struct {
	store  *Blocks
	block  *block
	extent core.Extent
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, core.E("mem.ReadAt", core.InvalidArgument, errors.New("negative offset"))
	}
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	end := r.extent.Offset + r.extent.Length
	written := min(end, int64(len(r.block.data)))
	n := copy(p, r.block.data[min(r.extent.Offset+min(off, r.extent.Length), written):written])
	switch {
	case n == len(p):
		return n, nil
	case written < end:
		return n, core.E("mem.ReadAt", core.Damaged, io.ErrUnexpectedEOF)
	}
	return n, io.EOF
}

func (r *reader) Close() error { return nil }

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
	"time"

	"orcas/core"
	"orcas/core/frame"
)

// packedSize is the maximum size, in bytes, of a shared packed block with several batches.
const packedSize = 1 << 20

// Blocks is a core.Blocks in memory. Crash and PowerCut simulate crashes.
type Blocks struct {
	mu     sync.Mutex // guards the fields below, and the bytes of the blocks
	store  uint64
	gen    uint32
	number uint32
	blocks map[core.BlockID]*block
	open   *block                // the newest shared packed block; the next shared writer appends to it, unless one is active
	begun  map[core.BlockID]bool // unshared blocks that are not committed yet
	closed bool
}

type block struct {
	id        core.BlockID
	kind      core.BlockKind
	data      []byte
	committed int  // the number of bytes that survive a crash
	writing   bool // a writer is active
	relaxed   int  // the number of bytes that will survive a crash once Sync has been called
	modified  time.Time
}

// NewBlocks returns an empty store.
func NewBlocks() *Blocks {
	var store [8]byte
	_, _ = rand.Read(store[:]) // never fails
	return &Blocks{store: binary.BigEndian.Uint64(store[:]), gen: 1, blocks: map[core.BlockID]*block{}, begun: map[core.BlockID]bool{}}
}

// Crash returns a copy of the store after a power failure at this moment: it has only the committed bytes.
func (b *Blocks) Crash() *Blocks {
	b.mu.Lock()
	defer b.mu.Unlock()
	after := &Blocks{store: b.store, gen: b.gen + 1, blocks: map[core.BlockID]*block{}, begun: map[core.BlockID]bool{}}
	for id, old := range b.blocks {
		if old.committed > 0 {
			after.blocks[id] = &block{id: id, kind: old.kind, data: bytes.Clone(old.data[:old.committed]), committed: old.committed, modified: old.modified}
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
	if shared && b.open != nil && !b.open.writing && int64(len(b.open.data))+o.SizeHint <= packedSize {
		b.open.writing = true
		return &writer{store: b, block: b.open, shared: true, start: len(b.open.data), relaxed: o.Relaxed}, nil
	}
	b.number++
	n := &block{id: core.MakeBlockID(b.store, b.gen, b.number), kind: o.Kind, writing: true, modified: time.Now()}
	n.data = make([]byte, frame.BlockHeaderSize)
	frame.EncodeBlockHeader(n.data, n.id, uint8(n.kind))
	b.blocks[n.id] = n
	if shared {
		b.open = n
	} else {
		b.begun[n.id] = true
	}
	return &writer{store: b, block: n, shared: shared, start: len(n.data), relaxed: o.Relaxed}, nil
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

// PowerCut returns a copy of the store after a power failure, with the durable bytes and the bytes that keep selects.
// Keep is called for each block with the bytes after the durable ones. It may change them, and returns the number of
// bytes that survive.
func (b *Blocks) PowerCut(keep func(id core.BlockID, doubtful []byte) int) *Blocks {
	after := b.Crash()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(b.blocks), core.BlockID.Compare) {
		old := b.blocks[id]
		doubtful := bytes.Clone(old.data[old.committed:])
		n := keep(id, doubtful)
		if n == 0 {
			continue
		}
		data := append(bytes.Clone(old.data[:old.committed]), doubtful[:n]...)
		after.blocks[id] = &block{id: id, kind: old.kind, data: data, committed: len(data), modified: old.modified}
	}
	return after
}

// Open implements core.Blocks.
func (b *Blocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length < 0 {
		return nil, core.E("mem.Open", core.InvalidArgument, fmt.Errorf("invalid extent: %d bytes at offset %d", e.Length, e.Offset))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.blocks[e.Block]
	if found == nil {
		return nil, core.E("mem.Open", core.NoSuchData, fmt.Errorf("block %v does not exist", e.Block))
	}
	return &reader{store: b, block: found, extent: e}, nil
}

// Stat implements core.Stater.
func (b *Blocks) Stat(_ context.Context, id core.BlockID) (core.BlockStat, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.blocks[id]
	if found == nil {
		return core.BlockStat{}, core.E("mem.Stat", core.NoSuchData, fmt.Errorf("block %v does not exist", id))
	}
	info := core.BlockInfo{ID: id, Kind: found.kind, Size: int64(len(found.data))}
	return core.BlockStat{BlockInfo: info, Modified: found.modified}, nil
}

// Identity implements core.Identifier.
func (b *Blocks) Identity() (store uint64, generation uint32) { return b.store, b.gen }

// Begun implements core.WriterLister.
func (b *Blocks) Begun() (begun map[core.BlockID]bool, newest core.BlockID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.begun), core.MakeBlockID(b.store, b.gen, b.number)
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
		if id.Compare(from) >= 0 {
			found = append(found, core.BlockInfo{ID: id, Kind: block.kind, Size: int64(len(block.data))})
		}
	}
	b.mu.Unlock()
	slices.SortFunc(found, func(x, y core.BlockInfo) int { return x.ID.Compare(y.ID) })
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
	shared  bool
	start   int // the offset at which the writer began
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
	w.block.modified = time.Now()
	return len(p), nil
}

func (w *writer) Commit(ctx context.Context) error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if err := w.usable("mem.Commit"); err != nil {
		return err
	}
	w.end()
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
	w.end()
	switch {
	case !w.shared:
		delete(w.store.blocks, w.block.id)
	case len(w.block.data) > w.start && w.block == w.store.open:
		w.store.open = nil // nothing more is appended to the block: the next writer creates a new one
	}
	return nil
}

// end records that the writer has ended. The caller holds store.mu.
func (w *writer) end() {
	w.ended, w.block.writing = true, false
	delete(w.store.begun, w.block.id)
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

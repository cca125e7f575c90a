package coretest

import (
	"context"

	"orcas/core"
)

// HookedBlocks is a core.Blocks whose reads go through a function, which may change what is read, fail or wait.
type HookedBlocks struct {
	core.Blocks
	// Read reads into p, from offset off of r, which was opened for e. If it is nil, reads are not changed.
	Read func(r core.BlockReader, e core.Extent, p []byte, off int64) (int, error)
}

// Open implements core.Blocks.
func (b *HookedBlocks) Open(ctx context.Context, e core.Extent) (core.BlockReader, error) {
	r, err := b.Blocks.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &hookedReader{r, e, b}, nil
}

// Unwrap returns the wrapped Blocks, for core.As.
func (b *HookedBlocks) Unwrap() core.Blocks { return b.Blocks }

type hookedReader struct {
	core.BlockReader
	extent core.Extent
	blocks *HookedBlocks
}

func (r *hookedReader) ReadAt(p []byte, off int64) (int, error) {
	if r.blocks.Read == nil {
		return r.BlockReader.ReadAt(p, off)
	}
	return r.blocks.Read(r.BlockReader, r.extent, p, off)
}

package core

// BlockContent is the amount of stored content in a block.
type BlockContent struct {
	Contents int64 // number of pieces of content with at least one extent in the block
	Bytes    int64 // sum of the lengths of these extents
}

// BlockContents is the amount of content in each block, or, if amounts may be negative, a difference between two states.
type BlockContents map[BlockID]BlockContent

// Add adds a piece of content.
func (b BlockContents) Add(extents []Extent) { b.change(extents, 1) }

// Remove is the inverse of Add.
func (b BlockContents) Remove(extents []Extent) { b.change(extents, -1) }

func (b BlockContents) change(extents []Extent, sign int64) {
	for i, e := range extents {
		known := i > 0 && extents[i-1].Block == e.Block
		for j := 0; j < i && !known; j++ {
			known = extents[j].Block == e.Block
		}
		of := b[e.Block]
		if !known {
			of.Contents += sign
		}
		of.Bytes += sign * e.Length
		b[e.Block] = of
	}
}

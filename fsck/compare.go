package fsck

import (
	"context"
	"fmt"
	"slices"
	"time"

	"orcas/core"
	"orcas/core/snapshot"
)

// Comparison is the result of Compare: the missing blocks that should contain content.
type Comparison struct {
	Time    time.Time      // when the comparison began
	Seconds float64        // how long it took
	Blocks  int            // number of blocks that should contain content
	Missing []MissingBlock // the missing blocks, ordered by ID
	Needed  string         // why recovery is impossible with the blocks that are left; empty if it is possible
}

// MissingBlock describes a missing block and the content that should be in it.
type MissingBlock struct {
	Block    core.BlockID
	Contents int
	Bytes    int64 // stored bytes
}

// Lost returns the total content of the missing blocks. Content in several missing blocks is counted once for each.
func (c *Comparison) Lost() (contents int, bytes int64) {
	for _, m := range c.Missing {
		contents += m.Contents
		bytes += m.Bytes
	}
	return contents, bytes
}

// severeShare is the share of missing blocks above which a file system is probably not mounted, rather than some files
// missing.
const severeShare = 0.01

// Severe returns the reason why the store should not be written to before an operator has examined it, or "" if there
// is none: at least two blocks and more than 1% of all blocks are missing, or a block that recovery needs is missing.
func (c *Comparison) Severe() string {
	if c.Needed != "" {
		return c.Needed
	}
	if n := len(c.Missing); n >= 2 && float64(n) > severeShare*float64(c.Blocks) {
		return fmt.Sprintf("%d of %d blocks with content are missing", n, c.Blocks)
	}
	return ""
}

// contentOfBlocks returns the amount of content in each block that has any.
func contentOfBlocks(ctx context.Context, meta core.Meta) (core.BlockContents, error) {
	all := core.BlockContents{}
	if p, ok := core.As[core.Placer](meta); ok {
		_, err := p.Places(ctx, func(block core.BlockID, of core.BlockContent) error {
			all[block] = of
			return nil
		})
		return all, err
	}
	s, ok := core.As[core.Snapshotter](meta)
	if !ok {
		return nil, core.E("fsck.Compare", core.Unsupported, fmt.Errorf("the metadata engine cannot list all content"))
	}
	return all, s.Snapshot(ctx, func(r *core.Row) error {
		r.EachData(func(d *core.DataInfo) { all.Add(d.Extents) })
		return nil
	})
}

// Compare finds missing blocks that should contain content. It may run while the store is in use. It reads the metadata
// before it lists the blocks, so a block that is not in the list was either freed in between, or is missing. To find
// out, Compare reads the metadata again: if it still places content in the block, the block cannot have been freed.
func Compare(ctx context.Context, meta core.Meta, blocks core.Blocks) (*Comparison, error) {
	const op = "fsck.Compare"
	c := &Comparison{Time: time.Now().UTC()}
	named, err := contentOfBlocks(ctx, meta)
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	c.Blocks = len(named)
	if err := blocks.Walk(ctx, core.BlockID{}, func(b core.BlockInfo) error {
		delete(named, b.ID)
		return nil
	}); err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	if len(named) > 0 {
		now, err := contentOfBlocks(ctx, meta)
		if err != nil {
			return nil, core.E(op, core.Internal, err)
		}
		for id := range named {
			named[id] = now[id]
		}
	}
	for id, n := range named {
		if n.Contents > 0 { // otherwise it was freed before the blocks were listed
			c.Missing = append(c.Missing, MissingBlock{id, int(n.Contents), n.Bytes})
		}
	}
	slices.SortFunc(c.Missing, func(a, b MissingBlock) int { return a.Block.Compare(b.Block) })
	if c.Needed, err = MissingForRecovery(ctx, meta, blocks); err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	c.Seconds = time.Since(c.Time).Seconds()
	return c, nil
}

// blockExists reports whether a block with this ID exists. It does not use Open, which would also find a deleted block
// whose file is still open.
func blockExists(ctx context.Context, blocks core.Blocks, id core.BlockID) (exists bool, err error) {
	err = blocks.Walk(ctx, id, func(b core.BlockInfo) error {
		exists = b.ID == id
		return errEnough
	})
	if err == errEnough {
		err = nil
	}
	return exists, err
}

// MissingForRecovery returns why recovery is impossible, or "" if it is possible. Recovery needs the block at
// State.ReplayFrom, which contains the newest records, unless a snapshot covers them all. MissingForRecovery reads very
// little.
func MissingForRecovery(ctx context.Context, meta core.Meta, blocks core.Blocks) (string, error) {
	for {
		st, err := meta.State(ctx)
		if err != nil || st.ReplayFrom.IsZero() {
			return "", err
		}
		exists, err := blockExists(ctx, blocks, st.ReplayFrom)
		if exists || err != nil {
			return "", err
		}
		now, err := meta.State(ctx)
		if err != nil {
			return "", err
		}
		if now.ReplayFrom != st.ReplayFrom {
			continue // the block was closed, emptied and freed in the meantime
		}
		list, err := snapshot.List(ctx, blocks)
		if err != nil || len(list) > 0 && list[0].Seq >= now.Seq {
			return "", err
		}
		return fmt.Sprintf("block %v, with the newest records of the metadata, is missing", st.ReplayFrom), nil
	}
}

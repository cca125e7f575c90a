package batch

import (
	"context"
	"log/slog"

	"orcas/core"
)

// Pending says what a start would do first, and does nothing of it: how many changes in the blocks are newer than the metadata, and which are
// missing.
func Pending(ctx context.Context, meta core.Meta, blocks core.Blocks, log *slog.Logger) (changes int, missing []Gap, err error) {
	st, err := meta.State(ctx)
	if err != nil {
		return 0, nil, err
	}
	r := &recovery{ctx: ctx, meta: meta, blocks: blocks, log: log}
	if err := r.scanAll(st); err != nil {
		return 0, nil, core.E("batch.Pending", core.Internal, err)
	}
	for _, f := range r.records {
		changes += int(f.last - max(f.first-1, r.applied))
	}
	return changes, r.gaps(), nil
}

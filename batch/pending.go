package batch

import (
	"context"
	"log/slog"

	"orcas/core"
)

// Waiting is what a start would do first.
type Waiting struct {
	Changes int   // in the blocks, newer than the metadata, and to be applied
	Missing []Gap // sequences of which no record was found where there must be one
	Ahead   bool  // the metadata is ahead of what a power cut left, and would be made again from the blocks
}

// Pending says what a start would do first, and does nothing of it.
func Pending(ctx context.Context, meta core.Meta, blocks core.Blocks, log *slog.Logger) (*Waiting, error) {
	const op = "batch.Pending"
	st, err := meta.State(ctx)
	if err != nil {
		return nil, err
	}
	r := &recovery{ctx: ctx, meta: meta, blocks: blocks, log: log}
	if err := r.scanAll(st); err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	end, err := r.cutOff()
	if err != nil {
		return nil, core.E(op, core.Internal, err)
	}
	w := &Waiting{Missing: r.gaps(), Ahead: r.relaxed && st.Seq > end}
	for _, f := range r.records {
		if f.last > r.applied {
			w.Changes += int(f.last - max(f.first-1, r.applied))
		}
	}
	return w, nil
}

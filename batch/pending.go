package batch

import (
	"context"
	"log/slog"

	"orcas/core"
)

// Waiting describes the recovery at the next start.
type Waiting struct {
	Changes int   // number of changes in the blocks that are newer than the metadata and would be applied
	Missing []Gap // sequences without a record, although there must be one
	Ahead   bool  // the metadata is ahead of the blocks, because a power cut lost a part of them, and would be rebuilt
}

// Pending describes what the recovery at the next start would do. It changes nothing.
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
	r.keepBeheaded(st)
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

package reclaim

import (
	"context"

	"orcas/core/snapshot"
	"orcas/lease"
)

// Delta extends the last snapshot by a delta, whatever its size, and frees the blocks that it covers.
func (r *Reclaimer) Delta(ctx context.Context) (report Report, err error) {
	err = r.o.Leases.Do(ctx, lease.Reclaim, func(ctx context.Context) error {
		rd := &round{Reclaimer: r, ctx: ctx, report: Report{Started: r.o.Now().UTC()}}
		st, err := r.o.Meta.State(ctx)
		if err == nil {
			err = r.snaps.load(ctx, r.o.Blocks, st.ReplayFrom)
		}
		if err == nil {
			err = rd.delta()
		}
		if err == nil {
			err = rd.free()
		}
		report = rd.report
		return err
	})
	return report, err
}

// Newest returns the snapshot that covers records.
func (r *Reclaimer) Newest() *snapshot.Info {
	if len(r.snaps.list) == 0 {
		return nil
	}
	return &r.snaps.list[0]
}

package server

import (
	"context"

	"orcas/batch"
	"orcas/core"
	"orcas/core/ids"
)

// openIDs reads the key that encrypts version IDs and upload IDs. The first start of a store, and the first start after
// an upgrade from a version without encrypted IDs, creates it; the IDs of all sequences so far remain plain. Requests are
// served only after that, so no client gets a plain ID that becomes invalid. It is called when the blocks have been
// compared, because it must not write to a store that lacks its blocks.
//
// A server must also start on a full drive, or if it has to refuse writes. If the key cannot be stored, IDs are plain
// until the next start, which draws the boundary after them.
func (s *Server) openIDs(ctx context.Context) (err error) {
	if s.ids, err = ids.Load(ctx, s.meta); s.ids != nil || err != nil {
		return err
	}
	state, err := s.meta.State(ctx)
	if err != nil {
		return err
	}
	_, failed := s.writer.Do(ctx, batch.Write{Change: &core.PutRecord{Record: ids.NewRecord(state.Seq), HasExpect: true}})
	if failed == nil {
		failed = s.writer.Settle(ctx)
	}
	if s.ids, err = ids.Load(ctx, s.meta); s.ids != nil || err != nil { // also if only Settle failed
		return err
	}
	if core.Is(failed, core.Canceled) {
		return failed
	}
	s.log.Warn("version IDs are not encrypted until the next start, because their key cannot be stored", "err", failed)
	return nil
}

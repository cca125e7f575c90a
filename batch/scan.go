package batch

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"orcas/core"
	"orcas/core/frame"
)

// errTail: a record whose later frames are missing.
var errTail = errors.New("the record is cut off")

// readRecord returns the payload of the record that begins with h, over all its frames, and where it ends.
func readRecord(s *frame.Scanner, h frame.Header) (all []byte, end int64, err error) {
	for index := uint32(0); ; index++ {
		if h.Index != index || h.Type != frame.Record {
			return nil, 0, errTail
		}
		b, err := s.Payload(h)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, b...)
		if h.Last {
			return all, h.End(), nil
		}
		id := h.ID
		if h, err = s.Header(h.End()); err != nil {
			return nil, 0, err
		}
		if h.ID != id {
			return nil, 0, errTail
		}
	}
}

// Cut returns the end of the last record in a packed block that does not begin behind st.Seq, 0 where there is none: as far as the block has to be read to replay
// everything up to that and nothing behind it. A record that ends behind it is the last one before a crash, of which recovery left out what was not whole: and
// so does a replay of the copy, in which it is the last one too. The block may be written to meanwhile.
//
// Beside are the other blocks that a replay looks into: those with the contents of batches that were answered before they were durable. Where one of them is
// missing, whatever became of the content since, the history ends in front of that batch (see cutOff).
func Cut(ctx context.Context, blocks core.Blocks, b core.BlockInfo, st core.State) (end int64, beside []core.BlockID, err error) {
	r := &recovery{ctx: ctx, blocks: blocks}
	err = r.eachRecord(b, func(payload []byte, to int64) error {
		_, changes, err := decodeRecord(payload)
		if err != nil {
			return err
		}
		last := changes[len(changes)-1].Place().Seq
		if changes[0].Place().Seq > st.Seq {
			return nil
		}
		end = to
		if s, ok := changes[0].(*core.Synced); !ok || !s.Relaxed || last <= st.Synced {
			return nil
		}
		for _, c := range changes {
			eachContent(c, func(_ core.DataID, extents []core.Extent) {
				for _, e := range extents {
					if e.Block != b.ID && !slices.Contains(beside, e.Block) {
						beside = append(beside, e.Block)
					}
				}
			})
		}
		return nil
	}, func(int64) {})
	if err != nil {
		return 0, nil, core.E("batch.Cut", core.Internal, err)
	}
	return end, beside, nil
}

// Gaps returns the sequences behind a state and up to seq of which the blocks hold neither a record nor a void: a rebuild from a snapshot of that state
// would miss them.
func Gaps(ctx context.Context, blocks core.Blocks, st core.State, seq core.Seq) ([]Gap, error) {
	r := &recovery{ctx: ctx, blocks: blocks, log: slog.New(slog.DiscardHandler)}
	if err := r.scanAll(st); err != nil {
		return nil, core.E("batch.Gaps", core.Internal, err)
	}
	gaps := r.gaps()
	if r.seen < seq {
		gaps = append(gaps, Gap{r.seen + 1, seq})
	}
	return slices.DeleteFunc(gaps, func(g Gap) bool { return g.From > seq }), nil
}

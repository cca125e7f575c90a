package batch

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/klauspost/compress/s2"

	"orcas/core"
	"orcas/core/frame"
)

// errTail is the error of a record whose later frames are missing.
var errTail = errors.New("the record is cut off: its later frames are missing")

// readRecord returns the payload of the record that begins with h, from all its frames, and the offset of its end.
func readRecord(s *frame.Scanner, h frame.Header) (all []byte, end int64, err error) {
	for index := uint32(0); ; index++ {
		if h.Index != index || h.Type != frame.Record {
			return nil, 0, errTail
		}
		b, err := s.Payload(h)
		if err != nil {
			return nil, 0, err
		}
		if all, err = appendPiece(all, &h, b); err != nil {
			return nil, 0, err
		}
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

// appendPiece appends the plain form of a piece of a record. The header and the payload were verified, so a length that
// differs from the header's is an error of the writer; the record counts as damaged.
func appendPiece(all []byte, h *frame.Header, stored []byte) ([]byte, error) {
	switch h.Codec {
	case frame.Plain:
		return append(all, stored...), nil
	case frame.S2:
		if n, err := s2.DecodedLen(stored); err != nil || n != int(h.Plain) {
			return nil, frame.ErrDamaged
		}
		at := len(all)
		all = slices.Grow(all, int(h.Plain))[:at+int(h.Plain)]
		if _, err := s2.Decode(all[at:], stored); err != nil {
			return nil, frame.ErrDamaged
		}
		return all, nil
	}
	return nil, frame.ErrVersion
}

// Cut returns the end of the last record in a packed block that begins at or before st.Seq, or 0 if there is none. The
// part of the block before that end contains everything that a replay up to st.Seq needs, and nothing later. If that
// record ends after st.Seq, it was the last one before a crash, and recovery dropped its incomplete changes. A replay
// of a copy that ends there drops them too, because the record is also the last one in the copy. The block may be
// written to in the meantime.
//
// Cut also returns the other blocks that a replay examines: those with the content of batches that were acknowledged
// before they were durable. If one of them is missing, even if its content has been deleted since, the history ends
// before that batch (see cutOff).
func Cut(ctx context.Context, blocks core.Blocks, b core.BlockInfo, st core.State) (end int64, beside []core.BlockID, err error) {
	r := &recovery{ctx: ctx, blocks: blocks}
	err = r.eachRecord(b, func(payload []byte, _, to int64) error {
		_, changes, err := decodeRecord(payload)
		if err != nil {
			return err
		}
		last := changes[len(changes)-1].Stamp()
		if changes[0].Stamp() > st.Seq {
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

// Gaps returns the sequences after a state and up to seq for which the blocks have neither a record nor a void: a
// rebuild from a snapshot of that state would miss them.
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

package batch

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"orcas/core"
	"orcas/core/frame"
	"orcas/feed"
	"orcas/internal/mutant"
)

// maxBehind is the maximum number of changes that a subscriber of the feed may be behind and still get them from the
// records. The positions of the records are kept in memory, and for more changes it is faster to read the metadata
// again.
const maxBehind = 1_000_000

// records reads changes back from the packed blocks; it implements feed.Records.
type records struct{ blocks core.Blocks }

// history reads the records after a position; it implements feed.History. It uses the parts of recovery that read
// records and find gaps and voids.
type history struct {
	recovery
	after feed.Position
	known bool // there is a record at after
}

// Since implements feed.Records.
func (l records) Since(ctx context.Context, after feed.Position, to core.Seq) (feed.History, error) {
	const op = "batch.Since"
	if to-min(after.Seq, to) > maxBehind {
		return nil, feed.TooOld(fmt.Sprintf("%d changes behind: at most %d can be read from the records", to-after.Seq, maxBehind))
	}
	for try := 1; ; try++ {
		h := &history{after: after, known: after.Seq == 0}
		h.ctx, h.blocks, h.log = ctx, l.blocks, slog.New(slog.DiscardHandler)
		h.applied, h.seen = after.Seq, after.Seq
		err := h.find(to)
		if core.Is(err, core.NoSuchData) && try < 3 {
			continue // reclaim has deleted a block that the walk had listed; the next walk will not list it
		}
		if err == nil {
			err = h.check(to)
		}
		if err != nil {
			return nil, core.E(op, core.Internal, err)
		}
		return h, nil
	}
}

// find finds the records after the position, up to a sequence.
func (h *history) find(to core.Seq) error {
	err := h.blocks.Walk(h.ctx, h.after.Block, func(b core.BlockInfo) error {
		if b.Kind != core.Packed {
			return nil
		}
		return h.eachRecord(b, func(payload []byte, at, end int64) error {
			return h.note(found{block: b.ID, start: at, end: end}, payload, to)
		}, func(int64) {})
	})
	slices.SortFunc(h.records, func(a, b found) int { return cmp.Compare(a.first, b.first) })
	return err
}

// note stores the position of a record: f.start and f.end are those of the record, without the content before it.
func (h *history) note(f found, payload []byte, to core.Seq) error {
	_, changes, err := decodeRecord(payload)
	if err != nil {
		return err
	}
	f.first, f.last = core.FirstSeq(changes[0]), changes[len(changes)-1].Stamp()
	for _, c := range changes {
		if v, ok := c.(*core.Void); ok && v.To != 0 {
			h.voids = append(h.voids, v)
		}
	}
	if f.block == h.after.Block && f.first <= h.after.Seq && h.after.Seq <= f.last {
		h.known = true
	}
	if f.last > h.after.Seq && f.first <= to {
		h.seen = max(h.seen, f.last)
		h.records = append(h.records, f)
	}
	return nil
}

// check returns an error if the records do not continue the history after the position.
func (h *history) check(to core.Seq) error {
	if !h.known {
		return feed.TooOld(fmt.Sprintf("the record of change %d is not in block %s", h.after.Seq, h.after.Block))
	}
	gaps := h.gaps()
	if h.seen < to {
		gaps = append(gaps, Gap{h.seen + 1, to})
	}
	if len(gaps) > 0 {
		return feed.TooOld(fmt.Sprintf("no record contains the changes %d to %d", gaps[0].From, gaps[0].To))
	}
	return nil
}

// Next implements feed.History.
func (h *history) Next(ctx context.Context) ([]core.Change, feed.Position, error) {
	if len(h.records) == 0 {
		return nil, feed.Position{}, io.EOF
	}
	f := h.records[0]
	changes, err := h.read(ctx, f)
	if core.Is(err, core.NoSuchData) {
		reason := fmt.Sprintf("block %s with the record of change %d was reclaimed", f.block, f.first)
		return nil, feed.Position{}, feed.TooOld(reason)
	}
	if err != nil {
		return nil, feed.Position{}, core.E("batch.Next", core.Internal, err)
	}
	h.records = h.records[1:]
	changes = slices.DeleteFunc(changes, func(c core.Change) bool {
		return h.voided(c.Stamp()) && !mutant.Is("voids-forgotten")
	})
	return changes, feed.Position{Seq: f.last, Block: f.block}, nil
}

// read reads the record at f.start.
func (h *history) read(ctx context.Context, f found) ([]core.Change, error) {
	r, err := h.blocks.Open(ctx, core.Extent{Block: f.block, Length: f.end})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &frame.Scanner{R: r, Block: f.block, Size: f.end}
	header, err := s.Header(f.start)
	if err != nil {
		return nil, err
	}
	payload, _, err := readRecord(s, header)
	if err != nil {
		return nil, err
	}
	_, changes, err := decodeRecord(payload)
	return changes, err
}

// Changes calls emit with the changes after a state, up to a sequence, in order and as recovery would apply them: from
// the records of the packed blocks, without voided changes. It does not notice missing records. All changes up to the
// sequence must have been applied, and those that were not must have been voided by its record or earlier ones.
func Changes(ctx context.Context, blocks core.Blocks, after core.State, to core.Seq, emit func([]core.Change) error) error {
	h := &history{after: feed.Position{Seq: after.Seq, Block: after.ReplayFrom}}
	h.ctx, h.blocks, h.log = ctx, blocks, slog.New(slog.DiscardHandler)
	if err := h.find(to); err != nil {
		return core.E("batch.Changes", core.Internal, err)
	}
	for len(h.records) > 0 {
		if err := ctx.Err(); err != nil {
			return core.E("batch.Changes", core.Canceled, err)
		}
		changes, _, err := h.Next(ctx)
		if err != nil {
			return err
		}
		changes = slices.DeleteFunc(changes, func(c core.Change) bool { return c.Stamp() <= after.Seq || c.Stamp() > to })
		if len(changes) == 0 || mutant.Is("delta-skips-record") && len(h.records) == 1 {
			continue
		}
		if err := emit(changes); err != nil {
			return err
		}
	}
	return nil
}

package content

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"slices"
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

// # Verification before sharing
//
// The metadata does not prove that the stored copy of content is intact: bits may have rotted, or a file may have been
// deleted. So the copy is examined before a new object or part refers to it.
//
//   - If the content is in memory or has at most 64 KiB, the stored copy is read and compared with the body, or with
//     the SHA-256 that the client sent.
//   - For larger content, each block must exist at its path and be long enough, and it must have been written or
//     scrubbed within the last Options.VerifiedFor. If a block was written to after it was verified, the copy is read
//     if the client sent the body; otherwise it is not shared.
//
// A damaged or missing copy is repaired from the body that the client sent (see repair.go). If that is not possible,
// the content is marked, so that nothing shares it. If the state of the copy cannot be determined, the body is stored
// as new content.

// verdict is the result of examining a stored copy.
type verdict int

const (
	unknown verdict = iota // the copy could not be read, or was not verified recently
	whole
	broken // certainly damaged or missing
	gone   // the content was deleted
)

// futureMax is how far in the future a verification time may be: clocks differ and are adjusted.
const futureMax = 24 * time.Hour

// examine examines the stored copy of d. Body is the content that the client sent, or nil if it is not in memory; sent
// reports whether the client sent it. The copy may be moved in the meantime, so examine also returns the DataInfo of
// the copy that it examined.
func (e *Engine) examine(ctx context.Context, d *core.DataInfo, body []byte, sent bool) (verdict, *core.DataInfo) {
	if mutant.Is("no-verify") {
		return whole, d
	}
	for range 4 { // the same content is not moved twice within minutes
		v := e.examineCopy(ctx, d, body, sent)
		if v == whole {
			return v, d
		}
		now, err := e.meta.Data(ctx, []core.DataID{d.ID})
		switch {
		case err != nil:
			return unknown, d
		case len(now) == 0:
			return gone, d
		case slices.Equal(now[0].Extents, d.Extents):
			return v, d
		}
		d = &now[0]
	}
	return unknown, d
}

func (e *Engine) examineCopy(ctx context.Context, d *core.DataInfo, body []byte, sent bool) verdict {
	if d.Damaged {
		return broken
	}
	isRead := body != nil || d.Size <= core.HeadSize
	if !isRead && mutant.Is("no-verify-large") {
		return whole
	}
	stats, v := e.statBlocks(ctx, d)
	if v != whole {
		return v
	}
	if isRead {
		return e.readCopy(ctx, d, body)
	}
	switch verified, touched := e.verifiedAt(ctx, d, stats); {
	case touched && sent:
		return e.readCopy(ctx, d, nil)
	case touched || !e.isRecent(verified):
		return unknown
	}
	return whole
}

// statBlocks checks that each block of d exists and is long enough for its extents. It returns whole if so.
func (e *Engine) statBlocks(ctx context.Context, d *core.DataInfo) ([]core.BlockStat, verdict) {
	if e.stater == nil {
		return nil, unknown
	}
	var stats []core.BlockStat
	for _, x := range d.Extents {
		if n := len(stats); n == 0 || stats[n-1].ID != x.Block {
			st, err := e.stater.Stat(ctx, x.Block)
			if core.Is(err, core.NoSuchData) {
				return nil, broken
			}
			if err != nil {
				return nil, unknown
			}
			stats = append(stats, st)
		}
		if x.Offset+x.Length > stats[len(stats)-1].Size {
			return nil, broken
		}
	}
	return stats, whole
}

// readCopy reads a copy, verifies every frame, and compares it with body, or with its SHA-256 if body is nil.
func (e *Engine) readCopy(ctx context.Context, d *core.DataInfo, body []byte) verdict {
	s := e.wholeSection(ctx, d)
	defer s.Close()
	if body == nil {
		sum := sha256.New()
		if _, err := io.Copy(sum, s); err != nil {
			return verdictOf(err)
		}
		if [sha256.Size]byte(sum.Sum(nil)) != d.SHA256 {
			return broken
		}
		return whole
	}
	for s.left > 0 {
		if err := s.next(); err != nil {
			return verdictOf(err)
		}
		if !bytes.Equal(s.ready, body[:len(s.ready)]) {
			return broken
		}
		body = body[len(s.ready):]
	}
	return whole
}

func verdictOf(err error) verdict {
	if core.Is(err, core.Damaged) {
		return broken
	}
	return unknown
}

// verifiedAt returns the oldest verification time of the blocks of large content, or the zero time if they were never
// verified. Touched reports whether a block was written to after its verification.
func (e *Engine) verifiedAt(
	ctx context.Context, d *core.DataInfo, stats []core.BlockStat,
) (first time.Time, touched bool) {
	for i := range stats {
		st := &stats[i]
		at := d.Written
		if e.verified != nil {
			scrubbed, err := e.verified(ctx, st.ID)
			if err == nil && scrubbed.After(at) { // ignore an error: the time of the scrub is unknown
				at = scrubbed
			}
		}
		switch {
		case st.Kind != core.Large: // appending other content also changes the modification time
			if at.Before(st.Modified) {
				at = st.Modified
			}
		case st.Modified.After(at): // also if Written is zero, as for content from old versions
			touched = true
		}
		if i == 0 || at.Before(first) {
			first = at
		}
	}
	return first, touched
}

// isRecent reports whether content that was verified at a time still counts as verified.
func (e *Engine) isRecent(at time.Time) bool {
	age := e.now().Sub(at)
	return age <= e.verifiedFor && age >= -futureMax
}

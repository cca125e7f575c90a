package reclaim

import (
	"context"
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

// Readers reports what readers of content still need. Package pins describes the protocol. A vfs.FS implements it.
type Readers interface {
	// Quiet waits until every metadata lookup that began before the call has ended. By the end of its lookup, a reader
	// has pinned what it still needs.
	Quiet(ctx context.Context) error

	// Pins reports whether a reader still needs a block. If the metadata does not refer to the block, a result of false
	// after Quiet is final.
	Pins(block core.BlockID) bool

	// PinsList is like Pins, for a segment list in the garbage.
	PinsList(list core.UploadID) bool

	// OldestReader returns the number of readers with pins, and the age of the oldest of them.
	OldestReader() (readers int, age time.Duration)
}

// noReaders is a Readers for a process without readers.
type noReaders struct{}

func (noReaders) Quiet(context.Context) error        { return nil }
func (noReaders) Pins(core.BlockID) bool             { return false }
func (noReaders) PinsList(core.UploadID) bool        { return false }
func (noReaders) OldestReader() (int, time.Duration) { return 0, 0 }

// pinnedLong is how long readers may pin dead content before a warning is logged.
const pinnedLong = 5 * time.Minute

// dead identifies a dead block or a dead segment list.
type dead struct {
	block core.BlockID
	list  core.UploadID
}

// kept describes a dead block or list that readers still pin.
type kept struct {
	bytes int64
	since time.Time // when a round first found it pinned
}

// pinned records the dead blocks and lists that rounds could not free because readers still need them.
type pinned struct {
	last   map[dead]kept // found by the last round
	now    map[dead]kept // found by this round so far
	warned bool          // the warning about the current readers has been logged
}

// isPinned reports whether a reader needs a dead block, and records it if so.
func (r *round) isPinned(id core.BlockID, size int64) bool {
	if mutant.Is("no-pin-check") || !r.o.Readers.Pins(id) {
		return false
	}
	r.keep(dead{block: id}, size)
	return true
}

// isPinnedList is like isPinned, for a segment list in the garbage.
func (r *round) isPinnedList(id core.UploadID) (bool, error) {
	if mutant.Is("no-pin-check") || !r.o.Readers.PinsList(id) {
		return false, nil
	}
	size, err := r.sizeOf(id)
	if err == nil {
		r.keep(dead{list: id}, size)
	}
	return true, err
}

func (r *round) keep(d dead, size int64) {
	since := r.o.Now()
	if before, ok := r.pinned.last[d]; ok {
		since = before.since
	}
	r.pinned.now[d] = kept{size, since}
}

// sizeOf returns the total size of the parts of a list. Each list is read only once.
func (r *round) sizeOf(id core.UploadID) (size int64, err error) {
	for _, known := range []map[dead]kept{r.pinned.now, r.pinned.last} {
		if k, ok := known[dead{list: id}]; ok {
			return k.bytes, nil
		}
	}
	for p, err := range core.EachPart(r.ctx, r.o.Meta, id) {
		if err != nil {
			return 0, err
		}
		size += p.Size
	}
	return size, nil
}

// notePins completes the report of a round, and logs one warning if readers pin dead content for too long.
func (r *Reclaimer) notePins(rep *Report) {
	p := &r.pinned
	if rep.Error == "" {
		p.last = p.now
	}
	longest := time.Duration(0)
	for _, k := range p.last {
		rep.PinnedBytes += k.bytes
		longest = max(longest, r.o.Now().Sub(k.since))
	}
	readers, age := r.o.Readers.OldestReader()
	rep.OldestReader = age.Seconds()
	isLong := longest >= pinnedLong
	if isLong && !p.warned {
		r.log.Warn("slow readers keep deleted content on the drive", "pinned_bytes", rep.PinnedBytes,
			"seconds", longest.Seconds(), "readers", readers, "oldest_reader_seconds", rep.OldestReader)
	}
	p.warned = isLong
}

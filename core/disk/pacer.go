package disk

import "sync"

// A pacer keeps large blocks from delaying small commits. Both end in the same queue of the drive: if large writers
// pass on as much as they receive, then each write and flush of a small commit waits until the megabytes before it are
// written.
//
//   - A large writer writes its bytes out in ranges of paceSize. It has at most maxAhead ranges that are not on the
//     drive, so at its commit little is left to sync. All large writers together are writing out at most maxBeside
//     ranges, or maxAlone if there was no small commit during the last restAfter ranges.
//   - Small commits go first. While one of them syncs, only maxPasses ranges may begin for each small commit that has
//     ended. So uploads still make progress when one small commit follows another.
//
// A range that was written out is not durable: the drive may have a cache, and neither the size of the file nor the
// position of its bytes is recorded. Every commit ends with an fdatasync.
//
// Relaxed writers are not paced: nobody waits for their syncs.
//
// Measured with 6 goroutines that write files of 10 MiB, and one that appends 38 KB to a preallocated file and syncs it
// (ext4 without a journal, 2 cores, other work on the drive; medians of 6 alternating runs). The small sync beside the
// large files, and their rate:
//
//	median 23 ms, p99 94 ms    371 MB/s   sync_file_range every 2 MiB, without waiting
//	       11         46       256        4 ranges of 1 MiB at a time, 8 passes
//	        8.7       42       278        4 ranges, 4 passes
//	        6.1       37       300        2 ranges, 8 passes
//	        5.8       48       262        2 ranges, 4 passes
//	        4.8       40       251        2 ranges, 2 passes
//	        3.3       30       214        1 range, 2 passes
//
// The large files alone, relative to their rate without waiting (5 alternating runs): 1 range at a time 0.66, 2 ranges
// 0.77, 4 ranges 0.83, 8 ranges 0.90, 2 for each file 1.03.
//
// Dropped: a bound for each file only (median 14 ms with 2 ranges for each, where no bound had 16 and 2 ranges for all
// had 4.8, in quiet runs); O_DIRECT, which had 5.3 ms and needs aligned memory and a file system that supports it; and a
// bound on the number of large fdatasyncs, which made no difference, because little is left to sync.
type pacer struct {
	mu      sync.Mutex // guards the fields below
	changed sync.Cond  // signaled when a range or a small commit has ended
	writing int        // ranges that are being written out
	since   int        // ranges begun since the last small commit
	syncs   int        // small commits that are syncing
	passes  int        // ranges that may still begin while small commits are syncing
}

const (
	// paceSize is the length of a range, in bytes. A commit of fewer bytes is small.
	paceSize = 1 << 20

	// maxAhead is the maximum number of ranges of a writer that wait or are being written out.
	maxAhead = 2

	// maxBeside and maxAlone are the maximum number of ranges that are being written out, when there was a small commit
	// during the last restAfter ranges, and otherwise.
	maxBeside, maxAlone = 2, 16
	restAfter           = 32

	// maxPasses is the number of ranges that may begin while small commits are syncing, after one of them has ended.
	maxPasses = 8
)

func (p *pacer) init() { p.changed.L = &p.mu }

// write writes out a range with do.
func (p *pacer) write(do func() error) error {
	p.mu.Lock()
	for !p.mayBegin() {
		p.changed.Wait()
	}
	if p.syncs > 0 {
		p.passes--
	}
	p.writing++
	p.since++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.writing--
		p.changed.Broadcast()
	}()
	return do()
}

// mayBegin reports whether a range may begin to be written out.
func (p *pacer) mayBegin() bool {
	if p.syncs > 0 && p.passes == 0 {
		return false
	}
	return p.writing < maxBeside || p.since >= restAfter && p.writing < maxAlone
}

// sync performs the sync of a small commit with do.
func (p *pacer) sync(do func() error) error {
	p.mu.Lock()
	p.syncs++
	p.since = 0
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.syncs--
		p.since, p.passes = 0, maxPasses
		p.changed.Broadcast()
	}()
	return do()
}

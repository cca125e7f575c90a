package disk

import "sync"

// A pacer keeps large blocks from delaying small commits. Both end in the same queue of the drive: if large writers
// pass on as much as they receive, then each write and flush of a small commit waits until the megabytes before it are
// written.
//
//   - A large writer writes its bytes out in ranges of paceSize. It has at most maxAhead ranges that are not on the
//     drive, and all large writers together are writing at most maxWriting. So at its commit, little is left to sync.
//   - Small commits go first. While one of them syncs, only those ranges may begin that the commit before it has left a
//     pass for. So uploads still make progress when one small commit follows another, and they get a share of the drive
//     that does not depend on how many commits there are.
//
// A range that was written out is not durable: the drive may have a cache, and neither the size of the file nor the
// position of its bytes is recorded. Every commit ends with an fdatasync.
//
// Relaxed writers are not paced: nobody waits for their syncs.
//
// Measured with 6 goroutines that write files of 10 MiB, and one that appends 38 KB to a preallocated file and syncs it
// (ext4 without a journal, 2 cores, medians of two quiet runs; the rate is that of the large files):
//
//	small sync: median 16 ms, p99 77 ms    620 MB/s   sync_file_range every 2 MiB, without waiting
//	                   14         56       565        each file waits for its own previous range
//	                    4.8       21       466        2 ranges of 1 MiB at a time
//	                    5.3       25       511        the same with O_DIRECT, which needs aligned buffers
//	                    1.8       13       388        1 range at a time, small syncs first
//
// Dropped: O_DIRECT, because it is not better than bounded ranges and needs aligned memory and file systems that
// support it; and a bound on the number of large fdatasyncs, which made no difference once little is left to sync.
type pacer struct {
	mu      sync.Mutex // guards the fields below
	changed sync.Cond  // signaled when a range or a small commit has ended
	writing int        // ranges that are being written out
	syncs   int        // small commits that are syncing
	passes  int        // ranges that may still begin while small commits are syncing
}

const (
	// paceSize is the length of a range, in bytes. A commit of fewer bytes is small.
	paceSize = 1 << 20

	// maxAhead is the maximum number of ranges of a writer that wait or are being written out.
	maxAhead = 2

	// maxWriting is the maximum number of ranges that are being written out.
	maxWriting = 4
)

func (p *pacer) init() { p.changed.L = &p.mu }

// write writes out a range with do.
func (p *pacer) write(do func() error) error {
	p.mu.Lock()
	for p.writing >= maxWriting || p.syncs > 0 && p.passes == 0 {
		p.changed.Wait()
	}
	if p.syncs > 0 {
		p.passes--
	}
	p.writing++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.writing--
		p.changed.Broadcast()
	}()
	return do()
}

// sync performs the sync of a small commit with do.
func (p *pacer) sync(do func() error) error {
	p.mu.Lock()
	p.syncs++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.syncs--
		p.passes = maxWriting
		p.changed.Broadcast()
	}()
	return do()
}

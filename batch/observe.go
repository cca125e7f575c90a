package batch

import "time"

// Observer gets measurements of a Writer, for metrics. Each function may be nil; if Batch is nil, batches are not
// measured. The functions are called by the goroutines that every write waits for, so they must return quickly, and
// must not call the Writer.
type Observer struct {
	Recovered func(*Recovery)                         // called once, by Open; Applied is the number of replayed changes
	Batch     func(BatchStats)                        // called when the result of a batch is known
	Synced    func(duration time.Duration, err error) // called in relaxed mode, after each sync of the drive
}

// BatchStats are the measurements of a batch.
type BatchStats struct {
	Queued int   // number of writes that were waiting when the batch was formed, including its own
	Writes int   // number of changes from callers
	Blobs  int   // number of these changes that came with content
	Bytes  int64 // size of this content
	Stored int64 // bytes written to the block: content, frame headers, and the record

	Commit time.Duration // time to write and sync the batch (fdatasync); in relaxed mode, only to write it
	Apply  time.Duration // time of Meta.Apply; 0 if it was not called

	Err error // the error of the whole batch; nil if each change has its own result
}

// now returns the time, or the zero time if there is no observer of batches.
func (o *Observer) now() time.Time {
	if o.Batch == nil {
		return time.Time{}
	}
	return time.Now()
}

// measure returns the measurements of a batch after its commit, which began at start.
func (w *Writer) measure(writes []*pending, start time.Time, stored int64) BatchStats {
	s := BatchStats{Queued: w.waiting, Writes: len(writes), Stored: stored}
	if start.IsZero() {
		return s
	}
	s.Commit = time.Since(start)
	for _, p := range writes {
		if n := p.write.size(); n > 0 {
			s.Blobs++
			s.Bytes += n
		}
	}
	return s
}

// applied records the duration of Apply, which began at start.
func (s *BatchStats) applied(start time.Time) {
	if !start.IsZero() {
		s.Apply = time.Since(start)
	}
}

func (o *Observer) recovered(r *Recovery) {
	if o.Recovered != nil {
		o.Recovered(r)
	}
}

func (o *Observer) ended(s *BatchStats, err error) {
	if o.Batch != nil {
		s.Err = err
		o.Batch(*s)
	}
}

func (o *Observer) synced(took time.Duration, err error) {
	if o.Synced != nil {
		o.Synced(took, err)
	}
}

package sqlite

import "time"

// A snapshot of ten million objects takes most of a minute of CPU time. So that other work hardly slows down, a snapshot
// rests restTimes as long as it has worked on a range, if there was other work meanwhile: more than one read or change in
// a millisecond. A range that took less than that needs no rest. The rests get shorter as the images grow, and there are
// none when the images have hurryBytes. The first earlyRanges have none either: the snapshot of a small store is soon
// written, and until then reclaim cannot delete blocks, which such a store fills quickly.
const (
	restTimes   = 4
	hurryBytes  = maxImageBytes / 4
	earlyRanges = 8
)

// rest returns how long a snapshot rests after a range that took a given time, beside a number of other reads and changes.
func rest(took time.Duration, worked, images int64) time.Duration {
	if worked <= took.Milliseconds() || took < time.Millisecond || images >= hurryBytes {
		return 0
	}
	return time.Duration(float64(restTimes*took) * (1 - float64(images)/hurryBytes))
}

// rest waits, at most until the snapshot is canceled.
func (d *dump) rest(n time.Duration) {
	if d.m.options.rested != nil {
		d.m.options.rested(n)
		return
	}
	if n <= 0 {
		return
	}
	timer := time.NewTimer(n)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ctx.Done():
	case <-d.m.done:
	}
}

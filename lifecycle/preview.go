package lifecycle

import (
	"context"
	"errors"
	"math"
	"time"

	"orcas/core"
)

// Preview is what a pass over a bucket would delete.
type Preview struct {
	Expired    int64 // current versions
	Noncurrent int64
	Markers    int64
	Uploads    int64
	Bytes      int64 // the size of these versions
	Held       int64 // versions that are locked, and so stay
	Scanned    int64 // versions, delete markers and uploads that were read
	Complete   bool  // all of them were read
	Samples    []Expiring

	most  int64
	limit int
}

// Expiring is a version, a delete marker or an upload that a pass would delete.
type Expiring struct {
	Key      string
	Version  core.Version
	Marker   bool
	Upload   bool
	Size     int64 // in bytes; 0 for uploads
	Modified time.Time
}

// expiring describes a version.
func expiring(o *core.ObjectInfo) Expiring {
	return Expiring{Key: o.Key, Version: o.Version(), Marker: o.Marker, Size: o.Size, Modified: o.Modified}
}

func (p *Preview) add(e Expiring) {
	p.Bytes += e.Size
	if len(p.Samples) < p.limit {
		p.Samples = append(p.Samples, e)
	}
}

// errEnough ends a preview that has read as much as it may.
var errEnough = errors.New("enough")

// Preview returns what a pass over a bucket would delete now with the rules in c, by the code of the pass, without deleting
// anything. It reads at least most entries, unless there are fewer or ctx ends, and returns at most limit samples.
func (w *Worker) Preview(ctx context.Context, bucket string, c *Config, most int64, limit int) (*Preview, error) {
	b, err := w.o.Meta.Bucket(ctx, bucket)
	if err != nil {
		return nil, err
	}
	o := w.o
	o.Save, o.Share = math.MaxInt, 1 // it records no position, and does not pause
	trial := &Preview{most: most, limit: limit}
	p := &pass{Worker: New(o), ctx: ctx, trial: trial}
	walk := &walk{pass: p, position: position{Bucket: b.Name, ID: b.ID}, info: b, config: c}
	if err = walk.versions(); err == nil {
		walk.position.Key = ""
		err = walk.uploads()
	}
	if ctx.Err() != nil {
		err = errEnough
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	r := &p.report
	trial.Expired, trial.Noncurrent, trial.Markers, trial.Uploads, trial.Held, trial.Scanned = r.Expired, r.Noncurrent, r.Markers, r.Uploads, r.Held, r.Scanned
	trial.Complete = err == nil
	return trial, nil
}

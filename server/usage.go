package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"orcas/admin"
	"orcas/internal/durable"
	"orcas/survey"
)

// UsageFile is the name of the file, in the data directory, with what the buckets held over time: JSON, compressed with
// gzip. It is only for people to look at, so it is not part of backups, and a damaged one is replaced.
const UsageFile = "usage.json.gz"

const (
	usageEvery   = time.Hour
	usageLook    = 10 * time.Second     // how often the server looks whether an hour has passed
	usageHourly  = 14 * 24 * time.Hour  // older points: one per day
	usageKept    = 400 * 24 * time.Hour // older points are deleted
	usageBuckets = 100                  // buckets with a history of their own; the largest ones begin first
	usageMax     = 64 << 20             // the maximum size of the file, decompressed
)

// usage is the history of what the buckets held.
type usage struct {
	path string
	log  *slog.Logger

	mu    sync.Mutex                    // guards the fields below
	total []admin.UsagePoint            // of the whole store
	of    map[string][]admin.UsagePoint // by the name of the bucket
}

// usageDocument is the content of UsageFile.
type usageDocument struct {
	Total   []admin.UsagePoint            `json:"total"`
	Buckets map[string][]admin.UsagePoint `json:"buckets"`
}

// load reads the file. Without one, the history is empty.
func (u *usage) load() {
	u.of = map[string][]admin.UsagePoint{}
	d, err := readUsage(u.path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		u.log.Warn("the history of usage cannot be read, so it begins again", "file", u.path, "err", err)
		return
	}
	u.total = d.Total
	if d.Buckets != nil {
		u.of = d.Buckets
	}
}

// readUsage reads and decodes a file.
func readUsage(path string) (*usageDocument, error) {
	packed, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, usageMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > usageMax {
		return nil, fmt.Errorf("it has more than %d bytes", usageMax)
	}
	var d usageDocument
	return &d, json.Unmarshal(text, &d)
}

// save writes the file.
func (u *usage) save() error {
	u.mu.Lock()
	text, err := json.Marshal(&usageDocument{u.total, u.of})
	u.mu.Unlock()
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(text) // a buffer accepts everything
	_ = z.Close()
	var steps durable.Steps
	return steps.Replace(u.path, packed.Bytes())
}

// run adds a point every hour, until ctx ends.
func (u *usage) run(ctx context.Context, s *survey.Survey, now func() time.Time) {
	tick := time.NewTicker(usageLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if last := s.Last(); last != nil && u.add(last, now()) {
			if err := u.save(); err != nil {
				u.log.Warn("the history of usage cannot be saved: a restart loses a part of it", "file", u.path, "err", err)
			}
		}
	}
}

// add adds a point of the store and of each bucket, if an hour has passed since the last one.
func (u *usage) add(r *survey.Result, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.total); n > 0 {
		if since := now.Sub(u.total[n-1].Time); since >= 0 && since < usageEvery {
			return false
		}
	}
	point := func(b *survey.Bucket) admin.UsagePoint {
		return admin.UsagePoint{
			Time: now.UTC(), Objects: b.Objects(), Bytes: b.Bytes - b.NoncurrentBytes, Versions: b.Versions - b.Objects(), VersionBytes: b.NoncurrentBytes,
		}
	}
	u.total = thin(append(u.total, point(&survey.Bucket{Tally: r.Total})), now)
	exist := make(map[string]bool, len(r.Buckets))
	for i := range r.Buckets {
		b := &r.Buckets[i]
		exist[b.Name] = true
		if list, ok := u.of[b.Name]; ok {
			u.of[b.Name] = thin(append(list, point(b)), now)
		}
	}
	for name := range u.of {
		if !exist[name] {
			delete(u.of, name)
		}
	}
	largest, _ := r.Largest(usageBuckets)
	for i := range largest {
		b := &largest[i]
		if _, ok := u.of[b.Name]; !ok && len(u.of) < usageBuckets {
			u.of[b.Name] = []admin.UsagePoint{point(b)}
		}
	}
	return true
}

// thin removes points that are too old, and all but the first of each day from those that are older than two weeks.
func thin(points []admin.UsagePoint, now time.Time) []admin.UsagePoint {
	kept, day := points[:0], ""
	for _, p := range points {
		age := now.Sub(p.Time)
		if age > usageKept {
			continue
		}
		if d := p.Time.Format(time.DateOnly); age > usageHourly {
			if d == day {
				continue
			}
			day = d
		}
		kept = append(kept, p)
	}
	return kept
}

// document returns the history of a bucket, or of the store if the name is "".
func (u *usage) document(bucket string) *admin.Usage {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := u.total
	if bucket != "" {
		list = u.of[bucket]
	}
	return &admin.Usage{Points: append([]admin.UsagePoint{}, list...)}
}

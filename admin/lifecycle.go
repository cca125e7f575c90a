package admin

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"orcas/lifecycle"
)

// LifecyclePreview is the response to POST /-/admin/lifecycle/preview: what the rules would delete now.
type LifecyclePreview struct {
	Versions int64             `json:"versions"` // and delete markers
	Bytes    int64             `json:"bytes"`
	Uploads  int64             `json:"uploads"`
	Held     int64             `json:"held"`     // locked, so they stay
	Scanned  int64             `json:"scanned"`  // versions, delete markers and uploads that were read
	Complete bool              `json:"complete"` // the whole bucket was read
	Samples  []LifecycleSample `json:"samples"`
}

// LifecycleSample is an entry that the rules would delete.
type LifecycleSample struct {
	Key      string    `json:"key"`
	Version  string    `json:"version_id,omitempty"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Action   string    `json:"action"` // what is deleted: version, marker or upload
}

// A preview reads at most about this much.
const (
	previewScan    = 1_000_000
	previewTime    = 20 * time.Second
	previewSamples = 1000
)

// previewLifecycle returns what the rules of a bucket, or those in the body, would delete now.
func (s *Store) previewLifecycle(r *http.Request) (any, error) {
	const op = "admin.lifecycle"
	q, limit := r.URL.Query(), 100
	var err error
	if v := q.Get("limit"); v != "" {
		if limit, err = strconv.Atoi(v); err != nil || limit < 0 || limit > previewSamples {
			return nil, invalid(op, "limit must be a number from 0 to %d, not %q", previewSamples, v)
		}
	}
	document, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	b, err := s.FS.Bucket(r.Context(), q.Get("bucket"))
	if err != nil {
		return nil, named(q.Get("bucket"), err)
	}
	var c *lifecycle.Config
	if len(document) > 0 {
		if c, err = s.Tools.ParseLifecycle(document); err != nil {
			return nil, invalid(op, "the rules: %w", err)
		}
	} else if c, err = lifecycle.Of(b); err != nil {
		return nil, err
	}
	if c == nil {
		c = &lifecycle.Config{}
	}
	ctx, cancel := context.WithTimeout(r.Context(), previewTime)
	defer cancel()
	p, err := s.Lifecycle.Preview(ctx, b.Name, c, previewScan, limit)
	if err != nil {
		return nil, err
	}
	out := &LifecyclePreview{
		Versions: p.Expired + p.Noncurrent + p.Markers, Bytes: p.Bytes, Uploads: p.Uploads, Held: p.Held, Scanned: p.Scanned, Complete: p.Complete,
		Samples: []LifecycleSample{},
	}
	for _, e := range p.Samples {
		sample := LifecycleSample{Key: e.Key, Size: e.Size, Modified: e.Modified.UTC(), Action: "version"}
		switch {
		case e.Upload:
			sample.Action = "upload"
		case e.Marker:
			sample.Action = "marker"
		}
		if !e.Upload {
			sample.Version = s.Tools.FormatVersion(e.Version)
		}
		out.Samples = append(out.Samples, sample)
	}
	return out, nil
}

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"orcas/core"
	"orcas/core/codec"
)

// BucketSettings is what is set for a bucket, and is no part of S3.
type BucketSettings struct {
	Name        string `json:"name"`
	Compression string `json:"compression"` // default, off, fast or better
	MaxBytes    int64  `json:"max_bytes"`   // see core.Quota; 0: none
	MaxObjects  int64  `json:"max_objects"` // likewise
	Bytes       int64  `json:"bytes"`       // what it holds, with a quota
	Objects     int64  `json:"objects"`     // likewise
}

func (s *Server) settingsOf(ctx context.Context, b *core.BucketInfo) (*BucketSettings, error) {
	said := &BucketSettings{Name: b.Name, Compression: b.Compression.String(), MaxBytes: b.Quota.Bytes, MaxObjects: b.Quota.Objects}
	if b.Quota.IsZero() {
		return said, nil
	}
	held, err := s.fs.Usage(ctx, b)
	said.Bytes, said.Objects = held.Bytes, held.Objects
	return said, err
}

func (s *Server) bucket(r *http.Request) (any, error) {
	b, err := s.fs.Bucket(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	return s.settingsOf(r.Context(), b)
}

// setBucket changes what the parameters name, and leaves the rest.
func (s *Server) setBucket(r *http.Request) (any, error) {
	q := r.URL.Query()
	change, err := bucketChange(q)
	if err != nil {
		return nil, core.E("admin.bucket", core.InvalidArgument, err)
	}
	b, err := s.fs.UpdateBucket(r.Context(), q.Get("name"), func(b *core.BucketInfo) error {
		change(b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.settingsOf(r.Context(), b)
}

// bucketChange reads what is to be changed.
func bucketChange(q url.Values) (func(*core.BucketInfo), error) {
	var changes []func(*core.BucketInfo)
	if q.Has("compression") {
		level, err := codec.ParseLevel(q.Get("compression"))
		if err != nil {
			return nil, err
		}
		changes = append(changes, func(b *core.BucketInfo) { b.Compression = level })
	}
	for name, bound := range map[string]func(*core.BucketInfo) *int64{
		"max-bytes":   func(b *core.BucketInfo) *int64 { return &b.Quota.Bytes },
		"max-objects": func(b *core.BucketInfo) *int64 { return &b.Quota.Objects },
	} {
		if !q.Has(name) {
			continue
		}
		n, err := parseBound(q.Get(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		changes = append(changes, func(b *core.BucketInfo) { *bound(b) = n })
	}
	if len(changes) == 0 {
		return nil, errors.New("nothing to set: compression, max-bytes or max-objects")
	}
	return func(b *core.BucketInfo) {
		for _, change := range changes {
			change(b)
		}
	}, nil
}

// parseBound reads a bound of a quota; none is 0.
func parseBound(s string) (int64, error) {
	if s == "none" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is neither a positive number nor none", s)
	}
	return n, nil
}

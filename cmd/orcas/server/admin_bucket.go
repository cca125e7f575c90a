package server

import (
	"net/http"

	"orcas/core"
	"orcas/core/codec"
)

// BucketSettings is what is set for a bucket, and is no part of S3.
type BucketSettings struct {
	Name        string `json:"name"`
	Compression string `json:"compression"` // default, off, fast or better
}

func settingsOf(b *core.BucketInfo) *BucketSettings {
	return &BucketSettings{Name: b.Name, Compression: b.Compression.String()}
}

func (s *Server) bucket(r *http.Request) (any, error) {
	b, err := s.fs.Bucket(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	return settingsOf(b), nil
}

func (s *Server) setBucket(r *http.Request) (any, error) {
	q := r.URL.Query()
	level, err := codec.ParseLevel(q.Get("compression"))
	if err != nil {
		return nil, core.E("admin.bucket", core.InvalidArgument, err)
	}
	b, err := s.fs.UpdateBucket(r.Context(), q.Get("name"), func(b *core.BucketInfo) error {
		b.Compression = level
		return nil
	})
	if err != nil {
		return nil, err
	}
	return settingsOf(b), nil
}

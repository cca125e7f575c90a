package admin

import (
	"errors"
	"net/http"
	"path/filepath"
	"time"
)

// Usage is what a bucket, or the store, held over time, the oldest point first.
type Usage struct {
	Points []UsagePoint `json:"points"`
}

// UsagePoint is what was held at a time.
type UsagePoint struct {
	Time         time.Time `json:"time"`
	Objects      int64     `json:"objects"` // those that a listing shows
	Bytes        int64     `json:"bytes"`
	Versions     int64     `json:"versions"`      // that are not the newest of their key
	VersionBytes int64     `json:"version_bytes"` // of these
}

// errTooManyReaders is returned if too many clients read the log.
var errTooManyReaders = errors.New("too many clients read the log: end one of them")

// usage returns what a bucket, or the store, held over time.
func (s *Store) usage(r *http.Request) (any, error) {
	name := r.URL.Query().Get("bucket")
	if name != "" {
		if _, err := s.FS.Bucket(r.Context(), name); err != nil {
			return nil, named(name, err)
		}
	}
	return s.Tools.Usage(name), nil
}

// listBackups returns the backups in a directory on this machine.
func (s *Store) listBackups(r *http.Request) (any, error) {
	dir := r.URL.Query().Get("dir")
	if !filepath.IsAbs(dir) {
		return nil, invalid("admin.backup", "dir must be an absolute path, not %q", dir)
	}
	return s.Backups(dir)
}

package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"orcas/auth"
	"orcas/core"
	"orcas/internal/bytesize"
	"orcas/s3/bucketaccess"
)

// BucketSettings are the settings of a bucket that are not part of S3.
type BucketSettings struct {
	Name        string `json:"name"`
	Compression string `json:"compression"` // default, off, fast or better
	ChunkSize   int64  `json:"chunk_size"`  // maximum size of a chunk of large content, in bytes
	MaxBytes    int64  `json:"max_bytes"`   // see core.Quota; 0 for no limit
	MaxObjects  int64  `json:"max_objects"` // see core.Quota; 0 for no limit
	Bytes       int64  `json:"bytes"`       // what counts towards the quota, if the bucket has one
	Objects     int64  `json:"objects"`     // what counts towards the quota, if the bucket has one
	Holds       Holds  `json:"holds"`

	Public bucketaccess.Public `json:"public"` // who may read the objects without credentials: none, read or custom
}

// Holds is what a bucket holds. Sizes are those before compression and deduplication.
type Holds struct {
	Objects            int64 `json:"objects"` // those that a listing shows
	Bytes              int64 `json:"bytes"`
	NoncurrentVersions int64 `json:"noncurrent_versions"`
	NoncurrentBytes    int64 `json:"noncurrent_bytes"`
	DeleteMarkers      int64 `json:"delete_markers"`
	Uploads            int64 `json:"uploads"` // unfinished ones
	UploadBytes        int64 `json:"upload_bytes"`
}

func (s *Store) settingsOf(ctx context.Context, b *core.BucketInfo) (*BucketSettings, error) {
	settings := &BucketSettings{
		Name: b.Name, Compression: b.Compression.String(), ChunkSize: cmp.Or(b.ChunkSize, core.DefaultChunkSize),
		MaxBytes: b.Quota.Bytes, MaxObjects: b.Quota.Objects, Public: bucketaccess.PublicOf(b),
	}
	t, err := s.FS.Tally(ctx, b)
	if err != nil {
		return nil, err
	}
	settings.Holds = Holds{
		Objects: t.Objects(), Bytes: t.Bytes - t.NoncurrentBytes, NoncurrentVersions: t.NoncurrentVersions, NoncurrentBytes: t.NoncurrentBytes,
		DeleteMarkers: t.DeleteMarkers, Uploads: t.Uploads, UploadBytes: t.UploadBytes,
	}
	if !b.Quota.IsZero() {
		settings.Bytes, settings.Objects = t.Usage().Bytes, t.Usage().Objects
	}
	return settings, nil
}

func (s *Store) bucket(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	b, err := s.FS.Bucket(r.Context(), name)
	if err != nil {
		return nil, named(name, err)
	}
	return s.settingsOf(r.Context(), b)
}

// setBucket changes the settings that the request has parameters for, and keeps the others.
func (s *Store) setBucket(r *http.Request) (any, error) {
	q := r.URL.Query()
	change, err := BucketChange(q)
	if err != nil {
		return nil, core.E("admin.bucket", core.InvalidArgument, err)
	}
	b, err := s.FS.UpdateBucket(r.Context(), q.Get("name"), func(b *core.BucketInfo) error {
		if q.Has("public") {
			if err := setPublic(r, b, bucketaccess.Public(q.Get("public"))); err != nil {
				return err
			}
		}
		change(b)
		return nil
	})
	if err != nil {
		return nil, named(q.Get("name"), err)
	}
	return s.settingsOf(r.Context(), b)
}

// setPublic opens or closes a bucket for everybody. Its policy and its public access block change at the same time, with
// the other settings of the request. Whoever may change settings of buckets may not be allowed to change their policies.
func setPublic(r *http.Request, b *core.BucketInfo, to bucketaccess.Public) error {
	for _, a := range []auth.Action{"s3:PutBucketPolicy", "s3:PutBucketPublicAccessBlock"} {
		if err := authorize(r, a, bucketaccess.Resource(b)); err != nil {
			return err
		}
	}
	if callerOf(r).Account != b.Owner {
		return &refusal{http.StatusForbidden, fmt.Errorf("the bucket %s belongs to another account", b.Name)}
	}
	err := bucketaccess.SetPublic(b, to)
	var refused *bucketaccess.PublicError
	if errors.As(err, &refused) {
		return &refusal{http.StatusConflict, err}
	}
	return err
}

// named adds the name of the bucket to an error of the kind NoSuchBucket.
func named(bucket string, err error) error {
	if core.Is(err, core.NoSuchBucket) {
		err = core.E("admin.bucket", core.NoSuchBucket, fmt.Errorf("bucket %q does not exist", bucket))
	}
	return err
}

// BucketChange parses the parameters compression, chunk-size, max-bytes and max-objects into a function that changes a
// bucket. It checks the parameter public, but does not apply it.
func BucketChange(q url.Values) (func(*core.BucketInfo), error) {
	var changes []func(*core.BucketInfo)
	if q.Has("compression") {
		level, err := core.ParseCompression(q.Get("compression"))
		if err != nil {
			return nil, fmt.Errorf("compression: %w", err)
		}
		changes = append(changes, func(b *core.BucketInfo) { b.Compression = level })
	}
	if q.Has("chunk-size") {
		n, err := parseChunkSize(q.Get("chunk-size"))
		if err != nil {
			return nil, fmt.Errorf("chunk-size: %w", err)
		}
		changes = append(changes, func(b *core.BucketInfo) { b.ChunkSize = n })
	}
	if q.Has("max-bytes") {
		n, err := parseBound(q.Get("max-bytes"), "size such as 10GiB", bytesize.Parse)
		if err != nil {
			return nil, fmt.Errorf("max-bytes: %w", err)
		}
		changes = append(changes, func(b *core.BucketInfo) { b.Quota.Bytes = n })
	}
	if q.Has("max-objects") {
		n, err := parseBound(q.Get("max-objects"), "number", func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
		if err != nil {
			return nil, fmt.Errorf("max-objects: %w", err)
		}
		changes = append(changes, func(b *core.BucketInfo) { b.Quota.Objects = n })
	}
	if public := bucketaccess.Public(q.Get("public")); q.Has("public") && public != bucketaccess.PublicRead && public != bucketaccess.PublicNone {
		return nil, fmt.Errorf("public: expected read or none, not %q", public)
	}
	if len(changes) == 0 && !q.Has("public") {
		return nil, errors.New("no setting given: expected compression, chunk-size, max-bytes, max-objects or public")
	}
	return func(b *core.BucketInfo) {
		for _, change := range changes {
			change(b)
		}
	}, nil
}

// parseChunkSize parses the size of a chunk. It returns 0 for "default".
func parseChunkSize(s string) (int64, error) {
	if s == "default" {
		return 0, nil
	}
	n, err := bytesize.Parse(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w (use \"default\" to reset the chunk size)", err)
	case n == 0:
		return 0, errors.New("must not be 0; use \"default\" to reset the chunk size")
	}
	return n, core.CheckChunkSize(n)
}

// parseBound parses a limit of a quota: "none", for which it returns 0, or a positive number that parse accepts.
func parseBound(s, what string, parse func(string) (int64, error)) (int64, error) {
	if s == "none" {
		return 0, nil
	}
	n, err := parse(s)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("expected a positive %s or \"none\", found %q", what, s)
	}
	return n, nil
}

package client

import (
	"context"
	"fmt"
	"iter"

	"orcas/sdk"
)

// mbCommand creates a bucket.
type mbCommand struct {
	connection
	Address    string            `arg:"" placeholder:"ADDRESS" complete:"address" help:"Create this bucket, s3://BUCKET. The flag --region also says where."`
	Versioning bool              `help:"Enable versioning: overwritten and deleted objects can be restored."`
	Lock       bool              `help:"Enable object lock, which includes versioning: versions can be protected from deletion."`
	Tags       map[string]string `name:"tag" mapsep:"none" sep:"none" placeholder:"NAME=VALUE" help:"Set this tag of the bucket. The flag can be repeated."`
	Existing   bool              `name:"ignore-existing" help:"Do not fail if you have the bucket already."`
}

// bucketJSON is a bucket that was created or deleted, as JSON.
type bucketJSON struct {
	Op      string `json:"op"` // create, exists or delete
	Address string `json:"address"`
	Bucket  string `json:"bucket"`
}

// Run creates the bucket.
func (c *mbCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET")
	if err != nil {
		return err
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	return s.end(c.create(r, at))
}

// create creates the bucket with its settings. If a setting fails, the bucket is deleted again.
func (c *mbCommand) create(r *remote, at Address) error {
	ctx := r.session.ctx
	// Servers answer differently to the owner of a bucket who creates it again, and to some that is a success.
	if _, err := r.HeadBucket(ctx, at.Bucket); err == nil {
		if !c.Existing {
			return &statusError{StatusPrecondition, fmt.Sprintf("the bucket %s exists already at %s (--ignore-existing accepts that)", at.Bucket, r.Endpoint()), nil}
		}
		r.session.out.line("%s exists already", at)
		r.session.out.object(bucketJSON{"exists", at.String(), at.Bucket})
		return nil
	}
	if err := r.CreateBucket(ctx, at.Bucket, &sdk.BucketOptions{ObjectLock: c.Lock, Tags: c.Tags}); err != nil {
		return r.explain(err)
	}
	if c.Versioning && !c.Lock {
		if err := r.SetVersioning(ctx, at.Bucket, "Enabled"); err != nil {
			_ = r.DeleteBucket(context.WithoutCancel(ctx), at.Bucket) // the error of the setting is the one to report
			return r.explain(err)
		}
	}
	r.session.out.line("created %s", at)
	r.session.out.object(bucketJSON{"create", at.String(), at.Bucket})
	return nil
}

// rbCommand deletes a bucket.
type rbCommand struct {
	connection
	Address          string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Delete this bucket, s3://BUCKET."`
	Force            bool   `short:"f" help:"Delete all objects, versions and unfinished uploads of the bucket too."`
	BypassGovernance bool   `help:"With --force, delete versions with a retention in the mode GOVERNANCE too, if the key is allowed to."`
}

// Run deletes the bucket.
func (c *rbCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET")
	if err != nil {
		return err
	}
	s, r, err := c.open(ctx, console, at)
	if err != nil {
		return err
	}
	s.quiet = true // the objects are not listed
	if c.Force {
		if err := c.empty(r, at); err != nil {
			return s.end(err)
		}
	}
	if err := r.DeleteBucket(ctx, at.Bucket); err != nil {
		return s.end(r.explain(err))
	}
	s.out.line("deleted %s", at)
	s.out.object(bucketJSON{"delete", at.String(), at.Bucket})
	return s.end(nil)
}

// empty deletes everything in the bucket.
func (c *rbCommand) empty(r *remote, at Address) error {
	s := r.session
	quiet := *s
	quiet.out = newOutput(s.Stderr, false, true) // errors of objects only
	d := deletion{session: &quiet, options: sdk.DeleteOptions{BypassGovernance: c.BypassGovernance, Quiet: true}}
	if err := d.all(r, at.Bucket, versionsOf(s.ctx, r, at.Bucket)); err != nil {
		return err
	}
	if err := d.finish(false); err != nil {
		return err
	}
	for u, err := range r.Uploads(s.ctx, at.Bucket, nil) {
		if err == nil {
			err = r.AbortUpload(s.ctx, at.Bucket, u.Key, u.UploadID)
		}
		if err != nil && !isAny(err, sdk.ErrNoSuchUpload, sdk.ErrNotImplemented) {
			return r.explain(err)
		}
	}
	return nil
}

// versionsOf returns all versions of a bucket. Servers without versions have objects only.
func versionsOf(ctx context.Context, r *remote, bucket string) iter.Seq2[sdk.ObjectID, error] {
	return func(yield func(sdk.ObjectID, error) bool) {
		first := true
		for e, err := range r.Versions(ctx, bucket, nil) {
			if first && isAny(err, sdk.ErrNotImplemented) {
				for e, err := range r.List(ctx, bucket, nil) {
					if !yield(sdk.ObjectID{Key: e.Key}, err) {
						return
					}
				}
				return
			}
			first = false
			if !yield(sdk.ObjectID{Key: e.Key, VersionID: e.VersionID}, err) {
				return
			}
		}
	}
}

package vfs

import (
	"context"

	"orcas/content"
	"orcas/core"
	"orcas/core/codec"
	"orcas/internal/epoch"
)

// Object is a version that is open for reading. Reclaim waits for it from Open until Range returns or Close is called,
// so the caller must not wait for a client, or do anything else that takes long, in between.
type Object struct {
	Info   *core.ObjectInfo
	fs     *FS
	lookup epoch.Reader // zero if it has ended

	customer *codec.Key // see Unlock
}

// Open looks up a version. It returns the errors of Stat; if the version is a delete marker, it is in the Object's
// Info. After an error the Object is already closed.
func (f *FS) Open(ctx context.Context, b *core.BucketInfo, key string, v core.Version) (*Object, error) {
	o := &Object{fs: f, lookup: f.Enter()}
	var err error
	if o.Info, err = f.Stat(ctx, b, key, v); err != nil {
		o.Close()
	}
	return o, err
}

// reopen opens a version that Stat returned. It returns Conflict if the version no longer exists.
func (f *FS) reopen(ctx context.Context, info *core.ObjectInfo) (*Object, error) {
	o, err := f.Open(ctx, &core.BucketInfo{ID: info.Bucket}, info.Key, info.Version())
	if err == nil && o.Info.Seq != info.Seq {
		o.Close()
		err = core.E("vfs.reopen", core.NoSuchVersion, nil)
	}
	if core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion) {
		err = core.E("vfs.reopen", core.Conflict, err)
	}
	return o, err
}

// Close ends the lookup. Sections that Range has returned remain valid.
func (o *Object) Close() {
	if o.isLookingUp() {
		o.lookup.Leave()
		o.lookup = epoch.Reader{}
	}
}

// Unlock sets the customer key for reading content that is encrypted with it. It must be called before Range.
func (o *Object) Unlock(customer *codec.Key) { o.customer = customer }

func (o *Object) isLookingUp() bool { return o.lookup != epoch.Reader{} }

// ensureLookup begins a new lookup if the last one has ended. It returns Conflict if the version no longer exists.
func (o *Object) ensureLookup(ctx context.Context) error {
	if o.isLookingUp() {
		return nil
	}
	again, err := o.fs.reopen(ctx, o.Info)
	if err == nil {
		o.Info, o.lookup = again.Info, again.lookup
	}
	return err
}

// Range returns the n bytes that begin at off. It reads and verifies the first frame, so damage in it is reported
// before the caller gets any byte. It pins the rest, which can be read even if the version is then overwritten or
// deleted. Finally it ends the lookup. Another call of Range begins a new lookup, and returns Conflict if the version
// no longer exists.
func (o *Object) Range(ctx context.Context, off, n int64) (*content.Section, error) {
	if off < 0 || n < 0 || off > o.Info.Size || n > o.Info.Size-off {
		return nil, badRange("vfs.Range", off, n, o.Info.Size)
	}
	if err := o.ensureLookup(ctx); err != nil {
		return nil, err
	}
	defer o.Close()
	return o.fs.NewSection(ctx, o.Info, off, n, o.customer)
}

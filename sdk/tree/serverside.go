package tree

import (
	"context"
	"errors"
	"reflect"

	"orcas/sdk"
)

// sameServer reports whether the server can copy objects by itself.
func (e *engine) sameServer() bool {
	return e.from.client.Endpoint() == e.to.client.Endpoint() && !e.noCopy.Load()
}

// mayStream reports whether a copy that failed may succeed if the content is read and written instead: the keys for the
// target may not be allowed to read the source, or the server cannot copy.
func mayStream(err error) bool {
	return errors.Is(err, sdk.ErrAccessDenied) || errors.Is(err, sdk.ErrNotImplemented) || errors.Is(err, sdk.ErrNoSuchBucket)
}

// copyInside lets the server copy an object.
func (w *worker) copyInside(ctx context.Context, t *task, id sdk.ObjectID, more map[string]string) (*sdk.Written, error) {
	o := &sdk.CopyOptions{Encryption: w.options.Put.Encryption, StorageClass: w.options.Put.StorageClass, Lock: w.options.Put.Lock, Tags: w.options.Put.Tags,
		Checksum: w.options.Put.Checksum}
	if t.list == nil {
		o.Size = t.from.size
	}
	if t.path != t.from.path {
		o.Conditions.IfNoneMatch = "*"
	}
	if more != nil || w.replaces() {
		info, err := w.from.client.Head(ctx, w.from.bucket, id.Key, &sdk.GetOptions{VersionID: id.VersionID})
		if err != nil {
			return nil, err
		}
		p := sdk.PutOptions{Properties: info.Properties}
		w.override(&p, more)
		o.Replace = &p.Properties
	}
	return w.to.client.Copy(ctx, sdk.Source{Bucket: w.from.bucket, Key: id.Key, VersionID: id.VersionID}, w.to.bucket, w.to.prefix+t.path, o)
}

// replaces reports whether objects get other metadata than that of the source.
func (e *engine) replaces() bool {
	p := e.options.Put.Properties
	p.Encryption, p.StorageClass, p.Lock, p.Tags = sdk.Encryption{}, "", sdk.Lock{}, nil
	return !reflect.DeepEqual(p, sdk.Properties{})
}

package tree

import (
	"bytes"
	"context"
	"errors"
	"io"

	"orcas/internal/checksum"
	"orcas/sdk"
)

// copyRemote copies an object to another place.
func (w *worker) copyRemote(ctx context.Context, t *task) {
	_, sent, err := w.copyObject(ctx, t, sdk.ObjectID{Key: w.from.prefix + t.from.path}, nil)
	w.finish(ctx, t, sent, err)
}

// copyObject copies an object or a version, with its metadata and tags, and with more metadata. It returns the bytes that
// were sent: none if the server copies it itself.
func (w *worker) copyObject(ctx context.Context, t *task, id sdk.ObjectID, more map[string]string) (written *sdk.Written, sent int64, err error) {
	if w.sameServer() {
		written, err := w.copyInside(ctx, t, id, more)
		if err == nil || !mayStream(err) {
			return written, 0, err
		}
		if errors.Is(err, sdk.ErrNotImplemented) {
			w.noCopy.Store(true)
		}
	}
	return w.stream(ctx, t, id, more)
}

// stream reads an object and writes it.
func (w *worker) stream(ctx context.Context, t *task, id sdk.ObjectID, more map[string]string) (*sdk.Written, int64, error) {
	object, err := w.from.client.Get(ctx, w.from.bucket, id.Key, &sdk.GetOptions{VersionID: id.VersionID})
	if err != nil {
		return nil, 0, err
	}
	defer object.Close()
	o, err := w.streamOptions(ctx, t, &object.Info, id, more)
	if err != nil {
		return nil, 0, err
	}
	key := w.to.prefix + t.path
	if object.Size <= smallMax {
		if err := w.memory.take(ctx, object.Size); err != nil {
			return nil, 0, err
		}
		defer w.memory.give(object.Size)
		w.buf.Reset()
		if _, err := w.buf.ReadFrom(object); err != nil {
			return nil, 0, err
		}
		w.reporter.count(object.Size, 0)
		written, err := w.to.client.Put(ctx, w.to.bucket, key, bytes.NewReader(w.buf.Bytes()), o)
		return written, object.Size, err
	}
	held := w.partMemory(object.Size)
	if err := w.parts.take(ctx, held); err != nil {
		return nil, 0, err
	}
	defer w.parts.give(held)
	meter := w.meter(t)
	r, err := w.to.client.Upload(ctx, w.to.bucket, key, struct{ io.Reader }{object}, &sdk.UploadOptions{PutOptions: *o, Size: object.Size,
		PartSize: w.options.PartSize, Parallel: largeParts, Progress: meter.update})
	meter.end()
	w.reporter.count(object.Size, 0)
	if err != nil {
		return nil, 0, err
	}
	return &r.Written, r.BytesSent, nil
}

// streamOptions returns the options for a copy of an object.
func (w *worker) streamOptions(ctx context.Context, t *task, info *sdk.Info, id sdk.ObjectID, more map[string]string) (*sdk.PutOptions, error) {
	o := &sdk.PutOptions{Properties: info.Properties}
	o.Lock, o.Encryption, o.StorageClass = sdk.Lock{}, sdk.Encryption{}, ""
	if info.TagCount > 0 {
		tags, err := w.from.client.Tags(ctx, w.from.bucket, id)
		if err != nil {
			return nil, err
		}
		o.Tags = tags
	}
	w.override(o, more)
	if t.path != t.from.path {
		o.IfNoneMatch = "*"
	}
	if info.ChecksumType != "COMPOSITE" {
		for _, a := range []sdk.Algorithm{sdk.CRC64NVME, sdk.CRC32C, sdk.CRC32} {
			v := info.Checksums[a]
			if _, err := checksum.Decode(a, v); err == nil { // moto returns checksums of other algorithms under this name
				o.Checksum, o.ChecksumValue = a, v // the server compares it with what arrives
				break
			}
		}
	}
	return o, nil
}

// override sets what the caller wants all objects to have.
func (e *engine) override(o *sdk.PutOptions, more map[string]string) {
	want := &e.options.Put
	for _, s := range []struct {
		to   *string
		from string
	}{{&o.ContentType, want.ContentType}, {&o.CacheControl, want.CacheControl}, {&o.ContentDisposition, want.ContentDisposition},
		{&o.ContentEncoding, want.ContentEncoding}, {&o.ContentLanguage, want.ContentLanguage}, {&o.Expires, want.Expires},
		{&o.WebsiteRedirect, want.WebsiteRedirect}, {&o.StorageClass, want.StorageClass}, {&o.ACL, want.ACL}} {
		if s.from != "" {
			*s.to = s.from
		}
	}
	o.Encryption, o.Lock = want.Encryption, want.Lock
	if len(want.Tags) > 0 {
		o.Tags = want.Tags
	}
	o.Metadata = merged(merged(o.Metadata, want.Metadata), more)
}

// merged returns a copy of a with the elements of b.
func merged(a, b map[string]string) map[string]string {
	m := make(map[string]string, len(a)+len(b))
	for k, v := range a {
		m[k] = v
	}
	for k, v := range b {
		m[k] = v
	}
	return m
}

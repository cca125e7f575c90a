package tree

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"orcas/sdk"
)

// copyRemote copies an object to another place.
func (w *worker) copyRemote(ctx context.Context, t *task) {
	_, sent, err := w.copyObject(ctx, t, sdk.ObjectID{Key: w.from.prefix + t.from.path}, nil)
	w.finish(ctx, t, sent, err)
}

// copyObject copies an object or a version, with its metadata and tags, and with more metadata. It returns the bytes that
// were sent.
func (w *worker) copyObject(ctx context.Context, t *task, id sdk.ObjectID, more map[string]string) (written *sdk.Written, sent int64, err error) {
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
	temp, err := os.CreateTemp("", "orcas-*")
	if err != nil {
		return nil, 0, err
	}
	defer os.Remove(temp.Name())
	defer temp.Close()
	if _, err := io.Copy(temp, object); err != nil {
		return nil, 0, err
	}
	if _, err := temp.Seek(0, io.SeekStart); err != nil {
		return nil, 0, err
	}
	w.reporter.count(object.Size, 0)
	written, err := w.to.client.Put(ctx, w.to.bucket, key, temp, o)
	return written, object.Size, err
}

// streamOptions returns the options for a copy of an object.
func (w *worker) streamOptions(ctx context.Context, t *task, info *sdk.Info, id sdk.ObjectID, more map[string]string) (*sdk.PutOptions, error) {
	o := &sdk.PutOptions{Properties: info.Properties}
	o.Lock, o.Encryption, o.StorageClass = sdk.Lock{}, sdk.Encryption{}, ""
	if info.TagCount > 0 {
		tags, err := w.tags(ctx, id)
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
			if v := info.Checksums[a]; v != "" {
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

// tags returns the tags of an object.
func (w *worker) tags(ctx context.Context, id sdk.ObjectID) (map[string]string, error) {
	query := "tagging="
	if id.VersionID != "" {
		query += "&versionId=" + url.QueryEscape(id.VersionID)
	}
	r, err := w.from.client.Fetch(ctx, &sdk.Request{Method: http.MethodGet, Path: "/" + w.from.bucket + "/" + id.Key, Query: query})
	if err != nil {
		return nil, err
	}
	var doc struct {
		Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
	}
	if r.Status != http.StatusOK {
		return nil, fmt.Errorf("reading the tags: status %d (%s)", r.Status, r.Code())
	}
	if err := xml.Unmarshal(r.Body, &doc); err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, t := range doc.Tags {
		tags[t.Key] = t.Value
	}
	return tags, nil
}

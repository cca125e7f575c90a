package tree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"

	"orcas/sdk"
)

// uploadBuffers are buffers for small files.
var uploadBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// directoryType is the content type of an object that stands for a directory, as s3fs writes it.
const directoryType = "application/x-directory"

// upload uploads a file, a link, or an object that stands for a directory.
func (w *worker) upload(ctx context.Context, t *task) {
	if t.mkdir {
		o := w.putOptions(t, nil)
		o.ContentType = directoryType
		_, err := w.to.client.Put(ctx, w.to.bucket, w.to.prefix+t.path, bytes.NewReader(nil), o)
		w.finish(ctx, t, 0, err)
		return
	}
	if t.from.size > smallMax {
		w.uploadLarge(ctx, t)
		return
	}
	held := t.from.size
	if err := w.memory.take(ctx, held); err != nil {
		return
	}
	buf := uploadBuffers.Get().(*bytes.Buffer)
	release := func() {
		uploadBuffers.Put(buf)
		w.memory.give(held)
	}
	ok, err := w.fromLocal.read(&t.from, buf)
	if err != nil {
		release()
		w.failed(ctx, t, err)
		return
	}
	if !ok {
		release()
		w.uploadLarge(ctx, t)
		return
	}
	c := &smallContent{task: t, options: w.putOptions(t, buf.Bytes()), content: buf.Bytes(), release: release}
	w.putSmall(ctx, c)
}

// smallContent is a small file in memory.
type smallContent struct {
	task    *task
	options *sdk.PutOptions
	content []byte
	release func() // frees the memory
}

// putSmall sends a small file, and reports the result.
func (e *engine) putSmall(ctx context.Context, c *smallContent) {
	defer c.release()
	key, size := e.to.prefix+c.task.path, int64(len(c.content))
	_, err := e.to.client.Put(ctx, e.to.bucket, key, bytes.NewReader(c.content), c.options)
	e.finish(ctx, c.task, size, err)
}

// finish reports the result of a task.
func (e *engine) finish(ctx context.Context, t *task, sent int64, err error) {
	if err != nil {
		e.failed(ctx, t, err)
		return
	}
	e.transferred(ctx, t, sent)
}

// putOptions returns the options for an object. head is the beginning of its content.
func (e *engine) putOptions(t *task, head []byte) *sdk.PutOptions {
	o := e.options.Put
	o.Metadata = metadata(&t.from, o.Metadata, e.options.Preserve)
	if o.ContentType == "" && t.from.kind == file {
		o.ContentType = contentType(t.from.path, head)
	}
	if e.options.Conflict == Rename && t.path != t.from.path {
		o.IfNoneMatch = "*"
	}
	return &o
}

// contentType returns the type of a file by its extension, otherwise by the beginning of its content.
func contentType(name string, head []byte) string {
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	if t := mime.TypeByExtension(strings.ToLower(path.Ext(name))); t != "" {
		return t
	}
	return http.DetectContentType(head)
}

// uploadLarge uploads a file in parts.
func (w *worker) uploadLarge(ctx context.Context, t *task) {
	sent, err := w.sendLarge(ctx, t)
	w.finish(ctx, t, sent, err)
}

func (w *worker) sendLarge(ctx context.Context, t *task) (sent int64, err error) {
	f, err := w.fromLocal.root.Open(t.from.name())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errors.New("not a regular file any more")
	}
	setInfo(&t.from, info)
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	_, err = w.to.client.Put(ctx, w.to.bucket, w.to.prefix+t.path, f, w.putOptions(t, head[:n]))
	if err != nil {
		return 0, err
	}
	after, err := f.Stat()
	if err == nil && (after.Size() != t.from.size || after.ModTime().UnixNano() != t.from.modified) {
		err = errChanged
	}
	return t.from.size, err
}

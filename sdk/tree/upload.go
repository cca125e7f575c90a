package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"path/filepath"
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
	if w.asker == nil || t.from.size == 0 || t.from.kind != file {
		w.putSmall(ctx, c)
		return
	}
	w.asker.add(c)
}

// smallContent is a small file in memory.
type smallContent struct {
	task    *task
	options *sdk.PutOptions
	content []byte
	sha256  string // in hexadecimal, if it is known
	refer   bool   // the server has the content
	release func() // frees the memory
}

// hash computes the SHA-256.
func (c *smallContent) hash() {
	sum := sha256.Sum256(c.content)
	c.sha256 = hex.EncodeToString(sum[:])
	c.options.SHA256 = c.sha256
}

// putSmall sends a small file, or refers to it, and reports the result.
func (e *engine) putSmall(ctx context.Context, c *smallContent) {
	defer c.release()
	key, size := e.to.prefix+c.task.path, int64(len(c.content))
	if c.refer {
		_, err := e.to.client.Refer(ctx, e.to.bucket, key, size, c.sha256, c.options)
		if err == nil {
			e.reporter.count(0, size)
			e.finish(ctx, c.task, 0, nil)
			return
		}
		if !errors.Is(err, sdk.ErrNoSuchContent) {
			e.finish(ctx, c.task, 0, err)
			return
		}
	}
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
	state, err := w.stateFile("upload", &w.to, w.to.prefix+t.path, w.fromLocal.path(t.from.name()), t.from.size)
	if err != nil {
		return 0, err
	}
	held := w.partMemory(t.from.size)
	if err := w.parts.take(ctx, held); err != nil {
		return 0, err
	}
	defer w.parts.give(held)
	meter := w.meter(t)
	level := w.refLevel()
	r, err := w.to.client.Upload(ctx, w.to.bucket, w.to.prefix+t.path, f, &sdk.UploadOptions{PutOptions: *w.putOptions(t, head[:n]), Size: t.from.size,
		PartSize: w.options.PartSize, Parallel: largeParts, StateFile: state, RefLevel: &level, Progress: meter.update})
	meter.end()
	if err != nil {
		return 0, err
	}
	w.reporter.count(0, r.BytesReferred)
	after, err := f.Stat()
	if err == nil && (after.Size() != t.from.size || after.ModTime().UnixNano() != t.from.modified) {
		err = errChanged
	}
	return r.BytesSent, err
}

// partMemory returns the bytes of memory that a large file may need at most.
func (e *engine) partMemory(size int64) int64 {
	part := e.options.PartSize
	if part == 0 {
		part = partUsual
	}
	return min(size, largeParts*part, largeMemory)
}

// stateFile returns the name of the file for the state of a large transfer. Small ones have none.
func (e *engine) stateFile(kind string, p *Place, key, local string, size int64) (string, error) {
	if size <= 2*partUsual {
		return "", nil
	}
	if abs, err := filepath.Abs(local); err == nil {
		local = abs
	}
	dir, err := e.options.stateDir()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, s := range []string{kind, p.client.Endpoint(), p.bucket, key, local} {
		_, _ = io.WriteString(h, s+"\x00") // hashes never fail
	}
	return filepath.Join(dir, hex.EncodeToString(h.Sum(nil))[:32]+".json"), nil
}

// meter adds the progress of one file to that of all.
type meter struct {
	reporter *reporter
	mu       sync.Mutex
	done     int64
}

func (e *engine) meter(*task) *meter { return &meter{reporter: e.reporter} }

// update is called with the progress of the file.
func (m *meter) update(p sdk.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reporter.done.Add(p.Done - m.done)
	m.done = p.Done
}

// end takes back what update has added: the whole file is added when it is finished.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reporter.done.Add(-m.done)
	m.done = 0
}

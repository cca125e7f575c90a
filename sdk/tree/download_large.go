package tree

import (
	"context"
	"os"
	"time"

	"orcas/sdk"
)

// receiveLarge downloads an object in several ranges at the same time. An interrupted download can be continued.
func (w *worker) receiveLarge(ctx context.Context, t *task, dir *os.Root, name string) (int64, error) {
	key := w.from.prefix + t.from.path
	state, err := w.stateFile("download", &w.from, key, w.toLocal.path(t.path), t.from.size)
	if err != nil {
		return 0, err
	}
	held := w.partMemory(t.from.size)
	if err := w.parts.take(ctx, held); err != nil {
		return 0, err
	}
	defer w.parts.give(held)
	meter := w.meter(t)
	r, err := w.from.client.DownloadFile(ctx, w.from.bucket, key, name, &sdk.DownloadOptions{Root: dir, PartSize: w.options.PartSize,
		Parallel: largeParts, StateFile: state, Progress: meter.update, NoSync: !w.options.Durable,
		CustomerKey: w.customerKey(&w.from)})
	meter.end()
	if err != nil {
		return 0, err
	}
	a := readAttributes(r.Info.Metadata)
	f, err := dir.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return r.BytesReceived, err
	}
	err = w.setMode(t, f, a)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return r.BytesReceived, err
	}
	modified := w.modified(t, a)
	return r.BytesReceived, dir.Chtimes(name, modified, modified)
}

// modified returns the modification time that a downloaded file gets.
func (w *worker) modified(t *task, a attributes) time.Time {
	if w.options.Preserve && !a.modified.IsZero() {
		return a.modified
	}
	return time.Unix(0, t.from.modified)
}

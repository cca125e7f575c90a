package lifecycle

import (
	"context"
	"encoding/json"
	"time"

	"orcas/batch"
	"orcas/core"
	"orcas/internal/mutant"
)

const (
	recordKind = "lifecycle"
	passKey    = "pass"
)

// position is how far a pass has progressed: up to a key, in the versions or in the uploads of a bucket.
type position struct {
	Bucket  string        `json:"bucket"`
	ID      core.BucketID `json:"id"`
	Uploads bool          `json:"uploads,omitempty"`
	Key     string        `json:"key,omitempty"` // the last key whose versions or uploads are done
}

// load returns the recorded position of an interrupted pass, or nil if there is none. An invalid record is ignored.
func load(ctx context.Context, meta core.Meta) (*position, error) {
	list, err := meta.Records(ctx, recordKind, "", 1)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	var p position
	if json.Unmarshal(list[0].Value, &p) != nil || p.Bucket == "" {
		return nil, nil
	}
	return &p, nil
}

// pass is one walk over all buckets.
type pass struct {
	*Worker
	ctx    context.Context
	report Report
	saved  bool     // whether the metadata has a record of a position
	trial  *Preview // gets what would be deleted, and nothing is; nil in a pass that deletes
	since  int      // number of entries scanned since the position was last recorded
}

func (p *pass) run(resume bool) error {
	from, err := load(p.ctx, p.o.Meta)
	if err != nil {
		return err
	}
	p.saved = from != nil
	if !resume {
		from = nil
	}
	after := ""
	if from != nil {
		p.report.Resumed = true
		b, err := p.o.Meta.Bucket(p.ctx, from.Bucket)
		if err == nil && b.ID == from.ID {
			err = p.bucket(b, from)
		}
		if err := p.tolerate(from.Bucket, err); err != nil {
			return err
		}
		after = from.Bucket
	}
	for b, err := range core.EachBucket(p.ctx, p.o.Meta, after) {
		if err == nil {
			err = p.tolerate(b.Name, p.bucket(b, nil))
		}
		if err != nil {
			return err
		}
	}
	if !p.saved {
		return nil
	}
	return p.save(nil)
}

// bucket walks over one bucket, starting at from, or at its beginning if from is nil.
func (p *pass) bucket(b *core.BucketInfo, from *position) error {
	if text(b) == "" && p.o.UploadAge <= 0 {
		return nil
	}
	p.report.Buckets++
	p.note(func(s *Status) { s.Bucket = b.Name })
	walk := &walk{pass: p, position: position{Bucket: b.Name, ID: b.ID}}
	if from != nil {
		walk.position = *from
	}
	if err := walk.reload(); err != nil {
		return err
	}
	if !walk.position.Uploads {
		if err := walk.versions(); err != nil {
			return err
		}
		walk.position.Uploads, walk.position.Key = true, ""
	}
	return walk.uploads()
}

// tolerate returns nil if the pass can continue with the next bucket: because the bucket was deleted, or because its
// rules cannot be decoded. In the second case it logs a warning, and nothing in the bucket is deleted. Otherwise it
// returns err.
func (p *pass) tolerate(bucket string, err error) error {
	switch core.KindOf(err) {
	case core.NoSuchBucket:
		return nil
	case core.Unsupported:
		p.log.Warn("cannot decode the lifecycle rules of a bucket, so nothing in the bucket expires: write its lifecycle configuration again",
			"bucket", bucket, "err", err)
		p.report.Unreadable++
		return nil
	}
	return err
}

// save records the position of the pass. If at is nil, the pass has finished, and save deletes the record.
func (p *pass) save(at *position) error {
	record := core.Record{Kind: recordKind, Key: passKey}
	if at != nil {
		value, err := json.Marshal(at)
		if err != nil {
			return err
		}
		record.Value = value
	}
	p.saved, p.since = at != nil, 0
	_, errs := p.o.Writer.DoAll(p.ctx, []batch.Write{{Change: &core.PutRecord{Record: record}}})
	return errs[0]
}

// walk is the part of a pass in one bucket.
type walk struct {
	*pass
	position  position
	info      *core.BucketInfo
	config    *Config // the bucket's rules when they were last read
	key       keyState
	deletions []batch.Write
	counts    []*int64 // for each deletion, the counter in report to increment
}

// keyState is the state of the key whose versions are being read, newest first.
type keyState struct {
	key     string
	current core.Seq         // sequence of the newest version
	seen    int              // number of versions read so far
	newer   time.Time        // ObjectInfo.Since of the last version read
	newest  *core.ObjectInfo // the newest version, if it has expired or is a delete marker; see endKey
}

// reload reads the bucket and, if they have changed, its rules. It returns NoSuchBucket if the bucket was deleted.
func (w *walk) reload() error {
	b, err := w.o.Meta.Bucket(w.ctx, w.position.Bucket)
	if err == nil && b.ID != w.position.ID {
		err = core.E("lifecycle.reload", core.NoSuchBucket, nil)
	}
	if err != nil {
		return err
	}
	if w.info != nil && text(w.info) == text(b) {
		w.info = b
		return nil
	}
	w.info = b
	if w.trial != nil {
		return nil
	}
	if w.config, err = Of(b); err != nil {
		return err
	}
	if w.config == nil {
		w.config = &Config{}
	}
	return nil
}

// versions walks over the versions of the bucket.
func (w *walk) versions() error {
	kind, selects := core.ListVersions, ofVersions
	if w.info.Versioning == core.VersioningOff { // no key has more than one version
		kind, selects = core.ListObjects, ofCurrent
	}
	for _, prefix := range w.config.prefixes(selects) {
		q := core.ListQuery{Kind: kind, Bucket: w.info.ID, Prefix: prefix, Limit: w.o.Page, After: core.Cursor{Key: w.position.Key}}
		err := w.pages(q, func(page *core.ListPage) {
			for i := range page.Objects {
				w.version(&page.Objects[i])
			}
			if !page.Truncated && !mutant.Is("last-key-stays") {
				w.endKey()
			}
			w.report.Scanned += int64(len(page.Objects))
			w.since += len(page.Objects)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// uploads walks over the uploads of the bucket.
func (w *walk) uploads() error {
	prefixes := w.config.prefixes(ofUploads)
	if w.o.UploadAge > 0 {
		prefixes = []string{""}
	}
	for _, prefix := range prefixes {
		q := core.ListQuery{Kind: core.ListUploads, Bucket: w.info.ID, Prefix: prefix, Limit: w.o.Page, After: core.Cursor{Key: w.position.Key}}
		err := w.pages(q, func(page *core.ListPage) {
			for i := range page.Uploads {
				u := &page.Uploads[i]
				if w.uploadExpired(u) {
					w.add(&core.AbortUpload{Bucket: u.Bucket, Key: u.Key, Upload: u.ID}, &w.report.Uploads, Expiring{Key: u.Key, Upload: true, Modified: u.Initiated})
				}
				if i > 0 && page.Uploads[i-1].Key != u.Key { // all uploads of the previous key have been read
					w.position.Key = page.Uploads[i-1].Key
				}
			}
			w.report.Scanned += int64(len(page.Uploads))
			w.since += len(page.Uploads)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// uploadExpired reports whether an upload must be aborted, because of a rule or of its age.
func (w *walk) uploadExpired(u *core.UploadInfo) bool {
	now := w.o.Now()
	if w.o.UploadAge > 0 && u.Initiated.Before(now.Add(-w.o.UploadAge)) {
		return true
	}
	at, _, ok := w.config.Aborts(u.Key, u.Initiated, w.o.Day)
	return ok && !now.Before(at)
}

// pages reads a listing page by page. It calls take with each page, and then makes the deletions that take added.
func (w *walk) pages(q core.ListQuery, take func(*core.ListPage)) error {
	for {
		began := time.Now()
		if err := w.ctx.Err(); err != nil {
			return core.E("lifecycle.Pass", core.Canceled, err)
		}
		if err := w.reload(); err != nil {
			return err
		}
		if w.trial != nil && w.report.Scanned >= w.trial.most {
			return errEnough
		}
		page, err := w.o.Meta.List(w.ctx, q)
		if err != nil {
			return err
		}
		take(page)
		if err := w.flush(); err != nil {
			return err
		}
		w.note(func(s *Status) { s.Present = w.report })
		if w.since >= w.o.Save {
			if err := w.save(&w.position); err != nil {
				return err
			}
		}
		if !page.Truncated {
			return nil
		}
		q.After = page.Next
		w.rest(w.ctx, began)
	}
}

// version processes the next version of the listing.
func (w *walk) version(o *core.ObjectInfo) {
	now := w.o.Now()
	if o.Key != w.key.key || w.key.seen == 0 {
		w.endKey()
		w.key = keyState{key: o.Key, current: o.Seq}
	}
	if w.key.seen == 0 {
		if at, _, ok := w.config.Expires(o, w.o.Day); o.Marker || ok && !now.Before(at) {
			w.key.newest = o
		}
	} else if w.config.noncurrentExpired(o, w.key.newer, w.key.seen-1, now, w.o.Day) {
		w.remove(o, &w.report.Noncurrent)
	}
	w.key.seen++
	if w.key.newer = o.Since(); mutant.Is("noncurrent-at-once") {
		w.key.newer = time.Time{}
	}
}

// endKey processes the newest version of a key. It is called after all versions of the key have been read, because
// deleting the newest version makes another version current.
func (w *walk) endKey() {
	o := w.key.newest
	switch {
	case w.key.seen == 0:
		return
	case o == nil:
	case !o.Marker:
		w.add(&core.DeleteObject{Bucket: o.Bucket, Key: o.Key, If: w.expected(o.Seq), Modified: w.now(), Owner: w.info.Owner}, &w.report.Expired, expiring(o))
	case w.key.seen == 1 && w.config.markerExpired(o, w.o.Now(), w.o.Day):
		w.remove(o, &w.report.Markers)
	}
	w.position.Key = w.key.key
	w.key = keyState{}
}

// remove adds the permanent deletion of a version, unless a lock protects it. The change requires that the newest
// version of its key is still the version that was read.
func (w *walk) remove(o *core.ObjectInfo, count *int64) {
	now := w.now()
	if o.Lock.CheckDelete(now, false) != nil {
		w.report.Held++
		return
	}
	w.add(&core.DeleteObject{
		Bucket: o.Bucket, Key: o.Key, Version: o.Version(), If: w.expected(w.key.current), Modified: now, Owner: w.info.Owner,
	}, count, expiring(o))
}

// expected returns the precondition that the newest version of a key is still the version that was read.
func (w *walk) expected(current core.Seq) core.Precondition {
	if mutant.Is("no-expected-version") {
		return core.Precondition{}
	}
	return core.Precondition{Seq: current}
}

// now returns the current time with the precision of stored times.
func (w *walk) now() time.Time { return w.o.Now().UTC().Truncate(time.Millisecond) }

// add adds a deletion. count is the counter that it increments.
func (w *walk) add(c core.Change, count *int64, what Expiring) {
	if w.trial != nil {
		*count++
		w.trial.add(what)
		return
	}
	w.deletions = append(w.deletions, batch.Write{Change: c})
	w.counts = append(w.counts, count)
}

// flush makes the collected deletions.
func (w *walk) flush() error {
	if len(w.deletions) == 0 {
		return nil
	}
	w.o.Hook()
	results, errs := w.o.Writer.DoAll(w.ctx, w.deletions)
	var failed error
	for i, err := range errs {
		_, upload := w.deletions[i].Change.(*core.AbortUpload)
		switch core.KindOf(err) {
		case core.Locked:
			w.report.Held++
		case core.Conflict, core.NoSuchKey, core.NoSuchVersion, core.NoSuchUpload, core.NoSuchBucket:
			w.report.Changed++
		default:
			switch {
			case err != nil:
				failed = err
			case upload || results[i].Version != core.Current:
				*w.counts[i]++
			default:
				w.report.Changed++ // it was already deleted
			}
		}
	}
	w.deletions, w.counts = w.deletions[:0], w.counts[:0]
	return failed
}

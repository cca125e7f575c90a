package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// Op is a write operation of the load.
type Op struct {
	Name   string
	Weight int  // relative frequency of the operation
	Large  bool // it writes large content, which Mix.LargeRate limits
	Run    func(context.Context, *worker)
}

// Operations returns every write operation. To add one, write a function that picks keys and content and calls
// worker.do with the effects of the request, and add it to this list.
func Operations() []Op {
	return append([]Op{
		{"put-small", 400, false, putSmall},
		{"put-large", 30, true, putLarge},
		{"overwrite", 100, false, overwrite},
		{"put-if-absent", 60, false, putIfAbsent},
		{"put-if-match", 60, false, putIfMatch},
		{"delete", 120, false, deleteOne},
		{"delete-many", 25, false, deleteMany},
		{"copy", 80, false, copySmall},
		{"copy-large", 10, false, copyLarge},
		{"copy-itself", 20, false, copyItself},
		{"rename", 40, false, renameSmall},
		{"rename-large", 8, false, renameLarge},
		{"append", 80, false, appendSmall},
		{"append-large", 15, true, appendLarge},
		{"label", 40, false, label},
		{"delete-large", 6, false, deleteLarge},
		{"multipart", 15, true, multipart},
		{"multipart-left-open", 10, true, multipartLeftOpen},
		{"multipart-go-on", 15, false, multipartGoOn},
		{"multipart-copy", 8, true, multipartCopy},
		{"large-if-absent", 10, true, largeIfAbsent},
		{"bucket", 10, false, createOrDeleteBucket},
		{"document", 60, false, putOrDeleteDocument},
		{"identity", 40, false, changeIdentity},
	}, versionOperations()...)
}

// put writes content under a key, whether or not the key exists.
func (w *worker) put(ctx context.Context, op, key string, v *Value, body []byte) {
	n := Name{Key: key}
	w.do(change{op: op, effects: []Effect{{n, v}}, send: func() error {
		got, err := w.load.Client.Put(ctx, key, body, "", "")
		return w.check(n, v, got, err)
	}})
}

func putSmall(ctx context.Context, w *worker) {
	v, body := w.small()
	w.put(ctx, "put-small", w.smallKey(), v, body)
}

func putLarge(ctx context.Context, w *worker) {
	v, body := w.large(largeMin, largeMax)
	w.put(ctx, "put-large", w.largeKey(), v, body)
}

// overwrite writes a key twice in a row, so that a recent value is replaced, possibly by one of another size class.
func overwrite(ctx context.Context, w *worker) {
	key := w.smallKey()
	for range 2 {
		v, body := w.small()
		w.put(ctx, "overwrite", key, v, body)
		if w.failed {
			return
		}
	}
}

// putIfAbsent writes with If-None-Match: *.
func putIfAbsent(ctx context.Context, w *worker) {
	v, body := w.small()
	w.ifAbsent(ctx, "put-if-absent", w.smallKey(), v, body)
}

// largeIfAbsent does the same with large content, which has a block of its own and is written before the condition is
// checked.
func largeIfAbsent(ctx context.Context, w *worker) {
	v, body := w.large(largeMin, 2*largeMin)
	w.ifAbsent(ctx, "large-if-absent", w.largeKey(), v, body)
}

func (w *worker) ifAbsent(ctx context.Context, op, key string, v *Value, body []byte) {
	n := Name{Key: key}
	exist, lack := w.load.Ledger.May(n)
	end := w.do(change{op: op, effects: []Effect{{n, v}}, refusal: http.StatusPreconditionFailed, send: func() error {
		got, err := w.load.Client.Put(ctx, n.Key, body, "", "*")
		return w.check(n, v, got, err)
	}})
	if end == Done && !lack || end == Refused && !exist {
		w.load.violate("condition", n.String(), "a write with If-None-Match: * ended as %q, although the key %s", end, existence(exist))
	}
}

// putIfMatch writes with If-Match: three times out of four with the correct ETag, otherwise with a wrong one.
func putIfMatch(ctx context.Context, w *worker) {
	n := Name{Key: w.smallKey()}
	old, certain := w.load.Ledger.Value(n)
	if !certain || old == nil {
		return
	}
	v, body := w.small()
	tag, want := old.ETag, Done
	if w.rand.IntN(4) == 0 {
		tag, want = "00000000000000000000000000000000", Refused
	}
	end := w.do(change{op: "put-if-match", effects: []Effect{{n, v}}, refusal: http.StatusPreconditionFailed, send: func() error {
		got, err := w.load.Client.Put(ctx, n.Key, body, tag, "")
		return w.check(n, v, got, err)
	}})
	if end != want && end != Unknown {
		w.load.violate("condition", n.String(), "a write with If-Match: %s ended as %q, although the key had %v", tag, end, old)
	}
}

// existence describes for messages whether a key existed.
func existence(exist bool) string {
	if exist {
		return "existed"
	}
	return "did not exist"
}

// delete deletes an object, whether it exists or not.
func (w *worker) delete(ctx context.Context, op, key string) {
	w.do(change{op: op, effects: []Effect{{Name{Key: key}, nil}}, send: func() error {
		return w.load.Client.Delete(ctx, key)
	}})
}

func deleteOne(ctx context.Context, w *worker)   { w.delete(ctx, "delete", w.smallKey()) }
func deleteLarge(ctx context.Context, w *worker) { w.delete(ctx, "delete-large", w.largeKey()) }

// deleteMany deletes up to 20 objects in one request. Each deletion is acknowledged separately.
func deleteMany(ctx context.Context, w *worker) {
	keys := map[string]bool{}
	for range 1 + w.rand.IntN(20) {
		keys[w.smallKey()] = true
	}
	list := slices.Sorted(maps.Keys(keys))
	effects := make([]Effect, len(list))
	for i, key := range list {
		effects[i].Name.Key = key
	}
	var happened []Effect
	w.do(change{op: "delete-many", effects: effects, result: func() []Effect { return happened }, send: func() error {
		deleted, err := w.load.Client.DeleteMany(ctx, list)
		for _, key := range deleted {
			if !keys[key] {
				w.load.violate("response", fmt.Sprintf("%q", key), "acknowledged as deleted, but not in the request")
			}
			happened = append(happened, Effect{Name: Name{Key: key}})
		}
		if err == nil && len(deleted) < len(list) {
			w.load.violate("failed", "delete-many", "%d of %d keys were not deleted", len(list)-len(deleted), len(list))
		}
		return err
	}})
}

// copy copies an object whose value is certain.
func (w *worker) copy(ctx context.Context, op, from, to string) {
	v, certain := w.load.Ledger.Value(Name{Key: from})
	if !certain || v == nil {
		return
	}
	n := Name{Key: to}
	v = v.Copied()
	w.do(change{op: op, effects: []Effect{{n, v}}, send: func() error { // a copy keeps the tag
		got, err := w.load.Client.Copy(ctx, from, to)
		return w.check(n, v, got, err)
	}})
}

func copySmall(ctx context.Context, w *worker) { w.copy(ctx, "copy", w.smallKey(), w.smallKey()) }
func copyLarge(ctx context.Context, w *worker) { w.copy(ctx, "copy-large", w.largeKey(), w.largeKey()) }

// copyItself replaces the metadata of an object.
func copyItself(ctx context.Context, w *worker) {
	key := w.smallKey()
	if w.rand.IntN(4) == 0 {
		key = w.largeKey()
	}
	w.copy(ctx, "copy-itself", key, key)
}

// rename moves an object whose value is certain to another key.
func (w *worker) rename(ctx context.Context, op, from, to string) {
	v, certain := w.load.Ledger.Value(Name{Key: from})
	if !certain || v == nil || from == to {
		return
	}
	w.do(change{op: op, effects: []Effect{{Name{Key: to}, v}, {Name{Key: from}, nil}}, atomic: true, send: func() error {
		return w.load.Client.Rename(ctx, from, to)
	}})
}

func renameSmall(ctx context.Context, w *worker) { w.rename(ctx, "rename", w.smallKey(), w.smallKey()) }
func renameLarge(ctx context.Context, w *worker) {
	w.rename(ctx, "rename-large", w.largeKey(), w.largeKey())
}

// append appends content to an object whose value is certain.
func (w *worker) append(ctx context.Context, op, key string, more *Value, body []byte) {
	n := Name{Key: key}
	old, certain := w.load.Ledger.Value(n)
	if !certain || old == nil || len(body) == 0 {
		return
	}
	v := old.Append(more)
	w.do(change{op: op, effects: []Effect{{n, v}}, send: func() error {
		got, err := w.load.Client.Append(ctx, key, old.Size, body)
		return w.check(n, v, got, err)
	}})
}

func appendSmall(ctx context.Context, w *worker) {
	more, body := w.small()
	w.append(ctx, "append", w.smallKey(), more, body)
}

// appendLarge appends to a large object, possibly a multipart object.
func appendLarge(ctx context.Context, w *worker) {
	more, body := w.large(1, largeMin)
	w.append(ctx, "append-large", w.largeKey(), more, body)
}

// label changes the tag of an object whose value is certain, or one time in four removes it.
func label(ctx context.Context, w *worker) {
	n := Name{Key: w.smallKey()}
	if w.rand.IntN(4) == 0 {
		n.Key = w.largeKey()
	}
	v, certain := w.load.Ledger.Value(n)
	if !certain || v == nil {
		return
	}
	text := ""
	if w.rand.IntN(4) > 0 {
		text = fmt.Sprint(w.load.Ledger.Number())
	}
	w.do(change{op: "label", effects: []Effect{{n, v.Labeled(text)}}, send: func() error {
		return w.load.Client.Label(ctx, n.Key, text)
	}})
}

// createUpload creates an upload for a key, and reports whether that was acknowledged. v contains the time at which the
// lifecycle aborts it.
func (w *worker) createUpload(ctx context.Context, n Name, v *Value) (up Name, done bool) {
	unnamed := n
	unnamed.Upload = fmt.Sprintf("?%d", w.load.Ledger.Number())
	end := w.do(change{op: "create-upload", effects: []Effect{{unnamed, v}},
		result: func() []Effect { return []Effect{{n, v}, {unnamed, nil}} },
		send: func() (err error) {
			n.Upload, err = w.client(n).CreateUpload(ctx, n.Key)
			return err
		}})
	return n, end == Done
}

// beginUpload creates an upload and puts its parts, all except the last with at least partMin bytes. It returns the
// upload and its parts, or no parts after a failure.
func (w *worker) beginUpload(ctx context.Context, parts int) (Name, []*Value) {
	n, done := w.createUpload(ctx, Name{Key: w.largeKey()}, &Value{})
	if !done {
		return n, nil
	}
	var list []*Value
	for i := range parts {
		lo := int64(partMin)
		if i == parts-1 {
			lo = 1
		}
		v := w.putPart(ctx, Name{Key: n.Key, Upload: n.Upload, Part: i + 1}, lo)
		if v == nil {
			return n, nil
		}
		list = append(list, v)
	}
	return n, list
}

// putPart writes a part of at least lo bytes and returns it, or nil if the request failed.
func (w *worker) putPart(ctx context.Context, n Name, lo int64) *Value {
	v, body := w.large(lo, lo+largeMin)
	end := w.do(change{op: "put-part", effects: []Effect{{n, v}}, send: func() error {
		got, err := w.load.Client.PutPart(ctx, n, body)
		return w.check(n, v, got, err)
	}})
	if end != Done {
		return nil
	}
	return v
}

// complete completes an upload. One time in four it repeats the request, like a client that did not receive the
// response. The second request is acknowledged or refused, and changes nothing.
func (w *worker) complete(ctx context.Context, n Name, parts []*Value) {
	object, v := Name{Key: n.Key}, Join(parts...)
	send := func() error {
		got, err := w.load.Client.CompleteUpload(ctx, n, parts)
		return w.check(object, v, got, err)
	}
	end := w.do(change{op: "complete", effects: []Effect{{object, v}, {n, nil}}, atomic: true, send: send})
	if end == Done && w.rand.IntN(4) == 0 {
		w.do(change{op: "complete-again", effects: []Effect{{object, v}}, refusal: http.StatusNotFound, send: send})
	}
}

// multipartCopy creates an object whose first part is a range of another object.
func multipartCopy(ctx context.Context, w *worker) {
	from := w.largeKey()
	source, certain := w.load.Ledger.Value(Name{Key: from})
	if !certain || source == nil || source.Size == 0 {
		return
	}
	n, done := w.createUpload(ctx, Name{Key: w.largeKey()}, &Value{})
	if !done {
		return
	}
	first := w.rand.Int64N(source.Size)
	if w.rand.IntN(2) == 0 {
		first = 0
	}
	length := 1 + w.rand.Int64N(source.Size-first)
	v := source.Range(first, length)
	part := Name{Key: n.Key, Upload: n.Upload, Part: 1}
	end := w.do(change{op: "copy-part", effects: []Effect{{part, v}}, send: func() error {
		got, err := w.load.Client.CopyPart(ctx, part, from, first, length)
		return w.check(part, v, got, err)
	}})
	if end != Done {
		return
	}
	parts := []*Value{v}
	if length >= partMin {
		last := w.putPart(ctx, Name{Key: n.Key, Upload: n.Upload, Part: 2}, 1)
		if last == nil {
			return
		}
		parts = append(parts, last)
	}
	w.complete(ctx, n, parts)
}

// createOrDeleteBucket creates an empty bucket of this worker, or deletes it if it exists.
func createOrDeleteBucket(ctx context.Context, w *worker) {
	n := Name{Bucket: fmt.Sprintf("%s-%02d", bucket, w.number)}
	exist, lack := w.load.Ledger.May(n)
	switch {
	case exist && lack: // uncertain until the next start
	case exist:
		w.do(change{op: "delete-bucket", effects: []Effect{{n, nil}}, send: func() error {
			return w.load.Client.RemoveBucket(ctx, n.Bucket)
		}})
	default:
		w.do(change{op: "create-bucket", effects: []Effect{{n, &Value{}}}, send: func() error {
			return w.load.Client.MakeBucket(ctx, n.Bucket)
		}})
	}
}

// documents are the documents of the main bucket that the load changes. Each belongs to one worker, and all of them are
// parts of the same bucket, so that one change must not undo another.
var documents = []string{policyDocument, corsDocument}

// putOrDeleteDocument replaces the document of the main bucket that belongs to this worker, or one time in four deletes
// it. Most workers have none.
func putOrDeleteDocument(ctx context.Context, w *worker) {
	if w.number >= len(documents) {
		return
	}
	n := Name{Document: documents[w.number]}
	id, v := "", (*Value)(nil)
	if w.rand.IntN(4) > 0 {
		id = fmt.Sprint(w.load.Ledger.Number())
		v = &Value{Label: id}
	}
	w.do(change{op: "document", effects: []Effect{{n, v}}, send: func() error {
		return w.load.Client.SetDocument(ctx, n.Document, id)
	}})
}

// abort aborts an upload.
func (w *worker) abort(ctx context.Context, n Name) {
	w.do(change{op: "abort", effects: []Effect{{n, nil}}, send: func() error {
		return w.load.Client.AbortUpload(ctx, n)
	}})
}

// multipart uploads content in 1 to 3 parts. It completes three of four uploads and aborts the others.
func multipart(ctx context.Context, w *worker) {
	n, parts := w.beginUpload(ctx, 1+w.rand.IntN(3))
	switch {
	case parts == nil:
	case w.rand.IntN(4) == 0:
		w.abort(ctx, n)
	default:
		w.complete(ctx, n, parts)
	}
}

// multipartLeftOpen leaves an upload open for multipartGoOn, possibly until after a restart.
func multipartLeftOpen(ctx context.Context, w *worker) {
	if len(w.load.Ledger.OpenUploads("", w.owns)) < 3 {
		w.beginUpload(ctx, 1+w.rand.IntN(2))
	}
}

// multipartGoOn continues an upload that was left open: it replaces the last part, or completes or aborts the upload.
func multipartGoOn(ctx context.Context, w *worker) {
	for n, parts := range w.load.Ledger.OpenUploads("", w.owns) {
		var list []*Value
		for i := 1; parts[i] != nil; i++ {
			list = append(list, parts[i])
		}
		switch choice := w.rand.IntN(4); {
		case choice == 0 || len(list) == 0:
			w.abort(ctx, n)
		case choice == 1:
			w.putPart(ctx, Name{Key: n.Key, Upload: n.Upload, Part: len(list)}, 1)
		default:
			w.complete(ctx, n, list)
		}
		return
	}
}

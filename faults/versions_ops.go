package faults

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// versionsMax is the approximate maximum number of versions of a key in the load.
const versionsMax = 5

// versionOperations returns the operations on buckets with versions, locks and lifecycles.
func versionOperations() []Op {
	return []Op{
		{"v-put", 160, false, putVersion},
		{"v-delete", 40, false, putMarker},
		{"v-delete-version", 40, false, deleteVersion},
		{"v-delete-many", 10, false, deleteVersions},
		{"v-copy", 20, false, copyVersion},
		{"v-rename", 20, false, renameVersion},
		{"v-append", 20, false, appendVersion},
		{"v-multipart", 10, false, multipartVersion},
		{"v-label", 15, false, labelVersion},
		{"v-hold", 15, false, holdVersion},
		{"v-read", 20, false, readVersion},
		{"v-list", 30, false, listVersions},
		{"v-status", 8, false, switchVersions},
		{"life-upload", 10, false, uploadForLife},
	}
}

// ownBucket returns the versioned bucket of a worker, whose versioning is suspended at times.
func ownBucket(worker int) string { return fmt.Sprintf("%s-v-%02d", bucket, worker) }

// shelf is a key with versions, and the versioning status of its bucket.
type shelf struct {
	Name
	status string
}

// shelf returns a key of this worker, in its own bucket, the one with locks, or one with a lifecycle. It returns false
// if the versioning status of the bucket is uncertain.
func (w *worker) shelf() (shelf, bool) {
	switch n := w.rand.IntN(10); {
	case n < 5:
		return w.ownShelf()
	case n < 7:
		return w.lockShelf()
	case n < 9:
		prefix := []string{"e", "m", "k"}[w.rand.IntN(3)]
		return w.shelfAt(lifeBucket, fmt.Sprintf("%s/%02d-%d", prefix, w.number, w.rand.IntN(2)))
	}
	prefix := []string{"e", "k"}[w.rand.IntN(2)]
	return w.shelfAt(goneBucket, fmt.Sprintf("%s/%02d", prefix, w.number))
}

func (w *worker) ownShelf() (shelf, bool) {
	return w.shelfAt(ownBucket(w.number), fmt.Sprintf("k/%02d", w.rand.IntN(6)))
}

func (w *worker) lockShelf() (shelf, bool) {
	return w.shelfAt(lockBucket, fmt.Sprintf("l/%02d-%d", w.number, w.rand.IntN(2)))
}

func (w *worker) shelfAt(bucket, key string) (shelf, bool) {
	set, certain := w.load.Ledger.Value(Name{Bucket: bucket})
	if !certain || set == nil {
		return shelf{}, false
	}
	return shelf{Name{Bucket: bucket, Key: key}, set.Label}, true
}

// client returns a client of the bucket of an item.
func (w *worker) client(n Name) *Client { return w.load.Client.of(n) }

// versions returns the versions of a key, newest first, and reports whether they are certain.
func (w *worker) versions(n Name) ([]Version, bool) { return w.load.Ledger.Versions(n) }

// now returns the time in the server's precision, so that it is not later than the time that the server records.
func now() int64 { return time.Now().Truncate(time.Millisecond).UnixNano() }

// fresh returns the version that a request creates with a value (nil for a delete marker).
func (w *worker) fresh(s shelf, v *Value) *Version {
	at := now()
	made := &Version{ID: nullID, Value: v, Written: at, Placed: at}
	if s.status == enabled {
		made.ID = fmt.Sprintf("?%d", w.load.Ledger.Number())
	}
	return made
}

// push adds a version as the newest. send returns the version ID in the response.
func (w *worker) push(op string, s shelf, v *Version, more change, send func() (string, error)) string {
	var id string
	more.op, more.ids = op, func() []string { return []string{id} }
	more.steps = append([]Step{{Name: s.Name, Do: Push, Version: v}}, more.steps...)
	more.send = func() (err error) {
		if id, err = send(); err == nil && (s.status == enabled) != (id != "" && id != nullID) {
			w.load.violate("version", s.String(), "%s returned version ID %q, in a bucket with versioning %q", op, id, s.status)
		}
		return err
	}
	return w.do(more)
}

// little returns new content. It is small, because each check reads all versions.
func (w *worker) little() (*Value, []byte) {
	if w.rand.IntN(8) == 0 {
		return w.small()
	}
	return w.content(w.rand.Int64N(4 << 10))
}

// putVersion writes a version, which may be locked if the bucket has locks. If the key has many versions, it first
// deletes the oldest one.
func putVersion(ctx context.Context, w *worker) {
	s, ok := w.shelf()
	if !ok {
		return
	}
	list, _ := w.versions(s.Name)
	if len(list) >= versionsMax {
		w.deleteVersion(ctx, s, list[len(list)-1])
		if s.Bucket == lockBucket && list[len(list)-1].Lock != "" {
			return
		}
	}
	v, body := w.little()
	made := w.fresh(s, v)
	if s.Bucket == lockBucket {
		made.Lock = []string{"", "", lockGovernance, lockGovernance, lockHold, lockCompliance}[w.rand.IntN(6)]
		if made.Lock == lockCompliance && slices.ContainsFunc(list, func(v Version) bool { return strings.Contains(v.Lock, lockCompliance) }) {
			made.Lock = ""
		}
	}
	w.push("v-put", s, made, change{}, func() (string, error) {
		tag, id, err := w.client(s.Name).PutVersion(ctx, s.Key, body, made.Lock)
		return id, w.check(s.Name, v, tag, err)
	})
}

// removal returns the step of a deletion without a version ID.
func (w *worker) removal(s shelf) Step {
	if s.status == "" {
		return Step{Name: s.Name, Do: Drop, ID: nullID}
	}
	return Step{Name: s.Name, Do: Push, Version: w.fresh(s, nil)}
}

// putMarker deletes a key without a version ID: in a bucket with versioning, that adds a delete marker.
func putMarker(ctx context.Context, w *worker) {
	s, ok := w.shelf()
	if !ok {
		return
	}
	var id string
	w.do(change{op: "v-delete", steps: []Step{w.removal(s)}, ids: func() []string { return []string{id} }, send: func() (err error) {
		id, err = w.client(s.Name).DeleteVersion(ctx, s.Key, "", false)
		if want := map[string]bool{enabled: id != "" && id != nullID, suspended: id == nullID, "": id == ""}; err == nil && !want[s.status] {
			w.load.violate("version", s.String(), "a deletion returned version ID %q, in a bucket with versioning %q", id, s.status)
		}
		return err
	}})
}

// known returns a random version of a key whose ID is known and that accept selects. It returns nil if there is none,
// or if the versions are uncertain.
func (w *worker) known(n Name, accept func(v *Version) bool) *Version {
	list, certain := w.versions(n)
	list = slices.DeleteFunc(slices.Clone(list), func(v Version) bool { return v.unnamed() || !accept(&v) })
	if !certain || len(list) == 0 {
		return nil
	}
	return &list[w.rand.IntN(len(list))]
}

func isAny(*Version) bool       { return true }
func isContent(v *Version) bool { return v.Value != nil }

// deleteVersion deletes a version by its ID, or tries to if the version is locked.
func deleteVersion(ctx context.Context, w *worker) {
	s, ok := w.shelf()
	if !ok {
		return
	}
	if v := w.known(s.Name, isAny); v != nil {
		w.deleteVersion(ctx, s, *v)
	}
}

func (w *worker) deleteVersion(ctx context.Context, s shelf, v Version) {
	if v.unnamed() {
		return
	}
	c := change{op: "v-delete-version", steps: []Step{{Name: s.Name, Do: Drop, ID: v.ID}}}
	bypass := v.Lock == lockGovernance && w.rand.IntN(2) == 0
	if v.Lock != "" && !bypass {
		c.refusal = http.StatusForbidden
	}
	c.send = func() error {
		_, err := w.client(s.Name).DeleteVersion(ctx, s.Key, v.ID, bypass)
		return err
	}
	if end := w.do(c); end == Done && c.refusal != 0 {
		w.load.violate("lock", s.String(), "the locked version %v was deleted", v)
	}
}

// deleteVersions deletes up to 5 versions of several keys in one request.
func deleteVersions(ctx context.Context, w *worker) {
	var list []string
	c := change{op: "v-delete-many"}
	for range 5 {
		s, ok := w.ownShelf()
		if !ok || slices.Contains(list, s.Key) {
			continue
		}
		if v := w.known(s.Name, isAny); v != nil {
			list = append(list, s.Key, v.ID)
			c.steps = append(c.steps, Step{Name: s.Name, Do: Drop, ID: v.ID})
		}
	}
	if len(list) == 0 {
		return
	}
	c.send = func() error { return w.client(c.steps[0].Name).DeleteVersions(ctx, false, list...) }
	w.do(c)
}

// copyVersion copies any version of a key to another key, or to the same key.
func copyVersion(ctx context.Context, w *worker) {
	from, ok := w.ownShelf()
	to, _ := w.ownShelf()
	if w.rand.IntN(4) == 0 {
		from, ok = w.lockShelf()
		to, _ = w.lockShelf()
	}
	if !ok {
		return
	}
	source := w.known(from.Name, isContent)
	if source == nil || from == to && source.ID == nullID {
		return
	}
	v := source.Value.Copied()
	w.push("v-copy", to, w.fresh(to, v), change{}, func() (string, error) {
		tag, id, err := w.client(to.Name).CopyVersion(ctx, from.Key, source.ID, to.Key)
		return id, w.check(to.Name, v, tag, err)
	})
}

// renameVersion renames the newest version of a key. The source keeps that version, below a delete marker.
func renameVersion(ctx context.Context, w *worker) {
	from, ok := w.ownShelf()
	to, _ := w.ownShelf()
	list, certain := w.versions(from.Name)
	if !ok || from == to || !certain || len(list) == 0 || list[0].Value == nil {
		return
	}
	made := w.fresh(to, list[0].Value)
	made.Written = list[0].Written
	w.push("v-rename", to, made, change{steps: []Step{w.removal(from)}, atomic: true}, func() (string, error) {
		return w.client(to.Name).RenameVersion(ctx, from.Key, to.Key)
	})
}

// appendVersion appends to the newest version of a key, which adds a version.
func appendVersion(ctx context.Context, w *worker) {
	s, ok := w.ownShelf()
	list, certain := w.versions(s.Name)
	if !ok || !certain || len(list) == 0 || list[0].Value == nil || list[0].Value.Size > smallMax {
		return
	}
	old := list[0].Value
	more, body := w.content(1 + w.rand.Int64N(4<<10))
	v := old.Append(more)
	w.push("v-append", s, w.fresh(s, v), change{}, func() (string, error) {
		tag, id, err := w.client(s.Name).AppendVersion(ctx, s.Key, old.Size, body)
		return id, w.check(s.Name, v, tag, err)
	})
}

// multipartVersion writes a version by an upload with one part.
func multipartVersion(ctx context.Context, w *worker) {
	s, ok := w.ownShelf()
	if !ok {
		return
	}
	n, done := w.createUpload(ctx, s.Name, &Value{})
	if !done {
		return
	}
	n.Part = 1
	v, body := w.little()
	if end := w.do(change{op: "put-part", effects: []Effect{{n, v}}, send: func() error {
		got, err := w.client(n).PutPart(ctx, n, body)
		return w.check(n, v, got, err)
	}}); end != Done {
		return
	}
	n.Part = 0
	object := Join(v)
	w.push("v-multipart", s, w.fresh(s, object), change{effects: []Effect{{n, nil}}, atomic: true}, func() (string, error) {
		tag, id, err := w.client(n).CompleteVersion(ctx, n, []*Value{v})
		return id, w.check(s.Name, object, tag, err)
	})
}

// labelVersion changes the tag of a version.
func labelVersion(ctx context.Context, w *worker) {
	s, ok := w.ownShelf()
	v := w.known(s.Name, isContent)
	if !ok || v == nil {
		return
	}
	label := fmt.Sprint(w.load.Ledger.Number())
	to := &Version{Value: v.Value.Labeled(label)}
	w.do(change{op: "v-label", steps: []Step{{Name: s.Name, Do: Amend, ID: v.ID, Version: to}}, send: func() error {
		return w.client(s.Name).LabelVersion(ctx, s.Key, v.ID, label)
	}})
}

// holdVersion sets or removes the legal hold of a version.
func holdVersion(ctx context.Context, w *worker) {
	s, ok := w.lockShelf()
	v := w.known(s.Name, isContent)
	if !ok || v == nil {
		return
	}
	to := &Version{Value: v.Value, Lock: strings.TrimSuffix(strings.TrimSuffix(v.Lock, lockHold), "+")}
	on := to.Lock == v.Lock
	if on {
		to.Lock = strings.TrimPrefix(v.Lock+"+"+lockHold, "+")
	}
	w.do(change{op: "v-hold", steps: []Step{{Name: s.Name, Do: Amend, ID: v.ID, Version: to}}, send: func() error {
		return w.client(s.Name).HoldVersion(ctx, s.Key, v.ID, on)
	}})
}

// readVersion reads a version by its ID and compares it.
func readVersion(ctx context.Context, w *worker) {
	s, ok := w.ownShelf()
	if w.rand.IntN(3) == 0 {
		s, ok = w.lockShelf()
	}
	v := w.known(s.Name, isContent)
	if !ok || v == nil {
		return
	}
	var got held
	end := w.do(change{op: "v-read", name: s.Name, send: func() (err error) {
		got, err = w.client(s.Name).GetVersion(ctx, s.Key, v.ID)
		return err
	}})
	if end == Done && !(&reader{want: []Version{*v}}).fits(*v, got) {
		w.load.violate("torn", s.String(), "version %v, with tag %q, was read as %d bytes of version %s, with ETag %s, tag %q and lock %q: %s",
			v, v.Value.Label, len(got.body), got.id, got.etag, got.label, got.lock, v.Value.differ(got.body))
	}
}

// listVersions lists the versions of a key, which are certain from then on.
func listVersions(ctx context.Context, w *worker) {
	s, ok := w.shelf()
	for range 2 { // prefer keys with a lifecycle
		if rules(s.Bucket) == nil {
			s, ok = w.shelf()
		}
	}
	if !ok {
		return
	}
	var got []held
	c := change{op: "v-list", name: s.Name, send: func() error {
		got = nil
		return w.client(s.Name).ListVersions(ctx, s.Key, int32(1+w.rand.IntN(versionsMax)), func(_ string, v held) { got = append(got, v) })
	}}
	c.seen = func() []Step {
		h := w.load.Ledger.History(s.Name)
		h.all = h.live
		versions, courses := h.explain(s.Name, got, time.Now())
		switch {
		case courses == nil:
			kind, detail := h.judge(got)
			w.load.violate(kind, s.String(), "%s", detail)
			return nil
		case len(h.live) == 1 && slices.Equal(versions, h.live[0].versions):
			return nil
		}
		return []Step{{Name: s.Name, Do: Become, Versions: versions}}
	}
	w.do(c)
}

// switchVersions suspends versioning of the worker's bucket, or enables it again.
func switchVersions(ctx context.Context, w *worker) {
	s, ok := w.ownShelf()
	if !ok {
		return
	}
	n, to := Name{Bucket: s.Bucket}, enabled
	if s.status == enabled {
		to = suspended
	}
	w.do(change{op: "v-status", effects: []Effect{{n, &Value{Label: to}}}, send: func() error { return w.client(s.Name).SetVersioning(ctx, to) }})
}

// uploadForLife creates an upload that the lifecycle will abort, or aborts one of those.
func uploadForLife(ctx context.Context, w *worker) {
	key := fmt.Sprintf("u/%02d", w.number)
	open := w.load.Ledger.OpenUploads(lifeBucket, func(k string) bool { return k == key })
	refused := func(n Name, due int64) {
		if now() < due {
			w.load.violate("early", n.String(), "the lifecycle aborted it before it was due")
		}
	}
	for n := range open {
		if len(open) < 3 && w.rand.IntN(4) > 0 {
			break
		}
		v, _ := w.load.Ledger.Value(n)
		if w.do(change{op: "abort", effects: []Effect{{n, nil}}, refusal: http.StatusNotFound, send: func() error {
			return w.client(n).AbortUpload(ctx, n)
		}}) == Refused {
			refused(n, v.Due)
		}
		return
	}
	if _, ok := w.shelfAt(lifeBucket, key); !ok {
		return
	}
	due := after(now(), ruleOf(Name{Bucket: lifeBucket, Key: key}).abort)
	n, done := w.createUpload(ctx, Name{Bucket: lifeBucket, Key: key}, &Value{Due: due})
	if !done {
		return
	}
	n.Part = 1
	v, body := w.little()
	if w.do(change{op: "put-part", effects: []Effect{{n, v}}, refusal: http.StatusNotFound, send: func() error {
		got, err := w.client(n).PutPart(ctx, n, body)
		return w.check(n, v, got, err)
	}}) == Refused {
		refused(n, due)
	}
}

package iofault

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orcas/backup"
	"orcas/faults"
	"orcas/reclaim"
)

// Script is a sequence of requests.
type Script struct {
	Name      string
	Base      string // the initial data directory
	Env       []string
	FromStart bool // the fault is set before the server starts; otherwise, before the first request
	Steps     func(r *run)
	Stop      bool // stop the server after the steps, with the fault still set
	// Rotated, if set, replaces Env after an acknowledged rotation.
	Rotated []string
	// Finally runs at the end, after the checks and without a fault. It must succeed, and then everything is checked
	// once more.
	Finally func(r *run)
	// Only every Stride-th operation is tested, and for permanent faults and reads only every RestStride-th; 0 means
	// every one.
	Stride, RestStride int
}

// Sizes of content, in bytes.
const (
	smallSize = 4 << 10
	largeSize = 6 << 20
	partSize  = 5 << 20
	maxPacked = 64 << 10 // the largest content that is packed
)

// Scripts returns all scripts.
func Scripts() []Script {
	return []Script{
		{Name: "start", Base: empty, FromStart: true, Steps: func(r *run) {
			if r.createBucket() {
				r.put("first", smallSize)
				r.get("first")
			}
		}},
		{Name: "start-after-crash", Base: crashed, FromStart: true, Steps: func(r *run) {
			r.get("small")
			r.put("after", smallSize)
			r.remove("small")
		}},
		{Name: "put", Base: stocked, Steps: func(r *run) {
			r.put("new", smallSize)
			r.put("nothing", 0)
			r.get("new")
			r.put("new2", 100)
		}},
		{Name: "put-large", Base: stocked, Steps: func(r *run) {
			r.put("new-large", largeSize)
			r.get("new-large")
		}},
		{Name: "overwrite", Base: stocked, Steps: func(r *run) {
			r.put("small", smallSize)
			r.put("large", smallSize)
			r.put("small2", largeSize)
			r.put("small", 10)
		}},
		{Name: "delete", Base: stocked, Steps: func(r *run) {
			r.remove("small")
			r.remove("large")
			r.remove("missing")
			r.remove("parts")
			r.put("small", smallSize)
			r.remove("small")
		}},
		{Name: "delete-objects", Base: stocked, Steps: func(r *run) {
			r.removeAll("small", "missing", "large", "small2")
			r.put("small", smallSize)
			r.removeAll("small", "parts")
		}},
		{Name: "multipart", Base: stocked, Steps: func(r *run) {
			r.multipart("joined", partSize, partSize)
			r.multipart("small", smallSize)
		}},
		{Name: "multipart-abort", Base: stocked, Steps: func(r *run) {
			if id := r.begin("joined"); id != "" {
				r.part(id, 1, partSize)
				r.part(id, 1, smallSize)
				r.abort(id)
			}
			for id, u := range r.m.clone().uploads {
				if !u.isEnd {
					r.abort(id)
				}
			}
		}},
		{Name: "copy", Base: stocked, Steps: func(r *run) {
			r.copy("small", "copy")
			r.copy("large", "small2")
			r.copy("parts", "copied-parts")
			r.remove("small")
			r.get("copy")
		}},
		{Name: "stop", Base: stocked, Stop: true, Steps: func(r *run) {
			r.put("last", smallSize)
			r.remove("small")
		}},
		{Name: "put-unpacked", Base: stocked, Env: []string{"ORCAS_BATCH_WRITE_ENABLED=false"}, Steps: func(r *run) {
			r.put("new", smallSize)
			r.put("new2", 100)
			r.remove("new")
		}},
		{Name: "checkpoint", Base: longLog, Steps: func(r *run) {
			for range 8 {
				r.put("small", 10)
			}
			var keys []string
			for i := range 300 {
				keys = append(keys, fmt.Sprintf("often-%02d", i))
			}
			r.removeAll(keys...) // with this many changes in one request, the log is copied while writes continue
			for range 4 {
				r.put("small", 10)
			}
		}},
		{Name: "stop-long-log", Base: longLog, Stop: true, Steps: func(r *run) {
			r.put("last", smallSize)
		}},
		{Name: "compaction", Base: holed, Env: noRounds, Finally: tidy, Steps: func(r *run) {
			if report := r.reclaim(); report != nil && report.BytesMoved == 0 {
				r.bad("the compaction moved no content: %+v", report)
			}
			r.get("hole-00")
		}},
		{Name: "snapshot", Base: deadPack, Env: noRounds, Finally: tidy, Steps: func(r *run) {
			if report := r.reclaim(); report != nil && (report.BytesMoved > 0 || report.Snapshots == 0 || report.BlocksFreed == 0) {
				r.bad("expected a snapshot and then freed blocks, without moved content: %+v", report)
			}
			r.put("small", smallSize)
		}},
		{Name: "delta", Base: chained, Env: noRounds, Finally: tidy, Steps: func(r *run) {
			if report := r.reclaim(); report != nil && (report.Deltas == 0 || report.BlocksFreed == 0) {
				r.bad("expected a delta and then freed blocks: %+v", report)
			}
			r.put("small", smallSize)
		}},
		{Name: "rebuild-chain", Base: chainLost, FromStart: true, Steps: func(r *run) {
			r.get("after")
			r.put("new", smallSize)
		}},
		{Name: "rebuild", Base: lost, FromStart: true, Steps: func(r *run) {
			r.get("after")
			r.put("new", smallSize)
		}},
		{Name: "backup", Base: stocked, Env: noRounds, Finally: wholeBackups, Steps: func(r *run) {
			r.backup()
			r.put("more", smallSize)
			r.backup()
		}},
		{Name: "equal", Base: stocked, Env: noRounds, Finally: tidy, Steps: shared},
		{Name: "customer-key", Base: stocked, Steps: customersOwn},
		{Name: "rotate", Base: wrapped, Env: encrypting(newKey, oldKey), Rotated: encrypting(newKey), Finally: (*run).finishRotation, Steps: rotation},
		{Name: "reclaim-large", Base: stocked, Finally: tidy, Steps: func(r *run) {
			r.remove("large")
			r.remove("parts")
			r.awaitReclaim(1)
		}},
	}
}

// tidy requests two full rounds of reclaim, which must complete the work of an interrupted round.
func tidy(r *run) {
	r.reclaim()
	r.reclaim()
}

// wholeBackups makes another backup, and checks it and all earlier backups that were reported to be complete.
func wholeBackups(r *run) {
	if !r.backup() {
		r.bad("a backup without a fault is incomplete: %q", r.problems)
	}
	for _, name := range r.backups {
		report, err := backup.Check(context.Background(), r.backupDir, name, nil)
		if err != nil || len(report.Problems) > 0 {
			r.bad("backup %s: %v %+v", name, err, report)
		}
	}
}

// run sends the requests of a script, and maintains the model.
type run struct {
	c      *client
	m      *model
	killed bool   // the server may be killed, so broken connections are allowed
	hasty  bool   // the first failure ends the run
	id     uint64 // the last ID of content
	mixed  bool   // half of the content can be compressed
	acked  int
	failed map[string]int // by status and code
	over   bool           // send no more requests

	rotated bool // the server must work without the old master key

	backupDir string
	backups   []string // complete backups
	problems  []string // of the last backup

	wrong []string
}

// run returns a run with a model, whose content has IDs greater than lastID.
func (b *Bench) run(m *model, lastID uint64) *run {
	return &run{m: m, id: lastID, mixed: b.Compression != "", failed: map[string]int{}}
}

func (r *run) bad(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// send sends a request and reports whether it was acknowledged.
func (r *run) send(method, key, query string, header map[string]string, body []byte) (*response, bool) {
	if r.over {
		return &response{}, false
	}
	a := r.c.do(method, key, query, header, body)
	return a, r.judge(strings.TrimSuffix(fmt.Sprintf("%s %s?%s", method, key, query), "?"), a)
}

// judge records how a request ended, and reports whether it was acknowledged.
func (r *run) judge(what string, a *response) bool {
	text, bad := a.failure()
	if text == "" {
		r.acked++
		return true
	}
	r.over = r.hasty
	if strings.HasPrefix(text, "broken") {
		r.failed["broken"]++
		r.over = r.over || r.killed
		bad = !r.killed
	} else {
		r.failed[text]++
		r.over = r.over || r.killed && a.cut
	}
	if bad {
		r.bad("%s: %s%s", what, text, a.detail())
	}
	return false
}

// reclaim requests a full round of reclaim and returns its report, or nil if the request failed.
func (r *run) reclaim() *reclaim.Report {
	if r.over {
		return nil
	}
	a := r.c.ask(http.MethodPost, "reclaim?wait=true")
	var report reclaim.Report
	if !r.judge("reclaim", a) {
		return nil
	}
	if err := json.Unmarshal(a.body, &report); err != nil || report.Error != "" || len(report.Damaged) > 0 {
		r.bad("reclaim: %v: %s", err, a.body)
	}
	return &report
}

// backup requests a backup and reports whether it is complete.
func (r *run) backup() bool {
	if r.over {
		return false
	}
	a := r.c.ask(http.MethodPost, "backup?dir="+url.QueryEscape(r.backupDir))
	if !r.judge("backup", a) {
		return false
	}
	var report backup.Report
	if err := json.Unmarshal(a.body, &report); err != nil {
		r.bad("backup: %v: %s", err, a.body)
	}
	r.problems = report.Problems
	if len(report.Problems) > 0 {
		return false // it reports the error, and the next start repairs it
	}
	r.backups = append(r.backups, report.Backup)
	return true
}

// awaitReclaim waits, for a limited time, until automatic rounds have freed some blocks.
func (r *run) awaitReclaim(blocks int) {
	for range 60 {
		if r.over {
			return
		}
		a := r.c.ask(http.MethodGet, "reclaim")
		var status reclaim.Status
		if !r.judge("reclaim status", a) {
			return
		}
		if err := json.Unmarshal(a.body, &status); err != nil {
			r.bad("reclaim status: %v: %s", err, a.body)
		}
		if status.Last.BlocksFreed >= blocks || status.Last.Error != "" {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// value returns new content. Content whose ID is divisible by three can be compressed. If mixed is set, value skips IDs
// so that half of the content can be compressed.
func (r *run) value(size int64) (*faults.Value, []byte) {
	r.id++
	if r.mixed && r.id%3 == 2 {
		r.id++
	}
	return faults.NewValue(faults.Piece{ID: r.id, Size: size})
}

// tag compares the ETag of a response with the value that was sent.
func (r *run) tag(what string, got string, v *faults.Value) {
	if etagOf(got) != v.ETag {
		r.bad("%s: acknowledged with ETag %s; expected %s", what, got, v.ETag)
	}
}

func (r *run) createBucket() bool {
	_, ok := r.send(http.MethodPut, "", "", nil, nil)
	r.m.bucket = r.m.bucket || ok
	return ok
}

func (r *run) put(key string, size int64) bool {
	if r.over {
		return false
	}
	v, body := r.value(size)
	r.m.may(key, v)
	a, ok := r.send(http.MethodPut, key, "", nil, body)
	if ok {
		r.m.is(key, v)
		r.tag("PUT "+key, a.header.Get("ETag"), v)
	}
	return ok
}

// get reads a key, and checks the content if the request succeeds.
func (r *run) get(key string) {
	if r.over {
		return
	}
	k := checker{c: r.c, m: r.m, found: map[string]*faults.Value{}}
	k.object(key)
	r.wrong = append(r.wrong, k.wrong...)
}

func (r *run) remove(key string) {
	if r.over {
		return
	}
	r.m.may(key, nil)
	if _, ok := r.send(http.MethodDelete, key, "", nil, nil); ok {
		r.m.is(key, nil)
	}
}

func (r *run) removeAll(keys ...string) {
	if r.over {
		return
	}
	var body strings.Builder
	body.WriteString("<Delete>")
	for _, key := range keys {
		r.m.may(key, nil)
		fmt.Fprintf(&body, "<Object><Key>%s</Key></Object>", key)
	}
	body.WriteString("</Delete>")
	sum := md5.Sum([]byte(body.String()))
	header := map[string]string{"Content-MD5": base64.StdEncoding.EncodeToString(sum[:])}
	a, ok := r.send(http.MethodPost, "", "delete", header, []byte(body.String()))
	if !ok {
		return
	}
	var result struct {
		Deleted []struct{ Key string }
		Error   []struct{ Key, Code string }
	}
	if err := xml.Unmarshal(a.body, &result); err != nil || len(result.Deleted)+len(result.Error) != len(keys) {
		r.bad("DeleteObjects: %v: %s", err, a.body)
	}
	for _, d := range result.Deleted {
		r.m.is(d.Key, nil)
	}
	for _, e := range result.Error {
		r.failed["in DeleteObjects "+e.Code]++
	}
}

func (r *run) copy(from, to string) {
	v := r.m.has(from)
	if r.over || v == nil {
		return
	}
	v = v.Copied()
	r.m.may(to, v)
	a, ok := r.send(http.MethodPut, to, "", map[string]string{"X-Amz-Copy-Source": "/" + bucket + "/" + from}, nil)
	if !ok {
		return
	}
	var result struct{ ETag string }
	if err := xml.Unmarshal(a.body, &result); err != nil {
		r.bad("copy to %s: %v: %s", to, err, a.body)
	}
	r.m.is(to, v)
	r.tag("copy to "+to, result.ETag, v)
}

// begin creates an upload and returns its ID, or "" if that failed.
func (r *run) begin(key string) string {
	if r.over {
		return ""
	}
	r.m.hidden++
	a, ok := r.send(http.MethodPost, key, "uploads", nil, nil)
	var result struct{ UploadId string } //nolint // as S3 spells it
	if !ok || xml.Unmarshal(a.body, &result) != nil {
		return ""
	}
	r.m.hidden--
	r.m.uploads[result.UploadId] = &upload{key: key, mayBeOpen: true, parts: map[int][]*faults.Value{}}
	return result.UploadId
}

func (r *run) part(id string, n int, size int64) *faults.Value {
	u := r.m.uploads[id]
	if r.over || u == nil {
		return nil
	}
	v, body := r.value(size)
	if u.parts[n] == nil {
		u.parts[n] = []*faults.Value{nil}
	}
	u.parts[n] = append(u.parts[n], v)
	a, ok := r.send(http.MethodPut, u.key, fmt.Sprintf("partNumber=%d&uploadId=%s", n, id), nil, body)
	if !ok {
		return nil
	}
	u.parts[n] = []*faults.Value{v}
	r.tag(fmt.Sprintf("part %d of %s", n, u.key), a.header.Get("ETag"), v)
	return v
}

// multipart uploads an object in parts. It stops if a request fails.
func (r *run) multipart(key string, sizes ...int64) {
	id := r.begin(key)
	if id == "" {
		return
	}
	var parts []*faults.Value
	var body strings.Builder
	body.WriteString("<CompleteMultipartUpload>")
	for i, size := range sizes {
		v := r.part(id, i+1, size)
		if v == nil {
			return
		}
		parts = append(parts, v)
		fmt.Fprintf(&body, "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>", i+1, v.ETag)
	}
	body.WriteString("</CompleteMultipartUpload>")
	u, v := r.m.uploads[id], faults.Join(parts...)
	u.isEnd = true
	r.m.may(key, v)
	a, ok := r.send(http.MethodPost, key, "uploadId="+id, nil, []byte(body.String()))
	if !ok {
		return
	}
	var result struct{ ETag string }
	if err := xml.Unmarshal(a.body, &result); err != nil {
		r.bad("complete %s: %v: %s", key, err, a.body)
	}
	u.mayBeOpen = false
	r.m.is(key, v)
	r.tag("complete "+key, result.ETag, v)
}

func (r *run) abort(id string) {
	if r.over {
		return
	}
	u := r.m.uploads[id]
	u.isEnd = true
	if _, ok := r.send(http.MethodDelete, u.key, "uploadId="+id, nil, nil); ok {
		u.mayBeOpen = false
	}
}

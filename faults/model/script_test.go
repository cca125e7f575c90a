package model

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"orcas/internal/sigv4"
	"orcas/lifecycle"
)

// step is one operation of a script. The meaning of the fields depends on the operation, see operations.
type step struct {
	op     string
	b, key string // bucket and key
	from   string // copies: bucket/key; listings: prefix
	size   int
	cond   string // see script.condition
	arg    string
	n      int
}

// GoString returns a step as Go source for the table of named cases.
func (s step) GoString() string {
	var f []string
	for _, p := range []struct{ name, value string }{
		{"op", s.op}, {"b", s.b}, {"key", s.key}, {"from", s.from}, {"cond", s.cond}, {"arg", s.arg},
	} {
		if p.value != "" {
			f = append(f, fmt.Sprintf("%s: %q", p.name, p.value))
		}
	}
	if s.size != 0 {
		f = append(f, fmt.Sprintf("size: %d", s.size))
	}
	if s.n != 0 {
		f = append(f, fmt.Sprintf("n: %d", s.n))
	}
	return "{" + strings.Join(f, ", ") + "}"
}

// script runs steps on a server and on the model, and compares.
type script struct {
	m    *machine
	s    *store
	made uint64         // number of pieces of content so far
	last map[int]uint64 // by size, the number of the last piece that was new

	lossy bool // the database was rebuilt from incomplete records
}

// operations are the operations of steps, with the fields that they use.
var operations = map[string]func(r *script, s step) error{
	"put":        (*script).put,       // size; cond; arg: metadata and tag
	"tag":        (*script).tag,       // n: 1 sets another tag, 0 removes the tags
	"get":        (*script).get,       // arg: range; n: part number; cond
	"head":       (*script).get,       // the same as get
	"delete":     (*script).remove,    // cond
	"deletes":    (*script).removeAll, // arg: keys, separated by commas; cond for all of them
	"copy":       (*script).copy,      // from; cond; arg: "replace" or ""
	"move":       (*script).move,      // from; cond; arg: "rename" or ""
	"append":     (*script).append,    // size; cond; n: the error of the offset
	"list":       (*script).list,      // from: prefix; arg: delimiter; n: page length; key: begin after this; cond: "v1" or ""
	"create":     (*script).createBucket,
	"drop":       (*script).dropBucket,
	"upload":     (*script).createUpload,
	"part":       (*script).putPart,  // n: number; size; arg: which upload
	"partcopy":   (*script).copyPart, // n: number; from; cond: range; arg: which upload
	"complete":   (*script).complete, // arg: which upload; from: which parts; cond
	"abort":      (*script).abort,    // arg: which upload
	"restart":    func(r *script, _ step) error { return r.back((*machine).restart) },
	"crash":      func(r *script, _ step) error { return r.back(func(m *machine) error { return m.crash(kept) }) },
	"gone":       func(r *script, _ step) error { return r.back(func(m *machine) error { return m.crash(gone) }) },
	"older":      func(r *script, _ step) error { return r.back(func(m *machine) error { return m.crash(older) }) },
	"remember":   func(r *script, _ step) error { return r.m.remember() },
	"versioning": (*script).setVersioning, // n: 0 enables, 1 suspends
	"version":    (*script).oldVersion,    // n: which version, counted from the newest; arg: "delete" or ""
	"rule":       (*script).setRule,       // from: the prefix of expiring keys; n: 1 for only large objects, 2 to remove the rule
	"quota":      (*script).setQuota,      // size: maximum bytes; n: maximum objects; without both, the quota is removed
	"pass":       (*script).pass,
	"reclaim":    (*script).reclaim,
	"settings":   (*script).settings, // n: 1 compresses and encrypts all new content
	"everything": func(r *script, _ step) error { return r.compare() },
}

// newScript returns a script for an empty machine.
func newScript(m *machine) (*script, error) {
	return &script{m: m, s: newStore(), last: map[int]uint64{}}, m.remember()
}

// run runs all steps and compares everything at the end. The error names the step that failed.
func (r *script) run(steps []step) error {
	for i, s := range steps {
		f := operations[s.op]
		if f == nil {
			return fmt.Errorf("unknown operation %q", s.op)
		}
		if err := f(r, s); err != nil {
			return fmt.Errorf("step %d, %#v: %w", i, s, err)
		}
	}
	if err := r.compare(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	return nil
}

// back takes the server down, starts it again, and compares everything.
func (r *script) back(how func(*machine) error) error {
	if err := how(r.m); err != nil {
		return err
	}
	return r.compare()
}

// content returns new content, or every fifth time content that was used before, if there is some of that size. Half of
// the content can be compressed.
func (r *script) content(size int) []byte {
	r.made++
	number := r.made
	if before, ok := r.last[size]; ok && number%5 == 0 {
		number = before
	} else if r.last != nil {
		r.last[size] = number
	}
	if number%2 == 0 {
		return text(number, size)
	}
	return random(number, size)
}

// settings restarts the server with other settings, before there is any content: a copy of content that is stored in
// another way would be new content, with another ETag.
func (r *script) settings(s step) error {
	return r.back(func(m *machine) error {
		if m.env = nil; s.n == 1 {
			m.env = sealed
		}
		return m.restart()
	})
}

// statusError is a response with another verdict than the model's.
type statusError struct{ got, want verdict }

func (e statusError) Error() string {
	return fmt.Sprintf("%d %s instead of %d %s", e.got.status, e.got.code, e.want.status, e.want.code)
}

// expect compares a response with the verdict of the model.
func expect(a *response, err error, want verdict) error {
	if err != nil {
		return err
	}
	if a.status != want.status || want.code != "" && len(a.body) > 0 && a.code() != want.code {
		return statusError{verdict{a.status, a.code()}, want}
	}
	return nil
}

// condition returns the condition that a step names, and its headers: "none" (If-None-Match: *), "match" (the current
// ETag), "other" (another ETag), "any" (If-Match: *), or "".
func (r *script) condition(s step) (condition, []string) {
	switch s.cond {
	case "none":
		return condition{noneMatch: true}, []string{"If-None-Match", "*"}
	case "any":
		return condition{match: "*"}, []string{"If-Match", "*"}
	case "match", "other":
		etag := hexMD5(nil)
		if o, v := r.s.object(s.b, s.key); v == ok && s.cond == "match" {
			etag = o.etag
		} else if v == ok && o.etag == etag {
			etag = hexMD5([]byte("x"))
		}
		return condition{match: etag}, []string{"If-Match", `"` + etag + `"`}
	}
	return condition{}, nil
}

func (r *script) put(s step) error {
	c, h := r.condition(s)
	body := r.content(s.size)
	if s.arg != "" {
		h = append(h, "X-Amz-Meta-V", s.arg, "X-Amz-Tagging", "n="+s.arg)
	}
	a, err := r.m.do("PUT", s.b, s.key, "", body, h...)
	want := r.s.put(s.b, s.key, c, body, s.arg, s.arg)
	if err := expect(a, err, want); err != nil {
		return err
	}
	if want == ok && a.etag() != hexMD5(body) {
		return fmt.Errorf("ETag %s instead of %s", a.etag(), hexMD5(body))
	}
	return r.told(s, a, want)
}

// tag is PutObjectTagging and DeleteObjectTagging.
func (r *script) tag(s step) error {
	method, tag, body := "DELETE", "", ""
	if s.n == 1 {
		r.made++
		method, tag = "PUT", fmt.Sprint("tag ", r.made)
		body = "<Tagging><TagSet><Tag><Key>n</Key><Value>" + tag + "</Value></Tag></TagSet></Tagging>"
	}
	a, err := r.m.do(method, s.b, s.key, "tagging=", []byte(body))
	return expect(a, err, r.s.tag(s.b, s.key, tag))
}

// setRule sets a lifecycle by which some objects of a bucket expired long ago, or removes the lifecycle.
func (r *script) setRule(s step) error {
	if s.n == 2 {
		a, err := r.m.do("DELETE", s.b, "", "lifecycle=", nil)
		want := noContent
		if b := r.s.buckets[s.b]; b == nil {
			want = noBucket
		} else {
			b.rule = nil
		}
		return expect(a, err, want)
	}
	filter := "<Prefix>" + s.from + "</Prefix>"
	if s.n == 1 {
		filter = "<And>" + filter + fmt.Sprintf("<ObjectSizeGreaterThan>%d</ObjectSizeGreaterThan></And>", largeExpired)
	}
	a, err := r.m.do("PUT", s.b, "", "lifecycle=", []byte("<LifecycleConfiguration><Rule><Filter>"+filter+
		"</Filter><Status>Enabled</Status><Expiration><Date>2020-01-01T00:00:00Z</Date></Expiration></Rule></LifecycleConfiguration>"))
	want := ok
	if b := r.s.buckets[s.b]; b == nil {
		want = noBucket
	} else {
		b.rule = &expiry{s.from, s.n == 1}
	}
	return expect(a, err, want)
}

// pass runs a lifecycle pass.
func (r *script) pass(step) error {
	objects, markers := r.s.expire()
	var got lifecycle.Report
	a, err := r.m.admin.do("POST", "-", "admin/lifecycle", "wait=true", nil)
	if err := expect(a, err, ok); err != nil {
		return err
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if got.Expired != int64(objects) || got.Markers != int64(markers) || got.Deleted() != got.Expired+got.Markers || got.Changed+got.Held != 0 {
		return fmt.Errorf("%+v instead of %d expired, %d delete markers", got, objects, markers)
	}
	return nil
}

// reclaim runs a full round of reclaim.
func (r *script) reclaim(step) error {
	a, err := r.m.admin.do("POST", "-", "admin/reclaim", "wait=true", nil)
	return expect(a, err, ok)
}

func (r *script) remove(s step) error {
	c, h := r.condition(s)
	a, err := r.m.do("DELETE", s.b, s.key, "", nil, h...)
	if c.noneMatch && r.s.buckets[s.b] != nil {
		return expect(a, err, notImplemented)
	}
	want := r.s.remove(s.b, s.key, c)
	if err := expect(a, err, want); err != nil {
		return err
	}
	return r.told(s, a, want)
}

// removeAll is DeleteObjects.
func (r *script) removeAll(s step) error {
	type entry struct {
		Key  string
		ETag string `xml:",omitempty"`
	}
	request := struct {
		XMLName xml.Name `xml:"Delete"`
		Object  []entry
	}{}
	_, there := r.s.buckets[s.b]
	var deleted []string
	failed := map[string]string{}
	for _, key := range strings.Split(s.arg, ",") {
		s.key = key
		c, _ := r.condition(s)
		if s.cond == "none" || s.cond == "any" {
			c = condition{}
		}
		request.Object = append(request.Object, entry{key, c.match})
		if !there {
			continue
		}
		if v := r.s.remove(s.b, key, c); v == noContent {
			deleted = append(deleted, key)
		} else {
			failed[key] = v.code
		}
	}
	body, err := xml.Marshal(request)
	if err != nil {
		return err
	}
	a, err := r.m.do("POST", s.b, "", "delete=", body, "Content-Md5", contentMD5(body))
	if !there {
		return expect(a, err, noBucket)
	}
	if err := expect(a, err, ok); err != nil {
		return err
	}
	var got struct {
		Deleted []struct{ Key string }
		Error   []struct{ Key, Code string }
	}
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	var gotDeleted []string
	for _, d := range got.Deleted {
		gotDeleted = append(gotDeleted, d.Key)
	}
	gotFailed := map[string]string{}
	for _, e := range got.Error {
		gotFailed[e.Key] = e.Code
	}
	if !slices.Equal(gotDeleted, deleted) || !maps.Equal(gotFailed, failed) {
		return fmt.Errorf("deleted %q, failed %v instead of %q, %v", gotDeleted, gotFailed, deleted, failed)
	}
	return nil
}

func (r *script) copy(s step) error {
	c, h := r.condition(s)
	fromBucket, fromKey, _ := strings.Cut(s.from, "/")
	h = append(h, "X-Amz-Copy-Source", sigv4.Escape(s.from))
	var meta *string
	if s.arg == "replace" {
		v := fmt.Sprint("replaced ", r.made)
		r.made++
		meta = &v
		h = append(h, "X-Amz-Metadata-Directive", "REPLACE", "X-Amz-Meta-V", v)
	}
	a, err := r.m.do("PUT", s.b, s.key, "", nil, h...)
	want := r.s.copy(fromBucket, fromKey, s.b, s.key, c, meta)
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	var got struct{ ETag string }
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if o, _ := r.s.object(s.b, s.key); strings.Trim(got.ETag, `"`) != o.etag {
		return fmt.Errorf("ETag %s instead of %s", got.ETag, o.etag)
	}
	return r.told(s, a, want)
}

// move is RenameObject, or a move between buckets.
func (r *script) move(s step) error {
	c, h := r.condition(s)
	fromBucket, fromKey, _ := strings.Cut(s.from, "/")
	query, source := "", "X-Amz-Move-Source"
	if s.arg == "rename" {
		fromBucket, query, source = s.b, "renameObject=", "X-Amz-Rename-Source"
	}
	h = append(h, source, sigv4.Escape("/"+fromBucket+"/"+fromKey))
	a, err := r.m.do("PUT", s.b, s.key, query, nil, h...)
	want := r.s.move(fromBucket, fromKey, s.b, s.key, c)
	if err := expect(a, err, want); err != nil {
		return err
	}
	return r.told(s, a, want)
}

// append is PutObject with an offset.
func (r *script) append(s step) error {
	c, h := r.condition(s)
	body, offset := r.content(s.size), s.n
	if o, v := r.s.object(s.b, s.key); v == ok {
		offset += len(o.body)
	}
	a, err := r.m.do("PUT", s.b, s.key, "", body, append(h, "X-Amz-Write-Offset-Bytes", strconv.Itoa(offset))...)
	want := r.s.append(s.b, s.key, c, offset, body)
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	if o, _ := r.s.object(s.b, s.key); a.etag() != o.etag || a.header.Get("X-Amz-Object-Size") != strconv.Itoa(len(o.body)) {
		return fmt.Errorf("ETag %s, size %s instead of %s, %d", a.etag(), a.header.Get("X-Amz-Object-Size"), o.etag, len(o.body))
	}
	return r.told(s, a, want)
}

func (r *script) createBucket(s step) error {
	a, err := r.m.do("PUT", s.b, "", "", nil)
	return expect(a, err, r.s.createBucket(s.b))
}

func (r *script) dropBucket(s step) error {
	a, err := r.m.do("DELETE", s.b, "", "", nil)
	return expect(a, err, r.s.deleteBucket(s.b))
}

func (r *script) createUpload(s step) error {
	meta := fmt.Sprint("upload ", r.made)
	r.made++
	a, err := r.m.do("POST", s.b, s.key, "uploads=", nil, "X-Amz-Meta-V", meta, "X-Amz-Tagging", "n="+sigv4.Escape(meta))
	want := r.s.createUpload(s.b, s.key, meta, meta)
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	var got struct{ UploadId string }
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if got.UploadId == "" || slices.ContainsFunc(r.s.uploads, func(u *upload) bool { return u.id == got.UploadId }) {
		return fmt.Errorf("upload ID %q: expected a new one", got.UploadId)
	}
	r.s.uploads[len(r.s.uploads)-1].id = got.UploadId
	return nil
}

// upload returns the upload that a step names by its number, counted from the newest; or nil if there is none.
func (r *script) upload(s step) *upload {
	n, _ := strconv.Atoi(s.arg)
	if n >= len(r.s.uploads) {
		return nil
	}
	return r.s.uploads[len(r.s.uploads)-1-n]
}

func (r *script) putPart(s step) error {
	u := r.upload(s)
	if u == nil {
		return nil
	}
	body := r.content(s.size)
	a, err := r.m.do("PUT", u.bucket, u.key, query("partNumber", fmt.Sprint(s.n), "uploadId", u.id), body)
	want := r.s.putPart(u, s.n, body)
	if err := expect(a, err, want); err != nil {
		return err
	}
	if want == ok && a.etag() != hexMD5(body) {
		return fmt.Errorf("ETag %s instead of %s", a.etag(), hexMD5(body))
	}
	return nil
}

// copyPart is UploadPartCopy.
func (r *script) copyPart(s step) error {
	u := r.upload(s)
	if u == nil {
		return nil
	}
	h := []string{"X-Amz-Copy-Source", sigv4.Escape(s.from)}
	fromBucket, fromKey, _ := strings.Cut(s.from, "/")
	want := r.s.live(u)
	from, v := r.s.object(fromBucket, fromKey)
	var body []byte
	if want == ok {
		want = v
	}
	if want == ok {
		body = from.body
	}
	if s.cond != "" && want == ok {
		first, last := len(body)/3, len(body)-2
		if last < first {
			return nil // too small for a range
		}
		body = body[first : last+1]
		h = append(h, "X-Amz-Copy-Source-Range", fmt.Sprintf("bytes=%d-%d", first, last))
	}
	a, err := r.m.do("PUT", u.bucket, u.key, query("partNumber", fmt.Sprint(s.n), "uploadId", u.id), nil, h...)
	if want == ok {
		want = r.s.putPart(u, s.n, body)
	}
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	var got struct{ ETag string }
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if strings.Trim(got.ETag, `"`) != hexMD5(body) {
		return fmt.Errorf("ETag %s instead of %s", got.ETag, hexMD5(body))
	}
	return nil
}

// claims returns the parts that a Complete names: all parts (""), "last", "first", "wrong" (the ETag of other content),
// or "missing" (a number that was never sent).
func claims(u *upload, which string) []claim {
	var list []claim
	for _, n := range slices.Sorted(maps.Keys(u.parts)) {
		list = append(list, claim{n, u.parts[n].etag})
	}
	if len(list) == 0 {
		return list
	}
	switch which {
	case "last":
		return list[len(list)-1:]
	case "first":
		return list[:1]
	case "wrong":
		list[0].etag = hexMD5([]byte("wrong"))
	case "missing":
		list = append(list, claim{9999, hexMD5(nil)})
	}
	return list
}

func (r *script) complete(s step) error {
	u := r.upload(s)
	if u == nil {
		return nil
	}
	s.b, s.key = u.bucket, u.key
	c, h := r.condition(s)
	list := claims(u, s.from)
	var body strings.Builder
	body.WriteString("<CompleteMultipartUpload>")
	for _, p := range list {
		fmt.Fprintf(&body, `<Part><PartNumber>%d</PartNumber><ETag>"%s"</ETag></Part>`, p.number, p.etag)
	}
	body.WriteString("</CompleteMultipartUpload>")
	a, err := r.m.do("POST", u.bucket, u.key, query("uploadId", u.id), []byte(body.String()), h...)
	o, want := r.s.complete(u, c, list)
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	var got struct{ ETag string }
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if strings.Trim(got.ETag, `"`) != o.etag {
		return fmt.Errorf("ETag %s instead of %s", got.ETag, o.etag)
	}
	return r.told(s, a, want)
}

func (r *script) abort(s step) error {
	u := r.upload(s)
	if u == nil {
		return nil
	}
	a, err := r.m.do("DELETE", u.bucket, u.key, query("uploadId", u.id), nil)
	return expect(a, err, r.s.abort(u))
}

var errDiffers = errors.New("differs from the model")

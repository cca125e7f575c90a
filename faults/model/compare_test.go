package model

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// get is GET or HEAD, with a range (first-last, first-, -suffix), a part number or a condition.
func (r *script) get(s step) error {
	o, want := r.s.object(s.b, s.key)
	_, h := r.condition(s)
	h = append(h, "X-Amz-Checksum-Mode", "ENABLED")
	q := ""
	var body []byte
	if want == ok {
		body = o.body
		switch {
		case s.cond == "none":
			want = verdict{304, ""}
		case s.cond == "other":
			want = failedCondition
		case s.n > 0:
			body, want = o.part(s.n)
		case s.arg != "":
			body, want = cut(o.body, s.arg)
		}
	}
	switch {
	case s.n > 0:
		q = query("partNumber", fmt.Sprint(s.n))
	case s.arg != "":
		h = append(h, "Range", "bytes="+s.arg)
	}
	method := strings.ToUpper(s.op)
	a, err := r.m.do(method, s.b, s.key, q, nil, h...)
	if err := expect(a, err, want); err != nil || want.status >= 300 {
		return err
	}
	return o.equal(a, method, body)
}

// part returns the content and the verdict of a GET with a part number.
func (o *object) part(n int) ([]byte, verdict) {
	sizes := o.parts
	if len(sizes) == 0 {
		sizes = []int{len(o.body)}
	}
	if n > len(sizes) {
		return nil, verdict{416, "InvalidPartNumber"}
	}
	from := 0
	for _, size := range sizes[:n-1] {
		from += size
	}
	if sizes[n-1] == 0 {
		return nil, ok
	}
	return o.body[from : from+sizes[n-1]], verdict{206, ""}
}

// cut returns the content and the verdict of a GET with a range.
func cut(body []byte, spec string) ([]byte, verdict) {
	outside := verdict{416, "InvalidRange"}
	from, to, _ := strings.Cut(spec, "-")
	first, last := 0, len(body)-1
	if from == "" {
		n := 0
		_, _ = fmt.Sscan(to, &n) // the generator writes valid numbers
		if n == 0 || len(body) == 0 {
			return nil, outside
		}
		first = max(0, len(body)-n)
	} else {
		_, _ = fmt.Sscan(from, &first)
		if to != "" {
			_, _ = fmt.Sscan(to, &last)
			last = min(last, len(body)-1)
		}
		if first >= len(body) {
			return nil, outside
		}
	}
	return body[first : last+1], verdict{206, ""}
}

// equal compares a response with the object, or with a range of it, with the model. Values that only the server knows
// must not change as long as the object exists.
func (o *object) equal(a *response, method string, body []byte) error {
	h := a.header
	if method == "GET" && !bytes.Equal(a.body, body) {
		return fmt.Errorf("%w: the body: %d bytes instead of %d", errDiffers, len(a.body), len(body))
	}
	if length := h.Get("Content-Length"); length != fmt.Sprint(len(body)) {
		return fmt.Errorf("%w: Content-Length %s instead of %d", errDiffers, length, len(body))
	}
	if a.etag() != o.etag || h.Get("X-Amz-Meta-V") != o.meta {
		return fmt.Errorf("%w: ETag %s, metadata %q instead of %s, %q", errDiffers, a.etag(), h.Get("X-Amz-Meta-V"), o.etag, o.meta)
	}
	if count := h.Get("X-Amz-Tagging-Count"); count != map[bool]string{true: "1"}[o.tag != ""] {
		return fmt.Errorf("%w: tag count %q, but the tag should be %q", errDiffers, count, o.tag)
	}
	if o.modified == "" {
		o.modified = h.Get("Last-Modified")
	}
	if h.Get("Last-Modified") != o.modified {
		return fmt.Errorf("%w: Last-Modified %s instead of %s", errDiffers, h.Get("Last-Modified"), o.modified)
	}
	if a.status == 200 && len(body) == len(o.body) {
		if o.crc == "" {
			o.crc = h.Get("X-Amz-Checksum-Crc64nvme")
		}
		if o.crc == "" || h.Get("X-Amz-Checksum-Crc64nvme") != o.crc {
			return fmt.Errorf("%w: checksum %s instead of %s", errDiffers, h.Get("X-Amz-Checksum-Crc64nvme"), o.crc)
		}
	}
	return nil
}

// listed is a page of a listing.
type listed struct {
	IsTruncated           bool
	NextMarker            string
	NextContinuationToken string
	KeyCount              int
	Contents              []struct {
		Key, ETag    string
		Size         int
		LastModified time.Time
	}
	CommonPrefixes []struct{ Prefix string }
}

// list compares all pages of a listing.
func (r *script) list(s step) error {
	b := r.s.buckets[s.b]
	if b == nil {
		a, err := r.m.do("GET", s.b, "", "list-type=2", nil)
		return expect(a, err, noBucket)
	}
	keys, prefixes := b.list(s.from, s.arg, s.key)
	marker, token := s.key, ""
	for page := 0; ; page++ {
		q := query("prefix", s.from, "delimiter", s.arg, "max-keys", number(s.n))
		if s.cond == "v1" {
			q += "&" + query("marker", marker)
		} else {
			q += "&" + query("list-type", "2", "start-after", s.key, "continuation-token", token)
		}
		a, err := r.m.do("GET", s.b, "", strings.Trim(q, "&"), nil)
		if err := expect(a, err, ok); err != nil {
			return err
		}
		var got listed
		if err := xml.Unmarshal(a.body, &got); err != nil {
			return err
		}
		if keys, prefixes, err = got.equal(b, keys, prefixes, s.n, s.cond == "v1"); err != nil {
			return fmt.Errorf("page %d: %w", page, err)
		}
		if !got.IsTruncated {
			break
		}
		token, marker = got.NextContinuationToken, got.NextMarker
		if s.cond == "v1" && marker == "" {
			marker = got.Contents[len(got.Contents)-1].Key
		}
	}
	if len(keys) > 0 || len(prefixes) > 0 {
		return fmt.Errorf("%w: the listing lacks %q, %q", errDiffers, keys, prefixes)
	}
	return nil
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// equal compares a page with the entries that are expected next, and returns the entries that must come after it.
func (l *listed) equal(b *bucket, keys, prefixes []string, limit int, v1 bool) (_, _ []string, err error) {
	entries := len(l.Contents) + len(l.CommonPrefixes)
	left := len(keys) + len(prefixes)
	if limit == 0 {
		limit = 1000
	}
	if entries < min(limit, left) && !l.IsTruncated {
		return nil, nil, fmt.Errorf("%w: the listing lacks %d of %d entries (KeyCount %d): %v", errDiffers, min(limit, left)-entries, left, l.KeyCount, *l)
	}
	if entries != min(limit, left) || l.IsTruncated != (left > limit) || !v1 && l.KeyCount != entries {
		return nil, nil, fmt.Errorf("%w: %d entries (KeyCount %d), truncated %v, with %d entries left and at most %d requested: %v", errDiffers, entries, l.KeyCount, l.IsTruncated, left, limit, *l)
	}
	for _, p := range l.CommonPrefixes {
		if len(prefixes) == 0 || prefixes[0] != p.Prefix {
			return nil, nil, fmt.Errorf("%w: common prefix %q instead of %q", errDiffers, p.Prefix, prefixes)
		}
		prefixes = prefixes[1:]
	}
	for _, c := range l.Contents {
		if len(keys) == 0 || keys[0] != c.Key {
			return nil, nil, fmt.Errorf("%w: key %q instead of %q", errDiffers, c.Key, keys)
		}
		keys = keys[1:]
		o := b.objects[c.Key]
		if strings.Trim(c.ETag, `"`) != o.etag || c.Size != len(o.body) {
			return nil, nil, fmt.Errorf("%w: %q is listed with ETag %s, size %d", errDiffers, c.Key, c.ETag, c.Size)
		}
		if m := c.LastModified.UTC().Format(http.TimeFormat); o.modified != "" && m != o.modified {
			return nil, nil, fmt.Errorf("%w: %q is listed as of %s instead of %s", errDiffers, c.Key, m, o.modified)
		}
	}
	return keys, prefixes, nil
}

// compare compares all data of the server with the model.
func (r *script) compare() error {
	a, err := r.m.do("GET", "", "", "", nil)
	if err := expect(a, err, ok); err != nil {
		return err
	}
	var got struct {
		Buckets struct{ Bucket []struct{ Name string } }
	}
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	var names []string
	for _, b := range got.Buckets.Bucket {
		names = append(names, b.Name)
	}
	if want := slices.Sorted(maps.Keys(r.s.buckets)); !slices.Equal(names, want) {
		return fmt.Errorf("%w: buckets %q instead of %q", errDiffers, names, want)
	}
	for _, name := range names {
		if err := r.compareBucket(name); err != nil {
			return fmt.Errorf("bucket %s: %w", name, err)
		}
	}
	for _, u := range r.s.uploads {
		if err := r.compareUpload(u); err != nil {
			return fmt.Errorf("upload %s of %s: %w", u.id, u.key, err)
		}
	}
	return nil
}

func (r *script) compareBucket(name string) error {
	if err := r.list(step{b: name}); err != nil {
		return err
	}
	for key, o := range r.s.buckets[name].objects {
		method := "GET"
		if len(o.body) > 1<<20 && o.crc != "" {
			method = "HEAD" // compared before; reads of large content after each restart would be most of the work
		}
		a, err := r.m.do(method, name, key, "", nil, "X-Amz-Checksum-Mode", "ENABLED")
		if err = expect(a, err, ok); err == nil {
			err = o.equal(a, method, o.body)
		}
		if err == nil && o.tag != "" {
			err = r.compareTag(name, key, o.tag)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	if err := r.compareVersions(name); err != nil {
		return err
	}
	if err := r.compareRule(name); err != nil {
		return err
	}
	if err := r.compareTally(name); err != nil {
		return err
	}
	if err := r.compareQuota(name); err != nil {
		return err
	}
	a, err := r.m.do("GET", name, "", "uploads=", nil)
	if err := expect(a, err, ok); err != nil {
		return err
	}
	var got struct {
		Upload []struct{ Key, UploadId string }
	}
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	var ids, want []string
	for _, u := range got.Upload {
		ids = append(ids, u.Key+" "+u.UploadId)
	}
	for _, u := range r.s.uploads {
		if u.bucket == name && !u.ended {
			want = append(want, u.key+" "+u.id)
		}
	}
	slices.Sort(ids)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		return fmt.Errorf("%w: uploads %q instead of %q", errDiffers, ids, want)
	}
	return nil
}

// compareRule compares the lifecycle of a bucket with the model's.
func (r *script) compareRule(name string) error {
	a, err := r.m.do("GET", name, "", "lifecycle=", nil)
	rule := r.s.buckets[name].rule
	if rule == nil {
		return expect(a, err, verdict{404, "NoSuchLifecycleConfiguration"})
	}
	if err := expect(a, err, ok); err != nil {
		return err
	}
	if !bytes.Contains(a.body, []byte("<Prefix>"+rule.prefix+"</Prefix>")) || bytes.Contains(a.body, []byte("ObjectSize")) != rule.large {
		return fmt.Errorf("%w: lifecycle %s instead of %+v", errDiffers, a.body, *rule)
	}
	return nil
}

func (r *script) compareTag(name, key, tag string) error {
	a, err := r.m.do("GET", name, key, "tagging=", nil)
	if err := expect(a, err, ok); err != nil {
		return err
	}
	if want := "<TagSet><Tag><Key>n</Key><Value>" + tag + "</Value></Tag></TagSet>"; !bytes.Contains(a.body, []byte(want)) {
		return fmt.Errorf("%w: tags %s instead of %q", errDiffers, a.body, tag)
	}
	return nil
}

func (r *script) compareUpload(u *upload) error {
	a, err := r.m.do("GET", u.bucket, u.key, query("uploadId", u.id), nil)
	want := r.s.live(u)
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	var got struct {
		Part []struct {
			PartNumber, Size int
			ETag             string
		}
	}
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if len(got.Part) != len(u.parts) {
		return fmt.Errorf("%w: %d parts instead of %d", errDiffers, len(got.Part), len(u.parts))
	}
	for _, p := range got.Part {
		if want := u.parts[p.PartNumber]; strings.Trim(p.ETag, `"`) != want.etag || p.Size != len(want.body) {
			return fmt.Errorf("%w: part %d is %s, %d bytes", errDiffers, p.PartNumber, p.ETag, p.Size)
		}
	}
	return nil
}

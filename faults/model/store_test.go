package model

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// store is the model of a server: maps, and the rules of S3 for each operation in a few lines. An operation returns a
// verdict, and has its effect if that is 200 or 204.
type store struct {
	buckets map[string]*bucket
	uploads []*upload // all uploads so far, oldest first, including those that have ended
}

type bucket struct {
	objects    map[string]*object    // the current versions, except delete markers
	versions   map[string][]*version // all versions of each key, newest first
	versioning string                // Enabled, Suspended or ""
	rule       *expiry               // nil without a lifecycle
	quota      amount
}

// expiry is a lifecycle rule: it selects the objects of a bucket that expired long ago.
type expiry struct {
	prefix string
	large  bool // only objects larger than largeExpired
}

const largeExpired = 4096

type object struct {
	body     []byte
	etag     string
	meta     string // x-amz-meta-v
	tag      string // the value of its only tag, or ""
	parts    []int  // sizes of the parts of a multipart object
	from     *upload
	modified string // as the server first returned it
	crc      string // as the server first returned it
}

type upload struct {
	id          string
	bucket, key string
	meta, tag   string
	parts       map[int]part
	ended       bool
	older       []*version // the versions of its key when it was created
}

type part struct {
	body []byte
	etag string
}

// verdict is a status and, for errors, a code.
type verdict struct {
	status int
	code   string
}

var (
	ok              = verdict{200, ""}
	noContent       = verdict{204, ""}
	noBucket        = verdict{404, "NoSuchBucket"}
	noKey           = verdict{404, "NoSuchKey"}
	ofMarker        = verdict{405, "MethodNotAllowed"}
	noUpload        = verdict{404, "NoSuchUpload"}
	failedCondition = verdict{412, "PreconditionFailed"}
	writtenSince    = verdict{409, "ConditionalRequestConflict"}
	notEmpty        = verdict{409, "BucketNotEmpty"}
	invalidPart     = verdict{400, "InvalidPart"}
	tooSmall        = verdict{400, "EntityTooSmall"}
	malformed       = verdict{400, "MalformedXML"}
	notImplemented  = verdict{501, "NotImplemented"}
	toItself        = verdict{400, "InvalidRequest"}
	emptyBody       = verdict{400, "InvalidRequest"}
	wrongOffset     = verdict{400, "InvalidWriteOffset"}
)

// minPart is the minimum size of a part other than the last.
const minPart = 5 << 20

func newStore() *store { return &store{buckets: map[string]*bucket{}} }

// condition is the precondition of a write.
type condition struct {
	match     string // an ETag, or *
	noneMatch bool   // If-None-Match: *
}

func (c condition) holds(o *object) verdict {
	switch {
	case c.match != "" && o == nil:
		return noKey
	case c.match != "" && c.match != "*" && c.match != o.etag, c.noneMatch && o != nil:
		return failedCondition
	}
	return ok
}

func (s *store) createBucket(name string) verdict {
	if s.buckets[name] == nil {
		s.buckets[name] = &bucket{objects: map[string]*object{}, versions: map[string][]*version{}}
	}
	return ok // in us-east-1, the owner may create an existing bucket again
}

// expire deletes expired objects, and delete markers without other versions, and returns how many it deleted.
func (s *store) expire() (objects, markers int) {
	for _, b := range s.buckets {
		for _, key := range slices.Collect(maps.Keys(b.versions)) { // a copy, because write changes the map
			list := b.versions[key]
			r, o := b.rule, list[0].o
			switch {
			case r == nil || !strings.HasPrefix(key, r.prefix):
			case o != nil && (!r.large || len(o.body) > largeExpired):
				b.write(key, nil)
				objects++
			case o == nil && len(list) == 1 && !r.large: // a delete marker is not large
				b.versions[key] = nil
				b.settle(key)
				markers++
			}
		}
	}
	return objects, markers
}

func (s *store) deleteBucket(name string) verdict {
	b := s.buckets[name]
	switch {
	case b == nil:
		return noBucket
	case len(b.versions) > 0:
		return notEmpty
	}
	delete(s.buckets, name)
	for _, u := range s.uploads { // uploads end with their bucket
		u.ended = u.ended || u.bucket == name
	}
	return noContent
}

// object returns an object, or nil and the reason.
func (s *store) object(name, key string) (*object, verdict) {
	b := s.buckets[name]
	if b == nil {
		return nil, noBucket
	}
	if o := b.objects[key]; o != nil {
		return o, ok
	}
	return nil, noKey
}

func (s *store) put(name, key string, c condition, body []byte, meta, tag string) verdict {
	return s.write(name, key, c, &object{body: body, etag: hexMD5(body), meta: meta, tag: tag})
}

// tag replaces the tags of an object with one tag, or removes them if tag is "".
func (s *store) tag(name, key, tag string) verdict {
	o, v := s.object(name, key)
	switch {
	case v == noKey && len(s.buckets[name].versions[key]) > 0:
		return ofMarker
	case v != ok:
		return v
	}
	if o.tag = tag; tag == "" {
		return noContent
	}
	return ok
}

func (s *store) write(name, key string, c condition, o *object) verdict {
	b := s.buckets[name]
	if b == nil {
		return noBucket
	}
	v := c.holds(b.objects[key])
	if v != ok {
		return v
	}
	return s.bounded(name, func() verdict {
		b.write(key, o)
		return ok
	})
}

func (s *store) remove(name, key string, c condition) verdict {
	b := s.buckets[name]
	if b == nil {
		return noBucket
	}
	if v := c.holds(b.objects[key]); v != ok {
		return v
	}
	b.write(key, nil)
	return noContent
}

// copy copies an object. The copy has no parts, and the ETag of its content. meta, if not nil, replaces the metadata of
// the source.
func (s *store) copy(fromBucket, fromKey, name, key string, c condition, meta *string) verdict {
	b := s.buckets[name]
	if b == nil {
		return noBucket
	}
	if v := c.holds(b.objects[key]); v != ok {
		return v
	}
	from, v := s.object(fromBucket, fromKey)
	if v != ok {
		return v
	}
	if fromBucket == name && fromKey == key && meta == nil {
		return toItself
	}
	o := *from
	o.modified, o.crc, o.etag, o.parts = "", "", hexMD5(o.body), nil
	if meta != nil {
		o.meta = *meta
	}
	return s.write(name, key, c, &o)
}

// move renames an object, possibly to another bucket. Its metadata does not change.
func (s *store) move(fromBucket, fromKey, name, key string, c condition) verdict {
	b := s.buckets[name]
	if b == nil || s.buckets[fromBucket] == nil {
		return noBucket
	}
	if fromBucket == name && fromKey == key {
		return toItself
	}
	from, v := s.object(fromBucket, fromKey)
	if v != ok {
		return v
	}
	if c.holds(b.objects[key]) != ok { // 404 would refer to the source
		return failedCondition
	}
	o := *from // a copy, because a version of the source may remain
	return s.bounded(name, func() verdict {
		b.write(key, &o)
		s.buckets[fromBucket].write(fromKey, nil)
		return ok
	})
}

// append appends content to an object, or creates it.
func (s *store) append(name, key string, c condition, offset int, body []byte) verdict {
	b := s.buckets[name]
	if b == nil {
		return noBucket
	}
	o := b.objects[key]
	if v := c.holds(o); v != ok {
		return v
	}
	switch {
	case o == nil && offset != 0, o != nil && offset != len(o.body):
		return wrongOffset
	case len(body) == 0:
		return emptyBody
	case o == nil:
		return s.put(name, key, c, body, "", "")
	}
	before, n := o.etag, 1
	if etag, count, several := strings.Cut(o.etag, "-"); several {
		before = etag
		n, _ = strconv.Atoi(count) // written by the model
	}
	raw, _ := hex.DecodeString(before + hexMD5(body)) // both are from hexMD5
	return s.write(name, key, condition{}, &object{
		body: append(slices.Clip(o.body), body...), etag: fmt.Sprintf("%s-%d", hexMD5(raw), n+1), meta: o.meta, tag: o.tag, from: o.from,
	})
}

func (s *store) createUpload(name, key, meta, tag string) verdict {
	if s.buckets[name] == nil {
		return noBucket
	}
	older := slices.Clone(s.buckets[name].versions[key])
	s.uploads = append(s.uploads, &upload{bucket: name, key: key, meta: meta, tag: tag, parts: map[int]part{}, older: older})
	return ok
}

// live returns ok if an upload is in progress, otherwise the verdict of requests for it.
func (s *store) live(u *upload) verdict {
	switch {
	case s.buckets[u.bucket] == nil:
		return noBucket
	case u.ended:
		return noUpload
	}
	return ok
}

func (s *store) putPart(u *upload, number int, body []byte) verdict {
	v := s.live(u)
	if v != ok {
		return v
	}
	return s.bounded(u.bucket, func() verdict {
		u.parts[number] = part{body, hexMD5(body)}
		return ok
	})
}

func (s *store) abort(u *upload) verdict {
	if v := s.live(u); v != ok {
		return v
	}
	u.ended = true
	return noContent
}

// claim is a part as a Complete names it.
type claim struct {
	number int
	etag   string
}

func (s *store) complete(u *upload, c condition, claims []claim) (*object, verdict) {
	b := s.buckets[u.bucket]
	if b == nil {
		return nil, noBucket
	}
	if len(claims) == 0 {
		return nil, malformed
	}
	if u.ended {
		// A client that did not receive the response gets it again.
		if o := b.objects[u.key]; o != nil && o.from == u && o.etag == etagOf(claims) {
			return o, ok
		}
		return nil, noUpload
	}
	if v := c.holds(b.objects[u.key]); v != ok {
		return nil, v
	}
	if c.match != "" && !slices.Contains(u.older, b.versions[u.key][0]) {
		return nil, writtenSince
	}
	o := &object{meta: u.meta, tag: u.tag, from: u, etag: etagOf(claims)}
	small := false
	for i, c := range claims {
		p, there := u.parts[c.number]
		if !there || p.etag != c.etag {
			return nil, invalidPart
		}
		small = small || i < len(claims)-1 && len(p.body) < minPart
		o.body = append(o.body, p.body...)
		o.parts = append(o.parts, len(p.body))
	}
	if small {
		return nil, tooSmall
	}
	v := c.holds(b.objects[u.key])
	if v != ok {
		return o, v
	}
	return o, s.bounded(u.bucket, func() verdict {
		b.write(u.key, o)
		u.ended = true
		return ok
	})
}

// etagOf returns the ETag of an object with these parts.
func etagOf(claims []claim) string {
	h := md5.New()
	for _, c := range claims {
		raw, _ := hex.DecodeString(c.etag) // from hexMD5
		h.Write(raw)
	}
	return fmt.Sprintf("%x-%d", h.Sum(nil), len(claims))
}

// list returns the keys and the common prefixes of a listing that begins after a key, each in order. If that key is a
// common prefix or starts with one, the listing begins after everything with that prefix.
func (b *bucket) list(prefix, delimiter, after string) (keys, prefixes []string) {
	for _, k := range slices.Sorted(maps.Keys(b.objects)) {
		if !strings.HasPrefix(k, prefix) || k <= after {
			continue
		}
		i := -1
		if delimiter != "" {
			i = strings.Index(k[len(prefix):], delimiter)
		}
		if i < 0 {
			keys = append(keys, k)
			continue
		}
		rolled := k[:len(prefix)+i+len(delimiter)]
		if !strings.HasPrefix(after, rolled) && !slices.Contains(prefixes, rolled) {
			prefixes = append(prefixes, rolled)
		}
	}
	return keys, prefixes
}

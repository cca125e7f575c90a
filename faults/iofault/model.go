package iofault

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"orcas/faults"
)

// bucket is the bucket of all objects.
const bucket = "iofault"

// model is the possible content of the server, derived from its responses.
type model struct {
	bucket  bool                       // the bucket exists; if false, it may exist, but is empty
	objects map[string][]*faults.Value // the possible values of each key; nil if the object may be missing
	uploads map[string]*upload
	hidden  int // uploads that may exist, but whose ID is unknown
}

// upload is a multipart upload.
type upload struct {
	key              string
	mayBeOpen, isEnd bool // it may be in progress; it may have ended
	parts            map[int][]*faults.Value
}

func newModel() *model {
	return &model{objects: map[string][]*faults.Value{}, uploads: map[string]*upload{}}
}

// clone returns a copy that shares only the values.
func (m *model) clone() *model {
	c := newModel()
	c.bucket, c.hidden = m.bucket, m.hidden
	for k, v := range m.objects {
		c.objects[k] = slices.Clone(v)
	}
	for id, u := range m.uploads {
		n := &upload{key: u.key, mayBeOpen: u.mayBeOpen, isEnd: u.isEnd, parts: map[int][]*faults.Value{}}
		for i, v := range u.parts {
			n.parts[i] = slices.Clone(v)
		}
		c.uploads[id] = n
	}
	return c
}

// may records another possible value of a key.
func (m *model) may(key string, v *faults.Value) {
	if m.objects[key] == nil {
		m.objects[key] = []*faults.Value{nil}
	}
	m.objects[key] = append(m.objects[key], v)
}

// is records that a key has a value.
func (m *model) is(key string, v *faults.Value) { m.objects[key] = []*faults.Value{v} }

// has returns the value of a key, or nil if it has none or the value is uncertain.
func (m *model) has(key string) *faults.Value {
	if v := m.objects[key]; len(v) == 1 {
		return v[0]
	}
	return nil
}

// checker compares a server with a model.
type checker struct {
	c       *client
	m       *model
	reads   bool // reads must work; otherwise they may fail with a proper error
	settle  bool // the values that are found become certain
	found   map[string]*faults.Value
	unknown bool // some object could not be read
	wrong   []string
}

func (k *checker) bad(format string, args ...any) {
	k.wrong = append(k.wrong, fmt.Sprintf(format, args...))
}

// failed records a failure that is not allowed, and reports whether there was any failure.
func (k *checker) failed(what string, a *response) bool {
	text, bad := a.failure()
	if text != "" && (bad || k.reads) {
		k.bad("%s: %s%s", what, text, a.detail())
	}
	return text != ""
}

// check reads everything and returns the differences from the model.
func (k *checker) check() []string {
	k.found = map[string]*faults.Value{}
	for _, key := range slices.Sorted(maps.Keys(k.m.objects)) {
		k.object(key)
	}
	k.listing()
	k.openUploads()
	return k.wrong
}

func (k *checker) object(key string) {
	a := k.c.do(http.MethodGet, key, "", nil, nil)
	allowed := k.m.objects[key]
	if text, _ := a.failure(); text == "404 NoSuchKey" {
		if !slices.Contains(allowed, nil) {
			k.bad("lost: GET %s: %s; expected one of %v", key, text, allowed)
		} else if k.settle {
			k.m.is(key, nil)
		}
		return
	}
	if k.failed("GET "+key, a) {
		k.unknown = true
		return
	}
	for _, v := range allowed {
		if v == nil || v.Size != int64(len(a.body)) || v.ETag != etagOf(a.header.Get("ETag")) || !bytes.Equal(v.Bytes(), a.body) {
			continue
		}
		k.found[key] = v
		if k.settle {
			k.m.is(key, v)
		}
		return
	}
	k.bad("wrong: GET %s: %d bytes, ETag %s; expected one of %v", key, len(a.body), a.header.Get("ETag"), allowed)
}

// listing compares the listing with the objects that were just read.
func (k *checker) listing() {
	list, a := k.c.list()
	if k.failed("list", a) || k.unknown {
		return
	}
	if !slices.IsSortedFunc(list, func(a, b listed) int { return bytes.Compare([]byte(a.Key), []byte(b.Key)) }) {
		k.bad("the listing is not in order: %v", list)
	}
	got := map[string]string{}
	for _, o := range list {
		got[o.Key] = fmt.Sprint(o.Size, " ", etagOf(o.ETag))
	}
	want := map[string]string{}
	for key, v := range k.found {
		want[key] = fmt.Sprint(v.Size, " ", v.ETag)
	}
	if !maps.Equal(got, want) {
		k.bad("the listing has %v, but reads found %v", got, want)
	}
}

func (k *checker) openUploads() {
	open, a := k.c.uploads()
	if k.failed("list uploads", a) {
		return
	}
	for id, u := range k.m.uploads {
		switch {
		case open[id] && !u.mayBeOpen:
			k.bad("upload %s of %s came back", id, u.key)
		case !open[id] && !u.isEnd:
			k.bad("lost: upload %s of %s", id, u.key)
		case open[id]:
			k.parts(id, u)
		}
		if k.settle {
			u.mayBeOpen, u.isEnd = open[id], !open[id]
		}
		delete(open, id)
	}
	if len(open) > k.m.hidden {
		k.bad("%d unexpected uploads: %v", len(open)-k.m.hidden, open)
	}
}

func (k *checker) parts(id string, u *upload) {
	got, a := k.c.parts(u.key, id)
	if k.failed("list parts of "+u.key, a) {
		return
	}
	for n, allowed := range u.parts {
		tag, there := got[n]
		i := slices.IndexFunc(allowed, func(v *faults.Value) bool { return v == nil && !there || v != nil && there && v.ETag == tag })
		if i < 0 {
			k.bad("part %d of %s: ETag %q; expected one of %v", n, u.key, tag, allowed)
		} else if k.settle {
			u.parts[n] = []*faults.Value{allowed[i]}
		}
		delete(got, n)
	}
	if len(got) > 0 {
		k.bad("unexpected parts of %s: %v", u.key, got)
	}
}

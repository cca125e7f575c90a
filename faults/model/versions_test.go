package model

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// version is a version of a key. The server chooses its ID, which the model learns from the first response or listing
// that contains it.
type version struct {
	id string  // "null", or chosen by the server; "" if it is not known yet
	o  *object // nil for a delete marker
}

// write writes a version of a key, or a delete marker if o is nil. With versioning enabled, it adds a version;
// otherwise, it writes the null version.
func (b *bucket) write(key string, o *object) {
	v := &version{o: o}
	if b.versioning != "Enabled" {
		v.id = "null"
		b.drop(key, "null")
	}
	if o != nil || b.versioning != "" {
		b.versions[key] = append([]*version{v}, b.versions[key]...)
	}
	b.settle(key)
}

// drop removes a version, if it exists.
func (b *bucket) drop(key, id string) {
	b.versions[key] = slices.DeleteFunc(b.versions[key], func(v *version) bool { return v.id == id })
	b.settle(key)
}

// settle makes the newest version of a key the current one.
func (b *bucket) settle(key string) {
	delete(b.objects, key)
	list := b.versions[key]
	if len(list) == 0 {
		delete(b.versions, key)
	} else if list[0].o != nil {
		b.objects[key] = list[0].o
	}
}

// learn records the ID that the server returned for a version of a key.
func (b *bucket) learn(key string, v *version, id string) error {
	if v.id == "" && id != "" && id != "null" && !slices.ContainsFunc(b.versions[key], func(o *version) bool { return o.id == id }) {
		v.id = id
	}
	if id == "" || v.id != id {
		return fmt.Errorf("%w: %q has the version %q instead of %q", errDiffers, key, id, v.id)
	}
	return nil
}

// told records the version ID in the response to a write with the verdict v. For a null version, the response need not
// have an ID.
func (r *script) told(s step, a *response, v verdict) error {
	b := r.s.buckets[s.b]
	if v.status >= 300 || b.versioning == "" {
		return nil
	}
	id, list := a.header.Get("X-Amz-Version-Id"), b.versions[s.key]
	if id == "" && list[0].id == "null" {
		return nil
	}
	return b.learn(s.key, list[0], id)
}

func (r *script) setVersioning(s step) error {
	state := []string{"Enabled", "Suspended"}[s.n]
	a, err := r.m.do("PUT", s.b, "", "versioning=", []byte("<VersioningConfiguration><Status>"+state+"</Status></VersioningConfiguration>"))
	b := r.s.buckets[s.b]
	if b == nil {
		return expect(a, err, noBucket)
	}
	b.versioning = state
	return expect(a, err, ok)
}

// oldVersion reads or deletes a version by its ID.
func (r *script) oldVersion(s step) error {
	b := r.s.buckets[s.b]
	if b == nil || len(b.versions[s.key]) <= s.n {
		return nil
	}
	v := b.versions[s.key][s.n]
	if v.id == "" {
		if err := r.compareVersions(s.b); err != nil {
			return err
		}
	}
	if s.arg == "" {
		return r.compareVersion(s.b, s.key, v)
	}
	a, err := r.m.do("DELETE", s.b, s.key, query("versionId", v.id), nil)
	b.drop(s.key, v.id)
	return expect(a, err, noContent)
}

func (r *script) compareVersion(name, key string, v *version) error {
	method, want := "GET", ok
	switch {
	case v.o == nil:
		want = verdict{405, "MethodNotAllowed"}
	case len(v.o.body) > 1<<20 && v.o.crc != "":
		method = "HEAD" // as in compareBucket
	}
	a, err := r.m.do(method, name, key, query("versionId", v.id), nil, "X-Amz-Checksum-Mode", "ENABLED")
	if err := expect(a, err, want); err != nil || want != ok {
		return err
	}
	if id := a.header.Get("X-Amz-Version-Id"); id != v.id && r.s.buckets[name].versioning != "" {
		return fmt.Errorf("%w: version %q instead of %q", errDiffers, id, v.id)
	}
	return v.o.equal(a, method, v.o.body)
}

// listedVersions is a page of ListObjectVersions.
type listedVersions struct {
	IsTruncated                        bool
	NextKeyMarker, NextVersionIdMarker string
	Items                              []listedVersion `xml:",any"`
}

type listedVersion struct {
	XMLName              xml.Name
	Key, VersionId, ETag string
	IsLatest             bool
	Size                 int
	LastModified         time.Time
}

// compareVersions compares all versions of a bucket with the model, and reads those that are not current.
func (r *script) compareVersions(name string) error {
	b := r.s.buckets[name]
	var got []listedVersion
	for q := "versions=&max-keys=10"; q != ""; {
		a, err := r.m.do("GET", name, "", q, nil)
		if err := expect(a, err, ok); err != nil {
			return err
		}
		var page listedVersions
		if err := xml.Unmarshal(a.body, &page); err != nil {
			return err
		}
		for _, i := range page.Items {
			if i.XMLName.Local == "Version" || i.XMLName.Local == "DeleteMarker" {
				got = append(got, i)
			}
		}
		if q = ""; page.IsTruncated {
			q = "versions=&max-keys=10&" + query("key-marker", page.NextKeyMarker, "version-id-marker", page.NextVersionIdMarker)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b.versions)) {
		for n, v := range b.versions[key] {
			if len(got) == 0 {
				return fmt.Errorf("%w: the listing lacks version %q of %q", errDiffers, v.id, key)
			}
			if err := got[0].equal(b, key, v, n == 0); err != nil {
				return err
			}
			got = got[1:]
			if n == 0 {
				continue
			}
			if err := r.compareVersion(name, key, v); err != nil {
				return fmt.Errorf("version %q of %q: %w", v.id, key, err)
			}
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("%w: unexpected versions: %+v", errDiffers, got)
	}
	return nil
}

// equal compares a listed version with the one in the model.
func (l *listedVersion) equal(b *bucket, key string, v *version, latest bool) error {
	if l.Key != key || l.IsLatest != latest || (l.XMLName.Local == "DeleteMarker") != (v.o == nil) {
		return fmt.Errorf("%w: %+v instead of version %q of %q, delete marker %v, latest %v", errDiffers, *l, v.id, key, v.o == nil, latest)
	}
	if err := b.learn(key, v, l.VersionId); err != nil || v.o == nil {
		return err
	}
	if strings.Trim(l.ETag, `"`) != v.o.etag || l.Size != len(v.o.body) {
		return fmt.Errorf("%w: version %q of %q is listed with ETag %s, size %d", errDiffers, v.id, key, l.ETag, l.Size)
	}
	if m := l.LastModified.UTC().Format(http.TimeFormat); v.o.modified != "" && m != v.o.modified {
		return fmt.Errorf("%w: version %q of %q is listed as of %s instead of %s", errDiffers, v.id, key, m, v.o.modified)
	}
	return nil
}

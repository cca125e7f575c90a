package model

import (
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
)

// amount is a number of bytes and objects. In a quota, 0 means no limit.
type amount struct{ bytes, objects int }

var quotaExceeded = verdict{403, "QuotaExceeded"}

// held returns the amount that is stored in a bucket.
func (s *store) held(name string) (a amount) {
	for _, list := range s.buckets[name].versions {
		for _, v := range list {
			if v.o != nil {
				a.bytes += len(v.o.body)
				a.objects++
			}
		}
	}
	for _, u := range s.uploads {
		if u.bucket != name || u.ended {
			continue
		}
		for _, p := range u.parts {
			a.bytes += len(p.body)
		}
	}
	return a
}

// bounded performs a write to a bucket, and undoes it if the bucket has grown beyond its quota.
func (s *store) bounded(name string, write func() verdict) verdict {
	b := s.buckets[name]
	if b == nil || b.quota == (amount{}) {
		return write()
	}
	was, undo := s.held(name), s.remember()
	v := write()
	is := s.held(name)
	if b.quota.bytes > 0 && is.bytes > max(b.quota.bytes, was.bytes) || b.quota.objects > 0 && is.objects > max(b.quota.objects, was.objects) {
		undo()
		return quotaExceeded
	}
	return v
}

// remember returns a function that restores the current state.
func (s *store) remember() (undo func()) {
	var undos []func()
	for _, b := range s.buckets {
		objects, versions := maps.Clone(b.objects), maps.Clone(b.versions)
		for key, list := range versions {
			versions[key] = slices.Clone(list)
		}
		undos = append(undos, func() { b.objects, b.versions = objects, versions })
	}
	for _, u := range s.uploads {
		parts, ended := maps.Clone(u.parts), u.ended
		undos = append(undos, func() { u.parts, u.ended = parts, ended })
	}
	return func() {
		for _, undo := range undos {
			undo()
		}
	}
}

// setQuota sets or removes the quota of a bucket.
func (r *script) setQuota(s step) error {
	quota := amount{s.size, s.n}
	method, body, want := "PUT", "<QuotaConfiguration>", ok
	if quota.bytes > 0 {
		body += fmt.Sprintf("<MaxBytes>%d</MaxBytes>", quota.bytes)
	}
	if quota.objects > 0 {
		body += fmt.Sprintf("<MaxObjects>%d</MaxObjects>", quota.objects)
	}
	if body += "</QuotaConfiguration>"; quota == (amount{}) {
		method, body, want = "DELETE", "", noContent
	}
	a, err := r.m.do(method, s.b, "", "quota=", []byte(body))
	if b := r.s.buckets[s.b]; b == nil {
		want = noBucket
	} else {
		b.quota = quota
	}
	return expect(a, err, want)
}

// compareQuota compares the quota and the usage of a bucket with the model.
func (r *script) compareQuota(name string) error {
	a, err := r.m.do("GET", name, "", "quota=", nil)
	quota := r.s.buckets[name].quota
	if quota == (amount{}) {
		return expect(a, err, verdict{404, "NoSuchQuotaConfiguration"})
	}
	if err := expect(a, err, ok); err != nil {
		return err
	}
	var got struct {
		MaxBytes, MaxObjects int
		Usage                struct{ Bytes, Objects int }
	}
	if err := xml.Unmarshal(a.body, &got); err != nil {
		return err
	}
	if held := r.s.held(name); (amount{got.MaxBytes, got.MaxObjects}) != quota || (amount{got.Usage.Bytes, got.Usage.Objects}) != held {
		return fmt.Errorf("%w: quota %s instead of %+v, with the usage %+v", errDiffers, a.body, quota, held)
	}
	return nil
}

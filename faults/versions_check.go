package faults

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// looks is how often a key with a lifecycle is looked at before it counts as wrong: the lifecycle works meanwhile.
const looks = 5

// versions compares the versions of all keys in the buckets that are there, beside the main one.
func (c *checker) versions(ctx context.Context, pageSize int32) {
	keys := map[Name][]held{}
	for n := range c.state.keys {
		keys[n] = nil
	}
	for n := range c.state.slots {
		if n.Bucket != "" && n.Key == "" && c.existing[n.Bucket] {
			c.listVersions(ctx, n.Bucket, pageSize, keys)
			c.rules(ctx, n.Bucket)
		}
	}
	work := make(chan Name)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for n := range work {
				c.key(ctx, n, keys[n])
			}
		})
	}
	for _, hasRules := range []bool{true, false} { // the sooner they are looked at, the less is due
		for n := range keys {
			if (rules(n.Bucket) != nil) == hasRules {
				work <- n
			}
		}
	}
	close(work)
	wg.Wait()
}

// listVersions lists a bucket into keys, and checks the order of keys and what is the newest.
func (c *checker) listVersions(ctx context.Context, bucket string, pageSize int32, keys map[Name][]held) {
	last := ""
	err := c.client.In(bucket).ListVersions(ctx, "", pageSize, func(key string, v held) {
		n := Name{Bucket: bucket, Key: key}
		if key < last || v.latest != (key != last) {
			c.violate("listing", n, "version %s is listed behind one of %q, as the newest: %v", v.id, last, v.latest)
		}
		last = key
		keys[n] = append(keys[n], v)
	})
	if err != nil {
		c.violate("listing", "bucket "+bucket, "%v", err)
	}
}

// rules compares the lifecycle of a bucket with what it was given.
func (c *checker) rules(ctx context.Context, bucket string) {
	want := rules(bucket)
	if want == nil || len(c.state.candidates(Name{Bucket: bucket})) > 1 {
		return
	}
	got, err := c.client.In(bucket).Rules(ctx)
	if err != nil || len(got) != len(want) {
		c.violate("bucket", bucket, "it has %d rules instead of %d: %v", len(got), len(want), err)
	}
}

// key reads all versions of a key and compares them with what is possible. listed is what the listing of its bucket
// showed.
func (c *checker) key(ctx context.Context, n Name, listed []held) {
	h := c.state.history(n)
	for look := 1; ; look++ {
		kind, detail := "unreadable", ""
		got, err := c.readVersions(ctx, n, listed)
		if err != nil {
			detail = err.Error()
		} else if versions, courses := h.explain(n, got, time.Now()); courses != nil {
			c.kept(ctx, n, versions)
			c.explained(n, h, versions, courses)
			return
		} else {
			kind, detail = h.judge(got)
		}
		if look == looks || rules(n.Bucket) == nil {
			c.violate(kind, n, "%s", detail)
			c.mu.Lock()
			c.steps = append(c.steps, Step{Name: n, Do: Become, Versions: shown(got)})
			c.mu.Unlock()
			return
		}
		listed = nil
		if err := c.client.In(n.Bucket).ListVersions(ctx, n.Key, 1000, func(_ string, v held) { listed = append(listed, v) }); err != nil {
			c.violate("listing", n, "%v", err)
			return
		}
	}
}

// readVersions reads the versions that are listed, and asks which one is the newest.
func (c *checker) readVersions(ctx context.Context, n Name, listed []held) ([]held, error) {
	client := c.client.In(n.Bucket)
	got := slices.Clone(listed)
	for i := range got {
		v := &got[i]
		r, err := client.GetVersion(ctx, n.Key, v.id)
		switch {
		case v.marker && (err == nil || !missing(err)):
			return nil, fmt.Errorf("version %s is listed as a marker, reading it gives: %v", v.id, err)
		case v.marker:
			continue
		case err != nil:
			return nil, fmt.Errorf("version %s is listed, reading it gives: %w", v.id, err)
		case r.etag != v.etag || int64(len(r.body)) != v.size || r.id != v.id && (r.id != "" || v.id != nullID):
			return nil, fmt.Errorf("version %s is listed with %d bytes and ETag %s, reading it gives %d bytes and ETag %s of version %q",
				v.id, v.size, v.etag, len(r.body), r.etag, r.id)
		}
		v.read, v.body, v.label, v.lock = true, r.body, r.label, r.lock
		c.mu.Lock()
		c.report.Versions++
		c.report.Bytes += v.size
		c.mu.Unlock()
	}
	tag, id, err := client.Newest(ctx, n.Key)
	switch none := len(got) == 0 || got[0].marker; {
	case none && (err == nil || !missing(err)):
		return nil, fmt.Errorf("the listing shows nothing, or a marker as the newest, reading without an id gives version %q: %v", id, err)
	case !none && err != nil:
		return nil, fmt.Errorf("the newest version is %s, reading without an id gives: %w", got[0].id, err)
	case !none && (tag != got[0].etag || id != got[0].id && id != ""):
		return nil, fmt.Errorf("the newest version is %s with ETag %s, reading without an id gives %q with %s", got[0].id, got[0].etag, id, tag)
	}
	return got, nil
}

// kept tries to delete what a lock keeps.
func (c *checker) kept(ctx context.Context, n Name, versions []Version) {
	for _, v := range versions {
		if v.Lock == "" {
			continue
		}
		_, err := c.client.In(n.Bucket).DeleteVersion(ctx, n.Key, v.ID, strings.Contains(v.Lock, lockCompliance) || strings.Contains(v.Lock, lockHold))
		if code, _ := status(err); code != http.StatusForbidden {
			c.violate("lock", n, "the deletion of version %v was answered with %d (%v); right would be 403", v, code, err)
		}
		c.mu.Lock()
		c.report.Kept++
		c.mu.Unlock()
	}
}

// explained notes what a key has, and by which courses of events.
func (c *checker) explained(n Name, h history, versions []Version, courses []branch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.courses[n] = courses
	for _, v := range courses[0].versions {
		gone := !slices.ContainsFunc(versions, func(x Version) bool { return x.ID == v.ID })
		if gone && !v.unnamed() && !v.Dropped {
			c.report.Taken++
		}
	}
	if len(h.all) > 1 {
		c.report.Uncertain++
	}
	if len(h.all) > 1 || !slices.Equal(versions, h.all[0].versions) {
		c.steps = append(c.steps, Step{Name: n, Do: Become, Versions: versions})
	}
}

// stepsThat returns how many steps of a request have happened, and how many have not; of others nobody can tell.
func (c *checker) stepsThat(r Record) (happened, not int) {
	for _, step := range r.Steps {
		with := 0
		for _, b := range c.courses[step.Name] {
			if slices.Contains(b.requests, r.Request) {
				with++
			}
		}
		switch {
		case with == 0 && c.courses[step.Name] != nil:
			not++
		case with > 0 && with == len(c.courses[step.Name]):
			happened++
		}
	}
	return happened, not
}

// shown returns the versions that the server shows, for the ledger to go on from, after a violation.
func shown(got []held) (list []Version) {
	for _, g := range got {
		v := Version{ID: g.id, Lock: g.lock, Written: now(), Placed: now()}
		if !g.marker {
			v.Value = &Value{Size: g.size, ETag: g.etag, Label: g.label}
		}
		list = append(list, v)
	}
	return list
}

// judge says what is wrong with the versions that the server shows of a key, where no course of events leads there.
func (h history) judge(got []held) (kind, detail string) {
	likely := h.live[len(h.live)-1].versions
	var list []string
	for _, g := range got {
		s := fmt.Sprintf("%s: %d bytes, ETag %s", g.id, g.size, g.etag)
		if g.marker {
			s = g.id + ": a marker"
		}
		if g.read {
			s += fmt.Sprintf(", tagged %q, kept by %q", g.label, g.lock)
		}
		list = append(list, s)
	}
	detail = fmt.Sprintf("[%s]; right would be %s", strings.Join(list, "; "), h.describe())
	shows := map[string]held{}
	for _, g := range got {
		shows[g.id] = g
	}
	for _, w := range likely {
		g, there := shows[w.ID]
		delete(shows, w.ID)
		switch {
		case w.unnamed() || w.Dropped && !there || there && w.Value == nil && g.marker:
		case !there && w.Lock != "":
			return "lock", fmt.Sprintf("version %v is gone: %s", w, detail)
		case !there && w.Value == nil:
			return "marker", fmt.Sprintf("%v is gone: %s", w, detail)
		case !there:
			return "lost", fmt.Sprintf("version %v is gone: %s", w, detail)
		case w.Value == nil || g.marker:
			return "marker", detail
		case !g.read && w.Value.ETag == g.etag:
		case w.Value.ETag != g.etag || !w.Value.is(g.body, w.Value.Label):
			return "torn", fmt.Sprintf("version %v is another: %s: %s", w, w.Value.differ(g.body), detail)
		case w.Value.Label != g.label:
			return "tag", detail
		case w.Lock != g.lock:
			return "lock", detail
		}
	}
	if len(shows) > 0 {
		id := slices.Sorted(maps.Keys(shows))[0]
		if shows[id].marker {
			return "marker", "a marker that nobody set: " + detail
		}
		return "phantom", fmt.Sprintf("version %s should not be there: %s", id, detail)
	}
	return "order", detail
}

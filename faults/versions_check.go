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

// attemptsMax is how often a key with a lifecycle is compared before a difference counts as a violation, because the
// lifecycle may change the key during a comparison.
const attemptsMax = 5

// versions compares the versions of all keys in the existing buckets other than the main one.
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
	for _, hasRules := range []bool{true, false} { // keys with a lifecycle first, before more versions expire
		for n := range keys {
			if (rules(n.Bucket) != nil) == hasRules {
				work <- n
			}
		}
	}
	close(work)
	wg.Wait()
}

// listVersions adds the listed versions of a bucket to keys. It checks the order of the keys, and which versions are
// listed as the newest.
func (c *checker) listVersions(ctx context.Context, bucket string, pageSize int32, keys map[Name][]held) {
	last := ""
	err := c.client.In(bucket).ListVersions(ctx, "", pageSize, func(key string, v held) {
		n := Name{Bucket: bucket, Key: key}
		if key < last || v.latest != (key != last) {
			c.violate("listing", n, "version %s is listed after a version of %q, with IsLatest %v", v.id, last, v.latest)
		}
		last = key
		keys[n] = append(keys[n], v)
	})
	if err != nil {
		c.violate("listing", "bucket "+bucket, "%v", err)
	}
}

// rules checks that the lifecycle of a bucket still has all of its rules.
func (c *checker) rules(ctx context.Context, bucket string) {
	want := rules(bucket)
	if want == nil || len(c.state.candidates(Name{Bucket: bucket})) > 1 {
		return
	}
	got, err := c.client.In(bucket).Rules(ctx)
	if err != nil || len(got) != len(want) {
		c.violate("bucket", bucket, "found %d lifecycle rules; expected %d (error: %v)", len(got), len(want), err)
	}
}

// key reads all versions of a key and compares them with its possible histories. listed contains the versions of the
// key in the listing of its bucket.
func (c *checker) key(ctx context.Context, n Name, listed []held) {
	h := c.state.history(n)
	for attempt := 1; ; attempt++ {
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
		if attempt == attemptsMax || rules(n.Bucket) == nil {
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

// readVersions reads the listed versions, and checks that a read without a version ID finds the newest one.
func (c *checker) readVersions(ctx context.Context, n Name, listed []held) ([]held, error) {
	client := c.client.In(n.Bucket)
	got := slices.Clone(listed)
	for i := range got {
		v := &got[i]
		r, err := client.GetVersion(ctx, n.Key, v.id)
		switch {
		case v.marker && (err == nil || !missing(err)):
			return nil, fmt.Errorf("version %s is listed as a delete marker, but reading it returns: %v", v.id, err)
		case v.marker:
			continue
		case err != nil:
			return nil, fmt.Errorf("version %s is listed, but reading it fails: %w", v.id, err)
		case r.etag != v.etag || int64(len(r.body)) != v.size || r.id != v.id && (r.id != "" || v.id != nullID):
			return nil, fmt.Errorf("version %s is listed with %d bytes and ETag %s, but reading it returns %d bytes and ETag %s of version %q",
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
		return nil, fmt.Errorf("the listing has no version, or a delete marker as the newest, but reading the key returns version %q: %v", id, err)
	case !none && err != nil:
		return nil, fmt.Errorf("the newest version is %s, but reading the key fails: %w", got[0].id, err)
	case !none && (tag != got[0].etag || id != got[0].id && id != ""):
		return nil, fmt.Errorf("the newest version is %s with ETag %s, but reading the key returns version %q with ETag %s", got[0].id, got[0].etag, id, tag)
	}
	return got, nil
}

// kept checks that deletions of locked versions are refused.
func (c *checker) kept(ctx context.Context, n Name, versions []Version) {
	for _, v := range versions {
		if v.Lock == "" {
			continue
		}
		_, err := c.client.In(n.Bucket).DeleteVersion(ctx, n.Key, v.ID, strings.Contains(v.Lock, lockCompliance) || strings.Contains(v.Lock, lockHold))
		if code, _ := status(err); code != http.StatusForbidden {
			c.violate("lock", n, "deleting version %v returned status %d (%v); expected 403", v, code, err)
		}
		c.mu.Lock()
		c.report.Kept++
		c.mu.Unlock()
	}
}

// explained records the versions of a key, and the possible courses of events that lead to them.
func (c *checker) explained(n Name, h history, versions []Version, courses []branch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.courses[n] = courses
	for _, v := range courses[0].versions {
		deleted := !slices.ContainsFunc(versions, func(x Version) bool { return x.ID == v.ID })
		if deleted && !v.unnamed() && !v.Dropped {
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

// stepsThat returns how many steps of a request happened, and how many did not. Steps for which both is possible are
// not counted.
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

// shown returns the versions that the server returned, so that the ledger can continue from them after a violation.
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

// judge describes what is wrong with the versions of a key that no possible course of events explains.
func (h history) judge(got []held) (kind, detail string) {
	likely := h.live[len(h.live)-1].versions
	var list []string
	for _, g := range got {
		s := fmt.Sprintf("%s: %d bytes, ETag %s", g.id, g.size, g.etag)
		if g.marker {
			s = g.id + ": a delete marker"
		}
		if g.read {
			s += fmt.Sprintf(", tag %q, lock %q", g.label, g.lock)
		}
		list = append(list, s)
	}
	detail = fmt.Sprintf("found [%s]; expected %s", strings.Join(list, "; "), h.describe())
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
			return "lock", fmt.Sprintf("version %v is missing: %s", w, detail)
		case !there && w.Value == nil:
			return "marker", fmt.Sprintf("version %v is missing: %s", w, detail)
		case !there:
			return "lost", fmt.Sprintf("version %v is missing: %s", w, detail)
		case w.Value == nil || g.marker:
			return "marker", detail
		case !g.read && w.Value.ETag == g.etag:
		case w.Value.ETag != g.etag || !w.Value.is(g.body, w.Value.Label):
			return "torn", fmt.Sprintf("version %v has other content: %s: %s", w, w.Value.differ(g.body), detail)
		case w.Value.Label != g.label:
			return "tag", detail
		case w.Lock != g.lock:
			return "lock", detail
		}
	}
	if len(shows) > 0 {
		id := slices.Sorted(maps.Keys(shows))[0]
		if shows[id].marker {
			return "marker", "unexpected delete marker: " + detail
		}
		return "phantom", fmt.Sprintf("unexpected version %s: %s", id, detail)
	}
	return "order", detail
}

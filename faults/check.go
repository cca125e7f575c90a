package faults

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Violation is a broken promise.
type Violation struct {
	Kind   string // lost, torn, stale, returned, phantom, listing, etag, tag, upload, document, identity, half, condition, failed, start, ...
	Where  string // the object, version, upload, bucket or operation
	Detail string
}

// String returns the violation as one line of a report.
func (v Violation) String() string { return fmt.Sprintf("%-9s %s: %s", v.Kind, v.Where, v.Detail) }

// Report is the result of a check.
type Report struct {
	Objects, Absent, Uploads int   // items compared
	Versions, Kept           int   // versions compared, and locked ones whose deletion was refused
	Taken                    int   // versions, markers and uploads that lifecycles have deleted since the last check
	Identities               int   // identities and parts of identities compared
	Bytes                    int64 // bytes of content compared
	Uncertain                int   // items for which more than one value was possible
	Violations               []Violation
}

// readers is the number of objects that are read concurrently.
const readers = 8

// checker compares a server with a state.
type checker struct {
	client *Client
	state  *State

	mu     sync.Mutex // guards the rest
	report Report
	seen   []Effect
	steps  []Step
	// courses holds, for each key with versions, the possible histories that lead to the observed versions.
	courses map[Name][]branch

	existing map[string]bool // existing buckets; set before anything else is compared
}

// Check compares everything on the server with the state. It returns the result, and records that make uncertain values
// certain. The page size of listings is in entries.
func Check(ctx context.Context, client *Client, state *State, pageSize int32) (Report, []Record) {
	c := &checker{client: client, state: state, courses: map[Name][]branch{}, existing: map[string]bool{}}
	c.buckets(ctx)
	c.documents(ctx)
	c.identities(ctx)
	c.versions(ctx, 5+pageSize%50) // first, because more versions expire over time; small pages, so that there are several
	listed := c.list(ctx, pageSize)
	c.directories(ctx, listed)
	c.objects(ctx, listed)
	c.uploads(ctx, "", pageSize)
	for name := range c.existing {
		c.uploads(ctx, name, pageSize)
	}
	c.atomicity()
	return c.report, []Record{{Type: Seen, Effects: c.seen, Steps: c.steps}, {Type: Checked}}
}

// violate adds a violation.
func (c *checker) violate(kind string, where any, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Violations = append(c.report.Violations, Violation{kind, fmt.Sprint(where), fmt.Sprintf(format, args...)})
}

// found records that an item has a value, if that was not certain before.
func (c *checker) found(n Name, v *Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if candidates := c.state.candidates(n); len(candidates) > 1 || !same(candidates[0].value, v) {
		c.seen = append(c.seen, Effect{n, v})
		c.report.Uncertain++
	}
}

// list returns the listing of the bucket, and checks its order.
func (c *checker) list(ctx context.Context, pageSize int32) map[string]Value {
	listed := map[string]Value{}
	last := ""
	err := c.client.List(ctx, pageSize, func(key string, v Value) {
		if key <= last {
			c.violate("listing", Name{Key: key}, "listed after %q", last)
		}
		last = key
		listed[key] = v
	})
	if err != nil {
		c.violate("listing", "bucket", "%v", err)
	}
	return listed
}

// directoriesPage is the page size of the listing with a delimiter. It is small, so that there are several pages.
const directoriesPage = 1

// directories compares the listing with a delimiter with the one without.
func (c *checker) directories(ctx context.Context, listed map[string]Value) {
	want, got := map[string]bool{}, map[string]bool{}
	for key := range listed {
		if dir, _, ok := strings.Cut(key, "/"); ok {
			key = dir + "/"
		}
		want[key] = true
	}
	if err := c.client.Directories(ctx, directoriesPage, func(prefix string) {
		if got[prefix] {
			c.violate("listing", prefix, "listed twice with a delimiter")
		}
		got[prefix] = true
	}); err != nil {
		c.violate("listing", "prefixes", "%v", err)
		return
	}
	if !maps.Equal(want, got) {
		c.violate("listing", "prefixes", "listed with a delimiter: %v; expected %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// buckets compares the list of buckets.
func (c *checker) buckets(ctx context.Context) {
	listed, err := c.client.Buckets(ctx)
	if err != nil {
		c.violate("bucket", "listing", "%v", err)
		return
	}
	for n := range c.state.slots {
		if n.Bucket == "" || n.Key != "" {
			continue
		}
		var now *Value
		if listed[n.Bucket] {
			status, err := c.client.In(n.Bucket).Versioning(ctx)
			if err != nil {
				c.violate("bucket", n, "%v", err)
			}
			now, c.existing[n.Bucket] = &Value{Label: status}, true
		}
		delete(listed, n.Bucket)
		if !slices.ContainsFunc(c.state.candidates(n), func(x candidate) bool { return same(x.value, now) }) {
			c.violate("bucket", n, "exists: %v, with versioning status %q; expected %s", now != nil, now.status(), c.allowed(n))
		}
		c.found(n, now)
	}
	for name := range listed {
		c.violate("bucket", name, "listed, but was never created")
	}
}

// documents compares the documents of the main bucket.
func (c *checker) documents(ctx context.Context) {
	for _, kind := range documents {
		n := Name{Document: kind}
		now, err := c.client.Document(ctx, kind)
		if err != nil {
			c.violate("document", n, "%v; expected %s", err, c.allowed(n))
			continue
		}
		if !slices.ContainsFunc(c.state.candidates(n), func(x candidate) bool { return same(x.value, now) }) {
			c.violate("document", n, "it exists: %v, with the ID %q; expected %s", now != nil, now.status(), c.allowed(n))
		}
		c.found(n, now)
	}
}

// objects compares every object in the listing or the state.
func (c *checker) objects(ctx context.Context, listed map[string]Value) {
	keys := map[string]bool{}
	for n := range c.state.slots {
		if n.Upload == "" && n.Bucket == "" && n.Document == "" && n.Identity == "" {
			keys[n.Key] = true
		}
	}
	for key := range listed {
		keys[key] = true
	}
	work := make(chan string)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for key := range work {
				v, ok := listed[key]
				c.object(ctx, key, v, ok)
			}
		})
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		work <- key
	}
	close(work)
	wg.Wait()
}

// object reads one object and compares it with the listing and with its possible values.
func (c *checker) object(ctx context.Context, key string, listed Value, isListed bool) {
	n := Name{Key: key}
	body, tag, tags, err := c.client.Get(ctx, key)
	label := ""
	if err == nil && tags > 0 {
		label, err = c.client.LabelOf(ctx, key)
	}
	code, _ := status(err)
	if err != nil && code != http.StatusNotFound {
		c.violate("unreadable", n, "%v; expected %s", err, c.allowed(n))
		return
	}
	if err != nil {
		if isListed {
			c.violate("listing", n, "listed, but a read returns 404")
		}
		c.absent(n)
		return
	}
	c.mu.Lock()
	c.report.Objects++
	c.report.Bytes += int64(len(body))
	c.mu.Unlock()
	if !isListed {
		c.violate("listing", n, "can be read, but is not listed")
	} else if listed.ETag != tag || listed.Size != int64(len(body)) {
		c.violate("listing", n, "listed with %d bytes and ETag %s, but a read returns %d bytes and ETag %s", listed.Size, listed.ETag, len(body), tag)
	}
	c.content(n, body, tag, label)
}

// absent handles an object that was not found. It reports a violation if the object must exist.
func (c *checker) absent(n Name) {
	c.mu.Lock()
	c.report.Absent++
	c.mu.Unlock()
	candidates := c.state.candidates(n)
	if !slices.ContainsFunc(candidates, func(x candidate) bool { return x.value == nil }) {
		c.violate("lost", n, "missing; expected %s", c.allowed(n))
	}
	c.found(n, nil)
}

// content compares the content of an object with its possible values.
func (c *checker) content(n Name, body []byte, tag, label string) {
	candidates := c.state.candidates(n)
	var right []*Value // can be several: copying a multipart object onto itself changes its ETag, but not its content
	for _, x := range candidates {
		if x.value.is(body, label) {
			right = append(right, x.value)
		}
	}
	if right != nil {
		at := slices.IndexFunc(right, func(v *Value) bool { return v.ETag == tag })
		if at < 0 {
			at = 0
			c.violate("etag", n, "correct content, but with ETag %s; expected %s", tag, c.allowed(n))
		}
		c.found(n, right[at])
		return
	}
	c.found(n, &Value{Size: int64(len(body)), ETag: tag, Label: label})
	for _, x := range slices.Backward(c.state.slots[n].past) {
		if !x.value.is(body, label) {
			continue
		}
		kind := "stale"
		if len(candidates) == 1 && candidates[0].value == nil {
			kind = "returned"
		}
		c.violate(kind, n, "has the value that request %d wrote (%v); expected %s", x.request, x.value, c.allowed(n))
		return
	}
	for _, x := range candidates {
		if x.value != nil && x.value.is(body, x.value.Label) {
			c.violate("tag", n, "correct content, but with tag %q; expected %s", label, c.allowed(n))
			return
		}
	}
	c.wrong(n, body, tag)
}

// wrong reports content that the object never had.
func (c *checker) wrong(n Name, body []byte, tag string) {
	candidates := c.state.candidates(n)
	likely := candidates[len(candidates)-1].value
	for _, x := range candidates {
		if x.value != nil && x.value.ETag == tag {
			likely = x.value
		}
	}
	if likely == nil {
		sum := md5.Sum(body)
		c.violate("phantom", n, "%d bytes with ETag %s (MD5 %s), beginning with %s; expected %s",
			len(body), tag, hex.EncodeToString(sum[:]), whose(body, 0), c.allowed(n))
		return
	}
	c.violate("torn", n, "ETag %s: %s; expected %s", tag, likely.differ(body), c.allowed(n))
}

// allowed describes the possible values of an item.
func (c *checker) allowed(n Name) string {
	var list []string
	for _, x := range c.state.candidates(n) {
		list = append(list, fmt.Sprintf("%v (request %d)", x.value, x.request))
	}
	return strings.Join(list, " or ")
}

// uploads compares the uploads in progress in a bucket ("" for the main one) and their parts.
func (c *checker) uploads(ctx context.Context, bucket string, pageSize int32) {
	listed := map[Name]bool{}
	if err := c.client.of(Name{Bucket: bucket}).Uploads(ctx, pageSize, func(n Name) {
		n.Bucket = bucket
		listed[n] = true
	}); err != nil {
		c.violate("upload", "bucket "+bucket, "%v", err)
		return
	}
	unnamed := map[string]int{} // for each key, the number of uploads that may have begun with an ID unknown to the client
	for n := range c.state.slots {
		if n.Bucket == bucket && strings.HasPrefix(n.Upload, "?") {
			unnamed[n.Key]++
		}
	}
	for n := range c.state.slots {
		if n.Bucket != bucket || n.Upload == "" || n.Part > 0 || strings.HasPrefix(n.Upload, "?") {
			continue
		}
		c.upload(ctx, n, listed[n])
		delete(listed, n)
	}
	for n := range listed {
		if unnamed[n.Key]--; unnamed[n.Key] < 0 {
			c.violate("upload", n, "listed as in progress, but was never created, or has ended")
		}
	}
}

// upload compares one upload. isListed reports whether it is listed as in progress.
func (c *checker) upload(ctx context.Context, n Name, isListed bool) {
	c.report.Uploads++
	var exist, lack bool
	for _, x := range c.state.candidates(n) {
		exist = exist || x.value != nil
		lack = lack || x.value == nil
	}
	if !isListed {
		if due := c.state.candidates(n)[0].value; !lack && (due == nil || due.Due == 0 || now() < due.Due) {
			c.violate("upload", n, "lost: it is in progress, but not listed")
		} else if !lack {
			c.report.Taken++
		}
		c.found(n, nil)
		return
	}
	if !exist {
		c.violate("upload", n, "listed as in progress, but it has ended")
	}
	v := &Value{}
	for _, x := range c.state.candidates(n) {
		if x.value != nil {
			v = x.value
		}
	}
	c.found(n, v)
	parts, err := c.client.of(n).Parts(ctx, n)
	if err != nil && missing(err) && v.Due > 0 && now() >= v.Due {
		return // the next check finds that it no longer exists
	}
	if err != nil {
		c.violate("upload", n, "in progress, but its parts cannot be listed: %v", err)
		return
	}
	for number := 1; number <= partsMax; number++ {
		c.part(Name{Bucket: n.Bucket, Key: n.Key, Upload: n.Upload, Part: number}, parts)
	}
}

// part compares one part. Its content is compared only when the upload has become an object.
func (c *checker) part(n Name, parts map[int]Value) {
	var got *Value
	if v, ok := parts[n.Part]; ok {
		got = &v
	}
	for _, x := range c.state.candidates(n) {
		if same(x.value, got) {
			c.found(n, x.value)
			return
		}
	}
	c.violate("upload", n, "%v; expected %s", got, c.allowed(n))
	c.found(n, got)
}

// atomicity checks unacknowledged atomic requests: either all of their effects must have happened, or none.
func (c *checker) atomicity() {
	now := maps.Clone(c.state.slots)
	after := &State{slots: now, pending: map[uint64]Record{}}
	if err := after.apply(Record{Type: Seen, Effects: c.seen}); err != nil {
		c.violate("bench", "state", "%v", err)
	}
	for _, r := range c.state.pending {
		if !r.Atomic {
			continue
		}
		happened, not := c.stepsThat(r)
		for _, e := range r.Effects {
			candidates := c.state.candidates(e.Name)
			last := len(candidates) - 1
			decidable := candidates[last].request == r.Request
			// If it may have had the value before, this is undecidable: a relaxed server may have lost later writes.
			for _, x := range candidates[:last] {
				decidable = decidable && !same(x.value, e.Value)
			}
			switch {
			case !decidable:
			case same(after.candidates(e.Name)[0].value, e.Value):
				happened++
			default:
				not++
			}
		}
		if happened > 0 && not > 0 {
			c.violate("half", fmt.Sprintf("%s, request %d", r.Op, r.Request), "%d of its effects happened, and %d did not: %v, %v",
				happened, not, r.Effects, r.Steps)
		}
	}
}

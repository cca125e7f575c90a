package faults

import (
	"context"
	"fmt"
	"time"

	"orcas/lifecycle"
)

// passer is a server that can be asked for a pass of its lifecycles.
type passer interface {
	Lifecycle(ctx context.Context) (lifecycle.Report, error)
}

// days is how many days of a lifecycle a rule takes until nothing is left that it is about, at the most: a version
// expires, is noncurrent then below its marker, and leaves that alone. Each time the day has to end in which something
// is due.
func (r rule) days() (n int) {
	for _, days := range []int{r.expire, r.noncurrent, r.expire, r.abort} {
		if days > 0 {
			n += days + 1
		}
	}
	return n
}

// leaves reports whether a rule leaves a key with these versions as it is, however long that is.
func (r rule) leaves(got []held) bool {
	switch {
	case r.expire > 0:
		return len(got) == 0
	case r.noncurrent > 0:
		return len(got) == 0 || len(got) == 1 && !(got[0].marker && r.marker)
	}
	return true
}

// leftovers lets days pass in a server without load, one for each pass of the lifecycles, until all that they are about
// must have gone; it says what has not, and what has gone that no rule takes.
func (b *Bench) leftovers(ctx context.Context, client *Client, s *Summary) []Violation {
	server, ok := b.Server.(passer)
	if !ok || !b.Mix.Versions {
		return nil
	}
	most := 0
	for _, bucket := range []string{lifeBucket, goneBucket} {
		for _, r := range rules(bucket) {
			most = max(most, r.days())
		}
	}
	for pass := 0; ; pass++ {
		report, err := server.Lifecycle(ctx)
		if err != nil {
			return failure("failed", fmt.Errorf("a pass of the lifecycles: %w", err))
		}
		c := &checker{client: client, state: b.Ledger.State(), courses: map[Name][]branch{}, existing: map[string]bool{}}
		left := c.leftovers(ctx)
		if len(left) == 0 || pass == most {
			b.Logf("after %d passes of the lifecycles %d things are left that they take; %d violations", pass+1, len(left), len(c.report.Violations))
			for _, n := range left {
				c.violate("left", n, "a lifecycle takes it, and %d passes with a day before each did not (the last one: %+v)", pass, report)
			}
			s.Taken += c.report.Taken
			return c.report.Violations
		}
		select { // from the end of the pass on: what that did is a day old in the next one
		case <-time.After(lifeDay):
		case <-ctx.Done():
			return nil
		}
	}
}

// leftovers compares the keys that are subject to lifecycles, and returns those, and the uploads, of which something is
// left that is due in the end.
func (c *checker) leftovers(ctx context.Context) (left []Name) {
	keys := map[Name][]held{}
	for n := range c.state.keys {
		if rules(n.Bucket) != nil {
			keys[n] = nil
		}
	}
	for _, bucket := range []string{lifeBucket, goneBucket} {
		c.listVersions(ctx, bucket, 1000, keys)
		if err := c.client.In(bucket).Uploads(ctx, 1000, func(n Name) {
			n.Bucket = bucket
			if ruleOf(n).abort > 0 {
				left = append(left, n)
			}
		}); err != nil {
			c.violate("listing", "bucket "+bucket, "%v", err)
		}
	}
	for n, listed := range keys {
		c.key(ctx, n, listed)
		if !ruleOf(n).leaves(listed) {
			left = append(left, n)
		}
	}
	return left
}

package faults

import (
	"context"
	"fmt"
	"time"

	"orcas/lifecycle"
)

// passer is a server that can run a lifecycle pass on request.
type passer interface {
	Lifecycle(ctx context.Context) (lifecycle.Report, error)
}

// days returns the maximum number of lifecycle days until a rule has deleted everything that it applies to. A version
// expires, becomes noncurrent below its delete marker, and is deleted; then the delete marker expires, because it is
// the only version. Each step takes one day more than the rule states, because the day in which it is due has to end.
func (r rule) days() (n int) {
	for _, days := range []int{r.expire, r.noncurrent, r.expire, r.abort} {
		if days > 0 {
			n += days + 1
		}
	}
	return n
}

// leaves reports whether a rule never deletes anything of a key with these versions.
func (r rule) leaves(got []held) bool {
	switch {
	case r.expire > 0:
		return len(got) == 0
	case r.noncurrent > 0:
		return len(got) == 0 || len(got) == 1 && !(got[0].marker && r.marker)
	}
	return true
}

// leftovers runs lifecycle passes, one per lifecycle day, on a server without load, until everything that expires must
// be deleted. It returns violations for what is left, and for what was deleted although it has not expired.
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
			return failure("failed", fmt.Errorf("lifecycle pass: %w", err))
		}
		c := &checker{client: client, state: b.Ledger.State(), courses: map[Name][]branch{}, existing: map[string]bool{}}
		left := c.leftovers(ctx)
		if len(left) == 0 || pass == most {
			b.Logf("after %d lifecycle passes, %d expired items are left; %d violations", pass+1, len(left), len(c.report.Violations))
			for _, n := range left {
				c.violate("left", n, "expired, but not deleted by %d lifecycle passes with a day before each (the last one: %+v)", pass, report)
			}
			s.Taken += c.report.Taken
			return c.report.Violations
		}
		select { // counted from the end of the pass, so that its changes are a day old in the next one
		case <-time.After(lifeDay):
		case <-ctx.Done():
			return nil
		}
	}
}

// leftovers compares the keys that are subject to lifecycles, and returns the keys and uploads that a lifecycle still
// has to delete.
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

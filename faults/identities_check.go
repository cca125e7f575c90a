package faults

import (
	"context"
	"slices"
	"sync"
)

// identities compares the identities and their parts, and tries their access keys.
func (c *checker) identities(ctx context.Context) {
	if c.client.admin == nil {
		return
	}
	listed, err := c.client.identities(ctx)
	if err != nil {
		c.violate("identity", "listing", "%v", err)
		return
	}
	names := map[Name]bool{}
	for n := range listed {
		names[n] = true
	}
	for n := range c.state.slots {
		if n.Identity != "" {
			names[n] = true
		}
	}
	var keys []Name
	for n := range names {
		c.identity(n, listed[n])
		if c.state.accessKeys(n) {
			keys = append(keys, n)
		}
	}
	c.report.Identities = len(listed)
	c.tryKeys(ctx, keys, listed)
}

// identity compares an identity, or a part of one.
func (c *checker) identity(n Name, now *Value) {
	for _, x := range c.state.candidates(n) {
		if same(x.value, now) {
			c.found(n, x.value)
			return
		}
	}
	created := func(x candidate) bool { return x.value != nil && x.value.Label == unknownKey }
	if now == nil || !slices.ContainsFunc(c.state.candidates(n), created) {
		c.violate("identity", n, "found %v; expected %s", now, c.allowed(n))
	}
	c.found(n, now)
}

// accessKeys reports whether an item is or was an access key whose secret is known.
func (s *State) accessKeys(n Name) bool {
	sl := s.slots[n]
	return slices.ContainsFunc(slices.Concat(sl.past, sl.candidates), func(x candidate) bool { return x.value != nil && x.value.Secret != "" })
}

// tryKeys tries the access keys that exist, which must be accepted, and the last ones that were deleted or rotated,
// which must be refused.
func (c *checker) tryKeys(ctx context.Context, names []Name, listed map[Name]*Value) {
	work := make(chan Name)
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			for n := range work {
				disabled := listed[Name{Identity: n.Identity + "/disabled"}] != nil
				c.tryKey(ctx, n, listed[n], disabled)
			}
		})
	}
	for _, n := range names {
		work <- n
	}
	close(work)
	wg.Wait()
}

func (c *checker) tryKey(ctx context.Context, n Name, now *Value, disabled bool) {
	sl := c.state.slots[n]
	for _, x := range slices.Concat(sl.past[max(0, len(sl.past)-1):], sl.candidates) {
		if x.value == nil || x.value.Secret == "" {
			continue
		}
		works, err := c.client.works(ctx, Credentials{x.value.Label, x.value.Secret})
		if err != nil {
			c.violate("identity", n, "a request with the access key %s: %v", x.value.Label, err)
		} else if want := same(x.value, now) && !disabled; works != want {
			c.violate("identity", n, "the access key %s works: %v; expected %v", x.value.Label, works, want)
		}
	}
}

package perf

import "fmt"

const needsBefore = unsupported("it needs another build of ORCAS (--before)")

// runBuilds compares this program with another build of ORCAS, such as the one before a change that must not cost
// speed. The figures are medians of the ratios of all turns, since the speed of a machine changes with time.
func runBuilds(s *session) error {
	switch {
	case s.o.Before == "":
		return needsBefore
	case s.o.Target != nil:
		return needsOwn
	}
	s.prefix = ""
	c := &core{session: s}
	defer c.stop()
	before := s.ownProgram("before")
	before.Path = s.o.Before
	var err error
	if c.unpacked, err = s.startServer(before); err != nil {
		return fmt.Errorf("--before: %w", err)
	}
	if c.orcas, err = s.server("after"); err != nil {
		return err
	}
	return c.builds()
}

func (c *core) builds() error {
	size, keys := c.p.sizes[0], c.p.keys[0]
	contents := c.contents(size)
	for _, p := range []*Process{c.unpacked, c.orcas} {
		c.target = p.Target
		if err := c.seed(contents, keys, seedName(size)); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		load func(*Process) *Load
	}{
		{"PUT %s, 64 connections", c.put(size, 64)},
		{"PUT %s, 1 connection", c.put(size, 1)},
		{"GET %s, 16 connections", c.get(contents, keys, 16, seedName(size))},
	} {
		before, after, err := c.turns(c.unpacked, c.orcas, part.load)
		if err != nil {
			return err
		}
		name := fmt.Sprintf(part.name, sizeText(int64(size)))
		value, _ := pairs(after, before, rate)
		c.goal(goal{name: name + ", relative to the other build", size: size, limit: "at least 0.97", value: value, met: value >= 0.97}, after, before)
		if value, ok := pairs(after, before, serverCPU); ok {
			c.goal(goal{name: name + ", server CPU per request relative to the other build", limit: "at most 1.03", value: value, met: value <= 1.03})
		}
	}
	return nil
}

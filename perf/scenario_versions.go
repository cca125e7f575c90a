package perf

import (
	"fmt"
	"net/http"
)

// versions compares PUT into a bucket that keeps versions with PUT into one that does not, in turns: fresh keys, and a few keys again and
// again, where one bucket replaces what the other keeps.
func (s *session) versions() error {
	return s.compare("versions", nil, nil, (*core).versions)
}

func (c *core) versions() error {
	s := c.session
	s.target = c.orcas.Target
	call := Call{Method: http.MethodPut, Path: "/" + s.bucket, Query: "versioning="}
	body := "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
	if _, err := s.once(withBody(call, []byte(body)), http.StatusOK); err != nil {
		return err
	}
	size, workers, keys := s.p.sizes[0], s.p.workers[0], s.p.keys[0]
	contents := c.contents(size)
	for _, part := range []struct {
		name string
		load func(*Process) *Load
	}{
		{"fresh keys", c.put(size, workers)},
		{"the same keys", func(*Process) *Load {
			l, base := c.putLoad(contents, workers), c.fresh()
			l.Next = func(w *Worker, n uint64) (Call, Expect) {
				return s.put(w, contents, "same/"+key(scatter(n, keys)), base+n)
			}
			return l
		}},
	} {
		off, on, err := c.turns(c.unpacked, c.orcas, part.load)
		if err != nil {
			return err
		}
		value, _ := pairs(on, off, rate)
		c.goal(goal{name: fmt.Sprintf("PUT %s, %s, with versions, of without", sizeText(int64(size)), part.name), size: size,
			limit: "at least 0.85", value: value, met: value >= 0.85}, on, off)
	}
	return nil
}

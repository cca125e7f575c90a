package perf

import (
	"fmt"
	"net/http"

	"orcas/internal/loadgen"
)

// runVersions alternately compares PUT into a bucket with versioning with PUT into one without it. It puts new keys,
// and a few keys repeatedly, so that one bucket replaces versions that the other keeps.
func runVersions(s *session) error {
	return s.compare("versions", nil, nil, (*core).versions)
}

func (c *core) versions() error {
	s := c.session
	s.target = c.orcas.Target
	call := loadgen.Request{Method: http.MethodPut, Path: "/" + s.bucket, Query: "versioning="}
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
			l.Next = func(w *Worker, n uint64) (loadgen.Request, Expect) {
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
		c.goal(goal{name: fmt.Sprintf("PUT %s, %s, with versioning relative to without", sizeText(int64(size)), part.name), size: size,
			limit: "at least 0.85", value: value, met: value >= 0.85}, on, off)
	}
	return nil
}

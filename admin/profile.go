package admin

import (
	"bytes"
	"net/http"
	"path"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"orcas/core"
)

// profilePrefix is the beginning of the paths of profiles in net/http/pprof, under which they are served, too.
const profilePrefix = "/debug/pprof/"

// The default and the maximum duration of a CPU profile, in seconds.
const (
	profileSeconds    = 30
	maxProfileSeconds = 300
)

// file is a response that is not JSON.
type file struct {
	contentType string
	content     []byte
}

// profile measures the server: its CPU use for some seconds, or another profile of the Go runtime as of now. Profiles
// contain names of functions and sizes of memory, and no data of clients.
func (s *Store) profile(r *http.Request) (any, error) {
	q := r.URL.Query()
	name := q.Get("name")
	if rest, ok := strings.CutPrefix(r.URL.Path, profilePrefix); ok {
		name = path.Clean("/" + rest)[1:]
	}
	switch name {
	case "cpu", "profile":
		d, err := seconds(q, profileSeconds, maxProfileSeconds)
		if err != nil {
			return nil, err
		}
		return cpuProfile(r, d)
	case "":
		return struct {
			Profiles []string `json:"profiles"`
		}{append([]string{"cpu"}, profileList()...)}, nil
	}
	found := pprof.Lookup(name)
	if found == nil {
		return nil, unknownProfile(name)
	}
	debug, contentType := 0, "application/octet-stream"
	switch v := q.Get("debug"); v {
	case "", "0":
	case "1", "2":
		debug, contentType = int(v[0]-'0'), "text/plain; charset=utf-8"
	default:
		return nil, invalid("admin.profile", "debug must be 0, 1 or 2, not %q", v)
	}
	if name == "heap" {
		runtime.GC() // so that the profile has what is in use now
	}
	var b bytes.Buffer
	if err := found.WriteTo(&b, debug); err != nil {
		return nil, err
	}
	return file{contentType, b.Bytes()}, nil
}

// cpuProfile measures the CPU use for a time. There can be only one such profile at a time.
func cpuProfile(r *http.Request, d time.Duration) (any, error) {
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		return nil, core.E("admin.profile", core.Busy, err)
	}
	end := time.NewTimer(d)
	defer end.Stop()
	select {
	case <-end.C:
	case <-r.Context().Done():
	}
	pprof.StopCPUProfile()
	if err := r.Context().Err(); err != nil {
		return nil, core.E("admin.profile", core.Canceled, err)
	}
	return file{"application/octet-stream", b.Bytes()}, nil
}

// profileList returns the names of the profiles of the runtime.
func profileList() (names []string) {
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return names
}

func profileNames() string { return strings.Join(profileList(), ", ") }

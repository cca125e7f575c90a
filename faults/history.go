package faults

import (
	"fmt"
	"slices"
	"strings"
)

// Version is one version of a key in a bucket other than the main one. Times are in nanoseconds since 1970. They are
// lower bounds, so the lifecycle must not act earlier.
type Version struct {
	ID      string `json:"id"`              // the server's version ID; "?" and a number if it is not known yet
	Value   *Value `json:"value,omitempty"` // nil for a delete marker
	Lock    string `json:"lock,omitempty"`  // the lock that protects it, see lockOf; may be empty
	Written int64  `json:"written"`         // when its content was written; a rename does not change it
	Placed  int64  `json:"placed"`          // when it became the newest version
	Under   int64  `json:"under,omitempty"` // when it stopped being the newest version; 0 if it still is
	// Dropped means that the version was deleted. It is kept until the next check, because the lifecycle may have put a
	// delete marker on top of it before.
	Dropped bool `json:"dropped,omitempty"`
}

// nullID is the ID of the version that is written while versioning is off or suspended.
const nullID = "null"

// unnamed reports whether the ID is not known yet.
func (v *Version) unnamed() bool { return strings.HasPrefix(v.ID, "?") }

// String returns the name of the version for reports.
func (v Version) String() string {
	s := v.ID + ": a delete marker"
	if v.Value != nil {
		s = v.ID + ": " + v.Value.String()
	}
	if v.Lock != "" {
		s += ", locked by " + v.Lock
	}
	return s
}

// The operations of a Step on the versions of a key.
const (
	Push   = "push"   // Version becomes the newest; a null version replaces the previous null version
	Drop   = "drop"   // the version ID is permanently deleted, if it exists
	Amend  = "amend"  // the version ID gets the content, tag and lock of Version
	Become = "become" // the key has exactly the versions in Versions
)

// Step is the effect of a request on the versions of a key.
type Step struct {
	Name     Name      `json:"name"` // Bucket and Key
	Do       string    `json:"do"`
	ID       string    `json:"id,omitempty"`
	Version  *Version  `json:"version,omitempty"`
	Versions []Version `json:"versions,omitempty"` // newest first
}

// on returns the versions, newest first, after the step.
func (s *Step) on(versions []Version) []Version {
	switch s.Do {
	case Become:
		return append([]Version(nil), s.Versions...)
	case Drop:
		if ruleOf(s.Name).expire > 0 && s.Name.Bucket == lifeBucket {
			return amended(versions, s.ID, func(v *Version) { v.Dropped = true })
		}
		return append([]Version(nil), slices.DeleteFunc(slices.Clone(versions), func(v Version) bool { return v.ID == s.ID })...)
	case Amend:
		return amended(versions, s.ID, func(v *Version) { v.Value, v.Lock = s.Version.Value, s.Version.Lock })
	}
	after := []Version{*s.Version}
	for i, v := range versions {
		if i == 0 && v.Under == 0 {
			v.Under = s.Version.Placed
		}
		if v.ID != nullID || s.Version.ID != nullID {
			after = append(after, v)
		}
	}
	return after
}

// amended returns a copy of versions in which the one with the given ID is changed.
func amended(versions []Version, id string, change func(v *Version)) []Version {
	changed := append([]Version(nil), versions...)
	for i := range changed {
		if changed[i].ID == id {
			change(&changed[i])
		}
	}
	return changed
}

// branch is one possible course of events: the versions that a key has after it, newest first, and the uncertain
// requests that it assumes to have happened.
type branch struct {
	requests []uint64
	versions []Version
}

// history holds the possible versions of a key. It is immutable.
//
// all contains every possible branch. The live ones include every event so far: a new request may follow each of them,
// and an acknowledged request is part of each of them. In the State of a running server, all branches are live. In the
// State that a power cut leaves, other branches are possible too: each is a prefix of such a course of events, never a
// later part of it without the events before.
type history struct {
	all, live []branch
}

// blank is the history of a key that no request has touched.
var blank = history{all: []branch{{}}, live: []branch{{}}}

// history returns the history of a key.
func (s *State) history(n Name) history {
	if h, ok := s.keys[n]; ok {
		return h
	}
	return blank
}

// may makes the steps of a request possible.
func (s *State) may(r Record) {
	for _, step := range r.Steps {
		h := s.history(step.Name)
		var happened []branch
		for _, b := range h.live {
			happened = append(happened, branch{append(slices.Clip(b.requests), r.Request), step.on(b.versions)})
		}
		s.keys[step.Name] = history{append(slices.Clip(h.all), happened...), append(slices.Clip(h.live), happened...)}
	}
}

// cannot makes the steps of a request impossible again, because it was refused.
func (s *State) cannot(r Record) {
	without := func(list []branch) []branch {
		return slices.DeleteFunc(slices.Clone(list), func(b branch) bool { return slices.Contains(b.requests, r.Request) })
	}
	for _, step := range r.Steps {
		h := s.history(step.Name)
		s.keys[step.Name] = history{without(h.all), without(h.live)}
	}
}

// happened applies the acknowledgement of a request, the record end. If only is set, only the branches with the request
// remain possible. Otherwise the request may still be lost, together with everything after it.
func (s *State) happened(begun, end Record, only bool) {
	for i, step := range begun.Steps {
		id := ""
		if i < len(end.IDs) && step.Version != nil && step.Version.unnamed() {
			id = end.IDs[i]
		}
		h := s.history(step.Name)
		var now history
		for _, b := range h.live {
			if slices.Contains(b.requests, begun.Request) {
				now.live = append(now.live, b.named(step, id))
			}
		}
		for _, b := range h.all {
			if !only {
				now.all = append(now.all, b.named(step, id))
			}
		}
		if only {
			now.live = settle(now.live, begun.Request)
			now.all = now.live
		}
		s.keys[step.Name] = now
	}
	for _, step := range end.Steps { // the versions that the request observed
		h := s.history(step.Name)
		now := branch{versions: step.on(nil)}
		if only {
			h.all = nil
		} else if len(h.live) > 0 {
			now.requests = h.live[0].requests
		}
		s.keys[step.Name] = history{append(slices.Clip(h.all), now), []branch{now}}
	}
}

// named returns the branch with the version ID that a response returned for a step.
func (b branch) named(step Step, id string) branch {
	if id == "" {
		return b
	}
	at := slices.IndexFunc(b.versions, func(v Version) bool { return v.ID == step.Version.ID })
	if at < 0 {
		return b
	}
	b.versions = slices.Clone(b.versions)
	b.versions[at].ID = id
	return b
}

// settle removes a request that is no longer uncertain from the requests of branches.
func settle(list []branch, request uint64) []branch {
	out := make([]branch, len(list))
	for i, b := range list {
		left := slices.DeleteFunc(slices.Clone(b.requests), func(r uint64) bool { return r == request })
		out[i] = branch{append([]uint64(nil), left...), b.versions}
	}
	return out
}

// settled forgets the uncertain requests of all branches, because a check is complete.
func (s *State) settled() {
	for n, h := range s.keys {
		if len(h.all) == 1 && len(h.all[0].requests) == 0 && len(h.live) == 1 {
			continue
		}
		now := make([]branch, len(h.all))
		for i, b := range h.all {
			now[i] = branch{nil, b.versions}
		}
		s.keys[n] = history{now, now}
	}
}

// seen makes the result of a check certain.
func (s *State) seen(step Step) {
	now := []branch{{versions: step.on(nil)}}
	s.keys[step.Name] = history{now, now}
}

// describe returns the possible versions as text.
func (h history) describe() string {
	var list []string
	for _, b := range h.all {
		list = append(list, fmt.Sprintf("%v after requests %v", b.versions, b.requests))
	}
	return strings.Join(list, " or ")
}

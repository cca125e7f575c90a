package faults

import (
	"fmt"
	"slices"
	"strings"
)

// Version is one version of a key in a bucket other than the main one. Times are in nanoseconds since 1970. They are
// lower bounds, so the lifecycle must not act earlier.
type Version struct {
	ID      string `json:"id"`                // the server's version ID; "?" and a number if it is not known yet
	Value   *Value `json:"value,omitempty"`   // nil for a delete marker
	Lock    string `json:"lock,omitempty"`    // the lock that protects it, see lockOf; may be empty
	Written int64  `json:"written"`           // when its content was written; a rename does not change it
	Placed  int64  `json:"placed"`            // when it became the newest version
	Under   int64  `json:"under,omitempty"`   // when it stopped being the newest version; 0 if it still is
	Dropped bool   `json:"dropped,omitempty"` // it is gone, and stands here until the next look: before that, the lifecycle may have put a marker upon it
}

// nullID is the ID of the version that is written while versioning is off or suspended.
const nullID = "null"

// unnamed reports whether the ID is not known yet.
func (v *Version) unnamed() bool { return strings.HasPrefix(v.ID, "?") }

// String returns the name of the version for reports.
func (v Version) String() string {
	s := v.ID + ": a marker"
	if v.Value != nil {
		s = v.ID + ": " + v.Value.String()
	}
	if v.Lock != "" {
		s += ", kept by " + v.Lock
	}
	return s
}

// The operations of a Step on the versions of a key.
const (
	Push   = "push"   // Version comes on top; with the id of the null version it takes that one's place
	Drop   = "drop"   // the version ID goes for good, if it is there
	Amend  = "amend"  // the version ID gets the content, tag and lock of Version
	Become = "become" // they are those of Versions
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
// The branches are all that may be. Those that are live may be so at the end: a request that begins may follow upon
// each of them, and one that was acknowledged is part of every one. In a State as the server is now, all are live. In
// one that a power cut leaves, others stay possible: they are the beginnings of the same course of events, and never
// something from its middle without what went before.
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

// cannot makes them impossible again: it was refused.
func (s *State) cannot(r Record) {
	without := func(list []branch) []branch {
		return slices.DeleteFunc(slices.Clone(list), func(b branch) bool { return slices.Contains(b.requests, r.Request) })
	}
	for _, step := range r.Steps {
		h := s.history(step.Name)
		s.keys[step.Name] = history{without(h.all), without(h.live)}
	}
}

// happened says that a request was acknowledged, which end tells of. With only, everything but what it leads to is
// impossible from now on; otherwise it may be lost, with all that follows.
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
	for _, step := range end.Steps { // what it saw
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

// named returns the branch with the id that an answer told of the version of a step.
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

// settle takes a request that is in doubt no longer out of branches.
func settle(list []branch, request uint64) []branch {
	out := make([]branch, len(list))
	for i, b := range list {
		left := slices.DeleteFunc(slices.Clone(b.requests), func(r uint64) bool { return r == request })
		out[i] = branch{append([]uint64(nil), left...), b.versions}
	}
	return out
}

// settled forgets all doubts: a check is over.
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

// seen makes what a check found certain.
func (s *State) seen(step Step) {
	now := []branch{{versions: step.on(nil)}}
	s.keys[step.Name] = history{now, now}
}

// describe writes out what is possible.
func (h history) describe() string {
	var list []string
	for _, b := range h.all {
		list = append(list, fmt.Sprintf("%v after requests %v", b.versions, b.requests))
	}
	return strings.Join(list, " or ")
}

// Package lifecycle deletes what the rules of a bucket say is due: current versions, noncurrent ones, delete markers that nothing is left
// of, and abandoned uploads.
//
// The rules of a bucket are a Config, kept as JSON in the attribute "lifecycle" of the bucket, so that they change at one commit point and
// a bucket without any costs nobody a look. Nothing is stamped on objects: a Worker walks the buckets that have rules, holds each version
// against the rules as they are at that moment, and deletes it where one of them is due, expecting what it saw (see Worker).
package lifecycle

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"orcas/core"
)

// Day is how long a day is for those who do not want it shorter.
const Day = 24 * time.Hour

// attribute is where a bucket keeps its rules.
const attribute = "lifecycle"

// Config is the lifecycle of a bucket.
type Config struct {
	MinimumSize string `json:"minimum_size,omitempty"` // what the client says of the size of objects that transition; without effect, since nothing does
	Rules       []Rule `json:"rules"`
}

// Rule says what becomes of the versions that its filter takes. At least one action is set.
type Rule struct {
	ID      string `json:"id"`
	Enabled bool   `json:"enabled"`
	Legacy  bool   `json:"legacy,omitempty"` // the prefix of Filter stands in the rule itself, as before there were filters
	Filter  Filter `json:"filter"`

	Expiration *Expiration `json:"expiration,omitempty"`
	Noncurrent *Noncurrent `json:"noncurrent,omitempty"`
	AbortDays  int         `json:"abort_days,omitempty"` // after which an upload in progress is aborted; 0: never
}

// Filter takes the versions of which all hold that it says. The zero value takes every one.
type Filter struct {
	And     bool        `json:"and,omitempty"` // written as a conjunction
	Prefix  *string     `json:"prefix,omitempty"`
	Tags    []core.Attr `json:"tags,omitempty"`
	Larger  *int64      `json:"larger,omitempty"`  // than so many bytes
	Smaller *int64      `json:"smaller,omitempty"` // than so many bytes
}

// Expiration is what becomes of current versions: they are deleted so many days after they were written, or at a date; and delete markers
// of which no version is left go with them, or (Marker) alone. One of the three is set.
type Expiration struct {
	Days   int        `json:"days,omitempty"`
	Date   *time.Time `json:"date,omitempty"` // midnight, UTC
	Marker *bool      `json:"marker,omitempty"`
}

// Noncurrent deletes a version so many days after the next one was written, where at least Newer noncurrent ones are newer.
type Noncurrent struct {
	Days  int `json:"days"`
	Newer int `json:"newer,omitempty"`
}

// Set gives a bucket a lifecycle; nil takes it away.
func Set(b *core.BucketInfo, c *Config) error {
	b.Attrs = slices.DeleteFunc(b.Attrs, func(a core.Attr) bool { return a.Name == attribute })
	if c == nil {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return core.E("lifecycle.Set", core.Internal, err)
	}
	b.Attrs = append(b.Attrs, core.Attr{Name: attribute, Value: string(text)})
	return nil
}

// text returns the lifecycle of a bucket as it is stored; "": it has none.
func text(b *core.BucketInfo) string {
	for i := range b.Attrs {
		if b.Attrs[i].Name == attribute {
			return b.Attrs[i].Value
		}
	}
	return ""
}

// Of returns the lifecycle of a bucket, nil where it has none. Unsupported: it cannot be read, as where a newer version has written it.
func Of(b *core.BucketInfo) (*Config, error) {
	stored := text(b)
	if stored == "" {
		return nil, nil
	}
	c := &Config{}
	d := json.NewDecoder(strings.NewReader(stored))
	d.DisallowUnknownFields() // a condition that is not understood must not be passed over
	if err := d.Decode(c); err != nil {
		return nil, core.E("lifecycle.Of", core.Unsupported, err)
	}
	return c, nil
}

// maxCached bounds the buckets of a Cache.
const maxCached = 1024

// Cache keeps the lifecycles of buckets, so that they need not be read again. The zero value is empty. Its methods may be called from many goroutines.
type Cache struct {
	mu  sync.RWMutex // guards all
	all map[core.BucketID]cached
}

type cached struct {
	text   string
	config *Config
}

// Of returns the lifecycle of a bucket, as the function Of does. It is shared and must not be changed.
func (c *Cache) Of(b *core.BucketInfo) (*Config, error) {
	stored := text(b)
	if stored == "" {
		return nil, nil
	}
	c.mu.RLock()
	known := c.all[b.ID]
	c.mu.RUnlock()
	if known.text == stored {
		return known.config, nil
	}
	config, err := Of(b)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil || len(c.all) >= maxCached {
		c.all = map[core.BucketID]cached{}
	}
	c.all[b.ID] = cached{stored, config}
	return config, nil
}

// due returns when so many days after t are over: at the end of the day in which that falls. Days begin at multiples of their length since 1970, at
// midnight where they have 24 hours.
func due(t time.Time, days int, day time.Duration) time.Time {
	length := max(day.Milliseconds(), 1)
	ms := t.UnixMilli() + int64(days)*length // 2^31 days of 24 hours are far from the end of an int64
	if rest := ms % length; rest > 0 {
		ms += length - rest
	}
	return time.UnixMilli(ms).UTC()
}

// takes says whether the filter takes a version. A delete marker has no tags and no bytes.
func (f *Filter) takes(o *core.ObjectInfo) bool {
	if !strings.HasPrefix(o.Key, f.prefix()) || f.Larger != nil && o.Size <= *f.Larger || f.Smaller != nil && o.Size >= *f.Smaller {
		return false
	}
	for _, t := range f.Tags {
		if !slices.Contains(o.Tags, t) {
			return false
		}
	}
	return true
}

func (f *Filter) prefix() string {
	if f.Prefix == nil {
		return ""
	}
	return *f.Prefix
}

// at returns when a version that was written at a time expires.
func (e *Expiration) at(written time.Time, day time.Duration) (time.Time, bool) {
	switch {
	case e.Days > 0:
		return due(written, e.Days, day), true
	case e.Date != nil:
		return *e.Date, true
	}
	return time.Time{}, false
}

// Expires returns when a current version expires, and the ID of the rule: of the one that is due first. A delete marker never does.
func (c *Config) Expires(o *core.ObjectInfo, day time.Duration) (at time.Time, rule string, ok bool) {
	for i := range c.Rules {
		r := &c.Rules[i]
		if !r.Enabled || r.Expiration == nil || o.Marker || !r.Filter.takes(o) {
			continue
		}
		if t, set := r.Expiration.at(o.Modified, day); set && (!ok || t.Before(at)) {
			at, rule, ok = t, r.ID, true
		}
	}
	return at, rule, ok
}

// Aborts returns when an upload of a key is aborted, and the ID of the rule: of the one that is due first.
func (c *Config) Aborts(key string, begun time.Time, day time.Duration) (at time.Time, rule string, ok bool) {
	for i := range c.Rules {
		r := &c.Rules[i]
		if !r.Enabled || r.AbortDays == 0 || !strings.HasPrefix(key, r.Filter.prefix()) {
			continue
		}
		if t := due(begun, r.AbortDays, day); !ok || t.Before(at) {
			at, rule, ok = t, r.ID, true
		}
	}
	return at, rule, ok
}

// noncurrentDue says whether a noncurrent version is due: the next one was written at a time, and so many noncurrent ones are newer.
func (c *Config) noncurrentDue(o *core.ObjectInfo, succeeded time.Time, newer int, now time.Time, day time.Duration) bool {
	for i := range c.Rules {
		r := &c.Rules[i]
		if r.Enabled && r.Noncurrent != nil && newer >= r.Noncurrent.Newer && r.Filter.takes(o) && !now.Before(due(succeeded, r.Noncurrent.Days, day)) {
			return true
		}
	}
	return false
}

// markerDue says whether a delete marker is due that is all that is left of its key.
func (c *Config) markerDue(o *core.ObjectInfo, now time.Time, day time.Duration) bool {
	for i := range c.Rules {
		r := &c.Rules[i]
		if !r.Enabled || r.Expiration == nil || !r.Filter.takes(o) {
			continue
		}
		if r.Expiration.Marker != nil && *r.Expiration.Marker {
			return true
		}
		if t, set := r.Expiration.at(o.Modified, day); set && !now.Before(t) {
			return true
		}
	}
	return false
}

// prefixes returns, in order, the prefixes of all keys that rules of a sort can be about; none of them begins with another one.
func (c *Config) prefixes(sort func(*Rule) bool) []string {
	var all []string
	for i := range c.Rules {
		if r := &c.Rules[i]; r.Enabled && sort(r) {
			all = append(all, r.Filter.prefix())
		}
	}
	slices.Sort(all)
	var out []string
	for _, p := range all {
		if len(out) == 0 || !strings.HasPrefix(p, out[len(out)-1]) {
			out = append(out, p)
		}
	}
	return out
}

func ofCurrent(r *Rule) bool  { return r.Expiration != nil }
func ofVersions(r *Rule) bool { return r.Expiration != nil || r.Noncurrent != nil }
func ofUploads(r *Rule) bool  { return r.AbortDays > 0 }

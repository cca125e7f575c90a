// Package lifecycle deletes expired data according to the rules of each bucket: current versions, noncurrent versions,
// delete markers without other versions, and abandoned uploads.
//
// The rules of a bucket are a Config, stored as JSON in the attribute "lifecycle" of the bucket. So they change
// atomically, and buckets without rules cost nothing. Objects store no expiration time. A Worker walks the buckets that
// have rules, compares each version with the current rules, and deletes the version if it has expired and its key has
// not changed in the meantime (see Worker).
package lifecycle

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"orcas/core"
)

// Day is the default length of a day.
const Day = 24 * time.Hour

// attribute is the attribute of a bucket that holds its rules.
const attribute = "lifecycle"

// Config is the lifecycle configuration of a bucket.
type Config struct {
	MinimumSize string `json:"minimum_size,omitempty"` // as set by the client; has no effect
	Rules       []Rule `json:"rules"`
}

// Rule defines when the versions that match its filter expire. At least one of Expiration, Noncurrent and AbortDays is
// set.
type Rule struct {
	ID      string `json:"id"`
	Enabled bool   `json:"enabled"`
	Legacy  bool   `json:"legacy,omitempty"` // the client set the prefix in the rule itself, not in a filter
	Filter  Filter `json:"filter"`

	Expiration *Expiration `json:"expiration,omitempty"`
	Noncurrent *Noncurrent `json:"noncurrent,omitempty"`
	AbortDays  int         `json:"abort_days,omitempty"` // days until an upload in progress is aborted; 0 means never
}

// Filter matches the versions that meet all of its conditions. The zero value matches every version.
type Filter struct {
	And     bool        `json:"and,omitempty"` // the client wrote the conditions in an And element
	Prefix  *string     `json:"prefix,omitempty"`
	Tags    []core.Attr `json:"tags,omitempty"`
	Larger  *int64      `json:"larger,omitempty"`  // only versions of more than this many bytes
	Smaller *int64      `json:"smaller,omitempty"` // only versions of fewer than this many bytes
}

// Expiration deletes current versions, and delete markers without other versions, a number of days after they were
// written, or at a date. If Marker is set, it deletes only such delete markers. Exactly one of the three fields is set.
type Expiration struct {
	Days   int        `json:"days,omitempty"`
	Date   *time.Time `json:"date,omitempty"` // midnight, UTC
	Marker *bool      `json:"marker,omitempty"`
}

// Noncurrent deletes a noncurrent version a number of days after the next newer version was written, if there are at
// least Newer newer noncurrent versions.
type Noncurrent struct {
	Days  int `json:"days"`
	Newer int `json:"newer,omitempty"`
}

// Set sets the lifecycle configuration of a bucket, or deletes it if c is nil.
func Set(b *core.BucketInfo, c *Config) error {
	var text []byte
	if c != nil {
		var err error
		if text, err = json.Marshal(c); err != nil {
			return core.E("lifecycle.Set", core.Internal, err)
		}
	}
	b.Attrs = core.SetAttr(b.Attrs, attribute, string(text))
	return nil
}

// text returns the stored lifecycle configuration of a bucket, or "" if it has none.
func text(b *core.BucketInfo) string { return core.AttrValue(b.Attrs, attribute) }

// Of returns the lifecycle configuration of a bucket, or nil if it has none. It returns Unsupported if the
// configuration cannot be decoded, for example because a newer version of ORCAS wrote it.
func Of(b *core.BucketInfo) (*Config, error) {
	stored := text(b)
	if stored == "" {
		return nil, nil
	}
	c := &Config{}
	d := json.NewDecoder(strings.NewReader(stored))
	d.DisallowUnknownFields() // ignoring an unknown condition would delete too much
	if err := d.Decode(c); err != nil {
		return nil, core.E("lifecycle.Of", core.Unsupported, err)
	}
	return c, nil
}

// maxCached is the maximum number of buckets in a Cache.
const maxCached = 1024

// Cache caches the decoded lifecycle configurations of buckets. The zero value is an empty cache. It is safe for
// concurrent use.
type Cache struct {
	mu  sync.RWMutex // guards all
	all map[core.BucketID]cached
}

type cached struct {
	text   string
	config *Config
}

// Of is like the function Of. The result is shared and must not be modified.
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

// daysAfter returns the time a number of days after t, rounded up to the next start of a day. Days start at multiples
// of their length since 1970, so days of 24 hours start at midnight UTC.
func daysAfter(t time.Time, days int, day time.Duration) time.Time {
	length := max(day.Milliseconds(), 1)
	ms := t.UnixMilli() + int64(days)*length // does not overflow for 2^31 days of 24 hours
	if rest := ms % length; rest > 0 {
		ms += length - rest
	}
	return time.UnixMilli(ms).UTC()
}

// matches reports whether the filter matches a version. A delete marker has no tags, and its size is 0.
func (f *Filter) matches(o *core.ObjectInfo) bool {
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

// at returns the time at which a version written at the given time expires, and false if only Marker is set.
func (e *Expiration) at(written time.Time, day time.Duration) (time.Time, bool) {
	switch {
	case e.Days > 0:
		return daysAfter(written, e.Days, day), true
	case e.Date != nil:
		return *e.Date, true
	}
	return time.Time{}, false
}

// Expires returns the time at which a current version expires, and the ID of the rule that applies first. It returns
// false for a delete marker, and if no rule applies.
func (c *Config) Expires(o *core.ObjectInfo, day time.Duration) (at time.Time, rule string, ok bool) {
	for i := range c.Rules {
		r := &c.Rules[i]
		if !r.Enabled || r.Expiration == nil || o.Marker || !r.Filter.matches(o) {
			continue
		}
		if t, set := r.Expiration.at(o.Modified, day); set && (!ok || t.Before(at)) {
			at, rule, ok = t, r.ID, true
		}
	}
	return at, rule, ok
}

// Aborts returns the time at which an upload of a key is aborted, and the ID of the rule that applies first. It returns
// false if no rule applies.
func (c *Config) Aborts(key string, begun time.Time, day time.Duration) (at time.Time, rule string, ok bool) {
	for i := range c.Rules {
		r := &c.Rules[i]
		if !r.Enabled || r.AbortDays == 0 || !strings.HasPrefix(key, r.Filter.prefix()) {
			continue
		}
		if t := daysAfter(begun, r.AbortDays, day); !ok || t.Before(at) {
			at, rule, ok = t, r.ID, true
		}
	}
	return at, rule, ok
}

// noncurrentExpired reports whether a noncurrent version has expired. succeeded is the time at which the next newer
// version was written, and newer is the number of newer noncurrent versions.
func (c *Config) noncurrentExpired(o *core.ObjectInfo, succeeded time.Time, newer int, now time.Time, day time.Duration) bool {
	for i := range c.Rules {
		r := &c.Rules[i]
		if r.Enabled && r.Noncurrent != nil && newer >= r.Noncurrent.Newer && r.Filter.matches(o) && !now.Before(daysAfter(succeeded, r.Noncurrent.Days, day)) {
			return true
		}
	}
	return false
}

// markerExpired reports whether o, a delete marker that is the only version of its key, has expired.
func (c *Config) markerExpired(o *core.ObjectInfo, now time.Time, day time.Duration) bool {
	for i := range c.Rules {
		r := &c.Rules[i]
		if !r.Enabled || r.Expiration == nil || !r.Filter.matches(o) {
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

// prefixes returns the key prefixes, sorted, of the enabled rules for which selects returns true. It leaves out
// prefixes that begin with another one.
func (c *Config) prefixes(selects func(*Rule) bool) []string {
	var all []string
	for i := range c.Rules {
		if r := &c.Rules[i]; r.Enabled && selects(r) {
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

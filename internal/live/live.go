// Package live holds the settings that may change while a server is running. They form one value that is replaced as a
// whole, so a reader never sees a mix of old and new settings.
package live

import (
	"log/slog"
	"sync/atomic"
	"time"
)

// Settings are the settings that may change. They are replaced, not modified.
type Settings struct {
	LogLevel    slog.Level    // the lowest level that is logged
	MaxInFlight int64         // limit on concurrent requests
	BodyTimeout time.Duration // the time that a client may pause in the middle of a body; 0 or less for no limit
	MinRate     int64         // the minimum rate of downloads, in bytes per second; 0 for no minimum
}

// Value holds the current settings. It is safe for concurrent use, and is a slog.Leveler.
type Value struct{ current atomic.Pointer[Settings] }

// New returns a Value with the given initial settings.
func New(s Settings) *Value {
	v := &Value{}
	v.current.Store(&s)
	return v
}

// Load returns a consistent snapshot of the settings. The caller must not modify it.
func (v *Value) Load() *Settings { return v.current.Load() }

// Update replaces the settings with the result of change, which may be called again if another update interferes.
func (v *Value) Update(change func(*Settings)) {
	for {
		old := v.current.Load()
		next := *old
		change(&next)
		if v.current.CompareAndSwap(old, &next) {
			return
		}
	}
}

// Level implements slog.Leveler.
func (v *Value) Level() slog.Level { return v.Load().LogLevel }

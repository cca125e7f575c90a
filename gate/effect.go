package gate

import "net/http"

// Effect is what an operation does to the store and to its settings. Audit logs record every operation whose effect is
// not Read.
type Effect uint8

// The effects.
const (
	Read     Effect = iota + 1 // changes nothing
	Write                      // changes objects or uploads
	Settings                   // changes buckets, identities, policies or settings, or issues credentials
	Work                       // starts work of the server, such as a scrub, a backup, a trace or a profile
)

// String returns the name of the effect in logs; "unknown" for a request without a route.
func (e Effect) String() string {
	switch e {
	case Read:
		return "read"
	case Write:
		return "write"
	case Settings:
		return "settings"
	case Work:
		return "work"
	}
	return "unknown"
}

// Changes reports whether a request may have changed something, or was an attempt to. A request for which no route was
// found, for example because its signature was wrong, counts by its method; without one, it could not be read.
func (e *Event) Changes() bool {
	switch {
	case e.Effect != 0:
		return e.Effect != Read
	case e.Method == http.MethodGet, e.Method == http.MethodHead, e.Method == http.MethodOptions, e.Method == "":
		return false
	}
	return true
}

// Package gate is the common path of requests to the handlers of a server's HTTP APIs. Every request to any API takes
// the same steps:
//
//	find the API -> authenticate -> find the route -> authorize -> handle -> observe
//
// Find selects the API by listener, host, method and path, before the bucket is looked up. Authenticate identifies the
// sender with a list of schemes. Routes are data (Route), so tests, metrics, logs and policies use the same table that
// requests are routed by.
package gate

import (
	"fmt"
	"slices"

	"orcas/auth"
)

// Level is the level of a path or a resource in the hierarchy.
type Level uint8

// The levels.
const (
	Service Level = iota + 1
	Bucket
	Object
)

// Route is one operation of an API. It contains no code: Join finds the handler that has the same name.
type Route struct {
	Name   string // the name of the operation, unique in its API
	Method string

	// A request for the route also has these.
	Level  Level  // the level of the path, in APIs whose paths contain buckets and keys
	Path   string // the whole path, in other APIs
	Sub    string // a query parameter that the request must have; "" for none
	Header string // a header, in canonical form, that the request must have; "" for none

	Effect Effect // what the operation does, for the audit log

	// The permissions that the caller needs.
	Action        auth.Action
	VersionAction auth.Action   // replaces Action if the request has a version; "" if it cannot have one
	Resource      Level         // the level of the resource of the actions; 0 for the level of the path
	AnyAction     bool          // any action on the bucket or its keys suffices, if the sender is authenticated
	Secondary     []auth.Action // further actions that the handler may request; all others are denied
	Keys          []string      // condition keys: the facts that a policy for the action may depend on
}

// Declares reports whether the handler of the route may request an action.
func (r *Route) Declares(a auth.Action) bool {
	return a != "" && (a == r.Action || a == r.VersionAction || slices.Contains(r.Secondary, a))
}

// Target returns the level of the resource of the route's actions.
func (r *Route) Target() Level {
	if r.Resource != 0 {
		return r.Resource
	}
	return r.Level
}

// check returns an error if the route is invalid.
func (r *Route) check() error {
	switch {
	case r.Name == "" || r.Method == "":
		return fmt.Errorf("route: expected a name and a method, found name %q and method %q", r.Name, r.Method)
	case (r.Level == 0) == (r.Path == ""):
		return fmt.Errorf("route %s: expected either a level or a path, found level %d and path %q",
			r.Name, r.Level, r.Path)
	case r.Action == "":
		return fmt.Errorf("route %s has no action", r.Name)
	case r.Effect == 0:
		return fmt.Errorf("route %s has no effect", r.Name)
	case r.VersionAction != "" && r.Target() != Object:
		return fmt.Errorf("route %s: only objects have versions, so it cannot have the version action %s",
			r.Name, r.VersionAction)
	}
	return nil
}

// Join returns the handler of each route, in the order of routes. It returns an error for an invalid route, two routes
// with the same name, a route without a handler, or a handler without a route.
func Join[H any](routes []*Route, handlers map[string]H) ([]H, error) {
	list, seen := make([]H, len(routes)), make(map[string]bool, len(routes))
	for i, r := range routes {
		h, ok := handlers[r.Name]
		switch err := r.check(); {
		case err != nil:
			return nil, err
		case !ok:
			return nil, fmt.Errorf("the route %s has no handler", r.Name)
		case seen[r.Name]:
			return nil, fmt.Errorf("two routes have the name %s", r.Name)
		}
		list[i], seen[r.Name] = h, true
	}
	for name := range handlers {
		if !seen[name] {
			return nil, fmt.Errorf("the handler %s has no route", name)
		}
	}
	return list, nil
}

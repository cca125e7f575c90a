package s3

import (
	"fmt"
	"net/http"

	"orcas/gate"
	"orcas/s3/apierr"
)

// condition is a set of HTTP conditional headers.
type condition uint8

const (
	ifMatch condition = 1 << iota
	ifNoneMatch
	ifModifiedSince
	ifUnmodifiedSince

	readConditions  = ifMatch | ifNoneMatch | ifModifiedSince | ifUnmodifiedSince
	writeConditions = ifMatch | ifNoneMatch
	// cacheConditions may be ignored: the full response to a GET is always correct.
	cacheConditions = ifNoneMatch | ifModifiedSince
)

// routeKey has the properties of a request that select its operation.
type routeKey struct {
	method string
	level  gate.Level
	sub    string
	copies bool
	moves  bool
}

// endpoint is a route with its handler.
type endpoint struct {
	route  *route
	handle handler
}

// routeTable indexes the routes with their handlers. It returns an error if gate.Join does, if two routes match the
// same requests, or if a route is selected by a parameter that isSubresource does not know.
func routeTable(all []route, handlers map[string]handler) (map[routeKey]*endpoint, error) {
	joined, err := gate.Join(rowsOf(all), handlers)
	if err != nil {
		return nil, fmt.Errorf("s3: %w", err)
	}
	table := make(map[routeKey]*endpoint, len(all))
	for i := range all {
		r := &all[i]
		key := routeKey{r.Method, r.Level, r.Sub, r.Header == copySourceName, r.Header == moveSourceName}
		switch {
		case table[key] != nil:
			return nil, fmt.Errorf("s3: the routes %s and %s match the same requests", table[key].route.Name, r.Name)
		case r.Sub != "" && !isSubresource(r.Sub), r.Header != "" && !key.copies && !key.moves:
			return nil, fmt.Errorf("s3: route %s cannot be selected by parameter %q or header %q", r.Name, r.Sub, r.Header)
		}
		table[key] = &endpoint{r, joined[i]}
	}
	return table, nil
}

// route finds the operation that q asks for.
func (s *Server) route(q *request) (*endpoint, error) {
	sub, err := q.query.subresource()
	if err != nil {
		return nil, err
	}
	key := routeKey{method: q.r.Method, level: q.level(), sub: sub}
	if v := q.r.Header["X-Amz-Copy-Source"]; len(v) > 0 && key.method != http.MethodPut {
		return nil, apierr.Argument("x-amz-copy-source", v[0], "You can only specify a copy source header for copy requests.")
	}
	if key.level == gate.Object && key.method == http.MethodPut {
		key.copies = len(q.r.Header["X-Amz-Copy-Source"]) > 0
		key.moves = len(q.r.Header[moveSourceName]) > 0
	}
	found := s.routes[key]
	switch {
	case found != nil:
	case key.moves:
		return nil, errInvalidRequest.Say("x-amz-move-source cannot be combined with this operation.")
	case key.level == gate.Object && key.method == http.MethodGet && (sub == "uploads" || sub == "versions"):
		return nil, errInvalidRequest.Say("\"" + sub + "\" is a bucket sub-resource; it cannot be used with an object key.")
	case sub != "" && s.serves(key):
		return nil, errMethodNotAllowed
	case sub != "":
		return nil, errNotImplemented.Say("The sub-resource \"" + sub + "\" is not implemented for this method.")
	default:
		return nil, errMethodNotAllowed
	}
	if key.level == gate.Object && key.method == http.MethodPut && q.query.value("uploadId") == "" {
		if _, ok := q.query.get("partNumber"); ok {
			return nil, apierr.Argument("partNumber", "partNumber", "This operation does not accept partNumber without uploadId")
		}
	}
	if found.route.VersionAction == "" {
		if v, ok := q.query.get("versionId"); ok && key.level == gate.Object {
			return nil, apierr.Argument("versionId", v, "This operation does not accept a version-id.")
		}
	}
	return found, nil
}

// serves reports whether the sub-resource of key is implemented for another method, in which case S3 has no operation
// for this method either. PUT and HEAD are excluded: S3 has many PUT operations that are not implemented here, and its
// responses to HEAD are unknown.
func (s *Server) serves(key routeKey) bool {
	if key.method == http.MethodPut || key.method == http.MethodHead {
		return false
	}
	for k := range s.routes {
		if k.level == key.level && k.sub == key.sub {
			return true
		}
	}
	return false
}

// eventsSub selects MinIO's ListenBucketNotification and ListenNotification, which are not implemented. Without it, a
// client that waits for events would get a listing.
const eventsSub = "events"

// isSubresource reports whether a query parameter selects an operation of S3 or of one of its dialects. A request with
// such a parameter asks for that operation only.
func isSubresource(name string) bool {
	switch name {
	case "abac", "accelerate", "acl", "analytics", "annotation", "annotations", "append", "attributes", "cors", "delete", "encryption",
		eventsSub, instantSub, "intelligent-tiering", "inventory", "legal-hold", "lifecycle", "list-type", "location", "logging", "max-directory-buckets",
		"metadataAnnotationTable", "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "metadataTable", "metrics", "notification",
		"object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", quotaSub, "renameObject", "replication",
		"replication-metrics", "requestPayment", "restore", "retention", "select", "session", "tagging", "torrent",
		"uploadId", "uploads", "versioning", "versions", "website":
		return true
	}
	return false
}

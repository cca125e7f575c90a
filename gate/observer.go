package gate

import (
	"context"
	"time"

	"orcas/auth"
)

// An Observer is notified of every request after it has ended, for metrics, logs and audits. It must not block, and
// may be called concurrently.
type Observer interface {
	// Observe is called once for each request. The event is valid until it returns.
	Observe(ctx context.Context, e *Event)
}

// Event describes a request that has ended.
type Event struct {
	ID        string
	Operation string // name of the route; "" if no route matched
	Effect    Effect // of the route; 0 if no route matched
	Method    string
	Path      string // the decoded path of the URL
	Bucket    string
	Key       string
	Version   string // the version ID in the request or, of a new version, in the response; "" for none
	Target    string // what a request for another API than S3 is about, such as UserName=alice; never a secret
	UserAgent string
	Items     []Item          // what a request for several changes did, one by one
	Remote    string          // address and port of the client
	AccessKey string          // "" unless the sender was authenticated
	Principal *auth.Principal // nil unless the sender was authenticated

	Status  int    // the status of the response; 0 if no response was sent
	Code    string // the error code; clients see it, except in responses of the admin API
	Reason  Reason // why a rule of the server refused the request; "" if none did
	Cause   error  // the cause of the error, for logs
	Fault   bool   // the error was caused by the server, not by the client
	In, Out int64  // sizes of the bodies, in bytes

	Start     time.Time
	FirstByte time.Duration // from Start until the response headers were sent; 0 if no response was sent
	Took      time.Duration // from Start until the end
}

// Item is one of the changes of a request for several: the deletion of a key, or what a file declares.
type Item struct {
	Bucket  string // "" for that of the request
	Key     string
	Version string // the version that was named, or the delete marker that was written; "" for none
	Target  string // what was changed, if it is not a key; never a secret
	Code    string // the error code for the change; "" if it was successful
}

package s3

import (
	"context"
	"strings"

	"orcas/gate"
)

// writeHead sends the response head.
func (q *request) writeHead(status int) {
	q.status = status
	if len(q.s.observers) > 0 {
		q.firstByte = q.s.now().Sub(q.start)
	}
	q.w.WriteHeader(status)
}

// observe notifies the observers that the request has ended.
func (q *request) observe(ctx context.Context) {
	if len(q.s.observers) == 0 {
		return
	}
	e := q.s.events.Get().(*gate.Event)
	*e = gate.Event{
		ID: q.id, Method: q.r.Method, Path: q.r.URL.Path, Bucket: q.bucketName, Key: q.key, Version: q.versionID(),
		Remote: q.r.RemoteAddr, UserAgent: first(q.r.Header, "User-Agent"),
		Principal: q.caller, Items: q.items,
		Status: q.status, Code: q.code, Reason: q.reason, Cause: q.cause, Fault: q.faulty, In: q.body.count, Out: q.out,
		Start: q.start, FirstByte: q.firstByte, Took: q.s.now().Sub(q.start),
	}
	if e.Reason == "" && q.code != "" {
		e.Reason = gate.ReasonOf(q.code)
	}
	if q.route != nil {
		e.Operation, e.Effect, e.Target = q.route.Name, q.route.Effect, q.source()
	}
	if q.auth != nil {
		e.AccessKey = q.auth.AccessKey
	}
	for _, o := range q.s.observers {
		o.Observe(ctx, e)
	}
	*e = gate.Event{} // so the pooled event does not keep the request alive
	q.s.events.Put(e)
}

// versionID returns the ID of the version that the request has written or removed, or else of the one that it names.
func (q *request) versionID() string {
	if id := first(q.header, "X-Amz-Version-Id"); id != "" {
		return id
	}
	if len(q.query.params) == 0 {
		return ""
	}
	return q.query.value("versionId")
}

// source returns the source of a copy, a move or a rename, as in the request; "" for other operations.
func (q *request) source() string {
	switch {
	case q.route.Header == copySourceName, q.route.Header == moveSourceName:
		return withoutSecrets(first(q.r.Header, q.route.Header))
	case q.route.Sub == "renameObject":
		return withoutSecrets(first(q.r.Header, renameSourceName))
	}
	return ""
}

// withoutSecrets returns a source without its query, unless that is only a version. A client may have sent a presigned
// URL by mistake.
func withoutSecrets(source string) string {
	path, query, found := strings.Cut(source, "?")
	if found && (!strings.HasPrefix(query, "versionId=") || strings.Contains(query, "&")) {
		return path
	}
	return source
}

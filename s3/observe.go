package s3

import (
	"context"

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
		ID: q.id, Method: q.r.Method, Path: q.r.URL.Path, Bucket: q.bucketName, Key: q.key, Remote: q.r.RemoteAddr,
		Principal: q.caller,
		Status:    q.status, Code: q.code, Cause: q.cause, Fault: q.faulty, In: q.body.count, Out: q.out,
		Start: q.start, FirstByte: q.firstByte, Took: q.s.now().Sub(q.start),
	}
	if q.route != nil {
		e.Operation = q.route.Name
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

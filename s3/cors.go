package s3

import (
	"cmp"
	"net/http"

	"orcas/core"
	"orcas/gate"
)

// preflightRoute provides the operation name of preflight requests in the log. It is not in the route table because the
// response to OPTIONS is the same for every URL.
var preflightRoute = route{Route: gate.Route{Name: "Preflight", Method: http.MethodOptions}}

// preflight responds to an OPTIONS request, which a browser sends to find out whether a page of another origin may send
// a request. Browsers do not sign it, and a presigned URL is signed for another method, so it is not authenticated.
// Buckets have no CORS configuration, so no origin is allowed. As in S3, and like the responses to other anonymous
// requests, the response reveals only whether the bucket exists.
func (s *Server) preflight(q *request) error {
	q.route = &preflightRoute
	if first(q.r.Header, "Origin") == "" {
		return errNoOrigin
	}
	refusal := errCORSDisabled
	if !ValidBucketName(q.bucketName) {
		refusal = errCORSNoBucket
	} else if _, err := s.fs.Bucket(q.ctx, q.bucketName); core.Is(err, core.NoSuchBucket) {
		refusal = errCORSNoBucket
	} else if err != nil {
		return err
	}
	method := cmp.Or(first(q.r.Header, "Access-Control-Request-Method"), http.MethodOptions)
	return refusal.With("Method", method).With("ResourceType", "BUCKET")
}

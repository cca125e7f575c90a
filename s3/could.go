package s3

import (
	"errors"
	"fmt"
	"net/http"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/gate"
	"orcas/s3/bucketaccess"
)

// Could decides which actions the sender of a request could perform on a bucket, on keys, or on the service, by the
// authorizer and the facts that decide about requests. It returns one error per action: nil or one that wraps
// auth.ErrDenied. on has the names of a bucket and a key, and the scope auth.Perhaps or auth.Below. As for requests, a
// bucket that does not exist belongs to the sender.
//
// The answer is for pages that hide what is refused. It never replaces the decision about a request, because it does not
// know the values of condition keys that vary from one request to the next, such as tags.
func (s *Server) Could(r *http.Request, id *gate.Identity, on auth.Resource, actions []auth.Action) ([]error, error) {
	resource := auth.Resource{Account: id.Principal.Account, Bucket: on.Bucket}
	if on.Bucket != "" {
		b, err := s.fs.Bucket(r.Context(), on.Bucket)
		switch {
		case err == nil:
			resource = bucketaccess.Resource(b)
		case !core.Is(err, core.NoSuchBucket):
			return nil, err
		}
	}
	resource.Key, resource.Scope = on.Key, on.Scope
	q := &request{s: s, r: r, ctx: r.Context(), start: s.now(), route: new(route), auth: id.Auth, caller: id.Principal}
	q.asked.about = resource
	decisions := make([]error, len(actions))
	for i, a := range actions {
		known, ok := policy.LookupAction(string(a))
		if !ok || known.Name != a || known.Resource != "service" && known.Resource != "bucket" && known.Resource != "object" {
			return nil, fmt.Errorf("%q is not an action of S3", a)
		}
		err := s.authorizer.Authorize(q.ctx, q.caller, a, resource, facts{q})
		if err != nil && !errors.Is(err, auth.ErrDenied) { // the policy of the bucket cannot be read, so requests are refused
			err = fmt.Errorf("%w: %w", auth.ErrDenied, err)
		}
		decisions[i] = err
	}
	return decisions, nil
}

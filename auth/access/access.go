// Package access decides about requests with the policies that are in force: those of the caller and that of the bucket.
// It is the auth.Authorizer of a server; package policy describes the language of policies and the order of the steps.
//
// The policy of a bucket is part of the resource of a request (auth.Resource.Policy), as the request has read it with
// the bucket. Compiled policies are cached by the name of the bucket, together with their documents, and are used only
// for the same document. So no decision uses an older document than the bucket that the request works on.
//
// A document that cannot be compiled denies everything in its bucket, with one exception: the root of the bucket's
// account can read, replace and delete the policy. PutBucketPolicy compiles a document before it is stored, so this
// happens only if the document was damaged, or if it was written by a version with another policy language.
package access

import (
	"context"
	"fmt"
	"sync"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/internal/mutant"
)

// Authorizer implements auth.Authorizer.
type Authorizer struct {
	callers func(*auth.Principal) *policy.Caller
	buckets cache
	states  sync.Pool // of *state
}

// New returns an Authorizer. callers returns a principal with the policies that apply to it, or nil if it does not know
// the principal; callers itself may be nil. The root of an account and anonymous callers have no policies of their own,
// so callers need not know them. Any other principal that callers does not know is denied everything, and so is a root
// with a unique ID: its account was disabled or deleted after its request was authenticated.
func New(callers func(*auth.Principal) *policy.Caller) *Authorizer {
	a := &Authorizer{callers: callers}
	a.buckets.most = maxCached
	a.states.New = func() any { return new(state) }
	return a
}

// state is the memory of one decision. It is reused, so that a decision allocates nothing.
type state struct {
	request policy.Request
	caller  policy.Caller // of a principal without policies of its own
}

// Authorize implements auth.Authorizer. The error is neither ErrDenied nor ErrExplicitDeny if the policy of the bucket
// cannot be compiled.
func (a *Authorizer) Authorize(_ context.Context, p *auth.Principal, action auth.Action, r auth.Resource, f auth.Facts) error {
	if p == nil {
		return auth.ErrDenied
	}
	s := a.states.Get().(*state)
	defer a.release(s)
	result, err := a.decide(s, p, action, r, f)
	switch {
	case err != nil:
		return err
	case result.Decision == policy.Allowed:
		return nil
	case result.Decision == policy.ExplicitDeny:
		return auth.ErrExplicitDeny
	}
	return auth.ErrDenied
}

// Explain returns the decision about a request, by the same steps as Authorize, with the statements that decided. The
// error is auth.ErrDenied if the principal is unknown.
func (a *Authorizer) Explain(p *auth.Principal, action auth.Action, r auth.Resource, f auth.Facts) (policy.Result, error) {
	return a.decide(new(state), p, action, r, f)
}

// decide decides about a request.
func (a *Authorizer) decide(
	s *state, p *auth.Principal, action auth.Action, r auth.Resource, f auth.Facts,
) (policy.Result, error) {
	q := &s.request
	if q.Caller = a.caller(p, s); q.Caller == nil {
		return policy.Result{}, auth.ErrDenied
	}
	q.Action, q.Resource, q.ARN, q.Facts = action, r, r.ARN, f
	if r.Policy != "" && !mutant.Is("no-bucket-policy") {
		bucket, err := a.buckets.policy(r.Bucket, r.Policy, r.Principals)
		if err != nil && !repairs(q) {
			return policy.Result{}, fmt.Errorf("the policy of the bucket %s cannot be read: %w", r.Bucket, err)
		}
		q.Bucket, q.Block.RestrictPublicBuckets = bucket, r.RestrictPublic
	}
	if r.Scope == auth.AnyAction {
		return policy.DecideAny(q), nil
	}
	return policy.Decide(q), nil
}

// release returns the memory of a decision, without references to anything.
func (a *Authorizer) release(s *state) {
	*s = state{}
	a.states.Put(s)
}

// caller returns the caller that a principal is, or nil if the principal is unknown.
func (a *Authorizer) caller(p *auth.Principal, s *state) *policy.Caller {
	if a.callers != nil {
		if c := a.callers(p); c != nil {
			return c
		}
	}
	isRoot := p.ARN == auth.RootARN(p.Account) && (a.callers == nil || p.ID == "")
	if !p.IsAnonymous() && !isRoot && !mutant.Is("unknown-is-root") {
		return nil
	}
	s.caller.Principal = p
	return &s.caller
}

// repairs reports whether a request is that of the root about the policy of a bucket of its own account.
func repairs(q *policy.Request) bool {
	p := q.Caller.Principal
	if p.IsAnonymous() || p.ARN != auth.RootARN(p.Account) || p.Account != q.Resource.Account {
		return false
	}
	switch q.Action {
	case "s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy":
		return true
	}
	return false
}

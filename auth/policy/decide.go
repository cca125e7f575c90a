package policy

import (
	"time"

	"orcas/auth"
)

// Caller is the sender of a request with the policies that apply to it. It may be shared by many requests.
type Caller struct {
	Principal *auth.Principal
	Canonical string    // the canonical ID of the account
	Role      string    // the ARN of the role, if the principal is a session of a role
	ID        string    // the unique ID of the user or session (aws:userid); not needed for the root
	Issued    time.Time // when temporary credentials were issued; zero for other credentials

	// Identity are the policies of the user and its groups, of the role, or of the application key. Session are the
	// policies of temporary credentials; if there are any, they limit what the others allow.
	Identity []*Policy
	Session  []*Policy

	// Creator created the application key. Whatever the creator is not allowed to do is not allowed with the key either.
	Creator *Caller
}

// Request is what a decision is about.
type Request struct {
	Caller   *Caller
	Action   auth.Action
	Resource auth.Resource
	ARN      string     // of a resource of IAM; for buckets and objects it follows from Resource
	Facts    auth.Facts // may implement ListFacts; nil if there are none

	Bucket *Policy           // the policy of the bucket; nil if it has none
	Block  PublicAccessBlock // of the bucket
}

// Decision is whether a request is allowed.
type Decision uint8

// The decisions.
const (
	ImplicitDeny Decision = iota // nothing allows it
	Allowed
	ExplicitDeny // a statement denies it
)

// String returns the name that a policy simulator prints.
func (d Decision) String() string {
	return [...]string{"implicitDeny", "allow", "explicitDeny"}[d]
}

// Result is a decision with its reason. After ExplicitDeny, exactly one of the statements is set: the first that
// denies. After Allowed, they are the first ones that allow, one for each type of policy that allows; there may be none
// if the caller is the root of an account.
type Result struct {
	Decision Decision
	Caller   *Caller // the caller, or the creator whose policies denied
	Identity *Statement
	Bucket   *Statement // of the bucket policy; of the trust policy, after DecideTrust
	Session  *Statement
}

// Statements returns the statements that decided.
func (r Result) Statements() (list []*Statement) {
	for _, s := range []*Statement{r.Identity, r.Bucket, r.Session} {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// maxCreators is the length of a chain of creators. It only limits the work for a chain that is a cycle.
const maxCreators = 16

// Decide decides whether a request is allowed. The package comment explains the order of the steps.
//
// With the scope auth.AnyKey, the request is allowed if it could be allowed for at least one key: the caller must ask
// again about each key. With auth.EveryKey, it is allowed only if it is certain that it would be allowed for every key.
// With auth.Below and auth.Perhaps, it is allowed if a request of this kind could be allowed.
func Decide(q *Request) Result {
	a := table().byName[q.Action]
	if a == nil || !q.names(a.kind) {
		return Result{Caller: q.Caller}
	}
	return decideAction(q, a)
}

// names reports whether the request names a resource of a kind. A request that does not is denied.
func (q *Request) names(of kind) bool {
	switch of {
	case kindNone, kindService:
		return true
	case kindBucket:
		return q.Resource.Bucket != "" || q.covers(of)
	case kindObject:
		return q.Resource.Bucket != "" && (q.Resource.Key != "" || q.covers(of))
	}
	return q.ARN != ""
}

// covers reports whether the decision is about more than one resource of a kind.
func (q *Request) covers(of kind) bool {
	switch q.Resource.Scope {
	case auth.OneKey, auth.Perhaps:
		return false
	case auth.Below:
		return of == kindObject || of == kindBucket && q.Resource.Bucket == ""
	}
	return of == kindObject
}

// DecideAny decides whether any action on the bucket or on one of its keys could be allowed: HeadBucket succeeds for
// every caller with a right in the bucket. The action and the scope of the request are ignored.
func DecideAny(q *Request) Result {
	any := *q
	any.Resource.Scope = auth.AnyKey
	result := Result{Caller: q.Caller}
	for _, a := range table().actions {
		if s3Kinds.has(a.kind) && any.names(a.kind) {
			if result = decideAction(&any, a); result.Decision == Allowed {
				return result
			}
		}
	}
	return result
}

// decideAction decides about the caller and its chain of creators. An explicit denial of any of them has priority.
func decideAction(q *Request, a *action) Result {
	e := evaluation{q: q, action: a, many: q.covers(a.kind)}
	var first, denied Result
	n := 0
	for c := q.Caller; c != nil; c = c.Creator {
		if n++; n > maxCreators || c.Principal == nil {
			return Result{Caller: q.Caller}
		}
		e.caller = c
		r := e.decide()
		switch {
		case r.Decision == ExplicitDeny:
			return r
		case r.Decision == ImplicitDeny && denied.Caller == nil:
			denied = r
		case c == q.Caller:
			first = r
		}
	}
	if denied.Caller != nil {
		return denied
	}
	return first
}

// evaluation is the state of a decision about one request.
type evaluation struct {
	q      *Request
	caller *Caller
	action *action

	// subject is the resource that the patterns of statements are matched with. If many is set, it is the beginning of
	// the resources that the decision is about. It is "" until a statement needs it.
	subject string
	many    bool

	parsed parsed
}

// setSubject sets the subject.
func (e *evaluation) setSubject() {
	r := &e.q.Resource
	switch e.action.kind {
	case kindNone:
	case kindService:
		e.subject = arnOfS3
	case kindBucket:
		e.subject = arnOfS3 + r.Bucket
	case kindObject:
		key := r.Key
		if e.many && r.Scope != auth.Below {
			key = ""
		}
		e.subject = arnOfS3 + r.Bucket + "/" + key
	default:
		e.subject = e.q.ARN
	}
}

// decide decides about one caller, by its own policies and that of the bucket.
func (e *evaluation) decide() Result {
	c, q := e.caller, e.q
	isRootOfAccount := isRoot(c.Principal)
	owns := !c.Principal.IsAnonymous() && c.Principal.Account == q.Resource.Account

	// (1) An explicit denial in any policy.
	result := Result{Decision: ExplicitDeny, Caller: c}
	if result.Identity = e.find(c.Identity, Deny); result.Identity != nil {
		return result
	}
	if result.Session = e.find(c.Session, Deny); result.Session != nil {
		return result
	}
	if !(isRootOfAccount && owns && keepsOwnerIn(e.action)) {
		if result.Bucket = e.denies(q.Bucket); result.Bucket != nil {
			return result
		}
	}

	// What each type of policy allows.
	var level grant
	if owns || q.Bucket == nil || !q.Block.cancels(q.Bucket) {
		result.Bucket, level = e.allows(q.Bucket)
	}
	result.Identity = e.find(c.Identity, Allow)
	result.Session = e.find(c.Session, Allow)
	byIdentity := !c.Principal.IsAnonymous() && (isRootOfAccount || result.Identity != nil)
	withinSession := len(c.Session) == 0 || result.Session != nil

	allowed := false
	switch {
	case c.Principal.IsAnonymous(): // (2)
		allowed = level >= direct
	case owns: // (3), (5)
		allowed = byIdentity && withinSession || level >= direct && withinSession || level == toSession
	default: // (4), (5)
		allowed = byIdentity && withinSession && level >= toAccount
	}
	if !allowed { // (6)
		return Result{Caller: c}
	}
	result.Decision = Allowed
	return result
}

// keepsOwnerIn reports whether the root can always perform an action on its own buckets, so that it cannot be locked
// out.
func keepsOwnerIn(a *action) bool {
	return a.name == "s3:GetBucketPolicy" || a.name == "s3:PutBucketPolicy" || a.name == "s3:DeleteBucketPolicy"
}

// applies reports whether a statement that matches a request to some degree takes effect. For many keys, a statement
// allows if it allows at least one of them (AnyKey, Below) or all of them (EveryKey), and denies if it denies all of
// them (AnyKey, Below) or at least one of them (EveryKey). Perhaps is the same for the requests about one key.
func (e *evaluation) applies(effect Effect, matched truth) bool {
	switch e.q.Resource.Scope {
	case auth.AnyKey, auth.Below, auth.Perhaps:
		return matched == yes || matched == maybe && effect == Allow
	case auth.EveryKey:
		return matched == yes || matched == maybe && effect == Deny
	}
	return matched == yes
}

// find returns the first statement of the policies with an effect that applies to the request.
func (e *evaluation) find(policies []*Policy, effect Effect) *Statement {
	for _, p := range policies {
		for _, s := range p.statements {
			if s.Effect == effect && e.applies(effect, e.matches(s)) {
				return s
			}
		}
	}
	return nil
}

// denies returns the first statement of the bucket policy that denies the request.
func (e *evaluation) denies(p *Policy) *Statement {
	if p == nil {
		return nil
	}
	for _, s := range p.statements {
		if s.Effect == Deny && s.grants(e.caller) != noGrant && e.applies(Deny, e.matches(s)) {
			return s
		}
	}
	return nil
}

// allows returns the statement of the bucket policy that allows the request in the most direct way.
func (e *evaluation) allows(p *Policy) (found *Statement, level grant) {
	if p == nil {
		return nil, noGrant
	}
	for _, s := range p.statements {
		if s.Effect != Allow {
			continue
		}
		if to := s.grants(e.caller); to > level && e.applies(Allow, e.matches(s)) {
			found, level = s, to
		}
	}
	return found, level
}

// matches reports to which degree a statement matches the request, except for its principals. A statement with a
// variable that has no value does not match.
func (e *evaluation) matches(s *Statement) truth {
	if !s.actions.has(e.action.id) {
		return no
	}
	result := e.matchesResource(s)
	for i := range s.conditions {
		if result == no {
			return no
		}
		holds, resolved := e.holds(&s.conditions[i])
		if !resolved {
			return no
		}
		result = min(result, holds)
	}
	return result
}

// matchesResource reports to which degree Resource or NotResource of a statement matches the request.
func (e *evaluation) matchesResource(s *Statement) truth {
	isUnknown := false
	for _, v := range s.vars {
		state := e.valueOf(v).state
		if state == absent {
			return no
		}
		isUnknown = isUnknown || state == unknown
	}
	if isUnknown {
		return maybe
	}
	if e.subject == "" {
		e.setSubject()
	}
	result := no
	for i := range s.resources {
		tokens := e.resolve(s.resources[i].tokens)
		switch {
		case e.many && !s.resources[i].kinds.has(e.action.kind): // it could only match what lies below
		case e.many:
			result = max(result, matchPrefix(tokens, e.subject))
		default:
			result = max(result, truthOf(match(tokens, e.subject)))
		}
	}
	if s.notResource {
		return yes - result
	}
	return result
}

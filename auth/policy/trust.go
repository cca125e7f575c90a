package policy

// DecideTrust decides whether the caller may perform an action of STS on a role, such as sts:AssumeRole. trust is the
// trust policy of the role, q.ARN its ARN, and q.Resource.Account its account. The package comment explains how the
// decision differs from that of Decide. In the result, Bucket is the statement of the trust policy.
func DecideTrust(q *Request, trust *Policy) Result {
	a, c := table().byName[q.Action], q.Caller
	if a == nil || !a.isTrust() || !q.names(a.kind) || trust == nil || c == nil || !mayAssume(c) {
		return Result{Caller: c}
	}
	e := evaluation{q: q, action: a, caller: c}

	result := Result{Decision: ExplicitDeny, Caller: c}
	if result.Identity = e.find(c.Identity, Deny); result.Identity != nil {
		return result
	}
	if result.Session = e.find(c.Session, Deny); result.Session != nil {
		return result
	}
	if result.Bucket = e.denies(trust); result.Bucket != nil {
		return result
	}

	var level grant
	result.Bucket, level = e.allows(trust)
	result.Identity = e.find(c.Identity, Allow)
	result.Session = e.find(c.Session, Allow)
	withinSession := len(c.Session) == 0 || result.Session != nil
	owns := c.Principal.Account == q.Resource.Account
	switch {
	case level >= toAccount && result.Identity != nil && withinSession:
	case owns && level >= direct && withinSession:
	case owns && level == toSession:
	default:
		return Result{Caller: c}
	}
	result.Decision = Allowed
	return result
}

// mayAssume reports whether a caller is of a kind that can assume roles: a user, or a session of a role.
func mayAssume(c *Caller) bool {
	return c.Principal != nil && !c.Principal.IsAnonymous() && !isRoot(c.Principal) && c.Creator == nil
}

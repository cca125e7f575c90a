package s3

import (
	"errors"
	"fmt"
	"net/http"

	"orcas/auth"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
	"orcas/s3/apierr"
	"orcas/s3/bucketaccess"
)

// gate checks a request and then calls its handler. There is no other path to a handler.
func (s *Server) gate(q *request) error {
	if err := q.parse(); err != nil {
		return err
	}
	if q.r.Method == http.MethodOptions {
		return s.preflight(q)
	}
	if origin := q.r.Header["Origin"]; len(origin) > 0 {
		s.allowOrigin(q, origin[0])
	}
	if err := s.authenticate(q); err != nil {
		return err
	}
	found, err := s.authorized(q)
	if err != nil && q.caller.IsAnonymous() && !isInternal(err) {
		return s.denied(q)
	}
	if err != nil {
		return err
	}
	if err := q.checkExpectedOwner(); err != nil {
		return err
	}
	if q.route.writes && !s.allowed.EscapingKeys && climbs(q.key) {
		return errEscapingKey
	}
	if err := q.checkHeaders(); err != nil {
		return err
	}
	if q.comparesObject() {
		if err := q.authorize("s3:GetObject", q.keyResource()); err != nil {
			return err
		}
	}
	err = found.handle(q)
	if err != nil && q.route.Level == gate.Object && !q.asked.concealed && q.isAbsence(err) && !mutant.Is("no-conceal") {
		return q.conceal(err, q.bucket, q.key)
	}
	return err
}

// isInternal reports whether err is an InternalError, that is, a failure of the server.
func isInternal(err error) bool {
	var e *apierr.Error
	return errors.As(err, &e) && e.Code == errInternal.Code
}

// authenticate determines the sender of the request, which is auth.Anonymous if the request has no credentials.
func (s *Server) authenticate(q *request) error {
	id, err := gate.Authenticate(s.schemes, q.r)
	if err != nil {
		if err = authenticationError(err); !isInternal(err) {
			q.reason = gate.Authentication
		}
		return err
	}
	if q.isForm() {
		if id, err = s.authenticateForm(q, id); err != nil {
			return authenticationError(err)
		}
	}
	q.sender, q.auth, q.caller = id, id.Auth, id.Principal
	if q.auth.Presigned {
		q.hoistQuery()
	}
	return q.identified()
}

// authenticationError returns the S3 error for an error of gate.Authenticate.
func authenticationError(err error) error {
	var unknown *gate.LookupError
	switch {
	case errors.As(err, &unknown):
		return errInternal.Because(unknown.Cause)
	case errors.Is(err, gate.ErrThrottled):
		return errSlowDown.Say("Please reduce your request rate: " + err.Error() + ".")
	case errors.Is(err, gate.ErrToken):
		return errInvalidToken
	case errors.Is(err, gate.ErrExpired):
		return errExpiredToken
	case errors.Is(err, auth.ErrDenied):
		return errAccessDenied
	}
	return err
}

// authorized finds the operation and the bucket of a request, and checks that the sender may perform the operation.
func (s *Server) authorized(q *request) (*endpoint, error) {
	if err := q.checkNames(); err != nil {
		return nil, err
	}
	found, err := s.route(q)
	if err != nil {
		return nil, err
	}
	q.route = found.route
	if f := q.browser.form; f != nil {
		q.key = f.Value("key")
		if err := checkKey(q.key); err != nil {
			return nil, err
		}
	}
	if !q.route.withoutBucket {
		if q.bucket, err = s.fs.Bucket(q.ctx, q.bucketName); err != nil {
			return nil, err
		}
	}
	err = q.authorize(q.action(), q.resource())
	if errors.Is(err, errAccessDenied) && q.mayOtherwise() {
		return found, nil
	}
	if errors.Is(err, errAccessDenied) && s.knowsBucket(q) {
		return nil, errBucketOwned
	}
	return found, err
}

// knowsBucket reports whether a request would create a bucket that exists in the sender's account, and in which the
// sender may do something, so that it knows the bucket. Programs that create a bucket before they write to it, such as
// rclone, continue if the bucket is already theirs, but not if they may not create it.
func (s *Server) knowsBucket(q *request) bool {
	if q.route.Name != "CreateBucket" || q.caller.IsAnonymous() || q.asked.isExplicit {
		return false
	}
	b, err := s.fs.Bucket(q.ctx, q.bucketName)
	if err != nil || b.Owner != q.caller.Account {
		return false
	}
	r := bucketaccess.Resource(b)
	r.Scope = auth.AnyAction
	return q.decide(q.route.Action, r) == nil
}

// mayOtherwise reports whether a request without permission for the action of its route is allowed for another reason.
func (q *request) mayOtherwise() bool {
	switch {
	case q.route.Level == gate.Bucket && q.route.VersionAction != "": // the handler decides about each key and version
		return q.authorize(q.route.VersionAction, q.resource()) == nil
	case q.route.initiator && (!q.asked.isExplicit || mutant.Is("initiator-despite-deny")) && !q.caller.IsAnonymous():
		u := facts{q}.upload()
		return u != nil && isInitiator(q.caller, u.Owner)
	}
	return false
}

// action returns the action that the sender needs permission for.
func (q *request) action() auth.Action {
	if q.route.Level == gate.Object && q.route.VersionAction != "" {
		if _, named := q.query.get("versionId"); named {
			return q.route.VersionAction
		}
	}
	return q.route.Action
}

// resource returns the resource that the request addresses. If its bucket does not exist, the resource belongs to the
// sender's account.
func (q *request) resource() auth.Resource {
	r := q.keyResource()
	switch {
	case q.route.AnyAction && !q.caller.IsAnonymous():
		r.Scope = auth.AnyAction
	case q.route.Level == gate.Object && q.route.VersionAction != "":
		r.Version = q.s.ids.CanonicalVersion(q.query.value("versionId"))
	case q.browser.form != nil:
	case q.route.Level == gate.Bucket && q.route.Target() == gate.Object:
		r.Scope = auth.AnyKey
	case q.route.Level == gate.Bucket:
		r.Prefix = q.query.value("prefix")
	}
	return r
}

// may reports whether the sender may perform an action on the resource of the request. Without it, a part of the response
// is omitted.
func (q *request) may(a auth.Action) bool { return q.decide(a, q.resource()) == nil }

// ofVersion returns the second action if the request names a version, otherwise the first.
func (q *request) ofVersion(plain, versioned auth.Action) auth.Action {
	if _, named := q.query.get("versionId"); named {
		return versioned
	}
	return plain
}

// keyResource returns the key of the request as a resource, without a version, or the bucket if there is no key.
func (q *request) keyResource() auth.Resource {
	r := auth.Resource{Account: q.caller.Account, Bucket: q.bucketName}
	if q.bucket != nil {
		r = bucketaccess.Resource(q.bucket)
	}
	r.Key = q.key
	return r
}

// authorize checks that the sender may perform an action, without which the request is refused. While the body has not
// been read, it remembers the decision for stillAllowed.
func (q *request) authorize(a auth.Action, r auth.Resource) error {
	err := q.decide(a, r)
	if err == nil && q.body.rc != nil && !q.asked.arrived {
		q.asked.granted = append(q.asked.granted, granted{a, r})
	}
	return err
}

// stillAllowed takes all decisions about a request again, when its body has been read and before anything is changed.
// The body of a slow client may take hours, and in the meantime the access key may have been deleted, disabled or
// expired, or the policies may have changed. If nothing has, there is nothing to decide, unless a decision depended on
// the present time or on the tags of an existing version, which are looked up again.
func (q *request) stillAllowed() error {
	if q.body.rc == nil || q.asked.arrived || mutant.Is("decided-before-the-body") {
		return nil
	}
	q.asked.arrived = true
	caller, changed, err := q.sender.Again(q.ctx)
	if err != nil {
		return authenticationError(err)
	}
	q.caller = caller
	if q.asked.existing != nil && !mutant.Is("tags-looked-up-once") {
		q.asked.existing, changed = nil, true
	}
	if q.bucket != nil {
		b, err := q.s.fs.Bucket(q.ctx, q.bucketName)
		switch {
		case err != nil:
			return err
		case b.ID != q.bucket.ID:
			return errNoSuchBucket
		case bucketaccess.Resource(b) != bucketaccess.Resource(q.bucket):
			q.bucket, changed = b, true
		}
	}
	if !changed && !q.asked.timed {
		return nil
	}
	for _, g := range q.asked.granted {
		r := g.on
		if q.bucket != nil && r.Bucket == q.bucket.Name {
			now := bucketaccess.Resource(q.bucket)
			r.Account, r.Policy, r.Principals, r.RestrictPublic = now.Account, now.Policy, now.Principals, now.RestrictPublic
		}
		if err := q.decide(g.action, r); err != nil {
			return err
		}
	}
	return nil
}

// decide decides whether the sender may perform an action, which must be the action of the route or a secondary action
// that the route declares.
func (q *request) decide(a auth.Action, r auth.Resource) error {
	if !q.route.Declares(a) {
		return errInternal.Because(fmt.Errorf("route %s does not declare the action %q", q.route.Name, a))
	}
	q.asked.about, q.asked.failure = r, nil
	err := q.s.authorizer.Authorize(q.ctx, q.caller, a, r, facts{q})
	q.asked.isExplicit = errors.Is(err, auth.ErrExplicitDeny)
	switch {
	case q.asked.failure != nil:
		return errInternal.Because(q.asked.failure)
	case err == nil:
		return nil
	case errors.Is(err, auth.ErrDenied):
		return errAccessDenied
	default:
		return errInternal.Because(err) // the kind of the authorizer's error does not apply to the request
	}
}

// denied returns the error for an anonymous request that is refused for any reason other than a failure of the server.
// The existence of a bucket is not secret: an anonymous request for a bucket that does not exist gets NoSuchBucket,
// unless it would create the bucket.
func (s *Server) denied(q *request) error {
	creates := q.r.Method == http.MethodPut && q.level() == gate.Bucket
	if creates || !ValidBucketName(q.bucketName) {
		return errAccessDenied
	}
	if q.bucket == nil {
		if _, missing := s.fs.Bucket(q.ctx, q.bucketName); core.Is(missing, core.NoSuchBucket) {
			return missing
		}
	}
	return errAccessDenied
}

package identity

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"orcas/auth"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/gate"
	"orcas/internal/mutant"
)

// AssumeRole describes a session to begin.
type AssumeRole struct {
	Role       string        // the ARN of the role
	Session    string        // the name of the session: 2 to 64 letters, digits and characters of _+=,.@-
	Duration   time.Duration // from 15 minutes to the maximum of the role; 0: an hour
	ExternalID string        // the condition key sts:ExternalId; "" if there is none
	Facts      auth.Facts    // of the request; nil if there are none

	// The session can do only what the role and these policies allow, if there are any: a document of at most 2,048
	// characters, and at most 10 ARNs of managed policies of the role's account, or of built-in policies
	// (arn:aws:iam::aws:policy/readonly).
	Policy     string
	PolicyARNs []string
}

// Session is the temporary credentials of a session.
type Session struct {
	Secret
	Token     string // to be sent with each request
	Expires   time.Time
	Principal *auth.Principal

	// PackedSize is the size of the session policies in percent of the largest size; 0 if there are none.
	PackedSize int
}

// Limits, as in STS.
const (
	defaultSession = time.Hour
	leastSession   = 15 * time.Minute
	mostChained    = time.Hour // of the session of a role that was assumed with a session of another role
	maxPolicy      = 2048      // characters of the session policy
	maxPolicyARNs  = 10
	maxExternalID  = 1224 // characters
)

// maxOrigins is the maximum length of ticket.Origins. STS has no such limit.
const maxOrigins = 20

var (
	validSession  = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{2,64}$`)
	validExternal = regexp.MustCompile(`^[A-Za-z0-9_+=,.@:/-]+$`)
)

// ticket is the content of a session token.
type ticket struct {
	AccessKey string   `json:"k"`
	SecretKey string   `json:"s"`
	Role      string   `json:"r"` // its ID
	Name      string   `json:"n"` // of the session
	Issued    int64    `json:"i"` // in seconds since 1970
	Expires   int64    `json:"e"` // in seconds since 1970
	Origins   []string `json:"o"` // the IDs of the user that began the session, and of the roles in between
	Policy    string   `json:"p,omitempty"`
	Managed   []string `json:"m,omitempty"` // IDs of managed session policies, or names of built-in ones
}

func (t *ticket) expires() time.Time { return time.Unix(t.Expires, 0) }

// session is a session whose token was opened.
type session struct {
	ticket
	token string
	limit *policy.Policy // compiled from ticket.Policy; nil if there is none

	last atomic.Pointer[sessionCaller]
}

// sessionCaller is the caller that a session is while the directory has a state: nil if it must not do anything.
type sessionCaller struct {
	of     *state
	caller *policy.Caller
}

// AssumeRole begins a session of a role. It decides by the trust policy of the role and the policies of the caller
// (policy.DecideTrust), and returns the same error whether the role does not exist or the caller may not assume it. It
// stores nothing.
func (d *Directory) AssumeRole(_ context.Context, by *auth.Principal, in AssumeRole) (*Session, error) {
	s, caller := d.now.Load(), d.Caller(by)
	if err := in.check(); err != nil {
		return nil, err
	}
	if caller != nil && caller.Principal.ARN == auth.RootARN(caller.Principal.Account) {
		return nil, fail(Denied, "Roles may not be assumed by root accounts.")
	}
	r, exists := s.roles[s.principals[in.Role]]
	if caller == nil || !exists || r.decide(caller, &in).Decision != policy.Allowed && !mutant.Is("no-trust") {
		return nil, fail(Denied, "User: %s is not authorized to perform: sts:AssumeRole on resource: %s", by.ARN, in.Role)
	}

	t := &ticket{Role: r.ID, Name: in.Session, Policy: in.Policy, Origins: []string{by.ID}}
	from, chained := by.Temporary.(*session)
	if chained {
		t.Origins = from.Origins
		if !slices.Contains(t.Origins, from.Role) {
			t.Origins = append(slices.Clip(t.Origins), from.Role)
		}
	}
	lifetime := in.Duration
	if lifetime == 0 {
		lifetime = defaultSession
	}
	switch {
	case lifetime > time.Duration(r.entry.MaxSession)*time.Second:
		return nil, fail(Validation, "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	case chained && lifetime > mostChained && !mutant.Is("long-chains"):
		return nil, fail(Validation, "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining")
	case len(t.Origins) > maxOrigins:
		return nil, fail(Validation, "the chain of roles has more than %d roles", maxOrigins)
	}
	now := d.time()
	t.Issued, t.Expires = now.Unix(), now.Add(lifetime).Unix()
	var err error
	if t.Managed, err = s.policyIDs(r.Principal.Account, in.PolicyARNs); err != nil {
		return nil, err
	}
	return d.sessions.issue(t, in.packedSize())
}

// decide decides whether a caller may assume a role.
func (r role) decide(caller *policy.Caller, in *AssumeRole) policy.Result {
	q := &policy.Request{Caller: caller, Action: "sts:AssumeRole", ARN: in.Role, Facts: assumeFacts{in, r}}
	q.Resource.Account = r.Principal.Account
	return policy.DecideTrust(q, r.entry.trust)
}

// ExplainAssumeRole returns the decision whether a principal may assume a role, as AssumeRole takes it.
func (d *Directory) ExplainAssumeRole(by *auth.Principal, in AssumeRole) (policy.Result, error) {
	s, caller := d.now.Load(), d.Caller(by)
	r, exists := s.roles[s.principals[in.Role]]
	switch {
	case caller == nil:
		return policy.Result{}, auth.ErrDenied
	case !exists:
		return policy.Result{}, fail(NoSuchEntity, "there is no role with the ARN %s", in.Role)
	}
	return r.decide(caller, &in), nil
}

// SessionOf returns the principal that a session of a role of an account would be now, with the session policies of in.
// Nobody can send requests as that principal: it has no credentials.
func (d *Directory) SessionOf(account, role string, in AssumeRole) (*auth.Principal, error) {
	i, err := d.Get(Role, account, role)
	if err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	now := d.time()
	of := &session{ticket: ticket{Role: i.ID, Name: in.Session, Issued: now.Unix(), Expires: now.Add(leastSession).Unix(), Policy: in.Policy}}
	if of.Managed, err = d.now.Load().policyIDs(account, in.PolicyARNs); err != nil {
		return nil, err
	}
	if of.Policy != "" {
		if of.limit, err = parsePolicy(sessionPolicy, of.Policy); err != nil {
			return nil, err
		}
	}
	c := d.sessions.caller(of)
	if c == nil {
		return nil, fail(Denied, "the role %s has a policy that cannot be read, so it cannot be assumed", i.Name)
	}
	return c.Principal, nil
}

// check checks the parameters that do not depend on the role.
func (in *AssumeRole) check() error {
	switch {
	case !validSession.MatchString(in.Session):
		return fail(Validation, "the name of the session must have 2 to 64 letters, digits and characters of _+=,.@-")
	case in.ExternalID != "" && (!validExternal.MatchString(in.ExternalID) || len(in.ExternalID) < 2 || len(in.ExternalID) > maxExternalID):
		return fail(Validation, "the external ID must have 2 to %d letters, digits and characters of _+=,.@:/-", maxExternalID)
	case in.Duration != 0 && (in.Duration < leastSession || in.Duration > mostMaxSession || in.Duration%time.Second != 0):
		return fail(Validation, "the duration must be from 900 to %d seconds", mostMaxSession/time.Second)
	case utf8.RuneCountInString(in.Policy) > maxPolicy:
		return fail(Validation, "the session policy must have at most %d characters", maxPolicy)
	case len(in.PolicyARNs) > maxPolicyARNs:
		return fail(Validation, "there can be at most %d managed session policies", maxPolicyARNs)
	}
	if in.Policy != "" {
		_, err := parsePolicy(sessionPolicy, in.Policy)
		return err
	}
	return nil
}

// sessionPolicy is the name of a session policy, for messages.
const sessionPolicy = "of the session"

// packedSize returns the value of Session.PackedSize.
func (in *AssumeRole) packedSize() int {
	const most = maxPolicy + maxPolicyARNs*100 // a policy ARN has about 100 characters at most
	n := len(in.Policy)
	for _, arn := range in.PolicyARNs {
		n += len(arn)
	}
	return min(100, (n*100+most-1)/most)
}

// policyIDs returns the IDs of the session policies with ARNs (policyID).
func (s *state) policyIDs(account string, arns []string) (ids []string, err error) {
	for _, arn := range arns {
		id := s.policyID(account, arn)
		if id == "" {
			return nil, fail(NoSuchEntity, "The policy %s does not exist, or is not one of the role's account.", arn)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// policyID returns the ID of a managed policy of an account, or the name of a built-in one, by the ARN. It returns ""
// if there is none.
func (s *state) policyID(account, arn string) string {
	if name, ok := strings.CutPrefix(arn, "arn:aws:iam::aws:policy/"); ok && policy.BuiltIn(name) != nil {
		return name
	}
	name, ok := strings.CutPrefix(arn, "arn:aws:iam::"+account+":policy/")
	if e := s.get(policyRecords, account, name); ok && e != nil && e.managed.ARN() == arn {
		return e.managed.ID
	}
	return ""
}

// assumeFacts adds the condition keys of sts:AssumeRole to those of a request.
type assumeFacts struct {
	in   *AssumeRole
	role role
}

// Fact implements auth.Facts.
func (f assumeFacts) Fact(key string) (string, bool) {
	switch key {
	case "sts:ExternalId":
		return f.in.ExternalID, f.in.ExternalID != ""
	case "sts:RoleSessionName":
		return f.in.Session, true
	}
	for _, prefix := range []string{"iam:ResourceTag/", "aws:ResourceTag/"} {
		if tag, ok := strings.CutPrefix(key, prefix); ok {
			return f.tag(tag)
		}
	}
	if f.in.Facts == nil || strings.HasPrefix(key, "sts:") || strings.HasPrefix(key, "iam:") {
		return "", false
	}
	return f.in.Facts.Fact(key)
}

// tag returns a tag of the role. The keys of such tags are compared without case.
func (f assumeFacts) tag(key string) (string, bool) {
	if f.role.Caller == nil {
		return "", false
	}
	for k, v := range f.role.Principal.Tags {
		if strings.EqualFold(k, key) {
			return v, true
		}
	}
	return "", false
}

// issue returns the credentials for a ticket.
func (l *sessions) issue(t *ticket, packed int) (*Session, error) {
	if l.of.tokens.Load() == nil {
		if err := l.makeKey(); err != nil {
			return nil, err
		}
	}
	t.AccessKey, t.SecretKey = newID(temporaryPrefix, accessKeyLength), newSecret()
	token, err := l.seal(t)
	if err != nil {
		return nil, err
	}
	opened, err := l.open(token)
	if err != nil {
		return nil, err
	}
	c := l.caller(opened)
	if c == nil {
		return nil, fail(Denied, "the role or the caller was deleted")
	}
	return &Session{
		Secret: Secret{t.AccessKey, t.SecretKey}, Token: token, Expires: t.expires().UTC(), Principal: c.Principal, PackedSize: packed,
	}, nil
}

// makeKey makes the key of the directory, if there is none.
func (l *sessions) makeKey() error {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.vault.aead != nil {
		return nil
	}
	return l.of.makeKey(l.of.now.Load())
}

// tokenVersion is the first byte of each session token.
const tokenVersion = 1

// tokenData is authenticated with the content of each session token.
var tokenData = []byte("ORCAS session token 1")

// seal returns the session token with a ticket.
func (l *sessions) seal(t *ticket) (string, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return "", err
	}
	aead := *l.of.tokens.Load()
	n := aead.NonceSize()
	out := make([]byte, 1+n, 1+n+len(text)+aead.Overhead())
	out[0] = tokenVersion
	_, _ = rand.Read(out[1:]) // never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(out, out[1:1+n], text, tokenData)), nil
}

// unseal is the inverse of seal.
func (l *sessions) unseal(token string) (*ticket, error) {
	aead := l.of.tokens.Load()
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || aead == nil {
		return nil, gate.ErrToken
	}
	n := (*aead).NonceSize()
	if len(sealed) < 1+n || sealed[0] != tokenVersion {
		return nil, gate.ErrToken
	}
	text, err := (*aead).Open(nil, sealed[1:1+n], sealed[1+n:], tokenData)
	if err != nil {
		return nil, gate.ErrToken
	}
	t := &ticket{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // they might restrict the session
	if err := decoder.Decode(t); err != nil {
		return nil, gate.ErrToken
	}
	return t, nil
}

// open returns the session with a token.
func (l *sessions) open(token string) (*session, error) {
	if s := l.get(token); s != nil {
		return s, nil
	}
	t, err := l.unseal(token)
	if err != nil {
		return nil, err
	}
	s := &session{ticket: *t, token: strings.Clone(token)} // it may be a part of the headers of a request
	if t.Policy != "" {
		if s.limit, err = parsePolicy(sessionPolicy, t.Policy); err != nil {
			return nil, core.E("identity.open", core.Unsupported, err)
		}
	}
	l.put(s)
	return s, nil
}

// lookup returns the credential of a temporary access key. The key without a token is unknown, as in S3.
func (l *sessions) lookup(accessKey, token string) (gate.Credential, error) {
	if token == "" {
		return gate.Credential{}, nil
	}
	s, err := l.open(token)
	switch {
	case err != nil:
		return gate.Credential{}, err
	case s.AccessKey != accessKey && !mutant.Is("token-of-another"):
		return gate.Credential{}, gate.ErrToken
	case l.of.expired(s.expires()):
		return gate.Credential{}, gate.ErrExpired
	}
	c := l.caller(s)
	if c == nil {
		return gate.Credential{}, nil
	}
	return gate.Credential{SecretKey: s.SecretKey, Principal: c.Principal, Token: s.token}, nil
}

// caller returns the caller that a session is now, or nil if it must not do anything: the role, a managed session
// policy, the user that began the session, or a role in between was deleted, or the session has expired.
func (l *sessions) caller(s *session) *policy.Caller {
	if l.of.expired(s.expires()) {
		return nil
	}
	now := l.of.now.Load()
	if last := s.last.Load(); last != nil && (last.of == now || mutant.Is("sessions-keep-rights")) {
		return last.caller
	}
	c := now.sessionCaller(s)
	s.last.Store(&sessionCaller{now, c})
	return c
}

func (s *state) sessionCaller(of *session) *policy.Caller {
	r, ok := s.roles[of.Role]
	if !ok {
		return nil
	}
	for _, id := range of.Origins {
		_, isUser := s.callers[id]
		if _, isRole := s.roles[id]; !isUser && !isRole {
			return nil
		}
	}
	account := r.Principal.Account
	c := &policy.Caller{
		Principal: &auth.Principal{
			Account: account, ARN: fmt.Sprintf("arn:aws:sts::%s:assumed-role/%s/%s", account, r.entry.Name, of.Name),
			ID: of.Role + ":" + of.Name, Tags: r.Principal.Tags, Session: of.Name, Role: of.Role, Temporary: of,
		},
		Canonical: r.Canonical, Role: r.Principal.ARN, ID: of.Role + ":" + of.Name, Issued: time.Unix(of.Issued, 0),
		Identity: r.Identity,
	}
	if of.limit != nil {
		c.Session = append(c.Session, of.limit)
	}
	for _, id := range of.Managed {
		p := s.policyByID(id)
		if p == nil {
			return nil
		}
		c.Session = append(c.Session, p)
	}
	return c
}

// maxSessions is the total size of the tokens of the sessions that are kept in memory, in bytes. A session takes several
// times the size of its token.
const maxSessions = 2 << 20

// sessions begins and opens sessions. It keeps those whose tokens were opened, so that not every request must open its
// token. Only valid tokens get there.
type sessions struct {
	of *records

	mu      sync.RWMutex
	byToken map[string]*session // guarded by mu
	size    int                 // of the tokens, in bytes; guarded by mu
}

func (l *sessions) get(token string) *session {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.byToken[token]
}

func (l *sessions) put(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byToken[s.token] != nil {
		return
	}
	if l.byToken == nil || l.size+len(s.token) > maxSessions {
		l.byToken, l.size = map[string]*session{}, 0
	}
	l.byToken[s.token] = s
	l.size += len(s.token)
}

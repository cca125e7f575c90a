package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/s3/bucketaccess"
)

// Simulation is the decision about a request that was not made.
type Simulation struct {
	Decision   string              `json:"decision"`   // allow, explicitDeny or implicitDeny
	Statements []SimulatedMatch    `json:"statements"` // that decided; none after implicitDeny, and if the root is allowed
	Principal  string              `json:"principal"`  // the ARN of the sender, or "anonymous"
	DecidedBy  string              `json:"decided_by"` // the principal, or the creator of the key that is not allowed
	Action     auth.Action         `json:"action"`
	Resource   string              `json:"resource"`
	Context    map[string][]string `json:"context"` // the condition keys of the request, with the defaults
}

// SimulatedMatch is a statement that decided.
type SimulatedMatch struct {
	Policy string `json:"policy"` // the name of the policy, or of the bucket or the role that has it
	Source string `json:"source"` // identity, bucket, session or trust
	Of     string `json:"of"`     // the ARN of the principal, the bucket or the role that has the policy
	Index  int    `json:"index"`  // the position of the statement in the document, from 1
	Sid    string `json:"sid,omitempty"`
	Line   int    `json:"line"` // of the document, at which the statement begins
	Effect string `json:"effect"`
}

// simulate decides about a request with the policies that are in force, by the code that decides about real requests.
func (s *Store) simulate(r *http.Request) (any, error) { return s.simulateWith(r, "") }

// drafts are policies that are not in force.
type drafts struct {
	Bucket json.RawMessage `json:"bucket_policy"` // of the bucket of the resource
}

// simulateDraft is like simulate, with a draft of the policy of the bucket instead of its policy.
func (s *Store) simulateDraft(r *http.Request) (any, error) {
	var d drafts
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &d); err != nil || len(d.Bucket) == 0 {
		return nil, invalid("admin.simulate", `expected the body {"bucket_policy": DOCUMENT}`)
	}
	return s.simulateWith(r, string(d.Bucket))
}

// simulateWith decides about a request. If draft is not "", it replaces the policy of the bucket.
func (s *Store) simulateWith(r *http.Request, draft string) (any, error) {
	q := r.URL.Query()
	p, err := s.simulated(r.Context(), q, callerOf(r).Account)
	if err != nil {
		return nil, err
	}
	a, known := policy.LookupAction(q.Get("action"))
	if !known {
		return nil, invalid("admin.simulate", "unknown action %q: expected the name of one action, such as s3:GetObject", q.Get("action"))
	}
	facts, err := s.simulatedFacts(a, q["context"])
	if err != nil {
		return nil, err
	}
	var result policy.Result
	if a.Name == assumeRole {
		result, err = s.simulatedTrust(p, q.Get("resource"), facts)
	} else {
		var resource auth.Resource
		if resource, err = s.simulatedResource(r.Context(), a, q.Get("resource"), p); err == nil && draft != "" {
			err = s.useDraft(&resource, draft)
		}
		if err == nil {
			result, err = s.Access.Explain(p, a.Name, resource, facts)
		}
	}
	if errors.Is(err, auth.ErrDenied) {
		return nil, invalid("admin.simulate", "%s does not exist any longer, is disabled or has expired, so its requests are refused", p.ARN)
	}
	if err != nil {
		return nil, err
	}
	return simulation(p, a.Name, q.Get("resource"), &result, facts), nil
}

// useDraft makes a draft the policy of the bucket of a resource.
func (s *Store) useDraft(r *auth.Resource, draft string) error {
	if r.Bucket == "" {
		return invalid("admin.simulate", "the resource must be a bucket or an object, because the draft is the policy of a bucket")
	}
	prepared, err := bucketaccess.Prepare(r.Bucket, draft, s.Keys)
	if err != nil {
		return invalid("admin.simulate", "the draft: %w", err)
	}
	var b core.BucketInfo
	prepared.Set(&b)
	with := bucketaccess.Resource(&b)
	r.Policy, r.Principals = with.Policy, with.Principals
	return nil
}

// simulation describes a result.
func simulation(p *auth.Principal, a auth.Action, resource string, result *policy.Result, facts simulatedFacts) *Simulation {
	out := &Simulation{
		Decision: result.Decision.String(), Statements: []SimulatedMatch{}, Principal: nameOf(p),
		DecidedBy: nameOf(result.Caller.Principal), Action: a, Resource: resource, Context: facts,
	}
	add := func(source, of string, m *policy.Statement) {
		if m == nil {
			return
		}
		effect := "Allow"
		if m.Effect == policy.Deny {
			effect = "Deny"
		}
		out.Statements = append(out.Statements, SimulatedMatch{
			Policy: m.Policy, Source: source, Of: of, Index: m.Index, Sid: m.Sid, Line: m.Line, Effect: effect,
		})
	}
	add("identity", out.DecidedBy, result.Identity)
	switch m := result.Bucket; {
	case m == nil:
	case a == assumeRole:
		add("trust", resource, m)
	default:
		add("bucket", bucketARN+m.Policy, m)
	}
	add("session", out.DecidedBy, result.Session)
	return out
}

// nameOf returns the name of a principal in a simulation.
func nameOf(p *auth.Principal) string {
	if p.IsAnonymous() {
		return "anonymous"
	}
	return p.ARN
}

// assumeRole is the action that begins a session of a role. The trust policy of the role decides about it.
const assumeRole = "sts:AssumeRole"

// simulatedTrust decides whether a principal may assume the role with an ARN.
func (s *Store) simulatedTrust(p *auth.Principal, role string, facts simulatedFacts) (policy.Result, error) {
	const op = "admin.simulate"
	for name := range facts {
		if strings.HasPrefix(name, "iam:ResourceTag/") {
			return policy.Result{}, invalid(op, "context: the value of %s follows from the tags of the role, so it cannot be given", name)
		}
	}
	if !strings.HasPrefix(role, "arn:aws:iam::") || !strings.Contains(role, ":role/") {
		return policy.Result{}, invalid(op, "%s needs the ARN of a role, such as arn:aws:iam::%s:role/NAME, not %q", assumeRole, p.Account, role)
	}
	if facts["sts:RoleSessionName"] == nil {
		facts["sts:RoleSessionName"] = []string{simulatedSession}
	}
	name, _ := facts.Fact("sts:RoleSessionName")
	external, _ := facts.Fact("sts:ExternalId")
	return s.Keys.ExplainAssumeRole(p, identity.AssumeRole{Role: role, Session: name, ExternalID: external, Facts: facts})
}

// simulatedSession is the name of a session, unless the request gives another one.
const simulatedSession = "simulation"

// simulated returns the principal that sends the request: that of an access key, of an application key by its name, of a
// user, of a session of a role, or nobody. It must belong to the account.
func (s *Store) simulated(ctx context.Context, q url.Values, account string) (*auth.Principal, error) {
	anonymous := q.Get("anonymous") == "true"
	if n := len(q["key"]) + len(q["user"]) + len(q["role"]) + len(q["anonymous"]); n != 1 || q.Has("anonymous") && !anonymous {
		return nil, invalid("admin.simulate", "expected one of key, user, role and anonymous=true")
	}
	if !q.Has("role") && (q.Has("session") || q.Has("session-policy") || q.Has("session-policy-arn")) {
		return nil, invalid("admin.simulate", "only a role has sessions: session, session-policy and session-policy-arn need role")
	}
	if anonymous {
		return auth.Anonymous, nil
	}
	if q.Has("user") {
		return s.principal(identity.User, account, q.Get("user"))
	}
	if q.Has("role") {
		return s.Keys.SessionOf(account, q.Get("role"), identity.AssumeRole{
			Session: cmp.Or(q.Get("session"), simulatedSession), Policy: q.Get("session-policy"), PolicyARNs: q["session-policy-arn"],
		})
	}
	key := q.Get("key")
	found, err := s.Lookup(ctx, key, "")
	if err != nil {
		return nil, err
	}
	if found.SecretKey != "" && found.Principal != nil && found.Principal.Account == account {
		return found.Principal, nil
	}
	p, err := s.principal(identity.Key, account, key)
	var missing *identity.Error
	if errors.As(err, &missing) {
		missing.Text = fmt.Sprintf("there is no key %s: expected an access key that is in use, or the name of a key for a program", key)
	}
	return p, err
}

// principal returns the principal of an identity.
func (s *Store) principal(kind identity.Kind, account, name string) (*auth.Principal, error) {
	i, err := s.Keys.Get(kind, account, name)
	if err != nil {
		return nil, err
	}
	p := &auth.Principal{Account: i.Account, ARN: i.ARN(), ID: i.ID}
	if c := s.Keys.Caller(p); c != nil {
		p = c.Principal
	}
	return p, nil
}

const bucketARN = "arn:aws:s3:::"

// simulatedResource returns the resource with an ARN, which must be of the type that the action has. Without an ARN, the
// resource is the server or S3 as a whole.
func (s *Store) simulatedResource(ctx context.Context, a policy.ActionInfo, arn string, p *auth.Principal) (auth.Resource, error) {
	const op = "admin.simulate"
	own := auth.Resource{Account: p.Account}
	if a.Resource == "none" || a.Resource == "service" {
		if arn != "" && arn != "*" {
			return own, invalid(op, "%s has no resource: leave the resource out instead of %q", a.Name, arn)
		}
		return own, nil
	}
	if a.Resource != "bucket" && a.Resource != "object" {
		if _, ok := strings.CutPrefix(arn, "arn:aws:iam::"+p.Account+":"+a.Resource+"/"); !ok {
			return own, invalid(op, "%s needs the ARN of a %s in the account, such as arn:aws:iam::%s:%[2]s/NAME, not %q",
				a.Name, a.Resource, p.Account, arn)
		}
		own.ARN = arn
		return own, nil
	}
	name, ok := strings.CutPrefix(arn, bucketARN)
	bucket, key, isObject := strings.Cut(name, "/")
	switch {
	case !ok || bucket == "" || isObject && key == "":
		return own, invalid(op, "expected the ARN of a bucket or of an object, such as arn:aws:s3:::BUCKET/KEY, not %q", arn)
	case isObject != (a.Resource == "object"):
		return own, invalid(op, "%s is an action on %ss, but %s is not the ARN of one", a.Name, a.Resource, arn)
	}
	b, err := s.FS.Bucket(ctx, bucket)
	if core.Is(err, core.NoSuchBucket) && a.Name == "s3:CreateBucket" {
		own.Bucket = bucket
		return own, nil
	}
	if err != nil {
		return own, named(bucket, err)
	}
	r := bucketaccess.Resource(b)
	r.Key = key
	return r, nil
}

// simulatedFacts are the condition keys of a simulated request.
type simulatedFacts map[string][]string

// Fact implements auth.Facts.
func (f simulatedFacts) Fact(key string) (string, bool) {
	if v := f[key]; len(v) > 0 {
		return v[0], true
	}
	return "", false
}

// FactList implements policy.ListFacts.
func (f simulatedFacts) FactList(key string) []string { return f[key] }

// simulatedFacts parses condition keys in the form NAME=VALUE. By default a request is made now, and over TLS if S3 is
// served over TLS.
func (s *Store) simulatedFacts(a policy.ActionInfo, given []string) (simulatedFacts, error) {
	const op = "admin.simulate"
	facts := simulatedFacts{}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		k, known := policy.LookupKey(name)
		switch _, applies := policy.Supports(a.Name, name); {
		case !ok:
			return nil, invalid(op, "context: expected NAME=VALUE, not %q", text)
		case !known:
			return nil, invalid(op, "context: unknown condition key %q", name)
		case k.OfCaller:
			return nil, invalid(op, "context: the value of %s follows from the key and the resource, so it cannot be given", k.Name)
		case !applies:
			return nil, invalid(op, "context: the condition key %s does not apply to %s", k.Name, a.Name)
		case len(facts[k.Name]) > 0 && !k.List:
			return nil, invalid(op, "context: %s can have only one value", k.Name)
		}
		facts[k.Name] = append(slices.Clip(facts[k.Name]), value)
	}
	now := s.now()
	for name, value := range map[string]string{
		"aws:CurrentTime": now.UTC().Format(time.RFC3339), "aws:EpochTime": strconv.FormatInt(now.Unix(), 10),
		"aws:SecureTransport": strconv.FormatBool(strings.HasPrefix(s.Endpoint, "https://")),
	} {
		if facts[name] == nil {
			facts[name] = []string{value}
		}
	}
	return facts, nil
}

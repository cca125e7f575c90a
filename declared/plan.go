package declared

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"orcas/admin"
	"orcas/auth"
	"orcas/auth/identity"
	"orcas/auth/policy"
	"orcas/core"
	"orcas/s3"
	"orcas/vfs"
)

// Store is the store that is to have what a file declares.
type Store struct {
	FS          *vfs.FS
	Identities  *identity.Directory
	Region      string // of new buckets
	OpenBuckets bool   // new buckets have no public access block
	RootKey     string // the access key of the root, which no other identity can have
	Endpoint    string // the URL of S3, which goes with new keys
	With        string // the access key of the principal that applies a file; "" if there is none
}

// Plan is the changes that make a store have what a file declares.
type Plan struct{ steps []step }

// step is one change of the store.
type step struct {
	admin.AppliedChange
	do func(context.Context) (*admin.AppliedKey, error) // returns the key that it has created, or nil
}

// Changes returns the changes, in the order in which they are applied.
func (p *Plan) Changes() []admin.AppliedChange {
	list := make([]admin.AppliedChange, 0, len(p.steps))
	for i := range p.steps {
		list = append(list, p.steps[i].AppliedChange)
	}
	return list
}

// Apply applies the changes. The result has those that were applied, also after an error, which is in Failed then. For
// each new key, created is called before the next step.
func (p *Plan) Apply(ctx context.Context, created func(*admin.AppliedKey) error) *admin.Applied {
	done := &admin.Applied{Changes: []admin.AppliedChange{}, Keys: []admin.AppliedKey{}}
	for i := range p.steps {
		s := &p.steps[i]
		key, err := s.do(ctx)
		if err != nil {
			done.Failed = fmt.Sprintf("%s %s: %s", s.Kind, s.Name, core.Text(err))
			done.Err, done.Refused = err, &s.AppliedChange
			return done
		}
		done.Changes = append(done.Changes, s.AppliedChange)
		if key == nil {
			continue
		}
		done.Keys = append(done.Keys, *key)
		if err := created(key); err != nil {
			done.Failed = fmt.Sprintf("%s %s: the secret cannot be kept: %s", s.Kind, s.Name, core.Text(err))
			done.Err = err
			return done
		}
	}
	return done
}

// planner collects the steps.
type planner struct {
	*File
	Store
	ctx     context.Context
	by      *auth.Principal
	secrets map[string]string // by the name of the file

	plan     Plan
	policies map[string]bool // the managed policies that exist or are declared, in lower case
	groups   map[string]bool
	buckets  map[string]bool
	arns     map[string]bool // the principals that the steps create, until the steps are done
	taken    map[string]bool // the access keys that are declared

	// The users that the steps create, and the roles that are planned so far. A trust policy can name them.
	principals map[string]bool
}

// MakePlan compares a file with a store, and returns the changes that a principal would apply. Buckets and identities belong
// to its account, and application keys never exceed it. secrets are the contents of the files that SecretFiles returns.
// If the file is wrong, or contradicts the store, the error is an *Error, and nothing is to be changed.
func MakePlan(ctx context.Context, f *File, s Store, by *auth.Principal, secrets map[string]string) (*Plan, error) {
	p := &planner{
		File: f, Store: s, ctx: ctx, by: by, secrets: secrets,
		policies: map[string]bool{}, groups: map[string]bool{}, buckets: map[string]bool{}, arns: map[string]bool{},
		taken: map[string]bool{}, principals: map[string]bool{},
	}
	if err := p.checkNames(); err != nil {
		return nil, err
	}
	for _, part := range []func() error{
		p.planAccounts, p.planPolicies, p.planGroups, p.planUsers, p.planRoles, p.planKeys, p.planBuckets,
	} {
		if err := part(); err != nil {
			return nil, err
		}
	}
	clear(p.arns) // when the steps are done, all principals must exist
	return &p.plan, nil
}

// add adds a step. detail is what changes, or "" if the object is created.
func (p *planner) add(kind, name, detail string, do func(context.Context) error) {
	p.addKey(kind, name, detail, func(ctx context.Context) (*admin.AppliedKey, error) { return nil, do(ctx) })
}

func (p *planner) addKey(kind, name, detail string, do func(context.Context) (*admin.AppliedKey, error)) {
	action := "create"
	if detail != "" {
		action = "change"
	}
	p.plan.steps = append(p.plan.steps, step{admin.AppliedChange{Action: action, Kind: kind, Name: name, Detail: detail}, do})
}

// checkNames checks the names in the file, and collects them.
func (p *planner) checkNames() error {
	for _, list := range []struct {
		key   string
		names []string
		check func(string) error
		into  map[string]bool
		kind  identity.Kind // of principals
	}{
		{"accounts", namesOf(p.Accounts, func(e *accountEntry) string { return e.Name }), identity.CheckName, map[string]bool{}, ""},
		{"policies", namesOf(p.Policies, func(e *policyEntry) string { return e.Name }), identity.CheckName, p.policies, ""},
		{"groups", namesOf(p.Groups, func(e *groupEntry) string { return e.Name }), identity.CheckName, p.groups, ""},
		{"users", namesOf(p.Users, func(e *userEntry) string { return e.Name }), identity.CheckName, map[string]bool{}, identity.User},
		{"roles", namesOf(p.Roles, func(e *roleEntry) string { return e.Name }), identity.CheckName, map[string]bool{}, identity.Role},
		{"buckets", namesOf(p.Buckets, func(e *bucketEntry) string { return e.Name }), checkBucketName, p.buckets, ""},
		{"keys", namesOf(p.Keys, func(e *keyEntry) string { return e.Name }), identity.CheckName, map[string]bool{}, identity.Key},
	} {
		for i, name := range list.names {
			at := []any{list.key, i, "name"}
			if err := list.check(name); err != nil {
				return p.fail(at, "%s", err)
			}
			if list.into[strings.ToLower(name)] {
				return p.fail(at, "the name %q is used twice in %s", name, list.key)
			}
			list.into[strings.ToLower(name)] = true
			if list.kind == "" {
				continue
			}
			// One that exists keeps its name, which may differ in case. Policies must name it so.
			if _, err := p.Identities.Get(list.kind, p.by.Account, name); err == nil {
				continue
			}
			p.arns[p.arn(string(list.kind)+"/"+name)] = true
			if list.kind == identity.User {
				p.principals[p.arn("user/"+name)] = true
			}
		}
	}
	return nil
}

func namesOf[E any](entries []E, name func(*E) string) (list []string) {
	for i := range entries {
		list = append(list, name(&entries[i]))
	}
	return list
}

func checkBucketName(name string) error {
	if !s3.ValidBucketName(name) {
		return fmt.Errorf("%q is not a bucket name: expected 3 to 63 lowercase letters, digits, dots and hyphens", name)
	}
	return nil
}

func (p *planner) planPolicies() error {
	existing := map[string]*identity.ManagedPolicy{}
	for _, m := range p.Identities.Policies(p.by.Account) {
		existing[strings.ToLower(m.Name)] = m
	}
	for i := range p.Policies {
		e := &p.Policies[i]
		if policy.BuiltIn(strings.ToLower(e.Name)) != nil {
			return p.fail([]any{"policies", i, "name"}, "the policy %s is built in, so it cannot be changed", e.Name)
		}
		document, err := p.document([]any{"policies", i}, e)
		if err != nil {
			return err
		}
		old := existing[strings.ToLower(e.Name)]
		if old != nil && compact(old.Document) == compact(document) {
			continue
		}
		detail := ""
		if old != nil {
			detail = "document"
		}
		p.add("policy", e.Name, detail, func(ctx context.Context) error {
			_, err := p.Identities.PutPolicy(ctx, p.by.Account, e.Name, document)
			return err
		})
	}
	for name := range existing {
		p.policies[name] = true
	}
	for _, name := range policy.BuiltIns() {
		p.policies[name] = true
	}
	return nil
}

// inYAML returns the text of an error of a policy without its line, which is one of the JSON text.
func inYAML(err error) string {
	var e *policy.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	text := e.Reason
	if e.Element != "" {
		text = "element " + e.Element + ": " + text
	}
	if e.Statement > 0 {
		text = fmt.Sprintf("statement %d, %s", e.Statement, text)
	}
	return text
}

// compact returns a JSON text without white space, or the text itself if it is not JSON.
func compact(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

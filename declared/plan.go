package declared

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
			return done
		}
		done.Changes = append(done.Changes, s.AppliedChange)
		if key == nil {
			continue
		}
		done.Keys = append(done.Keys, *key)
		if err := created(key); err != nil {
			done.Failed = fmt.Sprintf("%s %s: the secret cannot be kept: %s", s.Kind, s.Name, core.Text(err))
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
	arns     map[string]bool // the principals that are declared
}

// MakePlan compares a file with a store, and returns the changes that a principal would apply. Buckets and identities belong
// to its account, and application keys never exceed it. secrets are the contents of the files that SecretFiles returns.
// If the file is wrong, or contradicts the store, the error is an *Error, and nothing is to be changed.
func MakePlan(ctx context.Context, f *File, s Store, by *auth.Principal, secrets map[string]string) (*Plan, error) {
	p := &planner{
		File: f, Store: s, ctx: ctx, by: by, secrets: secrets,
		policies: map[string]bool{}, groups: map[string]bool{}, buckets: map[string]bool{}, arns: map[string]bool{},
	}
	if err := p.checkNames(); err != nil {
		return nil, err
	}
	for _, part := range []func() error{p.planPolicies, p.planGroups, p.planUsers, p.planBuckets, p.planKeys} {
		if err := part(); err != nil {
			return nil, err
		}
	}
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
		arn   string
	}{
		{"policies", namesOf(p.Policies, func(e *policyEntry) string { return e.Name }), identity.CheckName, p.policies, ""},
		{"groups", namesOf(p.Groups, func(e *groupEntry) string { return e.Name }), identity.CheckName, p.groups, ""},
		{"users", namesOf(p.Users, func(e *userEntry) string { return e.Name }), identity.CheckName, map[string]bool{}, "user/"},
		{"buckets", namesOf(p.Buckets, func(e *bucketEntry) string { return e.Name }), checkBucketName, p.buckets, ""},
		{"keys", namesOf(p.Keys, func(e *keyEntry) string { return e.Name }), identity.CheckName, map[string]bool{}, "key/"},
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
			if list.arn != "" {
				p.arns["arn:aws:iam::"+p.by.Account+":"+list.arn+name] = true
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
		at := []any{"policies", i, "document"}
		document, err := jsonOf(&e.Document)
		if err != nil {
			return p.fail(at, "%s", err)
		}
		if policy.BuiltIn(strings.ToLower(e.Name)) != nil {
			return p.fail([]any{"policies", i, "name"}, "the policy %s is built in, so it cannot be changed", e.Name)
		}
		if _, err := policy.Parse([]byte(document), policy.Source{Name: e.Name}); err != nil {
			return p.fail(at, "policy %s: %s", e.Name, inYAML(err))
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

func (p *planner) planGroups() error {
	for i := range p.Groups {
		e := &p.Groups[i]
		if err := p.planIdentity(identity.Group, []any{"groups", i}, e.Name, e.Policies); err != nil {
			return err
		}
	}
	for _, g := range p.Identities.List(identity.Group, p.by.Account) {
		p.groups[strings.ToLower(g.Name)] = true
	}
	return nil
}

// planIdentity creates a user or a group, and attaches policies to it.
func (p *planner) planIdentity(kind identity.Kind, at []any, name string, policies []string) error {
	attached, number := map[string]bool{}, 0
	old, err := p.Identities.Get(kind, p.by.Account, name)
	if err != nil {
		p.add(string(kind), name, "", func(ctx context.Context) error {
			_, err := p.Identities.Create(ctx, kind, p.by.Account, name)
			return err
		})
	} else {
		number = len(old.Attached)
		for _, id := range old.Attached {
			attached[strings.ToLower(p.Identities.PolicyName(id))] = true
		}
	}
	for i, name := range policies {
		if !p.policies[strings.ToLower(name)] {
			return p.fail(slices.Concat(at, []any{"policies", i}), "there is no policy %q", name)
		}
	}
	for i, policyName := range policies {
		if attached[strings.ToLower(policyName)] {
			continue
		}
		if attached[strings.ToLower(policyName)] = true; number >= identity.MaxAttached {
			return p.fail(slices.Concat(at, []any{"policies", i}), "at most %d policies can be attached to the %s %s", identity.MaxAttached, kind, name)
		}
		number++
		p.add(string(kind), name, "attach the policy "+policyName, func(ctx context.Context) error {
			_, err := p.Identities.Attach(ctx, kind, p.by.Account, name, policyName, true)
			return err
		})
	}
	return nil
}

func (p *planner) planUsers() error {
	for i := range p.Users {
		e := &p.Users[i]
		if err := p.planIdentity(identity.User, []any{"users", i}, e.Name, e.Policies); err != nil {
			return err
		}
		member := map[string]bool{}
		if old, err := p.Identities.Get(identity.User, p.by.Account, e.Name); err == nil {
			for _, g := range p.Identities.GroupsOf(old) {
				member[strings.ToLower(g.Name)] = true
			}
		}
		for n, group := range e.Groups {
			at := []any{"users", i, "groups", n}
			if !p.groups[strings.ToLower(group)] {
				return p.fail(at, "there is no group %q", group)
			}
			if member[strings.ToLower(group)] {
				continue
			}
			if member[strings.ToLower(group)] = true; len(member) > identity.MaxGroups {
				return p.fail(at, "the user %s cannot have more than %d groups", e.Name, identity.MaxGroups)
			}
			p.add("user", e.Name, "add to the group "+group, func(ctx context.Context) error {
				_, err := p.Identities.SetMember(ctx, p.by.Account, e.Name, group, true)
				return err
			})
		}
	}
	return nil
}

func (p *planner) planKeys() error {
	taken := map[string]bool{p.RootKey: true}
	for _, kind := range []identity.Kind{identity.User, identity.Key} {
		for _, i := range p.Identities.List(kind, p.by.Account) {
			for n := range i.Keys {
				taken[i.Keys[n].ID] = true
			}
		}
	}
	for i := range p.Keys {
		e := &p.Keys[i]
		at := []any{"keys", i}
		fail := func(name, format string, args ...any) error { return p.fail(append(at, name), format, args...) }
		n := identity.NewKey{Name: e.Name, Grant: &identity.Grant{
			Bucket: e.Bucket, Prefix: e.Prefix, Access: identity.Access(e.Access), NoDelete: e.NoDelete,
		}}
		if err := n.Grant.Check(); err != nil {
			return p.fail(at, "key %s: %s", e.Name, err)
		}
		if err := p.checkBucket(e.Bucket); err != nil {
			return fail("bucket", "key %s: %s", e.Name, err)
		}
		if e.Expires != "" {
			var err error
			if n.Expires, err = identity.ParseLifetime(e.Expires); err != nil {
				return fail("expires", "key %s: expires %s", e.Name, err)
			}
		}
		if (e.AccessKey == "") != (e.SecretFile == "") {
			return fail(cmp.Or(map[bool]string{true: "access_key"}[e.AccessKey != ""], "secret_file"),
				"key %s: access_key and secret_file must be used together", e.Name)
		}
		old, err := p.Identities.Get(identity.Key, p.by.Account, e.Name)
		if err == nil {
			if err := p.compareKey(old, e, n.Grant); err != nil {
				return p.fail(at, "%s", err)
			}
			continue
		}
		if e.AccessKey != "" {
			n.Secret = &identity.Secret{AccessKey: e.AccessKey, SecretKey: strings.TrimSpace(p.secrets[e.SecretFile])}
			if err := n.Secret.Check(); err != nil {
				return fail("secret_file", "key %s: %s", e.Name, err)
			}
			if taken[e.AccessKey] {
				return fail("access_key", "key %s: the access key %s belongs to another identity", e.Name, e.AccessKey)
			}
			taken[e.AccessKey] = true
		}
		p.addKey("key", e.Name, "", func(ctx context.Context) (*admin.AppliedKey, error) {
			_, secret, err := p.Identities.CreateKey(ctx, p.by, n)
			if err != nil || n.Secret != nil {
				return nil, err // whoever wrote the file has the secret
			}
			return &admin.AppliedKey{Name: e.Name, AccessKey: secret.AccessKey, SecretKey: secret.SecretKey, Endpoint: p.Endpoint}, nil
		})
	}
	return nil
}

// compareKey returns an error if an application key exists with other rights or another access key than the file
// declares. They cannot be changed.
func (p *planner) compareKey(old *identity.Identity, e *keyEntry, grant *identity.Grant) error {
	if old.Grant == nil || *old.Grant != *grant {
		return fmt.Errorf("the key %s exists with other rights: delete it first, or give this one another name", old.Name)
	}
	if e.AccessKey != "" && !slices.ContainsFunc(old.Keys, func(k identity.AccessKey) bool { return k.ID == e.AccessKey }) {
		return fmt.Errorf("the key %s exists with another access key: delete it first, or give this one another name", old.Name)
	}
	return nil
}

// checkBucket returns an error unless a bucket exists in the account, or is declared.
func (p *planner) checkBucket(name string) error {
	if p.buckets[name] {
		return nil
	}
	b, err := p.FS.Bucket(p.ctx, name)
	if core.Is(err, core.NoSuchBucket) || err == nil && b.Owner != p.by.Account {
		return fmt.Errorf("there is no bucket %q", name)
	}
	return err
}

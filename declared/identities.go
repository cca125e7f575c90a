package declared

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"orcas/admin"
	"orcas/auth/identity"
	"orcas/auth/policy"
	"orcas/core"
)

func (p *planner) planAccounts() error {
	for i := range p.Accounts {
		e := &p.Accounts[i]
		old, err := p.Identities.Account(e.Name)
		var wrong *identity.Error
		switch {
		case err == nil:
		case errors.As(err, &wrong) && wrong.Code == identity.NoSuchEntity:
			p.addKey("account", e.Name, "", func(ctx context.Context) (*admin.AppliedKey, error) {
				_, secret, err := p.Identities.CreateAccount(ctx, e.Name)
				return p.newKey("account", e.Name, secret), err
			})
		default:
			return p.fail([]any{"accounts", i, "name"}, "%s", err)
		}
		if e.Enabled == nil || *e.Enabled == (old == nil || !old.Disabled) {
			continue
		}
		detail := map[bool]string{true: "enable", false: "disable"}[*e.Enabled]
		p.add("account", e.Name, detail, func(ctx context.Context) error {
			_, err := p.Identities.EnableAccount(ctx, e.Name, *e.Enabled)
			return err
		})
	}
	return nil
}

// newKey describes a new access key whose secret was generated.
func (p *planner) newKey(kind, name string, secret identity.Secret) *admin.AppliedKey {
	return &admin.AppliedKey{Kind: kind, Name: name, AccessKey: secret.AccessKey, SecretKey: secret.SecretKey, Endpoint: p.Endpoint}
}

func (p *planner) planGroups() error {
	for i := range p.Groups {
		e := &p.Groups[i]
		at := []any{"groups", i}
		old := p.planIdentity(identity.Group, e.Name)
		if err := p.planRights(identity.Group, at, e, old); err != nil {
			return err
		}
	}
	for _, g := range p.Identities.List(identity.Group, p.by.Account) {
		p.groups[strings.ToLower(g.Name)] = true
	}
	return nil
}

// planIdentity creates a user or a group, unless it exists. It returns the existing one, or an empty one.
func (p *planner) planIdentity(kind identity.Kind, name string) *identity.Identity {
	old, err := p.Identities.Get(kind, p.by.Account, name)
	if err == nil {
		return old
	}
	p.add(string(kind), name, "", func(ctx context.Context) error {
		_, err := p.Identities.Create(ctx, kind, p.by.Account, name)
		return err
	})
	return &identity.Identity{}
}

// planRights attaches policies to a user, a group or a role, and writes its inline policies.
func (p *planner) planRights(kind identity.Kind, at []any, e *groupEntry, old *identity.Identity) error {
	attached, number := map[string]bool{}, len(old.Attached)
	for _, id := range old.Attached {
		attached[strings.ToLower(p.Identities.PolicyName(id))] = true
	}
	for i, name := range e.Policies {
		if !p.policies[strings.ToLower(name)] {
			return p.fail(slices.Concat(at, []any{"policies", i}), "there is no policy %q", name)
		}
	}
	for i, policyName := range e.Policies {
		if attached[strings.ToLower(policyName)] {
			continue
		}
		if attached[strings.ToLower(policyName)] = true; number >= identity.MaxAttached {
			return p.fail(slices.Concat(at, []any{"policies", i}), "at most %d policies can be attached to the %s %s", identity.MaxAttached, kind, e.Name)
		}
		number++
		p.add(string(kind), e.Name, "attach the policy "+policyName, func(ctx context.Context) error {
			_, err := p.Identities.Attach(ctx, kind, p.by.Account, e.Name, policyName, true)
			return err
		})
	}
	return p.planInline(kind, at, e, old)
}

func (p *planner) planInline(kind identity.Kind, at []any, e *groupEntry, old *identity.Identity) error {
	existing, declared := map[string]string{}, map[string]bool{}
	for _, inline := range old.Inline {
		existing[strings.ToLower(inline.Name)] = compact(inline.Document)
	}
	for i := range e.Inline {
		entry := &e.Inline[i]
		at := slices.Concat(at, []any{"inline_policies", i})
		lower := strings.ToLower(entry.Name)
		document, err := p.document(at, entry)
		if err != nil {
			return err
		}
		if declared[lower] {
			return p.fail(append(at, "name"), "the %s %s has two inline policies with the name %q", kind, e.Name, entry.Name)
		}
		declared[lower] = true
		before, exists := existing[lower]
		if exists && before == compact(document) {
			continue
		}
		if existing[lower] = document; len(existing) > identity.MaxInline {
			return p.fail(at, "the %s %s can have at most %d inline policies", kind, e.Name, identity.MaxInline)
		}
		p.add(string(kind), e.Name, "inline policy "+entry.Name, func(ctx context.Context) error {
			_, err := p.Identities.PutInlinePolicy(ctx, kind, p.by.Account, e.Name, entry.Name, document)
			return err
		})
	}
	return nil
}

// document returns the JSON text of the policy of an identity, which is valid.
func (p *planner) document(at []any, e *policyEntry) (string, error) {
	if err := identity.CheckName(e.Name); err != nil {
		return "", p.fail(slices.Concat(at, []any{"name"}), "%s", err)
	}
	at = slices.Concat(at, []any{"document"})
	document, err := jsonOf(&e.Document)
	if err != nil {
		return "", p.fail(at, "%s", err)
	}
	if _, err := policy.Parse([]byte(document), policy.Source{Name: e.Name}); err != nil {
		return "", p.fail(at, "policy %s: %s", e.Name, inYAML(err))
	}
	return document, nil
}

// planTags adds tags to a user or a role.
func (p *planner) planTags(kind identity.Kind, at []any, name string, tags map[string]string, old *identity.Identity) error {
	if _, err := identity.MergeTags(old.Tags, tags); err != nil {
		return p.fail(slices.Concat(at, []any{"tags"}), "%s %s: %s", kind, name, err)
	}
	different := map[string]string{}
	for k, v := range tags {
		if before, exists := old.Tags[k]; !exists || before != v {
			different[k] = v
		}
	}
	if len(different) == 0 {
		return nil
	}
	p.add(string(kind), name, "tags", func(ctx context.Context) error {
		_, err := p.Identities.ChangeTags(ctx, kind, p.by.Account, name, different, nil)
		return err
	})
	return nil
}

func (p *planner) planUsers() error {
	for i := range p.Users {
		e := &p.Users[i]
		at := []any{"users", i}
		old := p.planIdentity(identity.User, e.Name)
		if err := p.planRights(identity.User, at, &e.groupEntry, old); err != nil {
			return err
		}
		if err := p.planTags(identity.User, at, e.Name, e.Tags, old); err != nil {
			return err
		}
		if err := p.planMemberships(at, e, old); err != nil {
			return err
		}
		if err := p.planUserKeys(at, e, old); err != nil {
			return err
		}
	}
	return nil
}

func (p *planner) planMemberships(at []any, e *userEntry, old *identity.Identity) error {
	member := map[string]bool{}
	for _, g := range p.Identities.GroupsOf(old) {
		member[strings.ToLower(g.Name)] = true
	}
	for n, group := range e.Groups {
		at := slices.Concat(at, []any{"groups", n})
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
	return nil
}

// planUserKeys adds access keys to a user: those with a secret in a file, and a generated one if there is no other.
func (p *planner) planUserKeys(at []any, e *userEntry, old *identity.Identity) error {
	number := len(old.Keys)
	for n := range e.AccessKeys {
		k := &e.AccessKeys[n]
		at := slices.Concat(at, []any{"access_keys", n})
		if k.AccessKey == "" || k.SecretFile == "" {
			return p.fail(at, "user %s: an access key needs access_key and secret_file", e.Name)
		}
		if hasKey(old, k.AccessKey) {
			continue
		}
		secret, err := p.given(at, "user "+e.Name, k)
		if err != nil {
			return err
		}
		if number++; number > identity.MaxUserKeys {
			return p.fail(at, "the user %s can have at most %d access keys", e.Name, identity.MaxUserKeys)
		}
		p.add("user", e.Name, "access key "+k.AccessKey, func(ctx context.Context) error {
			_, err := p.Identities.AddAccessKey(ctx, p.by.Account, e.Name, *secret)
			return err
		})
	}
	if !e.GenerateKey || number > 0 {
		return nil
	}
	p.addKey("user", e.Name, "new access key", func(ctx context.Context) (*admin.AppliedKey, error) {
		_, secret, err := p.Identities.CreateAccessKey(ctx, p.by.Account, e.Name, 0)
		return p.newKey("user", e.Name, secret), err
	})
	return nil
}

func hasKey(i *identity.Identity, accessKey string) bool {
	return slices.ContainsFunc(i.Keys, func(k identity.AccessKey) bool { return k.ID == accessKey })
}

// given returns an access key that was not generated, with its secret. No identity has it yet.
func (p *planner) given(at []any, who string, k *givenKey) (*identity.Secret, error) {
	secret := &identity.Secret{AccessKey: k.AccessKey, SecretKey: strings.TrimSpace(p.secrets[k.SecretFile])}
	if err := secret.Check(); err != nil {
		return nil, p.fail(slices.Concat(at, []any{"secret_file"}), "%s: %s", who, err)
	}
	if k.AccessKey == p.RootKey || p.taken[k.AccessKey] || p.Identities.HasAccessKey(k.AccessKey) {
		return nil, p.fail(slices.Concat(at, []any{"access_key"}), "%s: the access key %s belongs to another identity", who, k.AccessKey)
	}
	p.taken[k.AccessKey] = true
	return secret, nil
}

func (p *planner) planRoles() error {
	for i := range p.Roles {
		e := &p.Roles[i]
		at := []any{"roles", i}
		old, err := p.planRole(at, e)
		if err == nil {
			err = p.planRights(identity.Role, at, &e.groupEntry, old)
		}
		if err == nil {
			err = p.planTags(identity.Role, at, e.Name, e.Tags, old)
		}
		if err != nil {
			return err
		}
		if p.arns[p.arn("role/"+e.Name)] {
			p.principals[p.arn("role/"+e.Name)] = true
		}
	}
	return nil
}

// planRole creates or changes a role. It returns the existing one, or an empty one.
func (p *planner) planRole(at []any, e *roleEntry) (*identity.Identity, error) {
	c, err := p.roleChange(at, e)
	if err != nil {
		return nil, err
	}
	old, err := p.Identities.Get(identity.Role, p.by.Account, e.Name)
	if err != nil {
		if c.Trust == nil {
			return nil, p.fail(at, "the role %s needs users, who may assume it, or a trust policy", e.Name)
		}
		p.add("role", e.Name, "", func(ctx context.Context) error {
			_, err := p.Identities.CreateRole(ctx, p.by.Account, e.Name, *c)
			return err
		})
		return &identity.Identity{}, nil
	}
	var changed []string
	if c.Trust != nil && (compact(old.Trust) != compact(*c.Trust) || !p.Identities.TrustIsCurrent(old)) {
		changed = append(changed, "trust")
	} else {
		c.Trust = nil
	}
	if c.Description != nil && *c.Description != old.Description {
		changed = append(changed, "description")
	}
	if c.MaxSession != nil && int(c.MaxSession.Seconds()) != old.MaxSession {
		changed = append(changed, "max_session")
	}
	if len(changed) > 0 {
		p.add("role", e.Name, strings.Join(changed, ", "), func(ctx context.Context) error {
			_, err := p.Identities.UpdateRole(ctx, p.by.Account, e.Name, *c)
			return err
		})
	}
	return old, nil
}

// roleChange returns the settings of a role, which are valid.
func (p *planner) roleChange(at []any, e *roleEntry) (*identity.RoleChange, error) {
	fail := func(name, format string, args ...any) error {
		return p.fail(slices.Concat(at, []any{name}), "role %s: "+format, append([]any{e.Name}, args...)...)
	}
	c := &identity.RoleChange{Description: e.Description}
	if e.MaxSession != "" {
		d, err := identity.ParseLifetime(e.MaxSession)
		if err != nil {
			return nil, fail("max_session", "max_session %s", err)
		}
		c.MaxSession = &d
	}
	if err := c.Check(); err != nil {
		return nil, fail(map[bool]string{true: "max_session", false: "description"}[e.MaxSession != ""], "%s", err)
	}
	var trust string
	switch {
	case len(e.Users) > 0 && e.Trust.Kind != 0:
		return nil, fail("users", "expected either users or trust, found both")
	case len(e.Users) > 0:
		var arns []string
		for _, name := range e.Users {
			arn := p.arn("user/" + name)
			if u, err := p.Identities.Get(identity.User, p.by.Account, name); err == nil {
				arn = u.ARN()
			}
			arns = append(arns, arn)
		}
		text, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
			"Effect": "Allow", "Principal": map[string]any{"AWS": arns}, "Action": "sts:AssumeRole",
		}}})
		if err != nil {
			return nil, err
		}
		trust = string(text)
	case e.Trust.Kind != 0:
		var err error
		if trust, err = jsonOf(&e.Trust); err != nil {
			return nil, fail("trust", "%s", err)
		}
	default:
		return c, nil
	}
	known := func(kind, principal string) bool {
		_, exists := principals{p.Identities, p.principals}.Resolve(kind, principal)
		return exists
	}
	if _, err := policy.Parse([]byte(trust), policy.Source{Name: e.Name, Trust: true, Known: known}); err != nil {
		return nil, fail(map[bool]string{true: "users", false: "trust"}[len(e.Users) > 0], "trust policy: %s", inYAML(err))
	}
	c.Trust = &trust
	return c, nil
}

// arn returns the ARN of an identity of the account, such as user/alice.
func (p *planner) arn(of string) string { return "arn:aws:iam::" + p.by.Account + ":" + of }

func (p *planner) planKeys() error {
	for i := range p.Keys {
		e := &p.Keys[i]
		at := []any{"keys", i}
		fail := func(name, format string, args ...any) error { return p.fail(append(at, name), format, args...) }
		n := identity.NewKey{Name: e.Name, With: p.With, Grant: &identity.Grant{
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
			if n.Secret, err = p.given(at, "key "+e.Name, &e.givenKey); err != nil {
				return err
			}
		}
		p.addKey("key", e.Name, "", func(ctx context.Context) (*admin.AppliedKey, error) {
			_, secret, err := p.Identities.CreateKey(ctx, p.by, n)
			if err != nil || n.Secret != nil {
				return nil, err // whoever wrote the file has the secret
			}
			return p.newKey("key", e.Name, secret), nil
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
	if e.AccessKey != "" && !hasKey(old, e.AccessKey) {
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

package identity

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"orcas/auth/policy"
	"orcas/core"
	"orcas/internal/mutant"
)

// managedPolicies are the policies of a directory that several identities can share.
type managedPolicies struct{ *records }

// PutPolicy creates a managed policy, or replaces its document for all to which it is attached.
func (m *managedPolicies) PutPolicy(ctx context.Context, account, name, document string) (*ManagedPolicy, error) {
	p, err := m.UpdatePolicy(ctx, account, name, document)
	var e *Error
	if errors.As(err, &e) && e.Code == NoSuchEntity {
		return m.CreatePolicy(ctx, account, name, document, "")
	}
	return p, err
}

// maxDescription is the maximum length of the description of a policy or a role, in bytes.
const maxDescription = 1000

// CreatePolicy creates a managed policy.
func (m *managedPolicies) CreatePolicy(ctx context.Context, account, name, document, description string) (*ManagedPolicy, error) {
	return m.CreatePolicyWithTags(ctx, account, name, document, description, nil)
}

// CreatePolicyWithTags creates a managed policy with tags.
func (m *managedPolicies) CreatePolicyWithTags(
	ctx context.Context, account, name, document, description string, tags map[string]string,
) (*ManagedPolicy, error) {
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	if len(description) > maxDescription || !utf8.ValidString(description) {
		return nil, fail(Invalid, "the description must be UTF-8 text of at most %d bytes", maxDescription)
	}
	if err := checkName(name); err != nil {
		return nil, err
	}
	if _, err := parsePolicy(name, document); err != nil {
		return nil, err
	}
	var p *ManagedPolicy
	err := m.change(ctx, func(s *state) (*core.Record, error) {
		at := placeOf(policyRecords, account, name)
		if s.entries[at] != nil || policy.BuiltIn(strings.ToLower(name)) != nil {
			return nil, fail(Exists, "there is already a policy %s", name)
		}
		if s.callers[account].Caller == nil {
			return nil, fail(NoSuchEntity, "there is no account %s", account)
		}
		now := m.time()
		p = &ManagedPolicy{
			Account: account, Name: name, ID: newID(policyPrefix, uniqueIDLength), Description: description, Created: now,
			Updated: now, Tags: maps.Clone(tags),
		}
		p.setDefault(PolicyVersion{1, now, document})
		return encode(at.kind, at.key, p)
	})
	return p, err
}

// changePolicy changes a managed policy, which must exist. Change gets a copy, whose slices it must not modify.
func (m *managedPolicies) changePolicy(
	ctx context.Context, account, name string, change func(*ManagedPolicy) error,
) (p *ManagedPolicy, err error) {
	err = m.change(ctx, func(s *state) (*core.Record, error) {
		e := s.get(policyRecords, account, name)
		if e == nil {
			return nil, noSuchPolicy(name)
		}
		changed := *e.managed
		p = &changed
		if err := change(p); err != nil {
			return nil, err
		}
		return encode(e.kind, e.key, p)
	})
	return p, err
}

// ChangePolicyTags removes tags of a managed policy, and then adds others, as ChangeTags does for users.
func (m *managedPolicies) ChangePolicyTags(ctx context.Context, account, name string, add map[string]string, remove []string) error {
	_, err := m.changePolicy(ctx, account, name, func(p *ManagedPolicy) (err error) {
		p.Tags, err = changedTags(p.Tags, add, remove)
		return err
	})
	return err
}

// UpdatePolicy replaces the document of a managed policy, for all to which it is attached. The default version gets the
// next number, and the one before is not kept.
func (m *managedPolicies) UpdatePolicy(ctx context.Context, account, name, document string) (*ManagedPolicy, error) {
	return m.newVersion(ctx, account, name, document, func(p *ManagedPolicy, v PolicyVersion) error {
		p.setDefault(v)
		return nil
	})
}

// CreatePolicyVersion adds a version to a managed policy. If it becomes the default, it applies to all to which the policy
// is attached.
func (m *managedPolicies) CreatePolicyVersion(
	ctx context.Context, account, name, document string, isDefault bool,
) (p *ManagedPolicy, created PolicyVersion, err error) {
	p, err = m.newVersion(ctx, account, name, document, func(p *ManagedPolicy, v PolicyVersion) error {
		created = v
		if len(p.Others)+1 >= maxVersions {
			return fail(TooMany, "A managed policy can have up to %d versions. Before you create a new version, you must delete "+
				"an existing version.", maxVersions)
		}
		p.Others = slices.Concat(p.Others, []PolicyVersion{v})
		if isDefault {
			return p.choose(v.Number)
		}
		return nil
	})
	return p, created, err
}

// newVersion changes a managed policy to which a version with a document is added.
func (m *managedPolicies) newVersion(
	ctx context.Context, account, name, document string, add func(*ManagedPolicy, PolicyVersion) error,
) (*ManagedPolicy, error) {
	if _, err := parsePolicy(name, document); err != nil {
		return nil, err
	}
	return m.changePolicy(ctx, account, name, func(p *ManagedPolicy) error {
		p.Replaced++
		p.Updated = m.time()
		return add(p, PolicyVersion{p.Replaced + 1, p.Updated, document})
	})
}

// choose makes another version the default.
func (p *ManagedPolicy) choose(number int) error {
	versions := p.Versions()
	i, found := slices.BinarySearchFunc(versions, number, byNumber)
	if !found {
		return p.noVersion(number)
	}
	p.setDefault(versions[i])
	p.Others = slices.Delete(versions, i, i+1)
	return nil
}

func (p *ManagedPolicy) noVersion(number int) error {
	return fail(NoSuchEntity, "Policy %s version v%d does not exist.", p.ARN(), number)
}

// SetDefaultPolicyVersion makes a version of a managed policy the default, for all to which the policy is attached.
func (m *managedPolicies) SetDefaultPolicyVersion(ctx context.Context, account, name string, number int) error {
	_, err := m.changePolicy(ctx, account, name, func(p *ManagedPolicy) error {
		if err := p.choose(number); err != nil {
			return err
		}
		_, err := parsePolicy(name, p.Document) // another program may have accepted it
		return err
	})
	return err
}

// DeletePolicyVersion deletes a version of a managed policy, which must not be the default.
func (m *managedPolicies) DeletePolicyVersion(ctx context.Context, account, name string, number int) error {
	_, err := m.changePolicy(ctx, account, name, func(p *ManagedPolicy) error {
		if number == p.Version {
			return fail(InUse, "Cannot delete the default version of a policy.")
		}
		i, found := slices.BinarySearchFunc(p.Others, number, byNumber)
		if !found {
			return p.noVersion(number)
		}
		p.Others = slices.Delete(slices.Clone(p.Others), i, i+1)
		return nil
	})
	return err
}

func noSuchPolicy(name string) error {
	if policy.BuiltIn(name) != nil {
		return fail(Unmodifiable, "the policy %s is built in, so it cannot be changed", name)
	}
	return fail(NoSuchEntity, "there is no policy %s", name)
}

// Policy returns a managed policy.
func (m *managedPolicies) Policy(account, name string) (*ManagedPolicy, error) {
	e := m.now.Load().get(policyRecords, account, name)
	if e == nil {
		return nil, noSuchPolicy(name)
	}
	return e.managed, nil
}

// Policies returns the managed policies of an account, in the order of their names.
func (m *managedPolicies) Policies(account string) (list []*ManagedPolicy) {
	for _, e := range m.now.Load().entries {
		if e.managed != nil && e.managed.Account == account {
			list = append(list, e.managed)
		}
	}
	slices.SortFunc(list, func(a, b *ManagedPolicy) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

// DeletePolicy deletes a managed policy with all its versions. It must not be attached to any identity.
func (m *managedPolicies) DeletePolicy(ctx context.Context, account, name string) error {
	return m.deletePolicy(ctx, account, name, func(*ManagedPolicy) error { return nil })
}

// DeleteSinglePolicy deletes a managed policy that has no version but the default. It must not be attached to any
// identity.
func (m *managedPolicies) DeleteSinglePolicy(ctx context.Context, account, name string) error {
	return m.deletePolicy(ctx, account, name, func(p *ManagedPolicy) error {
		if len(p.Others) > 0 && !mutant.Is("versions-forgotten") {
			return fail(InUse, "This policy has more than one version. Before you delete a policy, you must delete the policy's "+
				"versions. The default version is deleted with the policy.")
		}
		return nil
	})
}

func (m *managedPolicies) deletePolicy(ctx context.Context, account, name string, check func(*ManagedPolicy) error) error {
	return m.change(ctx, func(s *state) (*core.Record, error) {
		p := s.get(policyRecords, account, name)
		if p == nil {
			return nil, noSuchPolicy(name)
		}
		for _, e := range s.entries {
			if e.Identity != nil && slices.Contains(e.Attached, p.managed.ID) {
				return nil, fail(InUse, "the policy %s is attached, for example to the %s %s: detach it first", p.managed.Name, e.Kind, e.Name)
			}
		}
		return &core.Record{Kind: p.kind, Key: p.key}, check(p.managed)
	})
}

// Attach attaches a managed or built-in policy to a user, a group or a role, or detaches it.
func (m *managedPolicies) Attach(ctx context.Context, kind Kind, account, name, policyName string, attached bool) (*Identity, error) {
	return m.update(ctx, kind, account, name, func(s *state, i *Identity) error {
		if kind == Key {
			return fail(Unmodifiable, "no policy can be attached to an application key: create another key")
		}
		id := policyName
		if policy.BuiltIn(policyName) == nil {
			p := s.get(policyRecords, account, policyName)
			if p == nil {
				return fail(NoSuchEntity, "there is no policy %s", policyName)
			}
			id = p.managed.ID
		}
		var err error
		i.Attached, err = withText(i.Attached, id, attached, maxAttached, "attached policies")
		return err
	})
}

// AttachedTo returns the identities of an account to which a policy is attached, given by the ID of a managed policy or
// the name of a built-in one, in the order of their kinds and names.
func (m *managedPolicies) AttachedTo(account, policy string) (list []*Identity) {
	for _, e := range m.now.Load().entries {
		if e.Identity != nil && e.Account == account && slices.Contains(e.Attached, policy) {
			list = append(list, e.Identity)
		}
	}
	sortByName(list)
	slices.SortStableFunc(list, func(a, b *Identity) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	return list
}

// PolicyName returns the name of an attached policy.
func (m *managedPolicies) PolicyName(id string) string {
	if e := m.now.Load().byID[id]; e != nil && e.managed != nil {
		return e.managed.Name
	}
	return id
}

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
)

// PutPolicy creates a managed policy, or replaces its document for all to which it is attached.
func (d *Directory) PutPolicy(ctx context.Context, account, name, document string) (*ManagedPolicy, error) {
	p, err := d.UpdatePolicy(ctx, account, name, document)
	var e *Error
	if errors.As(err, &e) && e.Code == NoSuchEntity {
		return d.CreatePolicy(ctx, account, name, document, "")
	}
	return p, err
}

// maxDescription is the maximum length of the description of a policy or a role, in bytes.
const maxDescription = 1000

// CreatePolicy creates a managed policy.
func (d *Directory) CreatePolicy(ctx context.Context, account, name, document, description string) (*ManagedPolicy, error) {
	return d.CreatePolicyWithTags(ctx, account, name, document, description, nil)
}

// CreatePolicyWithTags creates a managed policy with tags.
func (d *Directory) CreatePolicyWithTags(
	ctx context.Context, account, name, document, description string, tags map[string]string,
) (*ManagedPolicy, error) {
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	if len(description) > maxDescription || !utf8.ValidString(description) {
		return nil, fail(Invalid, "the description must be UTF-8 text of at most %d bytes", maxDescription)
	}
	return d.putPolicy(ctx, account, name, document, func(s *state, old *ManagedPolicy) (*ManagedPolicy, error) {
		if old != nil || policy.BuiltIn(strings.ToLower(name)) != nil {
			return nil, fail(Exists, "there is already a policy %s", name)
		}
		if s.callers[account].Caller == nil {
			return nil, fail(NoSuchEntity, "there is no account %s", account)
		}
		return &ManagedPolicy{
			Account: account, Name: name, ID: newID(policyPrefix, uniqueIDLength), Description: description, Created: d.time(),
			Tags: maps.Clone(tags),
		}, nil
	})
}

// ChangePolicyTags removes tags of a managed policy, and then adds others, as ChangeTags does for users.
func (d *Directory) ChangePolicyTags(ctx context.Context, account, name string, add map[string]string, remove []string) error {
	return d.change(ctx, func(s *state) (*core.Record, error) {
		at := placeOf(policyRecords, account, name)
		e := s.entries[at]
		if e == nil {
			return nil, noSuchPolicy(name)
		}
		p := *e.managed
		var err error
		if p.Tags, err = changedTags(p.Tags, add, remove); err != nil {
			return nil, err
		}
		return encode(at.kind, at.key, &p)
	})
}

// UpdatePolicy replaces the document of a managed policy, for all to which it is attached.
func (d *Directory) UpdatePolicy(ctx context.Context, account, name, document string) (*ManagedPolicy, error) {
	return d.putPolicy(ctx, account, name, document, func(_ *state, old *ManagedPolicy) (*ManagedPolicy, error) {
		if old == nil {
			return nil, noSuchPolicy(name)
		}
		p := *old
		p.Replaced++
		return &p, nil
	})
}

func noSuchPolicy(name string) error {
	if policy.BuiltIn(name) != nil {
		return fail(Unmodifiable, "the policy %s is built in, so it cannot be changed", name)
	}
	return fail(NoSuchEntity, "there is no policy %s", name)
}

// putPolicy writes a managed policy that change returns, with a document.
func (d *Directory) putPolicy(
	ctx context.Context, account, name, document string, change func(*state, *ManagedPolicy) (*ManagedPolicy, error),
) (p *ManagedPolicy, err error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if _, err := parsePolicy(name, document); err != nil {
		return nil, err
	}
	err = d.change(ctx, func(s *state) (*core.Record, error) {
		at := placeOf(policyRecords, account, name)
		var old *ManagedPolicy
		if e := s.entries[at]; e != nil {
			old = e.managed
		}
		if p, err = change(s, old); err != nil {
			return nil, err
		}
		p.Document, p.Updated = document, d.time()
		return encode(at.kind, at.key, p)
	})
	return p, err
}

// Policy returns a managed policy.
func (d *Directory) Policy(account, name string) (*ManagedPolicy, error) {
	e := d.now.Load().get(policyRecords, account, name)
	if e == nil {
		return nil, noSuchPolicy(name)
	}
	return e.managed, nil
}

// Policies returns the managed policies of an account, in the order of their names.
func (d *Directory) Policies(account string) (list []*ManagedPolicy) {
	for _, e := range d.now.Load().entries {
		if e.managed != nil && e.managed.Account == account {
			list = append(list, e.managed)
		}
	}
	slices.SortFunc(list, func(a, b *ManagedPolicy) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	return list
}

// DeletePolicy deletes a managed policy, which must not be attached to any identity.
func (d *Directory) DeletePolicy(ctx context.Context, account, name string) error {
	return d.change(ctx, func(s *state) (*core.Record, error) {
		at := placeOf(policyRecords, account, name)
		p := s.entries[at]
		if p == nil {
			return nil, noSuchPolicy(name)
		}
		for _, e := range s.entries {
			if e.Identity != nil && slices.Contains(e.Attached, p.managed.ID) {
				return nil, fail(InUse, "the policy %s is attached, for example to the %s %s: detach it first", p.managed.Name, e.Kind, e.Name)
			}
		}
		return &core.Record{Kind: at.kind, Key: at.key}, nil
	})
}

// Attach attaches a managed or built-in policy to a user, a group or a role, or detaches it.
func (d *Directory) Attach(ctx context.Context, kind Kind, account, name, policyName string, attached bool) (*Identity, error) {
	return d.update(ctx, kind, account, name, func(s *state, i *Identity) error {
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
func (d *Directory) AttachedTo(account, policy string) (list []*Identity) {
	for _, e := range d.now.Load().entries {
		if e.Identity != nil && e.Account == account && slices.Contains(e.Attached, policy) {
			list = append(list, e.Identity)
		}
	}
	sortByName(list)
	slices.SortStableFunc(list, func(a, b *Identity) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	return list
}

// PolicyName returns the name of an attached policy.
func (d *Directory) PolicyName(id string) string {
	if e := d.now.Load().byID[id]; e != nil && e.managed != nil {
		return e.managed.Name
	}
	return id
}

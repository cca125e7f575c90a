package identity

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"orcas/auth"
	"orcas/internal/mutant"
)

// Create creates a user or a group without policies.
func (d *Directory) Create(ctx context.Context, kind Kind, account, name string) (*Identity, error) {
	return d.create(ctx, kind, account, name, func(*state, *Identity) error { return nil })
}

// CreateUser creates a user with tags and without policies.
func (d *Directory) CreateUser(ctx context.Context, account, name string, tags map[string]string) (*Identity, error) {
	return d.create(ctx, User, account, name, func(_ *state, i *Identity) error {
		i.Tags = maps.Clone(tags)
		return checkTags(tags)
	})
}

// create creates an identity without access keys. Complete sets further fields.
func (d *records) create(
	ctx context.Context, kind Kind, account, name string, complete func(*state, *Identity) error,
) (*Identity, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	return d.put(ctx, kind, account, name, func(s *state, old *Identity) (*Identity, error) {
		if old != nil {
			article := "a"
			if kind == Account {
				article = "an"
			}
			return nil, fail(Exists, "there is already %s %s %s", article, kind, old.Name)
		}
		if s.callers[account].Caller == nil {
			return nil, fail(NoSuchEntity, "there is no account %s", account)
		}
		i := &Identity{
			Kind: kind, Account: account, Name: name, ID: newID(kind.idPrefix(), uniqueIDLength), Created: d.time(),
		}
		return i, complete(s, i)
	})
}

// Get returns an identity.
func (d *Directory) Get(kind Kind, account, name string) (*Identity, error) {
	e := d.now.Load().get(recordsOf(kind), account, name)
	if e == nil {
		return nil, noSuch(kind, name)
	}
	return e.Identity, nil
}

// List returns the identities of a kind in an account, in the order of their names.
func (d *Directory) List(kind Kind, account string) (list []*Identity) {
	for _, e := range d.now.Load().entries {
		if e.Identity != nil && e.Kind == kind && e.Account == account {
			list = append(list, e.Identity)
		}
	}
	sortByName(list)
	return list
}

func sortByName(list []*Identity) {
	slices.SortFunc(list, func(a, b *Identity) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
}

// Rename gives a user or a group another name. Its unique ID remains, and with it all that refers to it: memberships,
// policies, access keys, and the application keys that it created.
func (d *Directory) Rename(ctx context.Context, kind Kind, account, name, to string) (*Identity, error) {
	if err := checkName(to); err != nil {
		return nil, err
	}
	return d.put(ctx, kind, account, name, func(s *state, old *Identity) (*Identity, error) {
		if old == nil {
			return nil, noSuch(kind, name)
		}
		if kind != User && kind != Group {
			return nil, fail(Unmodifiable, "only users and groups can be renamed, not the %s %s", kind, old.Name)
		}
		if other := s.get(recordsOf(kind), account, to); other != nil && other.ID != old.ID {
			return nil, fail(Exists, "there is already a %s %s", kind, other.Name)
		}
		i := *old
		i.Name = to
		return &i, nil
	})
}

// DeleteUser deletes a user with its access keys and inline policies. The application keys that it created are refused
// from then on.
func (d *Directory) DeleteUser(ctx context.Context, account, name string) error {
	return d.remove(ctx, User, account, name, func(*state, *Identity) error { return nil })
}

// DeleteEmptyUser deletes a user that has no access keys, no policies and no groups.
func (d *Directory) DeleteEmptyUser(ctx context.Context, account, name string) error {
	return d.remove(ctx, User, account, name, func(_ *state, u *Identity) error {
		switch {
		case mutant.Is("delete-whatever-is-left"):
			return nil
		case len(u.Keys) > 0:
			return fail(InUse, "Cannot delete entity, must delete access keys first.")
		case len(u.Groups) > 0:
			return fail(InUse, "Cannot delete entity, must remove users from group first.")
		}
		return u.withoutPolicies()
	})
}

// withoutPolicies returns an error if the identity has policies.
func (i *Identity) withoutPolicies() error {
	switch {
	case len(i.Attached) > 0:
		return fail(InUse, "Cannot delete entity, must detach all policies first.")
	case len(i.Inline) > 0:
		return fail(InUse, "Cannot delete entity, must delete policies first.")
	}
	return nil
}

// DeleteGroup deletes a group, which must not have members.
func (d *Directory) DeleteGroup(ctx context.Context, account, name string) error {
	return d.deleteGroup(ctx, account, name, func(*Identity) error { return nil })
}

// DeleteEmptyGroup deletes a group that has no members and no policies.
func (d *Directory) DeleteEmptyGroup(ctx context.Context, account, name string) error {
	return d.deleteGroup(ctx, account, name, (*Identity).withoutPolicies)
}

func (d *Directory) deleteGroup(ctx context.Context, account, name string, check func(*Identity) error) error {
	return d.remove(ctx, Group, account, name, func(s *state, g *Identity) error {
		for _, e := range s.entries {
			if e.Identity != nil && slices.Contains(e.Groups, g.ID) {
				return fail(InUse, "the group %s has members, such as the user %s: remove them first", g.Name, e.Name)
			}
		}
		return check(g)
	})
}

// SetMember adds a user to a group, or removes it.
func (d *Directory) SetMember(ctx context.Context, account, user, group string, member bool) (*Identity, error) {
	return d.update(ctx, User, account, user, func(s *state, i *Identity) error {
		g := s.get(groupRecords, account, group)
		if g == nil {
			return noSuch(Group, group)
		}
		var err error
		i.Groups, err = withText(i.Groups, g.ID, member, maxGroups, "groups of a user")
		return err
	})
}

// GroupsOf returns the groups of a user, in the order in which it was added.
func (d *Directory) GroupsOf(user *Identity) (list []*Identity) {
	s := d.now.Load()
	for _, id := range user.Groups {
		if g := s.byID[id]; g != nil && g.Identity != nil {
			list = append(list, g.Identity)
		}
	}
	return list
}

// MembersOf returns the users in a group, in the order of their names.
func (d *Directory) MembersOf(group *Identity) (list []*Identity) {
	for _, e := range d.now.Load().entries {
		if e.Identity != nil && slices.Contains(e.Groups, group.ID) {
			list = append(list, e.Identity)
		}
	}
	sortByName(list)
	return list
}

// SetTags replaces the tags of a user or a role.
func (d *Directory) SetTags(ctx context.Context, kind Kind, account, name string, tags map[string]string) (*Identity, error) {
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	return d.update(ctx, kind, account, name, func(_ *state, i *Identity) error {
		i.Tags = maps.Clone(tags)
		return nil
	})
}

// ChangeTags removes tags of a user or a role, and then adds others, which replace those with the same keys. Keys are compared
// without case.
func (d *Directory) ChangeTags(
	ctx context.Context, kind Kind, account, name string, add map[string]string, remove []string,
) (*Identity, error) {
	return d.update(ctx, kind, account, name, func(_ *state, i *Identity) (err error) {
		i.Tags, err = changedTags(i.Tags, add, remove)
		return err
	})
}

// changedTags returns tags without some, and with others. It does not modify its arguments.
func changedTags(old, add map[string]string, remove []string) (map[string]string, error) {
	if err := checkTags(add); err != nil {
		return nil, err
	}
	tags := map[string]string{}
	remove = slices.AppendSeq(slices.Clone(remove), maps.Keys(add))
	for k, v := range old {
		if !slices.ContainsFunc(remove, func(other string) bool { return strings.EqualFold(k, other) }) {
			tags[k] = v
		}
	}
	maps.Copy(tags, add)
	return tags, checkTags(tags)
}

func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return fail(TooMany, "%d tags are possible, not %d", maxTags, len(tags))
	}
	folded := map[string]bool{}
	for k, v := range tags {
		switch {
		case k == "" || len(k) > 128 || len(v) > 256 || !utf8.ValidString(k+v):
			return fail(Invalid, "the tag %q is not valid: a key has 1 to 128 bytes of UTF-8, a value at most 256", k)
		case folded[strings.ToLower(k)]:
			return fail(Invalid, "the tag %q is there twice: keys are compared without case", k)
		}
		folded[strings.ToLower(k)] = true
	}
	return nil
}

// UserOf returns the user that an access key belongs to, or nil if there is none.
func (d *Directory) UserOf(accessKey string) *Identity {
	for _, e := range d.now.Load().entries {
		if e.Identity != nil && e.Kind == User && slices.ContainsFunc(e.Keys, func(k AccessKey) bool { return k.ID == accessKey }) {
			return e.Identity
		}
	}
	return nil
}

// CreateAccessKey creates an access key of a user. Whoever has it can do what the user can do.
func (d *Directory) CreateAccessKey(ctx context.Context, account, user string, lifetime time.Duration) (*Identity, Secret, error) {
	return d.CreateAccessKeyWith(ctx, &auth.Principal{Account: account}, "", user, lifetime)
}

// CreateAccessKeyWith creates an access key of a user, which expires at the latest with the access key that signs the
// request of a principal of the same account.
func (d *Directory) CreateAccessKeyWith(
	ctx context.Context, by *auth.Principal, with, user string, lifetime time.Duration,
) (*Identity, Secret, error) {
	if err := checkLifetime(lifetime); err != nil {
		return nil, Secret{}, err
	}
	var secret Secret
	i, err := d.update(ctx, User, by.Account, user, func(s *state, i *Identity) error {
		if err := i.oneMoreKey(); err != nil {
			return err
		}
		expires, err := s.expiresWith(by, with)
		if err != nil {
			return err
		}
		if secret, err = d.addAccessKey(s, i); err == nil {
			i.Keys[len(i.Keys)-1].Expires = earlier(d.after(lifetime), expires)
		}
		return err
	})
	return i, secret, err
}

// oneMoreKey returns an error if a user cannot have a further access key.
func (i *Identity) oneMoreKey() error {
	if len(i.Keys) >= MaxUserKeys {
		return fail(TooMany, "the user %s has %d access keys: delete one first", i.Name, len(i.Keys))
	}
	return nil
}

// EnableAccessKey enables or disables an access key of a user.
func (d *Directory) EnableAccessKey(ctx context.Context, account, user, accessKey string, enabled bool) (*Identity, error) {
	return d.updateAccessKeys(ctx, account, user, accessKey, func(i *Identity, n int) { i.Keys[n].Disabled = !enabled })
}

// DeleteAccessKey deletes an access key of a user.
func (d *Directory) DeleteAccessKey(ctx context.Context, account, user, accessKey string) (*Identity, error) {
	return d.updateAccessKeys(ctx, account, user, accessKey, func(i *Identity, n int) { i.Keys = slices.Delete(i.Keys, n, n+1) })
}

func (d *Directory) updateAccessKeys(
	ctx context.Context, account, user, accessKey string, change func(i *Identity, n int),
) (*Identity, error) {
	return d.update(ctx, User, account, user, func(_ *state, i *Identity) error {
		n := slices.IndexFunc(i.Keys, func(k AccessKey) bool { return k.ID == accessKey })
		if n < 0 {
			return fail(NoSuchEntity, "the user %s has no access key %s", i.Name, accessKey)
		}
		i.Keys = slices.Clone(i.Keys)
		change(i, n)
		return nil
	})
}

// PutInlinePolicy writes a policy that is part of a user, a group or a role.
func (d *Directory) PutInlinePolicy(ctx context.Context, kind Kind, account, name, policy, document string) (*Identity, error) {
	if err := checkName(policy); err != nil {
		return nil, err
	}
	if _, err := parsePolicy(policy, document); err != nil {
		return nil, err
	}
	return d.update(ctx, kind, account, name, func(_ *state, i *Identity) error {
		n, found := i.inline(policy)
		switch {
		case kind == Key:
			return fail(Unmodifiable, "the policy of an application key cannot be changed: create another key")
		case found:
			i.Inline = slices.Clone(i.Inline)
			i.Inline[n].Document = document
		case len(i.Inline) >= maxInline:
			return fail(TooMany, "the %s %s has %d policies of its own: no more are possible", kind, i.Name, len(i.Inline))
		default:
			i.Inline = slices.Insert(slices.Clone(i.Inline), n, Inline{policy, document})
		}
		return nil
	})
}

// DeleteInlinePolicy deletes a policy that is part of a user, a group or a role.
func (d *Directory) DeleteInlinePolicy(ctx context.Context, kind Kind, account, name, policy string) (*Identity, error) {
	return d.update(ctx, kind, account, name, func(_ *state, i *Identity) error {
		n, found := i.inline(policy)
		switch {
		case kind == Key:
			return fail(Unmodifiable, "the policy of an application key cannot be deleted: delete the key")
		case !found:
			return fail(NoSuchEntity, "the %s %s has no policy %s", kind, i.Name, policy)
		}
		i.Inline = slices.Delete(slices.Clone(i.Inline), n, n+1)
		return nil
	})
}

// inline returns the position of an inline policy, or that at which it would be inserted.
func (i *Identity) inline(name string) (int, bool) {
	return slices.BinarySearchFunc(i.Inline, name, func(p Inline, name string) int {
		return strings.Compare(strings.ToLower(p.Name), strings.ToLower(name))
	})
}

// withText returns a list with or without an element. It does not modify the list.
func withText(list []string, text string, in bool, limit int, what string) ([]string, error) {
	switch found := slices.Contains(list, text); {
	case found == in:
		return list, nil
	case !in:
		return slices.DeleteFunc(slices.Clone(list), func(v string) bool { return v == text }), nil
	case len(list) >= limit:
		return nil, fail(TooMany, "the number of %s is limited to %d", what, limit)
	}
	return append(slices.Clip(list), text), nil
}

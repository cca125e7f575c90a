package identity

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"orcas/auth/policy"
)

// role is a role that can be assumed: its policies, and its entry.
type role struct {
	*policy.Caller
	entry *entry
}

// Limits of the maximum duration of sessions, as in IAM.
const (
	defaultMaxSession = time.Hour
	leastMaxSession   = time.Hour
	mostMaxSession    = 12 * time.Hour
)

// addRole adds a role. A role whose policies cannot be read cannot be assumed, because they might deny something.
func (s *state) addRole(e *entry) error {
	c, err := s.policiesOf(e)
	if err == nil {
		s.roles[e.ID] = role{c, e}
	}
	return err
}

// compileTrust compiles the trust policy of a role.
func (e *entry) compileTrust() {
	var err error
	source := policy.Source{Name: e.Name, Trust: true, IDs: e.Trusted}
	if e.trust, err = policy.Parse([]byte(e.Trust), source); err != nil {
		e.err = fmt.Errorf("the trust policy: %w", err)
	}
}

// idOf returns the unique ID of a principal: an ARN, the ID of an account, or a canonical ID. It returns "" if the
// principal does not exist. Any session of a role that exists is a principal, and has the ID of the role.
func (s *state) idOf(principal string) string {
	if id, ok := s.principals[principal]; ok {
		return id
	}
	rest, ok := strings.CutPrefix(principal, "arn:aws:sts::")
	account, rest, _ := strings.Cut(rest, ":")
	name, session, _ := strings.Cut(strings.TrimPrefix(rest, "assumed-role/"), "/")
	if !ok || !strings.HasPrefix(rest, "assumed-role/") || !validSession.MatchString(session) {
		return ""
	}
	return s.principals[fmt.Sprintf("arn:aws:iam::%s:role/%s", account, name)]
}

// setTrust checks and sets the trust policy of a role. The principals must exist. Their unique IDs are stored with the
// document, so that it does not apply to principals that are created later under the same names.
func (s *state) setTrust(i *Identity, document string) error {
	p, err := policy.Parse([]byte(document), policy.Source{Name: i.Name, Trust: true, Known: func(kind, principal string) bool {
		return kind != "AWS" && kind != "CanonicalUser" || s.idOf(principal) != ""
	}})
	if err != nil {
		return fail(MalformedPolicy, "the trust policy of the role %s: %s", i.Name, err)
	}
	i.Trust, i.Trusted = document, map[string]string{}
	for _, arn := range p.Principals() {
		i.Trusted[arn] = s.idOf(arn)
	}
	return nil
}

// TrustIsCurrent reports whether the principals that the trust policy of a role names are still those that it trusts. They
// are others if one was deleted or renamed, and another one got its name.
func (d *Directory) TrustIsCurrent(role *Identity) bool {
	s := d.now.Load()
	for arn, id := range role.Trusted {
		if s.idOf(arn) != id {
			return false
		}
	}
	return true
}

// TrustOf returns the trust policy of a role with the present ARNs of its principals, and the unique IDs of those that
// were deleted.
func (d *Directory) TrustOf(role *Identity) string {
	shown, err := policy.ReplacePrincipals(role.Trust, func(arn string) string {
		if id := role.Trusted[arn]; id != "" {
			return d.PresentARN(arn, id)
		}
		return arn
	})
	if err != nil {
		return role.Trust
	}
	return shown
}

// RoleChange describes changes of a role. Fields that are nil change nothing.
type RoleChange struct {
	Trust       *string        // the document of the trust policy, which says who may assume the role
	MaxSession  *time.Duration // the maximum duration of a session: from 1 to 12 hours, in whole seconds
	Description *string        // at most 1,000 bytes

	Tags map[string]string // replaces all tags, unless it is nil
}

// apply changes a role that is not stored yet.
func (c *RoleChange) apply(s *state, i *Identity) error {
	if c.MaxSession != nil {
		if *c.MaxSession < leastMaxSession || *c.MaxSession > mostMaxSession || *c.MaxSession%time.Second != 0 {
			return fail(Invalid, "the maximum duration of a session must be from 1 to 12 hours, in whole seconds, not %v", *c.MaxSession)
		}
		i.MaxSession = int(*c.MaxSession / time.Second)
	}
	if c.Description != nil {
		if !utf8.ValidString(*c.Description) || len(*c.Description) > maxDescription {
			return fail(Invalid, "the description must be UTF-8 text of at most %d bytes", maxDescription)
		}
		i.Description = *c.Description
	}
	if c.Tags != nil {
		if err := checkTags(c.Tags); err != nil {
			return err
		}
		i.Tags = maps.Clone(c.Tags)
	}
	if c.Trust != nil {
		return s.setTrust(i, *c.Trust)
	}
	return nil
}

// CreateRole creates a role without policies. It must have a trust policy. By default, a session takes at most an hour.
func (d *Directory) CreateRole(ctx context.Context, account, name string, c RoleChange) (*Identity, error) {
	if c.Trust == nil {
		return nil, fail(Invalid, "a role needs a trust policy")
	}
	return d.create(ctx, Role, account, name, func(s *state, i *Identity) error {
		i.MaxSession = int(defaultMaxSession / time.Second)
		return c.apply(s, i)
	})
}

// UpdateRole changes a role. Sessions that exist already are not affected by a new trust policy or duration.
func (d *Directory) UpdateRole(ctx context.Context, account, name string, c RoleChange) (*Identity, error) {
	return d.update(ctx, Role, account, name, c.apply)
}

// DeleteRole deletes a role with its inline policies.
func (d *Directory) DeleteRole(ctx context.Context, account, name string) error {
	return d.remove(ctx, Role, account, name, func(*state, *Identity) error { return nil })
}

// DeleteEmptyRole deletes a role that has no policies.
func (d *Directory) DeleteEmptyRole(ctx context.Context, account, name string) error {
	return d.remove(ctx, Role, account, name, func(_ *state, i *Identity) error { return i.withoutPolicies() })
}

package identity

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The limits that a declaration of identities has to keep.
const (
	MaxAttached = maxAttached // policies of a user, a group or a role
	MaxInline   = maxInline   // policies of a user, a group or a role
	MaxGroups   = maxGroups   // of a user
)

// CheckName returns an error if a name is not valid for an identity or a policy.
func CheckName(name string) error { return checkName(name) }

// MergeTags returns tags with others added, which replace those with the same keys, regardless of case. It returns an
// error if they are not valid.
func MergeTags(old, add map[string]string) (map[string]string, error) {
	return changedTags(old, add, nil)
}

// Check returns an error if the settings of a role are not valid, except for the trust policy.
func (c *RoleChange) Check() error {
	checked := *c
	checked.Trust = nil
	return checked.apply(nil, &Identity{})
}

// HasAccessKey reports whether an access key belongs to any identity.
func (d *Directory) HasAccessKey(accessKey string) bool { return d.now.Load().uses[accessKey] != nil }

// AddAccessKey adds an access key that was not generated to a user.
func (d *Directory) AddAccessKey(ctx context.Context, account, user string, secret Secret) (*Identity, error) {
	if err := secret.Check(); err != nil {
		return nil, err
	}
	return d.update(ctx, User, account, user, func(s *state, i *Identity) error {
		if err := i.oneMoreKey(); err != nil {
			return err
		}
		return addGiven(d, s, i, secret)
	})
}

var (
	validAccessKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{3,128}$`)
	validSecret    = regexp.MustCompile(`^[!-~]{16,128}$`)
)

// Check returns an error if an access key that was not generated, or its secret, is not valid. The error does not
// contain the secret.
func (s *Secret) Check() error {
	switch {
	case !validAccessKey.MatchString(s.AccessKey):
		return fail(Invalid, "the access key %q is not valid: use 3 to 128 letters, digits and characters of _.-", s.AccessKey)
	case !validSecret.MatchString(s.SecretKey):
		return fail(Invalid, "the secret of the access key %s is not valid: use 16 to 128 visible ASCII characters", s.AccessKey)
	}
	return nil
}

// addGiven adds an access key that was not generated to an identity that is not stored yet. The caller holds d.mu.
func addGiven(d *Directory, s *state, i *Identity, secret Secret) error {
	if s.uses[secret.AccessKey] != nil {
		return fail(Exists, "the access key %s belongs to another identity", secret.AccessKey)
	}
	stored, err := d.encrypt(s, secret.SecretKey, secret.AccessKey, i.ID)
	i.Keys = append(slices.Clone(i.Keys), AccessKey{ID: secret.AccessKey, Created: d.time(), Secret: stored})
	return err
}

// ParseLifetime parses a duration of at least a second, such as 90d, 12h or 30m.
func ParseLifetime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(max(-1, min(n, 100_000))) * 24 * time.Hour // without an overflow; more is refused later
	}
	if err != nil || d < time.Second {
		return 0, fmt.Errorf("must be a duration of at least a second, such as 90d, 12h or 30m, not %q", text)
	}
	return d, nil
}

package identity

import (
	"context"
	"regexp"
	"slices"
	"time"

	"orcas/auth"
	"orcas/core"
	"orcas/internal/mutant"
)

// NewKey describes an application key to create.
type NewKey struct {
	Name    string
	Grant   *Grant        // either a grant
	Policy  string        // or a policy document
	Expires time.Duration // after which it expires; 0: never
	Secret  *Secret       // the access key with its secret; nil to generate both
	With    string        // the access key of the creator that signs the request; "" if there is none
}

// Secret is an access key with its secret, which is shown only when it is created.
type Secret struct{ AccessKey, SecretKey string }

var validName = regexp.MustCompile(`^[A-Za-z0-9+=,.@_-]{1,64}$`)

func checkName(name string) error {
	if !validName.MatchString(name) {
		return fail(Invalid, "the name %q is not valid: use 1 to 64 letters, digits and characters of +=,.@_-", name)
	}
	return nil
}

// maxLifetime is the maximum duration until an expiration.
const maxLifetime = 100 * 365 * 24 * time.Hour

func checkLifetime(d time.Duration) error {
	if d < 0 || d > maxLifetime {
		return fail(Invalid, "the duration until the expiration must be positive, and at most 100 years")
	}
	return nil
}

// after returns the time of an expiration, rounded to seconds, or zero for never.
func (d *records) after(lifetime time.Duration) time.Time {
	if lifetime == 0 {
		return time.Time{}
	}
	return d.time().Add(max(lifetime.Truncate(time.Second), time.Second))
}

// CreateKey creates an application key in the account of its creator. The key does not depend on the access key with
// which it is created, since access keys are replaced regularly. But it expires with it at the latest, if that expires.
func (d *Directory) CreateKey(ctx context.Context, by *auth.Principal, n NewKey) (*Identity, Secret, error) {
	document := n.Policy
	err := checkName(n.Name)
	if err == nil {
		err = checkLifetime(n.Expires)
	}
	if err == nil && n.Grant != nil {
		err = n.Grant.Check()
		document = n.Grant.Document()
	}
	if err == nil {
		_, err = parsePolicy(n.Name, document)
	}
	if err == nil && n.Secret != nil {
		err = n.Secret.Check()
	}
	if err != nil {
		return nil, Secret{}, err
	}
	var secret Secret
	i, err := d.put(ctx, Key, by.Account, n.Name, func(s *state, old *Identity) (*Identity, error) {
		switch creator := s.callers[by.ID].Caller; {
		case old != nil:
			return nil, fail(Exists, "there is already a key %s", old.Name)
		case by.Temporary != nil:
			return nil, fail(Denied, "the session of a role cannot create keys, because they would outlast it")
		case creator == nil:
			return nil, fail(Denied, "the creator of the key was deleted")
		case s.depth(by.ID) > maxCreators:
			return nil, fail(TooMany, "a key cannot have more than %d creators", maxCreators)
		}
		expires, err := s.expiresWith(by, n.With)
		if err != nil {
			return nil, err
		}
		i := &Identity{
			Kind: Key, Account: by.Account, Name: n.Name, ID: newID(keyPrefix, uniqueIDLength), Created: d.time(),
			Inline: []Inline{{n.Name, document}}, Grant: n.Grant, Creator: by.ID, With: n.With,
			Expires: earlier(d.after(n.Expires), expires),
		}
		if n.Secret != nil {
			secret = *n.Secret
			return i, addGiven(d, s, i, secret)
		}
		secret, err = d.addAccessKey(s, i)
		return i, err
	})
	return i, secret, err
}

// expiresWith returns the expiration of an access key of a principal, or zero if it does not expire. "" and the access key
// of the root of the default account, which is not stored, never do. What a session creates does not depend on it: sessions
// cannot manage application keys, and those that may create access keys of users can do so as in AWS.
func (s *state) expiresWith(by *auth.Principal, accessKey string) (time.Time, error) {
	if accessKey == "" || by.ID == s.root.ID || by.Temporary != nil || mutant.Is("keys-outlive-their-creators") {
		return time.Time{}, nil
	}
	a, ok := s.access[accessKey]
	if !ok || a.credential.Principal.ID != by.ID {
		return time.Time{}, fail(Denied, "the access key %s was deleted or disabled", accessKey)
	}
	return a.expires, nil
}

// depth returns the number of creators of a key that an identity would create.
func (s *state) depth(id string) (n int) {
	for c := s.callers[id].Caller; c != nil; c = c.Creator {
		n++
	}
	return n
}

// addAccessKey adds a new access key to an identity that is not stored yet. The caller holds d.mu.
func (d *records) addAccessKey(s *state, i *Identity) (Secret, error) {
	secret := Secret{newID(accessKeyPrefix, accessKeyLength), newSecret()}
	for s.uses[secret.AccessKey] != nil {
		secret.AccessKey = newID(accessKeyPrefix, accessKeyLength)
	}
	stored, err := d.encrypt(s, secret.SecretKey, secret.AccessKey, i.ID)
	i.Keys = append(slices.Clone(i.Keys), AccessKey{ID: secret.AccessKey, Created: d.time(), Secret: stored})
	return secret, err
}

// put creates or changes an identity. Change gets the stored identity, or nil if there is none, and returns the new one,
// or nil to leave it as it is. It must not modify what the stored one refers to.
func (d *records) put(
	ctx context.Context, kind Kind, account, name string, change func(*state, *Identity) (*Identity, error),
) (*Identity, error) {
	var result *Identity
	err := d.change(ctx, func(s *state) (*core.Record, error) {
		e := s.get(recordsOf(kind), account, name)
		var old *Identity
		if e != nil {
			old = e.Identity
		}
		i, err := change(s, old)
		if err != nil {
			return nil, err
		}
		if result = i; i == nil {
			result = old
			return nil, nil
		}
		at := s.placeFor(i)
		if e != nil {
			at = e.place
		}
		i.OtherKey = at != placeOf(at.kind, account, i.Name)
		return encode(at.kind, at.key, i)
	})
	return result, err
}

// update changes an identity that must exist. Change gets a copy, whose slices it must not modify.
func (d *records) update(
	ctx context.Context, kind Kind, account, name string, change func(*state, *Identity) error,
) (*Identity, error) {
	return d.put(ctx, kind, account, name, func(s *state, old *Identity) (*Identity, error) {
		if old == nil {
			return nil, noSuch(kind, name)
		}
		if s.ambiguous[placeOf(recordsOf(kind), account, name)] {
			return nil, fail(InUse, "several identities of the kind %s have the name %s: delete or rename one of them first", kind, name)
		}
		i := *old
		err := change(s, &i)
		return &i, err
	})
}

func noSuch(kind Kind, name string) error {
	return fail(NoSuchEntity, "there is no %s %s", kind, name)
}

// remove deletes an identity that must exist, unless check returns an error.
func (d *records) remove(ctx context.Context, kind Kind, account, name string, check func(*state, *Identity) error) error {
	return d.change(ctx, func(s *state) (*core.Record, error) {
		e := s.get(recordsOf(kind), account, name)
		if e == nil {
			return nil, noSuch(kind, name)
		}
		return &core.Record{Kind: e.kind, Key: e.key}, check(s, e.Identity)
	})
}

// Keys returns the application keys that a principal may see, in the order of their names: the root of an account sees
// all keys of the account, others those that they created, directly or with another key.
func (d *Directory) Keys(by *auth.Principal) (list []*Identity) {
	s := d.now.Load()
	for _, e := range s.entries {
		if e.Identity != nil && e.Kind == Key && s.mayManage(by, e.Identity) {
			list = append(list, e.Identity)
		}
	}
	sortByName(list)
	return list
}

// mayManage reports whether a principal may change an application key and obtain a new secret for it. Whoever has a new
// secret of a key can do what the key can do, so this is not left to policies: it is a right of the root of the account,
// and of the principals in the chain of creators of the key, which can do all that the key can do anyway.
func (s *state) mayManage(by *auth.Principal, key *Identity) bool {
	if by.Account != key.Account || by.ID == "" {
		return false
	}
	if by.ID == by.Account || mutant.Is("anyone-rotates") {
		return true
	}
	for n := 0; n <= maxCreators; n++ {
		if key.Creator == by.ID {
			return true
		}
		e := s.byID[key.Creator]
		if e == nil || e.Identity == nil {
			return false
		}
		key = e.Identity
	}
	return false
}

// manage changes an application key, if a principal may.
func (d *Directory) manage(
	ctx context.Context, by *auth.Principal, name string, change func(*state, *Identity) error,
) (*Identity, error) {
	return d.update(ctx, Key, by.Account, name, func(s *state, i *Identity) error {
		if !s.mayManage(by, i) {
			return noSuch(Key, name) // its existence is none of the caller's business
		}
		return change(s, i)
	})
}

// EnableKey enables or disables an application key. Requests with a disabled key, and with the keys that it created, are
// refused from the moment at which EnableKey returns.
func (d *Directory) EnableKey(ctx context.Context, by *auth.Principal, name string, enabled bool) (*Identity, error) {
	return d.manage(ctx, by, name, func(_ *state, i *Identity) error {
		i.Disabled = !enabled
		return nil
	})
}

// RotateKey replaces the access key of an application key. The previous one continues to work for the duration keep; if
// there is one from an earlier rotation, it ends now. With is the access key that signs the request, or "" if there is
// none: the new access key expires with it at the latest.
func (d *Directory) RotateKey(
	ctx context.Context, by *auth.Principal, with, name string, keep time.Duration,
) (i *Identity, secret Secret, err error) {
	if err := checkLifetime(keep); err != nil {
		return nil, Secret{}, err
	}
	i, err = d.manage(ctx, by, name, func(s *state, i *Identity) error {
		expires, err := s.expiresWith(by, with)
		if err != nil {
			return err
		}
		if secret, err = d.replaceAccessKey(s, i, keep); err == nil {
			i.Keys[len(i.Keys)-1].Expires = expires
		}
		return err
	})
	return i, secret, err
}

// replaceAccessKey replaces the access key of an identity that is not stored yet. The previous one continues to work for
// the duration keep. The caller holds d.mu.
func (d *Directory) replaceAccessKey(s *state, i *Identity, keep time.Duration) (Secret, error) {
	old := slices.Clone(i.Keys[max(0, len(i.Keys)-maxAccessKeys+1):])
	if keep == 0 && !mutant.Is("rotation-keeps-keys") {
		old = nil
	}
	for n := range old {
		old[n].Expires = earlier(d.after(keep), old[n].Expires)
	}
	i.Keys = old
	return d.addAccessKey(s, i)
}

// DeleteKey deletes an application key. The keys that it created are refused from then on.
func (d *Directory) DeleteKey(ctx context.Context, by *auth.Principal, name string) error {
	return d.remove(ctx, Key, by.Account, name, func(s *state, i *Identity) error {
		if !s.mayManage(by, i) {
			return noSuch(Key, name)
		}
		return nil
	})
}

// Expiration returns the time at which an application key expires: its own time, or an earlier one of its creators or of
// its newest access key. It reports whether its newest access key is accepted now.
func (d *Directory) Expiration(i *Identity) (at time.Time, works bool) {
	s := d.now.Load()
	c, ok := s.callers[i.ID]
	if !ok {
		return i.Expires, false
	}
	newest := &i.Keys[len(i.Keys)-1]
	_, accepted := s.access[newest.ID]
	at = earlier(c.expires, newest.Expires)
	return at, accepted && !d.expired(at)
}

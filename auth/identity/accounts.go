package identity

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"orcas/core"
	"orcas/internal/mutant"
)

// newAccountID returns a random ID of an account, which no account has.
func (s *state) newAccountID() string {
	const lowest = 100_000_000_000
	for {
		n, _ := rand.Int(rand.Reader, big.NewInt(9*lowest)) // never fails
		if id := fmt.Sprint(lowest + n.Int64()); s.principals[id] == "" {
			return id
		}
	}
}

// CreateAccount creates an account, and an access key of its root, which may do everything in it. Nobody else has any
// right in it.
func (d *Directory) CreateAccount(ctx context.Context, name string) (*Identity, Secret, error) {
	var secret Secret
	i, err := d.create(ctx, Account, d.Root().Account, name, func(s *state, i *Identity) (err error) {
		i.ID = s.newAccountID()
		secret, err = d.addAccessKey(s, i)
		return err
	})
	return i, secret, err
}

// Accounts returns the accounts besides the default account, in the order of their names.
func (d *Directory) Accounts() []*Identity { return d.List(Account, d.Root().Account) }

// RotateAccountKey replaces the access key of the root of an account. The previous one continues to work for the
// duration keep.
func (d *Directory) RotateAccountKey(ctx context.Context, name string, keep time.Duration) (i *Identity, secret Secret, err error) {
	if err := checkLifetime(keep); err != nil {
		return nil, Secret{}, err
	}
	i, err = d.update(ctx, Account, d.Root().Account, name, func(s *state, i *Identity) (err error) {
		secret, err = d.replaceAccessKey(s, i, keep)
		return err
	})
	return i, secret, err
}

// Account returns an account besides the default account, by its name.
func (d *Directory) Account(name string) (*Identity, error) {
	if name == d.Root().Account {
		return nil, fail(Unmodifiable, "the default account cannot be disabled or deleted")
	}
	return d.Get(Account, d.Root().Account, name)
}

// EnableAccount enables or disables an account. From the moment at which EnableAccount returns, requests with the access
// keys of a disabled account are refused: those of its root, its users and its application keys, and the sessions of its
// roles.
func (d *Directory) EnableAccount(ctx context.Context, name string, enabled bool) (*Identity, error) {
	if _, err := d.Account(name); err != nil {
		return nil, err
	}
	return d.update(ctx, Account, d.Root().Account, name, func(_ *state, i *Identity) error {
		i.Disabled = !enabled
		delete(d.closed, i.ID)
		return nil
	})
}

// CloseAccount disables an account, which may be disabled already, so that it can be deleted. The result reopens it if
// the deletion fails: it enables it again, unless it was disabled already, or by somebody else since.
func (d *Directory) CloseAccount(ctx context.Context, name string) (reopen func(context.Context) error, err error) {
	if _, err := d.Account(name); err != nil {
		return nil, err
	}
	wasEnabled := false
	i, err := d.update(ctx, Account, d.Root().Account, name, func(_ *state, i *Identity) error {
		if wasEnabled = !i.Disabled; wasEnabled {
			d.closed[i.ID] = true
		}
		i.Disabled = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return d.change(ctx, func(s *state) (*core.Record, error) {
			e := s.byID[i.ID]
			if e == nil || !wasEnabled || !d.closed[i.ID] {
				return nil, nil
			}
			enabled := *e.Identity
			enabled.Disabled = false
			return encode(e.kind, e.key, &enabled)
		})
	}, nil
}

// DeleteAccount deletes an account, which must be disabled and must not have any identities and policies. It does not know
// whether the account has buckets.
func (d *Directory) DeleteAccount(ctx context.Context, name string) error {
	if _, err := d.Account(name); err != nil {
		return err
	}
	return d.remove(ctx, Account, d.Root().Account, name, func(s *state, i *Identity) error {
		if !i.Disabled {
			return fail(InUse, "the account %s is enabled: disable it first", i.Name)
		}
		if left := s.contents(i.ID); len(left) > 0 && !mutant.Is("account-with-users") {
			return NotEmpty(i, left)
		}
		return nil
	})
}

// NotEmpty returns the error for an account that cannot be deleted because of its contents (Contents).
func NotEmpty(i *Identity, contents []string) error {
	return fail(InUse, "the account %s has %s: delete them first", i.Name, strings.Join(contents, ", "))
}

// Contents describes the identities and policies of an account, such as "2 users (alice, bob)". It is empty if there are
// none.
func (d *Directory) Contents(account string) []string { return d.now.Load().contents(account) }

func (s *state) contents(account string) (list []string) {
	names := map[string][]string{}
	for _, e := range s.entries {
		switch {
		case e.managed != nil && e.managed.Account == account:
			names["policy"] = append(names["policy"], e.managed.Name)
		case e.Identity != nil && e.Account == account && e.Kind != Account:
			names[string(e.Kind)] = append(names[string(e.Kind)], e.Name)
		}
	}
	for _, kind := range []string{"user", "group", "role", "policy", "key"} {
		if of := names[kind]; len(of) > 0 {
			list = append(list, Counted(kind, of))
		}
	}
	return list
}

// Counted returns the number of things of a kind, and the names of the first ones: "2 users (alice, bob)".
func Counted(kind string, names []string) string {
	const most = 5
	slices.Sort(names)
	shown := names
	if len(names) > most {
		shown = append(slices.Clone(names[:most]), "...")
	}
	switch {
	case len(names) == 1:
	case kind == "policy":
		kind = "policies"
	default:
		kind += "s"
	}
	return fmt.Sprintf("%d %s (%s)", len(names), kind, strings.Join(shown, ", "))
}

package identity

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"time"
)

// newAccountID returns a random ID of an account, which no account has.
func (s *state) newAccountID() string {
	const lowest = 100_000_000_000
	for {
		n, _ := rand.Int(rand.Reader, big.NewInt(9*lowest)) // never fails
		if id := fmt.Sprint(lowest + n.Int64()); s.callers[id].Caller == nil {
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

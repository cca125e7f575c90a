package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/core"
)

// AccountInfo is an account with its root.
type AccountInfo struct {
	Name      string    `json:"name"` // "" for the default account
	ID        string    `json:"id"`
	Canonical string    `json:"canonical_id"`
	ARN       string    `json:"arn"`                  // of the root
	Created   time.Time `json:"created,omitzero"`     // zero for the default account
	Default   bool      `json:"default"`              // its root has the root credentials of the server
	Enabled   bool      `json:"enabled"`              // whether the access keys of the account are accepted
	Keys      []UserKey `json:"keys"`                 // of the root; those of the default account are not listed
	AccessKey string    `json:"access_key,omitempty"` // only if it was just created
	SecretKey string    `json:"secret_key,omitempty"` // only if it was just created
	Endpoint  string    `json:"endpoint,omitempty"`   // with a secret
}

// AccountList is a list of accounts, the default account first.
type AccountList struct {
	Accounts []AccountInfo `json:"accounts"`
}

func accountInfo(id string) AccountInfo {
	return AccountInfo{ID: id, Canonical: auth.CanonicalID(id), ARN: auth.RootARN(id), Enabled: true, Keys: []UserKey{}}
}

func (ids *identities) accountInfo(i *identity.Identity) AccountInfo {
	info := accountInfo(i.ID)
	info.Name, info.Created, info.Enabled, info.Keys = i.Name, i.Created, !i.Disabled, userKeys(ids.Directory, i)
	return info
}

func (ids *identities) listAccounts(*http.Request) (any, error) {
	first := accountInfo(ids.Root().Account)
	first.Default = true
	list := AccountList{Accounts: []AccountInfo{first}}
	for _, i := range ids.Accounts() {
		list.Accounts = append(list.Accounts, ids.accountInfo(i))
	}
	return list, nil
}

func (ids *identities) createAccount(r *http.Request) (any, error) {
	return ids.orAccount(ids.CreateAccount(r.Context(), r.URL.Query().Get("name")))
}

func (ids *identities) rotateAccountKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	keep, err := lifetime(q, "overlap")
	if err != nil {
		return nil, err
	}
	return ids.orAccount(ids.RotateAccountKey(r.Context(), q.Get("name"), keep))
}

// orAccount returns an account with a new secret, or an error.
func (ids *identities) orAccount(i *identity.Identity, secret identity.Secret, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	info := ids.accountInfo(i)
	info.AccessKey, info.SecretKey, info.Endpoint = secret.AccessKey, secret.SecretKey, ids.endpoint
	return info, nil
}

// updateAccount enables or disables an account.
func (ids *identities) updateAccount(r *http.Request) (any, error) {
	q := r.URL.Query()
	enabled, err := given(q, "enabled")
	if err != nil {
		return nil, err
	}
	i, err := ids.EnableAccount(r.Context(), q.Get("name"), enabled)
	if err != nil {
		return nil, err
	}
	return ids.accountInfo(i), nil
}

// deleteAccount deletes an account to which nothing belongs.
func (s *Store) deleteAccount(r *http.Request) (any, error) {
	ctx, name := r.Context(), r.URL.Query().Get("name")
	i, err := s.Keys.Account(name)
	if err == nil {
		err = s.empty(ctx, i)
	}
	if err != nil {
		return nil, err
	}
	// A disabled account cannot get new contents between the second check and its end. A bucket that is being created is
	// deleted again by the request that creates it.
	reopen, err := s.Keys.CloseAccount(ctx, name)
	if err != nil {
		return nil, err
	}
	if err = s.empty(ctx, i); err == nil {
		err = s.Keys.DeleteAccount(ctx, name)
	}
	if err != nil {
		err = errors.Join(err, reopen(context.WithoutCancel(ctx)))
	}
	return Deleted{i.Name}, err
}

// empty returns an error if anything belongs to an account.
func (s *Store) empty(ctx context.Context, i *identity.Identity) error {
	contents := s.Keys.Contents(i.ID)
	var buckets []string
	for after, more := "", true; more; {
		var page []core.BucketInfo
		var err error
		if page, more, err = s.FS.Buckets(ctx, "", after, 1000); err != nil {
			return err
		}
		for n := range page {
			after = page[n].Name
			if page[n].Owner == i.ID {
				buckets = append(buckets, after)
			}
		}
	}
	if len(buckets) > 0 {
		contents = append([]string{identity.Counted("bucket", buckets)}, contents...)
	}
	if len(contents) > 0 {
		return identity.NotEmpty(i, contents)
	}
	return nil
}

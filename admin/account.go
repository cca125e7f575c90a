package admin

import (
	"net/http"
	"time"

	"orcas/auth"
	"orcas/auth/identity"
)

// AccountInfo is an account with its root.
type AccountInfo struct {
	Name      string    `json:"name"` // "" for the default account
	ID        string    `json:"id"`
	Canonical string    `json:"canonical_id"`
	ARN       string    `json:"arn"`                  // of the root
	Created   time.Time `json:"created,omitzero"`     // zero for the default account
	Default   bool      `json:"default"`              // its root has the root credentials of the server
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
	return AccountInfo{ID: id, Canonical: auth.CanonicalID(id), ARN: auth.RootARN(id), Keys: []UserKey{}}
}

func (s *Store) accountInfo(i *identity.Identity) AccountInfo {
	info := accountInfo(i.ID)
	info.Name, info.Created, info.Keys = i.Name, i.Created, userKeys(s.Keys, i)
	return info
}

func (s *Store) listAccounts(*http.Request) (any, error) {
	first := accountInfo(s.Keys.Root().Account)
	first.Default = true
	list := AccountList{Accounts: []AccountInfo{first}}
	for _, i := range s.Keys.Accounts() {
		list.Accounts = append(list.Accounts, s.accountInfo(i))
	}
	return list, nil
}

func (s *Store) createAccount(r *http.Request) (any, error) {
	return s.orAccount(s.Keys.CreateAccount(r.Context(), r.URL.Query().Get("name")))
}

func (s *Store) rotateAccountKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	keep, err := lifetime(q, "overlap")
	if err != nil {
		return nil, err
	}
	return s.orAccount(s.Keys.RotateAccountKey(r.Context(), q.Get("name"), keep))
}

// orAccount returns an account with a new secret, or an error.
func (s *Store) orAccount(i *identity.Identity, secret identity.Secret, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	info := s.accountInfo(i)
	info.AccessKey, info.SecretKey, info.Endpoint = secret.AccessKey, secret.SecretKey, s.Endpoint
	return info, nil
}

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

func (ids *identities) accountInfo(i *identity.Identity) AccountInfo {
	info := accountInfo(i.ID)
	info.Name, info.Created, info.Keys = i.Name, i.Created, userKeys(ids.Directory, i)
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

package admin

import (
	"net/http"
	"net/url"
	"time"

	"orcas/auth/identity"
	"orcas/core"
)

// KeyInfo is an application key.
type KeyInfo struct {
	Name      string          `json:"name"`
	AccessKey string          `json:"access_key"`           // the newest one
	SecretKey string          `json:"secret_key,omitempty"` // only if it was just created
	Bucket    string          `json:"bucket"`
	Prefix    string          `json:"prefix"`
	Access    identity.Access `json:"access"`
	NoDelete  bool            `json:"no_delete"` // access does not include the right to delete
	Created   time.Time       `json:"created"`
	With      string          `json:"created_with,omitempty"` // the access key with which it was created, if it is known
	Expires   *time.Time      `json:"expires"`                // null: never; not later than that of the key with which it was created
	Enabled   bool            `json:"enabled"`
	LastUsed  *time.Time      `json:"last_used"` // any of its access keys; null: never
	Works     bool            `json:"works"`     // it is enabled and has not expired, and neither is nor has the one that created it
	ARN       string          `json:"arn"`
	Endpoint  string          `json:"endpoint"`

	Previous *PreviousKey `json:"previous,omitempty"` // works too, after a rotation
}

// PreviousKey is the access key before a rotation.
type PreviousKey struct {
	AccessKey string    `json:"access_key"`
	Expires   time.Time `json:"expires"`
}

// KeyList is a list of application keys.
type KeyList struct {
	Keys []KeyInfo `json:"keys"`
}

func (s *Store) keyInfo(i *identity.Identity, secret identity.Secret) *KeyInfo {
	newest := i.Keys[len(i.Keys)-1]
	info := &KeyInfo{
		Name: i.Name, AccessKey: newest.ID, SecretKey: secret.SecretKey, Created: i.Created, With: i.With, Enabled: !i.Disabled,
		ARN: i.ARN(), Endpoint: s.Endpoint,
	}
	if g := i.Grant; g != nil {
		info.Bucket, info.Prefix, info.Access, info.NoDelete = g.Bucket, g.Prefix, g.Access, g.NoDelete
	}
	var at time.Time
	if at, info.Works = s.Keys.Expiration(i); !at.IsZero() {
		info.Expires = &at
	}
	for n := range i.Keys {
		if used := s.Keys.LastUsed(i.Keys[n].ID); !used.IsZero() && (info.LastUsed == nil || used.After(*info.LastUsed)) {
			info.LastUsed = &used
		}
	}
	if len(i.Keys) > 1 {
		if old := i.Keys[len(i.Keys)-2]; s.now().Before(old.Expires) {
			info.Previous = &PreviousKey{old.ID, old.Expires}
		}
	}
	return info
}

func (s *Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func (s *Store) listKeys(r *http.Request) (any, error) {
	list := KeyList{Keys: []KeyInfo{}}
	for _, i := range s.Keys.Keys(callerOf(r)) {
		list.Keys = append(list.Keys, *s.keyInfo(i, identity.Secret{}))
	}
	return list, nil
}

// createKey creates an application key. The bucket must exist, so that a typing error is noticed.
func (s *Store) createKey(r *http.Request) (any, error) {
	q, caller := r.URL.Query(), callerOf(r)
	n := identity.NewKey{Name: q.Get("name"), With: accessKeyOf(r), Grant: &identity.Grant{
		Bucket: q.Get("bucket"), Prefix: q.Get("prefix"), Access: identity.Access(q.Get("access")),
	}}
	var err error
	if n.Grant.NoDelete, err = flag(r, "no-delete"); err != nil {
		return nil, err
	}
	if n.Expires, err = lifetime(q, "expires"); err != nil {
		return nil, err
	}
	b, err := s.FS.Bucket(r.Context(), n.Grant.Bucket)
	if err == nil && b.Owner != caller.Account {
		err = core.E("admin.key", core.NoSuchBucket, nil)
	}
	if err != nil {
		return nil, named(n.Grant.Bucket, err)
	}
	i, secret, err := s.Keys.CreateKey(r.Context(), caller, n)
	if err != nil {
		return nil, err
	}
	return s.keyInfo(i, secret), nil
}

func (s *Store) deleteKey(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	if err := s.Keys.DeleteKey(r.Context(), callerOf(r), name); err != nil {
		return nil, err
	}
	return Deleted{name}, nil
}

// Deleted is the name of what was deleted.
type Deleted struct {
	Deleted string `json:"deleted"`
}

// updateKey enables or disables an application key.
func (s *Store) updateKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	enabled, err := given(q, "enabled")
	if err != nil {
		return nil, err
	}
	i, err := s.Keys.EnableKey(r.Context(), callerOf(r), q.Get("name"), enabled)
	if err != nil {
		return nil, err
	}
	return s.keyInfo(i, identity.Secret{}), nil
}

// given parses a required parameter that is true or false.
func given(q url.Values, name string) (bool, error) {
	switch v := q.Get(name); v {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, invalid("admin", "%s must be true or false, not %q", name, v)
	}
}

func (s *Store) rotateKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	keep, err := lifetime(q, "overlap")
	if err != nil {
		return nil, err
	}
	i, secret, err := s.Keys.RotateKey(r.Context(), callerOf(r), accessKeyOf(r), q.Get("name"), keep)
	if err != nil {
		return nil, err
	}
	return s.keyInfo(i, secret), nil
}

// lifetime parses a duration such as 90d, 12h or 30m. Without the parameter it is 0.
func lifetime(q url.Values, name string) (time.Duration, error) {
	v := q.Get(name)
	if !q.Has(name) {
		return 0, nil
	}
	d, err := identity.ParseLifetime(v)
	if err != nil {
		return 0, invalid("admin.key", "%s %w", name, err)
	}
	return d, nil
}

// identityStatus returns the HTTP status for an error of package identity.
func identityStatus(c identity.Code) int {
	switch c {
	case identity.NoSuchEntity:
		return http.StatusNotFound
	case identity.Exists, identity.InUse, identity.TooMany:
		return http.StatusConflict
	case identity.Denied:
		return http.StatusForbidden
	}
	return http.StatusBadRequest
}

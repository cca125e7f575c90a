package admin

import (
	"net/http"
	"time"

	"orcas/auth/identity"
)

// UserInfo is a user.
type UserInfo struct {
	Name     string    `json:"name"`
	ARN      string    `json:"arn"`
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	Groups   []string  `json:"groups"`
	Policies []string  `json:"policies"` // attached ones; those of the groups apply too
	Keys     []UserKey `json:"keys"`
}

// UserKey is an access key of a user, or of the root of an account.
type UserKey struct {
	AccessKey string     `json:"access_key"`
	SecretKey string     `json:"secret_key,omitempty"` // only if it was just created
	Created   time.Time  `json:"created"`
	Expires   *time.Time `json:"expires"`   // null: never
	LastUsed  *time.Time `json:"last_used"` // null: never
	Enabled   bool       `json:"enabled"`
	Endpoint  string     `json:"endpoint,omitempty"` // with a secret
}

// UserList is a list of users.
type UserList struct {
	Users []UserInfo `json:"users"`
}

func userKey(k *identity.AccessKey) UserKey {
	info := UserKey{AccessKey: k.ID, Created: k.Created, Enabled: !k.Disabled}
	if !k.Expires.IsZero() {
		info.Expires = &k.Expires
	}
	return info
}

func (s *Store) userInfo(i *identity.Identity) UserInfo {
	info := UserInfo{
		Name: i.Name, ARN: i.ARN(), ID: i.ID, Created: i.Created, Groups: []string{}, Policies: s.policyNames(i),
	}
	for _, g := range s.Keys.GroupsOf(i) {
		info.Groups = append(info.Groups, g.Name)
	}
	info.Keys = userKeys(s.Keys, i)
	return info
}

// userKeys returns the access keys of a user or the root of an account, without their secrets.
func userKeys(ids *identity.Directory, i *identity.Identity) []UserKey {
	list := []UserKey{}
	for n := range i.Keys {
		k := userKey(&i.Keys[n])
		if used := ids.LastUsed(k.AccessKey); !used.IsZero() {
			k.LastUsed = &used
		}
		list = append(list, k)
	}
	return list
}

// policyNames returns the names of the attached policies of a user, a group or a role.
func (s *Store) policyNames(i *identity.Identity) []string {
	names := []string{}
	for _, id := range i.Attached {
		names = append(names, s.Keys.PolicyName(id))
	}
	return names
}

func (s *Store) listUsers(r *http.Request) (any, error) {
	list := UserList{Users: []UserInfo{}}
	for _, i := range s.Keys.List(identity.User, callerOf(r).Account) {
		list.Users = append(list.Users, s.userInfo(i))
	}
	return list, nil
}

func (s *Store) createUser(r *http.Request) (any, error) {
	i, err := s.Keys.Create(r.Context(), identity.User, callerOf(r).Account, r.URL.Query().Get("name"))
	return s.orUser(i, err)
}

// orUser returns a user, or an error.
func (s *Store) orUser(i *identity.Identity, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return s.userInfo(i), nil
}

func (s *Store) deleteUser(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	return Deleted{name}, s.Keys.DeleteUser(r.Context(), callerOf(r).Account, name)
}

func (s *Store) createUserKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	expires, err := lifetime(q, "expires")
	if err != nil {
		return nil, err
	}
	i, secret, err := s.Keys.CreateAccessKey(r.Context(), callerOf(r).Account, q.Get("name"), expires)
	if err != nil {
		return nil, err
	}
	info := userKey(&i.Keys[len(i.Keys)-1])
	info.SecretKey, info.Endpoint = secret.SecretKey, s.Endpoint
	return info, nil
}

func (s *Store) deleteUserKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	return s.orUser(s.Keys.DeleteAccessKey(r.Context(), callerOf(r).Account, q.Get("name"), q.Get("key")))
}

// updateUserKey enables or disables an access key of a user.
func (s *Store) updateUserKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	enabled, err := given(q, "enabled")
	if err != nil {
		return nil, err
	}
	return s.orUser(s.Keys.EnableAccessKey(r.Context(), callerOf(r).Account, q.Get("name"), q.Get("key"), enabled))
}

// GroupInfo is a group of users.
type GroupInfo struct {
	Name     string    `json:"name"`
	ARN      string    `json:"arn"`
	ID       string    `json:"id"`
	Created  time.Time `json:"created"`
	Policies []string  `json:"policies"`
	Members  []string  `json:"members"`
}

// GroupList is a list of groups.
type GroupList struct {
	Groups []GroupInfo `json:"groups"`
}

func (s *Store) groupInfo(i *identity.Identity) GroupInfo {
	info := GroupInfo{
		Name: i.Name, ARN: i.ARN(), ID: i.ID, Created: i.Created, Policies: s.policyNames(i), Members: []string{},
	}
	for _, m := range s.Keys.MembersOf(i) {
		info.Members = append(info.Members, m.Name)
	}
	return info
}

func (s *Store) listGroups(r *http.Request) (any, error) {
	list := GroupList{Groups: []GroupInfo{}}
	for _, i := range s.Keys.List(identity.Group, callerOf(r).Account) {
		list.Groups = append(list.Groups, s.groupInfo(i))
	}
	return list, nil
}

func (s *Store) createGroup(r *http.Request) (any, error) {
	i, err := s.Keys.Create(r.Context(), identity.Group, callerOf(r).Account, r.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	return s.groupInfo(i), nil
}

func (s *Store) deleteGroup(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	return Deleted{name}, s.Keys.DeleteGroup(r.Context(), callerOf(r).Account, name)
}

// updateMember adds a user to a group, or removes it.
func (s *Store) updateMember(r *http.Request) (any, error) {
	q := r.URL.Query()
	member, err := given(q, "member")
	if err != nil {
		return nil, err
	}
	return s.orUser(s.Keys.SetMember(r.Context(), callerOf(r).Account, q.Get("user"), q.Get("group"), member))
}

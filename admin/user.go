package admin

import (
	"net/http"
	"time"

	"orcas/auth/identity"
)

// identities handles the operations on users, groups, roles, policies and accounts.
type identities struct {
	*identity.Directory
	endpoint string // see Store
}

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

func (ids *identities) userInfo(i *identity.Identity) UserInfo {
	info := UserInfo{
		Name: i.Name, ARN: i.ARN(), ID: i.ID, Created: i.Created, Groups: []string{}, Policies: ids.policyNames(i),
	}
	for _, g := range ids.GroupsOf(i) {
		info.Groups = append(info.Groups, g.Name)
	}
	info.Keys = userKeys(ids.Directory, i)
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
func (ids *identities) policyNames(i *identity.Identity) []string {
	names := []string{}
	for _, id := range i.Attached {
		names = append(names, ids.PolicyName(id))
	}
	return names
}

func (ids *identities) listUsers(r *http.Request) (any, error) {
	list := UserList{Users: []UserInfo{}}
	for _, i := range ids.List(identity.User, callerOf(r).Account) {
		list.Users = append(list.Users, ids.userInfo(i))
	}
	return list, nil
}

func (ids *identities) createUser(r *http.Request) (any, error) {
	i, err := ids.Create(r.Context(), identity.User, callerOf(r).Account, r.URL.Query().Get("name"))
	return ids.orUser(i, err)
}

// orUser returns a user, or an error.
func (ids *identities) orUser(i *identity.Identity, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return ids.userInfo(i), nil
}

func (ids *identities) renameUser(r *http.Request) (any, error) {
	q := r.URL.Query()
	return ids.orUser(ids.Rename(r.Context(), identity.User, callerOf(r).Account, q.Get("name"), q.Get("to")))
}

func (ids *identities) deleteUser(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	return Deleted{name}, ids.DeleteUser(r.Context(), callerOf(r).Account, name)
}

func (ids *identities) createUserKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	expires, err := lifetime(q, "expires")
	if err != nil {
		return nil, err
	}
	i, secret, err := ids.CreateAccessKeyWith(r.Context(), callerOf(r), accessKeyOf(r), q.Get("name"), expires)
	if err != nil {
		return nil, err
	}
	info := userKey(&i.Keys[len(i.Keys)-1])
	info.SecretKey, info.Endpoint = secret.SecretKey, ids.endpoint
	return info, nil
}

func (ids *identities) deleteUserKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	return ids.orUser(ids.DeleteAccessKey(r.Context(), callerOf(r).Account, q.Get("name"), q.Get("key")))
}

// updateUserKey enables or disables an access key of a user.
func (ids *identities) updateUserKey(r *http.Request) (any, error) {
	q := r.URL.Query()
	enabled, err := given(q, "enabled")
	if err != nil {
		return nil, err
	}
	return ids.orUser(ids.EnableAccessKey(r.Context(), callerOf(r).Account, q.Get("name"), q.Get("key"), enabled))
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

func (ids *identities) groupInfo(i *identity.Identity) GroupInfo {
	info := GroupInfo{
		Name: i.Name, ARN: i.ARN(), ID: i.ID, Created: i.Created, Policies: ids.policyNames(i), Members: []string{},
	}
	for _, m := range ids.MembersOf(i) {
		info.Members = append(info.Members, m.Name)
	}
	return info
}

func (ids *identities) listGroups(r *http.Request) (any, error) {
	list := GroupList{Groups: []GroupInfo{}}
	for _, i := range ids.List(identity.Group, callerOf(r).Account) {
		list.Groups = append(list.Groups, ids.groupInfo(i))
	}
	return list, nil
}

func (ids *identities) createGroup(r *http.Request) (any, error) {
	i, err := ids.Create(r.Context(), identity.Group, callerOf(r).Account, r.URL.Query().Get("name"))
	return ids.orGroup(i, err)
}

// orGroup returns a group, or an error.
func (ids *identities) orGroup(i *identity.Identity, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return ids.groupInfo(i), nil
}

func (ids *identities) renameGroup(r *http.Request) (any, error) {
	q := r.URL.Query()
	return ids.orGroup(ids.Rename(r.Context(), identity.Group, callerOf(r).Account, q.Get("name"), q.Get("to")))
}

func (ids *identities) deleteGroup(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	return Deleted{name}, ids.DeleteGroup(r.Context(), callerOf(r).Account, name)
}

// updateMember adds a user to a group, or removes it.
func (ids *identities) updateMember(r *http.Request) (any, error) {
	q := r.URL.Query()
	member, err := given(q, "member")
	if err != nil {
		return nil, err
	}
	return ids.orUser(ids.SetMember(r.Context(), callerOf(r).Account, q.Get("user"), q.Get("group"), member))
}

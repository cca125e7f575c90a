package admin

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"orcas/auth/identity"
)

// RoleInfo is a role.
type RoleInfo struct {
	Name        string          `json:"name"`
	ARN         string          `json:"arn"`
	ID          string          `json:"id"`
	Created     time.Time       `json:"created"`
	Description string          `json:"description"`
	MaxSession  int             `json:"max_session_seconds"` // the maximum duration of a session
	Trust       json.RawMessage `json:"trust"`               // the trust policy: who may assume the role
	Policies    []string        `json:"policies"`            // attached ones
	Inline      []PolicyInfo    `json:"inline_policies"`
}

// RoleList is a list of roles.
type RoleList struct {
	Roles []RoleInfo `json:"roles"`
}

func (ids *identities) roleInfo(i *identity.Identity) RoleInfo {
	info := RoleInfo{
		Name: i.Name, ARN: i.ARN(), ID: i.ID, Created: i.Created, Description: i.Description, MaxSession: i.MaxSession,
		Trust: json.RawMessage(ids.TrustOf(i)), Policies: ids.policyNames(i), Inline: []PolicyInfo{},
	}
	for _, p := range i.Inline {
		info.Inline = append(info.Inline, PolicyInfo{p.Name, false, json.RawMessage(p.Document)})
	}
	return info
}

func (ids *identities) listRoles(r *http.Request) (any, error) {
	list := RoleList{Roles: []RoleInfo{}}
	for _, i := range ids.List(identity.Role, callerOf(r).Account) {
		list.Roles = append(list.Roles, ids.roleInfo(i))
	}
	return list, nil
}

// roleChange returns the settings of a role in a request. Without a trust policy in the body, the users in the query may
// assume the role.
func (ids *identities) roleChange(r *http.Request) (c identity.RoleChange, err error) {
	document, err := io.ReadAll(r.Body)
	if err != nil {
		return c, err
	}
	q := r.URL.Query()
	switch users := q["user"]; {
	case len(document) > 0 && len(users) > 0:
		return c, invalid("admin.role", "expected either users or a trust policy, found both")
	case len(users) > 0:
		if document, err = trusting(ids.Directory, callerOf(r).Account, users); err != nil {
			return c, err
		}
	}
	if trust := string(document); trust != "" {
		c.Trust = &trust
	}
	if q.Has("max-session") {
		d, err := lifetime(q, "max-session")
		if err != nil {
			return c, err
		}
		c.MaxSession = &d
	}
	if q.Has("description") {
		text := q.Get("description")
		c.Description = &text
	}
	return c, nil
}

// trusting returns a trust policy that names users.
func trusting(ids *identity.Directory, account string, users []string) ([]byte, error) {
	var arns []string
	for _, name := range users {
		u, err := ids.Get(identity.User, account, name)
		if err != nil {
			return nil, err
		}
		arns = append(arns, u.ARN())
	}
	return json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": []any{map[string]any{
		"Effect": "Allow", "Principal": map[string]any{"AWS": arns}, "Action": "sts:AssumeRole",
	}}})
}

func (ids *identities) createRole(r *http.Request) (any, error) {
	c, err := ids.roleChange(r)
	if err != nil {
		return nil, err
	}
	return ids.orRole(ids.CreateRole(r.Context(), callerOf(r).Account, r.URL.Query().Get("name"), c))
}

func (ids *identities) updateRole(r *http.Request) (any, error) {
	c, err := ids.roleChange(r)
	if err != nil {
		return nil, err
	}
	return ids.orRole(ids.UpdateRole(r.Context(), callerOf(r).Account, r.URL.Query().Get("name"), c))
}

// orRole returns a role, or an error.
func (ids *identities) orRole(i *identity.Identity, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return ids.roleInfo(i), nil
}

func (ids *identities) deleteRole(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	return Deleted{name}, ids.DeleteRole(r.Context(), callerOf(r).Account, name)
}

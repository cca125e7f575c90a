package admin

import (
	"encoding/json"
	"io"
	"net/http"

	"orcas/auth/identity"
	"orcas/auth/policy"
)

// PolicyInfo is a policy.
type PolicyInfo struct {
	Name     string          `json:"name"`
	BuiltIn  bool            `json:"built_in"`
	Document json.RawMessage `json:"document"`
}

// PolicyList is a list of policies, the built-in ones first.
type PolicyList struct {
	Policies []PolicyInfo `json:"policies"`
}

func (ids *identities) listPolicies(r *http.Request) (any, error) {
	var list PolicyList
	for _, name := range policy.BuiltIns() {
		list.Policies = append(list.Policies, PolicyInfo{name, true, json.RawMessage(policy.BuiltInDocument(name))})
	}
	for _, p := range ids.Policies(callerOf(r).Account) {
		list.Policies = append(list.Policies, PolicyInfo{p.Name, false, json.RawMessage(p.Document)})
	}
	return list, nil
}

// putPolicy creates a policy, or replaces its document for all to whom it is attached.
func (ids *identities) putPolicy(r *http.Request) (any, error) {
	document, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p, err := ids.PutPolicy(r.Context(), callerOf(r).Account, r.URL.Query().Get("name"), string(document))
	if err != nil {
		return nil, err
	}
	return PolicyInfo{p.Name, false, document}, nil
}

func (ids *identities) deletePolicy(r *http.Request) (any, error) {
	name := r.URL.Query().Get("name")
	return Deleted{name}, ids.DeletePolicy(r.Context(), callerOf(r).Account, name)
}

// attachPolicy attaches a policy to a user, a group or a role, or detaches it.
func (ids *identities) attachPolicy(r *http.Request) (any, error) {
	q := r.URL.Query()
	attached, err := given(q, "attached")
	if err != nil {
		return nil, err
	}
	var kind identity.Kind
	for _, k := range []identity.Kind{identity.User, identity.Group, identity.Role} {
		if !q.Has(string(k)) {
			continue
		}
		if kind != "" {
			return nil, invalid("admin.policy", "expected either a %s or a %s", kind, k)
		}
		kind = k
	}
	if kind == "" {
		return nil, invalid("admin.policy", "expected a user, a group or a role")
	}
	i, err := ids.Attach(r.Context(), kind, callerOf(r).Account, q.Get(string(kind)), q.Get("policy"), attached)
	if err != nil {
		return nil, err
	}
	switch kind {
	case identity.Group:
		return ids.groupInfo(i), nil
	case identity.Role:
		return ids.roleInfo(i), nil
	}
	return ids.userInfo(i), nil
}

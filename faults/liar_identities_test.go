package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"orcas/admin"
)

// admin serves the part of the admin API about identities.
func (l *liar) admin(w http.ResponseWriter, r *http.Request, body string) {
	q, what := r.URL.Query(), strings.TrimPrefix(r.URL.Path, "/-/admin/")
	name := q.Get("name")
	n := identity(what, name)
	var answer any = struct{}{}
	switch {
	case r.Method == http.MethodGet:
		answer = l.listIdentities(what)
	case what == "user/key" && r.Method == http.MethodPost, what == "key" && r.Method == http.MethodPost, what == "account":
		answer = l.newKey(n)
	case what == "key/rotate", what == "account/rotate":
		n = identity(strings.TrimSuffix(what, "/rotate"), name)
		l.retired[n] = l.now.ids[n]
		answer = l.newKey(n)
	case what == "key/state":
		l.setIdentity(identity("key/disabled", name), "", q.Get("enabled") == "false")
	case what == "group/member":
		l.setIdentity(identity("user/group", q.Get("user")), "", q.Get("member") == "true")
	case what == "policy/attach":
		l.setIdentity(identity("user/attached", q.Get("user")), "", q.Get("attached") == "true")
	case what == "role/settings":
		l.setIdentity(identity("role", name), q.Get("description"), true)
	case what == "policy":
		l.setIdentity(n, labelOf([]byte(body)), r.Method == http.MethodPost)
	default:
		l.setIdentity(n, q.Get("description"), r.Method == http.MethodPost)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(text)
}

// setIdentity creates, replaces or deletes an item. The parts of what is deleted are deleted too.
func (l *liar) setIdentity(n Name, label string, exists bool) {
	if exists {
		l.now.ids[n] = label
		return
	}
	for part := range l.now.ids {
		if part == n || strings.HasPrefix(part.Identity, n.Identity+"/") && l.lie != "inherited" {
			delete(l.now.ids, part)
		}
	}
}

// newKey creates an access key.
func (l *liar) newKey(n Name) any {
	l.keys++
	access := fmt.Sprintf("AKIA%d", l.keys)
	l.now.ids[n] = access
	return map[string]string{"access_key": access, "secret_key": "secret"}
}

// listIdentities returns the list of a kind of identities.
func (l *liar) listIdentities(kind string) any {
	var users admin.UserList
	var groups admin.GroupList
	var roles admin.RoleList
	var policies admin.PolicyList
	var keys admin.KeyList
	var accounts admin.AccountList
	for n, label := range l.now.ids {
		of, name, _ := strings.Cut(n.Identity, "/")
		if of != kind || strings.Contains(name, "/") {
			continue
		}
		has := func(part string) (list []string) {
			if label, exists := l.now.ids[Name{Identity: n.Identity + "/" + part}]; exists {
				list = append(list, label)
			}
			return list
		}
		switch kind {
		case "user":
			u := admin.UserInfo{Name: name, Groups: has("group"), Policies: has("attached")}
			for _, access := range has("key") {
				u.Keys = append(u.Keys, admin.UserKey{AccessKey: access})
			}
			users.Users = append(users.Users, u)
		case "group":
			groups.Groups = append(groups.Groups, admin.GroupInfo{Name: name})
		case "role":
			role := admin.RoleInfo{Name: name, Description: label, Trust: json.RawMessage("{}")}
			for _, label := range has("policy") {
				role.Inline = append(role.Inline, admin.PolicyInfo{Document: json.RawMessage(document(label))})
			}
			roles.Roles = append(roles.Roles, role)
		case "policy":
			policies.Policies = append(policies.Policies, admin.PolicyInfo{Name: name, Document: json.RawMessage(document(label))})
		case "key":
			keys.Keys = append(keys.Keys, admin.KeyInfo{Name: name, AccessKey: label, Enabled: has("disabled") == nil})
		case "account":
			accounts.Accounts = append(accounts.Accounts, admin.AccountInfo{Name: name, Keys: []admin.UserKey{{AccessKey: label}}})
		}
	}
	return map[string]any{"user": users, "group": groups, "role": roles, "policy": policies, "key": keys, "account": accounts}[kind]
}

// form serves the part of IAM and STS that the bench uses.
func (l *liar) form(w http.ResponseWriter, r *http.Request, body string) {
	q, err := url.ParseQuery(body)
	if err != nil {
		panic(err)
	}
	kind, name := "user", q.Get("UserName")
	if name == "" {
		kind, name = "role", q.Get("RoleName")
	}
	tag, inline := identity(kind+"/tag", name), identity(kind+"/policy", name)
	label, exists := l.now.ids[tag]
	switch action := q.Get("Action"); action {
	case "GetCallerIdentity":
		if !l.accepts(r.Header.Get("Authorization")) {
			w.WriteHeader(http.StatusForbidden)
		}
	case "TagUser", "TagRole":
		l.setIdentity(tag, q.Get("Tags.member.1.Value"), true)
	case "UntagUser", "UntagRole":
		l.setIdentity(tag, "", false)
	case "PutUserPolicy", "PutRolePolicy":
		l.setIdentity(inline, labelOf([]byte(q.Get("PolicyDocument"))), true)
	case "DeleteUserPolicy", "DeleteRolePolicy":
		l.setIdentity(inline, "", false)
	case "GetUserPolicy":
		if label, exists = l.now.ids[inline]; !exists {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		writeXML(w, "R", "<GetUserPolicyResult><PolicyDocument>"+url.QueryEscape(document(label))+"</PolicyDocument></GetUserPolicyResult>")
	default: // ListUserTags, ListRoleTags
		tags := ""
		if exists {
			tags = "<Tags><member><Value>" + label + "</Value></member></Tags>"
		}
		writeXML(w, "R", "<"+action+"Result>"+tags+"</"+action+"Result>")
	}
}

// accepts reports whether a request has an access key that exists.
func (l *liar) accepts(authorization string) bool {
	_, access, _ := strings.Cut(authorization, "Credential=")
	access, _, _ = strings.Cut(access, "/")
	for n, label := range l.now.ids {
		if _, disabled := l.now.ids[Name{Identity: n.Identity + "/disabled"}]; label == access && !disabled {
			return true
		}
	}
	return l.lie == "deleted-keys-work"
}

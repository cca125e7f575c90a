package iam

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/auth"
	"orcas/auth/identity"
)

// document is a policy that is valid and allows nothing of IAM.
var document = allow("*", "s3:GetObject")

// example returns parameters for an action, from its row in the table: everything that they name exists.
func (b *bench) example(r *route, k key) (parameters []string) {
	values := map[string]string{
		"UserName": "target", "GroupName": "group", "PolicyName": "policy", "PolicyArn": b.arn("policy/policy"),
		"RoleName": "role", "RoleArn": b.arn("role/role"), "RoleSessionName": "session", "AssumeRolePolicyDocument": b.trust("user/target"),
		"PolicyDocument": document, "AccessKeyId": k.access, "Status": "Active", "VersionId": "v1",
	}
	if r.Name == "UpdateAssumeRolePolicy" {
		values["PolicyDocument"] = values["AssumeRolePolicyDocument"]
	}
	for _, name := range r.needs {
		parameters = append(parameters, name, values[name])
	}
	if r.Name == "UpdateRoleDescription" {
		parameters = append(parameters, "Description", "")
	}
	if slices.Contains(r.takes, "UserName") {
		parameters = append(parameters, "UserName", values["UserName"])
	}
	return parameters
}

// targetOf returns the resource that the example is about.
func (b *bench) targetOf(r *route) string {
	switch r.target {
	case userTarget, selfTarget, ownerTarget:
		return b.arn("user/target")
	case groupTarget:
		return b.arn("group/group")
	case roleTarget:
		return b.arn("role/role")
	case nameTarget, arnTarget:
		return b.arn("policy/policy")
	}
	return "*"
}

// newWorld returns a bench with what the examples name, and an access key of the user target.
func newWorld(t *testing.T) (*bench, key) {
	b := newBench(t)
	k := b.user("target", document)
	_, err := b.identities.Create(t.Context(), identity.Group, b.account, "group")
	require.NoError(t, err)
	_, err = b.identities.CreatePolicy(t.Context(), b.account, "policy", document, "")
	require.NoError(t, err)
	trust := b.trust("user/target")
	_, err = b.identities.CreateRole(t.Context(), b.account, "role", identity.RoleChange{Trust: &trust})
	require.NoError(t, err)
	return b, k
}

// TestPermissions is generated from the table of actions: nobody performs an action without a permission for it on its
// target, and nothing else is needed.
func TestPermissions(t *testing.T) {
	b, target := newWorld(t)
	everythingButIAM := `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "NotAction": ["iam:*", "sts:*"], "Resource": "*"}}`
	denied := `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"},
		{"Effect": "Deny", "Action": ["iam:*", "sts:*"], "Resource": "*"}]}`
	_, s, err := b.identities.CreateKey(t.Context(), b.identities.Root(), identity.NewKey{
		Name: "app", Grant: &identity.Grant{Bucket: "b", Access: identity.ReadWrite},
	})
	require.NoError(t, err)
	s3user := b.user("s3", allow("*", "s3:*"))
	u, err := b.identities.Get(identity.User, b.account, "s3")
	require.NoError(t, err)
	creator := &auth.Principal{Account: b.account, ARN: u.ARN(), ID: u.ID}
	_, all, err := b.identities.CreateKey(t.Context(), creator, identity.NewKey{Name: "all", Policy: allow("*", "*")})
	require.NoError(t, err)
	callers := map[string]key{
		"a user without policies": b.user("nothing", ""), "a user of S3": s3user, "a key of that user with all rights": {all.AccessKey, all.SecretKey},
		"a user of all else": b.user("others", everythingButIAM), "a user with a denial": b.user("denied", denied),
		"an application key": {s.AccessKey, s.SecretKey}, "the target": target,
	}
	b.user("trusted", "")
	trustNobody := b.trust("user/trusted")
	_, err = b.identities.UpdateRole(t.Context(), b.account, "role", identity.RoleChange{Trust: &trustNobody})
	require.NoError(t, err)
	before := b.everything()
	for _, r := range allRoutes() {
		for who, k := range callers {
			got := b.as(k, r.Name, b.example(&r, target)...)
			if r.free {
				require.Equal(t, 200, got.status, "%s: %s", r.Name, who)
				continue
			}
			require.Equal(t, []any{403, "AccessDenied"}, []any{got.status, got.code}, "%s: %s: %s", r.Name, who, got.body)
			require.Contains(t, got.text, "not authorized to perform: "+string(r.Action)+" on resource: ")
			require.Nil(t, got.result)
			if r.decides {
				continue
			}
			require.Equal(t, who == "a user with a denial", strings.Contains(got.text, "explicit deny"))
		}
	}
	require.Equal(t, before, b.everything(), "nothing has changed")

	for _, r := range allRoutes() {
		if r.free || r.decides {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			b, target := newWorld(t)
			code := func(k key) string {
				t.Helper()
				return b.as(k, r.Name, b.example(&r, target)...).code
			}
			others := slices.DeleteFunc(allRoutes(), func(other route) bool { return other.Action == r.Action })
			actions := []string{"s3:*"}
			for _, other := range others {
				actions = append(actions, string(other.Action))
			}
			require.Equal(t, "AccessDenied", code(b.user("all-others", allow("*", actions...))))
			if r.target != noTarget {
				for _, resource := range []string{"user/other", "user/TARGET", "group/other", "policy/other", "user/target2", "role/other", "role/ROLE"} {
					if kind, _, _ := strings.Cut(resource, "/"); strings.HasPrefix(b.targetOf(&r), b.arn(kind)) {
						k := b.user("of-"+strings.ReplaceAll(resource, "/", "-"), allow(b.arn(resource), string(r.Action)))
						require.Equal(t, "AccessDenied", code(k), resource)
					}
				}
			}
			require.NotContains(t, []string{"AccessDenied", "InternalFailure", "ValidationError"}, code(b.user("allowed", allow(b.targetOf(&r), string(r.Action)))))
		})
	}
}

// trust returns a trust policy for an identity of the account, such as user/alice.
func (b *bench) trust(who string) string {
	return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": %q}, "Action": "sts:AssumeRole"}}`, b.arn(who))
}

// everything returns all identities and policies, as text.
func (b *bench) everything() string {
	text, err := json.Marshal([]any{
		b.identities.List(identity.User, b.account), b.identities.List(identity.Group, b.account), b.identities.Policies(b.account),
		b.identities.List(identity.Role, b.account),
	})
	require.NoError(b.t, err)
	return string(text)
}

// TestParameters is generated from the table: each action refuses parameters that it does not list, and requires those
// that it needs.
func TestParameters(t *testing.T) {
	b, target := newWorld(t)
	for _, r := range allRoutes() {
		example := b.example(&r, target)
		b.fails(400, "ValidationError", r.Name, append(slices.Clone(example), "PermissionsBoundary", "x")...)
		for i := 0; i < 2*len(r.needs); i += 2 {
			b.fails(400, "ValidationError", r.Name, slices.Delete(slices.Clone(example), i, i+2)...)
			empty := slices.Clone(example)
			empty[i+1] = ""
			b.fails(400, "ValidationError", r.Name, empty...)
			if slices.Contains(names, example[i]) {
				for _, name := range []string{"a/b", "*", "a*", "ü", strings.Repeat("x", 65)} {
					wrong := slices.Clone(example)
					wrong[i+1] = name
					b.fails(400, "ValidationError", r.Name, wrong...)
				}
			}
		}
	}
}

// Names in requests are compared without case, but a statement about a user covers the user in any case.
func TestCaseOfNames(t *testing.T) {
	b, _ := newWorld(t)
	protected := func(resource string) string {
		return fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "iam:*", "Resource": "*"},
			{"Effect": "Deny", "Action": "iam:*", "Resource": %q}]}`, b.arn(resource))
	}
	user := b.user("no-user", protected("user/target"))
	group := b.user("no-group", protected("group/group"))
	policy := b.user("no-policy", protected("policy/policy"))
	for _, c := range [][]string{
		{"DeleteUser", "UserName", "TARGET"}, {"CreateAccessKey", "UserName", "Target"}, {"GetUser", "UserName", "tArget"},
	} {
		require.Equal(t, "AccessDenied", b.as(user, c[0], c[1:]...).code)
	}
	require.Equal(t, "AccessDenied", b.as(group, "DeleteGroup", "GroupName", "GROUP").code)
	require.Equal(t, "AccessDenied", b.as(policy, "DeletePolicy", "PolicyArn", b.arn("policy/POLICY")).code)
	require.Equal(t, "AccessDenied", b.as(policy, "CreatePolicy", "PolicyName", "POLICY", "PolicyDocument", document).code)
	got := b.as(b.user("nobody", ""), "DeleteUser", "UserName", "TARGET")
	require.Contains(t, got.text, b.arn("user/TARGET"), "it does not reveal the stored name")

	// The condition key of a policy that is attached does not depend on the case either.
	k := b.user("attacher", fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "iam:*", "Resource": "*"},
		{"Effect": "Deny", "Action": "iam:AttachUserPolicy", "Resource": "*", "Condition": {"ArnEquals": {"iam:PolicyARN": [
		%q, "arn:aws:iam::aws:policy/admin"]}}}]}`, b.arn("policy/policy")))
	for arn, want := range map[string]string{
		b.arn("policy/policy"): "AccessDenied", b.arn("policy/Policy"): "AccessDenied", "arn:aws:iam::aws:policy/admin": "AccessDenied",
		"arn:aws:iam::aws:policy/ADMIN": "NoSuchEntity", "arn:aws:iam::aws:policy/readonly": "", b.arn("policy/admin"): "NoSuchEntity",
		"arn:aws:iam::111122223333:policy/policy": "NoSuchEntity", "policy": "NoSuchEntity",
	} {
		require.Equal(t, want, b.as(k, "AttachUserPolicy", "UserName", "target", "PolicyArn", arn).code, arn)
	}
}

func TestUsers(t *testing.T) {
	b := newBench(t)
	got := b.ok("CreateUser", "UserName", "Alice", "Path", "/", "Tags.member.1.Key", "team", "Tags.member.1.Value", "red & <blue>",
		"Tags.member.2.Key", "site", "Tags.member.2.Value", "")
	require.Equal(t, []string{"Alice", "/", b.arn("user/Alice"), "2027-01-15T08:00:00Z"},
		[]string{got.get("User", "UserName"), got.get("User", "Path"), got.get("User", "Arn"), got.get("User", "CreateDate")})
	id := got.get("User", "UserId")
	require.Regexp(t, "^AIDA", id)
	got = b.ok("GetUser", "UserName", "alice")
	require.Equal(t, id, got.get("User", "UserId"))
	require.Equal(t, []string{"team", "site"}, reversed(got.find("User").each("Tags", "Key")))
	require.Equal(t, []string{"red & <blue>", ""}, reversed(got.find("User").each("Tags", "Value")))

	b.fails(409, "EntityAlreadyExists", "CreateUser", "UserName", "ALICE")
	b.fails(400, "ValidationError", "CreateUser", "UserName", "bob", "Path", "/team/")
	b.fails(400, "InvalidInput", "CreateUser", "UserName", "bob", "Tags.member.1.Key", "a", "Tags.member.1.Value", "1",
		"Tags.member.2.Key", "A", "Tags.member.2.Value", "2")
	b.fails(400, "InvalidInput", "CreateUser", "UserName", "bob", "Tags.member.1.Key", "a", "Tags.member.1.Value", "1",
		"Tags.member.2.Key", "a", "Tags.member.2.Value", "2")
	for _, gap := range []string{"Tags.member.2.Key", "Tags.member.1.Value", "Tags.member.1.Other", "Tags.member.1.Key"} {
		b.fails(400, "ValidationError", "CreateUser", "UserName", "bob", gap, "x")
	}
	b.fails(404, "NoSuchEntity", "GetUser", "UserName", "bob")
	b.fails(404, "NoSuchEntity", "DeleteUser", "UserName", "bob")

	// Tags need a permission of their own.
	creator := b.user("creator", allow(b.arn("user/*"), "iam:CreateUser"))
	require.Equal(t, 200, b.as(creator, "CreateUser", "UserName", "bob").status)
	require.Contains(t, b.as(creator, "CreateUser", "UserName", "carol", "Tags.member.1.Key", "a", "Tags.member.1.Value", "1").text, "iam:TagUser")
	b.fails(404, "NoSuchEntity", "GetUser", "UserName", "carol")

	b.ok2("TagUser", "UserName", "alice", "Tags.member.1.Key", "TEAM", "Tags.member.1.Value", "green")
	b.ok2("UntagUser", "UserName", "alice", "TagKeys.member.1", "Site", "TagKeys.member.2", "none")
	b.fails(400, "ValidationError", "UntagUser", "UserName", "alice", "TagKeys.member.2", "TEAM")
	got = b.ok("ListUserTags", "UserName", "alice")
	require.Equal(t, []string{"TEAM"}, got.each("Tags", "Key"))
	require.Equal(t, []string{"green"}, got.each("Tags", "Value"))
	require.Equal(t, "false", got.get("IsTruncated"))

	// The caller is meant if no user is named.
	k := b.user("self", allow("arn:aws:iam::*:user/${aws:username}", "iam:GetUser", "iam:ListAccessKeys", "iam:CreateAccessKey"))
	require.Equal(t, "self", b.as(k, "GetUser").result.get("User", "UserName"))
	require.Equal(t, []string{k.access}, b.as(k, "ListAccessKeys").result.each("AccessKeyMetadata", "AccessKeyId"))
	require.Equal(t, "AccessDenied", b.as(k, "GetUser", "UserName", "alice").code)
	require.Equal(t, "AccessDenied", b.as(k, "CreateAccessKey", "UserName", "alice").code)
	got = b.ok("GetUser")
	require.Equal(t, []string{b.account, b.arn("root"), ""}, []string{got.get("User", "UserId"), got.get("User", "Arn"), got.get("User", "UserName")})
	b.fails(400, "ValidationError", "CreateAccessKey")

	// Lists.
	for n := range 5 {
		b.ok("CreateUser", "UserName", fmt.Sprintf("List%d", n))
	}
	var all []string
	parameters := []string{"MaxItems", "2", "PathPrefix", "/"}
	for {
		got = b.ok("ListUsers", parameters...)
		page := got.each("Users", "UserName")
		require.LessOrEqual(t, len(page), 2)
		all = append(all, page...)
		require.Equal(t, got.get("Marker") != "", got.get("IsTruncated") == "true")
		if got.get("Marker") == "" {
			break
		}
		parameters = []string{"MaxItems", "2", "Marker", got.get("Marker")}
	}
	require.Equal(t, []string{"Alice", "bob", "creator", "List0", "List1", "List2", "List3", "List4", "self"}, all)
	require.Equal(t, all, b.ok("ListUsers").each("Users", "UserName"))
	require.Empty(t, b.ok("ListUsers", "PathPrefix", "/team/").each("Users", "UserName"))
	for _, wrong := range []string{"0", "1001", "x", "-1", ""} {
		b.fails(400, "ValidationError", "ListUsers", "MaxItems", wrong)
	}
	for _, wrong := range []string{"", "*", "a"} {
		b.fails(400, "ValidationError", "ListUsers", "Marker", wrong)
	}
	b.ok2("DeleteUser", "UserName", "bob")
	b.fails(404, "NoSuchEntity", "GetUser", "UserName", "bob")
}

// ok2 performs an action without a result as the root, which must succeed.
func (b *bench) ok2(action string, parameters ...string) {
	b.t.Helper()
	require.Nil(b.t, b.ok(action, parameters...))
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

func TestTagConditions(t *testing.T) {
	b := newBench(t)
	b.ok("CreateUser", "UserName", "red", "Tags.member.1.Key", "Team", "Tags.member.1.Value", "red")
	b.ok("CreateUser", "UserName", "blue", "Tags.member.1.Key", "Team", "Tags.member.1.Value", "blue")
	k := b.user("leader", `{"Version": "2012-10-17", "Statement": [
		{"Effect": "Allow", "Action": "iam:DeleteUser", "Resource": "*", "Condition": {"StringEquals": {"aws:ResourceTag/team": "red"}}},
		{"Effect": "Allow", "Action": ["iam:CreateUser", "iam:TagUser"], "Resource": "*", "Condition": {
			"StringEquals": {"aws:RequestTag/team": "red"}, "ForAllValues:StringEquals": {"aws:TagKeys": ["team"]}}}]}`)
	require.Equal(t, "AccessDenied", b.as(k, "DeleteUser", "UserName", "blue").code)
	require.Equal(t, "AccessDenied", b.as(k, "DeleteUser", "UserName", "nobody").code)
	require.Equal(t, 200, b.as(k, "DeleteUser", "UserName", "red").status)
	create := func(tags ...string) string {
		parameters := []string{"UserName", "new"}
		for i := 0; i < len(tags); i += 2 {
			n := fmt.Sprint(i/2 + 1)
			parameters = append(parameters, "Tags.member."+n+".Key", tags[i], "Tags.member."+n+".Value", tags[i+1])
		}
		return b.as(k, "CreateUser", parameters...).code
	}
	require.Equal(t, "AccessDenied", create())
	require.Equal(t, "AccessDenied", create("team", "blue"))
	require.Equal(t, "AccessDenied", create("team", "red", "admin", "yes"))
	require.Empty(t, create("team", "red"))
}

func TestAccessKeys(t *testing.T) {
	b := newBench(t)
	b.ok("CreateUser", "UserName", "alice")
	got := b.ok("CreateAccessKey", "UserName", "alice")
	k := key{got.get("AccessKey", "AccessKeyId"), got.get("AccessKey", "SecretAccessKey")}
	require.Equal(t, []string{"alice", "Active", "2027-01-15T08:00:00Z"},
		[]string{got.get("AccessKey", "UserName"), got.get("AccessKey", "Status"), got.get("AccessKey", "CreateDate")})
	require.Equal(t, 200, b.as(k, "GetCallerIdentity").status)

	set := func(status string) {
		b.ok2("UpdateAccessKey", "UserName", "alice", "AccessKeyId", k.access, "Status", status)
	}
	set("Inactive")
	require.Equal(t, "InvalidClientTokenId", b.as(k, "GetCallerIdentity").code)
	require.Equal(t, []string{"Inactive"}, b.ok("ListAccessKeys", "UserName", "alice").each("AccessKeyMetadata", "Status"))
	set("Active")
	require.Equal(t, 200, b.as(k, "GetCallerIdentity").status)
	b.fails(400, "ValidationError", "UpdateAccessKey", "UserName", "alice", "AccessKeyId", k.access, "Status", "active")

	used := func(access string) *node { return b.ok("GetAccessKeyLastUsed", "AccessKeyId", access) }
	require.Equal(t, []string{"alice", "N/A"}, []string{used(k.access).get("UserName"), used(k.access).get("AccessKeyLastUsed", "ServiceName")})
	require.Empty(t, used(k.access).get("AccessKeyLastUsed", "LastUsedDate"))
	e := b.events.last()
	e.AccessKey, e.Principal = k.access, &auth.Principal{}
	b.identities.Observe(t.Context(), &e)
	require.Equal(t, "2027-01-15T08:00:00Z", used(k.access).get("AccessKeyLastUsed", "LastUsedDate"))
	b.fails(404, "NoSuchEntity", "GetAccessKeyLastUsed", "AccessKeyId", "AKIAUNKNOWN")

	// An access key that expires creates none that does not.
	b.user("bob", allow("*", "iam:*"))
	_, expiring, err := b.identities.CreateAccessKey(t.Context(), b.account, "bob", 1e11)
	require.NoError(t, err)
	created := b.as(key{expiring.AccessKey, expiring.SecretKey}, "CreateAccessKey", "UserName", "alice")
	require.Equal(t, 200, created.status)
	alice, err := b.identities.Get(identity.User, b.account, "alice")
	require.NoError(t, err)
	bob, err := b.identities.Get(identity.User, b.account, "bob")
	require.NoError(t, err)
	require.Equal(t, bob.Keys[1].Expires, alice.Keys[1].Expires)
	_, err = b.identities.DeleteAccessKey(t.Context(), b.account, "alice", alice.Keys[1].ID)
	require.NoError(t, err)
	require.NoError(t, b.identities.DeleteUser(t.Context(), b.account, "bob"))

	b.clock.Add(1) // access keys are listed in the order of their creation
	_, expired, err := b.identities.CreateAccessKey(t.Context(), b.account, "alice", 1e9)
	require.NoError(t, err)
	b.clock.Add(1)
	require.Equal(t, []string{"Active", "Inactive"}, b.ok("ListAccessKeys", "UserName", "alice").each("AccessKeyMetadata", "Status"))
	b.ok2("DeleteAccessKey", "UserName", "alice", "AccessKeyId", expired.AccessKey)
	b.fails(404, "NoSuchEntity", "DeleteAccessKey", "UserName", "alice", "AccessKeyId", expired.AccessKey)
	for range identity.MaxUserKeys - 1 {
		b.ok("CreateAccessKey", "UserName", "alice")
	}
	b.fails(409, "LimitExceeded", "CreateAccessKey", "UserName", "alice")
	b.fails(404, "NoSuchEntity", "CreateAccessKey", "UserName", "bob")

	b.fails(409, "DeleteConflict", "DeleteUser", "UserName", "alice")
	for _, access := range b.ok("ListAccessKeys", "UserName", "alice").each("AccessKeyMetadata", "AccessKeyId") {
		b.ok2("DeleteAccessKey", "UserName", "alice", "AccessKeyId", access)
	}
	require.Equal(t, "InvalidClientTokenId", b.as(k, "GetCallerIdentity").code)
	b.ok2("DeleteUser", "UserName", "alice")
}

func TestGroups(t *testing.T) {
	b := newBench(t)
	got := b.ok("CreateGroup", "GroupName", "Team")
	require.Equal(t, []string{"Team", b.arn("group/Team"), "/"}, []string{got.get("Group", "GroupName"), got.get("Group", "Arn"), got.get("Group", "Path")})
	require.Regexp(t, "^AGPA", got.get("Group", "GroupId"))
	b.fails(409, "EntityAlreadyExists", "CreateGroup", "GroupName", "team")
	b.fails(400, "ValidationError", "CreateGroup", "GroupName", "other", "Path", "/x/")
	for _, name := range []string{"alice", "bob"} {
		b.ok("CreateUser", "UserName", name)
		b.ok2("AddUserToGroup", "GroupName", "team", "UserName", name)
	}
	b.ok2("AddUserToGroup", "GroupName", "team", "UserName", "alice")
	b.fails(404, "NoSuchEntity", "AddUserToGroup", "GroupName", "none", "UserName", "alice")
	b.fails(404, "NoSuchEntity", "AddUserToGroup", "GroupName", "team", "UserName", "carol")
	got = b.ok("GetGroup", "GroupName", "team", "MaxItems", "1")
	require.Equal(t, []string{"alice"}, got.each("Users", "UserName"))
	got = b.ok("GetGroup", "GroupName", "team", "Marker", got.get("Marker"))
	require.Equal(t, []string{"Team", "bob"}, append([]string{got.get("Group", "GroupName")}, got.each("Users", "UserName")...))
	require.Equal(t, []string{"Team"}, b.ok("ListGroupsForUser", "UserName", "alice").each("Groups", "GroupName"))
	require.Equal(t, []string{"Team"}, b.ok("ListGroups").each("Groups", "GroupName"))
	require.Empty(t, b.ok("ListGroups", "PathPrefix", "/x").each("Groups", "GroupName"))

	b.fails(409, "DeleteConflict", "DeleteGroup", "GroupName", "team")
	b.fails(409, "DeleteConflict", "DeleteUser", "UserName", "alice")
	b.ok2("RemoveUserFromGroup", "GroupName", "team", "UserName", "alice")
	b.fails(404, "NoSuchEntity", "RemoveUserFromGroup", "GroupName", "team", "UserName", "alice")
	b.fails(404, "NoSuchEntity", "RemoveUserFromGroup", "GroupName", "none", "UserName", "alice")
	b.ok2("RemoveUserFromGroup", "GroupName", "team", "UserName", "bob")
	b.ok2("PutGroupPolicy", "GroupName", "team", "PolicyName", "inline", "PolicyDocument", document)
	b.fails(409, "DeleteConflict", "DeleteGroup", "GroupName", "team")
	b.ok2("DeleteGroupPolicy", "GroupName", "team", "PolicyName", "inline")
	b.ok2("DeleteGroup", "GroupName", "team")
	b.fails(404, "NoSuchEntity", "GetGroup", "GroupName", "team")
}

func TestInlinePolicies(t *testing.T) {
	b := newBench(t)
	k := b.user("alice", "")
	b.ok("CreateGroup", "GroupName", "team")
	b.ok2("AddUserToGroup", "GroupName", "team", "UserName", "alice")
	for kind, name := range map[string]string{"User": "alice", "Group": "team"} {
		who := []string{kind + "Name", name}
		with := func(more ...string) []string { return append(slices.Clone(who), more...) }
		actions := map[string]string{"User": "ListUserPolicies", "Group": "ListGroupPolicies"}
		require.Equal(t, "AccessDenied", b.as(k, "ListUsers").code)
		list := allow("*", "iam:ListUsers")
		b.ok2("Put"+kind+"Policy", with("PolicyName", "List", "PolicyDocument", list)...)
		require.Equal(t, 200, b.as(k, "ListUsers").status)
		got := b.ok("Get"+kind+"Policy", with("PolicyName", "list")...)
		require.Equal(t, []string{name, "List"}, []string{got.get(kind + "Name"), got.get("PolicyName")})
		require.NotContains(t, got.get("PolicyDocument"), "+")
		text, err := url.QueryUnescape(got.get("PolicyDocument"))
		require.NoError(t, err)
		require.Equal(t, list, text)
		b.ok2("Put"+kind+"Policy", with("PolicyName", "another", "PolicyDocument", document)...)
		got = b.ok(actions[kind], with("MaxItems", "1")...)
		require.Equal(t, []string{"another"}, got.each("PolicyNames"))
		require.Equal(t, []string{"List"}, b.ok(actions[kind], with("Marker", got.get("Marker"))...).each("PolicyNames"))
		require.Contains(t, b.fails(400, "MalformedPolicyDocument", "Put"+kind+"Policy", with("PolicyName", "x", "PolicyDocument", "{}")...), "Statement")
		b.fails(404, "NoSuchEntity", "Get"+kind+"Policy", with("PolicyName", "none")...)
		b.fails(404, "NoSuchEntity", "Delete"+kind+"Policy", with("PolicyName", "none")...)
		for _, policy := range []string{"list", "another"} {
			b.ok2("Delete"+kind+"Policy", with("PolicyName", policy)...)
		}
		b.fails(404, "NoSuchEntity", "Put"+kind+"Policy", kind+"Name", "none", "PolicyName", "x", "PolicyDocument", document)
	}
	require.Equal(t, "AccessDenied", b.as(k, "ListUsers").code)
}

func TestManagedPolicies(t *testing.T) {
	b := newBench(t)
	k := b.user("alice", "")
	b.ok("CreateGroup", "GroupName", "team")
	listUsers := allow("*", "iam:ListUsers")
	arn := b.arn("policy/Lister")
	got := b.ok("CreatePolicy", "PolicyName", "Lister", "PolicyDocument", listUsers, "Description", "Lists users.", "Path", "/").find("Policy")
	require.Equal(t, []string{"Lister", arn, "v1", "0", "true", "Lists users."}, []string{got.get("PolicyName"), got.get("Arn"),
		got.get("DefaultVersionId"), got.get("AttachmentCount"), got.get("IsAttachable"), got.get("Description")})
	require.Regexp(t, "^ANPA", got.get("PolicyId"))
	b.fails(409, "EntityAlreadyExists", "CreatePolicy", "PolicyName", "lister", "PolicyDocument", listUsers)
	b.fails(409, "EntityAlreadyExists", "CreatePolicy", "PolicyName", "ReadOnly", "PolicyDocument", listUsers)
	b.fails(400, "MalformedPolicyDocument", "CreatePolicy", "PolicyName", "other", "PolicyDocument", "[]")

	b.ok2("AttachUserPolicy", "UserName", "alice", "PolicyArn", arn)
	b.ok2("AttachUserPolicy", "UserName", "alice", "PolicyArn", arn)
	b.ok2("AttachGroupPolicy", "GroupName", "team", "PolicyArn", arn)
	require.Equal(t, 200, b.as(k, "ListUsers").status)
	require.Equal(t, "2", b.ok("GetPolicy", "PolicyArn", arn).get("Policy", "AttachmentCount"))
	got = b.ok("ListAttachedUserPolicies", "UserName", "alice")
	require.Equal(t, []string{"Lister"}, got.each("AttachedPolicies", "PolicyName"))
	require.Equal(t, []string{arn}, got.each("AttachedPolicies", "PolicyArn"))
	got = b.ok("ListEntitiesForPolicy", "PolicyArn", arn)
	require.Equal(t, []string{"alice"}, got.each("PolicyUsers", "UserName"))
	require.Equal(t, []string{"team"}, got.each("PolicyGroups", "GroupName"))
	require.Empty(t, got.each("PolicyRoles", "RoleName"))
	got = b.ok("ListEntitiesForPolicy", "PolicyArn", arn, "EntityFilter", "User")
	require.Equal(t, []string{"alice"}, got.each("PolicyUsers", "UserName"))
	require.Empty(t, got.each("PolicyGroups", "GroupName"))
	got = b.ok("ListEntitiesForPolicy", "PolicyArn", arn, "MaxItems", "1")
	require.Empty(t, got.each("PolicyUsers", "UserName"))
	require.Equal(t, []string{"alice"}, b.ok("ListEntitiesForPolicy", "PolicyArn", arn, "Marker", got.get("Marker")).each("PolicyUsers", "UserName"))
	b.fails(400, "ValidationError", "ListEntitiesForPolicy", "PolicyArn", arn, "EntityFilter", "user")
	b.fails(409, "DeleteConflict", "DeletePolicy", "PolicyArn", arn)

	// Versions.
	version := func(id string) *node {
		return b.ok("GetPolicyVersion", "PolicyArn", arn, "VersionId", id).find("PolicyVersion")
	}
	text, err := url.QueryUnescape(version("v1").get("Document"))
	require.NoError(t, err)
	require.Equal(t, listUsers, text)
	create := func(id, text string, parameters ...string) {
		t.Helper()
		got := b.ok("CreatePolicyVersion", append([]string{"PolicyArn", arn, "PolicyDocument", text}, parameters...)...).find("PolicyVersion")
		require.Equal(t, id, got.get("VersionId"))
		require.Equal(t, strconv.FormatBool(slices.Contains(parameters, "true")), got.get("IsDefaultVersion"))
		require.Empty(t, got.get("Document"))
	}
	versions := func(want ...string) {
		t.Helper()
		require.Equal(t, want, b.ok("ListPolicyVersions", "PolicyArn", arn).each("Versions", "VersionId"))
	}
	current := func(want string) {
		t.Helper()
		require.Equal(t, want, b.ok("GetPolicy", "PolicyArn", arn).get("Policy", "DefaultVersionId"))
		require.Equal(t, "true", version(want).get("IsDefaultVersion"))
	}
	b.fails(400, "MalformedPolicyDocument", "CreatePolicyVersion", "PolicyArn", arn, "PolicyDocument", "x", "SetAsDefault", "true")
	b.fails(400, "ValidationError", "CreatePolicyVersion", "PolicyArn", arn, "PolicyDocument", document, "SetAsDefault", "yes")
	create("v2", document)
	create("v3", document, "SetAsDefault", "false")
	current("v1")
	require.Equal(t, 200, b.as(k, "ListUsers").status, "the default version applies")
	b.ok2("SetDefaultPolicyVersion", "PolicyArn", arn, "VersionId", "v2")
	require.Equal(t, "AccessDenied", b.as(k, "ListUsers").code)
	current("v2")
	b.ok2("SetDefaultPolicyVersion", "PolicyArn", arn, "VersionId", "v1")
	require.Equal(t, 200, b.as(k, "ListUsers").status)
	create("v4", document, "SetAsDefault", "true")
	require.Equal(t, "AccessDenied", b.as(k, "ListUsers").code)
	create("v5", listUsers)
	require.Contains(t, b.fails(409, "LimitExceeded", "CreatePolicyVersion", "PolicyArn", arn, "PolicyDocument", document, "SetAsDefault", "true"), "5 versions")
	versions("v1", "v2", "v3", "v4", "v5")
	page := b.ok("ListPolicyVersions", "PolicyArn", arn, "MaxItems", "3")
	require.Equal(t, []string{"v1", "v2", "v3"}, page.each("Versions", "VersionId"))
	require.Equal(t, []string{"v4", "v5"}, b.ok("ListPolicyVersions", "PolicyArn", arn, "Marker", page.get("Marker")).each("Versions", "VersionId"))
	b.fails(409, "DeleteConflict", "DeletePolicyVersion", "PolicyArn", arn, "VersionId", "v4")
	b.ok2("DeletePolicyVersion", "PolicyArn", arn, "VersionId", "v1")
	b.ok2("DeletePolicyVersion", "PolicyArn", arn, "VersionId", "v5")
	create("v6", listUsers)
	versions("v2", "v3", "v4", "v6")
	current("v4")
	for _, action := range []string{"GetPolicyVersion", "DeletePolicyVersion", "SetDefaultPolicyVersion"} {
		b.fails(404, "NoSuchEntity", action, "PolicyArn", arn, "VersionId", "v5")
		b.fails(404, "NoSuchEntity", action, "PolicyArn", b.arn("policy/none"), "VersionId", "v1")
		for _, wrong := range []string{"5", "v0", "v", "v1x", "V1", "v99999999999"} {
			b.fails(400, "ValidationError", action, "PolicyArn", arn, "VersionId", wrong)
		}
	}
	for _, id := range []string{"v2", "v3", "v6"} {
		require.Equal(t, "false", version(id).get("IsDefaultVersion"))
		b.ok2("DetachUserPolicy", "UserName", "alice", "PolicyArn", arn)
		b.ok2("DetachGroupPolicy", "GroupName", "team", "PolicyArn", arn)
		require.Contains(t, b.fails(409, "DeleteConflict", "DeletePolicy", "PolicyArn", arn), "more than one version")
		b.ok2("AttachUserPolicy", "UserName", "alice", "PolicyArn", arn)
		b.ok2("AttachGroupPolicy", "GroupName", "team", "PolicyArn", arn)
		b.ok2("DeletePolicyVersion", "PolicyArn", arn, "VersionId", id)
	}

	// Tags.
	b.ok2("TagPolicy", "PolicyArn", arn, "Tags.member.1.Key", "Team", "Tags.member.1.Value", "red")
	require.Equal(t, []string{"red"}, b.ok("GetPolicy", "PolicyArn", arn).find("Policy").each("Tags", "Value"))
	require.Equal(t, []string{"Team"}, b.ok("ListPolicyTags", "PolicyArn", arn).each("Tags", "Key"))
	red := b.user("red", fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": ["iam:UntagPolicy", "iam:CreatePolicy"],
		"Resource": %q, "Condition": {"StringEqualsIfExists": {"aws:ResourceTag/team": "red"}}}}`, b.arn("policy/*")))
	require.Equal(t, 200, b.as(red, "UntagPolicy", "PolicyArn", arn, "TagKeys.member.1", "TEAM").status)
	require.Empty(t, b.ok("ListPolicyTags", "PolicyArn", arn).each("Tags", "Key"))
	b.ok2("TagPolicy", "PolicyArn", arn, "Tags.member.1.Key", "Team", "Tags.member.1.Value", "blue")
	require.Equal(t, "AccessDenied", b.as(red, "UntagPolicy", "PolicyArn", arn, "TagKeys.member.1", "TEAM").code)
	require.Contains(t, b.as(red, "CreatePolicy", "PolicyName", "other", "PolicyDocument", document, "Tags.member.1.Key", "a",
		"Tags.member.1.Value", "b").text, "iam:TagPolicy")
	tagged := b.ok("CreatePolicy", "PolicyName", "other", "PolicyDocument", document, "Tags.member.1.Key", "a", "Tags.member.1.Value", "b")
	require.Equal(t, []string{"a"}, tagged.find("Policy").each("Tags", "Key"))
	b.ok2("DeletePolicy", "PolicyArn", b.arn("policy/other"))
	b.fails(403, "AccessDenied", "TagPolicy", "PolicyArn", "arn:aws:iam::aws:policy/admin", "Tags.member.1.Key", "a", "Tags.member.1.Value", "b")

	// Built-in policies.
	admin := "arn:aws:iam::aws:policy/admin"
	require.Equal(t, []string{"admin", "Lister", "readonly", "readwrite", "writeonly"}, b.ok("ListPolicies").each("Policies", "PolicyName"))
	require.Equal(t, []string{"Lister"}, b.ok("ListPolicies", "Scope", "Local").each("Policies", "PolicyName"))
	require.Equal(t, []string{"Lister"}, b.ok("ListPolicies", "OnlyAttached", "true").each("Policies", "PolicyName"))
	require.Len(t, b.ok("ListPolicies", "Scope", "AWS").each("Policies", "Arn"), 4)
	require.Empty(t, b.ok("ListPolicies", "PolicyUsageFilter", "PermissionsBoundary").each("Policies", "Arn"))
	b.fails(400, "ValidationError", "ListPolicies", "Scope", "all")
	b.ok2("AttachUserPolicy", "UserName", "alice", "PolicyArn", admin)
	require.Equal(t, 200, b.as(k, "ListUsers").status)
	require.Equal(t, []string{"admin", "Lister"}, b.ok("ListAttachedUserPolicies", "UserName", "alice").each("AttachedPolicies", "PolicyName"))
	require.Equal(t, "1", b.ok("GetPolicy", "PolicyArn", admin).get("Policy", "AttachmentCount"))
	require.Contains(t, b.ok("GetPolicyVersion", "PolicyArn", admin, "VersionId", "v1").get("PolicyVersion", "Document"), "Everything")
	b.fails(403, "AccessDenied", "DeletePolicy", "PolicyArn", admin)
	b.fails(403, "AccessDenied", "CreatePolicyVersion", "PolicyArn", admin, "PolicyDocument", document, "SetAsDefault", "true")
	b.fails(403, "AccessDenied", "SetDefaultPolicyVersion", "PolicyArn", admin, "VersionId", "v1")
	b.fails(403, "AccessDenied", "DeletePolicyVersion", "PolicyArn", admin, "VersionId", "v1")
	require.Equal(t, []string{"v1"}, b.ok("ListPolicyVersions", "PolicyArn", admin).each("Versions", "VersionId"))
	b.fails(404, "NoSuchEntity", "GetPolicy", "PolicyArn", b.arn("policy/admin"))

	for _, detached := range []string{admin, arn} {
		b.ok2("DetachUserPolicy", "UserName", "alice", "PolicyArn", detached)
		b.fails(404, "NoSuchEntity", "DetachUserPolicy", "UserName", "alice", "PolicyArn", detached)
	}
	b.ok2("DetachGroupPolicy", "GroupName", "team", "PolicyArn", arn)
	require.Empty(t, b.ok("ListAttachedGroupPolicies", "GroupName", "team").each("AttachedPolicies", "PolicyName"))
	require.Equal(t, "AccessDenied", b.as(k, "ListUsers").code)
	b.ok2("DeletePolicy", "PolicyArn", arn)
	b.fails(404, "NoSuchEntity", "DeletePolicy", "PolicyArn", arn)
	b.fails(404, "NoSuchEntity", "AttachUserPolicy", "UserName", "alice", "PolicyArn", arn)
}

// TestRename: UpdateUser and UpdateGroup need the permission for both names.
func TestRename(t *testing.T) {
	b, k := newWorld(t)
	id := b.ok("GetUser", "UserName", "target").get("User", "UserId")
	b.ok2("AddUserToGroup", "GroupName", "group", "UserName", "target")
	for kind, name := range map[string]string{"User": "target", "Group": "group"} {
		update := func(parameters ...string) []string { return append([]string{kind + "Name", name}, parameters...) }
		lower := strings.ToLower(kind)
		half := b.user("half-"+lower, allow(b.arn(lower+"/"+name), "iam:Update"+kind))
		require.Contains(t, b.as(half, "Update"+kind, update("New"+kind+"Name", "other")...).text, b.arn(lower+"/other"))
		require.Equal(t, 200, b.as(half, "Update"+kind, update("NewPath", "/")...).status, "it changes nothing")
		both := b.user("both-"+lower, fmt.Sprintf(`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "iam:Update%s",
			"Resource": [%q, %q]}}`, kind, b.arn(lower+"/"+name), b.arn(lower+"/other")))
		require.Equal(t, "AccessDenied", b.as(both, "Update"+kind, update("New"+kind+"Name", "OTHER")...).code)
		require.Equal(t, 200, b.as(both, "Update"+kind, update("New"+kind+"Name", "other")...).status)
		require.Equal(t, "AccessDenied", b.as(both, "Update"+kind, kind+"Name", "other", "New"+kind+"Name", "admin").code)
		b.fails(404, "NoSuchEntity", "Update"+kind, update("New"+kind+"Name", "third")...)
		b.ok("Create"+kind, kind+"Name", name)
		b.fails(409, "EntityAlreadyExists", "Update"+kind, update("New"+kind+"Name", "Other")...)
		b.fails(400, "ValidationError", "Update"+kind, update("NewPath", "/team/")...)
		b.fails(400, "ValidationError", "Update"+kind, update("New"+kind+"Name", "")...)
		b.fails(400, "ValidationError", "Update"+kind, update("New"+kind+"Name", "a/b")...)
	}
	got := b.ok("GetUser", "UserName", "other").find("User")
	require.Equal(t, []string{id, b.arn("user/other")}, []string{got.get("UserId"), got.get("Arn")})
	require.Equal(t, []string{"other"}, b.ok("GetGroup", "GroupName", "other").each("Users", "UserName"))
	require.Equal(t, b.arn("user/other"), b.as(k, "GetCallerIdentity").result.get("Arn"))
	require.Equal(t, []string{k.access}, b.ok("ListAccessKeys", "UserName", "other").each("AccessKeyMetadata", "AccessKeyId"))
	require.Empty(t, b.ok("ListAccessKeys", "UserName", "target").each("AccessKeyMetadata", "AccessKeyId"))
}

func TestUnserved(t *testing.T) {
	b := newBench(t)
	b.ok("CreateUser", "UserName", "alice")
	for action, list := range map[string]string{
		"ListMFADevices": "MFADevices", "ListSigningCertificates": "Certificates", "ListSSHPublicKeys": "SSHPublicKeys",
		"ListServiceSpecificCredentials": "ServiceSpecificCredentials",
	} {
		got := b.ok(action, "UserName", "alice")
		require.NotNil(t, got.find(list))
		require.Equal(t, "false", got.get("IsTruncated"))
		b.fails(404, "NoSuchEntity", action, "UserName", "bob")
	}
	require.NotNil(t, b.ok("ListVirtualMFADevices", "AssignmentStatus", "Any").find("VirtualMFADevices"))
	require.NotNil(t, b.ok("ListAccountAliases").find("AccountAliases"))
	require.Contains(t, b.fails(404, "NoSuchEntity", "GetLoginProfile", "UserName", "alice"), "Login Profile")
	b.fails(404, "NoSuchEntity", "DeleteLoginProfile", "UserName", "alice")
	summary := b.ok("GetAccountSummary")
	require.Equal(t, []string{"10", "0", "0", "0", "0", "1"}, summary.each("SummaryMap", "value"))
}

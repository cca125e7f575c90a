package iam

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// with performs an action with temporary credentials.
func (b *bench) with(credentials *node, action string, parameters ...string) response {
	b.t.Helper()
	k := key{credentials.get("AccessKeyId"), credentials.get("SecretAccessKey")}
	return b.withToken(k, credentials.get("SessionToken"), action, parameters...)
}

func (b *bench) withToken(k key, token, action string, parameters ...string) response {
	b.t.Helper()
	version, service := "2010-05-08", "iam"
	if action == "AssumeRole" || action == "GetCallerIdentity" {
		version, service = "2011-06-15", "sts"
	}
	r := b.form(append([]string{"Action", action, "Version", version}, parameters...)...)
	r.Header.Set("X-Amz-Security-Token", token)
	return b.send(b.sign(r, k, service))
}

func TestRoles(t *testing.T) {
	b := newBench(t)
	b.user("alice", "")
	trust := b.trust("user/alice")
	got := b.ok("CreateRole", "RoleName", "Deployer", "Path", "/", "AssumeRolePolicyDocument", trust, "Description", "deploys", "MaxSessionDuration", "7200",
		"Tags.member.1.Key", "team", "Tags.member.1.Value", "red")
	check := func(r *node) {
		t.Helper()
		require.Equal(t, []string{"Deployer", "/", b.arn("role/Deployer"), "2027-01-15T08:00:00Z", "deploys", "7200"}, []string{
			r.get("RoleName"), r.get("Path"), r.get("Arn"), r.get("CreateDate"), r.get("Description"), r.get("MaxSessionDuration"),
		})
		require.Regexp(t, "^AROA", r.get("RoleId"))
		document, err := url.QueryUnescape(r.get("AssumeRolePolicyDocument"))
		require.NoError(t, err)
		require.Equal(t, trust, document)
	}
	check(got.find("Role"))
	got = b.ok("GetRole", "RoleName", "DEPLOYER")
	check(got.find("Role"))
	require.Equal(t, []string{"team"}, got.find("Role").each("Tags", "Key"))
	got = b.ok("ListRoles", "PathPrefix", "/")
	require.Equal(t, []string{"Deployer"}, got.each("Roles", "RoleName"))
	require.Empty(t, b.ok("ListRoles", "PathPrefix", "/other/").each("Roles", "RoleName"))

	create := func(parameters ...string) []string {
		return append([]string{"RoleName", "other", "AssumeRolePolicyDocument", trust}, parameters...)
	}
	b.fails(409, "EntityAlreadyExists", "CreateRole", "RoleName", "deployer", "AssumeRolePolicyDocument", trust)
	b.fails(400, "ValidationError", "CreateRole", create("Path", "/team/")...)
	b.fails(400, "ValidationError", "CreateRole", create("MaxSessionDuration", "x")...)
	b.fails(400, "InvalidInput", "CreateRole", create("MaxSessionDuration", "3599")...)
	b.fails(400, "InvalidInput", "CreateRole", create("MaxSessionDuration", "43201")...)
	b.fails(400, "ValidationError", "CreateRole", create("Tags.member.2.Key", "x")...)
	text := b.fails(400, "MalformedPolicyDocument", "CreateRole", "RoleName", "other", "AssumeRolePolicyDocument", document)
	require.Contains(t, text, "statement 1, element Principal, line 1")
	text = b.fails(400, "MalformedPolicyDocument", "UpdateAssumeRolePolicy", "RoleName", "Deployer", "PolicyDocument", b.trust("user/nobody"))
	require.Contains(t, text, "unknown principal")
	creator := b.user("creator", allow(b.arn("role/*"), "iam:CreateRole"))
	require.Equal(t, 200, b.as(creator, "CreateRole", create()...).status)
	tagged := b.as(creator, "CreateRole", "RoleName", "tagged", "AssumeRolePolicyDocument", trust, "Tags.member.1.Key", "a", "Tags.member.1.Value", "1")
	require.Contains(t, tagged.text, "iam:TagRole")
	b.fails(404, "NoSuchEntity", "GetRole", "RoleName", "tagged")

	require.Equal(t, "Deploys.", b.ok("UpdateRoleDescription", "RoleName", "DEPLOYER", "Description", "Deploys.").get("Role", "Description"))
	require.Equal(t, "Deploys.", b.ok("GetRole", "RoleName", "deployer").get("Role", "Description"))
	require.Empty(t, b.ok("UpdateRoleDescription", "RoleName", "deployer", "Description", "").get("Role", "Description"))
	b.fails(400, "ValidationError", "UpdateRoleDescription", "RoleName", "deployer")
	b.fails(404, "NoSuchEntity", "UpdateRoleDescription", "RoleName", "none", "Description", "x")
	require.NotNil(t, b.ok("UpdateRole", "RoleName", "deployer", "Description", "", "MaxSessionDuration", "3600"), "boto3 fails without a result")
	b.ok2("UpdateAssumeRolePolicy", "RoleName", "deployer", "PolicyDocument", b.trust("root"))
	r := b.ok("GetRole", "RoleName", "Deployer").find("Role")
	require.Equal(t, []string{"", "3600"}, []string{r.get("Description"), r.get("MaxSessionDuration")})
	require.Contains(t, r.get("AssumeRolePolicyDocument"), url.QueryEscape(b.arn("root")))
	b.ok2("TagRole", "RoleName", "deployer", "Tags.member.1.Key", "TEAM", "Tags.member.1.Value", "blue")
	require.Equal(t, []string{"blue"}, b.ok("ListRoleTags", "RoleName", "deployer").each("Tags", "Value"))
	b.ok2("UntagRole", "RoleName", "deployer", "TagKeys.member.1", "team")
	require.Empty(t, b.ok("ListRoleTags", "RoleName", "deployer").each("Tags", "Value"))

	// Policies.
	b.ok2("PutRolePolicy", "RoleName", "deployer", "PolicyName", "inline", "PolicyDocument", document)
	require.Equal(t, []string{"inline"}, b.ok("ListRolePolicies", "RoleName", "deployer").each("PolicyNames"))
	got = b.ok("GetRolePolicy", "RoleName", "deployer", "PolicyName", "inline")
	require.Equal(t, []string{"Deployer", "inline"}, []string{got.get("RoleName"), got.get("PolicyName")})
	const readonly = "arn:aws:iam::aws:policy/readonly"
	b.ok2("AttachRolePolicy", "RoleName", "deployer", "PolicyArn", readonly)
	require.Equal(t, []string{readonly}, b.ok("ListAttachedRolePolicies", "RoleName", "deployer").each("AttachedPolicies", "PolicyArn"))
	require.Equal(t, []string{"Deployer"}, b.ok("ListEntitiesForPolicy", "PolicyArn", readonly, "EntityFilter", "Role").each("PolicyRoles", "RoleName"))
	require.Empty(t, b.ok("ListInstanceProfilesForRole", "RoleName", "deployer").each("InstanceProfiles"))
	b.fails(409, "DeleteConflict", "DeleteRole", "RoleName", "deployer")
	b.ok2("DetachRolePolicy", "RoleName", "deployer", "PolicyArn", readonly)
	b.fails(404, "NoSuchEntity", "DetachRolePolicy", "RoleName", "deployer", "PolicyArn", readonly)
	b.fails(409, "DeleteConflict", "DeleteRole", "RoleName", "deployer")
	b.ok2("DeleteRolePolicy", "RoleName", "deployer", "PolicyName", "inline")
	b.ok2("DeleteRole", "RoleName", "deployer")
	for _, c := range [][]string{
		{"GetRole"}, {"DeleteRole"}, {"UpdateRole"}, {"ListRoleTags"}, {"ListRolePolicies"}, {"ListAttachedRolePolicies"},
		{"ListInstanceProfilesForRole"}, {"UpdateAssumeRolePolicy", "PolicyDocument", trust}, {"AttachRolePolicy", "PolicyArn", readonly},
	} {
		b.fails(404, "NoSuchEntity", c[0], append([]string{"RoleName", "deployer"}, c[1:]...)...)
	}
}

func TestAssumeRole(t *testing.T) {
	b := newBench(t)
	alice, bob := b.user("alice", ""), b.user("bob", allow("*", "sts:*", "iam:*"))
	b.ok("CreateRole", "RoleName", "lister", "AssumeRolePolicyDocument", b.trust("user/alice"))
	b.ok2("PutRolePolicy", "RoleName", "lister", "PolicyName", "p", "PolicyDocument", allow("*", "iam:ListUsers", "iam:ListRoles"))
	in := func(more ...string) []string {
		return append([]string{"RoleArn", b.arn("role/lister"), "RoleSessionName", "today"}, more...)
	}
	got := b.as(alice, "AssumeRole", in("DurationSeconds", "900")...)
	require.Equal(t, 200, got.status, got.body)
	id := b.ok("GetRole", "RoleName", "lister").get("Role", "RoleId")
	arn := "arn:aws:sts::" + b.account + ":assumed-role/lister/today"
	require.Equal(t, []string{arn, id + ":today"},
		[]string{got.result.get("AssumedRoleUser", "Arn"), got.result.get("AssumedRoleUser", "AssumedRoleId")})
	require.Equal(t, "2027-01-15T08:15:00Z", got.result.get("Credentials", "Expiration"))
	require.Empty(t, got.result.get("PackedPolicySize"))
	session := got.result.find("Credentials")

	// The session is who it is, may do what the role may do, and nothing more.
	who := b.with(session, "GetCallerIdentity").result
	require.Equal(t, []string{arn, id + ":today", b.account}, []string{who.get("Arn"), who.get("UserId"), who.get("Account")})
	require.Equal(t, 200, b.with(session, "ListUsers").status)
	require.Contains(t, b.with(session, "ListGroups").text, "User: "+arn+" is not authorized to perform: iam:ListGroups")
	require.Equal(t, "ValidationError", b.with(session, "CreateAccessKey").code, "a session is no user")
	require.Equal(t, "AccessDenied", b.with(session, "AssumeRole", in()...).code)
	limited := b.as(alice, "AssumeRole", in("Policy", allow("*", "iam:ListRoles"), "PolicyArns.member.1.arn", "arn:aws:iam::aws:policy/readonly")...).result
	require.NotEmpty(t, limited.get("PackedPolicySize"))
	require.Equal(t, "AccessDenied", b.with(limited.find("Credentials"), "ListUsers").code)
	require.Equal(t, 200, b.with(limited.find("Credentials"), "ListRoles").status)

	// Tokens.
	k := key{session.get("AccessKeyId"), session.get("SecretAccessKey")}
	require.Equal(t, []any{403, "InvalidClientTokenId"}, []any{b.as(k, "GetCallerIdentity").status, b.as(k, "GetCallerIdentity").code})
	for _, token := range []string{"x", limited.get("Credentials", "SessionToken")} {
		require.Equal(t, "InvalidClientTokenId", b.withToken(k, token, "GetCallerIdentity").code)
	}
	require.Equal(t, "InvalidClientTokenId", b.withToken(alice, session.get("SessionToken"), "GetCallerIdentity").code)
	require.Equal(t, "SignatureDoesNotMatch", b.withToken(key{k.access, "wrong"}, session.get("SessionToken"), "GetCallerIdentity").code)
	b.clock.Add(900)
	require.Equal(t, []any{403, "ExpiredToken"}, []any{b.with(session, "ListUsers").status, b.with(session, "ListUsers").code})

	// Who may not.
	denied := func(k key, parameters ...string) {
		t.Helper()
		got := b.as(k, "AssumeRole", parameters...)
		require.Equal(t, []any{403, "AccessDenied"}, []any{got.status, got.code}, got.body)
		require.Contains(t, got.text, "is not authorized to perform: sts:AssumeRole on resource: "+parameters[1])
	}
	denied(bob, in()...)
	denied(alice, "RoleArn", b.arn("role/none"), "RoleSessionName", "today")
	denied(alice, "RoleArn", b.arn("user/alice"), "RoleSessionName", "today")
	require.Equal(t, "Roles may not be assumed by root accounts.", b.fails(403, "AccessDenied", "AssumeRole", in()...))
	for name, c := range map[string][]string{
		"ValidationError": in("DurationSeconds", "899"), "ValidationError ": in("DurationSeconds", "3601"), "ValidationError  ": in("DurationSeconds", "1h"),
		"ValidationError   ": in("Tags.member.1.Key", "a"), "ValidationError    ": in("PolicyArns.member.2.arn", "x"),
		"ValidationError     ": in("SourceIdentity", "x"), "MalformedPolicyDocument": in("Policy", "{}"),
		"NoSuchEntity": in("PolicyArns.member.1.arn", "x"), "ValidationError      ": {"RoleArn", b.arn("role/lister"), "RoleSessionName", "a/b"},
	} {
		require.Equal(t, strings.TrimSpace(name), b.as(alice, "AssumeRole", c...).code, c)
	}

	// Conditions of the trust policy.
	trust := func(condition string) {
		b.ok2("UpdateAssumeRolePolicy", "RoleName", "lister", "PolicyDocument", fmt.Sprintf(
			`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": %q}, "Action": "sts:AssumeRole", "Condition": {%s}}}`,
			b.arn("user/alice"), condition))
	}
	trust(`"StringEquals": {"sts:ExternalId": "x1"}`)
	denied(alice, in()...)
	denied(alice, in("ExternalId", "x2")...)
	require.Equal(t, 200, b.as(alice, "AssumeRole", in("ExternalId", "x1")...).status)
	trust(`"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}`)
	denied(alice, in()...)
	trust(`"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}`)
	require.Equal(t, 200, b.as(alice, "AssumeRole", in()...).status)
}

package iam

import (
	"net/http"
	"slices"
	"strings"

	"orcas/auth"
	"orcas/auth/identity"
	"orcas/gate"
)

// route is a row of the table of actions. The name of the action, its permission and further permissions are in the
// part that other packages can read.
type route struct {
	gate.Route

	target  target
	needs   []string // parameters that must not be empty
	takes   []string // other parameters; a name that ends with a period is the beginning of the names of a list
	free    bool     // needs no permission
	decides bool     // the handler decides about the permission
	empty   bool     // the response has an empty result: SDKs fail without it
	root    bool     // the target is the root if it calls without a UserName
}

// service returns the service that the action belongs to.
func (r *route) service() *service {
	name, _, _ := strings.Cut(string(r.Action), ":")
	return services[name]
}

// Routes returns the rows of all actions.
func Routes() []*gate.Route { return rowsOf(allRoutes()) }

// rowsOf returns the parts that other packages can read.
func rowsOf(all []route) []*gate.Route {
	rows := make([]*gate.Route, len(all))
	for i := range all {
		rows[i] = &all[i].Route
	}
	return rows
}

// allRoutes returns every action.
func allRoutes() []route {
	return slices.Concat(callerRoutes(), userRoutes(), groupRoutes(), roleRoutes(), policyRoutes())
}

// handlers returns the handler of every action, by name.
func handlers() map[string]handler {
	return map[string]handler{
		"GetCallerIdentity": getCallerIdentity,
		"AssumeRole":        assumeRole,

		"CreateUser":           createUser,
		"GetUser":              getUser,
		"ListUsers":            listUsers,
		"UpdateUser":           updateUser,
		"DeleteUser":           deleteUser,
		"TagUser":              addTags,
		"UntagUser":            removeTags,
		"ListUserTags":         listTags,
		"CreateAccessKey":      createAccessKey,
		"ListAccessKeys":       listAccessKeys,
		"UpdateAccessKey":      updateAccessKey,
		"DeleteAccessKey":      deleteAccessKey,
		"GetAccessKeyLastUsed": getAccessKeyLastUsed,

		"CreateGroup":         createGroup,
		"GetGroup":            getGroup,
		"ListGroups":          listGroups,
		"UpdateGroup":         updateGroup,
		"DeleteGroup":         deleteGroup,
		"AddUserToGroup":      addUserToGroup,
		"RemoveUserFromGroup": removeUserFromGroup,
		"ListGroupsForUser":   listGroupsForUser,

		"CreateRole":                  createRole,
		"GetRole":                     getRole,
		"ListRoles":                   listRoles,
		"UpdateRole":                  updateRole,
		"UpdateRoleDescription":       updateRoleDescription,
		"UpdateAssumeRolePolicy":      updateAssumeRolePolicy,
		"DeleteRole":                  deleteRole,
		"TagRole":                     addTags,
		"UntagRole":                   removeTags,
		"ListRoleTags":                listTags,
		"ListInstanceProfilesForRole": listInstanceProfiles,

		"PutUserPolicy":             putInline,
		"GetUserPolicy":             getInline,
		"ListUserPolicies":          listInline,
		"DeleteUserPolicy":          deleteInline,
		"AttachUserPolicy":          attach,
		"DetachUserPolicy":          detach,
		"ListAttachedUserPolicies":  listAttached,
		"PutGroupPolicy":            putInline,
		"GetGroupPolicy":            getInline,
		"ListGroupPolicies":         listInline,
		"DeleteGroupPolicy":         deleteInline,
		"AttachGroupPolicy":         attach,
		"DetachGroupPolicy":         detach,
		"ListAttachedGroupPolicies": listAttached,
		"PutRolePolicy":             putInline,
		"GetRolePolicy":             getInline,
		"ListRolePolicies":          listInline,
		"DeleteRolePolicy":          deleteInline,
		"AttachRolePolicy":          attach,
		"DetachRolePolicy":          detach,
		"ListAttachedRolePolicies":  listAttached,

		"CreatePolicy":            createPolicy,
		"GetPolicy":               getPolicy,
		"ListPolicies":            listPolicies,
		"DeletePolicy":            deletePolicy,
		"CreatePolicyVersion":     createPolicyVersion,
		"GetPolicyVersion":        getPolicyVersion,
		"ListPolicyVersions":      listPolicyVersions,
		"SetDefaultPolicyVersion": changeVersion((*identity.Directory).SetDefaultPolicyVersion),
		"DeletePolicyVersion":     changeVersion((*identity.Directory).DeletePolicyVersion),
		"ListEntitiesForPolicy":   listEntitiesForPolicy,
		"TagPolicy":               addTags,
		"UntagPolicy":             removeTags,
		"ListPolicyTags":          listPolicyTags,

		"ListMFADevices":                 emptyOf("MFADevices"),
		"ListSigningCertificates":        emptyOf("Certificates"),
		"ListSSHPublicKeys":              emptyOf("SSHPublicKeys"),
		"ListServiceSpecificCredentials": emptyOf("ServiceSpecificCredentials"),
		"ListVirtualMFADevices":          empty("VirtualMFADevices"),
		"ListAccountAliases":             empty("AccountAliases"),
		"GetLoginProfile":                noLoginProfile,
		"DeleteLoginProfile":             noLoginProfile,
		"GetAccountSummary":              getAccountSummary,
	}
}

// named returns the columns of a row that name an action and its permissions: the first is that of the action, which
// begins with the name of the service, and the others are those that the handler may ask for.
func named(permission auth.Action, secondary ...auth.Action) gate.Route {
	_, name, _ := strings.Cut(string(permission), ":")
	effect := gate.Settings
	if strings.HasPrefix(name, "Get") || strings.HasPrefix(name, "List") {
		effect = gate.Read
	}
	return gate.Route{Name: name, Method: http.MethodPost, Path: "/", Effect: effect, Action: permission, Secondary: secondary}
}

// callerRoutes returns the actions of STS.
func callerRoutes() []route {
	return []route{
		{Route: named("sts:GetCallerIdentity"), free: true},
		{Route: named("sts:AssumeRole"), decides: true, needs: []string{"RoleArn", "RoleSessionName"},
			takes: []string{"DurationSeconds", "ExternalId", "Policy", "PolicyArns.member."}},
	}
}

// Names of parameters.
var (
	user     = []string{"UserName"}
	group    = []string{"GroupName"}
	role     = []string{"RoleName"}
	policies = []string{"PolicyArn"}
	inline   = []string{"PolicyName", "PolicyDocument"}
	onPath   = append([]string{"PathPrefix"}, listParameters...)
)

// userRoutes returns the actions on users and their access keys.
func userRoutes() []route {
	return []route{
		{Route: named("iam:CreateUser", "iam:TagUser"), target: userTarget, needs: user, takes: []string{"Path", "Tags.member."}},
		{Route: named("iam:GetUser"), target: selfTarget, takes: user, root: true},
		{Route: named("iam:ListUsers"), takes: onPath},
		{Route: named("iam:UpdateUser"), target: userTarget, needs: user, takes: []string{"NewPath", "NewUserName"}},
		{Route: named("iam:DeleteUser"), target: userTarget, needs: user},
		{Route: named("iam:TagUser"), target: userTarget, needs: user, takes: []string{"Tags.member."}},
		{Route: named("iam:UntagUser"), target: userTarget, needs: user, takes: []string{"TagKeys.member."}},
		{Route: named("iam:ListUserTags"), target: userTarget, needs: user, takes: listParameters},

		{Route: named("iam:CreateAccessKey"), target: selfTarget, takes: user},
		{Route: named("iam:ListAccessKeys"), target: selfTarget, takes: slices.Concat(user, listParameters)},
		{Route: named("iam:UpdateAccessKey"), target: selfTarget, needs: []string{"AccessKeyId", "Status"}, takes: user},
		{Route: named("iam:DeleteAccessKey"), target: selfTarget, needs: []string{"AccessKeyId"}, takes: user},
		{Route: named("iam:GetAccessKeyLastUsed"), target: ownerTarget, needs: []string{"AccessKeyId"}},

		{Route: named("iam:ListMFADevices"), target: selfTarget, takes: slices.Concat(user, listParameters)},
		{Route: named("iam:ListSigningCertificates"), target: selfTarget, takes: slices.Concat(user, listParameters)},
		{Route: named("iam:ListSSHPublicKeys"), target: selfTarget, takes: slices.Concat(user, listParameters)},
		{Route: named("iam:ListServiceSpecificCredentials"), target: selfTarget,
			takes: slices.Concat(user, listParameters, []string{"ServiceName", "AllUsers"})},
		{Route: named("iam:GetLoginProfile"), target: selfTarget, takes: user},
		{Route: named("iam:DeleteLoginProfile"), target: selfTarget, takes: user},
		{Route: named("iam:ListVirtualMFADevices"), takes: append([]string{"AssignmentStatus"}, listParameters...)},
		{Route: named("iam:ListAccountAliases"), takes: listParameters},
		{Route: named("iam:GetAccountSummary")},
	}
}

// groupRoutes returns the actions on groups.
func groupRoutes() []route {
	return []route{
		{Route: named("iam:CreateGroup"), target: groupTarget, needs: group, takes: []string{"Path"}},
		{Route: named("iam:GetGroup"), target: groupTarget, needs: group, takes: listParameters},
		{Route: named("iam:ListGroups"), takes: onPath},
		{Route: named("iam:UpdateGroup"), target: groupTarget, needs: group, takes: []string{"NewPath", "NewGroupName"}},
		{Route: named("iam:DeleteGroup"), target: groupTarget, needs: group},
		{Route: named("iam:AddUserToGroup"), target: groupTarget, needs: slices.Concat(group, user)},
		{Route: named("iam:RemoveUserFromGroup"), target: groupTarget, needs: slices.Concat(group, user)},
		{Route: named("iam:ListGroupsForUser"), target: userTarget, needs: user, takes: listParameters},
	}
}

// roleRoutes returns the actions on roles, except for those on their policies.
func roleRoutes() []route {
	settings := []string{"Description", "MaxSessionDuration"}
	return []route{
		{Route: named("iam:CreateRole", "iam:TagRole"), target: roleTarget, needs: append([]string{"AssumeRolePolicyDocument"}, role...),
			takes: append([]string{"Path", "Tags.member."}, settings...)},
		{Route: named("iam:GetRole"), target: roleTarget, needs: role},
		{Route: named("iam:ListRoles"), takes: onPath},
		{Route: named("iam:UpdateRole"), target: roleTarget, needs: role, takes: settings, empty: true},
		{Route: named("iam:UpdateRoleDescription"), target: roleTarget, needs: role, takes: []string{"Description"}},
		{Route: named("iam:UpdateAssumeRolePolicy"), target: roleTarget, needs: append([]string{"PolicyDocument"}, role...)},
		{Route: named("iam:DeleteRole"), target: roleTarget, needs: role},
		{Route: named("iam:TagRole"), target: roleTarget, needs: role, takes: []string{"Tags.member."}},
		{Route: named("iam:UntagRole"), target: roleTarget, needs: role, takes: []string{"TagKeys.member."}},
		{Route: named("iam:ListRoleTags"), target: roleTarget, needs: role, takes: listParameters},
		{Route: named("iam:ListInstanceProfilesForRole"), target: roleTarget, needs: role, takes: listParameters},
	}
}

// policyRoutes returns the actions on inline, attached and managed policies.
func policyRoutes() []route {
	attaches := func(permission auth.Action) gate.Route {
		r := named(permission)
		r.Keys = []string{"iam:PolicyARN"}
		return r
	}
	usage := []string{"PolicyUsageFilter"}
	return []route{
		{Route: named("iam:PutUserPolicy"), target: userTarget, needs: slices.Concat(user, inline)},
		{Route: named("iam:GetUserPolicy"), target: userTarget, needs: slices.Concat(user, inline[:1])},
		{Route: named("iam:ListUserPolicies"), target: userTarget, needs: user, takes: listParameters},
		{Route: named("iam:DeleteUserPolicy"), target: userTarget, needs: slices.Concat(user, inline[:1])},
		{Route: attaches("iam:AttachUserPolicy"), target: userTarget, needs: slices.Concat(user, policies)},
		{Route: attaches("iam:DetachUserPolicy"), target: userTarget, needs: slices.Concat(user, policies)},
		{Route: named("iam:ListAttachedUserPolicies"), target: userTarget, needs: user, takes: onPath},

		{Route: named("iam:PutGroupPolicy"), target: groupTarget, needs: slices.Concat(group, inline)},
		{Route: named("iam:GetGroupPolicy"), target: groupTarget, needs: slices.Concat(group, inline[:1])},
		{Route: named("iam:ListGroupPolicies"), target: groupTarget, needs: group, takes: listParameters},
		{Route: named("iam:DeleteGroupPolicy"), target: groupTarget, needs: slices.Concat(group, inline[:1])},
		{Route: attaches("iam:AttachGroupPolicy"), target: groupTarget, needs: slices.Concat(group, policies)},
		{Route: attaches("iam:DetachGroupPolicy"), target: groupTarget, needs: slices.Concat(group, policies)},
		{Route: named("iam:ListAttachedGroupPolicies"), target: groupTarget, needs: group, takes: onPath},

		{Route: named("iam:PutRolePolicy"), target: roleTarget, needs: slices.Concat(role, inline)},
		{Route: named("iam:GetRolePolicy"), target: roleTarget, needs: slices.Concat(role, inline[:1])},
		{Route: named("iam:ListRolePolicies"), target: roleTarget, needs: role, takes: listParameters},
		{Route: named("iam:DeleteRolePolicy"), target: roleTarget, needs: slices.Concat(role, inline[:1])},
		{Route: attaches("iam:AttachRolePolicy"), target: roleTarget, needs: slices.Concat(role, policies)},
		{Route: attaches("iam:DetachRolePolicy"), target: roleTarget, needs: slices.Concat(role, policies)},
		{Route: named("iam:ListAttachedRolePolicies"), target: roleTarget, needs: role, takes: onPath},

		{Route: named("iam:CreatePolicy", "iam:TagPolicy"), target: nameTarget, needs: inline,
			takes: []string{"Path", "Description", "Tags.member."}},
		{Route: named("iam:GetPolicy"), target: arnTarget, needs: policies},
		{Route: named("iam:ListPolicies"), takes: slices.Concat(onPath, usage, []string{"Scope", "OnlyAttached"})},
		{Route: named("iam:DeletePolicy"), target: arnTarget, needs: policies},
		{Route: named("iam:CreatePolicyVersion"), target: arnTarget, needs: []string{"PolicyArn", "PolicyDocument"},
			takes: []string{"SetAsDefault"}},
		{Route: named("iam:GetPolicyVersion"), target: arnTarget, needs: []string{"PolicyArn", "VersionId"}},
		{Route: named("iam:ListPolicyVersions"), target: arnTarget, needs: policies, takes: listParameters},
		{Route: named("iam:SetDefaultPolicyVersion"), target: arnTarget, needs: []string{"PolicyArn", "VersionId"}},
		{Route: named("iam:DeletePolicyVersion"), target: arnTarget, needs: []string{"PolicyArn", "VersionId"}},
		{Route: named("iam:ListEntitiesForPolicy"), target: arnTarget, needs: policies,
			takes: slices.Concat(onPath, usage, []string{"EntityFilter"})},
		{Route: named("iam:TagPolicy"), target: arnTarget, needs: policies, takes: []string{"Tags.member."}},
		{Route: named("iam:UntagPolicy"), target: arnTarget, needs: policies, takes: []string{"TagKeys.member."}},
		{Route: named("iam:ListPolicyTags"), target: arnTarget, needs: policies, takes: listParameters},
	}
}

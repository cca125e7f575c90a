package admin

import (
	"net/http"

	"orcas/auth"
	"orcas/gate"
)

// Routes returns the rows of all operations of the admin API.
func Routes() []*gate.Route {
	const get, post, del = http.MethodGet, http.MethodPost, http.MethodDelete
	return []*gate.Route{
		{Name: "GetReclaim", Method: get, Effect: gate.Read, Path: "/-/admin/reclaim", Action: "orcas:GetReclaim"},
		{Name: "StartReclaim", Method: post, Effect: gate.Work, Path: "/-/admin/reclaim", Action: "orcas:StartReclaim"},
		{Name: "GetScrub", Method: get, Effect: gate.Read, Path: "/-/admin/scrub", Action: "orcas:GetScrub"},
		{Name: "StartScrub", Method: post, Effect: gate.Work, Path: "/-/admin/scrub", Action: "orcas:StartScrub"},
		{Name: "GetLifecycle", Method: get, Effect: gate.Read, Path: "/-/admin/lifecycle", Action: "orcas:GetLifecycle"},
		{Name: "StartLifecycle", Method: post, Effect: gate.Work, Path: "/-/admin/lifecycle", Action: "orcas:StartLifecycle"},
		{Name: "ListLost", Method: get, Effect: gate.Read, Path: "/-/admin/lost", Action: "orcas:ListLost"},
		{Name: "CheckStore", Method: post, Effect: gate.Work, Path: "/-/admin/fsck", Action: "orcas:CheckStore"},
		{Name: "GetBucketSettings", Method: get, Effect: gate.Read, Path: "/-/admin/bucket", Action: "orcas:GetBucketSettings"},
		{Name: "PutBucketSettings", Method: post, Effect: gate.Settings, Path: "/-/admin/bucket", Action: "orcas:PutBucketSettings",
			Secondary: []auth.Action{"s3:PutBucketPolicy", "s3:PutBucketPublicAccessBlock"}},
		{Name: "CreateBackup", Method: post, Effect: gate.Work, Path: "/-/admin/backup", Action: "orcas:CreateBackup"},
		{Name: "GetMasterKeys", Method: get, Effect: gate.Read, Path: "/-/admin/keys", Action: "orcas:GetMasterKeys"},
		{Name: "RotateMasterKeys", Method: post, Effect: gate.Work, Path: "/-/admin/keys", Action: "orcas:RotateMasterKeys"},
		{Name: "ListKeys", Method: get, Effect: gate.Read, Path: "/-/admin/key", Action: "orcas:ListKeys"},
		{Name: "CreateKey", Method: post, Effect: gate.Settings, Path: "/-/admin/key", Action: "orcas:CreateKey"},
		{Name: "DeleteKey", Method: del, Effect: gate.Settings, Path: "/-/admin/key", Action: "orcas:DeleteKey"},
		{Name: "UpdateKey", Method: post, Effect: gate.Settings, Path: "/-/admin/key/state", Action: "orcas:UpdateKey"},
		{Name: "ListUsers", Method: get, Effect: gate.Read, Path: "/-/admin/user", Action: "orcas:ListUsers"},
		{Name: "CreateUser", Method: post, Effect: gate.Settings, Path: "/-/admin/user", Action: "orcas:CreateUser"},
		{Name: "RenameUser", Method: post, Effect: gate.Settings, Path: "/-/admin/user/name", Action: "orcas:RenameUser"},
		{Name: "DeleteUser", Method: del, Effect: gate.Settings, Path: "/-/admin/user", Action: "orcas:DeleteUser"},
		{Name: "CreateUserKey", Method: post, Effect: gate.Settings, Path: "/-/admin/user/key", Action: "orcas:CreateUserKey"},
		{Name: "DeleteUserKey", Method: del, Effect: gate.Settings, Path: "/-/admin/user/key", Action: "orcas:DeleteUserKey"},
		{Name: "UpdateUserKey", Method: post, Effect: gate.Settings, Path: "/-/admin/user/key/state", Action: "orcas:UpdateUserKey"},
		{Name: "ListGroups", Method: get, Effect: gate.Read, Path: "/-/admin/group", Action: "orcas:ListGroups"},
		{Name: "CreateGroup", Method: post, Effect: gate.Settings, Path: "/-/admin/group", Action: "orcas:CreateGroup"},
		{Name: "RenameGroup", Method: post, Effect: gate.Settings, Path: "/-/admin/group/name", Action: "orcas:RenameGroup"},
		{Name: "DeleteGroup", Method: del, Effect: gate.Settings, Path: "/-/admin/group", Action: "orcas:DeleteGroup"},
		{Name: "UpdateMember", Method: post, Effect: gate.Settings, Path: "/-/admin/group/member", Action: "orcas:UpdateMember"},
		{Name: "ListAccounts", Method: get, Effect: gate.Read, Path: "/-/admin/account", Action: "orcas:ListAccounts"},
		{Name: "CreateAccount", Method: post, Effect: gate.Settings, Path: "/-/admin/account", Action: "orcas:CreateAccount"},
		{Name: "UpdateAccount", Method: post, Effect: gate.Settings, Path: "/-/admin/account/state", Action: "orcas:UpdateAccount"},
		{Name: "DeleteAccount", Method: del, Effect: gate.Settings, Path: "/-/admin/account", Action: "orcas:DeleteAccount"},
		{Name: "RotateAccountKey", Method: post, Effect: gate.Settings, Path: "/-/admin/account/rotate", Action: "orcas:RotateAccountKey"},
		{Name: "ListRoles", Method: get, Effect: gate.Read, Path: "/-/admin/role", Action: "orcas:ListRoles"},
		{Name: "CreateRole", Method: post, Effect: gate.Settings, Path: "/-/admin/role", Action: "orcas:CreateRole"},
		{Name: "DeleteRole", Method: del, Effect: gate.Settings, Path: "/-/admin/role", Action: "orcas:DeleteRole"},
		{Name: "UpdateRole", Method: post, Effect: gate.Settings, Path: "/-/admin/role/settings", Action: "orcas:UpdateRole"},
		{Name: "ListPolicies", Method: get, Effect: gate.Read, Path: "/-/admin/policy", Action: "orcas:ListPolicies"},
		{Name: "PutPolicy", Method: post, Effect: gate.Settings, Path: "/-/admin/policy", Action: "orcas:PutPolicy"},
		{Name: "DeletePolicy", Method: del, Effect: gate.Settings, Path: "/-/admin/policy", Action: "orcas:DeletePolicy"},
		{Name: "AttachPolicy", Method: post, Effect: gate.Settings, Path: "/-/admin/policy/attach", Action: "orcas:AttachPolicy"},
		{Name: "ApplyFile", Method: post, Effect: gate.Settings, Path: "/-/admin/apply", Action: "orcas:ApplyFile"},
		{Name: "SimulatePolicy", Method: get, Effect: gate.Read, Path: "/-/admin/policy/simulate", Action: "orcas:SimulatePolicy"},
		{Name: "RotateKey", Method: post, Effect: gate.Settings, Path: "/-/admin/key/rotate", Action: "orcas:RotateKey"},
	}
}

// handlers returns the handlers of all routes, by the name of the route.
func (s *Store) handlers() map[string]handler {
	ids := &identities{s.Keys, s.Endpoint}
	return map[string]handler{
		"GetReclaim":        s.reclaimStatus,
		"StartReclaim":      s.startReclaim,
		"GetScrub":          s.scrubStatus,
		"StartScrub":        s.startScrub,
		"GetLifecycle":      s.lifecycleStatus,
		"StartLifecycle":    s.startLifecycle,
		"ListLost":          s.lost,
		"CheckStore":        s.check,
		"GetBucketSettings": s.bucket,
		"PutBucketSettings": s.setBucket,
		"CreateBackup":      s.backup,
		"GetMasterKeys":     s.keysStatus,
		"RotateMasterKeys":  s.rotateKeys,
		"ListKeys":          s.listKeys,
		"CreateKey":         s.createKey,
		"DeleteKey":         s.deleteKey,
		"UpdateKey":         s.updateKey,
		"RotateKey":         s.rotateKey,
		"ListUsers":         ids.listUsers,
		"CreateUser":        ids.createUser,
		"RenameUser":        ids.renameUser,
		"DeleteUser":        ids.deleteUser,
		"CreateUserKey":     ids.createUserKey,
		"DeleteUserKey":     ids.deleteUserKey,
		"UpdateUserKey":     ids.updateUserKey,
		"ListGroups":        ids.listGroups,
		"CreateGroup":       ids.createGroup,
		"RenameGroup":       ids.renameGroup,
		"DeleteGroup":       ids.deleteGroup,
		"UpdateMember":      ids.updateMember,
		"ListAccounts":      ids.listAccounts,
		"CreateAccount":     ids.createAccount,
		"UpdateAccount":     ids.updateAccount,
		"DeleteAccount":     s.deleteAccount,
		"RotateAccountKey":  ids.rotateAccountKey,
		"ListRoles":         ids.listRoles,
		"CreateRole":        ids.createRole,
		"DeleteRole":        ids.deleteRole,
		"UpdateRole":        ids.updateRole,
		"ListPolicies":      ids.listPolicies,
		"PutPolicy":         ids.putPolicy,
		"DeletePolicy":      ids.deletePolicy,
		"AttachPolicy":      ids.attachPolicy,
		"SimulatePolicy":    s.simulate,
		"ApplyFile":         s.apply,
	}
}

package admin

import (
	"net/http"

	"orcas/gate"
)

// Routes returns the rows of all operations of the admin API.
func Routes() []*gate.Route {
	const get, post = http.MethodGet, http.MethodPost
	return []*gate.Route{
		{Name: "GetReclaim", Method: get, Path: "/-/admin/reclaim", Action: "orcas:GetReclaim"},
		{Name: "StartReclaim", Method: post, Path: "/-/admin/reclaim", Action: "orcas:StartReclaim"},
		{Name: "GetScrub", Method: get, Path: "/-/admin/scrub", Action: "orcas:GetScrub"},
		{Name: "StartScrub", Method: post, Path: "/-/admin/scrub", Action: "orcas:StartScrub"},
		{Name: "GetLifecycle", Method: get, Path: "/-/admin/lifecycle", Action: "orcas:GetLifecycle"},
		{Name: "StartLifecycle", Method: post, Path: "/-/admin/lifecycle", Action: "orcas:StartLifecycle"},
		{Name: "ListLost", Method: get, Path: "/-/admin/lost", Action: "orcas:ListLost"},
		{Name: "CheckStore", Method: post, Path: "/-/admin/fsck", Action: "orcas:CheckStore"},
		{Name: "GetBucketSettings", Method: get, Path: "/-/admin/bucket", Action: "orcas:GetBucketSettings"},
		{Name: "PutBucketSettings", Method: post, Path: "/-/admin/bucket", Action: "orcas:PutBucketSettings"},
		{Name: "CreateBackup", Method: post, Path: "/-/admin/backup", Action: "orcas:CreateBackup"},
		{Name: "GetMasterKeys", Method: get, Path: "/-/admin/keys", Action: "orcas:GetMasterKeys"},
		{Name: "RotateMasterKeys", Method: post, Path: "/-/admin/keys", Action: "orcas:RotateMasterKeys"},
	}
}

// handlers returns the handlers of all routes, by the name of the route.
func (s *Store) handlers() map[string]handler {
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
	}
}

package s3

import (
	"orcas/core"
	"orcas/core/ids"
	"orcas/s3/apierr"
)

// wireIDs converts version IDs and upload IDs of requests and responses. No other file depends on their form.
type wireIDs struct{ *ids.Codec }

// parseVersion parses the version ID of a request. It returns core.Current if there is none.
func (c wireIDs) parseVersion(s string, present bool) (core.Version, error) {
	if !present {
		return core.Current, nil
	}
	if s == "" {
		return 0, apierr.Argument("versionId", s, "Version id cannot be the empty string")
	}
	v, ok := c.ParseVersion(s)
	if !ok {
		return 0, apierr.Argument("versionId", s, "Invalid version id specified")
	}
	return v, nil
}

// parseUpload parses an upload ID. It returns errNoSuchUpload if s is not a valid ID.
func (c wireIDs) parseUpload(s string) (core.UploadID, error) {
	id, ok := c.ParseUpload(s)
	if !ok {
		return 0, errNoSuchUpload
	}
	return id, nil
}

package s3

import (
	"fmt"
	"strconv"

	"orcas/core"
	"orcas/s3/apierr"
)

// The format of version IDs and upload IDs in the protocol, which only this file depends on. Both are sequences: 16
// hexadecimal digits, or "null" for the version that was written while versioning was off or suspended.

const nullVersion = "null"

// versionID returns the ID of a version, or "" for core.Current, which does not identify a specific version.
func versionID(v core.Version) string {
	switch v {
	case core.Current:
		return ""
	case core.Null:
		return nullVersion
	}
	return fmt.Sprintf("%016x", uint64(v))
}

// parseVersionID is the inverse of versionID for nonempty IDs. It reports whether s is a valid ID.
func parseVersionID(s string) (core.Version, bool) {
	if s == nullVersion {
		return core.Null, true
	}
	if len(s) != 16 { // checked first, because an error of ParseUint costs an allocation
		return 0, false
	}
	n, err := strconv.ParseUint(s, 16, 64)
	v := core.Version(n)
	return v, err == nil && v != core.Current && v != core.Null
}

// canonicalVersionID returns a version ID in the form that versionID returns. Hexadecimal digits are accepted in either
// case, but a permission must not depend on the case. If s is not a valid ID, it is returned unchanged, and the
// operation will refuse it.
func canonicalVersionID(s string) string {
	if v, ok := parseVersionID(s); ok {
		return versionID(v)
	}
	return s
}

// parseVersion parses the version ID of a request. It returns core.Current if there is none.
func parseVersion(s string, present bool) (core.Version, error) {
	if !present {
		return core.Current, nil
	}
	if s == "" {
		return 0, apierr.Argument("versionId", s, "Version id cannot be the empty string")
	}
	v, ok := parseVersionID(s)
	if !ok {
		return 0, apierr.Argument("versionId", s, "Invalid version id specified")
	}
	return v, nil
}

// uploadID returns the ID of an upload.
func uploadID(id core.UploadID) string { return versionID(core.Version(id)) }

// parseUploadID is the inverse of uploadID. It returns errNoSuchUpload if s is not a valid ID.
func parseUploadID(s string) (core.UploadID, error) {
	v, ok := parseVersionID(s)
	if !ok || v == core.Null {
		return 0, errNoSuchUpload
	}
	return core.UploadID(v), nil
}

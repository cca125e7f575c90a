package s3

import (
	"orcas/core"
	"orcas/s3/conditions"
)

// newVersion holds the properties of a new version that come from the headers of a request.
type newVersion struct {
	attrs        []core.Attr
	tags         []core.Attr
	lock         core.Lock
	encryption   encryption
	precondition core.Precondition
}

// versionPart is a group of the headers that newVersion is parsed from.
type versionPart uint8

const (
	versionAttrs versionPart = iota // HTTP headers, storage class, redirect, user metadata
	versionTags
	versionLock
	versionPrecondition
	versionEncryption // also adds the encryption attributes
)

// parse reads the given groups of headers. Their order determines which of several errors the client sees.
func (v *newVersion) parse(q *request, parts ...versionPart) (err error) {
	for _, part := range parts {
		switch part {
		case versionAttrs:
			v.attrs, err = objectAttrs(q.r.Header)
		case versionTags:
			v.tags, err = parseTags(q)
		case versionLock:
			v.lock, err = parseLock(q)
		case versionPrecondition:
			v.precondition, err = conditions.Precondition(q.r.Header)
		case versionEncryption:
			if v.encryption, err = askedEncryption(q); err == nil {
				v.attrs = v.encryption.attrs(v.attrs)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

package s3

import (
	"orcas/core"
	"orcas/s3/apierr"
)

// checkCondition refuses a conditional header that the operation would ignore.
func (r *route) checkCondition(name string) error {
	var c condition
	switch name {
	case "If-Match":
		c = ifMatch
	case "If-None-Match":
		c = ifNoneMatch
	case "If-Modified-Since":
		c = ifModifiedSince
	case "If-Unmodified-Since":
		c = ifUnmodifiedSince
	default:
		return nil // If-Range: operations without ranges ignore it
	}
	if r.conditions&c == 0 {
		return apierr.UnservedHeader(name)
	}
	return nil
}

// precheck checks a precondition on the current version before the content is read. This only saves work: the decisive
// check is made when the version is written.
func precheck(q *request, p *core.Precondition) error {
	_, err := matching(q, p)
	return err
}

// matching returns the current version, which must meet the precondition p. It returns nil if there is no current
// version or p is empty.
func matching(q *request, p *core.Precondition) (*core.ObjectInfo, error) {
	if p.IsZero() {
		return nil, nil
	}
	current, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	if err != nil && !core.Is(err, core.NoSuchKey) {
		return nil, err
	}
	return current, conditionError(p.Check(current))
}

// conditionError converts a failed precondition into the S3 error.
func conditionError(err error) error {
	if core.Is(err, core.PreconditionFailed) {
		return errPrecondition.Because(err)
	}
	return err
}

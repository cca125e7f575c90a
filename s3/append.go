package s3

import (
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/s3/conditions"
	"orcas/vfs"
)

const writeOffsetName = "X-Amz-Write-Offset-Bytes"

// appending is the object that a PUT with x-amz-write-offset-bytes appends to.
type appending struct {
	offset     int64
	base       *core.ObjectInfo // the current version, or nil
	sum        core.Checksum    // checksum of all of base
	encryption encryption       // encryption of base
}

// parseAppend reads x-amz-write-offset-bytes and finds the object to append to. It returns nil if the PUT does not
// append.
func (op *putOperation) parseAppend() (*appending, error) {
	q, u := op.q, &op.content
	if q.optional&headerAppend == 0 {
		return nil, nil
	}
	v := first(q.r.Header, writeOffsetName)
	offset, ok := conditions.Digits(v)
	if !ok {
		return nil, errInvalidArgument.Say("The write offset must be a number of bytes.").
			With("ArgumentName", strings.ToLower(writeOffsetName)).With("ArgumentValue", v)
	}
	a := &appending{offset: offset}
	base, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	switch {
	case core.Is(err, core.NoSuchKey) && offset == 0:
	case core.Is(err, core.NoSuchKey):
		return nil, errWriteOffset.Because(err)
	case err != nil:
		return nil, err
	case base.Size != offset:
		return nil, errWriteOffset.With("ObjectSize", itoa(base.Size))
	default:
		a.base = base
	}
	if u.body.DecodedLength() == 0 {
		return nil, errInvalidRequest.Say("Request body cannot be empty when 'write offset' is specified.")
	}
	if a.base == nil {
		return a, nil
	}
	u.attrs = a.base.Attrs
	return a, op.checkAppend(a)
}

// checkAppend performs the checks that are needed only if there is a current version to append to.
func (op *putOperation) checkAppend(a *appending) (err error) {
	q, u := op.q, &op.content
	for _, at := range op.version.attrs {
		if strings.HasPrefix(at.Name, metaStored) {
			return errInvalidRequest.Say("Cannot specify both a write offset value and user-defined object metadata for existing objects.")
		}
	}
	if q.optional&headerTagging != 0 {
		return errInvalidRequest.Say("Cannot specify both a write offset value and tags for existing objects.")
	}
	if size := a.base.Size + u.body.DecodedLength(); size > maxObjectBytes {
		return errEntityTooLarge.With("ProposedSize", itoa(size)).With("MaxSizeAllowed", itoa(maxObjectBytes))
	}
	if sums := a.base.Sums; len(sums) > 0 && u.in.alg != checksum.None && u.in.alg != sums[0].Algorithm &&
		(sums[0].Algorithm != defaultSum || u.in.alg.CanCombine()) {
		// If the checksum of the first content cannot be combined, the appended object has the default checksum.
		return sumMismatch(sums[0].Algorithm, u.in.alg)
	}
	if a.encryption, err = op.version.encryption.toAppend(q, a.base); err != nil {
		return err
	}
	if a.sum, err = q.s.fs.FullSum(q.ctx, a.base, a.encryption.Customer); core.Is(err, core.Conflict) {
		return errWriteConflict.Because(err)
	}
	return err
}

// size returns the size of the object before the append.
func (a *appending) size() int64 {
	if a == nil {
		return 0
	}
	return a.offset
}

// algorithm returns the checksum algorithm required for the content, or None if any algorithm is acceptable.
func (a *appending) algorithm() checksum.Algorithm {
	if a == nil || a.base == nil {
		return checksum.None
	}
	return a.sum.Algorithm
}

// append appends the content to the object, and returns the new version.
func (op *putOperation) append(req vfs.PutRequest) (*core.ObjectInfo, error) {
	q, a := op.q, op.appendTo
	var o *core.ObjectInfo
	var err error
	if a.base == nil {
		req.If.NoneMatch = []string{"*"}
		o, err = q.s.fs.Put(q.ctx, req)
	} else {
		alg := a.sum.Algorithm
		value, bad := checksum.Combine(alg, a.sum.Value, req.Content.Sum(alg), req.Content.Size())
		if bad != nil {
			return nil, bad
		}
		req.Sums = []core.Checksum{{Algorithm: alg, Value: value}}
		encryption := op.version.encryption.Encryption
		o, err = q.s.fs.Append(q.ctx, vfs.AppendRequest{PutRequest: req, Base: a.base, Encryption: encryption})
	}
	switch {
	case core.Is(err, core.TooLarge):
		return nil, errTooManyAppends.Because(err)
	case core.Is(err, core.Conflict), core.Is(err, core.PreconditionFailed):
		return nil, op.lostAppend(err)
	}
	return o, err
}

// lostAppend returns the error for an append that lost a race. The append was possible when the request began, but
// since then the precondition has become false, the size of the object has changed, or another object of the same size
// has replaced it.
func (op *putOperation) lostAppend(cause error) error {
	q, a := op.q, op.appendTo
	if err := precheck(q, &op.version.precondition); err != nil {
		return err
	}
	now, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	switch {
	case core.Is(err, core.NoSuchKey) && a.offset > 0, err == nil && now.Size != a.offset:
		return errWriteOffset.Because(cause)
	case err != nil && !core.Is(err, core.NoSuchKey):
		return err
	}
	return errWriteConflict.Because(cause)
}

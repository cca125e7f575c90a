package s3

import (
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/vfs"
)

const writeOffsetName = "X-Amz-Write-Offset-Bytes"

// appending is what a PUT with x-amz-write-offset-bytes is appended to.
type appending struct {
	offset int64
	base   *core.ObjectInfo // the current version; nil: there is none yet
	sum    core.Checksum    // of base, in full

	encryption encryption // of base
}

// appendTo reads x-amz-write-offset-bytes, and finds what the content belongs behind. Nil: the PUT is none that appends.
func (q *request) appendTo(u *upload, attrs []core.Attr) (*appending, error) {
	if q.optional&headerAppend == 0 {
		return nil, nil
	}
	v := first(q.r.Header, writeOffsetName)
	offset, ok := parseDigits(v)
	if !ok {
		return nil, errInvalidArgument.say("The write offset must be a number of bytes.").
			with("ArgumentName", strings.ToLower(writeOffsetName)).with("ArgumentValue", v)
	}
	a := &appending{offset: offset}
	base, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	switch {
	case core.Is(err, core.NoSuchKey) && offset == 0:
	case core.Is(err, core.NoSuchKey):
		return nil, errWriteOffset.because(err)
	case err != nil:
		return nil, err
	case base.Size != offset:
		return nil, errWriteOffset.with("ObjectSize", itoa(base.Size))
	default:
		a.base = base
	}
	if u.body.DecodedLength() == 0 {
		return nil, errInvalidRequest.say("Request body cannot be empty when 'write offset' is specified.")
	}
	if a.base == nil {
		return a, nil
	}
	u.kept = a.base.Attrs
	return a, q.checkAppend(a, u, attrs)
}

// checkAppend makes the checks of content that follows other content.
func (q *request) checkAppend(a *appending, u *upload, attrs []core.Attr) (err error) {
	for _, at := range attrs {
		if strings.HasPrefix(at.Name, metaStored) {
			return errInvalidRequest.say("Cannot specify both a write offset value and user-defined object metadata for existing objects.")
		}
	}
	if q.optional&headerTagging != 0 {
		return errInvalidRequest.say("Cannot specify both a write offset value and tags for existing objects.")
	}
	if a.base.Size > maxObjectBytes-u.body.DecodedLength() {
		return errEntityTooLarge.with("ProposedSize", itoa(a.base.Size+u.body.DecodedLength())).with("MaxSizeAllowed", itoa(maxObjectBytes))
	}
	if sums := a.base.Sums; len(sums) > 0 && u.in.alg != checksum.None && u.in.alg != sums[0].Algorithm &&
		(sums[0].Algorithm != defaultSum || u.in.alg.CanCombine()) {
		// Content that was appended to in other algorithms than can be combined has the default one.
		return errInvalidRequest.say("Checksum Type mismatch occurred, expected checksum Type: " + strings.ToLower(sums[0].Algorithm.Name()) +
			", actual checksum Type: " + strings.ToLower(u.in.alg.Name()))
	}
	if a.encryption, err = q.appendEncryption(a.base); err != nil {
		return err
	}
	if a.sum, err = q.s.fs.FullSum(q.ctx, a.base, a.encryption.Customer); core.Is(err, core.Conflict) {
		return errWriteConflict.because(err)
	}
	return err
}

// size returns how many bytes there are already.
func (a *appending) size() int64 {
	if a == nil {
		return 0
	}
	return a.offset
}

// algorithm returns the checksum that the content needs; None: no particular one.
func (a *appending) algorithm() checksum.Algorithm {
	if a == nil || a.base == nil {
		return checksum.None
	}
	return a.sum.Algorithm
}

// put writes what was received, and returns the object and the checksums of all of it.
func (q *request) put(a *appending, req vfs.PutRequest) (*core.ObjectInfo, error) {
	if a == nil {
		return q.s.fs.Put(q.ctx, req)
	}
	demand := req.If
	var o *core.ObjectInfo
	var err error
	if a.base == nil {
		req.If.NoneMatch = []string{"*"}
		o, err = q.s.fs.Put(q.ctx, req)
	} else {
		var value []byte
		if value, err = checksum.Combine(a.sum.Algorithm, a.sum.Value, req.Content.Sum(a.sum.Algorithm), req.Content.Size()); err != nil {
			return nil, err
		}
		req.Sums = []core.Checksum{{Algorithm: a.sum.Algorithm, Value: value}}
		o, err = q.s.fs.Append(q.ctx, vfs.AppendRequest{PutRequest: req, Base: a.base, Encryption: q.encryption.Encryption})
	}
	switch {
	case err == nil:
		q.set("X-Amz-Object-Size", itoa(o.Size))
		return o, nil
	case core.Is(err, core.TooLarge):
		return nil, errTooManyAppends.because(err)
	case core.Is(err, core.Conflict), core.Is(err, core.PreconditionFailed):
		return nil, q.lostAppend(a, &demand, err)
	}
	return nil, err
}

// lostAppend says why content could not be appended although it could when the request began: what the client demands does not hold
// any more, or the object has another size, or is another one of that size.
func (q *request) lostAppend(a *appending, demand *core.Precondition, cause error) error {
	if err := q.precheck(demand); err != nil {
		return err
	}
	now, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, core.Current)
	switch {
	case core.Is(err, core.NoSuchKey) && a.offset > 0, err == nil && now.Size != a.offset:
		return errWriteOffset.because(cause)
	case err != nil && !core.Is(err, core.NoSuchKey):
		return err
	}
	return errWriteConflict.because(cause)
}

package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orcas/auth"
	"orcas/core"
	"orcas/internal/sigv4"
	"orcas/s3/apierr"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
	"orcas/vfs"
)

const (
	renameSourceName = "X-Amz-Rename-Source"
	moveSourceName   = "X-Amz-Move-Source"
	tokenName        = "X-Amz-Client-Token"
)

// maxToken is the maximum length of a client token.
const maxToken = 64

// moveOperation is a rename within a bucket, or a move within or between buckets.
type moveOperation struct {
	q      *request
	bucket *core.BucketInfo // bucket of the source
	src    source
	from   conditions.Set // conditions on the source
	to     conditions.Set // conditions on the modification time of the target
	token  string         // client token as stored with the version, or ""

	precondition core.Precondition // on the target
}

// renameObject performs RenameObject. AWS supports it only for directory buckets, ORCAS for all buckets. Metadata,
// checksums and Last-Modified do not change.
func renameObject(q *request) error {
	m := moveOperation{q: q, bucket: q.bucket, from: conditions.OfSource(q.r.Header, renameSourceName)}
	var err error
	if m.src, err = parseRenameSource(first(q.r.Header, renameSourceName), q.bucketName); err != nil {
		return err
	}
	m.to.ModifiedSince, m.to.UnmodifiedSince = first(q.r.Header, "If-Modified-Since"), first(q.r.Header, "If-Unmodified-Since")
	o, _, err := m.run()
	if err != nil {
		return err
	}
	q.setNewVersion(o.Version())
	return nil
}

// moveObject performs MoveObject, an extension of S3: a PUT that moves an object within a bucket or to another bucket.
// The response is the same as for CopyObject.
func moveObject(q *request, x *xmldoc.Writer) error {
	m := moveOperation{q: q, from: conditions.OfSource(q.r.Header, moveSourceName)}
	src, err := q.s.ids.parseSource(first(q.r.Header, moveSourceName), moveSourceName)
	if err != nil {
		return err
	}
	if src.version != core.Current {
		return errInvalidRequest.Say("Only the current version of an object can be moved.")
	}
	m.src = src
	if m.bucket, err = sourceBucket(q, src.bucket); err != nil {
		return err
	}
	o, from, err := m.run()
	if err != nil {
		return err
	}
	if from != nil {
		setSourceVersion(q, m.bucket, from)
	}
	q.setNewVersion(o.Version())
	writeCopied(q, x, o)
	return nil
}

// parseRenameSource parses x-amz-rename-source, which is percent-encoded: either /bucket/key, with the bucket of the
// request, or only the key.
func parseRenameSource(v, bucket string) (source, error) {
	bad := errInvalidArgument.Say("The rename source must be a key in the same bucket.").
		With("ArgumentName", "x-amz-rename-source").With("ArgumentValue", v)
	if i := strings.IndexByte(v, '?'); i >= 0 {
		return source{}, bad
	}
	key, err := url.PathUnescape(v)
	if err != nil || key == "" {
		return source{}, bad
	}
	if strings.HasPrefix(key, "/") {
		var named string
		if named, key = sigv4.Split(key); named != bucket || key == "" {
			return source{}, bad
		}
	}
	return source{bucket: bucket, key: key}, checkKey(key)
}

// run moves the object, and returns its metadata after and before the move. from is nil if an earlier attempt at this
// request has already moved the object.
func (m *moveOperation) run() (o, from *core.ObjectInfo, err error) {
	q := m.q
	for _, a := range [...]auth.Action{"s3:GetObject", "s3:DeleteObject"} {
		if err := q.authorize(a, m.src.resource(m.bucket)); err != nil {
			return nil, nil, err
		}
	}
	if m.bucket.ID == q.bucket.ID && m.src.key == q.key {
		return nil, nil, errInvalidRequest.Say("This request is illegal because it is trying to move an object to itself.")
	}
	if err := checkNoMetadata(q.r.Header); err != nil {
		return nil, nil, err
	}
	if m.precondition, err = conditions.Precondition(q.r.Header); err != nil {
		return nil, nil, err
	}
	if err := m.readToken(); err != nil {
		return nil, nil, err
	}
	for try := 1; ; try++ {
		if o, err = m.before(); o != nil || err != nil {
			return o, nil, err
		}
		o, from, err = m.try()
		if !core.Is(err, core.Conflict) || try == maxCopyTries {
			return o, from, err
		}
	}
}

// checkNoMetadata refuses headers that describe a new object, because a moved object keeps its metadata.
func checkNoMetadata(h http.Header) error {
	for name := range h {
		switch name {
		case storageClassName, redirectName, "X-Amz-Metadata-Directive", "X-Amz-Tagging-Directive", "X-Amz-Checksum-Algorithm":
		default:
			if !strings.HasPrefix(name, metaPrefix) {
				continue
			}
		}
		return errInvalidRequest.Say("The header " + strings.ToLower(name) + " cannot be specified, because a moved object keeps its metadata.")
	}
	return nil
}

// readToken reads x-amz-client-token. The token is stored with a hash of the request.
func (m *moveOperation) readToken() error {
	token := first(m.q.r.Header, tokenName)
	if token == "" {
		return nil
	}
	bad := len(token) > maxToken
	for i := range len(token) {
		bad = bad || token[i] < 33 || token[i] > 126
	}
	if bad {
		return apierr.Argument(strings.ToLower(tokenName), token, "The client token must have at most 64 printable ASCII characters.")
	}
	asked := sha256.New()
	for _, s := range []string{
		m.src.bucket, m.src.key, m.from.Match, m.from.NoneMatch, m.from.ModifiedSince, m.from.UnmodifiedSince,
		joined(m.q.r.Header, "If-Match"), joined(m.q.r.Header, "If-None-Match"), m.to.ModifiedSince, m.to.UnmodifiedSince,
	} {
		_, _ = asked.Write([]byte(s + "\x00")) // a hash never fails
	}
	m.token = token + " " + hex.EncodeToString(asked.Sum(nil)[:8])
	return nil
}

// before returns the object if an earlier attempt at this request has already moved it, so that a client that did not
// see the response can retry. Otherwise it returns nil.
func (m *moveOperation) before() (*core.ObjectInfo, error) {
	if m.token == "" {
		return nil, nil
	}
	o, was, err := m.q.s.fs.MovedBy(m.q.ctx, m.q.bucket, m.q.key)
	if err != nil || o == nil {
		return nil, err
	}
	token, _, _ := strings.Cut(m.token, " ")
	switch before, _, _ := strings.Cut(was, " "); {
	case was == m.token:
		return o, nil
	case before == token:
		return nil, errTokenMismatch
	}
	return nil, nil
}

// try moves the source in its current state. It returns Conflict if the source or the target changes during the move.
func (m *moveOperation) try() (o, from *core.ObjectInfo, err error) {
	q := m.q
	if from, err = q.s.fs.Stat(q.ctx, m.bucket, m.src.key, core.Current); err != nil {
		return nil, nil, m.src.missing(q, m.bucket, err)
	}
	if err := q.confirm("s3:GetObject", m.src.resource(m.bucket), from); err != nil {
		return nil, nil, err
	}
	q.asked.moved = from
	if err := q.keepsTags("s3:GetObjectTagging", m.src.resource(m.bucket), from.Tags); err != nil {
		return nil, nil, err
	}
	if len(from.Attrs) > 0 { // the new version has them, and a condition may be about them
		if err := q.authorize(q.route.Action, q.resource()); err != nil {
			return nil, nil, err
		}
	}
	if v := m.from.Judge(from.ETag, from.Modified, q.s.now()); v != conditions.Proceed {
		return nil, nil, m.from.Refused(v)
	}
	if m.bucket.ID != q.bucket.ID && q.s.fs.EncryptsBucket(q.bucket) && !isEncrypted(from) {
		return nil, nil, errNotImplemented.Say("An object that is not encrypted cannot be moved to a bucket with encryption enabled. Copy it instead.")
	}
	precondition, pinned, err := m.pin()
	if err != nil {
		return nil, nil, err
	}
	o, err = q.s.fs.Move(q.ctx, vfs.MoveRequest{
		Source: from, Bucket: q.bucket, Key: q.key, If: precondition, Token: m.token, Owner: q.caller.Account,
	})
	switch {
	case core.Is(err, core.NoSuchKey): // no target, which If-Match requires
		err = errPrecondition.Because(err)
	case pinned && core.Is(err, core.PreconditionFailed): // a target has been written: retry, to check its time
		err = core.E("s3.move", core.Conflict, err)
	default:
		err = conditionError(err)
	}
	return o, from, err
}

// pin checks the conditions on the modification time of the target. If there are any, the precondition that it returns
// also fails if the target changes before it is written, because the result of the check would then be outdated. pinned
// reports whether the precondition was tightened to require that there is no target.
func (m *moveOperation) pin() (p core.Precondition, pinned bool, err error) {
	since, hasSince := conditions.Time(m.to.ModifiedSince)
	until, hasUntil := conditions.Time(m.to.UnmodifiedSince)
	if !hasSince && !hasUntil {
		return m.precondition, false, nil
	}
	p = m.precondition
	target, err := m.q.s.fs.Stat(m.q.ctx, m.q.bucket, m.q.key, core.Current)
	switch {
	case core.Is(err, core.NoSuchKey):
		if hasSince || len(p.Match) > 0 {
			return p, false, errPrecondition
		}
		pinned = len(p.NoneMatch) == 0
		p.NoneMatch = []string{"*"}
		return p, pinned, nil
	case err != nil:
		return p, false, err
	}
	modified := target.Modified.Truncate(time.Second)
	if hasSince && !modified.After(since) || hasUntil && modified.After(until) {
		return p, false, errPrecondition
	}
	p.Seq = target.Seq
	return p, false, nil
}

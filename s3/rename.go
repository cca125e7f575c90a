package s3

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orcas/core"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

const (
	renameSourceName = "X-Amz-Rename-Source"
	moveSourceName   = "X-Amz-Move-Source"
	tokenName        = "X-Amz-Client-Token"
)

// maxToken is the length of the longest client token.
const maxToken = 64

// move is a rename within a bucket, or a move between two.
type move struct {
	q      *request
	bucket *core.BucketInfo // of the source
	src    source
	from   readConditionSet // of the source
	to     readConditionSet // of the target, as times
	demand core.Precondition
	token  string // as it is kept with the version; "": none
}

// renameObject is RenameObject: AWS has it for directory buckets, this server for all. Metadata, checksums and Last-Modified stay as
// they are.
func (q *request) renameObject() error {
	m := move{q: q, bucket: q.bucket, from: conditionsOf(q.r.Header, renameSourceName)}
	var err error
	if m.src, err = parseRenameSource(first(q.r.Header, renameSourceName), q.bucketName); err != nil {
		return err
	}
	m.to.modifiedSince, m.to.unmodifiedSince = first(q.r.Header, "If-Modified-Since"), first(q.r.Header, "If-Unmodified-Since")
	o, _, err := m.run()
	if err != nil {
		return err
	}
	q.setNewVersion(o.Version())
	q.sendEmpty(http.StatusOK)
	return nil
}

// moveObject is ours: a PUT that gives an object of any bucket another name. It answers as CopyObject does.
func (q *request) moveObject() error {
	m := move{q: q, from: conditionsOf(q.r.Header, moveSourceName)}
	src, err := parseSource(first(q.r.Header, moveSourceName), moveSourceName)
	if err != nil {
		return err
	}
	if src.version != core.Current {
		return errInvalidRequest.say("Only the current version of an object can be moved.")
	}
	m.src = src
	if m.bucket, err = q.sourceBucket(src.bucket); err != nil {
		return err
	}
	o, from, err := m.run()
	if err != nil {
		return err
	}
	if from != nil {
		q.setSourceVersion(m.bucket, from)
	}
	q.setNewVersion(o.Version())
	q.sendCopied(o)
	return nil
}

// parseRenameSource reads x-amz-rename-source, percent-encoded: /bucket/key with the bucket of the request, or the key alone.
func parseRenameSource(v, bucket string) (source, error) {
	bad := errInvalidArgument.say("The rename source must be a key of the same bucket.").
		with("ArgumentName", "x-amz-rename-source").with("ArgumentValue", v)
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

// run moves, and returns the object and what it was; that is nil where the request came again and was done before.
func (m *move) run() (o, from *core.ObjectInfo, err error) {
	q := m.q
	for _, a := range []action{"s3:GetObject", "s3:DeleteObject"} {
		if err := q.s.authorise(q.caller, a, m.bucket); err != nil {
			return nil, nil, err
		}
	}
	if m.bucket.ID == q.bucket.ID && m.src.key == q.key {
		return nil, nil, errInvalidRequest.say("This request is illegal because it is trying to move an object to itself.")
	}
	if err := checkNoMetadata(q.r.Header); err != nil {
		return nil, nil, err
	}
	if m.demand, err = writeCondition(q.r.Header); err != nil {
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

// checkNoMetadata refuses what a new object could be given: one that is moved keeps what it has.
func checkNoMetadata(h http.Header) error {
	for name := range h {
		switch name {
		case storageClassName, redirectName, "X-Amz-Metadata-Directive", "X-Amz-Tagging-Directive", "X-Amz-Checksum-Algorithm":
		default:
			if !strings.HasPrefix(name, metaPrefix) {
				continue
			}
		}
		return errInvalidRequest.say("The header " + strings.ToLower(name) + " cannot be specified: an object that is moved keeps its metadata.")
	}
	return nil
}

// readToken reads x-amz-client-token. What is kept says besides what was asked for.
func (m *move) readToken() error {
	token := first(m.q.r.Header, tokenName)
	if token == "" {
		return nil
	}
	bad := len(token) > maxToken
	for i := range len(token) {
		bad = bad || token[i] < 33 || token[i] > 126
	}
	if bad {
		return errInvalidArgument.say("The client token has up to 64 printable ASCII characters.").
			with("ArgumentName", strings.ToLower(tokenName)).with("ArgumentValue", token)
	}
	asked := sha256.New()
	for _, s := range []string{
		m.src.bucket, m.src.key, m.from.match, m.from.noneMatch, m.from.modifiedSince, m.from.unmodifiedSince,
		joined(m.q.r.Header, "If-Match"), joined(m.q.r.Header, "If-None-Match"), m.to.modifiedSince, m.to.unmodifiedSince,
	} {
		_, _ = asked.Write([]byte(s + "\x00")) // a hash never fails
	}
	m.token = token + " " + hex.EncodeToString(asked.Sum(nil)[:8])
	return nil
}

// before returns the object where this very request was done before: its answer was lost, and the client asks again.
func (m *move) before() (*core.ObjectInfo, error) {
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

// try moves the source as it is now. Conflict: it, or the target, was changed meanwhile.
func (m *move) try() (o, from *core.ObjectInfo, err error) {
	q := m.q
	if from, err = q.s.fs.Stat(q.ctx, m.bucket, m.src.key, core.Current); err != nil {
		return nil, nil, m.src.missing(err)
	}
	if v := m.from.judge(from.ETag, from.Modified, q.s.now()); v != proceed {
		return nil, nil, m.from.refused(v)
	}
	if m.bucket.ID != q.bucket.ID && q.s.fs.EncryptsBucket(q.bucket) && !isEncrypted(from) {
		return nil, nil, errNotImplemented.say("What is not encrypted is not moved to a bucket that encrypts: copy it.")
	}
	demand, pinned, err := m.pin()
	if err != nil {
		return nil, nil, err
	}
	o, err = q.s.fs.Move(q.ctx, vfs.MoveRequest{
		Source: from, Bucket: q.bucket, Key: q.key, If: demand, Token: m.token, Owner: q.caller.account,
	})
	switch {
	case core.Is(err, core.NoSuchKey): // of the target, which If-Match demands
		err = errPrecondition.because(err)
	case pinned && core.Is(err, core.PreconditionFailed): // somebody wrote a target where none was: its times count now
		err = core.E("s3.move", core.Conflict, err)
	default:
		err = conditionError(err)
	}
	return o, from, err
}

// pin holds the conditions on the target's time against it, and returns what must still be so when it is written. pinned says that it is
// that there is no target.
func (m *move) pin() (demand core.Precondition, pinned bool, err error) {
	since, hasSince := parseTime(m.to.modifiedSince)
	until, hasUntil := parseTime(m.to.unmodifiedSince)
	if !hasSince && !hasUntil {
		return m.demand, false, nil
	}
	demand = m.demand
	target, err := m.q.s.fs.Stat(m.q.ctx, m.q.bucket, m.q.key, core.Current)
	switch {
	case core.Is(err, core.NoSuchKey):
		if hasSince || len(demand.Match) > 0 {
			return demand, false, errPrecondition
		}
		pinned = len(demand.NoneMatch) == 0
		demand.NoneMatch = []string{"*"}
		return demand, pinned, nil
	case err != nil:
		return demand, false, err
	}
	modified := target.Modified.Truncate(time.Second)
	if hasSince && !modified.After(since) || hasUntil && modified.After(until) {
		return demand, false, errPrecondition
	}
	demand.Seq = target.Seq
	return demand, false, nil
}

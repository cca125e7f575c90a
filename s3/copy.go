package s3

import (
	"net/http"
	"net/url"
	"strings"

	"orcas/auth"
	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/sigv4"
	"orcas/s3/apierr"
	"orcas/s3/bucketaccess"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
	"orcas/vfs"
)

// maxCopyTries is the maximum number of attempts to copy a source that keeps changing.
const maxCopyTries = 16

const (
	copySourceName   = "X-Amz-Copy-Source"
	taggingDirective = "X-Amz-Tagging-Directive"
)

// source is the object or version that x-amz-copy-source refers to.
type source struct {
	bucket, key string
	version     core.Version
	id          string // of the version; "" for the current one
}

// parseSource reads a header such as x-amz-copy-source: [/]bucket/key[?versionId=id], percent-encoded.
func (c wireIDs) parseSource(v, header string) (source, error) {
	bad := errInvalidArgument.Say("Copy Source must mention the source bucket and key: sourcebucket/sourcekey").
		With("ArgumentName", strings.ToLower(header)).With("ArgumentValue", v)
	path, version, versioned := v, "", false
	if i := strings.LastIndex(v, "?versionId="); i >= 0 {
		path, version, versioned = v[:i], v[i+len("?versionId="):], true
	}
	if strings.HasPrefix(path, "arn:") {
		return source{}, errNotImplemented.Say("Access points as copy sources are not implemented.")
	}
	path, err := url.PathUnescape(path)
	if err != nil {
		return source{}, bad
	}
	src := source{}
	src.bucket, src.key = sigv4.Split(path)
	if src.key == "" {
		return source{}, bad
	}
	if !ValidBucketName(src.bucket) {
		return source{}, apierr.Argument(strings.ToLower(header), v, "Invalid copy source bucket name")
	}
	if err := checkKey(src.key); err != nil {
		return source{}, err
	}
	if versioned {
		if version, err = url.QueryUnescape(version); err != nil {
			return source{}, bad
		}
	}
	src.version, err = c.parseVersion(version, versioned)
	src.id = c.CanonicalVersion(version)
	return src, err
}

// missing returns the error for the error of a read of a source in the bucket b. If the source does not exist, it has
// the key, or the key and the version, unless the caller must not know that (see conceal).
func (src *source) missing(q *request, b *core.BucketInfo, err error) error {
	switch {
	case !core.Is(err, core.NoSuchKey) && !core.Is(err, core.NoSuchVersion):
		return err
	case src.version == core.Current:
		err = errNoSuchKey.Because(err).With("Key", src.key)
	default:
		err = errNoSuchVersion.Because(err).With("Key", src.key).With("VersionId", src.id)
	}
	return q.conceal(err, b, src.key)
}

// sourceBucket returns the source bucket of a copy or a move. If the request specifies an expected owner, the bucket
// must belong to it.
func sourceBucket(q *request, name string) (*core.BucketInfo, error) {
	b, err := q.s.fs.Bucket(q.ctx, name)
	switch v := q.r.Header["X-Amz-Source-Expected-Bucket-Owner"]; {
	case core.Is(err, core.NoSuchBucket):
		return nil, toAPI(err).With("BucketName", name)
	case err != nil:
		return nil, err
	case len(v) > 0 && v[0] != b.Owner:
		return nil, errAccessDenied
	}
	return b, nil
}

// action returns the action that the caller needs permission for: plain, or versioned if src refers to a specific
// version.
func (src *source) action(plain, versioned auth.Action) auth.Action {
	if src.version == core.Current {
		return plain
	}
	return versioned
}

// resource returns the source as a resource. b is its bucket.
func (src *source) resource(b *core.BucketInfo) auth.Resource {
	r := bucketaccess.Resource(b)
	r.Key, r.Version = src.key, src.id
	return r
}

// foundSource is the source of a copy in its current state.
type foundSource struct {
	source
	bucket *core.BucketInfo
	info   *core.ObjectInfo
}

// authorizeTags checks that the caller may copy the tags of the source, if it has any.
func (f *foundSource) authorizeTags(q *request) error {
	return q.keepsTags(f.action("s3:GetObjectTagging", "s3:GetObjectVersionTagging"), f.resource(f.bucket), f.info.Tags)
}

// findCopySource finds the source of a copy and checks the x-amz-copy-source-if-* conditions.
func findCopySource(q *request) (f foundSource, err error) {
	if f.source, err = q.s.ids.parseSource(first(q.r.Header, copySourceName), copySourceName); err != nil {
		return f, err
	}
	if f.bucket, err = sourceBucket(q, f.source.bucket); err != nil {
		return f, err
	}
	read := f.action("s3:GetObject", "s3:GetObjectVersion")
	if err := q.authorize(read, f.resource(f.bucket)); err != nil {
		return f, err
	}
	f.info, err = q.s.fs.Stat(q.ctx, f.bucket, f.key, f.version)
	if core.Is(err, core.MethodNotAllowed) {
		err = errInvalidRequest.Say("The source of a copy request may not specifically refer to a delete marker by version id.")
	}
	if err != nil {
		return f, f.missing(q, f.bucket, err)
	}
	if err := q.confirm(read, f.resource(f.bucket), f.info); err != nil {
		return f, err
	}
	onSource := conditions.OfSource(q.r.Header, copySourceName)
	if v := onSource.Judge(f.info.ETag, f.info.Modified, q.s.now()); v != conditions.Proceed {
		return f, onSource.Refused(v)
	}
	return f, nil
}

// setSourceVersion sets the ID of the copied version in the response.
func setSourceVersion(q *request, b *core.BucketInfo, o *core.ObjectInfo) {
	if b.Versioning != core.VersioningOff {
		q.set("X-Amz-Copy-Source-Version-Id", q.s.ids.Version(o.Version()))
	}
}

// copyOperation is CopyObject.
type copyOperation struct {
	q                    *request
	version              newVersion // without attributes, which depend on the source
	replace, replaceTags bool
	alg                  checksum.Algorithm
}

func copyObject(q *request, x *xmldoc.Writer) error {
	op := copyOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	o, err := retryConflicts(op.try)
	if err != nil {
		return err
	}
	q.setNewVersion(o.Version())
	writeCopied(q, x, o)
	return nil
}

// writeCopied writes the response to a copy or a move whose result is o.
func writeCopied(q *request, x *xmldoc.Writer, o *core.ObjectInfo) {
	setExpiration(q, o)
	x.Begin("CopyObjectResult")
	x.Time("LastModified", o.Modified)
	x.ETag(o.ETag)
	writeSums(x, o.Sums, true)
	x.Close("CopyObjectResult")
}

// parse reads the headers and checks the precondition.
func (op *copyOperation) parse() (err error) {
	q, h := op.q, op.q.r.Header
	if err := op.version.parse(q, versionPrecondition); err != nil {
		return err
	}
	if op.replace, err = directive(h, "X-Amz-Metadata-Directive"); err != nil {
		return err
	}
	if op.replaceTags, err = directive(h, taggingDirective); err != nil {
		return err
	}
	if err := op.version.parse(q, versionTags, versionLock); err != nil {
		return err
	}
	if op.alg, err = namedAlgorithm(h); err != nil {
		return err
	}
	if err := op.version.parse(q, versionEncryption); err != nil {
		return err
	}
	return precheck(q, &op.version.precondition)
}

// retryConflicts calls try until it does not return Conflict, which means that the source has changed during the
// attempt, or until maxCopyTries attempts have been made.
func retryConflicts[T any](try func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		v, err := try()
		if !core.Is(err, core.Conflict) || n == maxCopyTries {
			return v, err
		}
	}
}

// try copies the source in its current state. It returns Conflict if the source changes during the copy.
func (op *copyOperation) try() (*core.ObjectInfo, error) {
	q := op.q
	from, err := findCopySource(q)
	if err != nil {
		return nil, err
	}
	if from.info.Size > maxPutBytes {
		return nil, errLargeSource
	}
	old, err := sourceEncryption(q, from.info)
	if err != nil {
		return nil, err
	}
	v := &op.version
	req := vfs.CopyRequest{
		SourceBucket: from.bucket, Source: from.info, Customer: old.Customer, Algorithm: op.alg,
		Bucket: q.bucket, Key: q.key, Owner: q.caller.Account, Tags: v.tags, Lock: v.lock, If: v.precondition,
	}
	if req.Attrs, err = copyAttrs(q.r.Header, from.info, op.replace); err != nil {
		return nil, err
	}
	to := v.encryption
	req.Recode = recoding(from.info, old, &to)
	req.Attrs = to.attrs(req.Attrs)
	if !op.replaceTags {
		if err := from.authorizeTags(q); err != nil {
			return nil, err
		}
		req.Tags = from.info.Tags
	}
	if !op.changes(&from, req.Attrs) {
		return nil, errInvalidRequest.Say("This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	q.renew()
	setSourceVersion(q, from.bucket, from.info)
	to.setHeaders(q)
	if req.NeedsReading() {
		defer q.keepAlive()()
	}
	return q.s.fs.Copy(q.ctx, req)
}

// changes reports whether the copy differs from its source, which is required if the current version is copied to
// itself.
func (op *copyOperation) changes(from *foundSource, attrs []core.Attr) bool {
	q := op.q
	itself := from.bucket.ID == q.bucket.ID && from.key == q.key && from.version == core.Current
	return !itself || op.replace || op.alg != checksum.None || classOf(attrs) != classOf(from.info.Attrs) ||
		first(q.r.Header, redirectName) != "" || asksForEncryption(q.r.Header)
}

// copyAttrs returns the attributes of a copy. If replace is set, they come from the request. Otherwise they come from
// the source, except for the storage class and the redirect, which are never copied and always come from the request.
func copyAttrs(h http.Header, from *core.ObjectInfo, replace bool) ([]core.Attr, error) {
	own, err := objectAttrs(h)
	if err != nil || replace {
		return own, err
	}
	attrs := make([]core.Attr, 0, len(from.Attrs)+2)
	for _, a := range from.Attrs {
		switch a.Name {
		case storageClassName, redirectName, storeAttr, customerAttr:
		default:
			attrs = append(attrs, a)
		}
	}
	for _, a := range own {
		if a.Name == storageClassName || a.Name == redirectName {
			attrs = append(attrs, a)
		}
	}
	return attrs, nil
}

// directive reads a header whose value is COPY or REPLACE.
func directive(h http.Header, name string) (replace bool, err error) {
	switch v := first(h, name); v {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	default:
		return false, apierr.Argument(strings.ToLower(name), v, "Unknown directive.")
	}
}

// namedAlgorithm reads x-amz-checksum-algorithm.
func namedAlgorithm(h http.Header) (checksum.Algorithm, error) {
	name := first(h, "X-Amz-Checksum-Algorithm")
	if name == "" {
		return checksum.None, nil
	}
	a, ok := checksum.Parse(name)
	if !ok {
		return checksum.None, errInvalidRequest.Say("Checksum algorithm provided is unsupported.")
	}
	return a, nil
}

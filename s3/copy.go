package s3

import (
	"net/http"
	"net/url"
	"strings"

	"orcas/core"
	"orcas/internal/checksum"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// maxCopyTries bounds how often a copy starts again because its source was overwritten meanwhile.
const maxCopyTries = 16

const copySourceName = "X-Amz-Copy-Source"

// source is what x-amz-copy-source names.
type source struct {
	bucket, key string
	version     core.Version
}

// parseSource reads a header such as x-amz-copy-source: [/]bucket/key[?versionId=id], percent-encoded.
func parseSource(v, header string) (source, error) {
	bad := errInvalidArgument.say("Copy Source must mention the source bucket and key: sourcebucket/sourcekey").
		with("ArgumentName", strings.ToLower(header)).with("ArgumentValue", v)
	path, version, versioned := v, "", false
	if i := strings.LastIndex(v, "?versionId="); i >= 0 {
		path, version, versioned = v[:i], v[i+len("?versionId="):], true
	}
	if strings.HasPrefix(path, "arn:") {
		return source{}, errNotImplemented.say("Access points as copy sources are not implemented.")
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
		return source{}, argument(strings.ToLower(header), v, "Invalid copy source bucket name")
	}
	if err := checkKey(src.key); err != nil {
		return source{}, err
	}
	if versioned {
		if version, err = url.QueryUnescape(version); err != nil {
			return source{}, bad
		}
	}
	src.version, err = parseVersion(version, versioned)
	return src, err
}

// missing adds to the error of a read which key, or version of it, is not there.
func (src *source) missing(err error) error {
	switch {
	case !core.Is(err, core.NoSuchKey) && !core.Is(err, core.NoSuchVersion):
		return err
	case src.version == core.Current:
		return errNoSuchKey.because(err).with("Key", src.key)
	}
	return errNoSuchVersion.because(err).with("Key", src.key).with("VersionId", src.version.String())
}

// sourceBucket returns the bucket of the source of a copy or a move, which must be of the owner that the request expects, if any.
func (q *request) sourceBucket(name string) (*core.BucketInfo, error) {
	b, err := q.s.fs.Bucket(q.ctx, name)
	switch v := q.r.Header["X-Amz-Source-Expected-Bucket-Owner"]; {
	case core.Is(err, core.NoSuchBucket):
		return nil, toAPI(err).with("BucketName", name)
	case err != nil:
		return nil, err
	case len(v) > 0 && v[0] != b.Owner:
		return nil, errAccessDenied
	}
	return b, nil
}

// copySource finds what is to be copied, and holds the x-amz-copy-source-if-* conditions against it.
func (q *request) copySource() (*core.BucketInfo, *core.ObjectInfo, source, error) {
	src, err := parseSource(first(q.r.Header, copySourceName), copySourceName)
	if err != nil {
		return nil, nil, src, err
	}
	b, err := q.sourceBucket(src.bucket)
	if err != nil {
		return nil, nil, src, err
	}
	if err := q.s.authorise(q.caller, "s3:GetObject", b); err != nil {
		return nil, nil, src, err
	}
	info, err := q.s.fs.Stat(q.ctx, b, src.key, src.version)
	if core.Is(err, core.MethodNotAllowed) {
		err = errInvalidRequest.say("The source of a copy request may not specifically refer to a delete marker by version id.")
	}
	if err != nil {
		return nil, nil, src, src.missing(err)
	}
	conditions := conditionsOf(q.r.Header, copySourceName)
	if v := conditions.judge(info.ETag, info.Modified, q.s.now()); v != proceed {
		return nil, nil, src, conditions.refused(v)
	}
	return b, info, src, nil
}

// copyOrder is what the headers of CopyObject say; the source says the rest.
type copyOrder struct {
	request              vfs.CopyRequest
	replace, replaceTags bool
	alg                  checksum.Algorithm
}

func (q *request) copyOrder() (c copyOrder, err error) {
	c.request = vfs.CopyRequest{Bucket: q.bucket, Key: q.key, Owner: q.caller.account}
	if c.request.If, err = writeCondition(q.r.Header); err != nil {
		return c, err
	}
	if c.replace, err = directive(q.r.Header, "X-Amz-Metadata-Directive"); err != nil {
		return c, err
	}
	if c.replaceTags, err = directive(q.r.Header, "X-Amz-Tagging-Directive"); err != nil {
		return c, err
	}
	if c.request.Tags, err = q.headerTags(); err != nil {
		return c, err
	}
	if c.request.Lock, err = q.headerLock(); err != nil {
		return c, err
	}
	if c.alg, err = namedAlgorithm(q.r.Header); err != nil {
		return c, err
	}
	if q.encryption, err = q.askedEncryption(); err != nil {
		return c, err
	}
	return c, q.precheck(&c.request.If)
}

func (q *request) copyObject() error {
	order, err := q.copyOrder()
	if err != nil {
		return err
	}
	var o *core.ObjectInfo
	for try := 1; ; try++ {
		if o, err = q.tryCopy(&order); err == nil {
			break
		}
		if !core.Is(err, core.Conflict) || try == maxCopyTries {
			return err
		}
	}
	q.setNewVersion(o.Version())
	q.sendCopied(o)
	return nil
}

// sendCopied answers with what a copy has become.
func (q *request) sendCopied(o *core.ObjectInfo) {
	q.setExpiration(o)
	x := q.s.document()
	defer q.s.release(x)
	x.begin("CopyObjectResult")
	x.time("LastModified", o.Modified)
	x.etag(o.ETag)
	x.sums(o.Sums, true)
	x.close("CopyObjectResult")
	q.sendXML(http.StatusOK, x)
}

// tryCopy copies the source as it is now; Conflict: it is not any more.
func (q *request) tryCopy(order *copyOrder) (*core.ObjectInfo, error) {
	b, from, src, err := q.copySource()
	if err != nil {
		return nil, err
	}
	if from.Size > maxPutBytes {
		return nil, errLargeSource
	}
	old, err := q.sourceEncryption(from)
	if err != nil {
		return nil, err
	}
	req := order.request
	req.SourceBucket, req.Source = b, from
	if req.Attrs, err = copyAttrs(q.r.Header, from, order.replace); err != nil {
		return nil, err
	}
	to := q.encryption
	req.Recode = recoding(from, old, &to)
	req.Attrs = to.attrs(req.Attrs)
	if !order.replaceTags {
		req.Tags = from.Tags
	}
	if b.ID == q.bucket.ID && src.key == q.key && src.version == core.Current && !order.replace && order.alg == checksum.None &&
		classOf(req.Attrs) == classOf(from.Attrs) && first(q.r.Header, redirectName) == "" && !q.changesEncryption() {
		return nil, errInvalidRequest.say("This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, storage class, website redirect location or encryption attributes.")
	}
	req.Algorithm, req.Customer = order.alg, old.Customer
	q.renew()
	q.setSourceVersion(b, from)
	q.setEncryption(&to)
	if req.NeedsReading() {
		defer q.keepAlive()()
	}
	return q.s.fs.Copy(q.ctx, req)
}

// setSourceVersion names the version that was copied.
func (q *request) setSourceVersion(b *core.BucketInfo, o *core.ObjectInfo) {
	if b.Versioning != core.VersioningOff {
		q.set("X-Amz-Copy-Source-Version-Id", o.Version().String())
	}
}

// copyAttrs returns the attributes of a copy: the request's, or the source's with the request's storage class and redirect, which
// are never taken over.
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

// directive reads a header that says COPY or REPLACE.
func directive(h http.Header, name string) (replace bool, err error) {
	switch v := first(h, name); v {
	case "", "COPY":
		return false, nil
	case "REPLACE":
		return true, nil
	default:
		return false, errInvalidArgument.say("Unknown directive.").with("ArgumentName", strings.ToLower(name)).with("ArgumentValue", v)
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
		return checksum.None, errInvalidRequest.say("Checksum algorithm provided is unsupported.")
	}
	return a, nil
}

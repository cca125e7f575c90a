package s3

import (
	"net/http"

	"orcas/content"
	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/mutant"
	"orcas/internal/sigv4"
	"orcas/vfs"
)

// maxPutBytes is the maximum size of the content of one PUT or one part.
const maxPutBytes = 5 << 30

// putOperation is PutObject. It writes a new version of a key, or appends to the current version.
type putOperation struct {
	q        *request
	version  newVersion
	content  upload
	appendTo *appending // nil if this is not an append
}

func putObject(q *request) error {
	op := putOperation{q: q}
	if err := op.parse(); err != nil {
		return err
	}
	o, err := op.run()
	if err != nil {
		return err
	}
	q.set("ETag", quote(o.ETag))
	q.setNewVersion(o.Version())
	setExpiration(q, o)
	setSums(q, o.Sums)
	responseEncryption := &op.version.encryption
	if op.appendTo != nil {
		q.set("X-Amz-Object-Size", itoa(o.Size))
		if op.appendTo.base != nil {
			responseEncryption = &op.appendTo.encryption
		}
	}
	responseEncryption.setHeaders(q)
	op.content.sendStored(q)
	return nil
}

// parse reads the headers, and performs all checks that are possible before the content is read.
func (op *putOperation) parse() (err error) {
	q, v, u := op.q, &op.version, &op.content
	err = v.parse(q, versionAttrs, versionTags, versionLock, versionPrecondition, versionEncryption)
	if err != nil {
		return err
	}
	if *u, err = announced(q); err != nil {
		return err
	}
	if err := requireSum(&u.in, &v.lock, q.bucket); err != nil {
		return err
	}
	if err := precheck(q, &v.precondition); err != nil {
		return err
	}
	u.attrs = v.attrs
	if op.appendTo, err = op.parseAppend(); err != nil {
		return err
	}
	u.appended, u.encryption = op.appendTo != nil, v.encryption
	return q.s.fs.Room(q.ctx, q.bucket, q.key, op.appendTo.size()+u.length-u.slack)
}

// run stores the content and writes the version.
func (op *putOperation) run() (o *core.ObjectInfo, err error) {
	q, v := op.q, &op.version
	err = op.content.store(q, op.appendTo.algorithm(), func(c *content.Content, sums []core.Checksum) error {
		req := vfs.PutRequest{
			Bucket: q.bucket, Key: q.key, Content: c, Attrs: v.attrs, Tags: v.tags, Lock: v.lock, Sums: sums,
			Owner: q.caller.Account, If: v.precondition,
		}
		if op.appendTo != nil {
			o, err = op.append(req)
		} else {
			o, err = q.s.fs.Put(q.ctx, req)
		}
		return err
	})
	return o, err
}

// upload is content that has been announced but not yet read.
type upload struct {
	body       *sigv4.Body
	in         integrity
	length     int64       // size of the content in bytes
	form       *formUpload // the form that contains the content; nil if the body is the content
	slack      int64       // the content may be this much shorter than length
	refers     bool        // the request has no body: it refers to content of the bucket
	appended   bool        // the content is appended to an object, so the bytes must be sent
	attrs      []core.Attr // attributes of the object that the content belongs to
	encryption encryption
	unread     bool // stored without reading the body
}

// tooLarge returns the error for content of n bytes, which is too large.
func tooLarge(n int64) error {
	return errEntityTooLarge.With("ProposedSize", itoa(n)).With("MaxSizeAllowed", itoa(maxPutBytes))
}

// lengthless reports whether an HTTP/1 request has neither Content-Length nor Transfer-Encoding, and therefore no body.
// S3 refuses such a request if content is expected: the client forgot the length, and storing an empty object would
// lose data. In HTTP/2, the end of the stream determines the length.
func lengthless(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.ContentLength == 0 && len(r.Header["Content-Length"]) == 0
}

// announced reads the headers that describe the content, before any of it is read. A reference to content has a
// separate header for its length (instantLengthName).
func announced(q *request) (upload, error) {
	if q.browser.form != nil {
		return q.browser.form.announced(q)
	}
	if q.optional&headerInstant == 0 && lengthless(q.r) {
		return upload{}, errMissingLength
	}
	body, err := q.open()
	if err != nil {
		return upload{}, err
	}
	u := upload{body: body, length: body.DecodedLength()}
	if u.in, err = parseIntegrity(q.r.Header, body.Announced()); err != nil {
		return u, err
	}
	if q.optional&headerInstant != 0 {
		if err := u.refer(q); err != nil {
			return u, err
		}
	}
	if u.length > maxPutBytes {
		return u, tooLarge(u.length)
	}
	return u, nil
}

// algorithms appends the algorithms of the checksums to store with the content: must and the algorithm of the client's
// checksum, unless they are None. If both are None, it appends the default.
func (u *upload) algorithms(algs []checksum.Algorithm, must checksum.Algorithm) []checksum.Algorithm {
	if must != checksum.None {
		algs = append(algs, must)
	}
	if u.in.alg != checksum.None && u.in.alg != must {
		algs = append(algs, u.in.alg)
	}
	if len(algs) == 0 {
		algs = append(algs, defaultSum)
	}
	return algs
}

// store reads the content and passes it to put, which makes it durable, along with the checksums to store (see
// algorithms).
//
// If the bucket already has the content (see known), store passes that to put without reading the body. If that content
// has been deleted in the meantime, the body is read as usual and put is called again. A request that refers to content
// has no body, so it fails with errNoSuchContent instead.
//
// When the body has been read, and before put is called, the request is authorized again (see stillAllowed).
func (u *upload) store(q *request, must checksum.Algorithm, put func(*content.Content, []core.Checksum) error) error {
	var room [2]checksum.Algorithm
	algs := u.algorithms(room[:0], must)
	known, err := u.known(q, algs)
	if err != nil {
		return err
	}
	if known != nil {
		err := put(known, known.Sums(algs))
		known.Discard()
		if !core.Is(err, core.NoSuchData) {
			u.unread = true
			return err
		}
	}
	if u.refers {
		return errNoSuchContent
	}
	content, err := u.receive(q, algs)
	if err != nil {
		return err
	}
	defer content.Discard()
	if err := q.stillAllowed(); err != nil {
		return err
	}
	return put(content, content.Sums(algs))
}

// receive reads the content to its end, computes its checksums with algs, and verifies everything that the request
// claims about it. The caller must discard the content.
func (u *upload) receive(q *request, algs []checksum.Algorithm) (*content.Content, error) {
	content, err := q.s.fs.NewContent(q.ctx, q.bucket, u.length, algs...)
	if err != nil {
		return nil, err
	}
	content.Describe(u.attrs)
	if err := content.Encrypt(q.ctx, u.encryption.Encryption); err != nil {
		content.Discard()
		return nil, err
	}
	if u.form != nil {
		err = u.form.receive(content)
	} else {
		u.body.HashElsewhere()
		if _, err = content.ReadFrom(u.body); err == nil && !mutant.Is("no-payload-hash") {
			err = u.body.CheckSHA256(content.Sum(checksum.SHA256))
		}
	}
	if err == nil && !mutant.Is("no-content-check") {
		err = u.in.verify(content.Sum, u.body)
	}
	if err != nil {
		content.Discard()
		return nil, err
	}
	return content, nil
}

// sendStored sends the response after the content has been stored. If the body was not read, a client that waits for
// 100 Continue gets this response instead, and so does a client that sends the body without waiting.
func (u *upload) sendStored(q *request) {
	if !u.unread {
		q.sendEmpty(http.StatusOK)
		return
	}
	drain := q.settleBody()
	q.sendEmpty(http.StatusOK)
	if drain != nil {
		drain()
	}
}

package s3

import (
	"orcas/core"
	"orcas/internal/checksum"
	"orcas/internal/mutant"
	"orcas/s3/sigv4"
	"orcas/vfs"
)

// maxPutBytes is the largest content of one PUT or one part.
const maxPutBytes = 5 << 30

// upload is content that is announced and not yet read.
type upload struct {
	body   *sigv4.Body
	in     integrity
	length int64       // of the content, in bytes
	refers bool        // to content that the bucket has: there is no body
	joins  bool        // it goes behind other content, so that it has to come
	kept   []core.Attr // what the headers say of the object that it becomes, or a part of it
}

// tooLarge refuses content of n bytes.
func tooLarge(n int64) error {
	return errEntityTooLarge.with("ProposedSize", itoa(n)).with("MaxSizeAllowed", itoa(maxPutBytes))
}

// announced returns what the headers say of the content. Nothing is read yet.
func (q *request) announced() (upload, error) {
	body, err := q.open()
	if err != nil {
		return upload{}, err
	}
	u := upload{body: body, length: body.DecodedLength()}
	if u.in, err = parseIntegrity(q.r.Header, body.Announced()); err != nil {
		return u, err
	}
	if q.optional&headerInstant != 0 {
		if err := q.refer(&u); err != nil {
			return u, err
		}
	}
	if u.length > maxPutBytes {
		return u, tooLarge(u.length)
	}
	return u, nil
}

// receive reads the content to its end, computes its checksums of algs, and verifies all that was said of it. The caller discards the
// content.
func (q *request) receive(u *upload, algs []checksum.Algorithm) (*vfs.Content, error) {
	content, err := q.s.fs.NewContent(q.ctx, q.bucket, u.length, algs...)
	if err != nil {
		return nil, err
	}
	content.Describe(u.kept)
	if err := content.Encrypt(q.ctx, q.encryption.Encryption); err != nil {
		content.Discard()
		return nil, err
	}
	u.body.HashElsewhere()
	if _, err = content.ReadFrom(u.body); err == nil && !mutant.Is("no-payload-hash") {
		err = u.body.CheckSHA256(content.Sum(checksum.SHA256))
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

func (q *request) putObject() error {
	attrs, err := objectAttrs(q.r.Header)
	if err != nil {
		return err
	}
	tags, err := q.headerTags()
	if err != nil {
		return err
	}
	lock, err := q.headerLock()
	if err != nil {
		return err
	}
	demand, err := writeCondition(q.r.Header)
	if err != nil {
		return err
	}
	if q.encryption, err = q.askedEncryption(); err != nil {
		return err
	}
	attrs = q.encryption.attrs(attrs)
	u, err := q.announced()
	if err != nil {
		return err
	}
	if err := demandSum(&u.in, &lock, q.bucket); err != nil {
		return err
	}
	if err := q.precheck(&demand); err != nil {
		return err
	}
	u.kept = attrs
	behind, err := q.appendTo(&u, attrs)
	if err != nil {
		return err
	}
	told := q.encryption
	if behind != nil && behind.base != nil {
		told = behind.encryption
	}
	u.joins = behind != nil
	if err := q.s.fs.Room(q.ctx, q.bucket, q.key, behind.size()+u.length); err != nil {
		return err
	}
	return q.store(&u, behind.algorithm(), func(content *vfs.Content, sums []core.Checksum) error {
		o, err := q.put(behind, vfs.PutRequest{
			Bucket: q.bucket, Key: q.key, Content: content, Attrs: attrs, Tags: tags, Lock: lock, Sums: sums, Owner: q.caller.account, If: demand,
		})
		if err != nil {
			return err
		}
		q.set("ETag", quote(o.ETag))
		q.setNewVersion(o.Version())
		q.setExpiration(o)
		q.setSums(o.Sums)
		q.setEncryption(&told)
		return nil
	})
}

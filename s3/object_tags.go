package s3

import (
	"orcas/core"
	"orcas/s3/tagging"
	"orcas/s3/xmldoc"
)

func putObjectTagging(q *request) error {
	var body tagging.Document
	if err := readDocument(q, &body); err != nil {
		return err
	}
	if body.Set == nil {
		return errMalformedXML
	}
	tags, err := body.Set.OfObject()
	if err != nil {
		return err
	}
	return setTags(q, tags)
}

func deleteObjectTagging(q *request) error { return setTags(q, nil) }

func setTags(q *request, tags []core.Attr) error {
	v, err := updateVersion(q, core.UpdateObject{SetTags: true, Tags: tags})
	if err == nil {
		q.setVersion(v)
	}
	return err
}

func getObjectTagging(q *request, x *xmldoc.Writer) error {
	o, err := statVersion(q)
	if err != nil {
		return err
	}
	q.setVersion(o.Version())
	x.Begin("Tagging")
	tagging.Write(x, o.Tags)
	x.Close("Tagging")
	return nil
}

// statVersion returns the metadata of the version that the query refers to.
func statVersion(q *request) (*core.ObjectInfo, error) {
	v, err := q.version()
	if err != nil {
		return nil, err
	}
	o, err := q.s.fs.Stat(q.ctx, q.bucket, q.key, v)
	if err != nil {
		return nil, missing(q, err, v, o)
	}
	return o, q.confirm(q.action(), q.resource(), o)
}

// updateVersion changes the version that the query refers to, and returns its ID.
func updateVersion(q *request, change core.UpdateObject) (core.Version, error) {
	v, err := q.version()
	if err != nil {
		return 0, err
	}
	change.Key, change.Version = q.key, v
	got, err := q.s.fs.Update(q.ctx, q.bucket, change)
	if err != nil {
		return 0, missing(q, err, v, nil)
	}
	return got, nil
}

// parseTags returns the tags that a request sets on a new version, sorted by key.
func parseTags(q *request) ([]core.Attr, error) {
	if q.optional&headerTagging == 0 {
		return nil, nil
	}
	if err := q.authorize("s3:PutObjectTagging", q.resource()); err != nil {
		return nil, err
	}
	return tagging.ParseHeader(joined(q.r.Header, "X-Amz-Tagging"))
}

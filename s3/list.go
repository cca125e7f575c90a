package s3

import (
	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

// maxPage is the maximum and default page size of a listing.
const maxPage = 1000

// listing holds the parameters and the page that all listings of a bucket have.
type listing struct {
	prefix, delimiter string
	limit             int // as in the response; at most maxPage
	encoded           bool
	page              core.ListPage
}

// parseListing reads the parameters that all listings share. limitName is the name of the page size parameter.
func parseListing(q *request, limitName string) (l listing, err error) {
	if l.limit, err = q.query.int(limitName, maxPage); err != nil {
		return l, err
	}
	l.limit = min(l.limit, maxPage)
	if l.encoded, err = q.query.urlEncoded(); err != nil {
		return l, err
	}
	l.prefix, l.delimiter = q.query.value("prefix"), q.query.value("delimiter")
	return l, nil
}

// read reads the page that follows a position. A page of size 0 is empty and not truncated.
func (l *listing) read(q *request, kind core.ListKind, after core.Cursor) error {
	if l.limit == 0 {
		return nil
	}
	page, err := q.s.fs.List(q.ctx, core.ListQuery{
		Kind: kind, Bucket: q.bucket.ID, Prefix: l.prefix, Delimiter: l.delimiter, After: after, Limit: l.limit,
		Brief: kind == core.ListObjects, // finish needs no more
	})
	if err != nil {
		return err
	}
	l.page = *page
	return nil
}

// after returns the position after a marker or start-after. S3 lists only common prefixes that are greater than the
// marker, so a marker below a common prefix skips that entire prefix.
func (l *listing) after(marker string) core.Cursor {
	if prefix, rolled := core.CommonPrefix(marker, l.prefix, l.delimiter); rolled {
		marker = prefix
	}
	return core.Cursor{Key: marker}
}

func listObjects(q *request, x *xmldoc.Writer) error {
	l, err := parseListing(q, "max-keys")
	if err != nil {
		return err
	}
	marker := q.query.value("marker")
	if err := l.read(q, core.ListObjects, l.after(marker)); err != nil {
		return err
	}
	x.Begin("ListBucketResult")
	x.Text("Name", q.bucket.Name)
	x.Key("Prefix", l.prefix, l.encoded)
	x.Key("Marker", marker, l.encoded)
	if l.page.Truncated && l.delimiter != "" {
		x.Key("NextMarker", l.page.Next.Key, l.encoded)
	}
	l.finish(q, x, true)
	return nil
}

func listObjectsV2(q *request, x *xmldoc.Writer) error {
	if v := q.query.value("list-type"); v != "2" {
		return errInvalidArgument.Say("Invalid List Type specified in Request").With("ArgumentName", "list-type").With("ArgumentValue", v)
	}
	l, err := parseListing(q, "max-keys")
	if err != nil {
		return err
	}
	startAfter := q.query.value("start-after")
	token, resumed := q.query.get("continuation-token")
	after := l.after(startAfter)
	if resumed {
		if token == "" {
			return apierr.Argument("continuation-token", "", "The continuation token provided is incorrect")
		}
		if after.Key, err = parseToken(token); err != nil {
			return err
		}
	}
	if err := l.read(q, core.ListObjects, after); err != nil {
		return err
	}
	x.Begin("ListBucketResult")
	x.Text("Name", q.bucket.Name)
	x.Key("Prefix", l.prefix, l.encoded)
	if startAfter != "" {
		x.Key("StartAfter", startAfter, l.encoded)
	}
	if resumed {
		x.Text("ContinuationToken", token)
	}
	if l.page.Truncated {
		x.Text("NextContinuationToken", makeToken(l.page.Next.Key))
	}
	x.Int("KeyCount", int64(len(l.page.Objects)+len(l.page.Prefixes)))
	l.finish(q, x, q.query.value("fetch-owner") == "true")
	return nil
}

// finish writes the elements that both versions of ListObjects end with.
func (l *listing) finish(q *request, x *xmldoc.Writer, owners bool) {
	x.Int("MaxKeys", int64(l.limit))
	l.writeForm(x)
	x.Bool("IsTruncated", l.page.Truncated)
	for i := range l.page.Objects {
		o := &l.page.Objects[i]
		x.Open("Contents")
		x.Key("Key", o.Key, l.encoded)
		x.Time("LastModified", o.Modified)
		x.ETag(o.ETag)
		if len(o.Sums) > 0 {
			writeSumKind(x, o.Sums[0].Algorithm, o.Sums[0].Composite)
		}
		x.Int("Size", o.Size)
		if owners {
			x.Owner("Owner", q.bucket.Owner)
		}
		x.Text("StorageClass", classOf(o.Attrs))
		x.Close("Contents")
	}
	l.writePrefixes(x)
	x.Close("ListBucketResult")
	q.set("X-Amz-Bucket-Region", q.bucket.Region)
}

// writeForm writes the delimiter and the encoding of keys.
func (l *listing) writeForm(x *xmldoc.Writer) {
	if l.delimiter != "" {
		x.Key("Delimiter", l.delimiter, l.encoded)
	}
	if l.encoded {
		x.Text("EncodingType", "url")
	}
}

// writePrefixes writes the common prefixes.
func (l *listing) writePrefixes(x *xmldoc.Writer) {
	for _, p := range l.page.Prefixes {
		x.Open("CommonPrefixes")
		x.Key("Prefix", p, l.encoded)
		x.Close("CommonPrefixes")
	}
}

func listUploads(q *request, x *xmldoc.Writer) error {
	l, err := parseListing(q, "max-uploads")
	if err != nil {
		return err
	}
	keyMarker, idMarker := q.query.value("key-marker"), q.query.value("upload-id-marker")
	after := l.after(keyMarker)
	if keyMarker == "" {
		idMarker = "" // S3 ignores it without a key marker
	}
	if after.Key == keyMarker && idMarker != "" {
		if after.Upload, err = q.s.ids.parseUpload(idMarker); err != nil {
			return apierr.Argument("upload-id-marker", idMarker, "Invalid uploadId marker")
		}
	}
	if err := l.read(q, core.ListUploads, after); err != nil {
		return err
	}
	x.Begin("ListMultipartUploadsResult")
	x.Text("Bucket", q.bucket.Name)
	x.Key("KeyMarker", keyMarker, l.encoded)
	x.Text("UploadIdMarker", idMarker)
	if l.page.Truncated {
		x.Key("NextKeyMarker", l.page.Next.Key, l.encoded)
		x.Text("NextUploadIdMarker", q.s.ids.Upload(l.page.Next.Upload))
	}
	x.Key("Prefix", l.prefix, l.encoded)
	l.writeForm(x)
	x.Int("MaxUploads", int64(l.limit))
	x.Bool("IsTruncated", l.page.Truncated)
	for i := range l.page.Uploads {
		u := &l.page.Uploads[i]
		x.Open("Upload")
		x.Key("Key", u.Key, l.encoded)
		x.Text("UploadId", q.s.ids.Upload(u.ID))
		x.Owner("Initiator", initiatorName(u.Owner))
		x.Owner("Owner", q.bucket.Owner)
		x.Text("StorageClass", classOf(u.Attrs))
		x.Time("Initiated", u.Initiated)
		writeSumKind(x, u.Algorithm, u.Composite)
		x.Close("Upload")
	}
	l.writePrefixes(x)
	x.Close("ListMultipartUploadsResult")
	return nil
}

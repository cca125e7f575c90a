package s3

import (
	"net/http"

	"orcas/core"
)

// maxPage is the longest page of a listing, and its default.
const maxPage = 1000

// listing is what both versions of ListObjects have in common.
type listing struct {
	prefix, delimiter string
	limit             int // as the answer gives it; at most maxPage
	encoded           bool
	page              core.ListPage
}

// parseListing reads the common parameters; limitName is that of the page's length.
func (q *request) parseListing(limitName string) (l listing, err error) {
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

// read reads the page behind a place. A page of length 0 is empty and not truncated.
func (q *request) read(l *listing, kind core.ListKind, after core.Cursor) error {
	if l.limit == 0 {
		return nil
	}
	page, err := q.s.fs.List(q.ctx, core.ListQuery{
		Kind: kind, Bucket: q.bucket.ID, Prefix: l.prefix, Delimiter: l.delimiter, After: after, Limit: l.limit,
	})
	if err != nil {
		return err
	}
	l.page = *page
	return nil
}

// behind returns the place behind a marker, or behind start-after. S3 lists no common prefix that is not greater than it, so one beneath a
// common prefix leaves all of that prefix out.
func (l *listing) behind(marker string) core.Cursor {
	if prefix, rolled := core.CommonPrefix(marker, l.prefix, l.delimiter); rolled {
		marker = prefix
	}
	return core.Cursor{Key: marker}
}

func (q *request) listObjects() error {
	l, err := q.parseListing("max-keys")
	if err != nil {
		return err
	}
	marker := q.query.value("marker")
	if err := q.read(&l, core.ListObjects, l.behind(marker)); err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ListBucketResult")
	x.text("Name", q.bucket.Name)
	x.key("Prefix", l.prefix, l.encoded)
	x.key("Marker", marker, l.encoded)
	if l.page.Truncated && l.delimiter != "" {
		x.key("NextMarker", l.page.Next.Key, l.encoded)
	}
	q.finishListing(x, &l, true)
	return nil
}

func (q *request) listObjectsV2() error {
	if v := q.query.value("list-type"); v != "2" {
		return errInvalidArgument.say("Invalid List Type specified in Request").with("ArgumentName", "list-type").with("ArgumentValue", v)
	}
	l, err := q.parseListing("max-keys")
	if err != nil {
		return err
	}
	startAfter := q.query.value("start-after")
	token, resumed := q.query.get("continuation-token")
	after := l.behind(startAfter)
	if resumed {
		if token == "" {
			return errInvalidArgument.say("The continuation token provided is incorrect").with("ArgumentName", "continuation-token")
		}
		if after.Key, err = parseToken(token); err != nil {
			return err
		}
	}
	if err := q.read(&l, core.ListObjects, after); err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ListBucketResult")
	x.text("Name", q.bucket.Name)
	x.key("Prefix", l.prefix, l.encoded)
	if startAfter != "" {
		x.key("StartAfter", startAfter, l.encoded)
	}
	if resumed {
		x.text("ContinuationToken", token)
	}
	if l.page.Truncated {
		x.text("NextContinuationToken", makeToken(l.page.Next.Key))
	}
	x.int("KeyCount", int64(len(l.page.Objects)+len(l.page.Prefixes)))
	q.finishListing(x, &l, q.query.value("fetch-owner") == "true")
	return nil
}

// finishListing writes what both versions end with, and sends it.
func (q *request) finishListing(x *xmlWriter, l *listing, owners bool) {
	x.int("MaxKeys", int64(l.limit))
	if l.delimiter != "" {
		x.key("Delimiter", l.delimiter, l.encoded)
	}
	if l.encoded {
		x.text("EncodingType", "url")
	}
	x.bool("IsTruncated", l.page.Truncated)
	for i := range l.page.Objects {
		o := &l.page.Objects[i]
		x.open("Contents")
		x.key("Key", o.Key, l.encoded)
		x.time("LastModified", o.Modified)
		x.etag(o.ETag)
		if len(o.Sums) > 0 {
			x.text("ChecksumAlgorithm", o.Sums[0].Algorithm.Name())
			x.text("ChecksumType", typeOf(o.Sums[0].Composite))
		}
		x.int("Size", o.Size)
		if owners {
			x.owner("Owner", q.bucket.Owner)
		}
		x.text("StorageClass", classOf(o.Attrs))
		x.close("Contents")
	}
	writePrefixes(x, l)
	x.close("ListBucketResult")
	q.set("X-Amz-Bucket-Region", q.bucket.Region)
	q.sendXML(http.StatusOK, x)
}

func writePrefixes(x *xmlWriter, l *listing) {
	for _, p := range l.page.Prefixes {
		x.open("CommonPrefixes")
		x.key("Prefix", p, l.encoded)
		x.close("CommonPrefixes")
	}
}

func (q *request) listUploads() error {
	l, err := q.parseListing("max-uploads")
	if err != nil {
		return err
	}
	keyMarker, idMarker := q.query.value("key-marker"), q.query.value("upload-id-marker")
	after := l.behind(keyMarker)
	if keyMarker == "" {
		idMarker = "" // S3 passes over one that comes alone
	}
	if after.Key == keyMarker && idMarker != "" {
		if after.Upload, err = parseUploadID(idMarker); err != nil {
			return errInvalidArgument.say("Invalid uploadId marker").with("ArgumentName", "upload-id-marker").with("ArgumentValue", idMarker)
		}
	}
	if err := q.read(&l, core.ListUploads, after); err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ListMultipartUploadsResult")
	x.text("Bucket", q.bucket.Name)
	x.key("KeyMarker", keyMarker, l.encoded)
	x.text("UploadIdMarker", idMarker)
	if l.page.Truncated {
		x.key("NextKeyMarker", l.page.Next.Key, l.encoded)
		x.text("NextUploadIdMarker", uploadIDString(l.page.Next.Upload))
	}
	x.key("Prefix", l.prefix, l.encoded)
	if l.delimiter != "" {
		x.key("Delimiter", l.delimiter, l.encoded)
	}
	if l.encoded {
		x.text("EncodingType", "url")
	}
	x.int("MaxUploads", int64(l.limit))
	x.bool("IsTruncated", l.page.Truncated)
	for i := range l.page.Uploads {
		u := &l.page.Uploads[i]
		x.open("Upload")
		x.key("Key", u.Key, l.encoded)
		x.text("UploadId", uploadIDString(u.ID))
		x.owner("Initiator", u.Owner)
		x.owner("Owner", q.bucket.Owner)
		x.text("StorageClass", classOf(u.Attrs))
		x.time("Initiated", u.Initiated)
		if u.Algorithm != 0 {
			x.text("ChecksumAlgorithm", u.Algorithm.Name())
			x.text("ChecksumType", typeOf(u.Composite))
		}
		x.close("Upload")
	}
	writePrefixes(x, &l)
	x.close("ListMultipartUploadsResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

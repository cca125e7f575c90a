package s3

import (
	"encoding/xml"
	"net/http"

	"orcas/core"
)

// newest is the place in ListVersions before every version of a key: its newest version comes first.
const newest = core.Version(1<<63 - 1)

func (q *request) getVersioning() error {
	x := q.s.document()
	defer q.s.release(x)
	x.begin("VersioningConfiguration")
	switch q.bucket.Versioning {
	case core.VersioningEnabled:
		x.text("Status", "Enabled")
	case core.VersioningSuspended:
		x.text("Status", "Suspended")
	}
	x.close("VersioningConfiguration")
	q.sendXML(http.StatusOK, x)
	return nil
}

// versioningRequest is the body of PutBucketVersioning.
type versioningRequest struct {
	XMLName   xml.Name `xml:"VersioningConfiguration"`
	Status    *string  `xml:"Status"`
	MFADelete *string  `xml:"MfaDelete"`
}

// state returns the versioning state that is asked for.
func (r *versioningRequest) state() (core.Versioning, error) {
	if r.MFADelete != nil {
		switch *r.MFADelete {
		case "Disabled":
		case "Enabled": // needs a device that the owner has proven to hold; a request with the proof (x-amz-mfa) does not get here
			return 0, errAccessDenied.say("Mfa Authentication must be used for this request")
		default:
			return 0, errMalformedXML
		}
	}
	if r.Status == nil {
		return 0, errIllegalVersioning
	}
	switch *r.Status {
	case "Enabled":
		return core.VersioningEnabled, nil
	case "Suspended":
		return core.VersioningSuspended, nil
	}
	return 0, errMalformedXML
}

func (q *request) putVersioning() error {
	var body versioningRequest
	if err := q.readDocument(&body); err != nil {
		return err
	}
	state, err := body.state()
	if err != nil {
		return err
	}
	err = q.updateBucket(func(b *core.BucketInfo) error {
		b.Versioning = state
		return nil
	})
	if core.Is(err, core.BucketState) {
		err = errBucketState.say("An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.").because(err)
	}
	if err != nil {
		return err
	}
	q.sendEmpty(http.StatusOK)
	return nil
}

// updateBucket changes the bucket of the request, and no other that took its name meanwhile.
func (q *request) updateBucket(change func(*core.BucketInfo) error) error {
	_, err := q.s.fs.UpdateBucket(q.ctx, q.bucket.Name, func(b *core.BucketInfo) error {
		if b.ID != q.bucket.ID {
			return errNoSuchBucket
		}
		return change(b)
	})
	return err
}

// versionMarkers reads where a page of ListObjectVersions begins. The marker of a version is its sequence, as in NextVersionIdMarker, so
// that it stays right when a null version is written anew; the id "null" is taken too, and means the null version that is there now.
func (q *request) versionMarkers() (after core.Cursor, err error) {
	keyMarker := q.query.value("key-marker")
	idMarker, given := q.query.get("version-id-marker")
	after.Key = keyMarker
	bad := errInvalidArgument.with("ArgumentName", "version-id-marker").with("ArgumentValue", idMarker)
	switch {
	case !given:
		return after, nil
	case idMarker == "":
		return after, bad.say("A version-id marker cannot be empty.")
	case keyMarker == "":
		return after, bad.say("A version-id marker cannot be specified without a key marker.")
	}
	if after.Version, err = core.ParseVersion(idMarker); err != nil || after.Version > newest && after.Version != core.Null {
		return after, bad.say("Invalid version id specified")
	}
	if after.Version == core.Null {
		o, err := q.s.fs.Stat(q.ctx, q.bucket, keyMarker, core.Null)
		switch {
		case o != nil:
			after.Version = core.Version(o.Seq)
		case core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion):
			after.Version = newest // nobody knows where it stood: rather a version twice than one not at all
		default:
			return after, err
		}
	}
	return after, nil
}

func (q *request) listVersions() error {
	l, err := q.parseListing("max-keys")
	if err != nil {
		return err
	}
	after, err := q.versionMarkers()
	if err != nil {
		return err
	}
	if place := l.behind(after.Key); place.Key != after.Key {
		after = place
	}
	if err := q.read(&l, core.ListVersions, after); err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("ListVersionsResult")
	x.text("Name", q.bucket.Name)
	x.key("Prefix", l.prefix, l.encoded)
	x.key("KeyMarker", q.query.value("key-marker"), l.encoded)
	x.text("VersionIdMarker", q.query.value("version-id-marker"))
	if l.page.Truncated {
		x.key("NextKeyMarker", l.page.Next.Key, l.encoded)
		x.optional("NextVersionIdMarker", l.page.Next.Version.String()) // none after a common prefix
	}
	x.int("MaxKeys", int64(l.limit))
	if l.delimiter != "" {
		x.key("Delimiter", l.delimiter, l.encoded)
	}
	if l.encoded {
		x.text("EncodingType", "url")
	}
	x.bool("IsTruncated", l.page.Truncated)
	for i := range l.page.Objects {
		q.writeVersion(x, &l.page.Objects[i], l.encoded)
	}
	writePrefixes(x, &l)
	x.close("ListVersionsResult")
	q.sendXML(http.StatusOK, x)
	return nil
}

// writeVersion writes a version, or a delete marker, as an element of a listing.
func (q *request) writeVersion(x *xmlWriter, o *core.ObjectInfo, encoded bool) {
	name := "Version"
	if o.Marker {
		name = "DeleteMarker"
	}
	x.open(name)
	x.key("Key", o.Key, encoded)
	x.text("VersionId", o.Version().String())
	x.bool("IsLatest", o.Latest)
	x.time("LastModified", o.Modified)
	if !o.Marker {
		x.etag(o.ETag)
		if len(o.Sums) > 0 {
			x.text("ChecksumAlgorithm", o.Sums[0].Algorithm.Name())
			x.text("ChecksumType", typeOf(o.Sums[0].Composite))
		}
		x.int("Size", o.Size)
	}
	x.owner("Owner", q.bucket.Owner)
	if !o.Marker {
		x.text("StorageClass", classOf(o.Attrs))
	}
	x.close(name)
}

package s3

import (
	"encoding/xml"

	"orcas/core"
	"orcas/s3/xmldoc"
)

// newest is the position in ListVersions before all versions of a key, which are listed from newest to oldest.
const newest = core.Version(1<<63 - 1)

func getVersioning(q *request, x *xmldoc.Writer) error {
	x.Begin("VersioningConfiguration")
	switch q.bucket.Versioning {
	case core.VersioningEnabled:
		x.Text("Status", "Enabled")
	case core.VersioningSuspended:
		x.Text("Status", "Suspended")
	}
	x.Close("VersioningConfiguration")
	return nil
}

// versioningRequest is the body of PutBucketVersioning.
type versioningRequest struct {
	XMLName   xml.Name `xml:"VersioningConfiguration"`
	Status    *string  `xml:"Status"`
	MFADelete *string  `xml:"MfaDelete"`
}

// state returns the requested versioning state.
func (r *versioningRequest) state() (core.Versioning, error) {
	if r.MFADelete != nil {
		switch *r.MFADelete {
		case "Disabled":
		case "Enabled": // requires MFA, but requests with x-amz-mfa have already been refused
			return 0, errAccessDenied.Say("Mfa Authentication must be used for this request")
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

func putVersioning(q *request) error {
	var body versioningRequest
	if err := readDocument(q, &body); err != nil {
		return err
	}
	state, err := body.state()
	if err != nil {
		return err
	}
	err = updateBucket(q, func(b *core.BucketInfo) error {
		b.Versioning = state
		return nil
	})
	if core.Is(err, core.BucketState) {
		err = errBucketState.Say("An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.").Because(err)
	}
	return err
}

// updateBucket changes the bucket of the request, but not a different bucket that has been created with its name in the
// meantime.
func updateBucket(q *request, change func(*core.BucketInfo) error) error {
	_, err := q.s.fs.UpdateBucket(q.ctx, q.bucket.Name, func(b *core.BucketInfo) error {
		if b.ID != q.bucket.ID {
			return errNoSuchBucket
		}
		return change(b)
	})
	return err
}

// versionMarkers returns the position at which a page of ListObjectVersions begins. The marker of a version is its
// sequence, as in NextVersionIdMarker, so it remains valid if a null version is replaced. The ID "null" is also
// accepted: it refers to the current null version.
func versionMarkers(q *request) (after core.Cursor, err error) {
	keyMarker := q.query.value("key-marker")
	idMarker, given := q.query.get("version-id-marker")
	after.Key = keyMarker
	bad := errInvalidArgument.With("ArgumentName", "version-id-marker").With("ArgumentValue", idMarker)
	switch {
	case !given:
		return after, nil
	case idMarker == "":
		return after, bad.Say("A version-id marker cannot be empty.")
	case keyMarker == "":
		return after, bad.Say("A version-id marker cannot be specified without a key marker.")
	}
	var ok bool
	if after.Version, ok = q.s.ids.ParseVersion(idMarker); !ok || after.Version > newest && after.Version != core.Null {
		return after, bad.Say("Invalid version id specified")
	}
	if after.Version == core.Null {
		o, err := q.s.fs.Stat(q.ctx, q.bucket, keyMarker, core.Null)
		switch {
		case o != nil:
			after.Version = core.Version(o.Seq)
		case core.Is(err, core.NoSuchKey) || core.Is(err, core.NoSuchVersion):
			after.Version = newest // its position is unknown: listing versions twice is better than omitting one
		default:
			return after, err
		}
	}
	return after, nil
}

func listVersions(q *request, x *xmldoc.Writer) error {
	l, err := parseListing(q, "max-keys")
	if err != nil {
		return err
	}
	after, err := versionMarkers(q)
	if err != nil {
		return err
	}
	if skip := l.after(after.Key); skip.Key != after.Key {
		after = skip
	}
	if err := l.read(q, core.ListVersions, after); err != nil {
		return err
	}
	x.Begin("ListVersionsResult")
	x.Text("Name", q.bucket.Name)
	x.Key("Prefix", l.prefix, l.encoded)
	x.Key("KeyMarker", q.query.value("key-marker"), l.encoded)
	x.Text("VersionIdMarker", q.query.value("version-id-marker"))
	if l.page.Truncated {
		x.Key("NextKeyMarker", l.page.Next.Key, l.encoded)
		x.Optional("NextVersionIdMarker", q.s.ids.Version(l.page.Next.Version)) // none after a common prefix
	}
	x.Int("MaxKeys", int64(l.limit))
	l.writeForm(x)
	x.Bool("IsTruncated", l.page.Truncated)
	for i := range l.page.Objects {
		writeVersion(q, x, &l.page.Objects[i], l.encoded)
	}
	l.writePrefixes(x)
	x.Close("ListVersionsResult")
	return nil
}

// writeVersion writes a version, or a delete marker, as an element of a listing.
func writeVersion(q *request, x *xmldoc.Writer, o *core.ObjectInfo, encoded bool) {
	name := "Version"
	if o.Marker {
		name = "DeleteMarker"
	}
	x.Open(name)
	x.Key("Key", o.Key, encoded)
	x.Text("VersionId", q.s.ids.Version(o.Version()))
	x.Bool("IsLatest", o.Latest)
	x.Time("LastModified", o.Modified)
	if !o.Marker {
		x.ETag(o.ETag)
		if len(o.Sums) > 0 {
			writeSumKind(x, o.Sums[0].Algorithm, o.Sums[0].Composite)
		}
		x.Int("Size", o.Size)
	}
	x.Owner("Owner", q.bucket.Owner)
	if !o.Marker {
		x.Text("StorageClass", classOf(o.Attrs))
	}
	x.Close(name)
}

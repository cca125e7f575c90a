package s3

import (
	"net/http"
	"strings"

	"orcas/auth"
	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/conditions"
	"orcas/s3/xmldoc"
)

// attributesHeader is the header that lists the attributes for GetObjectAttributes to return.
const attributesHeader = "X-Amz-Object-Attributes"

// objectAttributes is a set of attributes that GetObjectAttributes can return.
type objectAttributes struct {
	etag, checksum, parts, class, size bool
}

// parseAttributes returns the attributes that the request asks for. It must ask for at least one, in one or more
// headers.
func parseAttributes(h http.Header) (set objectAttributes, err error) {
	missing := true
	for _, name := range strings.Split(joined(h, attributesHeader), ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
			continue
		case "ETag":
			set.etag = true
		case "Checksum":
			set.checksum = true
		case "ObjectParts":
			set.parts = true
		case "StorageClass":
			set.class = true
		case "ObjectSize":
			set.size = true
		default:
			return set, apierr.Argument(strings.ToLower(attributesHeader), name, "Invalid attribute name specified.")
		}
		missing = false
	}
	if missing {
		return set, errInvalidRequest.Say("The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty")
	}
	return set, nil
}

func getObjectAttributes(q *request, x *xmldoc.Writer) error {
	v, err := q.version()
	if err != nil {
		return err
	}
	want, err := parseAttributes(q.r.Header)
	if err != nil {
		return err
	}
	read := auth.Action("s3:GetObject")
	if v != core.Current {
		read = "s3:GetObjectVersion"
	}
	if err := q.authorize(read, q.resource()); err != nil {
		return err
	}
	object, err := q.s.fs.Open(q.ctx, q.bucket, q.key, v) // not Stat, because the list of parts may be read
	if err != nil {
		return missing(q, err, v, nil)
	}
	defer object.Close()
	o := object.Info
	if err := q.confirm(read, q.resource(), o); err != nil {
		return err
	}
	if _, err := unlock(q, o, object); err != nil {
		return err
	}
	x.Begin("GetObjectAttributesResponse")
	if want.etag {
		x.Text("ETag", o.ETag) // without quotes, unlike in all other documents
	}
	if want.checksum && len(o.Sums) > 0 {
		x.Open("Checksum")
		writeBareSums(x, o.Sums)
		x.Text("ChecksumType", typeOf(o.Sums[0].Composite))
		x.Close("Checksum")
	}
	if want.parts && o.Parts > 0 {
		if err := writeParts(q, x, o); err != nil {
			return err
		}
	}
	if want.class {
		x.Text("StorageClass", classOf(o.Attrs))
	}
	if want.size {
		x.Int("ObjectSize", o.Size)
	}
	x.Close("GetObjectAttributesResponse")
	q.set("Last-Modified", o.Modified.UTC().Format(http.TimeFormat))
	q.setVersion(o.Version())
	return nil
}

// writeBareSums writes checksums as elements. Composites are written without the number of parts.
func writeBareSums(x *xmldoc.Writer, sums []core.Checksum) {
	for i := range sums {
		bare := core.Checksum{Value: sums[i].Value}
		x.Text("Checksum"+sums[i].Algorithm.Name(), encodeSum(&bare))
	}
}

// writeParts writes a page of the parts of an object. The parts are numbered by position, like partNumber in GET.
func writeParts(q *request, x *xmldoc.Writer, o *core.ObjectInfo) error {
	limit := headerInt(q.r.Header, "X-Amz-Max-Parts", maxPage, maxPage)
	after := headerInt(q.r.Header, "X-Amz-Part-Number-Marker", 0, maxParts)
	count := max(min(limit, o.Parts-after), 0)
	var parts []core.PartInfo
	if count > 0 {
		var err error
		if parts, _, err = partsAt(q, o, after+1, count); err != nil {
			return err
		}
	}
	x.Open("ObjectParts")
	x.Int("PartsCount", int64(o.Parts))
	x.Int("PartNumberMarker", int64(after))
	x.Int("NextPartNumberMarker", int64(after+count))
	x.Int("MaxParts", int64(limit))
	x.Bool("IsTruncated", limit > 0 && after+count < o.Parts)
	for i := range parts {
		x.Open("Part")
		x.Int("PartNumber", int64(after+i+1))
		x.Int("Size", parts[i].Size)
		writeSums(x, sumsAs(o, parts[i].Sums), false)
		x.Close("Part")
	}
	x.Close("ObjectParts")
	return nil
}

// sumsAs returns the checksum of a part that has the object's algorithm. The part may have others.
func sumsAs(o *core.ObjectInfo, sums []core.Checksum) []core.Checksum {
	for i := range sums {
		if len(o.Sums) > 0 && sums[i].Algorithm == o.Sums[0].Algorithm {
			return sums[i : i+1]
		}
	}
	return nil
}

// headerInt parses a number in a header and limits it to most. It returns def if the number is invalid, as S3 does.
func headerInt(h http.Header, name string, def, most int) int {
	n, ok := conditions.Digits(first(h, name))
	if !ok {
		return def
	}
	return int(min(n, int64(most)))
}

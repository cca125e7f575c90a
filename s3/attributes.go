package s3

import (
	"net/http"
	"strings"

	"orcas/core"
)

// attributesHeader names what GetObjectAttributes is to tell.
const attributesHeader = "X-Amz-Object-Attributes"

// objectAttributes is a set of the attributes that GetObjectAttributes tells.
type objectAttributes struct {
	etag, checksum, parts, class, size bool
}

// parseAttributes reads which attributes are asked for: at least one, in one header or several.
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
			return set, errInvalidArgument.say("Invalid attribute name specified.").
				with("ArgumentName", strings.ToLower(attributesHeader)).with("ArgumentValue", name)
		}
		missing = false
	}
	if missing {
		return set, errInvalidRequest.say("The x-amz-object-attributes header specifying the attributes to be retrieved is either missing or empty")
	}
	return set, nil
}

func (q *request) getObjectAttributes() error {
	v, err := q.version()
	if err != nil {
		return err
	}
	want, err := parseAttributes(q.r.Header)
	if err != nil {
		return err
	}
	object, err := q.s.fs.Open(q.ctx, q.bucket, q.key, v) // and not Stat: parts may be read
	if err != nil {
		return q.missing(err, v, nil)
	}
	defer object.Close()
	o := object.Info
	if err := q.unlock(o, nil); err != nil {
		return err
	}
	if err := q.unlock(o, object); err != nil {
		return err
	}
	x := q.s.document()
	defer q.s.release(x)
	x.begin("GetObjectAttributesResponse")
	if want.etag {
		x.text("ETag", o.ETag) // without quotes, here alone
	}
	if want.checksum && len(o.Sums) > 0 {
		x.open("Checksum")
		x.bareSums(o.Sums)
		x.text("ChecksumType", typeOf(o.Sums[0].Composite))
		x.close("Checksum")
	}
	if want.parts && o.Parts > 0 {
		if err := q.writeParts(x, o); err != nil {
			return err
		}
	}
	if want.class {
		x.text("StorageClass", classOf(o.Attrs))
	}
	if want.size {
		x.int("ObjectSize", o.Size)
	}
	x.close("GetObjectAttributesResponse")
	q.set("Last-Modified", o.Modified.UTC().Format(http.TimeFormat))
	q.setVersion(o.Version())
	q.sendXML(http.StatusOK, x)
	return nil
}

// bareSums writes checksums as elements, those of composites without their number of parts.
func (x *xmlWriter) bareSums(sums []core.Checksum) {
	for i := range sums {
		bare := core.Checksum{Value: sums[i].Value}
		x.text("Checksum"+sums[i].Algorithm.Name(), encodeSum(&bare))
	}
}

// writeParts writes a page of the parts of an object, numbered by their place as in partNumber of GET.
func (q *request) writeParts(x *xmlWriter, o *core.ObjectInfo) error {
	limit := headerInt(q.r.Header, "X-Amz-Max-Parts", maxPage, maxPage)
	after := headerInt(q.r.Header, "X-Amz-Part-Number-Marker", 0, maxParts)
	count := max(min(limit, o.Parts-after), 0)
	var parts []core.PartInfo
	if count > 0 {
		var err error
		if parts, _, err = q.partsAt(o, after+1, count); err != nil {
			return err
		}
	}
	x.open("ObjectParts")
	x.int("PartsCount", int64(o.Parts))
	x.int("PartNumberMarker", int64(after))
	x.int("NextPartNumberMarker", int64(after+count))
	x.int("MaxParts", int64(limit))
	x.bool("IsTruncated", limit > 0 && after+count < o.Parts)
	for i := range parts {
		x.open("Part")
		x.int("PartNumber", int64(after+i+1))
		x.int("Size", parts[i].Size)
		x.sums(sumsAs(o, parts[i].Sums), false)
		x.close("Part")
	}
	x.close("ObjectParts")
	return nil
}

// sumsAs returns those checksums of a part that are of the algorithm of the object: the part may have come with another one, too.
func sumsAs(o *core.ObjectInfo, sums []core.Checksum) []core.Checksum {
	for i := range sums {
		if len(o.Sums) > 0 && sums[i].Algorithm == o.Sums[0].Algorithm {
			return sums[i : i+1]
		}
	}
	return nil
}

// headerInt reads a number of at most most from a header; S3 passes over what is none.
func headerInt(h http.Header, name string, def, most int) int {
	n, ok := parseDigits(first(h, name))
	if !ok {
		return def
	}
	return int(min(n, int64(most)))
}

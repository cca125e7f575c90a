package sdk

import (
	"context"
	"net/http"
	"strconv"
)

// Attributes describes an object with GetObjectAttributes: its size, ETag, checksums and number of parts.
func (c *Client) Attributes(ctx context.Context, bucket, key string, o *GetOptions) (*Info, error) {
	if o == nil {
		o = &GetOptions{}
	}
	q, err := subresource("Attributes", http.MethodGet, bucket, ObjectID{key, o.VersionID}, "attributes")
	if err != nil {
		return nil, err
	}
	q.header = http.Header{"X-Amz-Object-Attributes": {"ETag,Checksum,ObjectParts,StorageClass,ObjectSize"}}
	if err := customerKey(q.header, customerPrefix, o.CustomerKey, c.w.secure); err != nil {
		return nil, q.localError(err)
	}
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc struct {
		ETag     string
		Checksum struct {
			ChecksumType string
			partDocument
		}
		Parts        int `xml:"ObjectParts>PartsCount"`
		PartsTotal   int `xml:"ObjectParts>TotalPartsCount"`
		StorageClass string
		ObjectSize   string
	}
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	i := infoOf(key, r.header, 0)
	i.ETag, i.StorageClass, i.Parts = unquote(doc.ETag), doc.StorageClass, max(doc.Parts, doc.PartsTotal)
	i.ContentType = "" // that of the document
	p := doc.Checksum.part()
	i.Checksums, i.ChecksumType = p.Checksums, doc.Checksum.ChecksumType
	if i.Size, err = strconv.ParseInt(doc.ObjectSize, 10, 64); err != nil || i.Size < 0 {
		return nil, q.localError(failed(ErrProtocol, "the response has the size %q", doc.ObjectSize))
	}
	return &i, nil
}

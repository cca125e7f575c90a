package sdk

import (
	"context"
	"encoding/xml"
	"iter"
	"net/http"
)

// Parts lists the parts of an upload in the order of their numbers.
func (c *Client) Parts(ctx context.Context, bucket, key, id string) iter.Seq2[Part, error] {
	return func(yield func(Part, error) bool) {
		last := 0
		for {
			page, err := c.w.partsPage(ctx, bucket, key, id, last)
			if err != nil {
				yield(Part{}, err)
				return
			}
			for _, p := range page.parts {
				if !yield(p, nil) {
					return
				}
			}
			if !page.more {
				return
			}
			last = page.next
		}
	}
}

// partsPage is a page of Parts.
type partsPage struct {
	parts []Part
	more  bool
	next  int
}

func (w *wire) partsPage(ctx context.Context, bucket, key, id string, after int) (*partsPage, error) {
	q, err := uploadCall("Parts", http.MethodGet, bucket, key, id, 0)
	if err != nil {
		return nil, err
	}
	q.query = new(query).number("part-number-marker", after).set("uploadId", id).String()
	r, err := w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc struct {
		XMLName     xml.Name       `xml:"ListPartsResult"`
		IsTruncated bool           `xml:"IsTruncated"`
		Next        int            `xml:"NextPartNumberMarker"`
		Parts       []partDocument `xml:"Part"`
	}
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	page := &partsPage{more: doc.IsTruncated, parts: make([]Part, len(doc.Parts))}
	last := after
	for i := range doc.Parts {
		p := doc.Parts[i].part()
		if p.Number <= last || p.Number > partsMax || p.Size < 0 {
			return nil, q.localError(failed(ErrProtocol, "the list of parts has part %d with %d bytes after part %d", p.Number, p.Size, last))
		}
		page.parts[i], last = p, p.Number
	}
	page.next = last
	if page.more && last == after {
		return nil, q.localError(failed(ErrProtocol, "the list of parts after part %d is empty, and not the last page", after))
	}
	return page, nil
}

// Uploads lists the multipart uploads of a bucket that are in progress, in the order of their keys.
func (c *Client) Uploads(ctx context.Context, bucket string, o *ListOptions) iter.Seq2[UploadInfo, error] {
	if o == nil {
		o = &ListOptions{}
	}
	return func(yield func(UploadInfo, error) bool) {
		key, id := o.StartAfter, ""
		var loop loopCheck
		empty := 0 // pages, one after another
		for {
			page, err := c.w.uploadsPage(ctx, bucket, o, key, id, &loop, &empty)
			if err != nil {
				yield(UploadInfo{}, err)
				return
			}
			for _, u := range page.uploads {
				if !yield(u, nil) {
					return
				}
			}
			if !page.more {
				return
			}
			key, id = page.nextKey, page.nextID
		}
	}
}

// uploadsPage is a page of Uploads.
type uploadsPage struct {
	uploads         []UploadInfo
	more            bool
	nextKey, nextID string
}

// uploadsDocument is the document of ListMultipartUploads.
type uploadsDocument struct {
	XMLName     xml.Name `xml:"ListMultipartUploadsResult"`
	IsTruncated bool     `xml:"IsTruncated"`
	NextKey     string   `xml:"NextKeyMarker"`
	NextID      string   `xml:"NextUploadIdMarker"`
	Encoding    string   `xml:"EncodingType"`
	Uploads     []struct {
		Key, StorageClass string
		UploadID          string `xml:"UploadId"`
		Initiated         string
		Owner             struct{ ID string }
	} `xml:"Upload"`
	Prefixes []struct{ Prefix string } `xml:"CommonPrefixes"`
}

// uploadsPage fetches the page after an upload. empty is the number of empty pages before it, and is updated.
func (w *wire) uploadsPage(ctx context.Context, bucket string, o *ListOptions, key, id string, loop *loopCheck, empty *int) (*uploadsPage, error) {
	q := &call{op: "Uploads", method: http.MethodGet, bucket: bucket, header: make(http.Header, 8)}
	if bucket == "" {
		return nil, argument(q.op, bucket, "", "the name of the bucket is empty")
	}
	q.query = new(query).set("delimiter", o.Delimiter).set("encoding-type", "url").set("key-marker", key).number("max-uploads", o.PageSize).
		set("prefix", o.Prefix).set("upload-id-marker", id).flag("uploads").String()
	r, err := w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc uploadsDocument
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	page := &uploadsPage{more: doc.IsTruncated, nextID: doc.NextID}
	if page.nextKey, err = decodeKey(doc.NextKey, doc.Encoding); err != nil {
		return nil, q.localError(err)
	}
	for i := range doc.Uploads {
		d := &doc.Uploads[i]
		u := UploadInfo{UploadID: d.UploadID, Initiated: timeOf(d.Initiated), StorageClass: d.StorageClass, Owner: d.Owner.ID}
		if u.Key, err = decodeKey(d.Key, doc.Encoding); err != nil {
			return nil, q.localError(err)
		}
		page.uploads = append(page.uploads, u)
	}
	for _, p := range doc.Prefixes {
		prefix, err := decodeKey(p.Prefix, doc.Encoding)
		if err != nil {
			return nil, q.localError(err)
		}
		page.uploads = append(page.uploads, UploadInfo{Prefix: prefix})
	}
	if *empty++; len(page.uploads) > 0 {
		*empty = 0
	}
	if page.more {
		if page.nextKey < key {
			return nil, q.localError(failed(ErrProtocol, "the list of uploads continues at %q, before %q", page.nextKey, key))
		}
		if err := loop.check(cursor{key: page.nextKey, version: page.nextID}, *empty); err != nil {
			return nil, q.localError(err)
		}
	}
	return page, nil
}

// decodeKey returns a key in a document with the given encoding.
func decodeKey(key, encoding string) (string, error) {
	if encoding != "url" {
		return key, nil
	}
	b, err := unescape([]byte(key))
	return string(b), err
}

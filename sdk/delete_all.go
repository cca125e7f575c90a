package sdk

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"iter"
	"net/http"
	"unicode/utf8"
)

// deleteBatch is the number of objects that one request deletes.
const deleteBatch = 1000

// deletion is the document of DeleteObjects.
type deletion struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Delete"`
	Quiet   bool     `xml:",omitempty"`
	Objects []struct {
		Key       string
		VersionID string `xml:"VersionId,omitempty"`
	} `xml:"Object"`
}

// DeleteAll deletes the objects or versions of a sequence, up to 1,000 with one request. It yields a result for each, in
// the order of the server's responses; Deleted.Err is set for those that were not deleted. An error of a request ends the
// sequence: some of the objects of that request may be deleted. It yields results while ids is still being read, so ids
// may be a listing of the same bucket.
func (c *Client) DeleteAll(ctx context.Context, bucket string, ids iter.Seq[ObjectID], o *DeleteOptions) iter.Seq2[Deleted, error] {
	if o == nil {
		o = &DeleteOptions{}
	}
	options := *o
	return func(yield func(Deleted, error) bool) {
		batch := make([]ObjectID, 0, deleteBatch)
		flush := func() bool {
			results, err := c.w.deleteBatch(ctx, bucket, batch, &options)
			batch = batch[:0]
			if err != nil {
				yield(Deleted{}, err)
				return false
			}
			for _, d := range results {
				if !yield(d, nil) {
					return false
				}
			}
			return true
		}
		for id := range ids {
			if !isXML(id.Key) {
				if d, err := deleteOne(ctx, c, bucket, id, &options); !yield(d, err) || err != nil {
					return
				}
				continue
			}
			if batch = append(batch, id); len(batch) == deleteBatch && !flush() {
				return
			}
		}
		if len(batch) > 0 {
			flush()
		}
	}
}

// isXML reports whether a document of XML 1.0 can contain a key.
func isXML(key string) bool {
	for _, r := range key {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff || r == utf8.RuneError {
			return false
		}
	}
	return true
}

// deleteOne deletes an object with a key that no document can contain.
func deleteOne(ctx context.Context, c *Client, bucket string, id ObjectID, o *DeleteOptions) (Deleted, error) {
	d, err := c.Delete(ctx, bucket, id.Key, &DeleteOptions{VersionID: id.VersionID, BypassGovernance: o.BypassGovernance})
	var e *Error
	if errors.As(err, &e) && e.Status != 0 {
		return Deleted{ObjectID: id, Err: err}, nil
	}
	if err != nil {
		return Deleted{}, err
	}
	return *d, nil
}

// deleteBatch deletes up to 1,000 objects.
func (w *wire) deleteBatch(ctx context.Context, bucket string, ids []ObjectID, o *DeleteOptions) ([]Deleted, error) {
	q := &call{op: "DeleteAll", method: http.MethodPost, bucket: bucket, write: true, query: new(query).flag("delete").String(), header: make(http.Header, 8)}
	doc := deletion{Quiet: o.Quiet}
	for _, id := range ids {
		if id.Key == "" {
			return nil, argument(q.op, bucket, "", "the key is empty")
		}
		doc.Objects = append(doc.Objects, struct {
			Key       string
			VersionID string `xml:"VersionId,omitempty"`
		}{id.Key, id.VersionID})
	}
	if o.BypassGovernance {
		set(q.header, "X-Amz-Bypass-Governance-Retention", "true")
	}
	body, err := xml.Marshal(doc)
	if err != nil {
		return nil, q.localError(err)
	}
	if err := w.setContent(q, bytes.NewReader(body), sums{needed: true}); err != nil {
		return nil, err
	}
	q.lateError = true
	r, err := w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	return q.deleted(r, len(ids))
}

// deleted parses the response of DeleteObjects.
func (q *call) deleted(r *reply, most int) ([]Deleted, error) {
	var doc struct {
		XMLName xml.Name `xml:"DeleteResult"`
		Deleted []struct {
			Key                   string
			VersionID             string `xml:"VersionId"`
			DeleteMarker          bool
			DeleteMarkerVersionID string `xml:"DeleteMarkerVersionId"`
		}
		Errors []struct {
			Key           string
			VersionID     string `xml:"VersionId"`
			Code, Message string
		} `xml:"Error"`
	}
	if err := q.parse(r, &doc); err != nil {
		return nil, err
	}
	if n := len(doc.Deleted) + len(doc.Errors); n > most {
		return nil, q.localError(failed(ErrProtocol, "the response has %d results for %d objects", n, most))
	}
	out := make([]Deleted, 0, len(doc.Deleted)+len(doc.Errors))
	for _, d := range doc.Deleted {
		out = append(out, Deleted{ObjectID: ObjectID{d.Key, d.VersionID}, Marker: d.DeleteMarker, MarkerID: d.DeleteMarkerVersionID})
	}
	for _, e := range doc.Errors {
		out = append(out, Deleted{ObjectID: ObjectID{e.Key, e.VersionID}, Err: &Error{Op: q.op, Bucket: q.bucket, Key: e.Key, Code: e.Code,
			Message: e.Message, RequestID: first(r.header, "X-Amz-Request-Id"), Attempts: 1}})
	}
	return out, nil
}

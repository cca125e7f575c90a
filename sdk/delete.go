package sdk

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"unicode/utf8"
)

// deleteBatch is the number of objects that one DeleteObjects request may name.
const deleteBatch = 1000

// DeleteAll deletes the objects in ids, with one request for 1,000 of them, and yields the result of each. An object
// that could not be deleted has an error in Deleted.Err, and the others are deleted nevertheless. An error that is
// yielded beside the result ends the deletion: it concerns everything that was not yielded before.
//
// ids is read as the caller reads the results, so it may be a listing of the same bucket.
func (c *Client) DeleteAll(ctx context.Context, bucket string, ids iter.Seq[ObjectID], o *DeleteOptions) iter.Seq2[Deleted, error] {
	if o == nil {
		o = &DeleteOptions{}
	}
	d := deletion{wire: c.w, ctx: ctx, bucket: bucket, options: *o}
	return func(yield func(Deleted, error) bool) {
		if o.VersionID != "" || o.IfMatch != "" {
			yield(Deleted{}, argument("DeleteAll", bucket, "", "VersionID and IfMatch are options of Delete"))
			return
		}
		batch := make([]ObjectID, 0, deleteBatch)
		for id := range ids {
			if id.Key == "" {
				if !yield(Deleted{ObjectID: id, Err: argument("DeleteAll", bucket, "", "the key is empty")}, nil) {
					return
				}
				continue
			}
			if batch = append(batch, id); len(batch) == deleteBatch {
				if !d.delete(batch, yield) {
					return
				}
				batch = batch[:0]
			}
		}
		if len(batch) > 0 {
			d.delete(batch, yield)
		}
	}
}

// deletion deletes batches of objects.
type deletion struct {
	wire    *wire
	ctx     context.Context
	bucket  string
	options DeleteOptions
}

// delete deletes a batch and yields the results. It reports whether to continue.
func (d *deletion) delete(batch []ObjectID, yield func(Deleted, error) bool) bool {
	named := make([]ObjectID, 0, len(batch))
	for _, id := range batch {
		if isXMLText(id.Key) && isXMLText(id.VersionID) {
			named = append(named, id)
			continue
		}
		one := d.options // a document cannot contain this key
		one.VersionID = id.VersionID
		result, err := (&Client{w: d.wire}).Delete(d.ctx, d.bucket, id.Key, &one)
		var e *Error
		if errors.As(err, &e) && e.Status != 0 {
			result = &Deleted{ObjectID: id, Err: err}
		} else if err != nil {
			yield(Deleted{}, err)
			return false
		}
		if (!d.options.Quiet || err != nil) && !yield(*result, nil) {
			return false
		}
	}
	for attempt := 1; len(named) > 0; attempt++ {
		results, err := d.request(named)
		if err != nil {
			yield(Deleted{}, err)
			return false
		}
		again := named[:0:0]
		for _, r := range results {
			if e, ok := r.Err.(*Error); ok && temporary(0, e.Code) && attempt < d.wire.config.Retry.Attempts && d.wire.budget.take(retryCost) {
				again = append(again, r.ObjectID)
				continue
			}
			if !yield(r, nil) {
				return false
			}
		}
		if named = again; len(named) > 0 {
			if err := sleep(d.ctx, d.wire.config.Retry.delay(attempt+1, 0)); err != nil {
				yield(Deleted{}, (&call{op: "DeleteAll", bucket: d.bucket}).localError(err))
				return false
			}
		}
	}
	return true
}

// request sends one DeleteObjects. The results are complete: an object that the response does not mention has failed.
func (d *deletion) request(ids []ObjectID) ([]Deleted, error) {
	q := &call{op: "DeleteAll", method: http.MethodPost, bucket: d.bucket, query: "delete=", write: true, header: make(http.Header, 8)}
	if d.options.BypassGovernance {
		set(q.header, "X-Amz-Bypass-Governance-Retention", "true")
	}
	r, err := d.wire.exchange(d.ctx, q, deleteDocument(ids, d.options.Quiet))
	if err != nil {
		return nil, err
	}
	p := deletePage{q: q, id: first(r.header, "X-Amz-Request-Id"), quiet: d.options.Quiet, wanted: make(map[ObjectID]bool, len(ids))}
	for _, id := range ids {
		p.wanted[id] = true
	}
	if err := p.parse(r.body); err != nil {
		return nil, q.localError(err)
	}
	if !d.options.Quiet {
		for id := range p.wanted {
			missing := &Error{Op: q.op, Bucket: q.bucket, Key: id.Key, Uncertain: true,
				Err: failed(ErrProtocol, "the response does not mention the object")}
			p.results = append(p.results, Deleted{ObjectID: id, Err: missing})
		}
	}
	return p.results, nil
}

// deleteDocument returns the document of a DeleteObjects request.
func deleteDocument(ids []ObjectID, quiet bool) []byte {
	b := make([]byte, 0, 64*len(ids)+128)
	b = append(b, `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`...)
	if quiet {
		b = append(b, "<Quiet>true</Quiet>"...)
	}
	for _, id := range ids {
		b = append(b, "<Object>"...)
		b = appendElement(b, "Key", id.Key)
		if id.VersionID != "" {
			b = appendElement(b, "VersionId", id.VersionID)
		}
		b = append(b, "</Object>"...)
	}
	return append(b, "</Delete>"...)
}

// deletePage is the response to a DeleteObjects request.
type deletePage struct {
	q       *call
	id      string // of the request
	quiet   bool
	wanted  map[ObjectID]bool // the objects that the response has not mentioned
	results []Deleted
}

func (p *deletePage) parse(doc []byte) error {
	var s scanner
	if err := s.start(doc, "DeleteResult"); err != nil {
		return err
	}
	for {
		name, err := s.next()
		if err != nil {
			return err
		}
		if name == nil {
			return s.finish()
		}
		switch string(name) {
		case "Deleted", "Error":
			err = p.element(&s, string(name) == "Error")
		default:
			err = s.skip()
		}
		if err != nil {
			return err
		}
	}
}

// element parses a Deleted or an Error.
func (p *deletePage) element(s *scanner, isError bool) error {
	var d Deleted
	e := &Error{Op: p.q.op, Bucket: p.q.bucket, RequestID: p.id, Attempts: 1}
	for {
		name, err := s.next()
		if err != nil {
			return err
		}
		if name == nil {
			break
		}
		switch string(name) {
		case "Key":
			err = text(s, &d.Key)
		case "VersionId":
			err = text(s, &d.VersionID)
		case "DeleteMarker":
			d.Marker, err = flag(s)
		case "DeleteMarkerVersionId":
			err = text(s, &d.MarkerID)
		case "Code":
			err = text(s, &e.Code)
		case "Message":
			err = text(s, &e.Message)
		default:
			err = s.skip()
		}
		if err != nil {
			return err
		}
	}
	if !p.wanted[d.ObjectID] {
		return nil // mentioned twice, or never asked for
	}
	delete(p.wanted, d.ObjectID)
	if isError {
		e.Key, d.Err = d.Key, e
	} else if p.quiet {
		return nil
	}
	p.results = append(p.results, d)
	return nil
}

// isXMLText reports whether XML can contain s.
func isXMLText(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(c rune) bool { return !isChar(c) }) < 0
}

// appendElement appends an element with a text that isXMLText.
func appendElement(b []byte, name, text string) []byte {
	b = append(append(append(b, '<'), name...), '>')
	for i := range len(text) {
		switch c := text[i]; c {
		case '<':
			b = append(b, "&lt;"...)
		case '>':
			b = append(b, "&gt;"...)
		case '&':
			b = append(b, "&amp;"...)
		case '\r': // which would become a line feed
			b = append(b, "&#13;"...)
		default:
			b = append(b, c)
		}
	}
	return append(append(append(b, "</"...), name...), '>')
}

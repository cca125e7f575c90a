package sdk

import (
	"bytes"
	"context"
	"encoding/xml"
	"net/http"
)

// read sends a call and parses the document of the response into doc.
func (w *wire) read(ctx context.Context, q *call, doc any) error {
	r, err := w.do(ctx, q)
	if err != nil {
		return err
	}
	return q.parse(r, doc)
}

// write sends a call with a document.
func (w *wire) write(ctx context.Context, q *call, doc any) error {
	body, err := xml.Marshal(doc)
	if err != nil {
		return q.localError(err)
	}
	return w.writeBytes(ctx, q, body)
}

// writeBytes sends a call with a document, and with a checksum, which S3 demands for some of them.
func (w *wire) writeBytes(ctx context.Context, q *call, document []byte) error {
	_, err := w.exchange(ctx, q, document)
	return err
}

// exchange is writeBytes, and returns the response.
func (w *wire) exchange(ctx context.Context, q *call, document []byte) (*reply, error) {
	if q.header == nil {
		q.header = make(http.Header, 8)
	}
	if err := w.setContent(q, bytes.NewReader(document), sums{needed: true}); err != nil {
		return nil, err
	}
	return w.do(ctx, q)
}

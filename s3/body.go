package s3

import (
	"net/http"

	"orcas/internal/checksum"
	"orcas/s3/xmldoc"
)

// readDoc is the document of a request.
type readDoc struct {
	content []byte
	claims  integrity
	err     error
}

// document returns the document of a request, which a decision may depend on before the operation reads it. A repeated
// call returns the same result.
func (q *request) document() *readDoc {
	if q.asked.document == nil {
		d := new(readDoc)
		d.content, d.claims, d.err = readVerified(q, parseIntegrity)
		q.asked.document = d
	}
	return q.asked.document
}

// readBody reads a document and verifies the checksums that the request claims for it. Then it decides again whether the
// request is allowed.
func readBody(q *request) ([]byte, integrity, error) {
	d := q.document()
	if d.err == nil {
		d.err = q.stillAllowed()
	}
	return d.content, d.claims, d.err
}

// readPlainBody is like readBody, for a request whose x-amz-checksum-* headers do not describe its document.
func readPlainBody(q *request) ([]byte, error) {
	doc, _, err := readVerified(q, func(h http.Header, _ []string) (integrity, error) { return parseMD5(h) })
	if err == nil {
		err = q.stillAllowed()
	}
	return doc, err
}

// readVerified reads a document and verifies the checksums that claims finds in the headers and the announced trailers.
func readVerified(q *request, claims func(http.Header, []string) (integrity, error)) ([]byte, integrity, error) {
	body, err := q.open()
	if err != nil {
		return nil, integrity{}, err
	}
	if body.DecodedLength() > xmldoc.MaxBytes {
		return nil, integrity{}, errMessageTooLong
	}
	in, err := claims(q.r.Header, body.Announced())
	if err != nil {
		return nil, in, err
	}
	doc, err := xmldoc.Read(body, xmldoc.MaxBytes)
	if err != nil {
		return nil, in, err
	}
	return doc, in, in.verify(func(a checksum.Algorithm) []byte { return checksum.Sum(a, doc) }, body)
}

// readConfiguration reads the document of a request that must have one.
func readConfiguration(q *request) ([]byte, error) {
	doc, _, err := readBody(q)
	if err == nil && len(doc) == 0 {
		err = errMissingBody
	}
	return doc, err
}

// readDocument reads and decodes the document of a request that must have one.
func readDocument(q *request, into any) error {
	doc, err := readConfiguration(q)
	if err != nil {
		return err
	}
	return xmldoc.Parse(doc, into)
}

// readSummed reads and decodes the document of a request that must have one, and a checksum for it.
func readSummed(q *request, into any) error {
	doc, in, err := readBody(q)
	switch {
	case err != nil:
		return err
	case in.none():
		return errMissingMD5
	case len(doc) == 0:
		return errMissingBody
	}
	return xmldoc.Parse(doc, into)
}

// Package xmldoc writes and reads the XML documents of S3. Writer builds response documents. Parse decodes request
// documents. The struct that a document is decoded into is its schema, and anything that the schema does not allow is
// refused, so no part of a request is ignored.
package xmldoc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"

	"orcas/s3/apierr"
)

// Limits on XML documents from clients.
const (
	MaxBytes = 2 << 20
	maxDepth = 32
)

// Read reads a document to its end. It returns apierr.MessageTooLong for more than limit bytes.
func Read(r io.Reader, limit int64) ([]byte, error) {
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, apierr.MessageTooLong
	}
	return b.Bytes(), nil
}

// Parse decodes a document into a struct, which defines the allowed content of the document (see element). The tag of
// its XMLName field is the name of the root. Every error is apierr.MalformedXML.
func Parse(doc []byte, into any) error {
	if !utf8.Valid(doc) {
		return apierr.MalformedXML
	}
	raw := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(doc, []byte("\ufeff"))))
	raw.Strict = true
	g := &guard{raw: raw}
	g.root, g.schema = schemaOf(reflect.TypeOf(into))
	d := xml.NewTokenDecoder(g)
	if err := d.Decode(into); err != nil {
		return apierr.MalformedXML.Because(err)
	}
	// Only white space and comments may follow the root.
	for {
		switch _, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return apierr.MalformedXML.Because(err)
		}
	}
}

// Bool is an XML Schema boolean: true, false, 1 or 0. Some SDKs capitalize the words.
type Bool bool

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *Bool) UnmarshalText(text []byte) error {
	switch strings.ToLower(strings.TrimSpace(string(text))) {
	case "true", "1":
		*b = true
	case "false", "0":
		*b = false
	default:
		return apierr.MalformedXML
	}
	return nil
}

// Is reports whether the element is present and true.
func (b *Bool) Is() bool { return b != nil && bool(*b) }

package xmldoc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"reflect"
	"slices"
)

// The namespaces of the attributes that are allowed in documents, such as xsi:type and xml:lang.
const (
	xsiNamespace = "http://www.w3.org/2001/XMLSchema-instance"
	xmlNames     = "http://www.w3.org/XML/1998/namespace"
)

// element defines the allowed content of an element of a document. It is derived from the struct that the document is
// decoded into:
//
//	a struct                 only the elements in the tags of its fields, in any order, each at most once
//	a struct without fields  anything; it is ignored
//	a slice                  the element may be repeated
//	anything else            text
type element struct {
	kids map[string]*element
	many bool
	kind elementKind
}

type elementKind uint8

const (
	holdsText elementKind = iota
	holdsElements
	holdsAnything
)

// schemaOf returns the schema of the documents that are decoded into t, and the name of their root.
func schemaOf(t reflect.Type) (root string, schema *element) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if f, ok := t.FieldByName("XMLName"); ok {
		root = f.Tag.Get("xml")
	}
	return root, newElement(t)
}

func newElement(t reflect.Type) *element {
	e := &element{}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		e.many = e.many || t.Kind() == reflect.Slice
		t = t.Elem()
	}
	switch {
	case t.Kind() != reflect.Struct:
	case t.NumField() == 0:
		e.kind = holdsAnything
	default:
		e.kind, e.kids = holdsElements, map[string]*element{}
		e.take(t)
	}
	return e
}

// take adds the elements in the tags of the fields of a struct. Fields of embedded structs count as fields of the
// struct.
func (e *element) take(t reflect.Type) {
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Name == "XMLName":
		case f.Anonymous:
			e.take(f.Type)
		default:
			e.kids[f.Tag.Get("xml")] = newElement(f.Type)
		}
	}
}

// guard is a reader of tokens that returns an error if the document does not conform to its schema, is nested too
// deeply, declares types, uses a namespace other than that of S3, or has attributes that neither XML nor XML Schema
// defines. So no part of a document is ignored.
type guard struct {
	raw    *xml.Decoder
	root   string
	schema *element
	open   []openElement
	ended  bool // the root element has been closed
}

// openElement is an element whose end tag has not been read.
type openElement struct {
	*element
	seen []string // names of the child elements seen so far that must not be repeated
}

var errSchema = errors.New("the document does not conform to its schema")

// Token implements xml.TokenReader.
func (g *guard) Token() (xml.Token, error) {
	t, err := g.raw.Token()
	if err != nil {
		return t, err
	}
	switch t := t.(type) {
	case xml.StartElement:
		err = g.start(&t)
	case xml.EndElement:
		g.open = g.open[:len(g.open)-1]
		g.ended = len(g.open) == 0
	case xml.CharData:
		if g.in().kind == holdsElements && len(bytes.TrimSpace(t)) > 0 {
			err = errSchema
		}
	case xml.Directive:
		err = errors.New("document type declarations are not allowed")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// in returns the innermost open element.
func (g *guard) in() *element {
	if len(g.open) == 0 {
		return &element{kind: holdsElements}
	}
	return g.open[len(g.open)-1].element
}

func (g *guard) start(t *xml.StartElement) error {
	if len(g.open) == maxDepth || t.Name.Space != "" && t.Name.Space != namespace || !plainAttrs(t.Attr) {
		return errSchema
	}
	name := t.Name.Local
	if len(g.open) == 0 {
		if g.ended || name != g.root {
			return errSchema
		}
		g.open = append(g.open, openElement{element: g.schema})
		return nil
	}
	top := &g.open[len(g.open)-1]
	kid := top.element
	if kid.kind != holdsAnything {
		if kid = top.kids[name]; kid == nil {
			return errSchema
		}
		if !kid.many {
			if slices.Contains(top.seen, name) {
				return errSchema
			}
			top.seen = append(top.seen, name)
		}
	}
	g.open = append(g.open, openElement{element: kid})
	return nil
}

// plainAttrs reports whether each attribute declares a namespace or is defined by XML itself or XML Schema, such as the
// type of a Grantee.
func plainAttrs(attrs []xml.Attr) bool {
	for _, a := range attrs {
		if a.Name.Space != "xmlns" && (a.Name.Space != "" || a.Name.Local != "xmlns") && a.Name.Space != xsiNamespace && a.Name.Space != xmlNames {
			return false
		}
	}
	return true
}

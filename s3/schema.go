package s3

import (
	"bytes"
	"encoding/xml"
	"errors"
	"reflect"
	"slices"
)

// The name spaces of attributes that documents may have: xsi:type, xml:lang.
const (
	xsiNamespace = "http://www.w3.org/2001/XMLSchema-instance"
	xmlNames     = "http://www.w3.org/XML/1998/namespace"
)

// element is what may be in an element of a document. It is read off the struct that the document is decoded into, so that a struct says
// all that a document may say:
//
//	a struct               just the elements that its fields name, in any order, each once
//	a struct without fields  anything: what is in it is not looked at
//	a slice                the element may come again
//	anything else          text
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

// schemaOf returns the schema of the document that is decoded into a struct, and the name of its root.
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

// take takes what the fields of a struct name. Embedded structs count as if their fields were there.
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

// xmlGuard passes the tokens of a document on as long as it is what its schema says. It refuses what is deep, declares types, has a name space
// other than none and that of S3, or attributes other than those of XML itself: nothing that a client writes is passed over.
type xmlGuard struct {
	raw    *xml.Decoder
	root   string
	schema *element
	open   []openElement
	ended  bool // the root was closed
}

// openElement is an element whose end has not come yet.
type openElement struct {
	*element
	seen []string // names of the elements in it that may come once
}

var errSchema = errors.New("the document is not what its schema says")

// Token implements xml.TokenReader.
func (g *xmlGuard) Token() (xml.Token, error) {
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
		err = errors.New("document type declarations are refused")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// in returns what may be at this place.
func (g *xmlGuard) in() *element {
	if len(g.open) == 0 {
		return &element{kind: holdsElements}
	}
	return g.open[len(g.open)-1].element
}

func (g *xmlGuard) start(t *xml.StartElement) error {
	if len(g.open) == maxXMLDepth || t.Name.Space != "" && t.Name.Space != xmlNamespace || !plainAttrs(t.Attr) {
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

// plainAttrs says whether attributes are declarations of name spaces, or those of XML Schema for instances, as of a Grantee.
func plainAttrs(attrs []xml.Attr) bool {
	for _, a := range attrs {
		if a.Name.Space != "xmlns" && (a.Name.Space != "" || a.Name.Local != "xmlns") && a.Name.Space != xsiNamespace && a.Name.Space != xmlNames {
			return false
		}
	}
	return true
}

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// nodeKind is the type of a JSON value.
type nodeKind uint8

const (
	isNull nodeKind = iota
	isObject
	isArray
	isText
	isNumber
	isBool
)

// node is a JSON value with the line at which it begins. Objects keep the order of their members.
type node struct {
	kind     nodeKind
	line     int
	text     string // of text, numbers and booleans
	from, to int    // the offsets of a text, with its quotes
	members  []member
	repeated *member // the first member of an object with the name of an earlier one
	items    []*node
}

type member struct {
	name  string
	line  int
	value *node
}

// get returns the value of a member, or nil.
func (n *node) get(name string) *node {
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// reader builds nodes from the tokens of a document.
type reader struct {
	doc  []byte
	dec  *json.Decoder
	seen int // the offset up to which lines are counted
	line int
}

// readJSON parses a document. Unlike encoding/json, it notices names that occur twice in an object, keeps the case of
// names, and refuses text that is not valid Unicode. All errors are of type *Error.
func readJSON(doc []byte) (*node, error) {
	var raw json.RawMessage
	if err := json.Unmarshal(doc, &raw); err != nil {
		line := 1
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			line += bytes.Count(doc[:min(int(syntax.Offset), len(doc))], []byte("\n"))
		}
		return nil, &Error{Line: line, Reason: "the document is not valid JSON: " + err.Error()}
	}
	if !utf8.Valid(doc) {
		return nil, &Error{Line: 1, Reason: "the document is not valid UTF-8"}
	}
	r := &reader{doc: doc, dec: json.NewDecoder(bytes.NewReader(doc)), line: 1}
	r.dec.UseNumber()
	return r.value()
}

// token returns the next token. The line of the reader is then the line of the token, since no token contains a line
// break.
func (r *reader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err != nil {
		return nil, &Error{Line: r.line, Reason: "the document is not valid JSON: " + err.Error()}
	}
	end := int(r.dec.InputOffset())
	r.line += bytes.Count(r.doc[r.seen:end], []byte("\n"))
	r.seen = end
	return t, nil
}

func (r *reader) value() (*node, error) {
	before := r.seen
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	n := &node{line: r.line}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			n.kind = isObject
			return n, r.object(n)
		}
		n.kind = isArray
		return n, r.array(n)
	case string:
		n.kind, n.text = isText, t
		n.from, n.to = before+bytes.IndexByte(r.doc[before:], '"'), r.seen
		return n, r.checkText(t)
	case json.Number:
		n.kind, n.text = isNumber, t.String()
	case bool:
		n.kind, n.text = isBool, fmt.Sprint(t)
	}
	return n, nil
}

// checkText refuses the replacement character, which stands for an escaped half of a surrogate pair.
func (r *reader) checkText(text string) error {
	if strings.ContainsRune(text, utf8.RuneError) {
		return &Error{Line: r.line, Reason: fmt.Sprintf("the text %q is not valid Unicode", text)}
	}
	return nil
}

func (r *reader) object(n *node) error {
	for r.dec.More() {
		t, err := r.token()
		if err != nil {
			return err
		}
		m := member{line: r.line}
		m.name, _ = t.(string) // the decoder accepts nothing else
		if err := r.checkText(m.name); err != nil {
			return err
		}
		if m.value, err = r.value(); err != nil {
			return err
		}
		if n.get(m.name) != nil && n.repeated == nil {
			n.repeated = &m
		}
		n.members = append(n.members, m)
	}
	_, err := r.token() // the closing brace
	return err
}

func (r *reader) array(n *node) error {
	for r.dec.More() {
		item, err := r.value()
		if err != nil {
			return err
		}
		n.items = append(n.items, item)
	}
	_, err := r.token() // the closing bracket
	return err
}

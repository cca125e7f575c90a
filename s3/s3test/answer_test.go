package s3test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// answer is what came back.
type answer struct {
	t      *T
	what   string
	method string
	status int
	header http.Header
	body   string
	err    error // of reading the body
	tree   *node // of the body, once it was asked for
}

// expect ends the case unless ok.
func (a *answer) expect(ok bool, format string, args ...any) *answer {
	a.t.Helper()
	if !ok {
		body := a.body
		if len(body) > 2000 {
			body = body[:2000] + "..."
		}
		var head strings.Builder
		_ = a.header.Write(&head)
		a.t.Fatalf("%s\n%s\nrule: %s\nanswer: %d\n%s\n%s", fmt.Sprintf(format, args...), a.what, a.t.rule, a.status, head.String(), body)
	}
	return a
}

// ok demands a status, and a body that came whole.
func (a *answer) ok(status int) *answer {
	a.t.Helper()
	a.expect(a.status == status, "status %d and not %d", a.status, status)
	return a.expect(a.err == nil, "the body: %v", a.err)
}

// fail demands an error with its status and its code. The answer to a HEAD has no code.
func (a *answer) fail(status int, code string) *answer {
	a.t.Helper()
	a.expect(a.status == status, "status %d and not %d %s", a.status, status, code)
	if a.method != "HEAD" {
		a.expect(a.text("Code") == code, "code %q and not %q", a.text("Code"), code)
	}
	return a
}

// has demands a header with a value.
func (a *answer) has(name, value string) *answer {
	a.t.Helper()
	return a.expect(len(a.header.Values(name)) == 1 && a.header.Get(name) == value, "%s is %q and not %q", name, a.header.Values(name), value)
}

// set demands that a header is there, and returns its value.
func (a *answer) set(name string) string {
	a.t.Helper()
	a.expect(a.header.Get(name) != "", "%s is not there", name)
	return a.header.Get(name)
}

// lacks demands that headers are not there.
func (a *answer) lacks(names ...string) *answer {
	a.t.Helper()
	for _, name := range names {
		a.expect(len(a.header.Values(name)) == 0, "%s is %q", name, a.header.Values(name))
	}
	return a
}

// etag returns the ETag of the answer without its quotes, which it must have.
func (a *answer) etag() string {
	a.t.Helper()
	v := a.header.Get("ETag")
	a.expect(len(v) > 2 && v[0] == '"' && v[len(v)-1] == '"', "the ETag %q", v)
	return v[1 : len(v)-1]
}

// node is an element of XML.
type node struct {
	name, space, text string
	attrs             []xml.Attr
	kids              []*node
}

// root returns the document of the body; the body must be one.
func (a *answer) root() *node {
	a.t.Helper()
	if a.tree == nil {
		tree, err := parse(a.body)
		a.expect(err == nil, "the body is no XML: %v", err)
		a.tree = tree
	}
	return a.tree
}

func parse(doc string) (*node, error) {
	d := xml.NewDecoder(strings.NewReader(doc))
	top := &node{}
	stack := []*node{top}
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		last := stack[len(stack)-1]
		switch token := token.(type) {
		case xml.StartElement:
			n := &node{name: token.Name.Local, space: token.Name.Space, attrs: token.Attr}
			last.kids = append(last.kids, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			last.text += string(token)
		}
	}
	if len(top.kids) != 1 {
		return nil, fmt.Errorf("%d elements where there should be one root", len(top.kids))
	}
	return top.kids[0], nil
}

// find returns the elements at a path below n: names with slashes between them.
func (n *node) find(path string) []*node {
	found := []*node{n}
	for name := range strings.SplitSeq(path, "/") {
		var next []*node
		for _, f := range found {
			for _, k := range f.kids {
				if k.name == name {
					next = append(next, k)
				}
			}
		}
		found = next
	}
	return found
}

// all returns the texts of the elements at a path.
func (a *answer) all(path string) []string {
	a.t.Helper()
	var texts []string
	for _, n := range a.root().find(path) {
		texts = append(texts, n.text)
	}
	return texts
}

// text returns the text of the first element at a path, "" if there is none.
func (a *answer) text(path string) string {
	a.t.Helper()
	if found := a.root().find(path); len(found) > 0 {
		return found[0].text
	}
	return ""
}

// eq demands the elements at a path: just these texts, in this order.
func (a *answer) eq(path string, want ...string) *answer {
	a.t.Helper()
	return a.expect(slices.Equal(a.all(path), want), "%s is %q and not %q", path, a.all(path), want)
}

// no demands that there are no elements at paths.
func (a *answer) no(paths ...string) *answer {
	a.t.Helper()
	for _, p := range paths {
		a.expect(len(a.root().find(p)) == 0, "%s is there: %q", p, a.all(p))
	}
	return a
}

// doc demands a document with this root in S3's name space.
func (a *answer) doc(root string) *answer {
	a.t.Helper()
	n := a.root()
	a.expect(a.header.Get("Content-Type") == "application/xml", "a document of the type %q", a.header.Get("Content-Type"))
	a.expect(strings.HasPrefix(a.body, `<?xml version="1.0" encoding="UTF-8"?>`), "no XML declaration")
	return a.expect(n.name == root && n.space == "http://s3.amazonaws.com/doc/2006-03-01/", "the root is {%s}%s", n.space, n.name)
}

package s3test

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// response is the response to one request; its body has been read.
type response struct {
	t      *T
	what   string
	method string
	status int
	header http.Header
	body   string
	err    error // from reading the body
	tree   *node // the parsed body, set by root
}

// expect fails the case unless ok.
func (r *response) expect(ok bool, format string, args ...any) *response {
	r.t.Helper()
	if !ok {
		body := r.body
		if len(body) > 2000 {
			body = body[:2000] + "..."
		}
		var head strings.Builder
		_ = r.header.Write(&head)
		r.t.Fatalf("%s\n%s\nrule: %s\nresponse: %d\n%s\n%s", fmt.Sprintf(format, args...), r.what, r.t.rule, r.status, head.String(), body)
	}
	return r
}

// ok checks the status, and that the body could be read to its end.
func (r *response) ok(status int) *response {
	r.t.Helper()
	r.expect(r.status == status, "status %d, want %d", r.status, status)
	return r.expect(r.err == nil, "reading the body: %v", r.err)
}

// fail checks the status and the code of an error response. The response to a HEAD has no code.
func (r *response) fail(status int, code string) *response {
	r.t.Helper()
	r.expect(r.status == status, "status %d, want %d %s", r.status, status, code)
	if r.method != "HEAD" {
		r.expect(r.text("Code") == code, "code %q, want %q", r.text("Code"), code)
	}
	return r
}

// has checks that a header is present once, with the given value.
func (r *response) has(name, value string) *response {
	r.t.Helper()
	return r.expect(len(r.header.Values(name)) == 1 && r.header.Get(name) == value, "%s is %q, want %q", name, r.header.Values(name), value)
}

// set checks that a header is present, and returns its value.
func (r *response) set(name string) string {
	r.t.Helper()
	r.expect(r.header.Get(name) != "", "%s is missing", name)
	return r.header.Get(name)
}

// lacks checks that headers are absent.
func (r *response) lacks(names ...string) *response {
	r.t.Helper()
	for _, name := range names {
		r.expect(len(r.header.Values(name)) == 0, "unexpected header %s: %q", name, r.header.Values(name))
	}
	return r
}

// etag returns the ETag of the response without its quotes, which are required.
func (r *response) etag() string {
	r.t.Helper()
	v := r.header.Get("ETag")
	r.expect(len(v) > 2 && v[0] == '"' && v[len(v)-1] == '"', "ETag %q is not in quotes", v)
	return v[1 : len(v)-1]
}

// node is an XML element.
type node struct {
	name, space, text string
	attrs             []xml.Attr
	kids              []*node
}

// root returns the root element of the body, which must be XML.
func (r *response) root() *node {
	r.t.Helper()
	if r.tree == nil {
		tree, err := parse(r.body)
		r.expect(err == nil, "the body is not XML: %v", err)
		r.tree = tree
	}
	return r.tree
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
		return nil, fmt.Errorf("%d root elements, want 1", len(top.kids))
	}
	return top.kids[0], nil
}

// find returns the elements at a path below n. The names in a path are separated by slashes.
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
func (r *response) all(path string) []string {
	r.t.Helper()
	var texts []string
	for _, n := range r.root().find(path) {
		texts = append(texts, n.text)
	}
	return texts
}

// text returns the text of the first element at a path, or "" if there is no such element.
func (r *response) text(path string) string {
	r.t.Helper()
	if found := r.root().find(path); len(found) > 0 {
		return found[0].text
	}
	return ""
}

// eq checks that the elements at a path have exactly these texts, in this order.
func (r *response) eq(path string, want ...string) *response {
	r.t.Helper()
	return r.expect(slices.Equal(r.all(path), want), "%s is %q, want %q", path, r.all(path), want)
}

// no checks that there are no elements at the paths.
func (r *response) no(paths ...string) *response {
	r.t.Helper()
	for _, p := range paths {
		r.expect(len(r.root().find(p)) == 0, "unexpected element %s: %q", p, r.all(p))
	}
	return r
}

// doc checks that the body is a document with this root element in the S3 namespace.
func (r *response) doc(root string) *response {
	r.t.Helper()
	n := r.root()
	r.expect(r.header.Get("Content-Type") == "application/xml", "a document with Content-Type %q", r.header.Get("Content-Type"))
	r.expect(strings.HasPrefix(r.body, `<?xml version="1.0" encoding="UTF-8"?>`), "no XML declaration")
	return r.expect(n.name == root && n.space == "http://s3.amazonaws.com/doc/2006-03-01/", "the root is {%s}%s", n.space, n.name)
}

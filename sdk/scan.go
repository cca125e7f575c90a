package sdk

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// scanner reads an XML document that is in memory: it steps through the elements without making anything of those that
// nobody asks for. encoding/xml needs ten times as long for a listing, and hundreds of allocations per entry.
//
// It is strict: no document types, processing instructions, name prefixes, or text between elements. Every document
// that it accepts means the same to encoding/xml.
//
// An element is open after next has returned it, until text, skip, or a next that returns nil. Text is decoded in
// place, and aliases the document.
type scanner struct {
	b     []byte
	i     int
	open  [scanDepth][]byte // the names of the open elements
	depth int
	empty bool // the innermost element is of the form <name/>
}

// scanDepth is the maximum depth of elements.
const scanDepth = 16

// bad returns the error for what is at the current position.
func (s *scanner) bad(what string) error {
	return failed(ErrProtocol, "invalid XML at byte %d: %s", s.i, what)
}

// start reads everything up to the root, which must have the given name.
func (s *scanner) start(b []byte, root string) error {
	*s = scanner{b: b}
	if err := s.declaration(); err != nil {
		return err
	}
	if err := s.between(); err != nil {
		return err
	}
	name, err := s.tag()
	if err == nil && string(name) != root {
		err = failed(ErrProtocol, "the document is a %.40q, expected %s", name, root)
	}
	return err
}

// finish checks that nothing follows the root.
func (s *scanner) finish() error {
	if err := s.between(); err != nil {
		return err
	}
	if s.depth != 0 || s.i != len(s.b) {
		return s.bad("something follows the document")
	}
	return nil
}

// declaration skips <?xml ...?>. Only UTF-8 is accepted.
func (s *scanner) declaration() error {
	if !bytes.HasPrefix(s.b, []byte("<?xml ")) {
		return nil
	}
	end := bytes.Index(s.b, []byte("?>"))
	if end < 0 {
		return s.bad("the XML declaration does not end")
	}
	switch text := string(bytes.Join(bytes.Fields(s.b[len("<?xml "):end]), []byte(" "))); strings.ReplaceAll(text, "'", `"`) {
	case `version="1.0"`, `version="1.0" encoding="UTF-8"`, `version="1.0" encoding="utf-8"`,
		`version="1.0" encoding="UTF-8" standalone="yes"`, `version="1.0" encoding="UTF-8" standalone="no"`:
	default:
		return s.bad("the XML declaration is not that of XML 1.0 in UTF-8")
	}
	s.i = end + len("?>")
	return nil
}

// between skips white space and comments.
func (s *scanner) between() error {
	for {
		for s.i < len(s.b) && isSpace(s.b[s.i]) {
			s.i++
		}
		if !bytes.HasPrefix(s.b[s.i:], []byte("<!--")) {
			return nil
		}
		text := s.b[s.i+len("<!--"):]
		end := bytes.Index(text, []byte("--"))
		if end < 0 || !bytes.HasPrefix(text[end:], []byte("-->")) {
			return s.bad("a comment does not end")
		}
		if err := s.plain(text[:end]); err != nil {
			return err
		}
		s.i += len("<!--") + end + len("-->")
	}
}

// next returns the name of the next element in the innermost open one, and opens it. At the end of that element it
// closes it and returns nil.
func (s *scanner) next() ([]byte, error) {
	if s.empty {
		s.close()
		return nil, nil
	}
	if err := s.between(); err != nil {
		return nil, err
	}
	if bytes.HasPrefix(s.b[s.i:], []byte("</")) {
		return nil, s.endTag()
	}
	return s.tag()
}

func (s *scanner) close() {
	s.depth--
	s.empty = false
}

// tag reads <name attributes> or <name/>, and opens the element.
func (s *scanner) tag() ([]byte, error) {
	if s.i >= len(s.b) || s.b[s.i] != '<' {
		return nil, s.bad("expected an element")
	}
	s.i++
	name := s.name()
	if len(name) == 0 {
		return nil, s.bad("expected the name of an element")
	}
	if s.depth == scanDepth {
		return nil, s.bad("too many elements inside each other")
	}
	s.open[s.depth] = name
	s.depth++
	for {
		from := s.i
		s.space()
		switch {
		case s.i >= len(s.b):
			return nil, s.bad("the document ends in a tag")
		case s.b[s.i] == '>':
			s.i++
			return name, nil
		case s.b[s.i] == '/' && s.i+1 < len(s.b) && s.b[s.i+1] == '>':
			s.i += 2
			s.empty = true
			return name, nil
		case s.i == from:
			return nil, s.bad("invalid tag")
		}
		if err := s.attribute(); err != nil {
			return nil, err
		}
	}
}

// attribute skips name="value". The only prefixes of names that occur are those of xmlns and xsi.
func (s *scanner) attribute() error {
	if len(s.name()) == 0 {
		return s.bad("expected the name of an attribute")
	}
	if s.i < len(s.b) && s.b[s.i] == ':' {
		s.i++
		if len(s.name()) == 0 {
			return s.bad("expected the name of an attribute")
		}
	}
	if s.i+1 >= len(s.b) || s.b[s.i] != '=' || s.b[s.i+1] != '"' && s.b[s.i+1] != '\'' {
		return s.bad("expected an attribute with a value in quotes")
	}
	mark := s.b[s.i+1]
	s.i += 2
	end := bytes.IndexByte(s.b[s.i:], mark)
	if end < 0 {
		return s.bad("the value of an attribute does not end")
	}
	value := s.b[s.i : s.i+end]
	if bytes.ContainsAny(value, "<&") {
		return s.bad("the value of an attribute contains < or &")
	}
	if err := s.plain(value); err != nil {
		return err
	}
	s.i += end + 1
	return nil
}

// endTag reads </name> and closes the innermost element.
func (s *scanner) endTag() error {
	if s.depth == 0 || !bytes.HasPrefix(s.b[s.i:], []byte("</")) {
		return s.bad("expected an end tag")
	}
	s.i += len("</")
	if open := s.open[s.depth-1]; !bytes.Equal(s.name(), open) {
		return s.bad(fmt.Sprintf("expected </%.40s>", open))
	}
	s.space()
	if s.i >= len(s.b) || s.b[s.i] != '>' {
		return s.bad("invalid end tag")
	}
	s.i++
	s.close()
	return nil
}

// name reads a name, which is empty if there is none.
func (s *scanner) name() []byte {
	from := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (s.i == from || (c < '0' || c > '9') && c != '-' && c != '.') {
			break
		}
		s.i++
	}
	return s.b[from:s.i]
}

func (s *scanner) space() {
	for s.i < len(s.b) && isSpace(s.b[s.i]) {
		s.i++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// skip closes the innermost element, whatever it contains.
func (s *scanner) skip() error {
	for floor := s.depth - 1; s.depth > floor; {
		if s.empty {
			s.close()
			continue
		}
		if end := bytes.IndexByte(s.b[s.i:], '<'); end < 0 {
			return s.bad("the document ends in an element")
		} else if end > 0 {
			if _, err := s.decode(end); err != nil {
				return err
			}
			continue
		}
		switch rest := s.b[s.i:]; {
		case bytes.HasPrefix(rest, []byte("</")):
			if err := s.endTag(); err != nil {
				return err
			}
		case bytes.HasPrefix(rest, []byte("<!--")):
			if err := s.between(); err != nil {
				return err
			}
		default:
			if _, err := s.tag(); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns the text of the innermost element, which must not contain elements, and closes it.
func (s *scanner) text() ([]byte, error) {
	if s.empty {
		s.close()
		return nil, nil
	}
	end := bytes.IndexByte(s.b[s.i:], '<')
	if end < 0 {
		return nil, s.bad("the document ends in an element")
	}
	text, err := s.decode(end)
	if err != nil {
		return nil, err
	}
	return text, s.endTag()
}

// decode returns the next n bytes with their references and line ends replaced.
func (s *scanner) decode(n int) ([]byte, error) {
	text := s.b[s.i : s.i+n]
	special := false
	for _, c := range text {
		if c < ' ' || c >= utf8.RuneSelf || c == '&' || c == ']' {
			special = true
			break
		}
	}
	if special {
		if err := s.plain(text); err != nil {
			return nil, err
		}
		if bytes.Contains(text, []byte("]]>")) {
			return nil, s.bad("]]> in text")
		}
		var err error
		if text, err = s.replace(text); err != nil {
			return nil, err
		}
	}
	s.i += n
	return text, nil
}

// plain checks that b has only the characters of XML.
func (s *scanner) plain(b []byte) error {
	for i := 0; i < len(b); {
		c, n := utf8.DecodeRune(b[i:])
		if c == utf8.RuneError && n == 1 || !isChar(c) {
			return s.bad(fmt.Sprintf("the character %U", c))
		}
		i += n
	}
	return nil
}

// isChar reports whether a character may occur in XML.
func isChar(c rune) bool {
	return c == '\t' || c == '\n' || c == '\r' || c >= ' ' && c <= 0xD7FF || c >= 0xE000 && c <= 0xFFFD || c >= 0x10000 && c <= 0x10FFFF
}

// replace replaces references and line ends in b, in place.
func (s *scanner) replace(b []byte) ([]byte, error) {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '\r':
			out = append(out, '\n')
			if i+1 < len(b) && b[i+1] == '\n' {
				i++
			}
		case '&':
			n := bytes.IndexByte(b[i:min(len(b), i+12)], ';')
			if n < 0 {
				return nil, s.bad("a reference without ;")
			}
			r, ok := reference(b[i+1 : i+n])
			if !ok {
				return nil, s.bad(fmt.Sprintf("the reference %q", b[i:i+n+1]))
			}
			out = utf8.AppendRune(out, r) // never longer than the reference
			i += n
		default:
			out = append(out, c)
		}
	}
	return out, nil
}

// reference returns the character that a reference stands for.
func reference(name []byte) (rune, bool) {
	switch string(name) {
	case "lt":
		return '<', true
	case "gt":
		return '>', true
	case "amp":
		return '&', true
	case "quot":
		return '"', true
	case "apos":
		return '\'', true
	}
	if len(name) < 2 || name[0] != '#' {
		return 0, false
	}
	base, digits := rune(10), name[1:]
	if digits[0] == 'x' {
		base, digits = 16, digits[1:]
	}
	if len(digits) == 0 {
		return 0, false
	}
	r := rune(0)
	for _, c := range digits {
		d := rune(99)
		switch {
		case '0' <= c && c <= '9':
			d = rune(c - '0')
		case 'a' <= c && c <= 'f':
			d = rune(c-'a') + 10
		case 'A' <= c && c <= 'F':
			d = rune(c-'A') + 10
		}
		if d >= base {
			return 0, false
		}
		if r = r*base + d; r > utf8.MaxRune {
			return 0, false
		}
	}
	return r, isChar(r)
}

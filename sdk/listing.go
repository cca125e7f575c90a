package sdk

import (
	"bytes"
	"strconv"
	"time"
)

// page is a document of ListObjectsV2 or ListObjectVersions. Its slices alias the document.
type page struct {
	doc       []byte // reused for the next page
	objects   []listed
	prefixes  [][]byte
	encoded   bool // keys are percent-encoded
	truncated bool
	next      cursor
}

// cursor is where a listing continues. The zero value is its beginning.
type cursor struct {
	token        string // ListObjectsV2
	key, version string // ListObjectVersions, ListMultipartUploads, ListParts
}

// listed is an object in a page.
type listed struct {
	key, version, etag, class, owner, sum []byte
	size                                  int64
	modified                              time.Time
	latest, marker                        bool
}

// reset empties p and keeps its memory.
func (p *page) reset() {
	*p = page{doc: p.doc, objects: p.objects[:0], prefixes: p.prefixes[:0]}
}

// parse parses doc, whose root is named root.
func (p *page) parse(doc []byte, root string) error {
	p.reset()
	p.doc = doc
	var s scanner
	if err := s.start(doc, root); err != nil {
		return err
	}
	for {
		name, err := s.next()
		if err != nil {
			return err
		}
		if name == nil {
			break
		}
		if err := p.element(&s, string(name)); err != nil {
			return err
		}
	}
	if err := s.finish(); err != nil {
		return err
	}
	return p.decode()
}

// element parses an element of the root.
func (p *page) element(s *scanner, name string) (err error) {
	switch name {
	case "Contents", "Version", "DeleteMarker":
		p.objects = append(p.objects, listed{marker: name == "DeleteMarker"})
		return p.objects[len(p.objects)-1].parse(s)
	case "CommonPrefixes":
		return p.prefix(s)
	case "IsTruncated":
		p.truncated, err = flag(s)
		return err
	case "EncodingType":
		text, err := s.text()
		p.encoded = string(text) == "url"
		return err
	case "NextContinuationToken":
		return text(s, &p.next.token)
	case "NextKeyMarker":
		return text(s, &p.next.key)
	case "NextVersionIdMarker":
		return text(s, &p.next.version)
	}
	return s.skip()
}

// prefix parses the content of CommonPrefixes.
func (p *page) prefix(s *scanner) error {
	for {
		name, err := s.next()
		if name == nil || err != nil {
			return err
		}
		if string(name) != "Prefix" {
			err = s.skip()
		} else {
			var t []byte
			t, err = s.text()
			p.prefixes = append(p.prefixes, t)
		}
		if err != nil {
			return err
		}
	}
}

// parse parses the content of Contents, Version or DeleteMarker.
func (l *listed) parse(s *scanner) error {
	for {
		name, err := s.next()
		if name == nil || err != nil {
			return err
		}
		switch string(name) {
		case "Key":
			l.key, err = s.text()
		case "VersionId":
			l.version, err = s.text()
		case "ETag":
			l.etag, err = s.text()
		case "StorageClass":
			l.class, err = s.text()
		case "ChecksumType":
			l.sum, err = s.text()
		case "IsLatest":
			l.latest, err = flag(s)
		case "Size":
			l.size, err = integer(s)
		case "LastModified":
			l.modified, err = moment(s)
		case "Owner":
			l.owner, err = owner(s)
		default:
			err = s.skip()
		}
		if err != nil {
			return err
		}
	}
}

// owner returns the ID in an Owner element.
func owner(s *scanner) (id []byte, err error) {
	for {
		name, err := s.next()
		if name == nil || err != nil {
			return id, err
		}
		if string(name) == "ID" {
			id, err = s.text()
		} else {
			err = s.skip()
		}
		if err != nil {
			return nil, err
		}
	}
}

// text stores the text of an element.
func text(s *scanner, to *string) error {
	t, err := s.text()
	*to = string(t)
	return err
}

// flag returns the value of an element that is true or false.
func flag(s *scanner) (bool, error) {
	t, err := s.text()
	switch {
	case err != nil:
		return false, err
	case string(t) == "true":
		return true, nil
	case string(t) == "false":
		return false, nil
	}
	return false, s.bad("expected true or false")
}

// integer returns the value of an element that is a number, 0 or more.
func integer(s *scanner) (int64, error) {
	t, err := s.text()
	if err != nil {
		return 0, err
	}
	n := int64(0)
	for _, c := range t {
		if c < '0' || c > '9' || n > (1<<63-1-9)/10 {
			return 0, s.bad("expected a number")
		}
		n = 10*n + int64(c-'0')
	}
	if len(t) == 0 {
		return 0, s.bad("expected a number")
	}
	return n, nil
}

// moment returns the value of an element that is a time.
func moment(s *scanner) (time.Time, error) {
	t, err := s.text()
	if err != nil {
		return time.Time{}, err
	}
	if when, ok := parseTime(t); ok {
		return when, nil
	}
	when, err := time.Parse(time.RFC3339Nano, string(t))
	if err != nil {
		return when, s.bad("expected a time")
	}
	return when.UTC(), nil
}

// parseTime parses the form 2006-01-02T15:04:05.000Z, in which nearly all servers write times.
func parseTime(b []byte) (time.Time, bool) {
	const form = "0000-00-00T00:00:00.000Z"
	if len(b) != len(form) {
		return time.Time{}, false
	}
	for i := range len(form) {
		if digit := b[i] >= '0' && b[i] <= '9'; form[i] == '0' != digit || !digit && b[i] != form[i] {
			return time.Time{}, false
		}
	}
	n := func(from, to int) (n int) {
		for _, c := range b[from:to] {
			n = 10*n + int(c-'0')
		}
		return n
	}
	month, day, hour, minute, second := n(5, 7), n(8, 10), n(11, 13), n(14, 16), n(17, 19)
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(n(0, 4), time.Month(month), day, hour, minute, second, n(20, 23)*1e6, time.UTC)
	return t, t.Day() == day
}

// decode decodes percent-encoded keys, which it can do only when the whole page is parsed.
func (p *page) decode() error {
	if !p.encoded {
		return nil
	}
	var err error
	for i := range p.objects {
		if p.objects[i].key, err = unescape(p.objects[i].key); err != nil {
			return err
		}
	}
	for i := range p.prefixes {
		if p.prefixes[i], err = unescape(p.prefixes[i]); err != nil {
			return err
		}
	}
	key, err := unescape([]byte(p.next.key))
	p.next.key = string(key)
	return err
}

// unescape decodes a percent-encoded key in place. A plus is a space.
func unescape(b []byte) ([]byte, error) {
	if bytes.IndexByte(b, '%') < 0 && bytes.IndexByte(b, '+') < 0 {
		return b, nil
	}
	out := b[:0]
	for i := 0; i < len(b); i++ {
		switch c := b[i]; c {
		case '+':
			out = append(out, ' ')
		case '%':
			if i+2 >= len(b) {
				return nil, failed(ErrProtocol, "a key in the listing has an invalid encoding")
			}
			v, err := strconv.ParseUint(string(b[i+1:i+3]), 16, 8)
			if err != nil {
				return nil, failed(ErrProtocol, "a key in the listing has an invalid encoding: %q", b[i:i+3])
			}
			out = append(out, byte(v))
			i += 2
		default:
			out = append(out, c)
		}
	}
	return out, nil
}

// entry returns an object as an Entry. All its strings are in one allocation, so an entry that is kept does not keep
// the page.
func (l *listed) entry() (e Entry) {
	etag := l.etag
	if len(etag) >= 2 && etag[0] == '"' && etag[len(etag)-1] == '"' {
		etag = etag[1 : len(etag)-1]
	}
	class := intern(l.class)
	var memory [512]byte
	b := append(append(append(append(memory[:0], l.key...), etag...), l.version...), l.owner...)
	if class == "" {
		b = append(b, l.class...)
	}
	s := string(b)
	cut := func(n int) (t string) {
		t, s = s[:n], s[n:]
		return t
	}
	e.Key, e.ETag, e.VersionID, e.Owner = cut(len(l.key)), cut(len(etag)), cut(len(l.version)), cut(len(l.owner))
	if class == "" {
		class = s
	}
	e.StorageClass, e.ChecksumType = class, intern(l.sum)
	e.Size, e.LastModified, e.Latest, e.DeleteMarker = l.size, l.modified, l.latest, l.marker
	return e
}

// intern returns the usual values of some elements without an allocation, and "" for others.
func intern(b []byte) string {
	switch string(b) {
	case "STANDARD":
		return "STANDARD"
	case "FULL_OBJECT":
		return "FULL_OBJECT"
	case "COMPOSITE":
		return "COMPOSITE"
	case "STANDARD_IA":
		return "STANDARD_IA"
	}
	return ""
}

package s3

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits of XML documents that clients send.
const (
	maxXMLBytes = 2 << 20
	maxXMLDepth = 32
)

const (
	xmlHeader    = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"
	xmlNamespace = "http://s3.amazonaws.com/doc/2006-03-01/"
	timeXML      = "2006-01-02T15:04:05.000Z"
)

// xmlWriter builds an XML document. It exists because listings are hot: no reflection, one buffer.
type xmlWriter struct {
	b []byte
}

// begin starts a document with its root element.
func (x *xmlWriter) begin(root string) {
	x.b = append(x.b[:0], xmlHeader...)
	x.b = append(x.b, '<')
	x.b = append(x.b, root...)
	x.b = append(x.b, ` xmlns="`+xmlNamespace+`">`...)
}

func (x *xmlWriter) open(name string) {
	x.b = append(x.b, '<')
	x.b = append(x.b, name...)
	x.b = append(x.b, '>')
}

func (x *xmlWriter) close(name string) {
	x.b = append(x.b, '<', '/')
	x.b = append(x.b, name...)
	x.b = append(x.b, '>')
}

// text writes an element with its text.
func (x *xmlWriter) text(name, value string) {
	x.open(name)
	x.b = appendXML(x.b, value)
	x.close(name)
}

// optional writes an element unless its text is empty.
func (x *xmlWriter) optional(name, value string) {
	if value != "" {
		x.text(name, value)
	}
}

func (x *xmlWriter) int(name string, v int64) {
	x.open(name)
	x.b = strconv.AppendInt(x.b, v, 10)
	x.close(name)
}

func (x *xmlWriter) bool(name string, v bool) {
	x.open(name)
	x.b = strconv.AppendBool(x.b, v)
	x.close(name)
}

// time writes a time as ISO 8601 with milliseconds.
func (x *xmlWriter) time(name string, t time.Time) {
	x.open(name)
	x.b = t.UTC().AppendFormat(x.b, timeXML)
	x.close(name)
}

// etag writes an ETag element; the quotes that belong to it are escaped, as S3 does.
func (x *xmlWriter) etag(etag string) {
	x.b = append(x.b, `<ETag>&quot;`...)
	x.b = appendXML(x.b, etag)
	x.b = append(x.b, `&quot;</ETag>`...)
}

// key writes an element that holds a key or a part of one, URL-encoded where the client asked for that.
func (x *xmlWriter) key(name, value string, encoded bool) {
	if !encoded {
		x.text(name, value)
		return
	}
	x.open(name)
	x.b = appendURL(x.b, value)
	x.close(name)
}

// owner writes an element that names an account.
func (x *xmlWriter) owner(name, account string) {
	x.open(name)
	x.text("ID", account)
	x.text("DisplayName", account)
	x.close(name)
}

// appendXML appends s as XML text. Control characters become character references, as S3 has it: XML 1.0 has no other way to
// say them, and clients that can store such keys ask for encoding-type=url.
func appendXML(b []byte, s string) []byte {
	from := 0
	for i := 0; i < len(s); i++ {
		var esc string
		switch c := s[i]; {
		case c == '&':
			esc = "&amp;"
		case c == '<':
			esc = "&lt;"
		case c == '>':
			esc = "&gt;"
		case c == '"':
			esc = "&quot;"
		case c < 0x20 || c == 0x7f:
			esc = "&#x" + strconv.FormatUint(uint64(c), 16) + ";"
		case c == 0xef && i+2 < len(s) && s[i+1] == 0xbf && s[i+2] >= 0xbe: // U+FFFE, U+FFFF
			b = append(b, s[from:i]...)
			b = append(b, "&#xfff"...)
			b = append(b, "ef"[s[i+2]-0xbe], ';')
			i += 2
			from = i + 1
			continue
		default:
			continue
		}
		b = append(b, s[from:i]...)
		b = append(b, esc...)
		from = i + 1
	}
	return append(b, s[from:]...)
}

// appendURL appends s percent-encoded, "/" excepted. A space becomes %20, which every client decodes alike.
func appendURL(b []byte, s string) []byte {
	const hexDigits = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '-' || c == '_' || c == '.' || c == '~' || c == '/' || c == '*' {
			b = append(b, c)
			continue
		}
		b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
	}
	return b
}

// readAll reads a small document to its end; more than limit bytes are errMessageTooLong.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if n > limit {
		return nil, errMessageTooLong
	}
	return b.Bytes(), nil
}

// parseXML decodes a document into a struct, which says what may be in it (see element), and whose XMLName gives the name of the root.
// Every error is errMalformedXML.
func parseXML(doc []byte, into any) error {
	if !utf8.Valid(doc) {
		return errMalformedXML
	}
	raw := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(doc, []byte("\ufeff"))))
	raw.Strict = true
	guard := &xmlGuard{raw: raw}
	guard.root, guard.schema = schemaOf(reflect.TypeOf(into))
	d := xml.NewTokenDecoder(guard)
	if err := d.Decode(into); err != nil {
		return errMalformedXML.because(err)
	}
	// Nothing but white space and comments may follow the root.
	for {
		switch _, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errMalformedXML.because(err)
		}
	}
}

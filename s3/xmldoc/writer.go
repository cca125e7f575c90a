package xmldoc

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orcas/auth"
)

const (
	// Header is the beginning of every document.
	Header = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

	// TimeFormat is ISO 8601 with milliseconds.
	TimeFormat = "2006-01-02T15:04:05.000Z"

	namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
)

// Writer builds an XML document. It uses no reflection and one buffer, because listings are on the hot path.
type Writer struct {
	Buf []byte // the document so far

	day     int64 // the day, in days since 1970, whose date is in date
	date    [dateLength]byte
	hasDate bool

	account, canonical string // the last account of CanonicalUser, and its canonical ID
}

// dateLength is the length of the date in TimeFormat, with the T. Years have four digits.
const (
	dateLength  = len("2006-01-02T")
	millisOfDay = 24 * 60 * 60 * 1000
)

// BeginPlain starts a document whose root element has no namespace.
func (x *Writer) BeginPlain(root string) {
	x.Buf = append(x.Buf[:0], Header...)
	x.Open(root)
}

// Begin starts a document with its root element, in the namespace of S3.
func (x *Writer) Begin(root string) { x.BeginIn(root, namespace) }

// BeginIn starts a document with its root element, in a namespace.
func (x *Writer) BeginIn(root, namespace string) {
	x.Buf = append(x.Buf[:0], Header...)
	x.Buf = append(x.Buf, '<')
	x.Buf = append(x.Buf, root...)
	x.Buf = append(x.Buf, ` xmlns="`...)
	x.Buf = AppendText(x.Buf, namespace)
	x.Buf = append(x.Buf, `">`...)
}

// Open writes the start tag of an element.
func (x *Writer) Open(name string) {
	x.Buf = append(x.Buf, '<')
	x.Buf = append(x.Buf, name...)
	x.Buf = append(x.Buf, '>')
}

// Close writes the end tag of an element.
func (x *Writer) Close(name string) {
	x.Buf = append(x.Buf, '<', '/')
	x.Buf = append(x.Buf, name...)
	x.Buf = append(x.Buf, '>')
}

// Text writes an element that contains text.
func (x *Writer) Text(name, value string) {
	x.Open(name)
	x.Buf = AppendText(x.Buf, value)
	x.Close(name)
}

// Optional writes an element unless its text is empty.
func (x *Writer) Optional(name, value string) {
	if value != "" {
		x.Text(name, value)
	}
}

// Int writes an element that contains a number.
func (x *Writer) Int(name string, v int64) {
	x.Open(name)
	x.Buf = strconv.AppendInt(x.Buf, v, 10)
	x.Close(name)
}

// Bool writes an element that contains true or false.
func (x *Writer) Bool(name string, v bool) {
	x.Open(name)
	x.Buf = strconv.AppendBool(x.Buf, v)
	x.Close(name)
}

// Time writes an element that contains a time in TimeFormat.
func (x *Writer) Time(name string, t time.Time) {
	x.Open(name)
	x.appendTime(t.UnixMilli())
	x.Close(name)
}

// appendTime appends a time, in milliseconds since 1970, in TimeFormat. The objects of a listing are often from the same
// day, so the date is formatted only if it differs from the one before.
func (x *Writer) appendTime(ms int64) {
	day, rest := ms/millisOfDay, ms%millisOfDay
	if rest < 0 {
		day, rest = day-1, rest+millisOfDay
	}
	if day != x.day || !x.hasDate {
		date := time.UnixMilli(day*millisOfDay).UTC().AppendFormat(nil, TimeFormat[:dateLength])
		if len(date) != dateLength { // years beyond 9999
			x.Buf = time.UnixMilli(ms).UTC().AppendFormat(x.Buf, TimeFormat)
			return
		}
		x.day, x.hasDate = day, true
		copy(x.date[:], date)
	}
	x.Buf = append(x.Buf, x.date[:]...)
	ms, seconds := rest%1000, rest/1000
	minutes := seconds / 60
	x.Buf = append(x.Buf, digit(minutes/600), digit(minutes/60), ':', digit(minutes%60/10), digit(minutes), ':',
		digit(seconds%60/10), digit(seconds), '.', digit(ms/100), digit(ms/10), digit(ms), 'Z')
}

// digit returns the last digit of n.
func digit(n int64) byte { return byte('0' + n%10) }

// ETag writes an ETag element. The quotes, which are part of the ETag, are escaped, as in S3.
func (x *Writer) ETag(etag string) {
	x.Buf = append(x.Buf, `<ETag>&quot;`...)
	x.Buf = AppendText(x.Buf, etag)
	x.Buf = append(x.Buf, `&quot;</ETag>`...)
}

// Key writes an element that contains all or part of a key, URL-encoded if encoded is set.
func (x *Writer) Key(name, value string, encoded bool) {
	if !encoded {
		x.Text(name, value)
		return
	}
	x.Open(name)
	x.Buf = AppendURL(x.Buf, value)
	x.Close(name)
}

// Owner writes an element that identifies an account, by its canonical ID, or another principal, by its ARN.
func (x *Writer) Owner(name, who string) {
	x.Open(name)
	x.CanonicalUser(who)
	x.Close(name)
}

// CanonicalUser writes the elements inside Owner.
func (x *Writer) CanonicalUser(who string) {
	id, display := who, who
	if strings.HasPrefix(who, "arn:") {
		display = who[strings.LastIndexByte(who, '/')+1:]
	} else {
		if x.canonical == "" || x.account != who {
			x.account, x.canonical = who, auth.CanonicalID(who)
		}
		id = x.canonical
	}
	x.Text("ID", id)
	x.Text("DisplayName", display)
}

// AppendText appends s as XML text. Control characters become character references, as in S3: XML 1.0 has no other way
// to represent them, and clients that store such keys ask for encoding-type=url.
func AppendText(b []byte, s string) []byte {
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

// AppendURL appends s percent-encoded, except for "/". A space becomes %20, which every client decodes the same way.
func AppendURL(b []byte, s string) []byte {
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

// Plain replaces the characters that XML cannot represent. It is for error documents, which quote the request and must
// be valid XML.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xfffe || r == 0xffff {
			return utf8.RuneError
		}
		return r // invalid UTF-8 arrives as utf8.RuneError
	}, s)
}

package sdk

import (
	"crypto/md5"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// set sets a header unless the value is empty. name is in the form of http.Header.
func set(h http.Header, name, value string) {
	if value != "" {
		h[name] = []string{value}
	}
}

// first returns the value of a header by its name in the form of http.Header.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// formatTime returns a time in the form of documents and locks.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// write adds the headers of a write. The error is text about a wrong property.
func (p *Properties) write(h http.Header, secure bool) error {
	set(h, "Content-Type", p.ContentType)
	set(h, "Cache-Control", p.CacheControl)
	set(h, "Content-Disposition", p.ContentDisposition)
	set(h, "Content-Encoding", p.ContentEncoding)
	set(h, "Content-Language", p.ContentLanguage)
	set(h, "Expires", p.Expires)
	set(h, "X-Amz-Website-Redirect-Location", p.WebsiteRedirect)
	set(h, "X-Amz-Storage-Class", p.StorageClass)
	set(h, "X-Amz-Acl", p.ACL)
	for name, value := range p.Metadata {
		if !isToken(name) {
			return failed(ErrInvalidArgument, "the name of metadata %q is not a header name", name)
		}
		h[http.CanonicalHeaderKey("X-Amz-Meta-"+name)] = []string{value}
	}
	if len(p.Tags) > 0 {
		set(h, "X-Amz-Tagging", encodeTags(p.Tags))
	}
	p.Lock.write(h)
	return p.Encryption.write(h, secure)
}

func (l *Lock) write(h http.Header) {
	if l.Mode != "" {
		set(h, "X-Amz-Object-Lock-Mode", l.Mode)
		set(h, "X-Amz-Object-Lock-Retain-Until-Date", formatTime(l.Until))
	}
	if l.LegalHold {
		set(h, "X-Amz-Object-Lock-Legal-Hold", "ON")
	}
}

func (l *Lock) isSet() bool { return l.Mode != "" || l.LegalHold }

func (e *Encryption) write(h http.Header, secure bool) error {
	set(h, "X-Amz-Server-Side-Encryption", e.Algorithm)
	set(h, "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id", e.KMSKeyID)
	return customerKey(h, "X-Amz-Server-Side-Encryption-Customer-", e.CustomerKey, secure)
}

// customerKey adds the headers of a customer's key, all of which begin with prefix.
func customerKey(h http.Header, prefix string, key []byte, secure bool) error {
	switch {
	case key == nil:
		return nil
	case len(key) != 32:
		return failed(ErrInvalidArgument, "the customer's key has %d bytes, expected 32", len(key))
	case !secure:
		return failed(ErrInvalidArgument, "a customer's key is sent to https endpoints only")
	}
	sum := md5.Sum(key)
	set(h, prefix+"Algorithm", "AES256")
	set(h, prefix+"Key", base64.StdEncoding.EncodeToString(key))
	set(h, prefix+"Key-Md5", base64.StdEncoding.EncodeToString(sum[:]))
	return nil
}

const (
	customerPrefix       = "X-Amz-Server-Side-Encryption-Customer-"
	sourceCustomerPrefix = "X-Amz-Copy-Source-Server-Side-Encryption-Customer-"
)

// isToken reports whether s may be part of the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// encodeTags returns tags in the form of a header, sorted by key.
func encodeTags(tags map[string]string) string {
	v := make(url.Values, len(tags))
	for name, value := range tags {
		v[name] = []string{value}
	}
	return v.Encode()
}

// write adds the conditions, as headers that begin with prefix: "If-", or that of a source.
func (c *Conditions) write(h http.Header, prefix string) {
	if *c == (Conditions{}) {
		return
	}
	set(h, prefix+"Match", quote(c.IfMatch))
	set(h, prefix+"None-Match", quote(c.IfNoneMatch))
	if !c.IfModifiedSince.IsZero() {
		set(h, prefix+"Modified-Since", c.IfModifiedSince.UTC().Format(http.TimeFormat))
	}
	if !c.IfUnmodifiedSince.IsZero() {
		set(h, prefix+"Unmodified-Since", c.IfUnmodifiedSince.UTC().Format(http.TimeFormat))
	}
}

// quote returns an ETag with its quotes.
func quote(etag string) string {
	if etag == "" || etag == "*" || strings.HasPrefix(etag, `"`) {
		return etag
	}
	return `"` + etag + `"`
}

// unquote returns an ETag without its quotes.
func unquote(etag string) string {
	if len(etag) >= 2 && etag[0] == '"' && etag[len(etag)-1] == '"' {
		return etag[1 : len(etag)-1]
	}
	return etag
}

const checksumPrefix = "X-Amz-Checksum-"

// checksumsOf returns the checksums in the headers of a response, or nil.
func checksumsOf(h http.Header) (sums Checksums) {
	for name, v := range h {
		if len(name) <= len(checksumPrefix) || name[:len(checksumPrefix)] != checksumPrefix {
			continue
		}
		if a := algorithmOf(name); a != None && len(v) > 0 {
			if sums == nil {
				sums = make(Checksums, 1)
			}
			sums[a] = v[0]
		}
	}
	return sums
}

// algorithmOf returns the algorithm of a header in the form of http.Header, or None.
func algorithmOf(name string) Algorithm {
	for a := MD5; a.Valid(); a++ {
		if a.HeaderKey() == name {
			return a
		}
	}
	return None
}

// written returns the result of a write from its headers.
func written(r *reply) *Written {
	return &Written{ETag: unquote(first(r.header, "Etag")), VersionID: first(r.header, "X-Amz-Version-Id"), Checksums: checksumsOf(r.header)}
}

// infoOf returns the description of an object in the headers of a response.
func infoOf(key string, h http.Header, length int64) Info {
	i := Info{Key: key, Size: length, VersionID: first(h, "X-Amz-Version-Id"), ETag: unquote(first(h, "Etag")),
		ChecksumType: first(h, "X-Amz-Checksum-Type"), Expiration: first(h, "X-Amz-Expiration"), Checksums: checksumsOf(h)}
	i.LastModified, _ = http.ParseTime(first(h, "Last-Modified"))
	i.DeleteMarker = first(h, "X-Amz-Delete-Marker") == "true"
	i.Parts, i.TagCount = number(first(h, "X-Amz-Mp-Parts-Count")), number(first(h, "X-Amz-Tagging-Count"))
	p := &i.Properties
	p.ContentType, p.CacheControl = first(h, "Content-Type"), first(h, "Cache-Control")
	p.ContentDisposition, p.ContentEncoding = first(h, "Content-Disposition"), first(h, "Content-Encoding")
	p.ContentLanguage, p.Expires = first(h, "Content-Language"), first(h, "Expires")
	p.WebsiteRedirect, p.StorageClass = first(h, "X-Amz-Website-Redirect-Location"), first(h, "X-Amz-Storage-Class")
	if p.StorageClass == "" {
		p.StorageClass = "STANDARD"
	}
	if p.Lock.Mode = first(h, "X-Amz-Object-Lock-Mode"); p.Lock.Mode != "" {
		p.Lock.Until, _ = time.Parse(time.RFC3339, first(h, "X-Amz-Object-Lock-Retain-Until-Date"))
	}
	p.Lock.LegalHold = first(h, "X-Amz-Object-Lock-Legal-Hold") == "ON"
	p.Encryption.Algorithm = first(h, "X-Amz-Server-Side-Encryption")
	p.Encryption.KMSKeyID = first(h, "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")
	for name, v := range h {
		if rest, ok := strings.CutPrefix(name, "X-Amz-Meta-"); ok && len(v) > 0 {
			if p.Metadata == nil {
				p.Metadata = make(map[string]string, 4)
			}
			p.Metadata[strings.ToLower(rest)] = strings.Join(v, ",")
		}
	}
	return i
}

// number returns the number in a header, or 0. Unlike Atoi it needs no memory for a header that is absent.
func number(s string) int {
	if s == "" {
		return 0
	}
	n, _ := strconv.Atoi(s)
	return n
}

// isMD5 reports whether an ETag can be the MD5 of the content: it has the form, and the headers do not tell that the
// server encrypts with a key that gives other ETags.
func isMD5(etag string, h http.Header) bool {
	if len(etag) != 32 || strings.IndexFunc(etag, func(c rune) bool { return (c < '0' || c > '9') && (c < 'a' || c > 'f') }) >= 0 {
		return false
	}
	if e := first(h, "X-Amz-Server-Side-Encryption"); e != "" && e != "AES256" {
		return false
	}
	return first(h, customerPrefix+"Algorithm") == "" && !slices.Contains(h["X-Amz-Storage-Class"], "EXPRESS_ONEZONE")
}

// Package tagging parses, validates and writes the tags of buckets and objects.
package tagging

import (
	"encoding/xml"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"orcas/core"
	"orcas/s3/apierr"
	"orcas/s3/xmldoc"
)

// Maximum lengths of the keys and values of tags, in UTF-16 code units.
const (
	MaxKey   = 128
	MaxValue = 256
)

// Maximum numbers of tags on a version and on a bucket.
const (
	maxOfObject = 10
	maxOfBucket = 50
)

var (
	errTooManyOfObject = apierr.New(400, "BadRequest", "Object tags cannot be greater than 10")
	errTooManyOfBucket = apierr.New(400, "BadRequest", "Bucket tag count cannot be greater than 50")
)

// Document is the body of PutBucketTagging and PutObjectTagging.
type Document struct {
	XMLName xml.Name `xml:"Tagging"`
	Set     *Set     `xml:"TagSet"`
}

// Set is a list of tags in XML.
type Set struct {
	Tags []Tag `xml:"Tag"`
}

// Tag is a tag in XML. Both its key and its value are required.
type Tag struct {
	Key   *string `xml:"Key"`
	Value *string `xml:"Value"`
}

// OfObject validates the tags and returns them as the tags of a version.
func (s *Set) OfObject() ([]core.Attr, error) { return s.attrs(maxOfObject, errTooManyOfObject) }

// OfBucket validates a tag set and returns it in the form in which a bucket stores it: the TagSet element of the
// document, or "" if there are no tags.
func (s *Set) OfBucket() (string, error) {
	if s == nil {
		return "", apierr.MalformedXML
	}
	tags, err := s.attrs(maxOfBucket, errTooManyOfBucket)
	if err != nil || len(tags) == 0 {
		return "", err
	}
	var x xmldoc.Writer
	Write(&x, tags)
	return string(x.Buf), nil
}

// attrs validates the tags and returns them. It returns tooMany if there are more than limit.
func (s *Set) attrs(limit int, tooMany *apierr.Error) ([]core.Attr, error) {
	tags := make([]core.Attr, len(s.Tags))
	for i, t := range s.Tags {
		if t.Key == nil || t.Value == nil {
			return nil, apierr.MalformedXML
		}
		tags[i] = core.Attr{Name: *t.Key, Value: *t.Value}
	}
	if err := check(tags); err != nil {
		return nil, err
	}
	if len(tags) > limit {
		return nil, tooMany
	}
	return tags, nil
}

// check validates the characters and the lengths of tags, and checks that no key occurs twice.
func check(tags []core.Attr) error {
	seen := make(map[string]bool, len(tags))
	for _, t := range tags {
		switch {
		case t.Name == "" || !isText(t.Name, MaxKey):
			return apierr.InvalidTag.Say("The TagKey you have provided is invalid").With("TagKey", t.Name)
		case strings.HasPrefix(t.Name, "aws:"):
			return apierr.InvalidTag.Say("System tags cannot be added/updated by requester").With("TagKey", t.Name)
		case !isText(t.Value, MaxValue):
			return apierr.InvalidTag.Say("The TagValue you have provided is invalid").With("TagKey", t.Name).With("TagValue", t.Value)
		case seen[t.Name]:
			return apierr.InvalidTag.Say("Cannot provide multiple Tags with the same key").With("TagKey", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

// isText reports whether s is at most limit long and consists of characters that are allowed in tags.
func isText(s string, limit int) bool {
	for _, r := range s {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), unicode.Is(unicode.Z, r):
		case r == '_', r == '.', r == ':', r == '/', r == '=', r == '+', r == '-', r == '@':
		default:
			return false
		}
		limit -= utf16.RuneLen(r)
	}
	return limit >= 0
}

// Write writes a tag set.
func Write(x *xmldoc.Writer, tags []core.Attr) {
	x.Open("TagSet")
	for _, t := range tags {
		x.Open("Tag")
		x.Text("Key", t.Name)
		x.Text("Value", t.Value)
		x.Close("Tag")
	}
	x.Close("TagSet")
}

// ParseHeader parses the x-amz-tagging header, which has the form of a query, and returns its tags sorted by key.
func ParseHeader(header string) ([]core.Attr, error) {
	bad := apierr.InvalidArgument.Say("The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates.").
		With("ArgumentName", "x-amz-tagging").With("ArgumentValue", header)
	var tags []core.Attr
	for rest := header; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		text, valueErr := url.QueryUnescape(value)
		known := slices.ContainsFunc(tags, func(t core.Attr) bool { return t.Name == name })
		if nameErr != nil || valueErr != nil || strings.Contains(value, "=") || known || name == "" || !utf8.ValidString(name) || !utf8.ValidString(text) {
			return nil, bad
		}
		tags = append(tags, core.Attr{Name: name, Value: text})
	}
	if len(tags) > maxOfObject {
		return nil, errTooManyOfObject
	}
	slices.SortFunc(tags, func(a, b core.Attr) int { return strings.Compare(a.Name, b.Name) })
	return tags, check(tags)
}

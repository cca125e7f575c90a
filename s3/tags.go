package s3

import (
	"encoding/xml"
	"strings"
	"unicode"
	"unicode/utf16"

	"orcas/core"
)

// Limits of tags, in characters of UTF-16, and how many tags a bucket can have.
const (
	maxTagKey     = 128
	maxTagValue   = 256
	maxBucketTags = 50
)

// taggingRequest is the body of PutBucketTagging and PutObjectTagging.
type taggingRequest struct {
	XMLName xml.Name `xml:"Tagging"`
	Set     *tagSet  `xml:"TagSet"`
}

// tagSet is a list of tags in XML.
type tagSet struct {
	Tags []xmlTag `xml:"Tag"`
}

type xmlTag struct {
	Key   *string `xml:"Key"`
	Value *string `xml:"Value"`
}

// attrs returns the tags, held against the rules for them. tooMany is the error for more than limit.
func (s *tagSet) attrs(limit int, tooMany *apiError) ([]core.Attr, error) {
	tags := make([]core.Attr, len(s.Tags))
	for i, t := range s.Tags {
		if t.Key == nil || t.Value == nil {
			return nil, errMalformedXML
		}
		tags[i] = core.Attr{Name: *t.Key, Value: *t.Value}
	}
	if err := checkTags(tags); err != nil {
		return nil, err
	}
	if len(tags) > limit {
		return nil, tooMany
	}
	return tags, nil
}

// checkTags holds tags against the rules for their characters, and their keys against each other.
func checkTags(tags []core.Attr) error {
	seen := make(map[string]bool, len(tags))
	for _, t := range tags {
		switch {
		case t.Name == "" || !tagText(t.Name, maxTagKey):
			return errInvalidTag.say("The TagKey you have provided is invalid").with("TagKey", t.Name)
		case strings.HasPrefix(t.Name, "aws:"):
			return errInvalidTag.say("System tags cannot be added/updated by requester").with("TagKey", t.Name)
		case !tagText(t.Value, maxTagValue):
			return errInvalidTag.say("The TagValue you have provided is invalid").with("TagKey", t.Name).with("TagValue", t.Value)
		case seen[t.Name]:
			return errInvalidTag.say("Cannot provide multiple Tags with the same key").with("TagKey", t.Name)
		}
		seen[t.Name] = true
	}
	return nil
}

// tagText says whether s is not too long and consists of characters that tags may have.
func tagText(s string, limit int) bool {
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

// tags writes the elements of a tag set.
func (x *xmlWriter) tags(tags []core.Attr) {
	x.open("TagSet")
	for _, t := range tags {
		x.open("Tag")
		x.text("Key", t.Name)
		x.text("Value", t.Value)
		x.close("Tag")
	}
	x.close("TagSet")
}

// bucketTags returns what a bucket keeps of a tag set: the inside of its document, or "" for none.
func bucketTags(set *tagSet) (string, error) {
	if set == nil {
		return "", errMalformedXML
	}
	tags, err := set.attrs(maxBucketTags, errTooManyBucketTags)
	if err != nil || len(tags) == 0 {
		return "", err
	}
	var x xmlWriter
	x.tags(tags)
	return string(x.b), nil
}

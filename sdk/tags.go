package sdk

import (
	"context"
	"encoding/xml"
	"errors"
	"maps"
	"net/http"
	"slices"
)

// tag is a tag in a document.
type tag struct{ Key, Value string }

// tagging is the document of tags.
type tagging struct {
	XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Tagging"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

// sortedTags returns tags in the order of their keys.
func sortedTags(tags map[string]string) []tag {
	out := make([]tag, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		out = append(out, tag{key, tags[key]})
	}
	return out
}

// Tags returns the tags of an object, or of a version of it. An object without tags has an empty map.
func (c *Client) Tags(ctx context.Context, bucket string, id ObjectID) (map[string]string, error) {
	q, err := tagCall("Tags", http.MethodGet, bucket, id)
	if err != nil {
		return nil, err
	}
	return c.w.readTags(ctx, q)
}

// SetTags replaces the tags of an object, or of a version of it.
func (c *Client) SetTags(ctx context.Context, bucket string, id ObjectID, tags map[string]string) error {
	q, err := tagCall("SetTags", http.MethodPut, bucket, id)
	if err != nil {
		return err
	}
	return c.w.write(ctx, q, tagging{Tags: sortedTags(tags)})
}

// DeleteTags removes the tags of an object, or of a version of it.
func (c *Client) DeleteTags(ctx context.Context, bucket string, id ObjectID) error {
	q, err := tagCall("DeleteTags", http.MethodDelete, bucket, id)
	if err != nil {
		return err
	}
	_, err = c.w.do(ctx, q)
	return err
}

// BucketTags returns the tags of a bucket. A bucket without tags has an empty map.
func (c *Client) BucketTags(ctx context.Context, bucket string) (map[string]string, error) {
	tags, err := c.w.readTags(ctx, &call{op: "BucketTags", method: http.MethodGet, bucket: bucket, query: new(query).flag("tagging").String()})
	if errors.Is(err, ErrNoSuchConfiguration) {
		return map[string]string{}, nil
	}
	return tags, err
}

// SetBucketTags replaces the tags of a bucket; none removes them.
func (c *Client) SetBucketTags(ctx context.Context, bucket string, tags map[string]string) error {
	q := &call{op: "SetBucketTags", method: http.MethodPut, bucket: bucket, write: true, query: new(query).flag("tagging").String()}
	if len(tags) == 0 {
		q.method = http.MethodDelete
		_, err := c.w.do(ctx, q)
		return err
	}
	return c.w.write(ctx, q, tagging{Tags: sortedTags(tags)})
}

// tagCall returns a call for the tags of an object.
func tagCall(op, method, bucket string, id ObjectID) (*call, error) {
	return subresource(op, method, bucket, id, "tagging")
}

// subresource returns a call for a sub-resource of an object.
func subresource(op, method, bucket string, id ObjectID, name string) (*call, error) {
	if id.Key == "" {
		return nil, argument(op, bucket, id.Key, "the key is empty")
	}
	return &call{op: op, method: method, bucket: bucket, key: id.Key, write: method != http.MethodGet, version: id.VersionID != "",
		query: new(query).flag(name).set("versionId", id.VersionID).String()}, nil
}

// readTags reads the document of tags.
func (w *wire) readTags(ctx context.Context, q *call) (map[string]string, error) {
	var doc struct {
		XMLName xml.Name `xml:"Tagging"`
		Tags    []tag    `xml:"TagSet>Tag"`
	}
	if err := w.read(ctx, q, &doc); err != nil {
		return nil, err
	}
	tags := make(map[string]string, len(doc.Tags))
	for _, t := range doc.Tags {
		tags[t.Key] = t.Value
	}
	return tags, nil
}

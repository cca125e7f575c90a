package tree

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"

	"orcas/sdk"
)

// copyMax is the size in bytes of the largest object that CopyObject copies.
const copyMax = 5 << 30

// copyInside lets the server copy an object.
func (w *worker) copyInside(ctx context.Context, t *task, id sdk.ObjectID, more map[string]string) (*sdk.Written, error) {
	h := http.Header{}
	source := "/" + (&url.URL{Path: w.from.bucket + "/" + id.Key}).EscapedPath()
	if id.VersionID != "" {
		source += "?versionId=" + url.QueryEscape(id.VersionID)
	}
	h.Set("X-Amz-Copy-Source", source)
	if t.path != t.from.path {
		h.Set("If-None-Match", "*")
	}
	q := &sdk.Request{Method: http.MethodPut, Path: "/" + w.to.bucket + "/" + w.to.prefix + t.path, Header: h}
	r, err := w.to.client.Fetch(ctx, q)
	if err != nil {
		return nil, err
	}
	var doc struct {
		XMLName xml.Name
		ETag    string
	}
	if err := xml.Unmarshal(r.Body, &doc); r.Status != http.StatusOK || err != nil || doc.XMLName.Local != "CopyObjectResult" {
		code := r.Code()
		if code == "" && r.Status == http.StatusForbidden {
			code = "AccessDenied"
		}
		return nil, &sdk.Error{Op: "Copy", Bucket: w.to.bucket, Key: w.to.prefix + t.path, Code: code, Status: r.Status, Err: err}
	}
	return &sdk.Written{ETag: doc.ETag, VersionID: r.Header.Get("X-Amz-Version-Id")}, nil
}

// tags returns the tags of an object.
func (w *worker) tags(ctx context.Context, id sdk.ObjectID) (map[string]string, error) {
	query := "tagging="
	if id.VersionID != "" {
		query += "&versionId=" + url.QueryEscape(id.VersionID)
	}
	r, err := w.from.client.Fetch(ctx, &sdk.Request{Method: http.MethodGet, Path: "/" + w.from.bucket + "/" + id.Key, Query: query})
	if err != nil {
		return nil, err
	}
	var doc struct {
		Tags []struct{ Key, Value string } `xml:"TagSet>Tag"`
	}
	if r.Status != http.StatusOK {
		return nil, fmt.Errorf("reading the tags: status %d (%s)", r.Status, r.Code())
	}
	if err := xml.Unmarshal(r.Body, &doc); err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, t := range doc.Tags {
		tags[t.Key] = t.Value
	}
	return tags, nil
}

package sdk

import (
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"time"
)

// Retention returns the mode of the retention of an object or version, and when it ends. If there is none, mode is "".
func (c *Client) Retention(ctx context.Context, bucket string, id ObjectID) (mode string, until time.Time, err error) {
	q, err := subresource("Retention", http.MethodGet, bucket, id, "retention")
	if err != nil {
		return "", time.Time{}, err
	}
	var doc struct {
		XMLName         xml.Name `xml:"Retention"`
		Mode            string
		RetainUntilDate time.Time
	}
	if err := c.w.read(ctx, q, &doc); errors.Is(err, ErrNoSuchConfiguration) {
		return "", time.Time{}, nil
	} else if err != nil {
		return "", time.Time{}, err
	}
	return doc.Mode, doc.RetainUntilDate, nil
}

// SetRetention sets the retention of an object or version. An empty mode removes one of the mode GOVERNANCE. Shortening
// it needs bypassGovernance and the permission for that.
func (c *Client) SetRetention(ctx context.Context, bucket string, id ObjectID, mode string, until time.Time, bypassGovernance bool) error {
	q, err := subresource("SetRetention", http.MethodPut, bucket, id, "retention")
	if err != nil {
		return err
	}
	if bypassGovernance {
		q.header = http.Header{"X-Amz-Bypass-Governance-Retention": {"true"}}
	}
	doc := struct {
		XMLName         xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ Retention"`
		Mode            string   `xml:",omitempty"`
		RetainUntilDate string   `xml:",omitempty"`
	}{Mode: mode}
	if mode != "" {
		doc.RetainUntilDate = formatTime(until)
	}
	return c.w.write(ctx, q, doc)
}

// LegalHold reports whether an object or version has a legal hold.
func (c *Client) LegalHold(ctx context.Context, bucket string, id ObjectID) (on bool, err error) {
	q, err := subresource("LegalHold", http.MethodGet, bucket, id, "legal-hold")
	if err != nil {
		return false, err
	}
	var doc struct {
		XMLName xml.Name `xml:"LegalHold"`
		Status  string
	}
	err = c.w.read(ctx, q, &doc)
	if errors.Is(err, ErrNoSuchConfiguration) {
		return false, nil
	}
	return doc.Status == "ON", err
}

// SetLegalHold sets or removes the legal hold of an object or version.
func (c *Client) SetLegalHold(ctx context.Context, bucket string, id ObjectID, on bool) error {
	q, err := subresource("SetLegalHold", http.MethodPut, bucket, id, "legal-hold")
	if err != nil {
		return err
	}
	status := "OFF"
	if on {
		status = "ON"
	}
	return c.w.write(ctx, q, struct {
		XMLName xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ LegalHold"`
		Status  string
	}{Status: status})
}

package s3

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"orcas/core"
	"orcas/lifecycle"
)

// minimumSizeHeader says below which size objects do not change their storage class. None does here, so it is only told again.
const minimumSizeHeader = "X-Amz-Transition-Default-Minimum-Object-Size"

// minimumSizes are its values, the default first.
var minimumSizes = []string{"all_storage_classes_128K", "varies_by_storage_class"}

func (q *request) getLifecycle() error {
	c, err := q.s.lifecycles.Of(q.bucket)
	if err != nil {
		return err
	}
	if c == nil {
		return errNoLifecycle
	}
	q.setMinimumSize(c)
	x := q.s.document()
	defer q.s.release(x)
	x.begin("LifecycleConfiguration")
	for i := range c.Rules {
		x.rule(&c.Rules[i])
	}
	x.close("LifecycleConfiguration")
	q.sendXML(http.StatusOK, x)
	return nil
}

func (q *request) putLifecycle() error {
	doc, err := q.readConfiguration()
	if err != nil {
		return err
	}
	c, err := parseLifecycle(doc)
	if err != nil {
		return err
	}
	if c.MinimumSize = first(q.r.Header, minimumSizeHeader); c.MinimumSize != "" && !slices.Contains(minimumSizes, c.MinimumSize) {
		return errInvalidRequest.say("Invalid TransitionDefaultMinimumObjectSize found: " + c.MinimumSize)
	}
	if err := q.updateBucket(func(b *core.BucketInfo) error { return lifecycle.Set(b, c) }); err != nil {
		return err
	}
	q.setMinimumSize(c)
	q.sendEmpty(http.StatusOK)
	return nil
}

func (q *request) setMinimumSize(c *lifecycle.Config) {
	value := c.MinimumSize
	if value == "" {
		value = minimumSizes[0]
	}
	q.set(minimumSizeHeader, value)
}

func (q *request) deleteLifecycle() error {
	if c, err := q.s.lifecycles.Of(q.bucket); c != nil || err != nil {
		if err := q.updateBucket(func(b *core.BucketInfo) error { return lifecycle.Set(b, nil) }); err != nil {
			return err
		}
	}
	q.sendEmpty(http.StatusNoContent)
	return nil
}

// setExpiration tells when a current version expires, and by which rule. Where a version is named, S3 does not say.
func (q *request) setExpiration(o *core.ObjectInfo) {
	c, err := q.s.lifecycles.Of(q.bucket)
	if c == nil || err != nil { // what cannot be read expires nothing, and is the worker's to complain of
		return
	}
	if _, named := q.query.get("versionId"); named {
		return
	}
	if at, rule, ok := c.Expires(o, q.s.day); ok {
		q.set("X-Amz-Expiration", `expiry-date="`+at.UTC().Format(http.TimeFormat)+`", rule-id="`+headerText(rule)+`"`)
	}
}

// setAbort tells when an upload is aborted that was begun at a time, and by which rule.
func (q *request) setAbort(begun time.Time) {
	c, err := q.s.lifecycles.Of(q.bucket)
	if c == nil || err != nil {
		return
	}
	if at, rule, ok := c.Aborts(q.key, begun, q.s.day); ok {
		q.set("X-Amz-Abort-Date", at.UTC().Format(http.TimeFormat))
		q.set("X-Amz-Abort-Rule-Id", headerText(rule))
	}
}

// headerText returns the ID of a rule as S3 writes it into a header: as it is, but for what a header, or its quotes, cannot hold.
func headerText(id string) string {
	var b strings.Builder
	for i := 0; i < len(id); i++ {
		if c := id[i]; c < ' ' || c > '~' || c == '"' || c == '%' {
			b.WriteString(url.QueryEscape(id[i : i+1]))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

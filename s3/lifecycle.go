package s3

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"orcas/core"
	"orcas/lifecycle"
	"orcas/s3/lifecycledoc"
	"orcas/s3/xmldoc"
)

// minimumSizeHeader sets the size below which objects do not change their storage class. ORCAS never changes the
// storage class of an object, so it only stores and returns the value.
const minimumSizeHeader = "X-Amz-Transition-Default-Minimum-Object-Size"

// minimumSizes are the allowed values of that header, the default first.
var minimumSizes = []string{"all_storage_classes_128K", "varies_by_storage_class"}

func getLifecycle(q *request, x *xmldoc.Writer) error {
	c, err := q.s.lifecycles.Of(q.bucket)
	if err != nil {
		return err
	}
	if c == nil {
		return errNoLifecycle
	}
	setMinimumSize(q, c)
	lifecycledoc.Write(x, c)
	return nil
}

func putLifecycle(q *request) error {
	doc, err := readConfiguration(q)
	if err != nil {
		return err
	}
	c, err := lifecycledoc.Parse(doc)
	if err != nil {
		return err
	}
	if c.MinimumSize = first(q.r.Header, minimumSizeHeader); c.MinimumSize != "" && !slices.Contains(minimumSizes, c.MinimumSize) {
		return errInvalidRequest.Say("Invalid TransitionDefaultMinimumObjectSize found: " + c.MinimumSize)
	}
	if err := updateBucket(q, func(b *core.BucketInfo) error { return lifecycle.Set(b, c) }); err != nil {
		return err
	}
	setMinimumSize(q, c)
	return nil
}

func setMinimumSize(q *request, c *lifecycle.Config) {
	q.set(minimumSizeHeader, cmp.Or(c.MinimumSize, minimumSizes[0]))
}

func deleteLifecycle(q *request) error {
	if c, err := q.s.lifecycles.Of(q.bucket); c == nil && err == nil {
		return nil
	}
	return updateBucket(q, func(b *core.BucketInfo) error { return lifecycle.Set(b, nil) })
}

// setExpiration sets the header with the time at which a current version expires and the rule that applies. As in S3,
// it does so only if the request does not specify a version. It counts real days, even if the worker is configured with
// shorter days for a test.
func setExpiration(q *request, o *core.ObjectInfo) {
	c, err := q.s.lifecycles.Of(q.bucket)
	if c == nil || err != nil { // the worker reports a lifecycle that cannot be read
		return
	}
	if _, named := q.query.get("versionId"); named {
		return
	}
	if at, rule, ok := c.Expires(o, lifecycle.Day); ok {
		q.set("X-Amz-Expiration", `expiry-date="`+at.UTC().Format(http.TimeFormat)+`", rule-id="`+headerText(rule)+`"`)
	}
}

// setAbort sets the headers with the time at which an upload that began at begun is aborted and the rule that applies.
// It also counts real days.
func setAbort(q *request, begun time.Time) {
	c, err := q.s.lifecycles.Of(q.bucket)
	if c == nil || err != nil {
		return
	}
	if at, rule, ok := c.Aborts(q.key, begun, lifecycle.Day); ok {
		q.set("X-Amz-Abort-Date", at.UTC().Format(http.TimeFormat))
		q.set("X-Amz-Abort-Rule-Id", headerText(rule))
	}
}

// headerText encodes the ID of a rule for a header as S3 does: characters that are not allowed in a quoted header value
// are percent-encoded.
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

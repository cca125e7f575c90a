package s3_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orcas/s3"
)

// elsewhere lists operations that cannot be recognized by their path on an S3 endpoint.
var elsewhere = []string{"WriteGetObjectResponse", "ListDirectoryBuckets"}

// The server refuses the operations and headers that docs/s3.md lists as not served, and accepts those that it lists as
// served.
func TestDocsAndServerAgree(t *testing.T) {
	w := newWorld(t)
	w.bucket("bucket")
	w.put("/bucket/key", "content")
	docs := s3.ReadDocs(t)
	// Values with which these headers have an effect.
	values := map[string]string{
		"If-Match": `"x"`, "If-None-Match": "*", "x-amz-copy-source": "/bucket/key", "x-amz-expected-bucket-owner": account,
		"x-amz-bucket-object-lock-enabled": "true", "x-amz-acl": "public-read", "x-amz-object-ownership": "ObjectWriter",
	}
	send := func(o *s3.Operation, name string) *response {
		var headers []string
		if slices.Contains(o.Needed, "x-amz-copy-source") {
			headers = append(headers, "x-amz-copy-source", "/bucket/absent")
		}
		if name != "" && name != "x-amz-copy-source" && name != "Content-Length" {
			v := values[name]
			if v == "" {
				v = "x"
			}
			headers = append(headers, name, v)
		}
		return w.do(o.Method, o.Target("bucket", "absent"), nil, headers...)
	}
	for _, o := range s3.Model(t) {
		if slices.Contains(elsewhere, o.Name) {
			continue
		}
		_, served := docs.Row("Operations", o.Name)
		if served == "no" {
			require.Equal(t, 501, send(&o, "").status, o.Name)
			continue
		}
		if o.Name == "DeleteBucket" { // the others need it
			continue
		}
		for _, name := range o.Headers {
			row, supported := docs.Row("Request headers", name)
			a := send(&o, name)
			refused := a.status == 501 && (o.Method == "HEAD" || strings.Contains(string(a.body), "The header "+strings.ToLower(name)))
			switch supported {
			case "no":
				require.Equal(t, 501, a.status, "%s: %s (%s) is ignored: %s", o.Name, name, row, a.body)
			case "yes":
				require.False(t, refused, "%s: %s (%s) is refused", o.Name, name, row)
			case "partly":
				require.GreaterOrEqual(t, a.status, 400, "%s: %s (%s)", o.Name, name, row)
			}
		}
	}
}

package identity

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// Access is what a Grant allows.
type Access string

// The kinds of access.
const (
	Read      Access = "read"
	Write     Access = "write"
	ReadWrite Access = "readwrite"
)

// Grant is access to the keys with a prefix in a bucket. It is the short form of the policy of an application key.
type Grant struct {
	Bucket   string `json:"bucket"`
	Prefix   string `json:"prefix,omitempty"`
	Access   Access `json:"access"`
	NoDelete bool   `json:"no_delete,omitempty"` // without the right to delete, which Write and ReadWrite include
}

// maxPrefix is the maximum length of a prefix in bytes: that of a key.
const maxPrefix = 1024

// Check returns an error if the grant is not valid.
func (g *Grant) Check() error {
	switch {
	case g.Bucket == "" || strings.ContainsAny(g.Bucket, "*?$/"):
		return fail(Invalid, "%q is not the name of a bucket", g.Bucket)
	case g.Access != Read && g.Access != Write && g.Access != ReadWrite:
		return fail(Invalid, "the access must be read, write or readwrite, not %q", g.Access)
	case g.NoDelete && g.Access == Read:
		return fail(Invalid, "access to read does not include the right to delete, so there is nothing to leave out")
	case len(g.Prefix) > maxPrefix || !utf8.ValidString(g.Prefix) || strings.ContainsRune(g.Prefix, 0):
		return fail(Invalid, "the prefix must be UTF-8 text of at most %d bytes, without NUL", maxPrefix)
	case strings.HasPrefix(g.Prefix, "/"):
		return fail(Invalid, "the prefix begins with a slash, but keys do not: use %q", strings.TrimLeft(g.Prefix, "/"))
	}
	return nil
}

// The actions of a grant on objects, on listings with the prefix, and on the bucket.
var (
	readActions = []string{
		"s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectAttributes", "s3:GetObjectVersionAttributes",
		"s3:GetObjectTagging", "s3:GetObjectVersionTagging", "s3:GetObjectRetention", "s3:GetObjectLegalHold",
	}
	writeActions = []string{
		"s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:PutObjectTagging",
		"s3:PutObjectVersionTagging", "s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging",
	}
	deleteActions = []string{"s3:DeleteObject", "s3:DeleteObjectVersion"}
	readLists     = []string{"s3:ListBucket", "s3:ListBucketVersions"}
	writeLists    = []string{"s3:ListBucketMultipartUploads"}
	bucketActions = []string{"s3:GetBucketLocation", "s3:GetBucketVersioning", "s3:GetBucketObjectLockConfiguration"}
)

// Document returns the policy of a grant.
//
// Keys with the prefix are those that begin with it, as in a listing. A listing must have that prefix or a longer one:
// with "photos" instead of "photos/", it would also show that there are keys like "photos-of-2026/1.jpg".
func (g *Grant) Document() string {
	type statement struct {
		Sid       string
		Effect    string
		Action    []string
		Resource  string
		Condition map[string]map[string][]string `json:",omitempty"`
	}
	var objects, lists []string
	if g.Access != Write {
		objects, lists = slices.Concat(objects, readActions), slices.Concat(lists, readLists)
	}
	if g.Access != Read {
		objects, lists = slices.Concat(objects, writeActions), slices.Concat(lists, writeLists)
		if !g.NoDelete {
			objects = slices.Concat(objects, deleteActions)
		}
	}
	bucket, prefix := "arn:aws:s3:::"+g.Bucket, literal(g.Prefix)
	list := statement{Sid: "List", Effect: "Allow", Action: lists, Resource: bucket}
	if g.Prefix != "" {
		list.Condition = map[string]map[string][]string{"StringLike": {"s3:prefix": {prefix + "*"}}}
	}
	statements := []statement{
		{Sid: "Objects", Effect: "Allow", Action: objects, Resource: bucket + "/" + prefix + "*"},
		list,
		{Sid: "Bucket", Effect: "Allow", Action: bucketActions, Resource: bucket},
	}
	document, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
	if err != nil {
		panic(err) // texts can always be encoded
	}
	return string(document)
}

// literal returns the pattern that matches exactly a text: without it, the prefix "*" would match every key.
func literal(text string) string {
	return strings.NewReplacer("$", "${$}", "*", "${*}", "?", "${?}").Replace(text)
}

package policy

import (
	"maps"
	"slices"
	"sync"
)

// builtIn are the documents of the policies that every server has. None of them gives a right that could be used to
// obtain more rights, except admin.
var builtIn = map[string]string{
	"readonly": `{"Version": "2012-10-17", "Statement": [
		{"Sid": "Read", "Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"}
	]}`,

	"writeonly": `{"Version": "2012-10-17", "Statement": [
		{"Sid": "Write", "Effect": "Allow", "Action": [
			"s3:GetBucketLocation", "s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload",
			"s3:ListBucketMultipartUploads", "s3:ListMultipartUploadParts"
		], "Resource": "*"}
	]}`,

	"readwrite": `{"Version": "2012-10-17", "Statement": [
		{"Sid": "Read", "Effect": "Allow", "Action": ["s3:Get*", "s3:List*"], "Resource": "*"},
		{"Sid": "Write", "Effect": "Allow", "Action": [
			"s3:PutObject", "s3:PutObjectTagging", "s3:PutObjectVersionTagging", "s3:AbortMultipartUpload",
			"s3:DeleteObject", "s3:DeleteObjectVersion", "s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging"
		], "Resource": "*"}
	]}`,

	"admin": `{"Version": "2012-10-17", "Statement": [
		{"Sid": "Everything", "Effect": "Allow", "Action": "*", "Resource": "*"}
	]}`,
}

// compiled are the compiled documents of builtIn.
var compiled = sync.OnceValue(func() map[string]*Policy {
	all := make(map[string]*Policy, len(builtIn))
	for name, document := range builtIn {
		p, err := Parse([]byte(document), Source{Name: name})
		if err != nil {
			panic("policy: " + name + ": " + err.Error()) // TestBuiltIn parses the same documents
		}
		all[name] = p
	}
	return all
})

// BuiltIn returns the built-in policy with a name (readonly, readwrite, writeonly or admin), or nil.
func BuiltIn(name string) *Policy { return compiled()[name] }

// BuiltIns returns the names of the built-in policies.
func BuiltIns() []string { return slices.Sorted(maps.Keys(builtIn)) }

// BuiltInDocument returns the document of a built-in policy, or "".
func BuiltInDocument(name string) string { return builtIn[name] }

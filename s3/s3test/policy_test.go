package s3test

import (
	"fmt"
	"strings"
	"time"
)

// stmt returns a statement about everyone and the bucket of the case. resource is "" for the bucket or begins with "/",
// more is inserted before the end of the statement.
func stmt(t *T, effect, action, resource, more string) string {
	t.Helper()
	return fmt.Sprintf(`{"Effect": %q, "Principal": "*", "Action": %q, "Resource": "arn:aws:s3:::%s%s"%s}`,
		effect, action, t.bucket(), resource, more)
}

// policyWith returns a policy with these statements.
func policyWith(statements ...string) string {
	return `{"Version": "2012-10-17", "Statement": [` + strings.Join(statements, ", ") + `]}`
}

// tryPolicy sends PutBucketPolicy.
func tryPolicy(t *T, doc string) *response {
	t.Helper()
	return t.try("?policy", doc, contentMD5(doc))
}

// setPolicy sets the policy of the bucket.
func setPolicy(t *T, statements ...string) {
	t.Helper()
	tryPolicy(t, policyWith(statements...)).ok(204)
}

// setBlock sets the public access block of the bucket to the named settings.
func setBlock(t *T, names ...string) {
	t.Helper()
	doc := ""
	for _, n := range names {
		doc += "<" + n + ">true</" + n + ">"
	}
	doc = "<PublicAccessBlockConfiguration>" + doc + "</PublicAccessBlockConfiguration>"
	t.try("?publicAccessBlock", doc, contentMD5(doc)).ok(200)
}

// openTo removes the public access block of the bucket, and sets its policy.
func openTo(t *T, statements ...string) {
	t.Helper()
	t.del("?publicAccessBlock").ok(204)
	setPolicy(t, statements...)
}

// publicly sends a request without a signature.
func publicly(t *T, method, ref string, body any, headers ...string) *response {
	t.Helper()
	return t.send(t.request(method, ref, body, headers...))
}

// readable returns the statement that everyone may read all objects.
func readable(t *T) string { return stmt(t, "Allow", "s3:GetObject", "/*", "") }

// badPolicy returns the rule that a policy that is changed by replacing text fails with MalformedPolicy.
func badPolicy(named, says, old, with string) rule {
	return rule{"malformed-" + named, says + " fails with MalformedPolicy", func(t *T) {
		doc := policyWith(readable(t))
		changed := strings.Replace(doc, old, strings.ReplaceAll(with, "BUCKET", t.bucket()), 1)
		t.must(changed != doc, "the text does not occur")
		tryPolicy(t, changed).fail(400, "MalformedPolicy")
		t.get("?policy").fail(404, "NoSuchBucketPolicy")
	}}
}

// deniedIf returns the rule that a Deny with a condition applies to one request, and not to another.
func deniedIf(named, says, action, resource, condition string, denied, allowed func(t *T) *response) rule {
	return rule{"condition-" + named, says, func(t *T) {
		t.put("red", "content", "x-amz-tagging: team=red")
		t.put("blue", "content", "x-amz-tagging: team=blue")
		setPolicy(t, stmt(t, "Deny", action, resource, `, "Condition": `+condition))
		denied(t).fail(403, "AccessDenied")
		a := allowed(t)
		a.expect(a.status < 300, "status %d", a.status)
	}}
}

// doing returns a function that sends a request with an empty body or, for PUT, with content.
func doing(method, ref string, headers ...string) func(t *T) *response {
	return func(t *T) *response {
		var body any
		if method == "PUT" && !strings.Contains(strings.Join(headers, ""), "-source: ") {
			body = "content"
		}
		return t.do(method, ref, body, headers...)
	}
}

// copying returns a function that copies a key within the bucket.
func copying(from, to string, headers ...string) func(t *T) *response {
	return func(t *T) *response {
		return t.try(to, nil, append(headers, "x-amz-copy-source: /"+t.bucket()+"/"+from)...)
	}
}

var policies = area{"policy", []rule{
	{"returned", "GetBucketPolicy returns the document, as JSON", func(t *T) {
		openTo(t, readable(t))
		a := t.get("?policy").ok(200).has("Content-Type", "application/json")
		for _, part := range []string{`"s3:GetObject"`, `"Allow"`, "arn:aws:s3:::" + t.bucket() + "/*"} {
			a.expect(strings.Contains(a.body, part), "%s is missing in %s", part, a.body)
		}
	}},
	{"replaced", "a policy replaces the one before", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		setPolicy(t, stmt(t, "Allow", "s3:GetObject", "/other", ""))
		publicly(t, "GET", "key", nil).fail(403, "AccessDenied")
	}},
	{"deleted", "DeleteBucketPolicy removes the policy and its effect", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		t.del("?policy").ok(204)
		t.get("?policy").fail(404, "NoSuchBucketPolicy")
		publicly(t, "GET", "key", nil).fail(403, "AccessDenied")
	}},
	{"deleted-with-bucket", "a policy is deleted with its bucket", func(t *T) {
		openTo(t, readable(t))
		t.del("").ok(204)
		t.put("", t.locationBody())
		t.get("?policy").fail(404, "NoSuchBucketPolicy")
	}},
	{"wrong-md5-of-policy", "a policy with a wrong Content-MD5 fails with BadDigest and is not stored", func(t *T) {
		t.bucket()
		t.try("?policy", policyWith(stmt(t, "Deny", "s3:GetObject", "/*", "")), contentMD5("else")).fail(400, "BadDigest")
		t.get("?policy").fail(404, "NoSuchBucketPolicy")
	}},
	{"empty-body", "PutBucketPolicy without a body is refused", func(t *T) {
		a := t.try("?policy", nil)
		a.expect(a.status == 400, "status %d", a.status)
	}},
	badPolicy("json", "a policy that is not JSON", `{"Version"`, `{Version`),
	badPolicy("version", "a policy with an unknown Version", "2012-10-17", "2013-10-17"),
	badPolicy("effect", "a policy with an unknown Effect", `"Allow"`, `"Permit"`),
	badPolicy("action", "a policy with an unknown action", "s3:GetObject", "s3:FetchObject"),
	badPolicy("action-of-another-service", "a policy with an action of another service", "s3:GetObject", "iam:CreateUser"),
	badPolicy("action-and-resource", "a policy with an action that does not apply to its resource", `/*"`, `"`),
	badPolicy("resource", "a policy about another bucket", "arn:aws:s3:::", "arn:aws:s3:::x"),
	badPolicy("no-principal", "a policy without a principal", `"Principal": "*",`, ``),
	badPolicy("principal", "a policy with an invalid principal", `"Principal": "*"`, `"Principal": {"AWS": "somebody"}`),
	badPolicy("operator", "a policy with an unknown condition operator", `"Effect"`, `"Condition": {"TextEquals": {"aws:UserAgent": "a"}}, "Effect"`),
	badPolicy("key", "a policy with an unknown condition key", `"Effect"`, `"Condition": {"StringEquals": {"s3:color": "red"}}, "Effect"`),
	badPolicy("key-of-action", "a policy with a condition key that does not apply to its action", `"Effect"`,
		`"Condition": {"StringEquals": {"s3:prefix": "a"}}, "Effect"`),
	badPolicy("no-statement", "a policy without statements", `"Statement": [`, `"Statement": [], "Id": [`),
	{"malformed-message", "the message of MalformedPolicy names what is wrong", func(t *T) {
		t.bucket()
		a := tryPolicy(t, policyWith(stmt(t, "Allow", "s3:Nothing", "/*", ""))).fail(400, "MalformedPolicy")
		a.expect(a.text("Message") != "", "no message")
	}},
	{"malformed-keeps", "a malformed policy does not replace the policy of the bucket", func(t *T) {
		setPolicy(t, stmt(t, "Deny", "s3:GetObject", "/secret", ""))
		t.put("secret", "content")
		tryPolicy(t, "{").fail(400, "MalformedPolicy")
		t.get("secret").fail(403, "AccessDenied")
	}},
	{"too-large", "a policy of more than 20 KiB is refused", func(t *T) {
		t.bucket()
		doc := policyWith(stmt(t, "Deny", "s3:GetObject", "/"+strings.Repeat("a", 21<<10), ""))
		a := tryPolicy(t, doc)
		a.expect(a.status == 400, "status %d", a.status)
	}},

	{"public-get", "a policy can allow everyone to read objects", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		a := publicly(t, "GET", "key", nil).ok(200)
		a.expect(a.body == "content", "%q", a.body)
		publicly(t, "HEAD", "key", nil).ok(200)
	}},
	{"public-get-only", "a policy that allows reading objects allows nothing else", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		publicly(t, "GET", "", nil).fail(403, "AccessDenied")
		publicly(t, "PUT", "key", "new").fail(403, "AccessDenied")
		publicly(t, "DELETE", "key", nil).fail(403, "AccessDenied")
		publicly(t, "GET", "key?tagging", nil).fail(403, "AccessDenied")
		publicly(t, "GET", "key?acl", nil).fail(403, "AccessDenied")
		publicly(t, "GET", "?policy", nil).fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"public-prefix", "a policy can be limited to a prefix", func(t *T) {
		t.put("public/key", "content")
		t.put("private/key", "content")
		openTo(t, stmt(t, "Allow", "s3:GetObject", "/public/*", ""))
		publicly(t, "GET", "public/key", nil).ok(200)
		publicly(t, "GET", "private/key", nil).fail(403, "AccessDenied")
	}},
	{"public-list", "a policy can allow everyone to list a prefix", func(t *T) {
		t.fill("home/a", "other")
		openTo(t, stmt(t, "Allow", "s3:ListBucket", "", `, "Condition": {"StringLike": {"s3:prefix": "home/*"}}`))
		publicly(t, "GET", "?list-type=2&prefix=home/", nil).ok(200).eq("Contents/Key", "home/a")
		publicly(t, "GET", "?list-type=2&prefix=oth", nil).fail(403, "AccessDenied")
		publicly(t, "GET", "?list-type=2", nil).fail(403, "AccessDenied")
	}},
	{"public-put", "a policy can allow everyone to write objects", func(t *T) {
		openTo(t, stmt(t, "Allow", "s3:PutObject", "/in/*", ""))
		publicly(t, "PUT", "in/key", "content").ok(200)
		publicly(t, "PUT", "key", "content").fail(403, "AccessDenied")
		t.holds("in/key", "content")
		t.gone("key")
	}},
	{"public-put-tags", "writing tags with an object needs s3:PutObjectTagging", func(t *T) {
		openTo(t, stmt(t, "Allow", "s3:PutObject", "/*", ""))
		publicly(t, "PUT", "key", "content", "x-amz-tagging: a=b").fail(403, "AccessDenied")
		setPolicy(t, stmt(t, "Allow", "s3:PutObject", "/*", ""), stmt(t, "Allow", "s3:PutObjectTagging", "/*", ""))
		publicly(t, "PUT", "key", "content", "x-amz-tagging: a=b").ok(200)
	}},
	{"public-upload", "anonymous callers cannot begin a multipart upload", func(t *T) {
		openTo(t, stmt(t, "Allow", "s3:*", "/*", ""))
		publicly(t, "POST", "key?uploads", nil).fail(403, "AccessDenied")
	}},
	{"public-response-headers", "anonymous requests cannot have response-* parameters", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		publicly(t, "GET", "key?response-content-type=text/html", nil).fail(400, "InvalidRequest")
	}},
	{"public-version", "reading a version needs s3:GetObjectVersion", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		openTo(t, readable(t))
		publicly(t, "GET", "key?versionId="+id, nil).fail(403, "AccessDenied")
		setPolicy(t, stmt(t, "Allow", "s3:GetObjectVersion", "/*", ""))
		publicly(t, "GET", "key?versionId="+id, nil).ok(200)
		publicly(t, "GET", "key", nil).fail(403, "AccessDenied")
	}},
	{"public-attributes", "GetObjectAttributes needs s3:GetObject, too", func(t *T) {
		t.put("key", "content")
		only := stmt(t, "Allow", "s3:GetObjectAttributes", "/*", "")
		openTo(t, only)
		publicly(t, "GET", "key?attributes", nil, "x-amz-object-attributes: ETag").fail(403, "AccessDenied")
		setPolicy(t, only, readable(t))
		publicly(t, "GET", "key?attributes", nil, "x-amz-object-attributes: ETag").ok(200)
	}},
	{"absent-concealed", "a key that does not exist is AccessDenied without s3:ListBucket", func(t *T) {
		openTo(t, readable(t))
		publicly(t, "GET", "absent", nil).fail(403, "AccessDenied")
		publicly(t, "HEAD", "absent", nil).fail(403, "")
	}},
	{"absent-listed", "a key that does not exist is NoSuchKey with s3:ListBucket", func(t *T) {
		openTo(t, readable(t), stmt(t, "Allow", "s3:ListBucket", "", ""))
		publicly(t, "GET", "absent", nil).fail(404, "NoSuchKey")
		publicly(t, "HEAD", "absent", nil).fail(404, "")
	}},
	{"absent-marker", "a delete marker is concealed without s3:ListBucket", func(t *T) {
		t.versioned()
		t.version("key", "one")
		t.mark("key")
		openTo(t, readable(t))
		a := publicly(t, "GET", "key", nil).fail(403, "AccessDenied")
		a.expect(a.header.Get("x-amz-delete-marker") == "", "the marker is shown")
	}},
	{"write-if-match", "a write with If-Match and an ETag needs s3:GetObject", func(t *T) {
		etag := t.put("key", "content").header.Get("ETag")
		writes := stmt(t, "Allow", "s3:PutObject", "/*", "")
		openTo(t, writes)
		publicly(t, "PUT", "key", "new", "If-Match: "+etag).fail(403, "AccessDenied")
		setPolicy(t, writes, readable(t))
		publicly(t, "PUT", "key", "new", "If-Match: "+etag).ok(200)
	}},
	{"delete-objects", "DeleteObjects decides about each key", func(t *T) {
		t.fill("in/a", "out/a")
		openTo(t, stmt(t, "Allow", "s3:DeleteObject", "/in/*", ""))
		doc := "<Delete><Object><Key>in/a</Key></Object><Object><Key>out/a</Key></Object></Delete>"
		publicly(t, "POST", "?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/Key", "in/a").eq("Error/Key", "out/a").
			eq("Error/Code", "AccessDenied")
		t.gone("in/a")
		t.get("out/a").ok(200)
	}},
	{"delete-objects-versions", "DeleteObjects needs s3:DeleteObjectVersion for an entry with a version", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		doc := "<Delete><Object><Key>key</Key><VersionId>" + id + "</VersionId></Object></Delete>"
		openTo(t, stmt(t, "Allow", "s3:DeleteObject", "/*", ""))
		publicly(t, "POST", "?delete", doc, contentMD5(doc)).ok(200).eq("Error/Code", "AccessDenied")
		setPolicy(t, stmt(t, "Allow", "s3:DeleteObjectVersion", "/*", ""))
		publicly(t, "POST", "?delete", doc, contentMD5(doc)).ok(200).eq("Deleted/VersionId", id)
	}},
	{"copy-source", "a copy needs s3:GetObject on its source", func(t *T) {
		t.put("key", "content")
		writes := stmt(t, "Allow", "s3:PutObject", "/*", "")
		openTo(t, writes)
		publicly(t, "PUT", "copy", nil, "x-amz-copy-source: /"+t.bucket()+"/key").fail(403, "AccessDenied")
		setPolicy(t, writes, readable(t))
		publicly(t, "PUT", "copy", nil, "x-amz-copy-source: /"+t.bucket()+"/key").ok(200)
	}},
	{"copy-tags", "a copy of an object with tags needs the right to read and to write tags", func(t *T) {
		t.put("key", "content", "x-amz-tagging: a=b")
		copies := []string{stmt(t, "Allow", "s3:PutObject", "/*", ""), readable(t)}
		reads, writes := stmt(t, "Allow", "s3:GetObjectTagging", "/*", ""), stmt(t, "Allow", "s3:PutObjectTagging", "/*", "")
		openTo(t, copies...)
		for _, some := range [][]string{copies, append(copies[:2:2], reads), append(copies[:2:2], writes)} {
			setPolicy(t, some...)
			publicly(t, "PUT", "copy", nil, "x-amz-copy-source: /"+t.bucket()+"/key").fail(403, "AccessDenied")
		}
		setPolicy(t, append(copies, reads, writes)...)
		publicly(t, "PUT", "copy", nil, "x-amz-copy-source: /"+t.bucket()+"/key").ok(200)
	}},

	{"deny-owner", "a Deny applies to the root of the bucket's account", func(t *T) {
		t.put("key", "content")
		setPolicy(t, stmt(t, "Deny", "s3:GetObject", "/*", ""))
		t.get("key").fail(403, "AccessDenied")
		t.put("key", "new")
		t.del("?policy").ok(204)
		t.holds("key", "new")
	}},
	{"deny-wins", "a Deny has priority over an Allow", func(t *T) {
		t.put("key", "content")
		t.put("secret", "content")
		openTo(t, stmt(t, "Deny", "s3:GetObject", "/secret", ""), readable(t))
		publicly(t, "GET", "key", nil).ok(200)
		publicly(t, "GET", "secret", nil).fail(403, "AccessDenied")
	}},
	{"deny-presigned", "a Deny applies to presigned URLs", func(t *T) {
		t.put("key", "content")
		url := presign(t, "GET", "key", nil, time.Minute, 0)
		t.send(url).ok(200)
		setPolicy(t, stmt(t, "Deny", "s3:GetObject", "/*", `, "Condition": {"StringEquals": {"s3:authType": "REST-QUERY-STRING"}}`))
		t.send(url).fail(403, "AccessDenied")
		t.get("key").ok(200)
	}},
	{"no-lockout", "the root can replace a policy that denies everything", func(t *T) {
		setPolicy(t, stmt(t, "Deny", "s3:*", "", ""), stmt(t, "Deny", "s3:*", "/*", ""))
		t.get("").fail(403, "AccessDenied")
		t.del("").fail(403, "AccessDenied")
		t.get("?policy").ok(200)
		setPolicy(t, stmt(t, "Deny", "s3:*", "", ""))
		t.del("?policy").ok(204)
		t.get("").ok(200)
	}},
	{"deny-delete-bucket", "a policy can protect a bucket from deletion", func(t *T) {
		setPolicy(t, stmt(t, "Deny", "s3:DeleteBucket", "", ""))
		t.del("").fail(403, "AccessDenied")
		t.head("").ok(200)
		t.del("?policy").ok(204)
	}},

	deniedIf("existing-tag", "a condition can depend on the tags of the object", "s3:GetObject", "/*",
		`{"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`, doing("GET", "red"), doing("GET", "blue")),
	deniedIf("existing-tag-of-source", "a condition can depend on the tags of the source of a copy", "s3:GetObject", "/*",
		`{"StringEquals": {"s3:ExistingObjectTag/team": "red"}}`, copying("red", "copy"), copying("blue", "copy")),
	deniedIf("request-tag", "a condition can depend on the tags in a header", "s3:PutObject", "/*",
		`{"StringEquals": {"s3:RequestObjectTag/team": "red"}}`, doing("PUT", "key", "x-amz-tagging: team=red"),
		doing("PUT", "key", "x-amz-tagging: team=blue")),
	deniedIf("request-tag-keys", "a condition can depend on the keys of tags", "s3:PutObject", "/*",
		`{"ForAnyValue:StringEquals": {"s3:RequestObjectTagKeys": ["secret"]}}`, doing("PUT", "key", "x-amz-tagging: a=1&secret=2"),
		doing("PUT", "key", "x-amz-tagging: a=1")),
	deniedIf("storage-class", "a condition can depend on the storage class", "s3:PutObject", "/*",
		`{"StringNotEquals": {"s3:x-amz-storage-class": "STANDARD_IA"}}`, doing("PUT", "key"),
		doing("PUT", "key", "x-amz-storage-class: STANDARD_IA")),
	deniedIf("if-none-match", "a condition can demand If-None-Match", "s3:PutObject", "/*",
		`{"Null": {"s3:if-none-match": "true"}, "Bool": {"s3:ObjectCreationOperation": "true"}}`, doing("PUT", "key"),
		doing("PUT", "key", "If-None-Match: *")),
	deniedIf("creation", "a condition on creations does not apply to the begin of an upload", "s3:PutObject", "/*",
		`{"Bool": {"s3:ObjectCreationOperation": "true"}}`, doing("PUT", "key"), doing("POST", "key?uploads")),
	deniedIf("copy-source", "a condition can depend on the source of a copy", "s3:PutObject", "/*",
		`{"StringLike": {"s3:x-amz-copy-source": "*/red"}}`, copying("red", "copy"), copying("blue", "copy")),
	deniedIf("copy-source-encoded", "another encoding of the source of a copy does not evade a condition", "s3:PutObject", "/*",
		`{"StringLike": {"s3:x-amz-copy-source": "*/red"}}`, copying("%72ed", "copy"), copying("blue", "copy")),
	deniedIf("prefix", "a condition can depend on the prefix of a listing", "s3:ListBucket", "",
		`{"StringLike": {"s3:prefix": "secret/*"}}`, doing("GET", "?prefix=secret/a"), doing("GET", "?prefix=a")),
	deniedIf("max-keys", "a condition can limit the size of a listing", "s3:ListBucket", "",
		`{"NumericGreaterThanIfExists": {"s3:max-keys": "10"}}`, doing("GET", "?max-keys=11"), doing("GET", "?max-keys=10")),
	deniedIf("user-agent", "a condition can depend on a header", "s3:GetObject", "/*",
		`{"StringLike": {"aws:UserAgent": "bad*"}}`, doing("GET", "red", "User-Agent: bad-1"), doing("GET", "red", "User-Agent: good")),
	{"condition-version", "a condition can depend on the version", func(t *T) {
		t.versioned()
		one, two := t.version("key", "one"), t.version("key", "two")
		setPolicy(t, stmt(t, "Deny", "s3:GetObjectVersion", "/*", `, "Condition": {"StringEquals": {"s3:VersionId": "`+one+`"}}`))
		t.get("key?versionId="+one).fail(403, "AccessDenied")
		t.get("key?versionId=" + two).ok(200)
		t.try("copy", nil, "x-amz-copy-source: /"+t.bucket()+"/key?versionId="+one).fail(403, "AccessDenied")
	}},
	{"condition-retention", "a condition can limit the retention period", func(t *T) {
		t.own = t.newBucket("x-amz-bucket-object-lock-enabled: true")
		setPolicy(t, stmt(t, "Deny", "s3:PutObject", "/*", `, "Condition": {"NumericGreaterThan": {"s3:object-lock-remaining-retention-days": "5"}}`))
		until := time.Now().AddDate(0, 0, 10).UTC().Format(time.RFC3339)
		t.try("key", "content", "x-amz-object-lock-mode: GOVERNANCE", "x-amz-object-lock-retain-until-date: "+until, contentMD5("content")).
			fail(403, "AccessDenied")
		t.put("key", "content")
	}},
}}

var publicAccess = area{"public-access", []rule{
	{"new-bucket", "a new bucket refuses a public policy with AccessDenied", func(t *T) {
		t.bucket()
		tryPolicy(t, policyWith(readable(t))).fail(403, "AccessDenied")
		t.get("?policy").fail(404, "NoSuchBucketPolicy")
	}},
	{"new-bucket-private", "a new bucket accepts a policy that is not public", func(t *T) {
		setPolicy(t, stmt(t, "Deny", "s3:GetObject", "/secret", ""))
	}},
	{"new-bucket-fixed", "a policy for fixed addresses is not public", func(t *T) {
		setPolicy(t, stmt(t, "Allow", "s3:GetObject", "/*", `, "Condition": {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}`))
		t.get("?policyStatus").ok(200).doc("PolicyStatus").eq("IsPublic", "false")
	}},
	{"all-addresses", "a policy for all addresses is public", func(t *T) {
		t.bucket()
		tryPolicy(t, policyWith(stmt(t, "Allow", "s3:GetObject", "/*", `, "Condition": {"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}}`))).
			fail(403, "AccessDenied")
	}},
	{"block-policy", "BlockPublicPolicy alone refuses a public policy", func(t *T) {
		setBlock(t, "BlockPublicPolicy")
		tryPolicy(t, policyWith(readable(t))).fail(403, "AccessDenied")
	}},
	{"block-policy-existing", "BlockPublicPolicy has no effect on a policy that exists", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		setBlock(t, "BlockPublicPolicy")
		publicly(t, "GET", "key", nil).ok(200)
		tryPolicy(t, policyWith(readable(t))).fail(403, "AccessDenied")
	}},
	{"restrict", "RestrictPublicBuckets cancels a public policy for anonymous callers", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		setBlock(t, "RestrictPublicBuckets")
		publicly(t, "GET", "key", nil).fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"restrict-removed", "a public policy takes effect when RestrictPublicBuckets is removed", func(t *T) {
		t.put("key", "content")
		openTo(t, readable(t))
		setBlock(t, "RestrictPublicBuckets")
		t.del("?publicAccessBlock").ok(204)
		publicly(t, "GET", "key", nil).ok(200)
	}},
	{"acl-settings", "the settings of ACLs do not affect policies", func(t *T) {
		t.put("key", "content")
		setBlock(t, "BlockPublicAcls", "IgnorePublicAcls")
		setPolicy(t, readable(t))
		publicly(t, "GET", "key", nil).ok(200)
	}},
	{"restrict-alone", "RestrictPublicBuckets does not refuse a public policy", func(t *T) {
		setBlock(t, "RestrictPublicBuckets")
		setPolicy(t, readable(t))
	}},
	{"status-public", "GetBucketPolicyStatus reports a public policy", func(t *T) {
		openTo(t, readable(t))
		t.get("?policyStatus").ok(200).doc("PolicyStatus").eq("IsPublic", "true")
	}},
	{"status-private", "GetBucketPolicyStatus reports a policy that is not public", func(t *T) {
		setPolicy(t, stmt(t, "Deny", "s3:*", "/*", ""))
		t.get("?policyStatus").ok(200).doc("PolicyStatus").eq("IsPublic", "false")
	}},
	{"put-denied", "a Deny of s3:PutBucketPublicAccessBlock protects the public access block", func(t *T) {
		setPolicy(t, stmt(t, "Deny", "s3:PutBucketPublicAccessBlock", "", ""))
		t.del("?publicAccessBlock").fail(403, "AccessDenied")
		t.get("?publicAccessBlock").ok(200).eq("BlockPublicPolicy", "true")
	}},
}}

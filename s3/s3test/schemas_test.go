package s3test

import (
	"regexp"
	"strings"
)

// schema returns the rule that a request accepts a document with the S3 namespace and without one, and that documents
// that do not follow its schema fail with MalformedXML. once is an element inside the document that may occur only
// once. ref prepares a request, if necessary, and returns its target; it is called for each request.
func schema(named, method, root, inside, once string, ref func(t *T) string, headers ...string) rule {
	return rule{named, "a " + root + " (" + named + ") is checked against its schema", func(t *T) {
		send := func(doc string) *response {
			t.Helper()
			return t.do(method, ref(t), doc, append(headers, contentMD5(doc))...)
		}
		doc := "<" + root + ">" + inside + "</" + root + ">"
		with := func(old, with string) string {
			t.must(strings.Contains(doc, old), "no %s", old)
			return strings.Replace(doc, old, with, 1)
		}
		begin, end := "<"+root+">", "</"+root+">"
		for what, bad := range map[string]string{
			"an unknown element":     with(end, "<Surprise/>"+end),
			"an unknown namespace":   with(begin, `<`+root+` xmlns="urn:surprise">`),
			"a similar namespace":    with(begin, `<`+root+` xmlns="http://s3.amazonaws.com/doc/2006-03-01">`),
			"an unknown attribute":   with(begin, `<`+root+` surprise="1">`),
			"text between elements":  with(end, "surprise"+end),
			"a repeated element":     with(once, once+once),
			"another root":           strings.ReplaceAll(doc, root+">", "Surprise>"),
			"the root in lower case": strings.ReplaceAll(doc, root+">", strings.ToLower(root)+">"),
			"a second root":          doc + "<" + root + "/>",
			"text after the root":    doc + "surprise",
			"text before the root":   "surprise" + doc,
			"a document type":        "<!DOCTYPE " + root + ">" + doc,
			"an entity":              `<!DOCTYPE d [<!ENTITY e "">]>` + with(end, "&e;"+end),
			"no closing tag":         strings.TrimSuffix(doc, end),
			"invalid UTF-8":          with(begin, begin+"<!-- \xff -->"),
		} {
			a := send(bad)
			a.expect(a.status == 400 && a.text("Code") == "MalformedXML", "with %s", what)
		}
		switch a := send(""); root {
		case "CreateBucketConfiguration":
			a.ok(200) // the document is optional
		default:
			a.expect(a.status == 400 && (a.text("Code") == "MalformedXML" || a.text("Code") == "MissingRequestBodyError"), "with an empty body")
		}
		const s3 = "http://s3.amazonaws.com/doc/2006-03-01/"
		for _, good := range []string{
			doc, with(begin, `<`+root+` xmlns="`+s3+`">`),
			strings.Replace(regexp.MustCompile(`<(/?)([A-Z])`).ReplaceAllString(doc, "<${1}s:$2"), begin[1:], root+` xmlns:s="`+s3+`">`, 1),
			`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n<!-- -->" + with(begin, begin+"\n  <!-- -->\n") + "\n",
		} {
			a := send(good)
			a.expect(a.status >= 200 && a.status < 300, "a valid document is refused: %s", good)
		}
	}}
}

// place returns a ref function for schema that always returns the same target.
func place(ref string) func(*T) string { return func(*T) string { return ref } }

// onObject returns a ref function for schema that returns a sub-resource of an existing object.
func onObject(sub string) func(*T) string {
	return func(t *T) string {
		t.put("key", "content")
		return "key?" + sub
	}
}

// lockedKey returns a ref function for schema that returns a sub-resource of an object in a bucket with object lock.
func lockedKey(sub string) func(*T) string {
	return func(t *T) string {
		if t.own == "" {
			t.lockable()
			t.put("key", "content", contentMD5("content"))
		}
		return "key?" + sub
	}
}

var schemas = area{"schemas", []rule{
	schema("delete", "POST", "Delete", "<Quiet>true</Quiet><Object><Key>key</Key></Object>", "<Key>key</Key>", place("?delete")),
	schema("delete-quiet", "POST", "Delete", "<Object><Key>key</Key></Object><Quiet>true</Quiet>", "<Quiet>true</Quiet>", place("?delete")),
	schema("bucket-tags", "PUT", "Tagging", "<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>", "<Value>b</Value>", place("?tagging")),
	schema("object-tags", "PUT", "Tagging", "<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>", "<Key>a</Key>", onObject("tagging")),
	schema("versioning", "PUT", "VersioningConfiguration", "<Status>Enabled</Status>", "<Status>Enabled</Status>", place("?versioning")),
	schema("lifecycle", "PUT", "LifecycleConfiguration",
		"<Rule><ID>a</ID><Filter><Prefix>a</Prefix></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>", "<Status>Enabled</Status>", place("?lifecycle")),
	schema("lifecycle-filter", "PUT", "LifecycleConfiguration",
		"<Rule><ID>a</ID><Filter><And><Prefix>a</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And></Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>",
		"<Prefix>a</Prefix>", place("?lifecycle")),
	schema("encryption", "PUT", "ServerSideEncryptionConfiguration",
		"<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>", "<SSEAlgorithm>AES256</SSEAlgorithm>", place("?encryption")),
	schema("ownership", "PUT", "OwnershipControls", "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>", "<ObjectOwnership>BucketOwnerEnforced</ObjectOwnership>", place("?ownershipControls")),
	schema("public-block", "PUT", "PublicAccessBlockConfiguration", "<BlockPublicAcls>true</BlockPublicAcls>", "<BlockPublicAcls>true</BlockPublicAcls>", place("?publicAccessBlock")),
	schema("payer", "PUT", "RequestPaymentConfiguration", "<Payer>BucketOwner</Payer>", "<Payer>BucketOwner</Payer>", place("?requestPayment")),
	schema("acceleration", "PUT", "AccelerateConfiguration", "<Status>Suspended</Status>", "<Status>Suspended</Status>", place("?accelerate")),
	schema("lock", "PUT", "ObjectLockConfiguration", "<ObjectLockEnabled>Enabled</ObjectLockEnabled>", "<ObjectLockEnabled>Enabled</ObjectLockEnabled>", func(t *T) string {
		t.versioned()
		return "?object-lock"
	}),
	schema("legal-hold", "PUT", "LegalHold", "<Status>OFF</Status>", "<Status>OFF</Status>", lockedKey("legal-hold")),
	schema("retention", "PUT", "Retention", "<Mode>GOVERNANCE</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate>", "<Mode>GOVERNANCE</Mode>", lockedKey("retention")),
	schema("new-bucket", "PUT", "CreateBucketConfiguration", "<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags>", "<Key>a</Key>", func(t *T) string {
		name := t.newName()
		t.removeLater(name)
		return "/" + name
	}),
	schema("complete", "POST", "CompleteMultipartUpload", "<Part><PartNumber>1</PartNumber><ETag>9a0364b9e99bb480dd25e1f0284c8555</ETag></Part>", "<PartNumber>1</PartNumber>", func(t *T) string {
		u := t.begin("key")
		u.part(1, "content")
		return u.ref(0)
	}),
	{"acl", "an AccessControlPolicy is checked against its schema", func(t *T) {
		doc := t.get("?acl").ok(200).body
		t.put("?acl", doc)
		for _, old := range []string{"<Grant>", "<ID>", "<Permission>", "</Grantee>", "</Owner>"} {
			t.try("?acl", strings.Replace(doc, old, "<Surprise/>"+old, 1)).fail(400, "MalformedXML")
		}
	}},
	{"complete-number-missing", "a part without a number fails with MalformedXML", func(t *T) {
		u := t.begin("key")
		tag := u.part(1, "content").etag()
		t.post(u.ref(0), completeDoc("<Part><ETag>"+tag+"</ETag></Part>")).fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"complete-etag-missing", "a part without an ETag fails with MalformedXML", func(t *T) {
		u := t.begin("key")
		u.part(1, "content")
		t.post(u.ref(0), completeDoc("<Part><PartNumber>1</PartNumber></Part>")).fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"complete-part-unknown", "an unknown element of a part fails with MalformedXML", func(t *T) {
		u := t.begin("key")
		tag := u.part(1, "content").etag()
		t.post(u.ref(0), completeDoc("<Part><PartNumber>1</PartNumber><ETag>"+tag+"</ETag><Size>7</Size></Part>")).fail(400, "MalformedXML")
		u.complete().ok(200)
	}},
	{"delete-key-missing", "an object without a key fails with MalformedXML, and nothing is deleted", func(t *T) {
		t.fill("a")
		doc := "<Delete><Object><Key>a</Key></Object><Object><VersionId>null</VersionId></Object></Delete>"
		t.post("?delete", doc, contentMD5(doc)).fail(400, "MalformedXML")
		t.holds("a", "a")
	}},
}}

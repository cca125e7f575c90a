package s3test

import (
	"fmt"
	"strings"
)

// notConfigured returns the rule that GET of a sub-resource fails with a code if the bucket has no such configuration.
func notConfigured(sub, code string) rule {
	return rule{sub + "-never", "?" + sub + " of a bucket without a configuration fails with " + code, func(t *T) {
		t.get("?"+sub).fail(404, code)
	}}
}

// deletesNothing returns the rule that DELETE of a missing configuration succeeds.
func deletesNothing(sub string) rule {
	return rule{sub + "-delete-never", "DELETE ?" + strings.ToLower(sub) + " of a bucket without a configuration returns 204", func(t *T) {
		t.del("?" + sub).ok(204)
	}}
}

// missingBucket returns the rule that GET of a sub-resource fails with NoSuchBucket if the bucket does not exist.
func missingBucket(sub string) rule {
	return rule{strings.ToLower(sub) + "-missing-bucket", "?" + sub + " of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?"+sub).fail(404, "NoSuchBucket")
	}}
}

// notServed returns the rule that a configuration without effect fails with NotImplemented and is not stored.
func notServed(named, says, sub, doc string) rule {
	return rule{named, says, func(t *T) {
		before := t.get("?" + sub)
		t.try("?"+sub, doc, contentMD5(doc)).fail(501, "NotImplemented")
		after := t.get("?" + sub)
		after.expect(after.status == before.status && len(after.root().kids) == len(before.root().kids), "the configuration was stored")
	}}
}

// malformed returns the rule that an invalid document fails with MalformedXML.
func malformed(sub string) rule {
	return rule{strings.ToLower(sub) + "-malformed", "PUT ?" + sub + " with a body that is not XML fails with MalformedXML", func(t *T) {
		t.try("?"+sub, "<not", contentMD5("<not")).fail(400, "MalformedXML")
	}}
}

var subResources = area{"bucket-documents", []rule{
	notConfigured("tagging", "NoSuchTagSet"),
	notConfigured("cors", "NoSuchCORSConfiguration"),
	notConfigured("policy", "NoSuchBucketPolicy"),
	{"policy-status-never", "?policyStatus of a bucket without a configuration fails with NoSuchBucketPolicy", func(t *T) {
		t.get("?policyStatus").fail(404, "NoSuchBucketPolicy")
	}},
	notConfigured("website", "NoSuchWebsiteConfiguration"),
	notConfigured("replication", "ReplicationConfigurationNotFoundError"),
	deletesNothing("tagging"), deletesNothing("cors"), deletesNothing("policy"), deletesNothing("website"), deletesNothing("replication"),
	missingBucket("tagging"), missingBucket("cors"), missingBucket("policy"), missingBucket("acl"), missingBucket("versioning"),
	malformed("tagging"), malformed("ownershipControls"), malformed("publicAccessBlock"), malformed("requestPayment"), malformed("cors"),
	{"logging-never", "?logging of a bucket without a configuration returns an empty document", func(t *T) {
		a := t.get("?logging").ok(200).doc("BucketLoggingStatus")
		a.expect(len(a.root().kids) == 0, "not empty")
	}},
	{"notification-never", "?notification of a bucket without a configuration returns an empty document", func(t *T) {
		a := t.get("?notification").ok(200).doc("NotificationConfiguration")
		a.expect(len(a.root().kids) == 0, "not empty")
	}},
	{"accelerate-never", "?accelerate of a bucket without a configuration returns an empty document", func(t *T) {
		a := t.get("?accelerate").ok(200).doc("AccelerateConfiguration")
		a.expect(len(a.root().kids) == 0, "not empty")
	}},
	{"request-payment-never", "?requestPayment of a bucket without a configuration returns BucketOwner", func(t *T) {
		t.get("?requestPayment").ok(200).doc("RequestPaymentConfiguration").eq("Payer", "BucketOwner")
	}},
	{"ownership-of-new", "?ownershipControls of a new bucket returns BucketOwnerEnforced", func(t *T) {
		t.get("?ownershipControls").ok(200).doc("OwnershipControls").eq("Rule/ObjectOwnership", "BucketOwnerEnforced")
	}},
	{"public-access-of-new", "?publicAccessBlock of a new bucket blocks everything", func(t *T) {
		t.get("?publicAccessBlock").ok(200).doc("PublicAccessBlockConfiguration").eq("BlockPublicAcls", "true").eq("IgnorePublicAcls", "true").
			eq("BlockPublicPolicy", "true").eq("RestrictPublicBuckets", "true")
	}},
	{"tagging", "the tags of a bucket are returned and can be deleted", func(t *T) {
		doc := tagDoc("a=1", "b=two")
		a := t.try("?tagging", doc, contentMD5(doc))
		a.expect(a.status == 204 || a.status == 200, "status %d", a.status)
		t.tagged("?tagging", "a=1", "b=two")
		t.del("?tagging").ok(204)
		t.get("?tagging").fail(404, "NoSuchTagSet")
	}},
	{"tagging-fifty", "a bucket may have 50 tags but not 51", func(t *T) {
		doc := tagDoc(someTags(50)...)
		a := t.try("?tagging", doc, contentMD5(doc))
		a.expect(a.status == 204 || a.status == 200, "status %d", a.status)
		doc = tagDoc(someTags(51)...)
		a = t.try("?tagging", doc, contentMD5(doc))
		a.expect(a.status == 400, "status %d", a.status)
		t.tagged("?tagging", someTags(50)...)
	}},
	{"tagging-twice", "a duplicate tag key of a bucket fails with InvalidTag", func(t *T) {
		doc := tagDoc("a=1", "a=2")
		t.try("?tagging", doc, contentMD5(doc)).fail(400, "InvalidTag")
	}},
	{"create-with-tags", "CreateBucket accepts tags", func(t *T) {
		name := t.newName()
		t.removeLater(name)
		constraint := ""
		if t.region != "us-east-1" {
			constraint = "<LocationConstraint>" + t.region + "</LocationConstraint>"
		}
		t.put("/"+name, "<CreateBucketConfiguration>"+constraint+"<Tags><Tag><Key>a</Key><Value>1</Value></Tag></Tags></CreateBucketConfiguration>")
		t.tagged("/"+name+"?tagging", "a=1")
	}},
	{"ownership", "ownershipControls BucketOwnerEnforced is accepted and can be deleted", func(t *T) {
		doc := "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>"
		t.try("?ownershipControls", doc, contentMD5(doc)).ok(200)
		t.get("?ownershipControls").ok(200).eq("Rule/ObjectOwnership", "BucketOwnerEnforced")
		t.del("?ownershipControls").ok(204)
		t.get("?ownershipControls").fail(404, "OwnershipControlsNotFoundError")
	}},
	{"ownership-nonsense", "an unknown ownership fails with MalformedXML", func(t *T) {
		doc := "<OwnershipControls><Rule><ObjectOwnership>Nobody</ObjectOwnership></Rule></OwnershipControls>"
		t.try("?ownershipControls", doc, contentMD5(doc)).fail(400, "MalformedXML")
	}},
	{"public-access", "publicAccessBlock is returned as it was set, and can be deleted", func(t *T) {
		doc := "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>false</IgnorePublicAcls></PublicAccessBlockConfiguration>"
		t.try("?publicAccessBlock", doc, contentMD5(doc)).ok(200)
		t.get("?publicAccessBlock").ok(200).eq("BlockPublicAcls", "true").eq("IgnorePublicAcls", "false").eq("BlockPublicPolicy", "false")
		t.del("?publicAccessBlock").ok(204)
		t.get("?publicAccessBlock").fail(404, "NoSuchPublicAccessBlockConfiguration")
	}},
	{"request-payment", "requestPayment BucketOwner is accepted", func(t *T) {
		doc := "<RequestPaymentConfiguration><Payer>BucketOwner</Payer></RequestPaymentConfiguration>"
		t.try("?requestPayment", doc, contentMD5(doc)).ok(200)
	}},
	{"accelerate-suspended", "accelerate Suspended is accepted and returned", func(t *T) {
		doc := "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>"
		t.try("?accelerate", doc, contentMD5(doc)).ok(200)
		t.get("?accelerate").ok(200).eq("Status", "Suspended")
	}},
	{"accelerate-nonsense", "an unknown accelerate status fails with MalformedXML", func(t *T) {
		doc := "<AccelerateConfiguration><Status>Fast</Status></AccelerateConfiguration>"
		t.try("?accelerate", doc, contentMD5(doc)).fail(400, "MalformedXML")
	}},
	{"logging-off", "an empty logging document is accepted", func(t *T) {
		t.try("?logging", "<BucketLoggingStatus/>", contentMD5("<BucketLoggingStatus/>")).ok(200)
	}},
	{"notification-none", "an empty notification document is accepted", func(t *T) {
		t.try("?notification", "<NotificationConfiguration/>", contentMD5("<NotificationConfiguration/>")).ok(200)
	}},
	{"wrong-md5", "a document with a wrong Content-MD5 fails with BadDigest and is not stored", func(t *T) {
		t.try("?tagging", tagDoc("a=1"), contentMD5("else")).fail(400, "BadDigest")
		t.get("?tagging").fail(404, "NoSuchTagSet")
	}},
	notServed("ownership-writer", "the ownership ObjectWriter is refused, because ACLs would have no effect", "ownershipControls", "<OwnershipControls><Rule><ObjectOwnership>ObjectWriter</ObjectOwnership></Rule></OwnershipControls>"),
	notServed("request-payment-requester", "payment by the requester is refused, because it would have no effect", "requestPayment", "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>"),
	notServed("accelerate-enabled", "acceleration is refused, because it would have no effect", "accelerate", "<AccelerateConfiguration><Status>Enabled</Status></AccelerateConfiguration>"),
	notServed("logging-on", "logging to a bucket is refused, because it would have no effect", "logging", "<BucketLoggingStatus><LoggingEnabled><TargetBucket>b</TargetBucket><TargetPrefix>p</TargetPrefix></LoggingEnabled></BucketLoggingStatus>"),
	notServed("notification-on", "a notification is refused, because it would have no effect", "notification", "<NotificationConfiguration><QueueConfiguration><Queue>arn:aws:sqs:us-east-1:1:q</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration></NotificationConfiguration>"),
	notServed("website-put", "a website document is refused, because it would have no effect", "website", "<WebsiteConfiguration><IndexDocument><Suffix>index.html</Suffix></IndexDocument></WebsiteConfiguration>"),
	notServed("replication-put", "a replication document is refused, because it would have no effect", "replication", "<ReplicationConfiguration><Role>r</Role></ReplicationConfiguration>"),
	{"acl-private", "PutBucketAcl private, which changes nothing, is accepted", func(t *T) {
		t.put("?acl", nil, "x-amz-acl: private")
	}},
	{"acl-public", "PutBucketAcl public-read is refused, because it would have no effect", func(t *T) {
		t.try("?acl", nil, "x-amz-acl: public-read").fail(400, "AccessControlListNotSupported")
	}},
	{"grant-header", "a grant header is refused, not ignored", func(t *T) {
		t.try("key", "content", "x-amz-grant-read: id=somebody").fail(400, "AccessControlListNotSupported")
		t.gone("key")
	}},
	{"kept-with-bucket", "configurations are deleted with the bucket: a new one of the same name has none", func(t *T) {
		doc := tagDoc("a=1")
		t.try("?tagging", doc, contentMD5(doc))
		t.del("").ok(204)
		t.put("", t.locationBody())
		t.get("?tagging").fail(404, "NoSuchTagSet")
	}},
}}

// attributesOf sends GetObjectAttributes for these attributes.
func (t *T) attributesOf(ref, names string, headers ...string) *response {
	t.Helper()
	sep := "?"
	if strings.Contains(ref, "?") {
		sep = "&"
	}
	return t.get(ref+sep+"attributes", append(headers, "x-amz-object-attributes: "+names)...)
}

var attributes = area{"attributes", []rule{
	{"all", "GetObjectAttributes returns only the requested attributes", func(t *T) {
		t.put("key", "content", sumHeader("SHA256", "content"))
		a := t.attributesOf("key", "ETag,Checksum,ObjectSize,StorageClass").ok(200).eq("ETag", md5Hex("content")).eq("Checksum/ChecksumSHA256", sum("SHA256", "content")).
			eq("ObjectSize", "7").eq("StorageClass", "STANDARD").no("ObjectParts")
		a.set("Last-Modified")
		t.attributesOf("key", "ObjectSize").ok(200).eq("ObjectSize", "7").no("ETag", "Checksum", "StorageClass", "ObjectParts")
	}},
	{"several-headers", "the attributes may be listed in several headers", func(t *T) {
		t.put("key", "content")
		t.get("key?attributes", "x-amz-object-attributes: ETag", "x-amz-object-attributes: ObjectSize").ok(200).eq("ETag", md5Hex("content")).eq("ObjectSize", "7")
	}},
	{"header-missing", "GetObjectAttributes without x-amz-object-attributes is refused", func(t *T) {
		t.put("key", "content")
		a := t.get("key?attributes")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidRequest" || a.text("Code") == "InvalidArgument"), "status %d", a.status)
	}},
	{"unknown", "an unknown attribute fails with InvalidArgument", func(t *T) {
		t.put("key", "content")
		t.attributesOf("key", "ETag,Color").fail(400, "InvalidArgument")
	}},
	{"missing-key", "GetObjectAttributes of a key that does not exist fails with NoSuchKey", func(t *T) {
		t.attributesOf("key", "ETag").fail(404, "NoSuchKey")
	}},
	{"parts", "GetObjectAttributes returns the parts of a multipart object with checksums", func(t *T) {
		u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
		first := random(8, mebibytes5)
		for i, c := range []string{first, "end"} {
			a := u.part(i+1, c, sumHeader("SHA256", c), unsigned)
			u.done[i] = strings.Replace(u.done[i], "</Part>", "<ChecksumSHA256>"+a.header.Get("x-amz-checksum-sha256")+"</ChecksumSHA256></Part>", 1)
		}
		u.complete().ok(200)
		t.attributesOf("key", "ObjectParts,Checksum").ok(200).eq("ObjectParts/PartsCount", "2").eq("ObjectParts/Part/PartNumber", "1", "2").
			eq("ObjectParts/Part/Size", fmt.Sprint(mebibytes5), "3").eq("ObjectParts/Part/ChecksumSHA256", sum("SHA256", first), sum("SHA256", "end")).
			eq("Checksum/ChecksumType", "COMPOSITE")
	}},
	{"parts-pages", "GetObjectAttributes pages through the parts by x-amz-max-parts and x-amz-part-number-marker", func(t *T) {
		u := t.begin("key", "x-amz-checksum-algorithm: SHA256")
		first := random(8, mebibytes5)
		for i, c := range []string{first, "end"} {
			a := u.part(i+1, c, sumHeader("SHA256", c), unsigned)
			u.done[i] = strings.Replace(u.done[i], "</Part>", "<ChecksumSHA256>"+a.header.Get("x-amz-checksum-sha256")+"</ChecksumSHA256></Part>", 1)
		}
		u.complete().ok(200)
		t.attributesOf("key", "ObjectParts", "x-amz-max-parts: 1").ok(200).eq("ObjectParts/Part/PartNumber", "1").eq("ObjectParts/IsTruncated", "true").
			eq("ObjectParts/NextPartNumberMarker", "1").eq("ObjectParts/MaxParts", "1")
		t.attributesOf("key", "ObjectParts", "x-amz-max-parts: 1", "x-amz-part-number-marker: 1").ok(200).eq("ObjectParts/Part/PartNumber", "2").eq("ObjectParts/IsTruncated", "false")
	}},
	{"plain-has-no-parts", "an object that was not uploaded in parts has no ObjectParts", func(t *T) {
		t.put("key", "content")
		t.attributesOf("key", "ObjectParts,ETag").ok(200).no("ObjectParts")
	}},
	{"version", "GetObjectAttributes accepts a version and returns its ID", func(t *T) {
		t.versioned()
		id := t.version("key", "one")
		t.version("key", "the second")
		t.attributesOf("key?versionId="+id, "ObjectSize").ok(200).eq("ObjectSize", "3").has("x-amz-version-id", id)
	}},
	{"marker", "GetObjectAttributes of a deleted key fails with NoSuchKey and x-amz-delete-marker, and of a delete marker with MethodNotAllowed", func(t *T) {
		t.versioned()
		t.version("key", "one")
		marker := t.mark("key")
		t.attributesOf("key", "ETag").fail(404, "NoSuchKey").has("x-amz-delete-marker", "true")
		t.attributesOf("key?versionId="+marker, "ETag").fail(405, "MethodNotAllowed")
	}},
	{"class", "GetObjectAttributes returns the storage class", func(t *T) {
		t.put("key", "content", "x-amz-storage-class: STANDARD_IA")
		t.attributesOf("key", "StorageClass").ok(200).eq("StorageClass", "STANDARD_IA")
	}},
}}

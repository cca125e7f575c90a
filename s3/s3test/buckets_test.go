package s3test

import (
	"slices"
	"strings"
	"time"
)

// iso8601 is how times stand in documents.
const iso8601 = "2006-01-02T15:04:05.000Z"

var service = area{"service", []rule{
	{"list-buckets", "ListBuckets names a bucket, when it was made, and its region", func(t *T) {
		a := t.get("/?prefix="+t.bucket()).ok(200).doc("ListAllMyBucketsResult").eq("Buckets/Bucket/Name", t.bucket())
		made, err := time.Parse(iso8601, a.text("Buckets/Bucket/CreationDate"))
		a.expect(err == nil && time.Since(made).Abs() < 15*time.Minute, "made at %v", made)
		a.eq("Buckets/Bucket/BucketRegion", t.region)
	}},
	{"list-buckets-owner", "ListBuckets says who owns the buckets", func(t *T) {
		a := t.get("/").ok(200)
		a.expect(a.text("Owner/ID") != "", "no owner")
	}},
	{"list-buckets-order", "ListBuckets is in the order of the names", func(t *T) {
		t.newBucket()
		t.newBucket()
		a := t.get("/?prefix=s3test-" + run).ok(200)
		a.expect(len(a.all("Buckets/Bucket/Name")) >= 2 && sorted(a.all("Buckets/Bucket/Name")), "not in order")
	}},
	{"list-buckets-prefix", "ListBuckets with a prefix returns only the buckets that begin with it, and repeats it", func(t *T) {
		t.newBucket()
		a := t.get("/?prefix="+t.bucket()).ok(200).eq("Prefix", t.bucket())
		for _, name := range a.all("Buckets/Bucket/Name") {
			a.expect(strings.HasPrefix(name, t.bucket()), "%s", name)
		}
	}},
	{"list-buckets-prefix-of-none", "ListBuckets with a prefix that no bucket has is an empty list", func(t *T) {
		t.get("/?prefix="+t.newName()).ok(200).no("Buckets/Bucket", "ContinuationToken")
	}},
	{"list-buckets-pages", "ListBuckets with max-buckets goes on behind continuation-token, and every bucket comes once", func(t *T) {
		base := t.newName()
		var want []string
		for _, end := range []string{"-a", "-b", "-c", "-d", "-e"} {
			t.removeLater(base + end)
			t.put("/"+base+end, t.locationBody())
			want = append(want, base+end)
		}
		var got []string
		token := ""
		for range 4 {
			a := t.get("/?max-buckets=2&prefix=" + base + token).ok(200)
			got = append(got, a.all("Buckets/Bucket/Name")...)
			if a.text("ContinuationToken") == "" {
				break
			}
			a.expect(len(a.all("Buckets/Bucket/Name")) == 2, "a short page in the middle")
			token = "&continuation-token=" + escape(a.text("ContinuationToken"))
		}
		t.must(slices.Equal(got, want), "%q", got)
	}},
	{"list-buckets-max-zero", "max-buckets below 1 is InvalidArgument", func(t *T) {
		t.get("/?max-buckets=0").fail(400, "InvalidArgument")
	}},
	{"list-buckets-max-large", "max-buckets above 10000 is InvalidArgument", func(t *T) {
		t.get("/?max-buckets=10001").fail(400, "InvalidArgument")
	}},
	{"list-buckets-max-nonsense", "max-buckets that is no number is InvalidArgument", func(t *T) {
		t.get("/?max-buckets=many").fail(400, "InvalidArgument")
	}},
	{"list-buckets-bad-token", "a continuation-token of ListBuckets that the server never gave is InvalidArgument", func(t *T) {
		t.get("/?continuation-token=%21%21nonsense%21%21").fail(400, "InvalidArgument")
	}},
	{"list-buckets-region", "bucket-region leaves out the buckets of other regions", func(t *T) {
		t.get("/?bucket-region=mars-north-9&prefix=" + t.bucket()).ok(200).no("Buckets/Bucket")
		t.get("/?bucket-region="+t.region+"&prefix="+t.bucket()).ok(200).eq("Buckets/Bucket/Name", t.bucket())
	}},
	{"delete-root", "DELETE of the service is MethodNotAllowed", func(t *T) {
		t.del("/").fail(405, "MethodNotAllowed")
	}},
	{"post-root", "POST to the service is MethodNotAllowed", func(t *T) {
		t.post("/", nil).fail(405, "MethodNotAllowed").eq("Method", "POST").eq("ResourceType", "SERVICE")
	}},
	{"put-root", "PUT on the service is MethodNotAllowed", func(t *T) {
		t.try("/", nil).fail(405, "MethodNotAllowed")
	}},
}}

var buckets = area{"buckets", []rule{
	{"create", "CreateBucket answers 200 with the Location of the bucket", func(t *T) {
		name := t.newName()
		t.removeLater(name)
		a := t.put("/"+name, t.locationBody())
		a.expect(strings.Contains(a.set("Location"), name), "Location %q", a.header.Get("Location"))
		a.expect(a.body == "", "a body")
	}},
	{"create-is-there", "a bucket is there as soon as CreateBucket has answered", func(t *T) {
		t.head("/" + t.newBucket()).ok(200)
	}},
	{"create-again", "creating a bucket that one has already is 200 in us-east-1, else 409 BucketAlreadyOwnedByYou", func(t *T) {
		a := t.try("/"+t.bucket(), t.locationBody())
		if t.region == "us-east-1" {
			a.ok(200)
		} else {
			a.fail(409, "BucketAlreadyOwnedByYou")
		}
	}},
	{"create-again-keeps", "creating a bucket again leaves its content", func(t *T) {
		t.put("key", "content")
		t.try("/"+t.bucket(), t.locationBody())
		t.holds("key", "content")
	}},
	{"create-foreign-region", "a location constraint other than the region of the endpoint is refused", func(t *T) {
		a := t.try("/"+t.newName(), "<CreateBucketConfiguration><LocationConstraint>mars-north-9</LocationConstraint></CreateBucketConfiguration>")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidLocationConstraint" || a.text("Code") == "IllegalLocationConstraintException"), "code %s", a.text("Code"))
	}},
	{"create-bad-xml", "CreateBucket with a body that is no XML is MalformedXML", func(t *T) {
		t.try("/"+t.newName(), "<CreateBucketConfiguration><").fail(400, "MalformedXML")
	}},
	{"create-other-document", "CreateBucket with the document of something else is MalformedXML", func(t *T) {
		t.try("/"+t.newName(), "<Delete><Object><Key>a</Key></Object></Delete>").fail(400, "MalformedXML")
	}},
	{"create-acl-private", "CreateBucket accepts the canned ACL private", func(t *T) {
		t.head("/" + t.newBucket("x-amz-acl: private")).ok(200)
	}},
	{"create-acl-public", "CreateBucket with an ACL that grants something to others is InvalidBucketAclWithObjectOwnership", func(t *T) {
		name := t.newName()
		for _, acl := range []string{"x-amz-acl: public-read", "x-amz-grant-read: id=somebody"} {
			a := t.try("/"+name, t.locationBody(), acl).fail(400, "InvalidBucketAclWithObjectOwnership")
			a.eq("Message", "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
		}
		t.head("/"+name).fail(404, "")
	}},
	{"create-acl-nonsense", "CreateBucket with a canned ACL that does not exist is InvalidArgument", func(t *T) {
		name := t.newName()
		t.try("/"+name, t.locationBody(), "x-amz-acl: everybody").fail(400, "InvalidArgument")
		t.head("/"+name).fail(404, "")
	}},
	{"create-ownership", "CreateBucket accepts the ownership BucketOwnerEnforced", func(t *T) {
		t.head("/" + t.newBucket("x-amz-object-ownership: BucketOwnerEnforced")).ok(200)
	}},
	{"create-ownership-nonsense", "CreateBucket with an ownership that does not exist is InvalidArgument", func(t *T) {
		t.try("/"+t.newName(), t.locationBody(), "x-amz-object-ownership: Nobody").fail(400, "InvalidArgument")
		t.try("/"+t.newName(), t.locationBody(), "x-amz-object-ownership: ").fail(400, "InvalidArgument")
	}},
	{"head", "HeadBucket answers 200 with x-amz-bucket-region and no body", func(t *T) {
		t.head("").ok(200).has("x-amz-bucket-region", t.region)
	}},
	{"head-missing", "HeadBucket of a bucket that is not there is 404 without a body", func(t *T) {
		t.head("/"+t.newName()).fail(404, "")
	}},
	{"delete", "DeleteBucket answers 204, and the bucket is gone", func(t *T) {
		t.del("").ok(204)
		t.head("").fail(404, "")
		t.get("/?prefix=" + t.bucket()).ok(200).no("Buckets/Bucket")
	}},
	{"delete-missing", "DeleteBucket of a bucket that is not there is NoSuchBucket", func(t *T) {
		t.del("/"+t.newName()).fail(404, "NoSuchBucket")
	}},
	{"delete-not-empty", "DeleteBucket of a bucket with an object is BucketNotEmpty", func(t *T) {
		t.put("key", "content")
		t.del("").fail(409, "BucketNotEmpty")
		t.holds("key", "content")
	}},
	{"delete-then-create", "the name of a bucket that was deleted is free again, and the new bucket is empty", func(t *T) {
		t.put("key", "content")
		t.del("key").ok(204)
		t.del("").ok(204)
		t.put("", t.locationBody())
		t.get("").ok(200).no("Contents")
		t.gone("key")
	}},
	{"delete-with-upload", "DeleteBucket does not stumble over an upload in progress", func(t *T) {
		t.begin("key")
		t.del("").ok(204)
	}},
	{"location", "GetBucketLocation answers the region, which is empty for us-east-1", func(t *T) {
		a := t.get("?location").ok(200).doc("LocationConstraint")
		want := t.region
		if want == "us-east-1" {
			want = ""
		}
		a.expect(a.root().text == want, "%q", a.root().text)
	}},
	{"location-missing", "GetBucketLocation of a bucket that is not there is NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?location").fail(404, "NoSuchBucket")
	}},
	{"versioning-never", "GetBucketVersioning of a bucket never configured is an empty document", func(t *T) {
		a := t.get("?versioning").ok(200).doc("VersioningConfiguration")
		a.expect(len(a.root().kids) == 0, "not empty")
	}},
	{"acl", "GetBucketAcl says that the owner has FULL_CONTROL, and nobody else anything", func(t *T) {
		a := t.get("?acl").ok(200).doc("AccessControlPolicy").eq("AccessControlList/Grant/Permission", "FULL_CONTROL")
		a.eq("AccessControlList/Grant/Grantee/ID", a.text("Owner/ID"))
	}},
	{"acl-grantee-type", "a grantee of an ACL has the xsi:type CanonicalUser", func(t *T) {
		a := t.get("?acl").ok(200)
		found := false
		for _, at := range a.root().find("AccessControlList/Grant/Grantee")[0].attrs {
			found = found || at.Name.Local == "type" && at.Value == "CanonicalUser"
		}
		a.expect(found, "no xsi:type")
	}},
	{"post-without-form", "POST on a bucket that is no form is no success", func(t *T) {
		a := t.post("", nil)
		a.expect(a.status >= 400 && a.status < 500 || a.status == 501, "status %d", a.status)
	}},
	{"get-of-missing", "listing a bucket that is not there is NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()).fail(404, "NoSuchBucket")
	}},
	{"put-into-missing", "PUT into a bucket that is not there is NoSuchBucket", func(t *T) {
		t.try("/"+t.newName()+"/key", "content").fail(404, "NoSuchBucket")
	}},
	{"get-from-missing", "GET from a bucket that is not there is NoSuchBucket, not NoSuchKey", func(t *T) {
		t.get("/"+t.newName()+"/key").fail(404, "NoSuchBucket")
	}},
	{"delete-from-missing", "DELETE from a bucket that is not there is NoSuchBucket", func(t *T) {
		t.del("/"+t.newName()+"/key").fail(404, "NoSuchBucket")
	}},
	{"trailing-slash", "a slash behind the name of a bucket changes nothing", func(t *T) {
		t.put("key", "content")
		t.get("/"+t.bucket()+"/").ok(200).doc("ListBucketResult").eq("Contents/Key", "key")
	}},
	{"other-owner", "x-amz-expected-bucket-owner that is not the owner is AccessDenied", func(t *T) {
		t.get("", "x-amz-expected-bucket-owner: 000000000000").fail(403, "AccessDenied")
	}},
	{"other-owner-writes", "x-amz-expected-bucket-owner that is not the owner stops a PUT", func(t *T) {
		t.try("key", "content", "x-amz-expected-bucket-owner: 000000000000").fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"other-owner-deletes", "x-amz-expected-bucket-owner that is not the owner stops a DELETE", func(t *T) {
		t.put("key", "content")
		t.del("key", "x-amz-expected-bucket-owner: 000000000000").fail(403, "AccessDenied")
		t.holds("key", "content")
	}},
	{"virtual-host", "a bucket can be named in the Host header", func(t *T) {
		if t.domain == "" {
			t.Skip("no base domain")
		}
		host := "Host: " + t.bucket() + "." + t.domain
		t.put("/a/b", "content", host)
		t.holds("a/b", "content")
		t.get("/", host).ok(200).doc("ListBucketResult").eq("Contents/Key", "a/b")
	}},
	{"virtual-host-missing", "a bucket in the Host header that is not there is NoSuchBucket", func(t *T) {
		if t.domain == "" {
			t.Skip("no base domain")
		}
		t.get("/key", "Host: "+t.newName()+"."+t.domain).fail(404, "NoSuchBucket")
	}},
}}

// badName is the rule that no bucket may have a name.
func badName(named, says, name string) rule {
	return rule{named, says, func(t *T) { t.try("/"+name, t.locationBody()).fail(400, "InvalidBucketName") }}
}

// goodName is the rule that a bucket may have a name that ends like this.
func goodName(named, says, end string) rule {
	return rule{named, says, func(t *T) {
		name := t.newName() + end
		t.removeLater(name)
		t.put("/"+name, t.locationBody())
		t.put("/"+name+"/key", "content")
		t.get("/"+name).ok(200).eq("Name", name).eq("Contents/Key", "key")
	}}
}

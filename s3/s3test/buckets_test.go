package s3test

import (
	"slices"
	"strings"
	"time"
)

// iso8601 is the format of times in documents.
const iso8601 = "2006-01-02T15:04:05.000Z"

var service = area{"service", []rule{
	{"list-buckets", "ListBuckets returns the name, creation time and region of a bucket", func(t *T) {
		a := t.get("/?prefix="+t.bucket()).ok(200).doc("ListAllMyBucketsResult").eq("Buckets/Bucket/Name", t.bucket())
		created, err := time.Parse(iso8601, a.text("Buckets/Bucket/CreationDate"))
		a.expect(err == nil && time.Since(created).Abs() < 15*time.Minute, "CreationDate %v", created)
		a.eq("Buckets/Bucket/BucketRegion", t.region)
	}},
	{"list-buckets-owner", "ListBuckets returns the owner of the buckets", func(t *T) {
		a := t.get("/").ok(200)
		a.expect(a.text("Owner/ID") != "", "no owner")
	}},
	{"list-buckets-order", "ListBuckets is sorted by name", func(t *T) {
		t.newBucket()
		t.newBucket()
		a := t.get("/?prefix=s3test-" + run).ok(200)
		a.expect(len(a.all("Buckets/Bucket/Name")) >= 2 && sorted(a.all("Buckets/Bucket/Name")), "not in order")
	}},
	{"list-buckets-prefix", "ListBuckets with a prefix returns only the buckets whose names begin with it, and repeats it", func(t *T) {
		t.newBucket()
		a := t.get("/?prefix="+t.bucket()).ok(200).eq("Prefix", t.bucket())
		for _, name := range a.all("Buckets/Bucket/Name") {
			a.expect(strings.HasPrefix(name, t.bucket()), "%s", name)
		}
	}},
	{"list-buckets-prefix-of-none", "ListBuckets with a prefix that matches no bucket returns an empty list", func(t *T) {
		t.get("/?prefix="+t.newName()).ok(200).no("Buckets/Bucket", "ContinuationToken")
	}},
	{"list-buckets-pages", "ListBuckets with max-buckets continues after continuation-token, and lists every bucket once", func(t *T) {
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
	{"list-buckets-max-zero", "max-buckets below 1 fails with InvalidArgument", func(t *T) {
		t.get("/?max-buckets=0").fail(400, "InvalidArgument")
	}},
	{"list-buckets-max-large", "max-buckets above 10000 fails with InvalidArgument", func(t *T) {
		t.get("/?max-buckets=10001").fail(400, "InvalidArgument")
	}},
	{"list-buckets-max-nonsense", "a max-buckets that is not a number fails with InvalidArgument", func(t *T) {
		t.get("/?max-buckets=many").fail(400, "InvalidArgument")
	}},
	{"list-buckets-bad-token", "ListBuckets with an invalid continuation-token fails with InvalidArgument", func(t *T) {
		t.get("/?continuation-token=%21%21nonsense%21%21").fail(400, "InvalidArgument")
	}},
	{"list-buckets-region", "ListBuckets with bucket-region omits the buckets of other regions", func(t *T) {
		t.get("/?bucket-region=mars-north-9&prefix=" + t.bucket()).ok(200).no("Buckets/Bucket")
		t.get("/?bucket-region="+t.region+"&prefix="+t.bucket()).ok(200).eq("Buckets/Bucket/Name", t.bucket())
	}},
	{"delete-root", "DELETE on the service fails with MethodNotAllowed", func(t *T) {
		t.del("/").fail(405, "MethodNotAllowed")
	}},
	{"post-root", "POST on the service fails with MethodNotAllowed", func(t *T) {
		t.post("/", nil).fail(405, "MethodNotAllowed").eq("Method", "POST").eq("ResourceType", "SERVICE")
	}},
	{"put-root", "PUT on the service fails with MethodNotAllowed", func(t *T) {
		t.try("/", nil).fail(405, "MethodNotAllowed")
	}},
}}

var buckets = area{"buckets", []rule{
	{"create", "CreateBucket returns 200 with the Location of the bucket", func(t *T) {
		name := t.newName()
		t.removeLater(name)
		a := t.put("/"+name, t.locationBody())
		a.expect(strings.Contains(a.set("Location"), name), "Location %q", a.header.Get("Location"))
		a.expect(a.body == "", "unexpected body")
	}},
	{"create-is-there", "a bucket exists as soon as CreateBucket has returned", func(t *T) {
		t.head("/" + t.newBucket()).ok(200)
	}},
	{"create-again", "creating a bucket that the caller already owns returns 200 in us-east-1, otherwise 409 BucketAlreadyOwnedByYou", func(t *T) {
		a := t.try("/"+t.bucket(), t.locationBody())
		if t.region == "us-east-1" {
			a.ok(200)
		} else {
			a.fail(409, "BucketAlreadyOwnedByYou")
		}
	}},
	{"create-again-keeps", "creating a bucket again keeps its objects", func(t *T) {
		t.put("key", "content")
		t.try("/"+t.bucket(), t.locationBody())
		t.holds("key", "content")
	}},
	{"create-foreign-region", "a location constraint other than the region of the endpoint is refused", func(t *T) {
		a := t.try("/"+t.newName(), "<CreateBucketConfiguration><LocationConstraint>mars-north-9</LocationConstraint></CreateBucketConfiguration>")
		a.expect(a.status == 400 && (a.text("Code") == "InvalidLocationConstraint" || a.text("Code") == "IllegalLocationConstraintException"), "code %s", a.text("Code"))
	}},
	{"create-bad-xml", "CreateBucket with a body that is not XML fails with MalformedXML", func(t *T) {
		t.try("/"+t.newName(), "<CreateBucketConfiguration><").fail(400, "MalformedXML")
	}},
	{"create-other-document", "CreateBucket with another kind of document fails with MalformedXML", func(t *T) {
		t.try("/"+t.newName(), "<Delete><Object><Key>a</Key></Object></Delete>").fail(400, "MalformedXML")
	}},
	{"create-acl-private", "CreateBucket accepts the canned ACL private", func(t *T) {
		t.head("/" + t.newBucket("x-amz-acl: private")).ok(200)
	}},
	{"create-acl-public", "CreateBucket with an ACL that grants access to others fails with InvalidBucketAclWithObjectOwnership", func(t *T) {
		name := t.newName()
		for _, acl := range []string{"x-amz-acl: public-read", "x-amz-grant-read: id=somebody"} {
			a := t.try("/"+name, t.locationBody(), acl).fail(400, "InvalidBucketAclWithObjectOwnership")
			a.eq("Message", "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
		}
		t.head("/"+name).fail(404, "")
	}},
	{"create-acl-nonsense", "CreateBucket with a canned ACL that does not exist fails with InvalidArgument", func(t *T) {
		name := t.newName()
		t.try("/"+name, t.locationBody(), "x-amz-acl: everybody").fail(400, "InvalidArgument")
		t.head("/"+name).fail(404, "")
	}},
	{"create-ownership", "CreateBucket accepts the ownership BucketOwnerEnforced", func(t *T) {
		t.head("/" + t.newBucket("x-amz-object-ownership: BucketOwnerEnforced")).ok(200)
	}},
	{"create-ownership-nonsense", "CreateBucket with an ownership that does not exist fails with InvalidArgument", func(t *T) {
		t.try("/"+t.newName(), t.locationBody(), "x-amz-object-ownership: Nobody").fail(400, "InvalidArgument")
		t.try("/"+t.newName(), t.locationBody(), "x-amz-object-ownership: ").fail(400, "InvalidArgument")
	}},
	{"head", "HeadBucket returns 200 with x-amz-bucket-region and no body", func(t *T) {
		t.head("").ok(200).has("x-amz-bucket-region", t.region)
	}},
	{"head-missing", "HeadBucket of a bucket that does not exist fails with 404 without a body", func(t *T) {
		t.head("/"+t.newName()).fail(404, "")
	}},
	{"delete", "DeleteBucket returns 204, and the bucket no longer exists", func(t *T) {
		t.del("").ok(204)
		t.head("").fail(404, "")
		t.get("/?prefix=" + t.bucket()).ok(200).no("Buckets/Bucket")
	}},
	{"delete-missing", "DeleteBucket of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.del("/"+t.newName()).fail(404, "NoSuchBucket")
	}},
	{"delete-not-empty", "DeleteBucket of a bucket with an object fails with BucketNotEmpty", func(t *T) {
		t.put("key", "content")
		t.del("").fail(409, "BucketNotEmpty")
		t.holds("key", "content")
	}},
	{"delete-then-create", "the name of a deleted bucket can be used again, and the new bucket is empty", func(t *T) {
		t.put("key", "content")
		t.del("key").ok(204)
		t.del("").ok(204)
		t.put("", t.locationBody())
		t.get("").ok(200).no("Contents")
		t.gone("key")
	}},
	{"delete-with-upload", "DeleteBucket succeeds despite an upload in progress", func(t *T) {
		t.begin("key")
		t.del("").ok(204)
	}},
	{"location", "GetBucketLocation returns the region, which is empty for us-east-1", func(t *T) {
		a := t.get("?location").ok(200).doc("LocationConstraint")
		want := t.region
		if want == "us-east-1" {
			want = ""
		}
		a.expect(a.root().text == want, "%q", a.root().text)
	}},
	{"location-missing", "GetBucketLocation of a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()+"?location").fail(404, "NoSuchBucket")
	}},
	{"versioning-never", "GetBucketVersioning of a bucket without a configuration returns an empty document", func(t *T) {
		a := t.get("?versioning").ok(200).doc("VersioningConfiguration")
		a.expect(len(a.root().kids) == 0, "not empty")
	}},
	{"acl", "GetBucketAcl returns FULL_CONTROL for the owner, and no other grant", func(t *T) {
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
	{"post-without-form", "POST on a bucket without a form fails", func(t *T) {
		a := t.post("", nil)
		a.expect(a.status >= 400 && a.status < 500 || a.status == 501, "status %d", a.status)
	}},
	{"get-of-missing", "listing a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.get("/"+t.newName()).fail(404, "NoSuchBucket")
	}},
	{"put-into-missing", "PUT into a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.try("/"+t.newName()+"/key", "content").fail(404, "NoSuchBucket")
	}},
	{"get-from-missing", "GET from a bucket that does not exist fails with NoSuchBucket, not NoSuchKey", func(t *T) {
		t.get("/"+t.newName()+"/key").fail(404, "NoSuchBucket")
	}},
	{"delete-from-missing", "DELETE from a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		t.del("/"+t.newName()+"/key").fail(404, "NoSuchBucket")
	}},
	{"trailing-slash", "a slash after the name of a bucket has no effect", func(t *T) {
		t.put("key", "content")
		t.get("/"+t.bucket()+"/").ok(200).doc("ListBucketResult").eq("Contents/Key", "key")
	}},
	{"other-owner", "a wrong x-amz-expected-bucket-owner fails with AccessDenied", func(t *T) {
		t.get("", "x-amz-expected-bucket-owner: 000000000000").fail(403, "AccessDenied")
	}},
	{"other-owner-writes", "a wrong x-amz-expected-bucket-owner prevents a PUT", func(t *T) {
		t.try("key", "content", "x-amz-expected-bucket-owner: 000000000000").fail(403, "AccessDenied")
		t.gone("key")
	}},
	{"other-owner-deletes", "a wrong x-amz-expected-bucket-owner prevents a DELETE", func(t *T) {
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
	{"virtual-host-missing", "a Host header with a bucket that does not exist fails with NoSuchBucket", func(t *T) {
		if t.domain == "" {
			t.Skip("no base domain")
		}
		t.get("/key", "Host: "+t.newName()+"."+t.domain).fail(404, "NoSuchBucket")
	}},
}}

// badName returns the rule that a bucket name is invalid.
func badName(named, says, name string) rule {
	return rule{named, says, func(t *T) { t.try("/"+name, t.locationBody()).fail(400, "InvalidBucketName") }}
}

// goodName returns the rule that a bucket name may end with end.
func goodName(named, says, end string) rule {
	return rule{named, says, func(t *T) {
		name := t.newName() + end
		t.removeLater(name)
		t.put("/"+name, t.locationBody())
		t.put("/"+name+"/key", "content")
		t.get("/"+name).ok(200).eq("Name", name).eq("Contents/Key", "key")
	}}
}
